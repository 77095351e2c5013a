"""The private stage by the engine's reference, for tests of what the anchor expects of it."""

from types import SimpleNamespace

import numpy as np
import pytest

from uneven import Exact, Problem
from uneven.engine import State, Task, checked_chunk, reference
from uneven.noise import Moment
from uneven.schedules import MatrixClock


def task_of(c, noise, row_precision, batch_size=50):
    """Steps of Theorem D in the coordinates, for releases of precision d/γ² a row."""
    d = len(c.start)
    problem = Problem(n_features=d, alpha=c.ridge[0], batch_size=batch_size, clip=c.clip)
    clock = MatrixClock(tuple(c.variance), tuple(c.curvature), c.longest_step)
    return Task(problem, ("rows",), (noise,), (Moment(0.0, d / row_precision),), clock, penalty=c.penalty)


def chunk_of(c, X, y):
    """Rows in the coordinates."""
    return checked_chunk(("rows",), X @ c.transform.T, y, np.arange(len(y)), limit=float("inf"))


def run(c, noise, X, y, row_precision, rng, state=None):
    """State after one step for each 50 rows."""
    state = State(c.start) if state is None else state
    return reference.advance(state, task_of(c, noise, row_precision), chunk_of(c, X, y), rng)


def mean_gradient(c, noise, X, y, rng):
    """Mean of the releases at the start, plus the L2 term's gradient there."""
    problem, Z = task_of(c, noise, 1.0).problem, X @ c.transform.T
    G = noise.gradient(problem, c.start, Z, y, rng) - problem.alpha * c.start
    return G + c.gradient_of_penalty(c.start)


def row_gradients(c, u, X, y):
    """Clipped gradients of the rows in the coordinates."""
    return Exact().row_gradients(task_of(c, Exact(), 1.0).problem, u, X @ c.transform.T, y)


@pytest.fixture(scope="session")
def loop():
    """The functions above."""
    return SimpleNamespace(run=run, mean_gradient=mean_gradient, row_gradients=row_gradients)
