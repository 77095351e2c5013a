"""Rare classes: class weights as scikit-learn has them, only public ones under privacy, and a stated threshold."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.utils.class_weight import compute_sample_weight

import uneven
from uneven import Exact, FlippedLabels, LocalPrivacy, Problem, SitePrivacy, UnevenClassifier
from uneven.anchor.classes import _Rows, find_class_coordinates, fit_class_anchor
from uneven.anchor.folds import FoldRows
from uneven.anchor.objective import Objective
from uneven.anchor.path import measure_held_out
from uneven.anchor.rows import PublicRows, correct
from uneven.anchor.solver import solve
from uneven.anchor.uncertainty import fit_anchor
from uneven.engine import objective, surrogate_objective
from uneven.training import scan

WEIGHTS = (0.2, 1.0)
PRIVATE = {"open": Exact(), "closed": LocalPrivacy(8.0)}


def rare(n=3_000, seed=0):
    """Rows of which one in twenty or so is positive."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) / 2
    return X, np.where(X @ [3.0, -2.0, 1.0] + 0.7 * rng.logistic(size=n) > 4.0, 1, 0)


def sources(n=3_000, public=600):
    return np.where(np.arange(n) < public, "open", "closed")


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 1.0, 1: 9.0}, {1: 0.3}])
def test_the_same_as_scikit_learn(class_weight):
    X, y = rare()
    ours = UnevenClassifier(alpha=0.01, class_weight=class_weight).fit(X, y)
    theirs = LogisticRegression(C=1 / (0.01 * len(y)), class_weight=class_weight, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)  # converged to 1e-6 of the objective
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-3)
    assert ours.alpha_ == 0.01


