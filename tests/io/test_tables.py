"""One table in every format: the same rows, whole or in pieces."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from written import BY_NAME, FORMATS, as_table, rows, write

import uneven
from uneven.io import arrays, arrow, delimited, open_table, read_ids


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces small enough for a few hundred rows to have several."""
    for module in (arrays, arrow, delimited):
        monkeypatch.setattr(module, "BLOCK_ROWS", 64)
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 2_000)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_same_rows(form, tmp_path):
    X, y = rows()
    path, label = write(tmp_path, form, X, y)
    table = open_table(str(path))
    assert (table.path, table.rows) == (path, 300)
    assert table.columns == ("x0", "x1", "x2", label)
    assert table.select(label) == (label, ("x0", "x1", "x2"))
    read_X, read_y = table.arrays(label)
    np.testing.assert_array_equal(dense(read_X), X)
    np.testing.assert_array_equal(read_y, y)

    pieces = list(table.stream(label))
    assert len(pieces) > 3
    np.testing.assert_array_equal(np.concatenate([dense(part) for part, _ in pieces]), dense(read_X))
    np.testing.assert_array_equal(np.concatenate([part for _, part in pieces]), y)
    for part, _ in pieces:
        assert part.dtype == np.float64
        assert sparse.issparse(part) == sparse.issparse(read_X) == (label == "label")
        assert sparse.issparse(part) or part.flags.c_contiguous


@pytest.mark.parametrize("form", FORMATS)
def test_features_are_chosen_and_ordered_by_name(form, tmp_path):
    X, y = rows()
    path, label = write(tmp_path, form, X, y)
    chosen, read_y = open_table(path).arrays(label, ["x2", "x0"])
    np.testing.assert_array_equal(dense(chosen), X[:, [2, 0]])
    np.testing.assert_array_equal(read_y, y)


@pytest.mark.parametrize("form", [*BY_NAME, "npy"])
def test_without_a_label_every_column_is_a_feature(form, tmp_path):
    X, y = rows()
    path, _ = write(tmp_path, form, X, y)
    read, none = open_table(path).arrays()
    np.testing.assert_array_equal(read, np.column_stack([X, y]))
    assert none is None


@pytest.mark.parametrize("form", ["svm", "npz"])
def test_formats_with_a_label_of_their_own_need_none(form, tmp_path):
    X, y = rows()
    path, _ = write(tmp_path, form, X, y)
    np.testing.assert_array_equal(open_table(path).arrays()[1], y)


@pytest.mark.parametrize("label", [3, -1, "x3"])
def test_columns_without_names_have_numbers(label, tmp_path):
    X, y = rows()
    path, _ = write(tmp_path, "npy", X, y)
    read_X, read_y = open_table(path).arrays(label)
    np.testing.assert_array_equal(read_X, X)
    np.testing.assert_array_equal(read_y, y)


LABELS = {
    "text": (["yes", "no", "può essere"], ["csv", "parquet", "feather", "npz"]),
    "booleans": ([True, False, True], ["csv", "parquet", "feather", "npz"]),
    "whole numbers": ([-1, 1, 7], ["csv", "parquet", "feather", "npz", "svm"]),
    "numbers": ([0.5, 1.0, -2.0], ["csv", "parquet", "feather", "npz", "svm"]),
}


@pytest.mark.parametrize(("kind", "form"), [(kind, form) for kind, (_, forms) in LABELS.items() for form in forms])
def test_labels_are_what_the_file_says(kind, form, tmp_path):
    y = np.array(LABELS[kind][0])
    path, label = write(tmp_path, form, rows(3)[0], y)
    read = open_table(path).arrays(label)[1]
    assert read.tolist() == y.tolist()
    assert form == "svm" or {type(value) for value in read.tolist()} == {type(value) for value in y.tolist()}


def test_half_precision_beside_other_numbers(tmp_path):
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"a": np.array([0.5, 2], np.float16), "b": [0.1, 3.0], "y": [0, 1]}), path)
    assert open_table(path).arrays("y")[0].tolist() == [[0.5, 0.1], [2, 3]]


def test_float32_stays_and_whole_numbers_and_booleans_become_floats(tmp_path):
    y = [0, 1]
    columns = {"a": pa.array([0.5, 1], pa.float32()), "b": pa.array([1, 2], pa.int8()), "c": [True, False]}
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({**columns, "y": y}), path)
    table = open_table(path)
    assert table.arrays("y", ["a"])[0].dtype == np.float32
    for features, expected in [(["b"], [[1], [2]]), (["c"], [[1], [0]]), (["a", "b", "c"], [[0.5, 1, 1], [1, 2, 0]])]:
        X = table.arrays("y", features)[0]
        assert X.dtype in (np.float32, np.float64)
        assert X.tolist() == expected


@pytest.mark.usefixtures("small_pieces")
def test_a_csv_may_begin_with_whole_numbers_and_go_on_with_others(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,y\n" + "1,true,0\n" * 1_000 + "2.5,false,1\n")
    X, y = open_table(path).arrays("y")
    assert X[-1].tolist() == [2.5, 0.0]
    assert X.sum() == 2_002.5
    assert y.sum() == 1


def test_a_csv_with_quotes_line_ends_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "A.CSV"
    path.write_bytes('\ufeff"a, b",y\r\n1,"two\nlines"\r\n\r\n2,"NA"\r\n'.encode())
    table = open_table(path)
    assert table.columns == ("a, b", "y")
    assert table.rows == 2
    assert table.arrays("y")[1].tolist() == ["two\nlines", "NA"]


def test_row_labels_of_pandas_are_no_features(tmp_path):
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"a": [1.0], "y": [1], "__index_level_0__": [17]}), path)
    assert open_table(path).columns == ("a", "y")


