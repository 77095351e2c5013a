"""Measures are scikit-learn's, intervals hold what they promise, and a model that is no better is called so."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, confusion_matrix, log_loss, roc_auc_score

import uneven
from uneven.evaluation import estimate_auc
from uneven.intervals import find_share_interval
from uneven.settings import Settings
from uneven.training.files import measure
from uneven.training.model import Model
from uneven.training.quality import compare, find_area_interval, fit_public_rivals
from uneven.training.rows import ArrayRows, Piece
from uneven.training.trainer import train


def rows(n, seed, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X @ [1.0, -1.0, 0.5] + rng.logistic(size=n) > 0.5 * (classes - 1)).astype(int)


def fixed(coef, intercept=0.0, classes=(0, 1)):
    return Model(np.array(classes), np.array([coef]), np.array([intercept]), Settings())


def test_scores_are_those_of_scikit_learn_however_cut():
    X, y = rows(4000, 0)
    model = fixed([0.8, -0.7, 0.1], 0.2)
    probability = model.predict_proba(X)
    for cut in ([4000], [1, 1999, 4000]):
        pieces = list(zip(np.split(X, cut), np.split(y, cut), strict=True))
        found = compare(model, {}, pieces).scores
        assert found.accuracy.value == accuracy_score(y, model.predict(X))
        assert found.log_loss.value == pytest.approx(log_loss(y, probability), rel=1e-9)
        # 65,536 bins: at most a few of 4,000 rows share one.
        assert found.auc.value == pytest.approx(roc_auc_score(y, probability[:, 1]), abs=1e-4)


@pytest.mark.parametrize("how", ["softmax", "one-vs-rest"])
def test_auc_of_more_classes_is_that_of_scikit_learn_however_cut(how):
    """The mean of each class against the rest, by its probability; the majority class has ½."""
    X, y = rows(4000, 0)
    y = np.where((y == 1) & (X[:, 2] > 0.5), 2, y)
    model = train(ArrayRows(Piece(X[:500], y[:500])), None, Settings(alpha=0.01, random_state=0, multi_class=how)).model
    right = roc_auc_score(y, model.predict_proba(X), multi_class="ovr")
    for cut in ([4000], [1, 1999, 4000]):
        found = compare(model, {}, list(zip(np.split(X, cut), np.split(y, cut), strict=True)))
        # 21,845 bins a class: at most a few of 4,000 rows share one.
        assert found.scores.auc.value == pytest.approx(right, abs=1e-4)
        assert found.others[0].auc.value == 0.5
    assert compare(model, {}, [(X[y < 2], y[y < 2])]).scores.auc is None


def test_the_interval_of_the_auc_of_more_classes_holds_the_truth():
    """At least 95% of 200 samples, within three standard errors of that."""
    X, y = rows(100_000, 4)
    y = np.where((y == 1) & (X[:, 2] > 0.5), 2, y)
    model = train(ArrayRows(Piece(X[:500], y[:500])), None, Settings(alpha=0.01, random_state=0)).model
    truth, rng = compare(model, {}, [(X, y)]).scores.auc.value, np.random.default_rng(0)
    drawn = (rng.integers(len(X), size=300) for _ in range(200))
    found = [compare(model, {}, [(X[one], y[one])]).scores.auc for one in drawn]
    assert np.mean([one.low <= truth <= one.high for one in found]) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200)
    assert np.mean([one.high - one.low for one in found]) < 0.15


@pytest.mark.parametrize("classes", [(0, 1), (0, 1, 2)])
def test_calibration_and_confusion_are_those_of_scikit_learn_however_cut(classes):
    """Of the second class of two; of the predicted class of more."""
    X, y = rows(3000, 5)
    y = np.where((y == 1) & (X[:, 2] > 0.5), classes[-1], y)
    model = train(ArrayRows(Piece(X[:500], y[:500])), None, Settings(alpha=0.01, random_state=0)).model
    shares, chosen = model.predict_proba(X), model.predict(X)
    told, came = (shares[:, 1], y) if len(classes) == 2 else (shares.max(axis=1), chosen == y)
    observed, predicted = calibration_curve(came, told, n_bins=10)
    for cut in ([3000], [1, 999, 3000]):
        found = compare(model, {}, list(zip(np.split(X, cut), np.split(y, cut), strict=True)))
        assert (np.array(found.confusion) == confusion_matrix(y, chosen)).all()
        assert np.allclose([one.predicted for one in found.bins], predicted, rtol=1e-12)
        assert np.allclose([one.observed.value for one in found.bins], observed, rtol=1e-12)
        assert sum(one.rows for one in found.bins) == 3000


def test_a_loss_without_probabilities_has_no_calibration():
    X, y = rows(300, 6)
    model = Model(np.array([0, 1]), np.array([[1.0, -1.0, 0.5]]), np.array([0.0]), Settings(loss="hinge"))
    assert compare(model, {}, [(X, y)]).bins == ()


def test_intervals_hold_the_truth_as_often_as_they_say():
    """95% of 400 samples, within three standard errors (0.011 each)."""
    rng = np.random.default_rng(1)
    truth = compare(fixed([1.0, -1.0, 0.5]), {}, [rows(400_000, 2)]).scores
    held = np.zeros(3)
    for _ in range(400):
        found = compare(fixed([1.0, -1.0, 0.5]), {}, [rows(300, rng.integers(1 << 30))]).scores
        pairs = zip(
            (found.accuracy, found.auc, found.log_loss), (truth.accuracy, truth.auc, truth.log_loss), strict=True
        )
        held += [one.low <= true.value <= one.high for one, true in pairs]
    assert (np.abs(held / 400 - 0.95) < 3 * 0.011).all()


def test_intervals_at_their_ends():
    assert find_share_interval(0, 10).low == 0.0
    assert find_share_interval(10, 10).high == 1.0
    assert find_area_interval(np.zeros(3), np.ones(3)) is None


def test_the_majority_class_is_beside_it():
    X, y = rows(2000, 3)
    found = compare(fixed([1.0, -1.0, 0.5]), {}, [(X, y)])
    (majority,) = found.others
    share = max(y.mean(), 1 - y.mean())
    assert majority.name == f"the majority class, {int(y.mean() > 0.5)}"
    assert majority.accuracy.value == pytest.approx(share)
    assert majority.log_loss.value == pytest.approx(log_loss(y, np.full(2000, y.mean())))
    assert majority.auc.value == 0.5
    assert found.words == ()


def test_words_where_it_is_no_better():
    X, y = rows(2000, 3)
    (word,) = compare(fixed([0.0, 0.0, 0.0], -1.0), {}, [(X, (y & (X[:, 1] > 0)).astype(int))]).words
    assert word.startswith("Its accuracy does not clearly beat that of the majority class, 0: 0.")
    assert word.endswith("its log-loss is clearly worse.")
    (word,) = compare(fixed([-1.0, 1.0, 0.0]), {}, [(X, y)]).words
    assert word.startswith("Its accuracy is below that of the majority class")
    same = fixed([1.0, -1.0, 0.5])
    (word,) = compare(same, {"its twin": same}, [(X, y)]).words
    assert "does not clearly beat that of its twin" in word
    better = compare(same, {"a worse one": fixed([-1.0, 1.0, 0.0])}, [(X, y)])
    assert better.words == ()


def test_no_word_on_which_is_better_on_rows_that_both_learned_from():
    X, y = rows(2_000, 3)
    worse = fixed([-1.0, 1.0, 0.0])
    (majority,) = compare(worse, {"another": fixed([1.0, -1.0, 0.5])}, [(X, y)], learned_from=True).words
    assert "majority class" in majority
    assert len(compare(worse, {"another": fixed([1.0, -1.0, 0.5])}, [(X, y)]).words) == 2


def test_words_that_probabilities_are_better():
    """One class in ten: the majority class is as accurate, and the model's probabilities say more."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    y = (rng.random(20_000) < 1 / (1 + np.exp(3.0 - 0.7 * X[:, 0]))).astype(int)
    (word,) = compare(fixed([0.7, 0.0, 0.0], -3.0), {}, [(X, y)]).words
    assert word.endswith("its log-loss is better.")


