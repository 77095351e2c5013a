"""Never worse than predicting nothing: rows that took no step learn how long the weights are.

Noise makes weights too long: where all sources are very noisy, their direction is fair and their length is not. Some
rows are kept. Those learn one number, s of the score s·(wᵀx + b): a private row says far more about one number than
about d weights. No prediction changes but its probability, and each row is still used once.

With an intercept, predicting nothing is to predict the shares of the classes. Some of the kept rows tell those
(`shares`); where they are clearly unequal, with b₀ for their scores, s is that of b₀ + s·(wᵀx + b - b₀).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from uneven.engine import State, Task, check_rows, compiled_advance, iterate_chunks, make_generator
from uneven.noise import LocalPrivacy, Noise
from uneven.planner import (
    CUT,
    FLATTER,
    MOST_KEPT,
    SPREAD,
    TRUSTED,
    Plan,
    expect_longest,
    expect_missed,
    expect_scale_of,
    make_plan,
)
from uneven.problem import Problem
from uneven.schedules import MatrixClock
from uneven.softmax import centre_weights
from uneven.training.class_calibration import ClassDirection, Lesson, Reached, make_class_lesson

Array = NDArray[np.float64]

SURE, KEEN = 1.5, 0.05
"""Standard errors that are taken from the length found, at most, since the objective of predicting nothing is known
without error; and the standard error up to which none are: then little can be lost, ½SE² of what steps alone cost."""

WIDER = 2.0
"""Scores may spread so many times as much as `SPREAD` says: 2.5 times for rows of norm 1, alike in all directions."""

SLIGHT, CLEAR = 0.5, 0.7
"""Length up to which scores that spread more than expected are allowed for in full, and from which on not at all: it
takes a strong signal to find such a length, which spreads the scores by itself and asks for longer weights still."""

BELIEF = 0.4
"""Standard deviation of the best multiple around what is expected of weights of their length, added to shares."""

LONGEST = MOST_KEPT / (MOST_KEPT - 1.0)
"""Largest multiple of the weights: where each row adds as much to them, and one in `MOST_KEPT` took no step."""

FLOOR = 1e-3
"""Least multiple of the weights: as good as 0 for probabilities, and classes are still predicted."""

QUIETEST = 1e-6
"""Least length of slopes that noise is chosen for, in units of the longest."""

DOUBTFUL = (
    "So noisy rows are expected to give weights that are no better than predicting nothing, and none of them was kept "
    "to learn how long the weights should be."
)


@dataclass(frozen=True)
class Direction:
    """The score s·(wᵀx + b) as a problem of one number, s: its feature is the score wᵀx + b, cut at ±width.

    `constant` is the value of the intercept's feature, the last weight's; 0 for none. The score is added to `offset`.
    """

    weights: Array
    constant: float
    offset: float = 0.0

    @property
    def intercept(self) -> float:
        """b; 0 for none."""
        return float(self.weights[-1]) * self.constant

    @property
    def shares(self) -> tuple[float, float]:
        """Of the classes, as the offset predicts them."""
        return float(expit(-self.offset)), float(expit(self.offset))

    @property
    def bend(self) -> float:
        """Curvature of the logistic loss at the offset."""
        return math.prod(self.shares)

    @property
    def slope_weights(self) -> Array:
        """All but the intercept's."""
        return self.weights[:-1] if self.constant else self.weights

    @property
    def spread(self) -> float:
        """Standard deviation of the scores that is expected, of rows in the unit ball and a noisy w."""
        slopes = self.slope_weights
        return SPREAD * float(np.linalg.norm(slopes)) / math.sqrt(max(len(slopes), 1))

    @property
    def width(self) -> float:
        """Scores are cut at plus and minus this."""
        return CUT * self.spread + abs(self.intercept)

    def expect_squares(self) -> Array:
        """E u², E uv and E v² of normal scores u, and v as they are cut, in units of the width squared."""
        points = np.linspace(-8.0, 8.0, 2001)
        shares = np.exp(-(points**2) / 2.0)
        scores = (self.intercept + self.spread * points) / self.width
        cut = np.clip(scores, -1.0, 1.0)
        return np.asarray([scores**2, scores * cut, cut**2] @ (shares / shares.sum()))

    def describe_rows(self, X: Any) -> NDArray[np.float32]:
        """Feature of rows as scaled, as a column; a hair less than 1 at most, for float32."""
        # Row by row, so that pieces of any size give the same numbers.
        scores = np.einsum("ij,j->i", X, self.weights)
        return np.asarray(np.clip(scores / self.width, -1.0, 1.0) * (1.0 - 1e-6), dtype=np.float32)[:, None]

    def slopes(self, features: Array, found: float, targets: Array) -> Array:
        """Slope of each row's loss where s·width is `found`, at most 1; targets stand for labels (`softmax`)."""
        v = features[:, 0].astype(np.float64)
        positive = expit(self.offset + found * v)
        slopes = np.column_stack([positive, positive - 1.0])
        return np.asarray(v * (targets * slopes).sum(axis=1))


