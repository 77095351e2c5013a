"""Ranges and values of columns, from rows that may be looked at: never from private ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from uneven.columns.cells import GAPS, as_numbers, as_text
from uneven.columns.description import Column

TAIL = 0.03
"""Share of the rows beyond each end of a range: one outlier must not squeeze all others together. Of 0.01, 0.03 and
0.05, 0.01 loses two points on heart disease under privacy, and 0.05 most on German credit without it."""

SAMPLE = 1 << 16
"""Numbers at even distances that a range is taken from, at most."""

MOST_VALUES = 1000
"""Values that a category may have."""

GUESSED_VALUES = 50
"""Values up to which a column of words is taken for a category."""

COMMON_ROWS, COMMON_SHARE = 10, 0.5
"""Of a column with more values, those that so many rows have are a category, where this share of the rows has one of
them; the other values are one more."""


class Finder:
    """Range or values of one column, from rows in pieces; the same however they are cut into pieces."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.seen: dict[str, None] = {}
        self.numbers: list[float] = []
        self.stride, self.count, self.gaps = 1, 0, False

    def see(self, values: Any, where: str = "", first: int = 0) -> None:
        """Look at more rows."""
        if self.column.kind == "number":
            name = f"{where}: column {self.column.name!r}" if where else f"column {self.column.name!r}"
            self._see_numbers(as_numbers(values, self.column.missing or (), name, first))
            return
        texts = as_text(values)
        gaps = {None, *(self.column.missing or ())}
        self.gaps = self.gaps or not gaps.isdisjoint(texts)
        self.seen |= dict.fromkeys(text for text in texts if text is not None and text not in gaps)
        if len(self.seen) > MOST_VALUES:
            raise ValueError(
                f"column {self.column.name!r} must have at most {MOST_VALUES} values to be a category, got more"
            )

    def _see_numbers(self, numbers: Any) -> None:
        gaps = np.isnan(numbers)
        self.gaps = self.gaps or bool(gaps.any())
        there = numbers[~gaps]
        self.numbers += there[-self.count % self.stride :: self.stride].tolist()
        self.count += len(there)
        while len(self.numbers) > SAMPLE:
            self.numbers, self.stride = self.numbers[::2], 2 * self.stride

    def found(self) -> Column:
        """The column with its range or values, and ``missing`` where a value was."""
        gaps = () if self.gaps and self.column.missing is None else self.column.missing
        if self.column.kind == "category":
            values = tuple(sorted(self.seen)) if self.column.values is None else self.column.values
            if not values:
                raise ValueError(f"column {self.column.name!r} must have a value in some row, got none")
            return replace(self.column, values=values, missing=gaps)
        if self.column.range is not None:
            return replace(self.column, missing=gaps)
        if not self.numbers:
            raise ValueError(f"column {self.column.name!r} must have a value in some row, got none")
        return replace(self.column, range=_range(np.array(self.numbers)), missing=gaps)


def _range(numbers: Any) -> tuple[float, float]:
    """Where all but the tails lie, to four digits; all of it where that is one point."""
    low, high = np.quantile(numbers, [TAIL, 1.0 - TAIL])
    if low == high:
        low, high = numbers.min(), numbers.max()
    low, high = (float(f"{end:.4g}") for end in (low, high))
    return (low, high) if low < high else (low, low + max(1.0, abs(low) * 1e-3))


def guess_columns(said: Mapping[str, Any]) -> tuple[Column, ...]:
    """Kind of each column, judged by some of its values; ids and free text are left out.

    Parameters
    ----------
    said : dict of str to array
        Values of each column.

    Examples
    --------
    >>> guess_columns({"age": ["31", "?"], "job": ["clerk", "cook"]})
    (Column(name='age', kind='number', ..., missing=('?',), ...), Column(name='job', kind='category', ...))
    """
    columns = []
    for name, values in said.items():
        texts = [text for text in as_text(values) if text is not None]
        gaps = [gap for gap in (*GAPS, *sorted(set(filter(_is_infinite, texts)))) if gap in texts]
        rest = [text for text in texts if text not in gaps]
        if rest and _all_numbers(rest):
            columns.append(Column(name, "number", missing=tuple(gaps) if gaps or len(texts) < len(values) else None))
        elif 0 < len(set(texts)) <= min(GUESSED_VALUES, max(2, len(texts) // 2)):
            marks = tuple(gap for gap in gaps if gap == "?")  # words such as "none" may be values like others
            columns.append(Column(name, "category", missing=marks if marks or len(texts) < len(values) else None))
        elif common := _list_common(rest):
            columns.append(Column(name, "category", values=common, missing=() if len(rest) < len(values) else None))
    return tuple(columns)


def _list_common(texts: Sequence[str]) -> tuple[str, ...]:
    """The commonest values of a column with many, in order; none of ids or free text, where hardly any comes again."""
    counts = Counter(texts).most_common(GUESSED_VALUES)
    common = {value: rows for value, rows in counts if rows >= COMMON_ROWS}
    return tuple(sorted(common)) if sum(common.values()) >= COMMON_SHARE * len(texts) else ()


def _is_infinite(text: str) -> bool:
    return text.strip("+-").lower() in ("inf", "infinity")


def _all_numbers(texts: Iterable[str]) -> bool:
    try:
        return bool(np.isfinite([float(text) for text in texts]).all())
    except ValueError:
        return False


def complete_columns(columns: Sequence[Column], pieces: Iterable[tuple[Mapping[str, Any], str]]) -> tuple[Column, ...]:
    """Columns with what is not stated of them taken from rows without privacy.

    Parameters
    ----------
    columns : sequence of Column
    pieces : iterable of (said, where)
        Rows in pieces, their values by column, and whose they are.
    """
    finders = {column.name: Finder(column) for column in columns if not column.complete}
    place: dict[str, int] = {}
    for said, where in pieces:
        first = place.get(where, 0)
        for name, finder in finders.items():
            finder.see(said[name], where, first)
        place[where] = first + len(next(iter(said.values())))
    return tuple(finders[column.name].found() if column.name in finders else column for column in columns)
