"""The inequalities behind every bound, evaluated step by step: exact for finite T and any step sizes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def recursion_bound(step_sizes: ArrayLike, second_moments: ArrayLike, lam: float, start: float) -> float:
    """E_{T+1} of E_{t+1} = (1 - 2λη_t)₊ E_t + η_t² γ_t²,  E_1 = start.

    Lemma rakhlinextended of the paper: for a λ-strongly convex f and oracles with E‖G‖² ≤ γ_t², it bounds
    E‖w_{T+1} - w*‖². A negative factor is replaced by 0, since E_t ≥ 0. `theorem3_bound` is four times its
    limit for step sizes c_k/t.

    >>> recursion_bound([0.5, 0.25], [1.0, 1.0], lam=1.0, start=10.0)
    0.1875
    """
    eta = np.asarray(step_sizes, dtype=np.float64)
    return _unroll(np.maximum(1.0 - 2.0 * lam * eta, 0.0), eta**2 * np.asarray(second_moments), start)


def contraction_bound(step_sizes: ArrayLike, variances: ArrayLike, lam: float, start: float) -> float:
    """E_{T+1} of E_{t+1} = (1 - λη_t)² E_t + η_t² σ_t²,  E_1 = start.

    For an L-smooth, λ-strongly convex f, steps η_t ≤ 2/(L + λ) and oracles of variance at most σ_t², it
    bounds E‖w_{T+1} - w*‖². `theorem_c_bound` is its value for the precision schedule, exactly.

    >>> contraction_bound([0.5, 0.25], [1.0, 1.0], lam=1.0, start=0.0)
    0.203125
    """
    eta = np.asarray(step_sizes, dtype=np.float64)
    return _unroll((1.0 - lam * eta) ** 2, eta**2 * np.asarray(variances), start)


def _unroll(factors: NDArray[np.float64], added: NDArray[np.float64], start: float) -> float:
    """Last value of E ← factor·E + added, as one sum: Σ_t added_t Π_{s>t} factor_s, the start included."""
    with np.errstate(divide="ignore"):
        logs = np.log(factors)
    remaining = np.exp(np.append(np.cumsum(logs[::-1])[::-1], 0.0))
    return float(start * remaining[0] + np.sum(added * remaining[1:]))