def describe_scale(scale: float, rows: int, unequal: bool = False) -> str:
    """One sentence for the reader of a fit; `unequal` where the classes' shares are what is predicted of nothing."""
    kept = f"{rows:,} private rows were held back to calibrate the scale of the weights"
    if scale == 1.0:
        return f"{kept}; no rescaling was needed."
    if scale == FLOOR:
        nothing = "the shares of the classes" if unequal else "nothing"
        return (
            f"{kept}; they show no clear sign that the weights separate the classes, so the model predicts {nothing} "
            f"(its weights were multiplied by {FLOOR:g})."
        )
    why = "because of noise" if scale < 1.0 else "since the steps were too few to reach their full length"
    return f"{kept}; the weights were multiplied by {scale:.2f}, {why}."


def doubt_steps(plan: Plan) -> tuple[str, ...]:
    """What is said where steps on private rows alone are expected to end no better than nothing, and none are kept."""
    if plan.kept or plan.converged or not all(source.noise.protects_features for source in plan.sources):
        return ()
    problem = plan.problem if plan.problem.outputs > 1 else replace(plan.problem, loss="logistic")  # for a prediction
    return (DOUBTFUL,) if make_plan(plan.sources, problem).expected_scale < TRUSTED else ()


def find_scale(
    direction: Direction | ClassDirection, rows: Mapping[str, Any], plan: Plan, seed: int | None, run: int = 0
) -> float:
    """How many times as long the weights should be, at least `FLOOR`, by the kept rows.

    Parameters
    ----------
    direction : Direction or ClassDirection
        The weights after all steps.
    rows : dict of str to (features, y) or Stream
        Of each source with kept rows: its `describe_rows` of those, and labels of -1 and 1, or numbers of classes.
    plan : Plan
    seed : int or None
    run : int
        Number of the run, in a simulation of several.

    Returns
    -------
    float
    """
    if not direction.width:
        return 1.0
    return choose_scale(direction, plan, *prepare_lesson(direction, plan).learn(rows, plan, seed, run))


def prepare_lesson(direction: Direction | ClassDirection, plan: Plan) -> Lesson:
    """How the kept rows of a plan learn the length; that of the hinge by the logistic loss, which is shorter."""
    smooth = take_smooth(plan)
    return make_lesson(direction, smooth.problem, expect_deviation(smooth))


def choose_scale(direction: Direction | ClassDirection, plan: Plan, found: float, known: float) -> float:
    """How many times as long the weights should be, by the best s as found, and 1/variance of what rows say of it.

    Where no row says anything, as when no site answers, nobody vouches for the weights: `FLOOR`.
    """
    if not known:
        return FLOOR
    smooth = take_smooth(plan)
    problem, segments, prior = smooth.problem, smooth.segments, expect_deviation(smooth)
    if direction.offset if isinstance(direction, Direction) else direction.offsets:
        slopes = direction.slope_weights
        expected = expect_scale_of(problem, segments, float(np.sum(slopes**2)), slopes.size, direction.shares)
        return choose_scale_from_shares(found, known, prior, expected)
    missed = expect_missed(problem, segments, make_plan(smooth.sources, problem).segments)
    if expect_scale_of(problem, segments, 0.0, 1) >= 1.0 and known < 1.0 / BELIEF**2:
        found, known = join_expected(found, known, prior, 1.0, 1.0 / BELIEF**2 - known)
    return choose_weight_scale(found, known, prior, doubt_spread(direction, problem), missed)


