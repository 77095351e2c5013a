"""Every Python block in the README and the docs runs, and what its comments promise is what it prints."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_code_blocks_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks(page):
        exec(compile(block, page.name, "exec"), names)
    capsys.readouterr()


def test_figures_in_the_readme(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks(ROOT / "README.md"):
        exec(block, names)
    assert "Every strategy" in capsys.readouterr().out
    assert (tmp_path / "plan.png").stat().st_size > 10_000
    plan, paper = names["plan"], names["paper"]
    assert plan.order == paper.order == ["survey", "clinic"]
    assert round(plan.exchange["survey"], 4) == 0.0183
    assert [round(rate) for rate in paper.rates.values()] == [1000, 7652]


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec((ROOT / "examples" / "two_hospitals.py").read_text(encoding="utf-8"), {"__name__": "__main__"})
    assert "One row of 'clinic' is worth" in capsys.readouterr().out
    assert (tmp_path / "plan.png").exists()


def test_version_is_said_once():
    import uneven

    for name in ("pyproject.toml", "CITATION.cff"):
        assert uneven.__version__ in (ROOT / name).read_text(encoding="utf-8")
