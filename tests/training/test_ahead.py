"""What is known before any ε is spent: plans and anchors from the rows without privacy alone."""

import numpy as np
import pytest
from tests.training.test_doors import draw_case, write_files

from uneven.io import read_sources
from uneven.training.ahead import anchor_ahead, plan_ahead
from uneven.training.files import train_files

PRIVATE = '[[source]]\nname = "private"\nnoise = { kind = "local-privacy", epsilon = 3.0 }\n'
PUBLIC = '[[source]]\nname = "public"\nnoise = { kind = "exact" }\n'


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (3000, 3))
    y = np.where(rng.random(3000) < 1 / (1 + np.exp(-X @ [5.0, -4.0, 0.0])), 1, 0)
    return X, y, np.where(rng.random(3000) < 0.1, "public", "private")


def write(path, X, y, names=None):
    head = "a,b,c,label" + ("" if names is None else ",who")
    lines = [",".join(f"{x:.6f}" for x in row) + f",{label}" for row, label in zip(X, y, strict=True)]
    lines = lines if names is None else [f"{line},{name}" for line, name in zip(lines, names, strict=True)]
    path.write_text("\n".join([head, *lines]) + "\n")


@pytest.fixture
def shared(tmp_path, rows):
    write(tmp_path / "all.csv", *rows)
    head = 'label = "label"\nrow_norm = 1.0\ndata = "all.csv"\nsource_column = "who"\n'
    (tmp_path / "sources.toml").write_text(head + PRIVATE + PUBLIC)
    return tmp_path / "sources.toml"


def test_sources_that_share_a_file_are_planned_as_they_are_fitted(shared):
    file = read_sources(shared)
    planned, note = plan_ahead(file)
    ran = train_files(file, seed=0).plan
    assert planned.strategy == ran.strategy == "anchored"
    assert note.startswith("planned as 'uneven fit' runs it")
    for one, other in zip(planned.verdicts.values(), ran.verdicts.values(), strict=True):
        assert one.word == other.word
        assert (one.excess, one.excess_without) == pytest.approx((other.excess, other.excess_without), rel=1e-6)


def test_no_value_of_a_private_row_changes_the_plan(shared, rows):
    before = plan_ahead(read_sources(shared))[0]
    X, y, names = rows
    private = names == "private"
    write(shared.parent / "all.csv", np.where(private[:, None], -X, X), np.where(private, 1, y), names)
    assert plan_ahead(read_sources(shared))[0] == before


def test_rows_that_are_not_owned_do_not_anchor(tmp_path, rows):
    write(tmp_path / "rows.csv", *rows[:2])
    path = tmp_path / "sources.toml"
    mine, sold = ('data = "rows.csv"\n' + one for one in ("", "price = 1.0\n"))
    private = PRIVATE + "rows = 500\nprice = 0.1\n"
    path.write_text('label = "label"\nrow_norm = 1.0\n' + PUBLIC + mine + private)
    anchor, problem = anchor_ahead(read_sources(path))
    assert (len(anchor.y), problem.n_features) == (3000, 4)
    path.write_text('label = "label"\nrow_norm = 1.0\n' + PUBLIC + sold + private)
    assert anchor_ahead(read_sources(path)) is None


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.filterwarnings("ignore:.*were shrunk")
def test_the_plan_of_random_files_is_the_one_that_a_fit_runs(tmp_path, seed):
    """No private row has to be read for it: their number, what is stated and the rows without privacy are enough."""
    rng = np.random.default_rng(seed)
    X, y, source, noise, settings = draw_case(seed)
    settings["alpha"] = ["auto", settings["alpha"]][rng.integers(2)]
    settings["strategy"] = str(rng.choice(["auto", "auto", settings["strategy"]]))
    settings["passes"] = ["auto", settings["passes"]][rng.integers(2)]
    if rng.random() < 0.5:  # nothing that asks for steps
        settings |= {"average": "auto", "clip": "auto", "moments": "auto", "passes": "auto"}
    file = write_files(tmp_path, X, y, source, noise, settings)
    planned, ran = plan_ahead(file)[0], train_files(file, seed=seed).plan
    np.testing.assert_array_equal(planned.step_sizes(), ran.step_sizes())
    assert planned == ran
