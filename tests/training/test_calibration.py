"""Rows that take no step learn the length of the weights: never worse than predicting nothing."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm
from sklearn.metrics import log_loss

import uneven
from uneven.io import read_sources
from uneven.ledger import Ledger
from uneven.planner import Plan, choose_kept_batch, expect_missed, make_plan, measure_slopes
from uneven.planner.prediction import CURVATURES, CUT, FAINT, FLATTER, SPREAD, choose_kept, predict_typical
from uneven.problem import Problem
from uneven.settings import Settings
from uneven.training import keep_rows, scan
from uneven.training.ahead import plan_ahead
from uneven.training.calibration import (
    DOUBTFUL,
    FLOOR,
    LONGEST,
    SLIGHT,
    WIDER,
    Direction,
    choose_weight_scale,
    doubt_spread,
    expect_deviation,
    find_scale,
    learn_scale,
)
from uneven.training.class_calibration import ClassDirection, learn_class_scale, list_kept
from uneven.training.files import train_files
from uneven.training.job import CLASS, LENGTH, STEP, _divide

NOISY = uneven.LocalPrivacy(0.5)
KEPT, TOLD = 10, 7
"""One row in so many is kept: to learn the length, and beside it the shares of the classes."""


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


def exact_plan(d, rows=400_000):
    plan = noisy_plan(d, rows)
    return replace(plan, sources=(uneven.Source("a", rows),), problem=replace(plan.problem, clip=None))


def expect_cut(direction):
    """E u², E uv and E v² of scores u ~ N(b, spread²) and v, u cut at the width; by integration."""
    b, width = direction.intercept, direction.width
    scores = np.linspace(b - 9 * direction.spread, b + 9 * direction.spread, 200_001)
    weight = norm.pdf(scores, b, direction.spread)
    cut = np.clip(scores, -width, width)
    return [np.trapezoid(x * weight, scores) for x in (scores**2, scores * cut, cut**2)]


def test_a_run_of_two_sources_alike_is_that_of_one():
    """What is left of the start and of earlier noise fades in later segments too."""
    problem = Problem(5, 1e-3, 50, clip=0.5)
    one = noisy_plan(5, 20_000, kept=0)
    two = make_plan([uneven.Source(name, 10_000, NOISY) for name in "ab"], problem)
    assert [segment.rows for segment in two.segments] == [10_000, 10_000]
    single, double = (predict_typical(problem, plan.segments, 0.25) for plan in (one, two))
    assert (double.left, double.noise) == pytest.approx((single.left, single.noise))


@pytest.mark.parametrize("constant", [0.0, 0.25])
def test_without_noise_the_kept_rows_find_the_minimum_along_the_direction(constant):
    """Theorem D with many exact rows: the start is forgotten; s minimises the loss of cut scores and the penalty."""
    X, y = draw(40_000, 8)
    X = np.column_stack([0.9 * X, np.full(len(X), constant)]) if constant else X
    weights = np.array([9.0, *np.full(7, 6.0), *([2.0] if constant else [])])
    direction, slopes = Direction(weights, constant), weights[:8]
    assert direction.spread == pytest.approx(SPREAD * np.linalg.norm(slopes) / np.sqrt(8))
    assert direction.width == pytest.approx(CUT * direction.spread + 2.0 * constant)
    rows = {"a": (direction.describe_rows(X), y.astype(float))}
    found, known = learn_scale(direction, rows, exact_plan(len(weights)), seed=3)
    scores = np.clip(X @ weights, -direction.width, direction.width)
    whole, mixed, cut = (0.25 * FLATTER * one for one in expect_cut(direction))
    curvature = mixed / whole * (whole + 1e-3 * weights @ weights)

    def objective(s):
        return 0.5 * (curvature - cut) * s**2 + np.logaddexp(0, -y * s * scores).mean()

    best = minimize_scalar(objective, bounds=(0, 2), method="bounded").x
    assert 0.05 < best < 0.8
    assert found == pytest.approx(best, abs=0.02)  # 40,000 rows: a standard error of about 0.005
    assert known == pytest.approx((curvature / direction.width) ** 2 * 40_000, rel=1e-3)  # of variance C² = 1 a row


@pytest.mark.parametrize("alpha", [1e-4, 1e-2])
def test_cut_scores_find_the_length_that_is_best_for_whole_ones(alpha):
    """Normal scores of the spread expected, and labels that they hardly tell: the objective is a quadratic."""
    rng = np.random.default_rng(0)
    X = SPREAD * rng.normal(size=(400_000, 20)) / np.sqrt(20)
    weights, plan = np.full(20, 0.3), exact_plan(20)
    y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(-0.5 * X @ weights)), 1.0, -1.0)
    plan, direction = replace(plan, problem=replace(plan.problem, alpha=alpha)), Direction(weights, 0.0)
    found, known = learn_scale(direction, {"a": (direction.describe_rows(X), y)}, plan, seed=0)
    best = minimize_scalar(
        lambda s: alpha / 2 * s**2 * weights @ weights + np.logaddexp(0, -y * s * (X @ weights)).mean()
    )
    assert found == pytest.approx(best.x, abs=5 / np.sqrt(known))


def test_the_length_found_is_as_certain_as_it_is_said_to_be():
    """Labels without signal: 200 runs of m, whose mean is 0 and whose standard deviation is √known/(1 + known).

    One number is released by randomised response, of variance C²/tanh²(ε/2) a row.
    """
    X = SPREAD * np.random.default_rng(0).normal(size=(2_000, 10)) / np.sqrt(10)
    y = np.where(np.arange(len(X)) % 2 == 0, 1.0, -1.0)  # independent of the rows
    direction, plan = Direction(np.full(10, 2.0), 0.0), noisy_plan(10, 20_000)
    rows = {"a": (direction.describe_rows(X), y)}
    runs = [learn_scale(direction, rows, plan, 0, run) for run in range(200)]
    found, known = np.array(runs).T
    assert np.ptp(known) == 0.0
    assert 0.3 < known[0] < 30.0
    whole, mixed, _ = (0.25 * FLATTER * one for one in expect_cut(direction))
    curvature = mixed / whole * (whole + 1e-3 * 40.0)
    information = len(X) * (np.tanh(0.25) / 0.5) ** 2
    assert known[0] == pytest.approx((curvature / direction.width) ** 2 * information, rel=1e-3)
    expected = np.sqrt(known[0]) / (1.0 + known[0])
    # Four standard errors, and a tenth: the clip halves the curvature of scores that were cut.
    assert found.std() == pytest.approx(expected, rel=4 / np.sqrt(2 * 200) + 0.1)
    assert abs(found.mean()) < 4 * expected / np.sqrt(200) + 0.05  # the rows as drawn have a mean of their own


@pytest.mark.slow
def test_what_is_chosen_is_never_much_worse_than_nothing():
    """E s² - 2sθ is f(sw) - f(0) for a best length θ, in units of f(w) - f(0) at θ = 0; and 2θs - s² ≤ θ² is gained."""
    z = np.random.default_rng(0).normal(size=20_000)
    for known in (0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1e4):
        for best in (0.0, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2):
            found = (best + z / np.sqrt(known)) * known / (1.0 + known)
            chosen = np.array([choose_weight_scale(m, known) for m in found])
            assert (chosen**2 - 2 * chosen * best).mean() < 0.03
            if known >= 100.0 and best >= 0.8:
                assert (chosen**2 - 2 * chosen * best).mean() == pytest.approx(1 - 2 * best, abs=0.01)


@pytest.mark.parametrize("r", [1.0, 1.5, WIDER])
def test_scores_that_spread_more_than_expected_do_no_harm(r):
    """Of r times the spread the best s is θ = rg/(r²k + p), where g/(k + p) is found; s² - 2sθ is f(sw) - f(0)."""
    direction, problem = Direction(np.full(10, 3.0), 0.0), Problem(10, 1e-3, 50, clip=0.5)
    own, squared = 0.25 * FLATTER * direction.spread**2, 90.0
    for k, p in ((1.0, 0.1), (1.0, 1.0), (1.0, 3.0), (0.1, 1.0)):
        uneasy = doubt_spread(direction, replace(problem, alpha=own * p / k / squared))
        for g in np.linspace(0.02, SLIGHT, 40) * (k + p):
            best = r * g / (r**2 * k + p)
            chosen = choose_weight_scale(g / (k + p), 1e12, uneasy=uneasy)
            assert chosen**2 - 2 * chosen * best < 1e-9
    assert doubt_spread(direction, replace(problem, alpha=1e3)) == 0.0  # a steep penalty: the spread does not matter


def test_steps_that_end_early_start_kept_rows_from_an_s_that_may_be_large():
    """Up to half of what the strongest signal would need is a standard deviation; but no s found lengthens weights."""
    early, late = (noisy_plan(25, 60_000, noise=uneven.LocalPrivacy(epsilon)) for epsilon in (0.1, 3.0))
    assert expect_deviation(late) == 1.0
    assert expect_deviation(early) > 1.3
    run = predict_typical(early.problem, early.segments, CURVATURES[1])
    learned, strongest = 1 - np.sqrt(run.left), early.problem.ball**2
    assert expect_deviation(early) == pytest.approx(
        learned * strongest / (learned**2 * strongest + run.noise) / 2, rel=1e-9
    )
    assert [choose_weight_scale(m, 1e12, prior=1.5) for m in (0.1, 0.7, 1.2, 3.0)] == pytest.approx([0.12, 1, 1, 1])


def test_steps_that_kept_rows_did_not_take_are_made_up_for():
    """Where the clock hardly moves, weights grow with the number of rows that step; elsewhere not at all.

    Weights that would be left as they are get that length, if it is better than nothing and steps end early; and at
    most that of one row in five.
    """
    for epsilon, expected in ((0.01, KEPT / (KEPT - 1.0)), (30.0, 1.0)):
        kept, whole = (noisy_plan(25, 60_000, n, uneven.LocalPrivacy(epsilon)) for n in (KEPT, 0))
        assert expect_missed(kept.problem, kept.segments, whole.segments) == pytest.approx(expected, abs=1e-3)
    lengths = [choose_weight_scale(m, 1e12, prior=1.5, missed=1.2) for m in (0.1, 0.55, 0.7, 1.3, 3.0)]
    assert lengths == pytest.approx([0.12, 1.1, 1.2, 1.2, 1.2], rel=1e-4)
    assert choose_weight_scale(3.0, 1e12, prior=5.0, missed=2.0) == LONGEST == 1.25
    assert choose_weight_scale(0.7, 1e12, prior=1.0, missed=1.25) == 1.0


def test_the_hinge_is_protected_too():
    """Labels without signal: its mean loss is that of predicting nothing, 1, where steps alone are far above."""
    X, _ = draw()
    y = np.random.default_rng(1).choice([-1, 1], len(X))
    above = []
    for strategy in ("auto", "precision"):
        clf = uneven.UnevenClassifier(NOISY, loss="hinge", strategy=strategy, row_norm=1.0, random_state=0).fit(X, y)
        penalty = 5e-4 * float((clf.coef_**2).sum())
        above.append(np.maximum(0.0, 1.0 - y * clf.decision_function(X)).mean() + penalty - 1.0)
        assert (clf.plan_.kept > 0) == (strategy == "auto")
    assert above[0] < 0.01
    assert above[1] > 0.5


def test_the_hinge_keeps_what_a_signal_brought():
    """Few rows of a fair direction are enough: it is better than nothing and as good as steps alone in accuracy."""
    X, y = draw(20_000, 30, signal=15.0)
    found = {}
    for strategy in ("auto", "precision"):
        clf = uneven.UnevenClassifier(
            uneven.LocalPrivacy(4.0), loss="hinge", strategy=strategy, row_norm=1.0, random_state=0
        ).fit(X, y)
        found[strategy] = clf.score(X, y), np.maximum(0.0, 1.0 - y * clf.decision_function(X)).mean()
    assert found["auto"][0] > found["precision"][0] - 0.02
    assert found["auto"][1] < 0.8


def test_a_length_that_is_known_is_the_best_one_or_left():
    assert [choose_weight_scale(m, 1e12) for m in (-1.0, 0.0, 0.5001, 0.9, 3.0)] == [FLOOR, FLOOR, 1.0, 1.0, 1.0]
    assert choose_weight_scale(0.02, 1e12) == pytest.approx(0.02, rel=0.05)
    lengths = [choose_weight_scale(m, 1e12) for m in np.linspace(0.01, 0.5, 50)]
    assert all(0 < a < b for a, b in pairwise(lengths))
    assert all(s < 2 * m + 1e-6 for s, m in zip(lengths, np.linspace(0.01, 0.5, 50), strict=True))
    assert choose_weight_scale(1.0, 0.0) == 1.0
    assert choose_weight_scale(0.4, 1.0) == FLOOR  # 1.5 standard errors of 0.5


@pytest.mark.parametrize("factor", [0.5, 1.5, 3.0])
def test_weights_that_are_better_than_nothing_stay_as_they_are(factor):
    """Along a quadratic f(w) < f(0) where the best s is above 1/2: there s is 1, and below it is less."""
    X, y = draw(40_000, 8)
    weights = np.array([3.0 * factor, *np.zeros(7)])
    direction = Direction(weights, 0.0)
    rows = {"a": (direction.describe_rows(X), y.astype(float))}
    best, known = learn_scale(direction, rows, exact_plan(8), seed=3)
    assert known > 40.0  # a standard error below 0.15
    assert (find_scale(direction, rows, exact_plan(8), seed=3) == 1.0) == (best > 0.5 + 1.5 / np.sqrt(known))


def test_weights_of_zero_stay():
    direction = Direction(np.zeros(3), 0.5)
    assert find_scale(direction, {}, exact_plan(3), seed=0) == 1.0


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


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("noise", [uneven.SitePrivacy(0.1), uneven.SitePrivacy(2.0)])
def test_site_privacy_is_not_worse_than_predicting_nothing_without_a_signal(classes, noise):
    """The sum of a batch of kept rows is released once; steps alone are above log K by far more."""
    X, found = draw(5_000, 20)[0], {"auto": [], "precision": []}
    for seed in range(6):
        y = np.random.default_rng(seed).integers(0, classes, len(X))
        for strategy, above in found.items():
            how = {"strategy": strategy, "row_norm": 1.0, "random_state": seed, "classes": list(range(classes))}
            clf = uneven.UnevenClassifier(noise, **how).fit(X, y)
            above.append(log_loss(y, clf.predict_proba(X)) - np.log(classes))
            assert (clf.plan_.kept > 0) == (strategy == "auto")
            assert any("This machine read the rows" in note for note in clf.notes_)
    auto, steps = np.array(found["auto"]), np.array(found["precision"])
    assert auto.mean() < 0.1 * steps.mean() + 2 * auto.std() / np.sqrt(6)
    assert steps.mean() > 0.001


def draw_aligned(d, seed):
    """Rows of a norm near 1 along one direction, 65% on the side of their class."""
    rng, n = np.random.default_rng(seed), 24_000
    side = rng.choice([-1.0, 1.0], n)
    X = rng.normal(size=(n, d)) * 0.1 / np.sqrt(d)
    X[:, 0] += side * rng.uniform(0.8, 0.9, n)
    return X, np.where(rng.random(n) < 0.65, side, -side)


def draw_positive(d, seed):
    """Columns of one sign, and classes that their mean tells less than their differences: without an intercept."""
    rng, n = np.random.default_rng(seed), 24_000
    X, direction = np.abs(rng.normal(size=(n, d))) / np.sqrt(d), np.random.default_rng(99).normal(size=d)
    score = 4.0 * (X - X.mean(axis=0)) @ direction + 2.0 * np.log(4.0)
    X /= np.maximum(1.2, np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-score)), 1.0, -1.0)


@pytest.mark.parametrize(
    ("drawn", "d", "epsilon", "intercept"),
    [(draw_aligned, 200, 0.1, True), (draw_aligned, 200, 0.3, True), (draw_positive, 50, 0.05, False)],
)
def test_scores_that_spread_far_more_than_expected_are_not_worse_than_nothing(drawn, d, epsilon, intercept):
    """Up to 35 times as much: from cut scores an s of 4 was found, and log-loss was above log 2 by 0.1 to 0.3."""
    above = []
    for seed in range(6):
        X, y = drawn(d, seed)
        clf = uneven.UnevenClassifier(
            uneven.SitePrivacy(epsilon), fit_intercept=intercept, row_norm=1.0, random_state=seed
        ).fit(X[:20_000], y[:20_000])
        above.append(np.logaddexp(0.0, -y[20_000:] * clf.decision_function(X[20_000:])).mean() - np.log(2))
        assert clf.plan_.kept > 0
    assert np.mean(above) < 2 * np.std(above, ddof=1) / np.sqrt(6)


def test_kept_rows_of_a_site_are_released_together():
    """So many that the noise added once is small beside their own, all of them where they are few."""
    problem = Problem(20, 1e-3, 50, clip=0.5)
    for epsilon, rows, expected in ((0.1, 5_000, 3_200), (0.1, 900, 900), (2.0, 5_000, 50), (2.0, 100, 8)):
        slopes = measure_slopes(uneven.SitePrivacy(epsilon), problem)
        assert slopes.per_batch / slopes.per_row == pytest.approx(8 / epsilon**2)
        assert choose_kept_batch(slopes, 50, rows) == expected
    assert choose_kept_batch(measure_slopes(NOISY, problem), 50, 900) == 9


@pytest.mark.parametrize("tellers", [0, 2])
def test_a_row_takes_a_step_or_is_kept_for_one_thing(tellers):
    for count in (5, 12, 4_003):
        parts = np.concatenate([_divide(first, min(7, count - first), 5, tellers) for first in range(0, count, 7)])
        told = count // 5 // tellers if tellers else 0
        assert [(parts == part).sum() for part in (STEP, LENGTH, CLASS)] == [
            count - count // 5,
            count // 5 - told,
            told,
        ]
        np.testing.assert_array_equal(parts, _divide(0, count, 5, tellers))
    assert (_divide(0, 9, 0, tellers) == STEP).all()


def test_rows_are_charged_once_and_the_plan_says_what_it_keeps(tmp_path):
    X, y = draw()[0], np.random.default_rng(0).choice([-1, 1], 20_000)
    clf = uneven.UnevenClassifier(NOISY, ledger=Ledger(tmp_path / "book"), row_norm=1.0)
    clf.fit(X, y, row_id=np.arange(len(y)))
    assert clf.privacy_spent_ == {"data": 0.5}
    assert clf.plan_.kept == TOLD
    assert sum(segment.rows for segment in clf.plan_.segments) == len(y) - len(y) // TOLD
    summary = " ".join(clf.plan_.summary().split())
    assert "Keep one row in 7 of each source to set the length of the weights and the shares of the classes" in summary
    assert "The weights are expected to shrink to about" in summary or "The length is expected to stay" in summary
    assert "No bound is promised: rows that take no step" in clf.plan_.summary()
    assert Plan.from_dict(json.loads(json.dumps(clf.plan_.to_dict()))) == clf.plan_
    clf.save(tmp_path / "model.json")
    assert uneven.UnevenClassifier.load(tmp_path / "model.json").plan_ == clf.plan_
    with pytest.raises(ValueError, match="learned another length for the weights: later steps would undo it"):
        clf.partial_fit(X, y)


def test_more_rows_go_on_where_the_kept_ones_left_the_weights_as_they_are():
    X, y = draw(signal=30.0)
    clf = uneven.UnevenClassifier(uneven.LocalPrivacy(6.0), row_norm=1.0, random_state=0).fit(X, y)
    assert clf.plan_.kept
    assert "no rescaling was needed" in clf.notes_[-2]
    before = clf.coef_
    clf.partial_fit(X[:100], y[:100], row_id=np.arange(100))
    assert 0 < np.linalg.norm(clf.coef_ - before) < 0.2 * np.linalg.norm(before)


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
    assert trained.plan.kept == TOLD
    np.testing.assert_array_equal(trained.model.coef, clf.coef_)
    assert any("private rows were held back to calibrate" in note for note in trained.trained.notes)


@pytest.mark.parametrize(
    "changed",
    [
        {"strategy": "precision"},
        {"loss": "linear"},
        {"passes": 1},
        {"noise": uneven.LocalPrivacy(20.0), "fit_intercept": False},
    ],
)
def test_nothing_is_kept_where_steps_are_asked_for_or_noise_is_negligible(changed):
    X, y = draw(100_000, 3)
    clf = uneven.UnevenClassifier(**{"noise": NOISY, "random_state": 0, "row_norm": 1.0, **changed}).fit(X, y)
    assert clf.plan_.kept == 0
    assert "rows that take no step" not in clf.plan_.void


GRID = [(n, d, epsilon) for n in (1_000, 50_000, 1_000_000) for d in (5, 10, 100) for epsilon in (0.05, 0.1, 1.0, 10.0)]


@pytest.mark.parametrize(("n", "d", "epsilon"), GRID)
def test_rows_are_kept_exactly_where_a_faint_signal_would_end_above_nothing(n, d, epsilon):
    plan = noisy_plan(d, n, kept=0, noise=uneven.LocalPrivacy(epsilon))
    run = predict_typical(plan.problem, plan.segments, CURVATURES[1])
    faint = FAINT * run.start
    above = run.curvature / 2 * (faint * run.left + run.noise - faint) > 0.0
    assert (choose_kept(plan.problem, plan.sources, plan.segments) > 0) == above


def test_more_rows_keep_a_smaller_share():
    """Twice the rows need half the share for the same standard error; one row in ten at most, or in five of few rows.

    One in 25 at most where even a weak signal is expected to end better than nothing.
    """

    def choose(rows, epsilon):
        plan = noisy_plan(54, rows, kept=0, noise=uneven.LocalPrivacy(epsilon))
        return choose_kept(plan.problem, plan.sources, plan.segments)

    found = [choose(rows, 0.3) for rows in (2_000, 50_000, 1_600_000, 3_200_000)]
    assert found[:2] == [5, KEPT]
    assert KEPT < found[2] < found[3]
    assert [choose(20_000, epsilon) for epsilon in (0.5, 4.0, 8.0)] == [KEPT, 36, 25]
    assert {choose(rows, 0.3) for rows in range(2_000, 50_000, 250)} == {5, 6, 7, 8, 9, 10}


@pytest.mark.parametrize("d", [5, 25, 100])
def test_more_rows_and_a_larger_epsilon_never_raise_the_predicted_excess(d):
    """Also where rows are kept no longer. Where they are, it is at most that of predicting nothing."""

    def predict(n, epsilon):
        plan = noisy_plan(d, int(n), kept=0, noise=uneven.LocalPrivacy(float(epsilon)))
        return keep_rows(plan, Settings(fit_intercept=False))

    for plans in ([predict(n, epsilon) for n in np.geomspace(300, 1e6, 40)] for epsilon in (0.1, 1.0)):
        assert {plan.kept > 0 for plan in plans} >= {True}
        excess = [plan.predicted_excess for plan in plans]
        assert all(b <= a * (1 + 1e-9) for a, b in pairwise(excess))
    plans = [predict(400_000, epsilon) for epsilon in np.geomspace(0.03, 20, 60)]
    assert {plan.kept > 0 for plan in plans} == {True, False}
    excess = [plan.predicted_excess for plan in plans]
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(excess))
    nothing = [predict_typical(plans[0].problem, plans[0].segments, c) for c in CURVATURES]
    assert excess[0] <= np.prod([run.curvature / 2 * run.start for run in nothing]) ** (1 / 3) * (1 + 1e-9)


def test_a_source_of_few_rows_keeps_none_and_the_others_do(tmp_path):
    X, y = draw()
    source = np.where(np.arange(len(y)) < 3, "tiny", "large")
    noises = {"tiny": uneven.LocalPrivacy(0.01), "large": NOISY}
    clf = uneven.UnevenClassifier(noises, row_norm=1.0, random_state=0, ledger=Ledger(tmp_path / "book"))
    clf.fit(X, y, source=source, row_id=np.arange(len(y)))
    assert clf.plan_.kept == TOLD
    stepped = {segment.sources[0]: segment.rows for segment in clf.plan_.segments}
    assert stepped == {"tiny": 3, "large": len(y) - 3 - (len(y) - 3) // TOLD}
    assert f"{(len(y) - 3) // TOLD:,} private rows were held back to calibrate" in clf.notes_[-2]


def test_one_row_with_an_epsilon_of_its_own_does_not_keep_others_from_learning_the_length():
    X, y = draw()
    epsilon = np.where(np.arange(len(y)) == 7, 1e-3, 0.5)
    clf = uneven.UnevenClassifier(row_norm=1.0, random_state=0).fit(X, y, epsilon=epsilon)
    assert clf.plan_.kept == TOLD


def test_another_level_of_noise_keeps_the_same_rows():
    """`sensitivity` predicts for the steps that are left, and no more than the excess of predicting nothing."""
    plan = noisy_plan(30, 20_000)
    low, high = plan.sensitivity()
    for change in (low, high):
        again = noisy_plan(30, 20_000, noise=uneven.LocalPrivacy(change.actual))
        assert change.excess == again.predicted_excess
    assert low.excess > high.excess
    assert low.excess != noisy_plan(30, 20_000, kept=0, noise=uneven.LocalPrivacy(0.25)).predicted_excess


# More than two classes


def draw_classes(n=40_000, d=8, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    X = SPREAD * rng.normal(size=(n, d)) / np.sqrt(d)
    W = rng.normal(size=(classes, d))
    return X, W, (X @ (4.0 * W).T + rng.gumbel(size=(n, classes))).argmax(axis=1)


def class_plan(d, classes, rows=400_000, noise=None):
    problem = Problem(d * classes, 1e-3, 50, clip=0.5, classes=classes)
    plan = make_plan([uneven.Source("a", rows, NOISY)], problem, kept=KEPT)
    return plan if noise is None else replace(plan, sources=(uneven.Source("a", rows, noise),))


@pytest.mark.parametrize("noise", [uneven.Exact(), uneven.FlippedLabels(0.3)])
def test_without_noise_kept_rows_of_more_classes_find_where_the_mean_slope_is_zero(noise):
    """Theorem D with many exact rows; flipped labels are corrected for. Slopes by hand, from whole scores."""
    X, W, y = draw_classes()
    direction = ClassDirection(8.0 * W.ravel(), 0.0, 4)
    flips, rng = noise != uneven.Exact(), np.random.default_rng(1)
    seen = np.where(rng.random(len(y)) < 0.3, (y + rng.integers(1, 4, len(y))) % 4, y) if flips else y
    plan = class_plan(8, 4, noise=noise)
    found, known = learn_class_scale(direction, {"a": (direction.describe_rows(X), seen.astype(float))}, plan, seed=0)
    scores, penalty = 8.0 * X @ W.T, 1e-3 * 64.0 * (W**2).sum()
    inside = 2.0 * norm.cdf(direction.width / direction.spread) - 1.0

    def slope(s):
        p = np.exp(s * scores - np.log(np.exp(s * scores).sum(axis=1, keepdims=True)))
        rows = (p * scores).sum(axis=1) - scores[np.arange(len(y)), y]
        return np.clip(rows, -direction.width, direction.width).mean() + inside * penalty * s

    best = brentq(slope, 0.0, 3.0)
    assert 0.2 < best < 0.6
    assert found == pytest.approx(best, abs=0.05 if flips else 0.02)
    assert known > 1_000.0


def test_two_classes_as_softmax_are_the_logistic_case():
    """Weights -w/2 and w/2 have the scores of w, the same best length along a quadratic, and half the squared norm."""
    X, y = draw(40_000, 8)
    w = np.array([9.0, *np.full(7, 6.0)])
    both = ClassDirection(np.concatenate([-w / 2, w / 2]), 0.0, 2)
    scores = both.describe_rows(X).astype(float) * both._unit * both.width
    np.testing.assert_allclose(scores[:, 1] - scores[:, 0], X @ w, atol=1e-4)
    p = 1 / (1 + np.exp(-0.3 * X @ w))
    expected = (p - (y > 0)) * (X @ w) / both.width
    slopes = both.slopes(both.describe_rows(X), 0.3, np.eye(2)[(y > 0).astype(int)])
    np.testing.assert_allclose(slopes, np.clip(expected, -1, 1), atol=1e-4)


def test_a_release_of_a_slope_is_charged_as_one_number_within_its_bound():
    """However long the weights and whatever the correction of labels: no slope is above the bound of the release."""
    X, W, y = draw_classes(500)
    for noise in (NOISY, NOISY & uneven.FlippedLabels(0.4)):
        direction = ClassDirection(1e4 * W.ravel(), 0.0, 4)
        targets = noise.weighted_targets((1.0, 0.5, 1.0, 1.0))[y]
        slopes = direction.slopes(direction.describe_rows(X), 1.0, targets)
        assert np.abs(slopes).max() <= noise.amplification(4) * (1 + 1e-12)
        assert np.abs(slopes).max() > 0.5 * noise.amplification(4)


@pytest.mark.slow
def test_the_length_of_more_classes_is_as_certain_as_it_is_said_to_be():
    """Labels without signal: 200 runs, mean 0 and standard deviation √known/(1 + known), within four errors and 15%."""
    X, W, _ = draw_classes(4_000)
    y = (np.arange(len(X)) % 4).astype(float)
    direction, plan = ClassDirection(2.0 * W.ravel(), 0.0, 4), class_plan(8, 4, 40_000)
    rows = {"a": (direction.describe_rows(X), y)}
    found, known = np.array([learn_class_scale(direction, rows, plan, 0, run) for run in range(200)]).T
    assert np.ptp(known) == 0.0
    expected = np.sqrt(known[0]) / (1.0 + known[0])
    assert found.std() == pytest.approx(expected, rel=4 / np.sqrt(400) + 0.15)
    assert abs(found.mean()) < 4 * expected / np.sqrt(200) + 0.05


@pytest.mark.parametrize("held", [True, False])
def test_more_classes_without_signal_are_not_worse_than_predicting_nothing(tmp_path, held):
    """Both doors and streams give the same model, whose mean loss is that of predicting nothing; steps alone do not."""
    X, _, _ = draw_classes(20_000, 30, 3)
    y = np.random.default_rng(0).integers(3, size=len(X))
    names = [f"x{j:02d}" for j in range(30)]
    pd.DataFrame(X, columns=names).assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    text = '[[source]]\nname = "rows"\ndata = "rows.csv"\nnoise = { kind = "local-privacy", epsilon = 0.5 }\n'
    (tmp_path / "sources.toml").write_text('label = "y"\nrow_norm = 1.0\nclasses = [0, 1, 2]\n' + text)
    file = read_sources(tmp_path / "sources.toml")
    trained = train_files(file, seed=4, held_bytes=scan.HELD_BYTES if held else 0)
    options = {"random_state": 4, "row_norm": 1.0, "classes": [0, 1, 2]}
    clf, steps = (
        uneven.UnevenClassifier({"rows": NOISY}, strategy=strategy, **options).fit(X, y, source=np.full(len(y), "rows"))
        for strategy in ("auto", "precision")
    )
    assert trained.plan == clf.plan_ == plan_ahead(file)[0]
    assert trained.plan.kept == TOLD
    np.testing.assert_array_equal(trained.model.coef, clf.coef_)

    def measure(model):
        loss = -np.log(model.predict_proba(X)[np.arange(len(y)), y]).mean() - np.log(3)
        return loss + 5e-4 * (model.coef_**2).sum()

    assert measure(steps) > 0.05
    assert measure(clf) < 0.25 * measure(steps)


def test_kept_rows_are_used_the_noisiest_first():
    """Sources with kept rows that are among those given; a site's noise is that of all its kept rows together."""
    noises = {"a": uneven.LocalPrivacy(1.0), "b": uneven.LocalPrivacy(0.3), "c": uneven.SitePrivacy(0.3)}
    noises |= {"d": uneven.LocalPrivacy(0.1), "tiny": uneven.LocalPrivacy(0.01)}
    sources = [uneven.Source(name, 5 if name == "tiny" else 4_000, noise) for name, noise in noises.items()]
    plan = make_plan(sources, Problem(20, 1e-3, 50, clip=0.5), kept=KEPT)
    listed = list_kept(["a", "b", "c", "tiny"], plan)
    assert [(name, rows) for name, rows, _ in listed] == [("b", 400), ("a", 400), ("c", 400)]
    energies = [rows * slopes.at(rows) for _, rows, slopes in listed]
    assert energies == sorted(energies, reverse=True)


