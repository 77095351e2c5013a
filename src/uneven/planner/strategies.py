"""One function per strategy: described sources in, segments in order of use and their promise out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uneven import theory
from uneven.noise import Moment
from uneven.planner import search
from uneven.planner.segments import Feed, Segment, clean_first, noisy_first
from uneven.problem import Problem
from uneven.schedules import Averaged, Precision, Rate, Schedule


@dataclass(frozen=True)
class Draft:
    """What a strategy decides: the segments, the bound on E‖w - w*‖² and the theorem behind it."""

    segments: tuple[Segment, ...]
    bound: float
    theorem: str


def precision(problem: Problem, feeds: Sequence[Feed]) -> Draft:
    """One clock for all, advanced by second moments (Theorem A); the noisiest source first."""
    total = sum(feed.precision for feed in feeds)
    segments = _under(noisy_first(feeds), Precision(problem.alpha))
    return Draft(segments, theory.theorem_a_bound(total, problem.alpha), "Theorem A")


def precision_smooth(problem: Problem, feeds: Sequence[Feed]) -> Draft:
    """One clock for all, advanced by variances, with its offset (Theorem C); the noisiest source first."""
    lam, total = problem.alpha, sum(feed.precision for feed in feeds)
    largest = max(1.0 / feed.step_moment for feed in feeds)
    offset = theory.theorem_c_offset(largest, lam, problem.smoothness, problem.ball)
    segments = _under(noisy_first(feeds), Precision(lam, offset))
    return Draft(segments, theory.theorem_c_bound(total, lam, problem.ball, offset), "Theorem C")


def averaged(problem: Problem, feeds: Sequence[Feed]) -> Draft:
    """Steps a/γ² and the average iterate (Theorem B); strong convexity turns its promise into a distance."""
    total = sum(feed.precision for feed in feeds)
    schedule = Averaged(theory.theorem_b_scale(total, problem.ball))
    bound = 2.0 / problem.alpha * theory.theorem_b_bound(total, problem.ball)
    return Draft(_under(noisy_first(feeds), schedule), bound, "Theorem B")


def two_rates(problem: Problem, feeds: Sequence[Feed]) -> Draft:
    """Algorithm 2 of the paper, for any number of sources: the best order, and the best rate for each."""
    return in_order(problem, [feeds[k] for k in search.best_order(*_moments_and_steps(feeds), problem.alpha)])


def in_order(problem: Problem, feeds: Sequence[Feed]) -> Draft:
    """Best rate for each source in the given order."""
    moments, steps = _moments_and_steps(feeds)
    kappas, _ = search.best_rates(np.arange(len(feeds))[None], moments, steps, problem.alpha)
    return _rate_draft(problem, feeds, [float(kappa) for kappa in kappas[0]])


def same_rate_clean_first(problem: Problem, feeds: Sequence[Feed]) -> Draft:
    """SameClean: one rate for all, the cleanest source first."""
    return _same_rate(problem, clean_first(feeds))


def same_rate_noisy_first(problem: Problem, feeds: Sequence[Feed]) -> Draft:
    """SameNoisy: one rate for all, the noisiest source first."""
    return _same_rate(problem, noisy_first(feeds))


def clean_only(problem: Problem, feeds: Sequence[Feed]) -> Draft:
    """CleanOnly: the cleanest source alone (of several, the largest), with c = 1/λ."""
    return _same_rate(problem, [min(feeds, key=lambda feed: (feed.noise_level, -feed.rows))])


def arbitrary(problem: Problem, feeds: Sequence[Feed]) -> Draft:
    """All rows shuffled together, with c = 1/λ.

    The bound is linear in each step's γ², so over the shuffles it is that of the mean γ², each source weighted by its
    rows.
    """
    rows = sum(feed.rows for feed in feeds)
    mixed = Moment(
        fixed=sum(feed.rows * feed.moment.fixed for feed in feeds) / rows,
        per_row=sum(feed.rows * feed.moment.per_row for feed in feeds) / rows,
    )
    names = tuple(name for feed in feeds for name in feed.sources)
    return _same_rate(problem, [replace(feeds[0], sources=names, rows=rows, moment=mixed)])


STRATEGIES: dict[str, Callable[[Problem, Sequence[Feed]], Draft]] = {
    "precision": precision,
    "averaged": averaged,
    "two-rates": two_rates,
    "same-rate-clean-first": same_rate_clean_first,
    "same-rate-noisy-first": same_rate_noisy_first,
    "clean-only": clean_only,
    "arbitrary": arbitrary,
}


def _same_rate(problem: Problem, feeds: Sequence[Feed]) -> Draft:
    kappa = 2.0
    if len(feeds) > 1:
        kappa, _ = search.best_shared_rate(*_moments_and_steps(feeds), problem.alpha)
    return _rate_draft(problem, feeds, [kappa] * len(feeds))


def at_rates(problem: Problem, segments: Sequence[Segment], rates: Sequence[float]) -> Draft:
    """The same segments with steps c/t at other rates; infinite where Theorem 3 has no bound, for 2λc₁ ≤ 1."""
    kappas = [2.0 * problem.alpha * rate for rate in rates]
    bound = _theorem3(problem, segments, kappas) if kappas[0] > 1.0 else np.inf
    changed = (replace(one, schedule=Rate(rate)) for one, rate in zip(segments, rates, strict=True))
    return Draft(tuple(changed), bound, "Theorem 3")


def _rate_draft(problem: Problem, feeds: Sequence[Feed], kappas: Sequence[float]) -> Draft:
    rates = [Rate(kappa / (2.0 * problem.alpha)) for kappa in kappas]
    return Draft(tuple(map(_segment, feeds, rates)), _theorem3(problem, feeds, kappas), "Theorem 3")


def _theorem3(problem: Problem, feeds: Sequence[Feed], kappas: Sequence[float]) -> float:
    """Theorem 3's bound for steps c/t, and what the short last batch of each source adds to it.

    A last batch noisier than the others by δ adds η²δ at its step, which fades with the sources after it.
    """
    lam, bound, before = problem.alpha, 0.0, 0
    for feed, kappa in zip(feeds, kappas, strict=True):
        bound = float(theory.segment_bound(bound, feed.step_moment, before, feed.steps, kappa, lam))
        before += feed.steps
        bound += (kappa / (2.0 * lam * before)) ** 2 * (feed.last_moment - feed.step_moment)
    return bound


def _moments_and_steps(feeds: Sequence[Feed]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return (
        np.array([feed.step_moment for feed in feeds]),
        np.array([feed.steps for feed in feeds], dtype=np.float64),
    )


def _under(feeds: Sequence[Feed], schedule: Schedule) -> tuple[Segment, ...]:
    return tuple(_segment(feed, schedule) for feed in feeds)


def _segment(feed: Feed, schedule: Schedule) -> Segment:
    return Segment(**vars(feed), schedule=schedule)