def several(n=1_500, seed=0):
    """Rows of four classes, of which one is rare."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) / 2
    scores = X @ np.random.default_rng(9).normal(size=(3, 4)) * 3.0 + [2.0, 1.0, 0.0, -2.0]
    return X, np.array(list("abcd"))[(scores + rng.gumbel(size=scores.shape)).argmax(axis=1)]


@pytest.mark.parametrize("class_weight", ["balanced", {"a": 0.5, "d": 7.0}, {"b": 3.0}])
def test_more_classes_are_the_same_as_scikit_learn(class_weight):
    """The objective that scikit-learn minimises, to 1e-4 of itself, and the same answer."""
    X, y = several()
    ours = UnevenClassifier(alpha=0.01, class_weight=class_weight).fit(X, y)
    theirs = LogisticRegression(C=1 / (0.01 * len(y)), class_weight=class_weight, tol=1e-10, max_iter=5_000).fit(X, y)
    counts = compute_sample_weight(class_weight, y)

    def value(clf):
        return log_loss(y, clf.predict_proba(X), sample_weight=counts) * counts.mean() + 0.005 * (clf.coef_**2).sum()

    assert value(ours) == pytest.approx(value(theirs), rel=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)


def test_balanced_counts_of_more_classes_are_corrected_for_flips():
    """Of 20,000 rows, 20% observed as another class: n/(K·n_k) of the true classes, within 5 standard errors."""
    X, y = several(20_000)
    numbers = FlippedLabels(0.2).corrupt_classes(np.searchsorted(list("abcd"), y), 4, np.random.default_rng(1))
    clf = UnevenClassifier(FlippedLabels(0.2), alpha=0.01, class_weight="balanced").fit(
        X, np.array(list("abcd"))[numbers]
    )
    true = np.array([(y == one).mean() for one in "abcd"])
    weights = np.array(clf.plan_.problem.class_weights)
    error = np.sqrt(0.25 / 20_000) / (1 - 0.2 * 4 / 3)
    np.testing.assert_allclose(true[3] / weights, true, atol=5 * error)


T3 = ((0.85, 0.15, 0.0), (0.05, 0.75, 0.2), (0.3, 0.0, 0.7))


@pytest.mark.parametrize(
    ("shares", "rates"),
    [
        ((0.6, 0.4), [(0.05, 0.3)]),
        ((0.35, 0.65), [(0.3, 0.05), (0.25, 0.0)]),
        ((0.5, 0.3, 0.2), [T3]),
        ((0.2, 0.5, 0.3), [T3, 0.1]),
    ],
)
def test_balanced_weights_are_those_of_the_true_labels_whatever_was_flipped(shares, rates):
    """1/(K·share) within 4.5 standard errors of the shares n T⁻¹/n: the variance of flips, given the true labels."""
    rng, n, K = np.random.default_rng(0), 4_000, len(shares)
    X, y = rng.normal(size=(n * len(rates), 3)), rng.choice(K, size=n * len(rates), p=shares)
    noises = {f"source {k}": FlippedLabels(rate) for k, rate in enumerate(rates)}
    source, seen, variance = np.repeat(list(noises), n), y.copy(), np.zeros((K, K))
    for name, noise in noises.items():
        T = noise.confusion_of(K)
        for i in range(K):
            mine = (source == name) & (y == i)
            seen[mine] = rng.choice(K, size=mine.sum(), p=T[i])
            variance += mine.sum() * np.linalg.inv(T).T @ (np.diag(T[i]) - np.outer(T[i], T[i])) @ np.linalg.inv(T)
    clf = UnevenClassifier(noises, alpha=0.1, class_weight="balanced").fit(X, seen, source=source)
    found = 1.0 / np.array(clf.plan_.problem.class_weights)
    errors = np.sqrt(np.diag(variance)) / len(y)
    assert (np.abs(found / found.sum() - np.bincount(y) / len(y)) < 4.5 * errors).all()
    assert (errors < 0.012).all()


@pytest.mark.parametrize("flips", [None, 0.05])
def test_uncertainty_of_a_weighted_anchor_of_more_classes(flips):
    """V₀ against the spread of answers from 40 sets of rows, within a factor of 2 where weights are not small."""
    problem, answers, stated = Problem(12, 0.01, 1, classes=4, class_weights=(0.2, 0.6, 0.4, 1.0)), [], []
    noise = Exact() if flips is None else FlippedLabels(flips)
    for seed in range(40):
        X, y = several(800, seed)
        numbers = np.searchsorted(list("abcd"), y)
        if flips:
            numbers = noise.corrupt_classes(numbers, 4, np.random.default_rng(seed))
        rows = PublicRows.from_arrays(X, numbers.astype(float), noise)
        anchor = fit_class_anchor(problem, [rows], np.ones(12), None)
        answers.append(anchor.weights)
        stated.append(np.diag(anchor.covariance))
    ratio = np.mean(stated, axis=0) / np.var(answers, axis=0)
    assert (ratio > 0.5).all()
    assert (ratio < 2.5).all()


def test_what_a_weighted_anchor_of_more_classes_expects_of_private_gradients():
    """Length over the clip and curvature, as rows have them at the answer: within 10%, since each row is left out once.

    Without the weights both would be twice as large or more.
    """
    X, y = several(2_000)
    numbers = np.searchsorted(list("abcd"), y).astype(float)
    problem = Problem(12, 0.01, 1, classes=4, class_weights=(0.2, 0.6, 0.4, 1.0), clip=0.5)
    rows = PublicRows.from_arrays(X, numbers)
    anchor = fit_class_anchor(problem, [rows], np.ones(12), None)
    plain = find_class_coordinates(anchor)[0]
    lengths = np.linalg.norm(Exact().row_gradients(problem, anchor.weights, X, numbers), axis=1)
    assert plain.activity == pytest.approx(lengths.mean() / 0.5, rel=0.1)
    hessian = Objective.of(problem, [rows], None).at(anchor.weights, "full").hessian
    assert np.trace(anchor.hessian) == pytest.approx(np.trace(hessian), rel=0.1)
    assert plain.curvature.sum() < np.trace(hessian)  # of the clipped gradients


def small_classes(weights=(0.2, 0.6, 0.4, 1.0), n=60):
    """Few rows, a source of exact and one of flipped labels, and their weighted problem."""
    X, y = several(n)
    numbers, problem = np.searchsorted(list("abcd"), y).astype(float), Problem(12, 0.02, 1, classes=4)
    noises = (Exact(), FlippedLabels(0.05))
    rows = [PublicRows.from_arrays(X[i::2], numbers[i::2], noise) for i, noise in enumerate(noises)]
    return replace(problem, class_weights=weights), rows


def test_scores_of_rows_left_out_are_those_of_a_fit_without_them():
    """One Newton step from the answer of all: it explains all but a fifth of what leaving the row out changes."""
    problem, (exact, _) = small_classes()
    X, y = exact.pieces()[0]
    n, whole = len(y), solve(problem, [exact]).weights
    found = _Rows.of(problem.class_weights, [exact]).leave_one_out(whole, np.full(12, problem.alpha))
    for i in range(0, n, 5):
        kept = np.arange(n) != i
        without = replace(problem, alpha=problem.alpha * n / (n - 1))
        alone = solve(without, [PublicRows.from_arrays(X[kept], y[kept])]).weights.reshape(4, -1) @ X[i]
        before = whole.reshape(4, -1) @ X[i]
        error, change = ((one - one.mean()) for one in (found[i] - alone, before - alone))
        assert np.linalg.norm(error) < 0.2 * np.linalg.norm(change) + 1e-4


def test_weighted_folds_are_learned_together():
    """All folds converge by their common curvature, to the answers of each alone."""
    problem, rows = small_classes(n=400)
    numbers = [np.arange(one.count) % 4 for one in rows]
    together = FoldRows.of(problem, rows, numbers)
    ridge = np.full(12, problem.alpha)
    near = np.repeat(solve(problem, rows).weights[:, None], 4, axis=1)
    weights, done = together.descend(ridge, near)
    assert done.all()
    for k in range(4):
        arrays = [one.pieces()[0] for one in rows]
        kept = [
            PublicRows.from_arrays(X[number != k], y[number != k], one.noise)
            for one, (X, y), number in zip(rows, arrays, numbers, strict=True)
        ]
        np.testing.assert_allclose(weights[:, k], solve(problem, kept).weights, atol=5e-3)


def test_weighted_rows_held_out():
    """Exact rows lose their class's weight times the log-loss; flipped ones are scored as classes really are."""
    problem, (exact, flipped) = small_classes()
    W = np.random.default_rng(0).normal(size=(12, 1))
    for one in (exact, flipped):
        X, y = one.pieces()[0]
        p = softmax(X @ W.reshape(4, 3).T, axis=1)
        second = -np.log(np.sort(p, axis=1)[:, -2])
        if one is exact:
            expected = problem.weigh(y) * -np.log(p[np.arange(len(y)), y.astype(int)])
        else:
            p = p / np.array(problem.class_weights)
            p /= p.sum(axis=1, keepdims=True)
            expected = -np.log((p @ one.noise.confusion_of(4))[np.arange(len(y)), y.astype(int)])
        np.testing.assert_allclose(
            measure_held_out(problem, one, np.zeros(len(y), dtype=int), W, False), (expected, second)
        )


