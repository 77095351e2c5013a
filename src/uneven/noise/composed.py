"""Two noises at once: labels that are flipped, and gradients that are released privately or with noise added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from uneven.losses import Loss
from uneven.noise.additive import AdditiveNoise
from uneven.noise.base import Array, Coefficients, Noise
from uneven.noise.exact import Exact
from uneven.noise.label_privacy import LabelPrivacy
from uneven.noise.labels import FlippedLabels
from uneven.noise.privacy import LocalPrivacy
from uneven.noise.site import SitePrivacy
from uneven.problem import Problem

SECOND = (LocalPrivacy, SitePrivacy, LabelPrivacy, AdditiveNoise)
"""What flipped labels can be combined with."""


@dataclass(frozen=True, repr=False)
class Composed(Noise):
    """Labels are flipped first (`labels`), then rows are protected, or noise is added to their gradients (`then`).

    Write it ``LocalPrivacy(2.0) & FlippedLabels(0.1)``. The clip C shortens the loss's gradient; the correction for
    flips follows, and makes it up to A = 1/(1-2σ) times as long (two rates: (1+|a-b|)/(1-a-b)); and the second noise
    releases it with A·C as its bound. So the release is unbiased for the clipped loss of the true labels, at the stated
    ε, and its energy is A² times that of the second noise alone. Clipping after the correction would add less noise,
    but would be biased: corrected gradients of kept and of flipped labels would no longer cancel.

    With `LabelPrivacy` the flips of both add up, σ = s + r - 2sr, and gradients are not released at all.

    Examples
    --------
    >>> noise = LocalPrivacy(2.0, "privunit") & FlippedLabels(0.1)
    >>> noise.epsilon_per_row, noise.describe()
    (2.0, 'private, ε = 2 (privunit), and 10% of labels flipped')
    >>> problem = Problem(25, 1e-3, 50)
    >>> round(noise.row_energy(problem) / LocalPrivacy(2.0, "privunit").row_energy(problem), 4)  # 1/(1-2σ)²
    1.5625
    """

    kind: ClassVar[str] = "composed"
    labels: FlippedLabels
    then: Noise

    def __repr__(self) -> str:
        return f"{self.then!r} & {self.labels!r}"

    @cached_property
    def flips(self) -> FlippedLabels:
        """Flips as the learner meets them: with label privacy those of both, of two classes or those of the matrix."""
        return self._flips_among(2 if self.labels.confusion is None else len(self.labels.confusion))

    def _flips_among(self, classes: int) -> FlippedLabels:
        """The same of so many classes."""
        if not isinstance(self.then, LabelPrivacy):
            return self.labels
        if classes == 2:
            return self.labels.flipped_again(self.then.rate)
        both = self.labels.confusion_of(classes) @ self.then.observed_among(classes).confusion_of(classes)
        return FlippedLabels(tuple(map(tuple, both.tolist())))

    @property
    def _released(self) -> Noise:
        """What happens to gradients."""
        return Exact() if isinstance(self.then, LabelPrivacy) else self.then

    @property
    def protection(self) -> Noise:
        """The noise that follows the flips."""
        return self.then

    def with_protection(self, other: Noise) -> Noise:
        """The same flips, followed by another noise."""
        return Composed(self.labels, other)

    @property
    def observed(self) -> Noise:
        """With label privacy the flips of both; else itself."""
        return self.flips if isinstance(self.then, LabelPrivacy) else self

    @property
    def known_rate(self) -> float:
        """Flip rate, or the mean of two."""
        return self.flips.known_rate

    @property
    def skew(self) -> float:
        """Half the difference of two flip rates."""
        return self.flips.skew

    def observed_among(self, classes: int) -> Noise:
        """The same for so many classes: of private labels, the confusion of both."""
        if isinstance(self.then, LabelPrivacy):
            return self._flips_among(classes)
        return replace(self, then=self.then.observed_among(classes))

    def against_rest(self, classes: int) -> Noise:
        """The same with the flips between one class and the others."""
        return Composed(self.labels.against_rest(classes), self.then)

    def amplification(self, classes: int = 2) -> float:
        """A."""
        return self._flips_among(classes).amplification(classes)

    def confusion_of(self, classes: int) -> Array:
        """That of the flips."""
        return self._flips_among(classes).confusion_of(classes)

    def targets(self, classes: int) -> Array | None:
        """Those of the flips."""
        return self._flips_among(classes).targets(classes)

    @property
    def epsilon_per_row(self) -> float | None:
        """That of the second noise."""
        return self.then.epsilon_per_row

    @property
    def promise(self) -> str | None:
        """That of the second noise."""
        return self.then.promise

    @property
    def once_a_batch(self) -> bool:
        """As the second noise."""
        return self.then.once_a_batch

    @property
    def protects_features(self) -> bool:
        """As the second noise."""
        return self.then.protects_features

    def describe(self) -> str:
        """Both in words."""
        return f"{self.then.describe()}, and {self.labels.describe()}"

    def _stretch(self, energy: float, problem: Problem) -> float:
        """Energy of the second noise where gradients are A times as long."""
        fixed = self._released.fixed_energy
        return self.amplification(problem.classes) ** 2 * (energy - fixed) + fixed

    def row_energy(self, problem: Problem) -> float:
        """A² times that of the second noise, less what does not depend on the bound."""
        return self._stretch(self._released.row_energy(problem), problem)

    def planned_energy(self, problem: Problem) -> float:
        """The same; the activity is that of corrected gradients, in units of A·C."""
        return self._stretch(self._released.planned_energy(problem), problem)

    def added_energy(self, problem: Problem) -> float:
        """The same."""
        added = self._released.added_energy(problem)
        return self._stretch(added, problem) if added else 0.0

    def batch_energy(self, problem: Problem) -> float:
        """The same."""
        return self.amplification(problem.classes) ** 2 * self._released.batch_energy(problem)

    def slope(self, loss: Loss, margin: ArrayLike, cap: ArrayLike = np.inf, label: ArrayLike = 1.0) -> Array:
        """Slope of the surrogate of the flips."""
        return self.flips.slope(loss, margin, cap, label)

    def row_gradients(self, problem: Problem, w: Array, X: Array, y: Array) -> Array:
        """Gradient of each row's surrogate, of norm at most A·C. Shape (m, d)."""
        return self._flips_among(problem.classes).row_gradients(problem, w, X, y)

    def release(self, gradients: Array, bound: float, rng: np.random.Generator) -> Array:
        """As the second noise."""
        return self._released.release(gradients, bound, rng)

    def release_sum(self, gradients: Array, bound: float, rng: np.random.Generator) -> Array:
        """As the second noise."""
        return self._released.release_sum(gradients, bound, rng)

    @property
    def is_mixture(self) -> bool:
        """As the second noise."""
        return self._released.is_mixture

    def spread(self, rows: int, n_features: int, bound: float, rng: np.random.Generator) -> float:
        """As the second noise."""
        return self._released.spread(rows, n_features, bound, rng)

    def grid(self, n_features: int, bound: float) -> float:
        """As the second noise."""
        return self._released.grid(n_features, bound)

    def batch_grid(self, n_features: int, bound: float) -> float:
        """As the second noise."""
        return self._released.batch_grid(n_features, bound)

    def coefficients(self, problem: Problem) -> Coefficients | None:
        """Those of both: what grows with the bound is A or A² times as large."""
        found, flips = self._released.compiled(problem), self._flips_among(problem.classes)
        factor = flips.amplification(problem.classes)
        if found is None:
            return None
        scaled = {name: factor * getattr(found, name) for name in ("grid", "batch_grid")}
        scaled |= {name: factor**2 * getattr(found, name) for name in ("gamma", "batch_gamma")}
        return found._replace(**scaled, flip=flips.known_rate, skew=flips.skew, stretch=factor)

    def corrupt(self, y: ArrayLike, rng: np.random.Generator) -> Array:
        """Labels flipped, and where they are private randomised."""
        return self.then.corrupt(self.labels.corrupt(y, rng), rng)

    def to_dict(self) -> dict[str, Any]:
        """Plain values of both."""
        return {"kind": self.kind, "noises": [self.then.to_dict(), self.labels.to_dict()]}


