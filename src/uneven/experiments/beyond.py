"""All panels that go beyond the paper: run what is missing, judge the targets, make the tables and the figure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from uneven.experiments import beyond_panels
from uneven.experiments.beyond_figure import figure
from uneven.experiments.claims import Claim
from uneven.experiments.outputs import markdown_claims, markdown_table, write_claims, write_figure
from uneven.experiments.results import Results
from uneven.experiments.suite import Outcome, Spec, all_results, run_suite
from uneven.experiments.targets import judged, reference, table
from uneven.io import write_text_atomically

SPECS = {
    "beyond-mnist": Spec("mnist", beyond_panels.beyond, 3.0),
    "ablation-mnist": Spec("mnist", beyond_panels.ablation, 3.0),
    "sources-mnist": Spec("mnist", beyond_panels.sources, 1.0),
    "harder-mnist": Spec("mnist", beyond_panels.harder, 0.3),
    "wide-mnist": Spec("mnist-784", beyond_panels.wide, 10.0),
    "beyond-covertype": Spec("covertype", beyond_panels.beyond, 50.0),
    "ablation-covertype": Spec("covertype", beyond_panels.ablation, 50.0),
    "sources-covertype": Spec("covertype", beyond_panels.sources, 10.0),
    "harder-covertype": Spec("covertype", beyond_panels.harder, 5.0),
}


def beyond(
    panels: Sequence[str] | None = None,
    *,
    runs: int | None = None,
    data: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] = "beyond",
    seed: int = 0,
    quick: bool = False,
    progress: bool = False,
) -> Outcome:
    """Run the paper's strategies and ours on the same rows at the same ε; see `reproduce` for the arguments.

    The claims are the targets. The folder has ``targets.json``, ``tables.md``, ``figure.png`` and ``figure.pdf``.
    """
    folder = Path(output)
    results, seconds = run_suite(
        SPECS, panels, runs=runs, data=data, folder=folder, seed=seed, quick=quick, progress=progress
    )
    targets = summarised(all_results(SPECS, folder), folder)
    return Outcome(results, [target for target in targets if target.panel in results], folder, seconds)


def summarised(results: Mapping[str, Results], folder: Path) -> list[Claim]:
    """Judge the targets, make the tables and draw the figure, from results alone; write them into the folder."""
    targets = judged(results)
    write_claims(folder / "targets.json", results, targets)
    sections = [markdown_claims("target", targets)] if targets else []
    sections += [f"## {name}\n\n{reference(one)}\n\n{markdown_table(*table(one))}" for name, one in results.items()]
    write_text_atomically(folder / "tables.md", "\n".join(sections))
    if (drawn := figure(results)) is not None:
        write_figure(folder, drawn)
    return targets
