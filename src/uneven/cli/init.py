"""``uneven init``: a first sources.toml."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uneven.cli import terminal

if TYPE_CHECKING:
    from uneven.io import Start


def command(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES", help="Files of rows, one per source: CSV, Parquet and others."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("sources.toml"),
    label: Annotated[str | None, typer.Option(help="Column of the labels; guessed if not given.")] = None,
    epsilon: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A private source and its epsilon, such as clinic=2; may be given more than once.",
        ),
    ] = None,
    row_id: Annotated[str | None, typer.Option("--id", help="Column by which a ledger knows the rows.")] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="What separates the columns of files of text; detected if not given.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing sources.toml.")] = False,
    json: terminal.Json = False,
) -> None:
    """Write a commented sources.toml for some files: label, format and columns guessed.

    It asks no questions. Ranges of numbers and values of categories come from sources that are not private; where all
    sources are private, they are proposals for you to replace. Open the file afterwards and state the noise of each
    source.

    [bold]Example:[/] uneven init clinic.parquet survey.csv --epsilon survey=1 --label outcome
    """
    from uneven.io import propose_sources

    terminal.refuse_output("--output", output, terminal.SETTINGS)
    levels = dict(_level(text) for text in epsilon or ())
    guessed = propose_sources(files, output, force, label=label, delimiter=delimiter, epsilon=levels, id_column=row_id)
    for file in guessed.headless:
        terminal.note(f"{file} has no line of column names: its columns are called x0, x1 and so on")
    if json:
        terminal.print_json({"output": output, **vars(guessed)})
        return
    terminal.say(f"Wrote {output} with {terminal.join_quoted(guessed.names)}.")
    terminal.say(f"Labels: column {guessed.label!r} ({guessed.reason}).")
    if guessed.left_out:
        terminal.say(
            f"Not learned from: {terminal.join_quoted(guessed.left_out)} (ids, free text, or columns that are not in "
            "every file)."
        )
    if guessed.proposed:
        terminal.say(
            f"All sources are private: state in {output} what is publicly known of "
            f"{'the labels (classes) and of ' if guessed.classes else ''}each column. The proposals there "
            "come from the private rows, and do nothing until you confirm them."
        )
    _tell_next(guessed, output, levels)


def _tell_next(guessed: Start, output: Path, levels: Collection[str]) -> None:
    """What to check in the file, and the next command."""
    plan = f"uneven plan {shlex.quote(str(output))}"
    what = "classes and columns" if guessed.classes else "columns"
    todo = [f"confirm {what} in {output}"] if guessed.proposed else []
    if unstated := [name for name in guessed.names if name not in levels]:
        todo.append(
            f"check that {terminal.join_quoted(unstated)} is exact, or state its noise, in {output}"
            if len(unstated) == 1
            else f"check that {terminal.join_quoted(unstated)} are exact, or state their noise, in {output}"
        )
    terminal.say(f"Next: {', '.join(todo)}, then run: {plan}" if todo else f"Next: {plan}")


def _level(text: str) -> tuple[str, float]:
    """Name and ε of ``name=value``."""
    name, _, value = text.rpartition("=")
    try:
        level = float(value)
    except ValueError:
        name, level = "", 0.0
    if not name or not 0 < level < float("inf"):
        raise ValueError(f"--epsilon must be NAME=VALUE with a positive value, such as clinic=2, got {text!r}")
    return name, level
