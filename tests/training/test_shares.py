"""Kept rows tell the shares of the classes: predicting nothing is to predict those."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, softmax
from scipy.stats import norm
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss

import uneven
from uneven.planner import (
    ALL,
    MOST_KEPT,
    RARELY,
    RARELY_KEPT,
    TRUSTED,
    choose_tellers,
    has_length_rows,
    list_asked,
    list_gradients,
    make_plan,
)
from uneven.planner.prediction import FLATTER, expect_scale_of, predict_typical
from uneven.planner.shares import CHANCE, SOONER, TELLERS
from uneven.problem import Problem
from uneven.settings import Settings
from uneven.training import keep_rows
from uneven.training.calibration import Direction, learn_scale, make_direction
from uneven.training.class_calibration import ClassDirection, learn_class_scale
from uneven.training.shares import Told, ask_shares, describe_constant, find_offsets, make_start

NOISES = [
    uneven.LocalPrivacy(1.0),
    uneven.LocalPrivacy(4.0, "privunit"),
    uneven.LocalPrivacy(1.0, "l2-laplace"),
    uneven.SitePrivacy(1.0),
    uneven.LocalPrivacy(2.0) & uneven.FlippedLabels(0.1),
    uneven.SitePrivacy(2.0) & uneven.FlippedLabels(0.1),
]


def plan_for(noise, classes=2, rows=20_000, kept=10, weights=()):
    columns = 8 * (classes if classes > 2 else 1)
    problem = Problem(columns, 1e-3, 50, clip=0.5, classes=classes, class_weights=weights)
    return make_plan([uneven.Source("a", rows, noise)], problem, kept=kept, tellers=TELLERS)


def draw_labels(counts):
    """So many labels of each class, as the engine has them."""
    y = np.repeat(np.arange(len(counts)), counts).astype(float)
    return 2 * y - 1 if len(counts) == 2 else y


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_what_rows_tell_is_unbiased_and_as_certain_as_it_is_said_to_be(noise, classes):
    """Labels flipped at random where the noise says so; the mean gradient of true labels, within four errors, 300 runs.

    Labels are drawn anew for each, of classes alike: then the energy that is planned for is the variance itself.
    """
    plan, rng = plan_for(noise, classes), np.random.default_rng(0)
    expected, found, X = list_gradients(plan.problem).mean(axis=0), [], describe_constant(np.empty((1000, 1)))
    for run in range(300):
        y = rng.integers(classes, size=1000).astype(float)
        y = 2 * y - 1 if classes == 2 else y
        if flips := getattr(noise, "flips", None):
            moved = rng.random(len(y)) < flips.known_rate
            other = -y if classes == 2 else (y + rng.integers(1, classes, len(y))) % classes
            y = np.where(moved, other, y)
        found.append(ask_shares({"a": (X, y)}, plan, 0, run))
    gradients, variance = np.array([one.gradient for one in found]), found[0].variance
    assert np.abs(gradients.mean(axis=0) - expected).max() < 4 * np.sqrt(variance / 300)
    centred = gradients if classes == 2 else gradients - gradients.mean(axis=1, keepdims=True)
    ratio = (centred - centred.mean(axis=0)).var(axis=0).sum() / (max(classes - 1, 1) * variance)
    # A standard error of 0.08. Of K > 2 classes 1/K of the added noise is that which all share, and taken away.
    assert (0.75 if classes == 2 else 0.75 * (1 - 1 / classes)) < ratio < 1.25


@pytest.mark.parametrize("weights", [(), (0.3, 1.0)])
def test_told_without_noise_two_classes_get_the_best_intercept(weights):
    """The intercept that minimises the weighted loss with nothing else, by the formula."""
    plan = plan_for(uneven.Exact(), weights=weights)
    y = draw_labels([850, 150])
    told = ask_shares({"a": (describe_constant(np.empty((1000, 1))), y)}, replace(plan, tellers=2), 0)
    counts = weights or (1.0, 1.0)
    expected = np.log(0.15 * counts[1] / (0.85 * counts[0]))
    assert find_offsets(replace(told, variance=1e-9), plan.problem) == pytest.approx([expected], abs=1e-4)


@pytest.mark.parametrize("weights", [(), (1.0, 0.4, 0.7)])
def test_told_without_noise_more_classes_get_the_best_intercepts(weights):
    plan = plan_for(uneven.Exact(), 3, weights=weights)
    shares, counts = np.array([0.6, 0.3, 0.1]), np.array(weights or (1.0, 1.0, 1.0))
    y = draw_labels([600, 300, 100])
    told = ask_shares({"a": (describe_constant(np.empty((1000, 1))), y)}, plan, 0)
    found = find_offsets(replace(told, variance=1e-9), plan.problem)
    best = minimize(lambda b: -(counts * shares) @ np.log(softmax(b)), np.zeros(3)).x
    np.testing.assert_allclose(softmax(found), softmax(best), atol=1e-3)
    assert found.sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("classes", [2, 4])
def test_equal_shares_are_believed_to_be_unequal_as_rarely_as_stated(classes):
    """20,000 normal gradients around 0: the share that is clear is CHANCE, within four standard errors."""
    plan, rng = plan_for(uneven.LocalPrivacy(1.0), classes), np.random.default_rng(0)
    gradients = rng.normal(scale=0.02, size=(20_000, plan.problem.outputs))
    clear = [Told(one, 0.02**2).clear for one in gradients]
    assert np.mean(clear) == pytest.approx(CHANCE, abs=4 * np.sqrt(CHANCE / 20_000))
    assert not find_offsets(Told(np.zeros(plan.problem.outputs), 1.0), plan.problem).any()


def test_a_share_that_seems_negative_becomes_a_small_one():
    problem = plan_for(uneven.LocalPrivacy(1.0)).problem
    (offset,) = find_offsets(Told(np.array([0.52]), 0.01**2), problem)  # ½ is what negative labels alone would tell
    assert 0.0 < expit(offset) < 0.01


def test_offsets_are_the_scores_of_every_row():
    constant, rng = 0.25, np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(5, 3)), np.full(5, constant)])
    for offsets in (np.array([-1.5]), np.array([1.0, -0.25, -0.75])):
        weights = make_start(offsets, constant, 4).reshape(len(offsets), 4)
        np.testing.assert_allclose(X @ weights.T, np.tile(offsets, (5, 1)))


def test_rows_are_asked_only_where_together_they_know_enough():
    """With ε = 0.1 it takes thousands of rows to tell one class from another; 10 rows at ε = 10 are too few, too."""
    asked = [(0.1, 20_000), (0.1, 400_000), (1.0, 500), (1.0, 20_000), (10.0, 100), (10.0, 2_000)]
    chosen = [choose_tellers(plan_for(uneven.LocalPrivacy(epsilon), rows=rows)) for epsilon, rows in asked]
    assert chosen == [0, TELLERS, 0, TELLERS, 0, TELLERS]
    (one,) = list_asked(plan_for(uneven.LocalPrivacy(1.0), rows=20_000))
    assert one.rows == 20_000 // 10 // TELLERS


@pytest.mark.parametrize("epsilon", [0.2, 0.3, 0.5])
def test_rows_are_asked_wherever_those_kept_for_it_know_enough(epsilon):
    """More rows are kept where some tell shares: as many as those, not fewer, decide whether they can.

    Where steps are not trusted that is up to half of all rows, as many as it takes to find half an inequality.
    """
    asked = []
    for rows in range(2_000, 60_000, 2_000):
        settings = Settings(row_norm=1.0)
        plan = make_plan([uneven.Source("a", rows, uneven.LocalPrivacy(epsilon))], Problem(21, 1e-3, 50, clip=0.5))
        chosen, alone = keep_rows(plan, settings), keep_rows(plan, replace(settings, fit_intercept=False))
        fewer = max(MOST_KEPT, -(-alone.kept // 2) if alone.kept >= RARELY_KEPT else -(-2 * alone.kept // 3))
        keeping = {kept: make_plan(plan.sources, plan.problem, kept=kept) for kept in range(2, fewer + 1)}
        least = 2 if keeping[fewer].expected_scale < TRUSTED else fewer
        most = max((kept for kept in range(least, fewer + 1) if choose_tellers(keeping[kept], SOONER)), default=least)
        enough = keeping[most if least == 2 else fewer]
        assert chosen.tellers == choose_tellers(enough)
        assert chosen.kept == (enough.kept if chosen.tellers else alone.kept)
        asked.append(bool(chosen.tellers))
    assert True in asked
    assert False in asked or epsilon > 0.2


def test_rare_positives_end_near_the_shares_of_the_classes():
    """14,000 rows, 3% positive, ε = 0.3: log-loss of shares is .15, and was .36 when no row was asked."""
    losses = []
    for seed in range(4):
        X, y = make_classification(20_000, 20, n_informative=8, weights=[0.97], random_state=seed)
        clf = uneven.UnevenClassifier(uneven.LocalPrivacy(0.3), row_norm=6.0, classes=[0, 1], random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # many rows are longer than 6 and are shrunk to it
            clf.fit(X[:14_000], y[:14_000])
        losses.append(log_loss(y[14_000:], clf.predict_proba(X[14_000:])))
    assert np.mean(losses) < 0.15 + 0.05 + 2 * np.std(losses, ddof=1) / 2


@pytest.mark.parametrize(
    ("noise", "rows", "kept"),
    [(uneven.LocalPrivacy(10.0), 100_000, None), (uneven.SitePrivacy(1.0), 100_000, (RARELY, ALL))],
)
def test_a_rare_class_is_not_taken_for_a_common_one_where_noise_is_small(noise, rows, kept):
    """1% positive, no signal: the penalty on the intercept alone would make it 5%, log-loss .027 above the shares."""
    above, found = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.uniform(-0.5, 0.5, (rows + 20_000, 3)), (rng.random(rows + 20_000) < 0.01).astype(int)
        clf = uneven.UnevenClassifier(noise, row_norm=1.0, random_state=seed).fit(X[:rows], y[:rows])
        assert kept is None or (clf.plan_.kept, clf.plan_.tellers) == kept
        told, share = clf.predict_proba(X[rows:]), y[:rows].mean()
        above.append(log_loss(y[rows:], told) - log_loss(y[rows:], np.full(20_000, share)))
        found.append(told[:, 1].mean())
    assert np.mean(above) < 0.004
    assert 0.005 < np.mean(found) < 0.025


def test_with_little_noise_one_row_in_fifty_tells_its_class_and_none_the_length():
    """No bound is promised then: where steps begin depends on rows. Without an intercept, none is asked."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (100_000, 3)), (rng.random(100_000) < 0.1).astype(int)
    fits = [
        uneven.UnevenClassifier(uneven.SitePrivacy(10.0), row_norm=1.0, random_state=0, fit_intercept=one).fit(X, y)
        for one in (True, False)
    ]
    told, silent = (one.plan_ for one in fits)
    assert (told.kept, told.tellers) == (RARELY, ALL)
    assert not has_length_rows(told)
    assert "steps begin at the shares" in told.void
    assert fits[0].notes_[0].startswith("2,000 private rows told their classes")
    assert "One row in 50 of each source tells its class" in told.summary()
    assert (silent.kept, silent.tellers, silent.void) == (0, 0, "")
    assert not any("told their classes" in note for note in fits[1].notes_)


