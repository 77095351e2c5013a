"""alpha="auto": the L2 strength, by cross-validation on rows without privacy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import softmax

from uneven.anchor.folds import FoldRows
from uneven.anchor.length import choose_held_out_length, compute_held_out_scores
from uneven.anchor.likelihood import LEAST, describe_margins
from uneven.anchor.objective import Objective, measure_worth
from uneven.anchor.rows import WRONG_ROWS, PublicRows, find_copies
from uneven.anchor.solver import solve, use_one_thread
from uneven.matrices import is_sparse
from uneven.problem import DEFAULT_ALPHA, Problem
from uneven.softmax import loss_values

Array = NDArray[np.float64]

FOLDS, FEW_ROWS = 5, 500
"""Folds; twice as many up to this many rows, where each fold would otherwise cost many rows to learn from."""

MOST_ROWS = 5_000
"""Rows that alpha is chosen on, counted in exact ones."""

TOLD_ROWS = 40
"""Rows, counted in exact ones, from which the likelihood of flipped labels is tried: it is good for many rows."""

RARE_ROWS = 20
"""Rows of the rarest class below which more are drawn, up to ten times as many: a handful would decide alpha."""

NARROW_ROWS = 2000
STEP = 10**0.5
LENGTH, COVERED, LONGEST, MORE = 13, 1e4, 33, 8
"""Values tried: six decades. They cover columns whose variances are down to this part of the mean squared norm; where
those of many are smaller still, as beside a year or an income, as many more decades are tried, up to so many values;
and where the weakest is clearly the best, `MORE` at most."""

ROUGHLY = 1e-4
"""Relative distance to the least objective at which a fold of many columns is done: far less than a standard error."""

PATIENCE = 2
"""Values in a row that are clearly worse than the best before weaker ones are given up."""


@dataclass(frozen=True)
class Strength:
    """A choice of alpha.

    Attributes
    ----------
    alpha : float
    path : tuple of (float, float)
        Each alpha tried, strongest first, in the same units, and its held-out loss a row.
    rows : int
        Rows it was chosen on.
    length : float
        Where flipped labels have a likelihood, the multiple of the answer with the least expected loss; else 1.
    likelihood : bool
        Whether flipped labels are better learned by the likelihood of what was observed than by the surrogate.
    """

    alpha: float
    path: tuple[tuple[float, float], ...]
    rows: int
    length: float = 1.0
    likelihood: bool = False


def choose_alpha(
    problem: Problem,
    rows: Sequence[PublicRows],
    penalty: ArrayLike | None = None,
    seed: int = 0,
    likelihood: bool = False,
) -> Strength:
    """Choose alpha by cross-validation on about 5,000 rows at most, each fold with its share of every class.

    Labels flipped at rate σ tell (1 - 2σ)² as much as exact ones, so of such rows more are taken.

    Held-out rows are scored by their loss, or under flips by the likelihood of the label observed. What is carried over
    from the folds to all rows is alpha times their number, as for a prior.

    Parameters
    ----------
    problem : Problem
        Its alpha is not used.
    rows : sequence of PublicRows
    penalty : array of shape (d,) or None
        As for `solve`.
    seed : int
        Of the folds and the sample. It may be known: these rows are not private.
    likelihood : bool
        Whether to try both ways of learning from flipped labels (`solve`), and take the one that predicts held-out
        labels better.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 50)) / 50**0.5
    >>> random_labels, rule = rng.choice([-1.0, 1.0], 200), np.sign(X[:, 0])
    >>> problem = Problem(n_features=50, alpha=1.0, batch_size=1)
    >>> strong, weak = (choose_alpha(problem, [PublicRows.from_arrays(X, y)]).alpha for y in (random_labels, rule))
    >>> strong > 10 * weak
    True
    """
    count = sum(source.count for source in rows)
    told = sum(source.count * (1.0 - 2.0 * source.flip_rate) ** 2 for source in rows)  # in exact rows
    share = min(1.0, MOST_ROWS / max(told, 1.0))
    sample, seen = _draw(rows, share, seed)
    if share < 1.0 and (rarest := seen.min() if len(seen) > 1 else 0) < RARE_ROWS:
        sample, seen = _draw(rows, min(1.0, share * RARE_ROWS / max(rarest, RARE_ROWS / 10)), seed)
    used = sum(source.count for source in sample)
    if len(seen) < 2 or not problem.loss_function.bounded:
        return Strength(DEFAULT_ALPHA, (), used)
    with use_one_thread(), np.errstate(over="ignore", invalid="ignore"):  # a slope of 0, or a step that is not taken
        narrow, few, factors = _narrowed(problem, sample, penalty)
        worth = sum(source.count * measure_worth(source.noise, problem) for source in rows)
        both = likelihood and worth >= TOLD_ROWS and any(source.flip_rate > 0.0 for source in rows)
        ways = [False, True] if both else [False]
        tried = [_path(narrow, few, factors, seed, _count_values(sample), way) for way in ways]
    best = tried[-1] if len(tried) > 1 and _is_clearly_less(tried[1].least, tried[0].least) else tried[0]
    place = int(np.argmin(best.losses.mean(axis=1)))
    length = choose_held_out_length(narrow, few, best.folds, best.weights[place]) if best.likelihood else 1.0
    carried = best.alphas * (used - used / _fold_count(used)) / count
    path = zip(carried.tolist(), best.losses[:, :-1].mean(axis=1).tolist(), strict=True)
    return Strength(float(carried[place]), tuple(path), used, length, best.likelihood)


def _is_clearly_less(one: Array, other: Array) -> bool:
    """Whether the first losses, row by row, have a mean that is less by more than a standard error."""
    apart = other - one
    return bool(apart.mean() > apart.std() / len(apart) ** 0.5)


def _draw(rows: Sequence[PublicRows], share: float, seed: int) -> tuple[list[PublicRows], NDArray[np.int64]]:
    """About this share of the rows, and how many there are of each class."""
    drawn = [source.sample(share, seed) for source in rows]
    sample = [source for source in drawn if source is not None]
    labels = np.concatenate([y for source in sample for _, y in source.pieces()])
    return sample, np.unique(labels, return_counts=True)[1]


def _narrowed(
    problem: Problem, sample: Sequence[PublicRows], penalty: ArrayLike | None
) -> tuple[Problem, Sequence[PublicRows], Array]:
    """The same problem in as many columns as there are rows, if there are more: the optimum lies in the rows' span.

    Rows XXᵀ = UΛUᵀ become U√Λ, with the same products; columns whose penalty is not 1 are kept beside them.
    """
    every = np.ones(problem.n_features) if penalty is None else np.asarray(penalty, dtype=np.float64)
    factors = every[: problem.columns]  # the same for each class
    plain, counts = factors == 1.0, np.cumsum([source.count for source in sample])
    if not counts[-1] < min(plain.sum(), NARROW_ROWS):
        return problem, sample, every
    arrays = [next(iter(source.pieces())) for source in sample]
    X: Any = (sparse.vstack if is_sparse(arrays[0][0]) else np.concatenate)([X for X, _ in arrays]).astype(np.float64)
    gram, rest = X[:, plain] @ X[:, plain].T, X[:, ~plain]
    values, vectors = np.linalg.eigh(gram.toarray() if is_sparse(gram) else gram)
    rest = rest.toarray() if is_sparse(rest) else rest
    narrow = np.split(np.hstack([vectors * np.sqrt(np.maximum(values, 0.0)), rest]), counts[:-1])
    rows = [
        PublicRows.from_arrays(Z, y, source.noise, source.part)
        for Z, (_, y), source in zip(narrow, arrays, sample, strict=True)
    ]
    kept = np.tile(np.append(np.ones(len(values)), factors[~plain]), problem.outputs)
    return replace(problem, n_features=len(kept)), rows, kept


def _count_values(sample: Sequence[PublicRows]) -> int:
    """How many values of alpha are tried: more where a quarter of the columns are on a far smaller scale."""
    spread = measure_spread([X for source in sample for X, _ in source.pieces()])
    return min(LONGEST, LENGTH + max(0, math.ceil(2.0 * math.log10(spread / COVERED))))


def measure_spread(pieces: Sequence[Any]) -> float:
    """Mean squared norm of the rows over a variance that three columns in four have: 1 where none varies.

    >>> measure_spread([np.array([[1.0, 5.0], [1.0, 7.0]])])
    38.0
    """
    totals = [np.stack([_sum_columns(X, power) for power in (1, 2)]) for X in pieces]
    means, squares = np.sum(totals, axis=0) / sum(X.shape[0] for X in pieces)
    varied = (squares - means**2)[squares - means**2 > 1e-9 * squares]
    return max(float(squares.sum() / np.quantile(varied, 0.25)), 1.0) if len(varied) else 1.0


def _sum_columns(X: Any, power: int) -> Array:
    """Sum of each column, or of its squares."""
    values = X.power(power) if is_sparse(X) else np.asarray(X, dtype=np.float64) ** power
    return np.asarray(values.sum(axis=0), dtype=np.float64).ravel()


@dataclass(frozen=True)
class _Tried:
    """Values of alpha, strongest first; held-out losses, shape (values, rows + 1); weights of the folds at each.

    The last loss is half that of a row on the wrong side, which is counted however well the others are classified
    (Krichevsky and Trofimov 1981): a few rows that a plane separates would else ask for weights without end.
    """

    alphas: Array
    losses: Array
    weights: list[Array]
    folds: list[NDArray[np.int64]]
    likelihood: bool

    @property
    def least(self) -> Array:
        """Held-out loss of each row, where their mean is least."""
        means = self.losses[:, :-1].mean(axis=1)
        return np.asarray(self.losses[np.argmin(means), :-1])


def _path(
    problem: Problem,
    sample: Sequence[PublicRows],
    penalty: Any,
    seed: int,
    length: int = LENGTH,
    likelihood: bool = False,
) -> _Tried:
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
        held = [_held_out(problem, *one, W, likelihood) for one in zip(sample, numbers, strict=True)]
        wrong = np.concatenate([second for _, second in held]).mean()
        losses.append(np.append(np.concatenate([first for first, _ in held])[told], WRONG_ROWS * wrong))
        if len(alphas) >= sooner and _given_up(np.array(losses)):
            break
        if len(alphas) >= length and not _still_gains(np.array(losses)):
            break
    return _Tried(np.array(alphas), np.array(losses), weights, numbers, likelihood)


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


def _fold_count(rows: int) -> int:
    return min(rows, 2 * FOLDS if rows <= FEW_ROWS else FOLDS)


def _fold_numbers(sample: Sequence[PublicRows], seed: int) -> list[NDArray[np.int64]]:
    """Number of each row's fold, for each source; every fold has its share of each source and class.

    Copies of a row are in one fold, or they would be held out from themselves; unless there are more folds than rows
    that differ.
    """
    rng, dealt, numbers = np.random.default_rng(seed), 0, []
    count = _fold_count(sum(source.count for source in sample))
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
    for fold in range(_fold_count(sum(source.count for source in sample))):
        chosen = zip(sample, arrays, (np.flatnonzero(number != fold) for number in numbers), strict=True)
        yield [
            PublicRows.from_arrays(X[keep], y[keep], one.noise, one.part) for one, (X, y), keep in chosen if len(keep)
        ]


def _held_out(
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
