"""Folds of a cross-validation learned together: each iteration reads the rows once for all of them.

The answers w_k of all folds share one Hessian, that of all rows at the folds' mean curvature. It is close to each
fold's own where alpha is not small; the folds for which it is not close enough are left to `solve`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from uneven.anchor.diagonals import sum_products
from uneven.anchor.likelihood import describe_margins, describe_scores
from uneven.anchor.multinomial import sum_hessian
from uneven.anchor.objective import TOLERANCE, weigh_source
from uneven.anchor.rows import PublicRows, correct
from uneven.anchor.solver import factorise
from uneven.losses import LOGISTIC, Loss
from uneven.matrices import is_sparse
from uneven.problem import Problem

Array = NDArray[np.float64]

ENOUGH = 1e-5
"""Relative distance to the least objective at which a fold is done: far less than a standard error."""

FLIPS = ("flip_rate", "flip_skew")

MOST_STEPS, SLOW = 30, 0.8
"""Steps, and the ratio of one excess to the last, beyond which the shared Hessian is given up."""


@dataclass(frozen=True)
class FoldRows:
    """Dense rows of all folds.

    Attributes
    ----------
    X : array of shape (n, d)
        Rows; times their labels for two classes.
    unit, tilt : arrays of shape (n, 1)
        For two classes: u and t of each row's surrogate (`rows.correct`), 1 and 0 for exact rows.
    share : array of shape (n, folds)
        What each row counts in each fold, 0 where it is held out; each fold's sum is 1.
    loss : Loss
        For two classes.
    targets : array of shape (n, K) or None
        For K > 2 classes: what stands for each label (`uneven.softmax`).
    flips : two arrays of shape (n, 1), or None
        For two classes whose labels have the likelihood of what was observed instead of the surrogate: what
        `describe_margins` is told of them.
    confusions : tuple of (slice, array of shape (n, K), array of shape (K, K))
        For more: the rows of each source, the chances of their labels, and how it confuses classes; empty where the
        labels have a surrogate.
    """

    X: Array
    unit: Array
    tilt: Array
    share: Array
    loss: Loss = LOGISTIC
    targets: Array | None = None
    flips: tuple[Array, Array] | None = None
    confusions: tuple[tuple[slice, Array, Array], ...] = ()

    @classmethod
    def of(
        cls,
        problem: Problem,
        sample: Sequence[PublicRows],
        numbers: Sequence[NDArray[np.int64]],
        likelihood: bool = False,
    ) -> FoldRows | None:
        """Rows whose folds have these numbers; None where they cannot be learned together: sparse, or with a kink."""
        arrays = [next(iter(source.pieces())) for source in sample]
        loss = problem.loss_function
        if not loss.smooth or any(is_sparse(X) for X, _ in arrays):
            return None
        counts, usual = [one.count for one in sample], [one.part * weigh_source(one.noise, problem) for one in sample]
        fold = np.concatenate(list(numbers))
        used = fold[:, None] != np.arange(fold.max() + 1)
        own = [1.0 if likelihood and one.flip_rate > 0.0 else weight for one, weight in zip(sample, usual, strict=True)]
        share = np.repeat(own, counts)[:, None] * used / (np.repeat(usual, counts) @ used)
        X = np.concatenate([np.asarray(X, dtype=np.float64) for X, _ in arrays])
        labels = [y for _, y in arrays]
        if problem.outputs > 1:
            targets = [one.noise.weighted_targets(problem.class_weights) for one in sample]
            rows = [T[y.astype(np.int64)] for T, y in zip(targets, labels, strict=True)]
            confusions = _list_confusions(sample, labels, problem.classes) if likelihood else ()
            none = np.zeros((len(X), 1))
            return cls(X, none, none, share, targets=np.concatenate(rows), confusions=confusions)
        pairs = [
            correct(one.flip_rate, one.flip_skew, y, problem.class_weights, loss.odd_slope)
            for one, y in zip(sample, labels, strict=True)
        ]
        units, tilts = (np.concatenate(part)[:, None] for part in zip(*pairs, strict=True))
        signs = np.concatenate(labels)[:, None]
        rate, skew = (np.repeat([getattr(s, key) for s in sample], counts)[:, None] for key in FLIPS)
        return cls(signs * X, units, tilts, share, loss, flips=(rate, skew * signs) if likelihood else None)

    def descend(self, ridge: Array, start: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Weights of each fold, shape (d, folds), and whether they have converged, to `ENOUGH`.

        The start is to be near: the weights for a similar alpha.
        """
        W, before, model = start, np.inf, None
        for step in range(MOST_STEPS):
            slopes, losses, curvature = self._look(W) if self.targets is None else self._look_at_classes(W)
            gradient = ridge[:, None] * W + slopes
            if step == 0:
                values = losses() + ridge @ W**2 / 2.0
                aim = ENOUGH * np.maximum(np.abs(values), TOLERANCE)
            if model is None:
                model, fresh = factorise(curvature() + np.diag(ridge)), True
            move = model(gradient)
            excess = (gradient * move).sum(axis=0) / 2.0
            done, worst = excess <= aim, float((excess / aim).max())
            if done.all():
                return W - move, done
            if not worst < SLOW * before:
                break
            model, fresh = (None, False) if worst > 0.1 * before and not fresh else (model, False)
            W, before = W - move, worst
        return W, done

    def _look(self, W: Array) -> tuple[Array, Callable[[], Array], Callable[[], Array]]:
        """Gradient of each fold's loss, and what computes the losses and the mean curvature."""
        margins = self.X @ W
        if self.flips is not None:
            values, slopes, bent = describe_margins(margins, *self.flips)
            gradient = self.X.T @ (slopes * self.share)
        else:
            gradient = self.X.T @ ((self.unit * self.loss.slope(margins) - self.tilt) * self.share)

        def losses() -> Array:
            lost = values if self.flips else self.unit * self.loss.value(margins) - self.tilt * margins
            return np.asarray((lost * self.share).sum(axis=0))

        def curvature() -> Array:
            bends = bent if self.flips else self.unit * self.loss.curvature_at(margins)
            return sum_products(self.X, (bends * self.share).mean(axis=1))

        return gradient, losses, curvature

    def _look_at_classes(self, W: Array) -> tuple[Array, Callable[[], Array], Callable[[], Array]]:
        """The same for the softmax loss; the curvature is that of the folds' mean probabilities."""
        assert self.targets is not None
        (n, K), d, folds = self.targets.shape, self.X.shape[1], W.shape[1]
        scores = (self.X @ W.reshape(K, d, folds).transpose(1, 0, 2).reshape(d, -1)).reshape(n, K, folds)
        if self.confusions:
            return self._look_at_observed(scores)
        levels = logsumexp(scores, axis=1)
        P, T, units = np.exp(scores - levels[:, None, :]), self.targets[:, :, None], self.targets.sum(axis=1)
        gradient = self._sum_slopes(units[:, None, None] * P - T)

        def losses() -> Array:
            return np.asarray(((units[:, None] * levels - (T * scores).sum(axis=1)) * self.share).sum(axis=0))

        return gradient, losses, lambda: sum_hessian(self.X, P.mean(axis=2), units * self.share.mean(axis=1))

    def _look_at_observed(self, scores: Array) -> tuple[Array, Callable[[], Array], Callable[[], Array]]:
        """The same for the likelihood of the classes observed; scores of shape (n, K, folds)."""
        values, told, slopes = np.empty_like(self.share), np.empty_like(self.share), np.empty_like(scores)
        for fold in range(scores.shape[2]):
            for rows, chances, confusion in self.confusions:
                found = describe_scores(scores[rows, :, fold], chances, confusion)
                values[rows, fold], slopes[rows, :, fold], told[rows, fold] = found

        def curvature() -> Array:
            return sum_hessian(self.X, softmax(scores, axis=1).mean(axis=2), (told * self.share).mean(axis=1))

        return self._sum_slopes(slopes), lambda: np.asarray((values * self.share).sum(axis=0)), curvature

    def _sum_slopes(self, slopes: Array) -> Array:
        """Gradient of each fold, shape (K·d, folds), given those in the scores, shape (n, K, folds)."""
        (n, K, folds), d = slopes.shape, self.X.shape[1]
        sums = self.X.T @ (slopes * self.share[:, None, :]).reshape(n, -1)
        return np.asarray(sums.reshape(d, K, folds).transpose(1, 0, 2).reshape(K * d, folds))


def _list_confusions(
    sample: Sequence[PublicRows], labels: Sequence[Array], classes: int
) -> tuple[tuple[slice, Array, Array], ...]:
    """Rows of each source, one after the other, with the chances of their labels and the source's confusion matrix."""
    ends = np.cumsum([len(y) for y in labels]).tolist()
    found = []
    for source, y, end in zip(sample, labels, ends, strict=True):
        confusion = source.noise.confusion_of(classes)
        found.append((slice(end - len(y), end), confusion.T[y.astype(np.int64)], confusion))
    return tuple(found)
