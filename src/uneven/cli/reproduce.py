"""``uneven reproduce``: the paper's figure, panel by panel, and whether what it says holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uneven.cli import terminal

COLOURS = {"holds": "green", "in part": "yellow", "undecided": "cyan", "fails": "red"}


def command(
    panels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PANEL]...",
            help="order-mnist, two-rates-mnist, vary-c2-mnist, and the same -covertype; all six if none is named.",
        ),
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs a point (default: 100, or 16 with --quick).")] = None,
    data: terminal.Data = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results.")] = Path("reproduction"),
    seed: Annotated[int, typer.Option(help="Seed of permutations and noise.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs and rows: under a minute.")] = False,
    json: terminal.Json = False,
) -> None:
    """Re-run the paper's experiments on the real data, and say claim by claim whether they hold.

    Results go to Parquet as they come: run it again after an interruption and it goes on; run it again when it is
    done and only the figure and the claims are made anew.

    [bold]Example:[/] uneven reproduce two-rates-mnist --runs 20 -o results
    """
    from rich.padding import Padding

    from uneven.experiments import PANELS, reproduce
    from uneven.experiments.reproduce import QUICK_RUNS

    made = reproduce(
        panels or PANELS,
        runs=runs if runs is not None else (QUICK_RUNS if quick else 100),
        data=data,
        output=output,
        seed=seed,
        quick=quick,
        progress=not json,
    )
    if json:
        terminal.print_json({"claims": [claim.to_dict() for claim in made.claims], "seconds": made.seconds})
        return
    console = terminal.console()
    for panel in made.results:
        console.print(f"\n[bold]{panel}[/] ({made.results[panel].runs} runs a point)")
        for claim in made.claims:
            if claim.panel == panel:
                console.print(f"  [{COLOURS[claim.verdict]}]{claim.verdict:9}[/] {claim.statement}")
                console.print(Padding(f"[dim]{claim.measured}[/]", (0, 0, 0, 12)), soft_wrap=False)
    counts = (f"{kind}: {sum(c.verdict == kind for c in made.claims)}" for kind in COLOURS)
    console.print(f"\n{len(made.claims)} claims of the paper. {', '.join(counts)}. Took {_said(made.seconds)}.")
    console.print(f"Figure, claims and runs are in {made.folder}.")


def _said(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 100 else f"{seconds / 60:.1f} minutes"
