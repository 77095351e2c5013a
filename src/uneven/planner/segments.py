"""Rows in mini-batches, how noisy a step on them is, and the stretches of a run made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.noise import Moment
from uneven.planner.source import Source
from uneven.problem import Problem
from uneven.schedules import Schedule, schedule_to_dict

Sizes = Mapping[str, int]
"""Rows per step of each source that has a batch size of its own."""


@dataclass(frozen=True)
class Batches:
    """Rows of one source (or of several, shuffled together) in mini-batches.

    Attributes
    ----------
    sources : tuple of str
    rows : int
    batch_size : int
        Rows per step; the last step takes what is left.
    moment : Moment
        γ² of a step, as a function of its rows.
    passes : int
        How many passes the rows are of: no batch has rows of two.
    """

    sources: tuple[str, ...]
    rows: int
    batch_size: int
    moment: Moment
    passes: int = field(default=1, kw_only=True)

    @property
    def steps(self) -> int:
        """Number of mini-batches."""
        return self.passes * -(-self._rows_per_pass // self.batch_size)

    @property
    def _rows_per_pass(self) -> int:
        return self.rows // self.passes

    @property
    def noise_level(self) -> float:
        """m·γ² of a full mini-batch of m rows: the inverse precision of a row, for comparing sources."""
        return float(self.batch_size * self.moment.at(self.batch_size))

    @property
    def step_moment(self) -> float:
        """γ² of the full mini-batches, or of the only one if there are fewer rows than that."""
        return float(self.moment.at(min(self.batch_size, self._rows_per_pass)))

    @property
    def last_moment(self) -> float:
        """γ² of the last mini-batch, which may be short."""
        return self.counted_moments()[-1][0]

    @property
    def precision(self) -> float:
        """Σ 1/γ² over the steps: how far they advance the clock."""
        return sum(count / moment for moment, count in self.counted_moments())

    def counted_moments(self) -> list[tuple[float, int]]:
        """Each γ² that occurs, and the number of steps that have it: full batches, and a last one of each pass."""
        full, left = divmod(self._rows_per_pass, self.batch_size)
        sizes = [(self.batch_size, self.passes * full), (left, self.passes)]
        return [(self.moment.at(rows), count) for rows, count in sizes if rows and count]

    def moments(self) -> NDArray[np.float64]:
        """γ² of each step, shape (steps,)."""
        moments, counts = zip(*self.counted_moments(), strict=True)
        return np.tile(np.repeat(moments, np.array(counts) // self.passes), self.passes)


@dataclass(frozen=True)
class Segment(Batches):
    """A stretch of the run: mini-batches, each row once, and the schedule of their step sizes."""

    schedule: Schedule

    @property
    def full_steps(self) -> int:
        """Number of steps up to the last on a full mini-batch; up to the last if all are short."""
        short = self.batch_size < self._rows_per_pass and self._rows_per_pass % self.batch_size > 0
        return self.steps - short


def split_into_batches(
    sources: Sequence[Source], problem: Problem, moments: str, sizes: Sizes | None = None
) -> list[Batches]:
    """Mini-batches of each source, with the moments asked for ("upper", "lower" or "variance").

    A source that is not in `sizes` has the problem's batch size.
    """
    batches, own = [], sizes or {}
    for source in sources:
        moment = source.noise.moment(moments, problem)
        if not moment.at(1) > 0:
            raise ValueError(
                f"lower moments need noise that is certain to be present; source {source.name!r} ({source.noise!r}) "
                "has a lower moment of 0"
            )
        size = own.get(source.name, problem.batch_size)
        batches.append(Batches((source.name,), source.rows, size, moment, passes=source.passes))
    return batches


def compute_exchange_rates(batches: Sequence[Batches]) -> dict[str, float]:
    """Worth of one row of each source, in rows of the cleanest: m·γ² of the cleanest over its own."""
    cleanest = min(one.noise_level for one in batches)
    return {one.sources[0]: cleanest / one.noise_level for one in batches}


def sort_clean_first(batches: Sequence[Batches]) -> list[Batches]:
    """Cleanest first; ties keep their order."""
    return sorted(batches, key=lambda one: one.noise_level)


def sort_noisy_first(batches: Sequence[Batches]) -> list[Batches]:
    """Noisiest first; ties keep their order."""
    return sorted(batches, key=lambda one: -one.noise_level)


def compute_step_sizes(segments: Sequence[Segment]) -> list[NDArray[np.float64]]:
    """η_t of the steps of each segment; t and the clock run on from one segment to the next."""
    moments = [segment.moments() for segment in segments]
    clock = np.cumsum(1.0 / np.concatenate([np.empty(0), *moments]))
    sizes, start = [], 0
    for segment, own in zip(segments, moments, strict=True):
        stop = start + len(own)
        sizes.append(segment.schedule(np.arange(start + 1, stop + 1), own, clock[start:stop]))
        start = stop
    return sizes


def segment_to_dict(segment: Segment) -> dict[str, Any]:
    """Segment as plain values."""
    return {
        "sources": list(segment.sources),
        "rows": segment.rows,
        "batch_size": segment.batch_size,
        "moment": segment.moment.to_dict(),
        "schedule": schedule_to_dict(segment.schedule),
    }


def read_stated_sizes(segments: Any, problem: Problem) -> dict[str, int]:
    """Batch sizes other than the problem's that segments as plain values state."""
    sizes: dict[str, int] = {}
    for segment in segments if isinstance(segments, list | tuple) else ():
        checks.needed_keys("a segment", segment, ("sources", "batch_size"))
        size = checks.whole("batch_size of a segment", segment["batch_size"])
        sizes |= {str(name): size for name in segment["sources"] if size != problem.batch_size}
    return sizes
