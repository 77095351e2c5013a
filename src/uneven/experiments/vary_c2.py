"""Column 3 of the paper's figure: does noisy data always help? The final objective against c₂, with c₁ = 1/λ."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from uneven.experiments.panel import ALPHA, Case, Panel, as_published, at_rates
from uneven.planner import rate_interval

EPSILON_NOISY = {"mnist": 2.0, "covertype": 1.0}
POINTS = 21


def panel(dataset: str, rows: Mapping[str, int], n_features: int) -> Panel:
    """Panel for a data set of these rows and features: c₂ from a tenth of c₂'s interval to ten times it."""
    planned = as_published(rows, n_features, "two-rates", EPSILON_NOISY[dataset])
    interval = rate_interval(planned.sources, **planned.problem.to_dict())[planned.order[-1]]
    grid = np.geomspace(interval[0] / 10.0, interval[1] * 10.0, POINTS)
    cases = [Case("TwoRates", float(c), at_rates(planned, 1.0 / ALPHA, float(c))) for c in grid]
    alone = as_published(rows, n_features, "clean-only", EPSILON_NOISY[dataset])
    cases.append(Case("CleanOnly", math.nan, alone))
    upper = planned.segments[-1].schedule.rate  # type: ignore[union-attr]
    lower = interval[0] if math.isclose(upper, interval[1]) else interval[1]
    marks = {"c₂(L)": lower, "c₂(U)": upper}
    return Panel(f"vary-c2-{dataset}", dataset, "c₂", tuple(cases), marks=marks)
