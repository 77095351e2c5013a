"""Slips in the paper's proofs, each with the number that shows it; and what holds instead."""

import math

import numpy as np
import pytest

import uneven
from uneven import theory


def test_second_phase_needs_kappa_of_at_most_the_steps_before_it_plus_one():
    """∏(1 - κ₂/i) ≤ e^{-κ₂ Σ 1/i} is false with two negative factors; the recursion takes 0 for those."""
    before, total, kappa = 2, 4, 10.0
    i = np.arange(before + 1, total + 1)
    assert kappa > before + 1
    assert np.prod(1 - kappa / i) > np.exp(-kappa * (1 / i).sum())
    rates = kappa / 2 / np.array([1.0, 2.0, *i])  # λ = 1
    assert theory.recursion_bound(rates[before:], np.zeros(2), 1.0, start=1.0) == 0.0


@pytest.mark.parametrize("kappa", [1, 2, 5])
def test_i0_is_one_short_for_a_whole_kappa(kappa):
    """The smallest i with κ/i < 1 is κ + 1, not ⌈κ⌉ = κ."""
    assert next(i for i in range(1, 99) if kappa / i < 1) == math.ceil(kappa) + 1


def derivative(kappa, second_clean, second_noisy, share):
    """Q' of the paper's eq. (xdervq2), clean first."""
    b, log = share ** (kappa - 1), math.log(1 / share)
    first = -b * log * (4 * second_clean + second_noisy * kappa**2 / (1 - kappa))
    return first + second_noisy * (b - 1) * kappa * (2 - kappa) / (1 - kappa) ** 2


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("ratio", [30.0, 100.0])
def test_largenoi2_inequality_points_the_wrong_way_and_its_conclusion_survives(share, ratio):
    low, u = theory.largenoi2_interval(ratio, share)
    if u > share / 4:
        pytest.skip("the noise ratio is not large enough for this share")
    assert 1 / (1 - u) < 1 / (1 - share)  # the paper has ≥
    assert 15 / 2 / (1 - u) > 5  # what it needs, without that step
    assert derivative(low, 1.0, ratio**2, share) < 0 < derivative(u, 1.0, ratio**2, share)


def test_largenoi2_last_lower_bound_has_its_exponent_inverted_and_lacks_the_8():
    """Printed: β^{Γ₂²/(βΓ₁²) - 1}; meant: β^{8Γ₁²/(βΓ₂²) - 1}. The printed one is next to nothing."""
    share, ratio = 0.5, 20.0
    meant, upper = theory.largenoi2_bounds(1.0, ratio**2, share, lam=1.0, steps=1.0)
    printed = 4 * share ** (ratio**2 / share - 1)
    assert meant == pytest.approx(4 * share ** (8 / (share * ratio**2) - 1))
    assert printed < 1e-200 < 0.9 * upper < meant


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_largenoi1_interval_holds_the_global_minimum_which_its_proof_does_not_show(share):
    """Q' changes sign in the interval: a stationary point. That no other is lower is checked here, on a grid."""
    ratio = 1e3
    low, high = theory.largenoi1_interval(ratio, share)
    rates = np.linspace(1e-3, 4 * high, 20_001) / 2
    values = [theory.two_rate_bound(1.0, c, ratio**2, 1.0, share, lam=1.0, steps=1.0) for c in rates]
    assert low <= 2 * rates[int(np.argmin(values))] <= high


def test_a_quarter_is_for_whole_batches():
    """A second step on a short batch, 100 times as noisy: Theorem 3's closed form counts it as a whole one."""
    a = theory.theorem_a_bound(1.0 + 0.01, lam=1.0)
    assert a > theory.theorem3_bound([1.0], [2], [1.0], lam=1.0) / 4


def test_evaluated_step_by_step_two_rates_can_be_a_little_better():
    sources = [uneven.Source("a", 50), uneven.Source("b", 50, uneven.AdditiveNoise(300.0))]
    clock, two = (
        uneven.plan(sources, n_features=3, alpha=0.05, batch_size=10, strategy=strategy, moments="upper")
        for strategy in ("precision", "two-rates")
    )
    assert 0.95 < two.evaluated_bound() / clock.evaluated_bound() < 1
    assert clock.bound <= two.bound / 4 * (1 + 1e-12)


def test_the_moment_need_not_grow_with_the_mean_gradient():
    """μ that points away from w makes ‖λw + μ‖² smaller; the bound (λR + u)² + (M - u²)/m grows all the same."""
    w, lam, m, M = np.array([10.0]), 0.1, 5, 2.0
    moment = [float(((lam * w + mu) ** 2).sum() + (M - mu**2) / m) for mu in (0.0, -0.5)]
    assert moment[1] < moment[0]
    bounds = [(1.0 + u) ** 2 + (M - u**2) / m for u in np.linspace(0, 1, 11)]
    assert (np.diff(bounds) > 0).all()
