"""sources.toml: what is written is read back, and every slip is named with its table and key."""

import os
import re
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from written import rows, write, write_csv

import uneven
from uneven.io import SourceEntry, open_table, read_sources, sources_from_text, sources_to_text, write_sources
from uneven.io.sources_file import TOP_KEYS
from uneven.io.sources_text import MEANING, format_value, leave_out_comments
from uneven.losses import LOSSES
from uneven.settings import Settings
from uneven.training import plan_ahead

NOISES = st.one_of(
    st.just(uneven.Exact()),
    st.floats(1e-3, 1e3).map(uneven.LocalPrivacy),
    st.floats(0, 0.49).map(uneven.FlippedLabels),
    st.floats(0, 1e6).map(uneven.AdditiveNoise),
)


@pytest.fixture
def folder(tmp_path):
    """Folder with clinic.parquet and crowd.csv, of the columns x0, x1, x2 and y."""
    X, y = rows(40)
    pa.parquet.write_table(pa.table({**{f"x{j}": X[:, j] for j in range(3)}, "y": y}), tmp_path / "clinic.parquet")
    write_csv(tmp_path / "crowd.csv", X[:30], y[:30])
    return tmp_path


def described(folder, text):
    path = folder / "sources.toml"
    path.write_text(text, encoding="utf-8")
    return path


CONTRACT = """
alpha = 1e-3
batch_size = 50
label = "y"
[[source]]
name = "clinic"
data = "clinic.parquet"
noise = { kind = "local-privacy", epsilon = 10 }
[[source]]
name = "crowd"
data = "crowd.csv"
noise = { kind = "flipped-labels", rate = 0.2 }
price = 0.05
"""


@pytest.mark.parametrize("again", ["clinic.parquet", "./clinic.parquet", "soft.parquet", "hard.parquet"])
def test_a_file_belongs_to_one_source(folder, again):
    """Else each of its rows would be spent twice and reported once."""
    (folder / "soft.parquet").symlink_to("clinic.parquet")
    (folder / "hard.parquet").hardlink_to(folder / "clinic.parquet")
    path = described(folder, CONTRACT.replace("crowd.csv", again))
    with pytest.raises(ValueError, match=r"sources must have files that differ, got .* both 'clinic' and 'crowd'"):
        read_sources(path)


def test_the_file_of_the_contract(folder):
    file = read_sources(str(described(folder, CONTRACT)))
    clinic, crowd = file.sources
    assert clinic.source == uneven.Source("clinic", 40, uneven.LocalPrivacy(10))
    assert crowd.source == uneven.Source("crowd", 30, uneven.FlippedLabels(0.2), price=0.05)
    assert (clinic.data, crowd.data) == (folder / "clinic.parquet", folder / "crowd.csv")
    assert (file.n_features, file.settings) == (3, Settings(alpha=1e-3, batch_size=50))
    assert (file.label, file.features, file.feature_names) == ("y", None, ("x0", "x1", "x2"))
    assert file.described() == [clinic.source, crowd.source]
    X, _ = crowd.table.arrays(file.label, file.feature_names)
    np.testing.assert_array_equal(X, rows(40)[0][:30])


def test_what_is_left_out_is_as_in_plan(tmp_path):
    file = read_sources(
        described(tmp_path, 'n_features = 4\n[[source]]\nname = "a"\nrows = 100\nnoise = { kind = "exact" }\n')
    )
    assert plan_ahead(file)[0] == uneven.plan([uneven.Source("a", 100)], 4)
    assert file.feature_names is None


def test_every_setting_reaches_the_plan(tmp_path):
    text = """
    alpha = 1
    batch_size = 7
    loss = "hinge"
    strategy = "two-rates"
    moments = "upper"
    radius = "paper"
    clip = 0.5
    features = ["a", "b"]
    [[source]]
    name = "a"
    rows = 100
    noise = { kind = "exact" }
    """
    expected = uneven.plan([uneven.Source("a", 100)], 2, 1, 7, "hinge", "two-rates", "upper", "paper", 0.5)
    assert plan_ahead(read_sources(described(tmp_path, text)))[0] == expected


