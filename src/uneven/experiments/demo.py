"""Every strategy on the sample of Covertype that comes with the package: two sites with two privacy rules.

It is a simulation: noise from a seed, several runs, and measures on rows that a real run would not look at.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.cautions import SimulationWarning
from uneven.datasets import AREAS, RANGES, SOILS, Dataset, load_covertype_sample
from uneven.engine import Path, fit, measure_accuracy, measure_auc, objective, sweep
from uneven.estimator import UnevenClassifier
from uneven.experiments.panels import ALPHA, BATCH_SIZE, OURS, THEIRS, plan_private
from uneven.experiments.running import measure_without_noise
from uneven.experiments.suite import Bar
from uneven.io import SourceEntry, write_sources, written_atomically
from uneven.noise import Exact, LocalPrivacy, Noise
from uneven.planner import STRATEGIES, Plan, Source, Verdict, describe_verdicts
from uneven.problem import Problem

Array = NDArray[np.float64]
Rows = tuple[NDArray[np.float32], Array]
Measured = tuple[float, float, float]
"""Accuracy, objective and AUC."""

SITES = {"station": (0.1, 10.0), "survey": (0.9, 1.0)}
"""Share of the rows and ε of each site."""

LABEL = "lodgepole_pine"
PAPERS = tuple(name for name, strategy in STRATEGIES.items() if strategy.from_paper)
"""Strategies of the paper."""

FOLLOWED = (("precision", "quiet"), ("two-rates", "l2-laplace"), ("clean-only", "l2-laplace"))
"""Strategies and mechanisms whose path is recorded."""

PUBLIC, ALONE, PRIVATE, BOTH = "open", "public rows alone", "private rows alone", "anchored: both"
SHARE = 0.01
"""Share of the rows that are public; the largest site has so many fewer."""

MOST_RUNS = 4


@dataclass(frozen=True)
class Entry:
    """One strategy with one mechanism: its plan, and the test accuracy, AUC and objective of each run."""

    plan: Plan
    mechanism: str
    accuracy: Array
    objective: Array
    auc: Array

    @property
    def strategy(self) -> str:
        """Name of the strategy."""
        return self.plan.strategy

    @property
    def name(self) -> str:
        """Strategy and mechanism."""
        return f"{self.strategy} ({self.mechanism})"


@dataclass(frozen=True)
class PublicRows:
    """What a few public rows change.

    Attributes
    ----------
    rows : int
        Number of public rows.
    accuracy, auc : dicts of str to array
        Test accuracy and AUC of each run of each way to learn.
    verdicts : dict of str to Verdict
        What each private source was expected to add in the first run, before anything was charged.
    spent : dict of str to float
        ε that a row of each private source spent in that run; those not used spent nothing.
    """

    rows: int
    accuracy: Mapping[str, Array]
    verdicts: Mapping[str, Verdict]
    spent: Mapping[str, float]
    auc: Mapping[str, Array]


@dataclass(frozen=True)
class Compared:
    """Strategies compared.

    Attributes
    ----------
    entries : tuple of Entry
        The first is uneven's default, but for the intercept.
    optimum, majority : (accuracy, objective, AUC)
        Of the minimum of the objective, without noise; and of predicting the majority class.
    """

    entries: tuple[Entry, ...]
    optimum: Measured
    majority: Measured
    runs: int
    seed: int
    rows: int
    test_rows: int

    @property
    def plan(self) -> Plan:
        """The plan that uneven would follow."""
        return self.entries[0].plan

    def best_of_paper(self) -> Entry:
        """The paper's strategy with the lowest objective, with the paper's mechanism."""
        theirs = [one for one in self.entries if one.mechanism == THEIRS["mechanism"] and one.strategy in PAPERS]
        return min(theirs, key=lambda one: float(one.objective.mean()))


@dataclass(frozen=True)
class Demo(Compared):
    """Results of the demo: the strategies compared, and more.

    Attributes
    ----------
    paths : dict
        Path of one run of some entries, by name.
    public : PublicRows
        What a few rows without privacy would change.
    """

    paths: dict[str, Path]
    public: PublicRows


def plan_strategies(rows: Mapping[str, int], n_features: int) -> list[tuple[str, Plan]]:
    """Every strategy with uneven's mechanism and ball, then with the paper's; uneven's default first."""
    epsilons = {name: epsilon for name, (_, epsilon) in SITES.items()}
    plans = []
    for base in (OURS, THEIRS):
        for strategy in STRATEGIES:
            clip = base["clip"] if strategy == base["strategy"] else None
            options = {"mechanism": base["mechanism"], "radius": base["radius"], "strategy": strategy, "clip": clip}
            plans.append((base["mechanism"], plan_private(epsilons, rows, n_features, **options)))
    return plans


