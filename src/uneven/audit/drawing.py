"""Releases by the million, from the very code that makes them elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numba import njit

from uneven.audit.pairs import BATCH
from uneven.engine import NO_GROUP, Task, codes, kernels, matrix
from uneven.noise import Noise
from uneven.noise.base import Array
from uneven.problem import Problem
from uneven.schedules import Rate

DRAWN_BY = ("release", "engine", "measure")
"""Who draws: ``release`` as a site does, row by row; ``engine`` as the compiled step of a run does; ``measure`` as the
compiled measurement without a step, which an anchored run begins with and a site answers step by step with."""

NUMBERS = 1 << 20
"""How many numbers to draw at a time."""

Draw = Callable[[Array, int, np.random.Generator], Array]
"""An input of norm at most 1, how many releases of it, and a generator; returns them in units of C, shape (n, d)."""


class Sums(Protocol):
    """A release of sums of batches."""

    def release_sum(self, gradients: Array, bound: float, rng: np.random.Generator) -> Array:
        """Release the sum of gradients of norm at most `bound`."""


class Releases(Protocol):
    """What can be audited: anything that releases gradients at a stated ε."""

    @property
    def epsilon_per_row(self) -> float | None:
        """ε of one release."""

    def release(self, gradients: Array, bound: float, rng: np.random.Generator) -> Array:
        """Release gradients of norm at most `bound`, row by row."""


def by_release(noise: Releases, problem: Problem) -> Draw:
    """Draw by the noise's own `release`: what a site does that sends its rows one by one."""
    bound = problem.gradient_norm

    def draw(v: Array, count: int, rng: np.random.Generator) -> Array:
        return _released(noise, np.tile(bound * v, (count, 1)), bound, rng) / bound

    return draw


def _released(noise: Releases, gradients: Array, bound: float, rng: np.random.Generator) -> Array:
    """What the noise releases, if it is as many rows of as many numbers; the noise may be another's code."""
    must = f"release of mechanism {type(noise).__name__} must return one row of numbers for each gradient"
    try:
        released = np.asarray(noise.release(gradients, bound, rng), dtype=np.float64)
    except Exception as error:
        raise ValueError(f"{must}, but failed ({type(error).__name__}: {error})") from error
    if released.shape != gradients.shape:
        raise ValueError(f"{must}, of shape {gradients.shape}; got shape {released.shape}")
    return released


def by_batches(noise: Sums, problem: Problem) -> Draw:
    """Draw by the noise's own `release_sum`, batch by batch: what leaves a site. The input is the sums of the batches.

    Only the sum of a batch matters, so its rows are taken to be alike.
    """
    bound = problem.gradient_norm

    def draw(v: Array, count: int, rng: np.random.Generator) -> Array:
        rows = [np.tile(bound * total / BATCH, (BATCH, 1)) for total in v.reshape(-1, problem.n_features)]
        released = [[noise.release_sum(batch, bound, rng) for batch in rows] for _ in range(count)]
        return np.array(released).reshape(count, -1) / bound

    return draw


def by_engine_batches(noise: Noise, problem: Problem, drawn_by: str = "engine") -> Draw | None:
    """The same by the engine's compiled loops, on each batch from w = 0; None if the noise has no compiled form."""
    draw_one = by_engine(noise, problem, BATCH, drawn_by)
    if draw_one is None:
        return None

    def draw(v: Array, count: int, rng: np.random.Generator) -> Array:
        return np.hstack([draw_one(total, count, rng) for total in v.reshape(-1, problem.n_features)])

    return draw


def by_engine(noise: Noise, problem: Problem, size: int = 1, drawn_by: str = "engine") -> Draw | None:
    """Draw by the engine's compiled loop on a batch of `size` rows alike; None if the noise has no compiled form.

    From w = 0 a step of size 1 on the linear loss moves w by minus the released gradient. A row of norm 1 has gradients
    of norm 1 there, so that a smaller C is the engine's own clip at work.
    """
    one_row = Problem(problem.n_features, 1e-18, size, "linear", "paper", problem.clip)
    bound = one_row.gradient_norm
    task = Task(one_row, ("audited",), (noise,), (noise.moment("upper", one_row),), Rate(1.0))
    spec, sources, repeat = codes.spec_of(task), codes.sources_of(task), LOOPS[drawn_by]
    if sources is None:
        return None

    def draw(v: Array, count: int, rng: np.random.Generator) -> Array:
        v = v / size
        full = np.linalg.norm(v) > 1.0 - 1e-9
        row = np.tile(np.asarray(v if full else bound * v, dtype=np.float32), (size, 1))
        rows = row, np.full(size, -1.0), NO_GROUP, kernels.squares_of(row)
        released = np.empty((count, problem.n_features))
        repeat(released, rows, sources, spec, rng)
        return released * (size / bound)

    return draw


@njit(cache=True, nogil=True)
def _step_again(released: Any, rows: Any, sources: Any, spec: Any, rng: Any) -> None:
    """The same first step again and again; each time minus where it leads."""
    d = released.shape[1]
    w, average, counters, none = np.empty(d), np.zeros(d), np.empty(codes.TALLY + 2), np.zeros(0)
    for i in range(released.shape[0]):
        w[:] = 0.0
        counters[:] = 0.0
        kernels.advance(w, none, average, counters, rows, sources, spec, rng)
        for j in range(d):
            released[i, j] = -w[j]


@njit(cache=True, nogil=True)
def _measure_again(released: Any, rows: Any, sources: Any, spec: Any, rng: Any) -> None:
    """The same measurement at w = 0 again and again: the mean of the rows' gradients as it is released."""
    w, counters = np.zeros(released.shape[1]), np.zeros(codes.TALLY + 2)
    for i in range(released.shape[0]):
        released[i] = matrix.measure(w, counters, rows, sources, spec, rng) / rows[1].shape[0]


LOOPS = {"engine": _step_again, "measure": _measure_again}


def pieces(total: int, n_features: int) -> Iterator[int]:
    """Sizes that add up to `total`, none of them with too many numbers for memory.

    >>> list(pieces(5_000, 500))
    [2097, 2097, 806]
    """
    most = max(1, NUMBERS // n_features)
    for start in range(0, total, most):
        yield min(most, total - start)
