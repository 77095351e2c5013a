"""Files of sparse rows, ``label column:value ...``, in libsvm's format: read block by block, never whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from scipy import sparse

from uneven.io import refusals
from uneven.io.arrays import MatrixFile

MOST_COLUMNS = 10_000_000
"""Columns of a file at most: each has a name, so a slip in one number would take all memory."""

BLOCK_BYTES = 1 << 20
"""Text that is read at once, up to the end of its last line."""


@dataclass(frozen=True)
class LibsvmFile:
    """Sparse rows with columns x0, x1 and so on, and their labels; only numbers about the file are held."""

    path: Path
    n_features: int
    rows: int
    first_index: int
    """What the file counts its columns from."""
    own_label: str = "label"
    numbered: bool = False
    sparse: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features, and the label's."""
        return (*(f"x{j}" for j in range(self.n_features)), self.own_label)

    def count(self) -> int:
        """Number of rows."""
        return self.rows

    def empty(self) -> bool:
        """Whether there are no rows."""
        return self.rows == 0

    def is_text(self, column: str) -> bool:
        """Whether a column is of text: none is."""
        return False

    def pieces(self, as_written: Sequence[str], features: Sequence[str]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Features of neighbouring rows, and columns as they are written."""
        for X, y in read_blocks(self.path):
            shape = X.shape[0], self.n_features
            with refusals.unreadable(self.path, "libsvm"):  # it may have changed since it was opened
                block = sparse.csr_array((X.data, X.indices - self.first_index, X.indptr), shape=shape)
                block.check_format()
            yield from MatrixFile(self.path, block, y, self.own_label).pieces(as_written, features)


def open_libsvm(path: Path, n_features: int | None = None) -> LibsvmFile:
    """Describe a file of sparse rows; it is read once, since nothing else tells how many columns and rows it has.

    Columns count from 1, as the format says, unless the file has a column 0. `n_features` says how many there are: the
    last ones may be zero in all rows.
    """
    rows, last, first = 0, -1, 1
    for X, _ in read_blocks(path):
        rows += X.shape[0]
        if X.nnz:
            last, first = max(last, int(X.indices.max())), min(first, int(X.indices.min()))
    if last >= MOST_COLUMNS:
        raise ValueError(f"{path} must have at most {MOST_COLUMNS:,} columns, got one with number {last:,}")
    first = first if last >= 0 else 0
    found = max(1, last + 1 - first)
    if n_features is not None and found > n_features:
        raise ValueError(f"{path} must have at most n_features = {n_features} columns, got {found}")
    return LibsvmFile(path, found if n_features is None else n_features, rows, first)


def read_blocks(path: Path) -> Iterator[tuple[Any, Any]]:
    """Rows, with columns as the file counts them, and labels, in blocks of whole lines; none is without rows."""
    from sklearn.datasets import load_svmlight_file

    with path.open("rb") as file:
        while text := file.read(BLOCK_BYTES):
            lines = BytesIO(text + file.readline())
            with refusals.unreadable(path, "libsvm"):
                X, y = load_svmlight_file(lines, zero_based=True)
            if X.shape[0]:
                yield X, y
