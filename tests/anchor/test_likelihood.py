"""Flipped labels by the likelihood of what was observed."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from uneven import Exact, FlippedLabels, UnevenClassifier
from uneven.anchor import choose_alpha, fit_anchor
from uneven.anchor.classes import _Rows, fit_class_anchor
from uneven.anchor.folds import FoldRows
from uneven.anchor.length import choose_held_out_length, choose_length, doubt_length
from uneven.anchor.likelihood import describe_margins, describe_scores
from uneven.anchor.objective import Objective
from uneven.anchor.path import _held_out_classes
from uneven.anchor.rows import PublicRows
from uneven.anchor.solver import solve
from uneven.anchor.uncertainty import FEW_STEPS, Flips, leave_one_out_margins, limit_excess, limit_steps
from uneven.losses import LOGISTIC
from uneven.problem import Problem

CONFUSION = ((0.7, 0.2, 0.1), (0.1, 0.8, 0.1), (0.05, 0.15, 0.8))


def draw(count, columns, seed, length=4.0):
    """Rows of a logistic model; labels -1 and 1."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(count, columns)), np.zeros(columns)
    w[:2] = length / 2**0.5
    return X, np.where(rng.random(count) < expit(X @ w), 1.0, -1.0), w


@pytest.mark.parametrize(("positive", "negative"), [(0.0, 0.0), (0.3, 0.3), (0.1, 0.4), (0.0, 0.2), (0.2, 0.0)])
def test_two_classes_have_the_likelihood_of_the_label_observed(positive, negative):
    """-log a, its slope by central differences, and the mean of the squared slope over both labels: the information."""
    margins, rate, skew = np.linspace(-6, 6, 25), (positive + negative) / 2, (positive - negative) / 2
    value, slope, bend = describe_margins(margins, rate, skew)
    seen = expit(margins) * (1 - positive) + expit(-margins) * negative
    np.testing.assert_allclose(value, -np.log(seen), rtol=1e-12)
    step = 1e-5
    ahead, behind = (describe_margins(margins + one, rate, skew)[0] for one in (step, -step))
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-9)
    other = describe_margins(-margins, rate, -skew)[1]  # of the other label, at the same score
    np.testing.assert_allclose(bend, seen * slope**2 + (1 - seen) * other**2, rtol=1e-9)


def test_exact_labels_have_the_logistic_loss_however_sure():
    margins = np.array([-800.0, -40.0, 0.0, 40.0, 800.0])
    value, slope, bend = describe_margins(margins, 0.0, 0.0)
    np.testing.assert_allclose(value, LOGISTIC.value(margins), rtol=1e-12)
    np.testing.assert_allclose(slope, LOGISTIC.slope(margins), rtol=1e-12)
    np.testing.assert_allclose(bend, LOGISTIC.curvature_at(margins), rtol=1e-9)


def test_more_classes_have_the_likelihood_of_the_class_observed():
    """Gradient by differences; the curvature counts by the trace of the information, summed over all observations."""
    T, rng = np.array(CONFUSION), np.random.default_rng(0)
    scores, labels = rng.normal(size=(30, 3)) * 2, rng.integers(0, 3, 30)
    value, slope, told = describe_scores(scores, T.T[labels], T)
    p = softmax(scores, axis=1)
    np.testing.assert_allclose(value, -np.log((p * T.T[labels]).sum(axis=1)), rtol=1e-12)
    for k in range(3):
        moved = [describe_scores(scores + sign * 1e-5 * np.eye(3)[k], T.T[labels], T)[0] for sign in (1, -1)]
        np.testing.assert_allclose(slope[:, k], (moved[0] - moved[1]) / 2e-5, rtol=1e-5, atol=1e-8)
    squares = [describe_scores(scores, np.tile(T[:, y], (30, 1)), T)[1] ** 2 for y in range(3)]
    information = sum((p @ T[:, y])[:, None] * square for y, square in enumerate(squares))
    np.testing.assert_allclose(told * (p * (1 - p)).sum(axis=1), information.sum(axis=1), rtol=1e-9)


