"""What rows come from: arrays, memory maps, streams and Arrow record batches; the last three block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.engine.rows import Arrays, check_arrays, convert_numbers, refuse_labels
from uneven.matrices import BLOCK_ROWS, join_rows, make_feature_matrix

Item = TypeVar("Item")


@dataclass(frozen=True)
class Stream:
    """Rows that come in pieces and are never all in memory.

    Parameters
    ----------
    pieces : iterable of (X, y)
        X of shape (n, d), labels -1 and 1. The next piece is made in another thread while this one is used. For more
        than one pass it must be something that can be iterated over again, not an iterator.
    block_rows : int
        Rows shuffled together.
    fresh : bool
        Whether every piece is new memory. If not, each is copied, so that a producer may use its buffers again.
    """

    pieces: Iterable[tuple[Any, Any]]
    block_rows: int = BLOCK_ROWS
    fresh: bool = False

    def __post_init__(self) -> None:
        checks.whole("block_rows", self.block_rows)
        if not isinstance(self.pieces, Iterable):
            raise ValueError(f"pieces must be an iterable of (X, y), got {checks.shown(self.pieces)}")


@dataclass(frozen=True)
class Selected:
    """Rows in memory that are made ready chunk by chunk, as they are used: no copy of all of them is made.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, k)
    y : array of shape (m,), labels -1 and 1
        Of the selected rows.
    prepare : callable
        From X and the numbers of some of its rows to these rows as the plan has them, of shape (·, d).
    numbers : array of shape (m,) or None
        Which rows of X they are; None for all.
    """

    X: Any
    y: NDArray[Any]
    prepare: Callable[[Any, NDArray[np.int64]], Any]
    numbers: NDArray[np.int64] | None = None


Rows = Arrays | Stream


def check_rows(name: str, data: Any, n_features: int, classes: int = 2) -> Rows:
    """Check the rows of a source: a pair (X, y), `Selected` rows or a `Stream`."""
    if isinstance(data, Stream):
        return data
    if isinstance(data, Selected):
        return _checked_selected(name, data, n_features, classes)
    try:
        X, y = data
    except (TypeError, ValueError):
        raise ValueError(f"rows of source {name!r} must be (X, y) or a Stream, got {type(data).__name__}") from None
    return check_arrays(name, X, y, n_features, by_block=True, classes=classes)


def _checked_selected(name: str, data: Selected, n_features: int, classes: int) -> Arrays:
    """The same for selected rows; what `prepare` gives is checked for norms and finite values chunk by chunk."""
    check_arrays(name, data.prepare(data.X, np.arange(0)), np.zeros(0), n_features)
    count = data.X.shape[0] if data.numbers is None else len(data.numbers)
    if np.shape(data.y) != (count,):
        raise ValueError(f"y of source {name!r} must have shape ({count},) like its rows, got {np.shape(data.y)}")
    labels = convert_numbers(f"labels of source {name!r}", data.y)
    refuse_labels(name, labels, classes=classes)
    return Arrays(data.X, labels, data.numbers, data.prepare)


def from_record_batches(batches: Iterable[Any], label: str, features: Sequence[str] | None = None) -> Stream:
    """Stream of Arrow record batches.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Read one after the other.
    label : str
        Column of the labels: -1 and 1, 0 and 1, or booleans.
    features : sequence of str or None
        Columns to learn from; None for all others of the first batch, in its order.

    Returns
    -------
    Stream
    """
    if isinstance(features, str) or not isinstance(batches, Iterable):
        wrong = features if isinstance(features, str) else batches
        raise ValueError(f"batches must be record batches and features a list of names, got {checks.shown(wrong)}")
    return Stream(_pieces(batches, label, features), fresh=True)


def _pieces(batches: Iterable[Any], label: str, features: Sequence[str] | None) -> Iterator[tuple[Any, Any]]:
    seen: set[float] = set()
    for batch in batches:
        if not hasattr(batch, "schema") or not hasattr(batch, "num_rows"):
            raise ValueError(f"batches must be Arrow record batches, got {checks.shown(batch)}")
        names = list(batch.schema.names)
        if features is None:
            features = [name for name in names if name != label]
        for name in (label, *features):
            if names.count(name) != 1:
                raise ValueError(f"columns must hold {name!r} once, got {checks.shown(names)}")
        labels = np.asarray(batch.column(label).to_numpy(zero_copy_only=False))
        seen |= {value for value in (-1, 0) if labels.dtype.kind in "fiub" and (labels == value).any()}
        if {-1, 0} <= seen:
            raise ValueError(f"label {label!r} must hold -1 and 1, or 0 and 1, got both -1 and 0")
        yield make_feature_matrix(batch, features), sign_labels(labels)


def sign_labels(y: Any) -> NDArray[np.float64]:
    """Labels as -1 and 1: from those, from 0 and 1, or from booleans. Other numbers stay, for `refuse_labels`.

    >>> sign_labels([True, False]).tolist()
    [1.0, -1.0]
    """
    labels = convert_numbers("labels", y)
    return labels if (labels == -1.0).any() else np.where(labels == 0.0, -1.0, labels)


class Block(NamedTuple):
    """Consecutive rows of one source: features, labels and the number of the first."""

    X: Any
    y: NDArray[np.float64]
    first: int


def read_memory_map(name: str, source: Arrays, rng: np.random.Generator, classes: int = 2) -> Iterator[Block]:
    """Blocks of a memory map in random order, each copied to memory and checked."""
    for start in rng.permutation(np.arange(0, len(source), BLOCK_ROWS)):
        rows = slice(start, min(start + BLOCK_ROWS, len(source)))
        X, y = np.array(source.X[rows]), np.array(source.y[rows])
        block = check_arrays(name, X, y, X.shape[1], int(start), classes=classes)
        yield Block(block.X, block.y, int(start))


def stream_blocks(name: str, stream: Stream, d: int, classes: int = 2) -> Iterator[Block]:
    """Rows of a stream as they come, checked, in blocks of exactly `block_rows`; the last has what is left.

    So how a stream is cut into pieces, which may depend on the length of a row's text, does not decide which rows are
    shuffled together.
    """
    waiting: list[Arrays] = []
    count, first = 0, 0
    for piece in make_ahead(_checked_pieces(stream)):
        waiting.append(check_arrays(name, *piece, d, first + count, classes=classes))
        count += len(waiting[-1])
        if count >= stream.block_rows:
            X, y = _joined(waiting)
            for start in range(0, count - stream.block_rows + 1, stream.block_rows):
                rows = slice(start, start + stream.block_rows)
                yield Block(X[rows], y[rows], first + start)
            left = count % stream.block_rows
            rest = slice(len(y) - left, None)
            waiting = [Arrays(X[rest].copy(), y[rest].copy())]  # not a view, which would hold all of X
            first, count = first + count - left, left
            del X, y
    if count:
        yield Block(*_joined(waiting), first)


def _checked_pieces(stream: Stream) -> Iterator[tuple[Any, Any]]:
    """The pieces of a stream, checked for their form, in memory that stays."""
    for piece in stream.pieces:
        if not isinstance(piece, tuple | list) or len(piece) != 2:
            raise ValueError(f"pieces must be (X, y), got {checks.shown(piece)}")
        yield (piece[0], piece[1]) if stream.fresh else (deepcopy(piece[0]), deepcopy(piece[1]))


def make_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items, prefetched: the next one is produced in a background thread."""
    end: Any = object()
    maker = ThreadPoolExecutor(1)
    try:
        coming = maker.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = maker.submit(next, items, end)
            yield item
    finally:
        maker.shutdown(wait=False, cancel_futures=True)  # an error does not wait for a slow producer


def _joined(parts: Sequence[Arrays]) -> tuple[Any, NDArray[np.float64]]:
    return join_rows([part.X for part in parts]), join_rows([part.y for part in parts])
