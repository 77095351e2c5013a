"""Described rows are known by their cells: however they are described they are the same rows, and only those."""

import warnings

import numpy as np
import pandas as pd
import pytest

import uneven
from uneven.columns import EncodedRows, digest_cells
from uneven.io import read_sources
from uneven.ledger import list_columns
from uneven.training.files import train_files

WAYS = (
    {"a": {"range": [-3, 3]}, "b": {"values": ["u", "v"]}},
    {"a": {"range": [-3.5, 3.5], "missing": ["?"]}, "b": {"values": ["u"]}},
    {"a": {"values": [1, 2]}, "b": {"values": ["v", "u", "w"], "missing": []}},
)
PRIVATE = '{ kind = "local-privacy", epsilon = 4.0 }'


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=n), rng.choice(["u", "v"], n)
    return pd.DataFrame({"a": a, "b": b, "y": (a + (b == "u") + rng.normal(size=n) > 0.5).astype(int)})


def described(folder, columns, noise=PRIVATE, data="rows.csv", head=""):
    lines = [
        f"{name} = {{ {', '.join(f'{k} = {v}' for k, v in one.items())} }}".replace("'", '"')
        for name, one in columns.items()
    ]
    text = f'label = "y"\n{head}[columns]\n' + "\n".join(lines)
    (folder / "s.toml").write_text(f'{text}\n[[source]]\nname = "s"\ndata = "{data}"\nnoise = {noise}\n')
    return read_sources(folder / "s.toml")


def test_another_description_does_not_make_other_rows(tmp_path):
    """Through both doors and from another file: 300 rows at ε = 4 each time, and the ledger's budget is 5."""
    rows = table()
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.astype({"a": "float32", "b": "category"}).to_parquet(tmp_path / "rows.parquet")
    ledger = uneven.Ledger(tmp_path / "ledger.db", budget=5.0)
    train_files(described(tmp_path, WAYS[0]), ledger=ledger)
    for columns in WAYS:
        for data in ("rows.csv", "rows.parquet"):
            with pytest.raises(uneven.BudgetExceeded, match="300 of 300 rows of source 's' would exceed"):
                train_files(described(tmp_path, columns, data=data), ledger=ledger)
        encoded = uneven.PublicColumns(columns).fit_transform(rows[["a", "b"]])
        clf = uneven.UnevenClassifier({"s": uneven.LocalPrivacy(4.0)}, ledger=ledger)
        order = np.random.default_rng(1).permutation(300)
        with pytest.raises(uneven.BudgetExceeded, match="300 of 300"):
            clf.fit(encoded[order], rows["y"].to_numpy()[order], source=np.full(300, "s"))
        with pytest.raises(uneven.BudgetExceeded, match="300 of 300"):
            clf.partial_fit(encoded, rows["y"], source=np.full(300, "s"))
        assert ledger.remaining(ledger.fingerprint(encoded)).tolist() == [1.0] * 300
    assert ledger.sources() == {"s": 300}


def test_rows_without_their_cells_or_of_an_earlier_ledger_are_refused(tmp_path):
    """Arrays that were joined, and ledgers that knew described rows by their features, would count a row as two."""
    rows = table()
    rows.to_csv(tmp_path / "rows.csv", index=False)
    encoded = uneven.PublicColumns(WAYS[0]).fit_transform(rows)
    for earlier in (False, True):
        ledger = uneven.Ledger(budget=99.0)
        plain = np.concatenate([encoded])
        if earlier:  # what fit wrote until rows were known by their cells
            names = ("a", "b = u", "b = v")
            ledger.charge("s", uneven.Ledger.fingerprint(ledger, plain, names), 4.0)
            with pytest.raises(ValueError, match=r"got the cells of 'a', 'b'.*goes on in a new ledger whose budget is"):
                train_files(described(tmp_path, WAYS[0]), ledger=ledger)
        else:
            train_files(described(tmp_path, WAYS[0]), ledger=ledger)
            clf = uneven.UnevenClassifier(uneven.LocalPrivacy(4.0), ledger=ledger)
            with pytest.raises(ValueError, match="the cells of 'a', 'b', as its first were; got 3 without names"):
                clf.fit(plain, rows["y"])


