"""What a run by the precision clock will reach, predicted for a typical objective: nothing is taken from rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from uneven.noise import Moment, Noise
from uneven.planner.segments import Segment
from uneven.planner.source import Source
from uneven.problem import Problem
from uneven.schedules import Precision, Schedule

CURVATURES = (1.0 / 16.0, 1.0 / 4.0, 1.0)
"""Curvatures of typical objectives, in units of the most that the loss and rows of norm 1 allow if all directions are
alike. Rows that are not of one length, or margins far from 0, curve less."""

WEAK = 1.0 / 3.0
"""‖w*‖² of an objective with a weak signal, in units of a typical one's: as is the excess of predicting nothing."""

FAINT = 1.0 / 100.0
"""The same of a signal so faint that noise counts as negligible where even this one ends better than nothing."""

TRUSTED = 0.5
"""Rows are kept where weights of a faint signal are expected to need less than this part of their length: along a
quadratic they are then worse than predicting nothing."""

FEWEST_KEPT, PRECISE = 10, 0.05
"""At most one row in so many is kept, and no more than it takes to know the length with this standard error, in units
of the length."""

MOST_KEPT, BLUNT = 5, 0.8
"""But up to one row in so many where fewer would leave a standard error above this: nothing could be sure then."""

RARELY_KEPT, ROUGHLY = 25, 0.1
"""The same where even weights of a weak signal are expected to be better than nothing: rows are kept in case of doubt
only, so they are fewer."""

SPREAD = 0.4
"""Root mean square of a score xᵀw in units of ‖w‖/√d, for rows in the unit ball and a noisy w."""

CUT = 0.6
"""Scores that kept rows tell are cut at so many times their root mean square, to need less noise: of normal scores cut
at c a row tells erf(c/√2)/c, most at 0, where only signs are left; but they should grow with the score near 0."""

FLATTER = 0.8
"""Mean curvature of the loss, in units of its largest."""

STEPS = 100
"""Steps that the kept rows of a source take at least, if there are so many."""

CALM = 4.0
"""Noise that is added once to a sum of kept rows' slopes has at most one in so many parts of their own variance."""

KEEPS = "rows that take no step set the length of the weights, which no theorem here covers."
STARTS = "steps begin at the shares of the classes as some rows tell them, which no theorem here covers."
"""Why a plan that keeps rows has no bound."""


@dataclass(frozen=True)
class Prediction:
    """What steps do to a quadratic that curves alike in all directions.

    Attributes
    ----------
    curvature : float
    start : float
        ‖w*‖², the squared distance that the run starts from.
    left : float
        Part of it that is left after the run, without noise.
    noise : float
        E‖w - E w‖².
    """

    curvature: float
    start: float
    left: float
    noise: float

    @property
    def excess(self) -> float:
        """E f(w) - f*."""
        return self.curvature / 2.0 * (self.start * self.left + self.noise)

    @property
    def excess_of_nothing(self) -> float:
        """f(0) - f*."""
        return self.curvature / 2.0 * self.start

    @property
    def squared_length(self) -> float:
        """E‖w‖²."""
        return (1.0 - math.sqrt(self.left)) ** 2 * self.start + self.noise

    @property
    def best_scale(self) -> float:
        """The s in [0, 1] with the least E f(s·w): with a = 1 - √left it is aS/(a²S + N), S start and N noise."""
        return min(1.0, self.free_scale)

    @property
    def free_scale(self) -> float:
        """The same s where it may be above 1: steps that end early leave weights that are too short."""
        learned = 1.0 - math.sqrt(self.left)
        return learned * self.start / max(self.squared_length, 1e-300)


def has_prediction(segments: Sequence[Segment]) -> bool:
    """Whether all steps are by one clock with an offset."""
    return all(isinstance(one.schedule, Precision) and one.schedule.offset > 0.0 for one in segments)


