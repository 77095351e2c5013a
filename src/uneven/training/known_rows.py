"""Rows to measure on or to choose by must not be rows learned from: an exact measure on private ones is a release."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.redaction import owner_only
from uneven.training.charging import Hasher
from uneven.training.grouping import Grouped

SHARED = 0.1
"""Share of rows that may agree with public rows learned from: in few columns, rows agree by chance."""

SHARED_PRIVATE = 0.05
"""Share of rows that may agree with private rows learned from. The score is of the rows given, which their owner has
anyway; this keeps somebody from measuring on the private rows themselves, and on a few of them among made-up ones."""


@dataclass(frozen=True)
class Known:
    """What rows learned from are known by: the hashes of all and of the private ones, and what makes them."""

    every: NDArray[np.int64]
    private: NDArray[np.int64]
    hasher: Hasher

    def refuse(self, what: str, where: str, pieces: Iterable[Any]) -> None:
        """Refuse rows of which many are learned from, or some are private and learned from, whatever their order.

        Parameters
        ----------
        what : str
            Name of the argument.
        where : str
            What to call the rows: " path: " or ": ".
        pieces : iterable of arrays of shape (n, d)
        """
        count = again = private = 0
        for X in pieces:
            hashes = self.hasher.hash(X)
            count += len(hashes)
            again += int(np.isin(hashes, self.every).sum())
            private += int(np.isin(hashes, self.private).sum())
        if again > SHARED * count:
            many = owner_only(f"{again:,} of its {count:,} rows are", "too many of its rows are")
            raise ValueError(f"{what} must be rows that are not learned from, got {where}{many} also in the data")
        if private > SHARED_PRIVATE * count:
            many = owner_only(f"{private:,} of its {count:,} rows agree", "rows that agree")
            raise ValueError(
                f"{what} must be rows that are not learned from, got {where}{many} with private rows in every column: "
                "a measure on them would be a release; leave them out"
            )


def make_known(content: NDArray[np.int64], groups: Grouped, hasher: Hasher, simulated: bool) -> Known:
    """Rows by the hashes of their content; in a simulation none is private."""
    own = [] if simulated else [k for k, name in enumerate(groups.names) if groups.noises[name].private]
    private = [content[groups.rows_of(k)] for k in own]
    return Known(np.unique(content), np.unique(np.concatenate(private)) if private else content[:0], hasher)