@pytest.mark.slow
def test_the_length_of_flipped_classes_is_as_certain_as_it_is_said_to_be():
    """Private rows of three classes, labels flipped: slopes are up to A long, and the release is for that bound.

    Labels without signal, 200 runs: mean 0, standard deviation √known/(1 + known), as for two classes.
    """
    noise, rng = uneven.LocalPrivacy(1.0) & uneven.FlippedLabels(0.2), np.random.default_rng(0)
    X, y = SPREAD * rng.normal(size=(3_000, 8)) / np.sqrt(8), rng.integers(0, 3, 3_000).astype(float)
    problem = Problem(24, 1e-3, 50, clip=0.5, classes=3)
    plan = make_plan([uneven.Source("a", 30_000, noise)], problem, kept=KEPT)
    weights = rng.normal(size=(3, 8))
    direction = ClassDirection(4.0 * (weights - weights.mean(axis=0)).ravel(), 0.0, 3)
    rows = {"a": (direction.describe_rows(X), y)}
    found, known = np.array([learn_class_scale(direction, rows, plan, 0, run) for run in range(200)]).T
    assert np.ptp(known) == 0.0
    assert 1.0 < known[0] < 200.0
    expected = np.sqrt(known[0]) / (1.0 + known[0])
    assert found.std() == pytest.approx(expected, rel=4 / np.sqrt(2 * 200) + 0.15)  # "quiet" plans half the activity
    assert abs(found.mean()) < 4 * expected / np.sqrt(200) + 0.1


