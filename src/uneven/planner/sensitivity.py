"""Sensitivity of a plan to misstated noise levels: wrong by a factor of two, or within a stated interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from uneven.noise import Composed, FlippedLabels, Noise
from uneven.planner.segments import split_into_batches
from uneven.planner.source import Source
from uneven.words import format_count, format_number

if TYPE_CHECKING:
    from uneven.planner.planning import Plan

FACTOR = 2.0
HARDLY = 1.005
"""Variance with a wrong level over that with the right one, below which a rough level is good enough."""

SINGLE = 2
"""Levels up to which each has a sentence of its own."""

HEADER = (
    *("source", "level", "stated", "if it were", "order", "worth of its row", "excess"),
    "extra variance from the wrong level",
)
NAMES = {"epsilon": "ε", "rate": "rate", "variance": "variance"}
FEW_NAMED = 3
"""Sources up to which an order is told in full in a table."""

MOST_SOURCES = 12
"""Sources up to which summaries and reports show it: rows with levels of their own can make hundreds."""

MOST_FLIPPED = 0.98
"""Part of the flips from which labels carry no information, up to which rates are doubled; of two rates, a sum of 1."""


@dataclass(frozen=True)
class Change:
    """What a plan would be at another level of one source's noise, all else as stated.

    Attributes
    ----------
    source : str
    level : {"epsilon", "rate", "variance"}
    stated, actual : float or (float, float)
        The level as stated, and as it may really be.
    order : list of str
        The right order then.
    exchange : dict of str to float
        Worth of one row of each source then.
    excess : float or None
        f(w) - f* that the plan would predict then, or promise where there is no prediction.
    regret : float
        Variance of an answer that weighs rows as stated over that of the right weights: 1 if nothing is lost.
    """

    source: str
    level: str
    stated: Any
    actual: Any
    order: list[str]
    exchange: Mapping[str, float]
    excess: float | None
    regret: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def find_changes(plan: Plan, make_plan: Callable[..., Plan]) -> list[Change]:
    """Change of the plan at each end of what each level may be; see `Plan.sensitivity`."""
    changes = []
    for source in plan.sources:
        for level, stated, actual, noise in list_levels(source.noise, plan.problem.classes):
            swapped = [replace(one, noise=noise) if one is source else one for one in plan.sources]
            order, exchange, excess = _plan_again(plan, swapped, make_plan)
            regret = _regret(plan, swapped)
            changes.append(Change(source.name, level, stated, actual, order, exchange, excess, regret))
    return changes


def list_levels(noise: Noise, classes: int = 2) -> Iterator[tuple[str, Any, Any, Noise]]:
    """Each level of a noise, as stated and at either end of what it may be, and the noise there."""
    if isinstance(noise, Composed):
        for level, stated, actual, other in list_levels(noise.then, classes):
            yield level, stated, actual, Composed(noise.labels, other)
        for level, stated, actual, labels in list_levels(noise.labels, classes):
            yield level, stated, actual, Composed(labels, noise.then)  # type: ignore[arg-type]
    elif noise.level is not None and not getattr(noise, "unknown", False):
        stated = getattr(noise, noise.level)
        for actual in noise.interval or _either_way(noise, stated, classes):
            if actual != stated:
                yield noise.level, stated, actual, noise.at_level(actual)


def _either_way(noise: Noise, stated: Any, classes: int) -> tuple[Any, Any]:
    """Half and twice the level; flip rates no further than labels still tell something."""
    if not isinstance(noise, FlippedLabels):
        return stated / FACTOR, stated * FACTOR
    T = noise.confusion_of(classes)
    part = 1.0 - min(np.linalg.eigvals(T).real.min(), np.diag(T).min())  # at 1/part, T has no inverse or is negative
    factor = max(1.0, min(FACTOR, MOST_FLIPPED / part)) if part > 0.0 else FACTOR
    if noise.confusion is None:
        rates = np.array(stated)
        ends = tuple((rates * one).tolist() for one in (1.0 / FACTOR, factor))
        return tuple(tuple(end) if isinstance(end, list) else end for end in ends)  # type: ignore[return-value]
    flips = T - np.eye(classes)
    return tuple(tuple(map(tuple, (np.eye(classes) + flips * one).tolist())) for one in (1.0 / FACTOR, factor))  # type: ignore[return-value]


def _plan_again(
    plan: Plan, sources: Sequence[Source], make_plan: Callable[..., Plan]
) -> tuple[list[str], dict[str, float], float | None]:
    """Order, exchange rates and excess of the plan with other noises, for which batch sizes are chosen again."""
    if plan.anchored is not None:
        return _anchored_again(plan, sources)
    again = make_plan(sources, plan.problem, plan.strategy, plan.moments, None, plan.kept)
    excess = again.excess_bound if again.predicted_excess is None else again.predicted_excess
    return again.order, again.exchange, excess


def _anchored_again(plan: Plan, sources: Sequence[Source]) -> tuple[list[str], dict[str, float], float | None]:
    """The same of an anchored plan, without its rows: worths and the clock scale with one over a row's energy.

    The excess at another clock is that of 1/(1/e₀ + sτ), through its two known values: without private rows, and with
    those in use.
    """
    assert plan.anchored is not None
    problem, start, end = plan.problem, plan.anchored.excess_start, plan.anchored.excess
    gains = {s.name: _energy(s, plan) / _energy(other, plan) for s, other in zip(plan.sources, sources, strict=True)}
    worths = {name: worth * gains[name] for name, worth in plan.exchange.items()}
    most = max(worths.values())
    stepped = [segment.sources[0] for segment in plan.segments]
    rows = {s.name: s.rows for s in plan.sources}
    clock = {name: rows[name] / _energy(s, plan) for s in plan.sources if (name := s.name) in stepped}
    excess = end
    if clock and end < start:
        share = sum(clock[name] * gains[name] for name in clock) / sum(clock.values())
        excess = 1.0 / (1.0 / start + share * (1.0 / end - 1.0 / start))
    moved = {s.name: s.noise.planned_energy(problem) + s.noise.batch_energy(problem) for s in sources}
    order = [*plan.converged, *sorted(stepped, key=lambda name: moved[name])]
    return order, {name: worth / most for name, worth in worths.items()}, excess


def _energy(source: Source, plan: Plan) -> float:
    size = plan.batch_sizes.get(source.name, plan.problem.batch_size)
    return source.noise.planned_energy(plan.problem) + source.noise.batch_energy(plan.problem) / size


def _regret(plan: Plan, sources: Sequence[Source]) -> float:
    """(Σ nγ²/γ̂⁴)(Σ n/γ²)/(Σ n/γ̂²)²: variance of a mean with weights 1/γ̂² as stated, over that with 1/γ².

    n counts steps; γ̂² is the moment of a step as stated and γ² as it really is.
    """
    own = plan.batch_sizes
    stated, actual = (split_into_batches(some, plan.problem, plan.moments, own) for some in (plan.sources, sources))
    used = [(a.steps, a.step_moment, b.step_moment) for a, b in zip(stated, actual, strict=True) if a.sources[0] in own]
    if not used:
        return 1.0
    n, guess, true = np.array(used).T
    return float((n * true / guess**2).sum() * (n / true).sum() / (n / guess).sum() ** 2)


def describe_changes(plan: Plan) -> list[str]:
    """A sentence for each level of each source: what stays, and what would change; of many, one for all."""
    changes = choose_shown_changes(plan)
    groups = [
        [one for one in changes if (one.source, one.level) == pair]
        for pair in dict.fromkeys((one.source, one.level) for one in changes)
    ]
    if len(groups) > SINGLE:
        return [_describe_largest(plan, changes)]
    return [_describe_level(plan, mine) for mine in groups]


def _describe_level(plan: Plan, mine: Sequence[Change]) -> str:
    """What would change at either end of one level."""
    name, level = mine[0].source, mine[0].level
    ends = " or ".join(_shown(one.actual) for one in mine)
    turned = [one for one in mine if one.order != plan.order]
    order = f"the order would be {', '.join(turned[-1].order)}" if turned else "the order stays"
    worths = _span([one.exchange[name] for one in mine])
    worth = "its rows remain the most valuable" if worths == "1" else f"a row of it is worth {worths}"
    known = [one.excess for one in mine if one.excess is not None]
    excess = f", the excess is {_span(known)}" if known else ""
    return (
        f"If the {level} of {name!r} were {ends} instead of {_shown(mine[0].stated)}: {order}, {worth}{excess}. "
        f"{_describe_cost(mine, NAMES[level])}."
    )


def _describe_largest(plan: Plan, changes: Sequence[Change]) -> str:
    """One sentence for all levels: how many orders would change, and where the result suffers most."""
    worst = max(changes, key=lambda one: one.regret)
    most = f", most for {worst.source!r} at {worst.level} {_shown(worst.actual)}" if worst.regret >= HARDLY else ""
    turned = {one.source for one in changes if one.order != plan.order}
    order = f"the order may change ({format_count(len(turned), 'source')})" if turned else "the order stays"
    return f"If one level of noise were half or twice as stated: {order}. {_describe_cost(changes, 'level')}{most}."


def _describe_cost(changes: Sequence[Change], name: str) -> str:
    """What it costs to plan with a wrong level, in words.

    >>> _describe_cost([Change("a", "rate", 0.3, 0.49, ["a"], {"a": 1.0}, None, 95.2)], "rate")
    'Planning with a wrong rate multiplies the variance by up to 95'
    >>> _describe_cost([Change("a", "rate", 0.3, 0.31, ["a"], {"a": 1.0}, None, 1.001)], "rate")
    'A rough rate is good enough for planning'
    """
    largest = max(one.regret for one in changes)
    if largest < HARDLY:
        return f"A rough {name} is good enough for planning"
    if largest >= 2.0:
        return f"Planning with a wrong {name} multiplies the variance by up to {format_number(largest, 2)}"
    return f"Planning with a wrong {name} increases the variance by at most {_cost(changes)}"


def _cost(changes: Sequence[Change]) -> str:
    """Largest part of variance that is lost by weighing rows as stated.

    >>> _cost([Change("a", "epsilon", 1.0, 2.0, ["a"], {"a": 1.0}, None, 1.0 - 1e-12)])
    '0%'
    """
    return f"{100 * max(0.0, *(one.regret - 1 for one in changes)):.0f}%"


def _span(values: Sequence[float]) -> str:
    """Least and largest of some numbers, in two digits.

    >>> _span([0.5, 0.25]), _span([1.0, 1.0])
    ('0.25 to 0.5', '1')
    """
    return " to ".join(dict.fromkeys(f"{one:.2g}" for one in (min(values), max(values))))


def choose_shown_changes(plan: Plan) -> list[Change]:
    """Changes of a plan of few sources; none for one of many.

    Of rows that are learned to convergence the excess is left out: the one at hand is that of a single pass.
    """
    changes = plan.sensitivity() if len(plan.sources) <= MOST_SOURCES else []
    steps = plan.anchored is not None or not plan.converged
    return changes if steps else [replace(one, excess=None) for one in changes]


def tabulate_changes(plan: Plan) -> list[tuple[str, ...]]:
    """A header and a row for each change."""
    rows: list[tuple[str, ...]] = [HEADER]
    for one in choose_shown_changes(plan):
        order = _describe_order(plan, one)
        excess = "" if one.excess is None else f"{one.excess:.2g}"
        levels = _shown(one.stated), _shown(one.actual)
        rows.append((one.source, one.level, *levels, order, f"{one.exchange[one.source]:.2g}", excess, _cost([one])))
    return rows


def _describe_order(plan: Plan, change: Change) -> str:
    """The order there: of many sources, only where this one would be."""
    if change.order == plan.order:
        return "same"
    if len(change.order) <= FEW_NAMED:
        return ", ".join(change.order)
    if change.source not in change.order:
        return "left out"
    return f"place {change.order.index(change.source) + 1} of {len(change.order)}"


def _shown(level: Any) -> str:
    """A level in a few characters: of a matrix, the mean share of labels that are wrong.

    >>> _shown(0.25), _shown((0.1, 0.2)), _shown(((0.5, 0.5), (0.25, 0.75)))
    ('0.25', '(0.1, 0.2)', '0.375 on average')
    """
    if isinstance(level, tuple) and isinstance(level[0], tuple):
        return f"{1.0 - np.diag(level).mean():.3g} on average"
    return f"({level[0]:.3g}, {level[1]:.3g})" if isinstance(level, tuple) else f"{level:.3g}"