def test_words_that_probabilities_are_not_clearly_different():
    """A rival whose log-loss is larger, by less than 1.96 standard errors of the difference."""
    X, y = rows(2000, 3)
    model, rival = fixed([1.1, -1.0, 0.45]), fixed([1.0, -1.0, 0.5])
    losses = [np.logaddexp(0.0, -(2 * y - 1) * one.scores(X)) for one in (model, rival)]
    gain = losses[0] - losses[1]
    assert -1.96 * gain.std() / np.sqrt(2000) < gain.mean() < 0
    (word,) = compare(model, {"a near one": rival}, [(X, y)]).words
    assert word.endswith("its log-loss is not clearly different.")


def test_weighted_classes_are_told_of():
    """Of weights that cost accuracy on purpose; baselines have none."""
    X, y = rows(2000, 3)
    model = fixed([0.1, 0.0, 0.0], 2.0)
    weighted = replace(model, settings=replace(model.settings, class_weight="balanced"))
    said = compare(weighted, {"another": fixed([1.0, -1.0, 0.5])}, [(X, y)]).words
    assert said[-1].startswith("Accuracy is expected to fall: classes count by class_weight = 'balanced'")
    assert said[:-1] == compare(model, {"another": fixed([1.0, -1.0, 0.5])}, [(X, y)]).words


