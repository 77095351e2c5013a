"""A table with words and gaps teaches the same through both doors, held or streamed, whatever its file."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import uneven
from uneven.io import read_sources
from uneven.training import load_model, save_model, scoring
from uneven.training.files import train_files

COLUMNS = {
    "age": {"range": [20.0, 80.0]},
    "dose": {"range": [0.0, 2.0], "missing": ["?"]},
    "job": {"values": ["clerk", "cook"], "missing": []},
}
TOML = """
[columns]
age = { range = [20.0, 80.0] }
dose = { range = [0.0, 2.0], missing = ["?"] }
job = { values = ["clerk", "cook"], missing = [] }
"""
UNSTATED = """
[columns]
age = { kind = "number" }
dose = { kind = "number", missing = ["?"] }
job = { kind = "category" }
"""
KINDS = {"age": {"kind": "number"}, "dose": {"kind": "number", "missing": ["?"]}, "job": {"kind": "category"}}
NOISE = {"open": uneven.Exact(), "hidden": uneven.LocalPrivacy(4.0)}


def table(n, seed):
    rng = np.random.default_rng(seed)
    age, dose, job = rng.uniform(10, 90, n), rng.uniform(0, 2, n), rng.choice(["clerk", "cook", "king", ""], n)
    y = (age / 40 + (job == "cook") - dose + 0.5 * rng.normal(size=n) > 0.7).astype(int)
    gaps = rng.random(n) < 0.1
    return pd.DataFrame(
        {"age": age.round(1), "dose": np.where(gaps, "?", dose.round(3).astype(str)), "job": job, "y": y}
    )


@pytest.fixture
def frames(tmp_path):
    rows = {"open": table(400, 1), "hidden": table(900, 2)}
    rows["open"].to_csv(tmp_path / "open.csv", index=False, sep=";")
    rows["hidden"].assign(job=rows["hidden"]["job"].astype("category")).to_parquet(tmp_path / "hidden.parquet")
    return rows


def describe(folder, head, noise=NOISE):
    files = {"open": "open.csv", "hidden": "hidden.parquet"}
    kinds = {"open": '{ kind = "exact" }', "hidden": '{ kind = "local-privacy", epsilon = 4.0 }'}
    text = 'label = "y"\n' + head
    for name in noise:
        text += f'[[source]]\nname = "{name}"\ndata = "{files[name]}"\nnoise = {kinds[name]}\n'
    (folder / "sources.toml").write_text(text)
    return read_sources(folder / "sources.toml")


@pytest.mark.parametrize(("head", "columns"), [(TOML, COLUMNS), (UNSTATED, KINDS)], ids=["stated", "found"])
@pytest.mark.parametrize("held", [1 << 25, 0], ids=["held", "streamed"])
def test_both_doors_are_alike(tmp_path, frames, head, columns, held):
    trained = train_files(describe(tmp_path, head), seed=3, held_bytes=held)
    rows = pd.concat(frames.values(), ignore_index=True)
    source = np.repeat(list(frames), [len(one) for one in frames.values()])
    encoder = uneven.PublicColumns(columns).fit(rows, public=source == "open")
    clf = uneven.UnevenClassifier(NOISE, random_state=3)
    clf.fit(encoder.transform(rows.drop(columns="y")), rows["y"], source=source)
    np.testing.assert_allclose(trained.model.coef, clf.coef_, rtol=1e-5, atol=1e-6)
    assert trained.model.feature_names == tuple(encoder.get_feature_names_out())
    assert trained.scale.row_norm == 1.0
    assert not trained.trained.too_long


def test_a_model_file_takes_raw_rows(tmp_path, frames):
    """The same from the file of either door, and from a pipeline of its two parts."""
    model = train_files(describe(tmp_path, TOML), seed=3).model
    save_model(model, tmp_path / "files.json")
    new = table(200, 9).drop(columns="y")
    new.to_csv(tmp_path / "new.csv", index=False)
    loaded = load_model(tmp_path / "files.json")
    (piece,) = scoring.predict_table(loaded, *scoring.open_rows(loaded, tmp_path / "new.csv"))
    columns, clf = (kind.load(tmp_path / "files.json") for kind in (uneven.PublicColumns, uneven.UnevenClassifier))
    pipeline = make_pipeline(columns, clf)
    np.testing.assert_allclose(piece["probability_1"], pipeline.predict_proba(new)[:, 1], rtol=1e-6)
    fresh = uneven.UnevenClassifier(random_state=0).fit(columns.transform(frames["open"]), frames["open"]["y"])
    fresh.save(tmp_path / "arrays.json", columns)
    again = load_model(tmp_path / "arrays.json")
    (piece,) = scoring.predict_table(again, *scoring.open_rows(again, tmp_path / "new.csv"))
    np.testing.assert_allclose(piece["probability_1"], fresh.predict_proba(columns.transform(new))[:, 1], rtol=1e-6)


def test_one_file_for_all_sources(tmp_path, frames):
    whole = pd.concat([frame.assign(site=name) for name, frame in frames.items()])
    whole.sample(frac=1.0, random_state=0).to_csv(tmp_path / "all.csv", index=False)
    head = 'label = "y"\ndata = "all.csv"\nsource_column = "site"\n' + UNSTATED
    text = head + '[[source]]\nname = "open"\nnoise = { kind = "exact" }\n'
    text += '[[source]]\nname = "hidden"\nnoise = { kind = "local-privacy", epsilon = 4.0 }\n'
    (tmp_path / "all.toml").write_text(text)
    shared, apart = read_sources(tmp_path / "all.toml"), describe(tmp_path, UNSTATED)
    assert shared.columns[2] == apart.columns[2]
    for one, other in zip(shared.columns[:2], apart.columns[:2], strict=True):
        assert one.range == pytest.approx(other.range, rel=1e-9)
    assert train_files(shared, seed=0).model.n_features == apart.n_features


def test_private_rows_describe_nothing(tmp_path, frames):
    before = describe(tmp_path, UNSTATED).columns
    frames["hidden"].assign(age=1e6, job="secret").to_parquet(tmp_path / "hidden.parquet")
    assert describe(tmp_path, UNSTATED).columns == before
    with pytest.raises(ValueError, match=r"column 'age' must have its range stated, by public knowledge: there are no"):
        describe(tmp_path, UNSTATED, {"hidden": None})


REFUSED = {
    "features": ('features = ["age"]\n' + TOML, "features must be left out where"),
    "n_features": ("n_features = 3\n" + TOML, "n_features must be left out where"),
    "unknown column": (TOML + "height = { range = [1, 2] }\n", "features must be columns, got 'height'"),
    "the label": (TOML + "y = { range = [0, 1] }\n", "got 'y', which is the label's column"),
    "nothing": ("[columns]\n", r"sources.toml: \[columns\]: columns must describe at least one column"),
    "slip": ("[columns]\nage = { rang = [0, 1] }\n", r"\[columns\]: column 'age' has no key 'rang'"),
    "delimiter": ('delimiter = "ab"\n' + TOML, "delimiter must be one character such as ';', got 'ab'"),
}


@pytest.mark.parametrize(("head", "message"), REFUSED.values(), ids=REFUSED)
@pytest.mark.usefixtures("frames")
def test_slips(tmp_path, head, message):
    with pytest.raises(ValueError, match=message):
        describe(tmp_path, head)


def test_rows_that_do_not_fit_their_description_are_named(tmp_path, frames):
    file = describe(tmp_path, TOML)
    frames["open"].assign(age="old").to_csv(tmp_path / "open.csv", index=False, sep=";")
    with pytest.raises(ValueError, match=r"open.csv: column 'age' must hold numbers, got 'old' in row 0; if that"):
        train_files(file, seed=0)
