"""Label privacy: the label is randomised once before anyone sees it, the features are public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uneven import checks
from uneven.losses import Loss
from uneven.noise.base import Array, Noise
from uneven.noise.labels import FlippedLabels
from uneven.problem import Problem

FEATURES_WARNING = (
    "Only the labels of {} are protected. Its FEATURES ARE NOT: they are used exactly and as often as it takes."
)


@dataclass(frozen=True)
class LabelPrivacy(Noise):
    """Labels are private, FEATURES ARE NOT: each label is flipped once, with probability σ = 1/(1 + e^ε).

    Of K > 2 classes, it is replaced by each other one with probability 1/(K-1 + e^ε).

    The flipped label is all that is learned from, by the surrogate of `FlippedLabels` at rate σ: second moment
    [0, S + C²(coth²(ε/2) - 1)/b], variance C²coth²(ε/2)/b, in any dimension.

    Parameters
    ----------
    epsilon : float
        What one row's label is charged, once, however often the flipped label is used.

    Notes
    -----
    Formal guarantee. For any two rows that differ in their label alone, the probabilities of any flipped label differ
    by a factor of at most e^ε (randomised response; Warner 1965), and everything after it is post-processing: rows may
    be read to convergence, and alpha may be chosen on them. It assumes a source of random numbers nobody can predict,
    and classes that do not depend on the data. Nothing is promised about features, nor about a label that the
    features give away: a model that predicts well predicts the labels of these rows too.

    Examples
    --------
    >>> LabelPrivacy(epsilon=1.0).describe()
    'labels private, ε = 1; FEATURES NOT PROTECTED'
    >>> round(LabelPrivacy(epsilon=1.0).rate, 4)
    0.2689
    """

    kind: ClassVar[str] = "label-privacy"
    level: ClassVar[str | None] = "epsilon"
    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checks.moderate("epsilon", self.epsilon))
        self.check_interval()

    @property
    def rate(self) -> float:
        """σ = 1/(1 + e^ε)."""
        return math.exp(-self.epsilon) / (1.0 + math.exp(-self.epsilon))

    @cached_property
    def observed(self) -> FlippedLabels:
        """Flipped labels at rate σ."""
        return FlippedLabels(self.rate)

    @property
    def epsilon_per_row(self) -> float:
        """ε."""
        return self.epsilon

    @property
    def protects_features(self) -> bool:
        """False."""
        return False

    def describe(self) -> str:
        """ε, and what it does not protect."""
        return f"labels private, ε = {self.epsilon:g}; FEATURES NOT PROTECTED"

    def describe_release(self) -> str:
        """The mechanism, and ε, which is spent once."""
        return f"randomised response, ε = {self.epsilon:g} once"

    def row_energy(self, problem: Problem) -> float:
        """C²coth²(ε/2)."""
        return self.observed_among(problem.classes).row_energy(problem)

    def slope(self, loss: Loss, margin: ArrayLike, cap: ArrayLike = np.inf) -> Array:
        """Slope of the surrogate at a margin computed with the flipped label."""
        return self.observed.slope(loss, margin, cap)

    def row_gradients(self, problem: Problem, w: Array, X: Array, y: Array) -> Array:
        """Gradient of each row's surrogate, with the flipped label. Shape (m, d)."""
        return self.observed_among(problem.classes).row_gradients(problem, w, X, y)

    def rate_among(self, classes: int) -> float:
        """(K-1)/(K-1 + e^ε): chance that a label of K classes is replaced, by each other class alike."""
        return (classes - 1) * math.exp(-self.epsilon) / (1.0 + (classes - 1) * math.exp(-self.epsilon))

    def observed_among(self, classes: int) -> FlippedLabels:
        """Flipped labels as the learner of K classes gets them."""
        if classes == 2:
            return self.observed
        other = self.rate_among(classes) / (classes - 1)
        kept = 1.0 - (classes - 1) * other
        return FlippedLabels(tuple(tuple(kept if i == j else other for j in range(classes)) for i in range(classes)))

    def draw_flips(self, rows: int, rng: np.random.Generator, classes: int = 2) -> NDArray[np.int64]:
        """How far to move the number of each label's class, modulo K: 0 keeps it, the others are equally likely.

        The chance of a move is never below what ε needs: random numbers are multiples of 2⁻⁵³, and 0 is one.
        """
        moved = rng.random(rows) <= self.rate_among(classes)
        return moved * (rng.integers(1, classes, rows) if classes > 2 else np.int64(1))

    def corrupt(self, y: ArrayLike, rng: np.random.Generator) -> Array:
        """Labels (-1 or 1) as released: each flipped with probability σ."""
        labels = np.asarray(y, dtype=np.float64)
        return np.where(self.draw_flips(len(labels), rng) > 0, -labels, labels)