def test_cells_stay_with_chosen_rows_only():
    rows = table(20)
    encoded = uneven.PublicColumns(WAYS[0]).fit_transform(rows)
    digests = digest_cells({"b": rows["b"].to_numpy(), "a": rows["a"].to_numpy()})
    for chosen in (
        slice(3, 9),
        np.array([7, 1]),
        np.arange(20) > 4,
        (np.array([3]), Ellipsis),
        (slice(2), slice(None)),
    ):
        some = encoded[chosen]
        assert isinstance(some, EncodedRows)
        np.testing.assert_array_equal(some.digests(), digests[chosen[0] if isinstance(chosen, tuple) else chosen])
    for other in (encoded[:, :2], encoded[2], encoded * 1.0, np.vstack([encoded, encoded]), encoded.T):
        assert getattr(other, "cells", None) is None
    assert len(np.unique(digests, axis=0)) == len(rows.drop(columns="y").drop_duplicates())
    assert list_columns(("a",), 1) != list_columns(("a",), 1, ["a"])  # a feature is no cell


def test_private_evaluation_knows_the_same_rows(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from uneven.cli.app import app

    monkeypatch.chdir(tmp_path)
    rows = table()
    rows.to_csv("rows.csv", index=False)
    described(tmp_path, WAYS[0])
    assert CliRunner().invoke(app, ["fit", "s.toml", "--ledger", "l.db", "--budget", "5"]).exit_code == 0
    asked = ["evaluate", "model.json", "rows.csv", "--label", "y", "--ledger", "l.db", "--epsilon"]
    assert CliRunner().invoke(app, [*asked, "1"]).exit_code == 0
    assert isinstance(CliRunner().invoke(app, [*asked, "0.5"]).exception, uneven.BudgetExceeded)
    described(tmp_path, WAYS[1], '{ kind = "exact" }')
    assert CliRunner().invoke(app, ["fit", "s.toml"]).exit_code == 0
    assert isinstance(CliRunner().invoke(app, [*asked, "0.5"]).exception, uneven.BudgetExceeded)


def coarse(n, seed, values):
    rng = np.random.default_rng(seed)
    c = rng.integers(0, values, n)
    frame = pd.DataFrame({"a": rng.integers(1, 4, n), "b": rng.choice(["u", "v"], n), "c": c})
    return frame.assign(y=(frame["a"] + (frame["b"] == "u") + rng.normal(size=n) > 2.5).astype(int))


COARSE = {"a": {"range": [1, 3]}, "b": {"values": ["u", "v"]}, "c": {"range": [1, 80]}}


@pytest.mark.parametrize("values", [80, 60, 1])
@pytest.mark.parametrize("noise", ['{ kind = "exact" }', PRIVATE])
def test_rows_that_agree_by_chance_may_be_measured_on(tmp_path, noise, values):
    """Few values: most rows agree with others, drawn separately or not. Copies of private rows are refused, but for
    a table of six different rows, where there is nothing to tell them by."""
    coarse(1000, 0, values).to_csv(tmp_path / "rows.csv", index=False)
    file, tables = described(tmp_path, COARSE, noise), {}
    for name, frame in (("apart", coarse(300, 1, values)), ("copied", coarse(1000, 0, values)[:300])):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        tables[name] = uneven.io.open_table(tmp_path / f"{name}.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", uneven.CopiesWarning)
        assert train_files(file, test=tables["apart"]).measures[-1].rows == 300
        if noise == PRIVATE and values > 1:
            with pytest.raises(ValueError, match="300 of its 300 rows agree with private rows"):
                train_files(file, test=tables["copied"])


def test_rows_that_only_their_description_makes_alike_are_not_alike(tmp_path):
    """Beyond the range, or of values that are not listed: other rows, not copies and not rows learned from."""
    rows = table().assign(b=[f"w{i}" for i in range(300)], a=np.arange(300) + 10.0)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.assign(a=rows["a"] + 5000.5).to_csv(tmp_path / "test.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", uneven.CopiesWarning)
        train_files(described(tmp_path, WAYS[0]), test=uneven.io.open_table(tmp_path / "test.csv"))
        train_files(described(tmp_path, WAYS[0]))
    pd.concat([rows, rows[:5]]).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.warns(uneven.CopiesWarning, match="^5 private rows are exact copies"):
        train_files(described(tmp_path, WAYS[0]))


def test_a_redacted_refusal_names_no_row(tmp_path):
    table().assign(a="").to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(ValueError, match="column 'a' has no value in row 0"):
        train_files(described(tmp_path, WAYS[0]))
    with pytest.raises(ValueError, match="column 'a' has no value in some row;"):
        train_files(described(tmp_path, WAYS[0], head="redact = true\n"))
