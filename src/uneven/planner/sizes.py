"""How many rows a step takes, for each source whose noise is drawn once a batch.

That noise falls with the square of the batch, so batches should be large; until too few steps are left to get anywhere.
What a plan will come to is predicted for a typical objective: see `predict_excess`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

from uneven.planner.segments import Batches, Segment, Sizes, split_into_batches
from uneven.planner.source import Source
from uneven.planner.strategies import Draft, Strategy
from uneven.problem import Problem
from uneven.schedules import Precision

LARGEST = 1 << 16
"""Largest batch that is tried: in longer sums, rounding to the public grid costs more than a larger batch gains."""

DIGITS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
"""First digits of the sizes that are tried."""

MOVES = (-3, -1, 1, 3)
"""How far the search goes at a time, up and down the list of sizes."""

SHOWN = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Sizes that are shown beside the one chosen, in units of it."""


def predict_excess(problem: Problem, segments: Sequence[Segment]) -> float | None:
    """E f(w) - f* after these steps, for a typical objective; None for steps that are not by a clock with an offset.

    The typical objective is a quadratic that curves alike in all d directions, with a quarter of the largest curvature
    that the loss and rows of norm 1 allow; and w = 0 is half as bad as it can be. Nothing is taken from rows. Then
    E_{t+1} = (1 - 2hη_t)E_t + η_t²σ_t² and η_t = 1/(λσ_t²τ_t), so that the clock τ₁ → τ₂ multiplies E by (τ₁/τ₂)^{2h/λ}
    and adds (1 - (τ₁/τ₂)^{2h/λ-1})/(λ(2h - λ)τ₂).
    """
    lam, loss = problem.alpha, problem.loss_function
    curvature = lam + loss.curvature / 4.0 * min(1.0 / problem.n_features, problem.eigenvalue)
    error, clock = min((loss.value_at_zero - loss.infimum) / curvature, problem.ball**2), 0.0
    for segment in segments:
        if not isinstance(segment.schedule, Precision) or segment.schedule.offset == 0.0:
            return None
        clock = clock or segment.schedule.offset
        later = clock + segment.precision
        log_ratio, excess_power = math.log(clock / later), 2.0 * curvature / lam - 1.0
        error *= math.exp((excess_power + 1.0) * log_ratio)
        error -= math.expm1(excess_power * log_ratio) / (lam**2 * excess_power * later)
        clock = later
    return curvature / 2.0 * error


def measure(problem: Problem, draft: Draft) -> float:
    """What batch sizes are chosen to minimise: the predicted excess, or the bound where there is no prediction."""
    predicted = predict_excess(problem, draft.segments)
    return draft.bound if predicted is None else predicted


def draft_with(sources: Sequence[Source], problem: Problem, strategy: Strategy, moments: str, sizes: Sizes) -> Draft:
    """The strategy's draft with these batch sizes."""
    return strategy.drafter(moments)(problem, split_into_batches(sources, problem, moments, sizes))


def choose_sizes(
    sources: Sequence[Source], problem: Problem, strategy: Strategy, moments: str, kept: Sizes | None = None
) -> dict[str, int]:
    """Batch size of each source whose noise is drawn once a batch, with the least predicted excess.

    Empty where the problem or the strategy has one batch size for all. The sizes in `kept` stay as they are.
    """
    if not (problem.own_batches and strategy.own_batches):
        return {}
    fixed = {name: size for name, size in (kept or {}).items() if any(source.name == name for source in sources)}
    free = {s.name: list_sizes(s.rows) for s in sources if s.noise.once_a_batch and s.name not in fixed}
    drafter, named = strategy.drafter(moments), {source.name: source for source in sources}

    @cache
    def split(name: str, size: int) -> Batches:
        return split_into_batches([named[name]], problem, moments, {name: size})[0]

    def score(places: Mapping[str, int]) -> float:
        sizes = {**fixed, **_sizes_at(free, places)}
        return measure(problem, drafter(problem, [split(n, sizes.get(n, problem.batch_size)) for n in named]))

    if not free:
        return fixed
    # Steps of equal noise first, since the cleanest step limits the size of all; then each source's size by itself.
    batches = {name: [split(name, size) for size in sizes] for name, sizes in free.items()}
    levels = [one.step_moment for one in max(batches.values(), key=len)]
    starts = [{name: _first_below(level, tried) for name, tried in batches.items()} for level in levels]
    best = min(starts, key=score)
    least, moved = score(best), True
    while moved:
        moved = False
        for name, sizes in free.items():
            for place in {min(max(best[name] + move, 0), len(sizes) - 1) for move in MOVES} - {best[name]}:
                tried = {**best, name: place}
                if (value := score(tried)) < least * (1.0 - 1e-9):
                    best, least, moved = tried, value, True
    return {**fixed, **_sizes_at(free, best)}


def _sizes_at(free: Mapping[str, list[int]], places: Mapping[str, int]) -> dict[str, int]:
    return {name: free[name][place] for name, place in places.items()}


def _first_below(level: float, tried: Sequence[Batches]) -> int:
    """Place of the smallest batches whose steps are no noisier than that; of the largest, if all are."""
    return next((place for place, one in enumerate(tried) if one.step_moment <= level * (1 + 1e-9)), len(tried) - 1)


def list_sizes(rows: int) -> list[int]:
    """Batch sizes to try for so many rows.

    >>> list_sizes(20)
    [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20]
    """
    most = min(rows, LARGEST)
    tried = {int(digit * 10**power) for power in range(6) for digit in DIGITS}
    return sorted({1, *(size for size in tried if size <= most)})


def list_other_sizes(
    sources: Sequence[Source], problem: Problem, strategy: Strategy, moments: str, sizes: Sizes
) -> dict[str, dict[int, float]]:
    """For each source whose batch size was chosen: what it and some other sizes give, all else the same."""
    rows = {s.name: s.rows for s in sources if s.noise.once_a_batch and s.name in sizes and strategy.own_batches}

    def give(name: str, size: int) -> float:
        return measure(problem, draft_with(sources, problem, strategy, moments, {**sizes, name: size}))

    tried = {name: {min(max(1, int(part * sizes[name])), n) for part in SHOWN} for name, n in rows.items()}
    return {name: {size: give(name, size) for size in sorted(some)} for name, some in tried.items()}
