"""Rows in pieces: what both doors hand to the trainer, arrays on one side and files on the other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from uneven.matrices import is_sparse
from uneven.noise import Noise


@dataclass(frozen=True)
class Piece:
    """Neighbouring rows, and what is said of each.

    Attributes
    ----------
    X : array or CSR matrix of shape (n, d)
        Finite numbers.
    y : array of shape (n,)
        Labels as given.
    source : str, array of shape (n,) or None
        Name of the source: of all rows, or of each.
    epsilon, flip_rate : array of shape (n,) or None
        Each row's own noise, instead of its source's; NaN where it has none of its own.
    row_id : array of shape (n,) or None
        How the ledger knows the rows.
    cells : dict of str to array of shape (n,), or None
        What described columns have in their table: rows without an id are known by that.
    where : str
        What to call the rows in messages: an argument's name or a file's.
    """

    X: Any
    y: NDArray[Any]
    source: Any = None
    epsilon: Any = None
    flip_rate: Any = None
    row_id: Any = None
    cells: Mapping[str, NDArray[Any]] | None = None
    where: str = "y"

    @property
    def key(self) -> tuple[str, str | None]:
        """File and source that it is a piece of."""
        return self.where, self.source if isinstance(self.source, str) else None


class Rows(Protocol):
    """Rows that can be read again and come in the same order each time."""

    @property
    def n_features(self) -> int:
        """Number of columns of X."""

    @property
    def described(self) -> tuple[str, ...] | None:
        """Columns whose cells the rows are known by; None where they are known by their features."""
        return None

    @property
    def tells_noise(self) -> bool:
        """Whether rows of some source have their own noise, though the first pieces may not say so."""
        return False

    def pieces(self, checked: bool = True, only: str | None = None) -> Iterator[Piece]:
        """Rows piece by piece, all of them or at least those of the source `only`.

        `checked` asks for values and labels to be checked on the way.
        """


@dataclass(frozen=True)
class RowsOf(Rows):
    """Rows that are made of others, and say of themselves what those do."""

    rows: Rows

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return self.rows.n_features

    @property
    def described(self) -> tuple[str, ...] | None:
        """Columns whose cells the rows are known by; None where they are known by their features."""
        return self.rows.described

    @property
    def tells_noise(self) -> bool:
        """Whether rows of some source have their own noise, though the first pieces may not say so."""
        return self.rows.tells_noise


@dataclass(frozen=True)
class ArrayRows(Rows):
    """Rows in memory, as one piece that was checked by whoever made it."""

    piece: Piece

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return int(self.piece.X.shape[1])

    @property
    def described(self) -> tuple[str, ...] | None:
        """Columns whose cells the rows are known by; None where they are known by their features."""
        return None if self.piece.cells is None else tuple(self.piece.cells)

    def pieces(self, checked: bool = True, only: str | None = None) -> Iterator[Piece]:
        """The one piece."""
        yield self.piece


@dataclass(frozen=True)
class SelectedRows(RowsOf):
    """Rows of some sources, one source after the other, from files that may have rows of others too."""

    names: tuple[str, ...]

    def pieces(self, checked: bool = True, only: str | None = None) -> Iterator[Piece]:
        """Pieces of one source after the other."""
        for name in self.names if only is None else (only,):
            for piece in self.rows.pieces(checked, name):
                if isinstance(piece.source, str):
                    yield piece
                elif (mine := piece.source == name).any():
                    rates = None if piece.flip_rate is None else piece.flip_rate[mine]
                    yield Piece(piece.X[mine], piece.y[mine], name, flip_rate=rates, where=piece.where)


Digests = Mapping[tuple[str, str | None], Sequence[bytes]]
"""Digests of the pieces of each file and source, in their order."""


@dataclass(frozen=True)
class SameRows(RowsOf):
    """Rows that are read again: each piece is compared with the first reading, by which rows are charged, before use.

    Files may change in between. Rows that nobody was charged for must not be released.
    """

    digests: Digests

    def pieces(self, checked: bool = True, only: str | None = None) -> Iterator[Piece]:
        """Pieces as in the first reading; refused from the first one on that differs."""
        seen = dict.fromkeys(self.digests, 0)
        for piece in map(copy_piece, self.rows.pieces(checked, only)):
            at, expected = seen.get(piece.key, 0), self.digests.get(piece.key, ())
            if at >= len(expected) or digest_piece(piece) != expected[at]:
                raise _changed(piece.where)
            seen[piece.key] = at + 1
            yield piece
        for key, count in seen.items():
            if 0 < count < len(self.digests[key]) or (count == 0 and only in (None, key[1])):
                raise _changed(key[0])


def _changed(where: str) -> ValueError:
    return ValueError(f"{where} must stay as it was when its rows were first read, got other rows; nothing is released")


def copy_piece(piece: Piece) -> Piece:
    """Piece whose values are in memory of its own: those of a mapped file would change with the file."""
    X, y = (one if is_sparse(one) or one.base is None else np.array(one) for one in (piece.X, piece.y))
    return replace(piece, X=X, y=y)


def digest_piece(piece: Piece) -> bytes:
    """Digest of all that is read of a piece's rows: values, labels, and what rows say of themselves."""
    X, whole = piece.X, hashlib.sha256()
    values = [X.data, X.indices, X.indptr] if is_sparse(X) else [X]
    for one in (*values, piece.y, piece.source, piece.epsilon, piece.flip_rate, piece.row_id):
        array = np.asarray(one)
        plain = array.dtype.kind in "biuf"
        whole.update(f"{array.dtype} {array.shape} ".encode())
        whole.update(np.ascontiguousarray(array).data if plain else repr(array.tolist()).encode())
    return whole.digest()


def find_private(piece: Piece, noise: Any) -> NDArray[np.bool_]:
    """Which rows of a piece are private, before they are grouped; where that is not clear yet, all of them."""
    n, source = len(piece.y), piece.source
    known = {None: noise} if isinstance(noise, Noise) else {str(name): one for name, one in (noise or {}).items()}
    private = {name for name, one in known.items() if one.private}
    if isinstance(noise, Noise) or source is None:
        mine = np.full(n, bool(private))
    elif isinstance(source, str):
        mine = np.full(n, source in private)
    else:
        names = np.asarray(source)
        mine = np.isin(names.astype(str), sorted(private)) if names.shape == (n,) else np.full(n, True)
    return mine if piece.epsilon is None else mine | _told(piece.epsilon, n)


def _told(epsilon: Any, n: int) -> NDArray[np.bool_]:
    """Which rows have their own ε."""
    try:
        own = ~np.isnan(np.asarray(epsilon, dtype=np.float64))
    except (TypeError, ValueError):
        return np.full(n, True)
    return own if own.shape == (n,) else np.full(n, True)
