"""Theorems A, B and C: each bound against the recursion it sums up, and against all c/t schedules."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from uneven import theory
from uneven.planner.search import find_best_rates
from uneven.schedules import Precision

noise_levels = st.lists(st.floats(1e-2, 1e4), min_size=1, max_size=60)
sources = st.lists(st.tuples(st.floats(0.1, 1e4), st.integers(1, 10_000)), min_size=2, max_size=5)
lams = st.floats(1e-3, 10)


def precision_steps(moments, lam, offset=0.0):
    moments = np.asarray(moments)
    t = np.arange(1, len(moments) + 1)
    return Precision(lam, offset)(t, moments, np.cumsum(1 / moments))


@given(moments=noise_levels, lam=lams, start=st.floats(0, 1e9))
def test_theorem_a_bounds_the_recursion_in_any_order(moments, lam, start):
    evaluated = theory.recursion_bound(precision_steps(moments, lam), moments, lam, start)
    assert evaluated <= theory.theorem_a_bound(np.sum(1 / np.array(moments)), lam) * (1 + 1e-9)


@given(moments=noise_levels, lam=st.floats(1e-3, 1), radius=st.floats(0.1, 100), curvature=st.floats(0, 10))
def test_theorem_c_is_the_recursion_exactly(moments, lam, radius, curvature):
    precision, smoothness = np.sum(1 / np.array(moments)), lam + curvature
    offset = theory.theorem_c_offset(1 / min(moments), lam, smoothness, radius)
    assert offset == pytest.approx(max(curvature / (2 * lam) / min(moments), 1 / (lam * radius) ** 2))
    eta = precision_steps(moments, lam, offset)
    assert eta.max() <= 2 / (smoothness + lam) * (1 + 1e-12)
    evaluated = theory.contraction_bound(eta, moments, lam, start=radius**2)
    assert evaluated == pytest.approx(theory.theorem_c_bound(precision, lam, radius, offset), rel=1e-9)


@given(precision=st.floats(1e-3, 1e6), lam=lams, radius=st.floats(0.1, 100))
def test_theorem_c_adds_precisions_like_a_kalman_filter(precision, lam, radius):
    bound = theory.theorem_c_bound(precision, lam, radius, offset=(lam * radius) ** -2)
    assert 1 / bound == pytest.approx(1 / radius**2 + lam**2 * precision, rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(sources=sources, lam=lams)
def test_theorem_a_is_below_a_quarter_of_the_best_c_over_t_bound_of_every_order(sources, lam):
    """Not only below the paper's bound: below what is left of it without the slack factor 4.

    In continuous time the best step is η = λE/γ², which gives d(1/E)/dt = λ²/γ²: Theorem A is what no step size
    can beat there, and c/t steps are some of them.
    """
    moments, steps = (np.array(column, dtype=float) for column in zip(*sources, strict=True))
    bound = theory.theorem_a_bound(float(np.sum(steps / moments)), lam)
    orders = np.array(list(itertools.permutations(range(len(steps)))))
    _, rate_bounds = find_best_rates(orders, moments, steps, lam)
    assert bound <= rate_bounds.min() / 4 * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [1, 3, 10])
@pytest.mark.parametrize("clean_first", [True, False])
@pytest.mark.parametrize(("d", "steps", "limit"), [(54, 10_000, 1.01), (25, 1_200, 1.04)])
def test_theorem_a_is_close_to_the_best_step_sizes(epsilon, clean_first, d, steps, limit):
    """On the paper's Covertype and MNIST, with the best steps for the recursion found one by one."""
    lam = 1e-3
    shares = [(10, steps // 10), (epsilon, steps - steps // 10)]
    sources = [(theory.laplace_second_moment(d, eps, 50), n) for eps, n in shares]
    moments = np.concatenate([np.full(n, moment) for moment, n in (sources if clean_first else sources[::-1])])
    best = 1 / lam**2
    for moment in moments:
        eta = min(lam * best / moment, 1 / (2 * lam))  # minimises (1 - 2λη)₊E + η²γ²
        best = (1 - 2 * lam * eta) * best + eta**2 * moment
    assert best <= theory.theorem_a_bound(np.sum(1 / moments), lam) <= limit * best


@given(precision=st.floats(1e-3, 1e6), radius=st.floats(0.1, 100))
def test_theorem_b_scale_is_the_best(precision, radius):
    """R²/(2aP) + a/2, the classical bound for steps a/γ², is smallest at a = R/√P, where it is R/√P."""

    def bound(log_scale):
        scale = np.exp(log_scale[0])
        return np.log(radius**2 / (2 * scale * precision) + scale / 2)

    scale = theory.theorem_b_scale(precision, radius)
    best = minimize(bound, [np.log(scale) + 0.5], method="Nelder-Mead")
    assert theory.theorem_b_bound(precision, radius) == pytest.approx(np.exp(best.fun), rel=1e-6)
    assert scale == pytest.approx(np.exp(best.x[0]), rel=1e-2)


def test_theorem_b_by_simulation():
    """Mean of f(w̄) - f* over runs on |w - 1|, noisy subgradients of two levels: below R/√P, and not far below."""
    rng, runs, radius = np.random.default_rng(3), 4_000, 2.0
    scales = np.repeat([3.0, 0.5], [300, 100])
    moments = 1 + scales**2
    scale = theory.theorem_b_scale(np.sum(1 / moments), radius)
    w = np.full(runs, -1.0)
    total, weight = np.zeros(runs), 0.0
    for noise, moment in zip(scales, moments, strict=True):
        eta = scale / moment
        total, weight = total + eta * w, weight + eta
        w = w - eta * (np.sign(w - 1) + noise * rng.standard_normal(runs))
    excess = np.abs(total / weight - 1)
    stated = theory.theorem_b_bound(np.sum(1 / moments), radius)
    error = excess.std() / np.sqrt(runs)
    assert excess.mean() + 4 * error <= stated
    assert excess.mean() > stated / 20
