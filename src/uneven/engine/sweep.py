"""Many plans over one data set: shared permutations, shared memory traffic, all cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.engine.plans import PlanLike, tasks_of
from uneven.engine.run import check_data, run_together
from uneven.engine.state import Array
from uneven.engine.streams import Rows, Stream

Job = tuple[int, list[int]]


@dataclass(frozen=True)
class Sweep:
    """Final weights of every plan and run.

    Attributes
    ----------
    weights : array of shape (plans, runs, d); NaN where not finished
        Answer of each run.
    twins : array of the same shape, or None
        Weights of the noise-free twins.
    finished : boolean array of shape (plans, runs)
        Whether each run came to its end.
    """

    weights: Array
    twins: Array | None
    finished: NDArray[np.bool_]
    plans: tuple[PlanLike, ...] = field(repr=False)

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped before every run was finished."""
        return not bool(self.finished.all())

    def table(self, **columns: Array) -> dict[str, NDArray[Any]]:
        """Tidy table of the finished runs: plan, run, what the plan is, and each of `columns`, of shape (plans, runs).

        It is a dict of arrays of one length, which pandas, polars and Arrow all read.
        """
        plan, run = np.nonzero(self.finished)
        facts = {
            "strategy": [getattr(p, "strategy", "") for p in self.plans],
            "order": [", ".join(name for segment in p.segments for name in segment.sources) for p in self.plans],
            "alpha": [p.problem.alpha for p in self.plans],
            "bound": [getattr(p, "bound", np.nan) for p in self.plans],
        }
        table = {"plan": plan, "run": run} | {name: np.array(values)[plan] for name, values in facts.items()}
        for name, values in columns.items():
            if name in table or np.shape(values) != self.finished.shape:
                shape = self.finished.shape
                raise ValueError(f"column {name!r} must be new and of shape {shape}, got shape {np.shape(values)}")
            table[name] = np.asarray(values)[plan, run]
        return table


def sweep(
    plans: Iterable[PlanLike],
    data: Mapping[str, Any],
    *,
    runs: int = 1,
    seed: int = 0,
    average: str = "auto",
    twin: bool = False,
    estimate: bool = False,
    threads: int | None = None,
    progress: Callable[[float], None] | None = None,
    first_run: int = 0,
) -> Sweep:
    """Run many plans, each several times, over one data set: a simulation, with a seed.

    In each run all plans see the rows of a source in the same order and draw from the same noise stream (common
    random numbers: compare plans by their differences within a run). The result is the same on any number of threads.
    Ctrl-C ends it early and keeps what is finished.

    Parameters
    ----------
    plans : list of Plan
        They may differ in anything but the dimension and the rows of their sources.
    data : dict
        Arrays for each source, as in `fit`; labels as observed, those of `LabelPrivacy` randomised already.
    runs : int
        Each with its own permutations and noise.
    threads : int or None
        None for as many as there are cores.
    progress : callable or None
        Called with each finished piece's share of the work; the shares add up to 1.
    first_run : int
        Number of the first run: to go on where another sweep has ended, with the runs that it would have had.
    """
    listed = list(plans) if isinstance(plans, Iterable) else []
    if not listed or not all(hasattr(plan, "segments") for plan in listed):
        raise ValueError(f"plans must be a list of at least one uneven.Plan, got {checks.shown(plans)}")
    checks.whole("runs", runs)
    checks.whole("seed", seed, least=0)
    checks.whole("first_run", first_run, least=0)
    workers = checks.whole("threads", (os.cpu_count() or 1) if threads is None else threads)
    rows = _all_rows(listed, data)
    tasks = [tasks_of(plan, average, estimate) for plan in listed]
    weights = np.full((len(listed), runs, listed[0].problem.n_features), np.nan)
    twins = weights.copy() if twin else None
    finished = np.zeros(weights.shape[:2], dtype=bool)
    stop = threading.Event()

    def work(job: Job) -> None:
        run, members = job
        plan, chosen = listed[members[0]], [tasks[i] for i in members]
        states = run_together(plan, chosen, rows, seed, twin=twin, run=first_run + run, stop=stop.is_set)
        for i, state in zip(members, states, strict=True):
            weights[i, run] = state.answer
            if twins is not None and state.twin is not None:
                twins[i, run] = state.twin
            finished[i, run] = True

    teams = _teams(listed, runs, workers)
    jobs, share = ((run, team) for run in range(runs) for team in teams), 1.0 / (runs * len(teams))
    _run_jobs(jobs, work, workers, stop, lambda: None if progress is None else progress(share))
    return Sweep(weights, twins, finished, tuple(listed))


def _all_rows(plans: Sequence[PlanLike], data: Mapping[str, Any]) -> dict[str, Rows]:
    if not isinstance(data, Mapping):
        raise ValueError(f"data must be a dict of names and rows, got {checks.shown(type(data).__name__)}")
    named = {source.name for plan in plans for source in plan.sources}
    if unknown := [name for name in data if name not in named]:
        raise ValueError(f"data must have the plans' sources only, got {unknown[0]!r}")
    rows: dict[str, Rows] = {}
    known: set[Any] = set()
    for plan in plans:
        if plan.problem.n_features != plans[0].problem.n_features or plan.problem.classes != plans[0].problem.classes:
            raise ValueError("plans must have one number of features, got several")
        used = {name for segment in plan.segments for name in segment.sources}
        key = tuple((s.name, s.rows) for s in plan.sources if s.name in used)
        if key not in known:
            known.add(key)
            rows |= check_data(plan, {name: data[name] for name in used if name in data})
    if streams := [name for name, source in rows.items() if isinstance(source, Stream)]:
        raise ValueError(f"rows of source {streams[0]!r} must be arrays in a sweep: a stream can be read only once")
    return rows


def _teams(plans: Sequence[PlanLike], runs: int, workers: int) -> list[list[int]]:
    """Plans that can go together, split so that every worker has something to do."""
    together: dict[Any, list[int]] = {}
    for i, plan in enumerate(plans):
        order = tuple((segment.sources, segment.batch_size) for segment in plan.segments)
        together.setdefault(order, []).append(i)
    pieces = max(1, -(-2 * workers // (runs * len(together))))
    return [
        [int(i) for i in part]
        for members in together.values()
        for part in np.array_split(members, min(pieces, len(members)))
    ]


def _run_jobs(
    jobs: Iterator[Job], work: Callable[[Job], None], workers: int, stop: threading.Event, tick: Callable[[], None]
) -> None:
    """Do all jobs, a few ahead at a time; Ctrl-C ends it after what is finished."""
    pool = ThreadPoolExecutor(workers)
    try:
        waiting = {pool.submit(work, job) for job in islice(jobs, 2 * workers)}
        while waiting:
            done, waiting = wait(waiting, return_when="FIRST_COMPLETED")
            for future in done:
                future.result()
                tick()
            waiting |= {pool.submit(work, job) for job in islice(jobs, len(done))}
    except KeyboardInterrupt:
        pass
    finally:
        stop.set()
        _shut_down(pool)


def _shut_down(pool: ThreadPoolExecutor) -> None:
    """Wait for the runs under way to notice; an impatient second Ctrl-C does not lose what is finished."""
    while True:
        try:
            pool.shutdown(cancel_futures=True)
            return
        except KeyboardInterrupt:
            continue
