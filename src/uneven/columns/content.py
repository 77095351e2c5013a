"""What described rows are known by: their cells as they are in the table, whatever is said of the columns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.columns.cells import GAPS, as_number, as_text

DIGEST_BYTES = 16
ABSENT, NUMBER, WORD = b"\0", b"\1", b"\2"
ALL = str(slice(None))


class EncodedRows(np.ndarray):
    """Features with the cells that they were made of, by which a ledger knows the rows.

    The cells stay with the array itself and with rows chosen from it. Any other array that is made from it has none.
    """

    cells: Mapping[str, NDArray[Any]] | None = None

    def __array_finalize__(self, made_from: Any) -> None:
        """Begin without cells."""
        self.cells = None

    def __getitem__(self, key: Any) -> Any:
        """Some rows with their cells; anything else is an ordinary array."""
        chosen, rows = np.asarray(self)[key], key
        if isinstance(key, tuple):
            rows = key[0] if len(key) == 2 and (key[1] is Ellipsis or str(key[1]) == ALL) else None
        if self.cells is None or rows is None or chosen.ndim != 2:
            return chosen
        return attach_cells(chosen, {name: values[rows] for name, values in self.cells.items()})

    def digests(self) -> NDArray[np.uint8] | None:
        """Digest of each row's cells; None where they are lost."""
        return None if self.cells is None else digest_cells(self.cells)


def attach_cells(features: NDArray[Any], cells: Mapping[str, NDArray[Any]]) -> EncodedRows:
    """Features that keep the cells they were made of."""
    made = features.view(EncodedRows)
    made.cells = cells
    return made


def digest_cells(cells: Mapping[str, Any]) -> NDArray[np.uint8]:
    """BLAKE2b of each row's cells, in the order of the columns' names, shape (n, 16).

    Numbers are rounded to float32 and what often stands for a missing value is one sign: a CSV and a Parquet file of
    the same rows agree. Neither kind, range, values nor `missing` of a column matter.

    >>> text, numbers = {"age": ["31", "0.10"]}, {"age": np.float32([31.0, 0.1])}
    >>> (digest_cells(text) == digest_cells(numbers)).all()
    np.True_
    """
    columns = [_tokens(cells[name]) for name in sorted(cells)]
    rows = map(b"".join, zip(*columns, strict=True))
    digests = [hashlib.blake2b(row, digest_size=DIGEST_BYTES).digest() for row in rows]
    return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, DIGEST_BYTES)


def _tokens(values: Any) -> list[bytes]:
    """Bytes of each value that say where they end: a sign, then a number's four bytes or a word and its length."""
    token: Callable[[str | None], bytes] = cache(_token)  # a column has few different values, as a rule
    return [token(text) for text in as_text(values)]


def _token(text: str | None) -> bytes:
    if text is None or text in GAPS:
        return ABSENT
    number = as_number(text)
    if number is not None:
        with np.errstate(over="ignore"):
            return NUMBER + (np.float32(number) + np.float32(0.0)).tobytes()
    word = text.encode()
    return WORD + len(word).to_bytes(8, "little") + word
