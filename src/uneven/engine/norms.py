"""Squared norms of rows, and rows scaled: each row alone, so how rows are cut into pieces does not change them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uneven.engine import kernels, sparse
from uneven.matrices import is_sparse


def measure_squared_norms(X: Any) -> NDArray[np.float64]:
    """Squared norm of each row, dense or CSR; not finite if an entry is not."""
    return np.asarray(sparse.square_norms(X.data, X.indptr) if is_sparse(X) else kernels.square_norms(X))


def scale_rows(
    X: NDArray[Any], places: NDArray[np.int64], factor: float, constant: float, bound: float
) -> NDArray[np.float32]:
    """Some rows of X over `factor`, longer ones shrunk to `bound` first, and a last column of constant/factor.

    Parameters
    ----------
    X : array of shape (n, d)
        Of floats; rows of float32 that are not shrunk are divided as such.
    places : array of shape (m,)
        Which rows.
    factor, constant : float
        No column is added for a constant of 0.
    bound : float
        Rows that are longer by more than rounding are shrunk to it; infinite for none.

    Returns
    -------
    array of shape (m, d) or (m, d + 1)
    """
    X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    rows = np.empty((len(places), X.shape[1] + (constant > 0.0)), dtype=np.float32)
    if constant > 0.0:
        rows[:, -1] = constant / factor
    _scale_into(rows, X, places, X.dtype.type(factor), factor, bound)
    return rows


@njit(cache=True, nogil=True)
def _scale_into(rows: Any, X: Any, places: Any, own_factor: Any, factor: float, bound: float) -> None:
    """`own_factor` is the factor in the precision of X."""
    d, most = X.shape[1], (bound * (1.0 + 1e-6)) ** 2
    for i in range(places.shape[0]):
        row, square = X[places[i]], 0.0
        if np.isfinite(bound):
            for j in range(d):
                square += np.float64(row[j]) * np.float64(row[j])
        if square > most:
            shrink = bound / np.sqrt(square)
            for j in range(d):
                rows[i, j] = np.float64(row[j]) * shrink / factor
        else:
            for j in range(d):
                rows[i, j] = row[j] / own_factor
