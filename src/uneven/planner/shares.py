"""Which kept rows tell their classes: planned from public numbers alone.

A row tells its gradient at weights of zero, with a constant for its only feature: that is linear in its class, and
every noise knows how to release it, correct it and how exact it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from uneven.noise import Exact, LocalPrivacy, Moment, Noise
from uneven.planner.prediction import choose_kept_batch, count_kept
from uneven.problem import Problem

if TYPE_CHECKING:
    from uneven.planner.planning import Plan

Array = NDArray[np.float64]

TELLERS = 2
"""One kept row in so many tells its class, where there is an intercept; the others tell the length of the weights."""

ALL, RARELY = 1, 50
"""The same where noise is so small that no row need tell the length: all kept rows tell their class, one in so many."""

CHANCE = 0.02
"""Shares that are as unequal as those told with this probability where classes count alike are not believed: then
nothing is predicted as it is without them, which is right in a balanced table and safe in any other."""

REACH = 0.75
"""Rows are asked for their classes where shares that are this part of the way from equal to one class alone would be
believed. So shares that are believed by chance are not far from equal, and little is lost by them."""

SOONER = 0.5
"""The same where steps are not expected to tell much more than the shares: more rows are kept then, so that they tell
those."""

ONE = 1.0 - 1e-6
"""The constant: a hair less than 1, for float32."""


def find_threshold(numbers: int) -> float:
    """Squared length of a gradient of so many numbers, in units of their variance, from which it is believed.

    >>> round(find_threshold(1) ** 0.5, 2)  # two classes
    2.33
    """
    return float(chi2.isf(CHANCE, max(numbers - 1, 1)))


def make_small_problem(problem: Problem) -> Problem:
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
        """1/energy of what a row tells, as one of a batch."""
        return 1.0 / (self.batch * self.moment.at(self.batch))


def list_asked(plan: Plan) -> list[Asked]:
    """Sources of which some rows tell their classes, if one kept row in `TELLERS` does, or in as many as planned."""
    counts = {one.name: count_kept(one.rows, plan.kept) // (plan.tellers or TELLERS) for one in plan.sources}
    return [make_asked(one.name, one.noise, plan.problem, counts[one.name]) for one in plan.sources if counts[one.name]]


def make_asked(name: str, noise: Noise, problem: Problem, rows: int) -> Asked:
    """So many rows of a source that tell their classes."""
    small, loud = make_small_problem(problem), _speak_always(noise)
    moment = loud.moment("variance", replace(small, batch_size=1))
    return Asked(name, loud, moment, choose_kept_batch(moment, small.batch_size, rows), rows)


def choose_tellers(plan: Plan, reach: float = REACH) -> int:
    """One kept row in how many tells its class; 0 where all of those together would know too little."""
    precision = count_free(plan.problem) * sum(one.rows * one.weight for one in list_asked(plan))
    farthest = reach * np.linalg.norm(list_gradients(plan.problem), axis=1).max()
    return TELLERS if precision * farthest**2 > find_threshold(plan.problem.outputs) else 0


def has_length_rows(plan: Plan) -> bool:
    """Whether some kept rows tell the length of the weights: not where all of them tell their class."""
    return bool(plan.kept) and plan.tellers != ALL


def count_free(problem: Problem) -> int:
    """How many numbers of a gradient are free: those of more than two classes sum to 0."""
    return max(problem.outputs - 1, 1)


def list_gradients(problem: Problem) -> Array:
    """Gradient of a row of each class, at zero. Shape (K, 1) for two classes, else (K, K)."""
    small, classes = make_small_problem(problem), problem.classes
    labels = np.arange(float(classes)) if problem.outputs > 1 else np.array([-1.0, 1.0])
    return Exact().row_gradients(small, np.zeros(small.n_features), np.full((classes, 1), ONE), labels)


def _speak_always(noise: Noise) -> Noise:
    """The noise for rows whose gradients are all as long as they may be: silence is of no use then."""
    how = noise.protection
    return noise.with_protection(replace(how, activity=1.0)) if isinstance(how, LocalPrivacy) else noise
