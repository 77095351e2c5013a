"""More than two classes: the softmax gradient, its surrogates for unreliable labels, and the loops that use it."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from uneven import (
    AdditiveNoise,
    Exact,
    FlippedLabels,
    LabelPrivacy,
    LocalPrivacy,
    Problem,
    SitePrivacy,
    Source,
    softmax,
)
from uneven.engine import Stream, find_optimum, fit, objective, sweep
from uneven.planner import make_plan, plan

K, D, N = 4, 3, 230
CONFUSION = ((0.8, 0.1, 0.05, 0.05), (0.1, 0.7, 0.1, 0.1), (0.0, 0.2, 0.8, 0.0), (0.1, 0.1, 0.1, 0.7))
WEIGHTS = (0.2, 1.0, 0.5, 0.8)
NOISES = [
    Exact(),
    LocalPrivacy(3.0),
    LocalPrivacy(3.0, "privunit"),
    LocalPrivacy(3.0, "l2-laplace"),
    SitePrivacy(3.0),
    AdditiveNoise(2.0),
    FlippedLabels(0.2),
    FlippedLabels(CONFUSION),
]


def draw_rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X / np.linalg.norm(X, axis=1, keepdims=True) / rng.uniform(1, 3, (n, 1)), rng.integers(0, K, n).astype(float)


def make_problem(clip=None, batch_size=20, class_weights=()):
    return Problem(K * D, alpha=0.01, batch_size=batch_size, clip=clip, classes=K, class_weights=class_weights)


def test_a_stream_is_the_array_it_is_cut_from():
    """Constant memory: pieces of any size, shuffled within blocks; with one block in the array's own order of use."""
    X, y = draw_rows()
    planned = make_plan([Source("a", N, Exact())], make_problem())
    one, many = ([(X[a:b], y[a:b]) for a, b in cuts] for cuts in ([(0, N)], [(0, 70), (70, 71), (71, N)]))
    weights = [fit(planned, {"a": Stream(pieces)}, seed=1).weights for pieces in (one, many)]
    np.testing.assert_array_equal(*weights)


@pytest.mark.parametrize("class_weights", [(), WEIGHTS])
def test_the_gradient_is_the_derivative_of_the_objective(class_weights):
    X, y = draw_rows(n=40)
    problem, w = make_problem(class_weights=class_weights), np.random.default_rng(1).normal(size=K * D)
    numbers = approx_fprime(w, lambda v: float(objective(problem, v, X, y)), 1e-7)
    found = problem.alpha * w + Exact().row_gradients(problem, w, X, y).mean(axis=0)
    np.testing.assert_allclose(found, numbers, atol=2e-6)


@pytest.mark.parametrize("clip", [None, 0.3])
def test_class_weights_multiply_the_gradient_of_the_true_class(clip):
    """Exactly, also of the mean over what may be observed; so none is longer than without weights."""
    X, y = draw_rows()
    (plain, weighted), w = (make_problem(clip, class_weights=c) for c in ((), WEIGHTS)), np.linspace(-3, 3, K * D)
    expected = np.array(WEIGHTS)[y.astype(int), None] * Exact().row_gradients(plain, w, X, y)
    np.testing.assert_allclose(Exact().row_gradients(weighted, w, X, y), expected, atol=1e-14)
    for noise in (FlippedLabels(CONFUSION), LocalPrivacy(2.0) & FlippedLabels(0.2)):
        T = noise.confusion_of(K)[y.astype(int)]
        seen = np.array([noise.row_gradients(weighted, w, X, np.full(N, float(o))) for o in range(K)])
        np.testing.assert_allclose(np.einsum("no,ond->nd", T, seen), expected, atol=1e-12)
        assert (
            np.linalg.norm(seen, axis=2).max()
            <= noise.bound(weighted) * (1 + 1e-12)
            == noise.bound(plain) * (1 + 1e-12)
        )


@pytest.mark.parametrize("clip", [None, 0.5, 0.1])
def test_no_gradient_is_longer_than_the_clip(clip):
    X, y = draw_rows()
    problem, w = make_problem(clip), 5.0 * np.random.default_rng(1).normal(size=K * D)
    lengths = np.linalg.norm(Exact().row_gradients(problem, w, X, y), axis=1)
    plain = np.linalg.norm(Exact().row_gradients(make_problem(), w, X, y), axis=1)
    np.testing.assert_allclose(lengths, np.minimum(plain, problem.gradient_norm), rtol=1e-9)
    assert problem.gradient_norm == (np.sqrt(2.0) if clip is None else clip)


