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
            metavar="PANEL",
            help="beyond-mnist, ablation-mnist, sources-mnist, harder-mnist, site-mnist, classes-mnist, wide-mnist, "
            "and the first six -covertype; all if none is named.",
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
    noise, more than two classes, and MNIST in all its 784 dimensions. Results are written to Parquet as they come, and
    a second run continues.

    [bold]Example:[/] uneven beyond beyond-mnist --runs 20 -o results
    """
    terminal.announce("Loading the data sets")
    from uneven.experiments import ACCURACY, describe_baselines, run_beyond, tabulate

    bar = None if json else terminal.show_bar
    made = run_beyond(panels or None, runs=runs, data=data, output=output, seed=seed, quick=quick, progress=bar)
    if json:
        tables = {name: tabulate(one) for name, one in made.results.items()}
        terminal.print_json({"targets": [t.to_dict() for t in made.claims], "tables": tables, "seconds": made.seconds})
        return
    console = terminal.make_console()
    for name, one in made.results.items():
        accuracy = one.kind in ACCURACY
        shown = tabulate(one) if accuracy else _select_columns(*tabulate(one))
        measured = "test accuracy" if accuracy else "excess objective and test accuracy"
        for table in terminal.make_tables(f"{name}: {measured}", *shown):
            console.print(table)
        console.print(describe_baselines(one), soft_wrap=False)
    experiments.print_claims(made.results, made.claims)
    experiments.print_end(f"{len(made.claims)} targets", made.claims, made.seconds, made.folder, quick)


def _select_columns(head: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Columns that fit a terminal: tables.md has all of them."""
    shown = {"Algorithm2 / uneven": "ratio", "accuracy of uneven": "accuracy"}
    shown |= {name: name for name in (head[0], "Algorithm2", "CleanOnly", "uneven", "uneven, clean only")}
    kept = [
        i for i, name in enumerate(head) if name in shown or name.startswith(("ε_N =", "site privacy", "accuracy of"))
    ]
    return [shown.get(head[i], head[i]) for i in kept], [[row[i] for i in kept] for row in rows]
