"""One-line errors about files: each names the file, what is wrong with it and what would be accepted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from uneven import checks
from uneven.redaction import owner_only

SHOWN_COLUMNS = 6


def list_names(names: Sequence[str]) -> str:
    """Names on one line, the middle ones left out if there are many.

    >>> list_names([f"x{j}" for j in range(100)])
    "'x0', 'x1', 'x2', 'x3', 'x4', ..., 'x99' (100 columns)"
    """
    shown = [checks.shown(name) for name in names]
    if len(shown) <= SHOWN_COLUMNS:
        return ", ".join(shown)
    return f"{', '.join(shown[: SHOWN_COLUMNS - 1])}, ..., {shown[-1]} ({len(names)} columns)"


@contextmanager
def unreadable(path: Path, kind: str) -> Iterator[None]:
    """Turn what a library says about a damaged file into one line that names it."""
    try:
        yield
        return
    except (FileNotFoundError, PermissionError):  # they say it themselves
        raise
    except Exception as error:  # libraries raise all kinds on files that are not what they claim to be
        reason = owner_only(f": {shorten_error(error)}")  # it may show a whole row
    raise ValueError(f"{path} cannot be read as {kind}, it may be damaged or cut short{reason}")


def shorten_error(error: BaseException) -> str:
    """Message of an error on one line, shortened."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= 200 else words[:197] + "..."


def refuse_no_rows(path: Path) -> NoReturn:
    """Refuse a file that has columns, perhaps, but nothing below them."""
    raise ValueError(f"{path} must have at least one row, got none")


def refuse_text(path: Path, column: str, kind: object, value: Any, row: int) -> NoReturn:
    """Refuse a feature that is not a number."""
    which = owner_only(f" ({checks.shown(value)} in row {row})")
    raise ValueError(f"{path}: column {column!r} must hold numbers to be a feature, got {kind}{which}")


def refuse_gap(path: Path, column: str, row: int) -> NoReturn:
    """Refuse a missing value."""
    where = owner_only(f"row {row}", "some row")
    raise ValueError(f"{path}: column {column!r} has no value in {where}; impute missing values or drop such rows")


@contextmanager
def located(where: str) -> Iterator[None]:
    """Say where something is refused: in which file, table and key."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{where}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
