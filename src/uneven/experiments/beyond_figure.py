"""Beyond the paper in pictures: a row a data set; excess objective, accuracy, more sources, and what each idea does."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from uneven.experiments.figure import LETTERS, ROWS, draw_panel, plain_log_axis
from uneven.experiments.results import Results
from uneven.experiments.targets import excess

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES = {
    "Algorithm2": ("#D55E00", "s", "--"),
    "CleanOnly": ("#E69F00", "", "--"),
    "Strictest ε": ("#CC79A7", "v", ":"),
    "uneven": ("#0072B2", "o", "-"),
    "uneven, clean only": ("#009E73", "", "-"),
    "uneven, strictest ε": ("#56B4E9", "^", ":"),
}
COLUMNS = ("beyond", "accuracy", "sources", "ablation")


def figure(results: Mapping[str, Results]) -> Figure | None:
    """Draw the panels there are, the others stay empty; None if there are none to draw."""
    from matplotlib.figure import Figure

    rows = [row for row in ROWS if any(f"{kind}-{row}" in results for kind in ("beyond", "sources", "ablation"))]
    if not rows:
        return None
    made = Figure(figsize=(17, 3.7 * len(rows)), layout="constrained")
    axes = made.subplots(len(rows), len(COLUMNS), squeeze=False, width_ratios=(1, 1, 0.8, 1))
    drawn: dict[str, Artist] = {}
    for letter, one, (row, column) in zip(LETTERS, axes.flat, product(rows, COLUMNS), strict=False):
        name = f"{'beyond' if column == 'accuracy' else column}-{row}"
        draw_panel(one, DRAW[column], results.get(name), f"({letter}) {ROWS[row]}")
        handles, labels = one.get_legend_handles_labels()
        drawn |= dict(zip(labels, handles, strict=True))
    if drawn:
        made.legend(drawn.values(), drawn.keys(), loc="outside upper center", ncols=len(drawn), frameon=False)
    return made


def _excess(axes: Axes, results: Results) -> None:
    for method, (colour, marker, dash) in STYLES.items():
        x, mean, error = excess(results, method)
        if np.isnan(x[0]):
            axes.axhline(mean[0], color=colour, ls=dash, lw=1.4, label=method)
        else:
            axes.errorbar(x, mean, error, color=colour, marker=marker, ls=dash, ms=4, lw=1.4, capsize=2, label=method)
    axes.set(yscale="log", xlabel="ε of the noisy source", ylabel="excess objective f − f*", xticks=range(1, 11))
    plain_log_axis(axes)


def _accuracy(axes: Axes, results: Results) -> None:
    for method, (colour, marker, dash) in STYLES.items():
        x, runs = results.of(method, "accuracy")
        mean = 100 * runs.mean(axis=1)
        if np.isnan(x[0]):
            axes.axhline(mean[0], color=colour, ls=dash, lw=1.4)
        else:
            axes.plot(x, mean, color=colour, marker=marker, ls=dash, ms=4, lw=1.4)
    axes.axhline(
        100 * results.settings["optimum"]["accuracy"], color="#000000", ls=":", lw=1.2, label="no privacy, converged"
    )
    axes.set(xlabel="ε of the noisy source", ylabel="test accuracy, %", xticks=range(1, 11))


def _sources(axes: Axes, results: Results) -> None:
    for method in ("Algorithm2", "uneven"):
        colour, marker, dash = STYLES[method]
        x, mean, error = excess(results, method)
        axes.errorbar(x, mean, error, color=colour, marker=marker, ls=dash, ms=4, lw=1.4, capsize=2, label=method)
    axes.set(
        yscale="log", xlabel="sources used, ε = 10, 3, 1, 0.3", ylabel="excess objective f − f*", xticks=(1, 2, 3, 4)
    )
    plain_log_axis(axes)


def _ablation(axes: Axes, results: Results) -> None:
    methods = list(dict.fromkeys(method for method, _ in results.values["objective"]))
    at_one = [excess(results, method)[1][0] for method in methods]
    places = np.arange(len(methods))[::-1]
    ours = methods.index("uneven")
    colours = ["#D55E00"] * ours + ["#0072B2"] * (len(methods) - ours)
    axes.barh(places, at_one, color=colours, height=0.65)
    for place, value in zip(places, at_one, strict=True):
        axes.annotate(
            f"{value:.3g}", (value, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7
        )
    axes.set(xscale="log", xlabel="excess objective at ε_N = 1", yticks=places, xlim=(None, max(at_one) * 4))
    axes.set_yticklabels(methods, fontsize=8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


DRAW = {"beyond": _excess, "accuracy": _accuracy, "sources": _sources, "ablation": _ablation}
