"""``uneven fit`` learns what `UnevenClassifier` learns from the same rows, charges first, and keeps secrets."""

import base64
import html
import json
import re

import numpy as np
import pandas as pd
import pytest

import uneven
from uneven.io import open_table, read_sources
from uneven.training import running, save_model
from uneven.training.ahead import plan_ahead
from uneven.training.files import train_files

FEATURES = ["age", "dose", "pulse"]


def rows_of(folder):
    """All rows as the files have them, and the source of each."""
    parts = [pd.read_parquet(folder / "clinic.parquet"), pd.read_csv(folder / "crowd.csv")]
    source = np.repeat(["clinic", "crowd"], [len(part) for part in parts])
    X = np.concatenate([open_table(folder / f).arrays("outcome")[0] for f in ("clinic.parquet", "crowd.csv")])
    return X, pd.concat(parts)["outcome"].to_numpy(), source


PRIVATE = {"clinic": uneven.LocalPrivacy(4.0), "crowd": uneven.LocalPrivacy(1.0)}
OPEN = {"clinic": uneven.Exact(), "crowd": uneven.FlippedLabels(0.1)}
SETTINGS = {
    "open": ("", OPEN, {}),
    "open, bounded": ("row_norm = 2.0", OPEN, {"row_norm": 2.0}),
    "no intercept": ("fit_intercept = false", OPEN, {"fit_intercept": False}),
    "private": ("row_norm = 3.0", PRIVATE, {"row_norm": 3.0}),
    "private, default bound": ("", PRIVATE, {}),
    "hinge, two rates": (
        'loss = "hinge"\nstrategy = "two-rates"\nalpha = 0.01\nbatch_size = 20\nclip = 0.7\nradius = "paper"',
        PRIVATE,
        {"loss": "hinge", "strategy": "two-rates", "alpha": 0.01, "batch_size": 20, "clip": 0.7, "radius": "paper"},
    ),
    "shuffled together": ('strategy = "arbitrary"', OPEN, {"strategy": "arbitrary"}),
}


@pytest.mark.parametrize(("head", "noise", "settings"), SETTINGS.values(), ids=SETTINGS)
@pytest.mark.filterwarnings("ignore:.*were shrunk")
def test_files_and_arrays_teach_the_same(folder, described, private, head, noise, settings):
    path = private(head) if noise is PRIVATE else described(head)
    trained = train_files(read_sources(path), seed=5)
    X, y, source = rows_of(folder)
    stated = {"classes": ["ill", "well"]} if noise is PRIVATE else {}
    clf = uneven.UnevenClassifier(noise, random_state=5, **settings, **stated).fit(X, y, source=source)
    # The same steps on the same rows: the sources fit one block each, so even their order is the same.
    np.testing.assert_allclose(trained.model.coef, clf.coef_, rtol=1e-6)
    np.testing.assert_allclose(trained.model.intercept, clf.intercept_, rtol=1e-6)
    assert trained.plan.order == clf.plan_.order
    np.testing.assert_allclose(trained.plan.step_sizes(), clf.plan_.step_sizes(), rtol=1e-9)
    assert trained.model.privacy_spent == clf.privacy_spent_
    assert trained.model.settings == clf._settings()
    assert trained.model.simulated is (noise is PRIVATE)
    ours, theirs = ({**vars(scale), "norms": 0, "basis": 0} for scale in (trained.scale, clf.scale_))
    assert ours == pytest.approx(theirs, rel=1e-9)  # sums in another order
    assert trained.scale.norms == clf.scale_.norms


@pytest.mark.parametrize(("head", "noise"), [case[:2] for case in SETTINGS.values()], ids=SETTINGS)
def test_what_is_planned_is_what_is_run(described, private, head, noise):
    """Rows without privacy are read for it; private ones are only counted."""
    file = read_sources(private(head) if noise is PRIVATE else described(head))
    planned, note = plan_ahead(file)
    assert planned == train_files(file, seed=0).plan
    assert note.startswith("planned as 'uneven fit' runs it")


