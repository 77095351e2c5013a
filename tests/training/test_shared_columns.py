"""One file for all sources, with columns that only some sources' rows have: their own ε, flip rate or id."""

import numpy as np
import pandas as pd
import pytest
from tests.training.test_doors import check_same

import uneven
from uneven.io import delimited, read_sources
from uneven.training.ahead import plan_ahead
from uneven.training.files import FileRows, train_files
from uneven.valuation import value_file

PUBLIC = '[[source]]\nname = "public"\nnoise = { kind = "exact" }\n'


def draw_table(key="epsilon", mixed=True):
    """300 rows, 100 of them public, with levels and ids of the others alone."""
    rng = np.random.default_rng(7)
    table = pd.DataFrame(rng.uniform(-0.5, 0.5, (300, 2)), columns=["a", "b"])
    table["y"] = (rng.random(300) < 1 / (1 + np.exp(-8 * table["a"]))).astype(int)
    table["site"] = np.repeat(["public", "survey"], [100, 200])
    own = table["site"] == "survey"
    levels = [1.0, 2.0, 0.5] if key == "epsilon" else [0.1, 0.2]
    table["level"] = np.where(own, rng.choice(levels, 300), np.nan)
    table["patient"] = pd.array(np.where(own, rng.permutation(300) + 10**9, 0), dtype="Int64")
    table.loc[~own, "patient"] = pd.NA
    return table.iloc[rng.permutation(300)].reset_index(drop=True) if mixed else table


def write_table(folder, table, key="epsilon", kind="csv", head=""):
    path = folder / f"all.{kind}"
    table.to_parquet(path) if kind == "parquet" else table.to_csv(path, index=False)
    (folder / "sources.toml").write_text(
        f'label = "y"\nrow_norm = 1.0\nclasses = [0, 1]\nuse = "all"\ndata = "all.{kind}"\nsource_column = "site"\n'
        f'{head}{PUBLIC}[[source]]\nname = "survey"\n{key} = "level"\nid = "patient"\n'
    )
    return read_sources(folder / "sources.toml")


def fit_arrays(table, key, ledger):
    clf = uneven.UnevenClassifier(
        {"public": uneven.Exact()}, row_norm=1.0, classes=[0, 1], use="all", random_state=0, ledger=ledger
    )
    ids, X = table["patient"].fillna(-1).to_numpy(np.int64), table[["a", "b"]].to_numpy()
    return clf.fit(X, table["y"], source=table["site"], row_id=ids, **{key: table["level"].to_numpy()})


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("key", ["epsilon", "flip_rate"])
def test_empty_cells_of_other_sources_are_nan_and_no_id(tmp_path, kind, key):
    table, ledgers = draw_table(key), (uneven.Ledger(), uneven.Ledger())
    file = write_table(tmp_path, table, key, kind)
    trained, clf = train_files(file, seed=0, ledger=ledgers[0]), fit_arrays(table, key, ledgers[1])
    check_same(trained, clf)
    assert plan_ahead(file)[0] == clf.plan_
    own = table[table["site"] == "survey"]
    expected = {} if key == "flip_rate" else dict(zip(own["patient"], own["level"], strict=True))
    for ledger in ledgers:
        assert (ledger.spent("survey") if ledger.sources() else {}) == pytest.approx(expected)


def test_a_column_may_be_empty_in_all_that_its_type_is_taken_from(tmp_path, monkeypatch):
    """Public rows first: the first block of text has no value of these columns, which are then read as text."""
    table = draw_table(mixed=False)
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1_000)
    file = write_table(tmp_path, table)
    assert str(file.shared.reader.types["patient"]) == "null"
    check_same(train_files(file, seed=0), fit_arrays(table, "epsilon", None))


@pytest.mark.parametrize("column", ["level", "patient"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_an_empty_cell_of_a_row_that_must_have_one_is_refused(tmp_path, column, kind):
    table = draw_table()
    place = int(np.flatnonzero(table["site"] == "survey")[5])
    table.loc[place, column] = None
    file = write_table(tmp_path, table, kind=kind)
    message = rf"all.{kind}: column '{column}' has no value in row {place}; impute missing values or drop such rows$"
    with pytest.raises(ValueError, match=message):
        train_files(file, seed=0)
    if column == "level":
        for look in (plan_ahead, value_file):
            with pytest.raises(ValueError, match=message):
                look(file)


WRONG = {
    "a fraction": ("patient", 100.5, "100.5", "must hold whole numbers of at most"),
    "text": ("patient", "r100", "'r100'", "must hold whole numbers of at most"),
    "too large for a float": ("patient", 2.0**60, "1.1", "must hold whole numbers of at most 9007199254740992"),
    "an ε that is text": ("level", "much", "'much'", "must hold numbers"),
}


@pytest.mark.parametrize("redact", [False, True])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("what", WRONG)
def test_ids_and_levels_that_are_no_numbers_are_refused_by_file_and_column(tmp_path, what, shared, redact):
    column, value, shown, message = WRONG[what]
    table = draw_table()
    survey = (table["site"] == "survey").to_numpy()
    kept = np.full(300, True) if shared else survey
    table[column] = table[column].astype(object if isinstance(value, str) else float)
    table.loc[int(np.flatnonzero(survey)[5]), column] = value
    table, place = table[kept], int(np.flatnonzero(survey[kept])[5])
    file = write_table(tmp_path, table, head=f"redact = {str(redact).lower()}\n")
    if not shared:
        text = (tmp_path / "sources.toml").read_text().replace(PUBLIC, "").replace('data = "all.csv"\n', "")
        text = text.replace('source_column = "site"\n', 'features = ["a", "b"]\n') + 'data = "all.csv"\n'
        (tmp_path / "sources.toml").write_text(text)
        file = read_sources(tmp_path / "sources.toml")
    for look in (lambda one: train_files(one, seed=0), plan_ahead, value_file)[: 1 if column == "patient" else 3]:
        with pytest.raises(ValueError, match=rf"all.csv: column '{column}' {message}") as error:
            look(file)
        said = str(error.value)
        assert "\n" not in said
        assert ("got" not in said) if redact else (f"got {shown}" in said and f"in row {place}" in said)


def test_ids_of_a_shared_file_are_kept_to_the_last_digit(tmp_path):
    """Where no cell is empty, whole numbers beyond 2**53 are those that the file has."""
    table = draw_table()
    table["patient"] = np.arange(300) + 2**60
    file = write_table(tmp_path, table, kind="parquet")
    (piece,) = FileRows(file).pieces()
    own = (table["site"] == "survey").to_numpy()
    np.testing.assert_array_equal(piece.row_id, np.where(own, table["patient"], -1))


def test_wrong_level_in_a_later_block_is_named_by_its_row(tmp_path, monkeypatch):
    monkeypatch.setattr("uneven.io.delimited.BLOCK_ROWS", 10)
    table = pd.DataFrame({"a": np.arange(40) / 99, "y": np.arange(40) % 2, "site": "s", "level": "1.0"})
    table.loc[33, "level"] = "much"
    table.to_csv(tmp_path / "all.csv", index=False)
    (tmp_path / "sources.toml").write_text(
        'label = "y"\nfeatures = ["a"]\nclasses = [0, 1]\ndata = "all.csv"\nsource_column = "site"\n'
        '[[source]]\nname = "s"\nepsilon = "level"\n'
    )
    with pytest.raises(ValueError, match="in row 33"):
        list(FileRows(read_sources(tmp_path / "sources.toml")).pieces())
