"""The paper's remaining items: slow rates, the anytime schedule, ties, the surrogate objective, high noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import uneven
from uneven import theory
from uneven.planner.search import find_exact_order
from uneven.schedules import Anytime


def slow_recursion(kappa, steps, second_moment=3.0, start=7.0):
    t = np.arange(1, steps + 1)
    return theory.recursion_bound(kappa / 2 / t, np.full(steps, second_moment), 1.0, start)


@given(kappa=st.floats(0.01, 1.0), steps=st.integers(1, 5_000))
def test_slow_rates_bound_the_recursion(kappa, steps):
    bound = theory.slow_rate_bound(3.0, steps, kappa / 2, lam=1.0, start=7.0)
    assert slow_recursion(kappa, steps) <= bound * (1 + 1e-9)


@pytest.mark.slow
def test_slow_rates_are_of_the_stated_order():
    """κ = 1: log N/N, with the slack factor 4; κ < 1: N^{-κ}, so ten times the steps are worth 10^{-κ}."""
    n = 10**6
    limit = 3.0 / 4 * np.log(n) / n  # Γ²c² log N/N with c = 1/2
    assert slow_recursion(1.0, n) == pytest.approx(limit, rel=0.1)
    assert theory.slow_rate_bound(3.0, n, 0.5, 1.0, 7.0) == pytest.approx(4 * limit, rel=1e-3)
    for kappa in (0.2, 0.5):
        assert slow_recursion(kappa, 10 * n) / slow_recursion(kappa, n) == pytest.approx(10**-kappa, rel=1e-2)


@pytest.mark.parametrize("rate", [0.0, 0.51])
def test_other_rates_are_refused(rate):
    with pytest.raises(ValueError, match="rate must be above 0 and at most"):
        theory.slow_rate_bound(1.0, 10, rate, lam=1.0, start=1.0)


@given(moments=st.lists(st.floats(1e-2, 1e3), min_size=1, max_size=80), radius=st.floats(0.1, 50))
def test_anytime_sums_up_the_inequality_after_every_step(moments, radius):
    """(R² + Σ η²γ²)/(2Σ η), the average's regret, is at most the bound, whenever one stops."""
    gamma2 = np.array(moments)
    clock = np.cumsum(1 / gamma2)
    eta = Anytime(radius)(np.arange(1, len(gamma2) + 1), gamma2, clock)
    regret = (radius**2 + np.cumsum(eta**2 * gamma2)) / (2 * np.cumsum(eta))
    bounds = [theory.anytime_bound(tau, clock[0], radius) for tau in clock]
    assert (regret <= np.array(bounds) * (1 + 1e-9)).all()


def test_anytime_steps_are_of_order_one_over_root_t():
    eta = Anytime(2.0)(np.array([1, 100]), np.full(2, 4.0), np.array([1, 100]) / 4.0)
    assert eta.tolist() == pytest.approx([1.0, 0.1])


@pytest.mark.parametrize("seed", range(3))
def test_a_run_at_any_time_keeps_its_bound(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2_000, 3))
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=2_000) > 0, 1.0, -1.0)
    sources = [uneven.Source("a", 1_000), uneven.Source("b", 1_000, uneven.AdditiveNoise(2.0))]
    plan = uneven.plan(sources, n_features=3, alpha=0.1, batch_size=10, strategy="anytime")
    data = {"a": (X[:1_000], y[:1_000]), "b": (X[1_000:], y[1_000:])}
    weights = uneven.fit(plan, data, seed=seed).weights
    best = uneven.engine.find_optimum(plan.problem, X, y)
    excess = uneven.objective(plan.problem, weights, X, y) - uneven.objective(plan.problem, best, X, y)
    assert 0 <= excess < plan.excess_bound
    from uneven.engine.reference import advance

    slow = uneven.fit(plan, data, seed=seed, backend=advance).weights
    np.testing.assert_allclose(weights, slow, rtol=1e-9)


