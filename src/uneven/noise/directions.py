"""How directions are drawn, for `privunit` and `quiet`: plain loops, interpreted here and compiled in the engine.

Rows released together are released as their sum. Directions from the whole sphere do not depend on the row, so only
their sum's length is drawn row by row, as a random walk (`walk`): R'² = R² + s² + 2RsT, T a coordinate of a uniform
direction. The direction of that sum is uniform, and is drawn once (`add_uniform`). Same law as the sum of single
releases, with two numbers a row instead of d; only what comes from a cap needs d.
"""

from __future__ import annotations

import math
from typing import Any

DIRECT = 0.25
"""In caps of at least this share of the sphere heights are drawn by trying; in smaller ones from the cap's own law."""

TINY = 1e-140
"""Length from which a vector has a direction that floats can hold; a shorter one is released as 0."""

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
    """Add step·V, V uniform on the cap around unit·row: its height t by itself, and a uniform direction across."""
    d = total.shape[0]
    if d == 1:
        total[0] += step * unit * row[0]
        return
    t = _height_in_cap(d, height, share, rng)
    while True:
        square = _fill_normal(scratch, rng)
        along = 0.0
        for j in range(d):
            along += scratch[j] * row[j]
        along *= unit
        # What is across has a uniform direction whatever its length: where it is short, draw again, for precision.
        if along * along <= 0.5 * square:
            break
    across = step * math.sqrt((1.0 - t) * (1.0 + t) / (square - along * along))
    lift = (step * t - across * along) * unit
    for j in range(d):
        total[j] += across * scratch[j] + lift * row[j]


def walk(d: int, radius: float, step: float, rng: Any) -> float:
    """Length of a vector of length `radius` plus a uniform direction of length `step`."""
    if radius == 0.0:
        return step
    if d == 1:  # exactly: the root below would lose half of the digits where the two cancel
        return abs(radius + step * _height(d, rng))
    return math.sqrt(max(radius * radius + step * step + 2.0 * radius * step * _height(d, rng), 0.0))


def _height(d: int, rng: Any) -> float:
    """T = ⟨V, u⟩ for V uniform on the sphere: one normal among d."""
    if d == 1:
        return 1.0 if rng.random() < 0.5 else -1.0
    z = rng.standard_normal()
    return float(z / math.sqrt(z * z + 2.0 * rng.standard_gamma(0.5 * (d - 1))))


def _height_in_cap(d: int, height: float, share: float, rng: Any) -> float:
    """T given T ≥ γ, exactly.

    In two dimensions the angle is uniform. In a small cap the density ∝ (1-t²)^{(d-3)/2} is log-concave: propose from
    the exponential that touches it at γ, cut at 1, and reject.
    """
    if d == 2:
        return math.cos(math.acos(height) * rng.random())
    if share >= DIRECT:
        t = abs(_height(d, rng))  # the law is symmetric, and γ is not negative
        while t < height:
            t = abs(_height(d, rng))
        return t
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


def _fill_normal(v: Any, rng: Any) -> float:
    """Fill v with standard normals; returns ‖v‖²."""
    square = 0.0
    for j in range(v.shape[0]):
        z = rng.standard_normal()
        v[j] = z
        square += z * z
    return square
