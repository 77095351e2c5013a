"""Random classification noise: labels flipped at a known rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uneven import checks
from uneven.losses import Loss
from uneven.noise.base import Array, Coefficients, Noise
from uneven.problem import Problem

NESTED = (tuple, list, np.ndarray)
KINDS = ("positive", "negative")
BOTH = ("estimate", "estimate")

SINGULAR = 1e9
"""Condition number from which a confusion matrix counts as singular."""


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

    Of K > 2 classes, one rate σ < (K-1)/K replaces a label by each other class with probability σ/(K-1). A matrix of
    K rows states any confusion: row i has the probability that class i is observed as each class, classes in order. The
    surrogate is that of `uneven.softmax`, and 1/(1-2σ) becomes the largest sum of absolute values in a row of T⁻¹.

    >>> FlippedLabels(rate=0.25).second_moment(Problem(25, 1e-3, batch_size=1, radius="paper"))
    (0.0, 7.0)
    """

    kind: ClassVar[str] = "flipped-labels"
    level: ClassVar[str | None] = "rate"
    rate: float | str | tuple[float, float] | tuple[str, str] | tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        rate: Any = self.rate.tolist() if isinstance(self.rate, np.ndarray) else self.rate
        if isinstance(rate, tuple | list) and any(isinstance(one, NESTED) for one in rate):
            rate = _checked_confusion(rate)
        elif isinstance(rate, tuple | list):
            rate = BOTH if tuple(rate) == BOTH else _checked_pair(rate)
        elif isinstance(rate, str) and rate != "estimate":
            raise ValueError(f"rate must be a number in [0, 1), two, a matrix or 'estimate', got {checks.shown(rate)}")
        elif not isinstance(rate, str):
            rate = checks.within("rate", rate, 0.0, 1.0)
        object.__setattr__(self, "rate", rate)
        if self.interval is not None and self.confusion is not None:
            raise ValueError(f"interval must be left out where rate is a matrix, got {checks.shown(self.interval)}")
        self.check_interval()

    @property
    def known_rate(self) -> float:
        """σ, or the mean of the classes' rates; an error if it is still to be estimated."""
        if self.confusion is not None:
            return float(1.0 - np.diag(self.confusion).mean())
        if self.unknown:
            got = checks.shown(self.rate)
            raise ValueError(f"rate must be a number here, got {got}: UnevenClassifier estimates it, a plan cannot")
        return float(np.mean(self.rate))  # type: ignore[arg-type]

    @property
    def confusion(self) -> Array | None:
        """T, where it is stated as a matrix."""
        stated = isinstance(self.rate, tuple) and isinstance(self.rate[0], tuple)
        return np.array(self.rate) if stated else None

    @property
    def skew(self) -> float:
        """(a-b)/2: labels y are flipped at σ + y·skew; 0 for one rate."""
        if self.confusion is not None or self.unknown or not isinstance(self.rate, tuple):
            return 0.0
        return (self.rate[0] - self.rate[1]) / 2.0  # type: ignore[operator]

    def refuse_classes(self, classes: int) -> None:
        """Refuse a rate that is not for so many classes."""
        rows = len(self.rate) if isinstance(self.rate, tuple) else classes
        if rows != classes:
            what = "two rates" if self.confusion is None else f"a matrix for {rows} classes"
            raise ValueError(f"rate must be one number or a matrix for {classes} classes, got {what}")
        most = f"below {classes - 1}/{classes} for {classes} classes, or labels carry no information"
        if isinstance(self.rate, float) and self.rate * classes >= classes - 1:
            raise ValueError(f"rate must be {most}; got {self.rate:g}")
        highest = None if self.interval is None else self.interval[1]
        if isinstance(highest, float) and highest * classes >= classes - 1:
            raise ValueError(f"interval must end {most}; got {checks.shown(self.interval)}")

    def against_rest(self, classes: int) -> FlippedLabels:
        """The same flips for one class against the rest: its labels flip at σ, the others' at σ/(K-1).

        Two rates are taken to be these already.

        >>> FlippedLabels(0.25).against_rest(3)
        FlippedLabels(rate=(0.25, 0.125))
        """
        if self.confusion is not None:
            raise ValueError("rate must be one number for multi_class='one-vs-rest', got a matrix")
        if classes == 2 or self.two_rates:
            return self
        self.refuse_classes(classes)
        return FlippedLabels((self.known_rate, self.known_rate / (classes - 1)))

    def confusion_of(self, classes: int) -> Array:
        """T over so many classes, T_ij the probability that class i is observed as j."""
        self.refuse_classes(classes)
        if self.confusion is not None:
            return self.confusion
        if isinstance(self.rate, tuple):
            a, b = self.rate
            return np.array([[1.0 - b, b], [a, 1.0 - a]])  # type: ignore[operator]
        each = self.known_rate / (classes - 1)
        return np.full((classes, classes), each) + np.diag(np.full(classes, 1.0 - classes * each))

    def targets(self, classes: int) -> Array | None:
        """T⁻¹."""
        return np.asarray(np.linalg.inv(self.confusion_of(classes))) if self.known_rate > 0.0 else None

    def amplification(self, classes: int = 2) -> float:
        """How much longer the surrogate's gradient can be: the largest sum of absolute values in a row of T⁻¹.

        1/(1-2σ) for one rate and two classes, (1+|a-b|)/(1-a-b) for two rates.
        """
        if classes == 2:
            self.refuse_classes(classes)
            return (1.0 + 2.0 * abs(self.skew)) / (1.0 - 2.0 * self.known_rate)
        return float(np.abs(np.linalg.inv(self.confusion_of(classes))).sum(axis=1).max())

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
        self.refuse_classes(2)
        a, b = (
            round(r + rate - 2.0 * r * rate, 15) for r in (self.known_rate + self.skew, self.known_rate - self.skew)
        )
        return FlippedLabels((a, b) if isinstance(self.rate, tuple) else a)

    def describe(self) -> str:
        """Flip rate in percent."""
        if self.unknown:
            return f"labels flipped, {'two rates' if self.two_rates else 'rate'} to be estimated"
        if self.confusion is not None:
            return f"{100 * self.known_rate:.3g}% of labels wrong, by a stated matrix"
        if isinstance(self.rate, tuple):
            return f"{100 * self.rate[0]:.3g}% of positive and {100 * self.rate[1]:.3g}% of negative labels flipped"
        return f"{100 * self.rate:.3g}% of labels flipped"

    def row_energy(self, problem: Problem) -> float:
        """C²/(1-2σ)²; C² times the square of the amplification."""
        return (problem.gradient_norm * self.amplification(problem.classes)) ** 2

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
        if problem.outputs > 1:
            return super().row_gradients(problem, w, X, y)
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
        self.refuse_classes(problem.classes)
        return Coefficients(flip=self.known_rate, skew=self.skew)

    def corrupt(self, y: ArrayLike, rng: np.random.Generator) -> Array:
        """Flip each label with its probability."""
        self.refuse_classes(2)
        labels = np.asarray(y, dtype=np.float64)
        return np.where(rng.random(labels.shape) < self.known_rate + self.skew * labels, -labels, labels)

    def corrupt_classes(self, y: ArrayLike, classes: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Numbers of classes as observed through the confusion matrix: for simulations."""
        numbers = np.asarray(y, dtype=np.int64)
        below = np.cumsum(self.confusion_of(classes), axis=1)[numbers, :-1]
        return np.asarray((rng.random(len(numbers))[:, None] >= below).sum(axis=1), dtype=np.int64)


def _checked_confusion(rows: Any) -> tuple[Any, ...]:
    """Confusion matrix as tuples; of two classes, as the two rates (a, b)."""
    shape = "rate must be a number, two, or a square matrix of probabilities whose rows sum to 1"
    try:
        matrix = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{shape}, got {checks.shown(rows)}") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise ValueError(f"{shape}, got shape {matrix.shape}")
    if not np.isfinite(matrix).all() or (matrix < 0.0).any() or (np.abs(matrix.sum(axis=1) - 1.0) > 1e-9).any():
        raise ValueError(f"{shape}, got {checks.shown(matrix.tolist())}")
    if len(matrix) == 2:
        return _checked_pair((float(matrix[1, 0]), float(matrix[0, 1])))
    if np.linalg.cond(matrix) > SINGULAR:
        raise ValueError("rate must be a matrix with an inverse, or labels carry no information; got a singular one")
    if np.trace(matrix) <= 1.0:
        raise ValueError(
            "rate must be a matrix whose diagonal has a sum above 1, or labels name other classes than their own; got "
            f"{np.trace(matrix):.4g}"
        )
    return tuple(map(tuple, matrix.tolist()))


def _checked_pair(rates: Sequence[Any]) -> tuple[float, float]:
    if len(rates) != 2:
        raise ValueError(f"rate must be a number or two, of positive and of negative labels; got {checks.shown(rates)}")
    a, b = (checks.within(f"rate of {kind} labels", rate, 0.0, 1.0) for kind, rate in zip(KINDS, rates, strict=True))
    if a + b >= 1.0:
        got = f"({a:g}, {b:g})"
        raise ValueError(f"rate must have two numbers with a sum below 1, or labels carry no information; got {got}")
    return a, b
