"""``uneven init``: a first sources.toml."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from uneven.cli import terminal


def command(
    files: Annotated[list[Path], typer.Argument(help="Files of rows, one a source: CSV, TSV, Parquet, Arrow, ...")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("sources.toml"),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    json: terminal.Json = False,
) -> None:
    """Write a commented sources.toml for some files: label and format guessed, rows taken to be exact.

    Asks nothing. Open the file afterwards and say how good each source is.

    [bold]Example:[/] uneven init clinic.parquet crowd.csv -o sources.toml
    """
    from uneven.io.proposal import start

    terminal.refuse_output(output)
    guessed = start(files, output, force)
    for file in guessed.headless:
        terminal.note(
            f"{file} has numbers for names of columns: its first line was taken for the names, so if that is a row, "
            "write names above it and run this again with --force"
        )
    if json:
        terminal.print_json({"output": output, **vars(guessed)})
        return
    typer.echo(f"Wrote {output} with {terminal.listed(guessed.names)}.")
    typer.echo(f"Labels: column {guessed.label!r} ({guessed.reason}).")
    if guessed.left_out:
        typer.echo(
            f"Not learned from: {terminal.listed(guessed.left_out)} (no numbers, a row's id, or not in all files)."
        )
    typer.echo(f"Next: say in {output} how good each source is, then run: uneven plan {shlex.quote(str(output))}")
