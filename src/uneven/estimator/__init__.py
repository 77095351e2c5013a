"""The classifier for people who know scikit-learn: a planner and an engine behind `fit` and `predict`.

classifier        `UnevenClassifier`
prediction        what it says of rows
public_columns    `PublicColumns`, which makes its rows from raw tables
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uneven.estimator.classifier import UnevenClassifier
    from uneven.estimator.public_columns import PublicColumns

__all__ = ["PublicColumns", "UnevenClassifier"]


def __getattr__(name: str) -> Any:
    """Import the classifier when it is asked for: its rules of scale are needed without it, and without a compiler."""
    if name == "UnevenClassifier":
        from uneven.estimator.classifier import UnevenClassifier

        return UnevenClassifier
    if name == "PublicColumns":
        from uneven.estimator.public_columns import PublicColumns

        return PublicColumns
    raise AttributeError(f"module 'uneven.estimator' has no attribute {name!r}")
