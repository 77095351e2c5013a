"""kill -9 of sites and server at random moments: no row is released twice, and the run comes to its end."""

import json
import os
import random
import time
from collections import defaultdict

import pytest
from processes import EPSILON, JOBS, forked, kill, make_files, run_server, run_site

from uneven.ledger import Ledger

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")

FEW, MANY = 100, 1_000
"""Of few rows one in 25 tells the length of the weights; of many one in 13, and half of those tell their class."""

CASES = [
    pytest.param("relay", FEW, JOBS, (), 1 + 1, id="relay"),
    pytest.param("relay", MANY, JOBS, (), 1 + 2, id="relay with shares"),
    pytest.param("oracle", FEW, 1, (), 5 + 1, id="oracle"),
    pytest.param("oracle", MANY, 1, (), 47 + 2, marks=pytest.mark.slow, id="oracle with shares"),
    pytest.param("relay", FEW, 1, ("north", "west"), 1, marks=pytest.mark.slow, id="anchored"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "rows", "jobs", "public", "answers"), CASES)
def test_no_row_is_released_twice_however_often_processes_are_killed(tmp_path, mode, rows, jobs, public, answers):
    """Each job ends with all sites, whose rows paid once for each; and whatever was sent for a step was sent again."""
    make_files(tmp_path, rows, public)
    rng, kills = random.Random(0), 0
    tasks = {name: lambda name=name: run_site(tmp_path / name) for name in EPSILON}
    running = {name: forked(task) for name, task in tasks.items()}
    try:
        for job in range(jobs):
            tasks["server"] = lambda job=job: run_server(tmp_path, f"job{job}", mode)
            kills += run_and_kill(tmp_path / f"job{job}", running, tasks, 36 // jobs, rng)
    finally:
        for name in EPSILON:
            kill(running[name])
    assert kills >= 12  # of 36: a slow machine ends a job between two of them
    for job in range(jobs):
        result = json.loads((tmp_path / f"job{job}" / "result.json").read_text())
        assert result["left_out"] == {}
        assert set(result["used"]) == set(EPSILON)
    for name, epsilon in ((name, epsilon) for name, epsilon in EPSILON.items() if name not in public):
        assert_released_once(tmp_path / name, jobs * answers)
        spent = Ledger(tmp_path / name / "ledger.db").spent(name)
        assert set(spent.values()) == {jobs * epsilon}
        assert len(spent) == rows


def run_and_kill(folder, running, tasks, most, rng):
    """Run a server until it has ended by itself; on the way kill it and the sites, often just after an answer."""
    kills, running["server"] = 0, forked(tasks["server"])
    while not os.waitpid(running["server"], os.WNOHANG)[0]:
        if rng.random() < 0.7:
            wait_for_an_answer(folder.parent)
        time.sleep(rng.uniform(0.0, 0.02))
        name = rng.choice([*EPSILON, "server", "server"])
        if kills < most and not (folder / "result.json").exists():
            kill(running[name])
            running[name] = forked(tasks[name])
            kills += 1
    return kills


def wait_for_an_answer(root):
    before, deadline = size(root), time.monotonic() + 0.3
    while size(root) == before and time.monotonic() < deadline:
        time.sleep(0.001)


def size(root):
    return sum(file.stat().st_size for file in root.glob("*/sent"))


def assert_released_once(folder, expected):
    """Everything that was sent: one answer for each part of the rows, or for each step, however often it was asked."""
    answers = defaultdict(set)
    for line in (folder / "sent").read_text().splitlines():
        text, reply = (json.loads(one) for one in json.loads(line))
        assert "refused" not in reply
        assert "failed" not in reply
        if {"state", "total", "heard", "reached"} & set(reply):
            answers[text["job"], text["kind"], text["number"], text.get("step", 0)].add(json.dumps(reply))
    assert len(answers) == expected
    assert {len(one) for one in answers.values()} == {1}
