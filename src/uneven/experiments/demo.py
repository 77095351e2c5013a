"""The main job on the sample of Covertype that comes with the package: two sites, two privacy rules, every strategy.

It is a simulation: noise from a seed, several runs, and measures on rows that a real run would not look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.datasets import Dataset, load_covertype_sample
from uneven.datasets.covertype import AREAS, RANGES, SOILS
from uneven.engine import Path, accuracy, fit, objective, optimum, sweep
from uneven.io import SourceEntry, write_sources, written_atomically
from uneven.noise import LocalPrivacy
from uneven.planner import STRATEGIES, Plan, Source, plan
from uneven.problem import Problem
from uneven.progress import bar

Array = NDArray[np.float64]
Rows = tuple[NDArray[np.float32], Array]

ALPHA, BATCH = 1e-3, 50
SITES = {"station": (0.1, 10.0), "survey": (0.9, 1.0)}
"""Share of the rows and ε of each site."""

LABEL = "lodgepole_pine"
OURS, PAPER = "privunit", "l2-laplace"


@dataclass(frozen=True)
class Entry:
    """One strategy with one mechanism: its plan, and what each run came to."""

    plan: Plan
    mechanism: str
    accuracy: Array
    objective: Array

    @property
    def strategy(self) -> str:
        """Name of the strategy."""
        return self.plan.strategy

    @property
    def name(self) -> str:
        """Strategy and mechanism."""
        return f"{self.strategy} ({self.mechanism})"


@dataclass(frozen=True)
class Demo:
    """What the demo came to.

    Attributes
    ----------
    entries : tuple of Entry
        The first is what uneven chooses unless told otherwise, but for the intercept.
    optimum, majority : (accuracy, objective)
        Of the best weights there are, learned without noise; and of saying the commoner class.
    paths : dict
        Path of one run of some entries, by name.
    """

    entries: tuple[Entry, ...]
    optimum: tuple[float, float]
    majority: tuple[float, float]
    paths: dict[str, Path]
    runs: int
    seed: int
    rows: int
    test_rows: int

    @property
    def plan(self) -> Plan:
        """The plan that uneven would follow."""
        return self.entries[0].plan

    def best_of_paper(self) -> Entry:
        """The paper's strategy that did best, with the paper's mechanism."""
        theirs = [one for one in self.entries if one.mechanism == PAPER and one.strategy in PAPERS]
        return min(theirs, key=lambda one: float(one.objective.mean()))


PAPERS = tuple(name for name, strategy in STRATEGIES.items() if strategy.from_paper)
FOLLOWED = (("precision", OURS), ("two-rates", PAPER), ("clean-only", PAPER))


def plans(rows: dict[str, int], d: int) -> list[tuple[str, Plan]]:
    """Every strategy with uneven's mechanism and ball, then with the paper's; uneven's own choice first."""
    return [*_plans(rows, d, OURS, "tight"), *_plans(rows, d, PAPER, "paper")]


def _plans(rows: dict[str, int], d: int, mechanism: str, radius: str) -> Iterator[tuple[str, Plan]]:
    sites = [Source(name, rows[name], LocalPrivacy(epsilon, mechanism)) for name, (_, epsilon) in SITES.items()]
    for name, strategy in STRATEGIES.items():
        clip = strategy.usual_clip(private=mechanism == OURS)
        yield mechanism, plan(sites, d, ALPHA, BATCH, strategy=name, radius=radius, clip=clip)


def run_demo(runs: int = 10, seed: int = 0, progress: bool = False) -> Demo:
    """Plan, run every strategy several times, and measure.

    Parameters
    ----------
    runs : int
        Runs of each, with their own order and noise.
    seed : int
    progress : bool
        Show a bar on a terminal.
    """
    data = load_covertype_sample()
    parts = data.split({name: share for name, (share, _) in SITES.items()}, seed)
    chosen = plans({name: len(y) for name, (_, y) in parts.items()}, data.X.shape[1])
    with bar("Sweep", 1.0, progress) as tick:
        swept = sweep([one for _, one in chosen], parts, runs=runs, seed=seed, progress=tick)
    if swept.interrupted:
        raise KeyboardInterrupt
    problem = Problem(data.X.shape[1], ALPHA, BATCH)
    entries = tuple(
        Entry(one, mechanism, accuracy(w, data.X_test, data.y_test), objective(problem, w, data.X, data.y))
        for (mechanism, one), w in zip(chosen, swept.weights, strict=True)
    )
    best = optimum(problem, data.X, data.y)
    common = max(np.mean(data.y_test == sign) for sign in (-1.0, 1.0))
    return Demo(
        entries,
        (float(accuracy(best, data.X_test, data.y_test)), float(objective(problem, best, data.X, data.y))),
        (float(common), float(problem.loss_function.value_at_zero)),
        {one.name: _path(one.plan, parts, problem, data, seed) for one in entries if _is_followed(one)},
        runs,
        seed,
        len(data.y),
        len(data.y_test),
    )


def _is_followed(entry: Entry) -> bool:
    return (entry.strategy, entry.mechanism) in FOLLOWED


def _path(chosen: Plan, parts: dict[str, Rows], problem: Problem, data: Dataset, seed: int) -> Path:
    X, y = data.X[::5], data.y[::5]
    recorded = fit(chosen, parts, seed=seed, record=60, evaluate=lambda w: float(objective(problem, w, X, y))).path
    assert recorded is not None
    return recorded


def write_files(folder: FilePath, seed: int = 0) -> FilePath:
    """The demo's rows as files, one a site and one to test on, and the ``sources.toml`` that describes them."""
    data = load_covertype_sample()
    parts = data.split({name: share for name, (share, _) in SITES.items()}, seed)
    entries = []
    for name, (X, y) in parts.items():
        _write_rows(folder / f"{name}.parquet", X, y)
        source = Source(name, len(y), LocalPrivacy(SITES[name][1]))
        entries.append(SourceEntry.of(source, (folder / f"{name}.parquet").absolute()))
    _write_rows(folder / "test.parquet", data.X_test, data.y_test)
    path = folder / "sources.toml"
    settings: dict[str, Any] = {
        "alpha": ALPHA,
        "batch_size": BATCH,
        "clip": STRATEGIES["precision"].private_clip,
        "row_norm": 1.0,
    }
    write_sources(path, entries, label=LABEL, n_features=data.X.shape[1], counted=True, **settings)
    return path


def _write_rows(path: FilePath, X: NDArray[np.float32], y: Array) -> None:
    import pyarrow
    from pyarrow import parquet

    areas, soils = ([f"{kind}_{k}" for k in range(n)] for kind, n in (("wilderness_area", AREAS), ("soil", SOILS)))
    columns = dict(zip([*RANGES, *areas, *soils], X.T, strict=True))
    table = pyarrow.table({**columns, LABEL: np.where(y > 0, "yes", "no")})
    with written_atomically(path) as temporary:
        parquet.write_table(table, temporary)
