"""``uneven reproduce``: the paper's figure, panel by panel, and whether its claims hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uneven.cli import experiments, terminal


def command(
    panels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PANEL",
            help="order-mnist, two-rates-mnist, vary-c2-mnist, and the same -covertype; all six if none is named.",
        ),
    ] = None,
    runs: experiments.Runs = None,
    data: terminal.Data = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results.")] = Path("reproduction"),
    seed: experiments.Seed = 0,
    quick: experiments.Quick = False,
    json: terminal.Json = False,
) -> None:
    """Re-run the paper's experiments on the real data, and judge its claims one by one.

    Results are written to Parquet as they come: after an interruption the same command continues, and once all runs
    are done it only makes the figure and the claims again.

    [bold]Example:[/] uneven reproduce two-rates-mnist --runs 20 -o results
    """
    from uneven.experiments import reproduce

    bar = None if json else terminal.show_bar
    made = reproduce(panels or None, runs=runs, data=data, output=output, seed=seed, quick=quick, progress=bar)
    if json:
        terminal.print_json({"claims": [claim.to_dict() for claim in made.claims], "seconds": made.seconds})
        return
    experiments.print_claims(made.results, made.claims)
    experiments.print_end(f"{len(made.claims)} claims of the paper", made.claims, made.seconds, made.folder, quick)