def test_columns_are_matched_by_name(folder):
    X, y = rows(40)
    other = pa.table({"y": y, "x2": X[:, 2], "x0": X[:, 0], "x1": X[:, 1]})
    pa.parquet.write_table(other, folder / "other.parquet")
    file = read_sources(described(folder, CONTRACT.replace("crowd.csv", "other.parquet")))
    for entry in file.sources:
        np.testing.assert_array_equal(entry.table.arrays(file.label, file.feature_names)[0], X)


def test_features_leave_other_columns_out(folder):
    X, y = rows(40)
    write_csv(folder / "crowd.csv", np.column_stack([X, X]), y)
    file = read_sources(described(folder, 'features = ["x2", "x0"]' + CONTRACT))
    assert file.n_features == 2
    assert file.feature_names == file.features == ("x2", "x0")


def test_sources_with_and_without_data(folder):
    text = CONTRACT + '[[source]]\nname = "offer"\nrows = 1000\nnoise = { kind = "exact" }\n'
    offer = read_sources(described(folder, text)).sources[2]
    assert offer == SourceEntry.of(uneven.Source("offer", 1000), None)


def test_libsvm_files_of_unequal_width(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:0.5 3:0.5\n")
    (tmp_path / "b.svm").write_text("-1 2:0.5\n")
    sources = "".join(
        f'[[source]]\nname = "{name}"\ndata = "{name}.svm"\nnoise = {{ kind = "exact" }}\n' for name in "ab"
    )
    file = read_sources(described(tmp_path, "n_features = 4\n" + sources))
    assert file.n_features == 4
    assert [entry.table.arrays()[0].shape for entry in file.sources] == [(1, 4), (1, 4)]
    assert "n_features says how many a libsvm file has" in refused(tmp_path, sources)
    (tmp_path / "b.svm").write_text("-1 0:0.5 2:0.5\n")
    assert "must count columns alike, got a first column of 1 and 0" in refused(tmp_path, sources)


# Writing.


def test_a_written_file_is_read_back(folder):
    data = folder / "deep" / "er"
    data.mkdir(parents=True)
    os.replace(folder / "crowd.csv", data / "crowd.csv")
    first = read_sources(described(folder, CONTRACT.replace("crowd.csv", "deep/er/crowd.csv")))
    path = folder / "again.toml"
    write_sources(path, first.sources, label=first.label, alpha=0.5, clip=np.float32(0.25), strategy="averaged")
    again = read_sources(path)
    assert again.sources == first.sources
    assert again.settings == Settings(alpha=0.5, clip=0.25, strategy="averaged")
    text = path.read_text()
    assert 'data = "deep/er/crowd.csv"' in text  # from the file's folder, which may move
    assert "alpha = 0.5  # L2 strength" in text
    assert str(folder) not in text


@pytest.mark.parametrize(
    "scale", [{}, {"row_norm": 2.5}, {"fit_intercept": False}, {"row_norm": 7, "fit_intercept": True}]
)
def test_the_scale_is_read_back(tmp_path, scale):
    path = tmp_path / "sources.toml"
    write_sources(path, [ONE], n_features=3, note="# a note\n", **scale)
    file = read_sources(path)
    assert (file.settings.row_norm, file.settings.fit_intercept) == (
        scale.get("row_norm", "auto"),
        scale.get("fit_intercept", True),
    )
    assert path.read_text().endswith("# a note\n")


def test_data_elsewhere_is_written_in_full(folder, tmp_path_factory):
    entry = SourceEntry.of(uneven.Source("a", 40), folder / "clinic.parquet")
    path = tmp_path_factory.mktemp("other") / "sources.toml"
    write_sources(path, [entry], label="y")
    (again,) = read_sources(path).sources
    assert (again.source, again.data) == (entry.source, entry.data)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.builds(
            uneven.Source,
            st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip),
            st.integers(1, 10**12),
            NOISES,
            st.none() | st.floats(0, 1e9),
        ),
        min_size=1,
        max_size=4,
        unique_by=lambda source: source.name,
    ),
    st.floats(1e-9, 1e6),
    st.none() | st.floats(1e-6, 1e6),
    st.sampled_from(list(LOSSES)),
)
def test_any_sources_come_back(tmp_path, sources, alpha, clip, loss):
    path = tmp_path / "sources.toml"
    write_sources(path, sources, n_features=3, alpha=alpha, clip=clip, loss=loss)
    file = read_sources(path)
    assert [entry.source for entry in file.sources] == sources
    assert (file.n_features, file.settings) == (3, Settings(alpha=alpha, loss=loss, clip=clip))


