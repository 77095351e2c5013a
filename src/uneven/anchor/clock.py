"""Coordinates in which the matrix clock is one step size per coordinate, and what Theorem D expects there.

Rows are seen as z = Tx, weights as u with w = Tᵀu, so margins are the same: uᵀz = wᵀx. T is public. A release of a
row's gradient is isotropic there; T is chosen so that the curvature is diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from uneven.anchor.diagonals import change_basis, invert, multiply, take_diagonal, turn_rows
from uneven.theory import theorem_d_gain, theorem_d_steps

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Coordinates:
    """Coordinates of a run, all of it from rows without privacy.

    Attributes
    ----------
    transform : array of shape (d, d), or (d,) where all matrices are diagonal (`diagonals`)
        T.
    curvature : array of shape (d,)
        h, of the loss with clipped gradients, L2 term included; diagonal in these coordinates.
    hessian : array of shape (d, d)
        Of the objective itself.
    start : array of shape (d,)
        u₀.
    covariance : array of shape (d, d)
        Of the start's error.
    clip_shift : array of shape (d,)
        Mean of what clipping takes from the rows' gradients at the start.
    clip_variance : array of shape (d,)
        Of that mean, over draws of the public rows.
    activity : float
        Mean length of a row's clipped gradient over the clip.
    clip : float
        C, the norm that rows' gradients are clipped to, in these coordinates.
    ridge : array of shape (d,)
        L2 strength of each weight w.
    longest_step : float
        2/L, L a bound on the curvature.
    freedom : array of shape (d,) or None
        Rows that the start's variance in each direction rests on, (Σa)²/Σa² over the squares a of their gradients: few
        where a column is rare. None where it is not needed.
    back : array of shape (d, d) or (d,), or None
        T⁻¹, where it is known.
    unlimited : array of shape (d, d) or None
        Covariance of the start's error, where that above is taken down for steps that are few (`limit_steps`).
    """

    transform: Array
    curvature: Array
    hessian: Array
    start: Array
    covariance: Array
    clip_shift: Array
    clip_variance: Array
    activity: float
    clip: float
    ridge: Array
    longest_step: float
    freedom: Array | None = None
    back: Array | None = None
    unlimited: Array | None = None

    @cached_property
    def variance(self) -> Array:
        """v, the diagonal of the start's covariance; 0 where rounding made it less, as along what all classes share."""
        return np.maximum(take_diagonal(self.covariance), 0.0)

    @property
    def doubted(self) -> Array:
        """v as it is before it is limited for steps that are few: what a source's disagreement is told by."""
        return self.variance if self.unlimited is None else np.maximum(take_diagonal(self.unlimited), 0.0)

    @cached_property
    def weighted(self) -> Array:
        """H∘V, whose sum is twice the expected excess of the start."""
        return self.hessian * self.covariance

    def gradient_of_penalty(self, u: Array) -> Array:
        """T·diag(ridge)·Tᵀu."""
        return multiply(self.penalty, u)

    @property
    def penalty(self) -> Array:
        """T·diag(ridge)·Tᵀ, the matrix of the L2 term."""
        if self.transform.ndim == 1:
            return change_basis(self.transform, self.ridge)
        return np.asarray((self.transform * self.ridge) @ self.transform.T)

    def weights(self, u: Array) -> Array:
        """w = Tᵀu."""
        return multiply(self.transform.T, u)

    def moved(self, weights: Array, covariance: Array, unlimited: Array | None = None) -> Coordinates:
        """The same coordinates with another start, w and the covariance of its error."""
        back = invert(self.transform) if self.back is None else self.back
        doubted = None if unlimited is None else change_basis(back.T, unlimited)
        moved = multiply(back.T, weights)
        return replace(self, start=moved, covariance=change_basis(back.T, covariance), unlimited=doubted)


def compute_error_covariance(coordinates: Coordinates, clock: float | Array, start: Array | None = None) -> Array:
    """Covariance of u's error at clock τ: (1-k)(1-k)ᵀ∘V + diag(k²/(h²τ)), k the gain of Theorem D.

    `start` is V where it is another than that which the steps are made for.
    """
    V = coordinates.covariance if start is None else start
    k = theorem_d_gain(coordinates.variance, coordinates.curvature, clock)
    noise = k * (1.0 - k) * coordinates.variance  # k²/(h²τ), without a division by τ = 0
    if V.ndim == 1:
        return np.asarray((1.0 - k) ** 2 * V + noise)
    return np.asarray(np.outer(1.0 - k, 1.0 - k) * V + np.diag(noise))


def compute_error_covariances(coordinates: Coordinates, clock: float | Array) -> tuple[Array, Array | None]:
    """Covariance of u's error at clock τ, and what it is from the unlimited one of the start; None without that."""
    found = coordinates.unlimited
    unlimited = None if found is None else compute_error_covariance(coordinates, clock, found)
    return compute_error_covariance(coordinates, clock), unlimited


def expected_excess(coordinates: Coordinates, clock: float) -> float:
    """½tr(H·covariance) + ½βᵀHβ, β = k·(clip shift)/h: Theorem D's excess and what clipping does to the optimum."""
    return float(expect_excesses(coordinates, np.array([clock]))[0])


def expect_excesses(coordinates: Coordinates, clocks: Array) -> Array:
    """`expected_excess` at each of these clocks."""
    k = theorem_d_gain(coordinates.variance, coordinates.curvature, clocks[:, None])
    bias, left = k * coordinates.clip_shift / coordinates.curvature, 1.0 - k
    noise = k * left * coordinates.variance  # as in `compute_error_covariance`, of which only the sum with H is needed
    H = coordinates.hessian
    own = H if H.ndim == 1 else H.diagonal()
    squares = turn_rows(left, coordinates.weighted) * left + own * noise + turn_rows(bias, H) * bias
    return np.asarray(squares.sum(axis=1) / 2.0)


def compute_capped_excess(coordinates: Coordinates, precision: float, steps: int) -> float:
    """Expected excess after `steps` steps of precision 1/σ² each, where step sizes are limited; computed step by step.

    Without the limit it is `expected_excess` at the clock steps·precision, but for what clipping does.
    """
    v, h, t = coordinates.variance, coordinates.curvature, np.arange(1, steps + 1)[:, None]
    eta = np.minimum(theorem_d_steps(v, h, precision, t * precision), coordinates.longest_step)
    kept = np.cumprod((1.0 - eta[::-1] * h) ** 2, axis=0)[::-1]  # of an error before step t, after the last
    noise = (eta[:-1] ** 2 * kept[1:]).sum(axis=0) + eta[-1] ** 2
    return float(take_diagonal(coordinates.hessian) @ (kept[0] * v + noise / precision) / 2.0)


def absorb(coordinates: Coordinates, gradient: Array, clock: float | Array) -> Coordinates:
    """Coordinates whose start has taken one step by a mean gradient measured at the start itself, of precision τ.

    τ may differ from one coordinate to the next.
    """
    k = theorem_d_gain(coordinates.variance, coordinates.curvature, clock)
    moved = coordinates.start - k / coordinates.curvature * gradient
    covariance, unlimited = compute_error_covariances(coordinates, clock)
    return replace(coordinates, start=moved, covariance=covariance, unlimited=unlimited)
