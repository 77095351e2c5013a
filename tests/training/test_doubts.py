"""A stated flip rate that the labels contradict is doubted; a true one hardly ever is."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from uneven import Exact, FlippedLabels, LocalPrivacy, UnevenClassifier
from uneven.training.doubts import FALSE_ALARMS, count_agreements

SAID = "The flip rate stated for 'crowd' seems too high"


def draw(n, rate, seed, slope=8.0):
    """Rows, and their labels flipped at a rate."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    truth = rng.random(n) < expit(slope * X[:, 0])
    return X, np.where(truth ^ (rng.random(n) < rate), 1, 0)


def fit(X, y, noise, source=None):
    return UnevenClassifier(noise, random_state=0).fit(X, y, source=source)


def find_doubts(clf):
    return [note for note in clf.notes_ if note.startswith("The flip rate stated for")]


@pytest.mark.parametrize("beside", [False, True])
def test_a_rate_that_is_far_too_high_is_doubted(beside):
    """By the source alone, and beside exact rows; true rate 0.05, stated 0.3."""
    X, y = draw(2000, 0.05, 0)
    source = np.where(np.arange(2000) < 200 * beside, "exact", "crowd")
    noise = {"crowd": FlippedLabels(0.3), **({"exact": Exact()} if beside else {})}
    (doubt,) = find_doubts(fit(X, y, noise, source))
    assert doubt.startswith(SAID)
    assert "where 70.0% at most are expected at that rate" in doubt


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.3, (0.1, 0.3)])
def test_a_true_rate_is_not_doubted(rate):
    X, truth = draw(2000, 0.0, 1, slope=1e6)  # nothing is easier to predict
    pair = rate if isinstance(rate, tuple) else (rate, rate)
    flips = np.random.default_rng(2).random(2000) < np.where(truth == 1, *pair)
    assert find_doubts(fit(X, np.where(flips, 1 - truth, truth), FlippedLabels(rate))) == []


def test_the_rate_of_false_alarms():
    """True labels that features tell for sure, the worst case: over 4,000 draws the test is wrong as often as it says.

    At a level of 5%, which shows it in fewer draws; agreements are binomial with 1 - σ at most.
    """
    level, wrong = 0.05, 0
    for seed in range(4000):
        rng = np.random.default_rng(seed)
        X = np.column_stack([np.sign(rng.normal(size=120)), 0.01 * rng.normal(size=120)])
        y = np.where(rng.random(120) < 0.2, -X[:, 0], X[:, 0])
        rows, agreed = count_agreements({"crowd": (X, y)}, "crowd")
        wrong += binom.sf(agreed - 1, rows, 0.8) < level
    assert rows == 60
    assert wrong / 4000 < level + 3 * np.sqrt(level * (1 - level) / 4000)
    assert wrong > 0
    assert level > FALSE_ALARMS


def test_copies_are_no_evidence():
    """Each of 40 rows fifty times, with the same label: they count as 20 rows that are predicted, not as 1,000."""
    X, y = draw(40, 0.3, 3)
    rows, _ = count_agreements({"crowd": (np.repeat(X, 50, axis=0), np.repeat(2.0 * y - 1.0, 50))}, "crowd")
    assert rows == 20


def test_private_rows_are_not_looked_at():
    X, y = draw(2000, 0.05, 0)
    source = np.where(np.arange(2000) < 200, "exact", "crowd")
    noise = {"exact": Exact(), "crowd": LocalPrivacy(8.0) & FlippedLabels(0.3)}
    assert find_doubts(UnevenClassifier(noise, row_norm=8.0, random_state=0).fit(X, y, source=source)) == []


def test_rows_that_are_all_alike_are_not_doubted():
    """Half of one kind of row is none: there is nothing to learn from."""
    labels = np.random.default_rng(0).integers(2, size=300)
    notes = UnevenClassifier(FlippedLabels(0.3)).fit(np.ones((300, 1)), labels).notes_
    assert not any("flip rate stated" in note for note in notes)
