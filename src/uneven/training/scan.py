"""The first reading of the rows, before anything is charged or learned: a run that would be refused is refused here.

Memory is bounded: values are kept while they are few (`HELD_BYTES`); of more rows only sums, a sample and, where
rows say their own source, noise or id, those columns are kept, and the values are read a second time to learn from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.engine import measure_squared_norms
from uneven.matrices import is_sparse, join_rows
from uneven.training.labels import ClassFinder, refuse_unknown
from uneven.training.rows import ArrayRows, Digests, Piece, Rows, copy_piece, digest_piece
from uneven.training.scaling import BOUNDS, sort_norms

HELD_BYTES = 1 << 25
"""Rows from files are held in memory, and read only once, up to this size of all values together."""

SAMPLE_ROWS, SAMPLE_CELLS = 50_000, 5_000_000
"""Rows of a sample at most, and numbers in them."""

Array = NDArray[np.float64]
Tick = Callable[[int], None]
XY = tuple[Any, NDArray[Any]]


@dataclass(frozen=True)
class Scan:
    """What the first reading found.

    Attributes
    ----------
    n_features : int
    classes : array
        Labels there are, in order.
    counts : dict
        Rows of each piece's source, in order of appearance; a piece whose rows name their own counts under None.
    source, epsilon, flip_rate, row_id : arrays of shape (n,), or None
        What rows say of themselves, all pieces together.
    content : array of shape (n,), or None
        Hashes of the rows' content, where a ledger needs them; 0 for rows that it does not.
    squares : array of shape (n,), or None
        Squared norm of each row, kept where rows say something of themselves.
    totals : dict
        Sum of squared norms of each source in `counts`.
    bounds : tuple of float
        Norms that rows were compared with.
    lengths : dict
        How many rows of each source in `counts` keep each bound (`sort_norms`): for the rows' owner only.
    longest : float
        Largest squared norm.
    sparse : bool
    sample : dict of (X, y)
        Rows at even distances of each source that may be looked at.
    held : (X, y) or None
        All rows, if they are few.
    digests : dict
        Of the pieces of each file and source; empty for rows in memory (`SameRows`).
    """

    n_features: int
    classes: NDArray[Any]
    counts: dict[str | None, int]
    source: NDArray[Any] | None
    epsilon: NDArray[Any] | None
    flip_rate: NDArray[Any] | None
    row_id: NDArray[Any] | None
    content: NDArray[np.int64] | None
    squares: Array | None
    totals: dict[str | None, float]
    bounds: tuple[float, ...]
    lengths: dict[str | None, NDArray[np.int64]]
    longest: float
    sparse: bool
    sample: dict[str | None, XY]
    held: XY | None
    digests: Digests = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(self.counts.values())

    def count_long(self, bound: float) -> dict[str | None, int]:
        """How many rows of each source are longer than one of the bounds."""
        place = self.bounds.index(bound)
        return {name: int(found[place + 1 :].sum()) for name, found in self.lengths.items()}


def scan_rows(
    rows: Rows,
    bounds: tuple[float, ...] = BOUNDS,
    classes: NDArray[Any] | None = None,
    open_sources: Collection[str] | None = None,
    held_bytes: int = HELD_BYTES,
    tick: Tick = lambda _: None,
    hasher: Callable[[Piece], NDArray[np.int64]] | None = None,
    private: Callable[[Piece], bool] = lambda _: False,
    digested: bool = True,
    unread: bool = False,
) -> Scan:
    """Read all rows once: classes, counts, norms, a sample, and the rows themselves if they are few.

    Parameters
    ----------
    rows : Rows
    bounds : tuple of float
        Norms that rows are compared with.
    classes : array or None
        Classes that labels must be of; None finds them.
    open_sources : collection of str or None
        Sources whose rows may be sampled; None means all of them.
    held_bytes : int
        Size up to which rows are held.
    tick : callable
        Told how many rows were read.
    hasher : callable or None
        Hashes the content of a piece's rows.
    private : callable
        Whether a piece has private rows: then no message tells a label, and classes are not taken from them.
    digested : bool
        Whether to keep digests of pieces that do not come from memory, to know them again (`SameRows`).
    unread : bool
        Whether there are private rows beside these: their labels may be of a class that these are not of.
    """
    found, held, sample, norms = ClassFinder(), _Held(held_bytes), _Sample(rows.n_features), _Norms(bounds)
    said, hashes = {name: _Column(name) for name in ("source", "epsilon", "flip_rate", "row_id")}, list[Any]()
    any_sparse, digested = False, digested and not isinstance(rows, ArrayRows)
    digests: dict[tuple[str, str | None], list[bytes]] = {}
    for piece in map(copy_piece, rows.pieces()) if digested else rows.pieces():
        hidden = private(piece)
        if classes is None:
            found.see(piece.y, piece.where, hidden)
        else:
            refuse_unknown(piece.y, classes, piece.where, hidden)
        name = piece.source if isinstance(piece.source, str) else None
        for column in said.values():
            column.see(piece)
        kept = rows.tells_noise or any(column.found for column in said.values())
        norms.see(name, measure_squared_norms(piece.X), kept)
        sample.see(name, piece, open_sources)
        any_sparse = any_sparse or is_sparse(piece.X)
        held.see(replace(piece, cells=None), hidden)
        hashes += [] if hasher is None else [hasher(piece)]
        if digested:
            digests.setdefault(piece.key, []).append(digest_piece(piece))
        tick(len(piece.y))
    return Scan(
        rows.n_features,
        found.classes(unread) if classes is None else classes,
        norms.counts,
        **{name: column.joined() for name, column in said.items()},
        content=np.concatenate(hashes) if hashes else None,
        squares=np.concatenate(norms.squares) if any(column.found for column in said.values()) else None,
        totals=norms.totals,
        bounds=bounds,
        lengths=norms.lengths,
        longest=norms.longest,
        sparse=any_sparse,
        sample=sample.rows(),
        held=held.joined(),
        digests=digests,
    )


class _Norms:
    """Rows of each source: their number, the sum of their squared norms, and how many keep each bound."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.longest, self.squares = bounds, 0.0, list[Array]()
        self.counts: dict[str | None, int] = {}
        self.totals: dict[str | None, float] = {}
        self.lengths: dict[str | None, NDArray[np.int64]] = {}

    def see(self, name: str | None, squares: Array, kept: bool) -> None:
        """Take in the squared norms of some rows; `kept` keeps that of each row."""
        self.counts[name] = self.counts.get(name, 0) + len(squares)
        # A running sum, row after row: however the rows are cut into pieces, it rounds the same way.
        self.totals[name] = float(np.cumsum(np.concatenate([[self.totals.get(name, 0.0)], squares]))[-1])
        self.lengths[name] = self.lengths.get(name, 0) + sort_norms(squares, self.bounds)
        self.longest = max(self.longest, float(squares.max(initial=0.0)))
        if kept:
            self.squares.append(squares)


