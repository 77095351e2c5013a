"""The classifier for people who know scikit-learn: a planner and an engine behind `fit` and `predict`.

classifier    `UnevenClassifier`
prediction    what it says of rows
settings      its arguments, checked
labels        labels of any kind to -1 and 1
grouping      which source each row is of
scaling       rows to norm 1, by a public constant or by their root mean square
accounts      what private rows are charged
flips         flip rates estimated from the labels themselves
going_on      more rows later
line_search   the paper's search for a better second learning rate
model_file    a fitted model as a readable file
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uneven.estimator.classifier import UnevenClassifier

__all__ = ["UnevenClassifier"]


def __getattr__(name: str) -> Any:
    """Import the classifier when it is asked for: its rules of scale are needed without it, and without a compiler."""
    if name == "UnevenClassifier":
        from uneven.estimator.classifier import UnevenClassifier

        return UnevenClassifier
    raise AttributeError(f"module 'uneven.estimator' has no attribute {name!r}")
