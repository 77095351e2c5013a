"""The learning problem that noises, plans and runs share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from uneven import checks
from uneven.losses import Loss, get_loss
from uneven.softmax import softmax_loss

RADII = ("tight", "paper")
NORMS = ("largest", "rms")

DEFAULT_ALPHA = 1e-3
"""alpha where nothing can choose it: every row private, a single row, or a loss without a least value."""

PRIVATE_CLIP = 0.5
"""Norm that gradients of private rows are clipped to, in units of the rows' norm, where nothing else is asked for."""

USUAL_BATCH = 50
"""Batch size that "auto" stands for, where noise is not drawn once per batch."""


def choose_batching(batch_size: int | str, own: bool) -> dict[str, Any]:
    """Keyword arguments of `Problem` for a batch size, a number or ``"auto"``; `own` if "auto" may be one per source.

    >>> choose_batching("auto", own=True), choose_batching(20, own=True)
    ({'batch_size': 50, 'own_batches': True}, {'batch_size': 20})
    """
    if isinstance(batch_size, str):
        if batch_size != "auto":
            raise ValueError(
                f"batch_size must be 'auto' or a whole number of at least 1, got {checks.shown(batch_size)}"
            )
        return {"batch_size": USUAL_BATCH, "own_batches": own}
    return {"batch_size": batch_size}


