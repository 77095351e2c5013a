"""Files of rows: what is in them, and their rows piece by piece or all at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from uneven import checks
from uneven.columns import Encoder
from uneven.io import refusals
from uneven.io.arrays import find_not_finite, is_finite, open_npy, open_npz
from uneven.io.arrow import ArrowFile, open_ipc, open_parquet
from uneven.io.delimited import CsvFile, open_csv
from uneven.io.files import resolve
from uneven.io.libsvm import open_libsvm
from uneven.io.row_columns import refuse_gaps
from uneven.matrices import is_sparse, join_rows
from uneven.redaction import owner_only


class Reader(Protocol):
    """What a format has to offer: columns, a count, and pieces of rows."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns, the label's among them."""

    @property
    def own_label(self) -> str | None:
        """The label's column, where the format says which it is."""

    @property
    def numbered(self) -> bool:
        """Whether columns have numbers for names."""

    def count(self) -> int:
        """Number of rows."""

    def empty(self) -> bool:
        """Whether there are no rows."""

    def is_text(self, column: str) -> bool:
        """Whether a column is of text, by its type alone."""

    def pieces(self, as_written: Sequence[str], features: Sequence[str]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Features, and columns as they are written, not yet checked; a missing value is NaN or None."""


OPENERS: dict[str, Callable[[Path], Reader]] = {
    ".csv": open_csv,
    ".csv.gz": open_csv,
    ".tsv": partial(open_csv, delimiter="\t"),
    ".tsv.gz": partial(open_csv, delimiter="\t"),
    ".data": open_csv,
    ".txt": open_csv,
    ".parquet": open_parquet,
    ".arrow": open_ipc,
    ".feather": open_ipc,
    ".svm": open_libsvm,
    ".libsvm": open_libsvm,
    ".svmlight": open_libsvm,
    ".npy": open_npy,
    ".npz": open_npz,
}


@dataclass(frozen=True)
class Table:
    """A file of rows, described: `open_table` makes one.

    Rows are numbered from 0, the first one below any line of column names.

    Parameters
    ----------
    path : Path
    columns : tuple of str
        Names of all columns. Those of a matrix without names are x0, x1 and so on.
    reader : Reader
        What reads the format.
    """

    path: Path
    columns: tuple[str, ...]
    reader: Reader = field(repr=False, compare=False)

    @cached_property
    def rows(self) -> int:
        """How many rows it has: as the file states, or counted in one pass if it does not."""
        return self.reader.count()

    @property
    def first_index(self) -> int | None:
        """What a libsvm file counts its columns from, 0 or 1; None for other formats."""
        return getattr(self.reader, "first_index", None)

    @property
    def sparse(self) -> bool:
        """Whether its rows are sparse."""
        return getattr(self.reader, "sparse", False)

    def has_text_labels(self, label: str | int | None) -> bool:
        """Whether the label's column is of text, by its type alone; no value is looked at."""
        name = self._label(label)
        return name is not None and self.reader.is_text(name)

    def select(
        self, label: str | int | None = None, features: Sequence[str] | None = None
    ) -> tuple[str | None, tuple[str, ...]]:
        """Names of the label's column and of the features': all others, unless they are given."""
        name = self._label(label)
        if features is None:
            chosen = tuple(column for column in self.columns if column != name)
        else:
            chosen = _checked_features(self, features, name)
        if not chosen:
            raise ValueError(f"{self.path} must have a column besides the label {name!r}, got no other")
        return name, chosen

    def stream(
        self,
        label: str | int | None = None,
        features: Sequence[str] | None = None,
        encoder: Encoder | None = None,
    ) -> Iterator[tuple[Any, Any]]:
        """Rows in pieces, in the file's order, checked.

        Parameters
        ----------
        label : str, int or None
            The label's column; a number only where columns have no names. None means the label of a format that has its
            own (libsvm, X and y in .npz), and no label in any other.
        features : sequence of str or None
            Columns of X, in this order; None means all but the label's.
        encoder : Encoder or None
            What makes features of these columns, if they are described publicly: then they may hold anything.

        Yields
        ------
        X : array of shape (n, d)
            float32 or float64, C-contiguous; CSR from libsvm.
        y : array of shape (n,) or None
            Labels as they are in the file.
        """
        self.select(label, features)  # refused now, not when the first piece is asked for
        return ((X, y) for X, y, _ in self.read(label, features, encoder=encoder))

    def read(
        self,
        label: str | int | None = None,
        features: Sequence[str] | None = None,
        columns: Sequence[str] = (),
        checked: bool = True,
        encoder: Encoder | None = None,
        gaps: Collection[str] = (),
    ) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
        """Rows in pieces as `stream` has them, and more columns as they are written.

        Parameters
        ----------
        label, features, encoder
            As in `stream`.
        columns : sequence of str
            Columns to read beside them.
        checked : bool
            Whether to refuse missing and infinite values; a second reading need not.
        gaps : collection of str
            Those of `columns` that may have no value in some rows.

        Yields
        ------
        X, y
            As in `stream`.
        said : dict of arrays of shape (n,)
            Values of `columns`, and of the features as they are written where an encoder is given.
        """
        name, chosen = self.select(label, features)
        as_written = list(dict.fromkeys([*([] if name is None else [name]), *columns]))
        for column in columns:
            self.refuse_unknown(column)
        first = 0
        for part, said in self._pieces(as_written, chosen, encoder is not None):
            y = None if name is None else said[name]
            X = _as_rows(part) if encoder is None else encoder.features(said, len(part), str(self.path), first)
            if checked:
                if encoder is None:
                    _refuse_values(self.path, X, chosen, first)
                for column in as_written:
                    if column == name or column not in gaps:
                        refuse_gaps(self.path, said[column], column, range(first, first + len(said[column])))
            first += X.shape[0]
            yield X, y, said

    def cells(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Values of columns as they are written, in pieces, not checked."""
        for column in names:
            self.refuse_unknown(column)
        return (said for _, said in self._pieces([], names, True))

    def verbatim(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Values of columns in pieces, nothing about them changed: text of a file of text, else of the file's type."""
        for column in names:
            self.refuse_unknown(column)
        reader = self.reader
        return reader.verbatim(names) if isinstance(reader, ArrowFile) else self.cells(names)

    def _pieces(
        self, as_written: Sequence[str], features: Sequence[str], as_text: bool
    ) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Pieces of the reader; with `as_text`, features too are as they are written."""
        if not as_text:
            return self.reader.pieces(as_written, features)
        reader = self.reader.as_text(features) if isinstance(self.reader, CsvFile) else self.reader
        return reader.pieces(list(dict.fromkeys([*as_written, *features])), [])

    def refuse_unknown(self, column: str) -> None:
        """Refuse a name that no column has."""
        if column not in self.columns:
            names = refusals.list_names(self.columns)
            raise ValueError(f"{self.path} must have a column {column!r}; there are {names}")

    def arrays(
        self,
        label: str | int | None = None,
        features: Sequence[str] | None = None,
        encoder: Encoder | None = None,
    ) -> tuple[Any, Any]:
        """All rows: X and y of `stream`, joined."""
        parts = list(self.stream(label, features, encoder))
        X = join_rows([part for part, _ in parts])
        return X, None if parts[0][1] is None else join_rows([y for _, y in parts])

    def _label(self, label: str | int | None) -> str | None:
        own = self.reader.own_label
        if own is not None:
            if label not in (None, own):
                raise ValueError(f"{self.path}: label must be {own!r} or None, got {checks.shown(label)}")
            return own
        count = len(self.columns)
        if self.reader.numbered and type(label) is int and -count <= label < count:
            return self.columns[label]
        if label is None or (isinstance(label, str) and label in self.columns):
            return label
        raise ValueError(
            f"{self.path}: label must be one of the columns {refusals.list_names(self.columns)}; "
            f"got {checks.shown(label)}"
        )


def open_table(path: str | os.PathLike[str], n_features: int | None = None, delimiter: str | None = None) -> Table:
    r"""Describe a file of rows without loading it, where its format allows (.npz is read whole).

    Parameters
    ----------
    path : path
        The format is chosen by the extension, in any case: .csv and .tsv (also .gz), .data, .txt, .parquet, .arrow
        and .feather, .svm, .libsvm and .svmlight, .npy and .npz.
    n_features : int or None
        Width of a libsvm file, whose last columns may be empty. Other formats know theirs.
    delimiter : str or None
        What separates the columns of a file of text; None finds out.

    Returns
    -------
    Table

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "clinic.csv"
    >>> _ = path.write_text("age,dose,y\n0.3,0.1,yes\n0.5,0.2,no\n")
    >>> table = open_table(path)
    >>> table.columns, table.rows
    (('age', 'dose', 'y'), 2)
    >>> X, y = table.arrays(label="y")
    >>> X.tolist(), y.tolist()
    ([[0.3, 0.1], [0.5, 0.2]], ['yes', 'no'])
    """
    file = Path(path)
    _refuse_absent(file)
    opener = _opener(file)
    if opener is open_libsvm:
        opener = partial(open_libsvm, n_features=n_features)
    elif delimiter is not None and getattr(opener, "func", opener) is open_csv:
        opener = partial(open_csv, delimiter=delimiter)
    reader = opener(file)
    _refuse_columns(file, reader.columns)
    if reader.empty():
        refusals.refuse_no_rows(file)
    return Table(file, reader.columns, reader)


def _refuse_absent(path: Path) -> None:
    resolve(path)  # a loop of links is refused
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; rows come from a file ending in {', '.join(OPENERS)}")
    if not path.is_file():
        raise ValueError(f"{path} must be a file ending in {', '.join(OPENERS)}; it is not a file")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty; it must have columns and at least one row")


def _opener(path: Path) -> Callable[[Path], Reader]:
    for extension, opener in OPENERS.items():
        if path.name.lower().endswith(extension):
            return opener
    raise ValueError(f"{path} must end in one of {', '.join(OPENERS)}; its format is not known")


def _refuse_columns(path: Path, columns: Sequence[str]) -> None:
    if not columns:
        raise ValueError(f"{path} must have columns, got none")
    seen: set[str] = set()
    for number, name in enumerate(columns):
        if not name.strip():
            raise ValueError(
                f"{path}: every column must have a name, column {number} has none (row labels from pandas? write them "
                "with index=False)"
            )
        if name in seen:
            raise ValueError(f"{path}: columns must have names that differ, got {checks.shown(name)} twice")
        seen.add(name)


def _checked_features(table: Table, features: Sequence[str], label: str | None) -> tuple[str, ...]:
    if isinstance(features, str) or not features:
        raise ValueError(f"features must be a list of at least one column, got {checks.shown(features)}")
    columns, seen = set(table.columns), set[str]()  # sets: there may be many thousands of columns
    for name in features:
        if name not in columns:
            raise ValueError(
                f"{table.path}: features must be columns, got {checks.shown(name)}; "
                f"there are {refusals.list_names(table.columns)}"
            )
        if name == label or name in seen:
            why = "the label's column" if name == label else "there twice"
            raise ValueError(f"features must be different columns without the label, got {name!r}, which is {why}")
        seen.add(name)
    return tuple(features)


def _as_rows(X: Any) -> Any:
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    return X if is_sparse(X) else np.ascontiguousarray(X)


def _refuse_values(path: Path, X: Any, features: Sequence[str], first: int) -> None:
    if is_finite(X) or (found := find_not_finite(X)) is None:
        return
    row, column, value = found
    if np.isnan(value):
        refusals.refuse_gap(path, features[column], first + row)
    which = owner_only(f", got {value} in row {first + row}")
    raise ValueError(f"{path}: column {features[column]!r} must hold finite numbers{which}")
