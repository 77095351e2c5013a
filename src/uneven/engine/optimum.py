"""The optimum w*, found without noise: what runs are compared with; and the accuracy and AUC of weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uneven.engine.state import Array
from uneven.intervals import measure_shares_below
from uneven.problem import Problem
from uneven.softmax import compute_probabilities


def find_optimum(problem: Problem, X: Any, y: ArrayLike) -> Array:
    """w*, the minimiser of (λ/2)‖w‖² + mean ℓ(y·wᵀx), with slopes capped as the problem's clip says.

    Parameters
    ----------
    problem : Problem
        Its loss knows how to find it (`Loss.minimise`).
    X : array of shape (n, d)
    y : array of shape (n,), labels -1 and 1

    Returns
    -------
    array of shape (d,)

    Examples
    --------
    >>> problem = Problem(n_features=1, alpha=1.0, batch_size=1, loss="linear")
    >>> find_optimum(problem, [[0.5]], [1.0]).tolist()
    [0.5]
    """
    if problem.weighted:
        raise ValueError(f"class_weights must be all 1 to find the optimum here, got {problem.class_weights}")
    rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    cap = problem.row_limit / np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
    loss = problem.loss_function
    return loss.minimise(loss, rows, labels, cap, problem.alpha)


def measure_accuracy(weights: ArrayLike, X: Any, y: ArrayLike, classes: int = 2) -> Array:
    """Share of rows classified correctly; a row with wᵀx = 0 is classified as -1.

    For K > 2 classes, weights are those of each class, one after the other.

    Parameters
    ----------
    weights : array of shape (..., d)
    X : array of shape (n, d)
    y : array of shape (n,), labels -1 and 1; numbers of classes for more than two
    classes : int

    Returns
    -------
    array of shape (...)

    Examples
    --------
    >>> measure_accuracy([[1.0], [-1.0]], [[0.5], [0.25]], [1.0, 1.0]).tolist()
    [1.0, 0.0]
    """
    W, labels = np.asarray(weights, dtype=np.float32), np.asarray(y)
    flat = W.reshape(-1, W.shape[-1])
    correct = np.zeros(len(flat), dtype=np.int64)
    for start in range(0, len(labels), 8192):
        rows = slice(start, start + 8192)
        if classes > 2:
            scores = np.asarray(X[rows], dtype=np.float32) @ flat.reshape(-1, W.shape[-1] // classes).T
            chosen = scores.reshape(-1, len(flat), classes).argmax(axis=2)
            correct += (chosen == labels[rows, None]).sum(axis=0)
            continue
        correct += ((np.asarray(X[rows], dtype=np.float32) @ flat.T > 0) == (labels[rows, None] > 0)).sum(axis=0)
    return np.asarray(correct.reshape(W.shape[:-1]) / len(labels))


def measure_auc(weights: ArrayLike, X: Any, y: ArrayLike, classes: int = 2, together: bool = True) -> Array:
    """Area under the ROC curve: the chance that a positive row has a larger wᵀx than a negative one; ties count half.

    For K > 2 classes it is the mean over classes of the area of each against the rest, by its probability.

    Parameters
    ----------
    weights : array of shape (..., d)
        For K > 2 classes those of each class, one after the other.
    X : array of shape (n, d)
    y : array of shape (n,), labels -1 and 1; numbers of classes for more than two
    classes : int
    together : bool
        Whether more than two classes were learned together (softmax), and not each against the rest.

    Returns
    -------
    array of shape (...)
        NaN without rows of every label.

    Examples
    --------
    >>> measure_auc([[1.0], [-1.0], [0.0]], [[0.5], [0.25]], [1.0, -1.0]).tolist()
    [1.0, 0.0, 0.5]
    >>> measure_auc([[3.0, 0.0, -3.0]], [[1.0], [0.0], [-1.0]], [0, 1, 2], classes=3).round(2).tolist()
    [1.0]
    """
    W, labels, rows = np.asarray(weights, dtype=np.float32), np.asarray(y), np.asarray(X, dtype=np.float32)
    flat = W.reshape(-1, W.shape[-1])
    if classes == 2:
        return np.array([_area(rows @ w, labels > 0) for w in flat]).reshape(W.shape[:-1])
    found = []
    for w in flat:
        shares = compute_probabilities(np.asarray(rows @ w.reshape(classes, -1).T, dtype=np.float64), together)
        found.append(np.mean([_area(shares[:, k], labels == k) for k in range(classes)]))
    return np.array(found).reshape(W.shape[:-1])


def _area(scores: NDArray[Any], positive: NDArray[np.bool_]) -> float:
    """Chance that a positive row has a larger score than a negative one; NaN without rows of both kinds."""
    if positive.all() or not positive.any():
        return math.nan
    return float(measure_shares_below(scores[positive], scores[~positive]).mean())
