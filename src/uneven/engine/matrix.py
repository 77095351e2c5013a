"""The compiled loop of a matrix clock (Theorem D): one step size per coordinate, or a measurement without a step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from uneven.engine.codes import CLOCK, ETA, FAST, STEP
from uneven.engine.kernels import add_noisy, find_step_moment
from uneven.schedules import FARTHEST


@njit(cache=True, nogil=True, fastmath=FAST)
def advance(w: Any, clock: Any, penalty: Any, counters: Any, rows: Any, sources: Any, spec: Any, rng: Any) -> None:
    """One step of Theorem D for each mini-batch, in place; `clock` has the rows v and h (`MatrixClock`).

    With h = 0 nothing moves: then `measure` is what is wanted.
    """
    y, group, d = rows[1], rows[2], w.shape[0]
    total, scratch, weights = np.empty(d), np.empty(d), np.empty(min(spec.batch, y.shape[0]) * spec.outputs)
    pull = np.empty(d)
    for start in range(0, y.shape[0], spec.batch):
        stop = min(start + spec.batch, y.shape[0])
        moment = find_step_moment(spec, counters, group, sources, start, stop)
        counters[STEP] += 1.0
        counters[CLOCK] += 1.0 / moment
        add_noisy(total, weights, w, rows, start, stop, sources, spec, counters, scratch, rng)
        for j in range(d):
            pull[j] = spec.lam * w[j]
        if penalty.shape[0] == 1:  # a diagonal
            for j in range(d):
                pull[j] = penalty[0, j] * w[j]
        elif penalty.shape[0] > 1:
            for j in range(d):
                pull[j] = 0.0
                for i in range(d):
                    pull[j] += penalty[j, i] * w[i]
        mean = 0.0
        for j in range(d):
            v, h = clock[0, j], clock[1, j]
            step = min(d / moment * v * h / (1.0 + v * h * h * d * counters[CLOCK]), spec.scale)
            w[j] = min(max(w[j] - step * (pull[j] + total[j] / (stop - start)), -FARTHEST), FARTHEST)
            mean += step / d
        counters[ETA] = mean


@njit(cache=True, nogil=True, fastmath=FAST)
def measure(w: Any, counters: Any, rows: Any, sources: Any, spec: Any, rng: Any) -> Any:
    """Sum of all rows' gradients at w as the noises release it, mini-batch by mini-batch; w stays."""
    y, d = rows[1], w.shape[0]
    total, scratch, weights = np.empty(d), np.empty(d), np.empty(min(spec.batch, y.shape[0]) * spec.outputs)
    found = np.zeros(d)
    for start in range(0, y.shape[0], spec.batch):
        stop = min(start + spec.batch, y.shape[0])
        add_noisy(total, weights, w, rows, start, stop, sources, spec, counters, scratch, rng)
        found += total
    return found
