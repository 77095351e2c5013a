"""The solver against SciPy, scikit-learn and closed forms; hard cases; flips in the limit of many rows."""

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from tests.test_losses import SMOOTHED

from uneven.anchor import solver
from uneven.anchor.objective import TOLERANCE, Objective, weigh_source
from uneven.anchor.rows import PublicRows
from uneven.anchor.solver import solve
from uneven.datasets import load_covertype_sample
from uneven.losses import LOSSES
from uneven.noise import AdditiveNoise, Exact, FlippedLabels, LocalPrivacy
from uneven.problem import Problem


def problem(d, alpha, loss="logistic"):
    return Problem(n_features=d, alpha=alpha, batch_size=1, loss=loss)


def draw(n, d, seed=0, noise=0.2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    y = np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)
    return X, np.where(rng.random(n) < noise, -y, y)


def value(w, sources, alpha, penalty=1.0):
    """The objective by its definition, with the surrogate of Natarajan et al. for flips."""
    total = loss = 0.0
    for X, y, rate in sources:
        m, c = y * (X @ w), (1 - 2 * rate) ** 2
        surrogate = ((1 - rate) * np.logaddexp(0, -m) - rate * np.logaddexp(0, m)) / (1 - 2 * rate)
        loss, total = loss + c * surrogate.sum(), total + c * len(y)
    return loss / total + alpha / 2 * (penalty * w**2).sum()


def test_sources_of_every_kind_against_scipy():
    sources = [(*draw(80, 6, 0), 0.0), (*draw(300, 6, 1), 0.3), (*draw(200, 6, 2), 0.1)]
    noises = [Exact(), FlippedLabels(0.3), FlippedLabels(0.1)]
    rows = [PublicRows.from_arrays(X, y, noise) for (X, y, _), noise in zip(sources, noises, strict=True)]
    found = solve(problem(6, 0.01), rows)
    best = minimize(lambda w: value(w, sources, 0.01), np.zeros(6), method="BFGS", options={"gtol": 1e-9})
    assert found.converged
    assert found.objective == pytest.approx(value(found.weights, sources, 0.01), rel=1e-12)
    assert found.objective - best.fun <= TOLERANCE * best.fun
    np.testing.assert_allclose(found.weights, best.x, atol=1e-3)


def test_additive_noise_weighs_a_row_by_its_precision():
    (X, y), (Z, v) = draw(50, 4, 0), draw(70, 4, 1)
    rows = [PublicRows.from_arrays(X, y), PublicRows.from_arrays(Z, v, AdditiveNoise(3.0))]
    quarter = [PublicRows.from_arrays(np.repeat(X, 4, axis=0), np.repeat(y, 4)), PublicRows.from_arrays(Z, v)]
    assert weigh_source(AdditiveNoise(3.0), problem(4, 1e-2)) == 0.25
    for one, other in zip(*(solve(problem(4, 1e-2), r).weights for r in (rows, quarter)), strict=True):
        assert one == pytest.approx(other, abs=1e-9)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.45])
def test_flips_in_the_limit_of_many_rows_change_nothing(rate):
    """With each row present flipped and not in the shares σ and 1-σ, the surrogate's mean is the loss itself."""
    X, y = draw(60, 5)
    flipped = round(100 * rate)
    labels = np.concatenate([np.repeat(-y, flipped), np.repeat(y, 100 - flipped)])
    copies = np.concatenate([np.repeat(X, flipped, axis=0), np.repeat(X, 100 - flipped, axis=0)])
    exact = solve(problem(5, 1e-2), [PublicRows.from_arrays(X, y)])
    found = solve(problem(5, 1e-2), [PublicRows.from_arrays(copies, labels, FlippedLabels(rate))])
    assert found.objective == pytest.approx(exact.objective, rel=1e-7)
    np.testing.assert_allclose(found.weights, exact.weights, atol=1e-3)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_streamed_and_sparse_equal_in_memory(form, monkeypatch):
    monkeypatch.setattr(solver, "SAMPLE_ROWS", 400)  # so that the sample is drawn from pieces, too
    X, y = draw(3000, 12)
    X *= np.random.default_rng(5).random(X.shape) < 0.3
    cuts = [0, 1, 700, 701, 2500, 3000]

    def pieces():
        return ((form(X[a:b]), y[a:b]) for a, b in pairwise(cuts))

    for noise in (Exact(), FlippedLabels(0.2)):
        whole = solve(problem(12, 1e-3), [PublicRows.from_arrays(X, y, noise)], hessian=True)
        streamed = solve(problem(12, 1e-3), [PublicRows(pieces, len(y), noise)], hessian=True)
        np.testing.assert_allclose(streamed.weights, whole.weights, atol=1e-9)
        np.testing.assert_allclose(streamed.hessian, whole.hessian, atol=1e-12)


