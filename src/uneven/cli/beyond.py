"""``uneven beyond``: the paper's strategies against ours, same rows, same ε."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uneven.cli import experiments, terminal


def command(
    panels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PANEL]...",
            help="beyond-mnist, ablation-mnist, sources-mnist, harder-mnist, wide-mnist, and the first four "
            "-covertype; all if none is named.",
        ),
    ] = None,
    runs: experiments.Runs = None,
    data: terminal.Data = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results.")] = Path("beyond"),
    seed: experiments.Seed = 0,
    quick: experiments.Quick = False,
    json: terminal.Json = False,
) -> None:
    """Run the paper's strategies and ours on the same rows, in the same order, at the same ε.

    Excess objective and test accuracy of both, rules of thumb, what each idea does alone, more sources, harder
    noise, and MNIST in all its 784 dimensions. Results go to Parquet as they come, and a second run goes on.

    [bold]Example:[/] uneven beyond beyond-mnist --runs 20 -o results
    """
    from uneven.experiments import beyond
    from uneven.experiments.targets import table

    made = beyond(panels or None, runs=runs, data=data, output=output, seed=seed, quick=quick, progress=not json)
    if json:
        tables = {name: table(one) for name, one in made.results.items()}
        terminal.print_json({"targets": [t.to_dict() for t in made.targets], "tables": tables, "seconds": made.seconds})
        return
    for name, one in made.results.items():
        head, rows = table(one)
        terminal.console().print(terminal.table(f"{name}: excess objective", head, rows))
    experiments.print_claims(made.results, made.targets)
    experiments.print_end(f"{len(made.targets)} targets", made.targets, made.seconds, made.folder)
