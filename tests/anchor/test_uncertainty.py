"""Is the anchor as sure as it may be? Compared with the errors it really makes."""

import numpy as np
import pytest

from uneven import Problem
from uneven.anchor.sandwich import estimate_size
from uneven.anchor.solver import solve
from uneven.anchor.uncertainty import (
    Flips,
    find_covariance,
    fit_anchor,
    leave_one_out_margins,
    limit_covariance,
    search_strength,
)
from uneven.datasets import load_covertype_sample
from uneven.engine import find_optimum

ALPHA = 1e-3


def test_leave_one_out_margins_are_those_of_refitted_weights():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (60, 4))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(60) > 0, 1.0, -1.0)
    problem = Problem(n_features=4, alpha=0.05, batch_size=1)
    w = find_optimum(problem, X, y)
    refitted = []
    for i in range(60):
        rest = np.arange(60) != i
        others = Problem(n_features=4, alpha=0.05 * 60 / 59, batch_size=1)  # the same sum of losses against the L2 term
        refitted.append(y[i] * X[i] @ find_optimum(others, X[rest], y[rest]))
    np.testing.assert_allclose(leave_one_out_margins(X, y, w, 0.05), refitted, atol=2e-3)


def test_with_many_rows_it_is_the_plain_sandwich():
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.5, 0.5, (50_000, 2))
    y = np.where(rng.random(50_000) < 0.6, 1.0, -1.0)
    anchor = fit_anchor(X, y, 0.01)
    q = 1 / (1 + np.exp(y * (X @ anchor.weights)))
    H = (X.T * (q * (1 - q))) @ X / len(y) + 0.01 * np.eye(2)
    plain = np.linalg.inv(H) @ ((X.T * q**2) @ X / len(y)) @ np.linalg.inv(H) / len(y)
    found, _ = find_covariance(X, y * (X @ anchor.weights), anchor.weights, 0.01, 0.01, 0.0)
    np.testing.assert_allclose(found, plain, rtol=1e-3)


def test_a_column_never_seen_is_not_believed_to_be_known():
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.uniform(-0.5, 0.5, 100), np.zeros(100)])
    y = np.where(rng.random(100) < 1 / (1 + np.exp(-8 * X[:, 0])), 1.0, -1.0)
    variance = np.diag(fit_anchor(X, y, ALPHA).covariance)
    assert variance[1] > variance[0]


@pytest.fixture(scope="module")
def covertype():
    data = load_covertype_sample()
    X = data.X.astype(float)
    return X, data.y, find_optimum(Problem(n_features=54, alpha=ALPHA, batch_size=1), X, data.y)


@pytest.mark.parametrize("rows", [27, 54, 100, 250, 540])
def test_from_half_as_many_rows_as_features_to_ten_times_it_is_neither_overconfident_nor_useless(covertype, rows):
    """Expected ½tr(HV₀) against the excess that the start really has; Mahalanobis² over d is 1 for the truth.

    Where rows are fewer than features it errs towards doubt.
    """
    X, y, best = covertype
    rng, expected, measured, distance = np.random.default_rng(rows), [], [], []

    def value(w):
        return np.logaddexp(0, -y * (X @ w)).mean() + ALPHA / 2 * w @ w

    for _ in range(10):
        chosen = rng.choice(len(y), rows, replace=False)
        anchor = fit_anchor(X[chosen], y[chosen], ALPHA)
        error = anchor.weights - best
        expected.append(np.trace(anchor.hessian @ anchor.covariance) / 2)
        measured.append(value(anchor.weights) - value(best))
        distance.append(error @ np.linalg.solve(anchor.covariance, error) / 54)
    assert 0.7 < np.mean(expected) / np.mean(measured) < (2.5 if rows >= 54 else 4.0)
    assert 0.2 < np.mean(distance) < 1.3


def test_the_start_is_no_worse_than_the_optimum_of_few_rows(covertype):
    X, y, _ = covertype
    rng, gains = np.random.default_rng(5), []
    for _ in range(10):
        chosen = rng.choice(len(y), 60, replace=False)
        anchor = fit_anchor(X[chosen], y[chosen], ALPHA)
        plain = find_optimum(Problem(n_features=54, alpha=ALPHA, batch_size=1), X[chosen], y[chosen])
        values = [np.logaddexp(0, -y * (X @ w)).mean() + ALPHA / 2 * w @ w for w in (plain, anchor.weights)]
        gains.append(values[0] - values[1])
    assert np.mean(gains) > 2 * np.std(gains, ddof=1) / np.sqrt(10)
    assert anchor.strength >= ALPHA


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_flipped_rows_are_as_unsure_as_they_are(rate):
    """Half the rows exact, half flipped; errors of 60 anchors beside what each says of itself."""
    rng, truth, alpha = np.random.default_rng(3), np.array([4.0, -3.0, 0.0]), 0.01
    rates = np.repeat([0.0, rate], 400)

    def draw(n):
        X = rng.uniform(-0.5, 0.5, (n, 3))
        return X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ truth)), 1.0, -1.0)

    X, y = draw(100_000)
    best = fit_anchor(X, y, alpha)
    errors, expected = [], []
    for _ in range(60):
        X, y = draw(800)
        anchor = fit_anchor(X, np.where(rng.random(800) < rates, -y, y), alpha, rates=rates)
        e = anchor.weights - best.weights
        errors.append(e @ best.hessian @ e)
        expected.append(np.trace(best.hessian @ anchor.covariance))
    assert abs(np.mean(errors) - np.mean(expected)) < 4 * np.std(errors) / 60**0.5
    exact = np.trace(best.hessian @ fit_anchor(X, y, alpha).covariance)
    assert np.mean(expected) > 1.1 * exact