def test_few_noisy_rows_tell_the_shares_where_they_can_tell_nothing_else():
    """4,000 rows of 90 columns, 8% positive, ε = 0.3: log-loss of shares is .28, and was .69 when no row was asked."""
    losses = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.uniform(-1, 1, (6_000, 90)) / 90**0.5, (rng.random(6_000) < 0.08).astype(int)
        clf = uneven.UnevenClassifier(uneven.LocalPrivacy(0.3), row_norm=1.0, random_state=seed)
        clf.fit(X[:4_000], y[:4_000])
        assert clf.plan_.kept == 2
        losses.append(log_loss(y[4_000:], clf.predict_proba(X[4_000:])))
    assert np.mean(losses) < 0.28 + 0.05 + 2 * np.std(losses, ddof=1) / 6**0.5


def test_weights_beside_unequal_shares_are_trusted_less():
    """The loss curves by 4p(1 - p) of what it does beside equal ones, and the entropy of the shares is all to gain."""
    plan, p = plan_for(uneven.LocalPrivacy(1.0)), 0.05
    level, bend = predict_typical(plan.problem, plan.segments, 0.25), 4 * p * (1 - p)
    steep = predict_typical(plan.problem, plan.segments, 0.25 * bend)
    assert steep.noise > 1.5 * level.noise
    for numbers, length in ((4, 20.0), (8, 1e4)):
        of_noise = steep.noise * numbers / plan.problem.n_features / length
        found = expect_scale_of(plan.problem, plan.segments, length, numbers, (1 - p, p))
        assert found >= 1 - of_noise * (1 + (2 / numbers) ** 0.5)
        assert found <= expect_scale_of(plan.problem, plan.segments, length, numbers, (0.5, 0.5))
    gain = -(p * np.log(p) + (1 - p) * np.log(1 - p)) / np.log(2)
    faint = replace(steep, start=gain * steep.start / 3)
    assert expect_scale_of(plan.problem, plan.segments, 1e-9, 4, (p, 1 - p)) == pytest.approx(faint.best_scale)
    equal = expect_scale_of(plan.problem, plan.segments, 50.0, 4)
    assert expect_scale_of(plan.problem, plan.segments, 50.0, 4, (0.5, 0.5)) == pytest.approx(equal)


