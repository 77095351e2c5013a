"""The anchor of more than two classes: what public rows say of the softmax weights W, as one vector of K·d numbers.

Everything is as for two classes (`uncertainty`, `shape`), with matrices of dK dimensions: V₀ = H₀⁻¹(S/n +
(λ₀-α)²s²I)H₀⁻¹ at leave-one-out scores. Private gradients are released as they are or longer by a public factor f, and
turned to where the curvature of the clipped gradients is diagonal: noise is isotropic, so it stays what it is. Of a row
whose gradient a is clipped, the part s(B - ½(ââᵀB + Bââᵀ)) is left of its curvature B = diag(p) - ppᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from uneven.anchor.belief import FEWEST, Anchor, CurvatureBelief, count_effective
from uneven.anchor.clock import Coordinates
from uneven.anchor.length import limit_length
from uneven.anchor.likelihood import describe_scores
from uneven.anchor.multinomial import sum_hessian
from uneven.anchor.rows import WRONG_ROWS, PublicRows
from uneven.anchor.sandwich import join_sandwich
from uneven.anchor.shape import CLIP, QUANTILES, describe_clipping, keep_hessian, list_coordinates
from uneven.anchor.solver import solve
from uneven.anchor.uncertainty import STEP, doubt_start, limit_covariance, limit_excess, search_strength
from uneven.draws import make_public_generator
from uneven.problem import Problem
from uneven.softmax import loss_values

Array = NDArray[np.float64]

MOST_CLASS_ROWS = 5_000
"""Public rows that the uncertainty is computed from: their K·d·K·d matrices take longer than those of two classes."""


@dataclass(frozen=True)
class ClassAnchor(CurvatureBelief):
    """Anchor of more than two classes, from the public rows; see `uncertainty.Anchor`.

    Attributes
    ----------
    X : array of shape (n, d)
    labels : array of shape (n,)
        Numbers of classes; of flipped ones, drawn given what was observed.
    alpha, strength : float
    weights, covariance : arrays of shape (K·d,) and (K·d, K·d)
    scores : array of shape (n, K)
        Leave-one-out scores of the rows.
    ridge : array of shape (K·d,)
        L2 strength of each weight.
    counts : array of shape (n,)
        What each row counts, by its class.
    likely : float
        Part of the start's expected excess that is likely.
    unlimited : array or None
        V₀ before it was taken down for steps that are few (`limit_steps`); None where it was not.
    alone : ClassAnchor or None
    """

    X: Array
    labels: NDArray[np.int64]
    alpha: float
    strength: float
    weights: Array
    covariance: Array
    scores: Array
    ridge: Array
    counts: Array
    likely: float = 1.0
    unlimited: Array | None = None
    alone: ClassAnchor | None = None

    @property
    def rows_per_feature(self) -> float:
        """Rows that tell the curvature, for each feature and class; 0 if they tell nothing of the weights."""
        return len(self.X) / (self.X.shape[1] * (self.scores.shape[1] - 1)) if self.weights.any() else 0.0

    @property
    def nothing(self) -> float:
        """Excess that weights of zero have at most: mean c·log K, c what a row counts."""
        return float(self.counts.mean() * np.log(self.scores.shape[1]))

    @property
    def losses(self) -> Array:
        """Leave-one-out loss of each row."""
        return np.asarray(self.counts * loss_values(self.scores, self.labels))

    @property
    def tested(self) -> tuple[float, float]:
        """Share of the rows that are classified correctly when left out, and their number."""
        return float((self.scores.argmax(axis=1) == self.labels).mean()), float(len(self.labels))

    @property
    def shares(self) -> Array:
        """Share of each class, with half a row more of each."""
        numbers = np.bincount(self.labels, minlength=self.scores.shape[1]) + 0.5
        return np.asarray(numbers / numbers.sum())

    @property
    def log_loss(self) -> float:
        """Mean leave-one-out loss, each row counted as one."""
        return float(loss_values(self.scores, self.labels).mean())

    @cached_property
    def slopes(self) -> Array:
        """a = p - e_y at the leave-one-out scores, shape (n, K)."""
        return np.asarray(softmax(self.scores, axis=1) - np.eye(self.scores.shape[1])[self.labels])

    @cached_property
    def lengths(self) -> Array:
        """‖a‖‖x‖, the length of each row's gradient before it is multiplied by what the row counts."""
        return np.asarray(np.linalg.norm(self.slopes, axis=1) * np.linalg.norm(self.X, axis=1))

    @cached_property
    def hessian(self) -> Array:
        """H, the L2 term included."""
        return sum_hessian(self.X, softmax(self.scores, axis=1), self.counts) / len(self.X) + np.diag(self.ridge)

    def moved(self, weights: Array, covariance: Array, unlimited: Array | None = None) -> ClassAnchor:
        """The same rows with another start."""
        return replace(self, weights=weights, covariance=covariance, unlimited=unlimited, alone=None)


