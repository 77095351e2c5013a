"""Releases on a public grid, so that the last digits of floating point tell nothing.

Arithmetic on floats moves a release y by some small e, which depends on the row: looked at closely enough, that gives
rows away (Mironov 2012). So a release is rounded at random to one of its two neighbours on a grid, x = y/g up with
probability x - ⌊x⌋, and moved by k cells more, k with probability 2^{-|k|}/3. The mean stays. For each coordinate the
logarithm of the probability of any outcome, as a function of y, has slope at most 1/g, so the move costs at most ‖e‖₁/g
of ε on each side of a ratio:  ε' ≤ ε + 2‖e‖₁/g. Mechanisms are calibrated for ε less that (`slack`): what is charged
is ε. The proof is in ``docs/theory.md``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

FINE = 2.0**-18
"""Cells in units of a coordinate's root mean square: so fine that sums of 65,536 rows cost less than a fiftieth."""

SLACK = 2.0**-10
"""Largest part of ε that rounding may cost; where it would cost more, cells are wider."""

ROUNDING = 2.0**-53
"""Relative error of one operation."""

LONGEST = 1024
"""Sums of so many rows add no more to the error than is allowed for; for longer ones cells are wider."""

EXTRA = 4.25
"""Energy that rounding adds to a coordinate, in units of g²: at most ¼ for the rounding, and 4 for the moves."""


def error_bound(n_features: int, reach: float) -> float:
    """Bound on 2‖e‖₁ for one release in units of a coordinate's root mean square: 2·reach·d(4d + 1024)·2⁻⁵³.

    A release is at most `reach` times as long as its root mean square, and ‖e‖₁ ≤ √d·‖e‖. A sum of d products in any
    order is off by at most d roundings, and such sums move a direction by at most 4d roundings (``docs/theory.md``);
    1024 more are for single operations and for up to 1024 rows in a sum.
    """
    return 2.0 * reach * n_features * (4.0 * n_features + LONGEST) * ROUNDING


def fineness(n_features: int, epsilon: float, reach: float = 1.0) -> float:
    """Width g of a cell in units of a coordinate's root mean square."""
    return max(FINE, error_bound(n_features, reach) / (SLACK * epsilon))


def slack(n_features: int, epsilon: float, reach: float = 1.0) -> float:
    """Part of ε reserved for floating-point error: 2‖e‖₁/g.

    >>> slack(54, 1.0) < 1e-5, slack(784, 1.0) < 2e-4
    (True, True)
    """
    return error_bound(n_features, reach) / fineness(n_features, epsilon, reach)


def width(grid: float, rows: int) -> float:
    """Width of a cell for the sum of so many rows: their errors add, and long sums have more of their own."""
    return grid * rows * (1.0 + rows / LONGEST)


def round_to_grid(total: Any, cell: float, rng: Any) -> None:
    """Round each coordinate at random to a multiple of `cell`, unbiased, and move it by a few cells at random."""
    for j in range(total.shape[0]):
        x = float(total[j]) / cell
        low = float(np.floor(x))  # no whole number: those of 64 bits end, and none is NaN
        cells = 1 if rng.random() < x - low else 0
        # The difference of two geometric numbers: each has its draw's exponent.
        cells += math.frexp(rng.random())[1] - math.frexp(rng.random())[1]
        total[j] = cell * (low + cells)


def round_rows(released: Any, cell: float, rng: Any) -> Any:
    """Round all rows at once: the same draws, in the same order, as `round_to_grid` takes row by row.

    >>> rows, one, all_at_once = np.ones((2, 3)), *(np.random.default_rng(0) for _ in range(2))
    >>> rounded = round_rows(rows, 0.7, all_at_once)
    >>> for row in rows:
    ...     round_to_grid(row, 0.7, one)
    >>> bool((rows == rounded).all())
    True
    """
    draws = rng.random((*released.shape, 3))
    x = released / cell
    low = np.floor(x)
    move = np.frexp(draws[..., 1])[1] - np.frexp(draws[..., 2])[1]
    return cell * (low + (draws[..., 0] < x - low) + move)
