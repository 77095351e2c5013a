"""What ``uneven reproduce`` and ``uneven beyond`` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uneven.cli import terminal

if TYPE_CHECKING:
    from uneven.experiments import Claim, Results

COLOURS = {"holds": "green", "in part": "yellow", "undecided": "cyan", "fails": "red"}

INDENT = 12
"""Columns before a claim's words, beside its verdict."""

Runs = Annotated[int | None, typer.Option(help="Runs per point.", show_default="100, or 16 with --quick")]
Seed = Annotated[int, typer.Option(help="Seed of permutations and noise.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer runs and rows: under a minute.")]


def print_claims(results: Mapping[str, Results], claims: Sequence[Claim]) -> None:
    """Print each panel's claims with their verdicts, and the numbers behind them."""
    import textwrap

    from rich.padding import Padding

    console = terminal.make_console()
    room = 10**6 if console.soft_wrap else max(console.width - INDENT, 1)
    for panel in results:
        mine = [claim for claim in claims if claim.panel == panel]
        if mine:
            console.print(f"\n[bold]{panel}[/] ({results[panel].runs} runs per point)")
        for claim in mine:
            statement = ("\n" + " " * INDENT).join(textwrap.wrap(claim.statement, room))
            console.print(f"  [{COLOURS[claim.verdict]}]{claim.verdict:9}[/] {statement}")
            console.print(Padding(f"[dim]{claim.measured}[/]", (0, 0, 0, INDENT)), soft_wrap=False)


def print_end(what: str, claims: Sequence[Claim], seconds: float, folder: Path, quick: bool) -> None:
    """Print how many claims hold, how long it took, and where the files are."""
    counts = ", ".join(f"{kind}: {sum(claim.verdict == kind for claim in claims)}" for kind in COLOURS)
    took = f"{seconds:.0f} seconds" if seconds < 100 else f"{seconds / 60:.1f} minutes"
    console = terminal.make_console()
    console.print(f"\n{what}. {counts}. Took {took}.")
    if quick:
        console.print("With --quick there are fewer rows and runs: claims about the full data may fail here.")
    console.print(f"Figure, tables and runs are in {folder}.")