def fit_class_anchor(
    problem: Problem, sources: Sequence[PublicRows], factors: Array, chosen: float | None, longest: float | None = None
) -> ClassAnchor:
    """Learn from rows in memory without privacy and estimate how far off the answer is.

    Parameters
    ----------
    problem : Problem
        Of more than two classes; its alpha is the objective's.
    sources : sequence of PublicRows
    factors : array of shape (K·d,)
        Factors of alpha, one a weight.
    chosen : float or None
        L2 strength that cross-validation chose for these rows alone; None if alpha was stated.
    longest : float or None
        As for `fit_anchor`.
    """
    flipped = any(source.flip_rate > 0.0 for source in sources)
    likelihood = flipped and longest is not None
    rows = _Rows.of(problem.class_weights, sources, likelihood)
    factors = np.maximum(factors, 1.0) if flipped else factors
    alpha = problem.alpha
    seen = np.concatenate([y for source in sources for _, y in source.pieces()]).astype(np.int64)
    numbers = np.bincount(seen, minlength=problem.classes)
    constant = find_constant_scores(problem, rows.X, numbers, factors)  # 0 under flips, where no factor is below 1
    told = numbers >= FEWEST  # of a class with one row, leaving it out leaves nothing
    if told.sum() < FEWEST:
        shares = _start_at(problem, rows.X, factors, seen, constant)
        start = shares if numbers.min() else _start_at(problem, rows.X, factors, seen, np.zeros_like(constant))
        return start if flipped else replace(start, alone=shares)
    rows = replace(rows, told=told[seen].astype(np.float64))

    def look(strength: float, start: Array | None) -> tuple[Array, float, Array]:
        at = replace(problem, alpha=strength, clip=None)
        weights = solve(at, sources, factors, start, likelihood=likelihood).weights
        scores = rows.leave_one_out(weights, strength * factors)
        return weights, rows.loss(scores), scores

    strength, weights, scores, size = search_strength(alpha, factors, chosen, look, STEP**2)
    covariance, likely = rows.sandwich(scores, weights, strength * factors, alpha * factors, size)
    covariance = known = limit_covariance(covariance, size, factors)
    if likelihood and longest is not None:
        length = limit_length(replace(problem, alpha=strength, clip=None), sources, factors, weights, longest)
        covariance = doubt_start((1.0 - length) * weights, covariance)
        weights, scores = length * weights, length * scores
    if rows.loss(scores) >= rows.loss(same := rows.X @ constant.reshape(problem.classes, -1).T):
        covariance = doubt_start(weights - constant, covariance)
        weights, scores = constant, same
    if not numbers.min():
        weights, scores = allow_missing(weights, scores, numbers == 0, rows.X)
    labels = rows.draw_labels(scores)
    counts = problem.weigh(labels)
    found = ClassAnchor(rows.X, labels, alpha, strength, weights, covariance, scores, alpha * factors, counts)
    covariance, likely = limit_excess(covariance, found.hessian, found.nothing, known, likely)
    covariance = covariance if numbers.min() else doubt_missing(found, covariance, numbers == 0)
    return replace(found, covariance=covariance, likely=likely)


