"""The objective itself, for many weight vectors at once."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from uneven import softmax
from uneven.engine.rows import check_arrays
from uneven.engine.state import Array
from uneven.noise import FlippedLabels
from uneven.problem import Problem

_BLOCK_BYTES = 1 << 22


def surrogate_objective(
    problem: Problem, weights: ArrayLike, X: Any, y: ArrayLike, rate: float | tuple[float, float]
) -> Array:
    """f̃(w) = ((1-σ)f(w; y) - σf(w; -y))/(1-2σ): its mean over flips of rate σ is the objective of the true labels.

    The paper's eq. for random classification noise (Section 2.1.2; Natarajan et al. 2013), on labels as observed. The
    L2 term is that of f, since both parts have it.

    Parameters
    ----------
    problem, weights, X
        As in `objective`.
    y : array of shape (n,), labels -1 and 1 as observed
        Their labels.
    rate : float or (float, float)
        σ, below one half; or a and b of positive and negative labels (`FlippedLabels`).

    Returns
    -------
    array of shape (...)

    Examples
    --------
    >>> import numpy as np, uneven
    >>> problem = uneven.Problem(n_features=1, alpha=0.1, batch_size=1)
    >>> seen = [surrogate_objective(problem, np.ones((1, 1)), [[1.0]], [y], rate=0.25)[0] for y in (1, -1)]
    >>> true = objective(problem, np.ones((1, 1)), [[1.0]], [1])[0]
    >>> bool(np.isclose(0.75 * seen[0] + 0.25 * seen[1], true))
    True
    """
    noise, labels = FlippedLabels(rate), np.asarray(y, dtype=np.float64)
    sigma = noise.known_rate
    if sigma == 0.0:
        return objective(problem, weights, X, y)
    if noise.skew == 0.0:
        kept, flipped = objective(problem, weights, X, labels), objective(problem, weights, X, -labels)
        return np.asarray(((1.0 - sigma) * kept - sigma * flipped) / (1.0 - 2.0 * sigma))
    parts = []
    for label in np.unique(labels):
        mine, own = labels == label, sigma + label * noise.skew
        kept, flipped = (objective(problem, weights, X[mine], sign * labels[mine]) for sign in (1.0, -1.0))
        parts.append(mine.mean() * ((1.0 - 2.0 * sigma + own) * kept - own * flipped) / (1.0 - 2.0 * sigma))
    return np.asarray(sum(parts))


def objective(problem: Problem, weights: ArrayLike, X: Any, y: ArrayLike) -> Array:
    """f(w) = (λ/2)‖w‖² + mean c_y·ℓ(y·wᵀx) of the plain (uncapped) loss, for weights of shape (..., d).

    For K > 2 classes the loss is the softmax loss (`uneven.softmax`), times c_y alike.

    Parameters
    ----------
    problem : Problem
        Its loss and L2 term.
    weights : array of shape (..., d)
        One vector of them or several.
    X : array or CSR matrix of shape (n, d)
        Rows.
    y : array of shape (n,), labels -1 and 1; numbers of classes for more than two
        Their labels.

    Returns
    -------
    array of shape (...)

    Examples
    --------
    >>> import numpy as np, uneven
    >>> problem = uneven.Problem(n_features=2, alpha=0.1, batch_size=1)
    >>> objective(problem, np.zeros((3, 2)), np.eye(2), [1, -1]).round(4).tolist()
    [0.6931, 0.6931, 0.6931]
    """
    W = np.asarray(weights, dtype=np.float64)
    flat = W.reshape(-1, W.shape[-1])
    checked = check_arrays("rows", X, y, problem.columns, classes=problem.classes)
    if len(checked) == 0:
        raise ValueError("X must have at least one row, got none")
    labels, loss = np.asarray(checked.y, dtype=np.float64), problem.loss_function

    def summed(rows: slice) -> Array:
        if problem.outputs > 1:
            scores = np.asarray(checked.X[rows] @ flat.reshape(-1, problem.columns).T, dtype=np.float64)
            scores = scores.reshape(-1, len(flat), problem.outputs)
            numbers = np.broadcast_to(labels[rows, None].astype(np.int64), scores.shape[:2])
            return np.asarray(problem.weigh(labels[rows]) @ softmax.loss_values(scores, numbers))
        margins = np.asarray(checked.X[rows] @ flat.T, dtype=np.float64)
        margins *= labels[rows, None]
        if not problem.weighted:
            return loss.summed(margins)
        parts = [(weight, labels[rows] == sign) for sign, weight in zip((-1, 1), problem.class_weights, strict=True)]
        return sum((weight * loss.summed(margins[at]) for weight, at in parts if at.any()), np.zeros(len(flat)))

    step = max(1, _BLOCK_BYTES // (8 * (len(flat) * problem.outputs + problem.n_features)))
    blocks = [slice(start, start + step) for start in range(0, len(labels), step)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        total = sum(pool.map(summed, blocks))
    values = total / len(labels) + problem.alpha / 2.0 * (flat**2).sum(axis=1)
    return np.asarray(values.reshape(W.shape[:-1]))