def test_weighted_rows_are_rows_given_more_than_once():
    """Rows that count c, and rows given 4c times: the same objective, slopes and curvature, times a number."""
    X, y = several(600)
    numbers = np.searchsorted(list("abcd"), y).astype(float)
    problem = Problem(12, 0.01, 1, classes=4)
    counts = np.array([1, 2, 2, 4])[numbers.astype(int)]
    repeated = PublicRows.from_arrays(np.repeat(X, counts, axis=0), np.repeat(numbers, counts))
    w = np.linspace(-1, 1, 12)
    plain = Objective.of(problem, [repeated], None).at(w, "full")
    weighted = Objective.of(
        replace(problem, class_weights=(0.25, 0.5, 0.5, 1.0), alpha=0.01 * counts.mean() / 4),
        [PublicRows.from_arrays(X, numbers)],
        None,
    ).at(w, "full")
    for part in ("value", "gradient", "hessian"):
        np.testing.assert_allclose(
            getattr(weighted, part), getattr(plain, part) * counts.mean() / 4, rtol=1e-9, atol=1e-12
        )


def test_balanced_rows_that_are_streamed_are_counted_the_same(monkeypatch, tmp_path):
    X, y = rare(500)
    held = UnevenClassifier(class_weight="balanced").fit(X, y)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    (tmp_path / "s.toml").write_text(
        'class_weight = "balanced"\nlabel = "y"\n[[source]]\nname = "data"\n'
        'data = "rows.npz"\nnoise = { kind = "exact" }\n'
    )
    monkeypatch.setattr(scan, "HELD_BYTES", 0)
    from uneven.io import read_sources
    from uneven.training.files import train_files

    found = train_files(read_sources(tmp_path / "s.toml"))
    np.testing.assert_allclose(found.model.coef, held.coef_, atol=1e-3)


