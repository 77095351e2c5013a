"""What a run is fed: rows, and how noisy a step on them is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uneven.noise import Moment
from uneven.planner.source import Source
from uneven.problem import Problem
from uneven.schedules import Schedule


@dataclass(frozen=True)
class Feed:
    """Rows of one source (or of several, shuffled together) and how noisy a step on them is.

    Attributes
    ----------
    sources : tuple of str
    rows : int
    batch_size : int
        Rows of a step; the last step takes what is left.
    moment : Moment
        γ² of a step, as a function of its rows.
    """

    sources: tuple[str, ...]
    rows: int
    batch_size: int
    moment: Moment

    @property
    def steps(self) -> int:
        """Number of mini-batches."""
        return -(-self.rows // self.batch_size)

    @property
    def noise_level(self) -> float:
        """γ² at the common batch size, to compare sources by."""
        return float(self.moment.at(self.batch_size))

    @property
    def step_moment(self) -> float:
        """γ² of its full mini-batches, or of its only one if it has fewer rows than that."""
        return float(self.moment.at(min(self.batch_size, self.rows)))

    @property
    def last_moment(self) -> float:
        """γ² of its last mini-batch, which may be short."""
        return self.counted_moments()[-1][0]

    @property
    def precision(self) -> float:
        """Σ 1/γ² over its steps: how far it moves the clock."""
        return sum(count / moment for moment, count in self.counted_moments())

    def counted_moments(self) -> list[tuple[float, int]]:
        """Each γ² that occurs, and how many steps have it: full batches, and a last one of what is left."""
        full, left = divmod(self.rows, self.batch_size)
        sizes = [(self.batch_size, full), (left, 1)]
        return [(self.moment.at(rows), count) for rows, count in sizes if rows and count]

    def moments(self) -> NDArray[np.float64]:
        """γ² of each of its steps, shape (steps,)."""
        moments, counts = zip(*self.counted_moments(), strict=True)
        return np.repeat(moments, counts)


@dataclass(frozen=True)
class Segment(Feed):
    """A stretch of the run: a feed, each of its rows once, and the schedule of its step sizes."""

    schedule: Schedule


def feeds_of(sources: Sequence[Source], problem: Problem, which: str) -> list[Feed]:
    """One feed a source, with the moments asked for."""
    feeds = []
    for source in sources:
        moment = source.noise.moment(which, problem)
        if not moment.at(1) > 0:
            raise ValueError(
                f"lower moments need noise that is there for certain; source {source.name!r} ({source.noise!r}) has "
                "a lower moment of 0"
            )
        feeds.append(Feed((source.name,), source.rows, problem.batch_size, moment))
    return feeds


def exchange(feeds: Sequence[Feed]) -> dict[str, float]:
    """Worth of one row of each source, in rows of the cleanest: γ² of the cleanest over its own."""
    cleanest = min(feed.noise_level for feed in feeds)
    return {feed.sources[0]: cleanest / feed.noise_level for feed in feeds}


def clean_first(feeds: Sequence[Feed]) -> list[Feed]:
    """Cleanest first; sources alike stay as given."""
    return sorted(feeds, key=lambda feed: feed.noise_level)


def noisy_first(feeds: Sequence[Feed]) -> list[Feed]:
    """Noisiest first; sources alike stay as given."""
    return sorted(feeds, key=lambda feed: -feed.noise_level)
