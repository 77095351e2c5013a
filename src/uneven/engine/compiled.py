"""The compiled backend: the loops of `kernels` and `sparse`, and the reference for what they do not know."""

from __future__ import annotations

import numpy as np

from uneven.engine import codes, kernels, matrix, reference, sparse
from uneven.engine.rows import Chunk
from uneven.engine.state import Array, State, Task
from uneven.matrices import is_sparse, refuse_sparse_steps
from uneven.schedules import MatrixClock

NO_TWIN = np.zeros(0)
NO_PENALTY = np.zeros((0, 0))


def advance(state: State, task: Task, chunk: Chunk, rng: np.random.Generator) -> State:
    """Take the steps of one chunk of rows (`Backend`); a noise or loss without compiled form runs by the reference."""
    numbers = _as_numbers(task)
    if numbers is None:
        return reference.advance(state, task, chunk, rng)
    sources, spec = numbers
    counters = codes.encode_state(state, task)
    w, average, twin = state.weights.copy(), state.average.copy(), state.twin
    if is_sparse(chunk.X):
        _refuse_dense_noise(state, task, sources)
        sparse.advance(w, average, counters, chunk.arrays, sources, spec)
    elif isinstance(task.schedule, MatrixClock):
        clock = np.array([task.schedule.variance, task.schedule.curvature])
        penalty = NO_PENALTY if task.penalty is None else np.ascontiguousarray(np.atleast_2d(task.penalty))
        matrix.advance(w, clock, penalty, counters, chunk.arrays, sources, spec, rng)
    else:
        twin = None if twin is None else twin.copy()
        kernels.advance(w, NO_TWIN if twin is None else twin, average, counters, chunk.arrays, sources, spec, rng)
    return codes.decode_state(task, state, counters, w, average, twin)


def measure_gradient(state: State, task: Task, chunk: Chunk, rng: np.random.Generator) -> tuple[Array, State]:
    """Sum of the rows' gradients at the state's weights as the noises release it, and the state with them counted.

    Parameters
    ----------
    state : State
        Its weights do not move.
    task : Task
    chunk : Chunk
    rng : numpy.random.Generator

    Returns
    -------
    total : array of shape (d,)
        The L2 term is not part of it.
    state : State
    """
    numbers = _as_numbers(task)
    if numbers is None:
        return reference.measure_gradient(state, task, chunk, rng)
    sources, spec = numbers
    counters, w = codes.encode_state(state, task), state.weights.copy()
    total = matrix.measure(w, counters, chunk.arrays, sources, spec, rng)
    return total, codes.decode_state(task, state, counters, w, state.average.copy(), state.twin)


def _as_numbers(task: Task) -> tuple[Array, codes.Spec] | None:
    """The task as the loops take it, made once, since it has many chunks; None if a noise or the loss is unknown."""
    kept = vars(task)
    if "_numbers" not in kept:
        sources = codes.encode_sources(task)
        kept["_numbers"] = None if sources is None else (sources, codes.encode_task(task))
    return kept["_numbers"]  # type: ignore[no-any-return]


def _refuse_dense_noise(state: State, task: Task, sources: Array) -> None:
    filled = sources[:, [codes.GAMMA, codes.GAUSSIAN, codes.MEAN, codes.BATCH_GAMMA]].any(axis=1)
    filling = {task.names[k]: task.noises[k] for k in np.flatnonzero(filled)}
    refuse_sparse_steps(task.problem.outputs > 1, filling)
    if state.twin is not None:
        raise ValueError("twin must be False for sparse rows: nothing is added, so the twin is the run itself")
