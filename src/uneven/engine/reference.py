"""The specification: Algorithm 1 of the paper as a plain NumPy loop.

Slow and short. The compiled loops (`kernels`, `sparse`) give the same weights from the same generator, and a noise
that they do not know runs here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from uneven.engine.rows import Chunk
from uneven.engine.state import Array, State, Task
from uneven.matrices import is_sparse
from uneven.noise import SILENT, LocalPrivacy, Noise, Releases, add_gaussian, refuse_longer, round_to_grid, widen_grid
from uneven.problem import Problem
from uneven.schedules import FARTHEST, MatrixClock


def advance(state: State, task: Task, chunk: Chunk, rng: np.random.Generator) -> State:
    """Take one step for each mini-batch of rows, in the order given (`Backend`): w ← Π(w - η_t G(w))."""
    X = (chunk.X.toarray() if is_sparse(chunk.X) else chunk.X).astype(np.float64)
    y, group, problem, b = chunk.y, chunk.group, task.problem, task.problem.batch_size
    for start in range(0, len(y), b):
        batch = slice(start, start + b)
        moment = find_step_moment(state, task, group[batch], len(y[batch]))
        silent, released = Counter(state.silent), Counter(state.released)
        G = release_gradient(task, state.weights, X[batch], y[batch], group[batch], rng, silent, released)
        twin, state = state.twin, take_step(state, task, G, moment, len(y[batch]))
        if twin is not None:
            exact = compute_gradient(task, twin, X[batch], y[batch], group[batch])
            twin = project(twin - state.step_size * exact, problem.ball)
        state = replace(state, twin=twin, silent=silent, released=released)
    return state


def measure_gradient(state: State, task: Task, chunk: Chunk, rng: np.random.Generator) -> tuple[Array, State]:
    """Sum of the rows' gradients at the state's weights as the noises release it (`compiled.measure_gradient`)."""
    w, b, total = state.weights, task.problem.batch_size, np.zeros(task.problem.n_features)
    silent, released = Counter(state.silent), Counter(state.released)
    for start in range(0, len(chunk.y), b):
        batch = slice(start, start + b)
        y, X = chunk.y[batch], chunk.X[batch].astype(np.float64)
        G = release_gradient(task, w, X, y, chunk.group[batch], rng, silent, released)
        total += len(y) * (G - task.problem.alpha * w)
    return total, replace(state, silent=silent, released=released)


def take_step(state: State, task: Task, G: Array, moment: float, rows: int) -> State:
    """State after one step by the gradient G of a mini-batch of so many rows and second moment `moment`."""
    clock, t = state.clock + 1.0 / moment, state.step + 1
    eta = float(task.schedule(t, moment, clock))
    w = move_weights(state, task, G, eta, moment, clock)
    average, weight = extend_average(state, task, w, eta, 1.0 / moment, clock)
    estimates = update_estimates(state, task, G, rows) if task.estimate else state.estimates
    return replace(
        state,
        weights=w,
        step=t,
        clock=clock,
        step_size=eta,
        average=average,
        average_weight=weight,
        last_share=task.average.last_share,
        estimates=estimates,
    )


def move_weights(state: State, task: Task, G: Array, eta: float, moment: float, clock: float) -> Array:
    """Π(w - ηG); for a matrix clock w - η∘G with a step per coordinate, its own L2 term, and a box for a ball."""
    w, problem = state.weights, task.problem
    if not isinstance(task.schedule, MatrixClock):
        return project(w - eta * G, problem.ball)
    if task.penalty is not None:
        G = G + (task.penalty * w if task.penalty.ndim == 1 else task.penalty @ w) - problem.alpha * w
    return np.clip(w - task.schedule.steps(moment, clock) * G, -FARTHEST, FARTHEST)


def compute_row_gradients(task: Task, w: Array, X: Array, y: Array, group: NDArray[np.int64]) -> Array:
    """Gradient of each row's loss, as its own source has it. Shape (m, d)."""
    if not task.mixed:
        return task.noises[0].row_gradients(task.problem, w, X, y)
    rows = np.empty((len(X), task.problem.n_features))
    for k, noise in enumerate(task.noises):
        mine = group == k
        rows[mine] = noise.row_gradients(task.problem, w, X[mine], y[mine])
    return rows


