"""Rows as the loops want them: contiguous chunks in random order, small enough for the cache.

Arrays are visited in a full random permutation. Memory maps and streams are shuffled block by block: the rows of a
block in random order, a memory map's blocks in random order too, a stream's as they come. That stands in for the full
permutation where neighbouring blocks are alike (rows stored in no particular order); a stream sorted by label or by
date is not, and should be shuffled when it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from uneven import checks
from uneven.engine import kernels
from uneven.engine import sparse as sparse_loops
from uneven.matrices import BLOCK_ROWS, feature_matrix, is_sparse
from uneven.problem import Problem

CHUNK_BYTES = 1 << 22
ROW_LIMIT = (1.0 + 1e-6) ** 2
"""Squared norm from which a row is refused: outside the unit ball by more than float32 rounding."""

FINITE = float(np.finfo(np.float64).max)
"""The same where only the mean square is bounded: a row need only be finite."""

NO_GROUP = np.zeros(0, dtype=np.int64)


class Chunk(NamedTuple):
    """Some rows that are fit for use: features, labels (-1 or 1), the source of each, and their squared norms.

    `group` is empty if all rows are of one source. `checked_chunk` makes one.
    """

    X: Any
    y: NDArray[np.float64]
    group: NDArray[np.int64]
    squares: NDArray[np.float64]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """As the compiled loops take it: a sparse X as its three arrays."""
        if is_sparse(self.X):
            return (self.X.data, self.X.indices, self.X.indptr), *self[1:]
        return tuple(self)


def limit_of(problem: Problem) -> float:
    """Squared norm from which a row of this problem is refused."""
    return ROW_LIMIT if problem.norms == "largest" else FINITE


def checked_chunk(
    names: Sequence[str], X: Any, y: Any, numbers: Any, group: Any = None, limit: float = ROW_LIMIT
) -> Chunk:
    """Chunk of rows, from anywhere: whatever is not fit for use is refused, a row by its number.

    Parameters
    ----------
    names : sequence of str
        The task's sources.
    group : array of shape (n,), only if there are several
        Which of them each row is of.
    limit : float
        Squared norm from which a row is refused (`limit_of`).
    """
    if isinstance(names, str) or np.ndim(X) != 2 or np.ndim(y) != 1:
        raise ValueError(f"names must be a list and X, y of two and one dimensions, got {checks.shown(names)}")
    rows = checked_arrays(names[0], X, y, X.shape[1])
    of = NO_GROUP if group is None else np.asarray(group)
    if len(names) == 1 and len(of):
        raise ValueError("group must be left out for one source, got one")
    if len(names) > 1 and (of.shape != rows.y.shape or of.dtype.kind not in "iu" or not _below(of, len(names))):
        raise ValueError(f"group must say which of the {len(names)} sources each row is of, got {checks.shown(of)}")
    return _chunk(names, (rows.X, rows.y, np.asarray(numbers), of.astype(np.int64)), limit)


def _below(group: NDArray[Any], count: int) -> bool:
    return len(group) == 0 or bool(group.min() >= 0 and group.max() < count)


def _chunk(names: Sequence[str], part: Sequence[Any], limit: float) -> Chunk:
    """Chunk of rows that came through `checked_arrays`; a row that is not finite or is too long is refused."""
    X, y, numbers, group = part if len(part) == 4 else (*part, NO_GROUP)
    squares = sparse_loops.squares_of(X.data, X.indptr) if is_sparse(X) else kernels.squares_of(X)
    unfit = np.flatnonzero(~(squares <= limit))  # not "> limit": a NaN must not pass
    if len(unfit):
        i = int(unfit[0])
        name = names[int(group[i])] if len(group) else names[0]
        _refuse_row(name, float(squares[i]), int(numbers[i]))
    return Chunk(X, y, group, squares)


def _refuse_row(name: str, square: float, number: int) -> None:
    if not np.isfinite(square):
        raise ValueError(f"X of source {name!r} must be finite, got NaN or infinity in row {number}")
    norm = square**0.5
    raise ValueError(f"rows of source {name!r} must lie in the unit ball, got norm {norm:.6g} in row {number}")


class Block(NamedTuple):
    """Neighbouring rows of one source: features, labels and the number of the first."""

    X: Any
    y: NDArray[np.float64]
    first: int


@dataclass(frozen=True)
class Stream:
    """Rows that come once, in pieces, and are never all in memory.

    Parameters
    ----------
    pieces : iterable of (X, y)
        X of shape (n, d), labels -1 and 1. The next piece is made in another thread while this one is used.
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


