"""What the page shows, without a browser: the plan of its table and settings, one line for each slip, files."""

import json
import re
import sys

import pytest
from hospitals import SETTINGS as USUAL
from hospitals import as_rows, plan_as_fit
from own_epsilons import OWN_EPSILON, write_own_epsilons
from streamlit.testing.v1 import AppTest

import uneven
from uneven.io import sources_to_text
from uneven.planner import text
from uneven.studio import page, table
from uneven.studio.document import begin
from uneven.studio.simulation import Simulation
from uneven.words import format_bound, format_number

pytestmark = pytest.mark.slow

CROWD = [
    uneven.Source("experts", 2_000, price=1.0),
    uneven.Source("crowd", 50_000, uneven.FlippedLabels(0.2), price=0.05),
]


@pytest.fixture
def app(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["page.py"])
    return AppTest.from_file(page.__file__, default_timeout=120).run()


def shown(app):
    """All text of the page, its tables included, without the escapes of Markdown."""
    tables = "\n".join(one.value.to_csv(index=False) for one in app.table)
    texts = [one.value for kind in (app.title, app.header, app.markdown, app.caption) for one in kind]
    return re.sub(r"\\(.)", r"\1", "\n".join([*texts, tables]))


def refusals(app):
    return [re.sub(r"\\(.)", r"\1", error.value) for error in app.error]


def with_rows(app, *rows):
    app.session_state["rows"] = [dict(row) for row in rows]
    app.session_state["edition"] += 1
    return app.run()


def promised(plan):
    return "\n".join(f"- {line}" for line in [*text.describe_use(plan), *text.describe_guarantee(plan)]).split("\n")


def test_it_opens_with_two_hospitals(app):
    plan = plan_as_fit(table.HOSPITALS)
    assert not app.exception
    assert refusals(app) == []
    assert all(line in shown(app) for line in promised(plan))
    for name, other in plan.alternatives().items():
        assert re.search(rf'^{name}( \*)?,.*,"?{format_bound(other.bound)}"?,', shown(app), flags=re.M)


def test_it_shows_the_plan_s_own_values(app):
    plan = plan_as_fit(table.HOSPITALS)
    assert uneven.Plan.from_dict(json.loads(app.json[0].value)) == plan