def find_constant_scores(problem: Problem, X: Array, numbers: NDArray[np.int64], factors: Array) -> Array:
    """Weights that predict the shares of the classes for every row (`belief.find_constant`); their sum is 0."""
    start = np.zeros((problem.classes, problem.columns))
    if factors[-1] < 1.0:
        levels = np.log(np.array(problem.class_weights) * (numbers + 0.5))
        start[:, -1] = (levels - levels.mean()) / X[0, -1]
    return start.ravel()


def allow_missing(weights: Array, scores: Array, missing: NDArray[np.bool_], X: Array) -> tuple[Array, Array]:
    """Weights and scores with classes that no row is of as likely as the others: of their shares nothing is known.

    The rows alone would make them next to impossible, and what is impossible has no curvature to learn by. Without an
    intercept, a last column that is the same for all rows, nothing is changed.
    """
    if np.ptp(X[:, -1]) > 0.0:
        return weights, scores
    K = len(missing)
    level = float(logsumexp(scores[:, ~missing], axis=1).mean()) - np.log(K - missing.sum())
    W, scores = weights.reshape(K, -1).copy(), scores.copy()
    W[missing], scores[:, missing] = 0.0, level
    W[missing, -1] = level / X[0, -1]
    return (W - W.mean(axis=0)).ravel(), scores


