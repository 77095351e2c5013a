"""``uneven evaluate``: a private score, charged first."""

import io
import json
import os

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from uneven import Ledger
from uneven.io import read_sources
from uneven.training import save_model
from uneven.training.files import train_files


@pytest.fixture
def model(folder, described):
    trained = train_files(read_sources(described()), seed=0).model
    save_model(trained, folder / "model.json")
    return trained


def test_a_private_score_is_charged_and_an_exact_one_is_not(folder, model, good):
    rows = pd.read_parquet(folder / "rows.parquet")
    exact = json.loads(good("evaluate", "model.json", "rows.parquet", "--public", "--auc", "--json"))
    truth = (model.predict(rows[["age", "dose", "pulse"]].to_numpy()) == rows["outcome"]).mean()
    assert exact["accuracy"]["value"] == truth
    assert exact["auc"]["low"] < exact["auc"]["value"] < 1
    said = good("evaluate", "model.json", "rows.parquet", "--epsilon", "2", "--ledger", "ledger.db", "--source", "kept")
    assert "ε = 2 for each row, charged in ledger.db before they answered" in said
    ledger = Ledger(folder / "ledger.db")
    assert (ledger.max_spent("kept"), len(ledger.spent("kept"))) == (2.0, 300)
    found = json.loads(good("evaluate", "model.json", "rows.parquet", "--epsilon", "2", "--auc", "--json"))
    assert found["accuracy"]["rows"] == found["auc"]["rows"] == 150
    assert found["accuracy"]["low"] - 0.1 < truth < found["accuracy"]["high"] + 0.1


def test_a_fit_and_an_evaluation_have_the_same_intervals(described, good):
    """Clopper and Pearson's for accuracy, which SciPy has too; DeLong's for AUC, of scores in bins by the fit."""
    described()
    (tested,) = (
        one
        for one in json.loads(good("fit", "sources.toml", "--test", "rows.parquet", "--json"))["measures"]
        if not one["learned_from"]
    )
    found = json.loads(good("evaluate", "model.json", "rows.parquet", "--public", "--auc", "--json"))
    ends = [found["accuracy"][key] for key in ("value", "low", "high")]
    assert tested["compared"]["scores"]["accuracy"] == pytest.approx(ends, abs=1e-12)
    exact = binomtest(round(300 * ends[0]), 300).proportion_ci(method="exact")
    assert ends[1:] == pytest.approx([exact.low, exact.high], abs=1e-9)
    area = [found["auc"][key] for key in ("value", "low", "high")]
    assert tested["compared"]["scores"]["auc"] == pytest.approx(area, abs=1e-3)


def test_raw_rows_where_columns_are_described(folder, good, uneven_in):
    """As `predict` takes them: the same accuracy, and nothing but it on either stream."""
    lines = [f"{i % 7},{'cook' if i % 3 else 'clerk'},{int(i % 3 == 0)}" for i in range(90)]
    (folder / "raw.csv").write_text("\n".join(["age,job,label", *lines]) + "\n")
    good("init", "raw.csv", "-o", "raw.toml")
    good("fit", "raw.toml", "-o", "raw.json")
    done = uneven_in("evaluate", "raw.json", "raw.csv", "--public", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["accuracy"]["value"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "epsilon must be given for private rows, or --public"),
        (("--epsilon", "1", "--public"), "got both"),
        (("--epsilon", "-1"), "uneven: --epsilon must be"),
        (("--epsilon", "1", "--label", "nothing"), "nothing"),
        (("--epsilon", "3", "--budget", "2"), "budget must be at least epsilon"),
    ],
)
def test_bad_input_is_refused_in_one_line(model, uneven_in, arguments, why):
    assert model is not None
    done = uneven_in("evaluate", "model.json", "rows.parquet", *arguments)
    assert done.returncode == 2
    assert why in done.stderr
    assert done.stderr.count("\n") == 1


# What an attack found


