"""UnevenClassifier: scikit-learn's own checks, its limits, its privacy, and what it refuses."""

import warnings

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import uneven
from samples import blobs, objective, uneven_labels
from uneven import Exact, FlippedLabels, Ledger, LocalPrivacy, UnevenClassifier
from uneven.planner import change_rates, find_rate_intervals, make_plan
from uneven.problem import DEFAULT_ALPHA
from uneven.training import flips
from uneven.training.line_search import find_best, list_candidates, list_comparable

CHECKS = list(estimator_checks_generator(UnevenClassifier(random_state=0)))


@pytest.mark.parametrize(
    ("estimator", "check"), CHECKS, ids=lambda value: getattr(value, "func", value).__class__.__name__
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("alpha", [1e-2, 1e-3, 1e-4, 1e-5])
def test_one_exact_source_is_logistic_regression(alpha):
    """One pass comes within 0.5% of the optimum's objective, ten within 0.2% (the intercept's own penalty included)."""
    X, y = blobs(20_000)
    theirs = LogisticRegression(C=1 / (alpha * len(y)), tol=1e-8, max_iter=1_000).fit(X, y)
    best = objective(theirs, X, y, alpha)
    for passes, limit in [(1, 1.005), (10, 1.002)]:
        ours = UnevenClassifier(alpha=alpha, random_state=0, passes=passes).fit(X, y)
        assert best * (1 - 1e-9) <= objective(ours, X, y, alpha) <= limit * best
        assert abs(ours.score(X, y) - theirs.score(X, y)) < 0.005


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_rows_of_any_scale(scale):
    """Scaling rows by s and alpha by s² is the same problem: the same predictions, coefficients smaller by s."""
    X, y = blobs()
    plain = UnevenClassifier(alpha=1e-2, random_state=0).fit(X, y)
    scaled = UnevenClassifier(alpha=1e-2 * scale**2, random_state=0).fit(X * scale, y)
    np.testing.assert_allclose(scaled.coef_ * scale, plain.coef_, rtol=1e-4)
    np.testing.assert_allclose(scaled.intercept_, plain.intercept_, rtol=1e-4)


def test_no_intercept():
    X, y = blobs()
    clf = UnevenClassifier(fit_intercept=False, random_state=0).fit(X, y)
    assert clf.intercept_ == [0.0]
    assert clf.plan_.problem.n_features == 4


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [0, 1], [3.0, 7.0]])
def test_labels_of_any_kind(labels):
    X, y = blobs()
    named = np.array(labels)[y]
    clf = UnevenClassifier(random_state=0).fit(X, named)
    assert list(clf.classes_) == labels
    assert set(clf.predict(X)) == set(labels)
    assert clf.score(X, named) > 0.8


def test_more_than_two_classes():
    rng = np.random.default_rng(0)
    centres = np.array([[3, 0], [-3, 0], [0, 4]])
    y = rng.integers(3, size=3_000)
    X = centres[y] + rng.normal(size=(3_000, 2))
    names = np.array(["a", "b", "c"])[y]
    clf = UnevenClassifier(random_state=0).fit(X, names)
    assert clf.coef_.shape == (3, 2)
    assert clf.score(X, names) > 0.95
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1)
    for settings in ({"multi_class": "one-vs-rest"}, {"loss": "hinge"}):
        with pytest.raises(
            ValueError, match="multi_class must be 'softmax', with the logistic loss, for more than two"
        ):
            UnevenClassifier(LocalPrivacy(1.0), classes=np.unique(names), **settings).fit(X, names)


def test_probabilities_are_for_the_logistic_loss():
    X, y = blobs()
    clf = UnevenClassifier(random_state=0).fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X)[:, 1], 1 / (1 + np.exp(-clf.decision_function(X))))
    assert not hasattr(UnevenClassifier(loss="hinge"), "predict_proba")
    assert UnevenClassifier(loss="hinge", random_state=0).fit(X, y).score(X, y) > 0.8


def test_alpha_is_not_chosen_on_flipped_labels_that_the_loss_has_no_surrogate_for():
    X, _, observed, source = uneven_labels()
    noise = {"expert": Exact(), "crowd": FlippedLabels(0.3)}
    for loss, same in (("hinge", True), ("logistic", False)):
        models = (UnevenClassifier(noise, loss=loss, alpha=alpha, random_state=0) for alpha in ("auto", DEFAULT_ALPHA))
        alphas = [model.fit(X, observed, source=source).alpha_ for model in models]
        assert (alphas[0] == alphas[1]) == same


