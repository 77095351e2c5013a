"""Batch sizes that a plan chooses for site privacy beside fixed ones on a grid: measured excess.

``python benchmarks/site.py mnist 4`` takes the data set and the number of runs.
"""

import itertools
import sys
from typing import Any

import numpy as np
from timing import row

import uneven
from uneven import datasets
from uneven.engine import find_optimum, objective
from uneven.experiments.panels import ALPHA, SHARES, SITE_EPSILONS
from uneven.planner import make_plan

FACTORS = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)
"""Sizes of the grid, in units of those chosen."""

ROWS, ALPHAS, EPSILONS = (2_000, 20_000), (1e-3, 1e-2), (0.3, 1.0, 5.0)
WIDE = tuple(2.0 ** (k / 2.0) for k in range(-8, 9))
"""The single sites, and the sizes that theirs are compared with."""


def compare(name: str, runs: int) -> None:
    """Both sources of the panel `site`, all their rows; then one site with fewer rows, with two strengths of L2."""
    parts = datasets.LOADERS[name](None).split(SHARES, 0)
    for epsilons in SITE_EPSILONS:
        _compare(name, parts, dict(zip(SHARES, epsilons, strict=True)), ALPHA, FACTORS, runs)
    X, y = (np.concatenate(part) for part in zip(*parts.values(), strict=True))
    order = np.random.default_rng(3).permutation(len(y))
    for n, alpha, epsilon in itertools.product(ROWS, ALPHAS, EPSILONS):
        part = {"one site": (X[order[:n]], y[order[:n]])}
        _compare(name, part, {"one site": epsilon}, alpha, WIDE, 5 * runs)


def _compare(name: str, parts: Any, epsilons: Any, alpha: float, factors: tuple[float, ...], runs: int) -> None:
    X, y = (np.concatenate(part) for part in zip(*parts.values(), strict=True))
    plain = uneven.Problem(X.shape[1], alpha, 50)
    least = objective(plain, find_optimum(plain, X, y), X, y)
    sources = [uneven.Source(k, len(part[1]), uneven.SitePrivacy(epsilons[k])) for k, part in parts.items()]
    chosen = uneven.plan(sources, X.shape[1], alpha, clip=0.5)
    sizes = [
        {k: min(max(1, round(f * chosen.batch_sizes[k])), len(parts[k][1])) for k, f in zip(parts, each, strict=True)}
        for each in itertools.product(factors, repeat=len(parts))
    ]
    plans = [chosen, *(make_plan(sources, chosen.problem, sizes=one) for one in sizes)]
    found = uneven.sweep(plans, parts, runs=runs, seed=1).weights
    auto, *fixed = (float(np.mean([objective(plain, w, X, y) for w in one])) - least for one in found)
    best, nothing = int(np.argmin(fixed)), objective(plain, np.zeros(X.shape[1]), X, y) - least
    shown = " and ".join(f"{one:g}" for one in epsilons.values())
    named = f"{name}, {len(y):,} rows, alpha = {alpha:g}, ε = {shown}"
    row(f"{named}: chosen {chosen.batch_sizes}, excess", f"{auto:.4f}", f"nothing {nothing:.4f}")
    row(f"{named}: that / best fixed {sizes[best]}", f"{auto / fixed[best]:.2f} x", "at most 1.3")


if __name__ == "__main__":
    compare(sys.argv[1], int(sys.argv[2]))
