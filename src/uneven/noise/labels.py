"""Random classification noise: labels flipped at a known rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from uneven import checks
from uneven.losses import Loss
from uneven.noise.base import Array, Coefficients, Noise
from uneven.problem import Problem

KINDS = ("positive", "negative")
BOTH = ("estimate", "estimate")


@dataclass(frozen=True)
class FlippedLabels(Noise):
    """Each label is flipped independently with probability σ = `rate` < ½, or (a, b): positives at a, negatives at b.

    The labels of the source are taken as they come; the gradient is that of the surrogate
    ℓ̃(y) = ((1-σ)ℓ(y) - σℓ(-y))/(1-2σ), whose mean over flips is the loss of the true label (Natarajan et
    al. 2013; paper, Section 2.1.2). Second moment [0, S + C²(1/(1-2σ)² - 1)/b], at b = 1 the paper's;
    variance C²/((1-2σ)²b). ``rate="estimate"`` leaves σ to `UnevenClassifier`, ``("estimate", "estimate")`` two rates.
    Assumes flips that do not depend on the row; with one rate, nor on its true label.

    With two rates, a + b < 1, the surrogate is ℓ̃(y) = ((1-ρ₋y)ℓ(y) - ρyℓ(-y))/(1-a-b), ρ₊ = a and ρ₋ = b, and 1/(1-2σ)
    above becomes (1+|a-b|)/(1-a-b).

    >>> FlippedLabels(rate=0.25).second_moment(Problem(25, 1e-3, batch_size=1, radius="paper"))
    (0.0, 7.0)
    """

    kind: ClassVar[str] = "flipped-labels"
    level: ClassVar[str | None] = "rate"
    rate: float | str | tuple[float, float] | tuple[str, str]

    def __post_init__(self) -> None:
        if isinstance(self.rate, tuple | list):
            object.__setattr__(self, "rate", BOTH if tuple(self.rate) == BOTH else _checked_pair(self.rate))
        elif self.rate != "estimate":
            object.__setattr__(self, "rate", checks.within("rate", self.rate, 0.0, 0.5))
        self.check_interval()

    @property
    def known_rate(self) -> float:
        """σ, or the mean of the two rates; an error if it is still to be estimated."""
        if self.unknown:
            got = checks.shown(self.rate)
            raise ValueError(f"rate must be a number here, got {got}: UnevenClassifier estimates it, a plan cannot")
        return float(np.mean(self.rate))  # type: ignore[arg-type]

    @property
    def skew(self) -> float:
        """(a-b)/2: labels y are flipped at σ + y·skew; 0 for one rate."""
        return 0.0 if self.unknown or not self.two_rates else (self.rate[0] - self.rate[1]) / 2.0  # type: ignore

    @property
    def amplification(self) -> float:
        """1/(1-2σ), or (1+|a-b|)/(1-a-b): how much longer the surrogate's gradient can be."""
        return (1.0 + 2.0 * abs(self.skew)) / (1.0 - 2.0 * self.known_rate)

    @property
    def unknown(self) -> bool:
        """Whether the rate is to be estimated."""
        return self.rate in ("estimate", BOTH)

    @property
    def two_rates(self) -> bool:
        """Whether positive and negative labels have rates of their own."""
        return isinstance(self.rate, tuple)

    def flipped_again(self, rate: float) -> FlippedLabels:
        """These flips followed by others at one rate: r becomes r + s - 2rs.

        >>> FlippedLabels((0.1, 0.2)).flipped_again(0.5 - 0.25)
        FlippedLabels(rate=(0.3, 0.35))
        """
        a, b = (
            round(r + rate - 2.0 * r * rate, 15) for r in (self.known_rate + self.skew, self.known_rate - self.skew)
        )
        return FlippedLabels((a, b) if isinstance(self.rate, tuple) else a)

    def describe(self) -> str:
        """Flip rate in percent."""
        if self.unknown:
            return f"labels flipped, {'two rates' if self.two_rates else 'rate'} to be estimated"
        if isinstance(self.rate, tuple):
            return f"{100 * self.rate[0]:.3g}% of positive and {100 * self.rate[1]:.3g}% of negative labels flipped"
        return f"{100 * self.rate:.3g}% of labels flipped"

    def row_energy(self, problem: Problem) -> float:
        """C²/(1-2σ)²; C²((1+|a-b|)/(1-a-b))² for two rates."""
        return (problem.gradient_norm * self.amplification) ** 2

    def slope(
        self,
        loss: Loss,
        margin: ArrayLike,
        cap: ArrayLike = np.inf,
        label: ArrayLike = 1.0,
        weights: tuple[Any, Any] = (1.0, 1.0),
    ) -> Array:
        """Slope of the surrogate at a margin computed with the observed label, which only two rates need to know.

        ℓ(-y) has margin -m, so the derivative in m is ((1-σ)ℓ'(m) + σℓ'(-m))/(1-2σ). The cap applies to ℓ':
        it is the surrogate of the capped loss, and stays unbiased for it. `weights` are those of the observed class and
        of the other, where classes count differently: it is the true one's that counts.
        """
        m, (own, other) = np.asarray(margin, dtype=np.float64), weights
        kept, flipped = own * loss.slope(m, cap / own), other * loss.slope(-m, cap / other)
        rate, skew = self.known_rate, self.skew * np.asarray(label, dtype=np.float64)
        return np.asarray(((1.0 - rate + skew) * kept + (rate + skew) * flipped) / (1.0 - 2.0 * rate))

    def row_gradients(self, problem: Problem, w: Array, X: Array, y: Array) -> Array:
        """Gradient of each row's surrogate, with the label as observed. Shape (m, d)."""
        cap = problem.row_limit / np.maximum(np.linalg.norm(X, axis=1), 1e-300)
        weights = problem.weigh(y), problem.weigh(-y)
        return np.asarray((self.slope(problem.loss_function, y * (X @ w), cap, y, weights) * y)[:, None] * X)

    @property
    def is_mixture(self) -> bool:
        """True: a mixture of variance 0, since the gradient itself is released."""
        return True

    def spread(self, rows: int, n_features: int, bound: float, rng: np.random.Generator) -> float:
        """Zero."""
        return 0.0

    def coefficients(self, problem: Problem) -> Coefficients:
        """The rate, and how it differs between the labels."""
        return Coefficients(flip=self.known_rate, skew=self.skew)

    def corrupt(self, y: ArrayLike, rng: np.random.Generator) -> Array:
        """Flip each label with its probability."""
        labels = np.asarray(y, dtype=np.float64)
        return np.where(rng.random(labels.shape) < self.known_rate + self.skew * labels, -labels, labels)


def _checked_pair(rates: Sequence[Any]) -> tuple[float, float]:
    if len(rates) != 2:
        raise ValueError(f"rate must be a number or two, of positive and of negative labels; got {checks.shown(rates)}")
    a, b = (checks.within(f"rate of {kind} labels", rate, 0.0, 1.0) for kind, rate in zip(KINDS, rates, strict=True))
    if a + b >= 1.0:
        raise ValueError(f"rate must have two numbers with a sum below 1, or labels tell nothing; got ({a:g}, {b:g})")
    return a, b
