"""Charts of a plan: figures stand beside the chart, where no line crosses them."""

from itertools import pairwise

import uneven
from uneven.plotting import finish_rows


def test_figures_of_the_bounds_are_beside_the_chart_and_not_on_it():
    sources = [uneven.Source("clinic", 5_000, uneven.LocalPrivacy(10)), uneven.Source("region", 45_000)]
    figure = uneven.plan(sources, n_features=5).plot()
    figure.canvas.draw()
    chart = figure.axes[1].get_window_extent()
    told = [text.get_window_extent() for text in figure.axes[1].texts]
    assert len(told) == len(uneven.planner.STRATEGIES)
    assert all(one.x0 > chart.x1 and one.x1 < figure.bbox.x1 for one in told)
    heights = sorted((one.y0, one.y1) for one in told)
    assert all(above[0] > below[1] for below, above in pairwise(heights))


def test_a_row_without_a_mark_keeps_its_distance_from_the_title():
    """The first strategy may have no bound: nothing is drawn there, and half a row is left above it."""
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    axes.plot([1.0, 2.0], [1, 2])
    finish_rows(axes, ["none", "a", "b"], "title")
    assert axes.get_ylim() == (2.5, -0.5)