def test_sparse_rows_are_dense_rows():
    X, y = blobs()
    X[np.abs(X) < 0.5] = 0
    dense, thin = (UnevenClassifier(random_state=0).fit(form, y) for form in (X, sparse.csr_matrix(X)))
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-5)
    np.testing.assert_array_equal(thin.predict(sparse.csr_array(X)), dense.predict(X))


# Sources.


def test_corrected_labels_beat_uncorrected_ones():
    X, y, observed, source = uneven_labels()
    noise = {"expert": Exact(), "crowd": FlippedLabels(0.35)}
    told = UnevenClassifier(noise, random_state=0).fit(X, observed, source=source)
    untold = UnevenClassifier(random_state=0).fit(X, observed)
    assert told.plan_.order == ["crowd", "expert"]
    assert np.linalg.norm(told.coef_) > 1.2 * np.linalg.norm(untold.coef_)  # the flips shrink what is not corrected
    assert objective(told, X, y, 1e-3) < objective(untold, X, y, 1e-3) - 0.03


ESTIMATE = {"expert": Exact(), "crowd": FlippedLabels("estimate")}


def estimated_rate(rate, n, seed=1, **options):
    X, _, observed, source = uneven_labels(rate, n, seed)
    return UnevenClassifier(ESTIMATE, random_state=0, **options).fit(X, observed, source=source).flip_rates_["crowd"]


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.1, 0.25, 0.4])
def test_flip_rates_are_estimated(rate):
    """Five samples of 18,000 labels: the mean within 0.01 (a standard error of one is about 0.006 at 0.4)."""
    assert np.mean([estimated_rate(rate, 20_000, seed) for seed in range(5)]) == pytest.approx(rate, abs=0.01)


@pytest.mark.slow
def test_estimated_rates_do_not_depend_on_alpha():
    assert estimated_rate(0.25, 6_000, alpha=10.0) == estimated_rate(0.25, 6_000, alpha=1e-5)


@pytest.mark.slow
def test_few_anchors_are_enough():
    """Sixty anchors and 540 labels, six samples: 20 estimates had a standard deviation of 0.024."""
    mean = np.mean([estimated_rate(0.25, 600, seed) for seed in range(6)])
    assert mean == pytest.approx(0.25, abs=4 * 0.024 / 6**0.5)


def test_an_estimate_at_its_limit_is_told():
    X, y, _, source = uneven_labels()
    wrong = np.where(source == "crowd", 1 - y, y)
    with pytest.warns(UserWarning, match="flip rate of 'crowd' was estimated at its limit, 0.49"):
        clf = UnevenClassifier(ESTIMATE, random_state=0).fit(X, wrong, source=source)
    assert clf.flip_rates_["crowd"] == 0.49


def test_an_estimate_needs_an_anchor():
    X, y, observed, source = uneven_labels()
    with pytest.raises(ValueError, match="noise must have a source with a known flip rate and without privacy"):
        UnevenClassifier(FlippedLabels("estimate")).fit(X, y)
    noise = {"expert": LocalPrivacy(1.0), "crowd": FlippedLabels("estimate")}
    with pytest.raises(ValueError, match="to anchor the estimate of 'crowd'"):
        UnevenClassifier(noise).fit(X, observed, source=source)
    with pytest.raises(ValueError, match="loss must be 'logistic' to estimate flip rates"):
        UnevenClassifier({**noise, "expert": Exact()}, loss="hinge").fit(X, observed, source=source)
    with pytest.raises(ValueError, match="rate must be a number here, got 'estimate'"):
        uneven.plan([uneven.Source("a", 5, FlippedLabels("estimate"))], 3)


def test_a_noise_level_a_row_is_a_source_a_level():
    X, y = blobs()
    level = np.where(np.arange(len(y)) < 400, 8.0, 1.0)
    by_row = UnevenClassifier(row_norm=5.0).fit(X, y, epsilon=level)
    assert sorted(by_row.privacy_spent_.values()) == [1.0, 8.0]
    for mechanism in ("privunit", "l2-laplace"):
        clf = UnevenClassifier(random_state=0, row_norm=5.0, mechanism=mechanism).fit(X, y, epsilon=level)
        assert {one.noise for one in clf.plan_.sources} == {LocalPrivacy(e, mechanism) for e in (1.0, 8.0)}
    by_rate = UnevenClassifier(random_state=0).fit(X, y, flip_rate=np.where(level == 8, 0.0, 0.2))
    assert sorted(by_rate.flip_rates_.values()) == [0.0, 0.2]


def test_many_levels_are_rounded_to_more_privacy_never_less():
    X, y = blobs()
    asked = np.exp(np.random.default_rng(0).uniform(-1, 2, len(y)))
    clf = UnevenClassifier(row_norm=5.0).fit(X, y, epsilon=asked)
    given = np.array(sorted(clf.privacy_spent_.values()))
    assert len(given) <= 256
    assert given.max() <= asked.max()
    from uneven.training.grouping import _round_down

    rounded = _round_down(asked)
    assert (rounded <= asked * (1 + 1e-12)).all()
    assert (rounded >= asked * 0.98).all()