@pytest.mark.parametrize(
    "changed", [{"loss": "linear"}, {"strategy": "precision"}, {"passes": 2}, {"strategy": "two-rates"}]
)
@pytest.mark.parametrize("epsilon", [0.5, 20.0])
def test_a_fit_says_where_noisy_weights_are_not_protected(changed, epsilon):
    X, y = draw()
    clf = uneven.UnevenClassifier(uneven.LocalPrivacy(epsilon), row_norm=1.0, random_state=0, **changed).fit(X, y)
    assert any("no better than predicting nothing, and none of them was kept" in note for note in clf.notes_) == (
        epsilon < 1.0
    )


def test_more_and_more_rows_are_said_to_be_enough():
    """`partial_fit` keeps none: it says so until a typical signal is expected to be better than nothing."""
    X, y = draw(20_000, 5)
    clf, doubts = uneven.UnevenClassifier(uneven.LocalPrivacy(1.0), row_norm=1.0, random_state=0), []
    for first in (0, 200, 400, 10_000):
        rows = slice(first, first + 200 if first < 1_000 else None)
        clf.partial_fit(X[rows], y[rows], row_id=np.arange(len(y))[rows])
        doubts.append(DOUBTFUL in clf.notes_)
    assert doubts[0]
    assert not doubts[-1]
    assert doubts == sorted(doubts, reverse=True)
