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