def test_one_large_arrow_batch_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow, "BLOCK_ROWS", 64)
    X, y = rows()
    table = as_table(X, y)
    path = tmp_path / "a.arrow"
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    assert [len(part) for part, _ in open_table(path).stream("y")] == [64, 64, 64, 64, 44]


def test_an_npy_file_is_mapped_not_read(tmp_path):
    X, y = rows()
    path, _ = write(tmp_path, "npy", X, y)
    assert isinstance(open_table(path).reader.X, np.memmap)


def test_arrays_stored_by_column_or_with_other_bytes_first(tmp_path):
    X, _ = rows()
    for number, stored in enumerate([np.asfortranarray(X), X.astype(">f4"), X.astype(np.float16)]):
        np.save(tmp_path / f"{number}.npy", stored)
        read = open_table(tmp_path / f"{number}.npy").arrays()[0]
        assert read.flags.c_contiguous
        assert read.dtype == np.float64
        np.testing.assert_array_equal(read, stored)


def test_a_libsvm_file_counts_from_one_unless_it_has_a_column_zero(tmp_path):
    one, zero, wide = tmp_path / "one.svm", tmp_path / "zero.svm", tmp_path / "wide.svm"
    one.write_text("1 1:5 3:7 # a comment\n-1 2:6\n")
    zero.write_text("1 0:5 2:7\n-1 1:6\n")
    wide.write_text("1 1:5\n-1\n")
    for path in (one, zero):
        X, y = open_table(path).arrays()
        assert X.toarray().tolist() == [[5, 0, 7], [0, 6, 0]]
        assert y.tolist() == [1, -1]
    assert open_table(wide, n_features=3).arrays()[0].toarray().tolist() == [[5, 0, 0], [0, 0, 0]]
    with pytest.raises(ValueError, match=r"one.svm must have at most n_features = 2 columns, got 3$"):
        open_table(one, n_features=2)


def test_a_fit_from_a_file_is_the_fit_from_its_arrays(tmp_path):
    X, y = rows()
    X, y = X / (np.linalg.norm(X, axis=1).max() * 1.001), np.where(y, 1.0, -1.0)
    plan = uneven.plan([uneven.Source("a", 300)], 3)
    expected = uneven.fit(plan, {"a": uneven.Stream([(X, y)])}, seed=0).weights
    path, label = write(tmp_path, "parquet", X, y)
    fitted = uneven.fit(plan, {"a": uneven.Stream(open_table(path).stream(label))}, seed=0)
    np.testing.assert_array_equal(fitted.weights, expected)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=64)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.lists(NAMES, min_size=2, max_size=5, unique=True), st.integers(1, 6))
@pytest.mark.parametrize("form", ["csv", "parquet", "feather"])
def test_any_names_and_numbers_come_back(form, tmp_path, data, names, n):
    if any(name.startswith(("\ufeff", "__index_level_")) for name in names):
        return
    columns = [data.draw(st.lists(NUMBERS, min_size=n, max_size=n)) for _ in names]
    table = pa.table(columns, names=names)
    path = tmp_path / f"a.{form}"
    {
        "csv": pa.csv.write_csv,
        "parquet": pa.parquet.write_table,
        "feather": lambda t, p: pa.feather.write_feather(t, str(p)),
    }[form](table, path)
    opened = open_table(path)
    assert (opened.columns, opened.rows) == (tuple(names), n)
    X, y = opened.arrays(names[-1])
    np.testing.assert_array_equal(X, np.column_stack(columns[:-1]))
    np.testing.assert_array_equal(y, columns[-1])


def test_importing_is_light():
    code = "import sys, uneven.io; assert not {'pyarrow', 'sklearn'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_ids_that_floats_cannot_tell_apart_are_refused(kind):
    """From 2^53 on, of float64, a whole number and the next are the same float: two people would be one."""
    most = 2 ** (np.finfo(kind).nmant + 1)
    assert read_ids(Path("rows.csv"), "id", np.array([most], kind), range(1)).tolist() == [most]
    assert kind(most + 1) == kind(most)
    with pytest.raises(ValueError, match=f"column 'id' must hold whole numbers of at most {most}"):
        read_ids(Path("rows.csv"), "id", np.array([most + 2], kind), range(1))


def test_a_libsvm_file_is_read_in_blocks_that_make_no_difference(tmp_path, monkeypatch):
    """Whole lines, whatever a block cuts; columns are counted alike in all blocks, and none is held."""
    X, y = rows()
    path, _ = write(tmp_path, "svm", X, y)
    path.write_text("# a comment\n" + path.read_text().replace("\n", "  # and another\n\n"))
    whole, labels = open_table(path).arrays()
    np.testing.assert_allclose(whole.toarray(), X, rtol=1e-15)
    for size in (1, 100, 5_000):
        monkeypatch.setattr("uneven.io.libsvm.BLOCK_BYTES", size)
        table = open_table(path)
        parts = list(table.stream())
        assert table.rows == len(y)
        assert (len(parts) > 1) == (size < path.stat().st_size)
        np.testing.assert_array_equal(sparse.vstack([part for part, _ in parts]).toarray(), whole.toarray())
        np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), labels)


def test_a_libsvm_file_that_changed_since_it_was_opened_is_refused(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("1 1:5 3:7\n-1 2:6\n")
    table = open_table(path)
    for content in ("1 0:5\n", "1 4:1\n"):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"a.svm cannot be read as libsvm"):
            list(table.stream())
