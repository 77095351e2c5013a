"""The privacy statement says what the run did."""

import hashlib

import numpy as np
import pytest

from uneven import Ledger
from uneven.io import read_sources
from uneven.report.statement import write_statement
from uneven.training import save_model
from uneven.training.files import train_files

NOISES = {
    "open": '{ kind = "exact" }',
    "labels": '{ kind = "label-privacy", epsilon = 1.5 }',
    "clinic": '{ kind = "local-privacy", epsilon = 4.0 }',
}


@pytest.fixture
def described(tmp_path):
    rng = np.random.default_rng(0)
    text = 'label = "y"\nrow_norm = 4.0\nuse = "all"\nbudget = 9.0\n'
    for name, noise in NOISES.items():
        X = rng.normal(size=(200, 2))
        y = (X[:, 0] > 0).astype(int)
        np.savetxt(tmp_path / f"{name}.csv", np.column_stack([X, y]), delimiter=",", header="a,b,y", comments="")
        text += f'[[source]]\nname = "{name}"\ndata = "{name}.csv"\nnoise = {noise}\n'
    (tmp_path / "sources.toml").write_text(text)
    return read_sources(tmp_path / "sources.toml")


def cells(text, name):
    return [
        cell.strip() for cell in next(line for line in text.splitlines() if line.startswith(f"| {name} |")).split("|")
    ]


def state(file, folder, ledger, seed=None, budget=9.0):
    trained = train_files(file, ledger=ledger, seed=seed)
    save_model(trained.model, folder / "model.json")
    return write_statement(trained, folder / "model.json", ledger, budget)


def test_it_has_sources_rows_epsilon_before_and_after_mechanism_and_digests(described, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    first = state(described, tmp_path, ledger)
    assert cells(first, "clinic")[2:7] == ["200", "features and label", "quiet, ε = 4 per release", "0", "4"]
    assert cells(first, "labels")[2:4] == ["200", "label only: FEATURES NOT PROTECTED"]
    assert cells(first, "labels")[5:7] == ["0", "1.5"]
    assert cells(first, "open")[3:7] == ["none", "exact", "", ""]
    assert ledger.digest() in first
    assert hashlib.sha256((tmp_path / "model.json").read_bytes()).hexdigest() in first
    assert "the budget was 9" in first
    assert "In odds: at ε = 1.5, odds of 1 to 10 on any guess about a row become at most 4.5 to 10; at ε = 4," in first
    assert "become at most 5.5 to 1." in first  # e⁴/10
    second = state(described, tmp_path, ledger)
    assert cells(second, "clinic")[5:7] == ["4", "8"]
    assert ledger.digest() not in first
    assert "simulation" not in second


def test_a_simulation_says_so_and_no_ledger_too(described, tmp_path):
    text = state(described, tmp_path, None, seed=1)
    assert "**This was a simulation.**" in text
    assert "no ledger was charged" in text
    assert len(text.split()) < 450  # one page


def test_digests_tell_ledgers_apart():
    one, other = Ledger(), Ledger()
    assert one.digest() == other.digest()
    one.charge("a", [1, 2], 0.5)
    assert one.digest() != other.digest()
    other.charge("a", [2, 1], 0.5)
    assert one.digest() == other.digest()


def test_it_tells_what_the_rows_of_this_run_had_spent(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 2)) / 4
    values = np.column_stack([X, X[:, 0] > 0])

    def run(name, header, ledger, noise='noise = { kind = "local-privacy", epsilon = 1.0 }', rows=values):
        np.savetxt(tmp_path / "d.csv", rows, delimiter=",", header=header, comments="")
        text = f'label = "y"\nrow_norm = 4.0\nalpha = 0.1\n[[source]]\nname = "{name}"\ndata = "d.csv"\n{noise}\n'
        (tmp_path / "sources.toml").write_text(text)
        return state(read_sources(tmp_path / "sources.toml"), tmp_path, ledger, budget=None)

    ledger = Ledger(tmp_path / "ledger.db", budget=3.0)
    assert cells(run("one", "a,b,y", ledger), "one")[5:7] == ["0", "1"]
    renamed = run("two", "a,b,y", ledger)
    assert cells(renamed, "two")[5:7] == ["1", "2"]
    assert "the budget was 3" in renamed
    others = np.column_stack([X + 1, X[:, 0] > 0])
    assert cells(run("two", "a,b,y", ledger, rows=others), "two")[5:7] == ["0", "1"]  # new rows under an old name
    told = np.column_stack([values, np.repeat([0.5, 1.0], 40)])
    text = run("two", "a,b,y,e", ledger, 'epsilon = "e"', told)
    assert cells(text, "two (ε = 0.5)")[5:7] == ["2", "2.5"]
    assert cells(text, "two (ε = 1)")[5:7] == ["2", "3"]


def test_no_name_breaks_the_table(described, tmp_path):
    file = described.path
    file.write_text(file.read_text().replace('name = "clinic"', 'name = "clinic | 7 | <b>none"'))
    text = state(read_sources(file), tmp_path, None)
    assert r"| clinic \| 7 \| \<b\>none | 200 |" in text
    assert "7 | " not in text
