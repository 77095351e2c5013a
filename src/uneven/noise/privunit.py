"""The `privunit` mechanism: a random unit vector, more often from the cap around the gradient's direction.

Let u be a unit vector in d dimensions and T = ⟨V, u⟩ for V uniform on the sphere. For a cap height γ, q = P(T ≥ γ) and
I = E[T·1{T ≥ γ}]: with probability p = e^ε q/(1 + (e^ε - 1)q) draw V from the cap {T ≥ γ}, else from the rest, and
release V/m with m = I/(1/(e^ε - 1) + q). Then E[V/m] = u, ‖V/m‖ = 1/m always, and the density is p/q on the cap and
(1-p)/(1-q) off it, which differ by exactly e^ε. (Bhowmick, Duchi, Freudiger, Kapoor, Rogers 2018; the cap is theirs.)

The best height is where m is largest: dm/dγ = 0 is γ = m(γ), so the noise energy is 1/γ². A vector g with ‖g‖ < 1 is
released as ±g/‖g‖ with probabilities (1 ± ‖g‖)/2, a mixture of the same, so unbiased and ε-private too; g = 0 as a
uniform direction.

Draws are multiples of 2⁻⁵³, and 1 - p is rounded up to one, never to 0: so the ratio is at most e^ε, and less where ε
is very large. In one dimension it is e^36.7 at most, which is more private than asked.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

from scipy.optimize import brentq
from scipy.special import betainc, betaln

DIRECT = 0.25
"""Caps of at least this share of the sphere are drawn by trying uniform vectors; smaller ones by their height."""


THINNEST = -32.0
"""Log of the smallest depth of a cap."""

GRAIN = 2.0**-53
"""Uniform draws are multiples of this."""

MARGIN = 1e-12
"""Relative error of q and 1 - p that is allowed for, on the private side."""

TINY = 1e-140
"""Length from which a vector has a direction that floats can hold; a shorter one is released as 0."""


class Cap(NamedTuple):
    """Calibration for one dimension and ε: height γ, mean m, and the chances of the cap with u and without it."""

    height: float
    mean: float
    chance: float
    share: float


@lru_cache(maxsize=4096)
def calibrated(n_features: int, epsilon: float) -> Cap:
    """Best cap for dimension d and ε; for d = 1 it is randomised response.

    >>> round(calibrated(25, 1.0).mean ** -2, 1)  # noise energy; l2-laplace has 2600
    155.6
    """
    inverse = 1.0 / math.expm1(min(epsilon, 700.0))
    if n_features == 1:
        return _cap(1.0, share=0.5, mean=0.5, inverse=inverse)

    def excess(log_depth: float) -> float:
        """γ(1/(e^ε - 1) + q) - I, which is 0 at the best height γ = 1 - depth."""
        depth = math.exp(log_depth)
        return (1.0 - depth) * (inverse + share_of(n_features, depth)) - mean_in(n_features, depth)

    # For a very large ε the best cap is thinner than floats can tell: then the thinnest they can.
    thin = excess(THINNEST) <= 0.0
    log_depth = THINNEST if thin else brentq(excess, THINNEST, 0.0, xtol=1e-15, rtol=8.9e-16, maxiter=500)
    height = 1.0 - math.exp(log_depth)
    depth = 1.0 - height  # as the draws will have it: all else is exact for this height
    return _cap(height, share_of(n_features, depth), mean_in(n_features, depth), inverse)


def _cap(height: float, share: float, mean: float, inverse: float) -> Cap:
    """Cap of that height, with q = share and I = mean, whose odds with u are at most e^ε times those without.

    A draw compares one of the multiples of 2⁻⁵³ below 1 with p, so p is such a multiple, and 1 - p is rounded up, never
    to 0. m = I(p - q)/(q(1 - q)) is then that of the p in use: releases are unbiased for it, whatever the rounding.
    """
    outside = (1.0 - share) * inverse / (inverse + share)
    chance = 1.0 - math.ceil(outside * (1.0 + MARGIN) / GRAIN) * GRAIN
    return Cap(height, mean / share * (chance - share) / (1.0 - share), chance, share)


def share_of(d: int, depth: float) -> float:
    """q = P(T ≥ 1 - depth): (1 - T)/2 is Beta((d-1)/2, (d-1)/2)."""
    a = (d - 1) / 2.0
    return float(betainc(a, a, depth / 2.0))


def mean_in(d: int, depth: float) -> float:
    """I = E[T·1{T ≥ γ}] = (1-γ²)^{(d-1)/2} / ((d-1)·B(½, (d-1)/2)), 1 - γ² = depth·(2 - depth)."""
    a = (d - 1) / 2.0
    return math.exp(a * (math.log(depth) + math.log(2.0 - depth)) - float(betaln(0.5, a))) / (d - 1)


def add_release(
    total: Any, row: Any, sign: float, length: float, norm: float, scale: float, cap: Any, scratch: Any, rng: Any
) -> None:
    """Add one release, times `scale`, to `total`: of the vector of norm `norm` ≤ 1 along sign·row.

    `row` has length `length`. Plain loops over numbers: interpreted here, compiled in the engine, from the same draws.

    Parameters
    ----------
    cap : (height, mean, chance, share)
    scratch : array of shape (d,), overwritten
    """
    height, mean, chance, share = cap
    d = total.shape[0]
    if rng.random() * 2.0 > 1.0 + norm:
        sign = -sign
    inside = rng.random() < chance
    if norm == 0.0:  # no direction at all: any one will do
        _uniform(scratch, rng)
        for j in range(d):
            total[j] += scale / mean * scratch[j]
        return
    if d == 1:
        total[0] += scale / mean * (sign if inside else -sign) * row[0] / length
        return
    if inside and share < DIRECT:
        t = _height_in_cap(d, height, rng)
        _uniform(scratch, rng)
        along = _along(scratch, row, sign / length)
        square = 0.0
        for j in range(d):
            scratch[j] -= along * sign / length * row[j]
            square += scratch[j] * scratch[j]
        across = math.sqrt((1.0 - t) * (1.0 + t) / square)
        for j in range(d):
            total[j] += scale / mean * (t * sign / length * row[j] + across * scratch[j])
        return
    while True:
        _uniform(scratch, rng)
        if (_along(scratch, row, sign / length) >= height) == inside:
            break
    for j in range(d):
        total[j] += scale / mean * scratch[j]


def _uniform(v: Any, rng: Any) -> None:
    """Fill v with a uniform direction."""
    square = 0.0
    for j in range(v.shape[0]):
        v[j] = rng.standard_normal()
        square += v[j] * v[j]
    shrink = 1.0 / math.sqrt(square)
    for j in range(v.shape[0]):
        v[j] *= shrink


def _along(v: Any, row: Any, factor: float) -> float:
    """⟨v, factor·row⟩."""
    product = 0.0
    for j in range(v.shape[0]):
        product += v[j] * row[j]
    return factor * product


def _height_in_cap(d: int, height: float, rng: Any) -> float:
    """T given T ≥ γ, exactly.

    In two dimensions the angle is uniform. Else the density ∝ (1-t²)^{(d-3)/2} is log-concave: propose from the
    exponential that touches it at γ, cut at 1, and reject.
    """
    if d == 2:
        return math.cos(math.acos(height) * float(rng.random()))
    slope = (d - 3) * height / (1.0 - height * height)
    width = 1.0 - height
    while True:
        x = rng.random()
        if slope * width > 1e-9:
            x = -math.log1p(x * math.expm1(-slope * width)) / slope
        else:
            x *= width
        t = height + x
        if t >= 1.0:
            continue
        log_ratio = 0.5 * (d - 3) * math.log((1.0 - t * t) / (1.0 - height * height)) + slope * x
        if math.log(1.0 - rng.random()) <= log_ratio:
            return float(t)
