"""All panels of the paper: run what is missing, judge the claims, draw the figure."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from uneven import checks
from uneven.datasets import LOADERS, Dataset
from uneven.experiments import order, two_rates, vary_c2
from uneven.experiments.claims import Claim, judged
from uneven.experiments.figure import figure
from uneven.experiments.panel import SHARES, Panel
from uneven.experiments.results import Results, read_results
from uneven.experiments.running import run_panel
from uneven.io import write_text_atomically

COLUMNS: dict[str, Callable[[str, Mapping[str, int], int], Panel]] = {
    "order": order.panel,
    "two-rates": two_rates.panel,
    "vary-c2": vary_c2.panel,
}
PANELS = tuple(f"{column}-{dataset}" for dataset in LOADERS for column in COLUMNS)

QUICK_RUNS = 16
QUICK_ROWS = {"mnist": 30_000, "covertype": 40_000}
"""What ``--quick`` runs: enough to see most claims, in under a minute on two cores."""


@dataclass(frozen=True)
class Reproduction:
    """What came of it.

    Attributes
    ----------
    results : dict of str to Results
    claims : list of Claim
    folder : Path
        Where the Parquet files, ``claims.json``, ``claims.md``, ``figure.png`` and ``figure.pdf`` are.
    seconds : float
        How long it took, what was there already not counted.
    """

    results: Mapping[str, Results]
    claims: Sequence[Claim]
    folder: Path
    seconds: float


def reproduce(
    panels: Sequence[str] = PANELS,
    *,
    runs: int = 100,
    data: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] = "reproduction",
    seed: int = 0,
    quick: bool = False,
    progress: bool = False,
) -> Reproduction:
    """Re-run panels of the paper's figure on the real data, and say claim by claim whether it holds.

    Runs are written to Parquet ten at a time; those that are there already are not run again.

    Parameters
    ----------
    panels : list of str
        Some of `PANELS`.
    runs : int
        Runs a point; the paper has 100.
    data : path or None
        Folder with the data sets; None takes `UNEVEN_DATA`, or else scikit-learn's downloads.
    output : path
        Folder for results; made if it is not there.
    quick : bool
        Few runs on fewer rows.
    """
    for name in panels:
        checks.one_of("panel", name, PANELS)
    checks.whole("runs", runs, least=2)
    folder, started = Path(output), time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)

    @cache
    def loaded(dataset: str) -> Dataset:
        whole = LOADERS[dataset](data)
        return whole.subsample(QUICK_ROWS[dataset], seed) if quick else whole

    with _bar(progress, sum(map(_cost, panels))) as tick:
        for name in panels:
            rows = loaded(_dataset(name))
            made = _panel(name, rows)
            run_panel(made, rows, folder, runs, seed, lambda share, name=name: tick(share * _cost(name)))  # type: ignore[misc]
    results = {name: read_results(folder, name) for name in PANELS if name in panels}
    return Reproduction(results, summarised(results, folder), folder, time.monotonic() - started)


def summarised(results: Mapping[str, Results], folder: Path) -> list[Claim]:
    """Judge the claims and draw the figure, from results alone; write both into the folder."""
    claims = [claim for one in results.values() for claim in judged(one)]
    facts = {"runs": min(one.runs for one in results.values()), "claims": [claim.to_dict() for claim in claims]}
    write_text_atomically(
        folder / "claims.json", json.dumps(facts, indent=2, default=_plain, ensure_ascii=False) + "\n"
    )
    write_text_atomically(folder / "claims.md", markdown(claims))
    drawn = figure(results)
    for kind in ("png", "pdf"):
        drawn.savefig(folder / f"figure.{kind}", dpi=200)
    return claims


def markdown(claims: Sequence[Claim]) -> str:
    """Claims as a table in Markdown."""
    lines = ["| panel | the paper says | verdict | measured |", "|---|---|---|---|"]
    lines += [
        f"| {claim.panel} | {claim.statement.replace('|', chr(92) + '|')} | **{claim.verdict}** | {claim.measured} |"
        for claim in claims
    ]
    return "\n".join(lines) + "\n"


def _panel(name: str, data: Dataset) -> Panel:
    dataset = _dataset(name)
    rows = {source: len(y) for source, (_, y) in data.split(SHARES).items()}
    return COLUMNS[name.removesuffix(f"-{dataset}")](dataset, rows, data.X.shape[1])


def _dataset(panel: str) -> str:
    return panel.rsplit("-", 1)[1]


def _cost(panel: str) -> float:
    """About how long a panel takes, for the progress bar: rows times cases."""
    rows = {"mnist": 1.0, "covertype": 14.0}[_dataset(panel)]
    return rows * (2.0 if panel.startswith("order") else 1.0)


def _bar(progress: bool, total: float) -> Any:
    if not progress:
        return nullcontext(lambda _: None)
    from uneven.engine.progress import bar

    return bar("Reproducing", total)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"no plain value for {type(value).__name__}")