def test_the_plan_says_what_it_is_for(folder, private, good):
    private("row_norm = 3.0\nfit_intercept = false")
    note = "planned as 'uneven fit' runs it, with rows divided by 3"
    assert f"Note: {note}." in good("plan", "sources.toml", "--report", "plan.html")
    assert note[1:].replace("'", "&#x27;") in (folder / "plan.html").read_text()
    facts = json.loads(good("plan", "sources.toml", "--json"))
    assert facts["caveats"][-1] == note
    halves = np.log2(1e-3 / facts["problem"]["alpha"])  # the default for rows of norm 1, or halves of it
    assert halves == pytest.approx(round(halves), abs=1e-5)
    assert (0 <= halves <= 5, facts["problem"]["clip"]) == (True, 0.5)


def test_the_scale_is_that_of_the_source_with_the_longest_rows(folder, described, frame):
    frame(400, 1, scale=5.0).to_parquet(folder / "clinic.parquet")  # the first file read, not the last
    X, _, source = rows_of(folder)
    trained = train_files(read_sources(described()), seed=0)
    squares = np.linalg.norm(X[source == "clinic"].astype(np.float64), axis=1) ** 2
    assert trained.scale.row_norm == pytest.approx(np.sqrt(squares.mean()), rel=1e-6)


LABELS = {
    "words": ("ill", "well"),
    "zero and one": (0, 1),
    "booleans": (True, False),
    "signs": (-1, 1),
    "floats": (2.0, 3.0),
    "accents": ("krank ☂", "gesund"),
}


@pytest.mark.parametrize("words", LABELS.values(), ids=LABELS)
def test_labels_of_any_kind(folder, described, frame, words):
    frame(400, 1, words).to_parquet(folder / "clinic.parquet")
    frame(1200, 2, words).to_csv(folder / "crowd.csv", index=False)
    trained = train_files(read_sources(described()), seed=0)
    save_model(trained.model, folder / "model.json")
    model = uneven.UnevenClassifier.load(folder / "model.json")
    assert model.classes_.tolist() == sorted(words)
    test = frame(500, 9, words)
    right = model.predict(test[FEATURES]) == test["outcome"]
    # The labels themselves are wrong within 0.3 of the boundary: 9% of them, arctan(0.3)/π.
    assert abs(right.mean() - (1 - np.arctan(0.3) / np.pi)) < 4 * np.sqrt(0.09 * 0.91 / 500)


def test_three_classes(folder, described):
    for name, seed in (("clinic", 1), ("crowd", 2)):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(600, 3))
        data = pd.DataFrame(X, columns=FEATURES).assign(outcome=np.array(list("abc"))[X.argmax(axis=1)])
        data.to_parquet(folder / "clinic.parquet") if name == "clinic" else data.to_csv(
            folder / "crowd.csv", index=False
        )
    trained = train_files(read_sources(described()), seed=3)
    X, y, source = rows_of(folder)
    clf = uneven.UnevenClassifier(OPEN, random_state=3).fit(X, y, source=source)
    np.testing.assert_allclose(trained.model.coef, clf.coef_, rtol=1e-6)
    loss = -np.log(trained.model.predict_proba(X)[np.arange(len(y)), np.searchsorted(clf.classes_, y)]).mean()
    assert trained.measures[0].objective > loss  # by half of alpha times the squared norm


def test_measures_are_those_of_the_model(folder, described):
    trained = train_files(read_sources(described()), seed=1, test=open_table(folder / "rows.parquet"))
    X, y, _ = rows_of(folder)
    test = pd.read_parquet(folder / "rows.parquet")
    own, held_out = trained.measures
    assert (own.rows, held_out.rows) == (1600, 300)
    assert own.accuracy == np.mean(trained.model.predict(X) == y)
    assert held_out.accuracy == np.mean(trained.model.predict(test[FEATURES].to_numpy()) == test["outcome"])
    w, b = trained.model.coef[0], trained.model.intercept[0]
    sign = np.where(test["outcome"] == "well", 1, -1)
    loss = np.logaddexp(0, -sign * (test[FEATURES].to_numpy() @ w + b)).mean()
    regular = trained.model.alpha / 2 * (w @ w)
    assert held_out.objective == pytest.approx(loss + regular, rel=1e-5)


