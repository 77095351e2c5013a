"""Folds of a cross-validation learned together: each iteration reads the rows once for all of them.

The answers w_k of all folds share one Hessian, that of all rows at the folds' mean curvature. It is close to each
fold's own where alpha is not small; the folds for which it is not close enough are left to `solve`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uneven.anchor.objective import TOLERANCE, source_weight
from uneven.anchor.rows import PublicRows, correct
from uneven.anchor.solver import AIM, factorise
from uneven.matrices import is_sparse
from uneven.problem import Problem

Array = NDArray[np.float64]

MOST_STEPS, SLOW = 30, 0.8
"""Steps, and the ratio of one excess to the last, beyond which the shared Hessian is given up."""


@dataclass(frozen=True)
class FoldRows:
    """Dense rows of all folds.

    Attributes
    ----------
    X : array of shape (n, d)
        Rows times their labels.
    unit, tilt : arrays of shape (n, 1)
        u and t of each row's surrogate (`rows.correct`): 1 and 0 for exact rows.
    share : array of shape (n, folds)
        What each row counts in each fold, 0 where it is held out; each fold's sum is 1.
    """

    X: Array
    unit: Array
    tilt: Array
    share: Array

    @classmethod
    def of(
        cls, problem: Problem, sample: Sequence[PublicRows], numbers: Sequence[NDArray[np.int64]]
    ) -> FoldRows | None:
        """Rows whose folds have these numbers; None where they cannot be learned together: sparse or not logistic."""
        arrays = [next(iter(source.pieces())) for source in sample]
        if problem.loss != "logistic" or any(is_sparse(X) for X, _ in arrays):
            return None
        fold, y = np.concatenate(list(numbers)), np.concatenate([y for _, y in arrays])[:, None]
        pairs = [
            correct(one.flip_rate, one.flip_skew, y, problem.class_weights)
            for one, (_, y) in zip(sample, arrays, strict=True)
        ]
        units, tilts = (np.concatenate(part)[:, None] for part in zip(*pairs, strict=True))
        counted = np.repeat([source_weight(one.noise, problem) for one in sample], [one.count for one in sample])
        share = counted[:, None] * (fold[:, None] != np.arange(fold.max() + 1))
        X = np.concatenate([np.asarray(X, dtype=np.float64) for X, _ in arrays])
        return cls(y * X, units, tilts, share / share.sum(axis=0))

    def descend(self, ridge: Array, start: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Weights of each fold, shape (d, folds), and whether they have converged as `solve` has it.

        The start is to be near: the weights for a similar alpha.
        """
        W, before, model = start, np.inf, None
        for step in range(MOST_STEPS):
            margins = self.X @ W
            slopes = 1.0 / (1.0 + np.exp(margins))
            gradient = ridge[:, None] * W - self.X.T @ ((self.unit * slopes + self.tilt) * self.share)
            if step == 0:
                losses = self.unit * np.logaddexp(0.0, -margins) - self.tilt * margins
                values = (losses * self.share).sum(axis=0) + ridge @ W**2 / 2.0
                aim = AIM * np.maximum(np.abs(values), TOLERANCE)
            if model is None:
                bends = (self.unit * slopes * (1.0 - slopes) * self.share).mean(axis=1)
                model, fresh = factorise((self.X.T * bends) @ self.X + np.diag(ridge)), True
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
