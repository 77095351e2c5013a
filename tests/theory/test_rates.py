"""Theorem 3 and its family: the closed forms against each other, against the recursion, and the lemmas."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uneven import theory

moments = st.floats(0.1, 1e4)
shares = st.floats(0.02, 0.98)
lams = st.floats(1e-4, 10)


def paper_b(c1, c2, g1, g2, beta1, lam, steps):
    """Eq. (orderopt_t), letter by letter."""
    k1, k2 = 2 * lam * c1, 2 * lam * c2
    return 4 * g1 * beta1 ** (k2 - 1) * c1**2 / (steps * (k1 - 1)) + 4 * g2 * (1 - beta1 ** (k2 - 1)) * c2**2 / (
        steps * (k2 - 1)
    )


@given(g1=moments, g2=moments, beta=shares, lam=lams, k1=st.floats(1.05, 20), k2=st.floats(0.05, 20))
def test_two_rate_bound_is_the_papers_b(g1, g2, beta, lam, k1, k2):
    if abs(k2 - 1) < 1e-3:
        k2 += 0.01  # the printed form loses all its digits there
    c1, c2 = k1 / (2 * lam), k2 / (2 * lam)
    expected = paper_b(c1, c2, g1, g2, beta, lam, 1000)
    assert theory.two_rate_bound(c1, c2, g1, g2, beta, lam, 1000) == pytest.approx(expected, rel=1e-9)


@given(g1=moments, g2=moments, beta=shares, lam=lams)
def test_case_kappa_one_is_the_log_and_the_limit(g1, g2, beta, lam):
    c1, c2 = 1 / lam, 1 / (2 * lam)
    at_one = theory.two_rate_bound(c1, c2, g1, g2, beta, lam, 1000)
    printed = (4 * g1 * c1**2 + 4 * g2 * c2**2 * math.log(1 / beta)) / 1000
    assert at_one == pytest.approx(printed, rel=1e-12)
    for nudge in (1 - 1e-7, 1 + 1e-7):  # continuous: the change is of order 1e-7·log β
        assert theory.two_rate_bound(c1, c2 * nudge, g1, g2, beta, lam, 1000) == pytest.approx(at_one, rel=2e-6)


@given(gc=moments, gn=moments, beta=shares, lam=lams, kappa=st.floats(0.05, 20))
def test_h_functions_are_t_times_b(gc, gn, beta, lam, kappa):
    c, steps = kappa / (2 * lam), 1000.0
    clean_first = theory.two_rate_bound(1 / lam, c, gc, gn, beta, lam, steps)
    noisy_first = theory.two_rate_bound(1 / lam, c, gn, gc, 1 - beta, lam, steps)
    assert theory.h_clean_noisy(c, gc, gn, beta, lam) == pytest.approx(steps * clean_first, rel=1e-9)
    assert theory.h_noisy_clean(c, gc, gn, beta, lam) == pytest.approx(steps * noisy_first, rel=1e-9)


@given(g1=moments, g2=moments, n1=st.integers(1, 10**6), n2=st.integers(1, 10**6), kappa=st.floats(1.01, 20))
def test_equal_rates_give_the_same_rate_bound(g1, g2, n1, n2, kappa):
    """B(c, c) is the bound of one run with one rate: Γ² c² weighted by when each source came."""
    lam = 0.1
    c, total = kappa / (2 * lam), n1 + n2
    rho = (n1 / total) ** (kappa - 1)
    one_rate = 4 * c**2 / ((kappa - 1) * total) * (g1 * rho + g2 * (1 - rho))
    assert theory.two_rate_bound(c, c, g1, g2, n1 / total, lam, total) == pytest.approx(one_rate, rel=1e-9)
    assert theory.theorem3_bound([g1, g2], [n1, n2], [c, c], lam) == pytest.approx(one_rate, rel=1e-9)


@given(g=moments, steps=st.lists(st.integers(1, 1000), min_size=2, max_size=5), kappa=st.floats(1.01, 20), lam=lams)
def test_cutting_one_source_in_pieces_changes_nothing(g, steps, kappa, lam):
    c = kappa / (2 * lam)
    pieces = theory.theorem3_bound([g] * len(steps), steps, [c] * len(steps), lam)
    assert pieces == pytest.approx(theory.theorem3_bound([g], [sum(steps)], [c], lam), rel=1e-9)


@given(
    g=st.lists(moments, min_size=3, max_size=3),
    kappas=st.lists(st.floats(1.1, 10), min_size=3, max_size=3),
    lam=lams,
    scale=st.floats(0.01, 100),
)
def test_scaling(g, kappas, lam, scale):
    """Bounds scale as Γ², and as 1/λ² at the same κ = 2λc."""
    steps = [10, 200, 3000]
    rates = [k / (2 * lam) for k in kappas]
    bound = theory.theorem3_bound(g, steps, rates, lam)
    assert theory.theorem3_bound([scale * x for x in g], steps, rates, lam) == pytest.approx(scale * bound, rel=1e-9)
    moved = theory.theorem3_bound(g, steps, [c / scale for c in rates], lam * scale)
    assert moved == pytest.approx(bound / scale**2, rel=1e-9)


@pytest.mark.parametrize(
    ("second_moments", "shares", "kappas"),
    [
        ([4.52, 56.0], [0.1, 0.9], [2.0, 0.3]),
        ([56.0, 4.52], [0.9, 0.1], [2.0, 15.3]),
        ([4.0, 4.0], [0.5, 0.5], [2.0, 1.0]),
        ([1.0, 10.0, 100.0], [0.2, 0.3, 0.5], [2.0, 1.4, 0.2]),
        ([100.0, 1.0, 10.0], [0.5, 0.2, 0.3], [3.0, 4.0, 1.0]),
    ],
)
def test_recursion_tends_to_a_quarter_of_the_closed_form(second_moments, shares, kappas):
    lam, ratios = 1e-3, []
    lengths = (1_000, 10_000, 100_000, 1_000_000)
    for total in lengths:
        steps = [round(share * total) for share in shares]
        rates = [kappa / (2 * lam) for kappa in kappas]
        eta = np.repeat(rates, steps) / np.arange(1, total + 1)
        evaluated = theory.recursion_bound(eta, np.repeat(second_moments, steps), lam, start=1 / lam**2)
        ratios.append(evaluated / theory.theorem3_bound(second_moments, steps, rates, lam))
    errors = [abs(ratio - 0.25) for ratio in ratios]
    assert errors[-1] < 3e-5
    for shorter, longer in itertools.pairwise(errors):
        assert longer < shorter / 5  # the gap closes as 1/T: a tenth for ten times the steps


def test_first_rate_must_exceed_half_over_lambda():
    with pytest.raises(ValueError, match=r"rates\[0\] must exceed 1/\(2·lam\) = 5, got 5"):
        theory.theorem3_bound([1.0], [10], [5.0], lam=0.1)
    with pytest.raises(ValueError, match=r"c1 must exceed 1/\(2·lam\) = 5, got 4"):
        theory.two_rate_bound(4.0, 9.0, 1.0, 1.0, 0.5, 0.1, 100)


def minimiser(h, low, high):
    """κ that minimises h(κ) on a dense logarithmic grid, and the minimum."""
    kappa = np.geomspace(low, high, 200_001)
    values = h(kappa)
    return kappa[np.argmin(values)], values.min()


def q(kappa, first, second, share_first):
    """Q(2, κ₂) of the proof of Lemma largenoi1: B = Q/(λ²T)."""
    power = share_first ** (kappa - 1)
    return 4 * first * power + second * (1 - power) * kappa**2 / (kappa - 1)


@given(ratio=st.floats(300, 1e5), share=st.floats(0.1, 0.9))
def test_largenoi1_interval_and_bounds_hold(ratio, share):
    low, high = theory.largenoi1_interval(ratio, share)
    kappa, value = minimiser(lambda k: q(k, ratio**2, 1.0, share), 1.01, 10 * high)
    grid = 1 + 2e-4  # spacing of the dense grid
    assert low / grid <= kappa <= high * grid
    lower, upper = theory.largenoi1_bounds(1.0, ratio**2, share, lam=1.0, steps=1.0)
    assert lower <= value <= upper


@pytest.mark.parametrize("ratio", [10, 100, 1_000, 10_000])
def test_largenoi1_printed_lower_bound_is_false(ratio):
    _, value = minimiser(lambda k: q(k, ratio**2, 1.0, 0.5), 1.01, 1000)
    printed, _ = theory.largenoi1_bounds(1.0, ratio**2, 0.5, lam=1.0, steps=1.0, printed=True)
    proved, _ = theory.largenoi1_bounds(1.0, ratio**2, 0.5, lam=1.0, steps=1.0)
    assert proved < value < printed
    assert printed == 4 * proved


@given(beyond=st.floats(1.01, 1e3), share=st.floats(0.05, 0.95))
def test_largenoi2_interval_and_bounds_hold(beyond, share):
    """From Γ_N/Γ_C = √32/β_C on, where the proof's u ≤ β_C/4."""
    ratio = beyond * math.sqrt(32) / share
    low, high = theory.largenoi2_interval(ratio, share)
    kappa, value = minimiser(lambda k: q(k, 1.0, ratio**2, share), low / 100, 0.9)
    grid = (90 / low) ** (1 / 200_000)
    assert low / grid <= kappa <= high * grid
    lower, upper = theory.largenoi2_bounds(1.0, ratio**2, share, lam=1.0, steps=1.0)
    assert lower <= value <= upper * (1 + 1e-9)


