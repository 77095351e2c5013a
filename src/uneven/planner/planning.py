"""From described sources to a plan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from uneven import checks
from uneven.noise import MOMENTS
from uneven.planner import picture, search, strategies, text
from uneven.planner.decision import FORMAT, Decision, evaluated
from uneven.planner.segments import Feed, Segment, exchange, feeds_of
from uneven.planner.source import Source, checked_sources
from uneven.planner.strategies import STRATEGIES, Draft
from uneven.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EVALUATED_STEPS = 1_000_000
"""Up to this many steps, a bound by Theorem 3 is the larger of its leading term and the recursion step by step."""


class Plan(Decision):
    """What `uneven.plan` decided. Frozen: to change it, plan again."""

    def alternatives(self) -> dict[str, Plan]:
        """Plan of every strategy for the same sources and problem, this one among them.

        Moments are each strategy's own, unless this plan was asked for others: then theirs are the same, where they
        can be.
        """
        usual = _resolve_moments("auto", self.strategy, self.problem)
        asked = "auto" if self.moments == usual else self.moments
        return {
            strategy: self
            if strategy == self.strategy
            else plan(
                self.sources,
                **self.problem.to_dict(),
                strategy=strategy,
                moments="auto" if (asked, strategy) == ("variance", "averaged") else asked,
            )
            for strategy in STRATEGIES
        }

    def summary(self) -> str:
        """Plan in words and a table, for a terminal."""
        return text.summary(self, self.alternatives())

    def __str__(self) -> str:
        return self.summary()

    def plot(self) -> Figure:
        """Two pictures: step sizes over time, coloured by source; and every strategy's bound side by side."""
        return picture.picture(self, self.alternatives())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Plan:
        """Plan that `to_dict` described: planned again from its inputs, and refused if it says anything else."""
        if not isinstance(values, Mapping) or values.get("format") != FORMAT:
            found = values.get("format") if isinstance(values, Mapping) else values
            raise ValueError(f"format of a plan must be {FORMAT}, got {checks.shown(found)}")
        missing = [key for key in ("problem", "sources", "strategy", "moments") if key not in values]
        if missing:
            raise ValueError(f"a plan needs {missing[0]!r}; it is not there")
        problem = _from_keys("problem", Problem, values["problem"])
        if not isinstance(values["sources"], list | tuple):
            raise ValueError(f"sources of a plan must be a list, got {checks.shown(values['sources'])}")
        sources = [Source.from_dict(source) for source in values["sources"]]
        again = plan(sources, **problem.to_dict(), strategy=values["strategy"], moments=values["moments"])
        checks.only_keys("a plan", values, tuple(again.to_dict()))
        for key, expected in again.to_dict().items():
            if key not in values:
                raise ValueError(f"a plan needs {key!r}; it is not there")
            if not _alike(values[key], expected):
                raise ValueError(
                    f"{key} of a plan must follow from its sources and problem, got {checks.shown(values[key])}"
                )
        return again


def plan(
    sources: Iterable[Source],
    n_features: int,
    alpha: float = 1e-3,
    batch_size: int = 50,
    loss: str = "logistic",
    strategy: str = "precision",
    moments: str = "auto",
    radius: str = "tight",
    clip: float | None = None,
    norms: str = "largest",
    eigenvalue: float = 1.0,
) -> Plan:
    """Plan a run: in which order to use the sources, how far to step on each, and what that promises.

    Parameters
    ----------
    sources : list of Source
    n_features : int
        Dimension of the rows. Rows are assumed to lie in the unit ball (but see `norms`).
    alpha : float
        L2 strength λ.
    batch_size : int
        Rows per step.
    loss : {"logistic", "hinge", "linear"}
    strategy : str
        ``"precision"`` (one clock for all sources), ``"averaged"`` (Theorem B), or the paper's: ``"two-rates"``
        (Algorithm 2), ``"same-rate-clean-first"``, ``"same-rate-noisy-first"``, ``"clean-only"``, ``"arbitrary"``
        (all rows shuffled together).
    moments : {"auto", "upper", "lower", "variance"}
        What stands for a step's noise: a bound on E‖G‖² from above (the paper's Γ), from below, or on the variance.
        ``"auto"`` is the variance for ``"precision"`` with a smooth loss, else the upper moment.
    radius : {"tight", "paper"}
        The ball that the weights stay in.
    clip : float or None
        Norm that rows' gradients are shrunk to.
    norms : {"largest", "rms"}
        Which norm of each source's rows is at most 1. ``"rms"`` lets single rows be longer; no source may be private.
    eigenvalue : float
        Bound on the largest eigenvalue of the rows' mean outer product, if a better one than 1 is known.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import uneven
    >>> clinic = uneven.Source("clinic", rows=6000, noise=uneven.LocalPrivacy(epsilon=10))
    >>> survey = uneven.Source("survey", rows=54000, noise=uneven.LocalPrivacy(epsilon=1))
    >>> plan = uneven.plan([clinic, survey], n_features=25)
    >>> plan.order
    ['survey', 'clinic']
    >>> round(1 / plan.exchange["survey"], 1)  # rows of the survey that are worth one of the clinic
    54.7
    """
    described = checked_sources(sources)
    problem = Problem(n_features, alpha, batch_size, loss, radius, clip, norms, eigenvalue)
    _refuse_private_mean(described, problem)
    checks.one_of("strategy", strategy, STRATEGIES)
    which = _resolve_moments(moments, strategy, problem)
    feeds = feeds_of(described, problem, which)
    smooth_clock = strategy == "precision" and which == "variance"
    draft = (strategies.precision_smooth if smooth_clock else STRATEGIES[strategy])(problem, feeds)
    draft = _step_by_step(problem, draft, which)
    return Plan(
        problem=problem,
        sources=described,
        strategy=strategy,
        moments=which,
        segments=draft.segments,
        bound=float(draft.bound),
        excess_bound=_excess_bound(problem, draft),
        theorem=draft.theorem,
        worths=tuple(exchange(feeds).items()),
        caveats=(*_caveats(problem, feeds, draft, which), *_conditions(described, problem, which)),
    )