def compose(noises: Sequence[Noise]) -> Noise:
    """One noise of several, which ``&`` writes between two: flipped labels with one noise of another kind.

    >>> compose([FlippedLabels(0.2), LocalPrivacy(1.0)])
    LocalPrivacy(epsilon=1.0, mechanism='quiet', activity=0.5) & FlippedLabels(rate=0.2)
    >>> compose([LocalPrivacy(1.0), SitePrivacy(1.0)])
    Traceback (most recent call last):
    ValueError: noise must combine FlippedLabels with one other, such as LocalPrivacy; got LocalPrivacy & SitePrivacy
    """
    parts = [
        part for noise in noises for part in ([noise.then, noise.labels] if isinstance(noise, Composed) else [noise])
    ]
    named = [part for part in parts if not isinstance(part, Exact)]
    if len(named) < 2 and parts:
        return (named or parts)[0]
    labels = [part for part in named if isinstance(part, FlippedLabels)]
    others = [part for part in named if isinstance(part, SECOND)]
    if len(named) != 2 or len(labels) != 1 or len(others) != 1:
        got = " & ".join(type(part).__name__ for part in named) or "none"
        raise ValueError(f"noise must combine FlippedLabels with one other, such as LocalPrivacy; got {got}")
    if labels[0].unknown:
        raise ValueError(f"rate must be known to combine it with another noise, got {labels[0].rate!r}")
    return Composed(labels[0], others[0])


Noise.compose = staticmethod(compose)
