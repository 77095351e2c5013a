"""``uneven predict`` says what the model says, in every format, and matches columns by name."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import uneven
from uneven.io import read_sources
from uneven.training import save_model, scoring
from uneven.training.files import train_files

FEATURES = ["age", "dose", "pulse"]


@pytest.fixture
def model(folder, described):
    trained = train_files(read_sources(described()), seed=0).model
    save_model(trained, folder / "model.json")
    return trained


def expected(model, rows):
    probabilities = model.predict_proba(rows[FEATURES].to_numpy())
    columns = {f"probability_{one}": probabilities[:, k] for k, one in enumerate(model.classes)}
    return pd.DataFrame({"label": model.predict(rows[FEATURES].to_numpy()), **columns})


def test_every_output_says_the_same(folder, model, good):
    want = expected(model, pd.read_parquet(folder / "rows.parquet"))
    said = good("predict", "model.json", "rows.parquet", "-o", "out.csv")
    counts = want["label"].value_counts()
    assert f"Predicted 300 rows: 'ill' {counts['ill']} times and 'well' {counts['well']} times" in said
    facts = json.loads(good("predict", "model.json", "rows.parquet", "-o", "out.parquet", "--json"))
    assert facts == {"output": "out.parquet", "rows": 300, "labels": counts.sort_index().to_dict(), "simulated": False}
    outputs = [
        pd.read_csv(folder / "out.csv"),
        pd.read_parquet(folder / "out.parquet"),
        pd.read_csv(io.StringIO(good("predict", "model.json", "rows.parquet"))),
        pd.DataFrame(json.loads(good("predict", "model.json", "rows.parquet", "--json"))),
    ]
    for got in outputs:
        assert got["label"].astype(str).tolist() == want["label"].tolist()
        np.testing.assert_allclose(got.drop(columns="label"), want.drop(columns="label"), rtol=1e-12)
        assert list(got.columns) == list(want.columns)


@pytest.mark.usefixtures("model")
def test_columns_are_matched_by_name(folder, good):
    rows = pd.read_parquet(folder / "rows.parquet")
    rows[["pulse", "outcome", "age", "dose"]].assign(more=1.0).to_parquet(folder / "other.parquet")
    assert good("predict", "model.json", "other.parquet") == good("predict", "model.json", "rows.parquet")


def test_pieces_are_put_together(folder, model, monkeypatch):
    monkeypatch.setattr("uneven.io.arrow.BLOCK_ROWS", 70)
    table, features = scoring.open_rows(model, folder / "rows.parquet")
    pieces = list(scoring.predict_table(model, table, features))
    assert [len(piece["label"]) for piece in pieces] == [70, 70, 70, 70, 20]
    scoring.write_predictions(iter(pieces), folder / "out.csv")
    want = expected(model, pd.read_parquet(folder / "rows.parquet"))
    assert pd.read_csv(folder / "out.csv")["label"].tolist() == want["label"].tolist()


def test_models_without_names_or_probabilities(folder, good):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    clf = uneven.UnevenClassifier(loss="hinge", random_state=0).fit(X, X.argmax(axis=1))
    clf.save(folder / "plain.json")
    np.save(folder / "rows.npy", X)
    got = pd.read_csv(io.StringIO(good("predict", "plain.json", "rows.npy")))
    assert got["label"].tolist() == clf.predict(X).tolist()
    np.testing.assert_allclose(got[["score_0", "score_1", "score_2"]], clf.decision_function(X), rtol=1e-9)


def test_a_failure_half_way_leaves_the_old_file(folder, model, uneven_in, monkeypatch):
    monkeypatch.setattr("uneven.io.delimited.BLOCK_ROWS", 10)
    (folder / "out.csv").write_text("old")
    rows = pd.read_parquet(folder / "rows.parquet")
    rows.loc[250, "age"] = np.nan
    rows.to_csv(folder / "gap.csv", index=False)
    table, features = scoring.open_rows(model, folder / "gap.csv")
    with pytest.raises(ValueError, match="column 'age' has no value in row 250"):
        scoring.write_predictions(scoring.predict_table(model, table, features), folder / "out.csv")
    assert (folder / "out.csv").read_text() == "old"
    before = sorted(folder.iterdir())
    done = uneven_in("predict", "model.json", "gap.csv", "-o", "out.csv")
    assert done.returncode == 2
    assert sorted(folder.iterdir()) == before
    assert (folder / "out.csv").read_text() == "old"


AWKWARD = ['ill, "very"', "well\nagain"]
"""A comma, quotes and the end of a line: all that has a meaning of its own in CSV."""


def test_awkward_labels_come_back_from_csv(folder, described, frame, good):
    for name, seed in (("clinic", 1), ("crowd", 2)):
        rows = frame(400, seed, AWKWARD)
        rows.to_parquet(folder / "clinic.parquet") if name == "clinic" else rows.to_csv(
            folder / "crowd.csv", index=False
        )
    model = train_files(read_sources(described()), seed=0).model
    save_model(model, folder / "model.json")
    want = expected(model, pd.read_parquet(folder / "rows.parquet"))
    assert set(want["label"]) == set(AWKWARD)
    good("predict", "model.json", "rows.parquet", "-o", "out.csv")
    for text in ((folder / "out.csv").read_text(), good("predict", "model.json", "rows.parquet")):
        header, *rows = csv.reader(io.StringIO(text, newline=""))
        assert header == list(want.columns)
        assert [row[0] for row in rows] == want["label"].tolist()
        np.testing.assert_allclose(np.array([row[1:] for row in rows], dtype=float), want.iloc[:, 1:], rtol=1e-12)


def test_columns_are_kept_as_they_are_written(folder, described, good, uneven_in):
    described()
    good("fit", "sources.toml")
    rows = pd.read_parquet(folder / "rows.parquet").assign(id=[f"{i:04d}" for i in range(300)], note="a, b")
    rows.loc[3, "note"] = None
    rows.to_csv(folder / "rows.csv", index=False)
    rows.to_parquet(folder / "more.parquet")
    plain = pd.read_csv(io.StringIO(good("predict", "model.json", "rows.csv")))
    for name in ("rows.csv", "more.parquet"):
        good("predict", "model.json", name, "--keep", "id", "--keep", "note", "-o", "out.parquet")
        good("predict", "model.json", name, "--keep", "id", "--keep", "note", "-o", "out.csv")
        for got in (pd.read_parquet(folder / "out.parquet"), pd.read_csv(folder / "out.csv", dtype={"id": str})):
            assert list(got.columns) == ["id", "note", *plain.columns]
            assert got["id"].tolist() == rows["id"].tolist()
            assert got["note"].isna().tolist() == rows["note"].isna().tolist()
            np.testing.assert_allclose(got["probability_ill"], plain["probability_ill"], rtol=1e-5)  # float32 as text
    done = uneven_in("predict", "model.json", "rows.csv", "--keep", "key")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--keep must be a column of rows.csv, got 'key'; there are" in done.stderr
    rows.rename(columns={"note": "label"}).to_csv(folder / "rows.csv", index=False)
    done = uneven_in("predict", "model.json", "rows.csv", "--keep", "label")
    assert done.returncode == 2
    assert "--keep must be columns other than the predicted label, probability_ill, probability_well" in done.stderr


def test_kept_columns_stay_beside_their_rows(folder, model, monkeypatch):
    for module in ("arrow", "delimited"):
        monkeypatch.setattr(f"uneven.io.{module}.BLOCK_ROWS", 70)
    monkeypatch.setattr("uneven.io.delimited.BLOCK_BYTES", 3000)
    rows = pd.read_parquet(folder / "rows.parquet").assign(id=np.arange(300))
    rows.to_csv(folder / "rows.csv", index=False)
    rows.to_parquet(folder / "rows.parquet")
    for name in ("rows.csv", "rows.parquet"):
        pieces = list(scoring.predict_table(model, *scoring.open_rows(model, folder / name), ["id"]))
        assert len(pieces) > 3
        assert [int(i) for piece in pieces for i in piece["id"]] == list(range(300))
        labels = np.concatenate([piece["label"] for piece in pieces])
        assert labels.tolist() == model.predict(rows[FEATURES].to_numpy()).tolist()


@pytest.mark.parametrize("threshold", [0.05, 0.5, 0.9])
def test_a_threshold(described, good, threshold):
    described()
    good("fit", "sources.toml")
    got = pd.read_csv(io.StringIO(good("predict", "model.json", "rows.parquet", "--threshold", threshold)))
    assert ((got["label"] == "well") == (got["probability_well"] >= threshold)).all()
    assert got["label"].nunique() == 2


def test_thresholds_that_cannot_be(described, uneven_in):
    described('loss = "hinge"', crowd='{ kind = "exact" }')
    assert uneven_in("fit", "sources.toml").returncode == 0
    done = uneven_in("predict", "model.json", "rows.parquet", "--threshold", 0.5)
    assert "--threshold must be left out for a model without the probabilities of two classes" in done.stderr
    described()
    assert uneven_in("fit", "sources.toml").returncode == 0
    done = uneven_in("predict", "model.json", "rows.parquet", "--threshold", 1.5)
    assert (done.returncode, "--threshold must be a number in (0, 1), got 1.5" in done.stderr) == (2, True)


def test_a_changed_model_is_refused(folder, described, good, uneven_in):
    described()
    good("fit", "sources.toml")
    values = json.loads((folder / "model.json").read_text())
    values["intercept"] = [3.0]
    (folder / "model.json").write_text(json.dumps(values))
    done = uneven_in("predict", "model.json", "rows.parquet")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "model.json must be an unmodified model file, got one whose digest does not match its content" in done.stderr


def test_messages_of_a_redacted_model_tell_nothing_of_single_rows(folder, described, uneven_in):
    """A cell that is not a number: its row and value are for the owner of a model without `redact`."""
    rows = pd.read_parquet(folder / "rows.parquet").astype({"dose": object})
    rows.loc[17, "dose"] = "secret"
    rows.to_csv(folder / "spoiled.csv", index=False)
    for redact in (False, True):
        trained = train_files(read_sources(described()), seed=0).model
        save_model(replace(trained, settings=replace(trained.settings, redact=redact)), folder / "model.json")
        said = uneven_in("predict", "model.json", "spoiled.csv").stderr
        assert ("secret" in said, "dose" in said) == (not redact, True)


def test_kept_columns_are_not_changed(folder, described, good):
    """Character by character from text to text, and with their types from Parquet to Parquet."""
    described()
    good("fit", "sources.toml")
    rows = pd.read_parquet(folder / "rows.parquet")[:6]
    code = ["0.00", "1.0", "1.00", "TRUE", " x ", "NA"]
    rows.assign(code=code).to_csv(folder / "kept.csv", index=False)
    good("predict", "model.json", "kept.csv", "--keep", "code", "-o", "out.csv")
    with (folder / "out.csv").open(newline="") as file:
        assert [row["code"] for row in csv.DictReader(file)] == code
    typed = rows.assign(whole=range(6), real=np.arange(6) / 7, word=pd.Categorical(list("aabbcc")), day=pd.Timestamp(0))
    typed.to_parquet(folder / "kept.parquet")
    keep = [word for name in ("whole", "real", "word", "day") for word in ("--keep", name)]
    good("predict", "model.json", "kept.parquet", *keep, "-o", "out.parquet")
    got = pd.read_parquet(folder / "out.parquet")
    assert got["whole"].tolist() == list(range(6))
    assert got["real"].tolist() == (np.arange(6) / 7).tolist()
    assert got["word"].tolist() == list("aabbcc")
    assert (got["day"] == pd.Timestamp(0)).all()
    assert json.loads(good("predict", "model.json", "kept.parquet", *keep, "--json"))[5]["real"] == 5 / 7


def test_the_models_own_threshold(described, good):
    described("threshold = 0.9")
    good("fit", "sources.toml")
    for words, cut in (((), 0.9), (("--threshold", 0.2), 0.2)):
        got = pd.read_csv(io.StringIO(good("predict", "model.json", "rows.parquet", *words)))
        assert ((got["label"] == "well") == (got["probability_well"] >= cut)).all()
        assert got["probability_well"].between(0.2, 0.9).any()


TABLE = """
label = "outcome"
{head}
[columns]
age = {{ range = [-3, 3] }}
job = {{ values = ["clerk", "cook"] }}
[[source]]
name = "a"
data = "jobs.csv"
noise = {{ kind = "exact" }}
"""


@pytest.mark.parametrize("redact", [False, True])
def test_values_that_the_model_does_not_know_are_mentioned(folder, frame, good, uneven_in, redact):
    jobs = frame(400, 1).assign(job=np.resize(["clerk", "cook"], 400))
    jobs.to_csv(folder / "jobs.csv", index=False)
    (folder / "t.toml").write_text(TABLE.format(head=f"redact = {str(redact).lower()}"))
    good("fit", "t.toml")
    done = uneven_in("predict", "model.json", "jobs.csv", "-o", "out.csv")
    assert (done.returncode, done.stderr) == (0, "")
    jobs.assign(job=jobs["job"].str.upper()).to_csv(folder / "upper.csv", index=False)
    done = uneven_in("predict", "model.json", "upper.csv", "-o", "out.csv")
    such = "" if redact else ", such as 'CLERK'"
    assert f"400 rows have a value in column 'job' that the model does not know{such}:" in done.stderr
    jobs.assign(age="").to_csv(folder / "gap.csv", index=False)
    done = uneven_in("predict", "model.json", "gap.csv", "-o", "out.csv")
    assert done.returncode == 2
    row = "some row" if redact else "row 0"
    assert f"gap.csv: column 'age' has no value in {row}; the model was learned from rows that always" in done.stderr


@pytest.mark.parametrize("key", ["columns", "coef"])
def test_no_part_of_a_model_can_be_changed(folder, frame, good, uneven_in, key):
    frame(400, 1).assign(job=np.resize(["clerk", "cook"], 400)).to_csv(folder / "jobs.csv", index=False)
    (folder / "t.toml").write_text(TABLE.format(head=""))
    good("fit", "t.toml")
    text = (folder / "model.json").read_text()
    values = json.loads(text)
    changed = {
        "columns": {**values["columns"], "age": {"range": [-30.0, 30.0]}},
        "coef": [[-w for w in values["coef"][0]]],
    }
    assert changed[key] != values[key]
    (folder / "model.json").write_text(json.dumps({**values, key: changed[key]}))
    done = uneven_in("predict", "model.json", "jobs.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert "whose digest does not match its content" in done.stderr
