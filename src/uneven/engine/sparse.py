"""The compiled loop over sparse (CSR) rows, for noises that keep the gradient sparse.

A step w ← Π((1 - ηλ)w - (η/m)·total) changes every coordinate, but all those that the batch does not touch by one
factor. So the weights are kept as w = scale·u: shrinking and projecting change `scale`, and only the touched
coordinates of u change. The sum of weighted iterates S = Σ a_t·w_t would change everywhere too. It is kept as
S = alpha·u + rest: adding a·w is alpha += a·scale, and where u[j] changes by δ, rest[j] -= alpha·δ keeps S[j].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from uneven.engine.codes import (
    CLOCK,
    COUNT,
    ETA,
    FAST,
    FLIP,
    GROWING_CODE,
    LATE_CODE,
    SKEW,
    STEP,
    STEPS_CODE,
    TOTAL,
    WEIGHT,
)
from uneven.engine.kernels import choose_step_size, compute_slope, find_step_moment, scale_to_full


@njit(cache=True, nogil=True, fastmath=FAST)
def square_norms(data: Any, indptr: Any) -> Any:
    """Squared norm of each row; not finite if an entry is not."""
    squares = np.empty(indptr.shape[0] - 1)
    for i in range(squares.shape[0]):
        square = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            x = np.float64(data[p])
            square += x * x
        squares[i] = square
    return squares


@njit(cache=True, nogil=True, fastmath=FAST)
def accumulate(
    total: Any,
    touched: Any,
    batch_of: Any,
    u: Any,
    scale: float,
    rows: Any,
    start: int,
    stop: int,
    sources: Any,
    spec: Any,
) -> int:
    """Sum of the batch's row gradients into `total`; the coordinates it touched, and how many they are.

    `batch_of` remembers the last batch that touched a coordinate: a sum may pass through 0.
    """
    (data, indices, indptr), y, group, squares = rows
    count = 0
    for i in range(start, stop):
        score = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            score += np.float64(data[p]) * u[indices[p]]
        k = group[i] if group.shape[0] > 0 else 0
        weight = y[i] * compute_slope(spec, scale * score, y[i], sources[k, FLIP], sources[k, SKEW], squares[i])
        if weight != 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                j = indices[p]
                if batch_of[j] != start:
                    batch_of[j] = start
                    touched[count] = j
                    count += 1
                total[j] += weight * data[p]
    return count


@njit(cache=True, nogil=True, fastmath=FAST)
def measure_energy(total: Any, touched: Any, u: Any, scale: float, square: float, lam: float, m: int) -> float:
    """‖λw + total/m‖² = λ²‖w‖² + Σ over touched j of total_j/m·(total_j/m + 2λw_j), for w = scale·u."""
    energy = lam * lam * scale * scale * square
    for j in touched:
        energy += total[j] / m * (total[j] / m + 2.0 * lam * scale * u[j])
    return energy


@njit(cache=True, nogil=True, fastmath=FAST)
def advance(w: Any, average: Any, counters: Any, rows: Any, sources: Any, spec: Any) -> None:
    """One step for each mini-batch of rows ((data, indices, indptr), y, group, squares), in place."""
    (data, _, _), y, group, _ = rows
    d = w.shape[0]
    u, scale, square = w.copy(), 1.0, np.dot(w, w)
    rest, alpha = counters[WEIGHT] * average, 0.0  # S = (total weight)·(mean so far), and no u in it yet
    total, touched, batch_of = np.zeros(d), np.empty(data.shape[0], dtype=np.int64), np.full(d, -1)
    for start in range(0, y.shape[0], spec.batch):
        stop = min(start + spec.batch, y.shape[0])
        m = stop - start
        count = accumulate(total, touched, batch_of, u, scale, rows, start, stop, sources, spec)
        moment = find_step_moment(spec, counters, group, sources, start, stop)
        counters[STEP] += 1.0
        counters[CLOCK] += 1.0 / moment
        eta = counters[ETA] = choose_step_size(spec, counters[STEP], moment, counters[CLOCK])
        if spec.average == STEPS_CODE:
            counters[WEIGHT] += eta
            alpha += eta * scale
        if spec.estimate:
            energy = measure_energy(total, touched[:count], u, scale, square, spec.lam, m)
            counters[TOTAL] += energy * scale_to_full(spec, sources, m)
            counters[COUNT] += 1.0
        scale *= 1.0 - eta * spec.lam
        if not 1e-6 < abs(scale) < 1e6:  # also where a step forgets everything, η = 1/λ: start a new u in time
            rest += alpha * u
            u *= scale
            square *= scale * scale
            alpha, scale = 0.0, 1.0
        for p in range(count):
            j = touched[p]
            change = -eta / (m * scale) * total[j]  # of u: w = scale·u is to move by -η·total/m
            total[j] = 0.0
            rest[j] -= alpha * change  # S stays as it is
            square += change * (change + 2.0 * u[j])
            u[j] += change
        norm = abs(scale) * np.sqrt(max(square, 0.0))  # ‖w‖, with ‖u‖² kept up to date; rounding may take it below 0
        if norm > spec.radius:
            scale *= spec.radius / norm
        weight = 0.0
        if spec.average == LATE_CODE and counters[CLOCK] > spec.after:
            weight = 1.0 / moment
        elif spec.average == GROWING_CODE:
            weight = counters[CLOCK] / moment
        counters[WEIGHT] += weight
        alpha += weight * scale
    w[:] = scale * u
    if counters[WEIGHT] > 0.0:
        average[:] = (alpha * u + rest) / counters[WEIGHT]