def test_rows_left_out_are_not_measured(folder, described):
    """What is called rows learned from are those of the sources in the plan: clean-only leaves the crowd out."""
    trained = train_files(read_sources(described('strategy = "clean-only"')), seed=1)
    (own,) = trained.measures
    X, y, source = rows_of(folder)
    clinic = source == "clinic"
    assert (own.which, own.rows) == ("rows learned from", 400)
    assert own.accuracy == np.mean(trained.model.predict(X[clinic]) == y[clinic])


def test_the_command(folder, described, good):
    described()
    said = good("fit", "sources.toml", "-o", "model.json", "--report", "report.html", "--seed", 3)
    assert "Learned from 400 rows of 'clinic' and 1,200 rows of 'crowd', to convergence." in said
    assert said.startswith("Protected: nobody, because with a seed the noise can be repeated: this is a simulation.\n")
    assert "On rows learned from: accuracy 0." in said
    assert "These are all 1,600 of them. --test FILE measures on rows that were not learned from." in said
    for other in (
        "the majority class, ",
        "logistic regression on 1,600 rows without privacy",
        "'clinic' alone, the cle",
    ):
        assert f"  For comparison, {other}" in said
    assert "rows were scaled by their root-mean-square norm, 1." in said
    assert "uneven predict model.json" in said
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")
    again = train_files(read_sources(folder / "sources.toml"), seed=3).model
    saved = uneven.UnevenClassifier.load(folder / "model.json")
    np.testing.assert_allclose(saved.coef_, again.coef, rtol=1e-9)
    assert saved.feature_names_in_.tolist() == FEATURES
    facts = json.loads(good("fit", "sources.toml", "-o", "model.json", "--json", "--strategy", "clean-only"))
    assert facts["strategy"] == "clean-only"
    assert facts["order"] == ["clinic"]
    assert facts["privacy_spent"] == {}


def test_nothing_is_told_about_private_rows(folder, private, good, uneven_in):
    private()
    facts = json.loads(good("fit", "sources.toml", "--report", "report.html", "--json"))
    assert facts["measures"] == []
    assert facts["privacy_spent"] == {"clinic": 4.0, "crowd": 1.0}
    assert facts["activity"].keys() == {"clinic"}  # at ε = 1 silence does not pay: nobody is silent
    assert {one["planned"] for one in facts["activity"].values()} == {0.5}
    report = (folder / "report.html").read_text()
    assert "Not measured" in report
    assert "Objective on" not in report
    said = good("fit", "sources.toml", "--test", "rows.parquet")
    assert "On rows.parquet: accuracy" in said
    assert "On rows learned from" not in said
    assert said.startswith("Protected: each row of 'clinic' at ε = 4 and 'crowd' at ε = 1. All rows are protected.\n")
    assert "rows with a norm above 3 are shrunk to it." in said
    assert re.search(r"Mean gradient norm ÷ clip: 'clinic' 0\.\d+ \(0\.\d+ to [01]\.\d+; planned: 0\.5\)", said)
    assert "ε = 4 for each row of 'clinic' and ε = 1 for each row of 'crowd'" in said
    seeded = uneven_in("fit", "sources.toml", "--seed", 0, "--report", "report.html")
    assert "protects nobody" in seeded.stdout
    assert seeded.stderr.count("a simulation that protects nobody") == 1
    assert "A simulation: the noise came from a seed" in (folder / "report.html").read_text()
    assert [one["simulated"] for one in json.loads(good("predict", "model.json", "rows.parquet", "--json"))] == [
        True
    ] * 300
    assert json.loads(good("predict", "model.json", "rows.parquet", "--json", "-o", "out.csv"))["simulated"] is True


def test_repeating_a_report_does_not_spend_unasked(folder, private, good):
    private()
    good("fit", "sources.toml", "--report", "report.html")
    shown = re.search(r"How to repeat it.*?<code>(.*?)</code>", (folder / "report.html").read_text(), re.S)[1]
    lines = html.unescape(shown).splitlines()
    assert all(line.startswith("#") for line in lines)
    assert "4 for each row of 'clinic'" in lines[0]
    assert "1 for each row of 'crowd'" in lines[0]
    assert lines[1] == "# uneven fit sources.toml --report report.html"