@given(
    st.text(st.characters(codec="utf-8"))
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.lists(st.text("\x7f\\\"'"))
)
def test_any_value_is_toml(value):
    assert tomllib.loads(f"a = {format_value(value)}")["a"] == value


def test_columns_for_both_levels_are_refused_by_their_names(tmp_path):
    text = 'n_features = 3\n[[source]]\nname = "crowd"\nrows = 9\nflip_rate = "wrong"\n'
    text += '[[source]]\nname = "clinic"\nrows = 9\nepsilon = "level"\n'
    message = (
        "sources must have columns for epsilon or for flip_rate, not some for each; got epsilon = 'level' of "
        "'clinic' and flip_rate = 'wrong' of 'crowd'"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        read_sources(described(tmp_path, text))


def test_a_crash_leaves_the_old_file(tmp_path, monkeypatch):
    path = described(tmp_path, "old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_sources(path, [uneven.Source("a", 3)], n_features=3)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


class Rounded(uneven.Exact):
    kind = "rounded"


ONE = uneven.Source("a", 3)
BAD_WRITES = {
    "no sources": (([],), {"n_features": 3}, "sources must hold at least one uneven.Source, got none"),
    "not a source": ((["a"],), {"n_features": 3}, "sources must hold uneven.Source objects only, got 'a'"),
    "twice": (([ONE, ONE],), {"n_features": 3}, "sources must have names that differ, got 'a' twice"),
    "setting": (([ONE],), {"n_features": 3, "aplha": 1}, "sources.toml has no key 'aplha'; accepted: 'alpha', "),
    "value": (([ONE],), {"n_features": 3, "alpha": -1}, "alpha must be a positive finite number, got -1"),
    "strategy": (
        ([ONE],),
        {"n_features": 3, "strategy": "x"},
        "strategy must be one of 'auto', 'anchored', 'precision', ",
    ),
    "width": (([ONE],), {}, "n_features must be given where no source has data"),
    "widths": (([ONE],), {"n_features": 3, "features": ["a"]}, "n_features must be 1, the number of features,"),
    "noise": (([uneven.Source("a", 3, Rounded())],), {"n_features": 3}, "noise kind must be one of 'exact', "),
}


@pytest.mark.parametrize(("arguments", "options", "message"), BAD_WRITES.values(), ids=BAD_WRITES)
def test_bad_writes_touch_nothing(arguments, options, message, tmp_path):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is checked below)
        write_sources(tmp_path / "sources.toml", *arguments, **options)
    assert str(caught.value).startswith(message)
    assert list(tmp_path.iterdir()) == []


# Slips.


def refused(folder, text, kind=ValueError):
    path = described(folder, text)
    with pytest.raises(kind) as caught:
        read_sources(path)
    assert caught.type is kind
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(folder) + os.sep, "")


def source(text, name="crowd"):
    noise = "" if "noise =" in text else "noise = { kind = 'exact' }\n"
    return f'n_features = 3\n[[source]]\nname = "{name}"\n{text}\n{noise}'


