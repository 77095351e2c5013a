"""Losses of the margin m = y·wᵀx: value, slope and the constants the theory needs.

All three are convex and non-increasing in the margin, so a row's gradient is ``slope(m)·y·x`` with
``-lipschitz ≤ slope ≤ 0``. Shrinking that gradient to norm C is the same as capping the slope at
``-C/‖x‖``, and the capped slope is exactly the slope of another convex loss: the same one above the
margin where the cap takes hold, and its tangent below. `cap` asks for that loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, expit

from uneven import checks

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Loss:
    """A convex, non-increasing loss of the margin.

    Attributes
    ----------
    name : str
    value_at_zero : float
        ℓ(0), what predicting nothing costs.
    lipschitz : float
        The largest slope in magnitude; rows have norm at most 1, so it also bounds their gradients.
    curvature : float
        The largest second derivative in the margin; infinite for a loss with a kink.
    infimum : float
        The least value it can take; minus infinity for the linear loss.
    """

    name: str
    value_at_zero: float
    lipschitz: float
    curvature: float
    infimum: float
    _value: Callable[[Array, Array], Any] = field(repr=False, compare=False)
    _slope: Callable[[Array], Any] = field(repr=False, compare=False)

    @property
    def smooth(self) -> bool:
        """Whether the slope is continuous, which Theorem C needs."""
        return math.isfinite(self.curvature)

    def clipped_curvature(self, clip: float) -> float:
        """Largest curvature in w of a row's loss, rows in the unit ball and gradients shrunk to norm `clip`.

        A logistic slope -q has the curvature q(1 - q), and q ≤ C/‖x‖, so ‖x‖²q(1 - q) is at most C(1 - C) for
        C < ½.

        >>> LOGISTIC.clipped_curvature(0.25)
        0.1875
        """
        return clip * (1.0 - clip) if self.name == "logistic" and clip < 0.5 else self.curvature

    def value(self, margin: ArrayLike, cap: ArrayLike = math.inf) -> Array:
        """Loss at each margin; with `cap`, of the loss whose slope is at least ``-cap``.

        >>> LOGISTIC.value([0.0, -1000.0]).round(4).tolist()
        [0.6931, 1000.0]
        >>> LOGISTIC.value(-1000.0, cap=0.5).round(4).item()
        500.6931
        """
        cap = np.minimum(np.asarray(cap, dtype=np.float64), self.lipschitz)
        return np.asarray(self._value(np.asarray(margin, dtype=np.float64), cap))

    def slope(self, margin: ArrayLike, cap: ArrayLike = math.inf) -> Array:
        """Derivative in the margin, never below ``-cap``.

        >>> LOGISTIC.slope([0.0, -1000.0], cap=0.75).tolist()
        [-0.5, -0.75]
        """
        m = np.asarray(margin, dtype=np.float64)
        return np.asarray(np.maximum(self._slope(m), -np.asarray(cap, dtype=np.float64)))


def _capped_logistic(m: Array, cap: Array) -> Array:
    """Logistic loss, and its tangent H(cap) - cap·m where the slope would be steeper than the cap.

    log(1 + e^{-m}) is the largest of H(q) - q·m over q in [0, 1], H the entropy, attained at q = -slope;
    a cap only shortens the interval.
    """
    tangent = entr(cap) + entr(1.0 - cap) - cap * m
    return np.where(expit(-m) > cap, tangent, np.logaddexp(0.0, -m))


LOGISTIC = Loss(
    "logistic",
    value_at_zero=math.log(2),
    lipschitz=1.0,
    curvature=0.25,
    infimum=0.0,
    _value=_capped_logistic,
    _slope=lambda m: -expit(-m),
)
"""ℓ(m) = log(1 + e^{-m})"""

HINGE = Loss(
    "hinge",
    value_at_zero=1.0,
    lipschitz=1.0,
    curvature=math.inf,
    infimum=0.0,
    _value=lambda m, cap: cap * np.maximum(0.0, 1.0 - m),
    _slope=lambda m: np.where(m < 1.0, -1.0, 0.0),
)
"""ℓ(m) = max(0, 1 - m)"""

LINEAR = Loss(
    "linear",
    value_at_zero=0.0,
    lipschitz=1.0,
    curvature=0.0,
    infimum=-math.inf,
    _value=lambda m, cap: -cap * m,
    _slope=lambda m: np.full_like(m, -1.0),
)
"""ℓ(m) = -m, the example of the paper's Section 3."""

LOSSES: dict[str, Loss] = {loss.name: loss for loss in (LOGISTIC, HINGE, LINEAR)}


def get_loss(loss: str | Loss) -> Loss:
    """Return the loss of that name.

    >>> get_loss("hinge").lipschitz
    1.0
    >>> get_loss("squared")
    Traceback (most recent call last):
    ValueError: loss must be one of 'logistic', 'hinge', 'linear'; got 'squared'
    """
    return loss if isinstance(loss, Loss) else LOSSES[checks.one_of("loss", loss, LOSSES)]
