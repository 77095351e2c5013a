"""Panels are the paper's; runs are written as they come, and go on where they were interrupted."""

import math
import os
import re

import numpy as np
import pytest

import uneven
from uneven.datasets import Dataset, load_covertype_sample
from uneven.experiments import panels, reproduce, running
from uneven.experiments.panels import SHARES, Case, Panel, plan_as_published
from uneven.experiments.results import read_results, write_part
from uneven.planner import change_rates

ROWS = {"clean": 6_000, "noisy": 54_000}


def counts(shares):
    return {name: round(share * 60_000) for name, share in shares.items()}


def test_settings_are_the_papers():
    for panel in (
        panels.build_order("mnist", counts, 25),
        panels.build_two_rates("mnist", counts, 25),
        panels.build_vary_c2("mnist", counts, 25),
    ):
        for case in panel.cases:
            plan = case.plan
            assert (plan.problem.alpha, plan.problem.batch_size, plan.problem.loss) == (1e-3, 50, "logistic")
            assert (plan.problem.radius, plan.problem.clip, plan.moments) == ("paper", None, "upper")
            if case.method == "Optimal":
                assert all(source.noise == uneven.Exact() for source in plan.sources)
            else:
                assert {source.noise.mechanism for source in plan.sources} == {"l2-laplace"}
                assert plan.sources[0].noise.epsilon == 10
            assert [source.rows for source in plan.sources] == [6_000, 54_000]


def test_the_order_panel_runs_one_rate_in_three_orders():
    panel = panels.build_order("covertype", counts, 54)
    assert panel.twin
    assert panels.RATES[6] == pytest.approx(1_000)
    orders = {"CleanFirst": ["clean", "noisy"], "NoisyFirst": ["noisy", "clean"]}
    for case in panel.cases:
        assert case.plan.sources[1].noise.epsilon == 3
        assert set(case.plan.rates.values()) == {case.x}
        assert case.plan.order == orders.get(case.method, case.plan.order)
        assert case.plan.shuffled == (case.method == "Arbitrary")


def test_the_two_rates_panel_has_the_planners_own_plans():
    for case in panels.build_two_rates("mnist", counts, 25).cases:
        if case.method == "Algorithm2":
            sources = [
                uneven.Source("clean", 6_000, uneven.LocalPrivacy(10, "l2-laplace")),
                uneven.Source("noisy", 54_000, uneven.LocalPrivacy(case.x, "l2-laplace")),
            ]
            assert case.plan == uneven.plan(sources, 25, strategy="two-rates", radius="paper")
        if case.method == "CleanOnly":
            assert case.plan.order == ["clean"]
            assert case.plan.rates == {"clean": pytest.approx(1_000)}


@pytest.mark.parametrize(("dataset", "features", "epsilon"), [("mnist", 25, 2), ("covertype", 54, 1)])
def test_the_vary_c2_panel_marks_the_interval(dataset, features, epsilon):
    panel = panels.build_vary_c2(dataset, counts, features)
    tried = [case for case in panel.cases if case.method == "TwoRates"]
    assert all(case.plan.sources[1].noise.epsilon == epsilon for case in tried)
    assert all(list(case.plan.rates.values()) == pytest.approx([1_000, case.x]) for case in tried)
    upper = plan_as_published(ROWS, features, "two-rates", epsilon)
    assert panel.marks["c₂(U)"] == pytest.approx(list(upper.rates.values())[1])
    for mark in panel.marks.values():
        assert min(abs(math.log(case.x / mark)) for case in tried) < 1e-9


@pytest.fixture(scope="module")
def tiny():
    data = load_covertype_sample()
    return Dataset("tiny", data.X[:2_000], data.y[:2_000], data.X_test[:500], data.y_test[:500])


@pytest.fixture(scope="module")
def panel():
    plan = plan_as_published({"clean": 200, "noisy": 1_800}, 54, "same-rate-noisy-first", 3.0)
    cases = tuple(Case("NoisyFirst", c, change_rates(plan, [c, c])) for c in (500.0, 1_000.0))
    return Panel("order-tiny", "tiny", "c", cases, twin=True, marks={"1/λ": 1_000.0})


def values(folder):
    results = read_results(folder, "order-tiny")
    return {quantity: np.array(list(runs.values())) for quantity, runs in results.values.items()}


