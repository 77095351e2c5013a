"""The classes panel: softmax beside one-vs-rest, on rows of which the classes are known to differ."""

from functools import partial

import numpy as np

from uneven.datasets import Dataset, count_rows
from uneven.experiments.panels import CLASS_EPSILONS, NO_NOISE, ONE_VS_REST, SITE, STEPS_ALONE, build_classes
from uneven.experiments.results import read_results
from uneven.experiments.running import run_panel
from uneven.experiments.targets import judge_class_accuracy, judge_log_loss, judge_nothing, judge_one_vs_rest


def test_the_panel_runs_and_is_judged(tmp_path):
    rng, n = np.random.default_rng(0), 4_000
    y = rng.integers(0, 10, n).astype(float)
    X = np.eye(25)[y.astype(int)] + 0.3 * rng.normal(size=(n, 25))
    X = (X / np.linalg.norm(X, axis=1).max()).astype(np.float32)
    data = Dataset("mnist-digits", X[:3_000], y[:3_000], X[3_000:], y[3_000:])
    panel = build_classes("mnist-digits", partial(count_rows, 3_000), 25)
    assert panel.name == "classes-mnist"
    epsilons = {case.x: case.plan.sources[0].noise.epsilon for case in panel.cases if case.one_vs_rest}
    assert epsilons == {x: x / 10 for x in CLASS_EPSILONS}
    run_panel(panel, data, tmp_path, runs=2, seed=0)
    results = read_results(tmp_path, panel.name)
    assert results.methods == ["uneven", STEPS_ALONE, SITE, ONE_VS_REST, NO_NOISE]
    assert results.settings["optimum"]["accuracy"] > 0.9
    assert results.of(NO_NOISE, "accuracy")[1].mean() > 0.8
    assert judge_class_accuracy(results).numbers["target"].tolist() == [0.40, 0.60, 0.65]
    accuracy = {m: results.of(m, "accuracy")[1].mean(axis=1) for m in ("uneven", ONE_VS_REST)}
    lead = accuracy["uneven"] - accuracy[ONE_VS_REST]
    np.testing.assert_allclose(judge_one_vs_rest(results).numbers["difference"], lead)
    kept = [case.plan.kept > 0 for case in panel.cases if case.method == "uneven"]
    assert kept == [True, True, True]
    shorter = judge_nothing(results).numbers
    assert shorter["excess"][0] < min(shorter["nothing"], shorter["steps alone"][0])
    assert (judge_log_loss(results).numbers["difference"] != 0.0).tolist() == kept