def test_a_ledger_is_shown_checked_and_exported(folder, private, uneven_in, good):
    private()
    for command in ("show", "check", "export"):
        missing = uneven_in("ledger", command, "book.db")
        assert (missing.returncode, missing.stdout) == (2, "")
        assert not (folder / "book.db").exists()
    good("fit", "sources.toml", "--ledger", "book.db", "--budget", 6)
    shown = json.loads(good("ledger", "show", "book.db", "--json"))
    assert shown["budget"] == 6.0
    found = {one["name"]: (one["rows"], one["most"], one["left"], one["charges"]) for one in shown["sources"]}
    assert found == {"clinic": (400, 4.0, 2.0, 1), "crowd": (1200, 1.0, 5.0, 1)}
    assert re.search(r"clinic .* \d{4}-\d\d-\d\d \d\d:\d\d +$", good("ledger", "show", "book.db", COLUMNS="80"), re.M)
    assert json.loads(good("ledger", "check", "book.db", "--json"))["sound"] is True
    said = good("ledger", "check", "book.db")
    assert "no row is beyond its budget" in said
    narrow = good("ledger", "check", "book.db", COLUMNS="60")
    assert max(map(len, narrow.splitlines())) <= 60
    assert said.split()[-1] == "".join(narrow.split()[-2:])  # the digest
    good("ledger", "export", "book.db", "-o", "book.csv")
    exported = pd.read_csv(folder / "book.csv")
    assert exported.groupby("source").epsilon.sum().to_dict() == {"clinic": 1600.0, "crowd": 1200.0}
    assert len(json.loads(good("ledger", "export", "book.db", "--json"))) == 1600


def test_only_open_sources_are_measured(described, good):
    head = 'row_norm = 3.0\nuse = "all"\nclasses = ["ill", "well"]'
    described(head, crowd='{ kind = "local-privacy", epsilon = 1.0 }')
    (measure,) = json.loads(good("fit", "sources.toml", "--json"))["measures"]
    assert measure["which"] == "rows learned from, of 'clinic'"
    assert measure["rows"] == 400


def test_a_test_file_may_have_any_name(folder, described, good):
    """What it is called does not make its rows those learned from."""
    described()
    (folder / "rows.parquet").rename(folder / "rows learned from, later.parquet")
    said = good("fit", "sources.toml", "--test", "rows learned from, later.parquet")
    assert "On rows learned from, later.parquet: accuracy 0." in said
    assert "On rows learned from: " not in said


def test_the_first_line_says_who_is_protected(described, good):
    described()
    assert good("fit", "sources.toml").startswith("Protected: nobody. Not protected: 'clinic' and 'crowd'.\n")
    classes = 'classes = ["ill", "well"]'
    described(f'row_norm = 3.0\nuse = "all"\n{classes}', crowd='{ kind = "local-privacy", epsilon = 1.0 }')
    said = good("fit", "sources.toml")
    assert said.startswith("Protected: each row of 'crowd' at ε = 1. Not protected: 'clinic'.\n")
    why = "400 of 1,600: those without privacy, because a measure on the others would be a release"
    assert f"These are {why}. --test FILE" in said
    tested = good("fit", "sources.toml", "--test", "rows.parquet")
    assert "On rows.parquet: accuracy" in tested
    assert "On rows learned from" not in tested  # it flatters, and there is better now; the report has it
    assert "For comparison, logistic regression on 400 rows without privacy: accuracy 0." in said
    described(classes, crowd='{ kind = "label-privacy", epsilon = 1.0 }')
    assert "'crowd' at ε = 1 (labels only, NOT the features). Not protected: 'clinic'.\n" in good("fit", "sources.toml")


@pytest.mark.parametrize("given", [("--seed", 424242), ("--seed=424242",)])
def test_the_seed_of_private_rows_is_not_in_what_is_written(folder, private, good, given):
    private()
    good("fit", "sources.toml", *given, "--report", "report.html", "--statement", "statement.md")
    page = (folder / "report.html").read_text()
    hidden = [base64.b64decode(data).decode() for data in re.findall(r"base64,([\w+/=]+)", page)]
    assert "--seed SEED" in html.unescape(page) or "--seed=SEED" in html.unescape(page)
    for text in (page, *hidden, *((folder / name).read_text() for name in ("statement.md", "model.json"))):
        assert "424242" not in text