def test_many_columns_equal_few(monkeypatch):
    """L-BFGS, for wide rows, and Newton's method find the same minimum; the Hessian becomes its diagonal."""
    X, y = draw(300, 40)
    newton = solve(problem(40, 1e-4), [PublicRows.from_arrays(X, y)], hessian=True)
    monkeypatch.setattr(solver, "DENSE_COLUMNS", 39)
    for form in (np.asarray, sparse.csr_array):
        found = solve(problem(40, 1e-4), [PublicRows.from_arrays(form(X), y)], hessian=True)
        assert found.converged
        assert found.objective == pytest.approx(newton.objective, rel=TOLERANCE)
        np.testing.assert_allclose(found.hessian, np.diag(newton.hessian), rtol=1e-2)


def test_hessian_is_the_derivative_of_the_gradient():
    X, y = draw(50, 3)
    found = solve(problem(3, 1e-2), [PublicRows.from_arrays(X, y)], hessian=True)
    q = 1 / (1 + np.exp(y * (X @ found.weights)))
    np.testing.assert_allclose(found.hessian, (X.T * (q * (1 - q))) @ X / 50 + 1e-2 * np.eye(3), atol=1e-12)


HARD = {
    "separable": lambda: draw(300, 20, noise=0.0),
    "badly scaled": lambda: (draw(300, 20)[0] * 10.0 ** np.linspace(-8, 8, 20), draw(300, 20)[1]),
    "constant columns": lambda: (np.hstack([draw(300, 5)[0], np.ones((300, 2)), np.zeros((300, 1))]), draw(300, 5)[1]),
    "fewer rows than columns": lambda: draw(20, 60),
    "one row": lambda: draw(1, 4),
    "one class": lambda: (draw(50, 4)[0], np.ones(50)),
    "duplicated rows": lambda: (np.repeat(draw(3, 8)[0], 50, axis=0), np.repeat([1.0, -1.0, 1.0], 50)),
    "duplicated columns": lambda: (np.hstack([draw(300, 8)[0]] * 3), draw(300, 8)[1]),
}


@pytest.mark.parametrize("alpha", [1e-8, 1e-3, 10.0])
@pytest.mark.parametrize("case", HARD)
def test_hard_cases_converge(case, alpha):
    """Ten more steps by another factorisation, from the answer, find nothing better."""
    X, y = HARD[case]()
    found = solve(problem(X.shape[1], alpha), [PublicRows.from_arrays(X, y)])
    assert found.converged
    assert found.caveat is None
    best = polish(X, y, alpha, found.weights)
    assert found.objective - best <= TOLERANCE * best + 1e-15


def polish(X, y, alpha, w):
    """Least objective on the way of ten plain Newton steps by least squares."""
    values = [value(w, [(X, y, 0.0)], alpha)]
    for _ in range(10):
        q = 1 / (1 + np.exp(np.clip(y * (X @ w), -700, 700)))
        g = alpha * w - X.T @ (q * y) / len(y)
        w = w - np.linalg.lstsq((X.T * (q * (1 - q))) @ X / len(y) + alpha * np.eye(len(w)), g, rcond=None)[0]
        values.append(value(w, [(X, y, 0.0)], alpha))
    return min(values)


@pytest.mark.parametrize("rate", [0.3, 0.4999])
@pytest.mark.parametrize("free", [False, True])
def test_few_flipped_rows_end_with_an_answer_or_a_caveat(rate, free):
    """Where more labels agree than flips allow the surrogate falls without end: only the L2 term holds it."""
    X, y = draw(60, 10)
    for labels in (y, np.ones(60)):
        penalty = np.zeros(10) if free else None
        rows = [PublicRows.from_arrays(X, labels, FlippedLabels(rate))]
        found, kept = (solve(problem(10, 1e-8), rows, penalty, longest=longest) for longest in (None, 1.0))
        assert np.isfinite(found.weights).all()
        assert found.converged == (found.caveat is None)
        length = np.linalg.norm(kept.weights) / np.linalg.norm(found.weights)
        np.testing.assert_allclose(kept.weights, length * found.weights, rtol=1e-9)
        if found.converged:
            assert f"its weights were shrunk to {length:.2g} of their length" in kept.caveat
        assert np.logaddexp(0, np.abs(X @ kept.weights)).mean() < 2.0  # of labels that are all wrong


