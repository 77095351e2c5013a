"""Small data for the classifier's tests."""

import numpy as np


def blobs(n=4_000, d=4, seed=0):
    """Rows and labels of a logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = X @ np.arange(1, d + 1) + 0.5 + rng.logistic(size=n) > 0
    return X, y.astype(int)


def uneven_labels(rate=0.35, n=6_000, seed=1):
    """Rows, true labels, labels as observed (a tenth by an expert, the others flipped at the rate), and sources."""
    X, y = blobs(n, seed=seed)
    rng = np.random.default_rng(seed)
    source = np.where(np.arange(n) < n // 10, "expert", "crowd")
    observed = np.where((source == "crowd") & (rng.random(n) < rate), 1 - y, y)
    return X, y, observed, source


def objective(clf, X, y, alpha):
    """Logistic objective of a fitted linear classifier, the intercept free of charge."""
    margins = np.where(y == clf.classes_[1], 1, -1) * (X @ clf.coef_[0] + clf.intercept_[0])
    return np.logaddexp(0, -margins).mean() + alpha / 2 * np.sum(clf.coef_**2)