@pytest.mark.parametrize("rate", [0.0, 0.05, (0.02, 0.15), (0.1, 0.0)])
@pytest.mark.parametrize("clip", [None, 0.25])
def test_unbiased_exactly(rate, clip):
    """The mean over flips, two terms, is the gradient of the true label's loss times the true label's weight."""
    rng = np.random.default_rng(0)
    problem = Problem(3, 0.1, 5, clip=clip, class_weights=WEIGHTS)
    X = rng.normal(size=(30, 3))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    y, w = rng.choice([-1.0, 1.0], size=30), 2.0 * rng.normal(size=3)
    for noise in (FlippedLabels(rate), SitePrivacy(1.0) & FlippedLabels(rate)):
        flipped = (noise.known_rate + y * noise.skew)[:, None]
        seen = [noise.row_gradients(problem, w, X, sign * y) for sign in (1, -1)]
        count = np.where(y > 0, 1.0, 0.2)
        slope = np.minimum(count * expit(-y * (X @ w)), problem.row_limit / np.linalg.norm(X, axis=1))
        np.testing.assert_allclose((1 - flipped) * seen[0] + flipped * seen[1], -(slope * y)[:, None] * X, atol=1e-13)
        longest = max(np.linalg.norm(one, axis=1).max() for one in seen)
        assert longest <= noise.bound(problem) * (1 + 1e-12)


def test_correction_is_unbiased_exactly():
    """E(u·ℓ(m) - t·m) over flips is c_y·ℓ(m)."""
    m = 0.7
    for a, b in ((0.0, 0.0), (0.1, 0.1), (0.2, 0.05)):
        for y in (-1.0, 1.0):
            total = 0.0
            for seen, chance in ((y, 1 - (a if y > 0 else b)), (-y, a if y > 0 else b)):
                unit, tilt = correct((a + b) / 2, (a - b) / 2, seen, WEIGHTS)
                margin = m * seen * y
                total += chance * (unit * np.logaddexp(0, -margin) - tilt * margin)
            assert total == pytest.approx(WEIGHTS[int(y > 0)] * np.logaddexp(0, -m))


@pytest.mark.parametrize("joined", [False, True])
def test_objective_of_the_solver(joined):
    """Its gradient is that of its value, and its value that of the engine's objective."""
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(200, 3)) / 3, rng.choice([-1.0, 1.0], size=200), rng.normal(size=3)
    problem = Problem(3, 0.1, 1, class_weights=WEIGHTS)
    rates = (0.02, 0.1)
    rows = [PublicRows.from_arrays(X, y, FlippedLabels(rates))]
    rows = [PublicRows.from_arrays(X[i::2], y[i::2], FlippedLabels(rates)) for i in (0, 1)] if joined else rows
    f = Objective.of(problem, rows, None)
    assert f.at(w).value == pytest.approx(float(surrogate_objective(problem, w, X, y, rates)))
    steps = 1e-6 * np.eye(3)
    slopes = [(f.at(w + e).value - f.at(w - e).value) / 2e-6 for e in steps]
    np.testing.assert_allclose(f.at(w).gradient, slopes, atol=1e-8)
    bends = [(f.at(w + e).gradient - f.at(w - e).gradient) / 2e-6 for e in steps]
    np.testing.assert_allclose(f.at(w, "full").hessian, bends, atol=1e-8)
    exact = Objective.of(problem, [PublicRows.from_arrays(X, y)], None)
    assert exact.at(w).value == pytest.approx(float(objective(problem, w, X, y)))


def test_uncertainty_of_a_weighted_anchor_covers_what_other_rows_say():
    """V₀ against the spread of answers from 60 sets of rows, within a factor of 2 (their variance has a 1.4)."""
    answers, stated = [], []
    for seed in range(60):
        X, y = rare(800, seed)
        anchor = fit_anchor(X, 2.0 * y - 1, 0.01, class_weights=WEIGHTS)
        answers.append(anchor.weights)
        stated.append(np.diag(anchor.covariance))
    ratio = np.mean(stated, axis=0) / np.var(answers, axis=0)
    assert (ratio > 0.5).all()
    assert (ratio < 2.5).all()