def test_patience_ends_in_one_line(monkeypatch):
    monkeypatch.setattr(solver, "MOST_READINGS", 3)
    X, y = draw(300, 20, noise=0.0)
    for columns in (2000, 5):
        monkeypatch.setattr(solver, "DENSE_COLUMNS", columns)
        found = solve(problem(20, 1e-8), [PublicRows.from_arrays(X, y)])
        assert not found.converged
        assert found.caveat.startswith("not converged after")
        assert "\n" not in found.caveat


def test_a_misleading_sample_costs_readings_not_the_answer(monkeypatch):
    """Columns that are rare enough to be missing from the sample have no curvature in its model."""
    monkeypatch.setattr(solver, "SAMPLE_ROWS", 100)
    X, y = draw(5000, 10)
    X[:, 5:] *= np.random.default_rng(1).random((5000, 5)) < 0.002
    sampled = solve(problem(10, 1e-6), [PublicRows.from_arrays(X, y)])
    plain = solve(problem(10, 1e-6), [PublicRows.from_arrays(X, y)], start=np.zeros(10))
    assert sampled.objective == pytest.approx(plain.objective, rel=TOLERANCE)


def test_linear_loss_in_closed_form():
    X, y = draw(40, 3)
    found = solve(problem(3, 0.5, "linear"), [PublicRows.from_arrays(X, y, FlippedLabels(0.25))])
    np.testing.assert_allclose(found.weights, 2.0 * (y @ X) / 40 / 0.5, atol=1e-12)  # 1/(1-2σ) = 2


@pytest.mark.parametrize("columns", [2000, 3])
def test_hinge_against_liblinear(monkeypatch, columns):
    """By Newton's method, and by L-BFGS as with many columns."""
    monkeypatch.setattr(solver, "DENSE_COLUMNS", columns)
    X, y = draw(200, 5)
    for alpha in (1e-1, 1e-3):
        found = solve(problem(5, alpha, "hinge"), [PublicRows.from_arrays(X, y)])
        other = LinearSVC(loss="hinge", C=1 / (alpha * 200), fit_intercept=False, tol=1e-7, max_iter=1_000_000)
        mine, best = (
            np.maximum(0, 1 - y * (X @ w)).mean() + alpha / 2 * w @ w for w in (found.weights, other.fit(X, y).coef_[0])
        )
        assert mine - best <= solver.WIDTHS[-1] / 2


def test_a_start_without_curvature_is_left(monkeypatch):
    """All margins are 0, where this loss is said to be straight, and nothing holds the free weight."""
    monkeypatch.setitem(LOSSES, SMOOTHED.name, SMOOTHED)
    X, y = draw(300, 4)
    found = solve(replace(problem(4, 0.01), loss=SMOOTHED.name), [PublicRows.from_arrays(X, y)], [0.0, 1.0, 1.0, 1.0])
    gradient = (SMOOTHED.slope(y * (X @ found.weights)) * y) @ X / 300 + 0.01 * found.weights * [0, 1, 1, 1]
    assert found.converged
    assert np.linalg.norm(gradient) < 1e-3


def bank():
    """Bank Marketing, without `duration`, one-hot and standardised."""
    folder = os.environ.get("UNEVEN_DATA")
    path = Path(folder or "", "bank", "bank-additional-full.csv")
    if not folder or not path.is_file():
        pytest.skip("UNEVEN_DATA has no Bank")
    names, *lines = (line.replace('"', "").split(";") for line in path.read_text().splitlines())
    table = np.array(lines)
    y, columns = np.where(table[:, -1] == "yes", 1.0, -1.0), []
    for name, column in zip(names[:-1], table.T, strict=False):
        if name == "duration":
            continue
        try:
            columns.append(column.astype(float)[:, None])
        except ValueError:
            columns.append((column[:, None] == np.unique(column)[1:]).astype(float))
    return StandardScaler().fit_transform(np.hstack(columns)), y


def breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), 2.0 * y - 1.0


def covertype():
    data = load_covertype_sample()
    return data.X.astype(np.float64), data.y