def take_smooth(plan: Plan) -> Plan:
    """The plan with the logistic loss in place of one that has a kink: for the length alone, its steps stay."""
    if plan.problem.loss_function.smooth:
        return plan
    return replace(plan, problem=replace(plan.problem, loss="logistic"))


def doubt_spread(direction: Direction | ClassDirection, problem: Problem) -> float:
    """Part of the s found that may be too much, because scores may spread more than expected: up to `WIDER` times.

    With k and p the curvatures of the loss and of the penalty along the weights, the best s is rg/(r²k + p) for scores
    that spread r times as much as expected: least at one end of 1 ≤ r ≤ `WIDER`, in units of what r = 1 gives.
    """
    own, penalty = FLATTER * direction.bend * direction.spread**2, problem.alpha * float(np.sum(direction.weights**2))
    return max(0.0, 1.0 - WIDER * (own + penalty) / (WIDER**2 * own + penalty))


def expect_deviation(plan: Plan) -> float:
    """Standard deviation of the best s before any row is seen, at least 1: the strongest signal's is two of them."""
    return max(1.0, expect_longest(plan.problem, plan.segments) / 2.0)


def make_direction(
    weights: Array, constant: float, problem: Problem, offsets: ArrayLike = ()
) -> Direction | ClassDirection:
    """Weights after all steps, less those of the offsets, with the value of the intercept's feature."""
    unequal = tuple(np.asarray(offsets, dtype=float).tolist()) if np.any(offsets) else ()
    if problem.outputs == 1:
        return Direction(weights, constant, *unequal)
    return ClassDirection(centre_weights(weights, problem.classes), constant, problem.classes, unequal)


def make_lesson(direction: Direction | ClassDirection, problem: Problem, prior: float = 1.0) -> Lesson:
    """How kept rows learn the best s by Theorem D in one dimension.

    The start is s = 0, which is to predict nothing, with a standard deviation of `prior`.
    """
    if isinstance(direction, ClassDirection):
        return make_class_lesson(direction, problem, prior)
    width = direction.width
    alpha = 0.0 if direction.offset else problem.alpha  # the shares have no penalty to be compared with
    steepest, penalty = problem.loss_function.curvature, alpha * float(np.sum(direction.weights**2)) / width**2
    # With u the score and v as it is cut, rows tell E (p - σ(sv))v where E (p - σ(su))u - λs‖w‖² should be 0. Along a
    # quadratic the same s is found if the curvature E uv·(E u²ℓ'' + λ‖w‖²)/E u² is made up of E v²ℓ'' and a penalty.
    whole, mixed, cut = FLATTER * direction.bend * direction.expect_squares()
    curvature = float(mixed / whole * (whole + penalty))
    rest = curvature - float(cut)
    clock = MatrixClock(((prior * width) ** 2,), (curvature,), 2.0 / (steepest + rest))
    if direction.offset:
        capped = replace(problem, clip=1.0)  # no slope is above 1: none is cut
        return OffsetLesson(capped, clock, rest, width, direction.describe_rows, direction.slopes, bend=direction.bend)
    return StepLesson(problem, clock, rest, width, direction.describe_rows, direction.slopes)


def learn_scale(
    direction: Direction, rows: Mapping[str, Any], plan: Plan, seed: int | None, run: int = 0, prior: float = 1.0
) -> tuple[float, float]:
    """The best s, and 1/variance of what the rows alone say of it."""
    return make_lesson(direction, plan.problem, prior).learn(rows, plan, seed, run)


@dataclass(frozen=True)
class OffsetLesson(Lesson):
    """The same where the score is added to an offset, at which the loss has this curvature."""

    bend: float = 0.25

    def adapt(self, noise: Noise) -> Noise:
        """The noise for slopes as short as they are on average at the offset, 2p(1 - p) for shares p."""
        how, activity = noise.protection, min(1.0, max(QUIETEST, 2.0 * self.bend))
        return noise.with_protection(replace(how, activity=activity)) if isinstance(how, LocalPrivacy) else noise


