"""Rows as the loops want them: contiguous chunks in random order, small enough for the cache.

Arrays are visited in a full random permutation. Memory maps and streams are shuffled block by block: the rows of a
block in random order, a memory map's blocks in random order too, a stream's as they come. That stands in for the full
permutation where neighbouring blocks are alike (rows stored in no particular order); a stream sorted by label or by
date is not, and should be shuffled when it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from uneven import checks
from uneven.engine.kernels import ROW_LIMIT

CHUNK_BYTES = 1 << 20
BLOCK_ROWS = 1 << 16

NO_GROUP = np.zeros(0, dtype=np.int64)


def is_sparse(X: Any) -> bool:
    """Whether X is one of SciPy's sparse matrices or arrays."""
    return bool(sparse.issparse(X))


class Chunk(NamedTuple):
    """Some rows: features, labels (-1 or 1), the source of each (empty if all are of one), and their numbers."""

    X: Any
    y: NDArray[np.float64]
    group: NDArray[np.int64]
    numbers: NDArray[np.int64]


@dataclass(frozen=True)
class Stream:
    """Rows that come once, in pieces, and are never all in memory.

    Parameters
    ----------
    pieces : iterable of (X, y)
        X of shape (n, d), labels -1 and 1.
    block_rows : int
        Rows shuffled together.
    """

    pieces: Iterable[tuple[Any, Any]]
    block_rows: int = BLOCK_ROWS

    def __post_init__(self) -> None:
        checks.whole("block_rows", self.block_rows)


def from_record_batches(batches: Iterable[Any], label: str, features: Sequence[str] | None = None) -> Stream:
    """Stream from Arrow record batches: one column a feature, and the label's with -1 and 1, 0 and 1 or booleans."""
    return Stream(_pieces(batches, label, features))


