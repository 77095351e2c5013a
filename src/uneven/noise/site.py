"""Site privacy: rows are trusted to the site that holds them, and leave it only as noisy sums of mini-batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from uneven import checks
from uneven.noise import grid
from uneven.noise.base import Array, Coefficients, Noise
from uneven.noise.privacy import REACH, LocalPrivacy, draw_l2_laplace, refuse_longer
from uneven.problem import Problem
from uneven.theory import laplace_energy


@dataclass(frozen=True)
class SitePrivacy(Noise):
    """The sum of each mini-batch leaves the site once, with ε-differential privacy for every row in it.

    Rows' gradients are clipped to norm C. The sum of a batch is released with Z added, once, of density proportional to
    exp(-ε‖z‖/(2C)): replacing one row moves the sum by at most 2C. So the noise in the mean of m rows has energy
    4C²(d² + d)/(ε²m²), where local privacy's falls like 1/m.

    Parameters
    ----------
    epsilon : float
        Privacy of one release of each row.

    Notes
    -----
    From whom is a row protected? From everyone outside its site: other sites, whoever coordinates the run, whoever
    reads the model. The site itself, and the machine that runs its steps, sees the rows. `LocalPrivacy` protects a row
    from that machine too.

    Formal guarantee. For any two batches that differ in one row, with gradients of norm at most C, the probabilities of
    any release differ by a factor of at most e^ε. Each row is in exactly one batch, and which one does not depend on
    the rows, so a whole run is ε-private for each row, however later steps depend on earlier releases (parallel
    composition). It holds for floats as it does for `LocalPrivacy`: sums are rounded to a public grid, and the noise is
    calibrated for ε less what that costs. It is pure ε: alternatives with a δ, such as Gaussian noise, would add less
    in many dimensions, and are not offered.

    Examples
    --------
    >>> problem = Problem(n_features=25, alpha=1e-3, batch_size=500, clip=0.5)
    >>> [round(noise.variance_bound(problem), 4) for noise in (SitePrivacy(1.0), LocalPrivacy(1.0))]
    [0.0031, 0.0778]
    """

    kind: ClassVar[str] = "site-privacy"
    level: ClassVar[str | None] = "epsilon"
    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checks.moderate("epsilon", self.epsilon))
        self.check_interval()

    def describe(self) -> str:
        """ε, and that it holds outside the site."""
        return f"private outside its site, ε = {self.epsilon:g}"

    def describe_release(self) -> str:
        """The mechanism, and ε."""
        return f"l2-laplace once per batch, ε = {self.epsilon:g} per release"

    @property
    def epsilon_per_row(self) -> float:
        """ε."""
        return self.epsilon

    @property
    def promise(self) -> str:
        """From whom a row is protected."""
        return "Site privacy protects a row from everyone outside its site, not from the machine that runs its steps."

    @property
    def once_a_batch(self) -> bool:
        """True."""
        return True

    def row_energy(self, problem: Problem) -> float:
        """C²: a row's own gradient; noise is not added to it."""
        return problem.gradient_norm**2

    def batch_energy(self, problem: Problem) -> float:
        """4C²(d² + d)/ε²."""
        return problem.gradient_norm**2 * laplace_energy(problem.n_features, self.epsilon)

    def release(self, gradients: Array, bound: float, rng: np.random.Generator) -> Array:
        """Each row as a batch of its own."""
        refuse_longer(gradients, bound)
        rows, d = gradients.shape
        noisy = gradients + bound * draw_l2_laplace(rows, d, self._calibrated_epsilon(d), rng)
        return np.asarray(grid.round_rows(noisy, self._cell(1, d, bound), rng))

    def release_sum(self, gradients: Array, bound: float, rng: np.random.Generator) -> Array:
        """Sum of the rows with one draw of noise, rounded: what leaves the site of a mini-batch."""
        refuse_longer(gradients, bound)
        checks.whole("rows of gradients", len(gradients))
        total = super().release_sum(gradients, bound, rng)
        grid.round_to_grid(total, self._cell(len(gradients), len(total), bound), rng)
        return total

    @property
    def is_mixture(self) -> bool:
        """True."""
        return True

    def spread(self, rows: int, n_features: int, bound: float, rng: np.random.Generator) -> float:
        """W ~ Gamma((d+1)/2, 8C²/ε²), however many rows: the noise is √W·N(0, I), as in `LocalPrivacy.spread`."""
        return self._gamma_scale(n_features, bound) * float(rng.standard_gamma((n_features + 1) / 2.0))

    def coefficients(self, problem: Problem) -> Coefficients:
        """8C²/ε² once per batch, and the grid."""
        d, bound = problem.n_features, problem.gradient_norm
        return Coefficients(
            grid=self.grid(d, bound), batch_gamma=self._gamma_scale(d, bound), batch_grid=self.batch_grid(d, bound)
        )

    def grid(self, n_features: int, bound: float) -> float:
        """What a row adds to the width of a cell: its error is at most 1/`REACH` of that of noise of length C."""
        return grid.fineness(n_features, self.epsilon, REACH) * bound / (REACH * math.sqrt(n_features))

    def batch_grid(self, n_features: int, bound: float) -> float:
        """What the noise adds to it."""
        length = bound * math.sqrt(laplace_energy(n_features, self.epsilon))
        return grid.fineness(n_features, self.epsilon, REACH) * length / math.sqrt(n_features)

    def _cell(self, rows: int, n_features: int, bound: float) -> float:
        return grid.width(self.grid(n_features, bound), rows) + self.batch_grid(n_features, bound)

    def _calibrated_epsilon(self, n_features: int) -> float:
        return self.epsilon - grid.slack(n_features, self.epsilon, REACH)

    def _gamma_scale(self, n_features: int, bound: float) -> float:
        return 8.0 * (bound / self._calibrated_epsilon(n_features)) ** 2


def swap_promise(noise: Noise) -> Noise | None:
    """The other promise of privacy at the same ε, to compare with; None without privacy.

    >>> swap_promise(LocalPrivacy(2.0)), swap_promise(SitePrivacy(2.0)).kind
    (SitePrivacy(epsilon=2.0), 'local-privacy')
    """
    now = noise.protection
    if not isinstance(now, SitePrivacy | LocalPrivacy):
        return None
    other = LocalPrivacy(now.epsilon) if isinstance(now, SitePrivacy) else SitePrivacy(now.epsilon)
    return noise.with_protection(other)
