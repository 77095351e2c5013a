"""Public rows of one class: by chance, since the others are rare, or by design. Private rows say which.

Where it is by chance the start should predict a rare class, and where it is by design those rows say nothing of the
shares. Nothing public tells them apart. So the first private rows tell their classes, and the share θ of the missing
class has the posterior mean of both: with n rows of the other, and Jeffreys' prior π(θ) of Krichevsky and Trofimov,

    π(θ)·((1-θ)ⁿ + 1)·L(θ),

L the likelihood of what was told. Predicting that for every row is the start. Rows at a constant score have slopes and
curvatures that are known from the shares, so the public rows need not be read again: it is the summary that moves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uneven.anchor.clock import Coordinates, expected_excess
from uneven.anchor.diagonals import add_diagonal, take_diagonal
from uneven.anchor.summary import Summary

Array = NDArray[np.float64]

TOLD_SHARE = 0.2
"""Share of the first private source's rows that tell their classes: so many take no step."""

GRID = 4_000
"""Shares that the posterior is computed at, closer to one another at the ends, as the prior is."""


@dataclass(frozen=True)
class Share:
    """Of the missing class: the posterior mean, and the variance of its log-odds, as far as a line follows them."""

    mean: float
    variance: float


def estimate_share(rows: float, told: float, variance: float) -> Share:
    """Posterior of the missing class's share, where that many public rows have none and private rows say `told`.

    >>> estimate_share(20, 0.5, 1e-3).mean.__round__(2), estimate_share(20, 0.0, 1e-3).mean.__round__(3)
    (0.5, 0.013)
    """
    angles = (np.arange(GRID) + 0.5) * np.pi / (2.0 * GRID)
    shares = np.sin(angles) ** 2  # of equal weights: the density of the angle is Jeffreys' prior
    logs = np.logaddexp(rows * np.log1p(-shares), 0.0) - (shares - told) ** 2 / (2.0 * variance)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = float(weights @ shares)
    return Share(mean, float(weights @ (shares - mean) ** 2) / (mean * (1.0 - mean)) ** 2)


def start_from_share(summary: Summary, share: Share, class_weights: tuple[float, ...]) -> Summary:
    """The summary with the start, curvature and covariance of rows of which this share is of the missing class."""
    one = summary.one_class
    assert one is not None
    missing, seen = class_weights if one.positive else class_weights[::-1]
    shares, counts = np.array([share.mean, 1.0 - share.mean]), np.array([missing, seen])
    counted = shares * counts
    p = counted / counted.sum()
    lost, bend = -float(counted @ np.log(p)), float(counted.sum() * p.prod())
    odds = np.log(p[0] / p[1]) * (-1.0 if one.positive else 1.0)
    slopes = np.minimum(2.0 * (1.0 - p), 1.0)  # beside those at 0, as far as they are not clipped
    active = float(shares @ slopes)
    weights = np.zeros(len(summary.weights))
    weights[-1] = odds / one.constant
    frames = tuple(_bend(frame, bend / (counts.mean() / 4.0), active) for frame in summary.frames)
    none, added = np.zeros_like(summary.covariance), np.zeros(len(weights))
    every = add_diagonal(none, np.ones(len(weights)))
    added[-1] = share.variance / one.constant**2
    unit = expected_excess(frames[0].moved(weights, every), 0.0)  # that of the start is its loss, as in `know_shares`
    covariance = add_diagonal(lost / unit * every, added)
    return replace(summary, weights=weights, covariance=covariance, frames=frames, unlimited=None, one_class=None)


def _bend(frame: Coordinates, factor: float, active: float) -> Coordinates:
    """Coordinates with the loss's curvature times a factor, and the activity times another.

    The curvature and H are diagonal: rows of one class know no more of it (`keep_hessian`).
    """
    ridge = take_diagonal(frame.penalty)
    return replace(
        frame,
        hessian=add_diagonal(factor * frame.hessian, (1.0 - factor) * ridge),
        curvature=factor * np.maximum(frame.curvature - ridge, 0.0) + ridge,
        activity=active * frame.activity,
    )
