"""Releases by the million, from the very code that makes them elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uneven.audit.pairs import BATCH, Array
from uneven.engine import NO_GROUP, Task, codes, kernels, matrix
from uneven.noise import Exact, LocalPrivacy, Noise
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


def draw_by_release(noise: Releases, problem: Problem) -> Draw:
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


def draw_by_batches(noise: Sums, problem: Problem) -> Draw:
    """Draw by the noise's own `release_sum`, batch by batch: what leaves a site. The input is the sums of the batches.

    Only the sum of a batch matters, so its rows are taken to be alike.
    """
    bound = problem.gradient_norm

    def draw(v: Array, count: int, rng: np.random.Generator) -> Array:
        rows = [np.tile(bound * total / BATCH, (BATCH, 1)) for total in v.reshape(-1, problem.n_features)]
        released = [[noise.release_sum(batch, bound, rng) for batch in rows] for _ in range(count)]
        return np.array(released).reshape(count, -1) / bound

    return draw


def draw_by_engine_batches(noise: Noise, problem: Problem, drawn_by: str = "engine") -> dict[str, Draw] | None:
    """The same by the engine's compiled loops, on each batch from w = 0; None if the noise has no compiled form."""
    draw_one = draw_by_engine(noise, problem, BATCH, drawn_by)
    if draw_one is None:
        return None

    def draw(v: Array, count: int, rng: np.random.Generator) -> Array:
        return np.hstack([draw_one(total, count, rng) for total in v.reshape(-1, problem.n_features)])

    return {"": draw}


def draw_by_engine_in_all_ways(noise: Noise, problem: Problem, drawn_by: str = "engine") -> dict[str, Draw] | None:
    """Draw by the engine's compiled loops, in batches that they treat differently; None if there is no compiled form.

    Rows beside the audited one have a gradient of zero: with noise of the same law, or none.
    """
    ways = {
        "": draw_by_engine(noise, problem, 1, drawn_by),
        ", in a batch of two": draw_by_engine(noise, problem, 1, drawn_by, [noise]),
        ", beside a row without privacy": draw_by_engine(noise, problem, 1, drawn_by, [Exact()]),
    }
    if isinstance(noise, LocalPrivacy):  # other noises are not the same among more classes
        ways[", among three classes"] = draw_by_engine_among_classes(noise, problem, drawn_by)
    return {words: draw for words, draw in ways.items() if draw is not None} or None


def draw_by_engine(
    noise: Noise, problem: Problem, size: int = 1, drawn_by: str = "engine", beside: Sequence[Noise] = ()
) -> Draw | None:
    """Draw by the engine's compiled loop on a batch of `size` rows alike; None if the noise has no compiled form.

    From w = 0 a step of size 1 on the linear loss moves w by minus the released gradient. A row of norm 1 has gradients
    of norm 1 there, so that a smaller C is the engine's own clip at work. Each noise in `beside` has a row of zeros.
    """
    m, kinds = size + len(beside), tuple(dict.fromkeys((noise, *beside)))
    batch = Problem(problem.n_features, 1e-18, m, "linear", "paper", problem.clip)
    bound = batch.gradient_norm
    group = np.array([kinds.index(one) for one in (*[noise] * size, *beside)]) if len(kinds) > 1 else NO_GROUP
    repeat = _repeating(batch, kinds, group, np.full(m, -1.0), drawn_by)
    if repeat is None:
        return None

    def draw(v: Array, count: int, rng: np.random.Generator) -> Array:
        v = v / size
        full = np.linalg.norm(v) > 1.0 - 1e-9
        X = np.zeros((m, len(v)), dtype=np.float32)
        X[:size] = v if full else bound * v
        return repeat(X, count, rng) * (m / bound)

    return draw


def draw_by_engine_among_classes(noise: LocalPrivacy, problem: Problem, drawn_by: str = "engine") -> Draw | None:
    """The same with K = 3 classes: a row x of class 0 has the gradient a⊗x at w = 0, a = (1/K, ...) - (1, 0, ...).

    Returned is what is released along a, in units of the longest gradient there: C, or ‖a‖ if that is less.
    """
    K = 3
    along = np.full(K, 1.0 / K) - np.eye(K)[0]
    one_row = Problem(K * problem.n_features, 1e-18, 1, "logistic", "paper", problem.clip, classes=K)
    long = float(np.linalg.norm(along))
    reach = min(one_row.gradient_norm, long)
    repeat = _repeating(one_row, (noise,), NO_GROUP, np.zeros(1), drawn_by)
    if repeat is None:
        return None

    def draw(v: Array, count: int, rng: np.random.Generator) -> Array:
        full = np.linalg.norm(v) > 1.0 - 1e-9
        X = np.asarray(v if full else reach / long * v, dtype=np.float32)[None]
        return np.asarray(along / (long * reach) @ repeat(X, count, rng).reshape(count, K, len(v)))

    return draw


def _repeating(
    problem: Problem, noises: tuple[Noise, ...], group: Any, y: Array, drawn_by: str
) -> Callable[[NDArray[np.float32], int, np.random.Generator], Array] | None:
    """Draws released means of the gradients of rows X, again and again; None if a noise has no compiled form."""
    names, moments = tuple(map(str, range(len(noises)))), tuple(noise.moment("upper", problem) for noise in noises)
    task = Task(problem, names, noises, moments, Rate(1.0))
    spec, sources, loop = codes.encode_task(task), codes.encode_sources(task), LOOPS[drawn_by]
    if sources is None:
        return None

    def repeat(X: NDArray[np.float32], count: int, rng: np.random.Generator) -> Array:
        released = np.empty((count, problem.n_features))
        loop(released, (X, y, group, kernels.square_norms(X)), sources, spec, rng)
        return released

    return repeat


@njit(cache=True, nogil=True)
def _step_again(released: Any, rows: Any, sources: Any, spec: Any, rng: Any) -> None:
    """The same first step again and again; each time minus where it leads."""
    d = released.shape[1]
    w, average, counters, none = np.empty(d), np.zeros(d), np.empty(codes.TALLY + 2 * len(sources)), np.zeros(0)
    for i in range(released.shape[0]):
        w[:] = 0.0
        counters[:] = 0.0
        kernels.advance(w, none, average, counters, rows, sources, spec, rng)
        for j in range(d):
            released[i, j] = -w[j]


@njit(cache=True, nogil=True)
def _measure_again(released: Any, rows: Any, sources: Any, spec: Any, rng: Any) -> None:
    """The same measurement at w = 0 again and again: the mean of the rows' gradients as it is released."""
    w, counters = np.zeros(released.shape[1]), np.zeros(codes.TALLY + 2 * len(sources))
    for i in range(released.shape[0]):
        released[i] = matrix.measure(w, counters, rows, sources, spec, rng) / rows[1].shape[0]


LOOPS = {"engine": _step_again, "measure": _measure_again}


def split_total(total: int, n_features: int) -> Iterator[int]:
    """Sizes that add up to `total`, none of them with too many numbers for memory.

    >>> list(split_total(5_000, 500))
    [2097, 2097, 806]
    """
    most = max(1, NUMBERS // n_features)
    for start in range(0, total, most):
        yield min(most, total - start)