# Privacy.


def test_privacy_spent_and_budget():
    X, y = blobs()
    source = np.where(np.arange(len(y)) < 400, "a", "b")
    noise = {"a": LocalPrivacy(8.0), "b": LocalPrivacy(1.0)}
    options = {"row_norm": 5.0}
    assert UnevenClassifier(noise, **options).fit(X, y, source=source).privacy_spent_ == {"a": 8.0, "b": 1.0}
    assert UnevenClassifier(noise, passes=2, **options).fit(X, y, source=source).privacy_spent_ == {"a": 16.0, "b": 2.0}
    with pytest.raises(ValueError, match="budget must be at least 16, what a row of 'a' would spend, got 10"):
        UnevenClassifier(noise, passes=2, budget=10, **options).fit(X, y, source=source)
    assert UnevenClassifier(Exact(), **options).fit(X, y).privacy_spent_ == {}


def test_the_ledger_is_charged_and_refuses():
    X, y = blobs()
    ledger = Ledger(budget=2.5)
    clf = UnevenClassifier(LocalPrivacy(1.0), ledger=ledger, row_norm=5.0)
    clf.fit(X, y)
    clone(clf).fit(X, y)  # a clone writes into the same book
    assert ledger.max_spent("data") == 2.0
    before = clf.coef_.copy()
    with pytest.raises(uneven.BudgetExceeded, match=r"would exceed the budget of 2.5"):
        clf.fit(X, y)
    np.testing.assert_array_equal(clf.coef_, before)
    with pytest.raises(ValueError, match="rows of a ledger must all be known by content, as its first were; got rows"):
        clf.fit(X[:50], y[:50], row_id=np.arange(10_000, 10_050))
    clf.fit(X[:50] / 2, y[:50])
    assert ledger.sources() == {"data": 4_050}


def test_rows_that_tell_their_own_epsilon_are_known_by_their_content():
    """The same row at another ε is still the same row."""
    X, y = blobs(400)
    ledger = Ledger(budget=5.0)
    clf = UnevenClassifier(ledger=ledger, row_norm=5.0)
    clf.fit(X, y, epsilon=np.full(400, 3.0))
    with pytest.raises(uneven.BudgetExceeded, match="would exceed the budget of 5"):
        clf.fit(X, y, epsilon=np.where(np.arange(400) < 1, 2.5, 1.0))
    clf.fit(X, y, epsilon=np.linspace(0.5, 1.5, 400))
    np.testing.assert_array_equal(ledger.spent_by(ledger.fingerprint(X))[[0, 399]], [3.5, 4.5])


@pytest.mark.parametrize("own", ["epsilon", "source"])
def test_the_budget_counts_what_the_ledger_has_already(own):
    """The ledger itself has no budget: the classifier's binds what a row has spent before as well."""
    X, y = blobs(400)
    ledger = Ledger()
    ledger.charge("elsewhere", ledger.fingerprint(X[5:6]), 1.5)
    noise, told = (None, {"epsilon": np.ones(400)}) if own == "epsilon" else (LocalPrivacy(1.0), {})
    clf = UnevenClassifier(noise, ledger=ledger, row_norm=5.0, budget=2.0)
    with pytest.raises(
        uneven.BudgetExceeded, match=r"1 of 400 rows .*: one row \(identified by content\) has spent 1.5"
    ):
        clf.fit(X, y, **told)
    assert ledger.sources() == {"elsewhere": 1}


def test_more_rows_later_are_other_rows():
    X, y = blobs(600)
    ledger = Ledger(budget=1.0)
    clf = UnevenClassifier(LocalPrivacy(1.0), ledger=ledger, row_norm=5.0)
    for start in (0, 200, 400):
        clf.partial_fit(X[start : start + 200], y[start : start + 200], classes=[0, 1])
    assert ledger.sources() == {"data": 600}
    assert clf.privacy_spent_ == {"data": 1.0}
    with pytest.raises(uneven.BudgetExceeded, match=r"identified by content\) has spent 1"):
        clf.partial_fit(X[:1], y[:1])


def test_the_charge_comes_before_the_release(monkeypatch):
    """A run that breaks has been paid for; a charge that is refused is followed by no run."""
    X, y = blobs(400)
    ledger, ran = Ledger(budget=1.0), []

    def breaking(*_, **__):
        ran.append(ledger.max_spent("data"))
        raise RuntimeError("power cut")

    monkeypatch.setattr("uneven.training.running.fit", breaking)
    clf = UnevenClassifier(LocalPrivacy(1.0), ledger=ledger, row_norm=5.0)
    with pytest.raises(RuntimeError, match="power cut"):
        clf.fit(X, y)
    assert ran == [1.0]
    with pytest.raises(uneven.BudgetExceeded):
        clf.fit(X, y)
    assert ran == [1.0]


