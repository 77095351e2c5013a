"""Figures: one row per data set; in the paper's a column per question, beyond it a column per kind of panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from uneven.experiments.results import Results, estimate_mean

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Draw = Callable[["Axes", Results], None]

ROWS = {"mnist": "MNIST", "covertype": "Covertype"}
LETTERS = "abcdefgh"

# Okabe and Ito's colours, distinguishable with colour blindness; markers and dashes for print without colour.
BLUE, ORANGE, GREEN, RED, PINK, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
STYLES = {
    "CleanFirst": (BLUE, "o", "-"),
    "NoisyFirst": (RED, "s", "--"),
    "Arbitrary": (GREEN, "^", ":"),
    "Algorithm2": (BLUE, "o", "-"),
    "SameClean": (ORANGE, "v", "-."),
    "SameNoisy": (RED, "s", "--"),
    "CleanOnly": (GREEN, "", "--"),
    "Optimal": ("#000000", "", ":"),
    "TwoRates": (BLUE, "o", "-"),
}
BEYOND_STYLES = {
    "Algorithm2": (RED, "s", "--"),
    "CleanOnly": (ORANGE, "", "--"),
    "Strictest ε": (PINK, "v", ":"),
    "uneven": (BLUE, "o", "-"),
    "uneven, clean only": (GREEN, "", "-"),
    "uneven, strictest ε": (SKY, "^", ":"),
}
LABELS = {"TwoRates": "c₁ = 1/λ, then c₂"}


def draw_paper(results: Mapping[str, Results]) -> Figure:
    """Draw the panels of the paper that have results; the others stay empty."""
    from matplotlib.figure import Figure

    rows = [row for row in ROWS if any(name.endswith(row) for name in results)]
    columns = [column for column in PAPER if any(name.startswith(column) for name in results)]
    figure = Figure(figsize=(4.1 * len(columns), 3.3 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), len(columns), squeeze=False)
    for letter, one, (row, column) in zip(LETTERS, axes.flat, product(rows, columns), strict=False):
        _draw_panel(one, PAPER[column], results.get(f"{column}-{row}"), f"({letter}) {ROWS[row]}")
    return figure


def draw_beyond(results: Mapping[str, Results]) -> Figure | None:
    """Draw the panels beyond the paper that have results, the others stay empty; None if no panel can be drawn."""
    from matplotlib.figure import Figure

    rows = [row for row in ROWS if any(f"{kind}-{row}" in results for kind, _ in BEYOND)]
    if not rows:
        return None
    figure = Figure(figsize=(17, 3.7 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), len(BEYOND), squeeze=False, width_ratios=(1, 1, 0.8, 1))
    drawn: dict[str, Artist] = {}
    for letter, one, (row, (kind, draw)) in zip(LETTERS, axes.flat, product(rows, BEYOND), strict=False):
        _draw_panel(one, draw, results.get(f"{kind}-{row}"), f"({letter}) {ROWS[row]}")
        handles, labels = one.get_legend_handles_labels()
        drawn |= dict(zip(labels, handles, strict=True))
    if drawn:
        figure.legend(drawn.values(), drawn.keys(), loc="outside upper center", ncols=len(drawn), frameon=False)
    return figure


def _draw_panel(axes: Axes, draw: Draw, results: Results | None, title: str) -> None:
    """Draw one panel of a figure, or leave its place empty."""
    if results is None:
        axes.set_axis_off()
        return
    draw(axes, results)
    axes.set_title(title, fontsize=10, loc="left")


def _draw_order(axes: Axes, results: Results) -> None:
    for method in ("CleanFirst", "NoisyFirst", "Arbitrary"):
        x, runs = results.gap(method)
        _draw_line(axes, method, x, *estimate_mean(runs))
    axes.set(xscale="log", yscale="log", xlabel="c, log scale", ylabel="|f(w) − f(v)|, log scale")
    _finish(axes, results)


def _draw_two_rates(axes: Axes, results: Results) -> None:
    _draw_methods(axes, results, ("Algorithm2", "SameClean", "SameNoisy", "CleanOnly", "Optimal"))
    axes.set(yscale="log", xlabel="ε of the noisy source", ylabel="final objective, log scale", xticks=range(1, 11))
    _finish(axes, results)


def _draw_vary_c2(axes: Axes, results: Results) -> None:
    _draw_methods(axes, results, ("TwoRates", "CleanOnly"))
    axes.set(xscale="log", yscale="log", xlabel="c₂, log scale", ylabel="final objective, log scale")
    _finish(axes, results)


def _draw_methods(axes: Axes, results: Results, methods: Sequence[str]) -> None:
    """Final objective of methods of the paper, those that do not depend on x as a level with its standard error."""
    for method in methods:
        x, runs = results.of(method)
        mean, error = estimate_mean(runs)
        _draw_line(axes, method, x, mean, error)
        if np.isnan(x[0]):
            axes.axhspan(mean[0] - error[0], mean[0] + error[0], color=STYLES[method][0], alpha=0.15, lw=0)


def _draw_line(
    axes: Axes,
    method: str,
    x: Array,
    mean: Array,
    error: Array | None = None,
    styles: Mapping[str, tuple[str, str, str]] = STYLES,
) -> None:
    """Means with their standard errors, or a level line for a method that does not depend on x."""
    (colour, marker, dash), label = styles[method], LABELS.get(method, method)
    if np.isnan(x[0]):
        axes.axhline(mean[0], color=colour, ls=dash, lw=1.4, label=label)
    else:
        axes.errorbar(x, mean, error, color=colour, marker=marker, ls=dash, ms=4, lw=1.4, capsize=2, label=label)


def _finish(axes: Axes, results: Results) -> None:
    for name, x in results.settings["marks"].items():
        axes.axvline(x, color="#777777", lw=0.8, ls="-")
        axes.annotate(
            name, (x, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 2), textcoords="offset points",
            ha="center", va="bottom", fontsize=8, color="#444444",
        )  # fmt: skip
    _label_log_axis(axes)
    axes.legend(fontsize=8, frameon=False)


def _label_log_axis(axes: Axes) -> None:
    """Decimal numbers on a log axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _draw_excess(axes: Axes, results: Results) -> None:
    for method in BEYOND_STYLES:
        _draw_line(axes, method, *results.excess(method), BEYOND_STYLES)
    axes.set(
        yscale="log", xlabel="ε of the noisy source", ylabel="excess objective f − f*, log scale", xticks=range(1, 11)
    )
    _label_log_axis(axes)


