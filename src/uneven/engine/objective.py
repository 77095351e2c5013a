"""The objective itself, for many weight vectors at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uneven.engine.rows import checked_arrays
from uneven.engine.state import Array
from uneven.problem import Problem

_BLOCK_BYTES = 1 << 25


def objective(problem: Problem, weights: ArrayLike, X: Any, y: ArrayLike) -> Array:
    """f(w) = (λ/2)‖w‖² + mean ℓ(y·wᵀx) of the plain (uncapped) loss, for weights of shape (..., d).

    >>> import numpy as np, uneven
    >>> problem = uneven.Problem(n_features=2, alpha=0.1, batch_size=1)
    >>> objective(problem, np.zeros((3, 2)), np.eye(2), [1, -1]).round(4).tolist()
    [0.6931, 0.6931, 0.6931]
    """
    W = np.asarray(weights, dtype=np.float64)
    flat, checked = W.reshape(-1, W.shape[-1]), checked_arrays("rows", X, y, problem.n_features)
    if len(checked) == 0:
        raise ValueError("X must have at least one row, got none")
    labels, total = np.asarray(checked.y, dtype=np.float64), np.zeros(len(flat))
    step = max(1, _BLOCK_BYTES // (8 * (len(flat) + problem.n_features)))
    for start in range(0, len(labels), step):
        rows = slice(start, start + step)
        margins = labels[rows, None] * np.asarray(checked.X[rows] @ flat.T, dtype=np.float64)
        total += problem.loss_function.value(margins).sum(axis=0)
    values = total / len(labels) + problem.alpha / 2.0 * (flat**2).sum(axis=1)
    return np.asarray(values.reshape(W.shape[:-1]))