def test_a_refusal_of_one_source_charges_no_other():
    X, y = blobs(400)
    source = np.where(np.arange(400) < 100, "a", "b")
    ledger = Ledger()
    ledger.charge("b", ledger.fingerprint(X[200:201]), 5.0)
    clf = UnevenClassifier({"a": LocalPrivacy(1.0), "b": LocalPrivacy(2.0)}, ledger=ledger, budget=6.0, row_norm=5.0)
    with pytest.raises(uneven.BudgetExceeded, match="rows of source 'b' would exceed the budget of 6"):
        clf.fit(X, y, source=source)
    assert ledger.sources() == {"b": 1}


@pytest.mark.parametrize(
    "options", [{"average": "median"}, {"clip": -1}, {"line_search": 2}, {"budget": float("nan")}, {"budget": -3}]
)
def test_what_is_refused_is_not_charged(options):
    X, y = blobs(400)
    ledger = Ledger()
    with pytest.raises(ValueError, match=r"\w+"):
        UnevenClassifier(LocalPrivacy(1.0), ledger=ledger, row_norm=5.0, **options).fit(X, y)
    with pytest.raises(ValueError, match="rows must be dense where a source is private"):
        UnevenClassifier(LocalPrivacy(1.0), ledger=ledger, row_norm=5.0).fit(sparse.csr_array(X), y)
    assert ledger.sources() == {}


def test_a_declared_privacy_is_never_dropped():
    X, y = blobs(400)
    for own in ({"flip_rate": np.zeros(400)}, {"epsilon": np.full(400, 100.0)}):
        with pytest.raises(ValueError, match="noise must be None where rows have their own"):
            UnevenClassifier(LocalPrivacy(0.1)).fit(X, y, **own)
    with pytest.raises(ValueError, match="noise must have names that differ as text"):
        UnevenClassifier({1: LocalPrivacy(0.1), "1": Exact()}).fit(X, y, source=np.ones(400, int))


def test_flip_rates_are_not_estimated_from_private_rows(monkeypatch):
    X, _, observed, source = uneven_labels()
    source = np.where(np.arange(len(source)) % 3 == 0, "clinic", source)
    noise = {"expert": Exact(), "crowd": FlippedLabels("estimate"), "clinic": LocalPrivacy(8.0)}
    seen, real = [], flips.estimate_noises

    def spy(noises, data):
        seen.append(set(data))
        return real(noises, data)

    monkeypatch.setattr(flips, "estimate_noises", spy)
    for strategy in ("auto", "precision"):
        UnevenClassifier(noise, random_state=0, row_norm=5.0, strategy=strategy).fit(X, observed, source=source)
    assert seen == [{"expert", "crowd"}] * 2


def test_what_was_charged_stays_on_the_account_of_a_call_that_broke(monkeypatch):
    def breaking(*_, **__):
        raise RuntimeError("power cut")

    X, y = blobs(400)
    clf = UnevenClassifier(LocalPrivacy(1.0), row_norm=5.0)
    monkeypatch.setattr("uneven.training.running.fit", breaking)
    with pytest.raises(RuntimeError, match="power cut"):
        clf.fit(X, y)
    assert clf.privacy_spent_ == {"data": 1.0}
    assert not hasattr(clf, "coef_")


def test_passes_and_tries_multiply():
    X, y = blobs(2_000)
    X /= np.linalg.norm(X, axis=1).max()
    source = np.where(np.arange(len(y)) < 400, "a", "b")
    clf = UnevenClassifier(
        {"a": LocalPrivacy(2.0), "b": LocalPrivacy(1.0)}, strategy="two-rates", line_search=3, passes=2, budget=12.0
    )
    clf.fit(X, y, source=source, validation=(X + 1e-3, y))
    assert clf.privacy_spent_ == {"a": 12.0, "b": 6.0}


def test_a_refused_call_leaves_the_model_as_it_was():
    X, y = blobs()
    clf = UnevenClassifier(random_state=0).fit(X, y)
    before = clf.predict(X)
    with pytest.raises(ValueError, match="source"):
        clf.fit(X, np.where(y == 1, "q", "r"), source=["a"] * 3)
    np.testing.assert_array_equal(clf.predict(X), before)


