"""The classifier for people who know scikit-learn: a planner and an engine behind `fit` and `predict`.

classifier    `UnevenClassifier`
accounts      what private rows are charged
prepare       rows into the unit ball, labels to -1 and 1, rows of each source together
flips         flip rates estimated from the labels themselves
going_on      more rows later
line_search   the paper's search for a better second learning rate
model_file    a fitted model as a readable file
"""

from uneven.estimator.classifier import UnevenClassifier

__all__ = ["UnevenClassifier"]
