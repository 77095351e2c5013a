"""Bad files: one line that names the file, what is wrong and what would be accepted."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from written import FORMATS, rows, write

from uneven.io import delimited, open_table


def refusal(call, kind=ValueError):
    with pytest.raises(kind) as caught:
        call()
    assert caught.type is kind  # not one of a library's own
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


def refused(path, label=None, features=None, kind=ValueError):
    return refusal(lambda: open_table(path).arrays(label, features), kind)


def text_file(folder, text, name="a.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


EXTENSIONS = (
    ".csv, .csv.gz, .tsv, .tsv.gz, .data, .txt, .parquet, .arrow, .feather, .svm, .libsvm, .svmlight, .npy, .npz"
)


def test_a_missing_file(tmp_path):
    path = tmp_path / "a.csv"
    message = refused(path, kind=FileNotFoundError)
    assert message == f"{path} does not exist; rows come from a file ending in {EXTENSIONS}"


def test_a_folder(tmp_path):
    assert refused(tmp_path) == f"{tmp_path} must be a file ending in {EXTENSIONS}; it is not a file"


@pytest.mark.parametrize("name", ["a.xlsx", "a.gz", "a", "a.parquet.gz", "csv"])
def test_an_unknown_extension(name, tmp_path):
    path = text_file(tmp_path, "a,y\n1,2\n", name)
    assert refused(path) == f"{path} must end in one of {EXTENSIONS}; its format is not known"


@pytest.mark.parametrize("form", FORMATS)
def test_an_empty_file(form, tmp_path):
    path, _ = write(tmp_path, form, *rows(5))
    path.write_bytes(b"")
    assert refused(path) == f"{path} is empty; it must have columns and at least one row"


@pytest.mark.parametrize("form", FORMATS)
def test_no_rows(form, tmp_path):
    X, y = rows(5)
    path, _ = write(tmp_path, form, X[:0], y[:0])
    if not path.stat().st_size:  # libsvm writes no header: a file without rows is empty, but for comments
        path.write_text("# nothing\n")
    assert refused(path) == f"{path} must have at least one row, got none"


@pytest.mark.parametrize("form", FORMATS)
def test_a_missing_label_or_feature(form, tmp_path):
    path, label = write(tmp_path, form, *rows(5))
    own = form in ("npz", "svm", "libsvm", "svmlight")
    accepted = f"{label!r} or None, got" if own else f"one of the columns 'x0', 'x1', 'x2', {label!r}; got"
    for wrong in ("z", "", 99, True, 1.0, ["y"]):
        assert refused(path, wrong) == f"{path}: label must be {accepted} {wrong!r}"
    columns = f"'x0', 'x1', 'x2', {label!r}"
    assert refused(path, label, ["x0", "z"]) == f"{path}: features must be columns, got 'z'; there are {columns}"


def test_many_columns_are_listed_in_short(tmp_path):
    path = text_file(tmp_path, ",".join(f"c{j}" for j in range(500)) + "\n" + ",".join("1" * 500) + "\n")
    message = refused(path, "y")
    assert message.endswith("the columns 'c0', 'c1', 'c2', 'c3', 'c4', ..., 'c499' (500 columns); got 'y'")


FEATURES = {
    "none": ([], "features must be a list of at least one column, got []"),
    "text": ("x0", "features must be a list of at least one column, got 'x0'"),
    "twice": (
        ["x0", "x1", "x0"],
        "features must be different columns without the label, got 'x0', which is there twice",
    ),
    "label": (
        ["x0", "y"],
        "features must be different columns without the label, got 'y', which is the label's column",
    ),
}


@pytest.mark.parametrize(("features", "message"), FEATURES.values(), ids=FEATURES)
def test_bad_features(features, message, tmp_path):
    path, _ = write(tmp_path, "parquet", *rows(5))
    assert refused(path, "y", features) == message


def test_a_stream_refuses_before_it_is_read(tmp_path):
    table = open_table(write(tmp_path, "csv", *rows(5))[0])
    assert "label must be one of" in refusal(lambda: table.stream("z"))


def test_only_a_label(tmp_path):
    path = text_file(tmp_path, "y\n1\n")
    assert refused(path, "y") == f"{path} must have a column besides the label 'y', got no other"


def test_columns_of_one_name_or_none(tmp_path):
    twice = f"{tmp_path / 'a.csv'}: columns must have names that differ, got 'a' twice"
    assert refused(text_file(tmp_path, "a,b,a\n1,2,3\n")) == twice
    assert "every column must have a name, column 0 has none" in refused(text_file(tmp_path, ",a,y\n0,1,2\n"))
    pa.parquet.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "a.parquet")
    assert "columns must have names that differ, got 'a' twice" in refused(tmp_path / "a.parquet")
    pa.feather.write_feather(pa.table([[1], [2]], names=["a", "a"]), str(tmp_path / "a.feather"))
    assert "columns must have names that differ, got 'a' twice" in refused(tmp_path / "a.feather")
    pa.parquet.write_table(pa.table({}), tmp_path / "b.parquet")
    assert refused(tmp_path / "b.parquet") == f"{tmp_path / 'b.parquet'} must have columns, got none"


# Values.


@pytest.mark.parametrize("block", [64, 1 << 20])
def test_text_in_a_csv_is_named_with_its_row(block, tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK_BYTES", block)
    path = text_file(tmp_path, "a,b,y\n" + "1,2,0\n" * 40 + "1,hot,0\n" + "1,2,0\n")
    assert refused(path, "y") == f"{path}: column 'b' must hold numbers, got 'hot' in row 40"
    assert open_table(path).rows == 42
    assert open_table(path).arrays("y", ["a"])[0].sum() == 42  # a column that nobody asked for does not matter


def test_a_label_that_changes_its_kind_is_named_with_its_row(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 64)
    for first, later, accepted in [
        ("0", "maybe", "whole numbers, as in its first rows"),
        ("0.5", "maybe", "numbers"),
        ("true", "maybe", "true or false, as in its first rows"),
    ]:
        path = text_file(tmp_path, "a,y\n" + f"1,{first}\n" * 40 + f"1,{later}\n")
        assert refused(path, "y") == f"{path}: column 'y' must hold {accepted}, got 'maybe' in row 40"


def test_text_that_is_not_utf8(tmp_path):
    path = text_file(tmp_path, b"a,y\n1,no\n2,\xff\xfe\n")
    message = refused(path, "y")
    assert message.startswith(f"{path}: column 'y' must hold UTF-8 text, got")
    assert message.endswith("in row 1")


@pytest.mark.parametrize("form", ["parquet", "feather"])
@pytest.mark.parametrize(
    ("values", "kind", "shown"),
    [
        (["hot", "cold"], "string", "'hot'"),
        (["1", "2"], "string", "'1'"),
        (pa.array(["hot", "cold"]).dictionary_encode(), "dictionary<.*>", "'hot'"),
        (pa.array([0, 1], pa.timestamp("s")), r"timestamp\[.*\]", "datetime.datetime.*"),
        ([[1.0], [2.0]], "list<.*>", r"\[1.0\]"),
    ],
    ids=["text", "numbers as text", "category", "time", "list"],
)
def test_a_column_that_is_not_numeric(form, values, kind, shown, tmp_path):
    table, path = pa.table({"a": [1.0, 2.0], "b": values, "y": [0, 1]}), tmp_path / f"a.{form}"
    {"parquet": pa.parquet.write_table, "feather": pa.feather.write_feather}[form](table, str(path))
    start = re.escape(f"{path}: column 'b' must hold numbers to be a feature, got ")
    assert re.fullmatch(rf"{start}{kind} \({shown} in row 0\)", refused(path, "y"))


def test_arrays_that_are_not_numbers(tmp_path):
    np.save(tmp_path / "a.npy", np.array([["hot", "cold"]]))
    assert "column 'x0' must hold numbers to be a feature, got <U4 ('hot' in row 0)" in refused(tmp_path / "a.npy")
    np.savez(tmp_path / "a.npz", np.array([(1.0, "hot", 1)], dtype=[("a", float), ("b", "U3"), ("y", int)]))
    assert "column 'b' must hold numbers to be a feature, got <U3" in refused(tmp_path / "a.npz", "y")


MISSING = ("csv", "tsv", "csv.gz", "parquet", "arrow", "feather", "npy", "npz", "npz records", "svm")


@pytest.mark.parametrize("form", MISSING)
def test_a_missing_value_is_named_with_its_row(form, tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 2_000)
    X, y = rows()
    X[217, 1] = np.nan
    path, label = write(tmp_path, form, X, y)
    message = f"{path}: column 'x1' has no value in row 217; impute missing values or drop such rows"
    assert refused(path, label) == message
    with pytest.raises(ValueError, match="row 217"):
        list(open_table(path).stream(label))
    assert open_table(path).arrays(label, ["x0", "x2"])[0].shape == (300, 2)


@pytest.mark.parametrize("form", MISSING)
def test_a_missing_label_is_named_with_its_row(form, tmp_path):
    X, y = rows()
    y = y.astype(float)
    y[217] = np.nan
    path, label = write(tmp_path, form, X, y)
    assert refused(path, label) == (
        f"{path}: column {label!r} has no value in row 217; impute missing values or drop such rows"
    )


@pytest.mark.parametrize("form", MISSING)
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_value_is_named_with_its_row(form, value, tmp_path):
    X, y = rows()
    X[217, 1] = value
    path, label = write(tmp_path, form, X, y)
    assert refused(path, label) == f"{path}: column 'x1' must hold finite numbers, got {value} in row 217"


def test_large_values_are_not_infinite(tmp_path):
    X, y = np.full((10, 2), np.finfo(np.float32).max, dtype=np.float32), np.ones(10)
    path, label = write(tmp_path, "parquet", X, y)
    np.testing.assert_array_equal(open_table(path).arrays(label)[0], X)


NULLS = {
    "feature": ({"a": [1, None], "y": [0, 1]}, "a"),
    "boolean feature": ({"a": [True, None], "y": [0, 1]}, "a"),
    "text label": ({"a": [1, 2], "y": ["no", None]}, "y"),
    "whole label": ({"a": [1, 2], "y": [0, None]}, "y"),
    "boolean label": ({"a": [1, 2], "y": [True, None]}, "y"),
}


@pytest.mark.parametrize(("columns", "where"), NULLS.values(), ids=NULLS)
@pytest.mark.parametrize("form", ["csv", "parquet", "feather"])
def test_nulls(form, columns, where, tmp_path):
    path, table = tmp_path / f"a.{form}", pa.table(columns)
    if form == "csv":
        lines = ("" if v is None else str(v) for v in table.column("a").to_pylist())
        labels = ("" if v is None else str(v) for v in table.column("y").to_pylist())
        path.write_text("a,y\n" + "".join(f"{a},{y}\n" for a, y in zip(lines, labels, strict=True)))
    else:
        {"parquet": pa.parquet.write_table, "feather": pa.feather.write_feather}[form](table, str(path))
    assert f"{path}: column {where!r} has no value in row 1; impute" in refused(path, "y")


def test_a_column_with_no_value_at_all(tmp_path):
    assert "column 'a' has no value in row 0" in refused(text_file(tmp_path, "a,y\n,1\nNA,0\n"), "y")
    assert "column 'y' has no value in row 0" in refused(text_file(tmp_path, "a,y\n1,\n2,\n"), "y")


# Shapes of arrays.


def test_arrays_of_other_shapes(tmp_path):
    path = tmp_path / "a.npy"
    for array in (np.zeros(3), np.zeros((2, 2, 2)), np.zeros((3, 0)), np.float64(1)):
        np.save(path, array)
        shape = re.escape(str(np.shape(array)))
        assert re.search(f"must hold rows and columns, or records; got shape {shape} of float64$", refused(path))
    path = tmp_path / "a.npz"
    np.savez(path, X=np.zeros((3, 2)), y=np.zeros(2))
    assert refused(path) == f"{path}: y must have shape (3,) like X, got (2,)"
    np.savez(path, X=np.zeros((3, 2)), z=np.zeros(3))
    assert refused(path) == f"{path} must hold the arrays 'X' and 'y', or one array alone; got 'X', 'z'"
    np.savez(path)
    assert "or one array alone; got none" in refused(path)


def test_pickles_are_never_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[object()]]), allow_pickle=True)
    np.savez(tmp_path / "a.npz", X=np.zeros((1, 1)), y=np.array([object()]), allow_pickle=True)
    for name in ("a.npy", "a.npz"):
        assert f"{tmp_path / name} cannot be read as NumPy a" in refused(tmp_path / name)


# Damage.


SHORT = ("csv.gz", "parquet", "arrow", "arrow stream", "feather", "npy", "npz", "npz records")


@pytest.mark.parametrize("form", SHORT)
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_a_file_that_is_cut_short(form, share, tmp_path):
    path, label = write(tmp_path, form, *rows(3_000))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    assert re.match(
        re.escape(str(path)) + r" cannot be read as [\w ]+, it may be damaged or cut short: .", refused(path, label)
    )


def test_a_csv_that_is_cut_short_in_a_line(tmp_path):
    path = text_file(tmp_path, "a,b,y\n1,2,3\n1,2")
    assert refused(path, "y").startswith(f"{path} cannot be read as CSV, it may be damaged or cut short: ")
    assert "Row #3: Expected 3 columns, got 2" in refused(path, "y")


def outcome(path, label):
    """Number of rows, or what is said against them."""
    try:
        return open_table(path).arrays(label)[0].shape[0]
    except Exception as error:
        return error


def one_line_about(path, error):
    return type(error) is ValueError and str(path) in str(error) and "\n" not in str(error)


damage = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,  # what a library makes of noise is not ours to promise on every run
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@damage
@given(st.binary(min_size=1, max_size=200))
@example(b"PK\x05\x06" + bytes(18))
@example(b"\x93NUMPY\x01\x00")
@example(b"FEA1" + bytes(40))
@example(b"ARROW1" + bytes(40) + b"ARROW1")
@pytest.mark.parametrize("form", FORMATS)
def test_garbage_is_refused_in_one_line(form, tmp_path, content):
    path, label = write(tmp_path, form, *rows(2))
    path.write_bytes(content)
    found = outcome(path, label)
    assert one_line_about(path, found) or (form in ("svm", "libsvm", "svmlight") and found > 0)


@damage
@given(st.data())
@pytest.mark.parametrize("form", ["parquet", "feather", "npz", "csv.gz"])
def test_a_changed_byte_is_refused_or_harmless(form, tmp_path, data):
    path, label = write(tmp_path, form, *rows(40))
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    found = outcome(path, label)
    assert one_line_about(path, found) or isinstance(found, int)


def test_parquet_with_fewer_rows_than_its_footer_states_is_refused(tmp_path, monkeypatch):
    """Rows that are lost on the way would be charged to nobody and learned from by nobody, without a word."""
    table = pa.table({"a": np.arange(100.0), "y": np.arange(100) % 2})
    pa.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=10)
    found, real = open_table(tmp_path / "rows.parquet"), pa.parquet.ParquetFile.iter_batches
    lose = lambda *given, **more: list(real(*given, **more))[:-1]  # noqa: E731
    monkeypatch.setattr("uneven.io.arrow.BLOCK_ROWS", 10)
    monkeypatch.setattr(pa.parquet.ParquetFile, "iter_batches", lose)
    with pytest.raises(ValueError, match="its footer states 100 rows, there are 10 fewer"):
        list(found.read("y", ("a",)))