SETTINGS = (
    "'alpha', 'batch_size', 'loss', 'strategy', 'moments', 'radius', 'fit_intercept', 'clip', 'average', 'row_norm', "
    "'long_rows', 'passes', 'use', 'sketch', 'budget', 'line_search', 'mechanism'"
)
TOP = ", ".join(map(repr, TOP_KEYS))
IN_DATA = "sources.toml: source 'crowd', data:"
ROWS = source("rows = 5")
SLIPS = {
    "syntax": ("a = 1\n\nb == 2\n", "sources.toml, line 3: Invalid value"),
    "unclosed": ('alpha = 1\nlabel = "y', "sources.toml, line 2: Unterminated string"),
    "key twice": ("alpha = 1\nalpha = 2\n", "sources.toml, line 2: Cannot overwrite a value"),
    "empty": ("", "sources.toml: there must be at least one table [[source]], got none"),
    "unknown key": ("aplha = 1\n" + ROWS, f"sources.toml: the top level has no key 'aplha'; accepted: {TOP}"),
    "alpha": ("alpha = -1\n" + ROWS, "sources.toml: alpha must be a positive finite number, got -1"),
    "batch_size": (
        "batch_size = 1.5\n" + ROWS,
        "sources.toml: batch_size must be a whole number of at least 1, got 1.5",
    ),
    "loss": ("loss = 'l2'\n" + ROWS, "sources.toml: loss must be one of 'logistic', 'hinge', 'linear'; got 'l2'"),
    "strategy": ("strategy = 3\n" + ROWS, "sources.toml: strategy must be one of 'auto', 'anchored', 'precision', "),
    "moments": ("moments = ''\n" + ROWS, "sources.toml: moments must be one of 'auto', "),
    "radius": ("radius = 'wide'\n" + ROWS, "sources.toml: radius must be one of 'tight', 'paper'; got 'wide'"),
    "clip": ("clip = 'no'\n" + ROWS, "sources.toml: clip must be 'auto', None or a positive number, got 'no'"),
    "row_norm": ("row_norm = 0\n" + ROWS, "sources.toml: row_norm must be a positive finite number, got 0"),
    "fit_intercept": (
        "fit_intercept = 'yes'\n" + ROWS,
        "sources.toml: fit_intercept must be true or false, got 'yes'",
    ),
    "label": ("label = ''\n" + ROWS, "sources.toml: label must be a non-empty string, got ''"),
    "label true": ("label = true\n" + ROWS, "sources.toml: label must be a non-empty string, got True"),
    "features": ("features = 'a'\n" + ROWS, "sources.toml: features must be a list of at least one column, got 'a'"),
    "features 2": ("features = [1]\n" + ROWS, "sources.toml: features must be a non-empty string, got 1"),
    "n_features": (
        "n_features = 0\n" + ROWS[15:],
        "sources.toml: n_features must be a whole number of at least 1, got 0",
    ),
    "no n_features": (
        ROWS[15:],
        "sources.toml: n_features must be given where no source has data and there is no list",
    ),
    "widths": (
        "features = ['a']\n" + ROWS,
        "sources.toml: n_features must be 1, the number of features, or left out; got 3",
    ),
    "columns_from": (
        "columns_from = ['crowd']\n" + source("rows = 5\nnoise = { kind = 'local-privacy', epsilon = 1.0 }"),
        "sources.toml: columns_from must name sources without privacy, got 'crowd', which is private",
    ),
    "delimiter": ("delimiter = 'ab'\n" + ROWS, "sources.toml: delimiter must be "),
    "one bracket": (
        "[source]\nname = 'a'\n",
        "sources.toml: source must be a list of tables: head each with [[source]]",
    ),
    "no table": ("source = 3\n", "sources.toml: source must be a list of tables, each headed [[source]]; got 3"),
    "no tables": ("source = [3]\n", "sources.toml: source must be a list of tables, each headed [[source]]; got [3]"),
    "no name": (
        "[[source]]\nname = 'a'\nrows = 5\nnoise = { kind = 'exact' }\n[[source]]\nrows = 4\n",
        "sources.toml: source 2: name must be given, got {'rows': 4}",
    ),
    "name": ("[[source]]\nname = 3\n", "sources.toml: source 1: name must be a non-empty string, got 3"),
    "same name": (ROWS + ROWS[15:], "sources.toml: sources must have names that differ, got 'crowd' twice"),
    "source key": (
        source("rows = 5\nnoize = 1"),
        "sources.toml: source 'crowd' has no key 'noize'; accepted: 'name', 'data', 'rows', 'noise', 'price'",
    ),
    "setting in a source": (
        source("rows = 5\nalpha = 1"),
        "sources.toml: source 'crowd': alpha is a setting of the whole file; write it above the first [[source]]",
    ),
    "rows": (source("rows = 0"), "sources.toml: source 'crowd': rows must be a whole number of at least 1, got 0"),
    "neither": (source(""), "sources.toml: source 'crowd': rows must be given where there is no data, got neither"),
    "price": (source("rows = 5\nprice = -1"), "sources.toml: source 'crowd': price must be zero or a positive finite"),
    "no noise": (
        "[[source]]\nname = 'a'\nrows = 5\n",
        'sources.toml: source \'a\': noise must be given, such as { kind = "exact" } or { kind = "local-privacy", eps',
    ),
    "noise rate": (
        source("rows = 5\nnoise = { kind = 'flipped-labels', rate = 1.7 }"),
        "sources.toml: source 'crowd', noise: rate must be a number in [0, 1), got 1.7",
    ),
    "noise kind": (
        source("rows = 5\nnoise = { kind = 'flips' }"),
        "sources.toml: source 'crowd', noise: noise kind must be one of 'exact', 'local-privacy', ",
    ),
    "noise key": (
        source("rows = 5\nnoise = { kind = 'flipped-labels', rat = 0.7 }"),
        "sources.toml: source 'crowd', noise: noise of kind 'flipped-labels' has no key 'rat'; accepted: 'rate', ",
    ),
    "noise incomplete": (
        source("rows = 5\nnoise = { kind = 'flipped-labels' }"),
        "sources.toml: source 'crowd', noise: noise of kind 'flipped-labels' needs 'rate'",
    ),
    "noise text": (source("rows = 5\nnoise = 'exact'"), "sources.toml: source 'crowd', noise: noise must be a mapping"),
    "data": (source("data = 3"), "sources.toml: source 'crowd': data must be a non-empty string, got 3"),
    "data format": (
        source("data = 'sources.toml'"),
        "sources.toml: source 'crowd', data: sources.toml must end in one of",
    ),
    "no label": (
        source("data = 'crowd.csv'"),
        f"{IN_DATA} label must be given: which column of crowd.csv? There are 'x0', 'x1', 'x2', 'y'",
    ),
    "missing label": (
        "label = 'z'\n" + source("data = 'crowd.csv'"),
        f"{IN_DATA} crowd.csv: label must be one of the columns 'x0', 'x1', 'x2', 'y'; got 'z'",
    ),
    "missing feature": (
        "label = 'y'\nfeatures = ['x0', 'z', 'x1']\n" + source("data = 'crowd.csv'"),
        "sources.toml: source 'crowd', data: crowd.csv: features must be columns, got 'z'; there are 'x0', ",
    ),
    "width of data": (
        "label = 'y'\n" + source("data = 'crowd.csv'").replace("= 3", "= 4"),
        "sources.toml: n_features must be 3, the number of features, or left out; got 4",
    ),
}


