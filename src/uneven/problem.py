"""The learning problem: what every noise, plan and run must agree on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from uneven import checks
from uneven.losses import Loss, get_loss

RADII = ("tight", "paper")


@dataclass(frozen=True)
class Problem:
    """Minimise f(w) = (alpha/2)‖w‖² + mean ℓ(y·wᵀx) over a ball, rows in the unit ball.

    Parameters
    ----------
    n_features : int
        Dimension d of w.
    alpha : float
        L2 strength, λ in the paper, and the strong convexity of f.
    batch_size : int
        Rows per step, b in the paper.
    loss : {"logistic", "hinge", "linear"}
    radius : {"tight", "paper"}
        The ball: ``"paper"`` is ‖w‖ ≤ 1/λ; ``"tight"`` is the smallest ball known to hold the optimum.
    clip : float or None
        Shrink each row's gradient to this norm: SGD on the loss with capped slope.

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_features", checks.whole("n_features", self.n_features))
        object.__setattr__(self, "alpha", checks.positive("alpha", self.alpha, 1e-18, 1e18))
        object.__setattr__(self, "batch_size", checks.whole("batch_size", self.batch_size))
        object.__setattr__(self, "loss", get_loss(self.loss).name)
        checks.one_of("radius", self.radius, RADII)
        if self.clip is not None:
            object.__setattr__(self, "clip", checks.positive("clip", self.clip, 1e-6, 1e6))

    @property
    def loss_function(self) -> Loss:
        """The loss itself."""
        return get_loss(self.loss)

    @property
    def gradient_norm(self) -> float:
        """C, the largest norm of a row's gradient: the loss's Lipschitz constant or the clip."""
        lipschitz = self.loss_function.lipschitz
        return lipschitz if self.clip is None else min(self.clip, lipschitz)

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
        """L, the largest curvature of f; infinite for a loss with a kink."""
        return self.loss_function.clipped_curvature(self.gradient_norm) + self.alpha

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as keyword arguments of `Problem`."""
        return dict(self.__dict__)
