"""The plan in pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from uneven.planner.decision import Decision
from uneven.planner.text import number, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by people who do not see all colours.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
STYLES = ("-", "--", ":")
MIXED = "#555555"
MARKED = "#0072B2"
PLAIN = "#6b7785"
LEGEND = 12  # more segments than this, and a legend would hide the picture


def picture(plan: Decision, others: Mapping[str, Decision]) -> Figure:
    """Step sizes over time, coloured by source; and the bound of every strategy side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    draw_steps(left, plan)
    draw_bounds(right, plan, others)
    return figure


def draw_steps(axes: Axes, plan: Decision) -> None:
    """Step sizes over time, coloured by source."""
    from matplotlib.ticker import MaxNLocator

    eta, start = plan.step_sizes(), 0
    place = {source.name: i for i, source in enumerate(plan.sources)}
    for segment in plan.segments:
        stop = start + segment.steps
        t = thinned(start + 1, stop)
        mixed = len(segment.sources) > 1
        i = place[segment.sources[0]]
        name = "all sources together" if mixed else shortened(segment.sources[0], 28)
        label = f"{segment.rows:,} rows of {name}".replace("$", r"\$")
        axes.plot(
            t,
            eta[t - 1],
            color=MIXED if mixed else COLOURS[i % len(COLOURS)],
            ls="-" if mixed else STYLES[i // len(COLOURS) % len(STYLES)],
            marker="o" if len(t) == 1 else None,
            label=label,
            lw=2.2,
        )
        start = stop
    axes.set(yscale="log", xlabel="step", ylabel="step size", xlim=(0, plan.steps * 1.02 + 0.5))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_title(f"Step sizes of '{plan.strategy}'", loc="left")
    axes.grid(alpha=0.25)
    if len(plan.segments) <= LEGEND:
        axes.legend(frameon=False, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def thinned(first: int, last: int) -> NDArray[np.int64]:
    """Steps between two that draw the same line as all of them.

    >>> thinned(3, 7).tolist()
    [3, 4, 5, 6, 7]
    """
    both = np.geomspace(first, last, 200), np.linspace(first, last, 200)
    return np.unique(np.rint(np.concatenate(both)).astype(np.int64))


def draw_bounds(axes: Axes, plan: Decision, others: Mapping[str, Decision]) -> None:
    """Bound of every strategy, one below the other."""
    for row, (name, other) in enumerate(others.items()):
        shade = MARKED if name == plan.strategy else PLAIN
        evaluated = other.evaluated_bound()
        if evaluated is not None:
            axes.plot([evaluated, other.bound], [row, row], color=shade, lw=1.5, zorder=1)
            axes.plot(evaluated, row, marker="D", ms=6, color=shade, mfc="white", mew=1.5)
        axes.plot(other.bound, row, marker="o", ms=8, color=shade)
        axes.annotate(number(other.bound), (other.bound, row), (8, -3), textcoords="offset points", fontsize=8.5)
    axes.plot([], [], marker="o", ms=8, color=PLAIN, ls="none", label="as the theorem states it")
    axes.plot([], [], marker="D", ms=6, color=PLAIN, mfc="white", mew=1.5, ls="none", label="evaluated step by step")
    axes.axvline(plan.problem.ball**2, color="#D55E00", ls="--", lw=1.2, label="no step at all")
    axes.set(xscale="log", xlabel="bound on the mean of ‖w - w*‖² (smaller is better)")
    axes.set_yticks(range(len(others)), list(others))
    axes.invert_yaxis()
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * (high / low) ** 0.18)  # room for the figures
    axes.set_title("Bound of every strategy", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25)
    axes.legend(frameon=False, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.4, -0.16), ncols=3)
