"""Flipped labels beside exact ones are left out where held-out exact rows are predicted better without them."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from test_doors import write_files

import uneven
from uneven.io import read_sources
from uneven.training.files import train_files

EXACT, WORST = uneven.Exact(), uneven.FlippedLabels(0.45)


def three_or_eight(seed, exact=30, rate=0.45):
    """Nearly separable rows: the first `exact` ones with true labels, 227 with flipped ones; then those to test on."""
    X, y = load_digits(return_X_y=True)
    mine = (y == 3) | (y == 8)
    rng = np.random.default_rng([7, seed])
    order = rng.permutation(int(mine.sum()))
    X, y = X[mine][order] / 16.0, (y[mine][order] == 8).astype(int)
    seen = np.where((rng.random(len(y)) < rate) & (np.arange(len(y)) >= exact), 1 - y, y)
    used = exact + 227
    source = np.where(np.arange(used) < exact, "expert", "crowd")
    return X[:used], seen[:used], source, X[used:], y[used:]


def fit(X, y, source, crowd=WORST, **settings):
    return uneven.UnevenClassifier({"expert": EXACT, "crowd": crowd}, **settings).fit(X, y, source=source)


def is_left_out(clf):
    return any("'crowd' is left out" in note for note in clf.notes_)


def test_harmful_labels_are_left_out_and_the_fit_is_that_of_the_others():
    """To rounding, and of ten samples in most; all of them used would end far above the exact rows alone."""
    losses, out = [], 0
    for seed in range(10):
        X, y, source, X_test, y_test = three_or_eight(seed)
        alone = uneven.UnevenClassifier(EXACT).fit(X[source == "expert"], y[source == "expert"])
        ours, every = fit(X, y, source), fit(X, y, source, use="all")
        if is_left_out(ours):
            out += 1
            assert ours.alpha_ == pytest.approx(alone.alpha_)
            np.testing.assert_allclose(ours.coef_, alone.coef_, rtol=1e-4, atol=1e-6)
            assert list(ours.plan_.order) == ["expert"]
            assert ours.flip_rates_ == {"crowd": 0.45}
        assert not is_left_out(every)
        losses.append([log_loss(y_test, one.predict_proba(X_test)) for one in (ours, every, alone)])
    ours, every, alone = np.array(losses).T
    assert out >= 7
    for other, least in ((every, 0.0), (alone, None)):
        gain = other - ours
        error = gain.std(ddof=1) / len(gain) ** 0.5
        assert gain.mean() > (2 * error if least is not None else -2 * error)


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_labels_that_outnumber_the_exact_ones_are_used(rate):
    """A logistic model, 30 exact rows beside 2,000: never left out in ten samples, and far better than without."""
    gains, crowd = [], uneven.FlippedLabels(rate)
    for seed in range(10):
        rng = np.random.default_rng([1, seed])
        X = rng.normal(size=(6_030, 20))
        y = (rng.random(6_030) < 1 / (1 + np.exp(-X @ np.r_[np.ones(5), np.zeros(15)]))).astype(int)
        source = np.where(np.arange(2_030) < 30, "expert", "crowd")
        seen = np.where((rng.random(2_030) < rate) & (source == "crowd"), 1 - y[:2_030], y[:2_030])
        ours = fit(X[:2_030], seen, source, crowd)
        alone = uneven.UnevenClassifier(EXACT).fit(X[:30], y[:30])
        assert not is_left_out(ours)
        gains.append(np.subtract(*(log_loss(y[2_030:], one.predict_proba(X[2_030:])) for one in (alone, ours))))
    assert np.mean(gains) > 3 * np.std(gains, ddof=1) / len(gains) ** 0.5


def test_a_rate_that_is_stated_far_too_high_cannot_spoil_the_exact_rows():
    """The crowd errs in 5% and is said to err in 45%, so that its surrogate asks for impossible weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9_000, 10))
    y = (rng.random(9_000) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
    source = np.where(np.arange(4_000) < 1_000, "expert", "crowd")
    seen = np.where((rng.random(4_000) < 0.05) & (source == "crowd"), 1 - y[:4_000], y[:4_000])
    alone = uneven.UnevenClassifier(EXACT).fit(X[:1_000], y[:1_000])
    ours = fit(X[:4_000], seen, source)
    losses = [log_loss(y[4_000:], one.predict_proba(X[4_000:])) for one in (ours, alone)]
    assert losses[0] < losses[1] + 0.01


def test_files_leave_out_what_arrays_do(tmp_path):
    X, y, source, *_ = three_or_eight(2)
    clf = fit(X, y, source)
    assert is_left_out(clf)
    file = read_sources(write_files(tmp_path, X, y, source, {"expert": EXACT, "crowd": WORST}, {}).path)
    held, streamed = train_files(file), train_files(file, held_bytes=10_000)
    for trained in (held, streamed):
        assert any("'crowd' is left out" in note for note in trained.model.notes)
        np.testing.assert_allclose(trained.model.coef, clf.coef_, rtol=1e-4, atol=1e-6)


def test_private_rows_are_added_to_what_is_left():
    X, y, source, *_ = three_or_eight(2, exact=100)
    rng = np.random.default_rng(0)
    more = rng.integers(len(y), size=3_000)
    X, y, source = np.vstack([X, X[more]]), np.r_[y, y[more]], np.r_[source, np.full(3_000, "clinic")]
    noise = {"expert": EXACT, "crowd": WORST, "clinic": uneven.LocalPrivacy(3.0)}
    clf = uneven.UnevenClassifier(noise, random_state=0, row_norm=5.0, use="auto").fit(X, y, source=source)
    if is_left_out(clf):
        assert "crowd" not in clf.plan_.order
    assert np.isfinite(clf.coef_).all()