def predict_run(problem: Problem, segments: Sequence[Segment], curvature: float, start: float = 0.0) -> Prediction:
    """What these steps do to a quadratic; they must be by a clock with an offset.

    E_{t+1} = (1 - 2hη_t)E_t + η_t²σ_t² and η_t = 1/(λσ_t²τ_t), so that the clock τ₁ → τ₂ multiplies E by (τ₁/τ₂)^{2h/λ}
    and adds (1 - (τ₁/τ₂)^{2h/λ-1})/(λ(2h - λ)τ₂).
    """
    lam, left, noise, clock = problem.alpha, 1.0, 0.0, 0.0
    for segment in segments:
        assert isinstance(segment.schedule, Precision)
        clock = clock or segment.schedule.offset
        later = clock + segment.precision
        log_ratio, excess_power = math.log(clock / later), 2.0 * curvature / lam - 1.0
        part = math.exp((excess_power + 1.0) * log_ratio)
        left, noise = left * part, noise * part - math.expm1(excess_power * log_ratio) / (lam**2 * excess_power * later)
        clock = later
    return Prediction(curvature, start, left, noise)


def predict_typical(problem: Problem, segments: Sequence[Segment], share: float) -> Prediction:
    """The same for an objective whose loss curves alike in all d directions, by c: a share of the most there is.

    Without a penalty w = 0 would be half as bad as it can be, ½(ℓ(0) - inf ℓ) = ‖g‖²/(2c). The gradient g at 0 is the
    same with the penalty, so with it w = 0 is ‖g‖/h from the optimum, h = c + λ, and the excess of predicting nothing
    is c/h of what it was.
    """
    loss = problem.loss_function
    own = share * loss.curvature * min(1.0 / problem.n_features, problem.eigenvalue)
    curvature = problem.alpha + own
    start = (loss.value_at_zero - loss.infimum) * own / curvature**2 if own > 0.0 else math.inf
    return predict_run(problem, segments, curvature, min(start, problem.ball**2))


def predict_excess(problem: Problem, segments: Sequence[Segment], kept: int = 0) -> float | None:
    """E f(w) - f* after these steps, for a typical objective; None for steps that are not by a clock with an offset.

    It is the geometric mean over `CURVATURES`, since nothing is taken from rows: sizes that minimise it lose little
    against the best ones for any of them. Where rows are kept, it is no more than that of predicting nothing.
    """
    if not has_prediction(segments):
        return None
    runs = [predict_typical(problem, segments, share) for share in CURVATURES]
    found = [min(run.excess, run.excess_of_nothing) if kept else run.excess for run in runs]
    return math.exp(sum(math.log(max(excess, 1e-300)) for excess in found) / len(found))


def expect_scale(problem: Problem, segments: Sequence[Segment]) -> float:
    """Multiple of the weights after these steps that is expected to be best; 1 where there is no prediction."""
    if not segments or not has_prediction(segments):
        return 1.0
    return predict_typical(problem, segments, CURVATURES[1]).best_scale


def expect_scale_of(
    problem: Problem, segments: Sequence[Segment], squared_length: float, numbers: int, shares: Sequence[float] = ()
) -> float:
    """The same for weights of this squared length, that of `numbers` of the d weights: at least for a weak signal.

    Of noise alone ‖w‖² would be N·numbers/d, with a relative standard error of √(2/numbers). So of it 1 less that over
    ‖w‖² is signal (Stein); one standard error is taken from that. Where weights are added to the scores of unequal
    `shares` of the classes, the loss curves less, and steps hold noise back less; and there is less to gain: at most
    the entropy of the shares.
    """
    if not segments or not has_prediction(segments):
        return 1.0
    bend, most = _compare_shares(shares or (0.5, 0.5))
    typical = predict_typical(problem, segments, CURVATURES[1] * bend)
    typical = replace(typical, start=most * typical.start)
    noise = typical.noise * numbers / problem.n_features / max(squared_length, 1e-300)
    signal = 1.0 - noise * (1.0 + math.sqrt(2.0 / numbers))
    return max(replace(typical, start=WEAK * typical.start).best_scale, signal)


def _compare_shares(shares: Sequence[float]) -> tuple[float, float]:
    """Curvature and value of the loss where these shares are predicted, in units of those of equal shares.

    >>> _compare_shares([0.25] * 4), [round(one, 2) for one in _compare_shares((0.1, 0.9))]
    ((1.0, 1.0), [0.36, 0.47])
    """
    bend = (1.0 - sum(share**2 for share in shares)) / (1.0 - 1.0 / len(shares))
    return bend, -sum(share * math.log(share) for share in shares if share) / math.log(len(shares))


def expect_scale_at(problem: Problem, schedule: Schedule, clock: float) -> float:
    """The same where the steps of a schedule have come to this clock."""
    steps = Segment(("all",), 1, 1, Moment(0.0, 1.0 / clock), schedule) if clock > 0.0 else None
    return expect_scale(problem, () if steps is None else (steps,))


