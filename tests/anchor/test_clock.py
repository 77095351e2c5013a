"""Theorem D by simulation, and the engine's loop that carries it out."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from uneven import LocalPrivacy
from uneven.anchor.clock import absorb, compute_error_covariance, expected_excess
from uneven.anchor.shape import Shape, find_plain_coordinates, make_coordinates
from uneven.anchor.uncertainty import fit_anchor
from uneven.noise import Exact
from uneven.schedules import Precision
from uneven.theory.anchor import (
    theorem_d_excess,
    theorem_d_gain,
    theorem_d_mismatch,
    theorem_d_precision,
    theorem_d_steps,
)

RUNS = 20_000
HESSIAN = np.array([[0.5, 0.2], [0.2, 0.3]])
PRIOR = np.array([[2.0, -0.5], [-0.5, 1.0]])
VARIANCES = [4.0, 4.0, 0.5, 0.5, 0.5, 20.0]


def simulate(variances, seed):
    """Errors w - w* after Theorem D's steps on a quadratic, one row a run."""
    rng = np.random.default_rng(seed)
    errors = rng.multivariate_normal(np.zeros(2), np.linalg.inv(PRIOR), RUNS)
    clock = 0.0
    for variance in variances:
        clock += 1.0 / variance
        G = errors @ HESSIAN + np.sqrt(variance) * rng.standard_normal((RUNS, 2))
        errors -= G @ HESSIAN @ np.linalg.inv(theorem_d_precision(PRIOR, HESSIAN, clock)) / variance
    return errors, clock


@pytest.mark.parametrize("order", [VARIANCES, VARIANCES[::-1], sorted(VARIANCES)])
def test_the_covariance_on_a_quadratic_is_the_inverse_precision_in_any_order(order):
    errors, clock = simulate(order, seed=1)
    expected = np.linalg.inv(theorem_d_precision(PRIOR, HESSIAN, clock))
    measured = errors.T @ errors / RUNS
    spread = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / RUNS)  # Gaussian fourth moments
    assert (np.abs(measured - expected) < 4 * spread).all()


def test_the_excess_on_a_quadratic_is_half_the_trace():
    errors, clock = simulate(VARIANCES, seed=2)
    excess = ((errors @ HESSIAN) * errors).sum(axis=1) / 2
    error = excess.std() / np.sqrt(RUNS)
    assert abs(excess.mean() - theorem_d_excess(PRIOR, HESSIAN, clock)) < 4 * error


def test_with_curvature_lambda_it_is_the_clock_of_theorem_c():
    lam, radius, d, variances = 0.01, 7.0, 5, np.array([3.0, 1.0, 8.0])  # γ² = d·σ²
    clock = np.cumsum(1.0 / variances)
    theirs = Precision(lam, offset=1 / (lam * radius) ** 2)(0, variances, clock)
    ours = theorem_d_steps(radius**2 / d, lam, d / variances, d * clock)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_in_the_eigenbasis_a_step_is_one_number_a_coordinate():
    v, h, p, clock = np.array([1.0, 2.0]), np.array([0.5, 0.1]), 3.0, 12.0
    matrix = np.linalg.inv(theorem_d_precision(np.diag(1 / v), np.diag(h), clock)) @ np.diag(h) * p
    np.testing.assert_allclose(theorem_d_steps(v, h, p, clock), np.diag(matrix), rtol=1e-12)
    np.testing.assert_allclose(1 - theorem_d_gain(v, h, clock), 1 / (1 + v * h**2 * clock), rtol=1e-12)


@pytest.mark.parametrize("curvature", [0.2, 0.4, 0.8])
def test_steps_for_another_curvature_end_with_the_variance_that_is_expected(curvature):
    """By the recursion e ← (1 - ηh*)e + η·noise of many small steps, v* = 3 and h* = 0.4, at r = 1 too."""
    v, true_v, true_h, steps, clock = 1.0, 3.0, 0.4, 20_000, 200.0
    variance, p = true_v, clock / steps
    for t in range(1, steps + 1):
        eta = theorem_d_steps(v, curvature, p, t * p)
        variance = (1 - eta * true_h) ** 2 * variance + eta**2 / p
    assert theorem_d_mismatch(v, curvature, clock, true_v, true_h) == pytest.approx(variance, rel=1e-2)


@pytest.fixture(scope="module")
def anchor():
    X, y = draw(120, np.random.default_rng(3))
    return fit_anchor(X, y, alpha=0.01)


def draw(n, rng):
    X = rng.uniform(-1, 1, (n, 3)) * [0.5, 0.3, 0.1]
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-X @ [3.0, -2.0, 1.0])), 1.0, -1.0)
    return X, y