def from_record_batches(batches: Iterable[Any], label: str, features: Sequence[str] | None = None) -> Stream:
    """Stream from Arrow record batches: one column a feature, and the label's with -1 and 1, 0 and 1 or booleans.

    Without `features`, they are all other columns of the first batch, in its order.
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
        yield feature_matrix(batch, features), signed_labels(labels)


def signed_labels(y: Any) -> NDArray[np.float64]:
    """Labels as -1 and 1: from those, from 0 and 1, or from booleans. Anything else stays, to be refused.

    >>> signed_labels([True, False]).tolist()
    [1.0, -1.0]
    """
    labels = _numbers("labels", y)
    return labels if (labels == -1.0).any() else np.where(labels == 0.0, -1.0, labels)


def _numbers(what: str, values: Any) -> NDArray[np.float64]:
    array = np.asarray(values)
    if array.dtype.kind not in "fiub" or isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{what} must be plain real numbers, got {type(values).__name__} of {array.dtype}")
    return array.astype(np.float64, copy=False)


@dataclass(frozen=True)
class Arrays:
    """Rows in memory or in a memory map, checked."""

    X: Any
    y: Any

    def __len__(self) -> int:
        return len(self.y)

    @property
    def blockwise(self) -> bool:
        """Whether rows lie in a file, where a full permutation would read a page for each."""
        return isinstance(self.X, np.memmap)


Rows = Arrays | Stream


def checked_rows(name: str, data: Any, n_features: int) -> Rows:
    """Rows of a source, or a refusal that names it."""
    if isinstance(data, Stream):
        return data
    try:
        X, y = data
    except (TypeError, ValueError):
        raise ValueError(f"rows of source {name!r} must be (X, y) or a Stream, got {type(data).__name__}") from None
    return checked_arrays(name, X, y, n_features, by_block=True)


def checked_arrays(name: str, X: Any, y: Any, n_features: int, first: int = 0, by_block: bool = False) -> Arrays:
    """X as float rows, dense or CSR, and y as floats; refused where shapes or labels do not fit.

    With `by_block` a memory map stays as it is: it may not fit memory, and its blocks come here one by one.
    """
    if isinstance(X, np.memmap) and not by_block:
        X = np.asarray(X)
    if is_sparse(X):
        X = sound_csr(X, name)
    elif not isinstance(X, np.ndarray) or isinstance(X, np.ma.MaskedArray) or X.dtype.kind not in "fiub":
        X = _numbers(f"X of source {name!r}", X)
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(f"X of source {name!r} must have shape (n, {n_features}), got {X.shape}")
    if np.shape(y) != (X.shape[0],):
        raise ValueError(f"y of source {name!r} must have shape ({X.shape[0]},) like X, got {np.shape(y)}")
    if by_block and isinstance(X, np.memmap):
        return Arrays(X, y if isinstance(y, np.ndarray) else np.asarray(y))
    labels = _numbers(f"labels of source {name!r}", y)
    refuse_labels(name, labels, first)
    return Arrays(X if X.dtype in (np.float32, np.float64) else X.astype(np.float64), labels)


def sound_csr(X: Any, name: str) -> Any:
    """X as CSR whose entries are where they say, each once; a copy where that takes a change."""
    csr = sparse.csr_array(X)
    if csr.ndim != 2:
        raise ValueError(f"X of source {name!r} must have two dimensions, got {csr.ndim}")
    if csr.indptr[0] != 0 or csr.indptr[-1] > len(csr.indices) or (np.diff(csr.indptr) < 0).any():
        raise ValueError(f"X of source {name!r} must be sound CSR, got row pointers that are not in order")
    if csr.dtype.kind not in "fiub":
        raise ValueError(f"X of source {name!r} must be plain real numbers, got {csr.dtype}")
    if len(csr.indices) and not 0 <= csr.indices.min() <= csr.indices.max() < csr.shape[1]:
        raise ValueError(f"X of source {name!r} must have column numbers below {csr.shape[1]}, got others")
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr if csr.dtype in (np.float32, np.float64) else csr.astype(np.float64)


def refuse_labels(name: str, y: NDArray[np.float64], first: int = 0) -> None:
    """Refuse labels other than -1 and 1."""
    wrong = np.flatnonzero(np.abs(y) != 1.0)
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(f"labels of source {name!r} must be -1 or 1, got {y[i]:g} in row {first + i}")


def chunk_rows(source: Rows, problem: Problem, steps: int | None = None) -> int:
    """Rows of a chunk: whole batches, about `CHUNK_BYTES` of them, at most `steps`.

    A sparse chunk costs a few passes over all coordinates, so it has at least four times as many entries as those.
    """
    row_bytes = 4.0 * problem.n_features
    wanted = float(CHUNK_BYTES)
    if isinstance(source, Arrays) and is_sparse(source.X):
        row_bytes = 12.0 * max(source.X.nnz / max(len(source), 1), 1.0)
        wanted = max(wanted, 48.0 * problem.n_features)
    batches = max(1, int(wanted / (row_bytes * problem.batch_size)))
    return problem.batch_size * (batches if steps is None else max(1, min(batches, steps)))


def chunks(
    names: Sequence[str], rows: Sequence[Rows], problem: Problem, rng: np.random.Generator, steps: int | None = None
) -> Iterator[Chunk]:
    """Rows of one source, or of several shuffled together, in chunks of whole batches (but for the very last one).

    A chunk has as many batches as fit `CHUNK_BYTES`, and at most `steps`. Its memory is used again for the next one.
    """
    size, limit = chunk_rows(rows[0], problem, steps), limit_of(problem)
    return (_chunk(names, part, limit) for part in _parts(names, rows, problem, rng, size))


def _parts(
    names: Sequence[str], rows: Sequence[Rows], problem: Problem, rng: np.random.Generator, size: int
) -> Iterator[Any]:
    """X, y and numbers of the rows of each chunk, and their groups if there are several sources."""
    if len(rows) > 1:
        for name, source in zip(names, rows, strict=True):
            if isinstance(source, Stream) or is_sparse(source.X):
                raise ValueError(f"rows of source {name!r} must be dense arrays to be shuffled with others")
        held = [checked_arrays(name, s.X, s.y, problem.n_features) for name, s in zip(names, rows, strict=True)]  # type: ignore[union-attr]
        return _mixed(held, size, rng)
    source = rows[0]
    if isinstance(source, Stream):
        return _shuffled(_stream(names[0], source, problem.n_features), size, problem.batch_size, rng)
    if source.blockwise:
        return _shuffled(_memory_map(names[0], source, rng), size, problem.batch_size, rng)
    return _permuted(source, size, rng)


def _permuted(source: Arrays, size: int, rng: np.random.Generator) -> Iterator[Any]:
    order, gather = rng.permutation(len(source)), _Gather()
    for start in range(0, len(order), size):
        numbers = order[start : start + size]
        yield gather(source.X, numbers), source.y[numbers], numbers


class _Gather:
    """Rows of given numbers, in memory that is used again: fresh pages would cost more than the copying.

    What it gave is overwritten by the next call.
    """

    def __init__(self) -> None:
        self.memory = np.empty((0, 0), dtype=np.float32)

    def __call__(self, X: Any, numbers: NDArray[np.int64]) -> Any:
        if is_sparse(X):
            return X[numbers]
        if len(self.memory) < len(numbers) or self.memory.dtype != X.dtype:
            self.memory = np.empty((len(numbers), X.shape[1]), dtype=X.dtype)
        return np.take(X, numbers, axis=0, out=self.memory[: len(numbers)], mode="clip")


def _mixed(rows: Sequence[Arrays], size: int, rng: np.random.Generator) -> Iterator[Any]:
    ends = np.cumsum([len(source) for source in rows])
    order = rng.permutation(int(ends[-1]))
    dtype = np.result_type(*(source.X.dtype for source in rows))
    for start in range(0, len(order), size):
        place = order[start : start + size]
        group = np.searchsorted(ends, place, side="right")
        numbers = place - np.concatenate([[0], ends[:-1]])[group]
        X, y = np.empty((len(place), rows[0].X.shape[1]), dtype=dtype), np.empty(len(place))
        for k, source in enumerate(rows):
            mine = group == k
            X[mine], y[mine] = source.X[numbers[mine]], source.y[numbers[mine]]
        yield X, y, numbers, group


def _memory_map(name: str, source: Arrays, rng: np.random.Generator) -> Iterator[Block]:
    for start in rng.permutation(np.arange(0, len(source), BLOCK_ROWS)):
        rows = slice(start, min(start + BLOCK_ROWS, len(source)))
        block = checked_arrays(name, np.array(source.X[rows]), np.array(source.y[rows]), source.X.shape[1], int(start))
        yield Block(block.X, block.y, int(start))


def _stream(name: str, stream: Stream, d: int) -> Iterator[Block]:
    waiting: list[Block] = []
    count, first = 0, 0
    for piece in _ahead(stream):
        checked = checked_arrays(name, *piece, d, first + count)
        waiting.append(Block(checked.X, checked.y, first + count))
        count += len(checked)
        if count >= stream.block_rows:
            yield _joined(waiting)
            waiting, first, count = [], first + count, 0
    if count:
        yield _joined(waiting)


def _ahead(stream: Stream) -> Iterator[tuple[Any, Any]]:
    """The pieces of a stream, the next one read in another thread while this one is used."""
    iterator, end = iter(stream.pieces), object()

    def read() -> Any:
        piece = next(iterator, end)
        if piece is end:
            return end
        if not isinstance(piece, tuple | list) or len(piece) != 2:
            raise ValueError(f"pieces must be (X, y), got {checks.shown(piece)}")
        return tuple(piece) if stream.fresh else tuple(deepcopy(part) for part in piece)

    reader = ThreadPoolExecutor(1)
    try:
        coming = reader.submit(read)
        while (piece := coming.result()) is not end:
            coming = reader.submit(read)
            yield piece
    finally:
        reader.shutdown(wait=False, cancel_futures=True)  # an error does not wait for a slow producer


def _joined(blocks: Sequence[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    X, y = _stacked([block.X for block in blocks]), _stacked([block.y for block in blocks])
    return Block(X, y, blocks[0].first)


def _stacked(parts: Sequence[Any]) -> Any:
    return sparse.vstack(parts, format="csr") if is_sparse(parts[0]) else np.concatenate(parts)


def _shuffled(blocks: Iterator[Block], size: int, batch_size: int, rng: np.random.Generator) -> Iterator[Any]:
    """Rows of each block in random order, in chunks of whole batches; what is left over joins the next block."""
    gather = _Gather()
    left: list[Any] | None = None  # X, y and numbers of a batch that is not full yet
    for block in blocks:
        order = rng.permutation(len(block.y))
        shuffled = [gather(block.X, order), block.y[order], block.first + order]
        start = 0
        if left is not None:
            start = min(batch_size - len(left[1]), len(order))
            left = [_stacked(pair) for pair in zip(left, _cut(shuffled, 0, start), strict=True)]
            if len(left[1]) < batch_size:
                continue
            yield left
        stop = start + (len(order) - start) // batch_size * batch_size
        for first in range(start, stop, size):
            yield _cut(shuffled, first, min(first + size, stop))
        left = [column.copy() for column in _cut(shuffled, stop, len(order))] if stop < len(order) else None
    if left is not None:
        yield left


def _cut(columns: Sequence[Any], start: int, stop: int) -> list[Any]:
    return [column[start:stop] for column in columns]