class _Column:
    """What rows say of themselves under one name, all pieces together."""

    def __init__(self, name: str) -> None:
        self.name, self.parts, self.found = name, list[Any](), False

    def see(self, piece: Piece) -> None:
        values = getattr(piece, self.name)
        self.found = self.found or (values is not None and not isinstance(values, str))
        self.parts.append((values, len(piece.y)))

    def joined(self) -> NDArray[Any] | None:
        """One value per row; a name for all rows of a piece is repeated, a missing level is NaN, a missing id -1."""
        if not self.found:
            return None
        if len(self.parts) == 1:
            return self.parts[0][0]  # type: ignore[no-any-return]
        missing = -1 if self.name == "row_id" else np.nan
        whole = [(missing if values is None else values, count) for values, count in self.parts]
        return np.concatenate([np.asarray(v) if np.ndim(v) else np.full(count, v) for v, count in whole])


class _Held:
    """All rows, until they are too many; rows that are in memory already, as one piece, are never too many."""

    def __init__(self, most: int) -> None:
        self.most, self.parts, self.size = most, list[Piece](), 0

    def see(self, piece: Piece, private: bool) -> None:
        """Hold a piece. All cells of private rows count, zeros too: how many cells are not 0 is itself private."""
        X = piece.X
        self.size += X.data.nbytes if is_sparse(X) and not private else X.shape[0] * X.shape[1] * X.dtype.itemsize
        if self.size <= self.most:
            self.parts.append(piece)
        else:
            self.parts = []

    def joined(self) -> XY | None:
        if not self.parts:
            return None
        return join_rows([piece.X for piece in self.parts]), join_rows([piece.y for piece in self.parts])


def _find_open(piece: Piece, open_sources: Collection[str] | None) -> NDArray[np.bool_]:
    """Which rows of a piece are of sources whose rows may be looked at; None means all of them."""
    if open_sources is None or piece.source is None or isinstance(piece.source, str):
        return np.full(len(piece.y), open_sources is None or piece.source in open_sources)
    return np.isin(np.asarray(piece.source).astype(str), list(open_sources))


class _Sample:
    """Rows at even distances: row i of all is in it if `stride` divides i; the stride doubles as rows come."""

    def __init__(self, n_features: int) -> None:
        self.most = min(SAMPLE_ROWS, max(1, SAMPLE_CELLS // max(n_features, 1)))
        self.stride, self.count, self.kept = 1, 0, 0
        self.parts: list[tuple[str | None, Any, NDArray[Any], NDArray[np.int64]]] = []

    def see(self, name: str | None, piece: Piece, open_sources: Collection[str] | None) -> None:
        is_open = _find_open(piece, open_sources)
        at = self._places(is_open)
        while self.kept + len(at) > self.most:
            self._thin()
            at = self._places(is_open)
        if len(at):
            all_of_it = len(at) == len(piece.y)  # not copied: it may be all there is
            X, y = (piece.X, piece.y) if all_of_it else (piece.X[at], piece.y[at])
            self.parts.append((name, X, y, self.count + at))
            self.kept += len(at)
        self.count += len(piece.y)

    def _places(self, is_open: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Places, in the next piece, of the open rows whose number the stride divides."""
        places = np.arange(-self.count % self.stride, len(is_open), self.stride)
        return places[is_open[places]]

    def _thin(self) -> None:
        self.stride *= 2
        marked = [(name, X, y, at, at % self.stride == 0) for name, X, y, at in self.parts]
        self.parts = [(name, X[mask], y[mask], at[mask]) for name, X, y, at, mask in marked if mask.any()]
        self.kept = sum(len(y) for _, _, y, _ in self.parts)

    def rows(self) -> dict[str | None, XY]:
        names = dict.fromkeys(name for name, *_ in self.parts)
        mine = {name: [part for part in self.parts if part[0] == name] for name in names}
        return {
            name: (join_rows([X for _, X, _, _ in parts]), join_rows([y for _, _, y, _ in parts]))
            for name, parts in mine.items()
        }
