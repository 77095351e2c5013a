"""Any other unbiased noise on the gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from uneven import checks
from uneven.noise.base import Array, Coefficients, Noise
from uneven.problem import Problem


@dataclass(frozen=True)
class AdditiveNoise(Noise):
    """Independent, centred noise of energy V² = `variance` on each row's gradient.

    Second moment [V²/b, S + V²/b]; variance (C² + V²)/b. Only V² enters the theory; to simulate, the noise
    is drawn as a Gaussian with V²/d in each coordinate. It promises no privacy.

    >>> AdditiveNoise(variance=4.0).second_moment(Problem(25, 1e-3, batch_size=2, radius="paper"))
    (2.0, 6.0)
    """

    kind: ClassVar[str] = "additive"
    level: ClassVar[str | None] = "variance"
    variance: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", checks.not_negative("variance", self.variance))
        self.check_interval()

    def describe(self) -> str:
        """Variance of the noise."""
        return f"gradient noise, variance {self.variance:g}"

    def row_energy(self, problem: Problem) -> float:
        """C² + V²."""
        return problem.gradient_norm**2 + self.variance

    @property
    def fixed_energy(self) -> float:
        """V²."""
        return self.variance

    def added_energy(self, problem: Problem) -> float:
        """V²."""
        return self.variance

    def release(self, gradients: Array, bound: float, rng: np.random.Generator) -> Array:
        """Each row plus its own Gaussian."""
        scale = math.sqrt(self.variance / gradients.shape[1])
        return np.asarray(gradients + rng.normal(scale=scale, size=gradients.shape))

    @property
    def is_mixture(self) -> bool:
        """True: one Gaussian."""
        return True

    def spread(self, rows: int, n_features: int, bound: float, rng: np.random.Generator) -> float:
        """m·V²/d: a sum of Gaussians is one with the sum of their variances."""
        return rows * self.variance / n_features

    def coefficients(self, problem: Problem) -> Coefficients:
        """V²/d per row."""
        return Coefficients(gaussian=self.variance / problem.n_features)
