"""``uneven value``: what data is worth, and what to buy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uneven.cli import terminal


def command(
    sources: terminal.SourcesPath,
    budget: Annotated[float | None, typer.Option(help="Money to spend; without it, nothing is bought.")] = None,
    more: Annotated[int, typer.Option(help="How many more rows of each source to value.")] = 1_000,
    plot: Annotated[Path | None, typer.Option(help="Draw the bound against spend into this PNG, PDF or SVG.")] = None,
    json: terminal.Json = False,
) -> None:
    """Say what data is worth: exchange rates, the next thousand rows of each source, and what to buy.

    The problem is that of 'uneven fit': where rows without privacy are owned and their file is given, they are read
    for it. Worth is then measured by the excess objective that a fit is expected to have; otherwise by the bound of the
    strategy, which undervalues exact rows.

    A source without a price is owned. A source with a price is on offer: 'rows' is how many can be bought. Instead of
    one price, 'prices = [{ epsilon = 1, price = 0.02 }, { epsilon = 3, price = 0.1 }]' has one for each epsilon.

    [bold]Example:[/] uneven value sources.toml --budget 1000 --plot value.png
    """
    from uneven import checks
    from uneven.io import read_sources
    from uneven.valuation import value_file

    if budget is not None:
        checks.not_negative("--budget", budget)
    checks.whole("--more", more)
    terminal.refuse_output("--plot", plot, terminal.PICTURE)
    described = read_sources(sources)
    terminal.refuse_overwriting({"--plot": plot}, terminal.list_files(described))
    found = value_file(described, budget, more)
    if plot is not None:
        terminal.write_figure(found.plot(), plot)
    if json:
        terminal.print_json(found.to_dict())
    else:
        terminal.show(found.summary())
