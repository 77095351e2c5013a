"""Values as files have them, read alike whatever the file: as text, or as numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.redaction import owner_only

GAPS = ("?", "NA", "N/A", "na", "n/a", "NaN", "nan", "null", "NULL", "None", "none", ".", "-")
"""What often stands for a missing value."""

WHOLE = re.compile(r"([+-]?\d+)\.0*")
"""A whole number written with a point: some files of one table have 3.0 where others have 3."""

DECIMAL = re.compile(r"[+-]?\d*\.\d+")
"""A number with digits behind its point: 0.1 and 0.10 are one."""

SAME = {"1": "true", "0": "false", "true": "1", "false": "0"}
"""Numbers that are booleans in another file of the same table."""


class _Texts(dict[Any, "str | None"]):
    """Text of each string that was asked for: a column has few different ones, as a rule."""

    def __missing__(self, value: Any) -> str | None:
        text = self[value] = _text(value)
        return text


def _text(value: Any) -> str | None:
    if _is_absent(value):
        return None
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    if whole := WHOLE.fullmatch(text):
        return whole[1]
    return str(float(text)) if DECIMAL.fullmatch(text) else text or None


def _is_absent(value: Any) -> bool:
    """Whether it is None, NaN, which differs from itself, or pandas' NA, of which that cannot be asked."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def as_number(text: str) -> float | None:
    """The number that a text is, booleans among them; None where it is none."""
    try:
        return float(SAME[text] if text in ("true", "false") else text)
    except ValueError:
        return None


def as_text(values: Iterable[Any]) -> list[str | None]:
    """Values as text without spaces around them; equal numbers become the same text, and a missing value None.

    >>> as_text(["yes ", 3.0, "3.0", "0.10", True, None, ""])
    ['yes', '3', '3', '0.1', 'true', None, None]
    """
    texts = _Texts()
    short = isinstance(values, np.ndarray) and values.dtype in (
        np.float16,
        np.float32,
    )  # as a list they have more digits
    plain = values.tolist() if isinstance(values, np.ndarray) and not short else values
    # Only strings are remembered: True, 1 and 1.0 are equal, and would share one text.
    return [texts[value] if isinstance(value, str) else _text(value) for value in plain]


def as_numbers(values: Any, missing: Collection[str], where: str, first: int = 0) -> NDArray[np.float64]:
    """Values as numbers, NaN where one is missing; `where` names the column, `first` its first row, in refusals."""
    given = np.asarray(values)
    if given.dtype.kind in "biuf" and not missing:
        numbers = given.astype(np.float64)
    else:
        known: dict[str | None, float] = {None: math.nan, **dict.fromkeys(missing, math.nan)}
        numbers = np.array([_number(text, known, row, where) for row, text in enumerate(as_text(given), first)])
    if np.isinf(numbers).any():
        which = owner_only(f" in row {first + int(np.argmax(np.isinf(numbers)))}")
        raise ValueError(f"{where} must hold finite numbers, got inf{which}")
    return numbers


def _number(text: str | None, known: dict[str | None, float], row: int, where: str) -> float:
    if text is None or text in known:
        return known[text]
    if (number := as_number(text)) is None:
        raise ValueError(
            f"{where} must hold numbers, got {owner_only(f'{checks.shown(text)} in row {row}', 'another value')}; if "
            "that stands for a missing value, say so in its 'missing'"
        )
    return number
