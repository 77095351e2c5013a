"""The same for more than two classes: one length for the weights of all of them.

The loss of s·Wx has the slope Σ_k p_k u_k - u_y in s, u = Wx: one number of each kept row, whatever the classes are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from uneven.engine import check_rows, iterate_chunks, make_generator
from uneven.noise import Moment, Noise
from uneven.planner import CUT, FLATTER, SPREAD, Plan, choose_kept_batch, count_kept, measure_slopes
from uneven.problem import Problem
from uneven.schedules import MatrixClock

Array = NDArray[np.float64]

FARTHEST = 16.0
"""Scores beyond so many widths are cut: a matter of form, since slopes are cut at one."""


@dataclass(frozen=True)
class ClassDirection:
    """Weights of K classes, one after the other, as a problem of one number; `constant` is the intercepts' feature."""

    weights: Array
    constant: float
    classes: int
    offsets: tuple[float, ...] = ()
    """Scores of the classes that the weights are added to (`shares`); empty for none."""

    @property
    def slope_weights(self) -> Array:
        """All but the intercepts'."""
        return self._matrix[:, :-1] if self.constant else self._matrix

    @property
    def spread(self) -> float:
        """Standard deviation of a class's score that is expected, of rows in the unit ball and noisy weights."""
        slopes = self.slope_weights
        return SPREAD * float(np.linalg.norm(slopes)) / math.sqrt(max(slopes.size, 1))

    @property
    def width(self) -> float:
        """Slopes are cut at plus and minus this."""
        intercepts = self._matrix[:, -1] * self.constant
        return CUT * self.spread + float(np.abs(intercepts - intercepts.mean()).max())

    @property
    def shares(self) -> tuple[float, ...]:
        """Of the classes, as the offsets predict them."""
        return tuple(softmax(self.offsets or (0.0,) * self.classes).tolist())

    @property
    def bend(self) -> float:
        """Curvature of the loss at the offsets, in units of the scores' variance."""
        return 1.0 - sum(share**2 for share in self.shares)

    @property
    def _matrix(self) -> Array:
        return self.weights.reshape(self.classes, -1)

    def describe_rows(self, X: Any) -> NDArray[np.float32]:
        """Scores of rows as scaled, less their mean over classes, in units that keep them in the unit ball."""
        scores = np.einsum("ij,kj->ik", X, self._matrix)  # row by row, so that pieces of any size give the same
        scores -= scores.mean(axis=1, keepdims=True)
        return np.asarray(np.clip(scores / self.width, -FARTHEST, FARTHEST) / self._unit, dtype=np.float32)

    @property
    def _unit(self) -> float:
        return FARTHEST * math.sqrt(self.classes) * (1.0 + 1e-6)

    def slopes(self, features: Array, scale: float, targets: Array) -> Array:
        """Slope of each row's loss in s, in units of the width and cut at ±1; targets stand for labels (`softmax`)."""
        scores = features.astype(np.float64) * self._unit
        start = np.array(self.offsets or (0.0,))
        mean = (softmax(start + scale * self.width * scores, axis=1) * scores).sum(axis=1, keepdims=True)
        return np.asarray((targets * np.clip(mean - scores, -1.0, 1.0)).sum(axis=1))


def make_class_lesson(direction: ClassDirection, problem: Problem, prior: float = 1.0) -> Lesson:
    """How kept rows learn the best s by Theorem D in one dimension.

    Near s = 0 the loss curves by the variance of the scores over classes, and a slope that is normal and cut at c
    standard deviations has P(|N| < c) of its own slope.
    """
    width, spread = direction.width, direction.spread
    inside = math.erf(width / spread / math.sqrt(2.0))
    alpha = 0.0 if direction.offsets else problem.alpha
    own, penalty = FLATTER * spread**2 * direction.bend, alpha * np.sum(direction.weights**2)
    curvature, rest = inside * float(own + penalty) / width**2, inside * float(penalty) / width**2
    clock = MatrixClock(((prior * width) ** 2,), (curvature,), 2.0 / (1.0 + rest))

    def tell(features: Array, found: float, targets: Array) -> Array:
        return direction.slopes(features, found / width, targets)

    return Lesson(problem, clock, rest, width, direction.describe_rows, tell, direction.classes)


