"""Rows that take no step learn the length of the weights and the intercept: never worse than predicting nothing."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import uneven
from uneven.io import read_sources
from uneven.ledger import Ledger
from uneven.planner import KEPT, Plan, make_plan
from uneven.planner.prediction import expect_scale, predict_run, typical_curvature
from uneven.problem import Problem
from uneven.training import scan
from uneven.training.ahead import plan_ahead
from uneven.training.calibration import Direction, calibrate
from uneven.training.files import train_files
from uneven.training.job import _take_steps

NOISY = uneven.LocalPrivacy(0.1)


def draw(n=4_000, d=8, seed=0, signal=3.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-signal * X[:, 0] - 1.0)), 1, -1)


def noisy_plan(d, rows=4_000, kept=KEPT):
    return make_plan([uneven.Source("a", rows, NOISY)], Problem(d, 1e-2, 50), kept=kept)


def test_expected_scale_minimises_the_predicted_objective():
    plan = noisy_plan(25, 60_000, kept=0)
    h = typical_curvature(plan.problem)
    run, start = predict_run(plan.problem, plan.segments, h), np.log(2) / h
    scales = np.linspace(0, 1, 2001)
    excess = start * (1 - scales * (1 - np.sqrt(run.left))) ** 2 + scales**2 * run.noise
    assert expect_scale(plan.problem, plan.segments) == pytest.approx(scales[excess.argmin()], abs=1e-3)


@pytest.mark.parametrize("constant", [0.0, 0.25])
def test_without_noise_the_kept_rows_find_the_minimum_along_the_direction(constant):
    """Theorem D with many exact rows: the prior is forgotten; (s, b) minimise the mean of objective and log-loss."""
    X, y = draw(40_000)
    X = np.column_stack([0.9 * X, np.full(len(X), constant)]) if constant else X
    weights = np.array([6.0, *np.full(7, 1.5), *([1.0] if constant else [])])
    plan = noisy_plan(len(weights), 200_000)
    plan = replace(plan, sources=(uneven.Source("a", 200_000),))
    direction = Direction(weights, constant)
    features = direction.describe_rows(X)
    found, told = calibrate(direction, {"a": (features, y.astype(float))}, plan, seed=3)

    def objective(theta):
        w = np.append(theta[0] * direction.slopes, theta[1:])
        score = np.clip(X[:, :8] @ (w[:8]), -theta[0] * direction.width, theta[0] * direction.width)
        return 0.25e-2 * w @ w + np.logaddexp(0, -y * (score + constant * w[8:].sum())).mean()

    best = minimize(objective, np.ones(1 + bool(constant)), method="Nelder-Mead").x
    assert told.scale == pytest.approx(best[0], abs=0.05)  # 40,000 rows: a standard error of about 0.015
    assert 0.1 < told.scale < 0.9
    np.testing.assert_allclose(found[:8], told.scale * direction.slopes)
    if constant:
        assert found[8] == pytest.approx(best[1], abs=0.2)


def test_labels_without_signal_are_not_worse_than_predicting_nothing():
    """Steps alone end above log 2 in log-loss; with the length learned, within two standard errors of it."""
    X, _ = draw()
    loss = {"auto": [], "precision": []}
    for seed in range(12):
        y = np.random.default_rng(seed).choice([-1, 1], len(X))
        for strategy, found in loss.items():
            clf = uneven.UnevenClassifier(uneven.LocalPrivacy(0.5), strategy=strategy, random_state=seed).fit(X, y)
            found.append(-np.log(clf.predict_proba(X)).mean() + 5e-4 * (clf.coef_**2).sum())
    assert np.mean(loss["auto"]) < 0.5 * (np.mean(loss["precision"]) + np.log(2))
    assert clf.plan_.kept == 0


def test_a_row_takes_a_step_or_is_kept_and_none_does_both():
    for count in (5, 12, 4_003):
        taken = np.concatenate([_take_steps(first, min(7, count - first), 5) for first in range(0, count, 7)])
        assert (~taken).sum() == count // 5
        np.testing.assert_array_equal(taken, _take_steps(0, count, 5))
    assert _take_steps(0, 9, 0).all()


def test_rows_are_charged_once_and_the_plan_says_what_it_keeps(tmp_path):
    X, y = draw()
    clf = uneven.UnevenClassifier(NOISY, ledger=Ledger(tmp_path / "book")).fit(X, y, row_id=np.arange(len(y)))
    assert clf.privacy_spent_ == {"data": 0.1}
    assert clf.plan_.kept == KEPT
    assert sum(segment.rows for segment in clf.plan_.segments) == len(y) - len(y) // KEPT
    assert "Keep one row in 5 of each source" in clf.plan_.summary()
    assert "No bound is promised: rows that take no step" in clf.plan_.summary()
    assert Plan.from_dict(json.loads(json.dumps(clf.plan_.to_dict()))) == clf.plan_
    clf.save(tmp_path / "model.json")
    assert uneven.UnevenClassifier.load(tmp_path / "model.json").plan_ == clf.plan_
    with pytest.raises(ValueError, match="learned the length of the weights"):
        clf.partial_fit(X, y)


@pytest.mark.parametrize("held", [True, False])
def test_both_doors_and_streams_give_the_same_model(tmp_path, held):
    X, y = draw(1_500, 4)
    pd.DataFrame(X, columns=list("abcd")).assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    text = '[[source]]\nname = "rows"\ndata = "rows.csv"\nnoise = { kind = "local-privacy", epsilon = 0.1 }\n'
    (tmp_path / "sources.toml").write_text('label = "y"\n' + text)
    file = read_sources(tmp_path / "sources.toml")
    trained = train_files(file, seed=4, held_bytes=scan.HELD_BYTES if held else 0)
    clf = uneven.UnevenClassifier({"rows": NOISY}, random_state=4).fit(X, y, source=np.full(len(y), "rows"))
    assert trained.plan == clf.plan_ == plan_ahead(file)[0]
    assert trained.plan.kept == KEPT
    np.testing.assert_array_equal(trained.model.coef, clf.coef_)
    assert any("private rows that took no step" in note for note in trained.trained.notes)


@pytest.mark.parametrize(
    "changed", [{"strategy": "precision"}, {"loss": "hinge"}, {"passes": 1}, {"noise": uneven.LocalPrivacy(20.0)}]
)
def test_nothing_is_kept_where_steps_are_asked_for_or_noise_is_low(changed):
    X, y = draw()
    clf = uneven.UnevenClassifier(**{"noise": NOISY, "random_state": 0, **changed}).fit(X, y)
    assert clf.plan_.kept == 0
    assert not clf.plan_.void