def test_two_classes_are_the_case_of_more():
    rng = np.random.default_rng(1)
    m = rng.normal(size=20) * 3
    T = FlippedLabels((0.3, 0.1)).confusion_of(2)
    scores, chances = np.column_stack([np.zeros(20), m]), np.tile(T[:, 1], (20, 1))
    two, more = describe_margins(m, 0.2, 0.1), describe_scores(scores, chances, T)
    np.testing.assert_allclose(two[0], more[0], rtol=1e-12)
    np.testing.assert_allclose(two[1], more[1][:, 1], rtol=1e-12)
    np.testing.assert_allclose(two[2], more[2] * expit(m) * expit(-m), rtol=1e-9)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_answer_has_the_most_likelihood(form):
    """Of exact and flipped rows together: alpha counts exact rows, and each label counts once."""
    X, y, _ = draw(600, 5, 0)
    noise, alpha = FlippedLabels(0.3), 0.01
    labels = np.concatenate([y[:100], noise.corrupt(y[100:], np.random.default_rng(1))])
    rates = np.repeat([0.0, 0.3], [100, 500])
    worth = 100 + 500 * 0.4**2
    sources = [
        PublicRows.from_arrays(form(X[part]), labels[part], one)
        for part, one in ((slice(100), Exact()), (slice(100, None), noise))
    ]
    found = solve(Problem(5, alpha, 1), sources, likelihood=True)
    assert found.converged

    def lose(w):
        seen = rates + (1 - 2 * rates) * expit(labels * (X @ w))
        return -np.log(seen).sum() / worth + alpha / 2 * w @ w

    best = minimize(lose, found.weights, options={"gtol": 1e-10}).fun
    assert found.objective == pytest.approx(lose(found.weights), rel=1e-9)
    assert found.objective == pytest.approx(best, rel=1e-6)


def test_the_answer_of_more_classes_has_the_most_likelihood():
    rng, noise, alpha = np.random.default_rng(0), FlippedLabels(CONFUSION), 0.01
    X, truth = rng.normal(size=(900, 4)), rng.normal(size=(3, 4)) * 2
    y = noise.corrupt_classes((X @ truth.T + rng.gumbel(size=(900, 3))).argmax(axis=1), 3, rng)
    rows = PublicRows.from_arrays(X, y, noise)
    problem = Problem(12, alpha, 1, classes=3)
    found, usual = solve(problem, [rows], likelihood=True), Objective.of(problem, [rows], None).sources[0][1]
    assert found.converged
    T = np.array(CONFUSION)

    def lose(w):
        p = softmax(X @ w.reshape(3, 4).T, axis=1)
        return -np.log((p * T.T[y]).sum(axis=1)).mean() / usual + alpha / 2 * w @ w

    assert found.objective == pytest.approx(lose(found.weights), rel=1e-9)
    assert found.objective == pytest.approx(minimize(lose, found.weights, options={"gtol": 1e-10}).fun, rel=1e-6)


@pytest.mark.slow
def test_the_likelihood_has_the_covariance_of_the_information_and_the_surrogate_more():
    """200 draws of 4,000 rows, nearly separable: the trace is that of the inverse information within 4 standard errors.

    The surrogate's is larger: rows that are classified for sure bring it wrong labels and no curvature.
    """
    noise, found = FlippedLabels(0.3), {True: [], False: []}
    X, _, w = draw(4_000, 3, 0, length=6.0)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        y = noise.corrupt(np.where(rng.random(4_000) < expit(X @ w), 1.0, -1.0), rng)
        for way, weights in found.items():
            weights.append(solve(Problem(3, 1e-6, 1), [PublicRows.from_arrays(X, y, noise)], likelihood=way).weights)
    bend = describe_margins(X @ w, 0.3, 0.0)[2]
    expected = np.trace(np.linalg.inv((X.T * bend) @ X))
    errors = {way: ((np.array(weights) - w) ** 2).sum(axis=1) for way, weights in found.items()}
    assert errors[True].mean() == pytest.approx(expected, abs=4 * errors[True].std() / 200**0.5 + 0.1 * expected)
    assert errors[False].mean() > 1.5 * errors[True].mean()


