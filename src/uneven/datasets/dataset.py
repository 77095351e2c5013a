"""What a data set is: rows in the unit ball and labels -1 and 1, to learn from and to test on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = tuple[NDArray[np.float32], NDArray[np.float64]]

ROUNDING = 1.0 + 1e-6
"""Rows are divided by a hair more than the longest norm: as float32 they must not stick out of the unit ball."""


@dataclass(frozen=True)
class Dataset:
    """Rows in the unit ball and labels -1 and 1, or numbers of more classes.

    Attributes
    ----------
    name : str
    X, X_test : float32 arrays of shape (n, d)
    y, y_test : float64 arrays of shape (n,)
    """

    name: str
    X: NDArray[np.float32]
    y: NDArray[np.float64]
    X_test: NDArray[np.float32]
    y_test: NDArray[np.float64]

    def split(self, shares: Mapping[str, float], seed: int = 0) -> dict[str, Rows]:
        """Rows to learn from, dealt at random to sources by their shares; the last one takes what is left.

        >>> import numpy as np
        >>> X = np.zeros((10, 2), dtype=np.float32)
        >>> data = Dataset("tiny", X, np.ones(10), X, np.ones(10))
        >>> {name: len(y) for name, (_, y) in data.split({"clean": 0.1, "noisy": 0.9}).items()}
        {'clean': 1, 'noisy': 9}
        """
        ends = np.cumsum(list(count_rows(len(self.y), shares).values()))[:-1]
        parts = np.split(np.random.default_rng(seed).permutation(len(self.y)), ends)
        return {
            name: (np.ascontiguousarray(self.X[part]), self.y[part]) for name, part in zip(shares, parts, strict=True)
        }

    def subsample(self, rows: int, seed: int = 0) -> Dataset:
        """The same with at most this many rows to learn from, drawn at random."""
        keep = np.random.default_rng(seed).permutation(len(self.y))[:rows]
        return Dataset(self.name, self.X[keep], self.y[keep], self.X_test, self.y_test)


def count_rows(rows: int, shares: Mapping[str, float]) -> dict[str, int]:
    """How many of these rows `Dataset.split` deals to each source.

    >>> count_rows(10, {"clean": 0.1, "noisy": 0.9})
    {'clean': 1, 'noisy': 9}
    """
    ends = [0, *np.rint(np.cumsum(list(shares.values()))[:-1] * rows).astype(int), rows]
    return {name: int(count) for name, count in zip(shares, np.diff(ends), strict=True)}
