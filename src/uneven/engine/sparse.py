"""The compiled loop over sparse (CSR) rows, for noises that keep the gradient sparse.

The weights are kept as w = scale·u, so that the L2 shrink touches one number instead of d; and the weighted sum of
iterates as alpha·u + rest, so that averaging touches only the coordinates that a batch has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from uneven.engine.kernels import (
    _FAST,
    _GROWING,
    _LATE,
    _STEPS,
    CLOCK,
    COUNT,
    ETA,
    FLIP,
    ROW_LIMIT,
    STEP,
    TOTAL,
    WEIGHT,
    slope_of,
    step_moment,
    step_size,
)


@njit(cache=True, nogil=True, fastmath=_FAST)
def accumulate(
    total: Any,
    touched: Any,
    u: Any,
    scale: float,
    X: Any,
    y: Any,
    group: Any,
    table: Any,
    start: int,
    stop: int,
    spec: Any,
) -> Any:
    """Sum of the batch's row gradients into `total`; its touched coordinates, their count, and a bad row or -1."""
    data, indices, indptr = X
    count = 0
    for i in range(start, stop):
        score, square = 0.0, 0.0
        for p in range(indptr[i], indptr[i + 1]):
            x = np.float64(data[p])
            score += x * u[indices[p]]
            square += x * x
        if not square <= ROW_LIMIT:
            return count, i
        flip = table[group[i] if group.shape[0] > 0 else 0, FLIP]
        cap = spec.cap / np.sqrt(max(square, 1e-300))
        weight = y[i] * slope_of(spec.loss, y[i] * scale * score, flip, cap)
        if weight != 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                j = indices[p]
                if total[j] == 0.0:
                    touched[count] = j
                    count += 1
                total[j] += weight * data[p]
    return count, -1


@njit(cache=True, nogil=True, fastmath=_FAST)
def advance(w: Any, average: Any, book: Any, X: Any, y: Any, group: Any, table: Any, spec: Any) -> int:
    """One step for each mini-batch of rows, in place; the number of a row that is not fit for use, or -1."""
    data, _, _ = X
    d = w.shape[0]
    u, scale, square = w.copy(), 1.0, np.dot(w, w)
    rest, alpha = book[WEIGHT] * average, 0.0
    total, touched = np.zeros(d), np.empty(data.shape[0], dtype=np.int64)
    for start in range(0, y.shape[0], spec.batch):
        stop = min(start + spec.batch, y.shape[0])
        m = stop - start
        count, bad = accumulate(total, touched, u, scale, X, y, group, table, start, stop, spec)
        if bad >= 0:
            return bad
        moment = step_moment(spec, book, group, table, start, stop)
        book[STEP] += 1.0
        book[CLOCK] += 1.0 / moment
        eta = book[ETA] = step_size(spec, book[STEP], moment, book[CLOCK])
        if spec.average == _STEPS:
            book[WEIGHT] += eta
            alpha += eta * scale
        if spec.estimate:
            energy = spec.lam * spec.lam * scale * scale * square
            for p in range(count):
                j = touched[p]
                energy += total[j] / m * (total[j] / m + 2.0 * spec.lam * scale * u[j])
            book[TOTAL] += energy
            book[COUNT] += 1.0
        scale *= 1.0 - eta * spec.lam
        if abs(scale) < 1e-6:  # also where the step forgets everything, η = 1/λ: start a new u before it is lost
            rest += alpha * u
            u *= scale
            square *= scale * scale
            alpha, scale = 0.0, 1.0
        for p in range(count):
            j = touched[p]
            change = -eta / (m * scale) * total[j]
            total[j] = 0.0
            rest[j] -= alpha * change
            square += change * (change + 2.0 * u[j])
            u[j] += change
        norm = abs(scale) * np.sqrt(max(square, 0.0))
        if norm > spec.radius:
            scale *= spec.radius / norm
        weight = 0.0
        if spec.average == _LATE and book[CLOCK] > spec.after:
            weight = 1.0 / moment
        elif spec.average == _GROWING:
            weight = book[CLOCK] / moment
        book[WEIGHT] += weight
        alpha += weight * scale
    w[:] = scale * u
    if book[WEIGHT] > 0.0:
        average[:] = (alpha * u + rest) / book[WEIGHT]
    return -1
