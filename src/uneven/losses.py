"""Losses of the margin m = y·wᵀx: all their mathematics, and the constants the theory needs.

All are convex and non-increasing in the margin, so a row's gradient is ``slope(m)·y·x`` with
``-lipschitz ≤ slope ≤ 0``. Shrinking that gradient to norm C is the same as capping the slope at
``-C/‖x‖``, and the capped slope is exactly the slope of another convex loss: the same one above the
margin where the cap takes hold, and its tangent below. `cap` asks for that loss.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, expit

from uneven import checks

Array = NDArray[np.float64]

Terms = tuple[float, Array, Array]
"""Sum of a loss over rows; its slope and its second derivative at each margin."""

CLOSE = 1e-6
"""Accepted distance from w*, relative to its norm."""

NEWTON_STEPS = 200


def newton(loss: Loss, X: Array, y: Array, cap: Array, alpha: float) -> Array:
    """w* of a smooth loss by Newton's method with step halving.

    f is λ-strongly convex, so ‖w - w*‖ ≤ ‖∇f(w)‖/λ bounds the distance that is left.
    """
    signed = X * y[:, None]

    def value(w: Array) -> float:
        return float(loss.value(signed @ w, cap).mean() + alpha / 2.0 * (w @ w))

    w = np.zeros(X.shape[1])
    for _ in range(NEWTON_STEPS):
        margins = signed @ w
        gradient = alpha * w + signed.T @ loss.slope(margins, cap) / len(y)
        if np.linalg.norm(gradient) <= alpha * CLOSE * 1e-3 * max(1.0, float(np.linalg.norm(w))):
            return w
        hessian = (X.T * (loss.curvature_at(margins, cap) / len(y))) @ X + alpha * np.eye(len(w))
        step = np.linalg.solve(hessian, gradient)
        before = value(w)
        w = next((w - s for s in (step / 2.0**k for k in range(40)) if value(w - s) < before), w)
        if value(w) >= before:  # no further digit to gain
            break
    if np.linalg.norm(gradient) > alpha * CLOSE * max(1.0, float(np.linalg.norm(w))):
        raise _not_converged(alpha)
    return w


def dual_descent(loss: Loss, X: Array, y: Array, cap: Array, alpha: float) -> Array:
    """w* of the hinge by liblinear's dual coordinate descent; the cap of a row is its weight."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    C = 1.0 / (alpha * len(y))
    solver = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-5, max_iter=200_000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            solver.fit(X, y, sample_weight=np.minimum(cap, loss.lipschitz))
        except ConvergenceWarning:
            raise _not_converged(alpha) from None
    return np.asarray(solver.coef_[0], dtype=np.float64)


def closed_form(loss: Loss, X: Array, y: Array, cap: Array, alpha: float) -> Array:
    """w* = -mean(slope·y·x)/λ of a loss whose slope does not depend on w."""
    return np.asarray(-(loss.slope(np.zeros(len(y)), cap) * y) @ X / (alpha * len(y)))


def _not_converged(alpha: float) -> ValueError:
    return ValueError(f"alpha must be larger for the optimum to be found in time, got {alpha:g}")


