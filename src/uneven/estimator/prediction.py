"""What a linear model says of rows, from its coefficients alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

Array = NDArray[np.float64]


def _has_probabilities(self: Any) -> bool:
    if self.loss != "logistic":
        raise AttributeError(f"predict_proba needs loss='logistic', got {self.loss!r}")
    return True


class LinearPrediction:
    """Scores, classes and probabilities of rows."""

    classes_: NDArray[Any]
    coef_: Array
    intercept_: Array

    def decision_function(self, X: Any) -> Array:
        """Signed distance to the hyperplane, in units of the margin."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        scores = np.asarray(X @ self.coef_.T + self.intercept_)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Most likely class of each row."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[places])

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Probability of each class; for more than two, one-vs-rest ones made to add up."""
        positive = expit(self.decision_function(X))
        if positive.ndim == 1:
            return np.column_stack([1.0 - positive, positive])
        return np.asarray(positive / np.maximum(positive.sum(axis=1, keepdims=True), 1e-300))
