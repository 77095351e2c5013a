"""``uneven plan``: in what order, how far, and what that promises."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uneven.cli import terminal


def command(
    sources: terminal.SourcesPath,
    strategy: Annotated[str | None, typer.Option(help="Plan by this strategy instead of the file's.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the step sizes and the bounds into this PNG, PDF or SVG.")
    ] = None,
    json: terminal.Json = False,
) -> None:
    """Plan a run: order, step sizes, bound and exchange rates, and every other strategy beside it.

    Reads no rows beyond what it takes to count them.

    [bold]Example:[/] uneven plan sources.toml --plot plan.png
    """
    from dataclasses import replace

    from uneven.io import read_sources

    described = read_sources(sources)
    plan = (described if strategy is None else replace(described, strategy=strategy)).plan()
    if plot is not None:
        plan.plot().savefig(plot, dpi=150)
    if json:
        others = {name: other.bound for name, other in plan.alternatives().items()}
        terminal.print_json({**plan.to_dict(), "bounds": others})
    else:
        typer.echo(plan.summary())