def expect_longest(problem: Problem, segments: Sequence[Segment]) -> float:
    """Multiple of the weights that would be best for the strongest signal that the ball allows, at least 1."""
    if not segments or not has_prediction(segments):
        return 1.0
    typical = predict_typical(problem, segments, CURVATURES[1])
    return max(1.0, replace(typical, start=problem.ball**2).free_scale)


def expect_missed(problem: Problem, segments: Sequence[Segment], all_segments: Sequence[Segment]) -> float:
    """Multiple of the weights, without noise, that has the length of those that steps on all rows would give."""
    if not (segments and has_prediction(segments) and has_prediction(all_segments)):
        return 1.0
    runs = [predict_typical(problem, one, CURVATURES[1]) for one in (segments, all_segments)]
    here, there = (1.0 - math.sqrt(run.left) for run in runs)
    return max(1.0, there / max(here, 1e-300))


def choose_kept(problem: Problem, sources: Sequence[Source], segments: Sequence[Segment]) -> int:
    """One row in how many should learn the length of the weights instead of taking a step; 0 where none should.

    They should where weights of a faint signal are expected to be worse than predicting nothing. They learn the length
    s by Theorem D: what they know of it is 1/variance = h²T, with h the curvature and T = Σ1/γ² over the kept rows,
    whose gradients have one dimension. As many are kept as the weights of a weak signal need: longer ones need fewer,
    and for shorter ones little is at stake.
    """
    if not segments or not has_prediction(segments):
        return 0
    typical = predict_typical(problem, segments, CURVATURES[1])
    if replace(typical, start=FAINT * typical.start).best_scale >= TRUSTED:
        return 0
    weak = replace(typical, start=WEAK * typical.start)
    tenths = [(source, max(1, source.rows // FEWEST_KEPT)) for source in sources]
    information = sum(source.rows / (rows * measure_slopes(source.noise, problem).at(rows)) for source, rows in tenths)
    spread, inside = SPREAD**2 / problem.n_features, math.erf(CUT / math.sqrt(2.0))
    bend = problem.loss_function.curvature if problem.outputs == 1 else 1.0 - 1.0 / problem.classes
    curvature = inside * (FLATTER * bend * spread + problem.alpha)
    known = weak.squared_length * curvature**2 / (CUT**2 * spread) * information
    if weak.best_scale >= TRUSTED:
        return max(RARELY_KEPT, int(known * ROUGHLY**2))
    fewest = min(FEWEST_KEPT, max(MOST_KEPT, int(known * BLUNT**2)))
    return max(fewest, int(known * PRECISE**2))


def measure_slopes(noise: Noise, problem: Problem) -> Moment:
    """Variance of one number that rows release, the mean slope of their loss along the weights, by how many they are.

    Of two classes it is cut at the clip, of more at 1.
    """
    small = replace(problem, n_features=1, batch_size=1, own_batches=False, classes=2, class_weights=())
    if problem.outputs == 1:
        return noise.moment("variance", replace(small, class_weights=problem.class_weights))
    plain, stretched = (
        noise.protection.moment("variance", replace(small, clip=1.0)),
        noise.amplification(problem.classes),
    )
    return Moment(0.0, stretched**2 * plain.per_row, stretched**2 * plain.per_batch)


def choose_kept_batch(slopes: Moment, most: int, rows: int) -> int:
    """Rows whose slopes are released together, of so many kept ones: few, but where noise is added once for them all.

    >>> choose_kept_batch(Moment(0.0, 1.0), 50, 2_000), choose_kept_batch(Moment(0.0, 1.0, 8.0), 50, 2_000)
    (20, 32)
    """
    once = math.ceil(CALM * slopes.per_batch / slopes.per_row)
    return max(1, min(rows, max(once, min(most, rows // STEPS))))


def leave_out_kept(sources: Sequence[Source], kept: int) -> Sequence[Source]:
    """Sources without the rows that take no step, where one in `kept` does not."""
    return [replace(one, rows=one.rows - count_kept(one.rows, kept)) for one in sources] if kept else sources


def count_kept(rows: int, kept: int) -> int:
    """How many rows of a source take no step, where one in `kept` does not; 0 for none.

    >>> count_kept(12, 5), count_kept(4, 5), count_kept(12, 0)
    (2, 0, 0)
    """
    return rows // kept if kept else 0
