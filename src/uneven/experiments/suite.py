"""`reproduce` and `run_beyond`: run several panels, judge the claims, write tables and figures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from uneven import checks, datasets
from uneven.datasets import Dataset, count_rows
from uneven.experiments import outputs
from uneven.experiments import panels as build
from uneven.experiments.claims import Claim, judge
from uneven.experiments.figures import draw_beyond, draw_paper
from uneven.experiments.panels import Counts, Panel
from uneven.experiments.results import Results, list_parts, read_results
from uneven.experiments.running import describe_settings, find_finished_runs, run_panel
from uneven.experiments.targets import TARGETS_BY_PANEL
from uneven.io import write_text_atomically

PathLike = str | os.PathLike[str]
Bar = Callable[[str, float], AbstractContextManager[Callable[[float], None]]]
"""Makes a progress bar of a title and a total; it is called with each finished part of the total."""

LOADERS: dict[str, Callable[..., Dataset]] = {
    **datasets.LOADERS,
    "mnist-784": partial(datasets.load_mnist, dimensions=None),
    "mnist-digits": partial(datasets.load_mnist, digits=True),
    "covertype-types": partial(datasets.load_covertype, types=True),
}
FEATURES = {"mnist": 25, "covertype": 54, "mnist-784": 784, "mnist-digits": 25, "covertype-types": 54}
FULL_ROWS = {
    "mnist": 60_000,
    "covertype": 500_000,
    "mnist-784": 60_000,
    "mnist-digits": 60_000,
    "covertype-types": 500_000,
}
QUICK_ROWS = {
    "mnist": 30_000,
    "covertype": 40_000,
    "mnist-784": 6_000,
    "mnist-digits": 30_000,
    "covertype-types": 40_000,
}
"""Training rows, in a full and in a quick run."""

QUICK_RUNS, FULL_RUNS = 16, 100


class Spec(NamedTuple):
    """How to make a panel: on which of `LOADERS`, by which function, and about how long it takes, in any unit."""

    dataset: str
    build: Callable[[str, Counts, int], Panel]
    cost: float


PAPER = {
    f"{column}-{dataset}": Spec(dataset, make, cost * rows)
    for dataset, rows in {"mnist": 1.0, "covertype": 14.0}.items()
    for column, (make, cost) in {
        "order": (build.build_order, 2.0),
        "two-rates": (build.build_two_rates, 1.0),
        "vary-c2": (build.build_vary_c2, 1.0),
    }.items()
}
BEYOND = {
    "beyond-mnist": Spec("mnist", build.build_beyond, 3.0),
    "ablation-mnist": Spec("mnist", build.build_ablation, 3.0),
    "sources-mnist": Spec("mnist", build.build_sources, 1.0),
    "harder-mnist": Spec("mnist", build.build_harder, 0.3),
    "wide-mnist": Spec("mnist-784", build.build_wide, 10.0),
    "site-mnist": Spec("mnist", build.build_site, 0.3),
    "classes-mnist": Spec("mnist-digits", build.build_classes, 5.0),
    "beyond-covertype": Spec("covertype", build.build_beyond, 50.0),
    "ablation-covertype": Spec("covertype", build.build_ablation, 50.0),
    "sources-covertype": Spec("covertype", build.build_sources, 10.0),
    "harder-covertype": Spec("covertype", build.build_harder, 5.0),
    "site-covertype": Spec("covertype", build.build_site, 5.0),
    "classes-covertype": Spec("covertype-types", build.build_classes, 60.0),
}


@dataclass(frozen=True)
class Outcome:
    """Results of a suite of panels.

    Attributes
    ----------
    results : dict of str to Results
        Of the panels asked for.
    claims : list of Claim
        About those panels; the files have the claims of every panel that the folder has runs of.
    folder : Path
        Where the Parquet files are, and the claims, tables and figures made from them.
    seconds : float
        Time spent on runs that were missing.
    """

    results: Mapping[str, Results]
    claims: Sequence[Claim]
    folder: Path
    seconds: float


def reproduce(
    panels: Sequence[str] | None = None,
    *,
    runs: int | None = None,
    data: PathLike | None = None,
    output: PathLike = "reproduction",
    seed: int = 0,
    quick: bool = False,
    progress: Bar | None = None,
) -> Outcome:
    """Re-run panels of the paper's figure on the real data, and judge the paper's claims.

    Runs are written to Parquet ten at a time; those that are in the folder already are not run again.

    Parameters
    ----------
    panels : list of str or None
        Some of `PAPER`; None for all.
    runs : int or None
        Runs per point; None for the paper's 100, or 16 if quick.
    data : path or None
        Folder with the data sets; None takes `UNEVEN_DATA`, or else scikit-learn's downloads.
    output : path
        Folder for results; created if missing.
    seed : int
        Of permutations and noise.
    quick : bool
        Fewer runs on fewer rows.
    progress : callable or None
        Makes a progress bar of a title and a total; None shows none.

    Returns
    -------
    Outcome
        The folder has ``claims.json``, ``claims.md``, ``figure.png`` and ``figure.pdf``.
    """
    return _run_suite(PAPER, summarise_paper, panels, Path(output), runs, data, seed, quick, progress)


def run_beyond(panels: Sequence[str] | None = None, *, output: PathLike = "beyond", **options: Any) -> Outcome:
    """Run the paper's strategies and ours on the same rows at the same ε.

    Parameters
    ----------
    panels : list of str or None
        Some of `BEYOND`; None for all.
    output : path
        Folder for results; created if missing.
    **options
        `runs`, `data`, `seed`, `quick` and `progress`, as `reproduce` has them.

    Returns
    -------
    Outcome
        Its claims are the targets. The folder has ``targets.json``, ``tables.md``, ``figure.png`` and ``figure.pdf``.
    """
    return _run_suite(BEYOND, summarise_beyond, panels, Path(output), **options)


def _run_suite(
    specs: Mapping[str, Spec],
    summarise: Callable[[Mapping[str, Results], Path], list[Claim]],
    panels: Sequence[str] | None,
    folder: Path,
    runs: int | None = None,
    data: PathLike | None = None,
    seed: int = 0,
    quick: bool = False,
    progress: Bar | None = None,
) -> Outcome:
    """Run what is missing of the panels asked for, all if None, and summarise every panel in the folder."""
    names = [checks.one_of("panel", name, specs) for name in panels or specs]
    wanted = checks.whole("runs", (QUICK_RUNS if quick else FULL_RUNS) if runs is None else runs, least=2)
    checks.whole("seed", seed, least=0)
    outputs.refuse_outputs(folder)
    started = time.monotonic()

    @cache  # a data set is loaded only if a run is missing, and once
    def load(dataset: str) -> Dataset:
        whole = LOADERS[dataset](data)
        return whole.subsample(QUICK_ROWS[dataset], seed) if quick else whole

    total = sum(specs[name].cost for name in names)
    with progress("Running", total) if progress else nullcontext(lambda _: None) as tick:
        for name in names:
            spec = specs[name]
            rows, features = (QUICK_ROWS if quick else FULL_ROWS)[spec.dataset], FEATURES[spec.dataset]
            panel = spec.build(spec.dataset, partial(count_rows, rows), features)
            done = find_finished_runs(folder, name, describe_settings(panel, rows, features, seed))
            if done.issuperset(range(wanted)):
                tick(spec.cost)
                continue
            dataset = load(spec.dataset)
            folder.mkdir(parents=True, exist_ok=True)
            run_panel(panel, dataset, folder, wanted, seed, lambda share, cost=spec.cost: tick(share * cost))  # type: ignore[misc]
    seconds = time.monotonic() - started
    found = {name: read_results(folder, name) for name in specs if list_parts(folder, name)}
    claims = [claim for claim in summarise(found, folder) if claim.panel in names]
    return Outcome({name: one for name, one in found.items() if name in names}, claims, folder, seconds)


def summarise_paper(results: Mapping[str, Results], folder: Path) -> list[Claim]:
    """Judge the paper's claims and draw its figure, from results alone; write both into the folder."""
    claims = [claim for one in results.values() for claim in judge(one)]
    outputs.write_claims(folder / "claims.json", results, claims)
    write_text_atomically(folder / "claims.md", outputs.format_claims("the paper says", claims))
    outputs.write_figure(folder, draw_paper(results))
    return claims


def summarise_beyond(results: Mapping[str, Results], folder: Path) -> list[Claim]:
    """Judge the targets, make the tables and draw the figure, from results alone; write them into the folder."""
    targets = [target for one in results.values() for target in judge(one, TARGETS_BY_PANEL)]
    outputs.write_claims(folder / "targets.json", results, targets)
    sections = [outputs.format_claims("target", targets)] if targets else []
    for name, one in results.items():
        sections.append(
            f"## {name}\n\n{outputs.describe_baselines(one)}\n\n{outputs.format_table(*outputs.tabulate(one))}"
        )
    write_text_atomically(folder / "tables.md", "\n".join(sections))
    if (figure := draw_beyond(results)) is not None:
        outputs.write_figure(folder, figure)
    return targets
