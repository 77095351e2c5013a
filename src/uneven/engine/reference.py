"""The specification: Algorithm 1 of the paper as a plain NumPy loop.

Slow and short. The compiled loops (`kernels`, `sparse`) give the same weights from the same generator, and a noise
that they do not know runs here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from uneven.engine.rows import Chunk
from uneven.engine.state import Array, State, Task
from uneven.matrices import is_sparse
from uneven.noise import add_gaussian
from uneven.noise.privacy import refuse_longer


def advance(state: State, task: Task, chunk: Chunk, rng: np.random.Generator) -> State:
    """Take one step for each mini-batch of rows, in the order given (`Backend`): w ← Π(w - η_t G(w))."""
    X = (chunk.X.toarray() if is_sparse(chunk.X) else chunk.X).astype(np.float64)
    y, group, problem, b = chunk.y, chunk.group, task.problem, task.problem.batch_size
    for start in range(0, len(y), b):
        batch = slice(start, start + b)
        moment = step_moment(state, task, group[batch], len(y[batch]))
        clock, t = state.clock + 1.0 / moment, state.step + 1
        eta = task.schedule(t, moment, clock)
        G = noisy_gradient(task, state.weights, X[batch], y[batch], group[batch], rng)
        w = project(state.weights - eta * G, problem.ball)
        twin = state.twin
        if twin is not None:
            twin = project(twin - eta * exact_gradient(task, twin, X[batch], y[batch], group[batch]), problem.ball)
        average, weight = averaged(state, task, w, eta, 1.0 / moment, clock)
        estimates = updated_estimates(state, task, G, len(y[batch])) if task.estimate else state.estimates
        state = State(w, t, clock, float(eta), average, weight, twin, estimates)
    return state


def row_gradients(task: Task, w: Array, X: Array, y: Array, group: NDArray[np.int64]) -> Array:
    """Gradient of each row's loss, as its own source has it. Shape (m, d)."""
    if not task.mixed:
        return task.noises[0].row_gradients(task.problem, w, X, y)
    rows = np.empty_like(X)
    for k, noise in enumerate(task.noises):
        mine = group == k
        rows[mine] = noise.row_gradients(task.problem, w, X[mine], y[mine])
    return rows


def exact_gradient(task: Task, w: Array, X: Array, y: Array, group: NDArray[np.int64]) -> Array:
    """Gradient of the mini-batch with nothing added."""
    return np.asarray(task.problem.alpha * w + row_gradients(task, w, X, y, group).mean(axis=0))


def noisy_gradient(
    task: Task, w: Array, X: Array, y: Array, group: NDArray[np.int64], rng: np.random.Generator
) -> Array:
    """Gradient of the mini-batch as the noises release it; of several, each row adds its own variance."""
    problem = task.problem
    if not task.mixed:
        return task.noises[0].gradient(problem, w, X, y, rng)
    rows, bound = row_gradients(task, w, X, y, group), problem.gradient_norm
    kinds = [task.noises[k] for k in group]
    refuse_longer(rows[[noise.private for noise in kinds]], bound)
    for i, noise in enumerate(kinds):  # first the rows that are released each by itself, then the noise of all others
        if not noise.is_mixture:
            rows[i] = noise.release(rows[i : i + 1], bound, rng)[0]
    spreads = [noise.spread(1, problem.n_features, bound, rng) for noise in kinds if noise.is_mixture]
    return np.asarray(problem.alpha * w + add_gaussian(rows.sum(axis=0), sum(spreads), rng) / len(y))


def step_moment(state: State, task: Task, group: NDArray[np.int64], rows: int) -> float:
    """γ² of a mini-batch: stated, or the running mean of ‖G‖² with the stated one as its first term."""
    if task.mixed:
        fixed = np.mean([task.moments[k].fixed for k in group])
        return float(fixed + np.mean([task.moments[k].per_row for k in group]) / rows)
    stated = task.moments[0].at(rows)
    if not task.estimate:
        return float(stated)
    total, count = state.estimates.get(task.names[0], (0.0, 0.0))
    full = task.moments[0].at(task.problem.batch_size)
    return float((full + total) / (1.0 + count) * stated / full)  # a short batch is noisier by the stated ratio


def updated_estimates(state: State, task: Task, G: Array, rows: int) -> Mapping[str, tuple[float, float]]:
    """Estimates with one more ‖G‖², as if of a full batch: of what was released, so it costs no privacy."""
    total, count = state.estimates.get(task.names[0], (0.0, 0.0))
    as_full = task.moments[0].at(task.problem.batch_size) / task.moments[0].at(rows)
    return {**state.estimates, task.names[0]: (total + float(G @ G) * as_full, count + 1.0)}


def averaged(state: State, task: Task, w: Array, eta: float, precision: float, clock: float) -> tuple[Array, float]:
    """Mean of iterates and its weight, one step on."""
    kind = task.average.kind
    iterate = state.weights if kind == "steps" else w
    late = precision if clock > task.average.after else 0.0
    new = {"last": 0.0, "late": late, "growing": precision * clock, "steps": eta}[kind]
    weight = state.average_weight + new
    if new == 0.0:
        return state.average, weight
    return state.average + new / weight * (iterate - state.average), weight


def project(w: Array, radius: float) -> Array:
    """Closest point of the ball ‖w‖ ≤ radius."""
    norm = float(np.linalg.norm(w))
    return w if norm <= radius else w * (radius / norm)
