"""Several panels in a row: load each data set once, run what is missing, read everything back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from uneven import checks
from uneven.datasets import Dataset, counts, load_covertype, load_mnist
from uneven.experiments.claims import Claim
from uneven.experiments.panel import Counts, Panel
from uneven.experiments.results import Results, parts, read_results
from uneven.experiments.running import described, finished_runs, run_panel
from uneven.progress import bar

LOADERS: dict[str, Callable[[str | os.PathLike[str] | None], Dataset]] = {
    "mnist": load_mnist,
    "covertype": load_covertype,
    "mnist-784": lambda data: load_mnist(data, dimensions=None),
}
FEATURES = {"mnist": 25, "covertype": 54, "mnist-784": 784}
FULL_ROWS = {"mnist": 60_000, "covertype": 500_000, "mnist-784": 60_000}
QUICK_ROWS = {"mnist": 30_000, "covertype": 40_000, "mnist-784": 6_000}
"""Rows to learn from, and in a quick run."""

QUICK_RUNS, FULL_RUNS = 16, 100


@dataclass(frozen=True)
class Spec:
    """How to make a panel.

    Attributes
    ----------
    dataset : str
        One of `LOADERS`.
    build : callable
        The panel for a data set's name, rows of each source, by their shares, and number of features.
    cost : float
        About how long it takes, in any unit: for the progress bar.
    """

    dataset: str
    build: Callable[[str, Counts, int], Panel]
    cost: float = 1.0


@dataclass(frozen=True)
class Outcome:
    """What came of a suite.

    Attributes
    ----------
    results : dict of str to Results
        Of the panels asked for.
    claims : list of Claim
        About those panels; the files have all that the folder has runs of.
    folder : Path
        Where the Parquet files are, and what was made of them.
    seconds : float
        How long it took to run what was not there yet.
    """

    results: Mapping[str, Results]
    claims: Sequence[Claim]
    folder: Path
    seconds: float


def run_suite(
    specs: Mapping[str, Spec],
    panels: Sequence[str] | None,
    *,
    runs: int | None,
    data: str | os.PathLike[str] | None,
    folder: Path,
    seed: int,
    quick: bool,
    progress: bool,
) -> tuple[dict[str, Results], float]:
    """Results of the panels asked for, all if None, and the seconds that it took to run what was missing.

    Data are loaded only if a run is missing.
    """
    names = [checks.one_of("panel", name, specs) for name in panels or specs]
    wanted = checks.whole("runs", (QUICK_RUNS if quick else FULL_RUNS) if runs is None else runs, least=2)
    checks.whole("seed", seed, least=0)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"output must be a folder, got {str(folder)!r}, which is a file")
    started = time.monotonic()

    @cache
    def loaded(dataset: str) -> Dataset:
        whole = LOADERS[dataset](data)
        return whole.subsample(QUICK_ROWS[dataset], seed) if quick else whole

    with bar("Running", sum(specs[name].cost for name in names), progress) as tick:
        for name in names:
            spec = specs[name]
            rows, features = (QUICK_ROWS if quick else FULL_ROWS)[spec.dataset], FEATURES[spec.dataset]
            panel = spec.build(spec.dataset, partial(counts, rows), features)
            done = finished_runs(folder, name, described(panel, rows, features, seed))
            if done.issuperset(range(wanted)):
                tick(spec.cost)
                continue
            dataset = loaded(spec.dataset)
            folder.mkdir(parents=True, exist_ok=True)
            run_panel(panel, dataset, folder, wanted, seed, lambda share, cost=spec.cost: tick(share * cost))  # type: ignore[misc]
    return {name: read_results(folder, name) for name in specs if name in names}, time.monotonic() - started


def all_results(specs: Mapping[str, Spec], folder: Path) -> dict[str, Results]:
    """Results of every panel that the folder has runs of."""
    return {name: read_results(folder, name) for name in specs if parts(folder, name)}