def trained(noise, n=600):
    X, y = rows(n, 5)
    source = np.array(list(noise))[np.arange(n) % len(noise)]
    settings = Settings(random_state=0, row_norm=4.0)
    return train(ArrayRows(Piece(X, y, source)), noise, settings), X, y, source


def test_rivals_learn_from_rows_without_privacy_only():
    noise = {"flips": uneven.FlippedLabels(0.2), "clean": uneven.Exact(), "hidden": uneven.LocalPrivacy(2.0)}
    found, X, y, source = trained(noise)
    rivals = fit_public_rivals(found)
    assert list(rivals) == ["logistic regression on 400 rows without privacy", "'clean' alone, the cleanest source"]
    for (name, model), mine in zip(rivals.items(), (source != "hidden", source == "clean"), strict=True):
        theirs = LogisticRegression(C=1 / (model.alpha * mine.sum()), tol=1e-8).fit(X[mine], y[mine])
        assert model.alpha != found.model.alpha  # that of all rows together is not what these ask for
        np.testing.assert_allclose(model.coef, theirs.coef_, rtol=2e-3, err_msg=name)  # both to convergence
        assert model.privacy_spent == {}


def test_nothing_is_compared_with_itself():
    assert fit_public_rivals(trained({"clean": uneven.Exact()})[0]) == {}
    assert fit_public_rivals(trained({"hidden": uneven.LocalPrivacy(2.0)})[0]) == {}
    assert fit_public_rivals(trained({"a": uneven.Exact(), "b": uneven.Exact()})[0]) == {}  # none is cleaner
    even = {"a": uneven.FlippedLabels(0.1), "b": uneven.FlippedLabels(0.1)}
    assert list(fit_public_rivals(trained(even)[0])) == ["logistic regression on 600 rows without privacy"]


def test_the_objective_shown_has_no_l2_term_of_the_intercept():
    """Learned to convergence, it is the mean loss and (alpha/2)‖w‖², as scikit-learn has it."""
    X, y = rows(500, 8)
    X += 2.0
    trained = train(ArrayRows(Piece(X, y)), None, Settings(alpha=0.05, random_state=0))
    model = trained.model
    shown = measure(trained, "rows", [(X[:300], y[:300]), (X[300:], y[300:])]).objective
    pull = 0.05 / 2 * float(np.square(model.coef).sum())
    assert shown == pytest.approx(log_loss(y, model.predict_proba(X)) + pull, rel=1e-5)  # rows are in float32
    assert abs(float(model.intercept[0])) > 0.1


def test_the_auc_interval_is_that_of_evaluate():
    """Counts of rows by score, beside the rows themselves: DeLong's variance, for few positives too."""
    for negative, positive in (([900, 100], [2, 18]), ([5, 3, 1, 0], [0, 1, 2, 1]), ([4, 1], [0, 1])):
        scores = np.concatenate([np.repeat(np.arange(len(one)), one) for one in (negative, positive)])
        rows = estimate_auc(scores, np.arange(len(scores)) >= sum(negative), 0.95)
        found = find_area_interval(np.array(negative), np.array(positive))
        assert found.value == pytest.approx(rows.value, rel=1e-12)
        assert found.low == pytest.approx(max(rows.low, 0.0), abs=2e-5)  # 1.96 for 1.959964
