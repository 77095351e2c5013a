"""How far the answer of the rows without privacy is from the truth: V₀, an estimate of E(w₀-w*)(w₀-w*)ᵀ.

w₀ minimises the rows' objective with the L2 strength λ₀ ≥ α, w* that of the whole distribution with α. To first order

    w₀ - w* = H₀⁻¹(e + (λ₀-α)w*),   H₀ = curvature + λ₀I,   E eeᵀ = S/n,

so V₀ = H₀⁻¹(S/n + (λ₀-α)²s²I)H₀⁻¹ with s² = E‖w*‖²/d. Overfitted rows have small residuals, so S and
the curvature are taken at leave-one-out margins (as HC3 does for least squares); S has a few pseudo-rows in columns and
directions that hardly any row has, so that those are not believed to be known; s² is ‖w(α)‖²/d, which errs on the large
side, so that V₀ is taken down where it expects more excess than predicting nothing has; what is said of accuracy goes
by a more likely s² (`sandwich.estimate_size`). λ₀ minimises the leave-one-out
estimate of the objective itself; where even that is no better than predicting the shares of the classes for every row,
the start is to predict those.

However well the rows are classified, half a row more is counted that is not (Krichevsky and Trofimov 1981): a few rows
that a plane separates would otherwise be sure of anything. Its loss is that of the mean size of the margins, on the
wrong side; its slope is 1 and its direction that of the rows, E xxᵀ ≥ 4·curvature, so it adds 2/n of that to S.
Rows of one class tell nothing of what sets it apart from the other: then w₀ is 0 (`belief.know_nothing`). Of a class
with a single row leaving it out leaves nothing: then w₀ predicts the shares of the classes (`belief.know_shares`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from uneven.anchor.belief import FEWEST, Anchor, find_constant, know_little, know_nothing
from uneven.anchor.diagonals import sum_products
from uneven.anchor.length import limit_length
from uneven.anchor.likelihood import describe_margins
from uneven.anchor.rows import WRONG_ROWS, PublicRows, correct, find_copies
from uneven.anchor.sandwich import PSEUDO_ROWS, join_sandwich, weigh_unseen
from uneven.anchor.solver import solve
from uneven.anchor.wide import find_diagonal_covariance, solve_rows
from uneven.draws import make_public_generator
from uneven.losses import LOGISTIC, Loss, get_loss
from uneven.noise import FlippedLabels
from uneven.problem import Problem

Array = NDArray[np.float64]
T = TypeVar("T")
Look = Callable[[float, Array | None], tuple[Array, float, T]]

STRONGEST, STEP = 100.0, 10.0**0.25
"""Largest factor of alpha that is tried for the start, and the ratio of one to the next."""

FEW_STEPS = 3.0
"""Multiple of the likely excess that a start is taken to have where noise is drawn once per batch: steps are few and
long then, and go as far as the start's uncertainty says, which errs on the large side."""


def fit_anchor(
    X: ArrayLike,
    y: ArrayLike,
    alpha: float,
    factors: Array | float = 1.0,
    chosen: float | None = None,
    rates: Array | None = None,
    skews: Array | None = None,
    class_weights: tuple[float, ...] = (1.0, 1.0),
    diagonal: bool = False,
    loss: str | Loss = LOGISTIC,
    longest: float | None = None,
) -> Anchor:
    """Learn from rows without privacy and estimate how far off the answer is.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n,), labels -1 and 1
    alpha : float
        L2 strength of the objective that is to be minimised.
    factors : array of shape (d,) or float
        Factors p of alpha, one a weight: less than 1 for an intercept, except under flips (`solve`).
    chosen : float or None
        L2 strength that cross-validation chose for these rows alone; None if alpha was stated. Where it was chosen, λ₀
        minimises the leave-one-out loss, as it does, instead of the objective.
    rates, skews : arrays of shape (n,) or None
        Each row's label y is flipped at rates + y·skews; None for exact rows, and for one rate of both labels.
    class_weights : (float, float)
        What rows with label -1 and 1 count.
    diagonal : bool
        Keep the diagonals of d×d matrices only: for many columns, and few rows, since n×n ones are made.
    loss : str or Loss
        A smooth one; with flipped labels, one with probabilities.
    longest : float or None
        Given, flipped labels have the likelihood of what was observed, as in `solve`, and the start is at most this
        multiple of the answer (`limit_length`); None for the surrogate.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(-0.5, 0.5, (200, 2)), np.where(rng.random(200) < 0.5, 1, -1)
    >>> fit_anchor(X, y, alpha=0.01).covariance.shape
    (2, 2)
    """
    rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    used, copies = get_loss(loss), find_copies(rows, labels)[1].astype(np.float64)
    flips = Flips.of(labels, rates, skews, class_weights, loss=used, copies=copies, likelihood=longest is not None)
    factors = np.maximum(factors * np.ones(rows.shape[1]), 1.0 if flips.rates.any() else 0.0)
    known, rarer = (alpha, factors, class_weights, used, diagonal), min(np.sum(labels > 0), np.sum(labels < 0))
    if rarer < FEWEST:  # under flips the share of a class is not that of its label
        return know_nothing(rows, *known) if flips.rates.any() else know_little(rows, labels, *known)
    sources = flips.sources(rows, labels)

    def look(strength: float, start: Array | None) -> tuple[Array, float, Array]:
        weights = _solve(sources, strength, factors, start, flips)
        margins = leave_one_out_margins(rows, labels, weights, strength * factors, flips, diagonal)
        return weights, flips.mean_loss(margins), margins

    strength, weights, margins, size = search_strength(alpha, factors, chosen, look)
    both = strength * factors, alpha * factors
    covariance, likely = find_covariance(rows, margins, weights, *both, size, flips, diagonal)
    covariance = told = limit_covariance(covariance, size, factors)
    if flips.likelihood and longest is not None:
        length = limit_length(_problem(strength, factors, flips), sources, factors, weights, longest)
        covariance = doubt_start((1.0 - length) * weights, covariance)
        weights, margins = length * weights, length * margins
    hits = flips.find_hits(labels, margins) if flips.rates.any() else None
    constant = find_constant(rows, labels, factors, class_weights)  # 0 under flips, where no factor is below 1
    same = labels * (rows @ constant)
    if flips.mean_loss(margins) >= flips.mean_loss(same):
        covariance = doubt_start(weights - constant, covariance)
        weights, margins, hits = constant, same, None
    labels, margins = flips.draw_labels(labels, margins)
    counts = np.where(labels > 0, class_weights[1], class_weights[0])
    found = Anchor(
        rows, labels, alpha, strength, weights, covariance, margins, factors, counts, used, hits, flips.rates
    )
    V, likely = limit_excess(covariance, found.hessian, found.nothing, told, likely)
    return replace(found, covariance=V, likely=likely)


def doubt_start(apart: Array, covariance: Array) -> Array:
    """Covariance of the error of a start that is `apart` from w₀: that of w₀, and the difference itself, V₀ + ddᵀ."""
    return covariance + (apart**2 if covariance.ndim == 1 else np.outer(apart, apart))


def search_strength(
    alpha: float, factors: Array, chosen: float | None, look: Look[T], step: float = STEP
) -> tuple[float, Array, T, float]:
    """λ₀ of the least leave-one-out estimate, the weights there, what `look` found beside them, and s².

    It is looked for from alpha, or from what cross-validation chose, to stronger and to weaker ones until the estimate
    rises: far weaker ones can have another minimum, where a few rows are overfitted.

    Parameters
    ----------
    alpha, factors, chosen
        As in `fit_anchor`.
    look : callable
        Given a strength and weights to start at, or None: the answer, its leave-one-out loss, and anything else.
    step : float
        Ratio of one strength to the next.
    """
    most, counted = (STRONGEST * alpha, alpha) if chosen is None else (STRONGEST * max(chosen, alpha), 0.0)

    def judge(strength: float, start: Array | None) -> tuple[float, float, Array, T]:
        weights, loss, found = look(strength, start)
        return loss + counted / 2.0 * float(factors @ weights**2), strength, weights, found

    best = plain = judge(alpha, None)
    if chosen is not None and chosen > alpha:
        best = judge(chosen, plain[2])
    for ratio in (step, 1.0 / step):
        while alpha <= (strength := best[1] * ratio) <= most * (1.0 + 1e-9):
            if (tried := judge(strength, best[2]))[0] >= best[0]:
                break
            best = tried
    return *best[1:], float(factors @ plain[2] ** 2 / factors.sum())


def limit_covariance(covariance: Array, size: float, factors: Array) -> Array:
    """V no larger than a weight can be: (V⁻¹ + D⁻¹)⁻¹, D = 4s²/p, as two independent tellings of one error combine.

    Where nothing curves but the L2 term, V₀ is whatever the pseudo-rows over α² make it; but the error of a weight that
    was left at 0 is that weight.
    """
    if size == 0.0:
        return covariance
    largest = 4.0 * size / factors
    if covariance.ndim == 1:
        return np.asarray(covariance * largest / (covariance + largest))
    limited = largest[:, None] * np.linalg.solve(covariance + np.diag(largest), covariance)
    return np.asarray((limited + limited.T) / 2.0)


def limit_excess(covariance: Array, hessian: Array, nothing: float, told: Array, likely: float) -> tuple[Array, float]:
    """V with an expected excess ½tr(HV) of at most that of predicting nothing, by a factor; and what part is likely.

    `likely` is a part of the excess of `told`, the covariance before the start was doubted: another start is taken only
    where it does better on rows left out. It is a greater part of what is limited.
    """
    excess, before = (max(float((hessian * V).sum()) / 2.0, 1e-300) for V in (covariance, told))
    factor = min(1.0, nothing / excess)
    return factor * covariance, min(1.0, likely * before / (factor * excess))


def limit_steps(covariance: Array, likely: float) -> tuple[Array, float]:
    """V with an expected excess of at most `FEW_STEPS` times the likely one, and what part of that is likely."""
    factor = min(1.0, FEW_STEPS * likely)
    return factor * covariance, likely / factor


@dataclass(frozen=True)
class Flips:
    """Rates σ + y·k at which labels y are flipped, one per row; 0 for exact rows; and what the classes count.

    A row counts c = ((1-2σ)/(1+2|k|))², and its surrogate is u·ℓ(m) - t·m (`rows.correct`).
    """

    rates: Array
    skews: Array
    y: Array
    class_weights: tuple[float, ...] = (1.0, 1.0)
    share: float = 1.0
    """What a row counts on average: other than 1 where these are not all the rows."""
    loss: Loss = LOGISTIC
    copies: Array | float = 1.0
    """How many rows agree with each in everything, itself included: they are left out together, and tell as one."""
    likelihood: bool = False
    """Whether flipped labels have the likelihood of what was observed (`likelihood`), instead of the surrogate."""

    @classmethod
    def of(
        cls, y: Array, rates: Array | None, skews: Array | None, class_weights: tuple[float, ...], **how: Any
    ) -> Flips:
        """Rows with these rates; None for exact rows, which have one likelihood, and for one rate of both labels."""
        none = np.zeros(len(y))
        known = none if rates is None else rates, none if skews is None else skews
        return cls(*known, y, class_weights, **{**how, "likelihood": how["likelihood"] and bool(known[0].any())})

    @classmethod
    def none(cls, y: Array) -> Flips:
        """Exact rows."""
        return cls(np.zeros(len(y)), np.zeros(len(y)), y)

    @property
    def weights(self) -> Array:
        """c·n/Σc: what each row counts, `share` on average; a likelihood counts as it is, n/Σc."""
        c = ((1.0 - 2.0 * self.rates) / (1.0 + 2.0 * np.abs(self.skews))) ** 2
        return np.asarray((1.0 if self.likelihood else c) / c.mean() * self.share)

    @cached_property
    def surrogate(self) -> tuple[Array, Array]:
        """u and t of each row."""
        return correct(self.rates, self.skews, self.y, self.class_weights, self.loss.odd_slope)

    def slopes(self, margins: Array) -> Array:
        """Sizes of the surrogate's slopes."""
        if self.likelihood:
            return -describe_margins(margins, self.rates, self.skews * self.y)[1]
        unit, tilt = self.surrogate
        return np.asarray(unit * -self.loss.slope(margins) + tilt)

    def bends(self, margins: Array) -> Array:
        """Second derivatives of the surrogate, times c; of a likelihood, what is expected of them."""
        if self.likelihood:
            return self.weights * describe_margins(margins, self.rates, self.skews * self.y)[2]
        return np.asarray(self.weights * self.surrogate[0] * self.loss.curvature_at(margins))

    def mean_loss(self, margins: Array) -> float:
        """Mean loss of exact rows; under flips, minus the mean log likelihood of the labels as observed, by weight.

        With half a row more on the wrong side.
        """
        wrong = float(self.loss.value(np.array([-np.abs(margins).mean()]))[0])
        return (self._sum_losses(margins) + WRONG_ROWS * wrong) / (len(margins) + WRONG_ROWS)

    def _sum_losses(self, margins: Array) -> float:
        if not self.rates.any():
            return float(np.sum(self.weights * self.surrogate[0] * self.loss.value(margins)))
        seen = self.rates - self.y * self.skews + (1.0 - 2.0 * self.rates) * expit(self._as_they_are(margins))
        least = np.finfo(np.float64).tiny  # of a row that is never flipped it may round to 0
        return float(np.sum(self.weights * -np.log(np.maximum(seen, least))))

    def _as_they_are(self, margins: Array) -> Array:
        """Margins without what class weights add to them."""
        return np.asarray(margins - self.y * np.log(self.class_weights[1] / self.class_weights[0]))

    def sources(self, X: Array, y: Array) -> list[PublicRows]:
        """The rows, one source for each pair of rates."""
        pairs = np.column_stack([self.rates, self.skews])
        kinds = [(a + k, a - k, (pairs == (a, k)).all(axis=1)) for a, k in np.unique(pairs, axis=0).tolist()]
        return [PublicRows.from_arrays(X[at], y[at], FlippedLabels((a, b)) if a + b else None) for a, b, at in kinds]

    def find_hits(self, y: Array, margins: Array) -> Array:
        """Whether each row is classified correctly, without bias.

        With a label p that is predicted, y agrees with probability 1 - σ - pk where p is right, else σ - pk.
        """
        predicted = y * np.sign(margins)
        agrees = (np.sign(margins) + 1.0) / 2.0
        return np.asarray((agrees - self.rates + predicted * self.skews) / (1.0 - 2.0 * self.rates))

    def draw_labels(self, y: Array, margins: Array) -> tuple[Array, Array]:
        """Labels as they may have been before the flips, and their margins: drawn given the labels observed.

        Slopes and the share of correct classifications are then those of exact rows.
        """
        if not self.rates.any():
            return y, margins
        true = self._as_they_are(margins)
        kept = (1.0 - self.rates - y * self.skews) * expit(true)
        kept = kept / (kept + (self.rates - y * self.skews) * expit(-true))
        signs = np.where(make_public_generator("labels drawn again").random(len(y)) < kept, 1.0, -1.0)
        return y * signs, margins * signs


def leave_one_out_margins(
    X: Array, y: Array, weights: Array, strength: Array | float, flips: Flips | None = None, wide: bool = False
) -> Array:
    """Margin of each row under the weights that the other rows give, by one Newton step from the common ones.

    m₍ᵢ₎ = mᵢ - cᵢsᵢgᵢ/(1 - bᵢgᵢ), gᵢ = xᵢᵀH₀⁻¹xᵢ/n; the slope sᵢ = |ℓ'(mᵢ)|, the bend bᵢ = ℓ''(mᵢ) and cᵢ = 1 for
    exact rows. `wide` gives the same from n×n matrices.
    """
    margins = y * (X @ weights)
    flips = Flips.none(y) if flips is None else flips
    bends = flips.bends(margins)
    if wide:
        solved = solve_rows(X, bends, strength * np.ones(X.shape[1])).T
    else:
        H = sum_products(X, bends) / len(y) + strength * np.eye(X.shape[1])
        solved = X @ np.linalg.inv(H)
    return leave_out(margins, np.einsum("ij,ij->i", X, solved) / len(y), flips)


def leave_out(margins: Array, reach: Array, flips: Flips) -> Array:
    """Margins without each row's own part in them; `reach` is g."""
    reach = flips.copies * reach
    taken = flips.weights * flips.slopes(margins) * reach / (1.0 - flips.bends(margins) * reach)
    return np.asarray(margins - taken)


def find_covariance(
    X: Array,
    margins: Array,
    weights: Array,
    strength: Array | float,
    alpha: Array | float,
    size: float,
    flips: Flips | None = None,
    wide: bool = False,
) -> tuple[Array, float]:
    """V₀ = H₀⁻¹(S/n + (λ₀-α)²s²I)H₀⁻¹ at the leave-one-out margins, and what part of its excess is likely.

    Parameters
    ----------
    X : array of shape (n, d)
    margins : array of shape (n,)
    weights : array of shape (d,)
        w₀.
    strength, alpha : float or array of shape (d,)
        λ₀ and α, of all weights or of each.
    flips : Flips or None
        For rows with flipped labels: S is that of the surrogate's gradients, by weight.
    size : float
        s², or more.
    wide : bool
        Give the diagonal alone, from n×n matrices, scaled to the expected excess (`wide.find_diagonal_covariance`).
    """
    n, d = X.shape
    flips = Flips.none(np.ones(n)) if flips is None else flips
    slopes = flips.weights * flips.slopes(margins) * np.sqrt(flips.copies)
    gradients = X * slopes[:, None]
    squares = gradients**2
    moments = np.stack([squares.mean(axis=0), np.square(squares).mean(axis=0)])
    if wide:
        bends, every = flips.bends(margins), np.ones(d)
        energies = slopes**2 + WRONG_ROWS * 4.0 * bends / n
        pseudo = weigh_unseen(moments, n) * moments[0].mean() / (n * (n + PSEUDO_ROWS))
        added = pseudo + (strength - alpha) ** 2 * size * every
        return find_diagonal_covariance(X, bends, energies**0.5, strength * every, added, alpha * every), 1.0
    S, H = gradients.T @ gradients / n, sum_products(X, flips.bends(margins)) / n
    return join_sandwich(S, moments[1], H, n, weights, strength, alpha, size)


def _solve(sources: list[PublicRows], strength: float, factors: Array, start: Array | None, flips: Flips) -> Array:
    return solve(_problem(strength, factors, flips), sources, factors, start, likelihood=flips.likelihood).weights


def _problem(strength: float, factors: Array, flips: Flips) -> Problem:
    return Problem(len(factors), strength, batch_size=1, loss=flips.loss.name, class_weights=flips.class_weights)