def _pieces(batches: Iterable[Any], label: str, features: Sequence[str] | None) -> Iterator[tuple[Any, Any]]:
    for batch in batches:
        names = batch.schema.names
        if label not in names:
            raise ValueError(f"label must be one of the columns {', '.join(map(repr, names))}; got {label!r}")
        chosen = [name for name in names if name != label] if features is None else list(features)
        if unknown := [name for name in chosen if name not in names]:
            raise ValueError(f"features must be columns; got {unknown[0]!r}, which is not one of them")
        X = np.empty((batch.num_rows, len(chosen)), dtype=np.float32)
        for j, name in enumerate(chosen):
            X[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
        yield X, signed_labels(batch.column(label).to_numpy(zero_copy_only=False))


def signed_labels(y: Any) -> NDArray[np.float64]:
    """Labels as -1 and 1: from those, from 0 and 1, or from booleans.

    >>> signed_labels([True, False]).tolist()
    [1.0, -1.0]
    """
    labels = np.asarray(y, dtype=np.float64)
    return np.where(labels == 0.0, -1.0, labels)


@dataclass(frozen=True)
class Arrays:
    """Rows in memory or in a memory map, checked."""

    X: Any
    y: NDArray[np.float64]

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
    return checked_arrays(name, X, y, n_features)


def checked_arrays(name: str, X: Any, y: Any, n_features: int) -> Arrays:
    """X as float rows, C-contiguous or CSR, and y as floats; refused where shapes or labels do not fit."""
    if is_sparse(X):
        X = sparse.csr_array(X)
    elif not isinstance(X, np.ndarray):
        X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(f"X of source {name!r} must have shape (n, {n_features}), got {X.shape}")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    labels = np.asarray(y, dtype=np.float64)
    if labels.shape != (X.shape[0],):
        raise ValueError(f"y of source {name!r} must have shape ({X.shape[0]},) like X, got {labels.shape}")
    refuse_labels(name, labels)
    return Arrays(X, labels)


def refuse_labels(name: str, y: NDArray[np.float64], first: int = 0) -> None:
    """Refuse labels other than -1 and 1."""
    wrong = np.flatnonzero(np.abs(y) != 1.0)
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(f"labels of source {name!r} must be -1 or 1, got {y[i]:g} in row {first + i}")


def refuse_row(name: str, x: Any, number: int) -> None:
    """Say what is wrong with a row that a loop would not use."""
    values = x.toarray().ravel() if is_sparse(x) else np.asarray(x, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"X of source {name!r} must be finite, got NaN or infinity in row {number}")
    norm = float(np.linalg.norm(values.astype(np.float64)))
    raise ValueError(f"rows of source {name!r} must lie in the unit ball, got norm {norm:.6g} in row {number}")


def unfit_row(X: Any) -> int:
    """First row that is not finite or not in the unit ball, or -1."""
    squares = (X.multiply(X)).sum(axis=1) if is_sparse(X) else np.einsum("ij,ij->i", X, X, dtype=np.float64)
    unfit = np.flatnonzero(~(squares <= ROW_LIMIT))
    return int(unfit[0]) if len(unfit) else -1


def chunk_rows(batch_size: int, n_features: int, steps: int | None = None) -> int:
    """Rows of a chunk: whole batches, about `CHUNK_BYTES` of them, at most `steps`."""
    batches = max(1, CHUNK_BYTES // (4 * n_features * batch_size))
    return batch_size * (batches if steps is None else max(1, min(batches, steps)))


def chunks(names: Sequence[str], rows: Sequence[Rows], size: int, rng: np.random.Generator) -> Iterator[Chunk]:
    """Rows of one source, or of several shuffled together, in chunks of `size` rows and a last smaller one."""
    if len(rows) > 1:
        for name, source in zip(names, rows, strict=True):
            if isinstance(source, Stream) or is_sparse(source.X):
                raise ValueError(f"rows of source {name!r} must be dense arrays to be shuffled with others")
        return _mixed(rows, size, rng)  # type: ignore[arg-type]
    source = rows[0]
    if isinstance(source, Stream):
        return _rechunk(_shuffled_blocks(names[0], source, rng), size)
    if source.blockwise:
        return _rechunk(_memory_map(source, rng), size)
    return _permuted(source, size, rng)


def _permuted(source: Arrays, size: int, rng: np.random.Generator) -> Iterator[Chunk]:
    order = rng.permutation(len(source))
    for start in range(0, len(order), size):
        numbers = order[start : start + size]
        yield Chunk(_gather(source.X, numbers), source.y[numbers], NO_GROUP, numbers)


def _gather(X: Any, numbers: NDArray[np.int64]) -> Any:
    return X[numbers] if is_sparse(X) else np.take(X, numbers, axis=0)


def _mixed(rows: Sequence[Arrays], size: int, rng: np.random.Generator) -> Iterator[Chunk]:
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
        yield Chunk(X, y, group, numbers)


def _memory_map(source: Arrays, rng: np.random.Generator) -> Iterator[Chunk]:
    starts = np.arange(0, len(source), BLOCK_ROWS)
    for start in rng.permutation(starts):
        block = slice(start, min(start + BLOCK_ROWS, len(source)))
        yield _shuffled(np.array(source.X[block]), source.y[block], int(start), rng)


def _shuffled_blocks(name: str, stream: Stream, rng: np.random.Generator) -> Iterator[Chunk]:
    waiting: list[tuple[Any, Any]] = []
    count, first = 0, 0
    for X, y in stream.pieces:
        labels = np.asarray(y, dtype=np.float64)
        refuse_labels(name, labels, first + count)
        waiting.append((X, labels))
        count += len(labels)
        if count >= stream.block_rows:
            yield _shuffled(*_joined(waiting), first, rng)
            waiting, first, count = [], first + count, 0
    if count:
        yield _shuffled(*_joined(waiting), first, rng)


def _joined(pieces: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate([X for X, _ in pieces]), np.concatenate([y for _, y in pieces])


def _shuffled(X: Any, y: NDArray[np.float64], first: int, rng: np.random.Generator) -> Chunk:
    order = rng.permutation(len(y))
    return Chunk(_gather(X, order), y[order], NO_GROUP, first + order)


def _rechunk(blocks: Iterator[Chunk], size: int) -> Iterator[Chunk]:
    """Cut blocks into chunks of exactly `size` rows, so that only the last batch of a source is short."""
    left: Chunk | None = None
    for block in blocks:
        whole = block if left is None else _join(left, block)
        full = len(whole.y) // size * size
        for start in range(0, full, size):
            yield _cut(whole, start, start + size)
        left = _cut(whole, full, len(whole.y)) if full < len(whole.y) else None
    if left is not None:
        yield left


def _join(a: Chunk, b: Chunk) -> Chunk:
    return Chunk(*(np.concatenate(pair) for pair in zip(a, b, strict=True)))


def _cut(chunk: Chunk, start: int, stop: int) -> Chunk:
    return Chunk(chunk.X[start:stop], chunk.y[start:stop], NO_GROUP, chunk.numbers[start:stop])
