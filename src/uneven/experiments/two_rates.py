"""Column 2 of the paper's figure: are two learning rates better than one? The final objective against ε_N."""

from __future__ import annotations

import math

from uneven.experiments.panel import EPSILON_CLEAN, SHARES, Case, Counts, Panel, as_published, without_noise

EPSILONS = tuple(float(epsilon) for epsilon in range(1, 11))

METHODS = {
    "Algorithm2": "two-rates",
    "SameClean": "same-rate-clean-first",
    "SameNoisy": "same-rate-noisy-first",
}


def panel(dataset: str, counts: Counts, n_features: int) -> Panel:
    """Panel for a data set of these rows and features."""
    rows = counts(SHARES)
    cases = [
        Case(method, epsilon, as_published(rows, n_features, strategy, epsilon))
        for method, strategy in METHODS.items()
        for epsilon in EPSILONS
    ]
    cases.append(Case("CleanOnly", math.nan, as_published(rows, n_features, "clean-only", EPSILON_CLEAN / 2)))
    cases.append(Case("Optimal", math.nan, without_noise(rows, n_features)))
    return Panel(f"two-rates-{dataset}", dataset, "ε_N", tuple(cases))
