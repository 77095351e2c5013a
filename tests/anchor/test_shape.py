"""Coordinates of a release: the matrix is optimal, and it is used only where it pays."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from uneven.anchor.clock import expected_excess
from uneven.anchor.shape import (
    Shape,
    _make_shape,
    choose_coordinates,
    find_plain_coordinates,
    find_shaping_matrix,
    list_coordinates,
    make_coordinates,
)
from uneven.anchor.uncertainty import fit_anchor


def cost(M, hessian, moment):
    return np.trace(np.linalg.solve(hessian, M)) * np.trace(np.linalg.solve(M, moment))


def test_no_matrix_has_a_lower_product_of_noise_and_length():
    rng = np.random.default_rng(0)
    B, D = rng.standard_normal((2, 4, 4))
    hessian, moment = B @ B.T + 0.1 * np.eye(4), D @ D.T + 0.1 * np.eye(4)
    inverse = find_shaping_matrix(moment, hessian, 0.0)
    M = np.linalg.inv(inverse.T @ inverse)
    np.testing.assert_allclose(M @ np.linalg.solve(hessian, M), moment, atol=1e-9)  # the geometric mean of H and Sₓ
    root = np.real(sqrtm(M))
    least = cost(M, hessian, moment)
    for _ in range(200):
        E = 0.1 * rng.standard_normal((4, 4))
        assert cost(root @ (np.eye(4) + E) @ (np.eye(4) + E).T @ root, hessian, moment) >= least


@pytest.fixture(scope="module")
def anchor():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (300, 6)) * [0.5, 0.5, 0.02, 0.02, 0.02, 0.02]
    y = np.where(rng.random(300) < 1 / (1 + np.exp(-X @ [4, -4, 10, 10, -10, 10])), 1.0, -1.0)
    return fit_anchor(X, y, 1e-4)


def test_the_curvature_is_diagonal_in_the_coordinates(anchor):
    c = make_coordinates(
        anchor, Shape.of(np.diag([0.1, 0.2, 0.3, 0.1, 0.2, 0.3]), anchor.X)
    )  # short rows: nothing is clipped
    np.testing.assert_allclose(c.hessian, np.diag(c.curvature), atol=1e-12)
    np.testing.assert_allclose(c.clip_shift, 0.0)


def test_columns_of_different_scale_are_shaped(anchor):
    chosen = choose_coordinates(list_coordinates(anchor), lambda _: 1e6)
    assert expected_excess(chosen, 1e6) < 0.8 * expected_excess(find_plain_coordinates(anchor), 1e6)


def test_the_choice_is_never_worse_than_rows_as_they_are(anchor):
    for clock in (0.0, 1.0, 1e3, 1e8):
        chosen = choose_coordinates(list_coordinates(anchor), lambda _, clock=clock: clock)
        assert expected_excess(chosen, clock) <= expected_excess(find_plain_coordinates(anchor), clock)


def test_clipping_hard_is_expected_to_move_the_optimum(anchor):
    hard = make_coordinates(anchor, Shape.of(50.0 * np.eye(6), anchor.X))
    assert np.linalg.norm(hard.clip_shift) > 0
    assert expected_excess(hard, 1e12) > expected_excess(find_plain_coordinates(anchor), 1e12)


def test_hardly_more_rows_than_features_shape_nothing(anchor):
    few = fit_anchor(anchor.X[:8], anchor.y[:8], 1e-4)
    chosen = choose_coordinates(list_coordinates(few), lambda _: 1e6)
    np.testing.assert_array_equal(chosen.transform, find_plain_coordinates(few).transform)


def test_rows_are_as_long_as_fresh_ones_in_a_shape_made_from_few():
    """One-hot columns of 40 categories, 80 rows: each row is short in a shape made with it, and fresh ones are not."""
    rng = np.random.default_rng(2)
    X = 0.9 * np.eye(40)[rng.integers(0, 40, 4080)]
    y = np.where(rng.random(4080) < 0.5, 1.0, -1.0)
    few = fit_anchor(X[:80], y[:80], 1e-3)
    shape = _make_shape(few)
    own, fresh = (np.linalg.norm(one @ shape.matrix.T, axis=1).mean() for one in (X[:80], X[80:]))
    assert own < 0.9 * fresh
    assert abs(shape.lengths.mean() / fresh - 1) < 0.1


def test_another_start_in_the_same_coordinates_is_as_if_they_were_made_for_it(anchor):
    weights, covariance = 2.0 * anchor.weights + 1.0, anchor.covariance + np.eye(6)
    for old, new in zip(list_coordinates(anchor), list_coordinates(anchor.moved(weights, covariance)), strict=True):
        moved = old.moved(weights, covariance)
        np.testing.assert_allclose(moved.start, new.start, rtol=1e-9)
        np.testing.assert_allclose(moved.covariance, new.covariance, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(moved.weights(moved.start), weights, rtol=1e-9)


def test_clipped_rows_are_left_out_of_the_curvature_and_measured(anchor):
    """Few clipped rows are taken from the sum of all, many are left out of it: both are the sum over the others."""
    for factor in (1.5, 50.0):
        c = make_coordinates(anchor, Shape.of(factor * np.eye(6), anchor.X))
        cap = 0.5 / (factor * np.linalg.norm(anchor.X, axis=1))
        Z, q = anchor.X @ c.transform.T, anchor.slopes
        assert 0 < (q >= cap).mean() < 1
        expected = (Z.T * (q * (1 - q) * (q < cap))) @ Z / len(q) + c.penalty
        np.testing.assert_allclose(np.diag(c.curvature), expected, atol=1e-9 * expected.max())
        taken = (np.maximum(q - cap, 0.0) * anchor.y)[:, None] * Z
        np.testing.assert_allclose(c.clip_shift, taken.mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(c.clip_variance, taken.var(axis=0) / len(q), atol=1e-12)
