"""Step sizes c/t: Theorem 3 and what follows from it (paper, Section 4), for any number of sources.

κ = 2λc is the rate without its units, N counts steps up to and including a source, ρ = N_before/N.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import exprel


def segment_bound(previous: Any, second_moment: Any, before: Any, steps: Any, kappa: Any, lam: float) -> Any:
    """Bound after one more source: E = E_before ρ^κ + (4Γ²c²/N)·(1 - ρ^{κ-1})/(κ - 1).

    `before` steps came earlier and `steps` are this source's, so N = before + steps and ρ = before/N. At
    κ = 1 the fraction is log(1/ρ) (Lemma full_tub, case 2); it is written as log(1/ρ)·(eˣ - 1)/x with
    x = (κ - 1)·log ρ, which has no singularity. For the first source (before = 0) it is 1/(κ - 1), and κ
    must exceed 1. Arrays broadcast.

    >>> segment_bound(0.0, 1.0, before=0, steps=100, kappa=2.0, lam=1.0).item()
    0.04
    >>> segment_bound(0.04, 1.0, before=100, steps=100, kappa=2.0, lam=1.0).item()  # the same as 200 at once
    0.02
    """
    total = np.asarray(before + steps, dtype=np.float64)
    scale = second_moment * (kappa / lam) ** 2 / total
    if np.ndim(before) == 0 and before == 0:
        return scale / (kappa - 1.0)
    log_rho = np.log(before / total)
    return previous * np.exp(kappa * log_rho) - scale * log_rho * exprel((kappa - 1.0) * log_rho)


def theorem3_bound(second_moments: Sequence[float], steps: Sequence[int], rates: Sequence[float], lam: float) -> float:
    """Leading term of the bound on E‖w_{T+1} - w*‖² for sources in this order, with step sizes c_k/t.

    Theorem 3 of the paper (label lem:tub) with its κ = 1 case (Lemma full_tub), applied source after source:
    `segment_bound` chained. It leaves out O(T^{-min(2, κ₁)}). Needs 2λc₁ > 1.

    Slip in the paper: the factor 4 is slack from (1 + 1/i)² ≤ 4. `recursion_bound` tends to exactly a quarter
    of this as T grows; the minimisers are the same.

    >>> round(theorem3_bound([1.0, 9.0], [100, 900], [1.0, 1.0], lam=1.0), 4)
    0.0328
    """
    _refuse_slow("rates[0]", rates[0], lam)
    bound, before = 0.0, 0
    for moment, n, rate in zip(second_moments, steps, rates, strict=True):
        bound = float(segment_bound(bound, moment, before, n, 2 * lam * rate, lam))
        before += n
    return bound


def slow_rate_bound(second_moment: float, steps: float, rate: float, lam: float, start: float) -> float:
    """Bound on E‖w_{N+1} - w*‖² after N steps c/t of one source with κ = 2λc ≤ 1, where Theorem 3 has none.

    E ≤ start·(N+1)^{-κ}·[κ < 1] + 4Γ²c²(N+1)^{-κ}·((N+1)^{κ-1} - 1)/(κ - 1). At κ = 1 the fraction is log(N+1), so the
    rate is log N/N; below it is at most 1/(1 - κ), so the rate is N^{-κ} (paper, proof of Lemma full_tub: "it would be
    O(log T/T) ... O(1/T^{2λc₁})"). It follows from the recursion by ∏(1 - κ/j) ≤ ((i+1)/(N+1))^κ.

    >>> round(slow_rate_bound(1.0, steps=99, rate=0.5, lam=1.0, start=5.0), 6)  # κ = 1: log(100)/100
    0.046052
    """
    kappa, log_n = 2.0 * lam * rate, math.log(steps + 1.0)
    if not 0.0 < kappa <= 1.0:
        raise ValueError(f"rate must be above 0 and at most 1/(2·lam) = {1 / (2 * lam):g}, got {rate!r}")
    noise = 4.0 * second_moment * rate**2 * log_n * float(exprel((kappa - 1.0) * log_n))
    return math.exp(-kappa * log_n) * ((start if kappa < 1.0 else 0.0) + noise)


def two_rate_bound(
    c1: float,
    c2: float,
    second_moment1: float,
    second_moment2: float,
    share1: float,
    lam: float,
    steps: float,
) -> float:
    """B(c₁, c₂), the paper's eq. (orderopt_t): sources 1 then 2, source 1 with share β₁ of the T steps.

    B = (4/T)·[Γ₁² β₁^{κ₂-1} c₁²/(κ₁ - 1) + Γ₂² c₂² (1 - β₁^{κ₂-1})/(κ₂ - 1)].

    >>> round(two_rate_bound(1.0, 1.0, 1.0, 9.0, share1=0.1, lam=1.0, steps=1000), 4)
    0.0328
    """
    _refuse_slow("c1", c1, lam)
    first = segment_bound(0.0, second_moment1, 0, share1 * steps, 2 * lam * c1, lam)
    return float(segment_bound(first, second_moment2, share1 * steps, (1 - share1) * steps, 2 * lam * c2, lam))


def h_clean_noisy(c: float, second_clean: float, second_noisy: float, share_clean: float, lam: float) -> float:
    """H_CN(c) = T·B(1/λ, c) with the clean source first (paper, Section 4.1).

    >>> round(h_clean_noisy(1.0, 1.0, 9.0, share_clean=0.1, lam=1.0), 4)
    32.8
    """
    return two_rate_bound(1 / lam, c, second_clean, second_noisy, share_clean, lam, steps=1.0)


def h_noisy_clean(c: float, second_clean: float, second_noisy: float, share_clean: float, lam: float) -> float:
    """H_NC(c) = T·B(1/λ, c) with the noisy source first (paper, Section 4.1).

    >>> round(h_noisy_clean(1.0, 1.0, 9.0, share_clean=0.1, lam=1.0), 4)
    32.8
    """
    return two_rate_bound(1 / lam, c, second_noisy, second_clean, 1 - share_clean, lam, steps=1.0)


def _refuse_slow(name: str, rate: float, lam: float) -> None:
    if not 2 * lam * rate > 1:
        raise ValueError(f"{name} must exceed 1/(2·lam) = {1 / (2 * lam):g}, got {rate!r}")


def largenoi1_interval(noise_ratio: float, share_noisy: float) -> tuple[float, float]:
    """Interval for κ₂* = 2λc₂* with the noisy source first, for large r = Γ_N/Γ_C (Lemma largenoi1).

    [1 + (2 log r + log log(1/β_N))/log(1/β_N),  1 + (2 log 4r + log log(1/β_N))/log(1/β_N)].

    >>> [round(k, 3) for k in largenoi1_interval(100.0, 0.5)]
    [13.759, 17.759]
    """
    decay = math.log(1 / share_noisy)
    low, high = (1 + (2 * math.log(m * noise_ratio) + math.log(decay)) / decay for m in (1.0, 4.0))
    return low, high


def largenoi1_bounds(
    second_clean: float,
    second_noisy: float,
    share_noisy: float,
    lam: float,
    steps: float,
    printed: bool = False,
) -> tuple[float, float]:
    """Lower and upper bound on B(c₁*, c₂*), noisy first, for large r = Γ_N/Γ_C (Lemma largenoi1).

    lower = Γ_C² (log r + ½ log log(1/β_N)) / (λ²T log(1/β_N))
    upper = (4Γ_C²/(λ²T))·(4 + (4 + 2 log r + log log(1/β_N))/log(1/β_N))

    Slip in the paper: it prints 4 times this lower bound (`printed=True`), which its proof (Q ≥ Γ_C²x/2, and
    B = Q/(λ²T)) does not give and which is false, for instance at β_N = 0.5 from r = 10 on.
    """
    decay = math.log(1 / share_noisy)
    log_ratio = math.log(second_noisy / second_clean) / 2
    unit = second_clean / (lam**2 * steps)
    lower = unit * (log_ratio + math.log(decay) / 2) / decay
    upper = 4 * unit * (4 + (4 + 2 * log_ratio + math.log(decay)) / decay)
    return (4 * lower if printed else lower), upper


def largenoi2_interval(noise_ratio: float, share_clean: float) -> tuple[float, float]:
    """Interval [σ, 8σ/β_C], σ = (Γ_N/Γ_C)^{-2}, for κ₂* with the clean source first (Lemma largenoi2).

    >>> largenoi2_interval(10.0, 0.5)
    (0.01, 0.16)
    """
    sigma = noise_ratio**-2
    return sigma, 8 * sigma / share_clean


def largenoi2_bounds(
    second_clean: float, second_noisy: float, share_clean: float, lam: float, steps: float
) -> tuple[float, float]:
    """Lower and upper bound on B(c₁*, c₂*), clean first, for large Γ_N/Γ_C (Lemma largenoi2).

    (4Γ_C²/(λ²β_C T))·β_C^{8σ/β_C}  and  (4Γ_C²/(λ²β_C T))·β_C^σ·(1 + σ log(1/β_C)/4),  σ = (Γ_N/Γ_C)^{-2}.

    Slip in the paper: its proof says the upper bound comes from κ₂ = Γ₁/Γ₂; it comes from (Γ₁/Γ₂)² = σ.
    The bounds hold.
    """
    sigma = second_clean / second_noisy
    clean_only = 4 * second_clean / (lam**2 * share_clean * steps)
    lower = clean_only * share_clean ** (8 * sigma / share_clean)
    return lower, clean_only * share_clean**sigma * (1 - sigma * math.log(share_clean) / 4)
