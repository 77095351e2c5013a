"""``uneven evaluate``: a private score, charged first."""

import json

import pandas as pd
import pytest

from uneven import Ledger
from uneven.io import read_sources
from uneven.training.files import train_files
from uneven.training.model_file import save


@pytest.fixture
def model(folder, described):
    trained = train_files(read_sources(described()), seed=0).model
    save(trained, folder / "model.json")
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
        (("--epsilon", "-1"), "epsilon must be"),
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
