"""Rows in pieces: what both doors hand to the trainer, arrays on one side and files on the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

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


class Rows(Protocol):
    """Rows that can be read again and come in the same order each time."""

    @property
    def n_features(self) -> int:
        """Number of columns of X."""

    def pieces(self, checked: bool = True, only: str | None = None) -> Iterator[Piece]:
        """Rows piece by piece, all of them or at least those of the source `only`.

        `checked` asks for values and labels to be checked on the way.
        """


@dataclass(frozen=True)
class ArrayRows:
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
    """Which rows tell their own ε."""
    try:
        own = ~np.isnan(np.asarray(epsilon, dtype=np.float64))
    except (TypeError, ValueError):
        return np.full(n, True)
    return own if own.shape == (n,) else np.full(n, True)


def join_rows(parts: Sequence[Any]) -> Any:
    """Matrices or arrays one below the other; one alone is not copied."""
    if len(parts) == 1:
        return parts[0]
    if any(map(is_sparse, parts)):
        return sparse.csr_array(sparse.vstack(parts))
    return np.concatenate(parts)
