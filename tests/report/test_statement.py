"""The privacy statement says what the run did."""

import hashlib

import numpy as np
import pytest

from uneven import Ledger
from uneven.io import read_sources
from uneven.report.statement import digest_of, spent_in, write_statement
from uneven.training.files import train_files
from uneven.training.model_file import save

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


def state(file, folder, ledger, seed=None):
    before = spent_in(ledger, tuple(NOISES))
    trained = train_files(file, ledger=ledger, seed=seed)
    save(trained.model, folder / "model.json")
    return write_statement(trained, folder / "model.json", before, ledger, 9.0)


def test_it_has_sources_rows_epsilon_before_and_after_mechanism_and_digests(described, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    first = state(described, tmp_path, ledger)
    assert cells(first, "clinic")[2:7] == ["200", "features and label", "quiet, ε = 4 a release", "0", "4"]
    assert cells(first, "labels")[2:4] == ["200", "label only: FEATURES NOT PROTECTED"]
    assert cells(first, "labels")[5:7] == ["0", "1.5"]
    assert cells(first, "open")[3:7] == ["none", "exact", "", ""]
    assert digest_of(ledger) in first
    assert hashlib.sha256((tmp_path / "model.json").read_bytes()).hexdigest() in first
    assert "the budget was 9" in first
    second = state(described, tmp_path, ledger)
    assert cells(second, "clinic")[5:7] == ["4", "8"]
    assert digest_of(ledger) not in first
    assert "simulation" not in second


def test_a_simulation_says_so_and_no_ledger_too(described, tmp_path):
    text = state(described, tmp_path, None, seed=1)
    assert "**This was a simulation.**" in text
    assert "no ledger was charged" in text
    assert len(text.split()) < 450  # one page


def test_digests_tell_ledgers_apart():
    one, other = Ledger(), Ledger()
    assert digest_of(one) == digest_of(other)
    one.charge("a", [1, 2], 0.5)
    assert digest_of(one) != digest_of(other)
    other.charge("a", [2, 1], 0.5)
    assert digest_of(one) == digest_of(other)
