"""Inputs that a release should hide: pairs of gradients, in units of the norm C that they are bounded by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uneven.engine import Stream, check_rows, iterate_chunks, make_generator
from uneven.problem import Problem

Array = NDArray[np.float64]

Split = Callable[[NDArray[np.float64]], Sequence[Sequence[int]]]
"""From the labels of a few rows to the rows of each batch. A private run must not look at the labels."""

ROWS, BATCH = 6, 2
"""Rows of the data sets that differ in one row, and how many of them a batch has."""


class Pair(NamedTuple):
    """Two inputs, and what they are in words: vectors of norm at most 1, or the sums of several batches of such."""

    words: str
    one: Array
    other: Array
    batches: int = 1


def list_pairs(n_features: int) -> list[Pair]:
    """Pairs in that dimension: opposite, full and nothing, across, short.

    Opposite unit vectors are as far apart as two inputs can be. They are tried along an axis and along the diagonal: a
    mechanism that treats coordinates one by one (Laplace noise on each, after an L2 clip) is at its worst there.

    >>> [pair.words for pair in list_pairs(1)]
    ['opposite', 'one and nothing', 'one and its half', 'opposite and short']
    """
    axis = np.eye(n_features)[0]
    found = [Pair("opposite", axis, -axis)]
    if n_features > 1:
        diagonal = np.full(n_features, n_features**-0.5)
        found += [
            Pair("opposite on the diagonal", diagonal, -diagonal),
            Pair("at right angles", axis, np.eye(n_features)[1]),
        ]
    return [
        *found,
        Pair("one and nothing", axis, np.zeros(n_features)),
        Pair("one and its half", axis, axis / 2.0),
        Pair("opposite and short", axis / 2.0, -axis / 2.0),
    ]


def split_arrays(labels: NDArray[np.float64]) -> list[list[int]]:
    """Batches that a run splits rows in memory into.

    >>> sorted(sum(split_arrays(np.ones(ROWS)), []))
    [0, 1, 2, 3, 4, 5]
    """
    return _split(labels, (_marked(labels), labels))


def split_stream(labels: NDArray[np.float64]) -> list[list[int]]:
    """The same for rows that are streamed, in two blocks."""
    half, X = len(labels) // 2, _marked(labels)
    return _split(labels, Stream([(X[:half], labels[:half]), (X[half:], labels[half:])], block_rows=half))


def _marked(labels: NDArray[np.float64]) -> Array:
    """Rows that say their own number."""
    return np.arange(1.0, len(labels) + 1.0)[:, None] / len(labels)


def _split(labels: NDArray[np.float64], data: Any) -> list[list[int]]:
    """Numbers of the rows in each batch, as the engine's own splitter has them; its order is the same each time."""
    problem, rng = Problem(1, 1e-3, BATCH), make_generator(0, 0, "audit", "order")
    chunks = iterate_chunks(("audited",), [check_rows("audited", data, 1)], problem, rng, steps=1)
    return [(np.rint(chunk.X[:, 0] * len(labels)).astype(int) - 1).tolist() for chunk in chunks]


SPLITS: tuple[Split, ...] = (split_arrays, split_stream)
"""How a run splits rows into batches: those in memory, and those that are streamed."""


def list_neighbouring_batches(n_features: int, splits: Sequence[Split] = SPLITS) -> list[Pair]:
    """Sums of the batches of data sets that differ in their first row only, whose label is its first entry's sign.

    All other labels are -1, and neighbours among the other rows differ: rows that change batches are seen.

    >>> in_order = lambda labels: [[0, 1], [2, 3], [4, 5]]
    >>> [(pair.words, pair.one.tolist(), pair.other.tolist()) for pair in list_neighbouring_batches(1, [in_order])][0]
    ('opposite', [2.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    """
    rest = np.zeros((ROWS - 1, n_features))
    rest[:, 0] = (1.0, 1.0, -1.0, -1.0, 1.0)

    def sums(row: Array, split: Split) -> Array:
        rows = np.vstack([row, rest])
        labels = np.full(ROWS, -1.0)
        labels[0] = 1.0 if row[0] >= 0.0 else -1.0
        return np.concatenate([rows[list(batch)].sum(axis=0) for batch in split(labels)])

    return [
        Pair(p.words, one := sums(p.one, split), sums(p.other, split), len(one) // n_features)
        for split in splits
        for p in list_pairs(n_features)
    ]
