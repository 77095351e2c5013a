"""The compiled loop over dense rows: `reference.advance`, at the speed of memory.

Rows come as contiguous chunks that fit the cache (`rows` gathers them), so a sweep reads memory once for many plans.
Everything is plain numbers, arrays and one generator, in module-level functions: that style's disk cache serves a
fresh process.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

from uneven.engine.classes import add_outer, weigh_classes
from uneven.engine.codes import (
    ANYTIME_CODE,
    BASE,
    BATCH_GAMMA,
    BATCH_GRID,
    CLOCK,
    COUNT,
    ETA,
    FAST,
    FILL,
    FIXED,
    FLIP,
    GAMMA,
    GAUSSIAN,
    GRID,
    GROWING_CODE,
    HEIGHT,
    HINGE_CODE,
    LATE_CODE,
    LOGISTIC_CODE,
    MEAN,
    OWN,
    PER_BATCH,
    PER_ROW,
    PRECISION_CODE,
    RATE_CODE,
    SHARE,
    SKEW,
    STEP,
    STEPS_CODE,
    STRETCH,
    TALLY,
    TOTAL,
    WEIGHT,
)
from uneven.losses import hinge_slope, linear_slope, logistic_slope
from uneven.noise import directions, grid
from uneven.noise.directions import SILENT, TINY, UNIFORM

# Slopes and mechanisms are written once, in `losses`, `noise.directions` and `noise.grid`, and compiled here.
for _slope in (logistic_slope, hinge_slope, linear_slope):
    register_jitable(fastmath=FAST)(_slope)
for _part in (directions._fill_normal, directions._root, directions._depth, directions._depth_in_cap):
    register_jitable(fastmath=FAST)(_part)
choose = njit(cache=True, nogil=True, fastmath=FAST)(directions.choose)
walk = njit(cache=True, nogil=True, fastmath=FAST)(directions.walk)
add_from_cap = njit(cache=True, nogil=True, fastmath=FAST)(directions.add_from_cap)
add_uniform = njit(cache=True, nogil=True, fastmath=FAST)(directions.add_uniform)
width = njit(cache=True, nogil=True)(grid.width)
round_to_grid = njit(cache=True, nogil=True)(grid.round_to_grid)


@njit(cache=True, nogil=True, fastmath=FAST)
def compute_raw_slope(loss: int, margin: float) -> float:
    """ℓ'(margin), never positive."""
    if loss == LOGISTIC_CODE:
        return logistic_slope(margin)
    if loss == HINGE_CODE:
        return hinge_slope(margin)
    return linear_slope(margin)


@njit(cache=True, nogil=True, fastmath=FAST)
def compute_capped_slope(loss: int, margin: float, square: float, limit: float, weight: float) -> float:
    """c·ℓ'(margin), no steeper than limit/‖x‖ for a row of that squared norm (its root is taken only if need be)."""
    slope = weight * compute_raw_slope(loss, margin)
    if slope * slope * square <= limit * limit:
        return slope
    return -limit / np.sqrt(square)


@njit(cache=True, nogil=True, fastmath=FAST)
def compute_slope(spec: Any, score: float, y: float, flip: float, skew: float, square: float) -> float:
    """Slope at a score, with the label y as observed: capped, and for flipped labels the surrogate's."""
    own, others = (spec.positive, spec.negative) if y > 0.0 else (spec.negative, spec.positive)
    kept = compute_capped_slope(spec.loss, y * score, square, spec.limit, own)
    if flip == 0.0:
        return kept
    other, skew = compute_capped_slope(spec.loss, -y * score, square, spec.limit, others), y * skew
    return ((1.0 - flip + skew) * kept + (flip + skew) * other) / (1.0 - 2.0 * flip)


@njit(cache=True, nogil=True, fastmath=FAST)
def choose_step_size(spec: Any, step: float, moment: float, clock: float) -> float:
    """η_t, as `uneven.schedules` has it."""
    if spec.schedule == RATE_CODE:
        return spec.scale / step
    if spec.schedule == PRECISION_CODE:
        return 1.0 / (spec.scale * moment * (spec.offset + clock))
    if spec.schedule == ANYTIME_CODE:
        return spec.scale / (moment * math.sqrt(clock))
    return spec.scale / moment


@njit(cache=True, nogil=True, fastmath=FAST)
def find_moment(source: Any, m: int) -> float:
    """γ² of m rows of one source, as `noise.Moment` has it."""
    return source[FIXED] + (source[PER_ROW] + source[PER_BATCH] / m) / m