def test_leave_one_out_margins_of_flipped_rows_are_those_of_refitted_weights():
    rng, alpha = np.random.default_rng(4), 0.05
    X = rng.uniform(-0.5, 0.5, (60, 4))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(60) > 0, 1.0, -1.0)
    flips = Flips(np.where(np.arange(60) < 30, 0.0, 0.2), np.where(np.arange(60) < 45, 0.0, -0.1), y)
    c = ((1 - 2 * flips.rates) / (1 + 2 * np.abs(flips.skews))) ** 2

    def weights(keep):
        problem = Problem(n_features=4, alpha=alpha * c.sum() / c[keep].sum(), batch_size=1)
        return solve(problem, Flips(flips.rates[keep], flips.skews[keep], y[keep]).sources(X[keep], y[keep])).weights

    refitted = [y[i] * X[i] @ weights(np.arange(60) != i) for i in range(60)]
    found = leave_one_out_margins(X, y, weights(np.full(60, True)), alpha, flips)
    np.testing.assert_allclose(found, refitted, atol=5e-3)


def test_a_row_far_on_the_wrong_side_has_a_finite_loss():
    """Beside flipped rows, the probability of an exact one rounds to 0 from a margin of -745 on."""
    flips = Flips(np.array([0.0, 0.2]), np.zeros(2), np.array([1.0, 1.0]))
    near, far = (flips.mean_loss(np.array([margin, 1.0])) for margin in (-600.0, -2000.0))
    assert near < far < np.inf


def test_the_start_is_looked_for_around_what_cross_validation_chose():
    """A leave-one-out loss with a dip of rows learned by heart at 1e-7, and another at 1e-3; 1e-2 was chosen."""

    def look(strength, _):
        place = np.log10(strength)
        return np.array([strength]), min(1.0 + (place + 7.0) ** 2, 2.0 + (place + 3.0) ** 2), None

    strength, weights, _, size = search_strength(1e-7, np.ones(1), 1e-2, look)
    assert strength == pytest.approx(1e-3, rel=0.4)
    assert weights[0] == strength
    assert size == pytest.approx(1e-14)  # of the weakest
    assert search_strength(1e-7, np.ones(1), None, look)[0] == pytest.approx(1e-7)


def test_a_covariance_is_limited_to_what_a_weight_can_be():
    rng, factors = np.random.default_rng(5), np.array([1.0, 1.0, 0.01])
    root = rng.normal(size=(3, 3)) * np.array([[0.1], [1.0], [100.0]])
    V = root @ root.T
    prior = np.diag(4.0 * 2.5 / factors)
    limited = limit_covariance(V, 2.5, factors)
    np.testing.assert_allclose(np.linalg.inv(limited), np.linalg.inv(V) + np.linalg.inv(prior), rtol=1e-6)
    diagonal = limit_covariance(np.diag(V), 2.5, factors)
    np.testing.assert_allclose(1.0 / diagonal, 1.0 / np.diag(V) + 1.0 / np.diag(prior))
    np.testing.assert_array_equal(limit_covariance(V, 0.0, factors), V)


@pytest.mark.parametrize("factor", [1.0, 0.01])
def test_the_length_of_the_start_tells_that_of_the_weights(factor):
    """w₀ = Kw* + e with w* of variance s²/p: s² and one standard error more, whose mean over 300 draws is 2 of them."""
    rng, d, s2 = np.random.default_rng(0), 30, 2.0
    p = np.append(np.ones(d - 1), factor)
    curvature = np.diag(np.geomspace(0.01, 1.0, d))
    strength = 0.05 * p
    inverse = np.linalg.inv(curvature + np.diag(strength))
    noise, kept = inverse @ (0.002 * np.eye(d)) @ inverse, inverse @ curvature
    found = []
    for _ in range(300):
        truth = rng.normal(size=d) * np.sqrt(s2 / p)
        start = kept @ truth + rng.multivariate_normal(np.zeros(d), noise)
        found.append(estimate_size(start, kept, noise, strength))
    unit = np.trace(np.diag(p) @ kept @ np.diag(1 / p) @ kept.T)
    error = np.sqrt(2 * np.sum(np.sqrt(np.outer(p, p)) ** 2 * noise**2)) / unit
    assert s2 < np.mean(found) < s2 + 6 * error
    nothing = [estimate_size(rng.multivariate_normal(np.zeros(d), noise), kept, noise, strength) for _ in range(300)]
    assert np.mean(nothing) < 4 * error


def test_few_rows_beside_a_weak_alpha_say_how_much_of_their_excess_is_likely():
    """Weights at alpha itself are many times too long there; with many rows all of it is likely."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(4_000, 30)) / 30**0.5, 2.0 * rng.normal(size=30)
    y = np.where(X @ w + rng.logistic(size=4_000) > 0, 1.0, -1.0)
    few, many = fit_anchor(X[:60], y[:60], 1e-6, chosen=0.01), fit_anchor(X, y, 1e-3)
    assert few.likely < 0.3
    assert many.likely > 0.9
