"""More rows later: the precision clock goes on where it stood, without knowing how much is to come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.engine import State, Task, advance, checked_chunk
from uneven.engine.randomness import generator
from uneven.engine.rows import limit_of
from uneven.engine.state import Average
from uneven.noise import FlippedLabels, Noise
from uneven.planner import Source, plan
from uneven.problem import Problem
from uneven.schedules import Schedule
from uneven.training.flips import unknown
from uneven.training.grouping import Grouped

KEPT = ("noise", "alpha", "batch_size", "loss", "moments", "radius", "fit_intercept", "clip", "row_norm")
"""Settings that the clock, the weights and their scale were made with: they stay as they were."""


@dataclass(frozen=True)
class Course:
    """What all calls agree on: the problem, the clock, what stands for a step's noise, and the settings behind them."""

    problem: Problem
    schedule: Schedule
    moments: str
    estimate: bool
    settings: Mapping[str, Any]

    def refuse_changes(self, settings: Mapping[str, Any]) -> None:
        """Refuse to go on under another setting: it would be ignored, or break what was promised."""
        for name in KEPT:
            if settings[name] != self.settings[name]:
                was, now = checks.shown(self.settings[name]), checks.shown(settings[name])
                raise ValueError(f"{name} must stay {was} for partial_fit to go on, got {now}; fit starts anew")


def course(problem: Problem, noises: Mapping[str, Noise], settings: Mapping[str, Any]) -> Course:
    """Course for sources of these noises, whichever of them come and when: the clock's offset is the cleanest's."""
    estimate = settings["moments"] == "estimated"
    moments = "auto" if estimate else settings["moments"]
    sources = [Source(name, problem.batch_size, one) for name, one in noises.items()]
    planned = plan(sources, **problem.to_dict(), strategy="precision", moments=moments)
    kept = {name: settings[name] for name in KEPT}
    kept["noise"] = dict(kept["noise"]) if isinstance(kept["noise"], Mapping) else kept["noise"]
    return Course(problem, planned.segments[0].schedule, "upper" if estimate else planned.moments, estimate, kept)


def refuse_settings(settings: Mapping[str, Any]) -> None:
    """Refuse what `partial_fit` could only ignore."""
    if settings["strategy"] != "precision":
        raise ValueError(f"strategy must be 'precision' for partial_fit, got {settings['strategy']!r}")
    if settings["average"] not in ("auto", "growing"):
        raise ValueError(
            f"average must be 'auto' or 'growing' for partial_fit: nobody knows how much is to come; got "
            f"{settings['average']!r}"
        )
    if settings["line_search"]:
        raise ValueError(f"line_search must be 0 for partial_fit, got {settings['line_search']}")


def with_known_rates(noises: Mapping[str, Noise], rates: Mapping[str, Any]) -> dict[str, Noise]:
    """Noises with flip rates that a fit before has estimated."""
    known: dict[str, Noise] = {}
    for name in unknown(noises):
        if name not in rates:
            raise ValueError(f"rate of {name!r} must be known for partial_fit, got 'estimate': fit can estimate it")
        known[name] = FlippedLabels(rates[name])
    return {**noises, **known}


def usable(noises: Mapping[str, Noise], rates: Mapping[str, Any], problem: Problem) -> dict[str, Noise]:
    """Noises that may come after a fit to this problem: private ones only if rows have a bound, known rates only."""
    bounded = problem.norms == "largest"
    fit_for = {name: one for name, one in noises.items() if bounded or not one.private}
    return with_known_rates({n: one for n, one in fit_for.items() if n in rates or not unknown({n: one})}, rates)


def grown(state: State, kind: str) -> State:
    """State whose average goes on growing: one over the late clock stands for all of it, ∫τ dτ = τ²/2."""
    return replace(state, average_weight=state.clock**2 / 2.0) if kind == "late" else state


def continued(
    state: State,
    on: Course,
    groups: Grouped,
    unit: Any,
    sign: NDArray[np.float64],
    passes: int,
    seed: int | None,
) -> State:
    """State after these rows, each as often as there are passes, the noisiest source's first."""
    problem = on.problem
    levels = {name: one.moment(on.moments, problem) for name, one in groups.noises.items()}
    for name in sorted(levels, key=lambda name: -levels[name].at(problem.batch_size)):
        mine = groups.rows_of(groups.names.index(name))
        noise = groups.noises[name]
        task = Task(problem, (name,), (noise,), (levels[name],), on.schedule, Average("growing"), on.estimate)
        for _ in range(passes if len(mine) else 0):
            rows = mine[generator(seed, state.step, name, "order").permutation(len(mine))]
            chunk = checked_chunk((name,), unit[rows], sign[rows], rows, limit=limit_of(problem))
            state = advance(state, task, chunk, generator(seed, state.step, name, "noise"))
    return state
