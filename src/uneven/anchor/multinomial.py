"""The softmax loss of a block of rows without privacy, and its derivatives in the weights W of shape (K, d)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from uneven.anchor.likelihood import describe_scores
from uneven.matrices import is_sparse

Array = NDArray[np.float64]

SHORTEST = 1e-5
"""Scores below this are taken for 0, where multiples of them are compared."""

DENSE_ROWS = 4096
"""Sparse rows that are made dense at once, for their curvature."""


def sum_multiples(scores: Array, labels: NDArray[np.int64], confusion: Array, levels: Array, lengths: Array) -> Array:
    """Sums over rows of what `Objective.along` describes, at each length, shape (5, lengths)."""
    inverse = np.asarray(np.linalg.inv(confusion), dtype=np.float64)
    sums, known = np.empty((5, len(lengths))), (confusion.T[labels], inverse[labels], levels)
    short = lengths * float(np.abs(scores).max(initial=0.0)) < SHORTEST
    sums[:, ~short] = np.array([sum_multiple(scores, *known, one) for one in lengths[~short].tolist()]).reshape(-1, 5).T
    sums[:, short] = sum_multiple(scores, *known, 0.0)[:, None]
    return sums


def sum_multiple(scores: Array, chances: Array, targets: Array, levels: Array, length: float) -> Array:
    """Of rows whose scores z are multiplied by a length: sums of what `Objective.along` describes.

    Parameters
    ----------
    scores : array of shape (n, K)
    chances : array of shape (n, K)
        Probability of the label observed, given each class.
    targets : array of shape (n, K)
        What stands for that label in the surrogate lse(z) - tᵀz: 1 for an exact one.
    levels : array of shape (K,)
        What class weights add to the scores: log-likelihood and loss are those of classes as they are.
    length : float
    """
    z = length * scores - levels
    largest = z.max(axis=1)
    parts = np.exp(z - largest[:, None])
    whole, seen = parts.sum(axis=1), np.einsum("nk,nk->n", parts, chances)
    total = largest + np.log(whole)
    surrogate = total - np.einsum("nk,nk->n", targets, z)
    lost = np.log(whole / np.maximum(seen, np.finfo(np.float64).tiny))  # a label that some class never has may be seen
    slope = np.einsum("nk,nk->n", parts, scores) @ (1.0 / whole)
    return np.array([lost.sum(), total.sum(), slope, surrogate.sum(), surrogate @ surrogate])


def sum_terms(W: Array, X: Any, targets: Array, curvature: str) -> tuple[float, Array, Array | None]:
    """Sum of u·lse(Wx) - t·Wx over the rows, u = Σt, its gradient (uP - T)ᵀX, and its Hessian or the diagonal of it.

    Parameters
    ----------
    W : array of shape (K, d)
    X : array or CSR matrix of shape (n, d)
    targets : array of shape (n, K)
        t: c_y·e_y for exact labels, the surrogate's for observed ones (`Noise.weighted_targets`).
    curvature : {"none", "diagonal", "full"}
    """
    scores = np.asarray(X @ W.T)
    levels = logsumexp(scores, axis=1, keepdims=True)
    P, units = np.exp(scores - levels), targets.sum(axis=1, keepdims=True)
    value = float((units * levels).sum() - (targets * scores).sum())
    gradient = np.asarray(X.T @ (units * P - targets)).T.ravel()
    return value, gradient, _sum_curvature(X, P, units[:, 0], curvature)


def sum_observed(
    W: Array, X: Any, confusion: Array, labels: NDArray[np.int64], curvature: str
) -> tuple[float, Array, Array | None]:
    """The same of minus the log-likelihood of labels observed through a confusion matrix (`describe_scores`)."""
    scores = np.asarray(X @ W.T)
    values, slopes, told = describe_scores(scores, confusion.T[labels], confusion)
    gradient = np.asarray(X.T @ slopes).T.ravel()
    return float(values.sum()), gradient, _sum_curvature(X, softmax(scores, axis=1), told, curvature)


def _sum_curvature(X: Any, P: Array, units: Array, curvature: str) -> Array | None:
    """Σ u(diag(p) - ppᵀ) ⊗ xxᵀ over the rows, or its diagonal."""
    if curvature == "none":
        return None
    if curvature == "diagonal":
        squares = X.multiply(X) if is_sparse(X) else X**2
        return np.asarray(squares.T @ (units[:, None] * P * (1.0 - P))).T.ravel()
    return sum_hessian(X, P, units)


def sum_hessian(X: Any, P: Array, weights: Array | None = None) -> Array:
    """Σ c(diag(p) - ppᵀ) ⊗ xxᵀ over the rows; `weights` are c, 1 where they are None."""
    (n, K), d = P.shape, X.shape[1]
    total, c = np.zeros((K * d, K * d)), np.ones(n) if weights is None else weights
    step = DENSE_ROWS if is_sparse(X) else max(n, 1)
    for rows in (slice(start, start + step) for start in range(0, n, step)):
        block = X[rows].toarray() if is_sparse(X) else X[rows]
        roots = np.sqrt(np.maximum(c[rows], 0.0))[:, None]  # below 0 by rounding only
        block = roots * block
        joint = (P[rows, :, None] * block[:, None, :]).reshape(len(block), -1)
        total -= joint.T @ joint
        for k in range(K):
            own = slice(k * d, (k + 1) * d)
            total[own, own] += joint[:, own].T @ block
    return total
