"""A sources.toml that is opened and saved in the studio loses nothing, and is planned as a fit runs it."""

import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uneven.io import read_sources
from uneven.io.sources_text import format_columns, format_value
from uneven.studio import table
from uneven.studio.document import Document, read_document
from uneven.training.ahead import plan_ahead

NOISES = (
    {"kind": "exact"},
    {"kind": "local-privacy", "epsilon": 2, "mechanism": "quiet", "activity": 0.25},
    {"kind": "local-privacy", "epsilon": 0.1},
    {"kind": "site-privacy", "epsilon": 1.5},
    {"kind": "label-privacy", "epsilon": 1.0},
    {"kind": "flipped-labels", "rate": [0.1, 0.3]},
    {"kind": "flipped-labels", "rate": "estimate"},
    {"kind": "additive", "variance": 4.0},
    [{"kind": "flipped-labels", "rate": 0.1}, {"kind": "local-privacy", "epsilon": 2.0}],
)
TOP = {
    "alpha": 0.01,
    "batch_size": 20,
    "loss": "hinge",
    "strategy": "two-rates",
    "moments": "upper",
    "radius": "paper",
    "clip": "none",
    "row_norm": 3.5,
    "fit_intercept": False,
    "long_rows": "refuse",
    "average": "last",
    "passes": 2,
    "use": "all",
    "redact": True,
    "classes": ["well", "ill"],
    "sketch": 8,
    "budget": 9.0,
    "line_search": 3,
    "mechanism": "privunit",
    "label": "diagnosis",
    "delimiter": ";",
}
OWN = {"id": "patient", "price": 0.5, "rows": 77, "data": "rows of the clinic.csv"}
COLUMNS = {"age": {"range": [0, 120]}, "blood type": {"values": ["a", "b"], "missing": ["?"]}}


@st.composite
def files(draw):
    """Files with any keys that `read_sources` accepts, with comments."""
    top = {key: value for key, value in TOP.items() if draw(st.booleans())}
    text = "# first\n" + "".join(f"{key} = {format_value(value)}  # why {key}\n" for key, value in top.items())
    described = draw(st.booleans())
    text += format_columns(COLUMNS, "# public\n") if described else f"features = {format_value(list(COLUMNS))}\n"
    for number in range(draw(st.integers(1, 3))):
        own = {key: value for key, value in OWN.items() if key == "rows" or draw(st.booleans())}
        own |= {"data": f"{number}.csv"} if "data" in own else {}
        own |= {"noise": draw(st.sampled_from(NOISES))} if draw(st.booleans()) else {"epsilon": "its epsilon"}
        if own.get("noise") in NOISES[1:3] and "price" not in own:
            own["prices"] = [{"epsilon": 1, "price": 0.02}, {"epsilon": 3, "price": 0.1}]
        text += f'\n# of {number}\n[[source]]\nname = "s{number}"\n'
        text += "".join(f"{key} = {format_value(value)}  # {key}\n" for key, value in own.items())
    return text


@given(files())
def test_opening_and_saving_is_the_same_text(text):
    document = read_document(text.encode(), "sources.toml")
    assert document.edit(document.rows, document.settings) == (document, [])


@given(files(), st.integers(100, 999))
def test_a_change_changes_that_alone(text, rows):
    """Rows and price of the first source, and alpha: every other value and every comment is still there."""
    document = read_document(text.encode(), "sources.toml")
    shown = [dict(row) for row in document.rows]
    price = None if "prices" in document.values["source"][0] else 0.75
    shown[0] |= {"rows": float(rows), "price": price, "name": "renamed"}
    edited, refusals = document.edit(shown, {**document.settings, "alpha": "0.125"})
    assert refusals == []
    wanted = tomllib.loads(text)
    wanted |= {"alpha": 0.125}
    wanted["source"][0] |= {"rows": rows, "name": "renamed"} | ({} if price is None else {"price": price})
    assert edited.values == wanted
    lost = [line for line in text.splitlines() if "#" in line and line.split("#")[1] not in edited.text]
    assert lost == []


