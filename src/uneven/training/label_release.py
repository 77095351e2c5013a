"""Private labels are randomised once, charged first: what is learned from them then is post-processing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.engine import repeat_generator
from uneven.noise import LabelPrivacy
from uneven.settings import Settings
from uneven.training.grouping import Grouped
from uneven.training.labels import uses_softmax
from uneven.training.rows import Piece, Rows, RowsOf


@dataclass(frozen=True)
class ReleasedRows(RowsOf):
    """Rows whose private labels are as released: the same ones are flipped at every reading, so it is one release.

    Attributes
    ----------
    rows : Rows
    groups : Grouped
        With the noises as declared.
    classes : array of shape (k,)
    draws : dict
        For each source of `LabelPrivacy`, a function whose generators all give the same numbers.
    """

    groups: Grouped
    classes: NDArray[Any]
    draws: Mapping[str, Callable[[], np.random.Generator]]

    def pieces(self, checked: bool = True, only: str | None = None) -> Iterator[Piece]:
        """Pieces as they come, with labels as released."""
        rngs, first = {name: draw() for name, draw in self.draws.items()}, 0
        # Rows known by their place among all rows are always all read: `first` must count them.
        for piece in self.rows.pieces(checked, only if self.groups.index is None else None):
            moves = np.zeros(len(piece.y), dtype=np.int64)
            for name, rng in rngs.items():
                mine, noise = self._rows_of(name, piece, first), self.groups.noises[name].protection
                assert isinstance(noise, LabelPrivacy)
                moves[mine] = noise.draw_flips(len(mine), rng, len(self.classes))
            first += len(piece.y)
            yield replace(piece, y=move_labels(piece.y, moves, self.classes))

    def _rows_of(self, name: str, piece: Piece, first: int) -> NDArray[np.int64]:
        """Numbers of the piece's rows that are of this source."""
        count = len(piece.y)
        if self.groups.index is not None:
            return np.flatnonzero(self.groups.index[first : first + count] == self.groups.names.index(name))
        return np.arange(count if piece.source in (name, None) else 0)


def release_labels(rows: Rows, groups: Grouped, classes: NDArray[Any], seed: int | None, run: int = 0) -> ReleasedRows:
    """Rows with the labels of every source of `LabelPrivacy` randomised; charge them first."""
    draws = {name: repeat_generator(seed, run, name, "labels") for name in find_private_labels(groups)}
    return ReleasedRows(rows, groups, classes, draws)


def find_private_labels(groups: Grouped) -> list[str]:
    """Sources whose labels are to be randomised."""
    return [name for name, noise in groups.noises.items() if isinstance(noise.protection, LabelPrivacy)]


def as_observed(groups: Grouped, classes: int) -> Grouped:
    """The same rows with their noise as seen by a learner of `classes` classes."""
    return groups.with_noises({name: noise.observed_among(classes) for name, noise in groups.noises.items()})


def as_against_rest(groups: Grouped, settings: Settings, classes: int) -> Grouped:
    """The same rows with the noise of each problem: for one class against the rest, flips between the two."""
    if classes == 2 or uses_softmax(settings, classes):
        return groups
    return groups.with_noises({name: noise.against_rest(classes) for name, noise in groups.noises.items()})


def move_labels(y: NDArray[Any], moves: NDArray[np.int64], classes: NDArray[Any]) -> NDArray[Any]:
    """Labels shifted by `moves` classes, modulo their number; 0 keeps a label.

    >>> move_labels(np.array(["no", "yes"]), np.array([0, 1]), np.array(["no", "yes"])).tolist()
    ['no', 'no']
    """
    moved = classes[(np.searchsorted(classes, y) + moves) % len(classes)]
    return np.asarray(np.where(moves > 0, moved, y))
