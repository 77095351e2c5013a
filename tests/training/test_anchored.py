"""Private rows beside public ones, through the classifier and the files as users call them."""

import os
from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from test_doors import write_files

import uneven
from uneven.anchor import Coordinates, Summary
from uneven.datasets import load_covertype, load_covertype_sample, load_mnist
from uneven.engine import State
from uneven.schedules import Precision
from uneven.training import adding, anchoring, resume_state, scan
from uneven.training.files import train_files

ALPHA = 1e-3
SOURCES = ("open", "private")


@cache
def data_of(name):
    if name == "mnist":
        if not os.environ.get("UNEVEN_DATA"):
            pytest.skip("UNEVEN_DATA names no folder with MNIST")
        return load_mnist()
    return load_covertype_sample()


def draw(name, public, seed):
    """Rows in random order, and their sources: the first are public."""
    data = data_of(name)
    order = np.random.default_rng(seed).permutation(len(data.y))
    return data.X[order], data.y[order], np.where(np.arange(len(order)) < public, *SOURCES)


def noises(epsilon):
    return {"open": uneven.Exact(), "private": uneven.LocalPrivacy(epsilon)}


def classifier(epsilon, seed=0, **settings):
    return uneven.UnevenClassifier(noises(epsilon), random_state=seed, **{"alpha": ALPHA, **settings})


def objective(clf, X, y, intercept=0.0):
    """Logistic loss and L2 term; `intercept` is how much of the term the intercept's weight counts."""
    margins = y * (X @ clf.coef_[0] + clf.intercept_[0])
    weight = clf.intercept_[0] / 0.25  # of the constant feature under privacy
    return np.logaddexp(0, -margins).mean() + ALPHA / 2 * ((clf.coef_**2).sum() + intercept * weight**2)


def logistic(X, y, alpha=ALPHA):
    return LogisticRegression(C=1 / (alpha * len(y)), tol=1e-8, max_iter=10_000).fit(X.astype(float), y)


def small(rng, n=4_000, d=4, truth=(3.0, -2.0, 1.0, 0.0), bias=0.5):
    """Rows in the unit ball and labels of a logistic model."""
    X = rng.normal(size=(n, d)) / 3.0
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    y = np.where(2.0 * X @ np.array(truth) + bias + rng.logistic(size=n) > 0, 1, -1)
    return X, y


def small_sources(n, public):
    return np.where(np.arange(n) < public, *SOURCES)


def compare_excesses(name, public, epsilon, runs):
    """Excess of both kinds of rows, of LogisticRegression on the exact ones, of the private ones: a run in each row.

    In scikit-learn's objective; private rows alone in an objective of their own.
    """
    values = []
    for seed in range(runs):
        X, y, source = draw(name, public, seed)
        mine = source == "private"
        both = classifier(epsilon, seed).fit(X, y, source=source)
        alone = classifier(epsilon, seed).fit(X[mine], y[mine], source=source[mine])
        assert (both.plan_.strategy, alone.plan_.strategy) == ("anchored", "precision")
        exact = logistic(X[:public], y[:public])
        values.append([objective(both, X, y), objective(exact, X, y), objective(alone, X, y, 1.0)])
    return np.array(values) - objective(logistic(X, y), X, y)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("public", [100, 500, 2_000])
@pytest.mark.parametrize("name", ["mnist", "covertype"])
def test_never_worse_than_either_kind_of_rows_alone(name, public, epsilon):
    """At most the exact rows' excess and two standard errors, and at most that of the private rows."""
    found = compare_excesses(name, public, epsilon, runs=10)
    ours, exact, alone = found.mean(axis=0)
    assert found[:, 0].min() >= 0.0
    assert ours <= exact + 2 * (found[:, 0] - found[:, 1]).std(ddof=1) / 10**0.5
    assert ours <= alone
    if (public, epsilon) == (100, 3.0):
        assert ours <= 0.4 * min(exact, alone)


@pytest.mark.slow
def test_a_hundred_exact_rows_and_many_private_ones_are_far_better_than_either():
    """One cell of those, with three runs."""
    ours, exact, alone = compare_excesses("covertype", 100, 3.0, runs=3).mean(axis=0)
    assert 0.0 <= ours <= 0.5 * min(exact, alone)


