"""Changing a few values of a sources.toml: it then says what it should, and the rest of its text is as it was."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uneven.io import edit_sources, sources_edit
from uneven.io.sources_text import format_value

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=1, max_size=8)
VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(-(10**9), 10**9), st.floats(allow_nan=False), WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS.filter(str.strip), inner, max_size=3),
    max_leaves=4,
)
COMMENTS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
TOP = ("alpha", "label", "row_norm", "classes", "data")
OF_SOURCE = ("name", "rows", "noise", "price", "prices", "data")


@st.composite
def lines_of(draw, keys):
    """Keys with values in one of the ways that TOML has, with comments and empty lines between them."""
    lines = []
    for key in draw(st.lists(st.sampled_from(keys), unique=True)):
        value = draw(VALUES)
        lines += [f"# {draw(COMMENTS)}\n"] * draw(st.integers(0, 1)) + ["\n"] * draw(st.integers(0, 1))
        shown, written = format_value(value), draw(st.sampled_from([key, f'"{key}"', f"  {key}  "]))
        if isinstance(value, list) and value and draw(st.booleans()):
            shown = "[\n  # one a line ] \" '\n" + "".join(f"  {format_value(one)}, # {{\n" for one in value) + "]"
        if isinstance(value, dict) and value and draw(st.booleans()):
            lines += [f"{key}.{format_value(name)} = {format_value(inner)}\n" for name, inner in value.items()]
            continue
        if isinstance(value, str) and "\\" not in value and "'" not in value and value.isprintable():
            shown = draw(st.sampled_from([shown, f"'{value}'", f"'''\n{value}'''"]))
        comment = draw(st.sampled_from(["", f" # {draw(COMMENTS)}"]))
        lines.append(f"{written} ={draw(st.sampled_from(['', ' ']))}{shown}{comment}\n")
    return "".join(lines)


@st.composite
def files(draw):
    text = draw(st.sampled_from(["", "# what this is\n\n"])) + draw(lines_of(TOP))
    if draw(st.booleans()):
        text += f'\n[columns]  # public\nage = {{ min = 0, max = 120 }}\n"blood type" = {format_value(draw(VALUES))}\n'
    for _ in range(draw(st.integers(1, 3))):
        text += draw(st.sampled_from(["", "\n", "\n# the next\n"])) + f"[[source]]  # here\n{draw(lines_of(OF_SOURCE))}"
        if "noise" not in tomllib.loads(text)["source"][-1] and draw(st.booleans()):
            text += f"[source.noise]\nkind = {format_value(draw(WORDS))} # [[source]]\n"
    return draw(st.sampled_from([text, text.rstrip("\n")]))


@st.composite
def edits(draw):
    text = draw(files())
    old = tomllib.loads(text)
    changes = st.none() | VALUES
    settings = draw(st.dictionaries(st.sampled_from(TOP), changes, max_size=2))
    kept = [k for k in range(len(old["source"])) if draw(st.integers(0, 3))]
    sources = [(k, draw(st.dictionaries(st.sampled_from(OF_SOURCE), changes, max_size=2))) for k in kept]
    new = draw(st.lists(st.dictionaries(st.sampled_from(OF_SOURCE), VALUES, min_size=1, max_size=3), max_size=1))
    return text, old, settings, [*sources, *((None, one) for one in new)]


@given(files())
def test_nothing_changed_is_the_same_text(text):
    count = len(tomllib.loads(text)["source"])
    assert edit_sources(text, {}, [(k, {}) for k in range(count)]) is text
    same = {key: value for key, value in tomllib.loads(text).items() if key in TOP}
    assert edit_sources(text, same, list(enumerate(tomllib.loads(text)["source"]))) is text


@given(edits())
def test_the_text_says_what_it_should(case):
    text, old, settings, sources = case
    merged = {**old, **settings}
    merged["source"] = [{**({} if k is None else old["source"][k]), **changes} for k, changes in sources]
    merged["source"] = [{key: value for key, value in one.items() if value is not None} for one in merged["source"]]
    merged = {key: value for key, value in merged.items() if value is not None}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources_edit, "format_document", pytest.fail)  # every way that is tried here keeps its comments
        said = tomllib.loads(edit_sources(text, settings, sources))
    assert {"source": [], **said} == merged


@given(files(), st.integers(1, 9))
def test_only_the_changed_line_is_another(text, number):
    """Changing a value that is written on one line leaves every other line, comments and order as they are."""
    old = tomllib.loads(text)
    text = f"alpha = 0.5  # strength\n{text}" if "alpha" not in old else text
    sources = [(k, {}) for k in range(len(old["source"]))]
    if isinstance(old.get("alpha", 0.5), float) and old.get("alpha", 0.5) != number:
        before, after = text.split("\n"), edit_sources(text, {"alpha": number}, sources).split("\n")
        assert len(before) == len(after)
        assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


def test_a_key_that_needs_quotes_has_them():
    """A noise may have a key of any letters, and its table keeps its comments then too."""
    text = '[[source]]\nname = "a"\n[source.noise]\nkind = "exact"  # bought\n'
    said = edit_sources(text, {}, [(0, {"noise": {"kind": "exact", ":": False}})])
    assert "# bought" in said
    assert tomllib.loads(said)["source"][0]["noise"] == {"kind": "exact", ":": False}


FILE = """\
# Two clinics.
label = "ill"  # the diagnosis

