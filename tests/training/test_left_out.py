"""A private source that is not worth its ε is left out: a plan without steps can still be shown."""

import numpy as np
import pytest

import uneven
from uneven.settings import Settings
from uneven.training.rows import ArrayRows, Piece
from uneven.training.trainer import train


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6_000, 4))
    X /= np.linalg.norm(X, axis=1).max()
    y = np.where(rng.random(6_000) < 1 / (1 + np.exp(-X @ [6.0, -4.0, 2.0, 0.0])), 1, 0)
    return X, y, np.where(np.arange(6_000) < 1_500, "public", "private")


def fitted(rows, epsilon):
    noise = {"public": uneven.Exact(), "private": uneven.LocalPrivacy(epsilon)}
    return uneven.UnevenClassifier(noise, random_state=0).fit(rows[0], rows[1], source=rows[2])


def test_a_plan_without_steps_can_be_shown(rows):
    clf = fitted(rows, epsilon=0.05)
    assert clf.plan_.verdicts["private"].word == "no"
    assert clf.privacy_spent_ == {}
    assert clf.plan_.order == ["public"]
    assert len(clf.plan_.step_sizes()) == len(clf.plan_.step_moments()) == 0
    assert "left out and not charged" in " ".join(clf.plan_.summary().split())
    assert clf.plan_.summary().startswith("Plan 'anchored': no steps, logistic loss")
    assert clf.plan_.plot() is not None


@pytest.mark.parametrize(("use", "told"), [("auto", {"public": 3}), ("all", {"public": 3, "private": 10})])
def test_long_rows_are_told_of_the_sources_that_are_used(rows, use, told):
    X, y, source = rows
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    X[1_497:1_510] *= 3.0  # 3 public rows and 10 private ones
    noise = {"public": uneven.Exact(), "private": uneven.LocalPrivacy(0.05)}
    settings = Settings(row_norm=1.01, use=use, random_state=0)
    assert train(ArrayRows(Piece(X, y, source)), noise, settings).too_long == told


@pytest.mark.parametrize(
    ("classes", "settings"),
    [(2, {}), (2, {"alpha": 1e-3}), (2, {"class_weight": "balanced"}), (2, {"fit_intercept": False}), (3, {})],
)
def test_with_every_private_source_left_out_the_fit_is_that_of_the_public_rows(classes, settings):
    """The same alpha and the same weights, up to the rounding of rows as scaled: they are float32 numbers."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (250, 6))
    y = (X @ rng.normal(size=(6, classes)) + 0.7 * rng.gumbel(size=(250, classes))).argmax(axis=1)
    noise = {"public": uneven.Exact(), "private": uneven.LocalPrivacy(0.1)}
    source = np.repeat(["public", "private"], [200, 50])
    settings = {"row_norm": 3.0, "classes": list(range(classes)), "random_state": 0, **settings}
    both, alone = (uneven.UnevenClassifier(noise, **settings).fit(X[:n], y[:n], source=source[:n]) for n in (250, 200))
    assert both.plan_.order == ["public"]
    assert both.alpha_ == pytest.approx(alone.alpha_, rel=1e-6)
    np.testing.assert_allclose(both.coef_, alone.coef_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(both.intercept_, alone.intercept_, rtol=1e-5, atol=1e-6)


def test_rows_of_a_source_that_is_left_out_count_for_nothing():
    """Beside one that is used: alpha and the answer are those without it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (40_000, 6)) / 6**0.5
    y = np.where(8.0 * X[:, 0] + rng.logistic(size=len(X)) > 0, 1, 0)
    source = np.repeat(["public", "good", "bad"], [100, 10_000, 29_900])
    noise = {"public": uneven.Exact(), "good": uneven.LocalPrivacy(6.0), "bad": uneven.LocalPrivacy(0.02)}
    three, two = (
        uneven.UnevenClassifier(noise, random_state=0, classes=[0, 1]).fit(X[:n], y[:n], source=source[:n])
        for n in (40_000, 10_100)
    )
    assert three.plan_.order == two.plan_.order == ["public", "good"]
    assert three.alpha_ == two.alpha_
    np.testing.assert_allclose(three.coef_, two.coef_, rtol=1e-9)
