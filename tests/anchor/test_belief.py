"""Public rows that say little: few, of one class, separable, or with many flipped labels. They must not do harm."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from uneven import Exact, FlippedLabels, LocalPrivacy, UnevenClassifier
from uneven.anchor import path
from uneven.anchor.belief import know_nothing
from uneven.anchor.classes import fit_class_anchor
from uneven.anchor.rows import WRONG_ROWS, PublicRows, find_copies
from uneven.anchor.strength import choose_alpha
from uneven.anchor.uncertainty import Flips, fit_anchor
from uneven.losses import LOGISTIC
from uneven.problem import DEFAULT_ALPHA, Problem

DIRECTION = np.random.default_rng(99).normal(size=8) * 4


def draw(count, seed):
    """Logistic rows in the unit ball, almost all."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 8)) / 8**0.5
    return X, (rng.random(count) < 1 / (1 + np.exp(-(X @ DIRECTION + 0.5)))).astype(int)


def log_loss(model, X, y):
    return -np.log(np.clip(model.predict_proba(X)[np.arange(len(y)), y], 1e-300, 1)).mean()


def compare(public, noise, seed, rows=8000, epsilon=3.0):
    """Log-loss of the fit with these public rows, and of the private rows alone."""
    X, y = draw(rows, 50 + seed)
    stacked, labels = np.vstack([public[0], X]), np.concatenate([public[1], y])
    source = np.repeat(["public", "private"], [len(public[1]), rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = UnevenClassifier({"public": noise, "private": LocalPrivacy(epsilon)}, row_norm=1.0, random_state=seed)
        both.fit(stacked, labels, source=source)
        alone = UnevenClassifier(LocalPrivacy(epsilon), row_norm=1.0, random_state=seed).fit(X, y)
    return [log_loss(model, *draw(5000, 1)) for model in (both, alone)], both.plan_.verdicts["private"]


def refuse_harm(pairs):
    """Fail where the first of each pair is above the second by more than two standard errors, or ever by far."""
    apart = np.subtract(*np.transpose(pairs))
    assert apart.mean() <= 2 * apart.std(ddof=1) / len(apart) ** 0.5 + 0.005
    assert apart.max() < 0.1


@pytest.mark.parametrize("count", [3, 20, 200])
def test_rows_of_one_class_do_no_harm(count):
    pairs = []
    for seed in range(4):
        X, y = draw(8 * count, seed)
        scores, verdict = compare((X[y == 1][:count], y[y == 1][:count]), Exact(), seed)
        pairs.append(scores)
        assert verdict.word == "worth it"
        assert verdict.accuracy_without[0] == 0.5
    refuse_harm(pairs)


@pytest.mark.parametrize("count", [2, 3, 6, 10, 20])
def test_a_few_rows_do_no_harm(count):
    pairs = []
    for seed in range(6):
        X, y = draw(count, 10 + seed)
        y[:2] = 0, 1
        pairs.append(compare((X, y), Exact(), seed)[0])
    refuse_harm(pairs)


@pytest.mark.parametrize("rate", [0.3, 0.45])
def test_rows_with_many_flipped_labels_do_no_harm(rate):
    pairs = []
    for seed in range(5):
        X, y = draw(200, 20 + seed)
        flipped = np.random.default_rng(seed).random(200) < rate
        pairs.append(compare((X, np.where(flipped, 1 - y, y)), FlippedLabels(rate), seed)[0])
    refuse_harm(pairs)


def test_nobody_is_expected_to_do_worse_than_nothing_nor_to_be_certain():
    X, y = draw(40, 3)
    X = X * np.array([1, 0.001, 1, 1, 1, 1, 1, 0.01])
    verdict = compare((X, y), Exact(), 0)[1]
    assert verdict.excess_without <= np.log(2)
    assert verdict.accuracy[2] < 1


def test_knowing_nothing_is_an_excess_of_all_there_is_to_gain():
    X, _ = draw(50, 0)
    for wide in (False, True):
        found = know_nothing(X, 1e-3, np.ones(8), (1.0, 1.0), LOGISTIC, wide)
        assert np.sum(found.hessian * found.covariance) / 2 == pytest.approx(np.log(2), rel=1e-12)
        assert not found.weights.any()
        assert not found.knows_curvature
    assert not fit_anchor(X, np.ones(50), 1e-3).weights.any()


def test_one_row_of_a_class_tells_how_rare_it_is():
    """The start predicts (1 + ½)/(20 + 1) for every row, with the loss of that as its excess; three classes alike."""
    rng = np.random.default_rng(0)
    X, y = np.column_stack([rng.normal(size=(20, 3)) / 2, np.full(20, 0.25)]), np.append(1.0, np.full(19, -1.0))
    factors = np.array([1.0, 1.0, 1.0, 0.01])
    for wide in (False, True):
        found = fit_anchor(X, y, 1e-3, factors, diagonal=wide)
        np.testing.assert_allclose(expit(X @ found.weights), 1.5 / 21, rtol=1e-12)
        assert np.sum(found.hessian * found.covariance) / 2 == pytest.approx(found.losses.mean(), rel=1e-12)
        assert found.tested[0] == 0.95
    rows = PublicRows.from_arrays(X, np.append([0.0, 2.0], np.ones(18)))
    classes = fit_class_anchor(Problem(12, 1e-3, 1, classes=3), [rows], np.tile(factors, 3), None)
    np.testing.assert_allclose(softmax(classes.weights[3::4] * 0.25), np.array([1.5, 18.5, 1.5]) / 21.5, rtol=1e-12)
    assert np.sum(classes.hessian * classes.covariance) / 2 == pytest.approx(classes.losses.mean(), rel=1e-12)
    assert not fit_anchor(X, -np.ones(20), 1e-3, factors).weights.any()  # of one class, it tells nothing


def test_rows_that_predict_worse_than_the_shares_of_the_classes_start_with_those():
    rng = np.random.default_rng(1)
    X, y = np.column_stack([rng.normal(size=(60, 6)) / 3, np.full(60, 0.25)]), np.where(np.arange(60) < 6, 1.0, -1.0)
    found = fit_anchor(X, y, 1e-6, np.append(np.ones(6), 0.01))
    np.testing.assert_allclose(expit(X @ found.weights), 6.5 / 61, rtol=1e-12)


def test_one_public_row_of_a_rare_class_does_no_harm():
    pairs, rng = [], np.random.default_rng(5)
    weights = rng.normal(size=8) * 2
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(8_020, 8)) / 8**0.5
        y = (rng.random(8_020) < expit(X @ weights - 3.5)).astype(int)
        y[:20] = np.arange(20) == 0
        noise = {"public": Exact(), "private": LocalPrivacy(0.3)}
        model = UnevenClassifier(noise, row_norm=1.5, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X[:1_020], y[:1_020], source=np.repeat(["public", "private"], [20, 1_000]))
        p = np.where(y[1_020:] == 1, 1.5 / 21, 19.5 / 21)
        pairs.append([log_loss(model, X[1_020:], y[1_020:]), -np.log(p).mean()])
    refuse_harm(pairs)


def test_half_a_row_is_counted_as_wrong():
    margins, y = np.array([3.0, 5.0, 1.0]), np.array([1.0, -1.0, 1.0])
    expected = (np.logaddexp(0, -margins).sum() + 0.5 * np.logaddexp(0, 3.0)) / 3.5
    assert Flips.none(y).mean_loss(margins) == pytest.approx(expected, rel=1e-12)
    assert WRONG_ROWS == 0.5


def test_rows_that_a_plane_separates_do_not_ask_for_weights_without_end():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3)) * 0.1 + np.repeat([[0.5, 0, 0], [-0.5, 0, 0]], 10, axis=0)
    y = np.repeat([1.0, -1.0], 10)
    chosen = choose_alpha(Problem(3, 1.0, 1), [PublicRows.from_arrays(X, y)])
    weakest = min(alpha for alpha, _ in chosen.path)
    assert chosen.alpha > 3 * weakest
    assert choose_alpha(Problem(3, 1.0, 1), [PublicRows.from_arrays(X, np.ones(20))]).alpha == DEFAULT_ALPHA


