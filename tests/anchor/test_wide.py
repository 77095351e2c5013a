"""Many columns: n×n matrices give what d×d ones do, and diagonals the same clock where the problem is diagonal."""

from dataclasses import replace

import numpy as np
import pytest

from uneven.anchor.clock import absorb, expected_excess
from uneven.anchor.diagonals import take_diagonal
from uneven.anchor.shape import find_plain_coordinates, list_coordinates
from uneven.anchor.shift import Disagreement, allow_shift, doubt_curvature, limit_shift
from uneven.anchor.uncertainty import find_covariance, fit_anchor, leave_one_out_margins
from uneven.anchor.verdicts import judge_sources
from uneven.anchor.wide import solve_rows


def rows(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(1.0, 0.1, d)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(X[:, 0] > 0.3 * rng.normal(size=n), 1.0, -1.0)


@pytest.mark.parametrize(("n", "d"), [(30, 80), (60, 20)])
def test_rows_are_solved_by_woodburys_identity(n, d):
    X, _ = rows(n, d)
    bends, strength = np.random.default_rng(1).uniform(0, 0.25, n), np.linspace(1e-3, 1e-2, d)
    H = (X.T * bends) @ X / n + np.diag(strength)
    np.testing.assert_allclose(solve_rows(X, bends, strength), np.linalg.solve(H, X.T), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("n", "d"), [(30, 80), (200, 20)])
def test_margins_and_the_diagonal_of_the_sandwich_are_those_of_full_matrices(n, d):
    """The diagonal up to one factor for all, which makes ½Σhv the expected excess of fresh rows."""
    X, y = rows(n, d)
    w, strength, alpha = np.random.default_rng(1).normal(size=d), np.full(d, 3e-2), np.full(d, 1e-2)
    full, wide = (leave_one_out_margins(X, y, w, strength, None, one) for one in (False, True))
    np.testing.assert_allclose(wide, full, rtol=1e-8)
    whole, v = (find_covariance(X, full, w, strength, alpha, 0.5, None, one)[0] for one in (False, True))
    factor = v / np.diag(whole)
    np.testing.assert_allclose(factor, factor[0], rtol=1e-8)


def test_the_expected_excess_is_that_of_fresh_rows():
    """½Σhv against ½ of the mean bend·xᵀVx over rows that V does not know, where columns are correlated."""
    rng = np.random.default_rng(0)
    d, n, mixed = 60, 120, rng.normal(size=(5, 60))
    X = rng.normal(size=(20_000, 5)) @ mixed + 0.3 * rng.normal(size=(20_000, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X[:, 0] > 0.1 * rng.normal(size=len(X)), 1.0, -1.0)
    anchor = fit_anchor(X[:n], y[:n], 1e-3)
    wide = fit_anchor(X[:n], y[:n], 1e-3, diagonal=True)
    margins = X[n:] @ anchor.weights
    bends = 1 / (2 + 2 * np.cosh(margins))
    spread = ((X[n:] @ anchor.covariance) * X[n:]).sum(axis=1)
    fresh = (bends @ spread / len(spread) + anchor.ridge @ np.diag(anchor.covariance)) / 2
    assert expected_excess(find_plain_coordinates(wide), 0.0) == pytest.approx(fresh, rel=0.25)
    assert (wide.hessian @ np.diag(anchor.covariance)) / 2 > 1.5 * fresh  # what the diagonals alone would say


def one_column_each(n, d):
    """Rows with one column each: the curvature and the gradients' covariance are diagonal."""
    rng = np.random.default_rng(0)
    X = np.zeros((n, d))
    X[np.arange(n), np.arange(n) % d] = rng.uniform(0.5, 1.0, n)
    return X, np.where(rng.random(n) < 0.7, 1.0, -1.0)


def test_on_a_diagonal_problem_the_clock_is_that_of_full_matrices():
    """With the full covariance's diagonal for both: same excess, same steps, same answer to a shift, same verdicts."""
    X, y = one_column_each(300, 6)
    full, wide = fit_anchor(X, y, 1e-2), fit_anchor(X, y, 1e-2, diagonal=True)
    np.testing.assert_allclose(wide.weights, full.weights, rtol=1e-9)
    wide = replace(wide, covariance=np.diag(full.covariance).copy())
    one, other = find_plain_coordinates(full), find_plain_coordinates(wide)
    order = np.argmax(np.abs(one.transform), axis=1)  # eigenvectors are the columns, in another order
    for name in ("curvature", "variance", "clip_variance", "freedom"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name)[order], rtol=1e-9, atol=1e-15)
    gradient = np.linspace(-0.1, 0.1, 6)
    for clock in (0.0, 3.0, 1e4):
        assert expected_excess(one, clock) == pytest.approx(expected_excess(other, clock))
        stepped = absorb(one, one.transform @ gradient, clock), absorb(other, gradient, clock)
        np.testing.assert_allclose(stepped[0].weights(stepped[0].start), stepped[1].weights(stepped[1].start))
    shifted = Disagreement(9.0, 1e-9, 0.3)
    apart = [doubt_curvature(allow_shift(c, 0.1 * c.curvature * c.start, shifted), 50.0) for c in (one, other)]
    np.testing.assert_allclose(apart[0].variance, apart[1].variance[order])
    np.testing.assert_allclose(apart[0].curvature, apart[1].curvature[order])
    np.testing.assert_allclose(*(c.weights(c.start) for c in apart))
    assert limit_shift(one) == pytest.approx(limit_shift(other))
    found = [judge_sources(a, {"a": lambda _: 100.0}, (c,))["a"] for a, c in ((full, one), (wide, other))]
    assert found[0].excess == pytest.approx(found[1].excess)
    assert found[0].accuracy.value == pytest.approx(found[1].accuracy.value, abs=2e-3)  # drawn in another order


def test_many_columns_are_released_as_they_are():
    X, y = rows(40, 30)
    (only,) = list_coordinates(fit_anchor(X, y, 1e-2, diagonal=True))
    assert only.transform.shape == only.hessian.shape == only.penalty.shape == (30,)
    np.testing.assert_array_equal(take_diagonal(only.covariance), only.variance)
