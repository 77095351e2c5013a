"""The compiled loop over dense rows: `reference.advance`, at the speed of memory.

Rows come as contiguous chunks that fit the cache (`rows` gathers them), so a sweep reads memory once for many plans.
Everything is plain numbers, arrays and one generator, in module-level functions: that style's disk cache serves a
fresh process.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable

from uneven.engine.state import AVERAGES, Array, State, Task
from uneven.losses import HINGE, LINEAR, LOGISTIC, LOSSES
from uneven.noise import Coefficients, directions, grid
from uneven.noise.directions import SILENT, TINY, UNIFORM
from uneven.schedules import Precision, Rate, Schedule

# Sums may be reordered, for SIMD; but a NaN stays a NaN: that is how a bad row is noticed.
_FAST = {"reassoc", "contract", "arcp", "nsz"}

LOSS_CODES = {name: code for code, name in enumerate(LOSSES)}
_LOGISTIC, _HINGE, _LINEAR = (LOSS_CODES[loss.name] for loss in (LOGISTIC, HINGE, LINEAR))
_RATE, _PRECISION, _AVERAGED = range(3)
_LAST, _LATE, _GROWING, _STEPS = range(len(AVERAGES))

# Columns of the book, a state's numbers, and of the table, a source's.
STEP, CLOCK, ETA, WEIGHT, TOTAL, COUNT = range(6)
FLIP, GAMMA, GAUSSIAN, HEIGHT, SHARE, BASE, OWN, FILL, MEAN, GRID, FIXED, PER_ROW = range(12)
# After the book's own columns: silent rows of each source, then released rows of each (silent ones among them).
TALLY = 6


# Mechanisms are written once, as plain loops in `noise.directions` and `noise.grid`, and compiled here.
for _part in (directions._fill_normal, directions._height, directions._height_in_cap):
    register_jitable(fastmath=_FAST)(_part)
choose = njit(cache=True, nogil=True, fastmath=_FAST)(directions.choose)
walk = njit(cache=True, nogil=True, fastmath=_FAST)(directions.walk)
add_from_cap = njit(cache=True, nogil=True, fastmath=_FAST)(directions.add_from_cap)
add_uniform = njit(cache=True, nogil=True, fastmath=_FAST)(directions.add_uniform)
width = njit(cache=True, nogil=True)(grid.width)
round_to_grid = njit(cache=True, nogil=True)(grid.round_to_grid)


class Spec(NamedTuple):
    """A task as numbers."""

    batch: int
    loss: int
    limit: float
    lam: float
    radius: float
    schedule: int
    scale: float
    offset: float
    average: int
    after: float
    estimate: bool


def spec_of(task: Task) -> Spec:
    """Task as numbers, less its sources: `table_of` has those."""
    problem = task.problem
    code, scale, offset = _schedule_numbers(task.schedule)
    return Spec(
        batch=problem.batch_size,
        loss=LOSS_CODES[problem.loss],
        limit=problem.row_limit,
        lam=problem.alpha,
        radius=problem.ball,
        schedule=code,
        scale=scale,
        offset=offset,
        average=AVERAGES.index(task.average.kind),
        after=task.average.after,
        estimate=task.estimate,
    )


def _schedule_numbers(schedule: Schedule) -> tuple[int, float, float]:
    if isinstance(schedule, Rate):
        return _RATE, schedule.rate, 0.0
    if isinstance(schedule, Precision):
        return _PRECISION, schedule.lam, schedule.offset
    return _AVERAGED, schedule.scale, 0.0


def table_of(task: Task) -> Array | None:
    """Noise and moments of each source as a row of numbers; None if a noise has no compiled form."""
    rows = []
    for noise, moment in zip(task.noises, task.moments, strict=True):
        coefficients: Coefficients | None = noise.compiled(task.problem)
        if coefficients is None:
            return None
        rows.append([*coefficients, moment.fixed, moment.per_row])
    return np.array(rows)


def book_of(state: State, task: Task) -> Array:
    """State's numbers, as one writable array."""
    total, count = state.estimates.get(task.names[0], (0.0, 0.0))
    own = [state.step, state.clock, state.step_size, state.average_weight, total, count]
    tallies = [tally.get(name, 0) for tally in (state.silent, state.released) for name in task.names]
    return np.array([*own, *tallies], dtype=np.float64)


def state_of(task: Task, before: State, book: Array, w: Array, average: Array, twin: Array | None) -> State:
    """State with the numbers of `book` and these vectors."""
    estimates = before.estimates
    if task.estimate:
        estimates = {**estimates, task.names[0]: (float(book[TOTAL]), float(book[COUNT]))}
    k = len(task.names)
    counted = {name: i for i, name in enumerate(task.names) if book[TALLY + k + i] > 0}
    silent = {**before.silent, **{name: int(book[TALLY + i]) for name, i in counted.items()}}
    released = {**before.released, **{name: int(book[TALLY + k + i]) for name, i in counted.items()}}
    return State(
        w,
        int(book[STEP]),
        float(book[CLOCK]),
        float(book[ETA]),
        average,
        float(book[WEIGHT]),
        twin,
        estimates,
        silent,
        released,
    )