@dataclass(frozen=True)
class Loss:
    """A convex, non-increasing loss ℓ of the margin.

    Attributes
    ----------
    name : str
    value_at_zero : float
        ℓ(0), the cost of weights of zero.
    lipschitz : float
        The largest slope in magnitude; rows have norm at most 1, so it also bounds their gradients.
    curvature : float
        The largest second derivative in the margin; infinite for a loss with a kink.
    infimum : float
        The least value it can take; minus infinity for the linear loss.
    capped_value : callable (m, cap) -> array
        The loss whose slope is at least -cap, with cap at most `lipschitz`.
    plain_slope, second_derivative : callables (m) -> array
        ℓ'(m) and ℓ''(m), without a cap.
    scalar_slope : callable (float) -> float, or None
        ℓ'(m) as plain Python that Numba can compile (`engine.kernels` does). None: the reference loop runs it.
    minimise : callable (loss, X, y, cap, alpha) -> array of shape (d,)
        Minimiser of (λ/2)‖w‖² + mean ℓ(y·wᵀx): `newton`, `dual_descent` or `closed_form`.
    curvature_below : callable (clip) -> float, or None
        What `clipped_curvature` returns; None for `curvature` itself.
    fast_sum : callable (m) -> array, or None
        What `summed` returns, where that is faster than adding up values.
    fast_terms : callable (m, width) -> (float, array, array), or None
        What `terms` returns, where the loss has a kink to smooth or a faster way.
    probabilistic : bool
        Whether the score is the log-odds of a class, P(label) = 1/(1 + e^{-m}).
    multinomial : bool
        Whether the softmax loss is its form for more than two classes.
    odd_slope : float or None
        The c of ℓ(-m) = ℓ(m) + c·m, if there is one: then labels flipped at known rates have a convex surrogate.
    """

    name: str
    value_at_zero: float
    lipschitz: float
    curvature: float
    infimum: float
    capped_value: Callable[[Array, Array], Any] = field(repr=False, compare=False)
    plain_slope: Callable[[Array], Any] = field(repr=False, compare=False)
    second_derivative: Callable[[Array], Any] = field(repr=False, compare=False)
    scalar_slope: Callable[[float], float] | None = field(default=None, repr=False, compare=False)
    minimise: Callable[[Loss, Array, Array, Array, float], Array] = field(default=newton, repr=False, compare=False)
    curvature_below: Callable[[float], float] | None = field(default=None, repr=False, compare=False)
    fast_sum: Callable[[Array], Array] | None = field(default=None, repr=False, compare=False)
    fast_terms: Callable[[Array, float], Terms] | None = field(default=None, repr=False, compare=False)
    probabilistic: bool = False
    multinomial: bool = False
    odd_slope: float | None = None

    @property
    def smooth(self) -> bool:
        """Whether the slope is continuous, which Theorem C needs."""
        return math.isfinite(self.curvature)

    @property
    def bounded(self) -> bool:
        """Whether it has a lower bound: without one, a weight without an L2 term has no best value."""
        return math.isfinite(self.infimum)

    def clipped_curvature(self, clip: float) -> float:
        """Largest curvature in w of a row's loss, rows in the unit ball and gradients shrunk to norm `clip`.

        >>> LOGISTIC.clipped_curvature(0.25)
        0.1875
        """
        return self.curvature if self.curvature_below is None else self.curvature_below(clip)

    def value(self, margin: ArrayLike, cap: ArrayLike = math.inf) -> Array:
        """Loss at each margin; with `cap`, of the loss whose slope is at least ``-cap``.

        >>> LOGISTIC.value([0.0, -1000.0]).round(4).tolist()
        [0.6931, 1000.0]
        >>> LOGISTIC.value(-1000.0, cap=0.5).round(4).item()
        500.6931
        """
        cap = np.minimum(np.asarray(cap, dtype=np.float64), self.lipschitz)
        return np.asarray(self.capped_value(np.asarray(margin, dtype=np.float64), cap))

    def slope(self, margin: ArrayLike, cap: ArrayLike = math.inf) -> Array:
        """Derivative in the margin, never below ``-cap``.

        >>> LOGISTIC.slope([0.0, -1000.0], cap=0.75).tolist()
        [-0.5, -0.75]
        """
        m = np.asarray(margin, dtype=np.float64)
        return np.asarray(np.maximum(self.plain_slope(m), -np.asarray(cap, dtype=np.float64)))

    def curvature_at(self, margin: ArrayLike, cap: ArrayLike = math.inf) -> Array:
        """Second derivative in the margin; 0 where the slope is capped.

        >>> LOGISTIC.curvature_at([0.0, -1000.0], cap=0.75).tolist()
        [0.25, 0.0]
        """
        m = np.asarray(margin, dtype=np.float64)
        return np.where(-self.plain_slope(m) < cap, self.second_derivative(m), 0.0)

    def summed(self, margins: Array) -> Array:
        """Sum of the loss over the first axis of `margins`, which may be overwritten.

        >>> LOGISTIC.summed(np.zeros((1000, 1))).round(4).tolist()
        [693.1472]
        """
        return np.asarray(self.value(margins).sum(axis=0)) if self.fast_sum is None else self.fast_sum(margins)

    def terms(self, margins: Array, width: float) -> Terms:
        """Sum of the loss, slope and second derivative at each margin; a kink is rounded off over `width`.

        >>> [part.tolist() for part in LOGISTIC.terms(np.zeros(1), width=0.1)[1:]]
        [[-0.5], [0.25]]
        """
        if self.fast_terms is not None:
            return self.fast_terms(margins, width)
        return float(self.value(margins).sum()), self.slope(margins), self.curvature_at(margins)


def _capped_logistic(m: Array, cap: Array) -> Array:
    """Logistic loss, and its tangent H(cap) - cap·m where the slope would be steeper than the cap.

    log(1 + e^{-m}) is the largest of H(q) - q·m over q in [0, 1], H the entropy, attained at q = -slope;
    a cap only shortens the interval.
    """
    tangent = entr(cap) + entr(1.0 - cap) - cap * m
    return np.where(expit(-m) > cap, tangent, np.logaddexp(0.0, -m))


