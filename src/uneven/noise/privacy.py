"""Local differential privacy: a row leaves its owner only as a noisy gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from uneven import checks
from uneven.noise.base import Array, Coefficients, Noise
from uneven.noise.privunit import TINY, add_release, calibrated
from uneven.problem import Problem
from uneven.theory import laplace_energy

MECHANISMS = ("privunit", "l2-laplace")


@dataclass(frozen=True)
class LocalPrivacy(Noise):
    """Each row's gradient is released once, with ε-local differential privacy.

    Parameters
    ----------
    epsilon : float
        Privacy of one release of one row.
    mechanism : {"privunit", "l2-laplace"}
        ``"privunit"`` releases a random vector of fixed length, more often one near the gradient's direction: far
        less noise at the same ε. ``"l2-laplace"`` is the paper's: add Z with density proportional to
        exp(-(ε/2)‖z‖/C).

    Notes
    -----
    Formal guarantee. For any two rows (x, y), (x', y') whose gradients have norm at most C, the densities of the
    released vector differ by a factor of at most e^ε. For privunit the density (against the uniform one) takes two
    values whose ratio is e^ε, and a gradient shorter than C is a mixture of two such; for l2-laplace the exponents
    differ by at most (ε/2C)(‖g‖ + ‖g'‖) ≤ ε. It assumes a noise source nobody can predict, real arithmetic (floating
    point leaks a little: see Mironov 2012), a bound C that does not depend on the data, and one release per row: k
    releases cost kε. A gradient longer than C is refused, not released.

    With energy E = 1/m² - 1 for privunit (m its calibration) and 4(d²+d)/ε² for l2-laplace: second moment
    [C²E/b, S + C²E/b] and variance C²(1 + E)/b.

    Examples
    --------
    >>> problem = Problem(n_features=25, alpha=1e-3, batch_size=50, radius="paper")
    >>> LocalPrivacy(epsilon=10.0, mechanism="l2-laplace").second_moment(problem)
    (0.52, 4.52)
    >>> [round(moment, 3) for moment in LocalPrivacy(epsilon=10.0).second_moment(problem)]
    [0.037, 4.037]
    """

    kind: ClassVar[str] = "local-privacy"
    epsilon: float
    mechanism: str = "privunit"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checks.positive("epsilon", self.epsilon, 1e-6, 1e6))
        checks.one_of("mechanism", self.mechanism, MECHANISMS)

    def describe(self) -> str:
        """ε and the mechanism."""
        return f"private, ε = {self.epsilon:g} ({self.mechanism})"

    @property
    def epsilon_per_row(self) -> float:
        """ε."""
        return self.epsilon

    def row_energy(self, problem: Problem) -> float:
        """C²(1 + E)."""
        return problem.gradient_norm**2 + self.added_energy(problem)

    def added_energy(self, problem: Problem) -> float:
        """C²E, whatever the row: privunit's release has a fixed energy, and a row's own is at most C²."""
        d, square = problem.n_features, problem.gradient_norm**2
        if self.mechanism == "privunit":
            return square * (calibrated(d, self.epsilon).mean ** -2 - 1.0)
        return square * laplace_energy(d, self.epsilon)

    def release(self, gradients: Array, bound: float, rng: np.random.Generator) -> Array:
        """Each row with its own draw: what a site that releases rows one by one must do."""
        refuse_longer(gradients, bound)
        rows, d = gradients.shape
        if self.mechanism == "l2-laplace":
            return np.asarray(gradients + bound * draw_l2_laplace(rows, d, self.epsilon, rng))
        released, scratch, cap = np.zeros((rows, d)), np.empty(d), calibrated(d, self.epsilon)
        for out, g in zip(released, gradients, strict=True):
            length = float(np.linalg.norm(g))
            norm = min(length / bound, 1.0) if length > TINY else 0.0
            add_release(out, g, 1.0, length, norm, bound, cap, scratch, rng)
        return released

    def release_sum(self, gradients: Array, bound: float, rng: np.random.Generator) -> Array:
        """Sum of the rows as released; for l2-laplace, one draw that has the law of the sum of m."""
        refuse_longer(gradients, bound)
        return super().release_sum(gradients, bound, rng)

    @property
    def is_mixture(self) -> bool:
        """l2-laplace is; privunit is not."""
        return self.mechanism == "l2-laplace"

    def spread(self, rows: int, n_features: int, bound: float, rng: np.random.Generator) -> float:
        """l2-laplace: W' ~ Gamma(m(d+1)/2, 8C²/ε²), and the sum of m vectors is √W'·N(0, I), exactly.

        One vector is √W·N(0, I) with W ~ Gamma((d+1)/2, 8/ε²), because ∫ w^{-1/2} e^{-r²/2w - a²w/2} dw is
        proportional to e^{-ar}, a = ε/2. Gammas of one scale add, and so do independent normals given their
        scales.
        """
        if not self.is_mixture:
            return super().spread(rows, n_features, bound, rng)
        return self._gamma_scale(bound) * float(rng.standard_gamma(rows * (n_features + 1) / 2.0))

    def coefficients(self, problem: Problem) -> Coefficients:
        """8C²/ε² for l2-laplace, the cap for privunit."""
        if self.mechanism == "privunit":
            return Coefficients(0.0, 0.0, 0.0, *calibrated(problem.n_features, self.epsilon))
        return Coefficients(gamma=self._gamma_scale(problem.gradient_norm))

    def _gamma_scale(self, bound: float) -> float:
        return 8.0 * (bound / self.epsilon) ** 2


def draw_l2_laplace(rows: int, n_features: int, epsilon: float, rng: np.random.Generator) -> Array:
    """Draw rows with density proportional to exp(-(ε/2)‖z‖), each by radius and direction.

    ‖Z‖ ~ Gamma(shape d, scale 2/ε), and the direction is uniform on the sphere.
    """
    direction = rng.standard_normal((rows, n_features))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(rng.gamma(n_features, 2.0 / epsilon, size=(rows, 1)) * direction)


def refuse_longer(gradients: Array, bound: float) -> None:
    """Refuse gradients longer than the bound that their privacy rests on."""
    longest = float(np.linalg.norm(gradients, axis=1).max(initial=0.0))
    if not longest <= bound * (1 + 1e-12):
        raise ValueError(
            f"gradients must have norm at most {bound:g}, the bound their privacy rests on; one is longer "
            "(or not a number), and nothing was released"
        )
