"""The door for files: what the sources of a ``sources.toml`` are worth, for the problem that a fit of them solves."""

from __future__ import annotations

from uneven.io import SourcesFile, located
from uneven.redaction import redacted
from uneven.training import value_ahead
from uneven.valuation.valuing import Valuation, value_sources


def value_file(file: SourcesFile, budget: float | None = None, more: int = 1_000) -> Valuation:
    """What data is worth for the fit that a ``sources.toml`` describes, and what to buy.

    Parameters
    ----------
    file : SourcesFile
        Its sources without a price are owned. Their rows are read where they have no privacy.
    budget, more
        As in `uneven.value`.

    Returns
    -------
    Valuation
    """
    with located(str(file.path)), redacted(file.settings.redact):
        ahead = value_ahead(file)
        return value_sources(
            ahead.sources,
            ahead.problem,
            file.settings.planned_moments,
            file.settings.stepping,
            budget=budget,
            prices={entry.name: entry.prices for entry in file.sources if entry.prices is not None},
            more=more,
            anchor=ahead.anchor,
            use_all=file.settings.use == "all",
            notes=ahead.notes,
        )
