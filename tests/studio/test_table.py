"""The table of sources: a round trip, one line for each slip, and what more rows would do."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import uneven
from uneven.io import read_sources, sources_from_text, sources_to_text
from uneven.studio import table
from uneven.training.ahead import plan_ahead

NOISES = st.one_of(
    st.just(uneven.Exact()),
    st.builds(uneven.LocalPrivacy, st.floats(1e-3, 1e3), st.sampled_from(["privunit", "l2-laplace"])),
    st.floats(0, 0.49).map(uneven.FlippedLabels),
    st.floats(0, 1e6).map(uneven.AdditiveNoise),
)
NAMES = st.text(min_size=1).filter(str.strip)
PRICES = st.none() | st.floats(0, 1e6)
SOURCES = st.builds(uneven.Source, NAMES, st.integers(1, 10**9), NOISES, PRICES)


@given(st.lists(SOURCES, unique_by=lambda source: source.name))
def test_sources_survive_the_table(sources):
    rows = [table.row_of(source) for source in sources]
    assert all(tuple(row) == table.COLUMNS for row in rows)
    assert table.sources_of(rows) == (sources, [])
    as_floats = [{**row, "rows": float(row["rows"])} for row in rows]  # as a table holds them beside an empty cell
    assert table.sources_of(as_floats) == (sources, [])


GOOD = {"name": "clinic", "rows": 100, "kind": "local-privacy", "level": 1.0}
SLIPS = {
    "no name": ({"name": None}, "name must be a non-empty string, got None"),
    "blank name": ({"name": " "}, "name must be a non-empty string, got ' '"),
    "no rows": ({"rows": None}, "rows of source 'b' must be a whole number of at least 1, got None"),
    "zero rows": ({"rows": 0}, "rows of source 'b' must be a whole number of at least 1, got 0"),
    "part of a row": ({"rows": 1.5}, "rows of source 'b' must be a whole number of at least 1, got 1.5"),
    "infinite rows": ({"rows": math.inf}, "rows of source 'b' must be a whole number of at least 1, got inf"),
    "no epsilon": ({"level": None}, "noise of kind 'local-privacy' needs 'epsilon'"),
    "epsilon zero": ({"level": 0.0}, "epsilon must be a positive finite number, got 0.0"),
    "epsilon negative": ({"level": -1.0}, "epsilon must be a positive finite number, got -1.0"),
    "rate of a half": ({"kind": "flipped-labels", "level": 0.5}, "rate must be a number in [0, 0.5), got 0.5"),
    "kind": ({"kind": "magic"}, "noise kind must be one of 'exact', "),
    "mechanism": ({"mechanism": "gauss"}, "mechanism must be one of 'quiet', 'privunit', 'l2-laplace'; got 'gauss'"),
    "price": ({"price": -1.0}, "price of source 'b' must be zero or a positive finite number"),
    "duplicate": ({"name": "clinic"}, "name must differ from those above, got 'clinic' again"),
}


@pytest.mark.parametrize(("slip", "message"), SLIPS.values(), ids=SLIPS)
def test_a_bad_row_is_one_line_and_the_others_stay(slip, message):
    last = {**GOOD, "name": "c"}
    sources, refusals = table.sources_of([GOOD, {**GOOD, "name": "b", **slip}, last])
    assert [source.name for source in sources] == ["clinic", "c"]
    assert len(refusals) == 1
    assert refusals[0].startswith("Row 2: ")
    assert message in refusals[0]
    assert "\n" not in refusals[0]


def test_a_row_with_nothing_typed_into_it_is_not_there():
    """A new row has its menus set, and nothing else."""
    assert table.sources_of([GOOD, {"kind": "local-privacy", "mechanism": "privunit"}, {}])[1] == []


def test_what_does_not_belong_to_the_kind_is_ignored():
    rows = [{**GOOD, "kind": "exact"}, {**GOOD, "name": "b", "kind": "flipped-labels", "level": 0.1, "mechanism": "x"}]
    sources, refusals = table.sources_of(rows)
    assert [source.noise for source in sources] == [uneven.Exact(), uneven.FlippedLabels(0.1)]
    assert refusals == []


def test_what_if_is_a_plan_with_more_rows():
    planned = uneven.plan(table.HOSPITALS, **table.SETTINGS)
    clinic, region = table.HOSPITALS
    more = uneven.Source(region.name, region.rows + 7_000, region.noise)
    asked = table.what_if(planned, "region", 7_000)
    assert asked.before == planned.bound
    assert asked.after == uneven.plan([clinic, more], **table.SETTINGS).bound < asked.before
    assert asked.after == pytest.approx(asked.before * (1 + asked.percent / 100))
    assert asked.cost is None


@pytest.mark.parametrize("strategy", ["two-rates", "averaged", "precision"])
def test_what_if_keeps_every_setting(strategy):
    settings = {**table.SETTINGS, "strategy": strategy, "moments": "lower", "radius": "paper", "loss": "hinge"}
    sources = [uneven.Source("a", 1_000, uneven.LocalPrivacy(1), price=0.5)]
    asked = table.what_if(uneven.plan(sources, **settings), "a", 1_000)
    assert asked.after == uneven.plan([uneven.Source("a", 2_000, uneven.LocalPrivacy(1))], **settings).bound
    assert asked.cost == 500.0


def test_plans_too_long_to_show_are_refused():
    most = [uneven.Source("a", 50 * table.MOST_STEPS)]
    assert table.plan_of(most, table.SETTINGS).steps == table.MOST_STEPS
    with pytest.raises(ValueError, match="rows must make at most 5,000,000 steps to be shown here, got 5,000,001"):
        table.plan_of([uneven.Source("a", 50 * table.MOST_STEPS + 1)], table.SETTINGS)


def test_intervals_are_those_of_the_library():
    settings = {name: table.SETTINGS[name] for name in ("n_features", "alpha", "batch_size", "loss", "radius", "clip")}
    planned = uneven.plan(table.HOSPITALS, **table.SETTINGS)
    assert table.intervals(planned) == uneven.rate_interval(table.HOSPITALS, **settings)


def test_settings_survive_a_file():
    settings = {**table.SETTINGS, "alpha": 0.02, "clip": None, "strategy": "two-rates", "moments": "upper"}
    file = sources_from_text(sources_to_text(table.HOSPITALS, **settings))
    assert table.settings_of(file) == settings
    assert set(settings) == set(table.SETTINGS)


def test_a_file_is_planned_as_a_fit_runs_it():
    """With a public row_norm the scale is known: rows are divided, an intercept is added, alpha follows."""
    text = sources_to_text(table.HOSPITALS, n_features=54, alpha=1e-3, row_norm=2.0, strategy="auto")
    file = sources_from_text(text)
    settings = table.settings_of(file)
    assert table.plan_of([entry.source for entry in file.sources], settings) == plan_ahead(file)[0]
    assert (settings["n_features"], settings["strategy"]) == (55, "precision")
    assert settings["alpha"] != 1e-3


def test_verdicts_are_those_of_the_plan_and_need_public_rows(tmp_path):
    assert table.verdicts_of(sources_from_text(sources_to_text(table.HOSPITALS, n_features=54))) == []
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (600, 2))
    for name, rows in (("public", slice(100)), ("private", slice(100, 600))):
        body = np.column_stack([X[rows], X[rows, 0] > 0])
        np.savetxt(tmp_path / f"{name}.csv", body, "%.6f", ",", header="a,b,label", comments="")
    noises = {"public": '{ kind = "exact" }', "private": '{ kind = "local-privacy", epsilon = 0.1 }'}
    entries = [f'[[source]]\nname = "{k}"\ndata = "{k}.csv"\nnoise = {v}\n' for k, v in noises.items()]
    (tmp_path / "sources.toml").write_text('label = "label"\nrow_norm = 1.0\n' + "".join(entries))
    (line,) = table.verdicts_of(read_sources(tmp_path / "sources.toml"))
    assert line.startswith("'private': no. Expected excess objective")