def test_fit_starts_anew():
    X, y = blobs()
    clf = UnevenClassifier(random_state=0).partial_fit(X, y)
    clf.fit(X * 100, 1 - y)
    np.testing.assert_array_equal(clf.coef_, UnevenClassifier(random_state=0).fit(X * 100, 1 - y).coef_)


@pytest.mark.parametrize("told", ["source", "epsilon"])
def test_sources_left_out_spend_nothing(told):
    """The cleanest alone: a budget that only the other would exceed is not refused either."""
    (X, y), ledger = blobs(400), Ledger()
    dirty = np.arange(400) < 300
    if told == "source":
        noise, how = {"a": LocalPrivacy(1.0), "b": Exact()}, {"source": np.where(dirty, "a", "b")}
    else:
        noise, how = None, {"epsilon": np.where(dirty, 1.0, 2.0)}
    clf = UnevenClassifier(noise, strategy="clean-only", ledger=ledger, row_norm=5.0, passes=3)
    clf.set_params(budget=2.9 if told == "source" else None).fit(X, y, **how)
    assert list(clf.privacy_spent_.values()) == ([] if told == "source" else [6.0])
    assert ledger.sources() == ({} if told == "source" else {"data": 100})


def test_a_search_is_refused_with_its_passes_counted():
    X, y = blobs(400)
    noise = {"a": LocalPrivacy(2.0), "b": LocalPrivacy(1.0)}
    clf = UnevenClassifier(noise, strategy="two-rates", line_search=3, passes=2, budget=10.0, row_norm=5.0)
    with pytest.raises(ValueError, match=r"private row 6 times, for ε = 12 per row; budget must allow that, got 10\.0"):
        clf.fit(X, y, source=np.where(np.arange(400) < 100, "a", "b"), validation=(X + 1e-3, y))


def test_a_refused_search_charges_nothing():
    X, y = blobs()
    source = np.where(np.arange(len(y)) < 400, "a", "b")
    ledger = Ledger()
    noise = {"a": LocalPrivacy(10.0), "b": LocalPrivacy(1.0)}
    clf = UnevenClassifier(noise, strategy="two-rates", line_search=3, ledger=ledger, row_norm=5.0)
    with pytest.raises(ValueError, match="line_search"):
        clf.fit(X, y, source=source)
    assert ledger.sources() == {}


def test_a_cross_validation_on_private_rows_spends_as_often_as_it_fits():
    X, y = blobs()
    ledger = Ledger(budget=3.0)
    with sklearn.config_context(enable_metadata_routing=True):
        clf = UnevenClassifier(LocalPrivacy(1.0), ledger=ledger, row_norm=5.0).set_fit_request(row_id=True)
        with pytest.raises(ValueError, match="budget"):
            cross_val_score(clf, X, y, cv=5, params={"row_id": np.arange(len(y))}, error_score="raise")
    assert ledger.max_spent("data") == 3.0


def test_long_rows_are_shrunk_with_a_word_to_their_owner():
    X, y = blobs()
    with pytest.warns(UserWarning, match=r"of 4,000 rows \(private rows among them\) are longer than row_norm = 1 "):
        clf = UnevenClassifier(LocalPrivacy(1.0), random_state=0).fit(X, y)
    assert clf.scale_.row_norm == 1.0
    short = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", uneven.SimulationWarning)
        same = UnevenClassifier(LocalPrivacy(1.0), random_state=0).fit(short, y)
    np.testing.assert_allclose(same.coef_, clf.coef_, rtol=1e-5)
    with pytest.raises(ValueError, match=r"row_norm must be at least .* with long_rows='refuse'; got 1"):
        UnevenClassifier(LocalPrivacy(1.0), long_rows="refuse").fit(X, y)


def test_nothing_is_scaled_by_private_data():
    """Another data set, another largest row: the same constants."""
    X, y = blobs()
    with pytest.warns(UserWarning, match="were shrunk"):
        scales = [UnevenClassifier(LocalPrivacy(1.0)).fit(s * X, y).scale_ for s in (1.0, 50.0)]
    assert scales[0] == scales[1]


def test_no_seed_is_another_answer_every_time():
    X, y = blobs()
    clf = UnevenClassifier(LocalPrivacy(1.0), row_norm=5.0)
    assert (clf.fit(X, y).coef_ != clone(clf).fit(X, y).coef_).all()


# Going on.


def test_partial_fit_continues_the_clock():
    X, y = blobs()
    clf = UnevenClassifier(random_state=0, row_norm=6.0)
    steps = []
    for start in range(0, 4_000, 500):
        clf.partial_fit(X[start : start + 500], y[start : start + 500], classes=[0, 1])
        steps.append(clf._progress.states[0].step)
    assert steps == list(range(10, 81, 10))
    assert clf.score(X, y) > 0.83
    before = clf.coef_.copy(), clf._progress.states[0]
    clf.partial_fit(X[:0], y[:0])
    UnevenClassifier().partial_fit(X[:0], y[:0]).partial_fit(100 * X, y)  # no rows, no norm taken from them
    np.testing.assert_array_equal(clf.coef_, before[0])
    assert clf._progress.states[0] is before[1]


