"""Second moments of noisy gradients (paper, Section 2)."""

from __future__ import annotations


def laplace_energy(n_features: int, epsilon: float) -> float:
    """E‖Z‖² = 4(d² + d)/ε² for Z with density proportional to exp(-(ε/2)‖z‖).

    ‖Z‖ ~ Gamma(shape d, scale 2/ε). Paper, proof of Theorem 1.

    >>> laplace_energy(25, 1.0)
    2600.0
    """
    return 4.0 * n_features * (n_features + 1) / epsilon**2


def laplace_second_moment(n_features: int, epsilon: float, batch_size: int = 1, signal: float = 4.0) -> float:
    """E‖G‖² ≤ S + 4(d² + d)/(ε²b): Theorem 1 of the paper, for a mini-batch of b rows.

    S bounds ‖λw + ∇ℓ‖²; it is 4 for ‖w‖ ≤ 1/λ. Only the added noise shrinks with the batch. The theorem
    prints b = 1; its proof, in the appendix, has the mini-batch.

    >>> laplace_second_moment(25, 10.0, batch_size=50)
    4.52
    """
    return signal + laplace_energy(n_features, epsilon) / batch_size


def rcn_second_moment(rate: float, batch_size: int = 1, signal: float = 4.0, gradient_norm: float = 1.0) -> float:
    """E‖G‖² ≤ S + C²(1/(1-2σ)² - 1)/b for labels flipped at rate σ and the unbiased surrogate.

    At b = 1, S = 4, C = 1 it is the paper's 3 + 1/(1-2σ)² (Section 2.1.2); at σ = 0 it is S. The
    mini-batch form: with μ = E∇ℓ̃ and E‖∇ℓ̃‖² ≤ C²/(1-2σ)², the moment of the mean of b rows is
    ‖λw + μ‖² + (E‖∇ℓ̃‖² - ‖μ‖²)/b, at most (λR + u)² + (M - u²)/b for u = ‖μ‖,
    which grows with u ≤ C.

    >>> rcn_second_moment(0.25)
    7.0
    """
    return signal + gradient_norm**2 * ((1.0 - 2.0 * rate) ** -2 - 1.0) / batch_size