# the near one
[[source]]
name = "near"
data = "near.csv"
noise = { kind = "exact" }  # bought
# price = 0.02

# the far one
[[source]]
name = "far"
rows = 100
[source.noise]
kind = "local-privacy"
epsilon = 1.0
"""


def test_comments_go_with_what_they_are_about():
    without = edit_sources(FILE, {}, [(1, {})])
    assert without.startswith('# Two clinics.\nlabel = "ill"  # the diagnosis\n\n# the far one\n[[source]]\n')
    assert "near" not in without
    changed = edit_sources(FILE, {"label": "sick"}, [(0, {"price": 0.5}), (1, {"noise": {"kind": "exact"}})])
    assert 'label = "sick"  # the diagnosis' in changed
    assert 'noise = { kind = "exact" }  # bought\nprice = 0.5\n# price = 0.02\n' in changed
    assert '# the far one\n[[source]]\nname = "far"\nrows = 100\n[source.noise]\nkind = "exact"\n' in changed
    assert "epsilon" not in changed


def test_comments_inside_a_table_of_its_own_stay():
    text = FILE.replace("epsilon = 1.0", "# agreed in May\nepsilon = 1.0  # per row")
    wanted = {"kind": "local-privacy", "epsilon": 2.0, "mechanism": "privunit"}
    changed = edit_sources(text, {}, [(0, {}), (1, {"noise": wanted})])
    assert changed == text.replace("epsilon = 1.0  # per row", 'epsilon = 2.0  # per row\nmechanism = "privunit"')


def test_a_table_with_tables_inside_becomes_one_value():
    text = FILE + "[source.noise.more]\na = 1\n"
    changed = edit_sources(text, {}, [(0, {}), (1, {"noise": {"kind": "exact"}})])
    assert tomllib.loads(changed)["source"][1] == {"name": "far", "rows": 100, "noise": {"kind": "exact"}}
    assert changed.endswith('noise = { kind = "exact" }\n')


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_line_ends_and_a_byte_order_mark_stay(ending):
    text = "\ufeff" + FILE.replace("\n", ending)
    changed = edit_sources(text, {"label": "sick"}, [(0, {}), (1, {})])
    assert changed == text.replace('"ill"', '"sick"')


def test_sources_in_one_line_become_a_new_text():
    text = 'source = [{ name = "a", rows = 5 }] # all\n'
    changed = edit_sources(text, {"alpha": 0.5}, [(0, {"rows": 6})])
    assert tomllib.loads(changed) == {"alpha": 0.5, "source": [{"name": "a", "rows": 6}]}
