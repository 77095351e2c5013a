"""Files of text with a delimiter, plain or gzipped, read by Arrow a block of text at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from uneven import checks
from uneven.io import refusals
from uneven.io.arrow import ArrowFile, cut_batches
from uneven.io.text_format import TextFormat, recognise
from uneven.matrices import BLOCK_ROWS
from uneven.redaction import owner_only

BLOCK_BYTES = 1 << 22
"""Text parsed at a time. A line must fit, and the type of the first block's labels holds for all."""

CONVERSION = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to (\w+): (.*)", re.DOTALL)
"""What Arrow says of a value; it counts rows from 1 and the header as one of them."""

ACCEPTED = {
    "double": "numbers",
    "int64": "whole numbers, as in its first rows",
    "bool": "true or false, as in its first rows",
    "string": "UTF-8 text",
}


@dataclass(frozen=True)
class CsvFile(ArrowFile):
    """Text in lines; `types` are those that its first block suggests, `headings` the columns' names with any spaces."""

    kind: ClassVar[str] = "CSV"
    form: TextFormat
    types: Mapping[str, Any]
    headings: Mapping[str, str]

    @property
    def numbered(self) -> bool:  # type: ignore[override]
        """Whether no line names the columns: then they are called x0, x1 and so on."""
        return self.form.width is not None

    def as_text(self, names: Sequence[str]) -> CsvFile:
        """The same file with these columns as text, whatever its first block suggests."""
        import pyarrow

        return replace(self, types={**self.types, **dict.fromkeys(names, pyarrow.string())})

    def is_text(self, column: str) -> bool:
        """Whether a column is of text, as its first block has it."""
        import pyarrow

        return bool(pyarrow.types.is_string(self.types[column]))

    def batches(self, names: Sequence[str], as_written: Sequence[str] = ()) -> Iterator[Any]:
        """Batches of the columns asked for, each of one type from beginning to end."""
        types = {name: _feature_type(self.types[name]) for name in names}
        types |= {name: _label_type(self.types[name]) for name in as_written}
        with self._reader(types) as reader:
            for batch in cut_batches(BLOCK_ROWS, reader):
                yield _tidy(batch.rename_columns(list(types)), self.form)

    def verbatim(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Columns as text, character by character as the file has them."""
        import pyarrow

        with self._reader(dict.fromkeys(names, pyarrow.string()), verbatim=True) as reader:
            for batch in self._guarded(cut_batches(BLOCK_ROWS, reader)):
                if batch.num_rows:
                    yield dict(zip(names, batch.columns, strict=True))

    def _reader(self, types: Mapping[str, Any], verbatim: bool = False) -> Any:
        return _opened(self.path, self.form, {self.headings[name]: kind for name, kind in types.items()}, verbatim)

    def first_column(self) -> Iterator[Any]:
        """Batches of one column as bytes: counting must not stop at a value that nobody asked for."""
        import pyarrow

        with self._reader({self.columns[0]: pyarrow.binary()}) as reader:
            yield from reader

    def explained(self) -> AbstractContextManager[None]:
        """Context that names the column, the value and the row where Arrow knows them by number."""
        return _explained(self.path, self.columns, 2 if self.form.width is None else 1)


def open_csv(path: Path, delimiter: str | None = None) -> CsvFile:
    """CSV file, its first block read; without a delimiter, that is found out."""
    form = recognise(path, delimiter)
    with refusals.unreadable(path, CsvFile.kind), _opened(path, form) as reader:
        headings, types = reader.schema.names, reader.schema.types
    names = tuple(name.strip() if form.padded else name for name in headings)
    return CsvFile(path, names, form, dict(zip(names, types, strict=True)), dict(zip(names, headings, strict=True)))


def _tidy(batch: Any, form: TextFormat) -> Any:
    """A batch whose words have no padding, and whose numbers among words have a point for decimals."""
    import pyarrow
    from pyarrow import compute

    if not form.padded and form.decimal == ".":
        return batch
    for place, column in enumerate(batch.columns):
        if pyarrow.types.is_string(column.type):
            words = compute.utf8_trim_whitespace(column) if form.padded else column
            if form.decimal == ",":
                words = compute.replace_substring_regex(words, r"^\s*([+-]?\d+),(\d+)\s*$", r"\1.\2")
            batch = batch.set_column(place, batch.schema.names[place], words)
    return batch


def _opened(path: Path, form: TextFormat, types: Mapping[str, Any] | None = None, verbatim: bool = False) -> Any:
    import pyarrow
    from pyarrow import csv

    return csv.open_csv(
        pyarrow.input_stream(str(path), compression="gzip" if path.suffix.lower() == ".gz" else None),
        csv.ReadOptions(
            use_threads=False,  # threads would lose the rows' numbers
            block_size=BLOCK_BYTES,
            column_names=form.names,
            encoding=form.encoding,
        ),
        csv.ParseOptions(delimiter=form.delimiter, newlines_in_values=True),
        csv.ConvertOptions(
            column_types=types,
            include_columns=None if types is None else list(types),
            null_values=[""] if verbatim else None,
            strings_can_be_null=True,
            decimal_point=form.decimal,
            quoted_strings_can_be_null=False,
        ),
    )


def _feature_type(inferred: Any) -> Any:
    """Numbers, whatever the first block looks like: whole ones may be followed by others, and text is refused."""
    import pyarrow

    return inferred if pyarrow.types.is_boolean(inferred) else pyarrow.float64()


def _label_type(inferred: Any) -> Any:
    """Labels as they are written: numbers or booleans if the first block has nothing else, otherwise text."""
    import pyarrow
    from pyarrow import types

    plain = types.is_integer(inferred) or types.is_floating(inferred) or types.is_boolean(inferred)
    return inferred if plain else pyarrow.string()


@contextmanager
def _explained(path: Path, columns: Sequence[str], first: int) -> Iterator[None]:
    """`first` is what Arrow calls the first row."""
    try:
        yield
    except Exception as error:
        if found := CONVERSION.match(str(error)):
            raise ValueError(_refused_value(path, columns, first, *found.groups())) from None
        with refusals.unreadable(path, CsvFile.kind):
            raise


def _refused_value(
    path: Path, columns: Sequence[str], first: int, column: str, row: str, kind: str, reason: str
) -> str:
    value = re.fullmatch(r"invalid value '(.*)'", reason, re.DOTALL)
    got = checks.shown(value[1]) if value else reason
    accepted = ACCEPTED.get(kind, kind)
    which = owner_only(f", got {got} in row {int(row) - first}")
    return f"{path}: column {columns[int(column)]!r} must hold {accepted}{which}"