def test_many_private_rows_are_not_held_back_by_few_public_ones():
    """alpha chosen on 30 rows is for 30 rows: it must not shrink what 50,000 say."""
    data = data_of("covertype")
    X, y, source = draw("covertype", 30, 0)
    both = uneven.UnevenClassifier(noises(30.0), random_state=0).fit(X, y, source=source)
    alone = uneven.UnevenClassifier(uneven.LocalPrivacy(30.0), random_state=0).fit(X[30:], y[30:])
    error = (0.25 / len(data.y_test)) ** 0.5
    assert both.score(data.X_test, data.y_test) >= alone.score(data.X_test, data.y_test) - 2 * error


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3000, 3002])
def test_columns_that_no_public_row_has_do_not_run_away(seed):
    """alpha chosen on 200 rows and carried over to 500,000 is tiny, and nothing else curves where no public row is."""
    if not os.environ.get("UNEVEN_DATA"):
        pytest.skip("UNEVEN_DATA names no folder with Covertype")
    data = load_covertype()
    order = np.random.default_rng(seed).permutation(len(data.y))[:500_000]
    X, y = data.X[order], data.y[order]
    clf = classifier(10.0, seed, alpha="auto").fit(X, y, source=small_sources(len(y), 200))
    best = logistic(X[:20_000], y[:20_000], clf.alpha_)
    losses = [np.logaddexp(0, -data.y_test * one.decision_function(data.X_test)).mean() for one in (clf, best)]
    assert losses[0] < losses[1] + 0.03


def useless():
    """2,000 public rows and 50 private ones at ε = 0.1, which cannot say anything."""
    X, y = small(np.random.default_rng(0), 2_050)
    return X, y, small_sources(2_050, 2_000)


def test_a_source_that_says_nothing_is_left_out_uncharged():
    X, y, source = useless()
    ledger = uneven.Ledger()
    clf = classifier(0.1, ledger=ledger).fit(X, y, source=source)
    assert clf.plan_.verdicts["private"].word == "no"
    assert clf.plan_.order == ["open"]
    assert not ledger.sources()
    assert clf.privacy_spent_ == {}
    other = X.copy(), y.copy()
    other[0][2_000:], other[1][2_000:] = other[0][2_000:][::-1] / 2, -y[2_000:]
    again = classifier(0.1).fit(*other, source=source)
    np.testing.assert_array_equal(clf.coef_, again.coef_)
    public = logistic(X[:2_000], y[:2_000])
    cost = objective(clf, X[:2_000], y[:2_000]) - objective(public, X[:2_000], y[:2_000])
    assert 0 <= cost < 2e-3  # the start is shrunk a little more than alpha asks for


def test_use_all_uses_and_charges_it():
    X, y, source = useless()
    ledger = uneven.Ledger()
    clf = classifier(0.1, None, ledger=ledger, use="all").fit(X, y, source=source)
    assert clf.plan_.order == ["open", "private"]
    assert clf.privacy_spent_ == {"private": 0.1}
    assert list(ledger.spent("private").values()) == [0.1] * 50
    assert (clf.coef_ != classifier(0.1).fit(X, y, source=source).coef_).any()


def test_rows_are_charged_before_anything_is_released(monkeypatch):
    X, y = small(np.random.default_rng(1))
    ledger, seen = uneven.Ledger(), []

    def watch(*_):
        seen.append(ledger.spent("private"))
        raise RuntimeError("stop here")

    monkeypatch.setattr(adding, "measure_gradient", watch)
    clf = classifier(3.0, None, ledger=ledger)
    with pytest.raises(RuntimeError, match="stop here"):
        clf.fit(X, y, source=small_sources(len(y), 200))
    assert [list(spent.values()) for spent in seen] == [[3.0] * 3_800]
    assert clf.privacy_spent_ == {"private": 3.0}


def test_a_budget_that_is_used_up_stops_the_fit_before_any_release(monkeypatch):
    X, y = small(np.random.default_rng(1))
    source, ledger = small_sources(len(y), 200), uneven.Ledger()
    classifier(3.0, ledger=ledger, budget=4.0).fit(X, y, source=source)
    monkeypatch.setattr(adding, "measure_gradient", lambda *_: pytest.fail("released"))
    with pytest.raises(uneven.BudgetExceeded):
        classifier(3.0, ledger=ledger, budget=4.0).fit(X, y, source=source)
    assert ledger.max_spent("private") == 3.0


