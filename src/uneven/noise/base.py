"""The protocol of a noise.

A noise describes how the learner sees a source's rows. Subclass `Noise`, state how much energy it adds to a row
(`row_energy`, `added_energy`), and do one of two things to a gradient: change its slope, because the labels are
unreliable (`slope`), or perturb it on release (`release`). Everything else follows. The contract suite in
``tests/noise/test_contract.py`` then checks the new noise against its own statements.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uneven import checks, softmax
from uneven.losses import Loss
from uneven.problem import Problem

Array = NDArray[np.float64]
MOMENTS = ("upper", "lower", "variance")


@dataclass(frozen=True)
class Moment:
    """γ² of a mini-batch as a function of its size m: fixed + per_row/m + per_batch/m².

    >>> Moment(fixed=4.0, per_row=26.0).at(50)
    4.52
    """

    fixed: float
    per_row: float
    per_batch: float = 0.0

    def at(self, rows: float) -> float:
        """γ² for a mini-batch of that many rows."""
        return self.fixed + (self.per_row + self.per_batch / rows) / rows

    def rows_for(self, level: float) -> float:
        """Rows of a mini-batch whose γ² is that; infinite if none is so large.

        >>> round(Moment(fixed=4.0, per_row=26.0, per_batch=100.0).rows_for(4.52), 1)
        53.6
        """
        left = level - self.fixed
        if left <= 0.0:
            return math.inf
        return (self.per_row + math.sqrt(self.per_row**2 + 4.0 * left * self.per_batch)) / (2.0 * left)

    def to_dict(self) -> dict[str, float]:
        """Plain values; the last term only where there is one, as plans from before it have it."""
        return {key: value for key, value in vars(self).items() if value or key != "per_batch"}


class Coefficients(NamedTuple):
    """A noise as numbers, for compiled loops.

    flip : rate σ of the label surrogate
    skew : what is added to it for a positive label, and taken from it for a negative one
    stretch : how much longer than the clip a gradient to release may be, where labels are corrected first
    gamma : scale of the gamma distribution of `spread`, of shape (d+1)/2 per row
    gaussian : fixed variance per row
    height, share, base, own, fill, mean : the `Calibration` of a release by direction; mean 0 for none
    grid : width of the cells that one row's release is rounded to; 0 if it is not rounded
    batch_gamma : scale of the gamma distribution of noise that is drawn once per batch, of shape (d+1)/2
    batch_grid : width that such noise adds to the cells of a sum
    """

    flip: float = 0.0
    gamma: float = 0.0
    gaussian: float = 0.0
    height: float = 0.0
    share: float = 0.0
    base: float = 0.0
    own: float = 0.0
    fill: float = 0.0
    mean: float = 0.0
    grid: float = 0.0
    batch_gamma: float = 0.0
    batch_grid: float = 0.0
    skew: float = 0.0
    stretch: float = 1.0


def add_gaussian(total: Array, variance: float, rng: np.random.Generator) -> Array:
    """Add N(0, variance·I) to `total`; nothing is drawn where the variance is 0."""
    if variance == 0.0:
        return total
    return np.asarray(total + math.sqrt(variance) * rng.standard_normal(len(total)))


@dataclass(frozen=True)
class Noise(ABC):
    """Base of all noises: exact unless a method says otherwise.

    `interval` is for a level that is only roughly known: the lowest and the highest that ε, the rate or the variance
    may be. Plans and fits use the level that is stated; `Plan.sensitivity` shows what the interval leaves open. Which
    flip rates are too high depends on the number of classes: plans and fits refuse them, where it is known.
    """

    kind: ClassVar[str]
    level: ClassVar[str | None] = None
    """Name of the number that says how noisy it is, if there is one."""
    compose: ClassVar[Callable[[Sequence[Noise]], Noise]]
    """What ``&`` does. `composed` sets it: it knows the kinds of noise, and this module does not."""
    interval: tuple[Any, Any] | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        self.check_interval()

    def check_interval(self) -> None:
        """Refuse an interval whose ends could not be stated, or that does not hold what is."""
        if self.interval is None:
            return
        given: Any = self.interval.tolist() if isinstance(self.interval, np.ndarray) else self.interval
        if self.level is None or not isinstance(given, tuple | list) or len(given) != 2:
            what = f"(lowest, highest) {self.level}" if self.level else "left out: it has no level of noise"
            raise ValueError(f"interval of {self.kind!r} must be {what}, got {checks.shown(self.interval)}")
        if any(isinstance(one, str) for end in given for one in (end if isinstance(end, tuple | list) else [end])):
            raise ValueError(f"interval must have numbers for its ends, got {checks.shown(self.interval)}")
        low, high = (self._check_end(end) for end in given)
        stated = getattr(self, self.level)
        ends = [np.atleast_1d(one) for one in (low, stated, high) if not isinstance(one, str)]
        if isinstance(stated, str) or len({len(one) for one in ends}) > 1 or not _in_order(ends):
            held = checks.shown(stated)
            raise ValueError(f"interval must hold the {self.level} {held}, got {checks.shown(self.interval)}")
        object.__setattr__(self, "interval", (low, high))

    def _check_end(self, end: Any) -> Any:
        """An end of the interval as a level; what could not be stated as one is refused as an interval."""
        assert self.level is not None
        try:
            return getattr(self.at_level(end), self.level)
        except ValueError as reason:
            got = checks.shown(self.interval)
            raise ValueError(f"interval must have ends that could be the {self.level}, got {got}: {reason}") from None

    def at_level(self, value: Any) -> Noise:
        """The same kind of noise at another level, taken to be known."""
        assert self.level is not None
        return replace(self, **{self.level: value, "interval": None})

    @property
    def epsilon_per_row(self) -> float | None:
        """ε that one release of a row costs; None without a privacy guarantee."""
        return None

    @property
    def private(self) -> bool:
        """Whether rows are released with a privacy guarantee."""
        return self.epsilon_per_row is not None

    @property
    def promise(self) -> str | None:
        """From whom a row is protected, in one sentence; None without a privacy guarantee."""
        return None

    @property
    def once_a_batch(self) -> bool:
        """Whether noise is drawn once for the sum of a mini-batch, not for each of its rows."""
        return False

    @property
    def protects_features(self) -> bool:
        """Whether a row's features are protected, not its label alone."""
        return self.private

    @property
    def observed(self) -> Noise:
        """Noise of rows as the learner gets them: itself, unless labels are randomised before anything is learned."""
        return self

    def observed_among(self, classes: int) -> Noise:
        """Return the noise as it is planned for that number of classes; most do not depend on it."""
        return self.observed

    def against_rest(self, classes: int) -> Noise:
        """Return the noise where one class is learned against the rest; most do not depend on it."""
        return self

    @property
    def protection(self) -> Noise:
        """The part of it that acts on rows as they are released: itself, unless labels are flipped before."""
        return self

    def with_protection(self, other: Noise) -> Noise:
        """The same with another noise in its place."""
        return other

    @property
    def known_rate(self) -> float:
        """Share of labels that are flipped; the mean of two rates."""
        return 0.0

    @property
    def skew(self) -> float:
        """Half the difference of two flip rates: labels y are flipped at `known_rate` + y·skew."""
        return 0.0

    def amplification(self, classes: int = 2) -> float:
        """Largest gradient norm over the clip, after correcting labels of `classes` classes for flips."""
        return 1.0

    def confusion_of(self, classes: int) -> Array:
        """T over so many classes, T_ij the probability that class i is observed as j."""
        return np.eye(classes)

    def corrected_activity(self, share: float) -> float:
        """Mean length of a gradient to release over its largest, at most, where the loss's own is `share`.

        >>> from uneven import FlippedLabels
        >>> FlippedLabels(0.1).corrected_activity(0.5)
        0.55
        """
        high, low = self.known_rate + abs(self.skew), self.known_rate - abs(self.skew)
        return min(((1.0 - low) * share + high) / (1.0 + high - low), 1.0)

    @property
    def fixed_energy(self) -> float:
        """Part of a row's energy that does not depend on how long gradients may be."""
        return 0.0

    def __and__(self, other: Noise) -> Noise:
        """Both noises on the same rows: flipped labels, and one other."""
        return Noise.compose([self, other]) if isinstance(other, Noise) else NotImplemented

    def describe(self) -> str:
        """Noise in a few words, for tables.

        >>> from uneven import FlippedLabels
        >>> FlippedLabels(rate=0.2).describe()
        '20% of labels flipped'
        """
        return self.kind

    def describe_release(self) -> str:
        """How rows are protected when they are released and at what ε, for a privacy statement."""
        return self.describe()

    @abstractmethod
    def row_energy(self, problem: Problem) -> float:
        """M, a bound on E‖g̃‖² of one row's released gradient g̃ (the L2 term is not part of it)."""

    def planned_energy(self, problem: Problem) -> float:
        """E‖g̃‖² of a row as planned for: the same bound, unless it rests on how long gradients are on average."""
        return self.row_energy(problem)

    def added_energy(self, problem: Problem) -> float:
        """A lower bound on E‖g̃ - g‖² that holds for every row: the noise that is certain to be present."""
        return 0.0

    def batch_energy(self, problem: Problem) -> float:
        """Energy of noise that is added once to the sum of a mini-batch."""
        return 0.0

    def moment(self, which: str, problem: Problem) -> Moment:
        """γ² of a mini-batch of m rows, as a function of m.

        - ``"upper"``: bound on E‖G‖², S + (M - C²)/m. With μ = E g̃ the moment is
          ‖λw + μ‖² + (E‖g̃‖² - ‖μ‖²)/m, at most (λR + u)² + (M - u²)/m for u = ‖μ‖, which grows with u ≤ C.
        - ``"lower"``: lower bound on E‖G‖², the added energy over m.
        - ``"variance"``: bound on E‖G - ∇f‖², the planned energy over m.

        Noise that is added once to the sum has its energy over m² in all three.
        """
        checks.one_of("moments", which, MOMENTS)
        once = self.batch_energy(problem)
        if which == "lower":
            return Moment(0.0, self.added_energy(problem), once)
        if which == "variance":
            return Moment(0.0, self.planned_energy(problem), once)
        return Moment(problem.signal, self.row_energy(problem) - problem.gradient_norm**2, once)

    def second_moment(self, problem: Problem, rows: int | None = None) -> tuple[float, float]:
        """E‖G‖² of a mini-batch as an interval, the paper's Γ(L)² and Γ(U)²; `rows` defaults to the batch size."""
        m = problem.batch_size if rows is None else checks.whole("rows", rows)
        return self.moment("lower", problem).at(m), self.moment("upper", problem).at(m)

    def variance_bound(self, problem: Problem, rows: int | None = None) -> float:
        """Bound on E‖G - ∇f‖² of a mini-batch; `rows` defaults to the batch size."""
        m = problem.batch_size if rows is None else checks.whole("rows", rows)
        return self.moment("variance", problem).at(m)

    def slope(self, loss: Loss, margin: ArrayLike, cap: ArrayLike = np.inf) -> Array:
        """Slope to use at a margin computed with the label as observed."""
        return loss.slope(margin, cap)

    def release(self, gradients: Array, bound: float, rng: np.random.Generator) -> Array:
        """Release gradients row by row; each has norm at most `bound`. Shape (m, d) in and out."""
        return gradients

    @property
    def is_mixture(self) -> bool:
        """Whether the noise of a sum of rows is a Gaussian of random variance, which `spread` draws."""
        return False

    def spread(self, rows: int, n_features: int, bound: float, rng: np.random.Generator) -> float:
        """Draw the variance of the Gaussian that stands for the noise in a sum of `rows` rows of one mini-batch.

        Given it, that noise is N(0, variance·I): then variances of different noises add, and a mini-batch needs d
        normals instead of m·d.
        """
        raise NotImplementedError(f"{type(self).__name__} is not a Gaussian mixture")

    def release_sum(self, gradients: Array, bound: float, rng: np.random.Generator) -> Array:
        """Sum of the m rows that `release` gives, or something of the same law. Shape (m, d) in, (d,) out.

        If noise is drawn once per batch, it is the sum of the rows with one draw.
        """
        if not self.is_mixture:
            return np.asarray(self.release(gradients, bound, rng).sum(axis=0))
        rows, d = gradients.shape
        return add_gaussian(gradients.sum(axis=0), self.spread(rows, d, bound, rng), rng)

    def coefficients(self, problem: Problem) -> Coefficients | None:
        """The noise as the compiled loops draw it; None if only the methods above can."""
        return None

    def grid(self, n_features: int, bound: float) -> float:
        """Width of a cell for one row, where releases are rounded; `grid.width` has that of a sum."""
        return 0.0

    def batch_grid(self, n_features: int, bound: float) -> float:
        """What noise that is drawn once per batch adds to it."""
        return 0.0

    def targets(self, classes: int) -> Array | None:
        """T⁻¹ of a confusion matrix T over more than two classes (`uneven.softmax`); None for labels as they are."""
        return None

    def weighted_targets(self, class_weights: Sequence[float]) -> Array:
        """T⁻¹·diag(c), what stands for each label as observed where classes count c: unbiased for c_y·ℓ(y)."""
        known = self.targets(len(class_weights))
        return np.asarray((np.eye(len(class_weights)) if known is None else known) * np.array(class_weights))

    def corrupt(self, y: ArrayLike, rng: np.random.Generator) -> Array:
        """Labels (-1 or 1) with this noise applied: for simulations only."""
        return np.asarray(y, dtype=np.float64)

    def row_gradients(self, problem: Problem, w: Array, X: Array, y: Array) -> Array:
        """Gradient of each row's loss, the slope capped so that its norm is at most the limit. Shape (m, d).

        For K > 2 classes y has their numbers, and the gradient of the softmax loss is shrunk to that norm; then it is
        multiplied by what the class counts, at most 1.
        """
        if problem.outputs > 1:
            targets = self.weighted_targets(problem.class_weights)[y.astype(np.int64)]
            return softmax.row_gradients(w, X, targets, problem.row_limit)
        cap, weights = problem.row_limit / np.maximum(np.linalg.norm(X, axis=1), 1e-300), problem.weigh(y)
        slopes = weights * self.slope(problem.loss_function, y * (X @ w), cap / weights)
        return np.asarray((slopes * y)[:, None] * X)

    def bound(self, problem: Problem) -> float:
        """Norm that a gradient has at most when it is released."""
        return problem.gradient_norm * self.amplification(problem.classes)

    def gradient(self, problem: Problem, w: Array, X: Array, y: Array, rng: np.random.Generator) -> Array:
        """Noisy gradient of f at w from one mini-batch: λw + (sum of released row gradients)/m.

        Parameters
        ----------
        w : array of shape (d,)
            Weights.
        X : array of shape (m, d), rows in the unit ball
            The batch.
        y : array of shape (m,), labels -1 or 1 as observed
            Its labels.
        """
        total = self.release_sum(self.row_gradients(problem, w, X, y), self.bound(problem), rng)
        return np.asarray(problem.alpha * w + total / len(y))

    def compiled(self, problem: Problem) -> Coefficients | None:
        """`coefficients`, unless a subclass has changed what they stand for: then None."""
        order = type(self).__mro__

        def place(name: str) -> int:
            return next(i for i, kind in enumerate(order) if name in vars(kind))

        changed = min(
            map(place, ("slope", "release", "release_sum", "spread", "is_mixture", "row_gradients", "gradient"))
        )
        return self.coefficients(problem) if place("coefficients") <= changed else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, in the form of ``sources.toml``."""
        values = asdict(self)
        interval = values.pop("interval")
        return {"kind": self.kind, **values, **({} if interval is None else {"interval": list(interval)})}


def _in_order(levels: list[Array]) -> bool:
    return all((a <= b).all() for a, b in pairwise(levels))
