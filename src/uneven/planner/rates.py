"""Learning rates of step sizes c/t: a plan at other rates, and the interval to search for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from uneven import checks
from uneven.planner.planning import Plan, finish_plan, make_plan
from uneven.planner.segments import split_into_batches
from uneven.planner.source import Source, check_sources
from uneven.planner.strategies import STRATEGIES, draft_at_rates, draft_best_rates
from uneven.problem import USUAL_BATCH, Problem


def change_rates(planned: Plan, rates: Sequence[float]) -> Plan:
    """The same plan with other learning rates, and the bound of Theorem 3 at those.

    Where 2λc₁ ≤ 1 Theorem 3 has no bound, and the recursion's is used alone.

    Parameters
    ----------
    planned : Plan
        With step sizes c/t.
    rates : list of float
        The rate c of each segment.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import uneven
    >>> two = [uneven.Source("a", 1000), uneven.Source("b", 9000, uneven.FlippedLabels(0.3))]
    >>> best = uneven.plan(two, n_features=5, strategy="two-rates")
    >>> slower = change_rates(best, [0.6 * rate for rate in best.rates.values()])
    >>> slower.order == best.order, slower.bound > best.bound
    (True, True)
    """
    if planned.rates is None:
        raise ValueError(f"planned must have step sizes c/t, got strategy {planned.strategy!r}")
    if len(rates) != len(planned.segments):
        raise ValueError(f"rates must be {len(planned.segments)}, one per segment, got {len(rates)}")
    draft = draft_at_rates(planned.problem, planned.segments, [checks.positive("rates", rate) for rate in rates])
    return finish_plan(planned.sources, planned.problem, STRATEGIES[planned.strategy], planned.moments, draft, None)


def find_rate_intervals(sources: Iterable[Source], problem: Problem) -> dict[str, tuple[float, float]]:
    """Interval to search for each source's learning rate: see `rate_interval`, its wrapper with keywords.

    Parameters
    ----------
    sources : list of Source
    problem : Problem

    Returns
    -------
    dict
        For each source, in order of use, the ends of its interval.
    """
    described = check_sources(sources)
    upper = make_plan(described, problem, "two-rates", "upper")
    least = {one.name: split_into_batches([one], problem, _least_moments(one, problem))[0] for one in described}
    lower = draft_best_rates(problem, [least[name] for name in upper.order])
    ends: dict[str, tuple[float, float]] = {}
    for a, b in zip(upper.segments, lower.segments, strict=True):
        low, high = sorted(segment.schedule.rate for segment in (a, b))  # type: ignore[union-attr]
        ends[a.sources[0]] = (low, high)
    return ends


def rate_interval(
    sources: Iterable[Source],
    n_features: int,
    alpha: float = 1e-3,
    batch_size: int = USUAL_BATCH,
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

    Parameters
    ----------
    sources : list of Source
        As in `plan`.
    n_features, alpha, batch_size, loss, radius, clip, norms, eigenvalue
        As in `uneven.plan`.

    Returns
    -------
    dict
        For each source, in order of use, the ends of its interval.

    Examples
    --------
    >>> import uneven
    >>> clinic = uneven.Source("clinic", rows=6000, noise=uneven.LocalPrivacy(10, "l2-laplace"))
    >>> survey = uneven.Source("survey", rows=54000, noise=uneven.LocalPrivacy(2, "l2-laplace"))
    >>> interval = rate_interval([clinic, survey], n_features=25, radius="paper")
    >>> {name: [round(c) for c in ends] for name, ends in interval.items()}
    {'survey': [1000, 1000], 'clinic': [3278, 10994]}
    """
    problem = Problem(n_features, alpha, batch_size, loss, radius, clip, norms, eigenvalue)
    return find_rate_intervals(sources, problem)


def _least_moments(source: Source, problem: Problem) -> str:
    return "lower" if source.noise.moment("lower", problem).at(1) > 0 else "variance"
