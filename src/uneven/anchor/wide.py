"""The anchor's uncertainty where rows have many columns: by n×n matrices, and only the diagonals of d×d ones are kept.

With R = diag(strength), D = diag(bends)/n and Z = R⁻¹Xᵀ, Woodbury's identity has H₀ = R + XᵀDX as

    H₀⁻¹Xᵀ = Z(I + DXZ)⁻¹ = B,    H₀⁻¹ = R⁻¹ - BDZᵀ.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def solve_rows(X: Array, bends: Array, strength: Array) -> Array:
    """B = H₀⁻¹Xᵀ, shape (d, n)."""
    n = len(X)
    Z = X.T / strength[:, None]
    return np.asarray(np.linalg.solve((np.eye(n) + (bends / n)[:, None] * (X @ Z)).T, Z.T).T)


def find_diagonal_covariance(
    X: Array, bends: Array, slopes: Array, strength: Array, added: Array, ridge: Array
) -> Array:
    """v: the diagonal of V₀ = H₀⁻¹(XᵀS²X/n² + diag(added))H₀⁻¹, times the factor that makes ½Σhv the expected excess.

    A row's xᵀV₀x, as the other rows have it, is Σ_k s_k²(x_kᵀB_i)²/n² + Σ_j added_j B_ji² over k ≠ i, divided by
    (1 - D_i·xᵀB_i)². Its mean by the rows' bends is tr(HV₀) for fresh rows; the diagonal alone would be off where
    columns are correlated.

    Parameters
    ----------
    X : array of shape (n, d)
    bends, slopes : arrays of shape (n,)
        Second derivative and slope of each row's loss.
    strength, added, ridge : arrays of shape (d,)
        λ₀ of each weight; the pseudo-rows' and the shrinkage's part of S/n; α of each weight.
    """
    n, Z = len(X), X.T / strength[:, None]
    B = solve_rows(X, bends, strength)
    BD = B * (bends / n)
    squares = added * (1.0 / strength**2 - 2.0 / strength * (BD * Z).sum(axis=1))
    squares += ((BD @ ((Z.T * added) @ Z)) * BD).sum(axis=1)
    v = (B**2) @ (slopes / n) ** 2 + np.maximum(squares, 0.0)
    reach = X @ B
    own = np.diag(reach).copy()
    np.fill_diagonal(reach, 0.0)
    spread = ((reach.T**2) @ (slopes / n) ** 2 + (B**2).T @ added) / np.maximum(1.0 - bends * own / n, 1e-3) ** 2
    curvature = (X**2).T @ bends / n
    return np.asarray(v * (bends @ spread / n + ridge @ v) / ((curvature + ridge) @ v))
