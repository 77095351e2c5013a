"""Matrices that may be diagonal: then they are the array of their diagonal, of shape (d,), and cost no more than that.

The anchor of few columns has full matrices, that of many the diagonals of the same (`wide`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def multiply(matrix: Array, vector: Array) -> Array:
    """Mv.

    >>> multiply(np.array([1.0, 2.0]), np.ones(2)).tolist() == multiply(np.diag([1.0, 2.0]), np.ones(2)).tolist()
    True
    """
    return np.asarray(matrix * vector if matrix.ndim == 1 else matrix @ vector)


def turn_rows(X: Array, transform: Array) -> Array:
    """XTᵀ: each row x as Tx."""
    return np.asarray(X * transform if transform.ndim == 1 else X @ transform.T)


def change_basis(transform: Array, matrix: Array) -> Array:
    """TMTᵀ; both are diagonal, or neither."""
    return np.asarray(transform**2 * matrix if transform.ndim == 1 else transform @ matrix @ transform.T)


def sum_products(X: Array, weights: Array) -> Array:
    """Xᵀ·diag(b)·X of weights b ≥ 0: a matrix times itself, which takes half the time of any other product.

    >>> sum_products(np.array([[1.0, 2.0]]), np.array([3.0])).round(9).tolist()
    [[3.0, 6.0], [6.0, 12.0]]
    """
    scaled = X * np.sqrt(weights)[:, None]
    return np.asarray(scaled.T @ scaled)


def invert(matrix: Array) -> Array:
    """M⁻¹."""
    return np.asarray(1.0 / matrix if matrix.ndim == 1 else np.linalg.inv(matrix))


def take_diagonal(matrix: Array) -> Array:
    """Diagonal of M, as a new array."""
    return matrix.copy() if matrix.ndim == 1 else np.diag(matrix).copy()


def add_diagonal(matrix: Array, values: Array) -> Array:
    """M + diag(values)."""
    return np.asarray(matrix + values if matrix.ndim == 1 else matrix + np.diag(values))