@pytest.mark.parametrize("classes", [2, 3])
def test_folds_learned_together_are_those_learned_one_by_one(classes):
    rng = np.random.default_rng(0)
    noise = FlippedLabels(0.2)
    X, truth = rng.normal(size=(300, 4)), rng.normal(size=(3, 4))
    numbers = (X @ truth.T + rng.gumbel(size=(300, 3))).argmax(axis=1)
    two = np.where(numbers == 0, 1.0, -1.0)
    y = noise.corrupt(two, rng) if classes == 2 else noise.corrupt_classes(numbers, 3, rng)
    problem = Problem(4 if classes == 2 else 12, 0.05, 1, classes=classes)
    fold = np.arange(300) % 3
    rests = [PublicRows.from_arrays(X[fold != k], y[fold != k], noise) for k in range(3)]
    near, alone = (
        [solve(replace(problem, alpha=alpha), [rest], likelihood=True).weights for rest in rests]
        for alpha in (0.06, 0.05)
    )
    together = FoldRows.of(problem, [PublicRows.from_arrays(X, y, noise)], [fold], likelihood=True)
    found, done = together.descend(np.full(problem.n_features, 0.05), np.column_stack(near))
    assert done.all()
    for k, rest in enumerate(rests):
        f = Objective.of(problem, [rest], None, likelihood=True)
        assert f.at(found[:, k]).value == pytest.approx(f.at(alone[k]).value, rel=1e-4)
        assert f.at(near[k]).value > f.at(alone[k]).value


def test_the_better_way_is_chosen_and_few_rows_have_the_surrogate():
    """Nearly separable rows ask for the likelihood and few rows do not; where labels tell nothing, the length is 0."""
    noise, rng = FlippedLabels(0.3), np.random.default_rng(0)
    X, y, _ = draw(4_000, 10, 3, length=20.0)
    seen = noise.corrupt(y, rng)
    problem = Problem(10, 1.0, 1)

    def choose(rows, labels):
        return choose_alpha(problem, [PublicRows.from_arrays(X[:rows], labels[:rows], noise)], likelihood=True)

    assert choose(4_000, seen).likelihood
    assert not choose(200, seen).likelihood  # 32 exact rows
    nothing = choose(4_000, rng.choice([-1.0, 1.0], 4_000))
    assert not nothing.likelihood or nothing.length < 1e-9
    assert choose(4_000, seen).length > 0.3
    assert choose(200, seen).length == 1.0


@pytest.mark.parametrize("rate", [0.3, 0.45])
def test_sparse_and_dense_rows_have_one_choice(rate):
    """Dense folds are learned together and sparse ones one by one: alpha, way and length are the same."""
    noise = FlippedLabels(rate)
    X, y, _ = draw(3_000, 8, 5, length=8.0)
    seen = noise.corrupt(y, np.random.default_rng(0))
    dense, thin = (
        choose_alpha(Problem(8, 1.0, 1), [PublicRows.from_arrays(form(X), seen, noise)], likelihood=True)
        for form in (np.asarray, sparse.csr_array)
    )
    assert (dense.alpha, dense.likelihood, dense.length) == (pytest.approx(thin.alpha), thin.likelihood, thin.length)


@pytest.mark.slow
def test_a_crowd_does_not_shorten_what_exact_labels_tell():
    """Threes and eights, 50 exact beside 250 at 0.45: log-loss on the others, beside that of the exact rows alone."""
    X, y = load_digits(return_X_y=True)
    X, y, apart = X[np.isin(y, (3, 8))] / 16, np.where(y[np.isin(y, (3, 8))] == 8, 1.0, -1.0), []
    noise, source = {"expert": Exact(), "crowd": FlippedLabels(0.45)}, np.repeat(["expert", "crowd"], [50, 250])
    for seed in range(8):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(y))
        train, test = order[:300], order[300:]
        labels = np.concatenate([y[train[:50]], noise["crowd"].corrupt(y[train[50:]], rng)])
        both = UnevenClassifier(noise, random_state=0).fit(X[train], labels, source=source)
        alone = UnevenClassifier(random_state=0).fit(X[train[:50]], labels[:50])
        losses = [np.logaddexp(0, -y[test] * one.decision_function(X[test])).mean() for one in (both, alone)]
        apart.append(losses[0] - losses[1])
    assert np.mean(apart) < 2 * np.std(apart, ddof=1) / 8**0.5 + 0.01


