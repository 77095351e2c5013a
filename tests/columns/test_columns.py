"""Described columns become features of norm at most 1, by the description and the row alone."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder

import uneven
from uneven.columns import Encoder, columns_to_dict, complete_columns, describe_columns, guess_columns

DESCRIBED = {
    "age": {"range": [20, 80]},
    "dose": {"range": [-1.5, 0.5], "missing": ["?", -9]},
    "job": {"values": ["clerk", "cook", 3], "missing": []},
    "smokes": {"values": [True, False]},
}
COLUMNS = describe_columns(DESCRIBED)
ENCODER = Encoder(COLUMNS)


def encode(*rows):
    return ENCODER.features({name: [row[j] for row in rows] for j, name in enumerate(DESCRIBED)}, len(rows))


def test_features_are_as_defined():
    got = encode((50, "0", "cook", "True"), (95.0, "?", None, "maybe"), ("20", -9.0, "3.0", False))
    want = [
        [0, 0.5, 0, 0, 1, 0, 0, 1, 0],
        [1, 0, 1, 0, 0, 0, 1, 0, 0],
        [-1, 0, 1, 0, 0, 1, 0, 0, 1],
    ]
    np.testing.assert_allclose(got, np.array(want) / 2.0, atol=1e-7)  # float32
    assert got.dtype == np.float32
    assert ENCODER.names == (
        "age", "dose", "dose is missing", "job = clerk", "job = cook", "job = 3", "job is missing", "smokes = true",
        "smokes = false",
    )  # fmt: skip


ROWS = st.tuples(
    st.floats(allow_nan=False, allow_infinity=False),
    st.one_of(st.floats(allow_infinity=False), st.just("?"), st.none()),
    st.one_of(st.text(max_size=3), st.sampled_from(["clerk", "cook", "3", None])),
    st.one_of(st.booleans(), st.text(max_size=3)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=5))
def test_no_row_is_longer_than_1_and_none_depends_on_another(rows):
    whole = encode(*rows)
    assert np.linalg.norm(whole.astype(float), axis=1).max() <= 1 + 1e-6  # float32
    np.testing.assert_array_equal(whole, np.concatenate([encode(row) for row in rows]))


def test_the_bound_is_reached():
    """Else rows would be shorter than they could be, and the noise larger than it must."""
    assert np.linalg.norm(encode((80, -1.5, "cook", True))) == pytest.approx(1.0, abs=1e-6)


def test_an_unknown_value_is_a_category_of_its_own():
    unlike = {tuple(encode((50, 0, job, True))[0]) for job in ("clerk", "cook", "3", None, "king")}
    assert len(unlike) == 5
    assert len({tuple(encode((50, 0, job, True))[0]) for job in ("king", "queen", "Clerk")}) == 1


def test_one_hot_is_scikit_learns():
    jobs = np.array(["cook", "clerk", "cook", "king"], dtype=object)
    encoder = Encoder(describe_columns({"job": {"values": ["clerk", "cook"]}}))
    theirs = OneHotEncoder(categories=[["clerk", "cook"]], handle_unknown="ignore").fit_transform(jobs[:, None])
    np.testing.assert_array_equal(encoder.features({"job": jobs}, 4), theirs.toarray())


def test_descriptions_come_back():
    assert describe_columns(columns_to_dict(COLUMNS)) == COLUMNS
    unstated = describe_columns({"a": {"kind": "number", "missing": ["?"]}, "b": {"kind": "category"}})
    assert describe_columns(columns_to_dict(unstated)) == unstated


SLIPS = {
    "nothing": ({}, "columns must describe at least one column, got none. Write what is publicly known of a"),
    "no table": ({"a": 3}, "column 'a' must be described like { range = [0, 1] }, got 3"),
    "no kind": ({"a": {"missing": []}}, "column 'a' must have a range, a mean and sd, values or a kind"),
    "key": ({"a": {"rang": [0, 1]}}, "column 'a' has no key 'rang'"),
    "range": (
        {"a": {"range": [1, 1]}},
        "column 'a': range must be two finite numbers, the lower one first, got [1, 1]",
    ),
    "infinite": ({"a": {"range": [0, float("inf")]}}, "column 'a': range must be two finite numbers"),
    "both": (
        {"a": {"range": [0, 1], "values": [1]}},
        "column 'a' must have a range, a mean and sd, or values, got more",
    ),
    "kind": ({"a": {"kind": "word"}}, "column 'a': kind must be one of 'number', 'category'; got 'word'"),
    "other kind": ({"a": {"kind": "number", "values": [1]}}, "column 'a': kind must be 'category'"),
    "no values": ({"a": {"values": []}}, "column 'a': values must be a list of at least one value, got []"),
    "twice": ({"a": {"values": ["x", "x "]}}, "column 'a': values must differ, got 'x' twice"),
    "missing": ({"a": {"range": [0, 1], "missing": "?"}}, "column 'a': missing must be a list, got '?'"),
}


@pytest.mark.parametrize(("columns", "message"), SLIPS.values(), ids=SLIPS)
def test_slips_are_named(columns, message):
    with pytest.raises(ValueError, match="column") as caught:
        describe_columns(columns)
    assert str(caught.value).startswith(message)


def test_values_that_are_not_described_are_refused_by_their_row():
    with pytest.raises(ValueError, match=r"^column 'age' must hold numbers, got 'old' in row 1; if that stands for a"):
        encode((50, 0, "cook", True), ("old", 0, "cook", True))
    with pytest.raises(ValueError, match=r"^column 'age' has no value in row 1; add missing = \[\] to its description"):
        encode((50, 0, "cook", True), (None, 0, "cook", True))


# From rows without privacy.


def test_ranges_and_values_are_those_of_the_rows_however_cut():
    rng = np.random.default_rng(0)
    said = {"a": rng.normal(size=200_000), "b": rng.choice(["x", "y", "z"], 200_000), "c": np.arange(200_000) % 7}
    columns = describe_columns({"a": {"kind": "number"}, "b": {"kind": "category"}, "c": {"range": [0, 3]}})
    cuts = ([0, 200_000], [0, 1, 7, 99_999, 150_000, 200_000])
    pieces = [[({k: v[i:j] for k, v in said.items()}, "") for i, j in pairwise(at)] for at in cuts]
    one, other = (complete_columns(columns, piece) for piece in pieces)
    assert one == other
    # Quantiles of 3% and 97% of a normal; their standard error with 50,000 rows is 0.011.
    np.testing.assert_allclose(one[0].range, [-1.881, 1.881], atol=4 * 0.011)
    assert (one[1].values, one[2].range) == (("x", "y", "z"), (0.0, 3.0))


def test_gaps_are_noticed_and_constant_columns_have_a_range():
    columns = describe_columns({"a": {"kind": "number"}, "b": {"kind": "category"}, "c": {"kind": "number"}})
    found = complete_columns(columns, [({"a": [1.0, np.nan], "b": ["x", None], "c": [5, 5]}, "")])
    assert [column.missing for column in found] == [(), (), None]
    assert found[2].range == (5.0, 6.0)


def test_kinds_are_guessed():
    said = {"n": ["1", "2.5", "?"], "w": ["a", "b", "a"], "names": ["u", "v", "w"], "gap": [1, None, 3]}
    found = {column.name: (column.kind, column.missing) for column in guess_columns(said)}
    assert found == {"n": ("number", ("?",)), "w": ("category", None), "gap": ("number", ())}


def test_of_many_values_the_common_ones_are_a_category():
    """A district is one, and its rare values are one more; ids, dates and free text, which hardly repeat, are not."""
    rng = np.random.default_rng(0)
    district = [f"d{k}" for k in np.minimum(rng.geometric(0.1, 2000), 70)]
    said = {"district": district, "id": [f"p{k}" for k in range(2000)], "day": [f"2020-{k % 400}" for k in range(2000)]}
    (found,) = guess_columns(said)
    counts = {value: district.count(value) for value in set(district)}
    assert len(counts) > 50
    assert (found.name, found.kind, found.missing) == ("district", "category", None)
    assert set(found.values) == {value for value, rows in counts.items() if rows >= 10}
    assert guess_columns({"district": [*district, None]})[0].missing == ()
    assert not guess_columns({"mostly rare": ["a"] * 900 + said["id"][:1100]})
    assert guess_columns({"mostly common": ["a"] * 1100 + said["id"][:900]})[0].values == ("a",)


# The transformer.


def test_frames_arrays_and_names():
    frame = pd.DataFrame({"job": ["cook", "king"], "age": [50, 90], "other": [1, 2]})
    columns = uneven.PublicColumns({"age": {"range": [20, 80]}, "job": {"values": ["cook"]}})
    want = np.array([[0, 1], [1, 0]]) / np.sqrt(2)
    np.testing.assert_allclose(columns.fit_transform(frame), want, atol=1e-7)
    named = columns.set_output(transform="pandas").transform(frame)
    assert list(named.columns) == ["age", "job = cook"]
    with pytest.raises(ValueError, match=r"^X must have the column 'age' that is described; there are job, other$"):
        uneven.PublicColumns(columns.columns).fit(frame.drop(columns="age"))


def test_only_rows_that_are_public_are_looked_at():
    frame = pd.DataFrame({"age": [20, 40, 60, 1e6], "job": ["a", "b", "a", "secret"]})
    unstated = uneven.PublicColumns({"age": {"kind": "number"}, "job": {"kind": "category"}})
    with pytest.raises(
        ValueError, match=r"^public must say which rows are not private, to take the range or values of"
    ):
        unstated.fit(frame)
    with pytest.raises(ValueError, match=r"^public must be one boolean per row, true for some rows, got \[1, 1\]"):
        unstated.fit(frame, public=[1, 1])
    found = unstated.fit(frame, public=[True, True, True, False]).columns_
    assert found == {"age": {"range": [21.2, 58.8]}, "job": {"values": ["a", "b"]}}
    frame.loc[3] = (-5.0, "other")
    assert unstated.fit(frame, public=[True, True, True, False]).columns_ == found


def test_a_number_is_one_value_however_it_is_written():
    cells = {
        "x": np.array(["-9.50", "0.10", "1e3"], dtype=object),
        "c": np.array(["0.10", ".1", "0.2"], dtype=object),
        "f": np.array([0.1, 0.2, 0.3], dtype=np.float32),
        "t": np.array(["1", "0", "yes"], dtype=object),
        "n": np.array([True, False, None], dtype=object),
    }
    said = {
        "x": {"range": [0, 1], "missing": [-9.5]},
        "c": {"values": [0.1]},
        "f": {"values": [0.1, 0.2]},
        "t": {"values": [True, False]},
        "n": {"values": [0, 1]},
    }
    got = Encoder(describe_columns(said)).features(cells, 3) * np.sqrt(5)
    want = [[0, 1, 1, 1, 0, 1, 0, 0, 1], [-0.8, 0, 1, 0, 1, 0, 1, 1, 0], [1, 0, 0, 0, 0, 0, 0, 0, 0]]
    np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "values"), [("string", ["u", None]), ("boolean", [True, None]), ("Int64", [1, None])]
)
def test_pandas_own_missing_value_is_missing(dtype, values):
    frame = pd.DataFrame({"s": pd.array(values, dtype=dtype)})
    for kind in ("category", "number") if dtype != "string" else ("category",):
        columns = uneven.PublicColumns({"s": {"kind": kind}}).fit(frame, public=True)
        assert columns.columns_["s"]["missing"] == []
        assert columns.transform(frame)[:, -1].tolist() == [0.0, 1.0]


def test_numbers_by_their_mean_and_deviation():
    """(x - mean)/sd, at most 3 deviations, over √p; longer rows are divided by their norm."""
    said = {"a": {"mean": 50, "sd": 10, "missing": []}, "b": {"mean": 0, "sd": 2.0}, "c": {"values": ["u"]}}
    columns = describe_columns(said)
    assert describe_columns(columns_to_dict(columns)) == columns
    cells = {"a": [55, 90, None], "b": [1, -20, 0], "c": ["u", "u", "v"]}
    got = Encoder(columns).features(cells, 3) * np.sqrt(3)
    long = np.array([3, -3, 0, 1]) / np.sqrt(19 / 3)
    np.testing.assert_allclose(got, [[0.5, 0.5, 0, 1], long, [0, 0, 1, 0]], atol=1e-6)  # float32
    for slip in ({"mean": 1}, {"sd": 1.0}, {"mean": 0, "sd": 0}, {"mean": "a", "sd": 1}):
        with pytest.raises(ValueError, match="column 'a': mean and sd must be two finite numbers, sd above 0"):
            describe_columns({"a": slip})
    with pytest.raises(ValueError, match="column 'a' must have a range, a mean and sd, or values, got more than one"):
        describe_columns({"a": {"range": [0, 1], "mean": 0, "sd": 1}})
