"""The plan: in what order to use the sources, how far to step on each, and what that promises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks, theory
from uneven.noise import MOMENTS, Moment
from uneven.planner import picture, search, strategies, text
from uneven.planner.feeds import Segment, exchange, feeds_of
from uneven.planner.source import Source, checked_sources
from uneven.planner.strategies import STRATEGIES, Draft
from uneven.problem import Problem
from uneven.schedules import Rate, schedule_from_dict, schedule_to_dict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = 1
"""Version of `Plan.to_dict`."""


@dataclass(frozen=True)
class Plan:
    """What `uneven.plan` decided. Frozen: to change it, plan again.

    Attributes
    ----------
    problem : Problem
    sources : tuple of Source
        As given.
    strategy : str
    moments : str
        The moments used: "upper", "lower" or "variance".
    segments : tuple of Segment
        Stretches of the run, in order of use.
    bound : float
        Bound on E‖w - w*‖², by `theorem`. For step sizes c/t the leading term, as in the paper.
    excess_bound : float or None
        What the bound says about E f(w) - f*; None for a loss with a kink.
    theorem : str
    exchange : dict
        Worth of one row of each source, in rows of the cleanest.
    caveats : tuple of str
        What a reader of the bound should know.
    """

    problem: Problem
    sources: tuple[Source, ...]
    strategy: str
    moments: str
    segments: tuple[Segment, ...]
    bound: float
    excess_bound: float | None
    theorem: str
    exchange: dict[str, float]
    caveats: tuple[str, ...]

    @property
    def order(self) -> list[str]:
        """Names of the sources used, in order of use."""
        return [name for segment in self.segments for name in segment.sources]

    @property
    def rates(self) -> dict[str, float] | None:
        """Learning rate c of each source used, for step sizes c/t; None for other schedules."""
        rates = {
            name: segment.schedule.rate
            for segment in self.segments
            if isinstance(segment.schedule, Rate)
            for name in segment.sources
        }
        return rates or None

    @property
    def steps(self) -> int:
        """Number of steps T."""
        return sum(segment.steps for segment in self.segments)

    @property
    def shuffled(self) -> bool:
        """Whether the sources are shuffled together rather than used one after the other."""
        return any(len(segment.sources) > 1 for segment in self.segments)

    def step_moments(self) -> NDArray[np.float64]:
        """γ_t² of every step, shape (T,)."""
        return np.concatenate([segment.moments() for segment in self.segments])

    def step_sizes(self) -> NDArray[np.float64]:
        """η_t of every step, shape (T,)."""
        moments = self.step_moments()
        t, clock = np.arange(1, self.steps + 1), np.cumsum(1.0 / moments)
        ends = np.cumsum([segment.steps for segment in self.segments])[:-1]
        parts = zip(*(np.split(values, ends) for values in (t, moments, clock)), strict=True)
        return np.concatenate([segment.schedule(*part) for segment, part in zip(self.segments, parts, strict=True)])

    def evaluated_bound(self) -> float | None:
        """Bound on E‖w - w*‖² with the recursion behind the theorem evaluated step by step.

        Exact for this number of steps, short batches included, with none of the closed form's slack: the figure to
        compare strategies by. It starts from ‖w₁ - w*‖ ≤ R; with variances, from the diameter 2R at the first
        step from which no step is longer than 2/(L + λ). None where there is no recursion: for an average
        of iterates, or for variances if the steps never become that short.
        """
        if self.strategy == "averaged":
            return None
        eta, moments, lam = self.step_sizes(), self.step_moments(), self.problem.alpha
        if self.moments != "variance":
            return theory.recursion_bound(eta, moments, lam, start=self.problem.ball**2)
        too_long = np.flatnonzero(eta > 2.0 / (self.problem.smoothness + lam) * (1 + 1e-12))
        if not len(too_long):
            return theory.contraction_bound(eta, moments, lam, start=self.problem.ball**2)
        start = too_long[-1] + 1
        if start == len(eta):
            return None
        diameter = 2.0 * self.problem.ball
        return theory.contraction_bound(eta[start:], moments[start:], lam, start=diameter**2)

    def alternatives(self) -> dict[str, Plan]:
        """Plan of every strategy for the same sources and problem, this one among them."""
        return {
            strategy: self
            if strategy == self.strategy
            else plan(self.sources, **self.problem.to_dict(), strategy=strategy)
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

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold; `from_dict` reads them back."""
        return {
            "format": FORMAT,
            "problem": self.problem.to_dict(),
            "sources": [source.to_dict() for source in self.sources],
            "strategy": self.strategy,
            "moments": self.moments,
            "segments": [_segment_to_dict(segment) for segment in self.segments],
            "order": self.order,
            "rates": self.rates,
            "bound": self.bound,
            "excess_bound": self.excess_bound,
            "theorem": self.theorem,
            "exchange": dict(self.exchange),
            "caveats": list(self.caveats),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Plan:
        """Plan that `to_dict` described; refuses what it does not understand."""
        given = dict(values)
        if given.pop("format", None) != FORMAT:
            raise ValueError(f"format of a plan must be {FORMAT}, got {values.get('format')!r}")
        order, rates = given.pop("order", None), given.pop("rates", None)
        checks.only_keys("a plan", given, tuple(cls.__dataclass_fields__))
        if missing := sorted(set(cls.__dataclass_fields__) - set(given)):
            raise ValueError(f"a plan needs {missing[0]!r}; it is not there")
        plan = cls(
            **{
                **given,
                "problem": Problem(**given["problem"]),
                "sources": tuple(Source.from_dict(source) for source in given["sources"]),
                "segments": tuple(_segment_from_dict(segment) for segment in given["segments"]),
                "exchange": dict(given["exchange"]),
                "caveats": tuple(given["caveats"]),
            }
        )
        if (order, rates) != (plan.order, plan.rates):
            raise ValueError(f"order and rates of a plan must agree with its segments, got {order!r}, {rates!r}")
        return plan


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
) -> Plan:
    """Plan a run: in which order to use the sources, how far to step on each, and what that promises.

    Parameters
    ----------
    sources : list of Source
    n_features : int
        Dimension of the rows. Rows are assumed to lie in the unit ball.
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
    96.3
    """
    described = checked_sources(sources)
    problem = Problem(n_features, alpha, batch_size, loss, radius, clip)
    checks.one_of("strategy", strategy, STRATEGIES)
    which = _resolve_moments(moments, strategy, problem)
    feeds = feeds_of(described, problem, which)
    smooth_clock = strategy == "precision" and which == "variance"
    draft = (strategies.precision_smooth if smooth_clock else STRATEGIES[strategy])(problem, feeds)
    return Plan(
        problem=problem,
        sources=described,
        strategy=strategy,
        moments=which,
        segments=draft.segments,
        bound=draft.bound,
        excess_bound=_excess_bound(problem, draft),
        theorem=draft.theorem,
        exchange=exchange(feeds),
        caveats=tuple(_caveats(problem, draft, which, len(described))),
    )


