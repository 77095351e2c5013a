"""Never worse than predicting nothing: rows that took no step learn how long the weights are.

Noise makes weights too long: where all sources are very noisy, their direction is fair and their length is not. Some
rows are kept. Those learn one number, s of the score s·(wᵀx + b): a private row says far more about one number than
about d weights. No prediction changes but its probability, and each row is still used once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.engine import State, Task, checked_rows, compiled_advance, generator, iterate_chunks
from uneven.planner import FLATTER, SPREAD, Plan, count_kept
from uneven.schedules import MatrixClock

Array = NDArray[np.float64]

LIKELY = 0.5
"""Standard errors by which the weights must look better than predicting nothing to be left as they are."""

STEPS = 100
"""Steps that the source with the fewest kept rows takes at least, if it has so many."""


@dataclass(frozen=True)
class Direction:
    """The score s·(wᵀx + b) as a problem of one number, s: its feature is the score wᵀx + b, cut at ±width.

    `constant` is the value of the intercept's feature, the last weight's; 0 for none.
    """

    weights: Array
    constant: float

    @property
    def intercept(self) -> float:
        """b; 0 for none."""
        return float(self.weights[-1]) * self.constant

    @property
    def typical(self) -> float:
        """‖w‖/√d without the intercept: of rows in the unit ball and a noisy w, few scores are farther from b."""
        slopes = self.weights[:-1] if self.constant else self.weights
        return float(np.linalg.norm(slopes)) / math.sqrt(max(len(slopes), 1))

    @property
    def width(self) -> float:
        """Scores are cut at ±(‖w‖/√d + |b|)."""
        return max(self.typical + abs(self.intercept), 1e-300)

    @property
    def mean_square(self) -> float:
        """Expected square of the feature."""
        return ((SPREAD * self.typical) ** 2 + self.intercept**2) / self.width**2

    def describe_rows(self, X: Any) -> NDArray[np.float32]:
        """Feature of rows as scaled, as a column; a hair less than 1 at most, for float32."""
        # Row by row, so that pieces of any size give the same numbers.
        scores = np.einsum("ij,j->i", X, self.weights)
        return np.asarray(np.clip(scores / self.width, -1.0, 1.0) * (1.0 - 1e-6), dtype=np.float32)[:, None]


def describe_scale(scale: float, rows: int) -> str:
    """One sentence for the reader of a fit."""
    kept = f"{rows:,} private rows that took no step"
    if scale == 1.0:
        return f"{kept} found that the weights are better than predicting nothing: they stay as they are."
    if scale == 0.0:
        return f"{kept} found no sign that the weights tell the classes apart: they are 0."
    return f"{kept} found that the weights should be {scale:.2f} times as long, because of noise."


def find_scale(direction: Direction, rows: Mapping[str, Any], plan: Plan, seed: int | None, run: int = 0) -> float:
    """How many times as long the weights should be, in [0, 1], by the kept rows.

    It is Theorem D in one dimension. The start is what the plan expects, and a length of 1 one standard deviation away.
    The answer is 1 where it is likely that the weights as they are do better than predicting nothing: along a
    quadratic, that is so where the best s is above 1/2.

    Parameters
    ----------
    direction : Direction
        The weights after all steps.
    rows : dict of str to (features, y) or Stream
        Of each source: `Direction.describe_rows` of its kept rows, and labels of -1 and 1.
    plan : Plan
    seed : int or None
    run : int
        Number of the run, in a simulation of several.

    Returns
    -------
    float
    """
    problem, expected, width = plan.problem, plan.expected_scale, direction.width
    steepest, penalty = problem.loss_function.curvature, problem.alpha * float(np.sum(direction.weights**2)) / width**2
    at_start = float(problem.loss_function.curvature_at(expected * direction.intercept))
    curvature, variance = FLATTER * at_start * direction.mean_square + penalty, ((1.0 - expected) * width) ** 2
    clock = MatrixClock((variance,), (curvature,), 2.0 / (steepest + penalty))
    fewest = min(count_kept(source.rows, plan.kept) for source in plan.sources)
    batch = max(1, min(problem.batch_size, fewest // STEPS))
    small = replace(problem, n_features=1, alpha=1e-9, batch_size=batch, own_batches=False, eigenvalue=1.0)
    task = Task(small, (), (), (), clock, penalty=np.array([[penalty]]))
    state = _learn(np.array([expected * width]), rows, plan, task, seed, run)
    scale = float(state.weights[0]) / width
    error = (1.0 - expected) / math.sqrt(1.0 + variance * curvature**2 * state.clock)
    return 1.0 if scale - LIKELY * error > 0.5 else min(max(scale, 0.0), 1.0)


def _learn(start: Array, rows: Mapping[str, Any], plan: Plan, task: Task, seed: int | None, run: int) -> State:
    """Where all kept rows lead, the noisiest source's first."""
    state, small = State(start), task.problem
    noises = {source.name: source.noise for source in plan.sources if source.name in rows}
    for name in sorted(noises, key=lambda name: -noises[name].planned_energy(small)):
        own = replace(task, names=(name,), noises=(noises[name],), moments=(noises[name].moment("variance", small),))
        order, noise = (generator(seed, run, name, purpose) for purpose in ("kept order", "kept noise"))
        for chunk in iterate_chunks((name,), [checked_rows(name, rows[name], len(start))], small, order):
            state = compiled_advance(state, own, chunk, noise)
    return state
