"""partial_fit: after a fit, after itself, and what it refuses to go on with."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import uneven
from samples import blobs, objective, uneven_labels
from uneven import Exact, FlippedLabels, Ledger, LocalPrivacy, UnevenClassifier


def halves(n=8_000, **options):
    X, y = blobs(n)
    first, second = (X[: n // 2], y[: n // 2]), (X[n // 2 :], y[n // 2 :])
    return UnevenClassifier(random_state=0, **options), first, second


def test_after_a_fit_the_count_the_clock_and_the_weights_go_on():
    clf, first, second = halves(passes=1)
    clf.fit(*first)
    before = clf._progress.states[0]
    assert before.step == 80
    clf.partial_fit(*second)
    after = clf._progress.states[0]
    assert (after.step, after.clock) == (160, pytest.approx(2 * before.clock))
    # One more pass over as many rows: half as far from the best as either half alone, or nearer.
    X, y = np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])
    alone = UnevenClassifier(random_state=0, passes=1).fit(*second)
    whole = UnevenClassifier(random_state=0, passes=1).fit(X, y)
    best = objective(UnevenClassifier(random_state=0, alpha=1e-3).fit(X, y), X, y, 1e-3)
    assert objective(clf, X, y, 1e-3) - best < objective(alone, X, y, 1e-3) - best
    assert objective(clf, X, y, 1e-3) - best < 2 * (objective(whole, X, y, 1e-3) - best)


def test_a_fits_average_counts_for_the_clock_it_stands_for():
    """The growing average weighs by p·τ: what a fit leaves stands for the sum of those, τ²/2."""
    clf, first, second = halves()
    clf.fit(*first)
    answer, clock = clf._progress.states[0].average, clf._progress.states[0].clock
    assert clf._progress.states[0].average_weight == clock**2 / 2
    clf.partial_fit(second[0][:50], second[1][:50])
    p = 50.0  # of a batch of 50 exact rows
    expected = answer + p * (clock + p) / (clock**2 / 2 + p * (clock + p)) * (clf._progress.states[0].weights - answer)
    np.testing.assert_allclose(clf._progress.states[0].average, expected, rtol=1e-10)


def test_no_rows_after_a_fit_change_nothing():
    clf, first, second = halves()
    clf.fit(*first)
    before = clf.coef_.copy(), clf._progress.states[0]
    clf.partial_fit(second[0][:0], second[1][:0])
    np.testing.assert_array_equal(clf.coef_, before[0])
    assert clf._progress.states[0] is before[1]


def test_passes_are_taken_and_paid():
    clf, first, _ = halves(noise=LocalPrivacy(1.0), row_norm=5.0, passes=3, ledger=Ledger())
    clf.set_params(random_state=None).partial_fit(*first)
    assert clf._progress.states[0].step == 240
    assert clf.privacy_spent_ == {"data": 3.0}
    assert clf.ledger.max_spent("data") == 3.0


def test_later_rows_are_new_ones_after_a_fit_too():
    clf, first, second = halves(
        800, noise=LocalPrivacy(1.0), row_norm=5.0, ledger=Ledger(budget=1.0), strategy="precision"
    )
    clf.fit(*first).partial_fit(*second)
    assert clf.ledger.sources() == {"data": 800}
    with pytest.raises(uneven.BudgetExceeded, match=r"identified by content\) has spent 1"):
        clf.partial_fit(*(part[:1] for part in first))


@pytest.mark.parametrize("ledger", [None, Ledger])
def test_rows_that_come_again_spend_again(ledger):
    """By their number, with a ledger and without: of 0-199 twice and 200-399 once, the first have spent 2."""
    X, y = blobs(400)
    noise, book = LocalPrivacy(1.0), ledger and ledger()
    clf = UnevenClassifier(noise, row_norm=5.0, budget=2.0, ledger=book, strategy="precision")
    clf.fit(X[:200], y[:200], row_id=np.arange(200))
    assert clf.privacy_spent_ == {"data": 1.0}
    clf.partial_fit(X, y, row_id=np.arange(400))
    assert clf.privacy_spent_ == {"data": 2.0}
    clf = pickle.loads(pickle.dumps(clf)) if ledger is None else clf
    with pytest.raises(
        uneven.BudgetExceeded, match=r"200 of 400 rows .* would exceed the budget of 2: row 0 has spent"
    ):
        clf.partial_fit(X, y, row_id=np.arange(400))
    clf.partial_fit(X[200:], y[200:], row_id=np.arange(200, 400))
    assert clf.privacy_spent_ == {"data": 2.0}
    with pytest.raises(
        ValueError, match=r"row_id .* must be distinct among the private rows of '.*', got 3 more than once"
    ):
        clf.partial_fit(X[:2], y[:2], row_id=[3, 3])
    with pytest.raises(uneven.BudgetExceeded, match="would exceed the budget of 2"):
        clf.fit(X, y, row_id=np.arange(400))  # a second fit goes on counting
    assert clf.privacy_spent_ == {"data": 2.0}


def test_the_ledger_says_what_a_row_has_spent_elsewhere():
    (X, y), ledger = blobs(400), Ledger()
    first = UnevenClassifier(LocalPrivacy(1.0), row_norm=5.0, ledger=ledger).fit(X, y)
    second = clone(first).fit(X[:200], y[:200])
    assert (first.privacy_spent_, second.privacy_spent_) == ({"data": 1.0}, {"data": 2.0})
    own = UnevenClassifier(row_norm=5.0, ledger=ledger).fit(X, y, epsilon=np.where(np.arange(400) < 300, 1.0, 3.0))
    assert list(own.privacy_spent_.values()) == [3.0, 4.0]  # the first 200 have 1 + 1 + 1, the last 100 1 + 3


def test_earlier_calls_are_not_forgotten():
    """A source that does not come again has still spent, and one that spent more has spent more."""
    X, y = blobs(400)
    source = np.where(np.arange(400) < 200, "a", "b")
    clf = UnevenClassifier({"a": LocalPrivacy(3.0), "b": LocalPrivacy(1.0)}, row_norm=5.0, passes=2)
    clf.fit(X, y, source=source).set_params(passes=1)
    with pytest.raises(ValueError, match="row_id must be given for partial_fit on private rows, or a ledger"):
        clf.partial_fit(X[:50], y[:50], source=source[:50])
    clf.partial_fit(X[:50], y[:50], source=source[:50], row_id=np.arange(50))
    assert clf.privacy_spent_ == {"a": 9.0, "b": 2.0}  # rows without an id in fit may be the ones that come now


@pytest.mark.parametrize("numbered", [False, True])
def test_a_second_fit_that_breaks_adds_to_the_account_of_the_first(monkeypatch, numbered):
    X, y = blobs(400)
    options = {"row_id": np.arange(400)} if numbered else {}
    clf = UnevenClassifier({"a": LocalPrivacy(1.0), "b": LocalPrivacy(2.0)}, row_norm=5.0)
    clf.fit(X, y, source=np.repeat(["a", "b"], [300, 100]), **options)

    def breaking(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("uneven.training.running.fit", breaking)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y, source=np.full(400, "a"), **options)
    # Row 300 and those after it have spent 2 as rows of "b" and 1 as rows of "a".
    assert clf.privacy_spent_ == {"a": 3.0, "b": 3.0 if numbered else 2.0}


def test_estimated_rates_are_kept():
    X, y, observed, source = uneven_labels()
    noise = {"expert": Exact(), "crowd": FlippedLabels("estimate")}
    clf = UnevenClassifier(noise, random_state=0).fit(X, observed, source=source)
    rate = clf.flip_rates_["crowd"]
    crowd = source == "crowd"  # the anchor need not come again
    clf.partial_fit(X[crowd], observed[crowd], source=source[crowd])
    assert clf.flip_rates_["crowd"] == rate
    assert clf.score(X, y) > 0.83
    with pytest.raises(ValueError, match="rate of 'crowd' must be known for partial_fit, got 'estimate'"):
        clone(clf).partial_fit(X, observed, source=source)


def test_moments_estimated_on_the_way_go_on():
    clf, first, second = halves(moments="estimated")
    clf.fit(*first)
    assert clf._progress.states[0].estimates["data"][1] == 80
    clf.partial_fit(*second)
    assert clf._progress.states[0].estimates["data"][1] == 160
    told = UnevenClassifier(random_state=0).fit(*first)
    assert (told._progress.states[0].estimates, told._progress.states[0].clock) != (
        clf._progress.states[0].estimates,
        clf._progress.states[0].clock,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 1.0}, "alpha must stay 'auto' for partial_fit to continue, got 1.0; fit starts anew"),
        ({"batch_size": 5}, "batch_size must stay 'auto'"),
        ({"loss": "hinge"}, "loss must stay 'logistic'"),
        ({"noise": LocalPrivacy(1.0)}, "noise must stay None"),
        ({"row_norm": 3.0}, "row_norm must stay 'auto'"),
        ({"clip": 0.1}, "clip must stay 'auto'"),
        ({"sketch": 2}, "sketch must stay None"),
        ({"fit_intercept": False}, "fit_intercept must stay True"),
        ({"moments": "estimated"}, "moments must stay 'auto'"),
        ({"strategy": "two-rates"}, "strategy must be 'precision' for partial_fit, got 'two-rates'"),
        ({"average": "late"}, "average must be 'auto' or 'growing' for partial_fit: .* got 'late'"),
        ({"line_search": 2}, "line_search must be 0 for partial_fit, got 2"),
        ({"passes": 0}, "passes must be a whole number of at least 1, got 0"),
    ],
)
@pytest.mark.parametrize("begin", ["fit", "partial_fit"])
def test_settings_that_would_be_ignored_are_refused(begin, change, message):
    clf, first, second = halves(400)
    getattr(clf, begin)(*first)
    before = clf.coef_.copy()
    with pytest.raises(ValueError, match=message):
        clf.set_params(**change).partial_fit(*second)
    np.testing.assert_array_equal(clf.coef_, before)


def test_other_classes_are_refused():
    clf, first, second = halves(400)
    clf.fit(*first).partial_fit(*second, classes=[1, 0])
    for other in ([0, 1, 2], ["a", "b"], [0]):
        with pytest.raises(ValueError, match=r"^classes must stay \[0, 1\] for partial_fit, got \["):
            clf.partial_fit(*second, classes=other)


def test_a_noise_changed_in_place_is_refused():
    X, y = blobs(400)
    noise = {"a": Exact(), "b": FlippedLabels(0.1)}
    source = np.resize(["a", "b"], 400)
    clf = UnevenClassifier(noise, random_state=0).fit(X, y, source=source)
    noise["b"] = FlippedLabels(0.4)
    with pytest.raises(ValueError, match=r"noise must stay .* for partial_fit to continue"):
        clf.partial_fit(X, y, source=source)


def test_what_cannot_go_on_says_why():
    clf, first, second = halves(400, strategy="averaged")
    clf.fit(*first)
    with pytest.raises(ValueError, match="cannot continue from a fit with strategy 'averaged'"):
        clf.set_params(strategy="precision").partial_fit(*second)
    clf.fit(*first, flip_rate=np.full(200, 0.1))
    with pytest.raises(ValueError, match="cannot continue from a fit to rows with noise of their own"):
        clf.partial_fit(*second)
    clf.fit(*first).partial_fit(*second)


def test_private_rows_cannot_follow_a_scale_taken_from_others():
    (X, y), ledger = blobs(400), Ledger()
    source = np.where(np.arange(400) < 200, "a", "b")
    clf = UnevenClassifier({"a": Exact(), "b": LocalPrivacy(1.0)}, ledger=ledger).fit(
        X[:200], y[:200], source=source[:200]
    )
    with pytest.raises(ValueError, match="row_norm must be a number where private rows come after others, got 'auto'"):
        clf.partial_fit(X[200:], y[200:], source=source[200:])
    assert ledger.sources() == {}
    clf.set_params(row_norm=5.0).fit(X[:200], y[:200], source=source[:200])
    clf.partial_fit(X[200:], y[200:], source=source[200:])
    assert clf.privacy_spent_ == {"b": 1.0}


def test_activity_is_found_over_all_calls():
    """As many rows again halve the variance of what was found; a source that does not come keeps what was found."""
    (X, y), rng = blobs(4_000, 3), np.random.default_rng(0)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    noise = {"a": LocalPrivacy(4.0), "b": LocalPrivacy(5.0)}
    source = np.where(rng.random(4_000) < 0.5, "a", "b")
    clf = UnevenClassifier(noise, random_state=1).fit(X, y, source=source)
    before = clf.activity_
    assert all(0 < one.found < 1 for one in before.values())
    mine = source == "a"
    clf.partial_fit(X[mine], y[mine], source=source[mine], row_id=np.flatnonzero(mine))
    assert clf.activity_["b"] == before["b"]
    now, then = (one.high - one.low for one in (clf.activity_["a"], before["a"]))
    assert now == pytest.approx(then / np.sqrt(2), rel=0.1)


def test_of_sources_that_come_together_the_noisiest_is_first():
    """One call with rows of both is the call with the private ones, then the call with the exact ones."""
    X, y = blobs(400)
    source = np.where(np.arange(400) % 2 == 0, "exact", "private")
    noise = {"exact": Exact(), "private": LocalPrivacy(2.0)}
    together, apart = (UnevenClassifier(noise, row_norm=5.0, random_state=0, use="all") for _ in range(2))
    together.partial_fit(X, y, source=source, row_id=np.arange(400))
    for name in ("private", "exact"):
        mine = source == name
        apart.partial_fit(X[mine], y[mine], source=source[mine], row_id=np.flatnonzero(mine))
    np.testing.assert_array_equal(together.coef_, apart.coef_)
    np.testing.assert_array_equal(together.intercept_, apart.intercept_)
