"""A plan in charts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uneven.planner.segments import compute_step_sizes
from uneven.plotting import (
    MARKED,
    PLAIN,
    choose_line_style,
    draw_legend,
    finish_rows,
    label_plainly,
    label_source,
    make_panels,
    mark_start,
)
from uneven.words import format_bound, format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from uneven.planner.planning import Plan

MIXED = "#555555"
LEGEND = 12  # more segments than this, and a legend would hide the chart


def draw_plan(plan: Plan, others: Mapping[str, Plan]) -> Figure:
    """Step sizes over time, coloured by source; and the bound of every strategy side by side."""
    figure, left, right = make_panels()
    draw_steps(left, plan)
    draw_bounds(right, plan, others)
    return figure


def draw_steps(axes: Axes, plan: Plan) -> None:
    """Step sizes over time, coloured by source."""
    from matplotlib.ticker import MaxNLocator

    place, start = {source.name: i for i, source in enumerate(plan.sources)}, 0
    for segment, eta in zip(plan.segments, compute_step_sizes(plan.segments), strict=True):
        t = thin_steps(start + 1, start + segment.steps)
        style, name = choose_line_style(place[segment.sources[0]], len(t)), label_source(segment.sources[0])
        if len(segment.sources) > 1:
            style, name = {**style, "color": MIXED, "ls": "-"}, "all sources together"
        axes.plot(t, eta[t - 1 - start], label=f"{format_count(segment.rows)} of {name}", **style)
        start += segment.steps
    axes.set(yscale="log", xlabel="step", ylabel="step size, log scale", xlim=(0, plan.steps * 1.02 + 0.5))
    label_plainly(axes.yaxis)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_title(f"Step sizes of '{plan.strategy}'", loc="left")
    axes.grid(alpha=0.25)
    if 0 < len(plan.segments) <= LEGEND:
        draw_legend(axes, centre=0.5, columns=2)


def thin_steps(first: int, last: int) -> NDArray[np.int64]:
    """Steps between two that draw the same line as all of them.

    >>> thin_steps(3, 7).tolist()
    [3, 4, 5, 6, 7]
    """
    both = np.geomspace(first, last, 200), np.linspace(first, last, 200)
    return np.unique(np.rint(np.concatenate(both)).astype(np.int64))


def draw_bounds(axes: Axes, plan: Plan, others: Mapping[str, Plan]) -> None:
    """Bound of every strategy, one below the other."""
    for row, (name, other) in enumerate(others.items()):
        shade = MARKED if name == plan.strategy else PLAIN
        evaluated, stated = other.evaluated_bound(), np.isfinite(other.bound)
        if evaluated is not None:
            axes.plot([evaluated, other.bound], [row, row], color=shade, lw=1.5, zorder=1)
            axes.plot(evaluated, row, marker="D", ms=6, color=shade, mfc="white", mew=1.5)
        if stated:
            axes.plot(other.bound, row, marker="o", ms=8, color=shade)
        beside: Any = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "annotation_clip": False}
        axes.annotate(format_bound(other.bound), (1, row), (6, -3), fontsize=8.5, **beside)  # where no line crosses it
    axes.plot([], [], marker="o", ms=8, color=PLAIN, ls="none", label="as the theorem states it")
    axes.plot([], [], marker="D", ms=6, color=PLAIN, mfc="white", mew=1.5, ls="none", label="evaluated step by step")
    mark_start(axes, plan.problem.ball**2)
    axes.set(xscale="log", xlabel="bound on the mean of ‖w - w*‖², log scale (smaller is better)")
    label_plainly(axes.xaxis)
    finish_rows(axes, list(others), "Bound of every strategy")
    draw_legend(axes, centre=0.4, columns=3)