def test_a_label_that_a_class_never_has_is_held_out_at_a_finite_loss():
    """A confusion matrix with a zero, and a row that is classified for sure as a class that never has its label."""
    noise = FlippedLabels(((0.8, 0.2, 0.0), (0.1, 0.8, 0.1), (0.0, 0.2, 0.8)))
    rows = PublicRows.from_arrays(np.ones((1, 1)), [2], noise)
    scores, label = np.array([[2_000.0, 0.0, 0.0]]), np.array([2])
    lost, _ = _held_out_classes(Problem(3, 1.0, 1, classes=3), rows, scores, label)
    assert 700 < lost[0] < np.inf


@pytest.mark.slow
def test_flips_of_nearly_separable_rows_do_better_than_ignoring_them():
    """Accuracy on new rows over six draws: that of logistic regression on the labels as observed is lower."""
    noise, apart = FlippedLabels(0.3), []
    for seed in range(6):
        X, y, _ = draw(9_000, 20, seed, length=20.0)
        seen = noise.corrupt(y[:4_000], np.random.default_rng(seed))
        ours = UnevenClassifier(noise, random_state=0).fit(X[:4_000], seen)
        theirs = LogisticRegression().fit(X[:4_000], seen)
        apart.append(ours.score(X[4_000:], y[4_000:]) - theirs.score(X[4_000:], y[4_000:]))
    assert np.mean(apart) > 4 * np.std(apart, ddof=1) / 6**0.5