@njit(cache=True, nogil=True, fastmath=FAST)
def find_step_moment(spec: Any, counters: Any, group: Any, sources: Any, start: int, stop: int) -> float:
    """γ² of the mini-batch of rows start to stop.

    Of m rows it is fixed + per_row/m + per_batch/m²: the fixed part does not average out. Rows of several sources each
    bring theirs; what is added once a batch, each source that has rows in it.
    An estimate is the mean of ‖G‖² so far, with the stated γ² as its first term so that the first step has one; it is
    kept for full batches, and a short one is noisier by the ratio of the stated moments.
    """
    m = stop - start
    if group.shape[0] > 0:
        fixed, per_row = 0.0, 0.0
        for i in range(start, stop):
            fixed += sources[group[i], FIXED]
            per_row += sources[group[i], PER_ROW]
        for k in range(sources.shape[0]):
            if sources[k, PER_BATCH] > 0.0 and (group[start:stop] == k).any():
                per_row += sources[k, PER_BATCH]
        return fixed / m + per_row / m / m
    stated = find_moment(sources[0], m)
    if not spec.estimate:
        return stated
    full = find_moment(sources[0], spec.batch)
    return (full + counters[TOTAL]) / (1.0 + counters[COUNT]) * stated / full


@njit(cache=True, nogil=True, fastmath=FAST)
def scale_to_full(spec: Any, sources: Any, m: int) -> float:
    """Factor that rescales ‖G‖² of m rows to a full batch: the ratio of the stated moments."""
    return find_moment(sources[0], spec.batch) / find_moment(sources[0], m)


@njit(cache=True, nogil=True, fastmath=FAST)
def draw_batch_variance(group: Any, sources: Any, start: int, stop: int, d: int, rng: Any) -> float:
    """Variance of the Gaussian that stands for the batch's noise (`Noise.spread`)."""
    if group.shape[0] == 0:
        m = stop - start
        variance = m * sources[0, GAUSSIAN]
        if sources[0, GAMMA] > 0.0:
            variance += sources[0, GAMMA] * rng.standard_gamma(m * (d + 1) / 2.0)
        if sources[0, BATCH_GAMMA] > 0.0:
            variance += sources[0, BATCH_GAMMA] * rng.standard_gamma((d + 1) / 2.0)
        return variance
    variance = 0.0
    for i in range(start, stop):
        variance += sources[group[i], GAUSSIAN]
        if sources[group[i], GAMMA] > 0.0:
            variance += sources[group[i], GAMMA] * rng.standard_gamma((d + 1) / 2.0)
    for k in range(sources.shape[0]):
        if sources[k, BATCH_GAMMA] > 0.0 and (group[start:stop] == k).any():
            variance += sources[k, BATCH_GAMMA] * rng.standard_gamma((d + 1) / 2.0)
    return variance


@njit(cache=True, nogil=True, fastmath=FAST)
def square_norms(X: Any) -> Any:
    """Squared norm of each row; not finite if an entry is not."""
    squares = np.empty(X.shape[0])
    for i in range(X.shape[0]):
        square = 0.0
        for j in range(X.shape[1]):
            x = np.float64(X[i, j])
            square += x * x
        squares[i] = square
    return squares


@njit(cache=True, nogil=True, fastmath=FAST)
def weigh(weights: Any, w: Any, rows: Any, start: int, stop: int, sources: Any, spec: Any) -> None:
    """Slope factor of each row's gradient: scores first, then slopes, in two loops."""
    if spec.outputs > 1:
        weigh_classes(weights, w, rows, start, stop, sources, spec)
        return
    X, y, group, squares = rows
    for i in range(start, stop):
        score = 0.0
        for j in range(w.shape[0]):
            score += np.float64(X[i, j]) * w[j]
        weights[i - start] = score
    for i in range(start, stop):
        k = group[i] if group.shape[0] > 0 else 0
        slope = compute_slope(spec, weights[i - start], y[i], sources[k, FLIP], sources[k, SKEW], squares[i])
        weights[i - start] = y[i] * slope


@njit(cache=True, nogil=True, fastmath=FAST)
def add_up(total: Any, weights: Any, X: Any, start: int, stop: int, outputs: int) -> None:
    """Sum of the batch's row gradients, two rows at once: half the traffic to and from `total`."""
    d = X.shape[1]
    total[:] = 0.0
    if outputs > 1:
        for i in range(start, stop):
            add_outer(total, weights[(i - start) * outputs : (i - start + 1) * outputs], X[i])
        return
    for i in range(start, stop - 1, 2):
        one, two = weights[i - start], weights[i - start + 1]
        for j in range(d):
            total[j] += one * X[i, j] + two * X[i + 1, j]
    if (stop - start) % 2 == 1:
        for j in range(d):
            total[j] += weights[stop - 1 - start] * X[stop - 1, j]


