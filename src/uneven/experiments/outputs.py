"""What is written beside the runs: claims as JSON, tables as Markdown, figures as PNG and PDF."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from uneven.experiments.claims import Claim
from uneven.experiments.panels import SITE, name_setting
from uneven.experiments.results import Results
from uneven.io import refuse_folder, resolve_target, write_text_atomically, written_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACCURACY = ("classes", "wide")
"""Panels whose tables show test accuracy. The objective of a sketch is not comparable with that of rows as given."""

WRITTEN = ("claims.json", "claims.md", "targets.json", "tables.md", "figure.png", "figure.pdf")
"""Files that a suite writes when its runs are done."""


def refuse_outputs(folder: Path) -> None:
    """Refuse a folder that cannot be written to, or that has something else than a file in an output's place."""
    refuse_folder(folder)
    for name in WRITTEN if folder.exists() else ():
        resolve_target(folder / name)


def write_claims(path: Path, results: Mapping[str, Results], claims: Sequence[Claim]) -> None:
    """Write claims as JSON, with the number of runs behind them."""
    facts = {"runs": min(one.runs for one in results.values()), "claims": [claim.to_dict() for claim in claims]}
    text = json.dumps(facts, indent=2, default=lambda value: value.tolist(), ensure_ascii=False)
    write_text_atomically(path, text + "\n")


def write_figure(folder: Path, figure: Figure) -> None:
    """Write a figure for the screen and for print, each whole or not at all."""
    for kind in ("png", "pdf"):
        with written_atomically(folder / f"figure.{kind}") as temporary:
            figure.savefig(temporary, dpi=200, format=kind)


def format_claims(heading: str, claims: Sequence[Claim]) -> str:
    """Claims as a table in Markdown."""
    rows = ((claim.panel, claim.statement, f"**{claim.verdict}**", claim.measured) for claim in claims)
    return format_table(("panel", heading, "verdict", "measured"), rows)


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Table in Markdown, bars in cells escaped.

    >>> print(format_table(["ε", "f"], [["1", "0.25"]]), end="")
    | ε | f |
    |---|---|
    | 1 | 0.25 |
    """
    lines = [head, ["---"] * len(head), *rows]
    texts = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    return "".join(f"|{'|'.join(line)}|\n" if line[0] == "---" else f"| {' | '.join(line)} |\n" for line in texts)


def describe_baselines(results: Results) -> str:
    """What the numbers of a panel's table are to be compared with, in words."""
    best = results.settings["optimum"]
    area = f" and an AUC of {best['auc']:.4f}" if "auc" in results.values else ""
    return (
        f"{results.runs} runs per point. f* = {best['objective']:.4f}, with {best['accuracy']:.2%} of test rows "
        f"classified correctly{area}. Predicting nothing has an excess of {best['nothing'] - best['objective']:.4f}; "
        f"the majority class is {best['majority']:.2%} of test rows."
    )


def tabulate(results: Results) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table of a panel beyond the paper.

    Parameters
    ----------
    results : Results
        Measured runs of one panel.

    Returns
    -------
    head : list of str
    rows : list of list of str
        Excess objective of each method at each x, and test accuracy of ours. An ablation has more methods than values
        of x, and one row per method.
    """
    xs = [x for x in results.excess("uneven")[0] if not np.isnan(x)]
    excess = {method: np.broadcast_to(results.excess(method)[1], len(xs)) for method in results.methods}
    if results.kind == "ablation":
        return ["", *(f"ε_N = {x:g}" for x in xs)], [[m, *(f"{v:.4f}" for v in excess[m])] for m in excess]
    if results.kind in ACCURACY:
        return _tabulate_accuracy(results, xs)
    ours = SITE if results.kind == "site" else "uneven"
    accuracy = results.of(ours, "accuracy")[1].mean(axis=1)
    baselines = [method for method in ("Algorithm2", "CleanOnly") if method in excess]
    head = [results.settings["varies"], *excess, *(f"{m} / uneven" for m in baselines), f"accuracy of {ours}"]
    area = _list_areas(results, ours)
    head += ["AUC of " + ours] if area else []
    rows = [
        [
            name_setting(results.kind, x),
            *(f"{found[i]:.4f}" for found in excess.values()),
            *(f"{excess[method][i] / excess['uneven'][i]:.0f}" for method in baselines),
            f"{accuracy[i]:.2%}",
            *area[i : i + 1],
        ]
        for i, x in enumerate(xs)
    ]
    return head, rows


def _tabulate_accuracy(results: Results, xs: Sequence[float]) -> tuple[list[str], list[list[str]]]:
    """Test accuracy of every method at each x, and AUC and the excess objective of ours."""
    found = {m: np.broadcast_to(results.of(m, "accuracy")[1].mean(axis=1), len(xs)) for m in results.methods}
    excess, area = results.excess("uneven")[1], _list_areas(results, "uneven")
    rows = [
        [
            name_setting(results.kind, x),
            *(f"{one[i]:.2%}" for one in found.values()),
            *area[i : i + 1],
            f"{excess[i]:.4f}",
        ]
        for i, x in enumerate(xs)
    ]
    return [
        results.settings["varies"],
        *found,
        *(["AUC of uneven"] if area else []),
        "excess objective of uneven",
    ], rows


def _list_areas(results: Results, method: str) -> list[str]:
    """Mean AUC of a method at each x; empty where it was not measured."""
    if "auc" not in results.values:
        return []
    return [f"{area:.4f}" for area in results.of(method, "auc")[1].mean(axis=1)]
