"""Messages between the server and its sites: JSON text that holds names, weights and counts, and nothing of any row.

Floats are written so that they are read back to the bit. The same request is always the same text: a site knows a
repeated one by its digest.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.engine import Average, State, Task
from uneven.noise import Moment, noise_from_dict
from uneven.problem import Problem
from uneven.schedules import MatrixClock, schedule_from_dict, schedule_to_dict

Array = NDArray[np.float64]

LARGEST = 1e9
"""Largest weight, step size or matrix entry in a message.

Privacy rests on it: rows lie in the unit ball, so a margin is at most 1e9·√d and no gradient becomes infinite or NaN,
which a mechanism would pass on."""

MOST_STEPS = 10**15
"""Largest count of steps or rows in a message."""

MOST_BYTES = 50_000_000
"""Longest message: an anchor of 300 columns takes about 15 MB."""

STATE_KEYS = (
    "weights",
    "step",
    "clock",
    "step_size",
    "average",
    "average_weight",
    "estimates",
    "silent",
    "released",
    "last_share",
)
DESCRIPTION_KEYS = ("rows", "features", "columns", "classes", "row_norm", "epsilon", "simulated")
TASK_KEYS = ("problem", "noise", "moment", "schedule", "average", "after", "last_share", "estimate")


def write_message(values: Mapping[str, Any]) -> str:
    """Message as text; NaN and infinity are refused.

    >>> write_message({"kind": "describe", "job": "a"})
    '{"job":"a","kind":"describe"}'
    """
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def read_message(text: str | bytes | bytearray) -> dict[str, Any]:
    """Message from text, or one line that says why it is none."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"a message must have at most {MOST_BYTES:,} bytes, got {len(text):,}")
    try:
        values = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ValueError("a message must be JSON without NaN or infinity, got something else") from None
    if not isinstance(values, dict):
        raise ValueError("a message must be a JSON object, got something else")
    return values


def _refuse_constant(name: str) -> None:
    raise ValueError(f"a message must have finite numbers, got {name}")