@pytest.mark.parametrize("alpha", [1e-2, pytest.param(1e-4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("load", [breast_cancer, bank, covertype])
def test_objective_of_scikit_learn_with_its_free_intercept(load, alpha):
    X, y = load()
    other = LogisticRegression(C=1 / (alpha * len(y)), tol=1e-8, max_iter=5000).fit(X, y)
    rows, penalty = np.hstack([X, np.ones((len(y), 1))]), np.append(np.ones(X.shape[1]), 0.0)
    found = solve(problem(len(penalty), alpha), [PublicRows.from_arrays(rows, y)], penalty)
    theirs = value(np.append(other.coef_, other.intercept_), [(rows, y, 0.0)], alpha, penalty)
    assert found.objective == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize(("rate", "least"), [(0.3, 0.70), (0.45, 0.67)])
def test_flipped_covertype_is_learned(rate, least):
    """50,000 rows that come with the package; benchmarks/convergence.py has the targets for 100,000."""
    data = load_covertype_sample()
    y = FlippedLabels(rate).corrupt(data.y, np.random.default_rng(0))
    found = solve(problem(54, 1e-3), [PublicRows.from_arrays(data.X, y, FlippedLabels(rate))])
    assert ((data.X_test @ found.weights > 0) == (data.y_test > 0)).mean() >= least


def test_refusals(monkeypatch):
    X, y = draw(10, 3)
    rows, p = PublicRows.from_arrays(X, y), problem(3, 1e-3)
    with pytest.raises(ValueError, match="noise must promise no privacy"):
        PublicRows.from_arrays(X, y, LocalPrivacy(1.0))
    with pytest.raises(ValueError, match="at least one source"):
        solve(p, [])
    with pytest.raises(ValueError, match="penalty must have 3"):
        solve(p, [rows], penalty=[1.0, -1.0, 1.0])
    with pytest.raises(ValueError, match="start must have 3"):
        solve(p, [rows], start=[0.0])
    with pytest.raises(ValueError, match="X must have shape"):
        solve(problem(4, 1e-3), [rows])
    with pytest.raises(ValueError, match="labels -1 and 1"):
        solve(p, [PublicRows.from_arrays(X, np.arange(10.0))])
    with pytest.raises(ValueError, match="count must be"):
        solve(p, [replace(rows, count=9)])
    with pytest.raises(ValueError, match="convex surrogate for them; got 'hinge'"):
        solve(problem(3, 1e-3, "hinge"), [replace(rows, noise=FlippedLabels(0.1))])
    X[4, 1] = np.nan
    for columns in (3, 2):
        monkeypatch.setattr(solver, "DENSE_COLUMNS", columns)
        with pytest.raises(ValueError, match="X must be finite"):
            solve(p, [rows])


@pytest.mark.parametrize("classes", [2, 3])
def test_flipped_labels_count_by_the_spread_of_their_gradients_where_the_answer_is_true(classes):
    """Mean square of p - e_y over that of p - T⁻¹e_y, with labels drawn from p and flipped; four standard errors."""
    rng, n, d = np.random.default_rng(0), 40_000, 3
    X, W = rng.normal(size=(n, d)), 3.0 * rng.normal(size=(classes, d))
    W[0] = 0.0
    p = softmax(X @ W.T, axis=1)
    y = (rng.random(n)[:, None] > np.cumsum(p, axis=1)).sum(axis=1)
    noise = FlippedLabels((0.3, 0.1)) if classes == 2 else FlippedLabels(0.3)
    T = noise.confusion_of(classes)
    seen = (rng.random(n)[:, None] > np.cumsum(T[y], axis=1)).sum(axis=1)
    labels = [2.0 * one - 1.0 if classes == 2 else one for one in (y, seen)]
    sources = [PublicRows.from_arrays(X, labels[0]), PublicRows.from_arrays(X, labels[1], noise)]
    w = W[1] if classes == 2 else W.ravel()
    exact, flipped = Objective.of(Problem(len(w), 1e-3, 1, classes=classes), sources, None).find_parts(w)
    own, other = (np.square(p - one).sum(axis=1) for one in (np.eye(classes)[y], np.linalg.inv(T)[seen]))
    even = np.full((1, classes), 1 / classes)
    usual = (1 - np.square(even).sum()) / (even @ T @ np.square(np.linalg.inv(T)).sum(axis=1) - 1 / classes)
    error = np.hypot(own.std() / own.mean(), other.std() / other.mean()) / n**0.5
    assert exact == pytest.approx(1.0, rel=1e-12)
    assert flipped * usual.item() == pytest.approx(own.mean() / other.mean(), rel=4 * error)
    assert flipped < 0.7
