"""Every Python block in the README and the docs runs, and what its comments promise is what it prints."""

import ast
import inspect
import os
import re
import shlex
import tomllib
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
import typer

import uneven
from uneven.columns.description import KEYS as COLUMN_KEYS
from uneven.io.source_entry import SOURCE_KEYS
from uneven.io.sources_file import TOP_KEYS
from uneven.noise import NOISES

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("UNEVEN_DATA", ROOT.parent / "shared" / "data"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "gallery").glob("*.md"))]
LONG = {"when-to-use-something-else.md", "experts-and-a-crowd.md", "classifier.md"}
"""Pages that fit many classifiers; and so do those of the gallery."""


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page.parent.name == "gallery" or page.name in LONG else [])
        for page in PAGES
        if blocks(page)
    ],
    ids=lambda page: f"{page.parent.name}/{page.name}",
)
def test_code_blocks_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks(page):
        exec(compile(block, page.name, "exec"), names)
        for line, promised in promises(block):
            assert matches(eval(line, names), promised), (
                f"{page.name}: {line} is {eval(line, names)!r}, not {promised!r}"
            )
    capsys.readouterr()


def promises(block):
    """Lines that are an expression with a value in their comment: at its beginning, or after its last colon."""
    for line in block.splitlines():
        code, _, comment = line.partition("  # ")
        starts = [comment[:end] for end in range(len(comment), 0, -1) if comment[end:][:1] in ("", ":")]
        for text in (*starts, comment.split(": ")[-1]):
            try:
                ast.parse(code, mode="eval")
                yield code, ast.literal_eval(text)
                break
            except (SyntaxError, ValueError):
                continue


def matches(value, promised):
    """Equal, numbers to the digits that are given."""
    if isinstance(promised, float | int) and not isinstance(promised, bool):
        digits = len(str(promised).partition(".")[2])
        return round(float(value), digits) == promised
    if isinstance(promised, list) and promised and isinstance(promised[0], float):
        return len(value) == len(promised) and all(map(matches, value, promised))
    return value == promised


def test_promises_are_found():
    found = list(
        promises("a.b  # ['x', 'y']: why\nround(c)  # how many: 61\nd = 1  # 2\ne()  # {'k': 1.0}: what\nf  # text")
    )
    assert found == [("a.b", ["x", "y"]), ("round(c)", 61), ("e()", {"k": 1.0})]
    assert matches(0.01829, 0.0183)
    assert not matches(0.0184, 0.0183)


