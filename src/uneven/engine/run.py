"""Run a plan over rows: one pass, each row once, constant memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.engine import compiled
from uneven.engine.backend import Backend
from uneven.engine.chunks import iterate_chunks
from uneven.engine.labels import randomise_labels
from uneven.engine.plans import PlanLike, SegmentLike, tasks_of
from uneven.engine.randomness import check_seed, make_generator
from uneven.engine.rows import Arrays
from uneven.engine.state import Array, State, Task, initial_state
from uneven.engine.streams import Rows, Stream, check_rows
from uneven.noise import Activity


@dataclass(frozen=True)
class Path:
    """A thinned record of a run: one entry per point, arrays of one length.

    Attributes
    ----------
    step, step_size, norm, objective : arrays
        Step size and norm are the iterate's; `objective` is what `evaluate` said of the answer so far, NaN without.
    source : tuple of str
    """

    step: NDArray[np.int64]
    step_size: Array
    norm: Array
    objective: Array
    source: tuple[str, ...]


@dataclass(frozen=True)
class Fit:
    """Result of a run: the weights to use, the state it ended in, and its path if one was recorded.

    `activity` is the mean of ‖g‖/C of each private source that can be silent, found beside planned.
    """

    state: State
    path: Path | None = None
    activity: Mapping[str, Activity] = field(default_factory=dict)

    @property
    def weights(self) -> Array:
        """Weights to use: the average that was asked for, or the last iterate."""
        return self.state.answer


def fit(
    plan: PlanLike,
    data: Mapping[str, Any],
    *,
    seed: int | None = None,
    average: str = "auto",
    twin: bool = False,
    estimate: bool = False,
    record: int = 0,
    evaluate: Callable[[Array], float] | None = None,
    passes: int = 1,
    start: Array | None = None,
    backend: Backend = compiled.advance,
) -> Fit:
    """Run a plan: one pass over each source in the plan's order, each row once.

    Parameters
    ----------
    plan : Plan
        What to run.
    data : dict
        For each source's name, its rows: ``(X, y)`` with X an array, a memory map or a CSR matrix of shape (n, d)
        with rows in the unit ball (or, where the problem's norms are "rms", of a mean square of at most 1, which is
        yours to see to) and y of -1 and 1, of 0 to K - 1 for K > 2 classes; or a `Stream`. Labels of a
        source of `LabelPrivacy` are randomised here.
    seed : int or None
        None draws from the operating system's entropy and cannot be repeated; a seed is for simulations.
    average : {"auto", "last", "late", "growing", "steps"}
        Which iterates the answer is made of (`AVERAGES`).
    twin : bool
        Also run the noise-free twin: same rows, same order, same steps, nothing added. Compare it with
        ``state.weights``, the last iterate. It is not private: for simulations.
    estimate : bool
        Learn each source's γ² from the gradients released so far, instead of taking the plan's.
    record : int
        Number of points of the path to keep; 0 for none.
    evaluate : callable
        Objective of a weight vector, for the path.
    passes : int
        Times each source is gone through, each time in a new order and with a short batch at its end, before the next
        one's turn. The plan's rows are those of all passes together; private rows pay for each.
    start : array of shape (d,) or None
        Weights before the first step; None means 0.
    backend : Backend
        Who takes the steps: the compiled loops, ``uneven.engine.reference.advance``, or another device or site.

    Returns
    -------
    Fit

    Examples
    --------
    >>> import numpy as np, uneven
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3)); X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> plan = uneven.plan([uneven.Source("a", rows=1000, noise=uneven.LocalPrivacy(epsilon=5))], n_features=3)
    >>> fitted = uneven.fit(plan, {"a": (X, y)}, seed=1)
    >>> bool(np.mean(np.sign(X @ fitted.weights) == y) > 0.9)
    True
    """
    if twin and check_seed(seed) is None and hasattr(plan, "sources") and any(s.noise.private for s in plan.sources):
        raise ValueError("twin must be False where rows are private and there is no seed: it is learned without noise")
    checks.whole("record", record, least=0)
    seed, rows = check_seed(seed), check_data(plan, data, checks.whole("passes", passes))
    rows = randomise_labels(plan, rows, seed)
    recorder = _Recorder(sum(s.steps for s in plan.segments), record, evaluate) if record else None
    tasks = tasks_of(plan, average, estimate)
    options = {"twin": twin, "passes": passes, "recorder": recorder, "start": start, "backend": backend}
    (state,) = run_together(plan, [tasks], rows, seed, **options)  # type: ignore[arg-type]
    activity = state.find_activity({s.name: s.noise.observed_among(plan.problem.classes) for s in plan.sources})
    return Fit(state, recorder.path() if recorder else None, activity)


def run_together(
    plan: PlanLike,
    tasks: Sequence[Sequence[Task]],
    rows: Mapping[str, Rows],
    seed: int | None,
    *,
    twin: bool = False,
    run: int = 0,
    passes: int = 1,
    recorder: _Recorder | None = None,
    stop: Callable[[], bool] = lambda: False,
    start: Array | None = None,
    backend: Backend = compiled.advance,
) -> list[State]:
    """Run several plans that use the same sources in the same order, in batches of the same sizes, over one reading.

    `plan` is one of them, `tasks` has a list for each. Rows come in the same random order for all, and each plan's
    noise from a stream of its own that starts from the same seed: common random numbers.
    """
    states = [initial_state(plan.problem.n_features, twin, start) for _ in tasks]
    for k, segment in enumerate(plan.segments):
        name, used, batched = " + ".join(segment.sources), 0, tasks[0][k].problem
        noise = [make_generator(seed, run, name, "noise") for _ in tasks]
        order, sources = make_generator(seed, run, name, "order"), [rows[name] for name in segment.sources]
        most = recorder.every if recorder else None
        for chunk in chain.from_iterable(
            iterate_chunks(segment.sources, sources, batched, order, most) for _ in range(passes)
        ):
            states = [
                backend(state, task[k], chunk, rng) for state, task, rng in zip(states, tasks, noise, strict=True)
            ]
            used += len(chunk.y)
            _refuse_count(segment, used, exactly=False)
            if recorder:
                recorder.see(states[0], segment.sources)
            if stop():
                raise KeyboardInterrupt
        _refuse_count(segment, used)
    return states


def check_data(plan: PlanLike, data: Mapping[str, Any], passes: int = 1) -> dict[str, Rows]:
    """Rows of every source that the plan uses, refused where they are missing or not as many as it says."""
    if not hasattr(plan, "segments"):
        raise ValueError(f"plan must be an uneven.Plan, got {checks.shown(plan)}")
    if not isinstance(data, Mapping):
        raise ValueError(f"data must be a dict of names and rows, got {checks.shown(type(data).__name__)}")
    names = [name for segment in plan.segments for name in segment.sources]
    if unknown := [name for name in data if name not in {source.name for source in plan.sources}]:
        raise ValueError(f"data must have the plan's sources only, got {unknown[0]!r}")
    if len(set(names)) < len(names):
        raise ValueError("plan must use each source once: every row is used once")
    checked: dict[str, Rows] = {}
    stated = {source.name: source.rows for source in plan.sources}
    stated |= {segment.sources[0]: segment.rows for segment in plan.segments if len(segment.sources) == 1}
    for name in names:
        if name not in data:
            raise ValueError(f"data must have rows for every source of the plan; {name!r} is missing")
        rows = checked[name] = check_rows(name, data[name], plan.problem.columns, plan.problem.classes)
        if isinstance(rows, Arrays) and passes * len(rows) != stated[name]:
            got = f"{len(rows):,}" if passes == 1 else f"{passes} passes of {len(rows):,}"
            raise ValueError(f"source {name!r} must have the {stated[name]:,} rows the plan says, got {got}")
        if passes > 1 and isinstance(rows, Stream) and isinstance(rows.pieces, Iterator):
            raise ValueError(f"passes must be 1 for source {name!r}: a stream can be read only once; got {passes}")
    return checked


def _refuse_count(segment: SegmentLike, used: int, exactly: bool = True) -> None:
    stated = segment.rows
    if used > stated or (exactly and used < stated):
        got = f"{used:,}" if exactly else "more"
        raise ValueError(f"source {segment.sources[0]!r} must have the {stated:,} rows the plan says, got {got}")


class _Recorder:
    """Keeps a thinned path while a run goes on."""

    def __init__(self, steps: int, points: int, evaluate: Callable[[Array], float] | None) -> None:
        self.steps, self.every, self.evaluate = steps, -(-steps // points), evaluate
        self.entries: list[tuple[int, float, float, float, str]] = []

    def see(self, state: State, names: Sequence[str]) -> None:
        due = self.entries[-1][0] + self.every if self.entries else 0
        if state.step < due and state.step < self.steps:
            return
        objective = float("nan") if self.evaluate is None else float(self.evaluate(state.answer))
        norm = float(np.linalg.norm(state.weights))
        self.entries.append((state.step, state.step_size, norm, objective, " + ".join(names)))

    def path(self) -> Path:
        step, eta, norm, objective, source = zip(*self.entries, strict=True)
        return Path(np.array(step), np.array(eta), np.array(norm), np.array(objective), tuple(source))
