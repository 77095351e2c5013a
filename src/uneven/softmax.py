"""More than two classes: the softmax loss ℓ(s, y) = log Σ_k e^{s_k} - s_y of the scores s = Wx, W of shape (K, d).

Its gradient in W is (p - e_y)xᵀ, p = softmax(s): one vector in dK dimensions, no longer than √2‖x‖. The Hessian in s,
diag(p) - ppᵀ, is at most ½. Labels that are only seen through a confusion matrix T, T_ij the probability that class i
is observed as j, have the surrogate ℓ̃(o) = Σ_j (T⁻¹)_oj ℓ(j), whose mean over observations is the loss of the true
class; rows of T⁻¹ sum to 1, so its gradient is (p - (T⁻¹)_o)xᵀ and it is convex. Where rows of class j count c_j, t =
(T⁻¹)_o·diag(c) stands for (T⁻¹)_o, and the gradient is (p·Σt - t)xᵀ.

Shrinking (p - e_y)xᵀ to norm C is for two classes the gradient of another convex loss (`losses`). For more it is of
none: the shrunk field is not a gradient, and no theorem here covers it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

from uneven.losses import LOGISTIC, Loss

Array = NDArray[np.float64]

CURVATURE = 0.5
"""Largest eigenvalue of diag(p) - ppᵀ, at p = (½, ½, 0, ...)."""


def _no_margin(*_: object) -> Array:
    raise ValueError("the softmax loss must be given scores of all classes, got a margin")


def softmax_loss(classes: int) -> Loss:
    """Constants of the softmax loss, in the form of the losses of a margin.

    >>> round(softmax_loss(10).value_at_zero, 4), round(softmax_loss(10).lipschitz, 4)
    (2.3026, 1.4142)
    """
    return Loss(
        LOGISTIC.name,
        value_at_zero=math.log(classes),
        lipschitz=math.sqrt(2.0),
        curvature=CURVATURE,
        infimum=0.0,
        capped_value=_no_margin,
        plain_slope=_no_margin,
        second_derivative=_no_margin,
        minimise=_no_margin,
        probabilistic=True,
        multinomial=True,
    )


def loss_values(scores: Array, labels: NDArray[np.int64]) -> Array:
    """ℓ(s, y) of each row: scores of shape (..., K), labels of the leading shape."""
    chosen = np.take_along_axis(scores, labels[..., None], axis=-1)[..., 0]
    return np.asarray(logsumexp(scores, axis=-1) - chosen)


def centre_weights(weights: Array, classes: int) -> Array:
    """Weights of K classes, shape (..., Kd), less their mean over the classes: the same probabilities.

    The gradient sums to 0 over classes, and noise does not: 1/K of its energy is in that mean, where it only costs.

    >>> centre_weights(np.array([1.0, 2.0, 0.0, 2.0, 5.0, 2.0]), classes=3).tolist()
    [-1.0, 0.0, -2.0, 0.0, 3.0, 0.0]
    """
    matrix = weights.reshape(*weights.shape[:-1], classes, -1)
    return np.asarray(matrix - matrix.mean(axis=-2, keepdims=True)).reshape(weights.shape)


def compute_probabilities(scores: Array, together: bool = False) -> Array:
    """Probability of each class from scores: for more than two, by softmax, or one-vs-rest ones scaled to sum to 1."""
    if together:
        return np.asarray(softmax(scores, axis=1))
    positive = expit(scores)
    if positive.ndim == 1:
        return np.column_stack([1.0 - positive, positive])
    return np.asarray(positive / np.maximum(positive.sum(axis=1, keepdims=True), 1e-300))


def score_gradients(scores: Array, targets: Array, cap: Array | float = math.inf) -> Array:
    """Σ_j t_j·shrunk(p - e_j) of each row, shrunk to norm `cap`: t as above, e_y for exact labels.

    Parameters
    ----------
    scores, targets : arrays of shape (n, K)
    cap : array of shape (n,) or float

    Examples
    --------
    >>> score_gradients(np.zeros((1, 2)), np.eye(2)[:1]).tolist()
    [[-0.5, 0.5]]
    """
    p = softmax(scores, axis=1)
    lengths = np.sqrt(np.maximum((p**2).sum(axis=1, keepdims=True) - 2.0 * p + 1.0, 1e-300))
    shares = targets * np.minimum(1.0, np.reshape(cap, (-1, 1)) / lengths)
    return np.asarray(p * shares.sum(axis=1, keepdims=True) - shares)


def row_gradients(weights: Array, X: Array, targets: Array, limit: float) -> Array:
    """Gradient of each row in the weights, shape (n, K·d): the outer product of `score_gradients` and the row."""
    n, d = X.shape
    cap = limit / np.maximum(np.linalg.norm(X, axis=1), 1e-300)
    factors = score_gradients(X @ weights.reshape(-1, d).T, targets, cap)
    return (factors[:, :, None] * X[:, None, :]).reshape(n, -1)
