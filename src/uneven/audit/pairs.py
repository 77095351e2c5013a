"""Inputs that a release should hide: pairs of gradients, in units of the norm C that they are bounded by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uneven.noise.base import Array

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


def pairs_in(n_features: int) -> list[Pair]:
    """Pairs in that dimension: opposite, full and nothing, across, short.

    Opposite unit vectors are as far apart as two inputs can be. They are tried along an axis and along the diagonal: a
    mechanism that treats coordinates one by one (Laplace noise on each, after an L2 clip) is at its worst there.

    >>> [pair.words for pair in pairs_in(1)]
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


def split_in_order(labels: NDArray[np.float64]) -> list[list[int]]:
    """Batches of rows as they come: each row in one, whatever its label.

    >>> split_in_order(np.ones(4))
    [[0, 1], [2, 3]]
    """
    return [list(range(start, start + BATCH)) for start in range(0, len(labels), BATCH)]


def neighbouring_batches(n_features: int, split: Split = split_in_order) -> list[Pair]:
    """Sums of the batches of data sets that differ in their first row only, whose label is its first entry's sign.

    All other labels are -1, and neighbours among the other rows differ: rows that change batches are seen.

    >>> [(pair.words, pair.one.tolist(), pair.other.tolist()) for pair in neighbouring_batches(1)][0]
    ('opposite', [2.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    """
    rest = np.zeros((ROWS - 1, n_features))
    rest[:, 0] = (1.0, 1.0, -1.0, -1.0, 1.0)

    def sums(row: Array) -> Array:
        rows = np.vstack([row, rest])
        labels = np.full(ROWS, -1.0)
        labels[0] = 1.0 if row[0] >= 0.0 else -1.0
        return np.concatenate([rows[list(batch)].sum(axis=0) for batch in split(labels)])

    return [Pair(p.words, one := sums(p.one), sums(p.other), len(one) // n_features) for p in pairs_in(n_features)]
