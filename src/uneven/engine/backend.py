"""The backend seam: who takes the steps of a chunk of rows. Another device or a remote site plugs in here."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from uneven.engine import compiled, reference
from uneven.engine.rows import Chunk, checked_chunk, find_limit
from uneven.engine.state import State, Task


class Backend(Protocol):
    """A function that takes the steps of one chunk of rows: state in, state out.

    Formal contract (``tests/engine/test_backends.py`` holds every backend to it)

    1. *The reference defines the result.* From the same state, task, chunk and generator, the state returned equals
       that of `reference.advance` up to rounding, and the generator has made the same draws.
    2. *Deterministic given the generator.* All randomness comes from `rng`; called again from the same state and the
       same position of the generator it returns the same state, to the bit. `rng` belongs to this run and source alone.
    3. *Rows in the order given*, in mini-batches of the problem's batch size; the last batch takes what is left.
    4. *State in, state out.* Nothing is kept between calls and no argument is changed: a chunk cut at a batch boundary
       and given in two calls leads to the same state, to the bit.
    5. *Only the rows it was given*: memory of the chunk is used again for the next one, so no reference to it is kept.
    6. *Rows were checked.* `advance` and `fit` pass only chunks of `checked_chunk`: labels of -1 or 1, or 0 to
       K - 1 for K > 2 classes, true squared norms within the task's limit, a source for every row. Privacy rests on
       it: a backend that gets rows by another way must call `advance`. What it cannot compute, it refuses with
       a `ValueError`.
    """

    def __call__(self, state: State, task: Task, chunk: Chunk, rng: np.random.Generator) -> State:
        """Return the state after the chunk's steps."""


BACKENDS: dict[str, Backend] = {"compiled": compiled.advance, "reference": reference.advance}


def advance(
    state: State, task: Task, chunk: Chunk, rng: np.random.Generator, backend: Backend = compiled.advance
) -> State:
    """Check a state and a chunk of rows against the task, and take the chunk's steps.

    Parameters
    ----------
    state : State
        Where the run stands; it is left as it is.
    task : Task
    chunk : Chunk
        Rows in the order of their use. They are checked again: whoever made them need not be trusted.
    rng : numpy.random.Generator
        Draws the noise (`generator`).
    backend : Backend

    Returns
    -------
    State
        The state after the last of the steps.

    Examples
    --------
    >>> import uneven
    >>> plan = uneven.plan([uneven.Source("a", rows=2)], n_features=1, batch_size=1)
    >>> (task,) = uneven.engine.tasks_of(plan)
    >>> chunk = checked_chunk(task.names, np.ones((2, 1)), np.ones(2), numbers=[0, 1])
    >>> advance(State(np.zeros(1)), task, chunk, np.random.default_rng(0)).step
    2
    """
    d = task.problem.n_features
    if not len(state.weights) == len(state.average) == d:
        got = f"{len(state.weights)} and {len(state.average)}"
        raise ValueError(f"state must have weights and average of {d} features, got {got}")
    numbers, limit = np.arange(len(chunk.y)), find_limit(task.problem)
    columns, classes = task.problem.columns, task.problem.classes
    checked = checked_chunk(task.names, chunk.X, chunk.y, numbers, chunk.group, limit, classes)
    if checked.X.shape[1] != columns:
        raise ValueError(f"rows must have {columns} features, got {checked.X.shape[1]}")
    return backend(state, task, checked, rng)