@given(files())
def test_another_level_keeps_what_else_the_noise_says(text):
    document = read_document(text.encode(), "sources.toml")
    shown = [dict(row) for row in document.rows]
    changed = [row | {"level": "0.25"} if table.LEVELS.get(row["kind"]) else row for row in shown]
    edited, refusals = document.edit(changed, document.settings)
    assert refusals == []
    for old, new in zip(document.values["source"], edited.values["source"], strict=True):
        if isinstance(old.get("noise", []), list):
            assert old == new
            continue
        noise, changed_noise = dict(old["noise"]), dict(new["noise"])
        for key in ("epsilon", "rate", "variance"):
            if key in noise:
                assert changed_noise.pop(key) == 0.25
                del noise[key]
        assert changed_noise == noise
        assert {**old, "noise": None} == {**new, "noise": None}


def write_files(folder, epsilon):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (600, 2))
    for name, rows in (("public", slice(100)), ("private", slice(100, 600))):
        body = np.column_stack([X[rows], X[rows, 0] > 0])
        np.savetxt(folder / f"{name}.csv", body, "%.6f", ",", header="a,b,label", comments="")
    noises = {"public": '{ kind = "exact" }', "private": f'{{ kind = "local-privacy", epsilon = {epsilon} }}'}
    entries = [f'[[source]]\nname = "{k}"\ndata = "{k}.csv"\nnoise = {v}\n' for k, v in noises.items()]
    (folder / "sources.toml").write_text('label = "label"\nrow_norm = 1.0\n' + "".join(entries))
    return folder / "sources.toml"


def test_files_are_planned_as_a_fit_runs_them(tmp_path):
    path = write_files(tmp_path, 0.1)
    document = read_document(path.read_bytes(), str(path), opened=True)
    planned, note = document.plan()
    assert planned == plan_ahead(read_sources(path))[0]
    assert planned.strategy == "anchored"
    assert planned.verdicts["private"].word == "no"
    assert note.startswith("planned as 'uneven fit' runs it")
    assert [row["rows"] for row in document.rows] == [100, 500]
    shown = [dict(row) for row in document.rows]
    edited, refusals = document.edit([shown[0], shown[1] | {"level": "50"}], document.settings)
    assert refusals == []
    assert edited.plan()[0] == plan_ahead(read_sources(write_files(tmp_path, 50)))[0] != planned
    found = edited.value(1_000)
    assert found.bound == pytest.approx(edited.plan()[0].anchored.excess, rel=1e-9)
    assert all(worth.next_bound < found.bound for worth in found.worths)
    _, refusals = document.edit([shown[0], shown[1] | {"rows": 501.0}], document.settings)
    assert refusals == ["Row 2: rows of 'private' are counted in its data, so they cannot be changed here"]


def test_a_file_whose_data_is_elsewhere_can_be_edited_but_not_planned(tmp_path):
    path = write_files(tmp_path, 0.1)
    document = read_document(path.read_bytes(), "sources.toml")
    assert [row["rows"] for row in document.rows] == [None, None]
    assert document.edit(document.rows, document.settings) == (document, [])
    with pytest.raises(ValueError, match=r"rows must be given, since its data public\.csv are not opened here"):
        document.plan()


def test_keys_that_are_not_shown_are_named():
    text = 'label = "y"\nalpha = 1\n[[source]]\nname = "a"\nid = "k"\nrows = 5\nnoise = { kind = "exact" }\n'
    assert Document(text).kept == ["label", "id"]


WORDS = """\
n_features = 2
[[source]]
name = "a"
rows = 500
noise = [{ kind = "flipped-labels", rate = 0.1 }, { kind = "local-privacy", epsilon = 2.0 }]
[[source]]
name = "b"
rows = 500
epsilon = "its epsilon"
"""


def test_noise_of_several_parts_or_of_each_row_is_told_in_words_and_kept():
    document = read_document(WORDS.encode(), "sources.toml")
    both, own = document.rows
    assert (both["kind"], both["level"]) == ("flipped-labels & local-privacy", "0.1; 2")
    assert (own["kind"], own["level"]) == ("epsilon of each row", "column 'its epsilon'")
    edited, refusals = document.edit([both | {"rows": 600}, own], document.settings)
    assert refusals == []
    assert edited.text == WORDS.replace("500", "600", 1)
    _, refusals = document.edit([both | {"level": "3"}, own], document.settings)
    assert refusals == [
        "Row 1: noise of 'a' is shown in words, flipped-labels & local-privacy: change it in the file, or choose "
        "another kind"
    ]
    edited, refusals = document.edit([both | {"kind": "site-privacy", "level": "3"}, own], document.settings)
    assert refusals == []
    assert edited.values["source"][0]["noise"] == {"kind": "site-privacy", "epsilon": 3}