def test_without_noise_the_length_from_an_offset_is_the_best_one():
    """Rows without privacy: s minimises the loss of b₀ + s·u, and what makes up for scores that are cut; no penalty."""
    rng, w = np.random.default_rng(0), np.full(8, 6.0)
    X = 0.4 * rng.normal(size=(60_000, 8)) / np.sqrt(8)
    y = np.where(rng.random(len(X)) < expit(-2.0 + 0.5 * X @ w), 1.0, -1.0)
    plan = plan_for(uneven.Exact(), rows=600_000)
    direction = make_direction(w, 0.0, plan.problem, [-2.0])
    found, known = learn_scale(direction, {"a": (direction.describe_rows(X), y)}, plan, seed=0, prior=4.0)
    scores, cut = np.linspace(-25.0, 25.0, 200_001), np.clip(X @ w, -direction.width, direction.width)
    weight, v = norm.pdf(scores, 0.0, direction.spread), np.clip(scores, -direction.width, direction.width)
    rest = FLATTER * expit(2.0) * expit(-2.0) * np.trapezoid((scores - v) * v * weight, scores)
    best = minimize(lambda s: rest / 2 * s**2 + np.logaddexp(0, -y * (-2.0 + s * cut)).mean(), 0.3).x[0]
    assert 0.2 < best < 0.8
    assert found == pytest.approx(best, abs=0.03)  # a standard error of about 0.01, and what is left of the start
    assert known > 1_000.0