@pytest.mark.parametrize("alpha", [ALPHA, "auto"])
def test_nothing_before_the_charge_depends_on_what_private_rows_say(monkeypatch, alpha):
    """Anchor, alpha, verdicts and plan are equal for any private rows of the same number."""
    X, y = small(np.random.default_rng(2))
    source, anchors = small_sources(len(y), 300), []
    real = anchoring.prepare_anchor
    monkeypatch.setattr(anchoring, "prepare_anchor", lambda *args: anchors.append(real(*args)) or anchors[-1])
    others, labels = X.copy(), y.copy()
    others[300:] = np.random.default_rng(3).uniform(-5.0, 5.0, others[300:].shape)  # beyond row_norm too
    labels[300:] = np.random.default_rng(4).choice([-1, 1], len(y) - 300)
    one = classifier(2.0, alpha=alpha).fit(X, y, source=source)
    with pytest.warns(UserWarning, match="were shrunk"):
        two = classifier(2.0, alpha=alpha).fit(others, labels, source=source)
    assert one.plan_ == two.plan_
    assert one.plan_.verdicts == two.plan_.verdicts
    assert (one.alpha_, one.scale_) == (two.alpha_, two.scale_)
    for field in ("weights", "covariance", "margins", "X", "y"):
        np.testing.assert_array_equal(*(getattr(prepared.anchor, field) for prepared in anchors))
    assert (one.coef_ != two.coef_).any()


def write_anchored(folder, X, y, source, epsilon, **settings):
    return write_files(folder, X, y, source, noises(epsilon), {"alpha": ALPHA, **settings})


def test_a_source_that_disagrees_is_said_to(tmp_path):
    """Labels of the private source mean the opposite; and the same rows without that are said to agree."""
    X, y = small(np.random.default_rng(5), 8_000)
    source = small_sources(len(y), 1_000)
    for flipped, word in ((False, "no clear disagreement"), (True, "disagrees")):
        labels = np.where((source == "private") & flipped, -y, y)
        (tmp_path / word).mkdir()
        (note,) = train_files(write_anchored(tmp_path / word, X, labels, source, 8.0), seed=0).trained.notes
        assert note.replace(":", "").startswith(f"'private' {word} ")


def test_a_small_source_that_disagrees_does_not_outvote_the_public_rows():
    """It counts by its share of the rows, so 100 contrary rows move 900 little: most labels are still correct."""
    X, y = small(np.random.default_rng(6), 3_000)
    rows, source = slice(1_000), small_sources(1_000, 900)
    labels = np.where(source == "private", -y[rows], y[rows])
    scores = []
    for seed in range(5):
        clf = classifier(16.0, seed, batch_size=5, use="all").fit(X[rows], labels, source=source)
        scores.append(clf.score(X[1_000:], y[1_000:]))
    public = logistic(X[:900], y[:900]).score(X[1_000:], y[1_000:])
    assert np.mean(scores) >= public - 0.05


def test_files_that_are_streamed_are_anchored_as_those_held(tmp_path):
    X, y = small(np.random.default_rng(7), 20_000)
    file = write_anchored(tmp_path, X, y, small_sources(len(y), 300), 4.0)
    held, streamed = (train_files(file, seed=0, held_bytes=size) for size in (scan.HELD_BYTES, 0))
    assert streamed.plan.strategy == held.plan.strategy == "anchored"
    assert streamed.plan.verdicts["private"].word == held.plan.verdicts["private"].word == "worth it"
    for one in (held, streamed):
        margins = np.where(y == one.model.classes[1], 1, -1) * (X @ one.model.coef[0] + one.model.intercept[0])
        value = np.logaddexp(0, -margins).mean() + ALPHA / 2 * (one.model.coef**2).sum()
        exact, best = (objective(logistic(X[:n], y[:n]), X, y) for n in (300, len(y)))
        assert best <= value <= (best + exact) / 2


def test_both_doors_are_anchored_alike(tmp_path):
    X, y = small(np.random.default_rng(8))
    source = small_sources(len(y), 300)
    found = train_files(write_anchored(tmp_path, X, y, source, 4.0), seed=0).model
    clf = classifier(4.0).fit(X, y, source=source)
    np.testing.assert_array_equal(found.coef, clf.coef_)
    assert found.plan == clf.plan_


