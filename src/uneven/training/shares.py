"""Shares of the classes, told by kept rows: what is predicted of a row where features say nothing.

With an intercept and nothing else a model predicts the shares of the classes. One number for each class says it, so a
private row tells far more of it than of d weights. A row tells its gradient at weights of zero, with a constant for its
only feature: that is linear in its class, and every noise knows how to release it, correct it and how exact it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from uneven.engine import Task, check_rows, initial_state, iterate_chunks, make_generator, measure_gradient
from uneven.noise import Exact, LocalPrivacy, Moment, Noise
from uneven.planner import Plan, choose_kept_batch, count_kept
from uneven.problem import Problem
from uneven.schedules import MatrixClock

Array = NDArray[np.float64]

TELLERS = 2
"""One kept row in so many tells its class, where there is an intercept; the others tell the length of the weights."""

CHANCE = 0.01
"""Shares that are as unequal as those told with this probability where classes count alike are not believed: then
nothing is predicted as it is without them, which is right in a balanced table and safe in any other."""

REACH = 0.75
"""Rows are asked for their classes where shares that are this part of the way from equal to one class alone would be
believed. So shares that are believed by chance are not far from equal, and little is lost by them."""

ONE = 1.0 - 1e-6
"""The constant: a hair less than 1, for float32."""


@dataclass(frozen=True)
class Told:
    """The mean gradient that rows told, and the variance of each of its numbers."""

    gradient: Array
    variance: float

    @property
    def clear(self) -> bool:
        """Whether classes clearly count unequally, by a χ² test: what all classes share is noise."""
        size = len(self.gradient)
        found = self.gradient if size == 1 else self.gradient - self.gradient.mean()
        return bool(np.sum(found**2) > find_threshold(size) * self.variance)


def find_threshold(numbers: int) -> float:
    """Squared length of a gradient of so many numbers, in units of their variance, from which it is believed.

    >>> round(find_threshold(1) ** 0.5, 2)  # two classes
    2.58
    """
    return float(chi2.isf(CHANCE, max(numbers - 1, 1)))


def describe_constant(X: Any) -> NDArray[np.float32]:
    """The only feature of rows that tell their class."""
    return np.full((X.shape[0], 1), ONE, dtype=np.float32)


def shrink_problem(problem: Problem) -> Problem:
    """The problem of that feature alone."""
    logistic = "logistic" if problem.outputs == 1 else problem.loss
    return replace(problem, n_features=problem.outputs, own_batches=False, eigenvalue=1.0, loss=logistic)


@dataclass(frozen=True)
class Asked:
    """A source whose rows tell their classes: so many of them, `batch` at a time."""

    name: str
    noise: Noise
    moment: Moment
    batch: int
    rows: int

    @property
    def weight(self) -> float:
        """1/variance of what a row tells of each number, as one of a batch."""
        return 1.0 / (self.batch * self.moment.at(self.batch))


def list_asked(plan: Plan) -> list[Asked]:
    """Sources of which some rows tell their classes, if one kept row in `TELLERS` does."""
    small = shrink_problem(plan.problem)
    found = []
    for source in plan.sources:
        rows, noise = count_kept(source.rows, plan.kept) // TELLERS, _speak_always(source.noise)
        moment = noise.moment("variance", replace(small, batch_size=1))
        if rows:
            found.append(Asked(source.name, noise, moment, choose_kept_batch(moment, small.batch_size, rows), rows))
    return found


def choose_tellers(plan: Plan) -> int:
    """One kept row in how many tells its class; 0 where all of those together would know too little."""
    precision = plan.problem.outputs * sum(one.rows * one.weight for one in list_asked(plan))
    farthest = REACH * np.linalg.norm(list_gradients(plan.problem), axis=1).max()
    return TELLERS if precision * farthest**2 > find_threshold(plan.problem.outputs) else 0


def list_gradients(problem: Problem) -> Array:
    """Gradient of a row of each class, at zero. Shape (K, 1) for two classes, else (K, K)."""
    small, classes = shrink_problem(problem), problem.classes
    labels = np.arange(float(classes)) if problem.outputs > 1 else np.array([-1.0, 1.0])
    return Exact().row_gradients(small, np.zeros(small.n_features), np.full((classes, 1), ONE), labels)


def ask_shares(rows: Mapping[str, Any], plan: Plan, seed: int | None, run: int = 0) -> Told:
    """What rows of each source, (`describe_constant`, y) or a stream of it, tell of the classes' shares."""
    small = shrink_problem(plan.problem)
    total, precision, state = np.zeros(small.n_features), 0.0, initial_state(small.n_features)
    for one in list_asked(plan):
        batched = replace(small, batch_size=one.batch)
        task = Task(batched, (one.name,), (one.noise,), (one.moment,), MatrixClock((1.0,), (1.0,), 1.0))
        order, draws = (make_generator(seed, run, one.name, purpose) for purpose in ("class order", "class noise"))
        checked = check_rows(one.name, rows[one.name], 1, small.classes)
        for chunk in iterate_chunks((one.name,), [checked], batched, order):
            told, state = measure_gradient(state, task, chunk, draws)
            weight = small.n_features * one.weight
            total, precision = total + weight * told, precision + weight * len(chunk.y)
    return Told(total / precision, 1.0 / precision)


def _speak_always(noise: Noise) -> Noise:
    """The noise for rows whose gradients are all as long as they may be: silence is of no use then."""
    how = noise.protection
    return noise.with_protection(replace(how, activity=1.0)) if isinstance(how, LocalPrivacy) else noise


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


def place_offsets(offsets: Array, constant: float, columns: int) -> Array:
    """Weights that have these scores for every row: of the intercept's feature, the last of so many."""
    start = np.zeros((len(offsets), columns))
    start[:, -1] = offsets / constant
    return start.ravel()