@njit(cache=True, nogil=True, fastmath=FAST)
def release(
    total: Any,
    weights: Any,
    rows: Any,
    start: int,
    stop: int,
    sources: Any,
    spec: Any,
    counters: Any,
    scratch: Any,
    rng: Any,
) -> None:
    """Sum of the batch's row gradients; of rows released by direction, their releases (see `noise.directions`)."""
    X, _, group, squares = rows
    total[:] = 0.0
    radius, K = 0.0, spec.outputs
    gradient = np.empty(total.shape[0] if K > 1 else 0)
    for i in range(start, stop):
        k = group[i] if group.shape[0] > 0 else 0
        factors = weights[(i - start) * K : (i - start + 1) * K]
        if sources[k, MEAN] == 0.0:
            add_outer(total, factors, X[i])
            continue
        # So short a row has no direction that floats can hold.
        length, bound = np.sqrt(squares[i]), spec.limit * sources[k, STRETCH]
        long = np.sqrt(np.dot(factors, factors)) * length if K > 1 else abs(factors[0]) * length
        step, norm = bound / sources[k, MEAN], min(long / bound, 1.0) if (long if K > 1 else length) > TINY else 0.0
        way = choose(norm, sources[k, BASE], sources[k, OWN], sources[k, FILL], rng)
        counters[TALLY + sources.shape[0] + k] += 1.0
        if way == SILENT:
            counters[TALLY + k] += 1.0
        elif way == UNIFORM:
            radius = walk(total.shape[0], radius, step, rng)
        elif K > 1:
            gradient[:] = 0.0
            add_outer(gradient, factors, X[i])
            add_from_cap(total, gradient, 1.0 / long, step, sources[k, HEIGHT], sources[k, SHARE], scratch, rng)
        else:
            unit = (1.0 if factors[0] >= 0.0 else -1.0) / length
            add_from_cap(total, X[i], unit, step, sources[k, HEIGHT], sources[k, SHARE], scratch, rng)
    add_uniform(total, radius, scratch, rng)


@njit(cache=True, nogil=True, fastmath=FAST)
def add_noisy(
    total: Any,
    weights: Any,
    w: Any,
    rows: Any,
    start: int,
    stop: int,
    sources: Any,
    spec: Any,
    counters: Any,
    scratch: Any,
    rng: Any,
) -> None:
    """Sum of the batch's row gradients at w as the noises release it, rounded to the public grid."""
    X, _, group, _ = rows
    d, coarsest = total.shape[0], sources[:, GRID].max()
    weigh(weights, w, rows, start, stop, sources, spec)
    if sources[:, MEAN].max() > 0.0:
        release(total, weights, rows, start, stop, sources, spec, counters, scratch, rng)
    else:
        add_up(total, weights, X, start, stop, spec.outputs)
    variance = draw_batch_variance(group, sources, start, stop, d, rng)
    if variance > 0.0:
        scale = np.sqrt(variance)
        for j in range(d):
            total[j] += scale * rng.standard_normal()
    if coarsest > 0.0:
        round_to_grid(total, width(coarsest, stop - start) + sources[:, BATCH_GRID].sum(), rng)


@njit(cache=True, nogil=True, fastmath=FAST)
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


@njit(cache=True, nogil=True, fastmath=FAST)
def extend_average(average: Any, counters: Any, w: Any, weight: float) -> None:
    """Weighted mean of iterates, one more in."""
    if weight == 0.0:
        return
    counters[WEIGHT] += weight
    share = weight / counters[WEIGHT]
    for j in range(w.shape[0]):
        average[j] += share * (w[j] - average[j])


@njit(cache=True, nogil=True, fastmath=FAST)
def advance(w: Any, twin: Any, average: Any, counters: Any, rows: Any, sources: Any, spec: Any, rng: Any) -> None:
    """One step for each mini-batch of rows (X, y, group, squares), in place."""
    X, y, group, _ = rows
    d = w.shape[0]
    total, scratch, weights = np.empty(d), np.empty(d), np.empty(min(spec.batch, y.shape[0]) * spec.outputs)
    for start in range(0, y.shape[0], spec.batch):
        stop = min(start + spec.batch, y.shape[0])
        moment = find_step_moment(spec, counters, group, sources, start, stop)
        counters[STEP] += 1.0
        counters[CLOCK] += 1.0 / moment  # τ_t has this step's precision in it before η_t is taken from it
        eta = counters[ETA] = choose_step_size(spec, counters[STEP], moment, counters[CLOCK])
        if spec.average == STEPS_CODE:
            extend_average(average, counters, w, eta)
        add_noisy(total, weights, w, rows, start, stop, sources, spec, counters, scratch, rng)
        energy = descend(w, total, stop - start, eta, spec)
        if spec.estimate:
            counters[TOTAL] += energy * scale_to_full(spec, sources, stop - start)
            counters[COUNT] += 1.0
        if twin.shape[0] > 0:
            weigh(weights, twin, rows, start, stop, sources, spec)
            add_up(total, weights, X, start, stop, spec.outputs)
            descend(twin, total, stop - start, eta, spec)
        if spec.average == LATE_CODE and counters[CLOCK] > spec.after:
            extend_average(average, counters, w, 1.0 / moment)
        elif spec.average == GROWING_CODE:
            extend_average(average, counters, w, counters[CLOCK] / moment)