def test_described_columns_are_encoded_and_known_as_in_the_fit(folder, good, uneven_in):
    """A row that was learned from and then evaluated pays for both, and a new ledger keeps the budget it is given."""
    rng = np.random.default_rng(0)
    age, ward = rng.uniform(20, 80, 1_000), rng.choice(["a", "b"], 1_000)
    ill = (age + 20 * (ward == "b") + rng.normal(0, 3, 1_000) > 60).astype(int)
    pd.DataFrame({"age": age, "ward": ward, "ill": ill}).to_csv(folder / "raw.csv", index=False)
    (folder / "raw.toml").write_text(
        'label = "ill"\n[columns]\nage = { range = [20, 80] }\nward = { values = ["a", "b"] }\n'
        '[[source]]\nname = "clinic"\ndata = "raw.csv"\nnoise = { kind = "local-privacy", epsilon = 8.0 }\n'
    )
    good("fit", "raw.toml", "-o", "raw.json", "--ledger", "book.db", "--budget", "9")
    asked = ("evaluate", "raw.json", "raw.csv", "--label", "ill", "--ledger", "book.db")
    exact = json.loads(good("evaluate", "raw.json", "raw.csv", "--label", "ill", "--public", "--json"))
    predicted = pd.read_csv(io.StringIO(good("predict", "raw.json", "raw.csv")))["label"]
    assert exact["accuracy"]["value"] == pytest.approx((predicted == ill).mean())
    good(*asked, "--epsilon", "1")
    assert len(Ledger(folder / "book.db").entries()) == 2_000  # each row under two names
    done = uneven_in(*asked, "--epsilon", "1")
    assert done.returncode == 1, done.stderr
    assert "would exceed the budget of 9" in done.stderr


@pytest.mark.usefixtures("model")
def test_a_new_ledger_keeps_the_budget(folder, good, uneven_in):
    asked = ("evaluate", "model.json", "rows.parquet", "--epsilon", "1", "--ledger", "new.db")
    good(*asked, "--budget", "1")
    assert Ledger(folder / "new.db").stored_budget == 1.0
    assert uneven_in(*asked).returncode == 1


@pytest.mark.usefixtures("model")
def test_rows_are_charged_by_the_id_column_given(folder, good):
    rows = pd.read_parquet(folder / "rows.parquet")
    rows.insert(0, "patient", np.arange(1_000, 1_000 + len(rows)))
    rows.to_parquet(folder / "named.parquet")
    asked = ("--epsilon", "1", "--ledger", "ids.db", "--id", "patient", "--label", "outcome")
    good("evaluate", "model.json", "named.parquet", *asked)
    assert sorted(Ledger(folder / "ids.db").spent("evaluation")) == list(range(1_000, 1_000 + len(rows)))


def test_a_model_that_is_no_file_is_refused(folder, uneven_in):
    os.mkfifo(folder / "pipe")
    done = uneven_in("evaluate", "pipe", "rows.parquet", "--public")
    assert (done.returncode, "must be a model" in done.stderr) == (2, True)


def test_a_share_is_printed_between_0_and_1():
    """The unbiased estimate of few noisy answers can be 1.0554; nobody has more than all rows right."""
    from uneven.cli.evaluate import _interval
    from uneven.evaluation import Estimate

    assert _interval(Estimate(1.0554, 0.9, 1.0, 40), 0.95) == "1.0000, 95% interval 0.9000 to 1.0000 (40 rows)"
    assert _interval(Estimate(-0.1, 0.0, 0.2, 40), 0.95).startswith("0.0000,")


@pytest.mark.usefixtures("model")
def test_other_columns_are_named_where_the_label_is_not_clear(folder, uneven_in):
    pd.read_parquet(folder / "rows.parquet").assign(id=range(300)).to_csv(folder / "kept.csv", index=False)
    said = uneven_in("evaluate", "model.json", "kept.csv", "--public").stderr
    assert said.endswith("kept.csv has 'outcome' and 'id' beside the features; --id names a column of ids\n")
