"""The steps of one source, where its rows are: all of them at once (relay), or one mini-batch at a time (oracle)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.engine import (
    Chunk,
    State,
    Task,
    check_rows,
    compiled_advance,
    find_step_moment,
    iterate_chunks,
    make_generator,
    measure_gradient,
    take_step,
)

Array = NDArray[np.float64]
Tick = Callable[[int], None]
NO_GROUP = np.zeros(0, dtype=np.int64)
TOLERANCE = 1e-6
"""Of rounding, in sums of many steps."""


def run_segment(state: State, task: Task, data: Any, seed: int | None, tick: Tick = lambda _: None) -> State:
    """State after one pass over the rows of one source, each gradient made private before it touches the weights.

    Draws are those of a local run: with the same seed the states are equal to the bit.
    """
    (name,) = task.names
    noise = make_generator(seed, 0, name, "noise")
    for chunk in _chunks(task, data, seed):
        state = compiled_advance(state, task, chunk, noise)
        tick(len(chunk.y))
    return state


def _chunks(task: Task, data: Any, seed: int | None, steps: int | None = None) -> Iterator[Chunk]:
    (name,) = task.names
    rows = check_rows(name, data, task.problem.n_features)
    return iterate_chunks((name,), [rows], task.problem, make_generator(seed, 0, name, "order"), steps)


class Batches:
    """Mini-batches of one source that answer one after the other, each once.

    Parameters
    ----------
    task : Task
    data : (X, y) or Stream
    order : int
        Seed of the rows' order, so that batches that were used before can be passed over.
    used : int
        How many were.
    seed : int or None
        Of the noise; None draws it from a cryptographic generator.
    rows : int
        How many there are in all, to tell how far it is.
    """

    def __init__(self, task: Task, data: Any, order: int, used: int, seed: int | None, rows: int = 0) -> None:
        self.task, self.next, self._noise = task, used, make_generator(seed, 0, task.names[0], "noise")
        self.done, self.rows = used * task.problem.batch_size, rows
        self._left = islice(_chunks(task, data, order, steps=1), used, None)

    def answer(self, weights: Array) -> dict[str, Any] | None:
        """Sum of the next batch's gradients at the weights as the noise releases them; None when none is left.

        A batch of which every row was silent has nothing to say: its sum, the rounding's own noise, is left out.
        """
        chunk = next(self._left, None)
        if chunk is None:
            return None
        self.next, self.done = self.next + 1, self.done + len(chunk.y)
        total, state = measure_gradient(State(weights), self.task, chunk, self._noise)
        (silent,), (released,) = state.silent.values() or (0,), state.released.values() or (0,)
        return {
            "total": [] if silent == len(chunk.y) else total.tolist(),
            "rows": len(chunk.y),
            "silent": silent,
            "released": released,
        }


def apply_answer(state: State, task: Task, answer: dict[str, Any]) -> State:
    """State after the step that the server takes by a site's answer: w ← Π(w - η(λw + total/m))."""
    (name,), rows = task.names, int(answer["rows"])
    total = np.array(answer["total"] or np.zeros(task.problem.n_features))
    gradient = task.problem.alpha * state.weights + total / rows
    after = take_step(state, task, gradient, find_step_moment(state, task, NO_GROUP, rows), rows)
    counts = {key: {**getattr(state, key)} for key in ("silent", "released")}
    if answer["released"]:
        for key, held in counts.items():
            held[name] = held.get(name, 0) + int(answer[key])
    return State(**{**vars(after), **counts})


def check_segment(before: State, after: State, task: Task, rows: int) -> State:
    """State after a segment of so many rows, refused where it is more than their own steps can make of the one before.

    A wild count, clock or weight would make later sites fail, after these had charged their rows.
    """
    (name,), size = task.names, task.problem.batch_size
    steps, short = -(-rows // size), rows % size or size
    check_counts(before, after, name, rows)
    if after.step != before.step + steps:
        raise ValueError(f"state must be {steps} steps on, got {after.step - before.step}")
    least, least_short = task.moments[0].at(size), task.moments[0].at(short)
    passed, expected = after.clock - before.clock, (steps - 1) / least + 1.0 / least_short
    count = after.estimates.get(name, (0.0, 0.0))[1]
    if task.estimate and count != before.estimates.get(name, (0.0, 0.0))[1] + steps:
        raise ValueError("estimates must be of every step, got others")
    if not (0.0 < passed <= (1.0 + count) * expected if task.estimate else abs(passed / expected - 1.0) <= TOLERANCE):
        raise ValueError(f"clock must be that of {steps} steps, got another")
    longest = max(float(np.linalg.norm(one)) for one in (after.weights, after.average))
    most = max(task.problem.ball, *(float(np.linalg.norm(one)) for one in (before.weights, before.average)))
    if longest > most * (1.0 + TOLERANCE):  # a start at the classes' shares may be beyond the ball
        raise ValueError(f"weights must lie in the ball of radius {task.problem.ball:g}, got others")
    return after


def check_counts(before: State, after: State, name: str, rows: int) -> None:
    """Refuse a state whose counts have grown by more than the rows of one source, or under other names."""
    for key in ("silent", "released", "estimates"):
        old, new = ({**getattr(one, key)} for one in (before, after))
        new.pop(name, None), old.pop(name, None)
        if new != old:
            raise ValueError(f"{key} must grow under the name {name!r} alone, got others")
    more = [getattr(after, key).get(name, 0) - getattr(before, key).get(name, 0) for key in ("silent", "released")]
    if not (0 <= more[0] <= more[1] <= rows and 0 <= after.step - before.step <= rows):
        raise ValueError(f"counts must grow by at most {rows}, got others")