def doubt_missing(found: ClassAnchor, covariance: Array, missing: NDArray[np.bool_]) -> Array:
    """V with nothing known of the weights of missing classes: an excess of log K, by their share of all classes."""
    K = len(missing)
    unknown = np.repeat(missing.astype(np.float64), len(covariance) // K)
    added = _centre(np.diag(unknown), K)
    lost = found.nothing * missing.mean()
    return np.asarray(covariance + 2.0 * lost / float((found.hessian * added).sum()) * added)


def _centre(matrix: Array, K: int) -> Array:
    """Covariance of weights that sum to 0 over K classes: what is added to all classes alike changes no softmax."""
    centred = np.kron(np.eye(K) - 1.0 / K, np.eye(len(matrix) // K))
    return np.asarray(centred @ matrix @ centred)


def _start_at(problem: Problem, X: Array, factors: Array, seen: NDArray[np.int64], weights: Array) -> ClassAnchor:
    """Anchor of rows of which at most one class has two: as `belief.know_nothing` and `belief.know_shares`."""
    n, K, D = len(X), problem.classes, problem.n_features
    labels = seen if weights.any() else make_public_generator("labels of a class that is missing").integers(0, K, n)
    ridge, every, scores = problem.alpha * factors, np.zeros((D, D)), X @ weights.reshape(K, -1).T
    start = ClassAnchor(X, labels, problem.alpha, problem.alpha, weights, every, scores, ridge, problem.weigh(labels))
    return start.moved(weights, 2.0 * start.losses.mean() / np.trace(start.hessian) * np.eye(D))


@dataclass(frozen=True)
class _Rows:
    """Public rows: what stands for each label, how likely each is observed given each class, and what a row counts."""

    X: Array
    targets: Array
    likelihoods: Array
    weights: Array
    class_weights: Array
    flipped: bool
    told: Array | float = 1.0
    """What each row's loss counts: 1, or 0."""
    confusions: tuple[tuple[slice, Array], ...] = ()
    """Rows of each source and its confusion matrix, where labels have the likelihood of what was observed."""

    @classmethod
    def of(cls, class_weights: tuple[float, ...], sources: Sequence[PublicRows], likelihood: bool = False) -> _Rows:
        classes = len(class_weights)
        X, targets, likelihoods, weights = [], [], [], []
        for source in sources:
            noise = source.noise
            T, gain = noise.confusion_of(classes), noise.amplification(classes)
            for rows, y in source.pieces():
                numbers = np.asarray(y).astype(np.int64)
                X.append(np.asarray(rows, dtype=np.float64))
                targets.append(noise.weighted_targets(class_weights)[numbers])
                likelihoods.append(T.T[numbers])
                weights.append(np.full(len(numbers), gain**-2.0))
        counted, flipped = np.concatenate(weights), any(source.flip_rate > 0.0 for source in sources)
        rows, t, likely = (np.concatenate(part) for part in (X, targets, likelihoods))
        observed, ends = likelihood and flipped, np.cumsum([source.count for source in sources]).tolist()
        confusions = tuple(
            (slice(end - source.count, end), source.noise.confusion_of(classes))
            for source, end in zip(sources, ends, strict=True)
        )
        counts = (np.ones(len(counted)) if observed else counted) / counted.mean()
        return cls(rows, t, likely, counts, np.array(class_weights), flipped, confusions=confusions if observed else ())

    @property
    def units(self) -> Array:
        """u = Σt, what the curvature of each row is multiplied by: c_y for exact labels."""
        return np.asarray(self.targets.sum(axis=1))

    def loss(self, scores: Array) -> float:
        """Minus the mean log-likelihood of the labels as observed, by weight; of exact ones, by their class too."""
        scores, units = (self._as_they_are(scores), 1.0) if self.flipped else (scores, self.units)
        p = scores - logsumexp(scores, axis=1, keepdims=True)
        seen = float(np.sum(-self.told * self.weights * units * logsumexp(p, axis=1, b=self.likelihoods)))
        wrong = float(np.mean(-np.partition(p, -2, axis=1)[:, -2]))  # of the second likeliest class
        return (seen + WRONG_ROWS * wrong) / (np.sum(self.told * np.ones(len(scores))) + WRONG_ROWS)

    def _as_they_are(self, scores: Array) -> Array:
        """Scores without what class weights add to them."""
        return np.asarray(scores - np.log(self.class_weights))

    def pull(self, scores: Array) -> tuple[Array, Array]:
        """Gradients in the scores, shape (n, K), and the multiple of diag(p) - ppᵀ that is their curvature."""
        if not self.confusions:
            slopes = self.units[:, None] * softmax(scores, axis=1) - self.targets
            return self.weights[:, None] * slopes, self.weights * self.units
        found = [describe_scores(scores[rows], self.likelihoods[rows], T)[1:] for rows, T in self.confusions]
        slopes, bends = (np.concatenate(part) for part in zip(*found, strict=True))
        return self.weights[:, None] * slopes, self.weights * bends

    def curvature(self, scores: Array) -> Array:
        return sum_hessian(self.X, softmax(scores, axis=1), self.pull(scores)[1]) / len(self.X)

    def leave_one_out(self, weights: Array, ridge: Array) -> Array:
        """Scores of each row under the weights that the other rows give, by one Newton step from the common ones.

        s₍ᵢ₎ = sᵢ + Rᵢ(I - cᵢuᵢBᵢRᵢ)⁻¹cᵢaᵢ, Rᵢ the K × K matrix of xᵢᵀ(H₀⁻¹)ₖₗxᵢ/n.
        """
        (n, d), K = self.X.shape, self.targets.shape[1]
        scores = self.X @ weights.reshape(K, d).T
        inverse = np.linalg.inv(self.curvature(scores) + np.diag(ridge)).reshape(K, d, K, d)
        reach = np.empty((n, K, K))
        for k in range(K):
            turned = self.X @ inverse[k].transpose(1, 0, 2).reshape(K * d, d).T  # blocks (k, l) side by side
            reach[:, k] = np.einsum("nld,nd->nl", turned.reshape(n, K, d), self.X) / n
        p, (slopes, counted) = softmax(scores, axis=1), self.pull(scores)
        bends = counted[:, None, None] * (np.eye(K) * p[:, :, None] - p[:, :, None] * p[:, None, :])
        moves = np.linalg.solve(np.eye(K) - bends @ reach, slopes[:, :, None])
        return np.asarray(scores + (reach @ moves)[:, :, 0])

    def sandwich(
        self, scores: Array, weights: Array, strength: Array, alpha: Array, size: float
    ) -> tuple[Array, float]:
        """V₀ at the leave-one-out scores, and what part of its excess is likely; `size` is s², or more."""
        n, D = len(self.X), len(strength)
        slopes, _ = self.pull(scores)
        gradients = (slopes[:, :, None] * self.X[:, None, :]).reshape(n, D)
        S, fourths = gradients.T @ gradients / n, np.square(gradients**2).mean(axis=0)
        V, likely = join_sandwich(S, fourths, self.curvature(scores), n, weights, strength, alpha, size)
        return _centre(V, scores.shape[1]), likely

    def draw_labels(self, scores: Array) -> NDArray[np.int64]:
        """Classes as they may have been, drawn given the labels observed; as they are where none is flipped."""
        posterior = softmax(self._as_they_are(scores), axis=1) * self.likelihoods
        ends = np.cumsum(posterior / posterior.sum(axis=1, keepdims=True), axis=1)[:, :-1]
        return np.asarray(
            (make_public_generator("classes drawn again").random((len(ends), 1)) > ends).sum(axis=1), dtype=np.int64
        )


def list_frames(anchor: Anchor | ClassAnchor) -> tuple[Coordinates, ...]:
    """Coordinates that private gradients may be released in, those of rows as they are first."""
    return find_class_coordinates(anchor) if isinstance(anchor, ClassAnchor) else list_coordinates(anchor)


def find_class_coordinates(anchor: ClassAnchor) -> tuple[Coordinates, ...]:
    """Gradients as they are, clipped to ½; and times a factor, so that a quantile of the public ones is that long."""
    factors = [1.0]
    if anchor.knows_curvature:
        factors += [CLIP / bound for bound in np.quantile(anchor.lengths, QUANTILES).tolist() if bound > 0.0]
    return tuple(_turn(anchor, factor) for factor in factors)


def _turn(anchor: ClassAnchor, factor: float) -> Coordinates:
    """Coordinates u, W = f·Qu, in which the curvature of the gradients clipped to `CLIP` is diagonal."""
    (n, d), K = anchor.X.shape, anchor.slopes.shape[1]
    p, lengths = softmax(anchor.scores, axis=1), np.maximum(factor * anchor.lengths, 1e-300)
    kept = np.minimum(1.0, CLIP / lengths)
    B = np.eye(K) * p[:, :, None] - p[:, :, None] * p[:, None, :]
    unit = anchor.slopes / np.maximum(np.linalg.norm(anchor.slopes, axis=1, keepdims=True), 1e-300)
    along = unit[:, :, None] * np.einsum("nk,nkl->nl", unit, B)[:, None, :]
    over = (kept < 1.0)[:, None, None]
    bends = (anchor.counts * kept)[:, None, None] * (B - np.where(over, (along + along.transpose(0, 2, 1)) / 2.0, 0.0))
    clipped = np.einsum("nkl,ni,nj->kilj", bends, anchor.X, anchor.X, optimize=True).reshape(K * d, K * d) / n
    values, Q = np.linalg.eigh(clipped + np.diag(anchor.ridge))
    pulls = anchor.counts[:, None] * anchor.slopes
    gradients = (pulls[:, :, None] * anchor.X[:, None, :]).reshape(n, K * d) @ (factor * Q)
    taken = (kept - 1.0)[:, None] * gradients
    shift, variance = describe_clipping(taken, n, anchor.knows_curvature)
    steepest = 0.5 * max(1.0, factor**2) + anchor.alpha * factor**2
    return Coordinates(
        transform=factor * Q.T,
        curvature=factor**2 * np.maximum(values, anchor.ridge.min()),
        hessian=keep_hessian(factor**2 * Q.T @ anchor.hessian @ Q, anchor.knows_curvature),
        start=Q.T @ anchor.weights / factor,
        covariance=Q.T @ anchor.covariance @ Q / factor**2,
        clip_shift=shift,
        clip_variance=variance,
        activity=float((anchor.counts * np.minimum(lengths / CLIP, 1.0)).mean()),
        clip=CLIP,
        ridge=anchor.ridge,
        longest_step=2.0 / steepest,
        freedom=count_effective(gradients**2),
    )