def draw_rules(count, seed):
    """Rows that three rules make positive, which no linear score can follow; 7% and 3% are exceptions."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 12))
    either = (X[:, 0] > 1.2) | ((X[:, 1] > 0.8) & (X[:, 2] > 0.8)) | ((X[:, 3] < -1.0) & (X[:, 4] < -0.6))
    return X, np.where(rng.random(count) < np.where(either, 0.93, 0.03), 1.0, -1.0)


@pytest.mark.slow
def test_rows_that_no_linear_score_explains_are_not_taken_for_flipped_ones():
    """Log-loss over eight draws is that of true labels; two of the eight most likely answers lose without end."""
    noise, apart = FlippedLabels(0.2), []
    for seed in range(8):
        X, y = draw_rules(8_000, seed)
        seen = noise.corrupt(y[:4_000], np.random.default_rng(seed))
        ours, exact = (UnevenClassifier(one, random_state=0) for one in (noise, Exact()))
        ours.fit(X[:4_000], seen)
        exact.fit(X[:4_000], y[:4_000])
        lost = [np.logaddexp(0, -y[4_000:] * one.decision_function(X[4_000:])).mean() for one in (ours, exact)]
        apart.append(lost[0] - lost[1])
    assert max(apart) < 0.1
    assert np.mean(apart) < 0.03


@pytest.mark.parametrize("classes", [2, 3])
def test_weights_that_doubt_length_are_found_by_their_slope(classes):
    """True weights are doubted one time in 160: in at most 8 of 300 draws; three times as long ones nearly always."""
    noise, W, found = FlippedLabels(0.2), np.array([[0.0, 0.0], [2.0, -1.0], [-1.0, 2.0]])[:classes], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(2_000, 2))
        y = (X @ W.T + rng.gumbel(size=(len(X), classes))).argmax(axis=1)
        seen = np.where(rng.random(len(y)) < 0.2, (y + rng.integers(1, classes, len(y))) % classes, y).astype(float)
        problem = Problem(2 * (classes if classes > 2 else 1), 1e-3, 50, classes=classes)
        rows = PublicRows.from_arrays(X, 2 * seen - 1 if classes == 2 else seen, noise)
        w = W[1] if classes == 2 else W.ravel()
        folds = [np.zeros(len(y), dtype=int)]
        found.append([doubt_length(problem, [rows], folds, k * w[:, None], 1.0) for k in (1.0, 3.0)])
        found[-1].append(doubt_length(problem, [rows], folds, w[:, None], 3.0))
    true, longer, multiplied = np.sum(found, axis=0)
    assert 0 < true + 1 <= 9
    assert longer == multiplied > 290


def test_held_out_rows_judge_a_length_as_new_rows_do():
    """Weights three times too long, whichever way they are judged; and those that labels do not bear out are 0."""
    noise, rng = FlippedLabels(0.1), np.random.default_rng(0)
    X, y, w = draw(20_000, 3, 0, length=2.0)
    seen = noise.corrupt(y, rng)
    problem, rows = Problem(3, 1e-3, 1), PublicRows.from_arrays(X, seen, noise)
    f, folds = Objective.of(problem, [rows], None, likelihood=True), np.arange(20_000) % 2
    for length in (choose_length(f, 3 * w), choose_held_out_length(problem, [rows], [folds], np.stack([3 * w] * 2, 1))):
        assert length == pytest.approx(1 / 3, rel=0.2)  # the grid has factors of 1.41
    assert choose_held_out_length(problem, [rows], [folds], np.stack([-w, -w], axis=1)) < 1e-9


@pytest.mark.slow
def test_a_start_by_likelihood_knows_how_sure_it_is():
    """V₀ of 6,000 rows flipped at 0.2 against the spread of the starts over 60 draws: the expected excess agrees."""
    noise, excess, expected = FlippedLabels(0.2), [], []
    X, _, w = draw(6_000, 4, 0, length=3.0)
    bends = LOGISTIC.curvature_at(X @ w)
    H = (X.T * bends) @ X / len(X)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        y = noise.corrupt(np.where(rng.random(6_000) < expit(X @ w), 1.0, -1.0), rng)
        found = fit_anchor(X, y, 1e-5, chosen=1e-5, rates=np.full(6_000, 0.2), longest=1.0)
        excess.append((found.weights - w) @ H @ (found.weights - w) / 2)
        expected.append((found.hessian * found.covariance).sum() / 2)
    assert np.mean(expected) == pytest.approx(
        np.mean(excess), abs=4 * np.std(excess) / 60**0.5 + 0.15 * np.mean(excess)
    )


def test_exact_rows_of_more_classes_pull_alike_both_ways():
    """A confusion matrix that confuses nothing: slopes p - e_y, and the curvature of an exact row."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), rng.integers(0, 3, 20)
    sources = [PublicRows.from_arrays(X, y), PublicRows.from_arrays(X, y, FlippedLabels(0.2))]
    plain, observed = (_Rows.of((1.0, 1.0, 1.0), sources, way) for way in (False, True))
    scores = np.tile(rng.normal(size=(20, 3)), (2, 1))
    first = slice(20)
    for one, other in zip(plain.pull(scores), observed.pull(scores), strict=True):
        np.testing.assert_allclose(one[first] / plain.weights[0], (other[first].T / observed.weights[0]).T, rtol=1e-9)
    slopes, bends = observed.pull(scores)
    assert (np.abs(slopes[20:]) < np.abs(slopes[:20]) + 1e-12).all()  # an observed label is followed less
    assert (bends[20:] < bends[:20]).all()


def test_what_is_likely_is_a_greater_part_of_a_limited_excess():
    """½tr(HV) of 4 is limited to 1, and the likely 1.2 of it to all; after another start, 0.5 of 8 is 0.5 of 1."""
    H, V = np.eye(2), 4.0 * np.eye(2)
    limited, likely = limit_excess(V, H, 1.0, V, 0.3)
    assert np.trace(limited) / 2 == pytest.approx(1.0)
    assert likely == pytest.approx(1.0)
    assert limit_excess(2.0 * V, H, 1.0, V, 0.125)[1] == pytest.approx(0.5)
    assert limit_excess(V, H, 10.0, V, 0.3)[1] == pytest.approx(0.3)
    fewer, rest = limit_steps(V, 0.1)
    assert np.trace(fewer) == pytest.approx(FEW_STEPS * 0.1 * np.trace(V))
    assert rest == pytest.approx(1 / FEW_STEPS)


