"""More rows later: the precision clock goes on where it stood, without knowing how much is to come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.engine import State, Task, advance, checked_chunk
from uneven.engine.state import Average
from uneven.engine.streams import generator
from uneven.estimator.prepare import Grouped
from uneven.noise import Noise
from uneven.problem import Problem
from uneven.schedules import Precision
from uneven.theory import theorem_c_offset


def schedule(problem: Problem, noises: Iterable[Noise], moments: str) -> Precision:
    """Clock for sources of these noises, whichever of them come and when: its offset is that of the cleanest."""
    which = _moments(problem, moments)
    if which != "variance":
        return Precision(problem.alpha)
    cleanest = min(one.moment(which, problem).at(problem.batch_size) for one in noises)
    return Precision(problem.alpha, theorem_c_offset(1 / cleanest, problem.alpha, problem.smoothness, problem.ball))


def continued(
    state: State,
    problem: Problem,
    clock: Precision,
    groups: Grouped,
    unit: Any,
    sign: NDArray[np.float64],
    moments: str,
    seed: int | None,
) -> State:
    """State after these rows, each once, the noisiest source's first."""
    which = _moments(problem, moments)
    levels = {name: one.moment(which, problem) for name, one in groups.noises.items()}
    for name in sorted(levels, key=lambda name: -levels[name].at(problem.batch_size)):
        rows = groups.rows_of(groups.names.index(name))
        rows = rows[generator(seed, state.step, name, "order").permutation(len(rows))]
        noise = groups.noises[name]
        task = Task(problem, (name,), (noise,), (levels[name],), clock, Average("growing"), moments == "estimated")
        chunk = checked_chunk((name,), unit[rows], sign[rows], rows)
        state = advance(state, task, chunk, generator(seed, state.step, name, "noise"))
    return state


def _moments(problem: Problem, moments: str) -> str:
    return "variance" if problem.loss_function.smooth and moments in ("auto", "variance") else "upper"
