"""Rows to measure on or to choose by must not be rows learned from: an exact measure on private ones is a release."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uneven.redaction import owner_only
from uneven.training.charging import Hasher
from uneven.training.grouping import Grouped
from uneven.training.rows import Piece

SHARED = 0.1
"""Share of rows beyond chance that may agree with public rows learned from."""

SHARED_PRIVATE = 0.05
"""Share of rows beyond chance that may agree with private rows learned from. The score is of the rows given, which
their owner has anyway; this keeps somebody from measuring on the private rows themselves, and on a few of them among
made-up ones."""

ERRORS = 3.0
"""Standard errors of a share that are chance too."""

CHANCE = 1e-3
"""Probability up to which it is not by chance that all rows to measure on are among those learned from."""


@dataclass(frozen=True)
class Hashes:
    """Hashes that identify rows: the distinct values, and the number of rows with each.

    Rows of few columns agree by chance: as many of the rows to measure on agree with rows learned from as those agree
    with one another.
    """

    different: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, content: NDArray[np.int64]) -> Hashes:
        """Hashes of rows."""
        return cls(*np.unique(content, return_counts=True))

    @property
    def alike(self) -> float:
        """Share of the rows that agree with another of them."""
        return float(self.counts[self.counts > 1].sum() / max(1, self.counts.sum()))

    def most(self, count: int, shared: float) -> float:
        """The most of `count` rows that may agree with these."""
        return count * (self.alike + shared) + ERRORS * math.sqrt(count * self.alike * (1.0 - self.alike))

    def contain(self, other: Hashes) -> bool:
        """Whether every one of the other rows is among these, copies as often, and that is not by chance."""
        place = np.minimum(np.searchsorted(self.different, other.different), max(0, len(self.different) - 1))
        if not len(self.different) or not len(other.different) or self.alike ** int(other.counts.sum()) > CHANCE:
            return False
        return bool(((self.different[place] == other.different) & (self.counts[place] >= other.counts)).all())


@dataclass(frozen=True)
class Known:
    """Hashes of the training rows: of all, of the private ones, and the hasher."""

    every: Hashes
    private: Hashes
    hasher: Hasher

    def refuse(self, what: str, where: str, pieces: Iterable[Piece]) -> None:
        """Refuse evaluation rows that overlap the training rows: many rows, or some private ones, in any order.

        Parameters
        ----------
        what : str
            Name of the argument.
        where : str
            What to call the rows: " path: " or ": ".
        pieces : iterable of Piece
        """
        found = np.concatenate([self.hasher.hash(piece) for piece in pieces])
        count = len(found)
        again, private = (int(np.isin(found, one.different).sum()) for one in (self.every, self.private))
        if again > self.every.most(count, SHARED):
            many = owner_only(f"{again:,} of its {count:,} rows are", "too many of its rows are")
            raise ValueError(f"{what} must be rows that are not learned from, got {where}{many} also in the data")
        if private > self.private.most(count, SHARED_PRIVATE) or self.private.contain(Hashes.of(found)):
            many = owner_only(f"{private:,} of its {count:,} rows agree", "rows that agree")
            raise ValueError(
                f"{what} must be rows that are not learned from, got {where}{many} with private rows in every column: "
                "a measure on them would be a release; give other rows, or use 'uneven evaluate', which charges for it"
            )


def make_known(content: NDArray[np.int64], groups: Grouped, hasher: Hasher, simulated: bool) -> Known:
    """Rows by the hashes of their content; in a simulation none is private."""
    own = [] if simulated else [k for k, name in enumerate(groups.names) if groups.noises[name].private]
    private = np.concatenate([content[:0], *(content[groups.rows_of(k)] for k in own)])
    return Known(Hashes.of(content), Hashes.of(private), hasher)
