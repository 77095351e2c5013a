"""The paper's search for a better second learning rate: several c₂ between c₂(L) and c₂(U), each a run of its own.

A source whose lower moment is 0 (exact rows, flipped labels) has the bound on its variance in its place: see
`uneven.rate_interval`.

On private rows every run is another release, so it must fit the budget; and the runs are compared on rows without
privacy, because a choice made by looking at private rows would tell about them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.noise import Noise
from uneven.planner import Plan, change_rates, find_rate_intervals, get_strategy, make_plan, void_bound
from uneven.schedules import Rate
from uneven.settings import Settings


def list_candidates(plan: Plan, count: int) -> list[Plan]:
    """Plans that differ in the last source's rate: `count` of them, evenly in log c₂ over the paper's interval.

    >>> import uneven
    >>> two = [uneven.Source(n, 1000, uneven.LocalPrivacy(e)) for n, e in [("a", 10), ("b", 2)]]
    >>> plans = list_candidates(uneven.plan(two, 25, strategy="two-rates", radius="paper"), 3)
    >>> [list(p.rates) for p in plans] == [plans[0].order] * 3
    True
    """
    low, high = find_rate_intervals(plan.sources, plan.problem)[plan.order[-1]]
    return [with_last_rate(plan, float(rate)) for rate in np.geomspace(low, high, count)]


def as_planned(plan: Plan) -> Plan:
    """Plan as its inputs have it, whatever rate a search has put into it."""
    if plan.rates is None:
        return plan
    return _as_void(make_plan(plan.sources, plan.problem, plan.strategy, plan.moments), plan.void)


def _as_void(plan: Plan, why: str) -> Plan:
    return void_bound(plan, why) if why else plan


def with_last_rate(plan: Plan, rate: float) -> Plan:
    """Plan with another rate for its last source, and its bound at that."""
    *others, _ = (segment.schedule.rate for segment in plan.segments if isinstance(segment.schedule, Rate))
    return _as_void(change_rates(plan, [*others, rate]), plan.void)


def list_comparable(noises: Mapping[str, Noise]) -> list[str]:
    """Sources without privacy, to compare runs on: those with true labels first, then by flip rate."""
    return sorted((name for name, one in noises.items() if not one.private), key=lambda n: noises[n].known_rate)


def find_best(plan: Plan, weights: Sequence[NDArray[np.float64]], X: Any, y: Any, noise: Noise) -> int:
    """Which weights have the least objective on rows with labels of this noise.

    For flipped labels it is the surrogate's, whose mean over flips is that of the true labels.
    """
    from uneven.engine import surrogate_objective  # now only: a model is loaded without a compiler

    a, b = noise.known_rate + noise.skew, noise.known_rate - noise.skew
    rate = (a, b) if noise.skew else a
    return int(np.argmin(surrogate_objective(plan.problem, np.array(weights), X, y, rate)))


def refuse_line_search(noises: Mapping[str, Noise], settings: Settings, problems: int, validation: bool) -> None:
    """Refuse a search that is not the paper's, that has nothing to compare on, or that would exceed the budget.

    `problems` are those that the classes are learned as; `validation` says whether there are rows to compare runs on.
    """
    count, budget = settings.line_search, settings.budget
    if problems > 1:
        raise ValueError(f"line_search needs two classes, got {problems}")
    if not get_strategy(settings.stepping).searches_rate or len(noises) != 2:
        raise ValueError(
            f"line_search needs strategy='two-rates' and two sources, got {settings.stepping!r} and {len(noises)}"
        )
    if not validation and all(noise.private for noise in noises.values()):
        raise ValueError(
            "line_search needs rows without privacy to compare runs on: pass validation=(X, y), or have such a source"
        )
    private = [noise.epsilon_per_row for noise in noises.values() if noise.epsilon_per_row]
    times, dearest = count * settings.pass_count, max(private, default=0.0)
    if private and (budget is None or times * dearest > budget * (1 + 1e-9)):
        raise ValueError(
            f"line_search={count} would release every private row {times} times, for ε = {times * dearest:g} per row; "
            f"budget must allow that, got {budget!r}"
        )
