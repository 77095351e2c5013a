"""What a smaller expected log-loss means in correct classifications.

Scores of the classes are taken to be normal, with one variance, around the log of the classes' shares. The variance at
which their mean entropy is a given log-loss is that of a calibrated classifier with this loss, and tells its accuracy.
What private rows bring is expected as a loss first: it is tied to the loss seen of rows that were left out, while the
covariance of weights from few rows would promise scores of any size.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, softmax

from uneven.draws import make_public_generator

Array = NDArray[np.float64]

DRAWS = 1_000
"""Rows whose scores are drawn."""

SPREADS = np.append(0.0, np.geomspace(0.05, 200.0, 80))
"""Standard deviations of the scores that are tried."""


def expect_gain(shares: ArrayLike, before: float, after: float) -> float:
    """Accuracy that a classifier gains whose mean log-loss becomes `after` where it was `before`.

    Parameters
    ----------
    shares : array of shape (K,)
        Of the classes, none 0.
    before, after : float

    Examples
    --------
    >>> expect_gain([0.5, 0.5], 0.8, 0.7)  # both are worse than predicting nothing
    0.0
    >>> round(expect_gain([0.5, 0.5], 0.6, 0.5), 2)
    0.08
    """
    losses, correct = _relate(tuple(np.asarray(shares, dtype=np.float64).tolist()))
    at_after, at_before = np.interp([after, before], losses[::-1], correct[::-1])
    return float(at_after - at_before)


@lru_cache(maxsize=8)  # asked for each step of a ladder
def _relate(shares: tuple[float, ...]) -> tuple[Array, Array]:
    """Log-loss and accuracy of calibrated classifiers whose scores spread more and more."""
    levels = np.log(shares)
    scores = make_public_generator("scores of classes").standard_normal((DRAWS, len(levels)))
    found = [softmax(levels + spread * scores, axis=1) for spread in SPREADS]
    losses = np.minimum.accumulate([entr(p).sum(axis=1).mean() for p in found])
    return losses, np.maximum.accumulate([p.max(axis=1).mean() for p in found])