@njit(cache=True, nogil=True, fastmath=_FAST)
def raw_slope(loss: int, margin: float) -> float:
    """ℓ'(margin), never positive."""
    if loss == _LOGISTIC:
        return -1.0 / (1.0 + np.exp(margin))
    if loss == _HINGE:
        return -1.0 if margin < 1.0 else 0.0
    return -1.0


@njit(cache=True, nogil=True, fastmath=_FAST)
def capped_slope(loss: int, margin: float, square: float, limit: float) -> float:
    """ℓ'(margin), no steeper than limit/‖x‖ for a row of that squared norm (the root is taken only where it bites)."""
    slope = raw_slope(loss, margin)
    if slope * slope * square <= limit * limit:
        return slope
    return -limit / np.sqrt(square)


@njit(cache=True, nogil=True, fastmath=_FAST)
def slope_of(loss: int, margin: float, flip: float, square: float, limit: float) -> float:
    """Slope at an observed margin: capped, and for flipped labels the surrogate's."""
    kept = capped_slope(loss, margin, square, limit)
    if flip == 0.0:
        return kept
    other = capped_slope(loss, -margin, square, limit)
    return ((1.0 - flip) * kept + flip * other) / (1.0 - 2.0 * flip)


@njit(cache=True, nogil=True, fastmath=_FAST)
def step_size(spec: Any, step: float, moment: float, clock: float) -> float:
    """η_t, as `uneven.schedules` has it."""
    if spec.schedule == _RATE:
        return spec.scale / step
    if spec.schedule == _PRECISION:
        return 1.0 / (spec.scale * moment * (spec.offset + clock))
    return spec.scale / moment


@njit(cache=True, nogil=True, fastmath=_FAST)
def step_moment(spec: Any, book: Any, group: Any, table: Any, start: int, stop: int) -> float:
    """γ² of the mini-batch of rows start to stop."""
    m = stop - start
    if group.shape[0] > 0:
        fixed, per_row = 0.0, 0.0
        for i in range(start, stop):
            fixed += table[group[i], FIXED]
            per_row += table[group[i], PER_ROW]
        return fixed / m + per_row / m / m
    stated = table[0, FIXED] + table[0, PER_ROW] / m
    if not spec.estimate:
        return stated
    full = table[0, FIXED] + table[0, PER_ROW] / spec.batch
    return (full + book[TOTAL]) / (1.0 + book[COUNT]) * stated / full


@njit(cache=True, nogil=True, fastmath=_FAST)
def as_full(spec: Any, table: Any, m: int) -> float:
    """What ‖G‖² of m rows is multiplied by to stand for that of a full batch: the stated ratio of the two."""
    full = table[0, FIXED] + table[0, PER_ROW] / spec.batch
    return full / (table[0, FIXED] + table[0, PER_ROW] / m)


@njit(cache=True, nogil=True, fastmath=_FAST)
def spread_of(group: Any, table: Any, start: int, stop: int, d: int, rng: Any) -> float:
    """Variance of the Gaussian that stands for the batch's noise (`Noise.spread`)."""
    if group.shape[0] == 0:
        m = stop - start
        variance = m * table[0, GAUSSIAN]
        if table[0, GAMMA] > 0.0:
            variance += table[0, GAMMA] * rng.standard_gamma(m * (d + 1) / 2.0)
        return variance
    variance = 0.0
    for i in range(start, stop):
        variance += table[group[i], GAUSSIAN]
        if table[group[i], GAMMA] > 0.0:
            variance += table[group[i], GAMMA] * rng.standard_gamma((d + 1) / 2.0)
    return variance


@njit(cache=True, nogil=True, fastmath=_FAST)
def squares_of(X: Any) -> Any:
    """Squared norm of each row; not finite if an entry is not."""
    squares = np.empty(X.shape[0])
    for i in range(X.shape[0]):
        square = 0.0
        for j in range(X.shape[1]):
            x = np.float64(X[i, j])
            square += x * x
        squares[i] = square
    return squares


@njit(cache=True, nogil=True, fastmath=_FAST)
def weigh(weights: Any, w: Any, rows: Any, start: int, stop: int, table: Any, spec: Any) -> None:
    """What each row of the batch is multiplied by in its gradient: scores first, then slopes, a loop each."""
    X, y, group, squares = rows
    for i in range(start, stop):
        score = 0.0
        for j in range(w.shape[0]):
            score += np.float64(X[i, j]) * w[j]
        weights[i - start] = score
    for i in range(start, stop):
        flip = table[group[i] if group.shape[0] > 0 else 0, FLIP]
        slope = slope_of(spec.loss, y[i] * weights[i - start], flip, squares[i], spec.limit)
        weights[i - start] = y[i] * slope


