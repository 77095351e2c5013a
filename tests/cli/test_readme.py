"""What the README tells people to type works, in the order in which it is told."""

import re
import shlex
import shutil
from pathlib import Path

from uneven.io import read_sources

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
ELSEWHERE = {"federate", "studio", "audit", "reproduce", "beyond"}
"""Servers, and what takes long or needs data: these are run by tests of their own."""


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", README, flags=re.M | re.S)


def test_commands(folder, good):
    shutil.copy(folder / "crowd.csv", folder / "survey.csv")
    lines = [shlex.split(line, comments=True) for block in blocks("console") for line in block.splitlines()]
    commands = [line[1:] for line in lines if line and line[0] == "uneven"]
    assert {command[0] for command in commands} >= {"demo", "init", "plan", "fit", "predict", "value"} | ELSEWHERE
    for command in commands:
        if command[0] not in ELSEWHERE:
            good(*command)
    for written in ("demo/report.html", "plan.html", "model.json", "fit.html", "predictions.csv"):
        assert (folder / written).stat().st_size > 1_000


def test_sources(folder):
    shutil.copy(folder / "crowd.csv", folder / "survey.csv")
    (text,) = blocks("toml")
    (folder / "sources.toml").write_text(text, encoding="utf-8")
    described = read_sources(folder / "sources.toml")
    assert {entry.source.name: entry.source.noise.epsilon for entry in described.sources} == {"clinic": 10, "survey": 1}
    assert [column.range for column in described.columns] == [(-3, 3), (-3, 3)]