def test_what_is_measured_is_the_objective_of_the_runs(tmp_path, tiny, panel):
    running.run_panel(panel, tiny, tmp_path, runs=3, seed=5)
    measured = values(tmp_path)
    for i, case in enumerate(panel.cases):
        swept = uneven.sweep([case.plan], tiny.split(SHARES, 5), runs=3, seed=5, twin=True)
        expected = uneven.objective(case.plan.problem, swept.weights[0], tiny.X, tiny.y)
        np.testing.assert_allclose(measured["objective"][i], expected, rtol=1e-12)
        twins = uneven.objective(case.plan.problem, swept.twins[0], tiny.X, tiny.y)
        np.testing.assert_allclose(measured["twin_objective"][i], twins, rtol=1e-12)
        right = [np.mean((tiny.X_test @ w > 0) == (tiny.y_test > 0)) for w in swept.weights[0]]
        np.testing.assert_allclose(measured["accuracy"][i], right, atol=2 / 500)  # a row on the plane, in float32


def test_more_runs_later_are_the_same_as_all_at_once(tmp_path, tiny, panel):
    running.run_panel(panel, tiny, tmp_path / "once", runs=14, seed=1)
    for runs in (3, 13, 14):
        running.run_panel(panel, tiny, tmp_path / "later", runs=runs, seed=1)
    for quantity, expected in values(tmp_path / "once").items():
        np.testing.assert_array_equal(values(tmp_path / "later")[quantity], expected)


def test_an_interruption_costs_only_what_was_under_way(tmp_path, tiny, panel, monkeypatch):
    calls = []

    def interrupted_once(*arguments, **options):
        calls.append(options["first_run"])
        swept = uneven.sweep(*arguments, **options)
        if len(calls) == 2:
            swept.finished[0, 0] = False
        return swept

    monkeypatch.setattr(running, "sweep", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        running.run_panel(panel, tiny, tmp_path, runs=25, seed=1)
    assert read_results(tmp_path, "order-tiny").runs == 10
    running.run_panel(panel, tiny, tmp_path, runs=25, seed=1)
    assert calls == [0, 10, 10, 20]
    running.run_panel(panel, tiny, tmp_path, runs=25, seed=1)
    assert len(calls) == 4
    assert read_results(tmp_path, "order-tiny").runs == 25


def test_progress_adds_up(tmp_path, tiny, panel):
    shares = []
    running.run_panel(panel, tiny, tmp_path, runs=4, seed=1)
    running.run_panel(panel, tiny, tmp_path, runs=12, seed=1, tick=shares.append)
    assert shares[0] == pytest.approx(4 / 12)
    assert sum(shares) == pytest.approx(1)


@pytest.mark.parametrize("change", ["seed", "cases", "rows"])
def test_results_of_other_settings_are_refused(tmp_path, tiny, panel, change):
    running.run_panel(panel, tiny, tmp_path, runs=2, seed=1)
    seed, data = (2, tiny) if change == "seed" else (1, tiny)
    if change == "cases":
        slower = tuple(Case(case.method, case.x, change_rates(case.plan, [1.0, 1.0])) for case in panel.cases)
        panel = Panel("order-tiny", "tiny", "c", slower, twin=True, marks=panel.marks)
    if change == "rows":
        data = Dataset("tiny", tiny.X[:1_999], tiny.y[:1_999], tiny.X_test, tiny.y_test)
    with pytest.raises(ValueError, match=f"was made with another value of '{change}'"):
        running.run_panel(panel, data, tmp_path, runs=2, seed=seed)


def test_a_run_in_two_files_counts_once(tmp_path, tiny, panel):
    running.run_panel(panel, tiny, tmp_path, runs=4, seed=1)
    part = next((tmp_path / "order-tiny").glob("*.parquet"))
    part.with_name("runs-0002-0003.parquet").write_bytes(part.read_bytes())
    assert read_results(tmp_path, "order-tiny").runs == 4


def test_a_damaged_part_is_named(tmp_path, tiny, panel):
    running.run_panel(panel, tiny, tmp_path, runs=2, seed=1)
    part = next((tmp_path / "order-tiny").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(ValueError, match=re.escape(str(part)) + r".*remove it to run again"):
        running.run_panel(panel, tiny, tmp_path, runs=2, seed=1)


def test_a_part_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_part(tmp_path / "runs-0000-0001.parquet", {"run": [0, 1]}, {})
    assert not list(tmp_path.iterdir())


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match="panel must be one of 'order-mnist'"):
        reproduce(["order-cifar"], output=tmp_path)
    with pytest.raises(ValueError, match="runs must be a whole number of at least 2, got 1"):
        reproduce(["order-mnist"], runs=1, output=tmp_path)
    with pytest.raises(FileNotFoundError, match="has no results; run 'uneven reproduce order-mnist' first"):
        read_results(tmp_path, "order-mnist")