def test_two_runs_without_a_seed_differ(private):
    file = read_sources(private())
    one, two = (train_files(file).model.coef for _ in range(2))
    assert not np.allclose(one, two)


# Charges.


def test_rows_are_charged_once_a_fit(folder, private, uneven_in):
    private()
    first = uneven_in("fit", "sources.toml", "--ledger", "book.db", "--budget", 4)
    assert first.returncode == 0
    assert "charged in book.db before the rows were used" in first.stdout
    ledger = uneven.Ledger(folder / "book.db")
    assert ledger.stored_budget == 4.0
    assert list(ledger.spent("clinic").values()) == [4.0] * 400
    assert list(ledger.spent("crowd").values()) == [1.0] * 1200
    model = (folder / "model.json").read_bytes()
    second = uneven_in("fit", "sources.toml", "--ledger", "book.db", "--budget", 4)
    assert second.returncode == 1
    assert "would exceed the budget of 4" in second.stderr
    assert (folder / "model.json").read_bytes() == model
    assert list(ledger.spent("crowd").values()) == [1.0] * 1200


REFUSED = {
    "budget": "budget = 2.0",
    "unknown class": "class_weight = { sick = 2.0 }",
    "balanced": 'class_weight = "balanced"',
    "sketch": "sketch = 900",
    "anchored": 'strategy = "anchored"',
    "alpha": 'alpha = "cv"',
}


@pytest.mark.parametrize("setting", REFUSED.values(), ids=REFUSED)
def test_a_refused_fit_leaves_no_ledger(folder, private, uneven_in, setting):
    """Whatever its budget was, a right fit may then state another."""
    private(f"row_norm = 3.0\n{setting}")
    before = sorted(folder.iterdir())
    refused = uneven_in("fit", "sources.toml", "--ledger", "book.db", *(() if "budget" in setting else ("--budget", 9)))
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert sorted(folder.iterdir()) == before
    private()
    assert uneven_in("fit", "sources.toml", "--ledger", "book.db", "--budget", 5).returncode == 0
    assert uneven.Ledger(folder / "book.db").stored_budget == 5.0
    larger = uneven_in("fit", "sources.toml", "--ledger", "book.db", "--budget", 6)
    assert larger.returncode == 1
    assert (
        "but book.db allows 5 a row, stated when it was made; a budget of 6 cannot raise it: use less" in larger.stderr
    )


def test_charged_before_anything_is_learned(private, monkeypatch):
    ledger = uneven.Ledger()

    def stop(*_, **__):
        assert ledger.sources() == {"clinic": 400, "crowd": 1200}
        raise RuntimeError("stopped")

    monkeypatch.setattr(running, "fit", stop)
    with pytest.raises(RuntimeError, match="stopped"):
        train_files(read_sources(private()), ledger=ledger)


def test_rows_left_out_spend_nothing(private):
    ledger = uneven.Ledger()
    trained = train_files(read_sources(private('strategy = "clean-only"')), ledger=ledger)
    assert ledger.sources() == {"clinic": 400}
    assert trained.model.privacy_spent == {"clinic": 4.0}


def test_what_is_refused_is_not_charged(folder, private, frame):
    ledger = uneven.Ledger()
    rows = frame(1200, 2)
    rows.loc[1199, "dose"] = np.nan  # the very last row
    rows.to_csv(folder / "crowd.csv", index=False)
    with pytest.raises(ValueError, match=r"column 'dose' has no value in row 1199"):
        train_files(read_sources(private()), ledger=ledger)
    assert ledger.sources() == {}


@pytest.mark.parametrize("link", ["name", "symbolic", "hard"])
def test_data_of_a_source_is_no_test(folder, private, uneven_in, link):
    """An exact accuracy of private rows would be a release outside the account: refused, and nothing charged."""
    private()
    path = folder / "again.csv"
    if link == "symbolic":
        path.symlink_to("crowd.csv")
    elif link == "hard":
        path.hardlink_to(folder / "crowd.csv")
    else:
        path = folder / "." / "crowd.csv"
    done = uneven_in("fit", "sources.toml", "--test", path, "--ledger", "book.db")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"test must be rows that are not learned from, got {path}, the data of 'crowd'" in done.stderr
    assert uneven.Ledger(folder / "book.db").sources() == {}
    assert not (folder / "model.json").exists()


