"""Every Python block in the README and the docs runs, and what its comments promise is what it prints."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("UNEVEN_DATA", ROOT.parent / "shared" / "data"))
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


def hospitals(monkeypatch, capsys, data):
    monkeypatch.setenv("UNEVEN_DATA", str(data))
    exec((ROOT / "examples" / "four_hospitals.py").read_text(encoding="utf-8"), {"__name__": "__main__"})
    return capsys.readouterr().out


@pytest.mark.skipif(not (DATA / "heart").is_dir(), reason="no heart data: set UNEVEN_DATA")
def test_four_hospitals_with_missing_values(monkeypatch, capsys):
    """The hospital with a privacy rule pays for five passes, and patients held out are told apart."""
    out = hospitals(monkeypatch, capsys, DATA)
    assert "920 patients, 15% of the measurements missing" in out
    assert "Spent: {'va': 40.0}" in out
    right = re.findall(r"^(\w+) +(\d+) patients held out, (0\.\d+) right$", out, flags=re.M)
    assert [name for name, _, _ in right] == ["cleveland", "hungarian", "switzerland", "va", "all"]
    assert sum(int(count) for _, count, _ in right[:4]) == int(right[4][1])
    assert float(right[4][2]) > 0.75  # about half of them are ill; a standard error is 0.03


def test_four_hospitals_without_their_data(monkeypatch, capsys, tmp_path):
    out = hospitals(monkeypatch, capsys, tmp_path)
    assert out.count("\n") == 1
    assert out.startswith(f"No folder {tmp_path / 'heart'}: set UNEVEN_DATA")


def test_version_is_said_once():
    import uneven

    for name in ("pyproject.toml", "CITATION.cff"):
        assert uneven.__version__ in (ROOT / name).read_text(encoding="utf-8")
