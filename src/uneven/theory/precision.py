"""The precision schedule (beyond the paper): η_t = 1/(λγ_t²(τ₀ + τ_t)), τ_t = Σ_{s≤t} 1/γ_s².

P is the precision of a whole run, Σ_t 1/γ_t². `docs/theory.md` has the proofs.
"""

from __future__ import annotations

import math


def theorem_a_bound(precision: float, lam: float) -> float:
    """E‖w_{T+1} - w*‖² ≤ 1/(λ²P), for any convex loss, any noise levels, in any order.

    γ_t² are second moments and τ₀ = 0.

    >>> theorem_a_bound(precision=16.0, lam=0.5)
    0.25
    """
    return 1.0 / (lam**2 * precision)


def theorem_b_scale(precision: float, radius: float) -> float:
    """a = R/√P: the steps of Theorem B are η_t = a/γ_t²."""
    return radius / math.sqrt(precision)


def theorem_b_bound(precision: float, radius: float) -> float:
    """E f(w̄) - f* ≤ R/√P for the η-weighted average w̄ of the iterates w_1 ... w_T.

    No strong convexity needed; ‖w₁ - w*‖ ≤ R and γ_t² are second moments. It answers the paper's averaged
    variant with steps of order 1/√t.

    >>> theorem_b_bound(precision=400.0, radius=2.0)
    0.1
    """
    return radius / math.sqrt(precision)


def anytime_bound(precision: float, first_precision: float, radius: float) -> float:
    """E f(w̄) - f* ≤ R(2 + log(P/p₁))/(2√P), at any time, for steps η_t = R/(γ_t²√τ_t) and their η-weighted average.

    The steps are of order 1/√t and need not know how many there will be; Theorem B's do, and save the logarithm. p₁ is
    the first step's precision. From Σ η_t E(f(w_t) - f*) ≤ R²/2 + ½Σ η_t²γ_t², with Σ p_t/τ_t ≤ 1 + log(P/p₁) and
    Σ η_t ≥ R√P.

    >>> anytime_bound(precision=400.0, first_precision=400.0, radius=2.0)
    0.1
    """
    return radius * (2.0 + math.log(precision / first_precision)) / (2.0 * math.sqrt(precision))


def theorem_c_offset(max_precision: float, lam: float, smoothness: float, radius: float) -> float:
    """τ₀ = max((L - λ)/(2λ)·max_t γ_t^{-2}, 1/(λR)²): no step longer than 2/(L + λ), and a prior of size R.

    The clock already holds the step's own precision p, so η_t ≤ p/(λ(τ₀ + p)), which is at most 2/(L + λ) from
    τ₀ = p(L - λ)/(2λ) on.

    >>> theorem_c_offset(max_precision=1.0, lam=0.25, smoothness=0.75, radius=1.0)
    16.0
    """
    return max((smoothness - lam) / (2 * lam) * max_precision, (lam * radius) ** -2)


def theorem_c_bound(precision: float, lam: float, radius: float, offset: float) -> float:
    """E‖w_{T+1} - w*‖² ≤ (τ₀²R² + P/λ²)/(τ₀ + P)², for an L-smooth f.

    γ_t² is at least the *variance* σ_t² of the mini-batch gradient, and τ₀ at least `theorem_c_offset`. With
    τ₀ = 1/(λR)² it is 1/(1/R² + λ²P): precisions add, as in a Kalman filter.

    >>> round(theorem_c_bound(precision=75.0, lam=0.1, radius=2.0, offset=25.0), 12)
    1.0
    """
    return ((offset * radius) ** 2 + precision / lam**2) / (offset + precision) ** 2


def theorem_c_late_bound(
    precision: float, lam: float, radius: float, offset: float, start: float, last_share: float
) -> float:
    """E‖w̄ - w*‖² for a share a of the last iterate of Theorem C's clock and 1 - a of the average after `start`.

    Roots of mean squares obey the triangle inequality, √E‖w̄ - w*‖² ≤ a√B(P) + (1 - a)·mean of √B(τ), where Theorem C
    says √B(τ) ≤ Rτ₀/s + 1/(λ√s), s = τ₀ + τ. Its mean over s from s₁ = τ₀ + start to S = τ₀ + P is
    Rτ₀ log(S/s₁)/(S - s₁) + 2/(λ(√S + √s₁)).

    >>> round(theorem_c_late_bound(75.0, 0.1, 2.0, 25.0, start=50.0, last_share=2 / 3), 12)
    1.477975859688
    """
    last = theorem_c_bound(precision, lam, radius, offset)
    first, end = offset + start, offset + precision
    if first >= end:
        return last
    bias = radius * offset * math.log(end / first) / (end - first)
    spread = 2.0 / (lam * (math.sqrt(end) + math.sqrt(first)))
    return (last_share * math.sqrt(last) + (1.0 - last_share) * (bias + spread)) ** 2
