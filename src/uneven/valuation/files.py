"""The door for files: what the sources of a ``sources.toml`` are worth, for the problem that a fit of them solves."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from uneven.io import SourcesFile, located
from uneven.planner import Source
from uneven.redaction import redacted
from uneven.training import value_ahead
from uneven.valuation.valuing import Valuation, value_sources
from uneven.valuation.worths import Purchase, Worth

T = TypeVar("T", Worth, Purchase, Source)


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
        found = value_sources(
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
    return _declare_labels(found, file)


def _declare_labels(found: Valuation, file: SourcesFile) -> Valuation:
    """The valuation with private labels called so: they were valued as they are once released."""
    noises = {entry.name: entry.noise for entry in file.sources if entry.noise is not None}
    labels = {name: one for name, one in noises.items() if one.observed is not one}

    def declare(items: tuple[T, ...], key: str) -> tuple[T, ...]:
        return tuple(replace(one, noise=labels.get(getattr(one, key), one.noise)) for one in items)

    return replace(
        found,
        worths=declare(found.worths, "name"),
        purchases=declare(found.purchases, "source"),
        owned=declare(found.owned, "name"),
    )
