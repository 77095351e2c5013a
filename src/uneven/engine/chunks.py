"""Rows in random order, as contiguous chunks of whole batches that are small enough for the cache.

Arrays are visited in a full random permutation. Memory maps and streams are shuffled block by block: the rows of a
block in random order, a memory map's blocks in random order too, a stream's as they come. That stands in for the full
permutation where neighbouring blocks are alike (rows stored in no particular order); a stream sorted by label or by
date is not, and should be shuffled when it is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.engine.rows import Arrays, Chunk, check_arrays, find_limit, make_chunk
from uneven.engine.streams import Block, Rows, Stream, make_ahead, read_memory_map, stream_blocks
from uneven.matrices import is_sparse, join_rows
from uneven.problem import Problem

CHUNK_BYTES = 1 << 22

AHEAD = 3
"""Chunks from which it pays to make the next one in another thread."""


def count_chunk_rows(source: Rows, problem: Problem, steps: int | None = None) -> int:
    """Rows of a chunk: whole batches, about `CHUNK_BYTES` of them, at most `steps`.

    A sparse chunk costs a few passes over all coordinates, so it has at least four times as many entries as those.
    """
    row_bytes = 4.0 * problem.columns
    wanted = float(CHUNK_BYTES)
    if isinstance(source, Arrays) and source.prepare is None and is_sparse(source.X):
        row_bytes = 12.0 * max(source.X.nnz / max(len(source), 1), 1.0)
        wanted = max(wanted, 48.0 * problem.n_features)
    batches = max(1, int(wanted / (row_bytes * problem.batch_size)))
    return problem.batch_size * (batches if steps is None else max(1, min(batches, steps)))


def iterate_chunks(
    names: Sequence[str], rows: Sequence[Rows], problem: Problem, rng: np.random.Generator, steps: int | None = None
) -> Iterator[Chunk]:
    """Rows of one source, or of several shuffled together, in chunks of whole batches; only the last may end short.

    A chunk has as many batches as fit `CHUNK_BYTES`, and at most `steps`. Its memory is used again soon: for the next
    one, or, where the next one is made ahead in another thread, for the one after that.
    """
    size, limit = count_chunk_rows(rows[0], problem, steps), find_limit(problem)
    made = (make_chunk(names, part, limit) for part in _parts(names, rows, problem, rng, size))
    held = len(rows) == 1 and isinstance(rows[0], Arrays) and not rows[0].blockwise
    return make_ahead(made) if held and len(rows[0]) >= AHEAD * size and steps is None else made  # type: ignore[arg-type]


def _parts(
    names: Sequence[str], rows: Sequence[Rows], problem: Problem, rng: np.random.Generator, size: int
) -> Iterator[Any]:
    """X, y and numbers of the rows of each chunk, and their groups if there are several sources."""
    if len(rows) > 1:
        for name, source in zip(names, rows, strict=True):
            if isinstance(source, Stream) or source.prepare is not None or is_sparse(source.X):
                raise ValueError(f"rows of source {name!r} must be dense arrays to be shuffled with others")
        held = [
            check_arrays(name, s.X, s.y, problem.columns, classes=problem.classes)  # type: ignore[union-attr]
            for name, s in zip(names, rows, strict=True)
        ]
        return _mixed(held, size, rng)
    source = rows[0]
    if isinstance(source, Stream):
        blocks = stream_blocks(names[0], source, problem.columns, problem.classes)
        return _shuffled(blocks, size, problem.batch_size, rng)
    if source.blockwise:
        blocks = read_memory_map(names[0], source, rng, problem.classes)
        return _shuffled(blocks, size, problem.batch_size, rng)
    return _permuted(source, size, rng)


def _permuted(source: Arrays, size: int, rng: np.random.Generator) -> Iterator[Any]:
    order, gathers = rng.permutation(len(source)), cycle((_Gather(), _Gather()))
    for start in range(0, len(order), size):
        numbers = order[start : start + size]
        take = next(gathers) if source.prepare is None else source.prepare
        yield take(source.X, source.places(numbers)), source.y[numbers], numbers


class _Gather:
    """Gathers rows by their numbers into memory that it uses again: fresh pages would cost more than the copying.

    The next call overwrites what it returned.
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


def _shuffled(blocks: Iterator[Block], size: int, batch_size: int, rng: np.random.Generator) -> Iterator[Any]:
    """Rows of each block in random order, in chunks of whole batches; the rest of a block joins the next one."""
    gather = _Gather()
    left: list[Any] | None = None  # X, y and numbers of a batch that is not full yet
    for block in blocks:
        order = rng.permutation(len(block.y))
        shuffled = [gather(block.X, order), block.y[order], block.first + order]
        start = 0
        if left is not None:
            start = min(batch_size - len(left[1]), len(order))
            left = [join_rows(pair) for pair in zip(left, _cut(shuffled, 0, start), strict=True)]
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