def test_an_answer_and_a_start_are_at_most_as_long_as_is_allowed():
    """A quarter of themselves, where the rows would let them be whole; of two classes and of three."""
    noise, rng = FlippedLabels(0.1), np.random.default_rng(0)
    X, y, _ = draw(4_000, 3, 0, length=3.0)
    seen = noise.corrupt(y, rng)
    rows, problem = [PublicRows.from_arrays(X, seen, noise)], Problem(3, 1e-4, 1)
    plain, whole, quarter = (solve(problem, rows, longest=one, likelihood=True).weights for one in (None, 1.0, 0.25))
    np.testing.assert_allclose(whole, plain, rtol=1e-6)
    np.testing.assert_allclose(quarter, plain / 4, rtol=1e-6)
    full, short = (
        fit_anchor(X, seen, 1e-4, chosen=1e-4, rates=np.full(4_000, 0.1), longest=one) for one in (1.0, 0.25)
    )
    np.testing.assert_allclose(short.weights, full.weights / 4, rtol=1e-6)
    np.testing.assert_allclose(short.margins, full.margins / 4 * np.sign(short.margins * full.margins), rtol=1e-6)
    numbers = noise.corrupt_classes(
        (X @ rng.normal(size=(3, 3)) * 2 + rng.gumbel(size=(4_000, 3))).argmax(axis=1), 3, rng
    )
    three, several = Problem(9, 1e-4, 1, classes=3), [PublicRows.from_arrays(X, numbers, noise)]
    full, short = (fit_class_anchor(three, several, np.ones(9), 1e-4, one) for one in (1.0, 0.25))
    np.testing.assert_allclose(short.weights, full.weights / 4, rtol=1e-6)
    np.testing.assert_allclose(short.scores, full.scores / 4, rtol=1e-6)


def test_an_intercept_is_next_to_free():
    """A hundredth of alpha for the likelihood, all of it for the surrogate, which may have no best value without."""
    rows = [PublicRows.from_arrays(np.ones((4, 2)), [1, 1, -1, -1], FlippedLabels(0.2))]
    found = [Objective.of(Problem(2, 0.5, 1), rows, [1.0, 0.0], way).ridge.tolist() for way in (True, False)]
    assert found == [[0.5, 0.005], [0.5, 0.5]]


def test_left_out_margins_are_those_of_answers_without_the_row():
    """By one step with the expected curvature: over all rows, the shifts are those of refits within 15%."""
    noise, alpha, n = FlippedLabels(0.2), 0.05, 80
    X, y, _ = draw(n, 3, 0, length=1.0)
    seen = noise.corrupt(y, np.random.default_rng(0))
    flips = Flips.of(seen, np.full(n, 0.2), None, (1.0, 1.0), likelihood=True)
    whole = solve(Problem(3, alpha, 1), [PublicRows.from_arrays(X, seen, noise)], likelihood=True).weights
    margins, found = seen * (X @ whole), leave_one_out_margins(X, seen, whole, alpha, flips)
    real = np.empty(n)
    for row in range(n):
        rest = np.arange(n) != row
        problem = Problem(3, alpha * n / (n - 1), 1)  # the sum over rows has as strong a penalty
        alone = solve(problem, [PublicRows.from_arrays(X[rest], seen[rest], noise)], likelihood=True).weights
        real[row] = seen[row] * (X[row] @ alone)
    shifts, said = real - margins, found - margins
    assert said @ shifts / (shifts @ shifts) == pytest.approx(1.0, abs=0.15)
    assert np.corrcoef(said, shifts)[0, 1] > 0.95
