"""What the engine needs to know of a plan (`uneven.Plan` fits, but is not imported), and the tasks it makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from uneven.engine.state import Task, choose_average
from uneven.noise import Noise
from uneven.problem import Problem
from uneven.schedules import LateWindow, Schedule, find_late_window


class SourceLike(Protocol):
    """What the engine needs to know of a source."""

    @property
    def name(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def noise(self) -> Noise: ...


class SegmentLike(Protocol):
    """What the engine needs to know of a segment."""

    @property
    def sources(self) -> tuple[str, ...]: ...
    @property
    def rows(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def precision(self) -> float: ...
    @property
    def schedule(self) -> Schedule: ...


class PlanLike(Protocol):
    """What the engine needs to know of a plan; `uneven.Plan` is one."""

    @property
    def problem(self) -> Problem: ...
    @property
    def moments(self) -> str: ...
    @property
    def average(self) -> str: ...
    @property
    def sources(self) -> Sequence[SourceLike]: ...
    @property
    def segments(self) -> Sequence[SegmentLike]: ...


def tasks_of(plan: PlanLike, average: str = "auto", estimate: bool = False) -> list[Task]:
    """One task per segment of the plan, in order of use; its problem has the segment's own batch size."""
    noise = {source.name: source.noise.observed_among(plan.problem.classes) for source in plan.sources}
    which = "upper" if estimate else plan.moments
    mixed = any(len(segment.sources) > 1 for segment in plan.segments)
    end = None if estimate or mixed else sum(segment.precision for segment in plan.segments)
    if estimate and mixed:
        raise ValueError("estimate must be False for a plan that shuffles sources together; got True")
    return [
        Task(
            problem=replace(plan.problem, batch_size=segment.batch_size),
            names=segment.sources,
            noises=tuple(noise[name] for name in segment.sources),
            moments=tuple(noise[name].moment(which, plan.problem) for name in segment.sources),
            schedule=segment.schedule,
            average=choose_average(average, plan.average, _window(plan, segment.schedule, end)),
            estimate=estimate,
        )
        for segment in plan.segments
    ]


def _window(plan: PlanLike, schedule: Schedule, end: float | None) -> LateWindow | None:
    """What a late average is over; None where the clock's end is unknown."""
    if end is None:
        return None
    private, problem = any(source.noise.protects_features for source in plan.sources), plan.problem
    offset = getattr(schedule, "offset", 0.0)
    return find_late_window(end, offset, private, problem.smoothness, problem.alpha, problem.n_features)
