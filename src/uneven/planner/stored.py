"""A plan as plain values: its segments written, their batch sizes read back, and the comparison of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from uneven import checks
from uneven.planner.segments import Segment
from uneven.problem import Problem
from uneven.schedules import schedule_to_dict


def stated_sizes(segments: Any, problem: Problem) -> dict[str, int]:
    """Batch sizes other than the problem's that the segments of a plan's `to_dict` state."""
    sizes: dict[str, int] = {}
    for segment in segments if isinstance(segments, list | tuple) else ():
        checks.needed_keys("a segment", segment, ("sources", "batch_size"))
        size = checks.whole("batch_size of a segment", segment["batch_size"])
        sizes |= {str(name): size for name in segment["sources"] if size != problem.batch_size}
    return sizes


def segment_to_dict(segment: Segment) -> dict[str, Any]:
    """A segment as plain values."""
    return {
        "sources": list(segment.sources),
        "rows": segment.rows,
        "batch_size": segment.batch_size,
        "moment": segment.moment.to_dict(),
        "schedule": schedule_to_dict(segment.schedule),
    }


def almost_equal(a: Any, b: Any) -> bool:
    """Equal, but for rounding of numbers."""
    if isinstance(b, Mapping):
        return isinstance(a, Mapping) and a.keys() == b.keys() and all(almost_equal(a[key], b[key]) for key in b)
    if isinstance(b, list | tuple):
        return isinstance(a, list | tuple) and len(a) == len(b) and all(map(almost_equal, a, b))
    if isinstance(b, float):
        return isinstance(a, float | int) and abs(a - b) <= 1e-6 * abs(b)
    return bool(a == b)
