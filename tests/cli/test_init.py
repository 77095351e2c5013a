"""``uneven init`` guesses, asks nothing, and writes a file that can be planned and fitted as it is."""

import json
import tomllib

import numpy as np
import pandas as pd
import pytest

from uneven.io import read_sources
from uneven.io.proposal import start


def test_from_files_to_predictions(folder, good):
    said = good("init", "clinic.parquet", "crowd.csv")
    assert "Labels: column 'outcome' (by its name)." in said
    text = (folder / "sources.toml").read_text()
    assert text.count('# noise = { kind = "local-privacy"') == text.count('# noise = { kind = "flipped-labels"') == 2
    file = read_sources(folder / "sources.toml")
    assert [entry.source.name for entry in file.sources] == ["clinic", "crowd"]
    assert "Learn 'clinic' and 'crowd' to convergence" in good("plan", "sources.toml")
    good("fit", "sources.toml", "-o", "model.json")
    good("predict", "model.json", "rows.parquet", "-o", "out.csv")


def test_every_comment_can_be_uncommented(folder):
    start([folder / "clinic.parquet"], folder / "sources.toml")
    lines = (folder / "sources.toml").read_text().splitlines()
    options = [line for line in lines if line.startswith("# noise") or line.startswith("# price")]
    assert len(options) == 4
    for option in options:
        kept = [line for line in lines if not (option.startswith("# noise") and line.startswith("noise ="))]
        text = "\n".join(line.removeprefix("# ") if line == option else line for line in kept)
        assert tomllib.loads(text)["source"][0]["name"] == "clinic"
        (folder / "changed.toml").write_text(text)
        read_sources(folder / "changed.toml").plan()


def test_what_is_there_is_kept(folder, good):
    start([folder / "clinic.parquet"], folder / "sources.toml")
    (folder / "crowd.tsv").write_text((folder / "crowd.csv").read_text().replace(",", "\t"))
    facts = json.loads(good("init", "crowd.csv", "crowd.tsv", "--force", "--json"))
    assert facts["names"] == ["crowd", "crowd-2"]
    assert facts["label"] == "outcome"


RNG = np.random.default_rng(0)
X = {"a": RNG.normal(size=50), "b": RNG.normal(size=50)}
GUESSES = {
    "by name": ({"Class": RNG.integers(0, 3, 50), **X}, "Class", ()),
    "words": ({"kind": RNG.choice(["x", "y", "z"], 50), **X}, "kind", ()),
    "two values": ({**X, "flag": RNG.integers(0, 2, 50), "c": RNG.normal(size=50)}, "flag", ()),
    "last": (X, "b", ()),
    "ids and names are left out": (
        {"id": np.arange(50), "name": [f"n{i}" for i in range(50)], **X, "y": RNG.integers(0, 2, 50)},
        "y",
        ("id", "name"),
    ),
}


@pytest.mark.parametrize(("columns", "label", "left_out"), GUESSES.values(), ids=GUESSES)
def test_guesses(tmp_path, columns, label, left_out):
    pd.DataFrame(columns).to_csv(tmp_path / "rows.csv", index=False)
    guessed = start([tmp_path / "rows.csv"], tmp_path / "sources.toml")
    assert (guessed.label, guessed.left_out) == (label, left_out)
    file = read_sources(tmp_path / "sources.toml")
    assert file.label == label
    assert set(file.feature_names) == set(columns) - {label, *left_out}


@pytest.mark.parametrize(("name", "separator"), [("rows.csv", ","), ("rows.tsv", "\t")])
def test_a_file_without_names_is_noticed(folder, uneven_in, name, separator):
    lines = [("0.5", "1.25", "ill"), ("0.25", "2", "well"), ("0.75", "3", "ill")]
    rows = [separator.join(line) + "\n" for line in lines]
    (folder / name).write_text("".join(rows))
    done = uneven_in("init", name)
    assert f"{name} has numbers for names of columns" in done.stderr
    assert done.stderr.count("\n") == 1
    (folder / name).write_text(separator.join(["x1", "2nd", "y"]) + "\n" + "".join(rows))
    assert uneven_in("init", name, "--force").stderr == ""


def test_formats_with_labels_of_their_own(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:0.5 3:0.5\n-1 2:0.5\n")
    np.savez(tmp_path / "b.npz", X=np.eye(3), y=np.array([0, 1, 1]))
    for name in ("a.svm", "b.npz"):
        start([tmp_path / name], tmp_path / "sources.toml", force=True)
        assert read_sources(tmp_path / "sources.toml").label is None


def test_only_shared_columns_are_learned_from(tmp_path, frame):
    frame(50, 1).assign(extra=1.0).to_csv(tmp_path / "a.csv", index=False)
    frame(50, 2).to_csv(tmp_path / "b.csv", index=False)
    guessed = start([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "sources.toml")
    assert guessed.left_out == ("extra",)
    assert read_sources(tmp_path / "sources.toml").problem.n_features == 3