def test_stated_rows_are_those_of_the_file(folder):
    """Rows are counted when a plan asks for them, not before: a fit counts them on its way."""
    file = read_sources(described(folder, "label = 'y'\n" + source("data = 'crowd.csv'\nrows = 31")))
    with pytest.raises(ValueError, match=r"sources.toml: source 'crowd': rows must be 30 as in .*crowd.csv, or left"):
        plan_ahead(file)


@pytest.mark.parametrize(("text", "message"), SLIPS.values(), ids=SLIPS)
def test_a_slip_is_named_with_its_table_and_key(text, message, folder):
    assert refused(folder, text).startswith(message)


def test_files_that_disagree_are_named_with_the_column(folder):
    X, y = rows(40)
    write_csv(folder / "crowd.csv", X[:, :2], y)
    both = "sources.toml: clinic.parquet and crowd.csv must have the same features; only"
    assert refused(folder, CONTRACT) == f"{both} clinic.parquet has 'x2'"
    write_csv(folder / "crowd.csv", np.column_stack([X, X]), y)
    assert refused(folder, CONTRACT) == f"{both} crowd.csv has 'x3'"


def test_data_that_is_not_there(folder):
    text = CONTRACT.replace("crowd.csv", "croud.csv")
    message = refused(folder, text, FileNotFoundError)
    assert message.startswith("sources.toml: source 'crowd', data: croud.csv does not exist; rows come from a file")


def test_nothing_is_counted_before_all_is_said(folder, monkeypatch):
    monkeypatch.setattr("uneven.io.sources_file.open_table", open_table_refused)
    assert "rate must be a number in [0, 1)" in refused(folder, CONTRACT.replace("rate = 0.2", "rate = 2"))


def open_table_refused(*_, **__):
    raise AssertionError("opened")


