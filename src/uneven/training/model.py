"""A fitted linear classifier as plain values: what predictions, files and reports need of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from uneven.columns import Column, Encoder
from uneven.planner import Plan
from uneven.settings import Settings
from uneven.softmax import compute_probabilities
from uneven.training.labels import uses_softmax
from uneven.training.scaling import Scale, shorten_rows

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """A linear classifier, and how it was made.

    Attributes
    ----------
    classes : array
        In order.
    coef, intercept : arrays of shape (k, d) and (k,)
        k is 1 for two classes, else the number of classes.
    settings : Settings
    noise : Noise, dict of str to Noise, or None
        As given.
    scale : Scale or None
    plan : Plan or None
        For the rows as scaled, the intercept's feature included.
    alpha : float or None
        L2 strength that was used, for rows as given.
    privacy_spent : dict
        The most ε that a row of each private source has spent.
    flip_rates : dict
        Flip rate of each source with flipped labels.
    feature_names : tuple of str or None
    columns : tuple of Column or None
        Columns that the features are made of, where they are described publicly; None where columns are features.
    simulated : bool
        Whether noise of private rows came from a seed: then nothing is promised about privacy.
    notes : tuple of str
        What was found on the way, in words: whether private sources agree with the public ones, and the like. All of it
        is from rows without privacy and from releases that were charged.
    """

    classes: NDArray[Any]
    coef: Array
    intercept: Array
    settings: Settings
    noise: Any = None
    scale: Scale | None = None
    plan: Plan | None = None
    alpha: float | None = None
    privacy_spent: Mapping[str, float] = field(default_factory=dict)
    flip_rates: Mapping[str, float] = field(default_factory=dict)
    feature_names: tuple[str, ...] | None = None
    columns: tuple[Column, ...] | None = None
    simulated: bool = False
    notes: tuple[str, ...] = ()

    @cached_property
    def encoder(self) -> Encoder | None:
        """What makes features of the columns; None where columns are features."""
        return None if self.columns is None else Encoder(self.columns, learned=True)

    @property
    def n_features(self) -> int:
        """Number of columns that rows must have."""
        return int(self.coef.shape[1])

    @property
    def together(self) -> bool:
        """Whether more than two classes were learned as one problem: probabilities are then by softmax."""
        return uses_softmax(self.settings, len(self.classes))

    def predict(self, X: Any) -> NDArray[Any]:
        """Most likely class of each row, or by the threshold of the settings."""
        return choose_classes(self.scores(X), self.classes, self.settings.threshold)

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class of each row."""
        return compute_probabilities(self.scores(X), self.together)

    def scores(self, X: Any) -> Array:
        """Signed distance of rows to each hyperplane; rows beyond the bound are shrunk to it, as in training."""
        return compute_scores(X, self.coef, self.intercept, None if self.scale is None else self.scale.bound)


def compute_scores(X: Any, coef: Array, intercept: Array, bound: float | None = None) -> Array:
    """Signed distance of rows to each hyperplane, in units of the margin: shape (n,) for one, else (n, k).

    Rows longer than `bound` are shrunk to it: that is what the weights were learned on.
    """
    scores = np.asarray(shorten_rows(X, bound) @ coef.T + intercept)
    return scores.ravel() if scores.shape[1] == 1 else scores


def choose_classes(scores: Array, classes: NDArray[Any], threshold: float | None = None) -> NDArray[Any]:
    """Most likely class from scores; of two, the second where its probability is at least the threshold.

    >>> choose_classes(np.array([-0.9, -1.2]), np.array(["no", "yes"]), threshold=0.25).tolist()
    ['yes', 'no']
    """
    if threshold is not None:
        scores = scores - np.nextafter(logit(threshold), -np.inf)
    places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    return np.asarray(classes[places])
