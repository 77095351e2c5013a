"""The pictures of the page: those of a plan one by one, on a light or a dark ground, and what was measured."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

from uneven.planner import Plan, draw_bounds, draw_steps
from uneven.plotting import draw_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from uneven.studio.simulation import Estimate

INK = {"light": "#262730", "dark": "#fafafa"}
MEASURED = "#009E73"
SIZE = (5.6, 4.2)


def draw_steps_figure(planned: Plan, ground: str = "light") -> Figure:
    """Step sizes over time."""
    with _axes(ground) as axes:
        draw_steps(axes, planned)
        return _figure(axes)


def draw_bounds_figure(planned: Plan, others: Mapping[str, Plan], ground: str = "light") -> Figure:
    """Bound of every strategy."""
    with _axes(ground) as axes:
        draw_bounds(axes, planned, others)
        draw_legend(axes, centre=0.3, columns=2)
        return _figure(axes)


def draw_measured_figure(
    planned: Plan, others: Mapping[str, Plan], measured: Mapping[str, Estimate], ground: str = "light"
) -> Figure:
    """Bound of every strategy, and what was measured with two standard errors on each side."""
    with _axes(ground) as axes:
        draw_bounds(axes, planned, others)
        means, errors = zip(*(measured[name] for name in others), strict=True)
        style: dict[str, Any] = {"fmt": "s", "ms": 6, "capsize": 3, "zorder": 3}
        whiskers = [2.0 * error for error in errors]
        axes.errorbar(means, range(len(others)), xerr=whiskers, color=MEASURED, label="measured (2 s.e.)", **style)
        axes.set_xlim(min(axes.get_xlim()[0], 0.6 * min(means)))
        axes.set(title="", xlabel="mean of ‖w - w*‖² (smaller is better)")
        axes.set_title("Measured against predicted", loc="left")
        draw_legend(axes, centre=0.3, columns=2)
        return _figure(axes)


def encode_figure(figure: Figure) -> str:
    """Figure as a PNG inside a URL, so that a page can hold it."""
    content = BytesIO()
    figure.savefig(content, format="png", dpi=200, bbox_inches="tight")
    return f"data:image/png;base64,{b64encode(content.getvalue()).decode('ascii')}"


@contextmanager
def _axes(ground: str) -> Iterator[Axes]:
    """Axes of a figure of its own, in ink that shows on the ground."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    ink = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    clear = ("figure.facecolor", "axes.facecolor")
    style: Any = dict.fromkeys(ink, INK[ground]) | dict.fromkeys(clear, "none")
    with mpl.rc_context(style):
        yield Figure(figsize=SIZE, layout="constrained").subplots()


def _figure(axes: Axes) -> Figure:
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure
