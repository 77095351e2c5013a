"""How long weights from flipped labels should be: the labels as observed leave open how sure the model may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from uneven.anchor.multinomial import sum_multiples
from uneven.anchor.objective import Objective
from uneven.anchor.rows import PublicRows
from uneven.problem import Problem

Array = NDArray[np.float64]

POSSIBLE = 2.0 ** np.arange(2.0, -48.0, -0.5)
"""Multiples of the answer that are thought possible where labels are flipped: not 0, so that classes are predicted."""

LENGTH_ROWS = 5_000
"""Rows that the length of weights from flipped labels is judged by, counted in exact ones; of more, a sample."""

NEXT_TO_NOTHING = 1e-6
"""Multiple up to which a start is 0."""

DENSE_COLUMNS = 2000
"""Columns up to which a Hessian is kept and factorised."""

CERTAIN = 2.5
"""Standard errors from which on weights of most likelihood are known to be too long: one time in 160 by chance."""

CLEAR, DOUBT = 2.0, 2.0
"""Standard errors, and differences of the log-likelihood, that are clear: the second is what two of the first make."""


def choose_length(f: Objective, w: Array, optimistic: bool = True) -> float:
    """Multiple of the weights, at most 1, with the least expected loss where labels are flipped.

    The surrogate of flipped labels is unbiased, but its minimum may be far from the loss's, or not exist: its mean can
    fall below 0, which no loss does, as where fewer labels are positive than the stated rate alone would make. The
    labels as observed tell how long w should be, by their likelihood, but not the sure from the nearly sure. So all
    lengths of a grid are thought possible, as likely as they make the labels of new rows (`measure_optimism`), and the
    answer takes the length that loses least on average over them. Lengths whose surrogate has a mean clearly below 0
    are not possible: the stated rate is too large, or the rows were learned by heart. Where no length is clearly
    likelier than 0, the answer is as good as 0. `optimistic` is whether w loses less on its rows than on others.
    """
    if not f.flipped or not f.loss.probabilistic:
        return 1.0
    told = sum(source.count * (1.0 - 2.0 * source.flip_rate) ** 2 for source, _ in f.sources)  # in exact rows
    if told > LENGTH_ROWS:
        f = f.sample(LENGTH_ROWS / told) or f
    return _judge(f.along(w, POSSIBLE), f.count, measure_optimism(f, w) if optimistic else 0.0)


def limit_length(problem: Problem, rows: Sequence[PublicRows], penalty: Array, w: Array, longest: float) -> float:
    """Multiple of weights of most likelihood to start at beside private rows: 0 where next to nothing is known."""
    length = min(longest, choose_length(Objective.of(problem, rows, penalty, True), w, len(w) <= DENSE_COLUMNS))
    return length if length > NEXT_TO_NOTHING else 0.0


def choose_held_out_length(
    problem: Problem, sample: Sequence[PublicRows], numbers: Sequence[NDArray[np.int64]], W: Array
) -> float:
    """The same, judged by rows that were held out: W of shape (d, folds), and the number of each row's fold."""
    sums, count = np.zeros((5, len(POSSIBLE))), sum(source.count for source in sample)
    for source, fold in zip(sample, numbers, strict=True):
        X, y = next(iter(source.pieces()))
        labels, scores = compute_held_out_scores(problem, X, y, fold, W)
        confusion = source.noise.confusion_of(problem.classes)
        sums += sum_multiples(scores, labels, confusion, np.log(problem.class_weights), POSSIBLE)
    return _judge(sums / count, count, 0.0)


def doubt_length(
    problem: Problem, sample: Sequence[PublicRows], numbers: Sequence[NDArray[np.int64]], W: Array, length: float
) -> bool:
    """Whether held-out rows clearly ask for weights that are shorter than this multiple of W.

    The slope of the loss along the weights is estimated by the surrogate, which is unbiased whatever the rows are like.
    The likelihood takes the rows that no linear score explains for flipped ones, and is all the surer of the others.
    """
    slopes = []
    for source, fold in zip(sample, numbers, strict=True):
        X, y = next(iter(source.pieces()))
        labels, scores = compute_held_out_scores(problem, X, y, fold, W)
        targets = source.noise.weighted_targets((1.0,) * problem.classes)[labels]
        slopes.append((scores * (softmax(length * scores, axis=1) - targets)).sum(axis=1))
    each = np.concatenate(slopes)
    return bool(each.mean() > CERTAIN * each.std() / len(each) ** 0.5)


