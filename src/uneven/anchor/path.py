"""One alpha after the other, from the strongest: the weights of all folds, and the loss of rows held out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from uneven.anchor.folds import FoldRows
from uneven.anchor.length import compute_held_out_scores
from uneven.anchor.likelihood import LEAST, describe_margins
from uneven.anchor.objective import Objective
from uneven.anchor.rows import WRONG_ROWS, PublicRows, find_copies
from uneven.anchor.solver import solve
from uneven.matrices import is_sparse
from uneven.problem import Problem
from uneven.softmax import loss_values

Array = NDArray[np.float64]

FOLDS, FEW_ROWS = 5, 500
"""Folds; twice as many up to this many rows, where each fold would otherwise cost many rows to learn from."""

STEP, LENGTH, MORE = 10**0.5, 13, 8
"""Ratio of one value to the next, and how many are tried: six decades, and where the weakest is clearly the best,
`MORE` at most."""

ROUGHLY = 1e-4
"""Relative distance to the least objective at which a fold of many columns is done: far less than a standard error."""

PATIENCE = 2
"""Values in a row that are clearly worse than the best before weaker ones are given up."""


@dataclass(frozen=True)
class Tried:
    """Values of alpha, strongest first; held-out losses, shape (values, rows + 1); weights of the folds at each.

    The last loss is half that of a row on the wrong side, which is counted however well the others are classified
    (Krichevsky and Trofimov 1981): a few rows that a plane separates would else ask for weights without end.
    """

    alphas: Array
    losses: Array
    weights: list[Array]
    folds: list[NDArray[np.int64]]
    likelihood: bool
    told: NDArray[np.bool_]
    """Of all rows, those that have a loss (`_find_told`)."""

    @property
    def place(self) -> int:
        """Of the value with the least loss."""
        return int(np.argmin(self.losses.mean(axis=1)))

    @property
    def least(self) -> Array:
        """Held-out loss of each row, where their mean is least."""
        means = self.losses[:, :-1].mean(axis=1)
        return np.asarray(self.losses[np.argmin(means), :-1])

    @property
    def chosen(self) -> Array:
        """Held-out loss of each row that has one, at the value chosen."""
        return np.asarray(self.losses[self.place, :-1])


def search_alphas(
    problem: Problem,
    sample: Sequence[PublicRows],
    penalty: Any,
    seed: int,
    length: int = LENGTH,
    likelihood: bool = False,
) -> Tried:
    """Try one alpha after the other."""
    numbers = _fold_numbers(sample, seed)
    folds, together = list(_folds(sample, numbers)), FoldRows.of(problem, sample, numbers, likelihood)
    W, told = np.zeros((problem.n_features, len(folds))), _find_told(problem, sample)
    before = W
    alphas, losses, weights = [], [], []
    sooner = 0 if length == LENGTH else length - LENGTH // 2  # where columns of the smaller scale begin to count
    for alpha in _strongest(sample, penalty[: problem.columns] == 1.0) * STEP ** -np.arange(length + MORE):
        at, last = replace(problem, alpha=float(alpha)), W.copy()
        done: NDArray[np.bool_] = np.zeros(len(folds), dtype=bool)
        if together is not None:
            W, done = together.descend(Objective.of(at, sample, penalty, likelihood).ridge, 2.0 * W - before)
        for k in np.flatnonzero(~done):
            W[:, k] = solve(at, folds[k], penalty, last[:, k], aim=ROUGHLY, likelihood=likelihood).weights
        before = last
        alphas.append(float(alpha))
        weights.append(W.copy())  # W itself is changed where folds are learned one by one
        held = [measure_held_out(problem, *one, W, likelihood) for one in zip(sample, numbers, strict=True)]
        wrong = np.concatenate([second for _, second in held]).mean()
        losses.append(np.append(np.concatenate([first for first, _ in held])[told], WRONG_ROWS * wrong))
        if len(alphas) >= sooner and _given_up(np.array(losses)):
            break
        if len(alphas) >= length and not _still_gains(np.array(losses)):
            break
    return Tried(np.array(alphas), np.array(losses), weights, numbers, likelihood, told)


def _find_told(problem: Problem, sample: Sequence[PublicRows]) -> NDArray[np.bool_]:
    """Which rows a held-out loss says something of: of more than two classes, not the only row of one of them.

    Without that row nothing is known of its class, whatever alpha is, and its loss would decide.
    """
    labels = np.concatenate([y for source in sample for _, y in source.pieces()])
    _, place, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if problem.outputs == 1 or (counts > 1).sum() < 2:
        return np.ones(len(labels), dtype=bool)
    return np.asarray(counts[place] > 1)


def _strongest(sample: Sequence[PublicRows], plain: NDArray[np.bool_]) -> float:
    """Mean ‖x‖²/4, the trace of the logistic Hessian at 0: an alpha of this size shrinks almost all weights to 0.

    An intercept's feature counts as half as long as the rows, whatever it is: the same rows have the same alphas.
    """
    total = sum(float(_squares(X[:, plain]).sum()) for source in sample for X, _ in source.pieces())
    total *= 1.0 if plain.all() else 1.25
    return float(np.clip(total / 4.0 / sum(source.count for source in sample), 1e-9, 1e9))


def _squares(X: Any) -> Any:
    return X.data.astype(np.float64) ** 2 if is_sparse(X) else np.asarray(X, dtype=np.float64) ** 2


def count_folds(rows: int) -> int:
    """How many folds so many rows have."""
    return min(rows, 2 * FOLDS if rows <= FEW_ROWS else FOLDS)


def _fold_numbers(sample: Sequence[PublicRows], seed: int) -> list[NDArray[np.int64]]:
    """Number of each row's fold, for each source; every fold has its share of each source and class.

    Copies of a row are in one fold, or they would be held out from themselves; unless there are more folds than rows
    that differ.
    """
    rng, dealt, numbers = np.random.default_rng(seed), 0, []
    count = count_folds(sum(source.count for source in sample))
    pairs = [next(iter(source.pieces())) for source in sample]
    firsts = [find_copies(X, y)[0] for X, y in pairs]
    if sum(len(np.unique(first)) for first in firsts) < count:
        firsts = [np.arange(len(y)) for _, y in pairs]
    for (_, y), first in zip(pairs, firsts, strict=True):
        different = np.unique(first)
        order = different[np.argsort(y[different] + rng.random(len(different)), kind="stable")]  # -1 before 1
        own = np.empty(len(y), dtype=np.int64)
        own[order] = (dealt + np.arange(len(order))) % count
        numbers.append(own[first])
        dealt += len(order)
    return numbers


def _folds(sample: Sequence[PublicRows], numbers: Sequence[NDArray[np.int64]]) -> Iterator[list[PublicRows]]:
    """Rows that each fold learns from: those of the others."""
    arrays = [next(iter(source.pieces())) for source in sample]
    for fold in range(count_folds(sum(source.count for source in sample))):
        chosen = zip(sample, arrays, (np.flatnonzero(number != fold) for number in numbers), strict=True)
        yield [
            PublicRows.from_arrays(X[keep], y[keep], one.noise, one.part) for one, (X, y), keep in chosen if len(keep)
        ]


def measure_held_out(
    problem: Problem, source: PublicRows, fold: NDArray[np.int64], W: Array, likelihood: bool
) -> tuple[Array, Array]:
    """Loss of each row under the weights of its fold; under flips, minus the log-likelihood of the label as observed.

    And the loss if misclassified: of the second most likely class. Weights of most likelihood cannot follow a few wrong
    labels far, so for them it is that of a label as observed.

    A loss without probabilities is that of the labels as observed.
    The surrogate will not do here: it has no lower bound, and a few rows of a rare column can decide the choice. The
    likelihood of the flipped label, ρ₋y + (1-a-b)/(1 + e^{-m}), is a proper score and the logistic loss at σ = 0.
    """
    X, y = next(iter(source.pieces()))
    numbers, scores = compute_held_out_scores(problem, X, y, fold, W)
    if problem.outputs > 1:
        return _held_out_classes(problem, source, scores, numbers)
    margins, rate = y * scores[:, 1], source.flip_rate
    wrong = np.asarray(problem.loss_function.value(-np.abs(margins)))
    if not (rate and problem.loss_function.probabilistic):
        return np.asarray(problem.weigh(y) * problem.loss_function.value(margins)), wrong
    margins = margins - y * np.log(problem.class_weights[1] / problem.class_weights[0])  # as classes really are
    seen, other = (describe_margins(m, rate, source.flip_skew * y)[0] for m in (margins, -np.abs(margins)))
    return seen, other if likelihood else wrong


def _held_out_classes(problem: Problem, source: PublicRows, own: Array, y: NDArray[np.int64]) -> tuple[Array, Array]:
    """Negative log-likelihood of the observed class, Σ_i p_i·T_iy, and of the second most likely class."""
    noise, wrong = source.noise, loss_values(own, np.argsort(own, axis=1)[:, -2])
    if noise.known_rate == 0.0:
        return np.asarray(problem.weigh(y) * loss_values(own, y)), wrong
    own = own - np.log(problem.class_weights)  # as classes really are
    seen = (softmax(own, axis=1) * noise.confusion_of(problem.classes).T[y]).sum(axis=1)
    return np.asarray(-np.log(np.maximum(seen, LEAST))), wrong


def _differences(losses: Array) -> tuple[Array, Array, int]:
    """Mean loss of each value above the least, its standard error row by row, and the place of the least."""
    best = int(np.argmin(losses.mean(axis=1)))
    apart = losses - losses[best]
    return apart.mean(axis=1), apart[:, :-1].std(axis=1) / losses.shape[1] ** 0.5, best


def _given_up(losses: Array) -> bool:
    means, errors, best = _differences(losses)
    return len(losses) - best > PATIENCE and bool((means > 2.0 * errors)[-PATIENCE:].all())


def _still_gains(losses: Array) -> bool:
    """Whether the weakest alpha so far is the best, and the one before it clearly worse: by a standard error."""
    means, errors, best = _differences(losses)
    return best == len(losses) - 1 and bool(means[-2] > errors[-2])
