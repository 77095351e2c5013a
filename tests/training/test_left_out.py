"""A private source that is not worth its ε is left out: a plan without steps can still be shown."""

import numpy as np
import pytest

import uneven


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
