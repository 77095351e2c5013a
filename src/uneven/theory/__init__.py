"""One pure function per result, named and cited: floats (or arrays) in, floats out.

The paper is Song, Chaudhuri, Sarwate, "Learning from Data with Heterogeneous Noise using SGD", AISTATS
2015. `docs/theory.md` has the statements, what goes beyond the paper, and the paper's slips.

moments     what a noisy gradient's second moment is bounded by (Theorem 1, Section 2)
order       which source first (Theorem 2)
rates       step sizes c/t: Theorem 3, B, H_CN, H_NC and the two lemmas on large noise
precision   the precision clock: Theorems A, B and C
anchor      the precision clock with a matrix: Theorem D
recursion   the inequalities all of these sum up, evaluated step by step
"""

from uneven.theory.anchor import (
    theorem_d_excess,
    theorem_d_gain,
    theorem_d_mismatch,
    theorem_d_precision,
    theorem_d_steps,
)
from uneven.theory.moments import laplace_energy, laplace_second_moment, rcn_second_moment
from uneven.theory.order import deviation_weights, theorem2_deviation, theorem2_order
from uneven.theory.precision import (
    anytime_bound,
    theorem_a_bound,
    theorem_b_bound,
    theorem_b_scale,
    theorem_c_bound,
    theorem_c_late_bound,
    theorem_c_offset,
)
from uneven.theory.rates import (
    h_clean_noisy,
    h_noisy_clean,
    largenoi1_bounds,
    largenoi1_interval,
    largenoi2_bounds,
    largenoi2_interval,
    segment_bound,
    slow_rate_bound,
    theorem3_bound,
    two_rate_bound,
)
from uneven.theory.recursion import contraction_bound, recursion_bound

__all__ = [
    "anytime_bound",
    "contraction_bound",
    "deviation_weights",
    "h_clean_noisy",
    "h_noisy_clean",
    "laplace_energy",
    "laplace_second_moment",
    "largenoi1_bounds",
    "largenoi1_interval",
    "largenoi2_bounds",
    "largenoi2_interval",
    "rcn_second_moment",
    "recursion_bound",
    "segment_bound",
    "slow_rate_bound",
    "theorem2_deviation",
    "theorem2_order",
    "theorem3_bound",
    "theorem_a_bound",
    "theorem_b_bound",
    "theorem_b_scale",
    "theorem_c_bound",
    "theorem_c_late_bound",
    "theorem_c_offset",
    "theorem_d_excess",
    "theorem_d_gain",
    "theorem_d_mismatch",
    "theorem_d_precision",
    "theorem_d_steps",
    "two_rate_bound",
]