def test_beside_private_rows_alpha_is_at_most_ten_times_theirs():
    rng = np.random.default_rng(0)
    X, y = draw(2000, 0)
    y[:12] = np.arange(12) % 2
    X[:12] = rng.normal(size=(12, 8)) / 8**0.5
    source = np.repeat(["public", "private"], [12, 1988])
    noise = {"public": Exact(), "private": LocalPrivacy(0.05)}
    model = UnevenClassifier(noise, row_norm=1.0, random_state=0, use="all")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, source=source)
        alone = UnevenClassifier(Exact(), row_norm=1.0).fit(X[:12], y[:12])
    assert model.alpha_ == pytest.approx(10 * DEFAULT_ALPHA)
    assert alone.alpha_ > 10 * DEFAULT_ALPHA


def test_copies_tell_as_much_as_one_row():
    X, y = draw(40, 0)
    signs = np.where(y == 1, 1.0, -1.0)
    once, copied = fit_anchor(X, signs, 1e-2), fit_anchor(np.repeat(X, 9, axis=0), np.repeat(signs, 9), 1e-2)
    np.testing.assert_allclose(copied.margins[::9], once.margins, rtol=1e-6)
    ratio = np.diag(copied.covariance) / np.diag(once.covariance)
    assert ratio.min() > 0.5  # it was a ninth; half a row and five pseudo-rows are counted among nine times as many
    assert ratio.max() < 1.05


