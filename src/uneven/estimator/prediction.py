"""What a linear model says of rows, from its coefficients alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from uneven.estimator.guards import validate
from uneven.losses import LOSSES
from uneven.settings import Settings
from uneven.softmax import compute_probabilities
from uneven.training import choose_classes, compute_scores, uses_softmax

Array = NDArray[np.float64]


def _has_probabilities(self: Any) -> bool:
    if not getattr(LOSSES.get(str(self.loss)), "probabilistic", False):
        raise AttributeError(f"predict_proba needs loss='logistic', got {self.loss!r}")
    return True


class LinearPrediction:
    """Scores, classes and probabilities of rows."""

    classes_: NDArray[Any]
    coef_: Array
    intercept_: Array
    threshold: float | None
    loss: str
    multi_class: str

    def decision_function(self, X: Any) -> Array:
        """Signed distance to the hyperplane, in units of the margin; long rows are shrunk as in training."""
        check_is_fitted(self, "coef_")
        X = validate(self, X, reset=False)
        scale = getattr(self, "scale_", None)
        return compute_scores(X, self.coef_, self.intercept_, None if scale is None else scale.bound)

    def predict(self, X: Any) -> NDArray[Any]:
        """Most likely class of each row, or by the `threshold`."""
        return choose_classes(self.decision_function(X), self.classes_, self.threshold)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Probability of each class; for more than two by softmax, or one-vs-rest ones scaled to sum to 1."""
        settings = Settings(loss=self.loss, multi_class=self.multi_class)
        return compute_probabilities(self.decision_function(X), uses_softmax(settings, len(self.classes_)))
