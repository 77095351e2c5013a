"""How directions are drawn, for `privunit` and `quiet`: plain loops, interpreted here and compiled in the engine.

Rows released together are released as their sum. Directions from the whole sphere do not depend on the row, so only
their sum's length is drawn row by row, as a random walk (`walk`): R'² = R² + s² + 2RsT, T a coordinate of a uniform
direction. The direction of that sum is uniform, and is drawn once (`add_uniform`). Same law as the sum of single
releases, with two numbers a row instead of d; only what comes from a cap needs d.

Heights T near ±1 are drawn as depths 1 - |T|, so that sines and norms keep full precision, as privacy requires.
"""

from __future__ import annotations

import math
from typing import Any

DIRECT = 0.25
"""In caps of at least this share of the sphere depths are drawn by trying; in smaller ones from the cap's own law."""

TINY = 1e-140
"""Length from which a vector has a direction that floats can hold; a shorter one is released as 0."""

SHORT = 2.0**-6
"""Mean square of normal numbers from which their direction has all its digits."""

SILENT, UNIFORM, CAP = range(3)
"""What is released of a row: nothing, a direction from the whole sphere, or one from the cap around its own."""


def choose(norm: float, base: float, own: float, fill: float, rng: Any) -> int:
    """What to release of a vector of norm `norm` ≤ 1; the other numbers are those of a `Calibration`."""
    draw = rng.random()
    if draw < base:
        return UNIFORM
    if draw >= base + own:
        return SILENT
    if rng.random() < norm:
        return CAP
    return SILENT if fill == 0.0 else UNIFORM


def add_uniform(total: Any, radius: float, scratch: Any, rng: Any) -> None:
    """Add a uniform direction of length `radius`; nothing is drawn for 0."""
    if radius == 0.0:
        return
    shrink = radius / math.sqrt(_fill_normal(scratch, rng))
    for j in range(total.shape[0]):
        total[j] += shrink * scratch[j]


def add_from_cap(
    total: Any, row: Any, unit: float, step: float, height: float, share: float, scratch: Any, rng: Any
) -> None:
    """Add step·V, V uniform on the cap around unit·row: its depth 1 - t by itself, and a uniform direction across."""
    d = total.shape[0]
    if d == 1:
        total[0] += step * unit * row[0]
        return
    depth = _depth_in_cap(d, height, share, rng)
    while True:
        square = _fill_normal(scratch, rng)
        along = 0.0
        for j in range(d):
            along += scratch[j] * row[j]
        along *= unit
        # What is across has a uniform direction whatever its length: where it is short, draw again, for precision.
        if along * along <= 0.5 * square:
            break
    across = step * math.sqrt(depth * (2.0 - depth) / (square - along * along))
    lift = (step * (1.0 - depth) - across * along) * unit
    for j in range(d):
        total[j] += across * scratch[j] + lift * row[j]


def walk(d: int, radius: float, step: float, rng: Any) -> float:
    """Length of a vector of length `radius` plus a uniform direction of length `step`."""
    if radius == 0.0:
        return step
    gap = radius - step
    if d == 1:
        return radius + step if rng.random() < 0.5 else abs(gap)
    depth = 2.0 * _root(rng) ** 2 if d == 3 else _depth(-rng.standard_normal(), d, rng)  # d = 3: T is uniform
    return math.sqrt(gap * gap + 2.0 * radius * step * depth)  # both terms are positive: nothing cancels


def _depth(z: float, d: int, rng: Any) -> float:
    """1 - T, T = ⟨V, u⟩ for V uniform on the sphere: T is one normal z among d; no digits are lost near T = 1."""
    rest: float = 2.0 * rng.standard_gamma(0.5 * (d - 1))
    length = math.sqrt(z * z + rest)
    return rest / (length * (length + z)) if z > 0.0 else 1.0 - z / length


def _root(rng: Any) -> float:
    """√U for a uniform U: it has the law of the larger of two uniform numbers, which lose no digits near 0."""
    larger: float = max(rng.random(), rng.random())
    return larger


def _depth_in_cap(d: int, height: float, share: float, rng: Any) -> float:
    """Y = 1 - T given T ≥ γ, exactly in law, with a small absolute error in √Y: sin θ = √(Y(2 - Y)) needs that.

    In two dimensions the angle is uniform, in three T is. In a small cap, with a = (d - 3)/2 and w = 1 - γ, propose
    the power law y^{a - r} on [0, w] that touches the density (y(2 - y))^a at w, r = aw/(2 - w), and reject: their
    ratio grows with y.
    """
    widest = 1.0 - height
    if d == 2:
        half = math.sin(0.5 * math.acos(height) * rng.random())
        return 2.0 * half * half
    if d == 3:
        return widest * _root(rng) ** 2
    if share >= DIRECT:
        depth = _depth(abs(rng.standard_normal()), d, rng)  # the law is symmetric, and γ is not negative
        while depth > widest:
            depth = _depth(abs(rng.standard_normal()), d, rng)
        return depth
    power, end = 0.5 * (d - 3), 1.0 + height
    rise = power * widest / end
    while True:
        x = rng.standard_exponential() / (power + 1.0 - rise)  # y = w·e^-x
        log_ratio = power * math.log1p(-widest * math.expm1(-x) / end) - rise * x
        if rng.standard_exponential() >= -log_ratio:
            return widest * math.exp(-x)


def _fill_normal(v: Any, rng: Any) -> float:
    """Fill v with standard normals; returns ‖v‖².

    Only the direction is used. Generators give multiples of about 2⁻⁵², so where all are small, draw again.
    """
    while True:
        square = 0.0
        for j in range(v.shape[0]):
            z = rng.standard_normal()
            v[j] = z
            square += z * z
        if square > SHORT * v.shape[0]:
            return square
