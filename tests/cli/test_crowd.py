"""``uneven crowd``: from files of answers and features to a model that predicts."""

import json

import numpy as np
import pandas as pd
import pytest

CROWD = ("crowd", "answers.csv", "--features", "tasks.parquet")


@pytest.fixture
def crowd(folder):
    """Five workers of known quality, 300 tasks, and tasks to test on."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    truth = np.where(X[:, 0] > 0, "cat", "dog")
    names = [f"t{i}" for i in range(600)]
    task, worker = np.repeat(np.arange(300), 5), np.tile(["ann", "bob", "cem", "dia", "eve"], 300)
    wrong = rng.random(1500) < np.tile([0.02, 0.1, 0.2, 0.3, 0.5], 300)
    label = np.where(wrong, np.where(truth[task] == "cat", "dog", "cat"), truth[task])
    pd.DataFrame({"task": np.array(names)[task], "worker": worker, "label": label}).to_csv(
        folder / "answers.csv", index=False
    )
    tasks = pd.DataFrame(X, columns=["size", "noise"]).assign(task=names)
    tasks[:300].sample(frac=1, random_state=0).to_parquet(folder / "tasks.parquet")
    tasks[300:].assign(label=truth[300:]).to_parquet(folder / "test.parquet")
    tasks[["task"]].assign(label=truth)[:50].to_csv(folder / "gold.csv", index=False)
    return folder


def test_a_model_from_answers(crowd, good):
    facts = json.loads(good(*CROWD, "--test", "test.parquet", "--gold", "gold.csv", "--report", "r.html", "--json"))
    assert facts["accuracy"] > 0.95
    assert (facts["tasks"], facts["answers"], facts["gold"], facts["classes"]) == (300, 1500, 50, ["cat", "dog"])
    errors = {one["name"]: one["error"] for one in facts["workers"]}
    assert sorted(errors, key=errors.get) == ["ann", "bob", "cem", "dia", "eve"]
    assert {one["labels"] for one in facts["workers"]} == {300}
    assert [facts["workers"][0]["errors"].keys() == {"cat", "dog"}]
    page = (crowd / "r.html").read_text()
    assert all(name in page for name in errors)
    good("predict", "model.json", "test.parquet", "-o", "predictions.csv")
    predicted = pd.read_csv(crowd / "predictions.csv")
    truth = pd.read_parquet(crowd / "test.parquet")["label"].to_numpy()
    assert (predicted.iloc[:, 0].to_numpy() == truth).mean() == pytest.approx(facts["accuracy"])


@pytest.mark.usefixtures("crowd")
def test_in_words(good):
    text = good(*CROWD)
    assert "1,500 answers of 5 workers to 300 tasks, 5.0 per task. No gold labels were used." in text
    for words in ("ann", "error if cat", "worth", "The model is in model.json."):
        assert words in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("crowd", "answers.csv", "--features", "test.parquet"), "ANSWERS must be about the tasks given, got 't0'"),
        (
            ("crowd", "gold.csv", "--features", "tasks.parquet"),
            "gold.csv must have a column 'worker'; there are 'task', 'label'; --worker names another",
        ),
        (
            ("crowd", "tasks.parquet", "--features", "tasks.parquet"),
            "ANSWERS and --features must be two files, got 'tasks.parquet' for both: one has a task, a worker and a",
        ),
        ((*CROWD, "--task", "job"), "--task must be a column of answers.csv, got 'job'; there are"),
        ((*CROWD, "-o", "answers.csv"), "-o must end in .json, got 'answers.csv'"),
        ((*CROWD, "-o", "."), "must be a file to write, got a folder"),
    ],
)
def test_what_is_refused(crowd, uneven_in, words, said):
    done = uneven_in(*words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr
    assert not (crowd / "model.json").exists()


def test_tasks_with_words_and_gaps(crowd, good):
    """Columns that are no plain numbers are described by their own values, and the model takes them raw; a column of
    labels is not among them."""
    for name in ("tasks", "test"):
        tasks = pd.read_parquet(crowd / f"{name}.parquet")
        tasks["kind"] = np.where(tasks.pop("size") > 0, "large", "small")
        tasks.loc[tasks.index[:5], "noise"] = None
        tasks.assign(label=tasks.get("label", "cat")).to_csv(crowd / f"{name}.csv", index=False)
    words = ("crowd", "answers.csv", "--features", "tasks.csv", "--test", "test.csv", "--json")
    facts = json.loads(good(*words))
    assert facts["accuracy"] > 0.95
    good("predict", "model.json", "test.csv", "-o", "predictions.csv")
    predicted, truth = (pd.read_csv(crowd / name)["label"] for name in ("predictions.csv", "test.csv"))
    assert (predicted == truth).mean() == pytest.approx(facts["accuracy"])
    model = json.loads((crowd / "model.json").read_text())
    assert sorted(model["columns"]) == ["kind", "noise"]