HS = (theory.h_clean_noisy, theory.h_noisy_clean)


def least(h, ratio, share_clean):
    """Least H over the second rate, on a fine grid; λ = 1, Γ_C = 1."""
    return min(h(float(np.exp(x)), 1.0, ratio**2, share_clean, 1.0) for x in np.linspace(-14, 6, 2_001))


def test_the_order_is_that_of_algorithm_2():
    """Clean first where H_CN ≤ H_NC; of equal sources, which tie exactly, the first given stays first."""
    assert find_exact_order(np.array([2.0, 2.0]), np.array([10.0, 10.0]), 1.0) == [0, 1]
    orders = []
    for share in (0.02, 0.3, 0.6, 0.95):
        clean, noisy = (least(h, 2.0, share) for h in HS)
        orders.append(find_exact_order(np.array([1.0, 4.0]), np.array([share, 1 - share]) * 1e6, 1.0))
        assert orders[-1] == ([0, 1] if clean <= noisy else [1, 0])


def test_a_tie_goes_to_clean_first_in_either_order_of_input(monkeypatch):
    from uneven.planner import search

    monkeypatch.setattr(
        search, "find_best_next_rate", lambda previous, *_: (np.ones(len(previous)), np.ones(len(previous)))
    )
    assert search.find_exact_order(np.array([1.0, 9.0]), np.array([5.0, 5.0]), 1.0) == [0, 1]
    assert search.find_exact_order(np.array([9.0, 1.0]), np.array([5.0, 5.0]), 1.0) == [1, 0]


@pytest.mark.parametrize("share_clean", [0.1, 0.5])
def test_at_high_noise_clean_first_wins_and_clean_only_comes_close(share_clean):
    """Remark after Lemma largenoi2: better than clean alone and than noisy first, by a factor that tends to 1."""
    alone, clean = 4.0 / share_clean, least(theory.h_clean_noisy, 1e2, share_clean)
    assert clean < alone
    assert clean / alone > 0.999
    assert least(theory.h_clean_noisy, 10.0, share_clean) / alone < clean / alone
    bound = theory.largenoi2_bounds(1.0, 1e4, share_clean, 1.0, 1.0)
    assert bound[0] <= clean <= bound[1] * (1 + 1e-9)


def test_clean_only_wins_over_noisy_first_from_some_noise_on():
    """Noisy first needs rates that grow with log Γ_N/Γ_C, so its bound grows without limit; clean alone's does not."""
    share, alone = 0.5, 8.0
    bounds = [least(theory.h_noisy_clean, ratio, share) for ratio in (1.5, 1e1, 1e2, 1e3)]
    assert np.all(np.diff(bounds) > 0)
    assert bounds[0] < alone < bounds[-1]
    assert least(theory.h_clean_noisy, 1e2, share) < min(alone, bounds[2])


def test_surrogate_objective_is_unbiased_and_what_flipped_labels_descend():
    problem, rate = uneven.Problem(3, 0.05, 1), 0.3
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(40, 3)) / 3, rng.normal(size=3)
    y = np.sign(rng.normal(size=40))
    true = uneven.objective(problem, w, X, y)
    seen = [y * np.where(rng.random(40) < rate, -1, 1) for _ in range(500)]
    runs = np.array([uneven.surrogate_objective(problem, w, X, labels, rate) for labels in seen])
    assert abs(runs.mean() - true) < 4 * runs.std() / np.sqrt(500)
    noise, h = uneven.FlippedLabels(rate), 1e-6
    surrogate = [uneven.surrogate_objective(problem, w + e, X, y, rate) for e in h * np.vstack([np.eye(3), -np.eye(3)])]
    slope = (np.array(surrogate[:3]) - surrogate[3:]) / (2 * h)
    gradient = problem.alpha * w + noise.row_gradients(problem, w, X, y).mean(axis=0)
    np.testing.assert_allclose(slope, gradient, atol=1e-7)
