"""Shares of the classes, told by kept rows: what is predicted of a row where features say nothing.

With an intercept and nothing else a model predicts the shares of the classes. One number for each class says it, so a
private row tells far more of it than of d weights: its gradient at weights of zero, with a constant for its only
feature (`planner.shares`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import norm

from uneven.engine import Task, check_rows, initial_state, iterate_chunks, make_generator, measure_gradient
from uneven.planner import (
    ONE,
    Asked,
    Plan,
    count_free,
    find_threshold,
    list_asked,
    list_gradients,
    make_small_problem,
)
from uneven.problem import Problem
from uneven.schedules import MatrixClock
from uneven.words import format_count

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Told:
    """The mean gradient that rows told, and the variance of each of its numbers: for more than two classes at most."""

    gradient: Array
    variance: float

    @property
    def clear(self) -> bool:
        """Whether classes clearly count unequally, by a χ² test: what all classes share is noise."""
        size = len(self.gradient)
        found = self.gradient if size == 1 else self.gradient - self.gradient.mean()
        return bool(np.sum(found**2) > find_threshold(size) * self.variance)


class Heard(NamedTuple):
    """What rows have told so far: the sum of gradients, each by 1/variance, and the sum of 1/variance."""

    total: Array
    precision: float

    @property
    def told(self) -> Told:
        """Their mean; nothing is clear of it before any row has told its class."""
        if not self.precision:
            return Told(self.total, math.inf)
        return Told(self.total / self.precision, 1.0 / self.precision)


def describe_constant(X: Any) -> NDArray[np.float32]:
    """The only feature of rows that tell their class."""
    return np.full((X.shape[0], 1), ONE, dtype=np.float32)


def ask_shares(rows: Mapping[str, Any], plan: Plan, seed: int | None, run: int = 0) -> Told:
    """What rows of each source, (`describe_constant`, y) or a stream of it, tell of the classes' shares."""
    heard = start_heard(plan.problem)
    for one in list_asked(plan):
        heard = ask_source(heard, one, rows[one.name], plan.problem, seed, run)
    return heard.told


def start_heard(problem: Problem) -> Heard:
    """What is known before any row has told its class."""
    return Heard(np.zeros(make_small_problem(problem).n_features), 0.0)


def ask_source(heard: Heard, one: Asked, rows: Any, problem: Problem, seed: int | None, run: int = 0) -> Heard:
    """What is known after the rows of one more source have told their classes."""
    small, (total, precision) = replace(make_small_problem(problem), batch_size=one.batch), heard
    task = Task(small, (one.name,), (one.noise,), (one.moment,), MatrixClock((1.0,), (1.0,), 1.0))
    order, draws = (make_generator(seed, run, one.name, purpose) for purpose in ("class order", "class noise"))
    state, weight = initial_state(small.n_features), count_free(small) * one.weight
    for chunk in iterate_chunks((one.name,), [check_rows(one.name, rows, 1, small.classes)], small, order):
        told, state = measure_gradient(state, task, chunk, draws)
        total, precision = total + weight * told, precision + weight * len(chunk.y)
    return Heard(total, precision)


def find_offsets(told: Told, problem: Problem) -> Array:
    """Scores of the classes that predict their shares, one for two classes; 0 where shares are not clearly unequal.

    Gradients of rows of class k are M_k, so Mᵀπ of shares π is told. Where a share may be 0 or less it is the mean of
    its normal distribution above 0; and classes count as they do in the loss.
    """
    if not told.clear:
        return np.zeros(problem.outputs)
    solved = np.linalg.pinv(np.vstack([list_gradients(problem).T, np.ones(problem.classes)]))
    shares, errors = solved @ [*told.gradient, 1.0], np.sqrt(told.variance * np.sum(solved[:, :-1] ** 2, axis=1))
    depth = shares / errors
    shares = shares + errors * np.exp(norm.logpdf(depth) - norm.logcdf(depth))
    logs = np.log(shares * problem.class_weights)
    return np.asarray(logs[1:] - logs[0] if problem.outputs == 1 else logs - logs.mean())


def describe_offsets(offsets: Array, classes: NDArray[Any], rows: int = 0) -> tuple[str, ...]:
    """One sentence for the reader of a fit; none where classes' shares are not clearly unequal.

    `rows` is how many told their classes, where no others were held back; 0 where others told the length.
    """
    if not np.any(offsets):
        return ()
    parts = softmax([0.0, *offsets] if len(offsets) == 1 else offsets)
    told = ", ".join(f"{str(name)!r} {part:.2g}" for name, part in zip(classes, parts, strict=True))
    who = f"{format_count(rows, 'private row')} told" if rows else "Some of them told"
    return (f"{who} their classes, which are clearly unequal. Predicted of nothing: {told}.",)


def make_start(offsets: Array, constant: float, columns: int) -> Array:
    """Weights that have these scores for every row: of the intercept's feature, the last of so many."""
    start = np.zeros((len(offsets), columns))
    start[:, -1] = offsets / constant
    return start.ravel()
