"""``uneven demo`` does the main job offline, and what it says to try next can be typed."""

import json
import re
import shlex

import numpy as np
import pytest

import uneven
from uneven.experiments import run_demo
from uneven.io import read_sources, sources_from_text
from uneven.planner import STRATEGIES
from uneven.problem import DEFAULT_ALPHA
from uneven.settings import Settings
from uneven.training.planning import choose_clip


def test_the_demo_and_what_to_try_next(folder, good):
    said = good("demo", "--runs", 2, "-o", "a demo", COLUMNS="80")
    for words in ("What first: use 'survey', then 'station'", "How far to step:", "one row of 'station' is worth"):
        assert words in " ".join(said.split())
    table = [line.split() for line in said.splitlines() if re.search(r"(quiet|l2-laplace) ", line) and "±" in line]
    assert [row[0] for row in table] == ["precision", "clean-only", "clean-only"]
    assert f"The report has all {2 * len(STRATEGIES)} rows" in " ".join(said.split())
    assert "no noise at all" in said
    assert "…" not in said
    assert max(len(line) for line in said.splitlines() if "±" in line or "test accuracy  " in line) <= 80
    assert "No row spends more than its site allows." in " ".join(said.split())
    assert "simulated" in said
    report = (folder / "a demo" / "report.html").read_text()
    assert "uneven demo -o &#x27;a demo&#x27; --runs 2 --seed 0" in report
    typed = [line.split("#")[0].strip() for line in said.splitlines() if line.startswith("  uneven ")]
    assert [words.split()[1] for words in typed] == ["plan", "fit", "predict", "init"]
    for command in typed[:3]:
        good(*shlex.split(command)[1:])
    assert (folder / "a demo" / "predictions.csv").exists()
    unopened = sources_from_text((folder / "a demo" / "sources.toml").read_text())  # as the studio reads it
    opened = read_sources(folder / "a demo" / "sources.toml")
    assert (unopened.described(), unopened.settings) == (opened.described(), opened.settings)


@pytest.mark.slow
def test_the_demo_as_json(good):
    facts = json.loads(good("demo", "--runs", 2, "--seed", 3, "--json"))
    assert facts["plan"]["order"] == ["survey", "station"]
    assert len(facts["strategies"]) == 2 * len(STRATEGIES)
    assert all(len(one["accuracy"]) == 2 for one in facts["strategies"])
    assert facts["report"] == "uneven-demo/report.html"


@pytest.fixture(scope="module")
def demo():
    return run_demo(runs=8, seed=1)


def test_uneven_does_best(demo):
    """Lowest objective and highest accuracy of all, by more than three standard errors of the paired differences."""
    ours, *others = demo.entries
    assert (ours.strategy, ours.mechanism) == ("precision", "quiet")
    for other in others:
        for errors, better in ((3, other.objective - ours.objective), (2, ours.accuracy - other.accuracy)):
            assert better.mean() > errors * better.std(ddof=1) / np.sqrt(len(better)), other.name
    assert demo.optimum[1] < ours.objective.min()


def test_mechanisms_are_as_labelled(demo):
    """The house's own choice is the classifier's default; the rest differ in strategy and mechanism, and say so."""
    default = uneven.UnevenClassifier().get_params()
    ours = demo.plan.problem
    assert (ours.batch_size, ours.radius) == (50, default["radius"])
    assert ours.alpha == DEFAULT_ALPHA
    assert default["mechanism"] == demo.entries[0].mechanism
    assert ours.clip == choose_clip(Settings(), private=True) == 0.5
    for entry in demo.entries:
        assert {source.noise.mechanism for source in entry.plan.sources} == {entry.mechanism}
        assert entry.plan.problem.radius == {"quiet": "tight", "l2-laplace": "paper"}[entry.mechanism]
        assert entry.plan.problem.clip == (0.5 if entry is demo.entries[0] else None)


def test_public_rows_and_private_ones_do_better_together(demo):
    """Each run has its own rows, the same for all three ways: so differences are paired."""
    alone, private, both = demo.public.accuracy.values()
    for other in (alone, private):
        better = both - other
        assert better.mean() > 2 * better.std(ddof=1) / np.sqrt(len(better))
    assert demo.public.rows == 500


def test_a_site_that_is_not_expected_to_help_spends_nothing(demo):
    allowed = {"station": 10.0, "survey": 1.0}
    for name, verdict in demo.public.verdicts.items():
        assert demo.public.spent[name] == (0.0 if verdict.word == "no" else allowed[name])
    assert demo.public.verdicts["station"].word == "worth it"


def test_no_row_spends_more_than_its_site_allows(demo):
    assert any(entry.plan.order == ["station"] for entry in demo.entries)  # so not all spend the same
    for entry in demo.entries:
        assert {s.name: s.noise.epsilon_per_row for s in entry.plan.sources} == {"station": 10.0, "survey": 1.0}


@pytest.mark.slow
def test_strategies_are_told_before_the_rest_runs():
    told = []

    def compared(found):
        told.append(len(found.entries))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_demo(runs=2, compared=compared)
    assert told == [2 * len(STRATEGIES)]


def test_the_plan_is_told_before_anything_runs():
    told = []

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_demo(runs=2, progress=stop, planned=told.append)
    assert [plan.order for plan in told] == [["survey", "station"]]
