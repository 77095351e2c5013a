"""A valuation in pictures."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from uneven.planner.picture import COLOURS, MARKED, PLAIN, STYLES
from uneven.planner.text import number, shortened
from uneven.valuation.answer import Answer
from uneven.valuation.text import money

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def picture(found: Answer) -> Figure:
    """Bound against spend, coloured by where the money goes; and what precision costs at each source."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _curve(left, found)
    _rates(right, found)
    return figure


def _curve(axes: Axes, found: Answer) -> None:
    place = {name: i for i, name in enumerate(dict.fromkeys(name for name in found.going_to if name))}
    points = list(zip(found.spends, found.bounds, found.going_to, strict=True))
    start = 0
    for name, group in groupby(points, key=lambda point: point[2]):
        stop = start + len(list(group))
        stretch = points[max(0, start - 1) : stop]
        i = place.get(name, 0)
        axes.plot(
            [spend for spend, _, _ in stretch],
            [bound for _, bound, _ in stretch],
            color=COLOURS[i % len(COLOURS)] if name else PLAIN,
            ls=STYLES[i // len(COLOURS) % len(STYLES)],
            marker="o" if len(stretch) == 1 else None,
            label=f"money goes to {shortened(name, 28)}".replace("$", r"\$") if name else None,
            lw=2.2,
        )
        start = stop
    if found.budget is not None:
        axes.plot(found.budget, found.bound, marker="o", ms=9, color=MARKED, mfc="white", mew=2, zorder=3)
        late = found.budget > 0.7 * found.spends[-1]
        words, point = f"{money(found.budget)} buys {number(found.bound)}", (found.budget, found.bound)
        side = "right" if late else "left"
        axes.annotate(words, point, (8 if late else 10, 10), textcoords="offset points", ha=side, fontsize=9)
    axes.axhline(found.problem.ball**2, color="#D55E00", ls="--", lw=1.2, label="no step at all")
    axes.set(yscale="log", xlabel="money spent", ylabel="bound on the mean of ‖w - w*‖²")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("What money buys (smaller is better)", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, which="both")
    axes.legend(frameon=False, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)


def _rates(axes: Axes, found: Answer) -> None:
    from matplotlib.patches import Patch

    bought = {purchase.source for purchase in found.purchases}
    priced = [worth for worth in found.worths if worth.price is not None]
    for row, worth in enumerate(priced):
        cost = (worth.price or 0.0) / worth.exchange
        shade = MARKED if worth.name in bought else PLAIN
        axes.barh(row, cost, height=0.55, color=shade)
        axes.annotate(money(cost), (cost, row), (6, -3), textcoords="offset points", fontsize=8.5)
    names = [shortened(worth.name, 28).replace("$", r"\$") for worth in priced]
    axes.set_yticks(range(len(priced)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, axes.get_xlim()[1] * 1.15)
    axes.set_xlabel("price of as much precision as one row of the cleanest has")
    axes.set_title("What precision costs", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25)
    key = [Patch(color=MARKED, label="to buy"), Patch(color=PLAIN, label="not to buy")]
    axes.legend(handles=key, frameon=False, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.4, -0.16), ncols=2)
