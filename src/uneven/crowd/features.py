"""What the features of tasks say of their labels: one more worker, who is asked only about tasks not learned from.

A classifier learned from the posteriors and then asked about the same tasks would repeat them. So the tasks are dealt
into folds, and each fold is asked of a classifier learned from the others. Given the true label, its answer does not
depend on the workers' answers to the task, and enters the posterior like any other evidence.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.matrices import is_sparse

Array = NDArray[np.float64]

FOLDS = 5
STRENGTHS = (0.3, 3.0, 30.0)
"""scikit-learn's C, for features whose squared deviations from their means sum to 1 on average."""

LEAST = 0.02
"""Posteriors below this are left out of a fit: a row for each class of each task would cost more than it says."""


def standardise(X: Any) -> Any:
    """Features at one scale: their mean squared distance from their mean is 1; a sparse matrix stays sparse."""
    if is_sparse(X):
        return X / (max(float(X.multiply(X).sum()), 1e-300) / X.shape[0]) ** 0.5
    centred = np.asarray(X, dtype=np.float64) - np.mean(X, axis=0)
    return centred / max(float((centred**2).sum(axis=1).mean()), 1e-300) ** 0.5


def choose_strength(X: Any, posterior: Array, seed: int = 0) -> float:
    """C whose held-out predictions agree best with the posteriors; no gold label is looked at."""
    scores = {C: float((posterior * held_out(X, posterior, C, seed)).sum()) for C in STRENGTHS}
    return max(scores, key=lambda C: scores[C])


def held_out(X: Any, posterior: Array, C: float, seed: int) -> Array:
    """Log-probability of each class for each task, by a classifier that did not learn from the task."""
    n, k = posterior.shape
    fold = np.random.default_rng(seed).permutation(n) % min(FOLDS, n)
    found = np.full((n, k), np.log(1.0 / k))
    for one in range(fold.max() + 1):
        found[fold == one] = _predict(X, posterior, fold != one, fold == one, C)
    return found


def _predict(X: Any, posterior: Array, learned: Any, asked: Any, C: float) -> Array:
    from sklearn.linear_model import LogisticRegression

    rows, label = np.nonzero((posterior >= LEAST) & learned[:, None])
    found = np.full((int(asked.sum()), posterior.shape[1]), np.log(LEAST / posterior.shape[1]))
    if len(present := np.unique(label)) < 2:
        return np.full_like(found, -np.log(posterior.shape[1]))
    model = LogisticRegression(C=C, tol=1e-3, max_iter=200)
    model.fit(X[rows], label, sample_weight=posterior[rows, label])
    found[:, present] = model.predict_log_proba(X[asked])
    return found
