"""``uneven audit`` as a process of its own."""

import json
from pathlib import Path

import pytest
from commands import uneven

FLAWED = Path(__file__).parents[1] / "audit"


def run(*arguments, folder=FLAWED):
    return uneven("audit", *arguments, cwd=folder, environment={"COLUMNS": "80"})


@pytest.mark.slow
def test_table_of_all_mechanisms():
    done = run("--draws", "100000", "--dimension", "1", "--dimension", "2", "--epsilon", "2", "--seed", "0")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    for mechanism in ("l2-laplace", "privunit", "quiet"):
        assert [done.stdout.count(f"{mechanism}, {by}") for by in ("release", "engine")] == [2, 2]
    assert done.stdout.count("site-privacy") == 6
    assert done.stdout.count("no flaw found") == 18
    assert "does not prove privacy" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 80


@pytest.mark.slow
def test_json():
    done = run(
        "--draws", "50000", "--dimension", "2", "--epsilon", "3", "--mechanism", "privunit", "--clip", "0.5", "--json"
    )
    assert done.returncode == 0, done.stderr
    audits = json.loads(done.stdout)["audits"]
    assert [one["drawn_by"] for one in audits] == ["release", "engine"]
    assert all(one["clip"] == 0.5 and 0 < one["bound"] <= 3 and one["verdict"] == "no flaw found" for one in audits)


@pytest.mark.parametrize("name", ["TooLittle", "EachCoordinate"])
def test_a_flaw_exits_with_1(name):
    done = run("--mechanism", f"flawed:{name}", "--epsilon", "2", "--dimension", "2", "--seed", "0")
    assert done.returncode == 1
    assert "VIOLATION" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--epsilon", "-1"), "uneven: --epsilon must be a positive finite number, got -1.0"),
        (("--epsilon", "much"), "--epsilon"),
        (("--dimension", "0"), "dimension must be a whole number of at least 1, got 0"),
        (("--draws", "5"), "uneven: --draws must be a whole number of at least 1000, got 5"),
        (("--mechanism", "magic"), "mechanism must be one of"),
        (("--mechanism", "flawed:Nothing"), "module:Class that takes epsilon"),
        (("--mechanism", "nowhere:Nothing"), "module:Class that takes epsilon"),
        (("--mechanism", ":X"), "module:Class that takes epsilon, got ':X' (it names no module)"),
        (("--mechanism", "flawed:Unmade"), "takes epsilon, got 'flawed:Unmade' (KeyError: 'settings')"),
        (("--mechanism", "flawed:Unreleased"), "release of mechanism Unreleased must return one row of numbers"),
        (("--mechanism", "flawed:Words"), "release of mechanism Words must return one row of numbers"),
        (
            ("--mechanism", "flawed:WrongShape", "--dimension", "2", "--draws", "12000"),
            "of shape (500, 2); got shape (500,)",
        ),
        (("--clip", "nan"), "clip must be"),
        (("--seed", "-3"), "uneven: --seed must be"),
    ],
)
def test_bad_input_exits_with_2(arguments, words):
    done = run(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_has_an_example():
    done = run("--help")
    assert done.returncode == 0
    assert "uneven audit --mechanism privunit --dimension 25" in " ".join(done.stdout.split())
