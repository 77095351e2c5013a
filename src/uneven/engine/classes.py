"""Compiled gradients of the softmax loss, for more than two classes: K numbers per row, times the row.

The mathematics is in `uneven.softmax`, whose NumPy functions are the specification.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from uneven.engine.codes import FAST, TARGETS


@njit(cache=True, nogil=True, fastmath=FAST)
def weigh_classes(weights: Any, w: Any, rows: Any, start: int, stop: int, sources: Any, spec: Any) -> None:
    """What each row of the batch is multiplied by in its gradient, for each class: `softmax.score_gradients`."""
    X, y, group, squares = rows
    K, d = spec.outputs, X.shape[1]
    shares = np.empty(K)
    for i in range(start, stop):
        p = weights[(i - start) * K : (i - start + 1) * K]
        for c in range(K):
            score = 0.0
            for j in range(d):
                score += np.float64(X[i, j]) * w[c * d + j]
            p[c] = score
        normalise(p)
        square, pull = np.dot(p, p), 0.0
        first = (group[i] if group.shape[0] > 0 else 0), TARGETS + int(y[i]) * K
        for c in range(K):
            shares[c] = sources[first[0], first[1] + c]
            longer = (square - 2.0 * p[c] + 1.0) * squares[i]
            if longer > spec.limit * spec.limit:
                shares[c] *= spec.limit / np.sqrt(longer)
            pull += shares[c]
        for c in range(K):
            p[c] = p[c] * pull - shares[c]


@njit(cache=True, nogil=True, fastmath=FAST)
def normalise(p: Any) -> None:
    """Softmax of scores, in place."""
    highest, total = p.max(), 0.0
    for c in range(p.shape[0]):
        p[c] = np.exp(p[c] - highest)
        total += p[c]
    p /= total


@njit(cache=True, nogil=True, fastmath=FAST)
def add_outer(total: Any, factors: Any, row: Any) -> None:
    """Add the outer product of factors and row, the classes' parts one after the other."""
    d = row.shape[0]
    for c in range(factors.shape[0]):
        factor = factors[c]
        for j in range(d):
            total[c * d + j] += factor * row[j]
