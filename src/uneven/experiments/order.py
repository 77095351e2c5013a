"""Column 1 of the paper's figure: does the order of the data matter? |f(w) - f(v)| against c, at ε_N = 3."""

from __future__ import annotations

import numpy as np

from uneven.experiments.panel import ALPHA, SHARES, Case, Counts, Panel, as_published
from uneven.planner import at_rates

EPSILON_NOISY = 3.0
RATES = tuple(float(c) for c in np.geomspace(0.1, 10.0, 13) / ALPHA)
"""Values of c: a log grid around 1/λ, which is its middle."""

METHODS = {
    "CleanFirst": "same-rate-clean-first",
    "NoisyFirst": "same-rate-noisy-first",
    "Arbitrary": "arbitrary",
}


def panel(dataset: str, counts: Counts, n_features: int) -> Panel:
    """Panel for a data set of these rows and features."""
    cases, rows = [], counts(SHARES)
    for method, strategy in METHODS.items():
        planned = as_published(rows, n_features, strategy, EPSILON_NOISY)
        cases += [Case(method, c, at_rates(planned, [c] * len(planned.segments))) for c in RATES]
    return Panel(f"order-{dataset}", dataset, "c", tuple(cases), twin=True, marks={"1/λ": 1.0 / ALPHA})
