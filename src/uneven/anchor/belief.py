"""What rows without privacy say of the weights: where to start, how sure that is, and what is left where it is not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.anchor.diagonals import add_diagonal, sum_products
from uneven.draws import make_public_generator
from uneven.losses import LOGISTIC, Loss

Array = NDArray[np.float64]

FEWEST = 2
"""Rows of each class from which something is known of what sets them apart."""

ROWS_PER_FEATURE, ROWS_PER_STEP = 1.5, 3.0
"""Rows for each feature from which the curvature is believed: to fresh rows, a matrix made from fewer looks different;
and from which one long step is built on it: a direction that seems flat would be followed far too far."""


def count_effective(parts: Array) -> Array:
    """(Σa)²/Σa² of each column: its effective sample size.

    >>> count_effective(np.array([[1.0, 5.0], [1.0, 0.0]])).tolist()
    [2.0, 1.0]
    """
    return np.asarray(parts.sum(axis=0) ** 2 / np.maximum((parts**2).sum(axis=0), 1e-300))


class CurvatureBelief:
    """How reliable a curvature estimate is, by the number of rows behind it."""

    @property
    def rows_per_feature(self) -> float:
        """Rows that tell the curvature, for each feature."""
        raise NotImplementedError

    @property
    def knows_curvature(self) -> bool:
        """Whether the rows are enough to build on their curvature, to shape a release."""
        return self.rows_per_feature >= ROWS_PER_FEATURE

    @property
    def takes_long_step(self) -> bool:
        """Whether the rows are enough for one long step by their curvature."""
        return self.rows_per_feature >= ROWS_PER_STEP


@dataclass(frozen=True)
class Anchor(CurvatureBelief):
    """What rows without privacy say: where to start, how sure that is, and how the objective curves.

    Attributes
    ----------
    X, y : the rows, shape (n, d), and their labels -1 and 1
    alpha : float
        L2 strength of the objective.
    strength : float
        L2 strength λ₀ ≥ alpha that gave the start.
    weights : array of shape (d,)
        w₀.
    covariance : array of shape (d, d), or (d,) for its diagonal alone
        V₀.
    margins : array of shape (n,)
        Leave-one-out margins of the rows.
    factors : array of shape (d,) or float
        Factors p of alpha, one a weight.
    counts : array of shape (n,) or float
        What each row counts, where classes count differently.
    loss : Loss
        Smooth.
    hits : array of shape (n,) or None
        Whether each row, left out, is classified correctly: 1 or 0, and without bias where its label may be flipped.
        None where the labels are exact.
    rates : array of shape (n,) or float
        Rates at which the labels were flipped.
    likely : float
        Part of the start's expected excess that is likely: V₀ errs on the large side.
    unlimited : array or None
        V₀ before it was taken down for steps that are few (`limit_steps`); None where it was not.
    alone : Anchor or None
        With fewer than `FEWEST` rows of a class, what they say without any private row: the shares of the classes
        (`know_shares`). None where it is what minimises their objective.
    """

    X: Array
    y: Array
    alpha: float
    strength: float
    weights: Array
    covariance: Array
    margins: Array
    factors: Array | float = 1.0
    counts: Array | float = 1.0
    loss: Loss = LOGISTIC
    hits: Array | None = None
    rates: Array | float = 0.0
    likely: float = 1.0
    unlimited: Array | None = None
    alone: Anchor | None = None

    @property
    def ridge(self) -> Array:
        """α·p, the L2 strength of each weight."""
        return self.alpha * self.factors * np.ones(len(self.weights))

    @property
    def rows_per_feature(self) -> float:
        """Rows that tell the curvature, for each feature; 0 if they tell nothing of the weights.

        Rows count as far as their loss curves, (Σb)²/Σb² of the bends b: of rows that a plane separates a few near it
        decide. None does where the weights are 0: the curvature changes on the way to others.
        """
        rows = count_effective(self.bends[:, None])[0]
        return float(rows / len(self.weights)) if self.weights.any() else 0.0

    @property
    def nothing(self) -> float:
        """Upper bound on the excess of zero weights: mean c·ℓ(0), c the row's weight."""
        return float(np.mean(self.counts) * self.loss.value(np.zeros(1))[0])

    @property
    def diagonal(self) -> bool:
        """Whether of all d×d matrices only the diagonals are kept."""
        return self.covariance.ndim == 1

    @property
    def losses(self) -> Array:
        """Leave-one-out loss of each row."""
        return np.asarray(self.counts * np.logaddexp(0.0, -self.margins))

    @property
    def log_loss(self) -> float:
        """Mean leave-one-out loss, each row counted as one; scores of a loss without probabilities are scaled first."""
        margins = self.margins
        if not self.loss.probabilistic:
            tried = np.geomspace(1e-3, 1e3, 61) / max(float(np.abs(margins).mean()), 1e-300)
            return float(np.logaddexp(0.0, -tried[:, None] * margins).mean(axis=1).min())
        return float(np.logaddexp(0.0, -margins).mean())

    @property
    def tested(self) -> tuple[float, float]:
        """Share of the rows that are classified correctly when left out, and the effective number of exact rows.

        A label that is flipped at rate σ is the predicted one with probability a = q(1-σ) + (1-q)σ, q the share of
        correct ones. So a row counts (1-2σ)², and its hit has variance a(1-a)/(1-2σ)² instead of q(1-q).
        """
        hits = (np.sign(self.margins) + 1.0) / 2.0 if self.hits is None else self.hits  # a margin of 0 is a guess
        rates = self.rates * np.ones(len(hits))
        counts = (1.0 - 2.0 * rates) ** 2
        share = float(np.clip(counts @ hits / counts.sum(), 0.0, 1.0))
        guess = (share * counts.sum() + 2.0) / (counts.sum() + 4.0)  # Agresti and Coull's, never 0 or 1
        seen = guess * (1.0 - rates) + (1.0 - guess) * rates
        return share, float(guess * (1.0 - guess) * counts.sum() ** 2 / (counts @ (seen * (1.0 - seen))))

    @property
    def shares(self) -> Array:
        """Share of each class, with half a row more of each."""
        return np.array([np.sum(self.y == sign) + 0.5 for sign in (-1.0, 1.0)]) / (len(self.y) + 1.0)

    @cached_property
    def slopes(self) -> Array:
        """|ℓ'| at the leave-one-out margins: lengths of the rows' gradients over ‖x‖."""
        return np.asarray(self.counts * -self.loss.slope(self.margins))

    @cached_property
    def bends(self) -> Array:
        """ℓ'' at the leave-one-out margins."""
        return np.asarray(self.counts * self.loss.curvature_at(self.margins))

    def curvature(self, kept: Any = slice(None)) -> Array:
        """Share of the rows `kept` in the Hessian of the mean loss, at leave-one-out margins, without the L2 term.

        Rows that are too few to know it are blended with equal curvature in every direction, since others will curve
        where they do not.
        """
        rows, bends, (n, d) = self.X[kept], self.bends[kept], self.X.shape
        if self.diagonal:
            return np.asarray((rows**2).T @ bends / n)
        own, known = np.asarray(sum_products(rows, bends) / n), min(1.0, n / (ROWS_PER_FEATURE * d))
        return known * own + (1.0 - known) * np.trace(own) / d * np.eye(d) if known < 1.0 else own

    def moved(self, weights: Array, covariance: Array, unlimited: Array | None = None) -> Anchor:
        """The same rows with another start."""
        return replace(self, weights=weights, covariance=covariance, unlimited=unlimited, alone=None)

    @cached_property
    def hessian(self) -> Array:
        """H = curvature + α·diag(p)."""
        return add_diagonal(self.curvature(), self.ridge)


