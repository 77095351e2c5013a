"""The optimum itself, which no noise has come near: what runs are compared with."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uneven.engine.state import Array
from uneven.losses import Loss
from uneven.problem import Problem

CLOSE = 1e-6
"""How near to w* is near enough, relative to its norm."""

MOST_STEPS = 200


def optimum(problem: Problem, X: Any, y: ArrayLike) -> Array:
    """w*, the minimiser of (λ/2)‖w‖² + mean ℓ(y·wᵀx), with slopes capped as the problem's clip says.

    Smooth losses by Newton's method with step halving; f is λ-strongly convex, so ‖w - w*‖ ≤ ‖∇f(w)‖/λ tells how
    close it is. The hinge, whose cap is a weight of the row, by liblinear's dual coordinate descent.

    >>> problem = Problem(n_features=1, alpha=1.0, batch_size=1, loss="linear")
    >>> optimum(problem, [[0.5]], [1.0]).tolist()
    [0.5]
    """
    rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    cap = problem.row_limit / np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
    if problem.loss_function.smooth:
        return _newton(problem, rows, labels, cap)
    return _dual_descent(problem, rows, labels, cap)


def accuracy(weights: ArrayLike, X: Any, y: ArrayLike) -> Array:
    """Share of rows on the right side of the plane, for weights of shape (..., d); on the plane counts as -1.

    >>> accuracy([[1.0], [-1.0]], [[0.5], [0.25]], [1.0, 1.0]).tolist()
    [1.0, 0.0]
    """
    W, labels = np.asarray(weights, dtype=np.float32), np.asarray(y)
    flat = W.reshape(-1, W.shape[-1])
    right = np.zeros(len(flat), dtype=np.int64)
    for start in range(0, len(labels), 8192):
        rows = slice(start, start + 8192)
        right += ((np.asarray(X[rows], dtype=np.float32) @ flat.T > 0) == (labels[rows, None] > 0)).sum(axis=0)
    return np.asarray(right.reshape(W.shape[:-1]) / len(labels))


def _newton(problem: Problem, X: Array, y: Array, cap: Array) -> Array:
    loss, lam, signed = problem.loss_function, problem.alpha, X * y[:, None]

    def value(w: Array) -> float:
        return float(loss.value(signed @ w, cap).mean() + lam / 2.0 * (w @ w))

    w = np.zeros(X.shape[1])
    for _ in range(MOST_STEPS):
        margins = signed @ w
        slopes = loss.slope(margins, cap)
        gradient = lam * w + signed.T @ slopes / len(y)
        if np.linalg.norm(gradient) <= lam * CLOSE * 1e-3 * max(1.0, float(np.linalg.norm(w))):
            return w
        weights = _curvature(loss, slopes, cap) / len(y)
        step = np.linalg.solve((X.T * weights) @ X + lam * np.eye(len(w)), gradient)
        shorter = (step / 2.0**k for k in range(40))
        before = value(w)
        w = next((w - s for s in shorter if value(w - s) < before), w)
        if value(w) >= before:  # to the last digit
            break
    if np.linalg.norm(gradient) > lam * CLOSE * max(1.0, float(np.linalg.norm(w))):
        raise _not_found(problem)
    return w


def _curvature(loss: Loss, slopes: Array, cap: Array) -> NDArray[Any]:
    """Second derivative at each margin, 0 where the slope is capped: q(1 - q) for a logistic slope -q."""
    if loss.curvature == 0.0:
        return np.zeros_like(slopes)
    return np.where(-slopes < cap, -slopes * (1.0 + slopes), 0.0)


def _dual_descent(problem: Problem, X: Array, y: Array, cap: Array) -> Array:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    strength = 1.0 / (problem.alpha * len(y))
    solver = LinearSVC(loss="hinge", C=strength, fit_intercept=False, tol=1e-5, max_iter=200_000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            solver.fit(X, y, sample_weight=np.minimum(cap, 1.0))
        except ConvergenceWarning:
            raise _not_found(problem) from None
    return np.asarray(solver.coef_[0], dtype=np.float64)


def _not_found(problem: Problem) -> ValueError:
    return ValueError(f"alpha must be larger for the optimum to be found within patience, got {problem.alpha:g}")
