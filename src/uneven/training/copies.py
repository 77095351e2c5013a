"""Duplicate private rows: each copy is charged separately, so a duplicated row spends several times."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uneven.cautions import CopiesWarning
from uneven.matrices import is_sparse
from uneven.redaction import owner_only
from uneven.training.grouping import Grouped
from uneven.training.scan import Scan

FACTOR = 0xFF51AFD7ED558CCD
"""MurmurHash3's: neighbouring numbers become unlike."""


def warn_copies(scan: Scan, groups: Grouped) -> bool:
    """Tell the rows' owner that private rows without an id agree, where rows are held or hashed; whether some do."""
    private = [groups.rows_of(k) for k, name in enumerate(groups.names) if groups.noises[name].private]
    rows = np.concatenate(private) if private else np.zeros(0, np.int64)
    if scan.row_id is not None and np.shape(scan.row_id) == (groups.rows,):
        rows = rows[np.asarray(scan.row_id)[rows] == -1]
    keys = _find_keys(scan, rows)
    count = 0 if keys is None else _count_equal(keys)
    if count:
        exact = (
            "1 private row is an exact copy of another"
            if count == 1
            else f"{count:,} private rows are exact copies of others"
        )
        warnings.warn(
            f"{owner_only(exact, 'some private rows are exact copies of others')}. If they are one person's, that "
            "person spends ε once per copy: drop copies, or give ids. Different people often have identical rows in "
            "categorical data; then ignore this",
            CopiesWarning,
            stacklevel=5,
        )
    return count > 0


def _count_equal(keys: NDArray[np.uint64]) -> int:
    """Number of duplicates; sorting is several times as fast as np.unique."""
    ordered = np.sort(keys)
    return int(np.count_nonzero(ordered[1:] == ordered[:-1]))


def _find_keys(scan: Scan, rows: NDArray[np.int64]) -> NDArray[np.uint64] | None:
    """A number for each row, the same for the same row and label; for the same row where labels are not held.

    Held rows that are certainly alone are left out.
    """
    content = None if scan.content is None else scan.content[rows].view(np.uint64)
    if scan.held is None or (content is None and is_sparse(scan.held[0])):
        return content
    X, y = scan.held
    if content is None:
        rows = _find_alike(np.asarray(X), rows)
        content = _mix_rows(np.asarray(X), rows)
    labels = np.unique(y[rows], return_inverse=True)[1].ravel().astype(np.uint64)
    return content + labels * np.uint64(FACTOR)


def _find_alike(X: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the rows whose product with a random vector is another's too: all duplicates, and almost no others."""
    products = np.empty(len(rows))
    _project_into(products, X, rows, np.random.default_rng().standard_normal(X.shape[1]))
    ordered = np.sort(products)
    alike: NDArray[np.int64] = rows[np.isin(products, ordered[1:][ordered[1:] == ordered[:-1]])]
    return alike


def _mix_rows(X: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A number for each row: the same for the same, by multiplication of mixed bits modulo 2⁶⁴."""
    factors = np.random.default_rng().integers(1, 2**64, X.shape[1], dtype=np.uint64) | np.uint64(1)
    numbers = np.zeros(len(rows), dtype=np.uint64)
    _mix_into(numbers, X, rows, factors)
    return numbers


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _project_into(products: Any, X: Any, rows: Any, vector: Any) -> None:
    for i in range(rows.shape[0]):
        product = 0.0
        for j in range(X.shape[1]):
            product += np.float64(X[rows[i], j]) * vector[j]
        products[i] = product


@njit(cache=True, nogil=True)
def _mix_into(numbers: Any, X: Any, rows: Any, factors: Any) -> None:
    for i in range(rows.shape[0]):
        for j in range(X.shape[1]):
            bits = np.float64(X[rows[i], j]).view(np.uint64)
            bits ^= bits >> np.uint64(33)
            bits *= np.uint64(FACTOR)
            bits ^= bits >> np.uint64(33)
            numbers[i] += bits * factors[j]