def _summed_logistic(m: Array) -> Array:
    """Σ max(-m, 0) + Σ log(1 + e^{-|m|}); the second sum is the log of a product: one logarithm for many rows."""
    linear = np.minimum(m, 0.0).sum(axis=0)
    np.abs(m, out=m)
    np.negative(m, out=m)
    np.exp(m, out=m)
    m += 1.0
    factors = 512  # each at most 2: a float can hold their product
    products = np.multiply.reduceat(m, np.arange(0, len(m), factors), axis=0)
    return np.asarray(np.log(products).sum(axis=0) - linear)


def _logistic_terms(m: Array, _: float) -> Terms:
    """With q = 1/(1 + e^m): the slope is -q and the second derivative q(1 - q), all from one exponential."""
    e = np.exp(-np.abs(m))
    q = np.where(m > 0.0, e, 1.0) / (1.0 + e)
    return float(np.log1p(e).sum() - np.minimum(m, 0.0).sum()), -q, e / (1.0 + e) ** 2


def _hinge_terms(m: Array, width: float) -> Terms:
    """A parabola of that width joins the two straight parts, so that Newton's method has a curvature to use."""
    gap = np.maximum(1.0 - m, 0.0)
    bent = np.minimum(gap, width)
    return float((bent * (gap - bent / 2.0)).sum()) / width, -bent / width, ((gap > 0) & (gap <= width)) / width


def logistic_slope(m: float) -> float:
    """-1/(1 + e^m), for the compiled loops."""
    return -1.0 / (1.0 + np.exp(m))  # type: ignore[no-any-return]


def hinge_slope(m: float) -> float:
    """-1 below the kink at 1, for the compiled loops."""
    return -1.0 if m < 1.0 else 0.0


def linear_slope(m: float) -> float:  # noqa: ARG001
    """-1, for the compiled loops."""
    return -1.0


LOGISTIC = Loss(
    "logistic",
    value_at_zero=math.log(2),
    lipschitz=1.0,
    curvature=0.25,
    infimum=0.0,
    capped_value=_capped_logistic,
    plain_slope=lambda m: -expit(-m),
    second_derivative=lambda m: expit(m) * expit(-m),
    scalar_slope=logistic_slope,
    # A slope -q has the curvature q(1 - q), and q ≤ C/‖x‖, so ‖x‖²q(1 - q) is at most C(1 - C) for C < ½.
    curvature_below=lambda clip: clip * (1.0 - clip) if clip < 0.5 else 0.25,
    fast_sum=_summed_logistic,
    fast_terms=_logistic_terms,
    probabilistic=True,
    multinomial=True,
    odd_slope=1.0,
)
"""ℓ(m) = log(1 + e^{-m})"""

HINGE = Loss(
    "hinge",
    value_at_zero=1.0,
    lipschitz=1.0,
    curvature=math.inf,
    infimum=0.0,
    capped_value=lambda m, cap: cap * np.maximum(0.0, 1.0 - m),
    plain_slope=lambda m: np.where(m < 1.0, -1.0, 0.0),
    second_derivative=np.zeros_like,
    scalar_slope=hinge_slope,
    minimise=dual_descent,
    fast_terms=_hinge_terms,
)
"""ℓ(m) = max(0, 1 - m)"""

LINEAR = Loss(
    "linear",
    value_at_zero=0.0,
    lipschitz=1.0,
    curvature=0.0,
    infimum=-math.inf,
    capped_value=lambda m, cap: -cap * m,
    plain_slope=lambda m: np.full_like(m, -1.0),
    second_derivative=np.zeros_like,
    scalar_slope=linear_slope,
    minimise=closed_form,
    odd_slope=2.0,
)
"""ℓ(m) = -m, the example of the paper's Section 3."""

LOSSES: dict[str, Loss] = {loss.name: loss for loss in (LOGISTIC, HINGE, LINEAR)}


def get_loss(loss: str | Loss) -> Loss:
    """Return the loss of that name.

    >>> get_loss("hinge").lipschitz
    1.0
    >>> get_loss("squared")
    Traceback (most recent call last):
    ValueError: loss must be one of 'logistic', 'hinge', 'linear'; got 'squared'
    """
    return loss if isinstance(loss, Loss) else LOSSES[checks.one_of("loss", loss, LOSSES)]