def test_copies_are_held_out_together():
    X, y = draw(30, 0)
    signs = np.where(y == 1, 1.0, -1.0)
    problem = Problem(8, 1.0, 1)
    rows = PublicRows.from_arrays(np.repeat(X, 10, axis=0), np.repeat(signs, 10))
    (numbers,) = path._fold_numbers([rows], 0)
    assert (numbers.reshape(30, 10) == numbers[::10, None]).all()
    held = dict(choose_alpha(problem, [rows]).path)
    assert min(held.values()) > 0.2  # copies of held-out rows would tell their labels


def draw_categories(count, seed):
    """Rows of three categories, as columns of 0 and 1, most of which agree with others."""
    rng, effects = np.random.default_rng(seed), np.random.default_rng(6).normal(size=(3, 4)) * 1.5
    values = rng.integers(0, 4, (count, 3))
    X = np.hstack([np.eye(4)[values[:, j]] for j in range(3)])
    return X, (effects[np.arange(3), values].sum(axis=1) + rng.logistic(size=count) > 0).astype(int)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_rows_of_categories_that_agree_are_no_copies(container):
    """With labels of a rule, too, where no two rows of the same categories have different labels."""
    X, y = draw_categories(300, 0)
    for labels in (y, (X[:, 0] == 1).astype(int)):
        first, count = find_copies(container(X), labels)
        np.testing.assert_array_equal(first, np.arange(300))
        assert (count == 1).all()
    measured = np.column_stack([X, np.random.default_rng(0).normal(size=300)])
    first, count = find_copies(container(np.repeat(measured, 2, axis=0)), np.repeat(y, 2))
    np.testing.assert_array_equal(first, np.repeat(np.arange(0, 600, 2), 2))
    assert (count == 2).all()


def draw_groups(count, groups, seed):
    """Rows that have the columns and the label of their group alone."""
    rng = np.random.default_rng(seed)
    columns, labels = rng.normal(size=(groups, 12)), rng.integers(0, 2, groups)
    place = rng.integers(0, groups, count)
    return columns[place], labels[place]


def test_rows_drawn_from_few_groups_are_no_copies():
    """But where each row is there as often as every other, somebody has copied them."""
    X, y = draw_groups(2_000, 10, 0)
    assert (find_copies(X, y)[1] == 1).all()
    fitted, plain = UnevenClassifier().fit(X[:1_000], y[:1_000]), LogisticRegression(C=1.0).fit(X[:1_000], y[:1_000])
    assert log_loss(fitted, X[1_000:], y[1_000:]) < log_loss(plain, X[1_000:], y[1_000:]) < 0.1  # it was 0.4
    once = np.random.default_rng(1).normal(size=(20, 12))
    assert (find_copies(np.repeat(once, 100, axis=0), np.repeat(y[:20], 100))[1] == 100).all()


def test_categories_are_learned_as_well_as_by_logistic_regression():
    """Held out together, rows that agree would predict the opposite: alpha was chosen thousands of times too large."""
    apart = []
    for seed in range(4):
        X, y = draw_categories(2_000, seed)
        plain = LogisticRegression(C=1.0).fit(X, y)
        apart.append([log_loss(one, *draw_categories(20_000, 99)) for one in (UnevenClassifier().fit(X, y), plain)])
    refuse_harm(apart)