def test_shrunk_rows_are_told_to_their_owner_only(folder, private, uneven_in):
    private("row_norm = 1.0")
    X, _, source = rows_of(folder)
    count = int((np.linalg.norm(X[source == "crowd"], axis=1) > 1 + 1e-6).sum())
    done = uneven_in("fit", "sources.toml", "--report", "report.html")
    assert f"{count:,} of 1,200 rows of 'crowd' are longer than row_norm = 1 and were shrunk" in done.stderr
    assert f"{count:,}" not in done.stdout + (folder / "report.html").read_text()


def test_a_privacy_statement_is_written(folder, private, good):
    good("fit", private(), "--ledger", "ledger.db", "--statement", "statement.md")
    text = (folder / "statement.md").read_text()
    assert "| clinic | 400 | features and label | quiet, ε = 4 per release | 0 | 4 |" in text
    assert "Digest of the ledger after the run" in text


def test_a_plan_beside_private_labels_is_that_of_a_fit(described, good):
    described('row_norm = 3.0\nclasses = ["ill", "well"]', crowd='{ kind = "label-privacy", epsilon = 1.0 }')
    said = " ".join(good("plan", "sources.toml").split())
    assert said.startswith("Plan: learn to convergence,")
    assert "'crowd': worth it. " in said
    assert "'uneven fit' randomises those labels once, which is charged, learns from them too" in said
    fitted = " ".join(good("fit", "sources.toml").split())
    assert "of 'crowd', to convergence." in fitted
    assert "'crowd': worth it. " in fitted


def test_scores_on_rows_learned_from_are_too_low_where_labels_are_wrong(folder, described, good):
    """Right predictions count as errors where a label is wrong; 'too good' is for true labels."""
    for crowd, said in (
        (
            '{ kind = "flipped-labels", rate = 0.3 }',
            "30% of the labels of 'crowd' are wrong, so scores on rows learned",
        ),
        ('{ kind = "exact" }', "Scores on rows learned from are too good: compare on other rows."),
    ):
        described('use = "all"', crowd=crowd)  # some of these labels are so harmful that they would be left out
        assert said in " ".join(good("fit", "sources.toml", "--report", "fit.html").split())
        assert said.replace("'", "&#x27;") in (folder / "fit.html").read_text()
    described(crowd='{ kind = "label-privacy", epsilon = 1.0 }', head='classes = ["ill", "well"]')
    simulated = " ".join(good("fit", "sources.toml", "--seed", "0").split())
    assert "27% of the labels of 'crowd' are wrong" in simulated  # 1/(1 + e)
    assert "Scores on rows learned from are too good" in " ".join(good("fit", "sources.toml").split())


def test_steps_and_rows_without_a_step_are_all_rows(described, private, good):
    """Each row is in a step or said to take none; of an anchored fit, steps that only look are said too."""
    private()
    said = " ".join(good("fit", "sources.toml").split())
    steps, size, without = re.search(
        r": ([\d,]+) steps of (\d+) rows, and (\d+) rows used only to calibrate the weights", said
    ).groups()
    short = int(steps) * int(size) + int(without) - (400 + 1200)
    assert 0 <= short < 2 * int(size)  # the last batch of each source may be short
    described(crowd='{ kind = "local-privacy", epsilon = 8.0 }', head='row_norm = 3.0\nclasses = ["ill", "well"]')
    assert re.search(r": 24 steps of 50 rows, \d+ of them test whether", " ".join(good("fit", "sources.toml").split()))


@pytest.mark.parametrize(("budget", "refused"), [(6.0, True), (8.0, False)])
def test_a_report_says_whether_the_ledger_would_refuse_it_again(folder, private, good, uneven_in, budget, refused):
    private()
    typed = ("fit", "sources.toml", "--ledger", "ledger.db", "--budget", budget)
    good(*typed, "--report", "fit.html")
    assert ("It will be refused: the ledger has only ε = 2 of" in (folder / "fit.html").read_text()) == refused
    assert (uneven_in(*typed).returncode != 0) == refused