SETTINGS = {
    "alpha": 0.02,
    "batch_size": 10,
    "n_features": 7,
    "strategy": "two-rates",
    "loss": "hinge",
    "clip": None,
    "radius": "paper",
    "moments": "upper",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_reaches_the_plan(app, name):
    own = {"clip": None} if name == "strategy" else {}  # the clip of two-rates, where none is asked for
    plan = plan_as_fit(table.HOSPITALS, **own, **{name: SETTINGS[name]})
    typed = "none" if SETTINGS[name] is None else str(SETTINGS[name])
    app.get_by_key(name).set_value(typed).run()
    assert not app.exception
    assert all(line in shown(app) for line in promised(plan))
    assert plan != plan_as_fit(table.HOSPITALS)


@pytest.mark.parametrize(("name", "value"), [("alpha", "0"), ("clip", "-1")])
def test_a_bad_setting_is_one_line(app, name, value):
    app.get_by_key(name).set_value(value).run()
    assert not app.exception
    assert len(refusals(app)) == 1
    assert refusals(app)[0].startswith(f"sources.toml: {name} must be")
    app.get_by_key(name).set_value("").run()
    assert refusals(app) == []


def test_bad_rows_leave_the_page_alive(app):
    (clinic,) = as_rows(table.HOSPITALS[:1])
    bad = [{**clinic, "rows": 0}, {**clinic, "name": "x", "level": "-1"}, clinic]
    with_rows(app, clinic, *bad)
    assert not app.exception
    assert [refusal.split(":")[0] for refusal in refusals(app)] == ["Row 2", "Row 3", "Row 4"]
    assert "Use 'clinic' alone" in shown(app)


def test_cells_that_are_typed_into(app):
    """An edited cell, a new row and one with nothing but its menus, a row taken away."""
    edits = {
        "edited_rows": {0: {"rows": 70_000, "price": 2}},
        "added_rows": [{"name": "crowd", "rows": 900, "kind": "flipped-labels", "level": "0.2"}, {"kind": "exact"}],
        "deleted_rows": [1],
    }
    app.session_state[f"sources-{app.session_state['edition']}"] = edits
    app.run()
    assert not app.exception
    assert refusals(app) == []
    sources = [
        uneven.Source("clinic", 70_000, uneven.LocalPrivacy(10), price=2),
        uneven.Source("crowd", 900, uneven.FlippedLabels(0.2)),
    ]
    assert uneven.Plan.from_dict(json.loads(app.json[0].value)) == uneven.plan(sources, **USUAL)


def test_an_empty_table_says_so(app):
    with_rows(app)
    assert not app.exception
    assert refusals(app) == ["sources.toml: there must be at least one table [[source]], got none"]


def test_more_rows_than_a_page_can_show(app):
    with_rows(app, {**as_rows(table.HOSPITALS[:1])[0], "rows": 10**12})
    assert not app.exception
    assert refusals(app)[0].startswith("rows must make at most 5,000,000 steps")


def test_names_are_no_markup(app):
    name = "*a* | <b>b</b> $x$ :red[c] [d](http://e) `f` _g_"
    with_rows(app, {**as_rows(table.HOSPITALS[:1])[0], "name": name})
    assert not app.exception
    assert f"Use {name!r} alone" in shown(app)
    marks = [mark.value for mark in app.markdown if "alone" in mark.value]
    assert not re.search(r"(?<!\\)[*|<$:`_\[]", marks[0].removeprefix("- ").split("alone")[0])


def test_what_if_follows_the_rows_asked_for(app):
    app.get_by_key("more").set_value("123,456").run()
    for worth in begin().value(123_456).worths:
        change = re.escape(f"{100 * worth.next_change:+.3g}")
        assert re.search(f'{worth.name},.*"?{format_number(worth.next_bound)}"?,{change}%,no price', shown(app))


def test_rows_to_buy_are_written_as_people_write_them(app):
    assert app.get_by_key("more").value == "10,000"
    app.get_by_key("more").set_value("some").run()
    assert refusals(app) == ["rows to buy must be a whole number of at least 1, such as 10,000; got 'some'"]


def test_a_price_makes_a_cost(app):
    with_rows(app, *as_rows(CROWD))
    app.get_by_key("more").set_value("1000").run()
    assert re.search(r"crowd,.*%,50\n", shown(app))


def test_an_interval_for_every_kind_of_noise(app):
    assert "No interval" not in shown(app)
    with_rows(app, *as_rows(CROWD))
    assert "No interval" not in shown(app)
    assert re.search(r"source,from,to\n", shown(app))


def test_a_file_is_taken_in(app):
    settings = {**USUAL, "alpha": 0.5, "clip": None, "n_features": 3}
    content = sources_to_text(CROWD, **settings).encode()
    app.file_uploader[0].upload("mine.toml", content).run()
    assert not app.exception
    assert refusals(app) == []
    assert all(line in shown(app) for line in promised(uneven.plan(CROWD, **settings)))


def test_a_file_named_on_the_command_line(tmp_path, monkeypatch):
    path = tmp_path / "sources.toml"
    path.write_text(sources_to_text(CROWD, n_features=3), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["page.py", str(path)])
    app = AppTest.from_file(page.__file__, default_timeout=120).run()
    assert uneven.Plan.from_dict(json.loads(app.json[0].value)) == uneven.plan(CROWD, 3)


def test_rows_that_tell_their_epsilon(tmp_path, monkeypatch):
    """More of them is costed by the price of the source they are in; several noises are told in words, and kept."""
    monkeypatch.setattr(sys, "argv", ["page.py", str(write_own_epsilons(tmp_path))])
    app = AppTest.from_file(page.__file__, default_timeout=120).run()
    assert not app.exception
    assert refusals(app) == []
    told = shown(app)
    assert re.search(r'"?consented \(ε = 1\)"?,.*%,"?5,000"?\n', told)
    assert re.search(r'"?consented \(ε = 4\)"?,.*%,"?5,000"?\n', told)
    assert re.search(r'sold,.*%,"?200 at ε = 1; 1,000 at ε = 3"?\n', told)
    assert re.search(r"both,.*%,no price\n", told)
    assert app.session_state["document"].text == OWN_EPSILON


BAD_FILES = {
    "no TOML": (b"alpha = = 1", "mine.toml, line 1:"),
    "more rows than a browser can count": (
        b'n_features = 2\nbatch_size = 1000000000000000\n[[source]]\nname = "a"\nrows = 100000000000000000000\n'
        b'noise = { kind = "exact" }',
        "numbers must be at most 1,000,000,000,000,000 to be shown here, got 100,000,000,000,000,000,000",
    ),
    "an unknown key": (b"beta = 1", "mine.toml: the top level has no key 'beta'"),
}


@pytest.mark.parametrize(("content", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_one_line_and_changes_nothing(app, content, message):
    before = shown(app)
    app.file_uploader[0].upload("mine.toml", content).run()
    assert not app.exception
    assert len(refusals(app)) == 1
    assert refusals(app)[0].startswith(message)
    assert "\n" not in refusals(app)[0]
    (said,) = set(shown(app).split("\n")) - set(before.split("\n"))
    assert said.startswith("Your file was not opened.")
    assert shown(app).replace(f"{said}\n", "") == before


def find_downloads(app):
    """Whether each of the page's files can be saved."""
    return {one.proto.label: not one.proto.disabled for one in app.get("download_button")}


SAVE, REPORT = "Save as sources.toml", "Download the report"


def test_the_example_is_not_offered_in_place_of_a_file_that_was_refused(app):
    """A page that holds somebody's work keeps it, and says whose file it is."""
    assert find_downloads(app) == {SAVE: True, REPORT: True}
    bad = BAD_FILES["no TOML"][0]
    app.file_uploader[0].upload("mine.toml", bad).run()
    assert find_downloads(app) == {SAVE: False, REPORT: False}
    assert any("still has its own example" in one.value for one in app.caption)
    good = b'n_features = 2\n[[source]]\nname = "a"\nrows = 500\nnoise = { kind = "exact" }'
    app.file_uploader[0].upload("good.toml", good).run()
    assert find_downloads(app) == {SAVE: True, REPORT: True}
    app.file_uploader[0].upload("mine.toml", bad).run()
    assert find_downloads(app) == {SAVE: True, REPORT: True}
    assert app.session_state["document"].text.encode() == good
    assert any("The page still has good\\.toml" in one.value for one in app.caption)


UNPLANNED = {
    "data that is elsewhere": (
        b'# mine\nlabel = "y"\n[[source]]\nname = "a"\ndata = "/etc/passwd"\nnoise = { kind = "exact" }',
        "mine.toml: source 'a': rows must be given, since its data /etc/passwd are not opened here",
    ),
    "a rate to estimate": (
        b'n_features = 2\n[[source]]\nname = "a"\nrows = 5\nnoise = {kind = "flipped-labels", rate = "estimate"}',
        "mine.toml: noise must have a source with a known flip rate and without privacy, to anchor the estimate of 'a'",
    ),
}


@pytest.mark.parametrize(("content", "message"), UNPLANNED.values(), ids=UNPLANNED)
def test_a_file_that_cannot_be_planned_here_is_opened_and_saved(app, content, message):
    app.file_uploader[0].upload("mine.toml", content).run()
    assert not app.exception
    assert len(refusals(app)) == 1
    assert refusals(app)[0].startswith(message)
    assert app.session_state["document"].text.encode() == content


def test_a_page_that_is_loaded_again_goes_on(app):
    app.get_by_key("alpha").set_value("0.25").run()
    again = AppTest.from_file(page.__file__, default_timeout=120)
    again.query_params["draft"] = app.query_params["draft"]
    again.run()
    assert again.get_by_key("alpha").value == "0.25"
    assert shown(again) == shown(app)
    other = AppTest.from_file(page.__file__, default_timeout=120).run()
    assert other.get_by_key("alpha").value == ""


def test_a_simulation_shows_each_strategy_its_own_figures():
    plans = plan_as_fit(table.HOSPITALS).alternatives()
    distance = {name: (0.5 + k, 0.01 * k) for k, name in enumerate(plans)}
    accuracy = {name: (0.6 + 0.01 * k, 0.001 * k) for k, name in enumerate(plans)}
    done = Simulation(plans, 2, distance, accuracy, 0.9, dict.fromkeys(accuracy, (0.8, 0.01)))
    head, *rows = page.tabulate_simulation(done)
    assert head == ("strategy", "measured", "bound", "accuracy", "AUC")
    for k, (row, (name, plan)) in enumerate(zip(rows, plans.items(), strict=True)):
        measured, accurate = f"{format_number(0.5 + k)} ± {0.01 * k:.2g}", f"{60 + k}.0% ± {0.1 * k:.1f}"
        assert row[:-1] == (name, measured, format_bound(plan.bound), accurate)
        assert row[-1].startswith("0.8")


def test_a_simulation_is_shown_and_marked_when_it_is_old(app):
    small = [{**row, "rows": row["rows"] // 100} for row in as_rows(table.HOSPITALS)]
    with_rows(app, *small)
    app.get_by_key("runs").set_value(2)
    next(one for one in app.button if "simulation" in one.label).click().run()
    assert not app.exception
    assert "2 runs; each used 500 of clinic, 4,500 of region" in shown(app)
    expected = page.tabulate_simulation(app.session_state["simulation"][1])
    (rows,) = [one.value for one in app.table if "accuracy" in one.value]
    assert [tuple(re.sub(r"\\(.)", r"\1", cell) for cell in row) for row in rows.to_numpy()] == expected[1:]
    assert not app.warning
    app.get_by_key("alpha").set_value("0.01").run()
    assert "have changed since" in app.warning[0].value
