"""The `quiet` mechanism: privunit that says nothing when there is nothing to say.

A row of length ρ ≤ 1 along u is released as one of three things: with probability υ a direction from the whole sphere,
whatever the row; with probability ρκ one from the cap around u; else silence, the zero vector. Directions are divided
by m = κI/q, so the mean is ρu. Against the uniform law the density of a direction lies between υ and υ + κ/q, and the
probability of silence between 1 - υ - κ and 1 - υ: it is ε-private if and only if

    κ ≤ (e^ε - 1)qυ   and   κ ≤ (1 - e^-ε)(1 - υ).

Both are equalities at υ = 1/(1 + e^ε q). The energy is (υ + ρκ)/m², against 1/m² of privunit: most rows of a classifier
that has learned something have short gradients.

Is there a better way to use silence? Any υ between this one and privunit's, with what is left over split between
silence and the sphere, is ε-private too. Its energy at a given ρ is concave in 1/(υ + κ), so one of the two ends is
best: this one, or privunit itself.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from uneven.noise import privunit
from uneven.noise.privunit import GRAIN, MARGIN, Calibration, best_depth, cap_of, grains_above, inverse_of

LARGEST = 300.0
"""Above this ε, e^-ε and the cap's share are beyond floats, and there is next to no noise to save."""

TRIED = 33
"""Caps tried between the two that the best one is known to lie between."""


@lru_cache(maxsize=4096)
def calibrated(n_features: int, epsilon: float, activity: float) -> Calibration:
    """With silence at its least energy for rows of mean length `activity`, or privunit's own.

    Rows may be more active than planned: silence is used where it still saves energy halfway to full length on a
    logarithmic scale, at √activity. Elsewhere it is privunit, which may have more energy than silence would at
    `activity` itself: up to 18% more at d = 1, 14% at d ≥ 25.

    >>> round(calibrated(25, 3.0, 0.5).energy(0.5) / privunit.calibrated(25, 3.0).energy(0.5), 2)
    0.66
    >>> calibrated(25, 0.5, 0.5) == privunit.calibrated(25, 0.5)
    True
    """
    plain = privunit.calibrated(n_features, epsilon)
    if epsilon > LARGEST:
        return plain
    silent, likely = with_silence(n_features, epsilon, best_silent_depth(n_features, epsilon, activity)), activity**0.5
    return silent if silent.own > 0.0 and silent.energy(likely) < plain.energy(likely) else plain


def with_silence(d: int, epsilon: float, depth: float) -> Calibration:
    """υ and κ for the cap of that depth, as multiples of the grain that satisfy both conditions."""
    height, share, mean = cap_of(d, depth)
    inverse, rare = inverse_of(epsilon), math.exp(-epsilon)
    base = grains_above(rare / (rare + share) * (1.0 + MARGIN))
    spoken = 1.0 - grains_above(rare * (1.0 - base) * (1.0 + MARGIN))
    own = math.floor(min(share * base / inverse * (1.0 - MARGIN), spoken - base) / GRAIN) * GRAIN
    return Calibration(height, share, base, own, 0.0, own * mean / share)


def best_silent_depth(d: int, epsilon: float, activity: float) -> float:
    """Depth of the cap with the least energy (1 + ρ(e^ε - 1)q)(1 + e^ε q)/I², up to a constant.

    Its logarithm is stationary where 2γ = I/(1/(ρ(e^ε - 1)) + q) + I/(e^-ε + q). Each term equals γ at one height only,
    is above γ below it and below γ above it: so the best height lies between those two. Any height is private and
    unbiased; these are searched for the least energy, on a grid and then by the derivative's sign.
    """
    flat, sharp = inverse_of(epsilon) / activity, math.exp(-epsilon)
    if d == 1:
        return 1.0
    thick, thin = (math.log(best_depth(d, offset)) for offset in (flat, sharp))
    tried = np.linspace(thin, thick, TRIED)

    def log_energy(log_depth: float) -> float:
        _, share, mean = cap_of(d, math.exp(log_depth))
        return math.log(flat + share) + math.log(sharp + share) - 2.0 * math.log(mean)

    def slope(log_depth: float) -> float:
        height, share, mean = cap_of(d, math.exp(log_depth))
        return 2.0 * height - mean / (flat + share) - mean / (sharp + share)

    best = int(np.argmin([log_energy(x) for x in tried]))
    low, high = float(tried[max(best - 1, 0)]), float(tried[min(best + 1, TRIED - 1)])
    if slope(low) > 0.0 > slope(high):
        return math.exp(brentq(slope, low, high, xtol=1e-12))
    return math.exp(float(tried[best]))
