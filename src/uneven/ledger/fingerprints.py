"""Rows known by their content: a keyed hash of each, the same in a copied, renamed or re-ordered file."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from uneven.matrices import is_sparse

KEY_BYTES = 32
CELLS = "the cells of "
SIGN = np.int64(-(2**63))
"""Fingerprints have the sign bit set: no id is negative, so the two cannot be taken for each other."""


@dataclass(frozen=True)
class Fingerprints:
    """Rows of a ledger known by their content: 63 bits each, negative numbers. `Ledger.fingerprint` makes them."""

    numbers: NDArray[np.int64]
    columns: str = ""
    """What was hashed, as `list_columns` has it: the same row has another fingerprint by other columns."""


def list_columns(names: Sequence[str] | None, width: int, cells: Collection[str] | None = None) -> str:
    """Columns that rows are known by: those whose cells are, else the features' names, or how many there are.

    >>> list_columns(["dose", "age"], 2), list_columns(None, 3), list_columns(["age", "job = cook"], 2, ["job", "age"])
    ("'age', 'dose'", '3 without names', "the cells of 'age', 'job'")
    """
    if cells is not None:
        return f"{CELLS}{list_columns(list(cells), len(cells))}"
    return f"{width} without names" if names is None else ", ".join(map(repr, sorted(map(str, names))))


def hash_rows(key: bytes, X: Any, names: Sequence[str] | None = None) -> NDArray[np.int64]:
    """Keyed BLAKE2b of each row's values, rounded to float32: a CSV and a Parquet file of the same rows agree.

    Columns are taken in the order of their `names`, where they have names: another order is the same row. Labels are
    left out, so a row with another label is still the same row. Zeros count in sparse rows too: they are the same as
    dense ones. Rows that agree by chance count as one, which charges more than is needed and never less.

    >>> hash_rows(b"key", [[1.0, -0.0]]).tolist() == hash_rows(b"key", np.float32([[1, 0]])).tolist()
    True
    """
    order = None if names is None else _sort_names(tuple(map(str, names)))
    with np.errstate(over="ignore"):
        rows = _fill_zeros(X, order) if is_sparse(X) else np.asarray(X, dtype=np.float32) + np.float32(0.0)
    return _hash_each(key, rows if order is None or is_sparse(X) else rows[:, order])


@lru_cache(maxsize=4)
def _sort_names(names: tuple[str, ...]) -> NDArray[np.int64]:
    """Places of the columns in the order of their names."""
    return np.argsort(np.array(names, dtype=str), kind="stable")


def _fill_zeros(X: Any, order: NDArray[np.int64] | None) -> NDArray[np.float32]:
    """Sparse rows with all their zeros, and columns in this order: sorted before they are filled, when they are few."""
    csr = sparse.csr_array(X)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    rows, values = np.zeros(csr.shape, dtype=np.float32), csr.data.astype(np.float32) + np.float32(0.0)
    columns = csr.indices if order is None else np.argsort(order)[csr.indices]
    rows[np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr)), columns] = values
    return rows


def hash_digests(key: bytes, digests: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Keyed BLAKE2b of a digest of each row's cells, shape (n, bytes)."""
    return _hash_each(key, digests)


def _hash_each(key: bytes, rows: NDArray[Any]) -> NDArray[np.int64]:
    """Hash of the bytes of each row; -0.0 is not among its numbers."""
    raw, width = np.ascontiguousarray(rows).ravel().view(np.uint8).data, rows.shape[1] * rows.itemsize
    hashed = (_hash(raw[i : i + width], key) for i in range(0, len(raw), width))
    return np.frombuffer(b"".join(hashed), dtype=np.int64) | SIGN


def count_copies(key: bytes, hashes: NDArray[np.int64], columns: str = "") -> Fingerprints:
    """Rows of one source by their hashes: the n-th copy of a row is a row of its own, in whatever order they come.

    >>> count_copies(b"key", np.array([-5, -7, -5])).numbers[:2].tolist()
    [-5, -7]
    """
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else np.zeros(0, np.int64)
    rank = np.arange(len(ordered)) - np.repeat(first, np.diff(np.append(first, len(ordered))))
    numbers = hashes.copy()
    again = np.flatnonzero(rank)
    pairs = np.column_stack([ordered[again], rank[again]]).astype(np.int64)
    copies = b"".join(_hash(pair.tobytes(), key) for pair in pairs)
    numbers[order[again]] = np.frombuffer(copies, dtype=np.int64) | SIGN
    return Fingerprints(numbers, columns)


def _hash(row: bytes | memoryview, key: bytes) -> bytes:
    return hashlib.blake2b(row, digest_size=8, key=key).digest()