@dataclass(frozen=True)
class Problem:
    """Minimise f(w) = (alpha/2)‖w‖² + mean ℓ(y·wᵀx) over a ball, rows of norm at most 1.

    For K > 2 classes the loss is the softmax loss of Wx, and w is W, of shape (K, d), row after row.

    Parameters
    ----------
    n_features : int
        Dimension of w: the columns of the rows, times K for K > 2 classes.
    alpha : float
        L2 strength, λ in the paper, and the strong convexity of f.
    batch_size : int
        Rows per step, b in the paper.
    loss : {"logistic", "hinge", "linear"}
        ℓ, a convex function of the margin y·wᵀx; more can be added.
    radius : {"tight", "paper"}
        The ball: ``"paper"`` is ‖w‖ ≤ 1/λ; ``"tight"`` is the smallest ball known to hold the optimum.
    clip : float or None
        Norm that each row's gradient is clipped to: SGD on the loss with capped slope. None disables clipping.
    norms : {"largest", "rms"}
        Which norm of the rows is at most 1: the largest, so that every row lies in the unit ball; or the root of
        the mean square, source by source, so that single rows may be longer. Every bound here is one on E‖g‖² or
        on a norm of a mean, and E‖g‖² ≤ max ℓ'²·E‖x‖², so they hold either way; privacy needs ``"largest"``.
    eigenvalue : float
        Bound on the largest eigenvalue of E xxᵀ; 1 always holds.
    class_weights : tuple of K floats
        What a row of each class counts in the mean, label -1 first; the largest is 1, so that all bounds hold. Ones if
        left out.
    own_batches : bool
        Whether a plan chooses another batch size for a source whose noise is drawn once per batch.
    classes : int
        K; more than two need the logistic loss.
    loss_unit : float
        Largest class weight as it was given: the objective is that of the given weights divided by it.
    alpha_unit : float
        What alpha is multiplied by to be that of rows and class weights as they were given.

    Examples
    --------
    >>> round(Problem(n_features=25, alpha=1e-3, batch_size=50).ball, 1)
    37.2
    """

    n_features: int
    alpha: float
    batch_size: int
    loss: str = "logistic"
    radius: str = "tight"
    clip: float | None = None
    norms: str = "largest"
    eigenvalue: float = 1.0
    own_batches: bool = False
    class_weights: tuple[float, ...] = ()
    classes: int = 2
    loss_unit: float = 1.0
    alpha_unit: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_features", checks.whole("n_features", self.n_features))
        object.__setattr__(self, "alpha", checks.positive("alpha", self.alpha, 1e-18, 1e18))
        object.__setattr__(self, "batch_size", checks.whole("batch_size", self.batch_size))
        object.__setattr__(self, "loss", get_loss(self.loss).name)
        checks.one_of("radius", self.radius, RADII)
        checks.one_of("norms", self.norms, NORMS)
        object.__setattr__(self, "eigenvalue", checks.positive("eigenvalue", self.eigenvalue, 1e-9, 1.0))
        if self.clip is not None:
            object.__setattr__(self, "clip", checks.moderate("clip", self.clip))
        object.__setattr__(self, "classes", checks.whole("classes", self.classes, least=2))
        object.__setattr__(self, "class_weights", _checked_weights(self.class_weights, self.classes))
        for unit in ("loss_unit", "alpha_unit"):
            object.__setattr__(self, unit, checks.positive(unit, getattr(self, unit), 1e-36, 1e36))
        if self.outputs > 1 and not get_loss(self.loss).multinomial:
            raise ValueError(f"loss must be 'logistic' for more than two classes, got {self.loss!r}")
        if self.n_features % self.outputs:
            raise ValueError(f"n_features must be a multiple of the {self.classes} classes, got {self.n_features}")

    @property
    def given_alpha(self) -> float:
        """L2 strength for rows and class weights as they were given."""
        return self.alpha * self.alpha_unit

    @property
    def outputs(self) -> int:
        """Scores of a row: 1 for two classes, else one per class."""
        return 1 if self.classes == 2 else self.classes

    @property
    def columns(self) -> int:
        """Columns of the rows."""
        return self.n_features // self.outputs

    @property
    def loss_function(self) -> Loss:
        """The loss as an object; for more than two classes, only the constants of the softmax loss."""
        return get_loss(self.loss) if self.outputs == 1 else softmax_loss(self.classes)

    def weigh(self, y: Any) -> Any:
        """What rows with labels y count: -1 and 1, or numbers of more than two classes."""
        numbers = np.asarray(y) > 0 if self.classes == 2 else y
        return np.array(self.class_weights)[np.asarray(numbers, dtype=np.int64)]

    @property
    def weighted(self) -> bool:
        """Whether rows of some class count less than others."""
        return min(self.class_weights) < 1.0

    @property
    def gradient_norm(self) -> float:
        """C, the norm of a row's gradient (which one: `norms`): the loss's Lipschitz constant or the clip."""
        lipschitz = self.loss_function.lipschitz
        return lipschitz if self.clip is None else min(self.clip, lipschitz)

    @property
    def row_limit(self) -> float:
        """Norm that a row's gradient is clipped to: C, or the clip alone where single rows may be longer than 1."""
        if self.norms == "largest":
            return self.gradient_norm
        return math.inf if self.clip is None else self.clip

    @property
    def ball(self) -> float:
        """R, the radius of the ball that the weights are projected onto.

        ``"tight"`` is min(C/λ, √(2(ℓ(0) - inf ℓ)/λ)): at the optimum λw* is a mean of rows' gradients, of
        norm at most C; and f(w*) ≤ f(0) leaves at most ℓ(0) - inf ℓ for the L2 term.
        """
        if self.radius == "paper":
            return 1.0 / self.alpha
        loss = self.loss_function
        return min(
            self.gradient_norm / self.alpha,
            math.sqrt(2 * (loss.value_at_zero - loss.infimum) / self.alpha),
        )

    @property
    def signal(self) -> float:
        """S = (C + λR)², the largest squared norm of λw + ∇ℓ: 4 in the paper."""
        return (self.gradient_norm + self.alpha * self.ball) ** 2

    @property
    def smoothness(self) -> float:
        """L, a bound on the curvature of f, max ℓ''·‖E xxᵀ‖ + λ; infinite for a loss with a kink."""
        loss = self.loss_function
        return min(loss.curvature * self.eigenvalue, loss.clipped_curvature(self.gradient_norm)) + self.alpha

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Problem:
        """Problem that `to_dict` described."""
        if not isinstance(values, Mapping):
            raise ValueError(f"problem must be a mapping, got {checks.shown(values)}")
        checks.only_keys("problem", values, tuple(cls.__dataclass_fields__))
        checks.needed_keys("problem", values, ("n_features", "alpha", "batch_size"))
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as keyword arguments of `Problem`; the last only if not at their defaults."""
        usual: dict[str, Any] = {"norms": "largest", "eigenvalue": 1.0, "own_batches": False, "classes": 2}
        usual |= {"loss_unit": 1.0, "alpha_unit": 1.0}
        usual["class_weights"] = (1.0,) * self.classes
        values = {key: value for key, value in self.__dict__.items() if key not in usual or usual[key] != value}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _checked_weights(weights: Any, classes: int) -> tuple[float, ...]:
    if not isinstance(weights, tuple | list) or len(weights) not in (0, classes):
        raise ValueError(f"class_weights must be {classes} numbers, one for each class; got {checks.shown(weights)}")
    checked = tuple(checks.positive("class_weights", one, 1e-12, 1.0) for one in weights) or (1.0,) * classes
    if max(checked) != 1.0:
        raise ValueError(f"class_weights must have 1 as the largest, got {checks.shown(weights)}")
    return checked