def test_a_second_fit_adds_to_the_account():
    X, y = small(np.random.default_rng(9))
    clf, source = classifier(2.0, None), small_sources(len(y), 300)
    assert clf.fit(X, y, source=source).privacy_spent_ == {"private": 2.0}
    assert clf.fit(X, y, source=source).privacy_spent_ == {"private": 4.0}


def test_later_rows_go_on_from_the_answer():
    """A few more rows by `partial_fit` move an anchored answer a little, also where the private source was left out."""
    X, y = small(np.random.default_rng(10))
    for epsilon, public in ((4.0, 300), (0.01, 3_900)):
        clf = classifier(epsilon).fit(X, y, source=small_sources(len(y), public))
        before = clf.coef_.copy()
        clf.partial_fit(X[:100], y[:100], source=small_sources(100, 100))
        assert 0 < np.linalg.norm(clf.coef_ - before) < 0.2 * np.linalg.norm(before)


def test_the_clock_of_later_rows_is_theorem_c_where_curvature_is_alpha():
    """H = αI: λ = α and τ₀ = 1/(α²trV). Else its first step is that of least expected excess, to first order in H."""
    rng, d = np.random.default_rng(12), 3
    factor = rng.normal(size=(d, d))
    V, w = factor @ factor.T, rng.normal(size=d)
    state = State(np.zeros(d))
    for H in (0.1 * np.eye(d), np.diag([0.1, 0.3, 2.0])):
        plain = Coordinates(np.eye(d), np.diag(H), H, w, V, *np.zeros((2, d)), 0.5, 1.0, np.full(d, 0.1), 1.0)
        resumed, pace = resume_state(state, Summary(w, V, 0.1, True, True, (plain,)))
        np.testing.assert_array_equal(resumed.answer, w)
        if H[2, 2] == 0.1:
            assert pace == pytest.approx(0.1)
            assert resumed.clock == pytest.approx(1.0 / (0.01 * np.trace(V)))
        moment = 7.0
        etas = Precision(pace)(1, moment, resumed.clock) * np.linspace(0.5, 1.5, 101)
        change = -etas * np.trace(H @ H @ V) + etas**2 * moment * np.trace(H) / (2 * d)
        assert np.argmin(change) == 50


@pytest.mark.slow
def test_later_private_rows_add_to_an_anchored_fit():
    """A few private rows by `fit` and many by `partial_fit`: at least half of what all by `fit` gain."""
    rng, gains = np.random.default_rng(13), []
    tested = small(rng, 20_000)
    for seed in range(12):
        X, y = small(rng, 16_050)
        source, ids, clf = small_sources(len(y), 50), np.arange(len(y)), classifier(2.0, seed)
        losses = []
        for part in (slice(None), slice(1_050)):
            clf.fit(X[part], y[part], source=source[part], row_id=ids[part])
            losses.append(log_loss(tested[1], clf.predict_proba(tested[0])))
        rest = slice(1_050, None)
        clf.partial_fit(X[rest], y[rest], source=source[rest], row_id=ids[rest])
        all_at_once, first = losses
        gains.append((first - all_at_once, first - log_loss(tested[1], clf.predict_proba(tested[0]))))
    at_once, later = np.array(gains).T
    gain = later - 0.5 * at_once
    assert gain.mean() > 3.0 * gain.std(ddof=1) / len(gain) ** 0.5


def test_a_model_file_keeps_the_plan(tmp_path):
    X, y = small(np.random.default_rng(11))
    clf = classifier(2.0, alpha="auto").fit(X, y, source=small_sources(len(y), 300))
    clf.save(tmp_path / "model.json")
    read = uneven.UnevenClassifier.load(tmp_path / "model.json")
    assert read.plan_ == clf.plan_
    assert read.plan_.anchored == clf.plan_.anchored
    assert read.alpha_ == clf.alpha_
    np.testing.assert_array_equal(read.predict_proba(X), clf.predict_proba(X))


