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

WHOLE = re.compile(r"([+-]?\d+)\.0*")
"""A whole number written with a point: some files of one table have 3.0 where others have 3."""


class _Texts(dict[Any, "str | None"]):
    """Text of each string that was asked for: a column has few different ones, as a rule."""

    def __missing__(self, value: Any) -> str | None:
        text = self[value] = _text(value)
        return text


def _text(value: Any) -> str | None:
    if value is None or value != value:  # NaN differs from itself
        return None
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    whole = WHOLE.fullmatch(text)
    return (whole[1] if whole else text) or None


def as_text(values: Iterable[Any]) -> list[str | None]:
    """Values as text, without spaces around them; None where there is none.

    >>> as_text(["yes ", 3.0, "3.0", True, None, ""])
    ['yes', '3', '3', 'true', None, None]
    """
    texts = _Texts()
    plain = values.tolist() if isinstance(values, np.ndarray) else values
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
    try:
        return known[text] if text in known else float(text)  # type: ignore[arg-type]
    except ValueError:
        raise ValueError(
            f"{where} must hold numbers, got {owner_only(f'{checks.shown(text)} in row {row}', 'another value')}; if "
            "that stands for a missing value, say so in its 'missing'"
        ) from None
