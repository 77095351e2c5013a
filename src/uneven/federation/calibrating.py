"""Ask the sites for what rows that take no step tell: the shares of the classes first, the length of the weights last.

One message for each site, in the order of a local fit, which is never worse than predicting nothing
(`training.calibration`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.engine import State, initial_state
from uneven.federation.calls import Ask, Lost, reading
from uneven.federation.jobs import Job, Progress
from uneven.federation.kept import (
    count_rows,
    heard_from_dict,
    heard_to_dict,
    reached_from_dict,
    reached_to_dict,
)
from uneven.federation.messages import state_from_dict
from uneven.federation.policy import Refused
from uneven.planner import Asked, count_free, count_kept, has_length_rows
from uneven.training import (
    Direction,
    Heard,
    Lesson,
    Reached,
    choose_scale,
    describe_offsets,
    describe_scale,
    doubt_steps,
    expect_deviation,
    find_offsets,
    make_direction,
    make_start,
    prepare_lesson,
    start_heard,
    take_smooth,
)

Array = NDArray[np.float64]

TOLERANCE = 1e-6
"""Of rounding, in sums over many rows."""

FARTHEST = 40.0
"""Standard errors that noise is not expected to exceed, by far."""


def leave_out(progress: Progress, site: str, reason: Exception) -> Progress:
    """Progress without a site that failed; what it may have charged is remembered."""
    charged = [*progress.charged, *([site] if isinstance(reason, Lost | OSError) else [])]
    return replace(progress, left_out={**progress.left_out, site: str(reason)}, charged=charged)


# Before all steps


def ask_shares(job: Job, ask: Ask, progress: Progress, one: Asked) -> Progress:
    """Progress after the rows of one site have told their classes; a site that does not answer is left out."""
    before, problem = read_heard(job, progress), job.problem
    ask.tell(one.name, "asked for the shares of the classes", 0, 0)
    request = {**job.request_kept("shares", one.name), "problem": problem.to_dict(), "heard": heard_to_dict(before)}
    try:
        reply = ask(one.name, request)
        with reading(one.name):
            after = check_heard(job, one, before, heard_from_dict(reply["heard"], problem))
    except (Refused, OSError) as reason:
        ask.tell(one.name, "left out", 0, 0)
        return leave_out(progress, one.name, reason)
    return replace(progress, heard=heard_to_dict(after), charged=[*progress.charged, one.name])


def read_heard(job: Job, progress: Progress) -> Heard:
    """What rows have told of the classes so far."""
    return start_heard(job.problem) if progress.heard is None else heard_from_dict(progress.heard, job.problem)


def check_heard(job: Job, one: Asked, before: Heard, after: Heard) -> Heard:
    """What rows have told, refused where the rows of one site cannot have told it, with all the noise there may be."""
    expected = count_free(job.problem) * one.weight * one.rows
    _check_precision(before.precision, after.precision, expected)
    most = one.noise.amplification(job.problem.classes) * expected + FARTHEST * math.sqrt(expected)
    if np.abs(after.total - before.total).max() > most:
        raise ValueError("total must be that of rows of the site, got another")
    return after


def _check_precision(before: float, after: float, expected: float) -> None:
    """Refuse 1/variance that has not grown by what the rows of a site bring."""
    if abs(after - before - expected) > TOLERANCE * (before + expected):
        raise ValueError("precision must be that of the rows of the site, got another")


def find_start(job: Job, progress: Progress) -> tuple[Array, Array]:
    """Weights that steps start from, and the scores of the classes there: all 0 where none are clearly unequal."""
    offsets = np.zeros(job.problem.outputs)
    if job.plan.tellers:
        offsets = find_offsets(read_heard(job, progress).told, job.problem)
    if not np.any(offsets):
        return np.zeros(job.problem.n_features), offsets
    return make_start(offsets, job.scale.unit_constant, job.problem.columns), offsets


def read_state(job: Job, progress: Progress) -> State:
    """Where the steps stand."""
    if progress.state is not None:
        return state_from_dict(progress.state, job.problem.n_features)
    return initial_state(job.problem.n_features, start=find_start(job, progress)[0])


# After all steps


@dataclass(frozen=True)
class Ending:
    """The weights after all steps, as a start and what was found from there, whose length kept rows learn."""

    start: Array
    offsets: Array
    found: Array
    direction: Direction

    @property
    def has_length(self) -> bool:
        """Whether there is a length to learn: weights of zero have none."""
        return self.direction.width > 0.0


def read_ending(job: Job, progress: Progress) -> Ending:
    """The weights after all steps."""
    start, offsets = find_start(job, progress)
    found = read_state(job, progress).answer - start
    direction = make_direction(found, job.scale.unit_constant, job.problem, offsets)
    assert isinstance(direction, Direction)
    return Ending(start, offsets, found, direction)


def ask_lengths(job: Job, ask: Ask, progress: Progress) -> Iterator[Progress]:
    """Progress after each site, the noisiest first, whose kept rows have told the length of the weights.

    A site that is left out is not asked. One that does not answer now stays in the result, which its steps are in.
    """
    if not has_length_rows(job.plan) or progress.state is None or not (ending := read_ending(job, progress)).has_length:
        return
    lesson, smooth = prepare_lesson(ending.direction, job.plan), take_smooth(job.plan)
    told = {"weights": ending.found.tolist(), "offset": ending.direction.offset, "prior": expect_deviation(smooth)}
    told |= {"problem": smooth.problem.to_dict()}
    for site in lesson.list_kept(job.plan.order, job.plan)[progress.next - sum(job.phases) :]:
        if site not in progress.left_out:
            progress = _ask_length(job, ask, progress, site, lesson, told)
        progress = replace(progress, next=progress.next + 1)
        yield progress


def _ask_length(job: Job, ask: Ask, progress: Progress, site: str, lesson: Lesson, told: Mapping[str, Any]) -> Progress:
    before = Reached() if progress.reached is None else reached_from_dict(progress.reached)
    ask.tell(site, "asked for the length of the weights", 0, 0)
    try:
        reply = ask(site, {**job.request_kept("length", site), **told, "reached": reached_to_dict(before)})
        with reading(site):
            after = reached_from_dict(reply["reached"])
            _check_precision(before.precision, after.precision, _expect_precision(job, lesson, site))
    except (Refused, OSError) as reason:
        said = f"Rows of {site!r} did not tell how long the weights should be: {reason}."
        return replace(progress, unheard=[*progress.unheard, site], notes=[*progress.notes, said])
    return replace(progress, reached=reached_to_dict(after))


def _expect_precision(job: Job, lesson: Lesson, site: str) -> float:
    """Sum of 1/variance of what the kept rows of a site tell of the length, batch by batch."""
    rows, kept, tellers = _count_rows(job)[site], job.plan.kept, job.plan.tellers
    moment, batch = lesson.choose_batch(job.noises[site], count_kept(rows, kept))
    full, short = divmod(count_rows(rows, kept, tellers, "length"), batch)
    return full / moment.at(batch) + (1.0 / moment.at(short) if short else 0.0)


def _count_rows(job: Job) -> Mapping[str, int]:
    return {source.name: source.rows for source in job.plan.sources}


def finish_weights(job: Job, progress: Progress) -> tuple[Array, tuple[str, ...]]:
    """The weights at the length that was found, and what is said of it, as a local fit does."""
    if not job.plan.kept:
        return read_state(job, progress).answer, doubt_steps(job.plan)
    if not has_length_rows(job.plan):
        offsets = find_start(job, progress)[1]
        tellers = sum(one.rows for one in job.asked if one.name not in progress.left_out)
        return read_state(job, progress).answer, describe_offsets(offsets, np.array(job.classes), tellers)
    ending, scale = read_ending(job, progress), 1.0
    if ending.has_length:
        lesson = prepare_lesson(ending.direction, job.plan)
        reached = Reached() if progress.reached is None else reached_from_dict(progress.reached)
        scale = choose_scale(ending.direction, job.plan, *lesson.measure(reached))
    out = {*progress.left_out, *progress.unheard}
    kept = sum(count_kept(rows, job.plan.kept) for name, rows in _count_rows(job).items() if name not in out)
    told = describe_offsets(ending.offsets, np.array(job.classes))
    return ending.start + scale * ending.found, (describe_scale(scale, kept, bool(told)), *told)
