"""What a plan is made of: the segments of a run, in order, and what they promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import theory
from uneven.planner.segments import Segment
from uneven.planner.source import Source
from uneven.problem import Problem
from uneven.schedules import Rate, schedule_to_dict

FORMAT = 1
"""Version of `Decision.to_dict`."""


@dataclass(frozen=True)
class Decision:
    """What was decided for some sources and a problem, and what it promises.

    Attributes
    ----------
    problem : Problem
    sources : tuple of Source
        As given.
    strategy : str
    moments : str
        The moments used: "upper", "lower" or "variance".
    segments : tuple of Segment
        Stretches of the run, in order of use.
    bound : float
        Bound on E‖w - w*‖² of the last iterate, by `theorem` (of the average, for Theorem B). For step sizes c/t the
        leading term, as in the paper, or the recursion step by step if that is larger.
    excess_bound : float or None
        What the bound says about E f(w) - f*; None for a loss with a kink.
    theorem : str
    worths : tuple of (str, float)
        What `exchange` says.
    caveats : tuple of str
        What a reader of the bound should know.
    """

    problem: Problem
    sources: tuple[Source, ...]
    strategy: str
    moments: str
    segments: tuple[Segment, ...]
    bound: float
    excess_bound: float | None
    theorem: str
    worths: tuple[tuple[str, float], ...]
    caveats: tuple[str, ...]

    @property
    def order(self) -> list[str]:
        """Names of the sources used, in order of use."""
        return [name for segment in self.segments for name in segment.sources]

    @property
    def rates(self) -> dict[str, float] | None:
        """Learning rate c of each source used, for step sizes c/t; None for other schedules."""
        rates = {
            name: segment.schedule.rate
            for segment in self.segments
            if isinstance(segment.schedule, Rate)
            for name in segment.sources
        }
        return rates or None

    @property
    def exchange(self) -> dict[str, float]:
        """Worth of one row of each source, in rows of the cleanest."""
        return dict(self.worths)

    @property
    def steps(self) -> int:
        """Number of steps T."""
        return sum(segment.steps for segment in self.segments)

    @property
    def shuffled(self) -> bool:
        """Whether the sources are shuffled together rather than used one after the other."""
        return any(len(segment.sources) > 1 for segment in self.segments)

    def step_moments(self) -> NDArray[np.float64]:
        """γ_t² of every step, shape (T,)."""
        return np.concatenate([segment.moments() for segment in self.segments])

    def step_sizes(self) -> NDArray[np.float64]:
        """η_t of every step, shape (T,)."""
        return step_sizes(self.segments)

    def evaluated_bound(self) -> float | None:
        """Bound on E‖w - w*‖² with the recursion behind the theorem evaluated step by step.

        Exact for this number of steps, short batches included, with none of the closed form's slack: the figure to
        compare strategies by. It starts from ‖w₁ - w*‖ ≤ R; with variances, from the diameter 2R at the first step
        from which no step is longer than 2/(L + λ). None for an average of iterates, which has no recursion.
        """
        if self.theorem == "Theorem B":
            return None
        return evaluated(self.problem, self.segments, self.moments)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold; `from_dict` reads them back."""
        return {
            "format": FORMAT,
            "problem": self.problem.to_dict(),
            "sources": [source.to_dict() for source in self.sources],
            "strategy": self.strategy,
            "moments": self.moments,
            "segments": [_segment_to_dict(segment) for segment in self.segments],
            "order": self.order,
            "rates": self.rates,
            "bound": self.bound,
            "excess_bound": self.excess_bound,
            "theorem": self.theorem,
            "exchange": self.exchange,
            "caveats": list(self.caveats),
        }


def step_sizes(segments: Sequence[Segment]) -> NDArray[np.float64]:
    """η_t of every step of these segments, one after the other."""
    moments = [segment.moments() for segment in segments]
    clock = np.cumsum(1.0 / np.concatenate(moments))
    sizes, start = [], 0
    for segment, own in zip(segments, moments, strict=True):
        stop = start + len(own)
        sizes.append(segment.schedule(np.arange(start + 1, stop + 1), own, clock[start:stop]))
        start = stop
    return np.concatenate(sizes)


def evaluated(problem: Problem, segments: Sequence[Segment], which: str) -> float:
    """Bound on E‖w - w*‖² by the recursion for these moments, step by step: see `Decision.evaluated_bound`."""
    eta, lam, ball = step_sizes(segments), problem.alpha, problem.ball
    moments = np.concatenate([segment.moments() for segment in segments])
    if which != "variance":
        return theory.recursion_bound(eta, moments, lam, start=ball**2)
    too_long = np.flatnonzero(eta > 2.0 / (problem.smoothness + lam) * (1 + 1e-12))
    first, start = (int(too_long[-1]) + 1, 4.0 * ball**2) if len(too_long) else (0, ball**2)
    return theory.contraction_bound(eta[first:], moments[first:], lam, start)


def _segment_to_dict(segment: Segment) -> dict[str, Any]:
    return {
        "sources": list(segment.sources),
        "rows": segment.rows,
        "batch_size": segment.batch_size,
        "moment": vars(segment.moment).copy(),
        "schedule": schedule_to_dict(segment.schedule),
    }