def digest(text: str) -> str:
    """What tells one request from another."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_vector(name: str, values: Any, length: int | None = None, largest: float = LARGEST) -> Array:
    """Numbers as an array, refused where they are not as many as expected or beyond `largest`."""
    if not isinstance(values, list) or (length is not None and len(values) != length):
        raise ValueError(f"{name} must be a list of {length} numbers, got {checks.shown(values)}")
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or not (np.abs(array) <= largest).all():
        raise ValueError(f"{name} must hold numbers of at most {largest:g}, got others")
    return array


def matrix_to_text(matrix: Array) -> str:
    """Numbers of a matrix, row by row, as base64: a third of their length in digits.

    >>> matrix_from_text("m", matrix_to_text(np.eye(2)), (2, 2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return base64.b64encode(np.ascontiguousarray(matrix, dtype="<f8").tobytes()).decode("ascii")


def matrix_from_text(name: str, text: Any, shape: tuple[int, int]) -> Array:
    """Matrix that `matrix_to_text` wrote, refused if it has another shape or numbers beyond `LARGEST`."""
    raw = base64.b64decode(checks.text(name, text), validate=True)
    if len(raw) != 8 * shape[0] * shape[1]:
        raise ValueError(f"{name} must be a matrix of shape {shape}, got another")
    matrix = np.frombuffer(raw, dtype="<f8").astype(np.float64).reshape(shape)
    if not (np.abs(matrix) <= LARGEST).all():
        raise ValueError(f"{name} must hold numbers of at most {LARGEST:g}, got others")
    return matrix


def state_to_dict(state: State) -> dict[str, Any]:
    """State as plain values; a noise-free twin is never sent, since it is not private."""
    if state.twin is not None:
        raise ValueError("state must have no twin to be sent: it is learned without noise")
    values = {key: getattr(state, key) for key in STATE_KEYS}
    values["estimates"] = {name: list(pair) for name, pair in state.estimates.items()}
    return {key: one.tolist() if isinstance(one, np.ndarray) else one for key, one in values.items()}


def state_from_dict(values: Any, n_features: int) -> State:
    """State that `state_to_dict` described; refused if it does not fit.

    >>> state = State(np.ones(2), step=3, clock=0.5)
    >>> state_from_dict(state_to_dict(state), 2).weights.tolist()
    [1.0, 1.0]
    """
    values = checks.table("state", values, STATE_KEYS)
    counts = {
        key: {name: checks.whole(key, one, least=0, most=MOST_STEPS) for name, one in values[key].items()}
        for key in ("silent", "released")
    }
    return State(
        weights=read_vector("weights", values["weights"], n_features),
        step=checks.whole("step", values["step"], least=0, most=MOST_STEPS),
        clock=checks.not_negative("clock", values["clock"], 1e100),
        step_size=checks.not_negative("step_size", values["step_size"], 1e100),
        average=read_vector("average", values["average"], n_features),
        average_weight=checks.not_negative("average_weight", values["average_weight"], 1e100),
        estimates={name: _pair(pair) for name, pair in values["estimates"].items()},
        silent=counts["silent"],
        released=counts["released"],
        last_share=checks.not_negative("last_share", values["last_share"], 1.0),
    )


def _pair(values: Any) -> tuple[float, float]:
    total, count = read_vector("estimates", values, 2, 1e18)
    if total < 0.0 or count < 0.0:
        raise ValueError("estimates must hold numbers that are not negative, got others")
    return float(total), float(count)


def read_description(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a site says of itself, refused where something is missing or of another type."""
    features, classes, columns = (values[key] for key in ("features", "classes", "columns"))
    if not isinstance(features, list) or not all(isinstance(one, str) for one in features):
        raise ValueError(f"features must be a list of names, got {checks.shown(features)}")
    if not isinstance(classes, list) or not all(isinstance(one, str | int | float) for one in classes):
        raise ValueError(f"classes must be a list of labels, got {checks.shown(classes)}")
    if not isinstance(columns, dict | None):
        raise ValueError(f"columns must be a mapping or null, got {checks.shown(columns)}")
    if not isinstance(values["simulated"], bool):
        raise ValueError(f"simulated must be true or false, got {checks.shown(values['simulated'])}")
    checks.whole("rows", values["rows"], most=MOST_STEPS)
    checks.positive("row_norm", values["row_norm"])
    if values["epsilon"] is not None:
        checks.positive("epsilon", values["epsilon"])
    return {key: values[key] for key in DESCRIPTION_KEYS}


def read_answer(values: Mapping[str, Any], n_features: int, sizes: Collection[int]) -> dict[str, Any]:
    """A site's answer to a step, refused if it does not fit a batch of such a size; one of silent rows has no total."""
    rows = checks.whole("rows", values["rows"], most=MOST_STEPS)
    if rows not in sizes:
        raise ValueError(f"rows must be those of a batch, {' or '.join(map(str, sizes))}, got {rows}")
    released = checks.whole("released", values["released"], least=0, most=rows)
    counts = {"silent": checks.whole("silent", values["silent"], least=0, most=released), "released": released}
    nothing = values["total"] == [] and counts["silent"] == rows
    total = [] if nothing else read_vector("total", values["total"], n_features, 1e18).tolist()
    return {"total": total, "rows": rows, **counts}


def task_to_dict(task: Task) -> dict[str, Any]:
    """Task of one source as plain values."""
    (noise,), (moment,) = task.noises, task.moments
    return {
        "problem": task.problem.to_dict(),
        "noise": noise.to_dict(),
        "moment": list(vars(moment).values()),
        "schedule": schedule_to_dict(task.schedule),
        "average": task.average.kind,
        "after": task.average.after,
        "last_share": task.average.last_share,
        "estimate": task.estimate,
    }


def task_from_dict(values: Any, name: str) -> Task:
    """Task that `task_to_dict` described, for the source of this name; refused where a step could be wild."""
    if not isinstance(values, Mapping):
        raise ValueError(f"task must be a mapping, got {checks.shown(values)}")
    checks.only_keys("task", values, TASK_KEYS)
    checks.needed_keys("task", values, TASK_KEYS)
    moment = Moment(*read_vector("moment", values["moment"], len(fields(Moment)), 1e18).tolist())
    task = Task(
        Problem.from_dict(values["problem"]),
        (name,),
        (noise_from_dict(values["noise"]),),
        (moment,),
        schedule_from_dict(values["schedule"]),
        Average(
            values["average"],
            checks.not_negative("after", values["after"], 1e100),
            checks.not_negative("last_share", values["last_share"], 1.0),
        ),
        bool(values["estimate"]),
    )
    _refuse_wild(task)
    return task


def _refuse_wild(task: Task) -> None:
    """Refuse step sizes that could take the weights to infinity, where a mechanism would pass NaN on.

    Every schedule's largest step is its first: the clock and the step count grow.
    """
    if task.problem.classes != 2 or isinstance(task.schedule, MatrixClock):
        raise ValueError("task must be of two classes, with one step size for all weights; got another")
    moment = task.moments[0].at(task.problem.batch_size)
    if not (moment >= 1e-18 and min(vars(task.moments[0]).values()) >= 0.0 and task.problem.ball <= LARGEST):
        raise ValueError("task must have positive moments and a ball of at most 1e9, got others")
    if not 0.0 <= float(task.schedule(1, moment, 1.0 / moment)) <= LARGEST:
        raise ValueError(f"task must have steps of at most {LARGEST:g}, got longer ones")