def run_demo(
    runs: int = 10,
    seed: int = 0,
    progress: Bar | None = None,
    planned: Callable[[Plan], None] | None = None,
    compared: Callable[[Compared], None] | None = None,
) -> Demo:
    """Plan, run every strategy several times, and measure.

    Parameters
    ----------
    runs : int
        Runs of each, with their own order and noise.
    seed : int
    progress : callable or None
        Makes a progress bar of a title and a total; None shows none.
    planned : callable or None
        Called with the plan that uneven would follow, before anything is run.
    compared : callable or None
        Called with the strategies compared, before the rest is run.

    Returns
    -------
    Demo
    """
    data, bar = load_covertype_sample(), progress or _show_nothing
    parts = data.split({name: share for name, (share, _) in SITES.items()}, seed)
    chosen = plan_strategies({name: len(y) for name, (_, y) in parts.items()}, data.X.shape[1])
    if planned is not None:
        planned(chosen[0][1])
    with bar("Running every strategy", 1.0) as tick:
        swept = sweep([one for _, one in chosen], parts, runs=runs, seed=seed, progress=tick)
    if swept.interrupted:
        raise KeyboardInterrupt
    problem = Problem(data.X.shape[1], ALPHA, BATCH_SIZE)
    with bar("Measuring the models", len(chosen) + 1) as tick:
        found = _compare(problem, data, chosen, swept.weights, tick)
    made = Compared(*found, runs, seed, len(data.y), len(data.y_test))
    if compared is not None:
        compared(made)
    with bar("Learning with some public rows", min(runs, MOST_RUNS)) as tick:
        public = compare_public_rows(data, SITES, runs, seed, tick)
    followed = [one for one in made.entries if (one.strategy, one.mechanism) in FOLLOWED]
    paths = {}
    with bar("Following one run of each", len(followed)) as tick:
        for one in followed:
            paths[one.name] = _record_path(one.plan, parts, problem, data, seed)
            tick(1)
    return Demo(**vars(made), paths=paths, public=public)


def _show_nothing(_title: str, _total: float) -> AbstractContextManager[Callable[[float], None]]:
    return nullcontext(lambda _: None)


def _compare(
    problem: Problem,
    data: Dataset,
    chosen: list[tuple[str, Plan]],
    weights: Iterable[Array],
    tick: Callable[[float], None],
) -> tuple[tuple[Entry, ...], Measured, Measured]:
    """Measures of every plan's runs, of the optimum, and of the majority class."""
    test, entries = (data.X_test, data.y_test), []
    for (mechanism, one), w in zip(chosen, weights, strict=True):
        measured = measure_accuracy(w, *test), objective(problem, w, data.X, data.y), measure_auc(w, *test)
        entries.append(Entry(one, mechanism, *measured))
        tick(1)
    best = measure_without_noise(problem, data)
    tick(1)
    optimum = best["accuracy"], best["objective"], best["auc"]
    return tuple(entries), optimum, (best["majority"], best["nothing"], 0.5)


def _record_path(chosen: Plan, parts: dict[str, Rows], problem: Problem, data: Dataset, seed: int) -> Path:
    """Objective over one run, on a fifth of the rows."""
    X, y = data.X[::5], data.y[::5]
    recorded = fit(chosen, parts, seed=seed, record=60, evaluate=lambda w: float(objective(problem, w, X, y))).path
    assert recorded is not None
    return recorded