def at_rates(planned: Plan, rates: Sequence[float]) -> Plan:
    """The same plan with other learning rates, one a segment, and the bound of Theorem 3 at those.

    Where 2λc₁ ≤ 1, Theorem 3 has no bound, and that of the recursion stands alone.

    Examples
    --------
    >>> import uneven
    >>> two = [uneven.Source("a", 1000), uneven.Source("b", 9000, uneven.FlippedLabels(0.3))]
    >>> best = uneven.plan(two, n_features=5, strategy="two-rates")
    >>> slower = at_rates(best, [0.6 * rate for rate in best.rates.values()])
    >>> slower.order == best.order, slower.bound > best.bound
    (True, True)
    """
    if planned.theorem != "Theorem 3":
        raise ValueError(f"planned must have step sizes c/t, got strategy {planned.strategy!r}")
    if len(rates) != len(planned.segments):
        raise ValueError(f"rates must be {len(planned.segments)}, one a segment, got {len(rates)}")
    given = [checks.positive("rates", rate) for rate in rates]
    problem, which = planned.problem, planned.moments
    draft = _step_by_step(problem, strategies.at_rates(problem, planned.segments, given), which)
    return replace(
        planned,
        segments=draft.segments,
        bound=float(draft.bound),
        excess_bound=_excess_bound(problem, draft),
        caveats=(
            *_caveats(problem, feeds_of(planned.sources, problem, which), draft, which),
            *_conditions(planned.sources, problem, which),
        ),
    )


def rate_interval(
    sources: Iterable[Source],
    n_features: int,
    alpha: float = 1e-3,
    batch_size: int = 50,
    loss: str = "logistic",
    radius: str = "tight",
    clip: float | None = None,
    norms: str = "largest",
    eigenvalue: float = 1.0,
) -> dict[str, tuple[float, float]]:
    """Interval to search for each source's learning rate: Algorithm 2 with lower and with upper moments.

    For two sources the second one's interval is the paper's [c₂(L), c₂(U)], in increasing order (Section 5). Both
    ends are for the order that the upper moments choose; Algorithm 2 with lower moments may choose another (on the
    paper's grid it does once, at d = 25 and ε_N = 1).

    A source whose lower moment is 0 (exact rows, flipped labels) has the bound on its variance in its place: for a
    smooth loss it is the variance that counts (Theorem C), and near the optimum the second moment is not much more.

    Slip in the paper: it says to plug the moments into "Algorithm 1"; the one that selects rates is Algorithm 2.

    Examples
    --------
    >>> import uneven
    >>> clinic = uneven.Source("clinic", rows=6000, noise=uneven.LocalPrivacy(10, "l2-laplace"))
    >>> survey = uneven.Source("survey", rows=54000, noise=uneven.LocalPrivacy(2, "l2-laplace"))
    >>> interval = rate_interval([clinic, survey], n_features=25, radius="paper")
    >>> {name: [round(c) for c in ends] for name, ends in interval.items()}
    {'survey': [1000, 1000], 'clinic': [3278, 10994]}
    """
    described = checked_sources(sources)
    problem = Problem(n_features, alpha, batch_size, loss, radius, clip, norms, eigenvalue)
    upper = plan(described, **problem.to_dict(), strategy="two-rates", moments="upper")
    least = {source.name: feeds_of([source], problem, _least(source, problem))[0] for source in described}
    lower = strategies.in_order(problem, [least[name] for name in upper.order])
    ends: dict[str, tuple[float, float]] = {}
    for a, b in zip(upper.segments, lower.segments, strict=True):
        low, high = sorted(segment.schedule.rate for segment in (a, b))  # type: ignore[union-attr]
        ends[a.sources[0]] = (low, high)
    return ends


