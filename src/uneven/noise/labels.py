"""Random classification noise: labels flipped at a known rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from uneven import checks
from uneven.losses import Loss
from uneven.noise.base import Array, Coefficients, Noise
from uneven.problem import Problem


@dataclass(frozen=True)
class FlippedLabels(Noise):
    """Each label is flipped independently with probability σ = `rate` < ½, whatever the row.

    The labels of the source are taken as they come; the gradient is that of the surrogate
    ℓ̃(y) = ((1-σ)ℓ(y) - σℓ(-y))/(1-2σ), whose mean over flips is the loss of the true label (Natarajan et
    al. 2013; paper, Section 2.1.2). Second moment [0, S + C²(1/(1-2σ)² - 1)/b], at b = 1 the paper's;
    variance C²/((1-2σ)²b). ``rate="estimate"`` leaves σ to `UnevenClassifier`. Assumes flips that do not depend on
    the row or on its true label.

    >>> FlippedLabels(rate=0.25).second_moment(Problem(25, 1e-3, batch_size=1, radius="paper"))
    (0.0, 7.0)
    """

    kind: ClassVar[str] = "flipped-labels"
    rate: float | str

    def __post_init__(self) -> None:
        if self.rate != "estimate":
            object.__setattr__(self, "rate", checks.within("rate", self.rate, 0.0, 0.5))

    @property
    def known_rate(self) -> float:
        """The rate; an error if it is still to be estimated."""
        if isinstance(self.rate, str):
            raise ValueError("rate must be a number here, got 'estimate': UnevenClassifier estimates it, a plan cannot")
        return self.rate

    @property
    def amplification(self) -> float:
        """1/(1-2σ): how much longer the surrogate's gradient can be."""
        return 1.0 / (1.0 - 2.0 * self.known_rate)

    def describe(self) -> str:
        """Flip rate in percent."""
        if isinstance(self.rate, str):
            return "labels flipped, rate to be estimated"
        return f"{100 * self.rate:.3g}% of labels flipped"

    def row_energy(self, problem: Problem) -> float:
        """C²/(1-2σ)²."""
        return (problem.gradient_norm * self.amplification) ** 2

    def slope(self, loss: Loss, margin: ArrayLike, cap: ArrayLike = np.inf) -> Array:
        """Slope of the surrogate at a margin computed with the observed label.

        ℓ(-y) has margin -m, so the derivative in m is ((1-σ)ℓ'(m) + σℓ'(-m))/(1-2σ). The cap applies to ℓ':
        it is the surrogate of the capped loss, and stays unbiased for it.
        """
        m = np.asarray(margin, dtype=np.float64)
        kept, flipped = loss.slope(m, cap), loss.slope(-m, cap)
        return np.asarray(self.amplification * ((1.0 - self.known_rate) * kept + self.known_rate * flipped))

    @property
    def is_mixture(self) -> bool:
        """True: a mixture of variance 0, since the gradient itself is released."""
        return True

    def spread(self, rows: int, n_features: int, bound: float, rng: np.random.Generator) -> float:
        """Zero."""
        return 0.0

    def coefficients(self, problem: Problem) -> Coefficients:
        """The rate."""
        return Coefficients(flip=self.known_rate)

    def corrupt(self, y: ArrayLike, rng: np.random.Generator) -> Array:
        """Flip each label with probability σ."""
        labels = np.asarray(y, dtype=np.float64)
        return np.where(rng.random(labels.shape) < self.known_rate, -labels, labels)