def test_of_two_classes_both_ways_to_find_the_length_have_the_same_slopes():
    """A score b₀ + s·u, and scores of -½ and ½ of it as softmax, cut nowhere."""
    rng = np.random.default_rng(1)
    X, w = 0.02 * rng.normal(size=(200, 4)), rng.normal(size=4)
    one = Direction(w, 0.0, -1.2)
    both = ClassDirection(np.concatenate([-w / 2, w / 2]), 0.0, 2, (0.6, -0.6))
    targets = np.eye(2)[rng.integers(0, 2, 200)]
    plain = one.slopes(one.describe_rows(X), 0.7 * one.width, targets) * one.width
    np.testing.assert_allclose(plain, both.slopes(both.describe_rows(X), 0.7, targets) * both.width, atol=1e-5)


def test_no_slope_from_offsets_is_longer_than_its_release_allows():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(500, 4)), rng.integers(0, 2, 500)
    for noise in (NOISES[0], NOISES[4]):
        direction, targets = Direction(1e3 * np.ones(4), 0.0, -3.0), noise.weighted_targets((1.0, 0.5))[y]
        assert np.abs(direction.slopes(direction.describe_rows(X), 5.0, targets)).max() <= noise.amplification(2)


def test_more_classes_from_offsets_find_their_length():
    rng, W = np.random.default_rng(3), np.random.default_rng(4).normal(size=(3, 8))
    W -= W.mean(axis=0)
    X, offsets = 0.1 * rng.normal(size=(60_000, 8)), np.array([1.0, 0.0, -1.0])
    y = (offsets + 2.0 * X @ W.T + rng.gumbel(size=(len(X), 3))).argmax(axis=1).astype(float)
    plan = plan_for(uneven.Exact(), 3, rows=600_000)
    direction = make_direction((4.0 * W).ravel(), 0.0, plan.problem, offsets)
    found, known = learn_class_scale(direction, {"a": (direction.describe_rows(X), y)}, plan, seed=0, prior=4.0)
    assert known > 50.0
    assert found == pytest.approx(0.5, abs=0.15)  # slopes are cut, which shortens what is found