def learn_class_scale(
    direction: ClassDirection, rows: Mapping[str, Any], plan: Plan, seed: int | None, run: int = 0, prior: float = 1.0
) -> tuple[float, float]:
    """The best s, and 1/variance of what the rows alone say of it."""
    return make_class_lesson(direction, plan.problem, prior).learn(rows, plan, seed, run)


class Reached(NamedTuple):
    """Where kept rows have led so far from 0: s·width, and the sum of 1/variance of what they told."""

    number: float = 0.0
    precision: float = 0.0


@dataclass(frozen=True)
class Lesson:
    """How kept rows learn one number, s·width, by slopes that are at most 1 for true labels.

    `describe` makes features of rows as scaled. `tell` gives slopes of those at a number, for targets in place of their
    labels; `rest` is the curvature of a penalty beside them.
    """

    problem: Problem
    clock: MatrixClock
    rest: float
    width: float
    describe: Callable[[Any], NDArray[np.float32]]
    tell: Callable[[Array, float, Array], Array]
    columns: int = 1

    def adapt(self, noise: Noise) -> Noise:
        """Noise by which rows of a source release their slopes."""
        return noise

    def list_kept(self, names: Collection[str], plan: Plan) -> list[str]:
        """Sources with kept rows, the noisiest first."""
        sources = tuple(replace(one, noise=self.adapt(one.noise)) for one in plan.sources)
        return [name for name, *_ in list_kept(names, replace(plan, problem=self.problem, sources=sources))]

    def learn(self, rows: Mapping[str, Any], plan: Plan, seed: int | None, run: int = 0) -> tuple[float, float]:
        """s after the kept rows of all sources, and 1/variance of what they say of it."""
        reached, sources = Reached(), {source.name: source for source in plan.sources}
        for name in self.list_kept(rows, plan):
            source = sources[name]
            kept = count_kept(source.rows, plan.kept)
            reached = self.advance(reached, name, source.noise, kept, rows[name], seed, run)
        return self.measure(reached)

    def measure(self, reached: Reached) -> tuple[float, float]:
        """s, and 1/variance of what the rows say of it."""
        return reached.number / self.width, (self.width * self.clock.curvature[0]) ** 2 * reached.precision

    def choose_batch(self, noise: Noise, kept: int) -> tuple[Moment, int]:
        """Variance of the slopes of a source with so many kept rows, and how many are released together."""
        slopes = measure_slopes(self.adapt(noise), self.problem)
        return slopes, choose_kept_batch(slopes, self.problem.batch_size, kept)

    def advance(
        self, reached: Reached, name: str, noise: Noise, kept: int, rows: Any, seed: int | None, run: int = 0
    ) -> Reached:
        """Where the rows of one more source lead."""
        (slopes, batch), noise, problem = self.choose_batch(noise, kept), self.adapt(noise), self.problem
        small = replace(problem, n_features=self.columns * problem.outputs, batch_size=batch, own_batches=False)
        order, draws = (make_generator(seed, run, name, purpose) for purpose in ("kept order", "kept noise"))
        targets, longest = noise.weighted_targets(problem.class_weights), noise.amplification(problem.classes)
        found, precision = reached
        for chunk in iterate_chunks((name,), [check_rows(name, rows, self.columns, problem.classes)], small, order):
            for first in range(0, len(chunk.y), batch):
                features, y = chunk.X[first : first + batch], chunk.y[first : first + batch]
                numbers = np.asarray(y > 0 if problem.classes == 2 else y, dtype=np.int64)
                told = self.tell(features, found, targets[numbers])
                released = noise.release_sum(told[:, None], longest, draws)
                variance = slopes.at(len(y))
                precision += 1.0 / variance
                step = self.clock.steps(variance, precision)[0]
                found -= step * (float(released[0]) / len(y) + self.rest * found)
        return Reached(float(found), precision)


def list_kept(names: Collection[str], plan: Plan) -> list[tuple[str, int, Moment]]:
    """Sources with kept rows, the noisiest first: name, number of those rows, and the variance of their slopes."""
    kept = [
        (one.name, count_kept(one.rows, plan.kept), measure_slopes(one.noise, plan.problem)) for one in plan.sources
    ]
    used = [one for one in kept if one[0] in names and one[1]]
    return sorted(used, key=lambda one: -one[1] * one[2].at(one[1]))
