"""The wide panel: sketches of rows with many columns, judged by accuracy."""

from functools import partial

import numpy as np
import pytest

import uneven
from uneven.datasets import Dataset, count_rows
from uneven.engine import measure_accuracy, measure_auc
from uneven.experiments.claims import FAILS, HOLDS, IN_PART
from uneven.experiments.outputs import tabulate
from uneven.experiments.panels import ALPHA, CHOSEN_ALONE, FITS, SKETCHES, build_wide
from uneven.experiments.results import Results, read_results
from uneven.experiments.running import divide_rows, run_panel, shorten_weights
from uneven.experiments.targets import judge_chosen_sketch, judge_sketch, judge_sketched_source, judge_width
from uneven.training.scaling import Scale


def make_rows(n=900, d=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    y = np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)
    return Dataset("mnist-784", X[:600], y[:600], X[600:], y[600:])


def test_a_sketched_case_is_a_sweep_of_sketched_rows_folded_back(tmp_path):
    """The same rows and noise, projected and shrunk as a fit does it; the weights are for the rows as given."""
    data = make_rows()
    panel = build_wide("mnist-784", partial(count_rows, 600), 300)
    sketched = {case.method: case for case in panel.cases if case.sketch}
    assert {case.method for case in panel.cases} >= {*SKETCHES, *FITS, CHOSEN_ALONE} >= set(sketched)
    run_panel(panel, data, tmp_path, runs=2, seed=0)
    results = read_results(tmp_path, panel.name)
    case = next(case for case in panel.cases if case.sketch == 100 and case.x == 3.0)
    scale = Scale(1.0, 0.0, columns=300, sketch=100)
    sources = {name: (scale.rows(X), y) for name, (X, y) in data.split(panel.shares, 0).items()}
    weights = uneven.sweep([case.plan], sources, runs=2, seed=0).weights[0]
    expected = [measure_accuracy(scale.coefficients(w)[0], data.X_test, data.y_test) for w in weights]
    np.testing.assert_allclose(results.of(case.method, "accuracy")[1][-1], expected, atol=1 / 300)
    areas = [measure_auc(scale.coefficients(w)[0], data.X_test, data.y_test) for w in weights]
    np.testing.assert_allclose(results.of(case.method, "auc")[1][-1], areas, atol=1e-3)
    head, cells = tabulate(results)
    assert head[-6:] == ["uneven, sketch auto", CHOSEN_ALONE, *FITS, "AUC of uneven", "excess objective of uneven"]
    assert [row[-2] for row in cells] == [f"{area:.4f}" for area in results.of("uneven", "auc")[1].mean(axis=1)]


def test_a_fit_of_the_panel_has_the_plan_and_the_length_of_a_fit(tmp_path):
    """Width, alpha and kept rows are those of `UnevenClassifier`; kept rows set the length before it is folded back."""
    data = make_rows()
    panel = build_wide("mnist-784", partial(count_rows, 600), 300)
    case = next(case for case in panel.cases if case.method == "a fit, sketch auto" and case.x == 0.0)
    noise = {"clean": uneven.LocalPrivacy(10.0), "noisy": uneven.LocalPrivacy(1.0)}
    source = np.repeat(["clean", "noisy"], [60, 540])
    clf = uneven.UnevenClassifier(noise, row_norm=1.0, sketch="auto", fit_intercept=False, random_state=0)
    fitted = clf.fit(data.X, data.y, source=source).plan_
    assert case.sketch == fitted.problem.n_features
    assert case.plan.kept == fitted.kept > 0
    assert case.plan.problem.alpha == pytest.approx(fitted.problem.alpha, rel=1e-5)  # rows are divided by 1 + 1e-6
    run_panel(panel, data, tmp_path, runs=2, seed=0)
    scale = Scale(1.0, 0.0, columns=300, sketch=case.sketch)
    sources = {name: (scale.rows(X), y) for name, (X, y) in data.split(panel.shares, 0).items()}
    stepped = {name: divide_rows(rows, case.plan.kept)[0] for name, rows in sources.items()}
    weights = shorten_weights(case.plan, uneven.sweep([case.plan], stepped, runs=2, seed=0).weights[0], sources, 0, 0)
    expected = [measure_log_loss(scale.coefficients(w)[0], data) for w in weights]
    found = read_results(tmp_path, panel.name).of(case.method, "log_loss")[1][0]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def measure_log_loss(w, data):
    return np.logaddexp(0.0, -data.y_test * (data.X_test @ w)).mean()


def test_a_fit_with_many_rows_has_an_alpha_of_its_own():
    panel = build_wide("mnist-784", partial(count_rows, 60_000), 784)
    own = {case.plan.problem.alpha for case in panel.cases if case.method in FITS}
    assert {case.plan.problem.alpha for case in panel.cases if case.method not in FITS} == {ALPHA}
    assert min(own) < ALPHA


@pytest.mark.parametrize(
    ("stated", "auto", "verdicts"),
    [
        (0.95, 0.95, [HOLDS, HOLDS, HOLDS]),
        (0.93, 0.95, [IN_PART, HOLDS, HOLDS]),
        (0.93, 0.93, [FAILS, FAILS, FAILS]),
        (0.96, 0.951, [HOLDS, HOLDS, HOLDS]),
        (0.97, 0.951, [HOLDS, HOLDS, FAILS]),
        (0.95, 0.945, [HOLDS, FAILS, HOLDS]),
    ],
)
def test_targets(stated, auto, verdicts):
    """Against what was asked for, against no sketch, and against the best stated width, a point below which will do."""
    noise = 0.001 * np.random.default_rng(0).normal(size=40)
    means = {"uneven": 0.95, **dict.fromkeys((*SKETCHES, *FITS), stated), "uneven, sketch auto": auto}
    measured = {(name, x): mean + (i + 1) * noise for i, (name, mean) in enumerate(means.items()) for x in range(4)}
    results = Results("wide-mnist", {"optimum": {"majority": 0.5}}, {"accuracy": measured})
    claims = [judge(results) for judge in (judge_sketch, judge_chosen_sketch, judge_width)]
    assert [claim.verdict for claim in claims] == verdicts


@pytest.mark.parametrize(("alone", "verdict"), [(0.94, HOLDS), (0.95, HOLDS), (0.96, FAILS)])
def test_a_noisy_source_beside_a_sketch(alone, verdict):
    """One setting in which the clean source alone does better is enough to fail."""
    noise = 0.001 * np.random.default_rng(0).normal(size=40)
    measured = {(name, x): 0.95 + noise for name in ("uneven, sketch auto", CHOSEN_ALONE) for x in range(4)}
    measured[CHOSEN_ALONE, 2] = alone - noise
    claim = judge_sketched_source(Results("wide-mnist", {}, {"accuracy": measured}))
    assert claim.verdict == verdict
    assert claim.numbers["difference"][2] == pytest.approx(0.95 - alone, abs=1e-3)


def test_one_setting_of_several_is_in_part():
    noise = 0.001 * np.random.default_rng(0).normal(size=40)
    measured = {(name, x): 0.95 + noise for name in ("uneven", *SKETCHES) for x in range(4)}
    measured["uneven, sketch auto", 3] = 0.93 + noise
    claim = judge_width(Results("wide-mnist", {}, {"accuracy": measured}))
    assert claim.verdict == IN_PART
    assert "-2.00 ± 0.00 points at ε = 10 and 1, 10 and 10, 3 and 3, 1 and 1" in claim.measured
