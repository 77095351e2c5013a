"""The six panels as one picture, laid out as in the paper: a row a data set, a column a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from uneven.experiments.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS = {"mnist": "MNIST", "covertype": "Covertype"}
LETTERS = "abcdefgh"
COLUMNS = ("order", "two-rates", "vary-c2")

# Okabe and Ito's colours, told apart by people who do not see all colours; markers and dashes for print without any.
STYLES = {
    "CleanFirst": ("#0072B2", "o", "-"),
    "NoisyFirst": ("#D55E00", "s", "--"),
    "Arbitrary": ("#009E73", "^", ":"),
    "Algorithm2": ("#0072B2", "o", "-"),
    "SameClean": ("#E69F00", "v", "-."),
    "SameNoisy": ("#D55E00", "s", "--"),
    "CleanOnly": ("#009E73", "", "--"),
    "Optimal": ("#000000", "", ":"),
    "TwoRates": ("#0072B2", "o", "-"),
}
LABELS = {"TwoRates": "c₁ = 1/λ, then c₂"}


def figure(results: Mapping[str, Results]) -> Figure:
    """Draw the panels there are; the others stay empty."""
    from matplotlib.figure import Figure

    rows = [row for row in ROWS if any(name.endswith(row) for name in results)]
    columns = [column for column in COLUMNS if any(name.startswith(column) for name in results)]
    made = Figure(figsize=(4.1 * len(columns), 3.3 * len(rows)), layout="constrained")
    axes = made.subplots(len(rows), len(columns), squeeze=False)
    places = product(rows, columns)
    for letter, one, (row, column) in zip(LETTERS, axes.flat, places, strict=False):
        draw_panel(one, DRAW[column], results.get(f"{column}-{row}"), f"({letter}) {ROWS[row]}")
    return made


def draw_panel(axes: Axes, draw: Callable[[Axes, Results], None], results: Results | None, title: str) -> None:
    """Draw one panel of a figure, or leave its place empty."""
    if results is None:
        axes.set_axis_off()
        return
    draw(axes, results)
    axes.set_title(title, fontsize=10, loc="left")


def _order(axes: Axes, results: Results) -> None:
    for method in ("CleanFirst", "NoisyFirst", "Arbitrary"):
        _line(axes, method, *results.gap(method))
    axes.set(xscale="log", yscale="log", xlabel="c", ylabel="|f(w) − f(v)|")
    _marks(axes, results)
    _finish(axes)


def _two_rates(axes: Axes, results: Results) -> None:
    for method in ("Algorithm2", "SameClean", "SameNoisy"):
        _line(axes, method, *results.of(method))
    _level(axes, "CleanOnly", results)
    _level(axes, "Optimal", results)
    axes.set(yscale="log", xlabel="ε of the noisy source", ylabel="final objective", xticks=range(1, 11))
    _finish(axes)


def _vary_c2(axes: Axes, results: Results) -> None:
    _line(axes, "TwoRates", *results.of("TwoRates"))
    _level(axes, "CleanOnly", results)
    axes.set(xscale="log", yscale="log", xlabel="c₂", ylabel="final objective")
    _marks(axes, results)
    _finish(axes)


DRAW = {"order": _order, "two-rates": _two_rates, "vary-c2": _vary_c2}


def _finish(axes: Axes) -> None:
    plain_log_axis(axes)
    axes.legend(fontsize=8, frameon=False)


def plain_log_axis(axes: Axes) -> None:
    """Plain numbers on a log axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _line(axes: Axes, method: str, x: NDArray[np.float64], runs: NDArray[np.float64]) -> None:
    colour, marker, dash = STYLES[method]
    mean, error = runs.mean(axis=1), runs.std(axis=1, ddof=1) / np.sqrt(runs.shape[1])
    axes.errorbar(
        x, mean, yerr=error, color=colour, marker=marker, ls=dash, ms=4, lw=1.4, capsize=2,
        label=LABELS.get(method, method),
    )  # fmt: skip


def _level(axes: Axes, method: str, results: Results) -> None:
    colour, _, dash = STYLES[method]
    runs = results.of(method)[1][0]
    mean, error = runs.mean(), runs.std(ddof=1) / np.sqrt(len(runs))
    axes.axhline(mean, color=colour, ls=dash, lw=1.4, label=method)
    axes.axhspan(mean - error, mean + error, color=colour, alpha=0.15, lw=0)


def _marks(axes: Axes, results: Results) -> None:
    for name, x in results.settings["marks"].items():
        axes.axvline(x, color="#777777", lw=0.8, ls="-")
        axes.annotate(
            name, (x, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 2), textcoords="offset points",
            ha="center", va="bottom", fontsize=8, color="#444444",
        )  # fmt: skip
