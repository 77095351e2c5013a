"""A small run of every strategy on the embedded sample: measured distances beside the bounds that predict them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.datasets import Dataset
from uneven.engine import find_optimum, measure_accuracy, measure_auc, sweep
from uneven.experiments import estimate_mean
from uneven.planner import Plan, Source, make_plan

Array = NDArray[np.float64]
Estimate = tuple[float, float]
"""A mean and its standard error."""


@dataclass(frozen=True)
class Simulation:
    """Measurements, by strategy.

    Attributes
    ----------
    plans : dict of Plan
        What was run: the plan of each strategy, for rows scaled to the sample and its dimension.
    runs : int
    distance : dict
        Mean of ‖w - w*‖² and its standard error.
    accuracy : dict
        Mean share of the test rows classified correctly, and its standard error.
    best_accuracy : float
        The share that w* classifies correctly.
    auc : dict
        Mean area under the ROC curve on the test rows, and its standard error.
    """

    plans: Mapping[str, Plan]
    runs: int
    distance: Mapping[str, Estimate]
    accuracy: Mapping[str, Estimate]
    best_accuracy: float
    auc: Mapping[str, Estimate]

    @property
    def rows(self) -> dict[str, int]:
        """Rows used of each source."""
        return {source.name: source.rows for source in next(iter(self.plans.values())).sources}


def scale_rows(sources: Sequence[Source], limit: int) -> list[Source]:
    """Sources with their rows scaled down in proportion to at most `limit` in all, at least one row each.

    >>> [source.rows for source in scale_rows([Source("a", 50_000), Source("b", 450_000)], limit=20_000)]
    [2000, 17999]
    """
    total = sum(source.rows for source in sources)
    if len(sources) > limit:
        raise ValueError(f"sources must be at most {limit} to run on the sample, got {len(sources)}")
    if total <= limit:
        return list(sources)
    spare = limit - len(sources)  # a row each, and these in proportion: never more than the limit
    return [replace(source, rows=1 + spare * source.rows // total) for source in sources]


def simulate(
    planned: Plan,
    data: Dataset,
    *,
    runs: int = 10,
    limit: int = 20_000,
    seed: int = 0,
    tick: Callable[[float], Any] = lambda _: None,
) -> Simulation:
    """Run the plan of every strategy on rows of a data set, and measure how far from w* it ends.

    In each run the sources are dealt rows at random, none twice, labels are flipped where a source's noise says
    so, and all strategies see the same rows. The answer is what the bound is of: the last iterate, or the average for
    Theorem B. A simulation: its noise has a seed and protects nobody.

    Parameters
    ----------
    planned : Plan
        Its sources and settings are used, with the dimension of `data`.
    data : Dataset
    runs : int
    limit : int
        Rows a run uses in all; sources with more are scaled down in proportion.
    seed : int
    tick : callable
        Called with the share of the runs that is done.

    Returns
    -------
    Simulation
    """
    problem = replace(planned.problem, n_features=data.X.shape[1])
    sources = scale_rows(planned.sources, min(limit, len(data.y)))
    plans = make_plan(sources, problem, planned.strategy, planned.moments).alternatives()
    best = find_optimum(problem, data.X, data.y)
    answers = []
    for run in range(runs):
        tick(run / runs)
        answers.append(_one_run(plans, data, np.random.SeedSequence([seed, run])))
    tick(1.0)
    weights = np.stack(answers, axis=1)
    distance = ((weights - best) ** 2).sum(axis=2)
    correct = measure_accuracy(weights, data.X_test, data.y_test)
    return Simulation(
        plans,
        runs,
        _estimate_means(plans, distance),
        _estimate_means(plans, correct),
        float(measure_accuracy(best, data.X_test, data.y_test)),
        _estimate_means(plans, measure_auc(weights, data.X_test, data.y_test)),
    )


def deal(sources: Sequence[Source], data: Dataset, rng: np.random.Generator) -> dict[str, tuple[Any, Array]]:
    """Rows of the data set dealt to the sources at random, none twice, with labels as each source would have them."""
    order = rng.permutation(len(data.y))
    parts = np.split(order, np.cumsum([source.rows for source in sources]))
    return {
        source.name: (np.ascontiguousarray(data.X[part]), source.noise.corrupt(data.y[part], rng))
        for source, part in zip(sources, parts, strict=False)  # what is left over is nobody's
    }


def _one_run(plans: Mapping[str, Plan], data: Dataset, seeds: np.random.SeedSequence) -> Array:
    """Answer of each plan, shape (plans, d)."""
    dealing, noise = seeds.spawn(2)
    sources = next(iter(plans.values())).sources
    rows = deal(sources, data, np.random.default_rng(dealing))
    seed = int(noise.generate_state(1)[0])
    answers: dict[str, Array] = {}
    for iterate, average in (("last", "last"), ("average", "steps")):
        mine = {name: one for name, one in plans.items() if one.guarantee.iterate == iterate}
        swept = sweep(mine.values(), rows, seed=seed, average=average)
        answers.update(zip(mine, swept.weights[:, 0], strict=True))
    return np.stack([answers[name] for name in plans])


def _estimate_means(plans: Mapping[str, Plan], values: Array) -> dict[str, Estimate]:
    """Mean and standard error over runs, of values of shape (plans, runs)."""
    return {name: (float(mean), float(error)) for name, mean, error in zip(plans, *estimate_mean(values), strict=True)}