def test_signal_is_what_the_length_has_beyond_that_of_noise():
    """Stein: of weights w* + noise, E‖noise‖² = N, it is 1 - N/‖w‖² less a standard error; at least a weak signal's."""
    plan = make_plan([uneven.Source("a", 10_000, uneven.LocalPrivacy(1.0))], Problem(51, 1e-3, 50, clip=0.5))
    run = predict_typical(plan.problem, plan.segments, 0.25)
    noise = run.noise * 50 / 51
    weak = expect_scale_of(plan.problem, plan.segments, noise, 50)
    assert 0.0 < weak < 0.3
    assert expect_scale_of(plan.problem, plan.segments, 5 * noise, 50) == pytest.approx(1 - 0.2 * (1 + 0.2))


@pytest.mark.parametrize("shares", [(0.95, 0.05), (0.05, 0.15, 0.8)])
@pytest.mark.parametrize("noise", [uneven.LocalPrivacy(1.0), uneven.SitePrivacy(0.3)], ids=repr)
def test_features_that_say_nothing_leave_the_shares_of_the_classes(shares, noise):
    """Six tables of 10,000 rows and 30 columns: log-loss is that of the shares, where steps alone are far above it."""
    losses = {"auto": [], "precision": []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(14_000, 30)) / 10.0, rng.choice(len(shares), p=shares, size=14_000)
        for strategy, found in losses.items():
            options = {"strategy": strategy, "classes": list(range(len(shares))), "row_norm": 1.0, "random_state": seed}
            clf = uneven.UnevenClassifier(noise, **options).fit(X[:10_000], y[:10_000])
            found.append(log_loss(y[10_000:], clf.predict_proba(X[10_000:])))
    entropy = -np.sum(np.array(shares) * np.log(shares))
    assert np.mean(losses["auto"]) < entropy + 0.02
    assert np.mean(losses["precision"]) > entropy + 0.03


def test_strong_signals_keep_their_length():
    """One row in eleven positive, and features that say which: four tables, none shortened, far below the shares."""
    below = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(24_000, 10)) / 6.5
        y = (24.0 * X[:, 0] - 5.5 + rng.logistic(size=len(X)) > 0).astype(int)
        options = {"row_norm": 1.0, "random_state": 0}
        clf = uneven.UnevenClassifier(uneven.LocalPrivacy(3.0), **options).fit(X[:20_000], y[:20_000])
        assert clf.plan_.tellers == TELLERS
        assert any("no rescaling was needed" in note for note in clf.notes_)
        nothing = log_loss(y[20_000:], np.full(4_000, y.mean()))
        below.append(log_loss(y[20_000:], clf.predict_proba(X[20_000:])) / nothing)
    assert max(below) < 0.8