def test_without_shape_the_expected_excess_is_theorem_d_with_the_diagonal_of_the_covariance(anchor):
    c = find_plain_coordinates(anchor)
    diagonal = np.diag(c.variance)
    expected = theorem_d_excess(np.linalg.inv(diagonal), np.diag(c.curvature), 50.0)
    alone = replace(c, covariance=diagonal, hessian=np.diag(c.curvature), clip_shift=np.zeros(3))
    assert expected_excess(alone, 50.0) == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(compute_error_covariance(alone, 0.0), diagonal)


def test_margins_and_gradients_do_not_depend_on_the_coordinates(anchor, loop):
    """Where nothing is clipped: ∇_w = T⁻¹∇_u."""
    X, y = draw(20, np.random.default_rng(4))
    c = make_coordinates(anchor, Shape.of(np.diag([0.5, 0.7, 0.9]), anchor.X))
    np.testing.assert_allclose(c.weights(c.start), anchor.weights, rtol=1e-9)
    gradients = loop.row_gradients(c, c.start, X, y) @ np.linalg.inv(c.transform).T
    margins = y * (X @ anchor.weights)
    np.testing.assert_allclose(gradients, (-y / (1 + np.exp(margins)))[:, None] * X, atol=1e-12)


def test_gradients_are_never_longer_than_the_clip(anchor, loop):
    X, y = draw(500, np.random.default_rng(5))
    c = make_coordinates(anchor, Shape.of(9.0 * np.eye(3), anchor.X))
    lengths = np.linalg.norm(loop.row_gradients(c, -5 * c.start, X, y), axis=1)
    assert lengths.max() == pytest.approx(c.clip, rel=1e-9)
    assert (lengths <= c.clip * (1 + 1e-12)).all()


def test_a_run_in_pieces_is_the_run_in_one(anchor, loop):
    X, y = draw(400, np.random.default_rng(6))
    c, noise = find_plain_coordinates(anchor), LocalPrivacy(2.0)
    whole = loop.run(c, noise, X, y, 1.0, np.random.default_rng(7))
    rng, state = np.random.default_rng(7), None
    for piece in (slice(0, 150), slice(150, 400)):
        state = loop.run(c, noise, X[piece], y[piece], 1.0, rng, state)
    np.testing.assert_allclose(state.weights, whole.weights, rtol=1e-12)
    assert state.clock == pytest.approx(whole.clock)


def test_no_step_is_longer_than_the_curvature_allows(anchor, loop):
    """A clock that knows of no curvature and trusts its rows beyond reason: each step is 2/L."""
    X, y = draw(50, np.random.default_rng(8))
    c = replace(find_plain_coordinates(anchor), curvature=np.full(3, 1e-6), covariance=1e9 * np.eye(3))
    end = loop.run(c, Exact(), X, y, 1e9, np.random.default_rng(0)).weights
    G = loop.row_gradients(c, c.start, X, y).mean(axis=0) + c.gradient_of_penalty(c.start)
    np.testing.assert_allclose(c.start - end, c.longest_step * G, rtol=1e-9)
    assert c.longest_step <= 2 / np.linalg.eigvalsh(c.hessian).max()


@dataclass(frozen=True)
class Gaussian(Exact):
    """Releases with isotropic Gaussian noise of variance 1 per coordinate."""

    kind: ClassVar[str] = "gaussian"

    def spread(self, rows, n_features, bound, rng):
        return float(rows)


def test_the_measured_step_has_the_covariance_that_it_says(anchor):
    c, clock, runs = find_plain_coordinates(anchor), 300.0, 20_000
    rng = np.random.default_rng(9)
    errors = rng.multivariate_normal(np.zeros(3), c.covariance, runs)
    gradients = errors * c.curvature + rng.standard_normal((runs, 3)) / np.sqrt(clock)
    after = np.array([e + absorb(c, g, clock).start - c.start for e, g in zip(errors, gradients, strict=True)])
    expected = absorb(c, gradients[0], clock).covariance
    spread = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / runs)
    assert (np.abs(after.T @ after / runs - expected) < 4 * spread).all()


def test_noisy_runs_end_with_the_excess_that_is_expected(loop):
    """Many anchors of one distribution, Gaussian releases: measured and expected within a factor of 1.5."""
    rng, measured, expected, alpha = np.random.default_rng(10), [], [], 0.01
    X, y = draw(40_000, rng)
    best = fit_anchor(X, y, alpha)

    def value(w):
        return np.logaddexp(0, -y * (X @ w)).mean() + alpha / 2 * w @ w

    for _ in range(40):
        anchor = fit_anchor(*draw(60, rng), alpha)
        c = find_plain_coordinates(anchor)
        rows = draw(5000, rng)
        end = loop.run(c, Gaussian(), *rows, 1.0, rng)
        measured.append(value(c.weights(end.weights)) - value(best.weights))
        expected.append(expected_excess(c, len(c.start) * end.clock))
    assert 1 / 1.5 < np.mean(measured) / np.mean(expected) < 1.5