def test_rows_that_a_plane_separates_know_no_curvature():
    """Three times as many rows as weights: noisy labels curve in all, a plane leaves a few rows that decide."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(24, 8)) / 8**0.5
    noisy = np.where(rng.random(24) < expit(6.0 * X[:, 0]), 1.0, -1.0)
    anchors = [fit_anchor(X, y, 1e-3, chosen=1e-3) for y in (noisy, np.sign(X[:, 0]))]
    assert all(one.weights.any() for one in anchors)
    assert [one.knows_curvature for one in anchors] == [True, False]


def test_rows_that_predict_no_better_than_nothing_start_at_zero():
    """Labels by chance: many rows know that w* is near 0, and a few know next to nothing."""
    rng = np.random.default_rng(0)
    variances = []
    for rows in (20, 2_000):
        X, y = rng.normal(size=(rows, 8)) / 8**0.5, np.where(rng.random(rows) < 0.5, 1.0, -1.0)
        anchor = fit_anchor(X, y, 1e-3, chosen=1e-3)
        assert not anchor.weights.any()
        variances.append(np.trace(anchor.hessian @ anchor.covariance) / 2)
    assert variances[1] < 0.02 < 0.05 < variances[0] <= anchor.nothing


def classes_anchor(lost=None, rows=60):
    """Three classes in two columns, one of them lost, at alpha = 0.01."""
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(rows, 2)), rng.integers(0, 3, rows).astype(float)
    kept = y != lost
    problem = Problem(6, 0.01, 1, classes=3)
    return fit_class_anchor(problem, [PublicRows.from_arrays(X[kept], y[kept])], np.ones(6), None)


@pytest.mark.parametrize("lost", [0, 2])
def test_a_class_that_no_public_row_is_of_is_as_likely_as_the_others_and_unknown(lost):
    """The start tells the other classes apart; nothing is known of the lost one: its share of log 3 may be gained."""
    rng = np.random.default_rng(7)
    y = rng.integers(0, 3, 300)
    X = np.column_stack([2.0 * np.eye(3)[y] + rng.normal(size=(300, 3)), np.full(300, 0.5)])
    kept, factors = y != lost, np.tile([1.0, 1.0, 1.0, 0.01], 3)
    problem = Problem(12, 0.01, 1, classes=3)
    anchor = fit_class_anchor(problem, [PublicRows.from_arrays(X[kept], y[kept].astype(float))], factors, None)
    scores = X @ anchor.weights.reshape(3, 4).T
    others = np.delete(scores, lost, axis=1)
    right = np.delete(np.arange(3), lost)[others.argmax(axis=1)] == y
    assert right[kept].mean() > 0.8
    levels = np.logaddexp(*others[kept].T) - np.log(2.0)
    np.testing.assert_allclose(np.ptp(scores[:, lost]), 0.0, atol=0.2 * np.abs(levels).max())
    assert softmax(scores[kept], axis=1)[:, lost].mean() == pytest.approx(1 / 3, abs=0.05)
    assert np.sum(anchor.hessian * anchor.covariance) / 2 > np.log(3) / 3
    assert anchor.knows_curvature


def test_public_rows_of_one_of_three_classes_know_nothing():
    rows = PublicRows.from_arrays(np.random.default_rng(4).normal(size=(60, 2)), np.ones(60))
    anchor = fit_class_anchor(Problem(6, 0.01, 1, classes=3), [rows], np.ones(6), None)
    assert not anchor.weights.any()
    assert not anchor.knows_curvature
    assert np.sum(anchor.hessian * anchor.covariance) / 2 == pytest.approx(np.log(3))


def test_errors_of_classes_sum_to_zero():
    """Weights do, since what is added to all classes alike changes no softmax; the rest is what `sandwich` says."""
    V = classes_anchor().covariance
    together = np.kron(np.ones((1, 3)), np.eye(2))
    np.testing.assert_allclose(together @ V, 0.0, atol=1e-9 * np.abs(V).max())
    assert np.linalg.matrix_rank(V, tol=1e-6 * np.abs(V).max()) == 4
