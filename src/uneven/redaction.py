"""Details in messages that are for the data's owner alone: counts of rows, norms, cell values, row numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_redacted: ContextVar[bool] = ContextVar("redacted", default=False)


@contextmanager
def redacted(on: bool = True) -> Iterator[None]:
    """Leave out of messages what could tell something about single rows.

    >>> with redacted():
    ...     f"a value is missing{owner_only(' in row 7')}"
    'a value is missing'
    """
    token = _redacted.set(on or _redacted.get())
    try:
        yield
    finally:
        _redacted.reset(token)


def owner_only(detail: str, instead: str = "") -> str:
    """`detail`, or `instead` where messages are redacted."""
    return instead if _redacted.get() else detail
