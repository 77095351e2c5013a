"""No noise at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from uneven.noise.base import Noise
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
