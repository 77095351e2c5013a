"""The recursions against a plain loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uneven import theory

steps = st.lists(st.tuples(st.floats(0, 3), st.floats(0, 100)), min_size=1, max_size=50)


@given(steps=steps, start=st.floats(0, 1e6))
def test_recursion_is_the_loop(steps, start):
    lam, expected = 0.4, start
    for eta, moment in steps:
        expected = max(1 - 2 * lam * eta, 0) * expected + eta**2 * moment
    eta, moments = np.array(steps).T
    assert theory.recursion_bound(eta, moments, lam, start) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(steps=steps, start=st.floats(0, 1e6))
def test_contraction_is_the_loop(steps, start):
    lam, expected = 0.4, start
    for eta, variance in steps:
        expected = (1 - lam * eta) ** 2 * expected + eta**2 * variance
    eta, variances = np.array(steps).T
    assert theory.contraction_bound(eta, variances, lam, start) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_recursions_hold_on_a_quadratic():
    """f(w) = λ/2·w² with noisy gradients: the contraction is an equality, the second-moment recursion a bound."""
    rng, lam, runs = np.random.default_rng(5), 0.5, 50_000
    eta = 1 / (lam * (4 + np.arange(1, 31)))
    sigma = np.repeat([2.0, 0.5], 15)
    w = np.full(runs, 3.0)
    for step, scale in zip(eta, sigma, strict=True):
        w = w - step * (lam * w + scale * rng.standard_normal(runs))
    error = (w**2).std() / np.sqrt(runs)
    stated = theory.contraction_bound(eta, sigma**2, lam, start=9.0)
    assert abs((w**2).mean() - stated) < 4 * error
    assert abs((w**2).mean() - 1.1 * stated) > 4 * error
    with_moments = theory.recursion_bound(eta, sigma**2 + (lam * 3.0) ** 2, lam, start=9.0)
    assert (w**2).mean() < with_moments
