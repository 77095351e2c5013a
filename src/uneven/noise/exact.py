"""No noise at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from uneven.noise.base import Coefficients, Noise
from uneven.problem import Problem


@dataclass(frozen=True)
class Exact(Noise):
    """Rows and labels as they are.

    Second moment [0, S]; variance C²/b.

    >>> Exact().second_moment(Problem(n_features=25, alpha=1e-3, batch_size=50, radius="paper"))
    (0.0, 4.0)
    """

    kind: ClassVar[str] = "exact"

    def row_energy(self, problem: Problem) -> float:
        """C²."""
        return problem.gradient_norm**2

    @property
    def is_mixture(self) -> bool:
        """True: a mixture of variance 0."""
        return True

    def spread(self, rows: int, n_features: int, bound: float, rng: np.random.Generator) -> float:
        """Zero."""
        return 0.0

    def coefficients(self, problem: Problem) -> Coefficients:
        """All zero."""
        return Coefficients()
