"""Parts that charts of several rooms share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uneven.words import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people with colour blindness can tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
STYLES = ("-", "--", ":")
MARKED = "#0072B2"
PLAIN = "#6b7785"


def make_panels() -> tuple[Figure, Axes, Axes]:
    """Figure with a wide chart beside a narrow one."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    return figure, left, right


def choose_line_style(place: int, points: int) -> dict[str, Any]:
    """Style of the line of the source at this place: no two alike among the first 24; a dot for a single point."""
    colour, style = COLOURS[place % len(COLOURS)], STYLES[place // len(COLOURS) % len(STYLES)]
    return {"color": colour, "ls": style, "marker": "o" if points == 1 else None, "lw": 2.2}


def label_source(name: str) -> str:
    """Name of a source for a chart: shortened, and without Matplotlib's mathematics."""
    return shorten(name, 28).replace("$", r"\$")


def draw_legend(axes: Axes, centre: float, columns: int, **options: Any) -> None:
    """Legend below a chart."""
    place: Any = {"loc": "upper center", "bbox_to_anchor": (centre, -0.16), "ncols": columns}
    axes.legend(frameon=False, fontsize=8.5, **place, **options)


def mark_start(axes: Axes, squared_radius: float, horizontal: bool = False) -> None:
    """Dashed line at R², the squared distance known before the first step."""
    draw = axes.axhline if horizontal else axes.axvline
    draw(squared_radius, color="#D55E00", ls="--", lw=1.2, label="no step at all")


def finish_rows(axes: Axes, labels: list[str], title: str) -> None:
    """Label the rows of a chart, the first on top, and give it a title and a light grid."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)  # also around a row without a mark
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25)


def label_plainly(axis: Axis) -> None:
    """Ticks of a log axis as plain numbers, 0.5 instead of 5·10⁻¹, as many as fit; evenly spaced on a short axis."""
    from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullFormatter

    low, high = axis.get_view_interval()
    spread: Locator = LogLocator(subs=(1.0,) if high > 1e3 * low else (1.0, 2.0, 5.0))
    axis.set_major_locator(MaxNLocator(5) if high < 5 * low else spread)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axis.set_minor_formatter(NullFormatter())
