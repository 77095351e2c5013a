"""alpha="auto": the L2 strength, by cross-validation on rows without privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from uneven.anchor.length import choose_held_out_length, doubt_length
from uneven.anchor.objective import measure_worth
from uneven.anchor.path import LENGTH, Tried, count_folds, measure_held_out, search_alphas
from uneven.anchor.rows import PublicRows
from uneven.anchor.solver import use_one_thread
from uneven.matrices import is_sparse
from uneven.problem import DEFAULT_ALPHA, Problem

Array = NDArray[np.float64]

MOST_ROWS = 5_000
"""Rows that alpha is chosen on, counted in exact ones."""

TOLD_ROWS = 40
"""Rows, counted in exact ones, from which the likelihood of flipped labels is tried: it is good for many rows."""

LEAST_EXACT = 10
"""Exact rows from which on they may be learned from alone, beside flipped labels."""

RARE_ROWS = 20
"""Rows of the rarest class below which more are drawn, up to ten times as many: a handful would decide alpha."""

NARROW_ROWS = 2000
COVERED, LONGEST = 1e4, 33
"""The values tried cover columns whose variances are down to this part of the mean squared norm; where those of many
are smaller still, as beside a year or an income, as many more decades are tried, up to so many values."""


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
    alone : bool
        Whether exact rows are better predicted without the flipped labels: then all the above is of exact rows alone.
    """

    alpha: float
    path: tuple[tuple[float, float], ...]
    rows: int
    length: float = 1.0
    likelihood: bool = False
    alone: bool = False


def choose_alpha(
    problem: Problem,
    rows: Sequence[PublicRows],
    penalty: ArrayLike | None = None,
    seed: int = 0,
    likelihood: bool = False,
    sift: bool = False,
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
    sift : bool
        Whether to try the exact rows alone too, where labels of other sources are flipped.

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
        tried = [search_alphas(narrow, few, factors, seed, _count_values(sample), way) for way in ways]
        best = tried[-1] if len(tried) > 1 and _is_clearly_less(tried[1].least, tried[0].least) else tried[0]
        judged = best.likelihood or (sift and any(source.flip_rate > 0.0 for source in few))
        length = choose_held_out_length(narrow, few, best.folds, best.weights[best.place]) if judged else 1.0
        if best.likelihood and doubt_length(narrow, few, best.folds, best.weights[best.place], length):
            best = tried[0]
            length = choose_held_out_length(narrow, few, best.folds, best.weights[best.place]) if sift else 1.0
        alone = _try_alone(narrow, few, factors, seed, best, length) if sift else None
    if alone is not None:
        exact = [source for source in rows if source.flip_rate == 0.0]
        return replace(_carry(alone, sum(one.count for one in exact), len(alone.told)), alone=True)
    found = _carry(best, count, used)
    return replace(found, length=length, likelihood=True) if best.likelihood else found


def _carry(tried: Tried, count: int, used: int) -> Strength:
    """The best value for all `count` rows, where `used` of them were looked at."""
    carried = tried.alphas * (used - used / count_folds(used)) / count
    path = zip(carried.tolist(), tried.losses[:, :-1].mean(axis=1).tolist(), strict=True)
    return Strength(float(carried[tried.place]), tuple(path), used)


def _try_alone(
    problem: Problem, sample: Sequence[PublicRows], factors: Array, seed: int, together: Tried, length: float
) -> Tried | None:
    """The same without flipped labels, if the exact rows held out are clearly better predicted so; else None.

    By a standard error, and by one more each time that flipped labels are worth twice as many exact rows again.
    `length` is the multiple that weights of all rows together get in the end.
    """
    exact = [source for source in sample if source.flip_rate == 0.0]
    count = sum(source.count for source in exact)
    if not LEAST_EXACT <= count < sum(source.count for source in sample):
        return None
    if len(_count_labels(exact)) < len(_count_labels(sample)):  # they do not know all classes
        return None
    alone = search_alphas(problem, exact, factors, seed, _count_values(exact))
    others, W = zip(sample, together.folds, strict=True), length * together.weights[together.place]
    held = [measure_held_out(problem, *one, W, together.likelihood)[0] for one in others if one[0].flip_rate == 0.0]
    flipped = sum(one.count * measure_worth(one.noise, problem) for one in sample if one.flip_rate > 0.0)
    clear = 1.0 + max(math.log2(flipped / count), 0.0)
    return alone if _is_clearly_less(alone.chosen, np.concatenate(held)[alone.told], clear) else None


def _is_clearly_less(one: Array, other: Array, clear: float = 1.0) -> bool:
    """Whether the first losses, row by row, have a mean that is less by more than so many standard errors."""
    apart = other - one
    return bool(apart.mean() > clear * apart.std() / len(apart) ** 0.5)


def _draw(rows: Sequence[PublicRows], share: float, seed: int) -> tuple[list[PublicRows], NDArray[np.int64]]:
    """About this share of the rows, and how many there are of each class."""
    drawn = [source.sample(share, seed) for source in rows]
    sample = [source for source in drawn if source is not None]
    return sample, _count_labels(sample)


def _count_labels(sample: Sequence[PublicRows]) -> NDArray[np.int64]:
    """How many rows there are of each class."""
    labels = np.concatenate([y for source in sample for _, y in source.pieces()])
    return np.asarray(np.unique(labels, return_counts=True)[1])


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
