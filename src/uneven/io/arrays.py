"""Files that are arrays: NumPy's own formats."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from uneven.io import refusals
from uneven.matrices import BLOCK_ROWS, is_sparse

NUMBERS = "biuf"
"""Kinds of NumPy types that are real numbers."""


@dataclass(frozen=True)
class MatrixFile:
    """One matrix, dense or CSR, with columns x0, x1 and so on; labels beside it or in one of its columns."""

    path: Path
    X: Any
    y: Any = None
    own_label: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the matrix's columns, and the label's if it is beside it."""
        names = tuple(f"x{j}" for j in range(self.X.shape[1]))
        return names if self.own_label is None else (*names, self.own_label)

    @property
    def numbered(self) -> bool:
        """Whether a column may be asked for by number: it is if none has a name of its own."""
        return self.own_label is None

    def count(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    def empty(self) -> bool:
        """Whether there are no rows."""
        return self.count() == 0

    def is_text(self, column: str) -> bool:
        """Whether a column is of text, by its type alone."""
        values = self.y if column == self.own_label else self.X
        return values.dtype.kind not in NUMBERS

    def pieces(self, as_written: Sequence[str], features: Sequence[str]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Features of neighbouring rows, and columns as they are written."""
        place = {name: j for j, name in enumerate(self.columns)}
        chosen = [place[name] for name in features]
        everything = chosen == list(range(self.X.shape[1]))
        for rows in _slices(self.count()):
            part = self.X[rows]
            said = {name: self._column(part, rows, name, place[name]) for name in as_written}
            yield part if everything else part[:, chosen], said

    def _column(self, part: Any, rows: slice, name: str, place: int) -> Any:
        if name == self.own_label:
            return self.y[rows]
        return part[:, [place]].toarray().ravel() if is_sparse(part) else part[:, place]


@dataclass(frozen=True)
class RecordsFile:
    """One structured array: each field is a column."""

    path: Path
    records: Any
    own_label: str | None = None
    numbered: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the fields."""
        return tuple(self.records.dtype.names)

    def count(self) -> int:
        """Number of rows."""
        return len(self.records)

    def empty(self) -> bool:
        """Whether there are no rows."""
        return self.count() == 0

    def is_text(self, column: str) -> bool:
        """Whether a column is of text, by its type alone."""
        return self.records.dtype[column].kind not in NUMBERS

    def pieces(self, as_written: Sequence[str], features: Sequence[str]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Features of neighbouring rows, and columns as they are written."""
        for name in features:
            _refuse_kind(self.path, name, self.records[name])
        for rows in _slices(self.count()):
            part = self.records[rows]
            X = np.column_stack([part[name] for name in features]) if features else np.empty((len(part), 0))
            yield X, {name: part[name] for name in as_written}


def _slices(rows: int) -> Iterator[slice]:
    for start in range(0, rows, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, rows))


def _refuse_kind(path: Path, name: str, column: Any) -> None:
    if column.dtype.kind not in NUMBERS and column.size:
        refusals.refuse_text(path, name, column.dtype, column.flat[0], 0)


def open_npy(path: Path) -> MatrixFile | RecordsFile:
    """NumPy array, memory-mapped: a matrix, or a structured array with a field for each column."""
    with refusals.unreadable(path, "NumPy array"):
        array = np.lib.format.open_memmap(path, mode="r")
    return _columns_of(path, array)


def open_npz(path: Path) -> MatrixFile | RecordsFile:
    """NumPy archive, read whole: X and y, or one array like those in an .npy file."""
    with refusals.unreadable(path, "NumPy archive"):
        arrays = _archive(path)
    if set(arrays) == {"X", "y"}:
        return _matrix_and_labels(path, arrays["X"], arrays["y"])
    if len(arrays) != 1:
        found = ", ".join(map(repr, arrays)) or "none"
        raise ValueError(f"{path} must hold the arrays 'X' and 'y', or one array alone; got {found}")
    return _columns_of(path, next(iter(arrays.values())))


def _archive(path: Path) -> dict[str, Any]:
    if not zipfile.is_zipfile(path):  # NumPy would try it as a pickle, and advise to allow that
        raise ValueError("it is not a zip archive with a table of contents")
    # Opened here: NumPy would leave the file open where it finds the archive broken.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _columns_of(path: Path, array: Any) -> MatrixFile | RecordsFile:
    if array.dtype.names and array.ndim == 1 and all(array.dtype[name].shape == () for name in array.dtype.names):
        return RecordsFile(path, array)
    _refuse_shape(path, array)
    return MatrixFile(path, array)


def _matrix_and_labels(path: Path, X: Any, y: Any) -> MatrixFile:
    _refuse_shape(path, X)
    if y.shape != (len(X),):
        raise ValueError(f"{path}: y must have shape ({len(X)},) like X, got {y.shape}")
    return MatrixFile(path, X, y, own_label="y")


def _refuse_shape(path: Path, X: Any) -> None:
    if X.ndim != 2 or X.dtype.names or not X.shape[1]:
        raise ValueError(f"{path} must hold rows and columns, or records; got shape {X.shape} of {X.dtype}")
    _refuse_kind(path, "x0", X)


def is_finite(X: Any) -> bool:
    """Whether all values are finite; now and then it says no of large ones whose sum is not."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite((X.data if is_sparse(X) else X).sum()))


def find_not_finite(X: Any) -> tuple[int, int, float] | None:
    """Row, column and value of the first NaN or infinity."""
    values = X.data if is_sparse(X) else X.ravel()
    places = np.flatnonzero(~np.isfinite(values))
    if not len(places):
        return None
    place = int(places[0])
    if is_sparse(X):
        row, column = int(np.searchsorted(X.indptr, place, side="right")) - 1, int(X.indices[place])
    else:
        row, column = divmod(place, X.shape[1])
    return row, column, float(values[place])
