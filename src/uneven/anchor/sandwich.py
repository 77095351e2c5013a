"""V₀ from the rows' mean gradients and curvature: what noise does, what the L2 term does, and how long w* may be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uneven.anchor.rows import WRONG_ROWS

Array = NDArray[np.float64]

PSEUDO_ROWS = 5.0
"""Rows of mean energy that are added in a column or direction that no row has; none where twice as many have it."""

FEW_ROWS = 2.0
"""Rows for each column below which any direction may be one that was hardly seen."""


def weigh_unseen(squares: Array, n: int) -> Array:
    """Pseudo-rows of each column, from the mean squares and mean fourth powers of n rows' gradients there, (2, d).

    They are `PSEUDO_ROWS` for a column that no row has, and none for one that rests on twice as many; and so many in
    every direction where rows are too few for the columns. More of them, of equal energy in every direction, would
    swamp what is known of columns with little energy beside one with a large mean, or of columns nearly alike.
    """
    rows, d = squares[0] ** 2 / np.maximum(squares[1], 1e-300) * n, squares.shape[1]
    few = max(1.0 - n / (FEW_ROWS * d), 0.0)
    return np.asarray(PSEUDO_ROWS * (np.maximum(1.0 - rows / (2.0 * PSEUDO_ROWS), 0.0) + few))


def join_sandwich(
    S: Array,
    fourths: Array,
    H: Array,
    n: int,
    weights: Array,
    strength: Array | float,
    alpha: Array | float,
    size: float,
) -> tuple[Array, float]:
    """V₀ of the rows' mean squared gradients S, mean fourth powers of those and mean curvature H, at the start w₀.

    `size` is s², and errs on the large side: the second number is the part of the expected excess ½tr(HV₀) that is left
    with s² as the length of w₀ tells it, if that is less (`estimate_size`).
    """
    d, squares = len(S), S.diagonal()
    pseudo = np.diag(weigh_unseen(np.stack([squares, fourths]), n) * squares.mean())
    S = S + pseudo / (n + PSEUDO_ROWS) + WRONG_ROWS * 4.0 * H / n
    inverse = np.linalg.inv(H + strength * np.eye(d))
    noise = inverse @ S @ inverse / n
    likely = min(size, estimate_size(weights, inverse @ H, noise, strength))
    shrunk = (inverse * ((strength - alpha) ** 2 * np.ones(d))) @ inverse
    at_least, each = (float((H * one).sum()) for one in (noise, shrunk))
    whole = at_least + size * each
    return np.asarray(noise + size * shrunk), min((at_least + likely * each) / whole, 1.0) if whole else 1.0


def estimate_size(weights: Array, kept: Array, noise: Array, strength: Array | float) -> float:
    """s² = E p·w*² by moments, one standard error more: the length that w₀ has beyond what noise gives it.

    w₀ = Kw* + e, K = H₀⁻¹H what the L2 term keeps and N = E eeᵀ. For w* of variance s²/p in each direction, p the
    factors of alpha, E Σp·w₀² = s²·tr(PKP⁻¹Kᵀ) + tr(PN). The weights at alpha itself, far less regularised than the
    rows ask for, can be many times as long as w*.

    Parameters
    ----------
    weights : array of shape (d,)
        w₀.
    kept, noise : arrays of shape (d, d)
        K and N.
    strength : float or array of shape (d,)
        λ₀·p.
    """
    p = strength * np.ones(len(weights))
    p = p / p.max()
    length = float(p @ weights**2) - float(p @ noise.diagonal())
    weighed = p * weights
    error = float(np.sqrt(2.0 * (p[:, None] * noise**2 * p).sum() + 4.0 * weighed @ noise @ weighed))
    return (max(length, 0.0) + error) / max(float((p[:, None] * kept**2 / p).sum()), 1e-300)