def compute_held_out_scores(
    problem: Problem, X: Any, y: Array, fold: NDArray[np.int64], W: Array
) -> tuple[NDArray[np.int64], Array]:
    """Numbers of the rows' classes, and scores of all classes under the weights of the fold that has not seen it."""
    if problem.outputs == 1:
        margins = np.asarray(X @ W)[np.arange(len(y)), fold]
        return (y > 0).astype(np.int64), np.column_stack([np.zeros_like(margins), margins])
    each = np.ascontiguousarray(W.reshape(problem.outputs, problem.columns, -1).transpose(1, 0, 2))
    scores = np.asarray(X @ each.reshape(problem.columns, -1)).reshape(len(y), problem.outputs, -1)
    return y.astype(np.int64), scores[np.arange(len(y)), :, fold]


def _judge(described: Array, count: int, optimism: float) -> float:
    """Length of the least expected loss, given what `Objective.along` says of each and what w loses on new rows."""
    lost, levels, slopes, surrogate, squares = described
    errors = np.sqrt(np.maximum(squares - surrogate**2, 0.0) / count)
    prior, moderate = doubt_long(slopes)
    evidence = -count * (lost + np.minimum(POSSIBLE / min(moderate, 1.0), 1.0) * optimism)
    nothing, evidence = evidence[-1], np.where(surrogate + CLEAR * errors < 0.0, -np.inf, evidence)
    if evidence.max() < nothing + DOUBT:
        return float(POSSIBLE[-1])
    weights = prior * np.exp(evidence - evidence.max())
    expected = levels - POSSIBLE * (weights @ slopes / weights.sum())
    return float(POSSIBLE[np.argmin(np.where(POSSIBLE <= 1.0, expected, np.inf))])


def doubt_long(slopes: Array) -> tuple[Array, float]:
    """Prior weight of each possible length, and the length from which on it falls, as rows are classified for sure.

    Jeffreys' prior of the logarithm of a length t is t√B', B' the mean variance of the scores over the classes: small
    where even exact labels could hardly tell a length from longer ones. Up to its largest value it is taken as that.
    `slopes` are B.
    """
    prior = POSSIBLE * np.sqrt(np.maximum(np.gradient(slopes, POSSIBLE), 0.0))
    most = int(np.argmax(prior))
    return np.where(np.arange(len(prior)) >= most, 1.0, prior / max(prior[most], 1e-300)), float(POSSIBLE[most])


def measure_optimism(f: Objective, w: Array) -> float:
    """How much more the answer w loses on new rows than on its own, in log-likelihood.

    To first order that is tr(H⁻¹C)/n with C = E gsᵀ, g the gradients of what is lost and s those of what w minimises
    (Takeuchi 1976 for g = s). Of a label flipped at rate σ, given x, s takes the values -(1-a)/(1-2σ) with probability
    a = σ + (1-2σ)p and a/(1-2σ) else, times x, and g is -(1-2σ)p(1-p)/a and (1-2σ)p(1-p)/(1-a): so E gs = p(1-p), as
    for exact labels, and C is the curvature of the loss. Both are taken at 0, where the loss curves most: at weights
    that followed noise far out next to nothing curves, and little would seem to be at stake. Weights of most likelihood
    follow it less: there both are taken at w. Of a multiple of w it is that part, and all of it from the length on at
    which rows are classified for sure.
    """
    hessian = f.at(w if f.likelihood else np.zeros_like(w), "full").hessian
    assert hessian is not None
    return float(np.trace(np.linalg.lstsq(hessian, hessian - np.diag(f.ridge))[0])) / f.count