def _least(source: Source, problem: Problem) -> str:
    return "lower" if source.noise.moment("lower", problem).at(1) > 0 else "variance"


def _refuse_private_mean(sources: Sequence[Source], problem: Problem) -> None:
    private = [source.name for source in sources if source.noise.private]
    if private and problem.norms != "largest":
        raise ValueError(
            f"norms must be 'largest' where a source is private: each row's own norm must be bounded; got "
            f"{problem.norms!r} and {private[0]!r}"
        )


def _resolve_moments(moments: str, strategy: str, problem: Problem) -> str:
    checks.one_of("moments", moments, ("auto", *MOMENTS))
    smooth = problem.loss_function.smooth
    if moments == "auto":
        return "variance" if strategy == "precision" and smooth else "upper"
    if moments == "variance" and not smooth:
        raise ValueError(
            f"moments must be 'auto', 'upper' or 'lower' with the loss {problem.loss!r}, which has a kink: a "
            "guarantee from variances needs a smooth loss; got 'variance'"
        )
    if moments == "variance" and strategy == "averaged":
        raise ValueError(
            "moments must be 'auto', 'upper' or 'lower' with strategy 'averaged': Theorem B holds for second "
            "moments; got 'variance'"
        )
    return moments


def _step_by_step(problem: Problem, draft: Draft, which: str) -> Draft:
    """Draft whose bound by Theorem 3 is the larger of that and the recursion's; the latter where the former is none."""
    if draft.theorem != "Theorem 3" or _steps(draft.segments) > EVALUATED_STEPS:
        return draft
    exact = evaluated(problem, draft.segments, which)
    return replace(draft, bound=exact if math.isinf(draft.bound) else max(draft.bound, exact))


def _excess_bound(problem: Problem, draft: Draft) -> float | None:
    if draft.theorem == "Theorem B":
        return problem.alpha / 2.0 * draft.bound
    return problem.smoothness / 2.0 * draft.bound if problem.loss_function.smooth else None


def _steps(segments: Sequence[Segment]) -> int:
    return sum(segment.steps for segment in segments)


def _caveats(problem: Problem, feeds: Sequence[Feed], draft: Draft, which: str) -> Iterable[str]:
    if which == "lower":
        yield "Lower moments: the bound is what the formula gives, not a guarantee."
    if draft.theorem == "Theorem 3" and _steps(draft.segments) > EVALUATED_STEPS:
        yield "The bound is the leading term of Theorem 3; the terms left out shrink faster with the number of steps."
    if len(feeds) > search.EXACT_SOURCES and len(draft.segments) > 1 and draft.theorem == "Theorem 3":
        yield f"More than {search.EXACT_SOURCES} sources: ordered in groups of like noise, perhaps not the best."
    if draft.theorem == "Theorem C" and len(feeds) > 1:
        cleanest = min(feeds, key=lambda feed: feed.noise_level)
        without = strategies.precision_smooth(problem, [feed for feed in feeds if feed is not cleanest]).bound
        if without < draft.bound:
            yield (
                f"Without {cleanest.sources[0]!r} the bound would be smaller, {without:.4g}: so clean a source sets "
                "the pace for all, and has too few rows to make up for it."
            )
    if draft.bound >= problem.ball**2:
        yield f"The bound promises nothing: the optimum is within {problem.ball**2:.4g} of 0 (squared) to begin with."


def _conditions(sources: Iterable[Source], problem: Problem, which: str) -> Iterable[str]:
    """What the bound assumes of rows, where a noise's variance rests on how long gradients are on average."""
    planned = [s for s in sources if s.noise.planned_energy(problem) < s.noise.row_energy(problem)]
    if which == "variance" and planned:
        name, activity = planned[0].name, getattr(planned[0].noise, "activity", 1.0)
        yield (
            f"The bound assumes that gradients of {name!r} are on average at most {activity:g} times their largest norm "
            "long, at each step (its activity); with an activity of 1 it would assume nothing."
        )


def _from_keys(what: str, make: Any, values: Any) -> Any:
    """Object of keyword arguments, with unknown ones refused by name."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} must be a mapping, got {checks.shown(values)}")
    checks.only_keys(what, values, tuple(make.__dataclass_fields__))
    try:
        return make(**values)
    except TypeError as error:
        raise ValueError(f"{what} is incomplete: {error}") from None


def _alike(a: Any, b: Any) -> bool:
    """Equal, but for rounding of numbers."""
    if isinstance(b, Mapping):
        return isinstance(a, Mapping) and a.keys() == b.keys() and all(_alike(a[key], b[key]) for key in b)
    if isinstance(b, list | tuple):
        return isinstance(a, list | tuple) and len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(b, float):
        return isinstance(a, float | int) and abs(a - b) <= 1e-6 * abs(b)
    return bool(a == b)
