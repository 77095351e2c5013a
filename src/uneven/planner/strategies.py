"""Strategies as values: how each orders the sources and sizes the steps, and the theorem its bound rests on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uneven import checks, theory
from uneven.noise import MOMENTS, Moment
from uneven.planner import search
from uneven.planner.segments import Batches, Segment, sort_clean_first, sort_noisy_first
from uneven.problem import PRIVATE_CLIP, Problem
from uneven.schedules import Anytime, Averaged, Precision, Rate, Schedule


@dataclass(frozen=True)
class Theorem:
    """What a bound rests on.

    Attributes
    ----------
    name : str
    iterate : {"last", "average"}
        Which iterate the bound is of. Only the last one has a recursion that can be evaluated step by step.
    leading_term : bool
        Whether the closed form leaves out terms that shrink faster with the number of steps.
    has_offset : bool
        Whether the clock starts at an offset, which the cleanest source sets for all.
    """

    name: str
    iterate: str = "last"
    leading_term: bool = False
    has_offset: bool = False


THEOREM_3 = Theorem("Theorem 3", leading_term=True)
THEOREM_A = Theorem("Theorem A")
THEOREM_B = Theorem("Theorem B", iterate="average")
THEOREM_C = Theorem("Theorem C", has_offset=True)
ANYTIME = Theorem("Theorem B at any time", iterate="average")


@dataclass(frozen=True)
class Draft:
    """What a strategy decides: the segments, the bound on E‖w - w*‖² and the theorem behind it."""

    segments: tuple[Segment, ...]
    bound: float
    theorem: Theorem


Drafter = Callable[[Problem, Sequence[Batches]], Draft]


@dataclass(frozen=True)
class Strategy:
    """A way to order the sources and size the steps.

    Attributes
    ----------
    name : str
    draft : callable
        ``draft(problem, batches)`` decides on segments and their bound.
    draft_smooth : callable or None
        The same from variances, where a smooth loss gives a better guarantee; then variances are the usual moments.
    accepts_variance : bool
        Whether the guarantee holds with variances in place of second moments.
    average : {"last", "late", "steps"}
        Which iterate is the answer of a run.
    can_continue : bool
        Whether a run can go on with more rows, as in `partial_fit`.
    private_clip : float or None
        Usual clip where a source is private.
    shuffles : bool
        Whether all sources are shuffled together.
    searches_order : bool
        Whether the order is searched for; it may not be the best one of many sources.
    searches_rate : bool
        Whether runs at other learning rates of the second source may be compared (the paper's line search).
    own_batches : bool
        Whether each source may have a batch size of its own.
    from_paper : bool
    """

    name: str
    draft: Drafter
    draft_smooth: Drafter | None = None
    accepts_variance: bool = True
    average: str = "last"
    can_continue: bool = False
    private_clip: float | None = None
    shuffles: bool = False
    searches_order: bool = False
    searches_rate: bool = False
    own_batches: bool = False
    from_paper: bool = True

    def drafter(self, moments: str) -> Drafter:
        """The draft function for these moments."""
        return self.draft_smooth if self.draft_smooth is not None and moments == "variance" else self.draft

    def usual_moments(self, problem: Problem) -> str:
        """Moments that "auto" stands for: variances where they give a better guarantee, else upper moments."""
        return "variance" if self.draft_smooth is not None and problem.loss_function.smooth else "upper"

    def usual_clip(self, private: bool) -> float | None:
        """Clip that "auto" stands for."""
        return self.private_clip if private else None

    def resolve_moments(self, moments: str, problem: Problem) -> str:
        """Moments to use: those asked for, the usual ones for "auto", or an error if no guarantee holds with them."""
        checks.one_of("moments", moments, ("auto", *MOMENTS))
        if moments == "auto":
            return self.usual_moments(problem)
        if moments == "variance" and not problem.loss_function.smooth:
            raise ValueError(
                f"moments must be 'auto', 'upper' or 'lower' with the loss {problem.loss!r}, which has a kink: a "
                "guarantee from variances needs a smooth loss; got 'variance'"
            )
        if moments == "variance" and not self.accepts_variance:
            raise ValueError(
                f"moments must be 'auto', 'upper' or 'lower' with strategy {self.name!r}: its guarantee holds for "
                "second moments; got 'variance'"
            )
        return moments


def draft_precision(problem: Problem, batches: Sequence[Batches]) -> Draft:
    """One clock for all, advanced by second moments (Theorem A); the noisiest source first."""
    total = sum(one.precision for one in batches)
    segments = _schedule_all(sort_noisy_first(batches), Precision(problem.alpha))
    return Draft(segments, theory.theorem_a_bound(total, problem.alpha), THEOREM_A)


def draft_precision_smooth(problem: Problem, batches: Sequence[Batches]) -> Draft:
    """One clock for all, advanced by variances, with its offset (Theorem C); the noisiest source first."""
    lam, total = problem.alpha, sum(one.precision for one in batches)
    largest = max(1.0 / one.step_moment for one in batches)
    offset = theory.theorem_c_offset(largest, lam, problem.smoothness, problem.ball)
    segments = _schedule_all(sort_noisy_first(batches), Precision(lam, offset))
    return Draft(segments, theory.theorem_c_bound(total, lam, problem.ball, offset), THEOREM_C)


def draft_averaged(problem: Problem, batches: Sequence[Batches]) -> Draft:
    """Steps a/γ² and the average iterate (Theorem B).

    The theorem bounds f(w̄) - f*; strong convexity, f(w) - f* ≥ (λ/2)‖w - w*‖², turns that into a distance.
    """
    total = sum(one.precision for one in batches)
    schedule = Averaged(theory.theorem_b_scale(total, problem.ball))
    bound = 2.0 / problem.alpha * theory.theorem_b_bound(total, problem.ball)
    return Draft(_schedule_all(sort_noisy_first(batches), schedule), bound, THEOREM_B)


def draft_anytime(problem: Problem, batches: Sequence[Batches]) -> Draft:
    """Steps R/(γ²√τ), of order 1/√t, and the average iterate: as "averaged", for an unknown number of steps."""
    ordered, total = sort_noisy_first(batches), sum(one.precision for one in batches)
    first = 1.0 / max(ordered[0].step_moment, ordered[0].last_moment)
    bound = 2.0 / problem.alpha * theory.anytime_bound(total, first, problem.ball)
    return Draft(_schedule_all(ordered, Anytime(problem.ball)), bound, ANYTIME)


def draft_two_rates(problem: Problem, batches: Sequence[Batches]) -> Draft:
    """Algorithm 2 of the paper, for any number of sources: the best order, and the best rate for each."""
    order = search.find_best_order(*_moments_and_steps(batches), problem.alpha)
    return draft_best_rates(problem, [batches[k] for k in order])


def draft_best_rates(problem: Problem, batches: Sequence[Batches]) -> Draft:
    """Best rate for each source in the given order."""
    moments, steps = _moments_and_steps(batches)
    kappas, _ = search.find_best_rates(np.arange(len(batches))[None], moments, steps, problem.alpha)
    return _draft_rates(problem, batches, [float(kappa) for kappa in kappas[0]])


def draft_same_rate_clean_first(problem: Problem, batches: Sequence[Batches]) -> Draft:
    """SameClean: one rate for all, the cleanest source first."""
    return _draft_same_rate(problem, sort_clean_first(batches))


def draft_same_rate_noisy_first(problem: Problem, batches: Sequence[Batches]) -> Draft:
    """SameNoisy: one rate for all, the noisiest source first."""
    return _draft_same_rate(problem, sort_noisy_first(batches))


def draft_clean_only(problem: Problem, batches: Sequence[Batches]) -> Draft:
    """CleanOnly: the cleanest source alone (of several, the largest), with c = 1/λ."""
    return _draft_same_rate(problem, [min(batches, key=lambda one: (one.noise_level, -one.rows))])


def draft_arbitrary(problem: Problem, batches: Sequence[Batches]) -> Draft:
    """All rows shuffled together, with c = 1/λ.

    The bound is linear in each step's γ², so its mean over shuffles is the bound at the mean γ², each source weighted
    by its rows. What is added once per batch is added for each source that has rows in it: at most for all of them.
    """
    rows = sum(one.rows for one in batches)
    mixed = Moment(
        fixed=sum(one.rows * one.moment.fixed for one in batches) / rows,
        per_row=sum(one.rows * one.moment.per_row for one in batches) / rows,
        per_batch=sum(one.moment.per_batch for one in batches),
    )
    names = tuple(name for one in batches for name in one.sources)
    return _draft_same_rate(problem, [replace(batches[0], sources=names, rows=rows, moment=mixed)])


def draft_at_rates(problem: Problem, segments: Sequence[Segment], rates: Sequence[float]) -> Draft:
    """The same segments with steps c/t at other rates; infinite where Theorem 3 has no bound, for 2λc₁ ≤ 1."""
    kappas = [2.0 * problem.alpha * rate for rate in rates]
    bound = _theorem3_bound(problem, segments, kappas) if kappas[0] > 1.0 else np.inf
    changed = (replace(one, schedule=Rate(rate)) for one, rate in zip(segments, rates, strict=True))
    return Draft(tuple(changed), bound, THEOREM_3)


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy(
            "precision",
            draft_precision,
            draft_precision_smooth,
            average="late",
            can_continue=True,
            private_clip=PRIVATE_CLIP,
            own_batches=True,
            from_paper=False,
        ),
        Strategy(
            "averaged", draft_averaged, accepts_variance=False, average="steps", own_batches=True, from_paper=False
        ),
        Strategy("anytime", draft_anytime, accepts_variance=False, average="steps", own_batches=True, from_paper=False),
        Strategy("two-rates", draft_two_rates, searches_order=True, searches_rate=True),
        Strategy("same-rate-clean-first", draft_same_rate_clean_first),
        Strategy("same-rate-noisy-first", draft_same_rate_noisy_first),
        Strategy("clean-only", draft_clean_only),
        Strategy("arbitrary", draft_arbitrary, shuffles=True),
    )
}
"""Every strategy that can be planned without rows, by name."""

ANCHORED = Strategy(
    "anchored", draft_precision, draft_precision_smooth, private_clip=PRIVATE_CLIP, own_batches=True, from_paper=False
)
"""Public rows to convergence, then private ones by the matrix clock: planned by a fit, from its public rows."""

THEOREM_D = Theorem("Theorem D")


def get_strategy(name: str) -> Strategy:
    """Strategy of this name.

    >>> get_strategy("averaged").average
    'steps'
    """
    if name == ANCHORED.name:
        return ANCHORED
    return STRATEGIES[checks.one_of("strategy", name, STRATEGIES)]


def _draft_same_rate(problem: Problem, batches: Sequence[Batches]) -> Draft:
    kappa = 2.0  # c = 1/λ, the best rate for a single source
    if len(batches) > 1:
        kappa, _ = search.find_best_shared_rate(*_moments_and_steps(batches), problem.alpha)
    return _draft_rates(problem, batches, [kappa] * len(batches))


def _draft_rates(problem: Problem, batches: Sequence[Batches], kappas: Sequence[float]) -> Draft:
    segments = [
        _add_schedule(one, Rate(kappa / (2 * problem.alpha))) for one, kappa in zip(batches, kappas, strict=True)
    ]
    return Draft(tuple(segments), _theorem3_bound(problem, batches, kappas), THEOREM_3)


def _theorem3_bound(problem: Problem, batches: Sequence[Batches], kappas: Sequence[float]) -> float:
    """Theorem 3's bound for steps c/t, and what the short last batch of each source adds to it.

    A last batch noisier than the others by δ adds η²δ at its step, which fades with the sources after it.
    """
    lam, bound, before = problem.alpha, 0.0, 0
    for one, kappa in zip(batches, kappas, strict=True):
        bound = float(theory.segment_bound(bound, one.step_moment, before, one.steps, kappa, lam))
        before += one.steps
        bound += (kappa / (2.0 * lam * before)) ** 2 * (one.last_moment - one.step_moment)
    return bound


def _moments_and_steps(batches: Sequence[Batches]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    steps = np.array([one.steps for one in batches], dtype=np.float64)
    return np.array([one.step_moment for one in batches]), steps


def _schedule_all(batches: Sequence[Batches], schedule: Schedule) -> tuple[Segment, ...]:
    return tuple(_add_schedule(one, schedule) for one in batches)


def _add_schedule(batches: Batches, schedule: Schedule) -> Segment:
    return Segment(**vars(batches), schedule=schedule)
