"""What a draft guarantees: its bound evaluated step by step, what that says of the objective, and its caveats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from uneven import theory
from uneven.checks import join_words
from uneven.noise import FEATURES_WARNING
from uneven.planner import search
from uneven.planner.prediction import CURVATURES, has_prediction, predict_typical
from uneven.planner.segments import Batches, Segment, compute_step_sizes
from uneven.planner.source import Source
from uneven.planner.strategies import Draft, Strategy
from uneven.problem import Problem
from uneven.schedules import LATE, find_late_window
from uneven.words import format_number

EVALUATED_STEPS = 1_000_000
"""Up to this many steps, a bound by a leading term is the larger of that and the recursion step by step."""


ASSUMED = "The bound assumes a mean gradient norm of at most"
"""How a caveat begins that is about a bound alone."""

USELESS = "The bound is of no use"
"""How the caveat begins that says so."""


def evaluate_bound(problem: Problem, segments: Sequence[Segment], moments: str) -> float:
    """Bound on E‖w - w*‖² by the recursion for these moments, step by step: see `Plan.evaluated_bound`."""
    eta = np.concatenate(compute_step_sizes(segments))
    gamma2 = np.concatenate([segment.moments() for segment in segments])
    lam, ball = problem.alpha, problem.ball
    if moments != "variance":
        return theory.recursion_bound(eta, gamma2, lam, start=ball**2)
    # The contraction by (1 - λη)² needs η ≤ 2/(L + λ). Up to the last longer step only the ball is known to hold both
    # w and w*, so the recursion starts after it, from the squared diameter.
    too_long = np.flatnonzero(eta > 2.0 / (problem.smoothness + lam) * (1 + 1e-12))
    first, start = (int(too_long[-1]) + 1, 4.0 * ball**2) if len(too_long) else (0, ball**2)
    return theory.contraction_bound(eta[first:], gamma2[first:], lam, start)


def complete_bound(problem: Problem, draft: Draft, moments: str) -> Draft:
    """Draft whose bound, if a leading term, is at least the recursion's, and the recursion's alone if infinite."""
    if not draft.theorem.leading_term or _count_steps(draft) > EVALUATED_STEPS:
        return draft
    exact = evaluate_bound(problem, draft.segments, moments)
    return replace(draft, bound=exact if math.isinf(draft.bound) else max(draft.bound, exact))


def bound_excess(problem: Problem, draft: Draft) -> float | None:
    """Bound on E f(w) - f*: (L/2)·bound for a smooth loss; the average's own, (λ/2)·bound; None for a kink."""
    if draft.theorem.iterate == "average":
        return problem.alpha / 2.0 * draft.bound
    return problem.smoothness / 2.0 * draft.bound if problem.loss_function.smooth else None


def bound_late_average(problem: Problem, segments: Sequence[Segment], bound: float, private: bool) -> float:
    """Bound for the late average. Without an offset by convexity: the largest of its iterates' bounds."""
    offset = getattr(segments[0].schedule, "offset", 0.0)
    if offset == 0.0:
        return bound / (1.0 - LATE)  # Theorem A at the start of the average
    precision = sum(segment.precision for segment in segments)
    largest = max(
        1.0 / segment.step_moment for segment in segments
    )  # the first step averaged may begin so much earlier
    after, share = find_late_window(precision, offset, private, problem.smoothness, problem.alpha, problem.n_features)
    start = max(after - largest, 0.0) if precision > after else precision
    late = theory.theorem_c_late_bound(precision, problem.alpha, problem.ball, offset, start, share)
    return min(late, theory.theorem_c_bound(start, problem.alpha, problem.ball, offset))  # that of its first iterate


def find_caveats(
    problem: Problem, strategy: Strategy, batches: Sequence[Batches], draft: Draft, moments: str
) -> Iterator[str]:
    """Caveats of the bound, one sentence each."""
    if moments == "lower":
        yield "Lower moments: the bound is what the formula gives, not a guarantee."
    if draft.theorem.leading_term and _count_steps(draft) > EVALUATED_STEPS:
        yield (
            f"The bound is the leading term of {draft.theorem.name}; the terms left out shrink faster with the number "
            "of steps."
        )
    if strategy.searches_order and len(batches) > search.EXACT_SOURCES:
        yield f"More than {search.EXACT_SOURCES} sources: ordered in groups of similar noise, perhaps not optimally."
    if draft.theorem.has_offset and len(batches) > 1:
        cleanest = min(batches, key=lambda one: one.noise_level)
        rest = [one for one in batches if one is not cleanest]
        without = strategy.drafter(moments)(problem, rest).bound
        if without < draft.bound:
            yield (
                f"Without {cleanest.sources[0]!r} the bound would be smaller, {format_number(without)}: it is so clean "
                "that it limits the step sizes of all sources, and it has too few rows to make up for that."
            )
    if draft.bound >= problem.ball**2:
        yield f"{USELESS}: all-zero weights meet it too, since ‖w*‖² is at most {problem.ball**2:.4g}."


def find_conditions(sources: Iterable[Source], problem: Problem, moments: str) -> Iterator[str]:
    """What the bound assumes of rows, where a noise's variance rests on how long gradients are on average."""
    planned = [s for s in sources if s.noise.planned_energy(problem) < s.noise.row_energy(problem)]
    if moments == "variance" and planned:
        each = [(s.name, s.noise.observed_among(problem.classes).protection) for s in planned]
        shares = {name: f"{getattr(noise, 'activity', 1.0):g} × clip" for name, noise in each}
        same = len(set(shares.values())) == 1 and len(shares) > 1
        named = (
            f"{shares[each[0][0]]} for all private sources"
            if same
            else join_words([f"{one} for {name!r}" for name, one in shares.items()])
        )
        yield f"{ASSUMED} {named}; set activity = 1 to drop the assumption."


def warn_unprotected(sources: Iterable[Source]) -> list[str]:
    """A warning for each source whose labels alone are private."""
    return [FEATURES_WARNING.format(repr(s.name)) for s in sources if s.noise.private and not s.noise.protects_features]


def warn_no_better(sources: Sequence[Source], problem: Problem, segments: Sequence[Segment]) -> list[str]:
    """A warning where all rows are private and their noise is predicted to undo what a typical problem has to learn."""
    if not segments or not all(s.noise.private for s in sources) or not has_prediction(segments):
        return []
    typical = predict_typical(problem, segments, CURVATURES[1])
    if typical.excess < typical.excess_of_nothing:
        return []
    return [
        "The model may be no better than predicting nothing: all rows are private, and for a typical problem their "
        "noise is predicted to outweigh what they tell. More rows, a larger ε, or some rows without privacy would help."
    ]


def _count_steps(draft: Draft) -> int:
    return sum(segment.steps for segment in draft.segments)
