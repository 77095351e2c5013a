"""What rows that take no step tell at a site: the shares of the classes, or one number, the length of the weights.

The server passes what was told so far from site to site, as a local fit does from source to source; each site adds its
own kept rows of that part, by their place among its rows, and sends what is then known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from uneven import checks
from uneven.federation.messages import LARGEST, read_vector
from uneven.federation.policy import Policy, Refused
from uneven.federation.requests import JOB_KEYS, PART_KEYS, Asked, check_job, expect_keys, refusing
from uneven.federation.rows import Opened
from uneven.noise import noise_from_dict
from uneven.planner import count_kept, make_asked
from uneven.problem import Problem
from uneven.training import (
    CLASS,
    LENGTH,
    Heard,
    Job,
    Lesson,
    Reached,
    Scale,
    ask_source,
    describe_constant,
    make_direction,
    make_lesson,
    prepare_alone,
    read_scale,
    start_heard,
)

Tick = Callable[[int], None]
Answer = Callable[[Tick], dict[str, Any]]

MOST_OFFSET = 14.0
"""Largest score of a class in a message: shares beyond a millionth are as good as 0 or 1, where no loss curves."""

LEAST_WIDTH = 1e-100
"""Least width of scores in a message: with shorter weights their squares would be 0, and a score divided by it NaN."""

MOST_TOLD = 1e18
"""Largest sum in a message."""

ROUNDING = 1e-9
"""Of the curvature of a penalty that is 0."""


def count_rows(rows: int, kept: int, tellers: int, kind: str) -> int:
    """How many of so many rows of a site are of the part that a request of this kind is for.

    >>> [count_rows(130, 13, tellers, kind) for tellers, kind in ((0, "length"), (2, "length"), (2, "shares"))]
    [10, 5, 5]
    """
    every = count_kept(rows, kept)
    tell = every // tellers if tellers else 0
    return tell if kind == "shares" else every - tell


def heard_to_dict(heard: Heard) -> dict[str, Any]:
    """What was told of the classes' shares as plain values."""
    return {"total": heard.total.tolist(), "precision": heard.precision}


def heard_from_dict(values: Any, problem: Problem) -> Heard:
    """What `heard_to_dict` described, refused where it does not fit."""
    values = checks.table("heard", values, Heard._fields)
    total = read_vector("total", values["total"], len(start_heard(problem).total), MOST_TOLD)
    return Heard(total, checks.not_negative("precision", values["precision"], MOST_TOLD))


def reached_to_dict(reached: Reached) -> dict[str, Any]:
    """Where the length of the weights stands as plain values."""
    return reached._asdict()


def reached_from_dict(values: Any) -> Reached:
    """What `reached_to_dict` described, refused where it does not fit."""
    values = checks.table("reached", values, Reached._fields)
    (number,) = read_vector("number", [values["number"]], 1).tolist()
    return Reached(number, checks.not_negative("precision", values["precision"], MOST_TOLD))


def lesson_from_dict(values: Mapping[str, Any], problem: Problem, constant: float) -> Lesson:
    """How rows are to learn the length of weights, refused where a slope could be anything but a finite number."""
    weights = read_vector("weights", values["weights"], problem.n_features)
    offset = read_vector("offset", [values["offset"]], 1, MOST_OFFSET)
    prior = checks.positive("prior", values["prior"], 1.0, LARGEST)
    direction = make_direction(weights, constant, problem, offset)
    if not problem.loss_function.smooth or not direction.width >= LEAST_WIDTH:
        raise ValueError("weights must have a length, and problem a loss without a kink, to learn their length")
    lesson = make_lesson(direction, problem, prior)
    clock = lesson.clock
    numbers = np.array([*clock.variance, *clock.curvature, clock.longest])
    if not (np.isfinite(numbers).all() and (numbers > 0.0).all() and -ROUNDING <= lesson.rest < math.inf):
        raise ValueError("weights must have a length that can be learned, got others")
    return lesson


def read_question(policy: Policy, message: dict[str, Any], text: str, opened: Opened) -> tuple[Asked, Answer]:
    """A request for kept rows of a site, if the policy allows it, and what makes the answer once they are charged."""
    kind = str(message["kind"])
    with refusing():
        more = ("heard",) if kind == "shares" else ("weights", "offset", "prior", "reached")
        expect_keys(message, (*JOB_KEYS, *PART_KEYS, "problem", "noise", *more))
        noise, problem = noise_from_dict(message["noise"]), Problem.from_dict(message["problem"])
    asked = check_job(policy, message, text, policy.modes[0], noise, problem, f"/{kind}")
    if not count_rows(opened.scan.rows, asked.kept, asked.tellers, kind):
        raise Refused(f"{policy.name!r} must have rows that are kept for {kind}, got none")
    with refusing():
        if kind == "shares":
            return asked, partial(tell_shares, policy, opened, asked, heard_from_dict(message["heard"], problem))
        lesson = lesson_from_dict(message, problem, scale_rows(policy, asked).unit_constant)
        return asked, partial(tell_length, policy, opened, asked, lesson, reached_from_dict(message["reached"]))


def tell_shares(policy: Policy, opened: Opened, asked: Asked, heard: Heard, tick: Tick) -> dict[str, Any]:
    """What is known of the classes' shares after the site's rows."""
    rows = replace(prepare_site(policy, opened, asked), tick=tick).kept_rows(
        policy.classes[1], [policy.name], describe_constant, CLASS
    )
    count = count_rows(opened.scan.rows, asked.kept, asked.tellers, "shares")
    one = make_asked(policy.name, asked.noise, asked.problem, count)
    return {"heard": heard_to_dict(ask_source(heard, one, rows[policy.name], asked.problem, policy.seed))}


def tell_length(
    policy: Policy, opened: Opened, asked: Asked, lesson: Lesson, reached: Reached, tick: Tick
) -> dict[str, Any]:
    """What is known of the length of the weights after the site's rows."""
    rows = replace(prepare_site(policy, opened, asked), tick=tick).kept_rows(
        policy.classes[1], [policy.name], lesson.describe, LENGTH
    )
    kept = count_kept(opened.scan.rows, asked.kept)
    after = lesson.advance(reached, policy.name, asked.noise, kept, rows[policy.name], policy.seed)
    return {"reached": reached_to_dict(after)}


def scale_rows(policy: Policy, asked: Asked) -> Scale:
    """The scale of a site's rows."""
    scale = read_scale(policy.row_norm, asked.intercept, asked.private)
    assert scale is not None
    return scale


def prepare_site(policy: Policy, opened: Opened, asked: Asked) -> Job:
    """The site's rows as they are released, those of other parts left out."""
    scale = scale_rows(policy, asked)
    return prepare_alone(opened.rows, opened.scan, scale, policy.name, asked.noise, asked.kept, asked.tellers)