def test_positives_are_predicted_and_the_ranking_stays():
    X, y = rare()
    plain = UnevenClassifier(PRIVATE, row_norm=3.0).fit(X, y, source=sources())
    weighted = UnevenClassifier(PRIVATE, row_norm=3.0, class_weight="balanced").fit(X, y, source=sources())
    recall = [(clf.predict(X)[y == 1] == 1).mean() for clf in (plain, weighted)]
    assert recall[0] < 0.5 < 0.7 < recall[1]
    note = "class_weight='balanced' was counted on the rows without privacy only: 0 0.5"
    assert any(one.startswith(note) for one in weighted.notes_)
    assert weighted.privacy_spent_ == {"closed": 8.0}


def test_rare_classes_of_several_are_found_with_privacy():
    """Beside public rows and without, the recall of the rarest class grows by more than it can by chance."""
    X, y = several(6_000)
    stated = {"row_norm": 3.0, "classes": list("abcd"), "random_state": 0}
    for noise, class_weight in ((PRIVATE, "balanced"), (LocalPrivacy(8.0), {"a": 0.5, "b": 1.5, "d": 5.0})):
        source = sources(6_000, 1_000) if isinstance(noise, dict) else None
        found = [
            UnevenClassifier(noise, class_weight=c, **stated).fit(X, y, source=source) for c in (None, class_weight)
        ]
        recall = [(clf.predict(X)[y == "d"] == "d").mean() for clf in found]
        assert recall[1] > recall[0] + 0.15  # of 300 rows or more: 5 standard errors


def test_private_rows_alone_take_public_weights_only():
    X, y = rare()
    ledger = uneven.Ledger()
    clf = UnevenClassifier(LocalPrivacy(8.0), row_norm=3.0, class_weight="balanced", ledger=ledger)
    with pytest.raises(ValueError, match="class_weight must be None or a dict of public weights where every source is"):
        clf.fit(X, y)
    assert not ledger.sources()
    clf.set_params(class_weight={"0": 0.5, "1": 8.0}).fit(X, y)
    assert (clf.predict(X) == 1).any()
    assert clf.plan_.problem.class_weights == (0.0625, 1.0)
    assert clf.plan_.problem.gradient_norm == 0.5  # the clip stays


@pytest.mark.parametrize("start", [0.1, 0.5, 0.9])
def test_threshold_is_kept_in_the_model(tmp_path, start):
    X, y = rare()
    clf = UnevenClassifier(threshold=start).fit(X, y)
    np.testing.assert_array_equal(clf.predict(X) == 1, clf.predict_proba(X)[:, 1] >= start)
    clf.save(tmp_path / "model.json")
    again = UnevenClassifier.load(tmp_path / "model.json")
    assert again.threshold == start
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))
    assert again._model().predict(X).tolist() == clf.predict(X).tolist()


def test_weights_shift_the_intercept_as_the_log_odds():
    """With one constant feature, the best score is the log of the weighted odds: exactly that of the counts."""
    y = np.repeat([0, 1], [900, 100])
    clf = UnevenClassifier(alpha=1e-9, class_weight={0: 1.0, 1: 5.0}).fit(np.zeros((1000, 1)), y)
    assert clf.intercept_[0] == pytest.approx(logit(500 / 1400), abs=1e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"class_weight": "even"},
            "class_weight must be None, 'balanced' or a dict of classes and weights, got 'even'",
        ),
        ({"class_weight": [1, 2]}, r"class_weight must be None, 'balanced' or a dict .*, got \[1, 2\]"),
        ({"class_weight": {}}, "class_weight must be None, 'balanced' or a dict .*, got {}"),
        ({"class_weight": {0: 0.0}}, "class_weight of 0 must be a positive finite number, got 0.0"),
        ({"class_weight": {0: 1.0, "0": 2.0}}, "class_weight must name each class once"),
        ({"class_weight": {"ill": 2.0}}, "class_weight must name the classes '0', '1'; got 'ill'"),
        ({"threshold": 1.0}, r"threshold must be a number in \(0, 1\), got 1.0"),
        ({"threshold": 0}, r"threshold must be a number in \(0, 1\), got 0"),
        ({"threshold": True}, r"threshold must be a number in \(0, 1\), got True"),
        ({"threshold": "half"}, r"threshold must be None or a number in \(0, 1\), got 'half'"),
        ({"threshold": "half"}, "threshold must be None or a number in .0, 1., got 'half'"),
        (
            {"threshold": 0.3, "loss": "hinge"},
            "threshold must be None for a loss without probabilities, 'hinge'; got 0.3",
        ),
    ],
)
def test_bad_values_are_refused_in_one_line(settings, message):
    X, y = rare(300)
    with pytest.raises(ValueError, match=message) as refused:
        UnevenClassifier(**settings).fit(X, y)
    assert "\n" not in str(refused.value)


