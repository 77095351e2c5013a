"""Columns in which rows have their own ε, flip rate or id, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.io.refusals import refuse_gap
from uneven.redaction import owner_only

LARGEST = np.iinfo(np.int64).max


def refuse_gaps(path: Path, values: NDArray[Any], column: str, rows: Sequence[int]) -> None:
    """Refuse a missing value; `rows` are the numbers of these rows in the file."""
    missing = np.asarray(values != values, dtype=bool)  # NaN and NaT differ from themselves
    if values.dtype.kind == "O":
        missing |= np.array([value is None for value in values], dtype=bool)
    if missing.any():
        refuse_gap(path, column, int(rows[int(np.argmax(missing))]))


def read_levels(path: Path, column: str, cells: NDArray[Any], rows: Sequence[int]) -> NDArray[np.float64]:
    """Per-row noise levels; the first cell that is not a number is refused.

    >>> read_levels(Path("rows.csv"), "consent", np.array(["0.5", "2"], dtype=object), range(2)).tolist()
    [0.5, 2.0]
    """
    refuse_gaps(path, cells, column, rows)
    if cells.dtype.kind in "iuf":
        return cells.astype(np.float64)
    return np.array([_read_number(path, column, one, row) for one, row in zip(cells, rows, strict=True)], np.float64)


def read_ids(path: Path, column: str, cells: NDArray[Any], rows: Sequence[int]) -> NDArray[np.int64]:
    """Row ids; the first cell that is not a whole number, or too large to be exact, is refused.

    A column of whole numbers that is empty in rows of other sources may come as one of fractions.

    >>> read_ids(Path("rows.csv"), "patient", np.array([7.0, 8.0]), range(2)).tolist()
    [7, 8]
    """
    refuse_gaps(path, cells, column, rows)
    # Beyond this a number that is next to another has the same float.
    most = 2 ** (np.finfo(cells.dtype).nmant + 1) if cells.dtype.kind == "f" else LARGEST
    if cells.dtype.kind in "iuf":
        right = (cells == np.floor(cells)) & (np.abs(cells) <= most)
    else:
        right = np.array([_is_whole(str(one)) and abs(int(str(one))) <= most for one in cells], dtype=bool)
    if not right.all():
        wrong = int(np.argmin(right))
        got = owner_only(f", got {checks.shown(cells.tolist()[wrong])} in row {rows[wrong]}")
        raise ValueError(f"{path}: column {column!r} must hold whole numbers of at most {most}{got}")
    return cells.astype(np.int64) if cells.dtype.kind in "iuf" else np.array([int(str(one)) for one in cells], np.int64)


def _is_whole(text: str) -> bool:
    return text.strip().removeprefix("-").isdecimal()


def _read_number(path: Path, column: str, cell: Any, row: int) -> float:
    try:
        if not isinstance(cell, bool | np.bool_):
            return float(cell)
    except (TypeError, ValueError):
        pass
    got = owner_only(f", got {checks.shown(cell)} in row {row}")
    raise ValueError(f"{path}: column {column!r} must hold numbers{got}")