def test_largenoi2_upper_bound_needs_the_square():
    """Plugging in σ = (Γ₁/Γ₂)² gives less than the stated upper bound; Γ₁/Γ₂, as the proof says, gives more."""
    ratio, share = 100.0, 0.3
    _, upper = theory.largenoi2_bounds(1.0, ratio**2, share, lam=1.0, steps=1.0)
    assert q(ratio**-2, 1.0, ratio**2, share) <= upper < q(1 / ratio, 1.0, ratio**2, share)


def test_lemmas_are_what_the_paper_prints():
    """At Γ_C² = 3, Γ_N² = 3e4, λ = 0.1, T = 700: the printed formulas, typed in from the paper."""
    c, n, lam, T, ratio = 3.0, 3e4, 0.1, 700, 100.0
    for share in (0.3, 0.8):
        L, LL = math.log(1 / share), math.log(math.log(1 / share))
        lower, upper = theory.largenoi1_bounds(c, n, share, lam, T, printed=True)
        assert lower == pytest.approx(4 * c * (math.log(ratio) + LL / 2) / (lam**2 * T * L))
        assert upper == pytest.approx(4 * c / (lam**2 * T) * (4 + (4 + 2 * math.log(ratio) + LL) / L))
        assert theory.largenoi1_interval(ratio, share) == pytest.approx(
            (1 + (2 * math.log(ratio) + LL) / L, 1 + (2 * math.log(4 * ratio) + LL) / L)
        )
        sigma = ratio**-2
        lower, upper = theory.largenoi2_bounds(c, n, share, lam, T)
        assert lower == pytest.approx(4 * c / (lam**2 * share * T) * share ** (8 * sigma / share))
        assert upper == pytest.approx(4 * c / (lam**2 * share * T) * share**sigma * (1 + sigma * L / 4))
        assert theory.largenoi2_interval(ratio, share) == pytest.approx((sigma, 8 / share * sigma))


@given(beyond=st.floats(1.01, 1e3), share=st.floats(0.05, 0.95))
def test_largenoi2_improves_on_clean_only(beyond, share):
    ratio = beyond * math.sqrt(32) / share
    _, upper = theory.largenoi2_bounds(1.0, ratio**2, share, lam=1.0, steps=1.0)
    assert upper <= 4 / share