def test_partial_fit_from_sources_private_ones_among_them():
    X, y, observed, source = uneven_labels()
    noise = {"expert": LocalPrivacy(8.0), "crowd": FlippedLabels(0.35)}
    clf = UnevenClassifier(noise, random_state=0, row_norm=5.0)
    for rows in (source == "crowd", source == "expert"):
        told = {"row_id": np.flatnonzero(rows), "source": source[rows]}
        clf.partial_fit(X[rows], observed[rows], classes=[0, 1], **told)
    assert clf.privacy_spent_ == {"expert": np.inf}
    assert clf._account.counted == {"expert": 8.0}
    assert clf.score(X, y) > 0.8


def test_partial_fit_refuses_what_it_cannot_go_on_with():
    X, y = blobs()
    with pytest.raises(ValueError, match="strategy must be 'precision' for partial_fit, got 'two-rates'"):
        UnevenClassifier(strategy="two-rates").partial_fit(X, y)
    clf = UnevenClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match=r"y must hold the classes .*, got"):
        clf.partial_fit(X, y + 5)
    with pytest.warns(
        UserWarning,
        match="rows were shrunk to .*, twice the root-mean-square norm of earlier ones, in source .data.; got",
    ):
        clf.partial_fit(X * 100, y)
    with pytest.raises(ValueError, match="rows of source 'data' must have a root-mean-square norm of at most"):
        clf.set_params(long_rows="refuse").partial_fit(X * 100, y)


# The paper's line search.


def test_line_search_within_the_budget():
    X, y = blobs(8_000)
    X /= np.linalg.norm(X, axis=1).max()
    source = np.where(np.arange(len(y)) < 800, "a", "b")
    noise = {"a": LocalPrivacy(10.0), "b": LocalPrivacy(1.0)}
    options = {"strategy": "two-rates", "random_state": 0, "line_search": 4}
    clf = UnevenClassifier(noise, budget=40.0, **options)
    clf.fit(X, y, source=source, validation=(X[:500] + 1e-3, y[:500]))
    assert clf._account.counted == {"a": 40.0, "b": 4.0}
    first, second = clf.plan_.order
    low, high = find_rate_intervals(clf.plan_.sources, clf.plan_.problem)[second]
    assert low <= clf.plan_.rates[second] <= high
    assert clf.plan_.rates[first] == pytest.approx(1 / clf.plan_.problem.alpha)
    assert clf.plan_ == change_rates(
        clf.plan_, list(clf.plan_.rates.values())
    )  # its bound is that of the rate that ran
    with pytest.raises(ValueError, match="line_search=4 would release every private row 4 times, for ε = 40 per row"):
        UnevenClassifier(noise, **options).fit(X, y, source=source, validation=(X[:500] + 1e-3, y[:500]))
    with pytest.raises(ValueError, match="line_search needs rows without privacy to compare runs on"):
        UnevenClassifier(noise, budget=40.0, **options).fit(X, y, source=source)
    with pytest.raises(ValueError, match="line_search needs strategy='two-rates' and two sources"):
        UnevenClassifier(noise, budget=40.0, line_search=4).fit(X, y, source=source, validation=(X + 1e-3, y))


def test_the_best_of_a_search_is_taken():
    X, y = blobs(8_000)
    X /= np.linalg.norm(X, axis=1).max()
    source = np.where(np.arange(len(y)) < 800, "a", "b")
    noise = {"a": LocalPrivacy(10.0), "b": LocalPrivacy(1.0)}
    clf = UnevenClassifier(noise, strategy="two-rates", random_state=0, line_search=5, budget=50.0, alpha=1e-2)
    clf.fit(X, y, source=source, validation=(X + 1e-3, y))
    plain = clone(clf).set_params(line_search=0)
    rates = [one.rates[one.order[-1]] for one in list_candidates(plain.fit(X, y, source=source).plan_, 5)]
    assert clf.plan_.rates[clf.plan_.order[-1]] in rates
    ends = []
    for one in list_candidates(plain.plan_, 5):
        data = {name: (plain.scale_.rows(X[source == name]), 2.0 * y[source == name] - 1) for name in noise}
        w = uneven.fit(one, data, seed=0).weights
        ends.append(uneven.objective(one.problem, w, plain.scale_.rows(X), 2.0 * y - 1))
    assert max(ends) > min(ends) * 1.01
    assert rates[int(np.argmin(ends))] == clf.plan_.rates[clf.plan_.order[-1]]


