"""The table of sources: what a file says in it, one line for each slip, and what more rows would do."""

import math

import pytest
from hospitals import SETTINGS, as_rows, plan_as_fit, plan_steps
from hypothesis import given
from hypothesis import strategies as st

import uneven
from uneven.io import sources_to_text
from uneven.studio import table
from uneven.studio.document import Document, begin
from uneven.studio.pictures import draw_steps_figure

NOISES = st.one_of(
    st.just(uneven.Exact()),
    st.builds(uneven.LocalPrivacy, st.floats(1e-3, 1e3), st.sampled_from(["quiet", "privunit", "l2-laplace"])),
    st.floats(1e-3, 1e3).map(uneven.SitePrivacy),
    st.floats(0, 0.49).map(uneven.FlippedLabels),
    st.floats(0, 1e6).map(uneven.AdditiveNoise),
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
PRICES = st.none() | st.floats(0, 1e6)
SOURCES = st.builds(uneven.Source, NAMES, st.integers(1, 10**9), NOISES, PRICES)
EMPTY = Document('n_features = 2\n[[source]]\nname = "clinic"\nrows = 100\nnoise = { kind = "exact" }\n')


@given(st.lists(SOURCES, unique_by=lambda source: source.name, min_size=1))
def test_sources_survive_the_table(sources):
    """Typed anew into an empty table, or shown and left alone."""
    rows = as_rows(sources)
    assert all(tuple(row) == ("place", *table.COLUMNS) for row in rows)
    as_floats = [{**row, "rows": float(row["rows"])} for row in rows]  # as a table holds them beside an empty cell
    for typed in (rows, as_floats):
        edited, refusals = EMPTY.edit(typed, EMPTY.settings)
        assert refusals == []
        assert [entry.source for entry in edited.file.sources] == sources
    document = Document(sources_to_text(sources, n_features=2))
    assert document.edit(document.rows, document.settings) == (document, [])


GOOD = {"name": "clinic", "rows": 100, "kind": "local-privacy", "level": "1.0"}
SLIPS = {
    "no name": ({"name": None}, "name must be a non-empty string, got None"),
    "blank name": ({"name": " "}, "name must be a non-empty string, got ' '"),
    "no rows": ({"rows": None}, "rows of source 'b' must be a whole number of at least 1, got None"),
    "zero rows": ({"rows": 0}, "rows of source 'b' must be a whole number of at least 1, got 0"),
    "part of a row": ({"rows": 1.5}, "rows of source 'b' must be a whole number of at least 1, got 1.5"),
    "infinite rows": ({"rows": math.inf}, "rows of source 'b' must be a whole number of at least 1, got inf"),
    "no epsilon": ({"level": None}, "noise of kind 'local-privacy' needs 'epsilon'"),
    "epsilon zero": ({"level": "0.0"}, "epsilon must be a positive finite number, got 0.0"),
    "epsilon negative": ({"level": "-1.0"}, "epsilon must be a positive finite number, got -1.0"),
    "rate of one": ({"kind": "flipped-labels", "level": "1.0"}, "rate must be a number in [0, 1), got 1.0"),
    "kind": ({"kind": "magic"}, "noise kind must be one of 'exact', "),
    "mechanism": ({"mechanism": "gauss"}, "mechanism must be one of 'quiet', 'privunit', 'l2-laplace'; got 'gauss'"),
    "price": ({"price": -1.0}, "price of source 'b' must be zero or a positive finite number"),
    "duplicate": ({"name": "clinic"}, "name must differ from those above, got 'clinic' again"),
}


@pytest.mark.parametrize(("slip", "message"), SLIPS.values(), ids=SLIPS)
def test_a_bad_row_is_one_line_and_the_others_stay(slip, message):
    last = {**GOOD, "name": "c"}
    edited, refusals = EMPTY.edit([GOOD, {**GOOD, "name": "b", **slip}, last], EMPTY.settings)
    assert [source["name"] for source in edited.values["source"]] == ["clinic", "c"]
    assert len(refusals) == 1
    assert refusals[0].startswith("Row 2: ")
    assert message in refusals[0]
    assert "\n" not in refusals[0]


def test_a_row_with_nothing_typed_into_it_is_not_there():
    """A new row has its menus set, and nothing else."""
    edited, refusals = EMPTY.edit([GOOD, {"kind": "local-privacy", "mechanism": "privunit"}, {}], EMPTY.settings)
    assert refusals == []
    assert len(edited.values["source"]) == 1


def test_what_does_not_belong_to_the_kind_is_ignored():
    rows = [
        {**GOOD, "kind": "exact"},
        {**GOOD, "name": "b", "kind": "flipped-labels", "level": "0.1", "mechanism": "x"},
    ]
    edited, refusals = EMPTY.edit(rows, EMPTY.settings)
    assert [entry.noise for entry in edited.file.sources] == [uneven.Exact(), uneven.FlippedLabels(0.1)]
    assert refusals == []


def test_more_rows_are_a_plan_with_more_rows():
    clinic, region = table.HOSPITALS
    more = uneven.Source(region.name, region.rows + 7_000, region.noise)
    found = begin().value(7_000)
    assert found.bound == plan_steps(table.HOSPITALS).bound
    (worth,) = [one for one in found.worths if one.name == "region"]
    assert worth.next_bound == plan_steps([clinic, more]).bound < found.bound
    assert worth.next_bound == pytest.approx(found.bound * (1 + worth.next_change))


@pytest.mark.parametrize("strategy", ["two-rates", "averaged", "precision"])
def test_more_rows_keep_every_setting(strategy):
    settings = {**SETTINGS, "strategy": strategy, "moments": "lower", "radius": "paper", "loss": "hinge"}
    sources = [uneven.Source("a", 1_000, uneven.LocalPrivacy(1), price=0.5)]  # planned as if it was bought
    found = Document(sources_to_text(sources, **settings)).value(1_000)
    plans = [uneven.plan([uneven.Source("a", n, uneven.LocalPrivacy(1))], **settings) for n in (1_000, 2_000)]
    expected = [min(plan.bound, plan.problem.ball**2) for plan in plans]
    assert [found.bound, found.worths[0].next_bound] == expected


def test_more_rows_than_a_page_can_show_are_refused():
    with pytest.raises(ValueError, match="numbers must be at most 1,000,000,000,000,000 to be shown here"):
        begin().value(table.LARGEST)


def test_plans_too_long_to_show_are_refused():
    def of(rows):
        return Document(sources_to_text([uneven.Source("a", rows)], n_features=2)).plan()[0]

    assert of(50 * table.MOST_STEPS).steps == table.MOST_STEPS
    with pytest.raises(ValueError, match="rows must make at most 5,000,000 steps to be shown here, got 5,000,001"):
        of(50 * table.MOST_STEPS + 1)


def test_intervals_are_those_of_the_library():
    settings = {name: SETTINGS[name] for name in ("n_features", "alpha", "batch_size", "loss", "radius", "clip")}
    planned = uneven.plan(table.HOSPITALS, **SETTINGS)
    assert table.find_intervals(planned) == uneven.rate_interval(table.HOSPITALS, **settings)


def test_the_page_begins_with_two_hospitals():
    assert begin().plan()[0] == plan_as_fit(table.HOSPITALS)


def test_steps_are_drawn_with_plain_ticks_on_a_log_scale():
    (axes,) = draw_steps_figure(plan_as_fit(table.HOSPITALS)).axes
    axes.figure.canvas.draw()
    assert axes.get_ylabel() == "step size, log scale"
    told = [tick.get_text() for tick in axes.get_yticklabels(which="both") if tick.get_text()]
    assert {"0.1", "1"} <= set(told)
    assert not any("10^" in one for one in told)