@pytest.mark.parametrize("noise", [FlippedLabels(0.3), FlippedLabels(CONFUSION), LabelPrivacy(1.0).observed_among(K)])
@pytest.mark.parametrize("clip", [None, 0.3])
def test_the_surrogate_is_unbiased_exactly(noise, clip):
    """Σ_o T_io·g̃(o) is the gradient of class i, for every class and row, clipped or not: a finite sum."""
    X, _ = draw_rows(n=20)
    problem, w, T = make_problem(clip), np.random.default_rng(2).normal(size=K * D), noise.confusion_of(K)
    np.testing.assert_allclose(T.sum(axis=1), 1.0)
    observed = np.array([noise.row_gradients(problem, w, X, np.full(20, float(o))) for o in range(K)])
    true = np.array([Exact().row_gradients(problem, w, X, np.full(20, float(i))) for i in range(K)])
    np.testing.assert_allclose(np.einsum("io,ond->ind", T, observed), true, atol=1e-12)
    assert np.linalg.norm(observed, axis=2).max() <= problem.gradient_norm * noise.amplification(K) * (1 + 1e-12)


def test_two_classes_by_softmax_are_logistic_regression():
    """Scores s and -s have the probability σ(2s): the formulas for K classes hold for two."""
    scores, y = np.array([[0.7, -0.7], [-2.0, 2.0]]), np.array([0, 0])
    np.testing.assert_allclose(softmax.loss_values(scores, y), np.logaddexp(0.0, -2 * scores[:, 0]))
    one = FlippedLabels(0.2)
    np.testing.assert_allclose(np.linalg.inv(one.confusion_of(2)), np.array([[0.8, -0.2], [-0.2, 0.8]]) / 0.6)
    np.testing.assert_allclose(np.abs(np.linalg.inv(one.confusion_of(2))).sum(axis=1).max(), one.amplification())


@pytest.mark.slow
def test_a_release_is_unbiased_and_has_the_planned_dimension():
    """The mean over 20,000 releases of one batch is its gradient, within 5 standard errors a coordinate."""
    X, y = draw_rows(n=4)
    problem, w, rng = make_problem(0.5, 4), np.zeros(K * D), np.random.default_rng(0)
    noise = LocalPrivacy(4.0).observed_among(K)
    rows = noise.row_gradients(problem, w, X, y)
    found = np.array([noise.release_sum(rows, problem.gradient_norm, rng) for _ in range(20_000)])
    error = found.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - rows.sum(axis=0)) < 5 * error).all()
    assert noise.coefficients(problem).mean == noise.calibration(K * D).mean


def test_the_clock_has_the_constants_of_the_softmax_loss():
    problem = Problem(10 * 25, 1e-3, 50, classes=10)
    assert (problem.columns, problem.outputs) == (25, 10)
    assert problem.smoothness == 0.5 + 1e-3
    assert problem.ball == pytest.approx(np.sqrt(2 * np.log(10) / 1e-3))
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(10, 0.2), size=500)
    largest = max(np.linalg.eigvalsh(np.diag(one) - np.outer(one, one)).max() for one in p)
    assert 0.4 < largest <= softmax.CURVATURE
    assert Problem.from_dict(problem.to_dict()) == problem
    assert "classes" not in Problem(25, 1e-3, 50).to_dict()


def test_the_default_activity_grows_with_the_first_gradients():
    assert LocalPrivacy(3.0).observed_among(2).activity == 0.5
    assert LocalPrivacy(3.0).observed_among(10).activity == pytest.approx(0.5 * np.sqrt(1.8))
    assert LocalPrivacy(3.0, activity=0.3).observed_among(10).activity == 0.3
    problem = make_problem(0.5)
    explicit = LocalPrivacy(3.0).observed_among(K)
    assert LocalPrivacy(3.0).variance_bound(problem) == explicit.variance_bound(problem)
    assert explicit.observed_among(K) == explicit


def test_a_sweep_is_many_fits():
    X, y = draw_rows()
    plans = [make_plan([Source("a", N, noise)], make_problem(0.5)) for noise in (Exact(), LocalPrivacy(5.0))]
    swept = sweep(plans, {"a": (X, y)}, runs=1, seed=3)
    for planned, weights in zip(plans, swept.weights, strict=True):
        np.testing.assert_array_equal(weights[0], fit(planned, {"a": (X, y)}, seed=3).weights)


