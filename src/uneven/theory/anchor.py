"""Theorem D (beyond the paper): the precision clock with a matrix, Λ_t = Λ_{t-1} + H²/σ_t².

σ_t² is the variance of *one coordinate* of step t's gradient noise, and τ = Σ_t 1/σ_t² the clock. The step is
w ← w - Λ_t⁻¹HG_t/σ_t². `docs/theory.md` has the proof.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def theorem_d_precision(prior: ArrayLike, hessian: ArrayLike, clock: float) -> Array:
    """Λ = Λ₀ + τH²: for a quadratic, E(w-w*)(w-w*)ᵀ = Λ⁻¹ exactly, in any order, and no linear method does better.

    >>> theorem_d_precision([[1.0]], [[0.5]], clock=12.0).item()
    4.0
    """
    H = np.asarray(hessian, dtype=np.float64)
    return np.asarray(np.asarray(prior, dtype=np.float64) + clock * H @ H)


def theorem_d_excess(prior: ArrayLike, hessian: ArrayLike, clock: float) -> float:
    """E f(w) - f(w*) = ½tr(HΛ⁻¹).

    >>> theorem_d_excess([[1.0]], [[0.5]], clock=12.0)
    0.0625
    """
    return float(np.trace(np.linalg.solve(theorem_d_precision(prior, hessian, clock), np.asarray(hessian))) / 2.0)


def theorem_d_steps(variance: Any, curvature: Any, precision: Any, clock: Any) -> Any:
    """η_j = p/(a_j + h_jτ), a_j = 1/(v_jh_j): the step where H and Λ₀ = 1/v are diagonal; τ holds this step's p.

    With h = λ and v = R²/d it is Theorem C's step, τ₀ = 1/(λR)², in units of one coordinate.

    >>> theorem_d_steps(variance=1.0, curvature=0.5, precision=4.0, clock=12.0)
    0.5
    """
    return precision * variance * curvature / (1.0 + variance * curvature**2 * clock)


def theorem_d_gain(variance: Any, curvature: Any, clock: Any) -> Any:
    """k_j = v_jh_j²τ/(1 + v_jh_j²τ): share of the start's error that the private rows have removed at clock τ.

    >>> theorem_d_gain(variance=1.0, curvature=0.5, clock=12.0)
    0.75
    """
    weight = variance * curvature**2 * clock
    return weight / (1.0 + weight)


def theorem_d_mismatch(variance: Any, curvature: Any, clock: Any, true_variance: Any, true_curvature: Any) -> Any:
    """E e_j² at clock τ of steps made for v and h where they are v* and h*: Theorem D's variance if they are right.

    Steps η = p/(a + hT), a = 1/(vh), small enough for sums to be integrals: with r = 2h*/h and b = a + hτ

        v*(a/b)^r + (1/b)·(1 - (a/b)^{r-1})/(h(r-1)).

    >>> float(theorem_d_mismatch(1.0, 0.5, 12.0, 1.0, 0.5))  # 1/(1/v + h²τ)
    0.25
    """
    ratio = 1.0 / (1.0 + variance * curvature**2 * clock)  # a/b
    power = 2.0 * true_curvature / curvature
    near = np.abs(power - 1.0) < 1e-9
    spread = np.where(near, -np.log(ratio), (1.0 - ratio ** (power - 1.0)) / np.where(near, 1.0, power - 1.0))
    return true_variance * ratio**power + variance * ratio * spread