def test_a_search_without_privacy_needs_no_budget():
    """Exact rows and flipped labels: between the best c₂ for variances and that for upper moments."""
    X, y, observed, source = uneven_labels()
    noise = {"expert": Exact(), "crowd": FlippedLabels(0.35)}
    clf = UnevenClassifier(noise, strategy="two-rates", random_state=0, line_search=4)
    clf.fit(X, observed, source=source)
    second = clf.plan_.order[-1]
    sources, problem = clf.plan_.sources, clf.plan_.problem
    ends = [make_plan(sources, problem, "two-rates", which).rates[second] for which in ("variance", "upper")]
    low, high = find_rate_intervals(sources, problem)[second]
    assert (low, high) == pytest.approx(sorted(ends))
    assert high > 1.05 * low
    assert low * (1 - 1e-9) <= clf.plan_.rates[second] <= high * (1 + 1e-9)
    assert clf.score(X, y) > 0.8


def test_runs_are_compared_on_true_labels_or_on_corrected_ones():
    noises = {"a": FlippedLabels(0.3), "b": LocalPrivacy(1.0), "c": FlippedLabels(0.1), "d": Exact()}
    assert list_comparable(noises) == ["d", "c", "a"]
    X, y, _, _ = uneven_labels(n=20_000)
    X, sign = X / 10, 2.0 * y - 1
    flipped = FlippedLabels(0.35).corrupt(sign, np.random.default_rng(0))
    plan = uneven.plan([uneven.Source("a", 10)], 4, 1e-5, norms="rms")
    # At the true weights and at ones too small: flipped labels as they are prefer the small ones.
    weights = [10.0 * np.arange(1, 5), 3.0 * np.arange(1, 5)]
    assert find_best(plan, weights, X, sign, Exact()) == 0
    assert find_best(plan, weights, X, flipped, FlippedLabels(0.35)) == 0
    assert find_best(plan, weights, X, flipped, Exact()) == 1


# In company.


def test_in_a_pipeline_with_search_and_calibration():
    X, y, observed, source = uneven_labels()
    with sklearn.config_context(enable_metadata_routing=True):
        noise = {"expert": Exact(), "crowd": FlippedLabels(0.35)}
        clf = UnevenClassifier(noise, random_state=0).set_fit_request(source=True)
        pipeline = make_pipeline(StandardScaler(), clf)
        pipeline.fit(X, observed, source=source)
        assert pipeline.score(X, y) > 0.83
        search = GridSearchCV(clf, {"alpha": [1e-3, 1e-2]}, cv=3).fit(X, observed, source=source)
        assert search.score(X, y) > 0.83
        scores = cross_val_score(clf, X, observed, cv=3, params={"source": source})
        assert scores.mean() > 0.55
        calibrated = CalibratedClassifierCV(clf, cv=3).fit(X, observed, source=source)
        assert calibrated.score(X, y) > 0.83


def test_frames_keep_their_names():
    pa = pytest.importorskip("pyarrow")
    X, y = blobs()
    table = pa.table({f"x{j}": X[:, j] for j in range(4)})
    columns = {f"x{j}": X[:, j] for j in range(4)}
    frames = [table, pytest.importorskip("pandas").DataFrame(columns), pytest.importorskip("polars").DataFrame(columns)]
    for frame in frames:
        clf = UnevenClassifier(random_state=0).fit(frame, y)
        assert list(clf.feature_names_in_) == ["x0", "x1", "x2", "x3"]
        assert clf.score(frame, y) > 0.83


@pytest.mark.parametrize("call", ["fit", "partial_fit"])
@pytest.mark.parametrize("kind", ["list", "object", "string", "boolean"])
def test_a_missing_label_is_told_by_its_row(call, kind):
    pd = pytest.importorskip("pandas")
    X, y = blobs(40)
    values = [bool(one) if kind == "boolean" else "no" if one else "yes" for one in y]
    values[7] = None if kind == "list" else pd.NA
    given = values if kind == "list" else pd.Series(values, dtype=kind)
    with pytest.raises(ValueError, match=r"^y must have a label in every row, got (None|<NA>|nan) in row 7$"):
        getattr(UnevenClassifier(), call)(X, given)


