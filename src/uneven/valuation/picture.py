"""A valuation in charts."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from uneven.plotting import (
    MARKED,
    PLAIN,
    choose_line_style,
    draw_legend,
    finish_rows,
    label_source,
    make_panels,
    mark_start,
)
from uneven.valuation.text import format_money
from uneven.words import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from uneven.valuation.valuing import Valuation


def draw_valuation(found: Valuation) -> Figure:
    """Bound against spend, coloured by where the money goes; and what precision costs at each source."""
    figure, left, right = make_panels()
    _draw_curve(left, found)
    _draw_costs(right, found)
    return figure


def _draw_curve(axes: Axes, found: Valuation) -> None:
    place = {name: i for i, name in enumerate(dict.fromkeys(name for name in found.going_to if name))}
    points = list(zip(found.spends, found.bounds, found.going_to, strict=True))
    start = 0
    for name, group in groupby(points, key=lambda point: point[2]):
        stop = start + len(list(group))
        stretch = points[max(0, start - 1) : stop]
        style = choose_line_style(place.get(name, 0), len(stretch))
        style |= {"label": f"money goes to {label_source(name)}"} if name else {"color": PLAIN}
        axes.plot([spend for spend, _, _ in stretch], [bound for _, bound, _ in stretch], **style)
        start = stop
    if found.budget is not None:
        axes.plot(found.budget, found.bound, marker="o", ms=9, color=MARKED, mfc="white", mew=2, zorder=3)
        late = found.budget > 0.7 * found.spends[-1]
        words, point = f"{format_money(found.budget)} buys {format_number(found.bound)}", (found.budget, found.bound)
        side = "right" if late else "left"
        axes.annotate(words, point, (8 if late else 10, 10), textcoords="offset points", ha=side, fontsize=9)
    if not found.anchored:
        mark_start(axes, found.problem.ball**2, horizontal=True)
    what = "expected excess objective" if found.anchored else "bound on the mean of ‖w - w*‖²"
    axes.set(yscale="log", xlabel="money spent", ylabel=f"{what}, log scale")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("What money buys (smaller is better)", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, which="both")
    if axes.get_legend_handles_labels()[0]:
        draw_legend(axes, centre=0.5, columns=3)


def _draw_costs(axes: Axes, found: Valuation) -> None:
    from matplotlib.patches import Patch

    bought = {purchase.source for purchase in found.purchases}
    priced = [worth for worth in found.worths if worth.price is not None]
    for row, worth in enumerate(priced):
        cost = (worth.price or 0.0) / worth.exchange
        shade = MARKED if worth.name in bought else PLAIN
        axes.barh(row, cost, height=0.55, color=shade)
        axes.annotate(format_money(cost), (cost, row), (6, -3), textcoords="offset points", fontsize=8.5)
    axes.set_xlim(0, axes.get_xlim()[1] * 1.15)
    axes.set_xlabel("price of as much precision as one row of the cleanest has")
    finish_rows(axes, [label_source(worth.name) for worth in priced], "What precision costs")
    key = [Patch(color=MARKED, label="to buy"), Patch(color=PLAIN, label="not to buy")]
    draw_legend(axes, centre=0.4, columns=2, handles=key)
