"""Which source first: Theorem 2 (paper, Section 3)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Order = Literal["clean-first", "noisy-first", "either"]


def deviation_weights(step_sizes: ArrayLike, lam: float) -> NDArray[np.float64]:
    """Δ_t = η_t Π_{s>t} (1 - η_s λ): what is left at the end of the noise that step t added.

    >>> deviation_weights([1.0, 0.5], lam=1.0).tolist()
    [0.5, 0.5]
    """
    eta = np.asarray(step_sizes, dtype=np.float64)
    shrink = np.append(1.0 - lam * eta[1:], 1.0)
    return np.asarray(eta * np.cumprod(shrink[::-1])[::-1])


def theorem2_deviation(step_sizes: ArrayLike, variances: ArrayLike, lam: float) -> float:
    """E‖w_{T+1} - v_{T+1}‖² = Σ_t Δ_t² V_t², exactly, for the linear loss without projection.

    v is the twin of w that sees the same rows in the same order and no added noise; V_t² = E‖Z_t‖² is the
    energy added at step t. Paper, eq. (dataorder_v-w).

    Slip in the paper: eqs. (worder) and (vorder) carry the data term with the wrong sign (the gradient is
    λw - yx + Z). It cancels in the difference, so this result stands.

    >>> theorem2_deviation([1.0, 0.5], [4.0, 8.0], lam=1.0)
    3.0
    """
    weights = deviation_weights(step_sizes, lam)
    return float(np.sum(weights**2 * np.asarray(variances, dtype=np.float64)))


def theorem2_order(step_sizes: ArrayLike, lam: float, noisy_steps: int) -> Order:
    """Order of two sources with the smaller deviation: which end of the run forgets noise better.

    The deviations differ by (V_N² - V_C²)·(Σ Δ_t² over the last `noisy_steps` - the same over the first), so
    the answer needs the step sizes and how long the noisy source is, not how noisy. For step sizes c/t,
    Theorem 2 of the paper: clean first for c < 1/λ, noisy first for c > 1/λ, either at c = 1/λ.

    Slip in the paper: "Δ_t is increasing if c > 1/λ" is true of its size from t = (cλ - 1)/2 on, so from the
    start only for c ≤ 3/λ. Beyond that a short run can prefer clean first: see the last example.

    >>> t = np.arange(1, 101)
    >>> [theorem2_order(c / t, 1.0, noisy_steps=60) for c in (0.5, 1.0, 2.0)]
    ['clean-first', 'either', 'noisy-first']
    >>> theorem2_order([10.0, 5.0], 1.0, noisy_steps=1)
    'clean-first'
    """
    energy = deviation_weights(step_sizes, lam) ** 2
    if not 1 <= noisy_steps < len(energy):
        raise ValueError(
            f"noisy_steps must be at least 1 and below {len(energy)}, the number of steps; got {noisy_steps}"
        )
    first, last = float(energy[:noisy_steps].sum()), float(energy[-noisy_steps:].sum())
    if abs(first - last) <= 1e-9 * max(first, last):
        return "either"
    return "clean-first" if last < first else "noisy-first"