GOOD = blobs(100)
REFUSALS = {
    "lengths": (lambda c: c.fit(GOOD[0], GOOD[1][:-1]), "inconsistent"),
    "one class": (lambda c: c.fit(GOOD[0], np.zeros(100)), "y must have at least two classes, got one class"),
    "nan": (lambda c: c.fit(GOOD[0] * np.nan, GOOD[1]), "NaN"),
    "source length": (lambda c: c.fit(*GOOD, source=["a"] * 9), r"source must have one name per row, shape \(100,\)"),
    "unknown source": (
        lambda c: c.fit(*GOOD, source=["z"] * 100),
        "source must be one of noise's names, 'a', 'b'; got 'z'",
    ),
    "epsilon of words": (
        lambda _: UnevenClassifier().fit(*GOOD, epsilon=["a"] * 100),
        r"epsilon must be a number in every row, got \['a'",
    ),
    "row_id of words": (
        lambda c: c.fit(*GOOD, source=["a"] * 100, row_id=["a"] * 100),
        "row_id must be whole numbers, got <U1",
    ),
    "validation": (
        lambda c: c.set_params(strategy="two-rates", line_search=2).fit(
            *GOOD, source=["a", "b"] * 50, validation=GOOD[0]
        ),
        r"validation must be \(X, y\), got array",
    ),
    "mixed names": (
        lambda c: c.fit(*GOOD, source=["a"] * 99 + [1]),
        "source must hold names that are all text or all whole numbers, got 1 in row 99",
    ),
    "a name missing": (
        lambda _: UnevenClassifier().fit(*GOOD, source=["a"] * 50 + [None] * 50),
        "source must hold names that are all text or all whole numbers, got None in row 50",
    ),
    "names that are no names": (
        lambda _: UnevenClassifier().fit(*GOOD, source=np.full(100, np.nan)),
        "source must hold names that are all text or all whole numbers, got float64",
    ),
    "no source": (lambda c: c.fit(*GOOD), "source must name the source of each row where noise has several"),
    "two ways": (
        lambda c: c.fit(*GOOD, flip_rate=np.zeros(100), epsilon=np.ones(100)),
        "epsilon must be given alone, got epsilon and flip_rate",
    ),
    "epsilon": (
        lambda _: UnevenClassifier().fit(*GOOD, epsilon=np.zeros(100)),
        "epsilon must be positive and finite in every row, got 0",
    ),
    "infinite epsilon": (
        lambda c: c.fit(*GOOD, source=["a"] * 100, epsilon=np.full(100, np.inf)),
        "epsilon must be positive and finite in every row, or NaN in one that has the noise of its source, got inf",
    ),
    "rate": (
        lambda _: UnevenClassifier().fit(*GOOD, flip_rate=np.ones(100)),
        r"flip_rate must be in \[0, 0.5\) in every row, got 1",
    ),
    "row_id": (
        lambda c: c.fit(*GOOD, source=["a"] * 100, row_id=[1]),
        r"row_id must have one number per row, shape \(100,\), got shape \(1,\)",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(call, message):
    clf = UnevenClassifier({"a": Exact(), "b": FlippedLabels(0.1)})
    with pytest.raises(ValueError, match=message):
        call(clf)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": 3}, "noise must be a noise or a dict|source must name"),
        ({"noise": {"a": 3}}, "noise of 'a' must be a noise such as"),
        ({"alpha": 0}, "alpha must be a positive finite number, got 0"),
        ({"passes": 0}, "passes must be a whole number of at least 1, got 0"),
        ({"row_norm": -1}, "row_norm must be a positive finite number, got -1"),
        ({"random_state": "x"}, "random_state must be None or a whole number"),
        ({"long_rows": "drop"}, "long_rows must be one of 'shrink', 'refuse'; got 'drop'"),
        ({"strategy": "magic"}, "strategy must be one of"),
        ({"moments": "middle"}, "moments must be one of"),
        ({"clip": "x"}, "clip must be 'auto', None or a positive number, got 'x'"),
        ({"clip": -1}, "clip must be a positive finite number, got -1"),
        ({"row_norm": "large"}, "row_norm must be 'auto' or a positive number, got 'large'"),
        ({"fit_intercept": "no"}, "fit_intercept must be true or false, got 'no'"),
        ({"mechanism": "gauss"}, "mechanism must be one of 'quiet', 'privunit', 'l2-laplace'; got 'gauss'"),
        ({"ledger": "book.db"}, "ledger must be an uneven.Ledger, got 'book.db'"),
        ({"line_search": 1.5}, "line_search must be a whole number of at least 0, got 1.5"),
        ({"average": "median"}, "average must be one of"),
        ({"radius": 3}, "radius must be one of"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        UnevenClassifier(**options).fit(*GOOD)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_weights_of_rows_are_refused_with_what_to_use_instead(method):
    with pytest.raises(TypeError, match=f"^{method} takes no sample_weight: class_weight .* and noise"):
        getattr(uneven.UnevenClassifier(), method)(np.eye(2), [0, 1], sample_weight=[1.0, 2.0])