@pytest.mark.parametrize("case", ["private", "open", "steps"])
def test_what_cannot_be_anchored_is_refused_in_one_line_and_uncharged(case):
    X, y = small(np.random.default_rng(12), 400)
    public, settings = {"private": (0, {}), "open": (400, {}), "steps": (100, {"passes": 2})}[case]
    ledger = uneven.Ledger()
    clf = classifier(2.0, strategy="anchored", ledger=ledger, **settings)
    with pytest.raises(ValueError, match="strategy must be another than 'anchored'") as refused:
        clf.fit(X, y, source=small_sources(400, public))
    assert "\n" not in str(refused.value)
    assert not ledger.sources()


@pytest.mark.slow
def test_several_private_sources_are_used_cleanest_first():
    X, y = small(np.random.default_rng(13), 12_000)
    source = np.repeat(["open", "coarse", "fine"], [300, 6_000, 5_700])
    noise = {"open": uneven.Exact(), "coarse": uneven.LocalPrivacy(1.0), "fine": uneven.LocalPrivacy(6.0)}
    excess = {}
    for names in (("open",), ("open", "fine"), ("open", "coarse", "fine")):
        mine, values = np.isin(source, names), []
        for seed in range(10):
            clf = uneven.UnevenClassifier(noise, alpha=ALPHA, use="all", random_state=seed)
            clf.fit(X[mine], y[mine], source=source[mine])
            values.append(objective(clf, X, y) - objective(logistic(X, y), X, y))
        excess[names] = np.array(values)
    assert clf.plan_.order == ["open", "fine", "coarse"]
    assert excess["open", "fine"].mean() < 0.6 * excess["open",].mean()
    more = excess["open", "coarse", "fine"] - excess["open", "fine"]
    assert more.mean() < 0.2 * excess["open", "fine"].mean() + 2.0 * more.std(ddof=1) / 10**0.5


def test_public_rows_with_wrong_labels_anchor_too():
    X, y = small(np.random.default_rng(14), 12_000)
    rng, source = np.random.default_rng(0), small_sources(12_000, 2_000)
    labels = np.where((source == "open") & (rng.random(len(y)) < 0.3), -y, y)
    noise = {"open": uneven.FlippedLabels(0.3), "private": uneven.LocalPrivacy(6.0)}
    clf, alone = (uneven.UnevenClassifier(noise, alpha=ALPHA, random_state=0) for _ in range(2))
    clf.fit(X, labels, source=source)
    alone.fit(X[:2_000], labels[:2_000], source=source[:2_000])
    assert clf.plan_.strategy == "anchored"
    assert objective(clf, X, y) < objective(alone, X, y)


def test_a_model_file_keeps_what_was_learned_to_convergence(tmp_path):
    X, y = small(np.random.default_rng(15), 500)
    clf = uneven.UnevenClassifier(random_state=0).fit(X, y)
    clf.save(tmp_path / "model.json")
    assert uneven.UnevenClassifier.load(tmp_path / "model.json").plan_.converged == clf.plan_.converged != ()


def test_many_columns_have_a_diagonal_clock_and_are_not_worse_than_the_public_rows_alone():
    """2,000 correlated columns: the objective on fresh rows, with the private source used whatever its verdict."""
    rng, public, private = np.random.default_rng(0), 200, 4_000
    hidden, learned = rng.normal(size=(public + private + 1_000, 20)), public + private
    X = hidden @ rng.normal(size=(20, 2_000)) / 4.5 + 0.5 * rng.normal(size=(len(hidden), 2_000))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    y = np.where(hidden[:, 0] > 0.5 * rng.logistic(size=len(hidden)), 1, -1)
    source, noise = np.where(np.arange(learned) < public, "open", "closed"), {"open": uneven.Exact()}
    settings = {"alpha": 1e-3, "row_norm": 1.0, "random_state": 0}
    clf = uneven.UnevenClassifier({**noise, "closed": uneven.LocalPrivacy(16.0)}, use="all", **settings)
    clf.fit(X[:learned], y[:learned], source=source)
    assert clf.plan_.strategy == "anchored"
    alone = uneven.UnevenClassifier(noise, **settings).fit(X[:public], y[:public], source=source[:public])
    objectives = []
    for one in (clf, alone):
        margins = y[learned:] * one.decision_function(X[learned:])
        objectives.append(np.logaddexp(0, -margins).mean() + 5e-4 * (one.coef_**2).sum())
    assert objectives[0] <= objectives[1]
