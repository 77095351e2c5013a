"""Tasks and states as plain numbers, for the compiled loops: codes, the columns of their arrays, and the way back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from uneven.engine.state import Array, State, Task
from uneven.losses import HINGE, LINEAR, LOGISTIC
from uneven.noise import Coefficients, Noise
from uneven.schedules import AVERAGES, Anytime, MatrixClock, Precision, Rate, Schedule

LOGISTIC_CODE, HINGE_CODE, LINEAR_CODE = range(3)
LOSS_CODES = {LOGISTIC.name: LOGISTIC_CODE, HINGE.name: HINGE_CODE, LINEAR.name: LINEAR_CODE}
"""Losses that `compute_raw_slope` knows; others run by the reference."""
FAST = {"reassoc", "contract", "arcp", "nsz"}
"""Sums may be reordered, for SIMD; but a NaN stays a NaN: that is how a bad row is noticed."""
RATE_CODE, PRECISION_CODE, AVERAGED_CODE, MATRIX_CODE, ANYTIME_CODE = range(5)
LAST_CODE, LATE_CODE, GROWING_CODE, STEPS_CODE = range(len(AVERAGES))

# `counters` holds the numbers of a state, `sources` a row of numbers for each source; these are their columns.
STEP, CLOCK, ETA, WEIGHT, TOTAL, COUNT = range(6)
FLIP, GAMMA, GAUSSIAN, HEIGHT, SHARE, BASE, OWN, FILL, MEAN, GRID, BATCH_GAMMA, BATCH_GRID, SKEW, STRETCH = range(14)
FIXED, PER_ROW, PER_BATCH = range(14, 17)
# After those, for K > 2 classes: the K² numbers of `Noise.weighted_targets`, row after row.
TARGETS = 17
# After a state's own columns: silent rows of each source, then released rows of each (silent ones among them).
TALLY = 6


class Spec(NamedTuple):
    """A task as numbers."""

    batch: int
    loss: int
    outputs: int
    limit: float
    lam: float
    radius: float
    schedule: int
    scale: float
    offset: float
    average: int
    after: float
    estimate: bool
    negative: float
    positive: float


def encode_task(task: Task) -> Spec:
    """Task as numbers, less its sources: `encode_sources` has those."""
    problem = task.problem
    return Spec(
        problem.batch_size,
        LOSS_CODES[problem.loss],
        problem.outputs,
        problem.row_limit,
        problem.alpha,
        problem.ball,
        *_schedule_numbers(task.schedule),
        average=AVERAGES.index(task.average.kind),
        after=task.average.after,
        estimate=task.estimate,
        negative=problem.class_weights[0],
        positive=problem.class_weights[1],
    )


def _schedule_numbers(schedule: Schedule) -> tuple[int, float, float]:
    if isinstance(schedule, Rate):
        return RATE_CODE, schedule.rate, 0.0
    if isinstance(schedule, Precision):
        return PRECISION_CODE, schedule.lam, schedule.offset
    if isinstance(schedule, MatrixClock):
        return MATRIX_CODE, schedule.longest, 0.0
    if isinstance(schedule, Anytime):
        return ANYTIME_CODE, schedule.radius, 0.0
    return AVERAGED_CODE, schedule.scale, 0.0


def encode_sources(task: Task) -> Array | None:
    """Noise and moments of each source as a row of numbers; None if a noise or the loss has no compiled form."""
    if task.problem.loss not in LOSS_CODES:
        return None
    rows = []
    for noise, moment in zip(task.noises, task.moments, strict=True):
        coefficients: Coefficients | None = noise.compiled(task.problem)
        if coefficients is None:
            return None
        rows.append([*coefficients, moment.fixed, moment.per_row, moment.per_batch, *_targets(noise, task)])
    return np.array(rows)


def _targets(noise: Noise, task: Task) -> list[float]:
    """Numbers of T⁻¹·diag(c); none for two classes."""
    if task.problem.outputs == 1:
        return []
    return noise.weighted_targets(task.problem.class_weights).ravel().tolist()


def encode_state(state: State, task: Task) -> Array:
    """State's numbers, as one writable array."""
    total, count = state.estimates.get(task.names[0], (0.0, 0.0))
    own = [state.step, state.clock, state.step_size, state.average_weight, total, count]
    tallies = [tally.get(name, 0) for tally in (state.silent, state.released) for name in task.names]
    return np.array([*own, *tallies], dtype=np.float64)


def decode_state(task: Task, before: State, counters: Array, w: Array, average: Array, twin: Array | None) -> State:
    """State with the numbers of `counters` and these vectors."""
    estimates = before.estimates
    if task.estimate:
        estimates = {**estimates, task.names[0]: (float(counters[TOTAL]), float(counters[COUNT]))}
    k = len(task.names)
    counted = {name: i for i, name in enumerate(task.names) if counters[TALLY + k + i] > 0}
    silent = {**before.silent, **{name: int(counters[TALLY + i]) for name, i in counted.items()}}
    released = {**before.released, **{name: int(counters[TALLY + k + i]) for name, i in counted.items()}}
    return State(
        w,
        int(counters[STEP]),
        float(counters[CLOCK]),
        float(counters[ETA]),
        average,
        float(counters[WEIGHT]),
        twin,
        estimates,
        silent,
        released,
        task.average.last_share,
    )
