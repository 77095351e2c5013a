"""What the README and the quickstart tell people to type works, in the order in which it is told."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from uneven.io import read_sources

ROOT = Path(__file__).parents[2]
README, QUICKSTART = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/quickstart.md"))
ELSEWHERE = {"federate", "studio", "audit", "reproduce", "beyond"}
"""Servers, and what takes long or needs data: these are run by tests of their own."""


def blocks(kind, page):
    return re.findall(rf"^```{kind}\n(.*?)^```", page, flags=re.M | re.S)


def commands_of(page):
    lines = [
        shlex.split(line, comments=True)
        for block in blocks("console(?: quiet| not-run)?", page)
        for line in block.splitlines()
    ]
    return [line[1:] for line in lines if line and line[0] == "uneven"]


@pytest.mark.slow
def test_commands(folder, good):
    """The demo, which both have, is run once, and prints the figures that the README quotes.

    The README's other commands need a bank's data: `test_raw_tables` runs them.
    """
    shutil.copy(folder / "crowd.csv", folder / "survey.csv")
    first, second = commands_of(README), commands_of(QUICKSTART)
    assert {command[0] for command in first} == {"demo", "init", "plan", "fit", "predict"}
    assert {command[0] for command in second} >= {"demo", "init", "plan", "fit", "predict", "value"} | ELSEWHERE
    said = good(*first[0])
    (quoted,) = blocks("text", README)
    assert [line.split() for line in quoted.splitlines()] == [
        line.split() for line in said.splitlines() if line.split() in [one.split() for one in quoted.splitlines()]
    ]
    for command in second[1:]:
        if command[0] not in ELSEWHERE:
            good(*command)
    for written in ("demo/report.html", "plan.html", "model.json", "fit.html", "predictions.csv"):
        assert (folder / written).stat().st_size > 1_000


def test_sources(folder):
    shutil.copy(folder / "crowd.csv", folder / "survey.csv")
    (text,) = blocks("toml sources.toml", QUICKSTART)
    (folder / "sources.toml").write_text(text, encoding="utf-8")
    described = read_sources(folder / "sources.toml")
    assert {entry.source.name: entry.source.noise.epsilon for entry in described.sources} == {"clinic": 10, "survey": 1}
    assert [column.range for column in described.columns] == [(-3, 3), (-3, 3)]