def compute_gradient(task: Task, w: Array, X: Array, y: Array, group: NDArray[np.int64]) -> Array:
    """Gradient of the mini-batch with nothing added."""
    return np.asarray(task.problem.alpha * w + compute_row_gradients(task, w, X, y, group).mean(axis=0))


def release_gradient(
    task: Task,
    w: Array,
    X: Array,
    y: Array,
    group: NDArray[np.int64],
    rng: np.random.Generator,
    silent: Counter[str],
    released: Counter[str],
) -> Array:
    """Gradient of the mini-batch as the noises release it.

    Of several, each row adds its own variance, or each source once. Rows released by direction are counted in
    `released`, and in `silent` if nothing came.
    """
    problem, d = task.problem, task.problem.n_features
    if not task.mixed and not _by_direction(task.noises[0], problem):
        return task.noises[0].gradient(problem, w, X, y, rng)
    rows = compute_row_gradients(task, w, X, y, group)
    members = group if task.mixed else np.zeros(len(y), dtype=np.int64)
    kinds = [task.noises[k] for k in members]
    bounds = {noise: noise.bound(problem) for noise in task.noises}
    for noise in (noise for noise in task.noises if noise.private):
        refuse_longer(rows[[one == noise for one in kinds]], bounds[noise])
    releases = Releases(np.zeros(d))
    for k, noise, row in zip(members, kinds, rows, strict=True):  # rows released each by itself, then other noise
        if isinstance(how := noise.protection, LocalPrivacy) and _by_direction(noise, problem):
            silent[task.names[k]] += releases.add(how, row, bounds[noise], rng) == SILENT
            released[task.names[k]] += 1
        else:
            releases.total += row if noise.is_mixture else noise.release(row[None], bounds[noise], rng)[0]
    total = releases.finish(rng)
    single = [noise for noise in kinds if noise.is_mixture and not noise.once_a_batch]
    spreads = [noise.spread(1, d, bounds[noise], rng) for noise in single]
    once = [noise for k, noise in enumerate(task.noises) if noise.once_a_batch and (members == k).any()]
    spreads += [noise.spread(len(y), d, bounds[noise], rng) for noise in once]
    total = add_gaussian(total, sum(spreads), rng)
    if coarsest := max(noise.grid(d, bounds[noise]) for noise in task.noises):
        cell = widen_grid(coarsest, len(y)) + sum(noise.batch_grid(d, bounds[noise]) for noise in task.noises)
        round_to_grid(total, cell, rng)
    return np.asarray(problem.alpha * w + total / len(y))


def _by_direction(noise: Noise, problem: Problem) -> bool:
    """Whether rows are released by direction, as the compiled loops do it."""
    how = noise.protection
    return isinstance(how, LocalPrivacy) and how.by_direction and noise.compiled(problem) is not None


def find_step_moment(state: State, task: Task, group: NDArray[np.int64], rows: int) -> float:
    """γ² of a mini-batch: stated, or the running mean of ‖G‖² with the stated one as its first term."""
    if task.mixed:
        fixed, per_row = (np.mean([getattr(task.moments[k], part) for k in group]) for part in ("fixed", "per_row"))
        once = sum(task.moments[k].per_batch for k in np.unique(group))
        return float(fixed + (per_row + once / rows) / rows)
    stated = task.moments[0].at(rows)
    if not task.estimate:
        return float(stated)
    total, count = state.estimates.get(task.names[0], (0.0, 0.0))
    full = task.moments[0].at(task.problem.batch_size)
    return float((full + total) / (1.0 + count) * stated / full)  # a short batch is noisier by the stated ratio


def update_estimates(state: State, task: Task, G: Array, rows: int) -> Mapping[str, tuple[float, float]]:
    """Estimates with one more ‖G‖², as if of a full batch: of what was released, so it costs no privacy."""
    total, count = state.estimates.get(task.names[0], (0.0, 0.0))
    as_full = task.moments[0].at(task.problem.batch_size) / task.moments[0].at(rows)
    return {**state.estimates, task.names[0]: (total + float(G @ G) * as_full, count + 1.0)}


def extend_average(
    state: State, task: Task, w: Array, eta: float, precision: float, clock: float
) -> tuple[Array, float]:
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
