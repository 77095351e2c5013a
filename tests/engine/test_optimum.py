"""The optimum is one: no gradient is left, and nothing around it is better."""

from types import SimpleNamespace

import numpy as np
import pytest
from problems import rows
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import uneven
from uneven.engine import find_optimum, measure_accuracy, measure_auc


@pytest.fixture(scope="module")
def tiny():
    X, y = rows(2_000, 4)
    return SimpleNamespace(X=X, y=y)


def value(problem, w, data):
    """(λ/2)‖w‖² + mean of the capped loss, row by row."""
    cap = problem.gradient_norm / np.linalg.norm(data.X.astype(float), axis=1)
    return problem.alpha / 2 * w @ w + problem.loss_function.value(data.y * (data.X.astype(float) @ w), cap).mean()


@pytest.mark.parametrize("clip", [None, 0.3])
@pytest.mark.parametrize("loss", ["logistic", "linear"])
def test_optimum_has_no_gradient(tiny, loss, clip):
    """Strong convexity: ‖w - w*‖ ≤ ‖∇f(w)‖/λ; the solver stops at a gradient of 1e-9 per coordinate."""
    problem = uneven.Problem(4, 1e-2, 50, loss, clip=clip)
    w = find_optimum(problem, tiny.X, tiny.y)
    gradient = problem.alpha * w + uneven.Exact().row_gradients(problem, w, tiny.X.astype(float), tiny.y).mean(axis=0)
    assert np.linalg.norm(gradient) / problem.alpha < 1e-6
    assert np.linalg.norm(w) > 0.1


@pytest.mark.parametrize("clip", [None, 0.3])
def test_optimum_of_the_hinge(tiny, clip):
    """f(w) - f(w*) ≥ (λ/2)‖w - w*‖² all around it, up to the little that the solver leaves."""
    problem = uneven.Problem(4, 1e-2, 50, "hinge", clip=clip)
    best = find_optimum(problem, tiny.X, tiny.y)
    rng = np.random.default_rng(1)
    for size in (0.003, 0.03, 0.3, 3.0):
        for step in size * rng.normal(size=(50, 4)):
            gained = value(problem, best + step, tiny) - value(problem, best, tiny)
            assert gained >= problem.alpha / 2 * step @ step - 1e-7


@pytest.mark.slow
def test_an_optimum_that_is_not_found_is_refused(tiny):
    problem = uneven.Problem(4, 1e-13, 50, "hinge")
    with pytest.raises(ValueError, match=r"^alpha must be larger for the optimum to be found .* got 1e-13$"):
        find_optimum(problem, tiny.X, tiny.y)


@pytest.mark.parametrize("alpha", [1e-1, 1e-3, 1e-6])
def test_optimum_is_that_of_logistic_regression(tiny, alpha):
    problem = uneven.Problem(4, alpha, 50)
    theirs = LogisticRegression(C=1 / (alpha * len(tiny.y)), fit_intercept=False, tol=1e-12, max_iter=100_000)
    w = theirs.fit(tiny.X.astype(float), tiny.y).coef_[0]
    ours = find_optimum(problem, tiny.X, tiny.y)
    assert value(problem, ours, tiny) <= value(problem, w, tiny) * (1 + 1e-12)
    np.testing.assert_allclose(ours, w, rtol=1e-3)


def test_accuracy_is_the_share_on_the_right_side(tiny):
    weights = np.random.default_rng(0).normal(size=(2, 3, 4))
    expected = [[np.mean((tiny.X @ w > 0) == (tiny.y > 0)) for w in some] for some in weights]
    np.testing.assert_allclose(measure_accuracy(weights, tiny.X, tiny.y), expected, atol=1 / len(tiny.y))


@pytest.mark.parametrize("together", [True, False])
def test_auc_is_that_of_scikit_learn(together):
    """Of two classes by score; of more the mean of each against the rest, by softmax or scaled to sum to 1."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)).astype(np.float32), rng.integers(3, size=300)
    W = rng.normal(size=(2, 12))
    found = measure_auc(W, X, y, classes=3, together=together)
    for one, w in zip(found, W, strict=True):
        scores = X @ w.reshape(3, 4).T
        shares = softmax(scores, axis=1) if together else expit(scores) / expit(scores).sum(axis=1, keepdims=True)
        assert one == pytest.approx(roc_auc_score(y, shares, multi_class="ovr"), abs=1e-6)
    signs = np.where(y == 0, 1.0, -1.0)
    assert measure_auc(W[0, :4], X, signs) == pytest.approx(roc_auc_score(signs, X @ W[0, :4]), abs=1e-6)
    assert np.isnan(measure_auc(W, X, np.minimum(y, 1), classes=3)).all()
