"""Which private sources to leave out: many sources that each help little may help much together.

Sources are left out from the least useful on, those that bring the same all at once, as far as the whole of what has
been left out is not worth using. So each step of the ladder stands for a set of sources, and many small ones are
judged as the large one that they make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uneven.anchor.clock import Coordinates, expect_excesses

Array = NDArray[np.float64]
Information = Callable[[float], float]

WORTH, LITTLE = 0.8, 0.97
"""Ratio of the excess with sources to that without them, up to which they are worth it, and up to which little."""


@dataclass(frozen=True)
class Ladder:
    """What is expected as sources are left out, step by step.

    Attributes
    ----------
    places : array of shape (sources,)
        Step before which each source is left out: 0 for the least useful.
    computed, clocks : arrays of shape (steps + 1,)
        Expected excess with the sources that are left at each step, in the best coordinates for them, and their clock:
        all of them at step 0, none at the last.
    frames : tuple of Coordinates
        Those coordinates.
    most : float
        Excess that weights of zero have at most, and so anybody: expectations above it are not believed.
    """

    places: NDArray[np.int64]
    computed: Array
    clocks: Array
    frames: tuple[Coordinates, ...]
    most: float = np.inf

    @property
    def excesses(self) -> Array:
        """The expected excesses, capped at that of zero weights; `computed` still ranks those above the cap."""
        return np.minimum(self.computed, self.most)

    @property
    def cut(self) -> int:
        """The last step whose excess is next to the best: what was left out up to it is not worth using."""
        return int(np.flatnonzero(self.computed.min() > LITTLE * self.computed).max(initial=0))

    @property
    def used(self) -> NDArray[np.bool_]:
        """Which sources to use."""
        return self.places >= self.cut


def rank_sources(possible: Sequence[Coordinates], sources: Sequence[Information], most: float = np.inf) -> Ladder:
    """Leave sources out, the least useful first.

    Parameters
    ----------
    possible : sequence of Coordinates
        That their rows may be released in.
    sources : sequence of callables
        Clock τ that a source brings at a given activity.
    most : float
        As in `Ladder`: `nothing` of the anchor.
    """
    clocks = np.array([[source(c.activity) for source in sources] for c in possible]).reshape(len(possible), -1)
    everything = [expect_excesses(c, total[None])[0] for c, total in zip(possible, clocks.sum(axis=1), strict=True)]
    places = np.unique(clocks[np.argmin(everything)], return_inverse=True)[1].reshape(-1)
    steps = [np.bincount(places, weights=row) for row in clocks]
    left = np.array([np.append(np.cumsum(one[::-1])[::-1], 0.0) for one in steps])
    found = np.array([expect_excesses(c, row) for c, row in zip(possible, left, strict=True)])
    found[1:, -1] = np.inf  # all alike at the start
    best = found.argmin(axis=0)
    at = np.arange(len(best))
    return Ladder(places, found[best, at], left[best, at], tuple(possible[k] for k in best), most)
