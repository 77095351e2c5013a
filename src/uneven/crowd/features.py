"""What the features of tasks say of their labels: one more worker, who is asked only about tasks not learned from.

A classifier learned from the posteriors and then asked about the same tasks would repeat them. So the tasks are dealt
into folds, and each fold is asked of a classifier learned from the others. Given the true label, its answer does not
depend on the workers' answers to the task, and enters the posterior like any other evidence.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from uneven.matrices import is_sparse

Array = NDArray[np.float64]

FOLDS = 5
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)
"""scikit-learn's C, for features whose squared deviations from their means sum to 1 on average."""

LEAST = 0.02
"""Posteriors below this are left out of a fit: a row for each class of each task would cost more than it says."""


def find_spread(X: Any) -> float:
    """Root of the mean squared distance of rows from their mean; from zero where they are sparse."""
    squares = X.multiply(X).sum() / X.shape[0] if is_sparse(X) else np.var(X, axis=0, dtype=np.float64).sum()
    return math.sqrt(max(float(squares), 1e-300))


def standardise(X: Any) -> Any:
    """Features whose mean squared distance from their mean is 1; a sparse matrix stays sparse."""
    return (X if is_sparse(X) else np.asarray(X, dtype=np.float64) - np.mean(X, axis=0)) / find_spread(X)


def choose_strength(X: Any, posterior: Array, seed: int = 0) -> float:
    """Smallest C whose held-out predictions agree with the posteriors as well as any, within a standard error.

    Posteriors repeat errors that workers share, and a weaker penalty learns these too. No gold label is looked at.
    """
    scores = [(posterior * predict_held_out(X, posterior, C, seed)).sum(axis=1) for C in STRENGTHS]
    best = max(scores, key=np.mean)
    behind = [best - one for one in scores]
    within = [float(one.mean()) <= float(one.std()) / len(one) ** 0.5 for one in behind]
    return STRENGTHS[within.index(True)]


def predict_held_out(X: Any, posterior: Array, C: float, seed: int) -> Array:
    """Log-probability of each class for each task, by a classifier that did not learn from the task."""
    n, k = posterior.shape
    fold = np.random.default_rng(seed).permutation(n) % min(FOLDS, n)
    found = np.full((n, k), np.log(1.0 / k))
    for one in range(fold.max() + 1):
        found[fold == one] = _predict(X, posterior, fold != one, fold == one, C)
    return found


def _predict(X: Any, posterior: Array, learned: Any, asked: Any, C: float) -> Array:
    coef, intercept = learn(X[learned], posterior[learned], C)
    return np.asarray(log_softmax(X[asked] @ coef.T + intercept, axis=1))


def learn(
    X: Any, posterior: Array, C: float, fit_intercept: bool = True, tolerance: float = 1e-3
) -> tuple[Array, Array]:
    """Weights of shape (k, d) and intercepts of the softmax model with the largest Σ q·log p - ‖w‖²/(2C).

    A class that no task is likely to be of has no weights and a low intercept.
    """
    from sklearn.linear_model import LogisticRegression

    k, (rows, label) = posterior.shape[1], np.nonzero(posterior >= LEAST)
    coef, intercept = np.zeros((k, X.shape[1])), np.full(k, np.log(LEAST / k))
    if len(present := np.unique(label)) < 2:
        return coef, np.zeros(k)
    model = LogisticRegression(C=C, tol=tolerance, max_iter=1_000, fit_intercept=fit_intercept)
    model.fit(X[rows], label, sample_weight=posterior[rows, label])
    halves = np.array([[-0.5], [0.5]]) if len(present) == 2 else np.ones((len(present), 1))
    coef[present], intercept[present] = halves * model.coef_, halves[:, 0] * model.intercept_
    return coef, intercept
