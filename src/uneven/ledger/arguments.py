"""Checks of what a ledger is given."""

from __future__ import annotations

import glob
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uneven import checks
from uneven.ledger.fingerprints import Fingerprints
from uneven.redaction import owner_only


def check_path(path: object) -> Path:
    """Where a ledger is or will be: the same file from any directory."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path must be a file name or None, got {checks.shown(path)}")
    resolved = Path(os.path.realpath(path))
    if resolved.exists() and not resolved.is_file():
        raise ValueError(f"path must be a ledger or a new file, got {str(path)!r}, which is not a file")
    if resolved.exists() and resolved.stat().st_size == 0:
        raise ValueError(f"path must be a ledger or a new file, got {str(path)!r}, a file of 0 bytes: a lost ledger?")
    return resolved


def refuse_links(path: Path) -> None:
    """Refuse a file with a second name: SQLite's log goes by the name, and charges under the other are not seen."""
    if path.exists() and path.stat().st_nlink > 1:
        for left in path.parent.glob(f".{glob.escape(path.name)}.*"):  # the name it was made under, if that was cut off
            with suppress(FileNotFoundError):
                if left.samefile(path):
                    left.unlink()
        if path.stat().st_nlink > 1:
            raise ValueError(f"path must be a ledger with one name, got {str(path)!r}, which hard links name too")


def check_charge(
    source: str, rows: ArrayLike | Fingerprints, epsilon: ArrayLike
) -> tuple[str, NDArray[np.int64], NDArray[np.float64]]:
    """A source, the ids of its rows and the ε of each."""
    ids = check_rows(rows)
    return checks.text("source", source), ids, check_epsilons(epsilon, len(ids))


def list_ids(rows: ArrayLike | Fingerprints) -> list[int]:
    """Ids of rows."""
    numbers: list[int] = check_rows(rows).tolist()
    return numbers


def check_rows(rows: ArrayLike | Fingerprints) -> NDArray[np.int64]:
    """Ids of rows; refuses what is not a list of distinct whole numbers."""
    ids = rows.numbers if isinstance(rows, Fingerprints) else _listed(rows)
    if ids is None or ids.dtype.kind not in "iu" or len(ids) == 0:
        raise ValueError(f"rows must be a list of non-negative whole numbers, got {checks.shown(rows)}")
    if not isinstance(rows, Fingerprints) and (ids.min() < 0 or ids.max() >= 2**63):
        got = owner_only(checks.shown(rows), "others")
        raise ValueError(f"rows must be a list of non-negative whole numbers, got {got}")
    ordered = np.sort(ids)
    if (twice := ordered[1:] == ordered[:-1]).any():
        raise ValueError(f"rows must be distinct, got {owner_only(str(ordered[1:][twice][0]), 'one')} more than once")
    return ids.astype(np.int64)


def check_epsilons(epsilon: Any, count: int) -> NDArray[np.float64]:
    """ε of each of so many rows."""
    values = _listed(epsilon)
    if values is None:
        return np.full(count, checks.moderate("epsilon", epsilon))
    if len(values) != count or values.dtype.kind not in "iuf":
        raise ValueError(f"epsilon must be a number or one for each of {count} rows, got {checks.shown(epsilon)}")
    for wrong in values[~((values >= checks.LEAST) & (values <= checks.MOST))].tolist():
        checks.moderate("epsilon", wrong)
    return values.astype(np.float64)


def _listed(values: ArrayLike) -> NDArray[Any] | None:
    """As an array of one dimension; None for what is not."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # lists of different lengths, and worse
        return None
    return array if array.ndim == 1 else None