def test_no_file_a_folder_and_other_bytes(tmp_path):
    path = tmp_path / "sources.toml"
    with pytest.raises(FileNotFoundError, match=r"sources.toml does not exist; sources are described in a file like"):
        read_sources(path)
    with pytest.raises(ValueError, match=r"must be a file like sources.toml; it is not a file"):
        read_sources(tmp_path)
    path.write_bytes(b"alpha = 1\nlabel = '\xff'\n")
    with pytest.raises(ValueError, match=r"sources.toml, line 2: must be UTF-8 text, got the byte 0xff$"):
        read_sources(path)


def test_what_cannot_be_planned_names_the_file(tmp_path):
    file = read_sources(described(tmp_path, "loss = 'hinge'\nmoments = 'variance'\n" + ROWS))
    with pytest.raises(ValueError, match=r"sources.toml: moments must be 'auto', 'upper' or 'lower' with the loss"):
        plan_ahead(file)


def test_a_table_of_every_format_is_read(tmp_path):
    X, y = rows(20)
    for form, label in [("npz", "y"), ("npy", 3), ("svm", "label"), ("feather", "y")]:
        path, _ = write(tmp_path, form, X, y)
        text = f"label = {label!r}\n[[source]]\nname = 'a'\ndata = '{path.name}'\nnoise = {{ kind = 'exact' }}\n"
        file = read_sources(described(tmp_path, text))
        assert file.sources[0].source.rows == open_table(path).rows == 20
        assert file.n_features == 3


def test_prices_at_each_epsilon_come_back(tmp_path):
    sold = SourceEntry.of(uneven.Source("survey", 1000, uneven.LocalPrivacy(1)), prices={1.0: 0.02, 3.0: 0.1})
    write_sources(tmp_path / "sources.toml", [sold], n_features=5)
    assert read_sources(tmp_path / "sources.toml").sources == (sold,)


# Text from elsewhere.


def test_text_from_elsewhere_is_what_a_file_says(tmp_path):
    sources = [uneven.Source("clinic", 40, uneven.LocalPrivacy(10), price=2.0), uneven.Source("crowd", 30)]
    write_sources(tmp_path / "sources.toml", sources, n_features=3, strategy="two-rates")
    text = (tmp_path / "sources.toml").read_text(encoding="utf-8")
    assert sources_to_text(sources, n_features=3, strategy="two-rates") == text
    file = sources_from_text(text.encode())
    assert plan_ahead(file) == plan_ahead(read_sources(tmp_path / "sources.toml"))


def test_text_from_elsewhere_opens_no_file(folder, monkeypatch):
    """Not even one that is there: rows are what the text says."""
    monkeypatch.chdir(folder)
    with pytest.raises(ValueError, match=r"^mine: source 'clinic': rows must be given, since its data clinic.parquet"):
        sources_from_text(CONTRACT, "mine")
    text = "n_features = 3" + CONTRACT.replace("data =", "rows = 7\ndata =")
    assert [(entry.source.rows, entry.data) for entry in sources_from_text(text).sources] == [(7, None), (7, None)]


def test_slips_in_text_name_the_line():
    with pytest.raises(ValueError, match=r"^sources.toml, line 2: "):
        sources_from_text("alpha = 1\nalpha = = 2\n")
    with pytest.raises(ValueError, match=r"^mine.toml, line 1: must be UTF-8 text, got the byte 0xff"):
        sources_from_text(b"\xff", "mine.toml")


def test_every_setting_is_written():
    """A key without a meaning would be lost on the way to the file."""
    assert set(TOP_KEYS) - {"columns", "source"} == set(MEANING)


QUOTED = [
    '"a # b"',
    "'a # b'",
    r'"a\" # b"',
    '"""a "" # b\n# c"""',
    "'''a # b\n# 'c''''",
    '""',
    "''",
    "[1, # 2\n 3]",
    r"'\'",
]


@given(
    st.lists(
        st.tuples(st.sampled_from(QUOTED), st.sampled_from(["", " # x", "# x", "\n# x\n\n\t# 'x", ' # "x'])), max_size=6
    )
)
def test_without_its_comments_a_file_says_the_same(lines):
    text = "".join(f"'key#{k}' = {value}{comment}\n" for k, (value, comment) in enumerate(lines))
    shown = leave_out_comments(text)
    assert tomllib.loads(shown) == tomllib.loads(text)
    assert "x" not in shown