def rate_interval(
    sources: Iterable[Source],
    n_features: int,
    alpha: float = 1e-3,
    batch_size: int = 50,
    loss: str = "logistic",
    radius: str = "tight",
    clip: float | None = None,
) -> dict[str, tuple[float, float]]:
    """Interval to search for each source's learning rate: Algorithm 2 with lower and with upper moments.

    For two sources the second one's interval is the paper's [c₂(L), c₂(U)], in increasing order (Section 5). Both
    ends are for the order that the upper moments choose; Algorithm 2 with lower moments may choose another (on the
    paper's grid it does once, at d = 25 and ε_N = 1).

    Slip in the paper: it says to plug the moments into "Algorithm 1"; the one that selects rates is Algorithm 2.

    Examples
    --------
    >>> import uneven
    >>> clinic = uneven.Source("clinic", rows=6000, noise=uneven.LocalPrivacy(epsilon=10))
    >>> survey = uneven.Source("survey", rows=54000, noise=uneven.LocalPrivacy(epsilon=2))
    >>> interval = rate_interval([clinic, survey], n_features=25, radius="paper")
    >>> {name: [round(c) for c in ends] for name, ends in interval.items()}
    {'survey': [1000, 1000], 'clinic': [3278, 10994]}
    """
    described = checked_sources(sources)
    problem = Problem(n_features, alpha, batch_size, loss, radius, clip)
    upper = plan(described, **problem.to_dict(), strategy="two-rates", moments="upper")
    lower_feeds = {feed.sources[0]: feed for feed in feeds_of(described, problem, "lower")}
    lower = strategies.in_order(problem, [lower_feeds[name] for name in upper.order])
    ends: dict[str, tuple[float, float]] = {}
    for a, b in zip(upper.segments, lower.segments, strict=True):
        low, high = sorted(segment.schedule.rate for segment in (a, b))  # type: ignore[union-attr]
        ends[a.sources[0]] = (low, high)
    return ends


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


def _excess_bound(problem: Problem, draft: Draft) -> float | None:
    if draft.theorem == "Theorem B":
        return problem.alpha / 2.0 * draft.bound
    return problem.smoothness / 2.0 * draft.bound if problem.loss_function.smooth else None


def _caveats(problem: Problem, draft: Draft, which: str, count: int) -> Iterable[str]:
    if which == "lower":
        yield "Lower moments: the bound is what the formula gives, not a guarantee."
    if draft.theorem == "Theorem 3":
        yield "The bound is the leading term of Theorem 3 in the number of steps; shorter runs owe a little more."
    if draft.theorem == "Theorem 3" and which == "variance":
        yield "Theorem 3 is stated for second moments; for variances it holds once steps are below 2/(L + alpha)."
    if count > search.EXACT_SOURCES and len(draft.segments) > 1 and draft.theorem == "Theorem 3":
        yield f"More than {search.EXACT_SOURCES} sources: ordered in groups of like noise, perhaps not the best."
    if draft.bound >= problem.ball**2:
        yield (
            f"The bound promises nothing: the optimum is within {problem.ball**2:.4g} of 0 (squared) to begin with. "
            "The order and the step sizes are still the best that the theory knows."
        )


def _segment_to_dict(segment: Segment) -> dict[str, Any]:
    return {
        "sources": list(segment.sources),
        "rows": segment.rows,
        "batch_size": segment.batch_size,
        "moment": vars(segment.moment).copy(),
        "schedule": schedule_to_dict(segment.schedule),
    }


def _segment_from_dict(values: Mapping[str, Any]) -> Segment:
    return Segment(
        **{
            **values,
            "sources": tuple(values["sources"]),
            "moment": Moment(**values["moment"]),
            "schedule": schedule_from_dict(values["schedule"]),
        }
    )
