"""Rows that take no step learn the length of the weights: never worse than predicting nothing."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar

import uneven
from uneven.io import read_sources
from uneven.ledger import Ledger
from uneven.planner import Plan, make_plan
from uneven.planner.prediction import CURVATURES, choose_kept, expect_scale, predict_typical
from uneven.problem import Problem
from uneven.training import scan
from uneven.training.ahead import plan_ahead
from uneven.training.calibration import Direction, find_scale
from uneven.training.files import train_files
from uneven.training.job import _take_steps

NOISY = uneven.LocalPrivacy(0.5)
KEPT = 10


def draw(n=20_000, d=30, seed=0, signal=3.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-signal * X[:, 0] - 1.0)), 1, -1)


def noisy_plan(d, rows=4_000, kept=KEPT, noise=NOISY):
    return make_plan([uneven.Source("a", rows, noise)], Problem(d, 1e-3, 50, clip=0.5), kept=kept)


@pytest.mark.parametrize("share", CURVATURES)
def test_expected_scale_minimises_the_predicted_objective(share):
    plan = noisy_plan(25, 60_000, kept=0)
    run = predict_typical(plan.problem, plan.segments, share)
    scales = np.linspace(0, 1, 2001)
    excess = run.start * (1 - scales * (1 - np.sqrt(run.left))) ** 2 + scales**2 * run.noise
    assert run.best_scale == pytest.approx(scales[excess.argmin()], abs=1e-3)
    assert run.excess == pytest.approx(run.curvature / 2 * excess[-1])


def test_predicted_length_and_excess_are_those_of_simulated_steps():
    """The recursion in closed form, against steps on the quadratic itself, within four standard errors."""
    plan, rng = noisy_plan(5, 20_000, kept=0, noise=uneven.LocalPrivacy(1.0)), np.random.default_rng(0)
    run = predict_typical(plan.problem, plan.segments, 0.25)
    (segment,), optimum = plan.segments, np.full(5, np.sqrt(run.start / 5))
    noise, w, clock = np.sqrt(segment.step_moment / 5), np.zeros((400, 5)), 0.0
    for step in range(1, segment.steps + 1):
        clock += 1 / segment.step_moment
        eta = segment.schedule(step, segment.step_moment, clock)
        w -= eta * (run.curvature * (w - optimum) + noise * rng.normal(size=w.shape))
    for found, expected in (
        ((w**2).sum(axis=1), run.squared_length),
        (run.curvature / 2 * ((w - optimum) ** 2).sum(axis=1), run.excess),
    ):
        assert found.mean() == pytest.approx(expected, abs=4 * found.std() / 20 + 0.02 * expected)


@pytest.mark.parametrize("constant", [0.0, 0.25])
def test_without_noise_the_kept_rows_find_the_minimum_along_the_direction(constant):
    """Theorem D with many exact rows: what was expected is forgotten, and s minimises the objective."""
    X, y = draw(40_000, 8)
    X = np.column_stack([0.9 * X, np.full(len(X), constant)]) if constant else X
    weights = np.array([9.0, *np.full(7, 6.0), *([2.0] if constant else [])])
    plan = noisy_plan(len(weights), 400_000)
    plan = replace(plan, sources=(uneven.Source("a", 400_000),), problem=replace(plan.problem, clip=None))
    direction = Direction(weights, constant)
    found = find_scale(direction, {"a": (direction.describe_rows(X), y.astype(float))}, plan, seed=3)
    scores = np.clip(X @ weights, -direction.width, direction.width)

    def objective(s):
        return 0.5e-3 * s**2 * weights @ weights + np.logaddexp(0, -y * s * scores).mean()

    best = minimize_scalar(objective, bounds=(0, 1), method="bounded").x
    assert 0.05 < best < 0.5
    assert found == pytest.approx(best, abs=0.04)  # 40,000 rows: a standard error of about 0.01


@pytest.mark.parametrize("factor", [0.5, 1.5, 3.0])
def test_weights_that_are_better_than_nothing_stay_as_they_are(factor):
    """Along a quadratic f(w) < f(0) where the best s is above 1/2: there s is 1, and below it is the best s."""
    X, y = draw(40_000, 8)
    plan = noisy_plan(8, 400_000)
    plan = replace(plan, sources=(uneven.Source("a", 400_000),), problem=replace(plan.problem, clip=None))
    weights = np.array([3.0 * factor, *np.zeros(7)])
    direction = Direction(weights, 0.0)
    found = find_scale(direction, {"a": (direction.describe_rows(X), y.astype(float))}, plan, seed=3)
    scores = np.clip(X @ weights, -direction.width, direction.width)
    best = minimize_scalar(
        lambda s: 0.5e-3 * s**2 * weights @ weights + np.logaddexp(0, -y * s * scores).mean(), bounds=(0, 9)
    ).x
    assert (found == 1.0) == (best > 0.55)


def test_labels_without_signal_are_not_worse_than_predicting_nothing():
    """Steps alone end far above f(0) = log 2; with the length learned, most of that is gone."""
    X, _ = draw()
    above = {"auto": [], "precision": []}
    for seed in range(6):
        y = np.random.default_rng(seed).choice([-1, 1], len(X))
        for strategy, found in above.items():
            clf = uneven.UnevenClassifier(NOISY, strategy=strategy, row_norm=1.0, random_state=seed).fit(X, y)
            found.append(-np.log(clf.predict_proba(X)[np.arange(len(y)), (y > 0) * 1]).mean() - np.log(2))
            found[-1] += 5e-4 * (clf.coef_**2).sum()
            assert (clf.plan_.kept > 0) == (strategy == "auto")
    steps, auto = np.array(above["precision"]), np.array(above["auto"])
    assert steps.mean() > 0.05
    assert auto.mean() < 0.25 * steps.mean() + 2 * auto.std() / np.sqrt(6)


def test_a_row_takes_a_step_or_is_kept_and_none_does_both():
    for count in (5, 12, 4_003):
        taken = np.concatenate([_take_steps(first, min(7, count - first), 5) for first in range(0, count, 7)])
        assert (~taken).sum() == count // 5
        np.testing.assert_array_equal(taken, _take_steps(0, count, 5))
    assert _take_steps(0, 9, 0).all()


def test_rows_are_charged_once_and_the_plan_says_what_it_keeps(tmp_path):
    X, y = draw()
    clf = uneven.UnevenClassifier(NOISY, ledger=Ledger(tmp_path / "book"), row_norm=1.0)
    clf.fit(X, y, row_id=np.arange(len(y)))
    assert clf.privacy_spent_ == {"data": 0.5}
    assert clf.plan_.kept == KEPT
    assert sum(segment.rows for segment in clf.plan_.segments) == len(y) - len(y) // KEPT
    assert "Keep one row in 10 of each source" in " ".join(clf.plan_.summary().split())
    assert "No bound is promised: rows that take no step" in clf.plan_.summary()
    assert Plan.from_dict(json.loads(json.dumps(clf.plan_.to_dict()))) == clf.plan_
    clf.save(tmp_path / "model.json")
    assert uneven.UnevenClassifier.load(tmp_path / "model.json").plan_ == clf.plan_
    with pytest.raises(ValueError, match="learned the length of the weights"):
        clf.partial_fit(X, y)


@pytest.mark.parametrize("held", [True, False])
def test_both_doors_and_streams_give_the_same_model(tmp_path, held):
    X, y = draw()
    names = [f"x{j:02d}" for j in range(X.shape[1])]
    pd.DataFrame(X, columns=names).assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    text = '[[source]]\nname = "rows"\ndata = "rows.csv"\nnoise = { kind = "local-privacy", epsilon = 0.5 }\n'
    (tmp_path / "sources.toml").write_text('label = "y"\nrow_norm = 1.0\nclasses = [-1, 1]\n' + text)
    file = read_sources(tmp_path / "sources.toml")
    trained = train_files(file, seed=4, held_bytes=scan.HELD_BYTES if held else 0)
    clf = uneven.UnevenClassifier({"rows": NOISY}, random_state=4, row_norm=1.0)
    clf.fit(X, y, source=np.full(len(y), "rows"))
    assert trained.plan == clf.plan_ == plan_ahead(file)[0]
    assert trained.plan.kept == KEPT
    np.testing.assert_array_equal(trained.model.coef, clf.coef_)
    assert any("private rows that took no step" in note for note in trained.trained.notes)


@pytest.mark.parametrize(
    "changed",
    [
        {"strategy": "precision"},
        {"loss": "hinge"},
        {"passes": 1},
        {"noise": uneven.LocalPrivacy(20.0)},
        {"noise": uneven.SitePrivacy(0.5)},
        {"noise": uneven.LocalPrivacy(1e-3)},
    ],
)
def test_nothing_is_kept_where_steps_are_asked_for_or_it_does_not_pay(changed):
    X, y = draw()
    clf = uneven.UnevenClassifier(**{"noise": NOISY, "random_state": 0, "row_norm": 1.0, **changed}).fit(X, y)
    assert clf.plan_.kept == 0
    assert "rows that take no step" not in clf.plan_.void


def test_more_rows_keep_a_smaller_share():
    """Twice the rows need half the share for the same standard error; very few rows cannot say anything."""
    found = []
    for rows in (2_000, 100_000, 400_000, 800_000):
        plan = noisy_plan(54, rows, kept=0, noise=uneven.LocalPrivacy(0.3))
        assert expect_scale(plan.problem, plan.segments) < 0.5
        found.append(choose_kept(plan.problem, plan.sources, plan.segments))
    assert found[0] == 0
    assert found[1] == KEPT
    assert KEPT < found[2] < found[3]