@dataclass(frozen=True)
class StepLesson(Lesson):
    """The same by steps of the engine, whose rows may be silent where their slopes are short."""

    def advance(
        self, reached: Reached, name: str, noise: Noise, kept: int, rows: Any, seed: int | None, run: int = 0
    ) -> Reached:
        """Where the rows of one more source lead."""
        slopes, batch = self.choose_batch(noise, kept)
        small = replace(self.problem, n_features=1, alpha=1e-9, own_batches=False, eigenvalue=1.0, batch_size=batch)
        task = Task(small, (name,), (noise,), (slopes,), self.clock, penalty=np.array([[self.rest]]))
        order, draws = (make_generator(seed, run, name, purpose) for purpose in ("kept order", "kept noise"))
        state = State(np.array([reached.number]), clock=reached.precision)
        for chunk in iterate_chunks((name,), [check_rows(name, rows, 1)], small, order):
            state = compiled_advance(state, task, chunk, draws)
        return Reached(float(state.weights[0]), state.clock)


def choose_weight_scale(
    found: float, known: float, prior: float = 1.0, uneasy: float = 0.0, missed: float = 1.0
) -> float:
    """Multiple of the weights, from the best s as found from a start of 0, and 1/variance of what rows alone say of it.

    With m the s found less what is in doubt (`take_doubt`, and a part `uneasy` up to `SLIGHT`) it is m(1 + 2m). Along a
    quadratic, weights of s times their length are better than predicting nothing for all s below twice the best. So m
    of a half on leaves the weights as they are, and very long ones get the best s; between them the multiple rises
    from m to 2m, since log-loss asks for longer weights than the objective with its penalty. No s that is found
    lengthens them: of scores that spread more than expected it is too long without limit, since cut ones tell little
    but their signs. Where `prior` is above 1, only the steps that kept rows did not take are made up for: weights that
    would be left as they are get the length that steps on all rows would give them, `missed` times their own, at most
    `LONGEST`.

    >>> [choose_weight_scale(found, known=900.0) for found in (0.01, 0.55)], round(choose_weight_scale(0.25, 900.0), 2)
    ([0.0102, 1.0], 0.38)
    """
    variance = prior**2
    error = math.sqrt(known) * variance / (1.0 + known * variance)
    doubted = uneasy * max(found, 0.0) * min(max((CLEAR - found) / (CLEAR - SLIGHT), 0.0), 1.0)
    low = max(found - math.hypot(take_doubt(error), doubted), 0.0)
    return min(max(low * min(1.0 + 2.0 * low, 2.0), FLOOR), missed, LONGEST, prior)


def join_expected(
    found: float, known: float, prior: float, expected: float, trust: float = 1.0 / BELIEF**2
) -> tuple[float, float]:
    """The s found, which starts at 0, joined with what is `expected` of it instead, and the precision of both.

    >>> [round(one, 3) for one in join_expected(0.5, 1.0, 1.0, 0.2)]  # rows alone say 1, with a standard error of 1
    [0.31, 7.25]
    """
    alone = found * (1.0 + known * prior**2) / max(known * prior**2, 1e-300)
    return (known * alone + trust * expected) / (known + trust), known + trust


def choose_scale_from_shares(found: float, known: float, prior: float, expected: float) -> float:
    """The same multiple where the weights are added to the classes' shares: from 0, which predicts those, to 1.

    Few rows are of a rare class, so kept rows say little: what they say alone is joined with the multiple that is
    `expected` from the length of the weights, of standard deviation `BELIEF`. From the mean doubt is taken, less of it
    the more is expected. What is left, m, has no penalty in it: it is stretched less than above, to m(1 + m).

    >>> [round(choose_scale_from_shares(found, 100.0, 1.0, 0.2), 3) for found in (0.9, 0.0)]
    [1.0, 0.012]
    """
    mean, precision = join_expected(found, known, prior, expected)
    error = math.sqrt(known) / precision
    low = max(mean - (1.0 - expected) * take_doubt(error, 2.0 * KEEN), 0.0)
    return min(max(low * min(1.0 + low, 1.5), FLOOR), 1.0)


def take_doubt(error: float, keen: float = KEEN) -> float:
    """What is taken from a length with this standard error SE: ln(SE/keen) of them, from 0 to `SURE`.

    If the best s is 0, what is lost is about SE²E(z - q)²₊ of what steps alone lose, for q of them and z normal. That
    falls like e^{-2q} for small q: the loss hardly grows with SE.

    >>> [round(take_doubt(error), 3) for error in (0.03, 0.1, 0.4)]
    [0.0, 0.069, 0.6]
    """
    return error * min(max(math.log(max(error, 1e-300) / keen), 0.0), SURE)
