"""How many rows a step takes, for each source whose noise is drawn once per batch.

That noise falls with the square of the batch, so batches should be large; until too few steps are left to get anywhere.
What a plan will reach is predicted for a typical objective: see `prediction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from uneven.planner.prediction import leave_out_kept, predict_excess
from uneven.planner.segments import Sizes, split_into_batches
from uneven.planner.source import Source
from uneven.planner.strategies import Draft, Strategy
from uneven.problem import Problem

LARGEST = 1 << 16
"""Largest batch that is tried: in longer sums, rounding to the public grid costs more than a larger batch gains."""

LEVELS, FEWER = 80, 20
"""How many levels of noise are tried for steps that are all equally noisy; fewer where other sizes are given."""

MOVES = (0.7, 0.9, 1.1, 1.4)
"""Factors by which each source's size is then changed, as long as that helps."""

SHOWN = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Sizes that are shown beside the one chosen, in units of it."""


def measure(problem: Problem, draft: Draft, kept: int = 0) -> float:
    """What batch sizes are chosen to minimise: the predicted excess, or the bound where there is no prediction."""
    predicted = predict_excess(problem, draft.segments, kept)
    return draft.bound if predicted is None else predicted


def draft_with(sources: Sequence[Source], problem: Problem, strategy: Strategy, moments: str, sizes: Sizes) -> Draft:
    """The strategy's draft with these batch sizes."""
    return strategy.drafter(moments)(problem, split_into_batches(sources, problem, moments, sizes))


def choose_sizes(
    sources: Sequence[Source], problem: Problem, strategy: Strategy, moments: str, kept: Sizes | None = None
) -> dict[str, int]:
    """Batch size of each source whose noise is drawn once per batch, with the least predicted excess.

    Empty where the problem or the strategy has one batch size for all. The sizes in `kept` stay as they are.
    """
    if not (problem.own_batches and strategy.own_batches):
        return {}
    fixed = {name: size for name, size in (kept or {}).items() if any(source.name == name for source in sources)}
    free = {s.name: min(s.rows // s.passes, LARGEST) for s in sources if s.noise.once_a_batch and s.name not in fixed}
    if not free:
        return fixed
    drafter, whole = strategy.drafter(moments), split_into_batches(sources, problem, moments, {**fixed, **free})

    def score(sizes: Sizes) -> float:
        batches = [replace(one, batch_size=sizes.get(one.sources[0], one.batch_size)) for one in whole]
        return measure(problem, drafter(problem, batches))

    # Steps of equal noise first, since the cleanest step limits the length of all; then each source's size by itself.
    own = {one.sources[0]: one.moment for one in whole if one.sources[0] in free}
    ends = min(moment.at(free[name]) for name, moment in own.items()), max(moment.at(1) for moment in own.values())
    starts = [
        {name: clamp_size(moment.rows_for(level), free[name]) for name, moment in own.items()}
        for level in np.geomspace(*ends, LEVELS if kept is None else FEWER)
    ]
    best = min(starts, key=score)
    least, moved = score(best), True
    while moved:
        moved = False
        for name in free:
            for factor in MOVES:
                tried = {**best, name: clamp_size(factor * best[name], free[name])}
                if (value := score(tried)) < least * (1.0 - 1e-6):
                    best, least, moved = tried, value, True
    return {**fixed, **best}


def clamp_size(size: float, most: int) -> int:
    """Batch size as a whole number from 1 to `most`.

    >>> clamp_size(0.3, 50), clamp_size(12.6, 50), clamp_size(float("inf"), 50)
    (1, 13, 50)
    """
    return round(min(max(size, 1.0), most))


def list_other_sizes(
    sources: Sequence[Source], problem: Problem, strategy: Strategy, moments: str, sizes: Sizes, kept: int = 0
) -> dict[str, dict[int, float]]:
    """For each source whose batch size was chosen: what it and some other sizes give, all else the same."""
    sources = leave_out_kept(sources, kept)
    rows = {
        s.name: s.rows // s.passes for s in sources if s.noise.once_a_batch and s.name in sizes and strategy.own_batches
    }

    drafter, whole = strategy.drafter(moments), split_into_batches(sources, problem, moments, sizes)

    def give(name: str, size: int) -> float:
        batches = [replace(one, batch_size=size) if one.sources[0] == name else one for one in whole]
        return measure(problem, drafter(problem, batches), kept)

    tried = {name: {clamp_size(part * sizes[name], n) for part in SHOWN} for name, n in rows.items()}
    return {name: {size: give(name, size) for size in sorted(some)} for name, some in tried.items()}