def _draw_accuracy(axes: Axes, results: Results) -> None:
    for method in BEYOND_STYLES:
        x, runs = results.of(method, "accuracy")
        _draw_line(axes, method, x, 100 * runs.mean(axis=1), styles=BEYOND_STYLES)
    best = 100 * results.settings["optimum"]["accuracy"]
    axes.axhline(best, color="#000000", ls=":", lw=1.2, label="no privacy, converged")
    axes.set(xlabel="ε of the noisy source", ylabel="test accuracy, %", xticks=range(1, 11))


def _draw_sources(axes: Axes, results: Results) -> None:
    for method in ("Algorithm2", "uneven"):
        _draw_line(axes, method, *results.excess(method), BEYOND_STYLES)
    axes.set(
        yscale="log",
        xlabel="sources used, ε = 10, 3, 1, 0.3",
        ylabel="excess objective f − f*, log scale",
        xticks=(1, 2, 3, 4),
    )
    _label_log_axis(axes)


def _draw_ablation(axes: Axes, results: Results) -> None:
    methods = results.methods
    at_one = [results.excess(method)[1][0] for method in methods]
    places = np.arange(len(methods))[::-1]
    ours = methods.index("uneven")
    axes.barh(places, at_one, color=[RED] * ours + [BLUE] * (len(methods) - ours), height=0.65)
    for place, value in zip(places, at_one, strict=True):
        axes.annotate(
            f"{value:.3g}", (value, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7
        )
    axes.set(xscale="log", xlabel="excess objective at ε_N = 1, log scale", yticks=places, xlim=(None, max(at_one) * 4))
    axes.set_yticklabels(methods, fontsize=8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


PAPER: dict[str, Draw] = {"order": _draw_order, "two-rates": _draw_two_rates, "vary-c2": _draw_vary_c2}
"""Columns of the paper's figure, by kind of panel."""

BEYOND: tuple[tuple[str, Draw], ...] = (
    ("beyond", _draw_excess),
    ("beyond", _draw_accuracy),
    ("sources", _draw_sources),
    ("ablation", _draw_ablation),
)
"""Columns of the figure beyond the paper: the kind of panel each draws, and how."""