def test_a_bound_is_promised_only_without_clipping():
    source = [Source("a", N, LocalPrivacy(3.0))]
    assert np.isfinite(plan(source, D, classes=K).bound)
    clipped = plan(source, D, clip=0.5, classes=K)
    assert np.isinf(clipped.bound)
    said = " ".join(clipped.summary().split())
    assert "No bound is promised: clipped multiclass gradients do not come from a convex loss" in said
    assert "12 weights (3 for each of 4 classes, by softmax)" in said
    assert "inf" not in said
    assert type(clipped).from_dict(clipped.to_dict()) == clipped
    weighted = make_plan(clipped.sources, make_problem(0.5, class_weights=WEIGHTS))
    assert type(weighted).from_dict(weighted.to_dict()) == weighted
    assert weighted.problem.class_weights == WEIGHTS


BAD = {
    "a label that is no class": (lambda X, y, p: fit(p, {"a": (X, y + 1)}), "whole numbers from 0 to 3, got 4"),
    "half a class": (lambda X, y, p: fit(p, {"a": (X, y / 2)}), "must be whole numbers from 0 to 3, got"),
    "too few weights": (
        lambda *_: make_problem(class_weights=(1.0, 0.5)),
        r"class_weights must be 4 numbers, one for each class; got \(1.0, 0.5\)",
    ),
    "weights too small": (
        lambda *_: make_problem(class_weights=(0.1, 0.2, 0.3, 0.4)),
        "class_weights must have 1 as the largest, got",
    ),
    "a weight of 0": (lambda *_: make_problem(class_weights=(0.0, 1, 1, 1)), "class_weights must be a"),
    "the hinge": (lambda *_: Problem(12, 0.1, 1, loss="hinge", classes=4), "loss must be 'logistic' for more than two"),
    "no multiple": (
        lambda *_: Problem(13, 0.1, 1, classes=4),
        "n_features must be a multiple of the 4 classes, got 13",
    ),
    "one class": (lambda *_: Problem(13, 0.1, 1, classes=1), "classes must be a whole number of at least 2, got 1"),
    "an optimum": (lambda X, y, _: find_optimum(make_problem(), X, y), "must be given scores of all classes"),
    "rows that do not sum to 1": (lambda *_: FlippedLabels(((0.5, 0.4), (0.1, 0.9))), "whose rows sum to 1, got"),
    "no square": (lambda *_: FlippedLabels(((0.5, 0.5), (0.5, 0.5), (1, 0))), "square matrix .*, got shape"),
    "words": (lambda *_: FlippedLabels((("a", "b"), ("c", "d"))), "rate must be a number, two, or a square matrix"),
    "ragged": (lambda *_: FlippedLabels(((0.5, 0.5), 0.1)), "rate must be a number, two, or a square matrix"),
    "singular": (
        lambda *_: FlippedLabels(((1 / 3,) * 3,) * 3),
        "a matrix with an inverse, or labels carry no information",
    ),
    "another size": (lambda *_: FlippedLabels(CONFUSION).targets(3), "a matrix for 3 classes, got a matrix for 4"),
    "two rates": (lambda *_: FlippedLabels((0.1, 0.2)).targets(3), "a matrix for 3 classes, got two rates"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_in_one_line(what):
    call, message = BAD[what]
    with pytest.raises(ValueError, match=message) as refused:
        call(*draw_rows(), make_plan([Source("a", N, Exact())], make_problem()))
    assert "\n" not in str(refused.value)


def test_a_matrix_of_two_classes_is_two_rates():
    assert FlippedLabels(((0.7, 0.3), (0.1, 0.9))) == FlippedLabels((0.1, 0.3))


def test_classes_are_confused_as_stated():
    """Shares of 40,000 draws within 5 standard errors."""
    noise, rng, n = FlippedLabels(CONFUSION), np.random.default_rng(0), 40_000
    for i, row in enumerate(np.array(CONFUSION)):
        shares = np.bincount(noise.corrupt_classes(np.full(n, i), K, rng), minlength=K) / n
        assert (np.abs(shares - row) <= 5 * np.sqrt(row * (1 - row) / n)).all()


def test_private_labels_are_randomised_response_over_all_classes():
    noise, rng, n = LabelPrivacy(1.0), np.random.default_rng(0), 40_000
    T = noise.observed_among(K).confusion_of(K)
    assert T[0, 0] / T[0, 1] == pytest.approx(np.e)
    moves = np.bincount(noise.draw_flips(n, rng, K), minlength=K) / n
    assert (np.abs(moves - T[0]) <= 5 * np.sqrt(T[0] * (1 - T[0]) / n)).all()
