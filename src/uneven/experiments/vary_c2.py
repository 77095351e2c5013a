"""Column 3 of the paper's figure: does noisy data always help? The final objective against c₂, with c₁ = 1/λ."""

from __future__ import annotations

import math

import numpy as np

from uneven.experiments.panel import ALPHA, SHARES, Case, Counts, Panel, as_published
from uneven.planner import at_rates, find_rate_intervals

EPSILON_NOISY = {"mnist": 2.0, "covertype": 1.0}
OUTSIDE, INSIDE = 8, 7
"""Values of c₂ on each side of the interval and in it, its ends included."""


def panel(dataset: str, counts: Counts, n_features: int) -> Panel:
    """Panel for a data set of these rows and features: c₂ from a tenth of c₂'s interval to ten times it."""
    rows = counts(SHARES)
    planned = as_published(rows, n_features, "two-rates", EPSILON_NOISY[dataset])
    low, high = find_rate_intervals(planned.sources, planned.problem)[planned.order[-1]]
    cases = [Case("TwoRates", c, at_rates(planned, [1.0 / ALPHA, c])) for c in grid(low, high)]
    alone = as_published(rows, n_features, "clean-only", EPSILON_NOISY[dataset])
    cases.append(Case("CleanOnly", math.nan, alone))
    upper = planned.segments[-1].schedule.rate  # type: ignore[union-attr]
    marks = {"c₂(L)": low if math.isclose(upper, high) else high, "c₂(U)": upper}
    return Panel(f"vary-c2-{dataset}", dataset, "c₂", tuple(cases), marks=marks)


def grid(low: float, high: float) -> list[float]:
    """Values of c₂ from a tenth of the interval to ten times it, its ends among them.

    >>> [round(c, 2) for c in grid(1.0, 3.0)][7:16]
    [0.75, 1.0, 1.2, 1.44, 1.73, 2.08, 2.5, 3.0, 4.0]
    """
    below, above = np.geomspace(0.1, 1.0, OUTSIDE + 1)[:-1], np.geomspace(1.0, 10.0, OUTSIDE + 1)[1:]
    return [float(c) for c in (*(low * below), *np.geomspace(low, high, INSIDE), *(high * above))]