def test_the_output_in_the_readme_is_what_its_code_prints(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import executed

    assert executed.rewrite(ROOT / "README.md") == (ROOT / "README.md").read_text(encoding="utf-8")


def test_output_goes_below_each_block(monkeypatch, tmp_path):
    """What is printed, values as a notebook shows them, and pictures; what stood there before is replaced."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import executed

    page = tmp_path / "page.md"
    page.write_text("```python\nx = 2\nprint('a')\nx + 1\nNone\n```\n\nthen\n\n```python\nx\n```\n", encoding="utf-8")
    once = executed.rewrite(page)
    assert "None\n```\n\n```text output\na\n3\n```\n\nthen\n" in once
    assert once.endswith("```text output\n2\n```\n")
    page.write_text(once.replace("\n3\n", "\n4\n"), encoding="utf-8")
    assert executed.rewrite(page) == once
    ((said, made),) = executed.run_page("```python\nfrom pathlib import Path\nPath('a-b.png').write_bytes(b'x')\n```\n")
    assert (said, made) == ("1", {"a-b.png": b"x"})
    assert executed.below("", {"a-b.png": "/p.png"}) == "\n![A b](/p.png)\n"


def test_a_page_is_built_again_when_the_package_has_changed(monkeypatch, tmp_path):
    """Its text is as it was, so that alone would not tell that its output is old."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import executed

    monkeypatch.setattr(executed, "MADE", tmp_path)
    monkeypatch.setattr(executed, "HERE", tmp_path)
    (tmp_path / "page.md").write_text("```python\n1 + 1\n```\n", encoding="utf-8")
    (tmp_path / "words.md").write_text("no blocks\n", encoding="utf-8")
    outdated = []
    for code in ("a = 1", "a = 1", "a = 2"):
        (tmp_path / "package.py").write_text(code, encoding="utf-8")
        app = SimpleNamespace()
        executed._run_all(app)
        assert app.executed["page"] == [("2", {})]
        outdated.append(executed._list_outdated(app, None, set(), set(), set()))
    assert outdated == [["page"], [], ["page"]]


PAGE = """\
```toml sources.toml
label = "outcome"
[columns]
age = { range = [20, 80] }
[[source]]
name = "clinic"
data = "clinic.csv"
noise = { kind = "exact" }
```
<!-- run
uneven fit sources.toml -o model.json
-->
```console
uneven predict model.json rows.csv -o told.csv  # not model.json
wc -l < told.csv
```
```console quiet
cp told.csv again.csv
```
```console not-run
false
```
```python
from pathlib import Path
print(sorted(path.name for path in Path().glob("*.csv") if path.name in ("told.csv", "again.csv")))
```
"""


def test_console_blocks_are_run(monkeypatch):
    """In order, in one folder with the files of the docs; a command that fails or is not recorded stops the build."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import executed

    said = [said for said, _ in executed.run_page(PAGE)]
    assert said[0] == said[1] == said[3] == said[4] == ""
    assert said[2].splitlines()[-1] == "11"
    assert said[5] == "['again.csv', 'told.csv']"
    with pytest.raises(RuntimeError, match=r"uneven plan none\.toml: uneven: SOURCES none\.toml does not exist"):
        executed.run_page("```console\nuneven plan none.toml\n```\n")
    with pytest.raises(ValueError, match="make recorded"):
        executed.run_page("```console recorded\nuneven plan new.toml\n```\n", "quickstart")
    with pytest.raises(ValueError, match="must be one of"):
        executed.run_page("```console silent\nuneven\n```\n")


def commands(page):
    for block in re.findall(r"^```console[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S):
        yield from (
            words[1:]
            for words in (shlex.split(line, comments=True) for line in block.splitlines())
            if words[:1] == ["uneven"]
        )


def test_commands_in_the_docs_exist_with_their_options():
    """Also of blocks that are not run: their words are parsed as the command line would parse them."""
    from uneven.cli.app import app

    found = [words for page in PAGES for words in commands(page)]
    assert len(found) >= 40
    for words in found:
        command, context, rest = typer.main.get_command(app), None, words
        while isinstance(command, click.Group):
            context = click.Context(command, context, info_name=rest[0])
            _, command, rest = command.resolve_command(context, rest)
        command.make_parser(click.Context(command, context)).parse_args(rest)


def test_recorded_output_is_of_the_blocks_of_today(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import executed

    pages = [(page, block) for page in PAGES for block in executed.BLOCK.finditer(page.read_text(encoding="utf-8"))]
    recorded = [(page.stem, block["code"]) for page, block in pages if block["how"] == " recorded"]
    assert len(recorded) >= 3
    assert all(executed.read_record(*one) is not None for one in recorded)


def test_no_uneven_command_hides_in_a_block_of_text():
    for page in PAGES:
        for kind, block in re.findall(
            r"^```(text|sh|bash)\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S
        ):
            assert not re.search(r"^(\$ )?uneven ", block, flags=re.M), (page.name, kind, block)


def test_figures_in_the_quickstart(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks(ROOT / "docs" / "quickstart.md"):
        exec(block, names)
    assert "Every strategy" in capsys.readouterr().out
    assert (tmp_path / "plan.png").stat().st_size > 10_000
    plan, paper = names["plan"], names["paper"]
    assert plan.order == paper.order == ["survey", "clinic"]
    assert round(plan.exchange["survey"], 4) == 0.0096
    assert [round(rate) for rate in paper.rates.values()] == [1000, 7652]


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec((ROOT / "examples" / "two_hospitals.py").read_text(encoding="utf-8"), {"__name__": "__main__"})
    assert "One row of 'clinic' is worth" in capsys.readouterr().out
    assert (tmp_path / "plan.png").exists()


def hospitals(monkeypatch, capsys, data):
    monkeypatch.setenv("UNEVEN_DATA", str(data))
    exec((ROOT / "examples" / "four_hospitals.py").read_text(encoding="utf-8"), {"__name__": "__main__"})
    return capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "heart").is_dir(), reason="no heart data: set UNEVEN_DATA")
def test_four_hospitals_with_missing_values(monkeypatch, capsys):
    """The hospital with a privacy rule pays for one pass; beside ours stands what the public hospitals reach alone."""
    out = hospitals(monkeypatch, capsys, DATA)
    assert "920 patients, 15% of the measurements missing" in out
    assert "Spent: {'va': inf}" in out
    right = re.findall(r"^(\w+) +(0\.\d+) (0\.\d+)$", out, flags=re.M)
    assert [name for name, _, _ in right] == ["cleveland", "hungarian", "switzerland", "va", "all"]
    ours, plain = map(float, right[4][1:])
    assert min(ours, plain) > 0.75  # about half of them are ill; 4,600 held out, a standard error of 0.01
    (difference,) = re.findall(r"^Difference over all: ([+-]0\.\d+),", out, flags=re.M)
    assert float(difference) == pytest.approx(ours - plain, abs=0.005)  # splits weigh alike, not by their patients


def test_four_hospitals_without_their_data(monkeypatch, capsys, tmp_path):
    out = hospitals(monkeypatch, capsys, tmp_path)
    assert out.count("\n") == 1
    assert out.startswith(f"No folder {tmp_path / 'heart'}: set UNEVEN_DATA")


def test_the_map_of_the_code_is_true():
    """Each of twelve rows "to change X, open Y" names files, what is defined in them, and tests."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    cell = r"(`[^|]+`)"
    rows = re.findall(rf"^\| [^|]+ \| {cell} \| {cell} \| {cell} \|$", page, flags=re.M)
    assert len(rows) == 12
    for files, names, tests in (map(re.compile("`([^`]+)`").findall, row) for row in rows):
        modules = [ast.parse((ROOT / "src" / "uneven" / file).read_text(encoding="utf-8")).body for file in files]
        body = [node for module in modules for node in module]
        defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        targets = [t for node in body if isinstance(node, ast.Assign) for t in node.targets]
        targets += [node.target for node in body if isinstance(node, ast.AnnAssign)]
        assert set(names) <= defined | {one.id for one in targets if isinstance(one, ast.Name)}, files
        assert all((ROOT / "tests" / test).is_file() for test in tests), tests


def test_the_import_rules_are_those_that_are_checked():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    told = [set(re.findall(r"`(\w+)`", line)) for line in re.findall(r"^\d+\. (`.*)$", page, flags=re.M)]
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    checked = [set(layer.split(" | ")) for layer in rules[0]["layers"] if layer != "__main__"]
    assert told == checked


def first_cells(heading):
    """Names in the first column of each table row below a heading of the reference of sources.toml."""
    page = (ROOT / "docs" / "sources-toml.md").read_text(encoding="utf-8")
    part = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    return {
        name
        for cell in re.findall(r"^\| (`[^|]+) \|", part, flags=re.M)
        for name in re.findall(r'`"?([\w-]+)"?`', cell)
    }


def test_every_key_of_sources_files_is_explained():
    assert first_cells("Keys above the sources") == set(TOP_KEYS) - {"source"}
    assert first_cells("Keys of a source") == set(SOURCE_KEYS)
    assert first_cells("Keys of a column") == set(COLUMN_KEYS)
    assert first_cells("Kinds of noise") == set(NOISES)


def test_every_key_of_a_noise_is_explained():
    page = (ROOT / "docs" / "sources-toml.md").read_text(encoding="utf-8")
    for kind, noise in NOISES.items():
        (keys,) = re.findall(rf'^\| `"{kind}"` \| ([^|]*) \|', page, flags=re.M)
        told = set(re.findall(r"`(\w+)`", keys))
        assert told == {field.name for field in fields(noise)} - {"interval"}, kind
    assert "`interval = [lowest, highest]`" in page  # of every kind but exact, so it is said once


def test_version_is_said_once():
    import uneven

    for name in ("pyproject.toml", "CITATION.cff", "docs/conf.py"):
        assert uneven.__version__ not in (ROOT / name).read_text(encoding="utf-8")
    assert tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dynamic"] == ["version"]


def test_what_people_search_for_is_a_heading():
    headings = {
        line for page in PAGES for line in re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    }
    for word in ("Quickstart", "Glossary", "Threat model", "sources.toml", "FAQ", "GDPR"):
        assert any(word in heading for heading in headings), word


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 85
    assert len(text.split()) <= 650


def list_parameters(text):
    """Parameters and attributes of a docstring, and whether each is described."""
    for section in re.findall(r"(?:Parameters|Attributes)\n-+\n(.*?)(?=\n\n[A-Z][a-z]+\n-+|\Z)", text, re.S):
        lines = [*section.split("\n"), ""]
        for line, below in pairwise(lines):
            if re.match(r"\w[\w, ]* : ", line):
                yield line, below.startswith("    ")


def list_documented(name):
    """A public name with its docstring, and those of a class's methods."""
    value = getattr(uneven, name)
    yield name, value
    if inspect.isclass(value):
        methods = {key: one for key, one in vars(value).items() if inspect.isfunction(one) and key[0] != "_"}
        yield from ((f"{name}.{key}", one) for key, one in methods.items())


def test_every_parameter_of_a_public_name_is_described():
    told = [
        (name, line, described)
        for public in uneven.__all__
        for name, value in list_documented(public)
        for line, described in list_parameters(inspect.getdoc(value) or "")
    ]
    assert len(told) > 150
    assert [one for one in told if not one[2]] == []