def test_what_goes_together_and_what_does_not():
    X, y = rare(300)
    with pytest.raises(ValueError, match=r"threshold must be None for more than two classes, got 0\.3 and 3"):
        UnevenClassifier(threshold=0.3).fit(X, np.where(X[:, 0] > 0.5, 2, y))
    with pytest.raises(ValueError, match="class_weight must be None or a dict to begin with partial_fit"):
        UnevenClassifier(class_weight="balanced", strategy="precision").partial_fit(X, y)
    with pytest.raises(
        ValueError, match=r"class_weight must weigh positive against negative rows between 0.11.* got 0.05"
    ):
        UnevenClassifier(FlippedLabels(0.1), class_weight={0: 1.0, 1: 0.05}).fit(X, y)
    weighted = UnevenClassifier(class_weight={1: 3.0}, strategy="precision", random_state=0).fit(X, y)
    weighted.partial_fit(X, y)
    with pytest.raises(ValueError, match="class_weight must stay"):
        weighted.set_params(class_weight=None).partial_fit(X, y)


@pytest.mark.parametrize(("class_weight", "bias"), [({0: 1, 1: 30}, -3.0), ({0: 5, 1: 1}, 0.0), ("balanced", -2.0)])
def test_the_expected_excess_is_that_of_the_objective_with_these_weights(class_weight, bias):
    """Within a factor of 2 of the measured one, with the private rows and without them: means of ten fits.

    The measured means have a standard error of about a tenth.
    """
    truth, alpha, found = np.array([2.0, -1.5, 1.0, 0.0, 0.0, 0.5]), 1e-3, []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(31_000, 6))
        X *= np.minimum(1.0, 4.0 / np.linalg.norm(X, axis=1, keepdims=True))
        y = (X @ truth + bias + rng.logistic(size=len(X)) > 0).astype(int)
        settings = {
            "alpha": alpha,
            "row_norm": 4.0,
            "classes": [0, 1],
            "class_weight": class_weight,
            "random_state": seed,
        }
        noise, source = {"open": Exact(), "closed": LocalPrivacy(6.0)}, np.repeat(["open", "closed"], [1_000, 10_000])
        both, alone = (
            UnevenClassifier(noise, use="all", **settings).fit(X[:n], y[:n], source=source[:n]) for n in (11_000, 1_000)
        )
        c = class_weight
        if c == "balanced":
            c = {k: 500 / np.sum(y[:1_000] == k) for k in (0, 1)}
        fresh, labels = X[11_000:], y[11_000:]
        counts = np.where(labels == 1, c[1], c[0])
        best = LogisticRegression(C=1 / (alpha * len(labels)), tol=1e-8, max_iter=10_000).fit(fresh, labels, counts)
        least, *ours = (
            (counts * np.logaddexp(0, -(2 * labels - 1) * one.decision_function(fresh))).mean()
            + alpha / 2 * (one.coef_**2).sum()
            for one in (best, both, alone)
        )
        verdict = both.plan_.verdicts["closed"]
        assert verdict.excess == pytest.approx(both.plan_.anchored.excess)
        found.append([verdict.excess, verdict.excess_without, ours[0] - least, ours[1] - least])
    planned, planned_without, measured, measured_without = np.mean(found, axis=0)
    assert 0.5 < planned / measured < 2.0
    assert 0.5 < planned_without / measured_without < 2.0
