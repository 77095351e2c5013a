"""A report says what the terminal says: who is protected, where and when rows were charged, and true ranges."""

import re

import pytest
from reported import fitted_beside_public, fitted_to

import uneven
from uneven.planner import tabulate_changes
from uneven.report import fit_report, plan_report, write_statement
from uneven.report.downloads import describe_levels
from uneven.training import save_model
from uneven.words import format_number


def read_text(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html.replace("&#x27;", "'")))


@pytest.fixture
def dated(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")


@pytest.mark.usefixtures("dated")
def test_a_report_says_where_and_when_rows_were_charged_and_who_is_protected(tmp_path):
    trained = fitted_to(tmp_path, {"open": uneven.Exact(), "clinic": uneven.SitePrivacy(2.0)}, None)
    told = read_text(fit_report(trained, "uneven fit sources.toml", ledger="book.db"))
    for said in (
        "Charged in book.db before the rows were used; earlier charges are included. Written on 1970-01-02.",
        "In odds, for everyone outside its site: at ε = 2, odds of 1 to 10 on any guess about a row become at most 7.4",
        "A rough ε is good enough for planning.",
    ):
        assert said in told
    assert "No ledger keeps account of it. Written on 1970-01-02." in read_text(fit_report(trained, "uneven fit"))


def test_a_report_says_which_sources_are_not_protected(tmp_path):
    noises = {"open": uneven.Exact(), "clinic": uneven.LocalPrivacy(8.0)}
    told = read_text(fit_report(fitted_to(tmp_path, noises, None), "uneven fit sources.toml"))
    assert "Protected: each row of 'clinic' at ε = 8. Not protected: 'open'." in told
    assert "for everyone outside its site" not in told


@pytest.mark.usefixtures("dated")
def test_a_statement_is_dated_and_promises_nothing_else(tmp_path):
    """What another kind of privacy would bring is no part of it."""
    trained = fitted_beside_public(tmp_path, clinic=uneven.SitePrivacy(2.0))
    save_model(trained.model, tmp_path / "model.json")
    told = write_statement(trained, tmp_path / "model.json", None)
    assert "on 1970-01-02 00:00 UTC" in told
    assert "Site privacy protects a row from everyone outside its site" in told
    assert "instead" not in told


def tile(html, question):
    return read_text(html.partition(f"<h3>{question}</h3>")[2].partition("<h3>")[0])


def test_steps_that_are_longest_in_between_have_a_range():
    noises = {"a": uneven.LocalPrivacy(1.0), "b": uneven.LocalPrivacy(2.0)}
    plan = uneven.plan([uneven.Source(name, 6_000, noise) for name, noise in noises.items()], 5)
    sizes = plan.step_sizes()
    assert sizes.argmax() not in (0, len(sizes) - 1)
    told = tile(plan_report(plan, "uneven plan"), "How far to step?")
    least, most = (float(one.replace(",", "")) for one in re.search(r"([\d.,]+) to ([\d.,]+)", told).groups())
    assert [least, most] == pytest.approx([sizes.min(), sizes.max()], rel=0.05)
    assert "within a source become shorter" in told
    alone = uneven.plan([uneven.Source("a", 6_000, noises["a"])], 5)
    assert "at first" in tile(plan_report(alone, "uneven plan"), "How far to step?")


def test_sources_that_are_alike_have_no_rate():
    plan = uneven.plan([uneven.Source(name, 3_000) for name in ("a", "b")], 5)
    told = tile(plan_report(plan, "uneven plan"), "What is a row worth?")
    assert "the same in every source" in told
    assert "1 a = 1 b" not in told


def test_levels_to_download_are_named_as_in_the_page_and_hold_no_json():
    noises = {"a": uneven.LocalPrivacy(1.0), "b": uneven.FlippedLabels((0.1, 0.2))}
    plan = uneven.plan([uneven.Source(name, 6_000, noise) for name, noise in noises.items()], 5)
    header, *rows = tabulate_changes(plan)
    records = describe_levels(plan)
    assert [list(one) for one in records] == [list(header)] * len(rows)
    assert not any("[" in str(value) or "{" in str(value) for one in records for value in one.values())
    assert [one["extra variance from the wrong level"] for one in records] == [
        change.regret - 1 for change in plan.sensitivity()
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(163.0, "160"), (1.996, "2"), (2_140_000.0, "2,140,000"), (0.0123, "0.012")]
)
def test_numbers_are_written_as_people_write_them(value, text):
    assert format_number(value, 2) == text
