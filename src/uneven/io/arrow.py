"""Parquet and Arrow files, read one record batch at a time, and what they share with CSV."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from uneven.io import refusals
from uneven.matrices import BLOCK_ROWS, make_feature_matrix

PANDAS_INDEX = "__index_level_"
"""How the columns are called in which pandas keeps row labels: no features."""


@dataclass(frozen=True)
class ArrowFile(ABC):
    """A file that Arrow reads in batches; subclasses say how."""

    kind: ClassVar[str]
    path: Path
    columns: tuple[str, ...]

    own_label: ClassVar[str | None] = None
    numbered: ClassVar[bool] = False

    @abstractmethod
    def batches(self, names: Sequence[str], as_written: Sequence[str] = ()) -> Iterator[Any]:
        """Record batches that have these columns, some of them as they are written; perhaps others too."""

    def count(self) -> int:
        """Number of rows."""
        return sum(batch.num_rows for batch in self._guarded(self.first_column()))

    def empty(self) -> bool:
        """Whether there are no rows; reads no further than to the first."""
        return not any(batch.num_rows for batch in self._guarded(self.first_column()))

    def pieces(self, as_written: Sequence[str], features: Sequence[str]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Features of each batch, and columns as they are written; a missing value is NaN or None."""
        names = [*features, *as_written]
        filled = (batch for batch in self._guarded(self.batches(names, as_written)) if batch.num_rows)
        for number, batch in enumerate(filled):
            if number == 0:
                _refuse_types(self.path, batch, features)
            with self.explained():  # damage inside a value shows only now
                X = make_feature_matrix(batch, features) if features else np.empty((batch.num_rows, 0))
                piece = X, {name: _values(batch, name) for name in as_written}
            yield piece

    def verbatim(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Columns as Arrow has them, with their types."""
        for batch in self._guarded(self.batches(names, names)):
            if batch.num_rows:
                yield {name: _decoded(batch.column(name)) for name in names}

    def is_text(self, column: str) -> bool:
        """Whether a column is of text, by its type alone."""
        batch = next(iter(self._guarded(self.batches([column], [column]))), None)
        return batch is not None and _is_text(batch.schema.field(column).type)

    def first_column(self) -> Iterator[Any]:
        """Batches of one column, to count rows by."""
        return self.batches(self.columns[:1])

    def explained(self) -> AbstractContextManager[None]:
        """Context that says in one line what is wrong where Arrow cannot go on."""
        return refusals.unreadable(self.path, self.kind)

    def _guarded(self, batches: Iterator[Any]) -> Iterator[Any]:
        while True:
            with self.explained():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def _decoded(column: Any) -> Any:
    """A column with dictionary encoding removed."""
    from pyarrow import types

    return column.dictionary_decode() if types.is_dictionary(column.type) else column


def _is_text(kind: Any) -> bool:
    """Whether an Arrow type is text, or a dictionary of text."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind))


def _values(batch: Any, name: str) -> Any:
    """Values of a column; words one by one, because Arrow would import pandas for them."""
    column = batch.column(name)
    if _is_text(column.type):
        return np.array(column.to_pylist(), dtype=object)
    return column.to_numpy(zero_copy_only=False)


def _refuse_types(path: Path, batch: Any, features: Sequence[str]) -> None:
    from pyarrow import types

    accepted = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null
    for name in features:
        column = batch.column(name)
        if not any(is_type(column.type) for is_type in accepted):
            refusals.refuse_text(path, name, column.type, column[0].as_py(), 0)


def _names(schema: Any) -> tuple[str, ...]:
    return tuple(name for name in schema.names if not name.startswith(PANDAS_INDEX))


def cut_batches(rows: int, batches: Iterable[Any]) -> Iterator[Any]:
    """Batches cut into smaller ones, without copying."""
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


# Parquet.


@dataclass(frozen=True)
class ParquetFile(ArrowFile):
    """Columns in row groups; the footer knows how many rows there are."""

    kind: ClassVar[str] = "Parquet"

    def batches(self, names: Sequence[str], as_written: Sequence[str] = ()) -> Iterator[Any]:
        """Batches of the columns asked for; no others are read."""
        with _parquet(self.path) as file:
            left = file.metadata.num_rows
            for batch in file.iter_batches(BLOCK_ROWS, columns=list(names)):
                left -= batch.num_rows
                yield batch
            if left:
                raise ValueError(f"its footer states {file.metadata.num_rows} rows, there are {left} fewer")

    def count(self) -> int:
        """Number of rows that the footer states."""
        with self.explained(), _parquet(self.path) as file:
            return int(file.metadata.num_rows)

    def empty(self) -> bool:
        """Whether the footer states no rows."""
        return self.count() == 0


def open_parquet(path: Path) -> ArrowFile:
    """Parquet file, its footer read."""
    with refusals.unreadable(path, ParquetFile.kind), _parquet(path) as file:
        return ParquetFile(path, _names(file.schema_arrow))


def _parquet(path: Path) -> Any:
    from pyarrow import parquet

    # Buffering ahead would hold the whole file in memory. Checksums are looked at where the file has them.
    return parquet.ParquetFile(path, pre_buffer=False, page_checksum_verification=True)


# Arrow IPC, which Feather version 2 is too.


@dataclass(frozen=True)
class IpcFile(ArrowFile):
    """Arrow's own format, as a file or as a stream, memory-mapped."""

    kind: ClassVar[str] = "Arrow"
    positions: Mapping[str, int]

    def batches(self, names: Sequence[str], as_written: Sequence[str] = ()) -> Iterator[Any]:
        """Batches of the columns asked for, cut where they are large."""
        with _ipc(self.path, [self.positions[name] for name in names]) as reader:
            stored = (reader.get_batch(i) for i in range(reader.num_record_batches)) if _is_file(self.path) else reader
            yield from cut_batches(BLOCK_ROWS, stored)


def open_ipc(path: Path) -> ArrowFile:
    """Arrow or Feather file, its schema read."""
    with refusals.unreadable(path, IpcFile.kind), _ipc(path) as reader:
        positions = {name: i for i, name in enumerate(reader.schema.names)}
        return IpcFile(path, _names(reader.schema), positions)


def _ipc(path: Path, positions: Sequence[int] | None = None) -> Any:
    import pyarrow
    from pyarrow import ipc

    options = ipc.IpcReadOptions(included_fields=positions)
    return (ipc.open_file if _is_file(path) else ipc.open_stream)(pyarrow.memory_map(str(path)), options=options)


def _is_file(path: Path) -> bool:
    """Whether it is Arrow's file format; a stream of batches may have the same extension."""
    with path.open("rb") as file:
        magic = file.read(6)
    if magic.startswith(b"FEA1"):
        raise ValueError("it is Feather of version 1; write it again as version 2")
    return magic == b"ARROW1"