@njit(cache=True, nogil=True, fastmath=_FAST)
def add_up(total: Any, weights: Any, X: Any, start: int, stop: int) -> None:
    """Sum of the batch's row gradients, two rows at once: half the traffic to and from `total`."""
    d = total.shape[0]
    total[:] = 0.0
    for i in range(start, stop - 1, 2):
        one, two = weights[i - start], weights[i - start + 1]
        for j in range(d):
            total[j] += one * X[i, j] + two * X[i + 1, j]
    if (stop - start) % 2 == 1:
        for j in range(d):
            total[j] += weights[stop - 1 - start] * X[stop - 1, j]


@njit(cache=True, nogil=True, fastmath=_FAST)
def release(
    total: Any, weights: Any, rows: Any, start: int, stop: int, table: Any, spec: Any, book: Any, scratch: Any, rng: Any
) -> None:
    """Sum of the batch's row gradients; of rows released by direction, their releases (see `noise.directions`)."""
    X, _, group, squares = rows
    total[:] = 0.0
    radius = 0.0
    for i in range(start, stop):
        k = group[i] if group.shape[0] > 0 else 0
        weight = weights[i - start]
        if table[k, MEAN] == 0.0:
            for j in range(total.shape[0]):
                total[j] += weight * X[i, j]
            continue
        # So short a row has no direction that floats can hold.
        length, step = np.sqrt(squares[i]), spec.limit / table[k, MEAN]
        norm = min(abs(weight) * length / spec.limit, 1.0) if length > TINY else 0.0
        way = choose(norm, table[k, BASE], table[k, OWN], table[k, FILL], rng)
        book[TALLY + table.shape[0] + k] += 1.0
        if way == SILENT:
            book[TALLY + k] += 1.0
        elif way == UNIFORM:
            radius = walk(total.shape[0], radius, step, rng)
        else:
            unit = (1.0 if weight >= 0.0 else -1.0) / length
            add_from_cap(total, X[i], unit, step, table[k, HEIGHT], table[k, SHARE], scratch, rng)
    add_uniform(total, radius, scratch, rng)


@njit(cache=True, nogil=True, fastmath=_FAST)
def descend(w: Any, total: Any, m: int, eta: float, spec: Any) -> float:
    """w ← Π(w - η(λw + total/m)); returns ‖λw + total/m‖²."""
    energy, square = 0.0, 0.0
    for j in range(w.shape[0]):
        gradient = spec.lam * w[j] + total[j] / m
        energy += gradient * gradient
        w[j] -= eta * gradient
        square += w[j] * w[j]
    if square > spec.radius * spec.radius:
        w *= spec.radius / np.sqrt(square)
    return energy


@njit(cache=True, nogil=True, fastmath=_FAST)
def average_in(average: Any, book: Any, w: Any, weight: float) -> None:
    """Weighted mean of iterates, one more in."""
    if weight == 0.0:
        return
    book[WEIGHT] += weight
    share = weight / book[WEIGHT]
    for j in range(w.shape[0]):
        average[j] += share * (w[j] - average[j])


@njit(cache=True, nogil=True, fastmath=_FAST)
def advance(w: Any, twin: Any, average: Any, book: Any, rows: Any, table: Any, spec: Any, rng: Any) -> None:
    """One step for each mini-batch of rows (X, y, group, squares), in place."""
    X, y, group, _ = rows
    d = w.shape[0]
    total, scratch, weights = np.empty(d), np.empty(d), np.empty(min(spec.batch, y.shape[0]))
    by_direction, coarsest = table[:, MEAN].max() > 0.0, table[:, GRID].max()
    for start in range(0, y.shape[0], spec.batch):
        stop = min(start + spec.batch, y.shape[0])
        moment = step_moment(spec, book, group, table, start, stop)
        book[STEP] += 1.0
        book[CLOCK] += 1.0 / moment
        eta = book[ETA] = step_size(spec, book[STEP], moment, book[CLOCK])
        if spec.average == _STEPS:
            average_in(average, book, w, eta)
        weigh(weights, w, rows, start, stop, table, spec)
        if by_direction:
            release(total, weights, rows, start, stop, table, spec, book, scratch, rng)
        else:
            add_up(total, weights, X, start, stop)
        variance = spread_of(group, table, start, stop, d, rng)
        if variance > 0.0:
            scale = np.sqrt(variance)
            for j in range(d):
                total[j] += scale * rng.standard_normal()
        if coarsest > 0.0:
            round_to_grid(total, width(coarsest, stop - start), rng)
        energy = descend(w, total, stop - start, eta, spec)
        if spec.estimate:
            book[TOTAL] += energy * as_full(spec, table, stop - start)
            book[COUNT] += 1.0
        if twin.shape[0] > 0:
            weigh(weights, twin, rows, start, stop, table, spec)
            add_up(total, weights, X, start, stop)
            descend(twin, total, stop - start, eta, spec)
        if spec.average == _LATE and book[CLOCK] > spec.after:
            average_in(average, book, w, 1.0 / moment)
        elif spec.average == _GROWING:
            average_in(average, book, w, book[CLOCK] / moment)
