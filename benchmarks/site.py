"""Batch sizes that a plan chooses for site privacy beside every pair of fixed ones on a grid: measured excess.

``python benchmarks/site.py mnist 4`` takes the data set and the number of runs.
"""

import itertools
import sys

import numpy as np
from timing import row

import uneven
from uneven import datasets
from uneven.engine import objective, optimum
from uneven.experiments.panels import ALPHA, SHARES, SITE_EPSILONS
from uneven.planner import make_plan

FACTORS = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)
"""Sizes of the grid, in units of those chosen."""


def compare(name: str, runs: int) -> None:
    parts = datasets.LOADERS[name](None).split(SHARES, 0)
    X, y = (np.concatenate(part) for part in zip(*parts.values(), strict=True))
    plain = uneven.Problem(X.shape[1], ALPHA, 50)
    least = objective(plain, optimum(plain, X, y), X, y)
    for epsilons in SITE_EPSILONS:
        pairs = zip(parts.items(), epsilons, strict=True)
        sources = [uneven.Source(k, len(part[1]), uneven.SitePrivacy(epsilon)) for (k, part), epsilon in pairs]
        chosen = uneven.plan(sources, X.shape[1], ALPHA, clip=0.5)
        sizes = [
            {k: max(1, round(f * chosen.batch_sizes[k])) for k, f in zip(SHARES, factors, strict=True)}
            for factors in itertools.product(FACTORS, FACTORS)
        ]
        plans = [chosen, *(make_plan(sources, chosen.problem, sizes=one) for one in sizes)]
        found = uneven.sweep(plans, parts, runs=runs, seed=1).weights
        auto, *fixed = (float(np.mean([objective(plain, w, X, y) for w in one])) - least for one in found)
        best = int(np.argmin(fixed))
        named = f"{name}, ε = {epsilons[0]:g} and {epsilons[1]:g}"
        row(f"{named}: chosen {chosen.batch_sizes}, excess", f"{auto:.4f}")
        row(f"{named}: that / best fixed pair {sizes[best]}", f"{auto / fixed[best]:.2f} x", "at most 1.3")


if __name__ == "__main__":
    compare(sys.argv[1], int(sys.argv[2]))
