"""The order in which rows are given does not matter: a call takes its rows in a random order of its own."""

import numpy as np
import pytest

from samples import blobs, objective
from uneven import UnevenClassifier

RUNS = 24


def objectives(X, y, method):
    """Objective on all rows after one call, for different seeds."""
    models = (getattr(UnevenClassifier(strategy="precision", random_state=seed), method)(X, y) for seed in range(RUNS))
    return np.array([objective(clf, X, y, 1e-3) for clf in models])


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_rows_sorted_by_label_teach_as_much_as_rows_in_any_order(method):
    """Means agree within four standard errors; rows taken as they come would be a class at a time, and many away."""
    X, y = blobs(2_000)
    order = np.argsort(y, kind="stable")
    as_they_are, by_label = objectives(X, y, method), objectives(X[order], y[order], method)
    error = np.hypot(as_they_are.std(ddof=1), by_label.std(ddof=1)) / np.sqrt(RUNS)
    assert error < 0.1 * as_they_are.mean()  # else the next line could not fail
    assert abs(as_they_are.mean() - by_label.mean()) < 4 * error
