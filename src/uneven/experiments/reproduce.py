"""All panels of the paper: run what is missing, judge the claims, draw the figure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from uneven.experiments import order, two_rates, vary_c2
from uneven.experiments.claims import Claim, judged
from uneven.experiments.figure import figure
from uneven.experiments.outputs import markdown_claims, write_claims, write_figure
from uneven.experiments.results import Results
from uneven.experiments.suite import Outcome, Spec, all_results, run_suite
from uneven.io import write_text_atomically

SPECS = {
    f"{column}-{dataset}": Spec(dataset, build, cost * rows)
    for dataset, rows in {"mnist": 1.0, "covertype": 14.0}.items()
    for column, (build, cost) in {
        "order": (order.panel, 2.0),
        "two-rates": (two_rates.panel, 1.0),
        "vary-c2": (vary_c2.panel, 1.0),
    }.items()
}
PANELS = tuple(SPECS)


def reproduce(
    panels: Sequence[str] | None = None,
    *,
    runs: int | None = None,
    data: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] = "reproduction",
    seed: int = 0,
    quick: bool = False,
    progress: bool = False,
) -> Outcome:
    """Re-run panels of the paper's figure on the real data, and say claim by claim whether it holds.

    Runs are written to Parquet ten at a time; those that are there already are not run again.

    Parameters
    ----------
    panels : list of str or None
        Some of `PANELS`; None for all.
    runs : int or None
        Runs a point; None for the paper's 100, or 16 if quick.
    data : path or None
        Folder with the data sets; None takes `UNEVEN_DATA`, or else scikit-learn's downloads.
    output : path
        Folder for results; made if it is not there.
    quick : bool
        Fewer runs on fewer rows.

    Returns
    -------
    Outcome
        The folder has ``claims.json``, ``claims.md``, ``figure.png`` and ``figure.pdf``.
    """
    folder = Path(output)
    results, seconds = run_suite(
        SPECS, panels, runs=runs, data=data, folder=folder, seed=seed, quick=quick, progress=progress
    )
    claims = summarised(all_results(SPECS, folder), folder)
    return Outcome(results, [claim for claim in claims if claim.panel in results], folder, seconds)


def summarised(results: Mapping[str, Results], folder: Path) -> list[Claim]:
    """Judge the claims and draw the figure, from results alone; write both into the folder."""
    claims = [claim for one in results.values() for claim in judged(one)]
    write_claims(folder / "claims.json", results, claims)
    write_text_atomically(folder / "claims.md", markdown_claims("the paper says", claims))
    write_figure(folder, figure(results))
    return claims
