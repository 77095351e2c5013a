"""Public rows that are few, or of which one column outweighs the rest: never worse than what one would do instead."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from uneven import AdditiveNoise, Exact, LocalPrivacy, UnevenClassifier
from uneven.anchor.clock import Coordinates
from uneven.anchor.shift import limit_shift

pytestmark = pytest.mark.filterwarnings("ignore:.*")


def log_loss(clf, X, y):
    return float(np.logaddexp(0.0, -np.where(y > 0, 1.0, -1.0) * clf.decision_function(X)).mean())


def draw(count, weights, rng):
    X = rng.normal(size=(count, len(weights)))
    return X, np.where(rng.random(count) < expit(X @ weights), 1, 0)


def fit(X, y, public, epsilon, seed, **settings):
    noise = {"public": Exact(), "private": LocalPrivacy(epsilon)}
    source = np.where(np.arange(len(y)) < public, "public", "private")
    longest = float(np.quantile(np.linalg.norm(X[:public], axis=1), 0.99))
    return UnevenClassifier(noise, row_norm=longest, random_state=seed, **settings).fit(X, y, source=source)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_a_column_with_a_large_mean_hides_nothing_of_what_the_others_know(epsilon):
    """A year beside nine measurements: the public rows know these well, and the private ones are no help."""
    losses = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        weights = rng.normal(size=10)
        X, y = draw(36_000, 2.5 * weights / np.linalg.norm(weights), rng)
        X[:, 0] = 2_000 + 10 * X[:, 0]
        clf = fit(X[:31_000], y[:31_000], 1_000, epsilon, seed)
        alone = LogisticRegression(C=1 / (1_000 * clf.alpha_), max_iter=5_000).fit(X[:1_000], y[:1_000])
        losses.append([log_loss(one, X[31_000:], y[31_000:]) for one in (clf, alone)])
        assert clf.plan_.verdicts["private"].excess_without < 0.05
    ours, theirs = np.mean(losses, axis=0)
    assert ours < theirs + 0.005


@pytest.mark.parametrize(("d", "public"), [(3, 9), (5, 10), (10, 20)])
def test_a_few_public_rows_do_not_lead_many_private_ones_astray(d, public):
    """Two or three rows a column hardly tell the curvature: one long step by it went up to 130 units too far."""
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = draw(public + 25_000, 4.0 * rng.normal(size=d) / d**0.5, rng)
        clf = fit(X[:-5_000], y[:-5_000], public, 10.0, seed, classes=[0, 1])
        alone = UnevenClassifier(LocalPrivacy(10.0), row_norm=clf.scale_.row_norm, random_state=seed, classes=[0, 1])
        alone.fit(X[public:-5_000], y[public:-5_000])
        found.append([log_loss(one, X[-5_000:], y[-5_000:]) for one in (clf, alone)])
    ours, theirs = np.transpose(found)
    assert (ours - theirs).max() < 0.05
    assert ours.mean() < 1.05 * theirs.mean()


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_half_as_many_rows_as_columns_are_no_worse_than_nothing(epsilon):
    losses = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = draw(35_016, 2.0 * rng.normal(size=30) / 30**0.5, rng)
        losses.append(log_loss(fit(X[:30_016] + 3.0, y[:30_016], 16, epsilon, seed), X[30_016:] + 3.0, y[30_016:]))
    assert np.mean(losses) < np.log(2) + 2 * np.std(losses, ddof=1) / 6**0.5


def test_of_three_classes_more_epsilon_is_never_worth_less():
    """20 public rows do not know what clipping takes, and must not believe that it takes much."""
    rng = np.random.default_rng(0)
    centres, y = 1.5 * rng.normal(size=(3, 10)), rng.integers(0, 3, 8_020)
    X = centres[y] + rng.normal(size=(len(y), 10))
    excesses = [fit(X, y, 20, epsilon, 0, classes=[0, 1, 2]).plan_.verdicts["private"] for epsilon in (1.0, 3.0, 10.0)]
    assert (np.diff([one.excess for one in excesses]) < 0).all()
    assert excesses[-1].word == "worth it"


def test_gradients_with_noise_added_count_for_what_they_are_worth():
    """Exact rows and rows with ten times the noise: the more of it, the less sure the public answer is."""
    rng = np.random.default_rng(0)
    X, y = draw(3_000, np.ones(4), rng)
    source = np.repeat(["public", "private"], [1_000, 2_000])
    expected = []
    for variance in (0.01, 25.0):
        noise = {"public": AdditiveNoise(variance), "private": LocalPrivacy(1.0)}
        clf = UnevenClassifier(noise, row_norm=5.0, random_state=0, alpha=1e-3).fit(X, y, source=source)
        expected.append(clf.plan_.verdicts["private"].excess_without)
    assert expected[1] > 3 * expected[0]


def test_another_optimum_is_at_most_twice_as_long_away():
    one = np.ones(2)
    plain = Coordinates(
        np.eye(2), one, np.eye(2), np.array([3.0, 1.0]), 0.5 * np.eye(2), 0 * one, one, 1.0, 0.5, one, 1.0
    )
    assert limit_shift(plain) == pytest.approx(4 * (9 + 1 + 0.5 + 0.5) / 2)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("others", [0, 1])
def test_public_rows_of_one_class_are_not_certain_of_it_where_no_private_row_is_used(others, classes):
    """What is handed out is the shares of the classes with half a row more of each; the verdict's figures are of that.

    The public rows are of one class, or of one and a row of each other.
    """
    rng = np.random.default_rng(0)
    counts = np.append(20, np.full(classes - 1, others))
    y = np.concatenate([np.repeat(np.arange(classes), counts), rng.integers(0, classes, 30)])
    X = rng.normal(size=(len(y), 4))
    public = int(counts.sum())
    clf = fit(X, y, public, 0.1, 0, classes=list(range(classes)))
    verdict = clf.plan_.verdicts["private"]
    assert verdict.word == "no"
    shares = (counts + 0.5) / (public + classes / 2)
    np.testing.assert_allclose(clf.predict_proba(X), np.tile(shares, (len(X), 1)), rtol=1e-3)
    assert verdict.accuracy_without[0] == pytest.approx(20 / public)
    lost = float(np.mean(-np.log(shares[y[:public]])))
    assert verdict.excess_without == pytest.approx(lost, rel=0.1)  # at weights of the shares, and their L2 term


def compare_one_class(epsilon, offset, rows, keep, rng, seed):
    """Log-loss with 30 public rows of which some are kept, with the private rows alone, and of the shares."""
    X = rng.normal(size=(rows + 5_000, 8))
    truth = rng.normal(size=8)
    y = (rng.random(len(X)) < expit(1.5 * X @ truth / np.linalg.norm(truth) + offset)).astype(int)
    order = np.concatenate([np.flatnonzero(keep(y[:30])), np.arange(30, len(X))])
    X, y, public = X[order], y[order], len(order) - len(X) + 30
    clf = fit(X[:-5_000], y[:-5_000], public, epsilon, seed, classes=[0, 1])
    alone = UnevenClassifier(LocalPrivacy(epsilon), row_norm=clf.scale_.row_norm, random_state=seed, classes=[0, 1])
    alone.fit(X[public:-5_000], y[public:-5_000])
    share = (y[:public].sum() + 0.5) / (public + 1.0)
    told, positive = [log_loss(one, X[-5_000:], y[-5_000:]) for one in (clf, alone)], y[-5_000:].mean()
    return *told, float(-positive * np.log(share) - (1.0 - positive) * np.log(1.0 - share))


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_a_class_that_no_public_row_is_of_since_it_is_rare_stays_rare(epsilon):
    """Two rows in a hundred: a start at even odds ended at 0.3 to 0.4, three times what the shares have."""
    rng = np.random.default_rng(1)
    found = [compare_one_class(epsilon, -4.6, 4_000, lambda y: y == 0, rng, seed) for seed in range(8)]
    ours, alone, shares = np.mean(found, axis=0)
    assert ours < min(alone, shares) + 0.02


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_class_that_no_public_row_is_of_by_design_is_learned_from_the_private_rows(epsilon):
    """Six in ten are of it: a start at the shares of the public rows ended at 1.4 with an epsilon of 1."""
    rng = np.random.default_rng(2)
    found = [compare_one_class(epsilon, 0.5, 14_000, lambda y: y == 0, rng, seed) for seed in range(6)]
    ours, alone, shares = np.mean(found, axis=0)
    assert ours < min(alone, shares) + 0.02
