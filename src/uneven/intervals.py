"""Values with 95% intervals, and the shares that they are of."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

Z_95 = 1.96
"""Standard errors from the middle of a 95% interval to its ends."""


class Interval(NamedTuple):
    """A value and its 95% interval."""

    value: float
    low: float
    high: float


def find_wilson_interval(right: float, rows: float) -> Interval:
    """Share and its Wilson interval, which stays inside [0, 1].

    >>> [round(end, 3) for end in find_wilson_interval(90, 100)]
    [0.9, 0.826, 0.945]
    """
    share, square = right / rows, Z_95**2
    middle = (share + square / (2 * rows)) / (1 + square / rows)
    half = Z_95 / (1 + square / rows) * math.sqrt(share * (1 - share) / rows + square / (4 * rows**2))
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half))


def find_share_interval(right: float, rows: float, confidence: float = 0.95) -> Interval:
    """Share of correct rows and its exact interval (Clopper and Pearson 1934), which holds for any number of rows.

    >>> [round(end, 3) for end in find_share_interval(90, 100)]
    [0.9, 0.824, 0.951]
    """
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if right <= 0 else float(betaincinv(right, rows - right + 1, tail))
    high = 1.0 if right >= rows else float(betaincinv(right + 1, rows - right, 1.0 - tail))
    return Interval(right / rows, low, high)


def measure_shares_below(scores: NDArray[Any], others: NDArray[Any]) -> NDArray[np.float64]:
    """For each score, the share of the others below it; equals count half. Of positive rows their mean is the AUC.

    >>> measure_shares_below(np.array([0.5, 2.0]), np.array([0.0, 0.5, 1.0, 1.5])).tolist()
    [0.375, 1.0]
    """
    ordered = np.sort(others)
    places = np.searchsorted(ordered, scores) + np.searchsorted(ordered, scores, side="right")
    return np.asarray(places / (2.0 * len(others)))