def compare_public_rows(
    data: Dataset, sites: Mapping[str, tuple[float, float]], runs: int, seed: int, tick: Callable[[int], None]
) -> PublicRows:
    """Learn from a few public rows, from private sites, and from both, by the classifier with its defaults.

    Parameters
    ----------
    data : Dataset
        Rows in the unit ball.
    sites : dict of str to (float, float)
        Share of the rows and ε of each site.
    runs, seed : int
        At most `MOST_RUNS` runs, each with its own rows and noise.
    tick : callable
        Called with 1 after each run.

    Returns
    -------
    PublicRows
    """
    largest = max(sites, key=lambda name: sites[name][0])
    shares = {PUBLIC: SHARE} | {name: share - SHARE * (name == largest) for name, (share, _) in sites.items()}
    noises: dict[str, Noise] = {PUBLIC: Exact()} | {name: LocalPrivacy(epsilon) for name, (_, epsilon) in sites.items()}
    ways = {ALONE: [PUBLIC], PRIVATE: list(sites), BOTH: list(shares)}
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    first = None
    for run in range(min(runs, MOST_RUNS)):
        parts = data.split(shares, seed + run)
        for way, names in ways.items():
            model = UnevenClassifier({name: noises[name] for name in names}, row_norm=1.0, random_state=seed + run)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SimulationWarning)  # the demo says that it is one
                model.fit(
                    np.concatenate([parts[name][0] for name in names]),
                    np.concatenate([parts[name][1] for name in names]),
                    source=np.repeat(names, [len(parts[name][1]) for name in names]),
                )
            area = float(measure_auc(model.coef_[0], data.X_test, data.y_test))
            found[way].append((float(model.score(data.X_test, data.y_test)), area))
        first = first or model
        tick(1)
    assert first is not None
    accuracy, areas = ({way: np.array(pairs)[:, k] for way, pairs in found.items()} for k in (0, 1))
    spent = {name: epsilon if name in first.plan_.order else 0.0 for name, (_, epsilon) in sites.items()}
    return PublicRows(len(parts[PUBLIC][1]), accuracy, first.plan_.verdicts, spent, areas)


def describe_public_rows(found: PublicRows) -> list[str]:
    """What was found, in words, a line each."""
    alone, private, both = (f"{100 * found.accuracy[way].mean():.1f}%" for way in (ALONE, PRIVATE, BOTH))
    said = [
        f"{found.rows:,} rows without privacy classify {alone} of the test rows correctly, the private rows {private}, "
        f"and both together {both}: the first are learned to convergence, the others add to them.",
        "Public rows also choose the L2 strength by cross-validation: so this may be above 'no noise at all', which "
        "has the L2 strength of the strategies.",
        *describe_verdicts(found.verdicts),
    ]
    if unspent := [repr(name) for name, epsilon in found.spent.items() if not epsilon]:
        said.append(f"So {' and '.join(unspent)} was not used, and its rows spent no privacy.")
    return said


def write_files(folder: FilePath, seed: int = 0) -> FilePath:
    """Write the demo's rows, one file per site and one of test rows, and the ``sources.toml`` that describes them."""
    data = load_covertype_sample()
    parts = data.split({name: share for name, (share, _) in SITES.items()}, seed)
    entries = []
    for name, (X, y) in parts.items():
        _write_rows(folder / f"{name}.parquet", X, y)
        source = Source(name, len(y), LocalPrivacy(SITES[name][1]))
        entries.append(SourceEntry.of(source, (folder / f"{name}.parquet").absolute()))
    _write_rows(folder / "test.parquet", data.X_test, data.y_test)
    path = folder / "sources.toml"
    settings: dict[str, Any] = {"alpha": ALPHA, "batch_size": BATCH_SIZE, "clip": OURS["clip"], "row_norm": 1.0}
    known = {"label": LABEL, "classes": ["no", "yes"], "n_features": data.X.shape[1]}
    write_sources(path, entries, counted=True, **known, **settings)
    return path


def _write_rows(path: FilePath, X: NDArray[np.float32], y: Array) -> None:
    import pyarrow
    from pyarrow import parquet

    areas, soils = ([f"{kind}_{k}" for k in range(n)] for kind, n in (("wilderness_area", AREAS), ("soil", SOILS)))
    columns = dict(zip([*RANGES, *areas, *soils], X.T, strict=True))
    table = pyarrow.table({**columns, LABEL: np.where(y > 0, "yes", "no")})
    with written_atomically(path) as temporary:
        parquet.write_table(table, temporary)