def know_little(X: Array, y: Array, *known: Any) -> Anchor:
    """Anchor of rows with fewer than `FEWEST` of a class; with none they may be of one class by design."""
    shares = know_shares(X, y, *known)
    return replace(shares if abs(y.sum()) < len(y) else know_nothing(X, *known), alone=shares)


def know_nothing(
    X: Array, alpha: float, factors: Array, class_weights: tuple[float, ...], loss: Loss, diagonal: bool = False
) -> Anchor:
    """Anchor of rows whose labels carry no information: they start at 0, and only the rows themselves are used, for H.

    Labels are redrawn, both classes equally likely.
    """
    labels = np.where(make_public_generator("labels of one class").random(len(X)) < 0.5, 1.0, -1.0)
    return _start_at(np.zeros(X.shape[1]), X, labels, alpha, factors, class_weights, loss, diagonal)


def know_shares(
    X: Array,
    y: Array,
    alpha: float,
    factors: Array,
    class_weights: tuple[float, ...],
    loss: Loss,
    diagonal: bool = False,
) -> Anchor:
    """Anchor of rows that tell how many there are of each class, and nothing of what sets the classes apart."""
    start = find_constant(X, y, factors, class_weights)
    return _start_at(start, X, y, alpha, factors, class_weights, loss, diagonal)


def find_constant(X: Array, y: Array, factors: Array, class_weights: tuple[float, ...]) -> Array:
    """Weights that predict the same for every row: the log-odds of the classes, with half a row more of each.

    They are on the intercept's feature, the last one if its factor of alpha is below 1; without one they are 0.
    """
    start = np.zeros(X.shape[1])
    if factors[-1] < 1.0:
        negative, positive = (np.sum(y == sign) + 0.5 for sign in (-1.0, 1.0))
        start[-1] = np.log(class_weights[1] * positive / (class_weights[0] * negative)) / X[0, -1]
    return start


def _start_at(
    weights: Array,
    X: Array,
    y: Array,
    alpha: float,
    factors: Array,
    class_weights: tuple[float, ...],
    loss: Loss,
    diagonal: bool,
) -> Anchor:
    """Anchor at weights that predict the same for every row.

    w* is anywhere within the reach of what it can gain: these weights have an excess of at most their loss f, so
    ½E(w*-w)ᵀH(w*-w) = f with V₀ = s²I gives s² = 2f/tr H.
    """
    counts = np.where(y > 0, class_weights[1], class_weights[0])
    margins, d = y * (X @ weights), X.shape[1]
    every = np.zeros(d) if diagonal else np.zeros((d, d))
    start = Anchor(X, y, alpha, alpha, weights, every, margins, factors, counts, loss)
    trace = float(start.hessian.sum() if diagonal else np.trace(start.hessian))
    lost = float(np.mean(counts * loss.value(margins)))
    return start.moved(weights, add_diagonal(every, np.full(d, 2.0 * lost / trace)))
