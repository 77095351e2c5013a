"""The `privunit` mechanism: a random unit vector, more often from the cap around the gradient's direction.

Let u be a unit vector in d dimensions and T = ⟨V, u⟩ for V uniform on the sphere. For a cap height γ, q = P(T ≥ γ) and
I = E[T·1{T ≥ γ}]: draw V from the cap {T ≥ γ} with probability κ = q/(1/(e^ε - 1) + q), else from the whole sphere, and
release V/m with m = κI/q. Then E[V/m] = u, ‖V/m‖ = 1/m always, and the density is 1 - κ off the cap and 1 - κ + κ/q on
it, which differ by exactly e^ε. (Bhowmick, Duchi, Freudiger, Kapoor, Rogers 2018; the cap is theirs, written as a
mixture.) A vector g with ‖g‖ < 1 is drawn from the cap with probability ‖g‖κ only: unbiased, and the density lies
between the same two values.

The best height is where m is largest: dm/dγ = 0 is γ = m(γ), so the noise energy is 1/γ².

`quiet` is the same with one more symbol, silence; `directions` draws both.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from scipy.optimize import brentq
from scipy.special import betainc, betaln

THINNEST = -32.0
"""Log of the smallest depth of a cap."""

GRAIN = 2.0**-53
"""Uniform draws are multiples of this, and so are the probabilities that they are compared with."""

MARGIN = 1e-11
"""Relative error of q, e^ε, the probabilities made of them and the law of the depth that is allowed for."""


class Calibration(NamedTuple):
    """How a direction is released, for one dimension and ε.

    height, share : γ and q of the cap
    base : probability υ of a direction from the whole sphere, whatever the row
    own : probability κ that a row of full length is released from its cap
    fill : 1 if what a shorter row leaves of κ goes to the whole sphere, 0 if it goes to silence
    mean : m = κI/q, the mean of ⟨V, u⟩ for a row of full length
    """

    height: float
    share: float
    base: float
    own: float
    fill: float
    mean: float

    def energy(self, activity: float) -> float:
        """E‖V/m‖² over rows of mean length `activity`: the chance that something is released, over m²."""
        spoken = 1.0 if self.fill else self.base + activity * self.own
        return spoken / self.mean**2


@lru_cache(maxsize=4096)
def calibrated(n_features: int, epsilon: float) -> Calibration:
    """Best cap for dimension d and ε; for d = 1 it is randomised response.

    >>> round(calibrated(25, 1.0).energy(1.0), 1)  # l2-laplace has 2600
    155.6
    """
    inverse = inverse_of(epsilon)
    height, share, mean = cap_of(n_features, best_depth(n_features, inverse))
    base = grains_above(inverse / (inverse + share) * (1.0 + MARGIN))
    return Calibration(height, share, base, 1.0 - base, 1.0, (1.0 - base) * mean / share)


def inverse_of(epsilon: float) -> float:
    """1/(e^ε - 1)."""
    return 1.0 / math.expm1(min(epsilon, 700.0))


def grains_above(probability: float) -> float:
    """Smallest multiple of the grain that is at least this, and not 0."""
    return max(math.ceil(probability / GRAIN), 1) * GRAIN


def best_depth(d: int, offset: float) -> float:
    """Depth 1 - γ of the cap with the largest I/(offset + q); there γ = I/(offset + q), and nowhere else."""

    def excess(log_depth: float) -> float:
        depth = math.exp(log_depth)
        return (1.0 - depth) * (offset + share_of(d, depth)) - mean_in(d, depth)

    # For a very large ε the best cap is thinner than floats can tell: then the thinnest they can.
    if d == 1 or excess(THINNEST) <= 0.0:
        return math.exp(THINNEST)
    return math.exp(brentq(excess, THINNEST, 0.0, xtol=1e-15, rtol=8.9e-16, maxiter=500))


def cap_of(d: int, depth: float) -> tuple[float, float, float]:
    """γ, q and I of the cap of that depth, exact for the height as it is stored; d = 1 has two points and one cap."""
    if d == 1:
        return 1.0, 0.5, 0.5
    height = 1.0 - depth
    return height, share_of(d, 1.0 - height), mean_in(d, 1.0 - height)


def share_of(d: int, depth: float) -> float:
    """q = P(T ≥ 1 - depth): (1 - T)/2 is Beta((d-1)/2, (d-1)/2)."""
    a = (d - 1) / 2.0
    return float(betainc(a, a, depth / 2.0))


def mean_in(d: int, depth: float) -> float:
    """I = E[T·1{T ≥ γ}] = (1-γ²)^{(d-1)/2} / ((d-1)·B(½, (d-1)/2)), 1 - γ² = depth·(2 - depth)."""
    a = (d - 1) / 2.0
    return math.exp(a * (math.log(depth) + math.log(2.0 - depth)) - float(betaln(0.5, a))) / (d - 1)
