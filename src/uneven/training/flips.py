"""Flip rates estimated from the labels, anchored by sources whose rates are known.

Each task (a row, or the rows of several sources with the same features) has one true label. Given the rates ρ₊ and ρ₋
at which a source flips positive and negative labels, and a model's log-odds m of the true label, its posterior log-odds
are b·m + Σ log((1-ρ₊)/ρ₋) over the positive labels that it was given + Σ log(ρ₊/(1-ρ₋)) over the negative ones. Given
the posteriors, a source's one rate is the mean probability that its labels are wrong, and each of two rates that among
tasks of the true label. EM, a few rounds of it with a model learned again from the posteriors.

The model is asked only about tasks it did not learn from: one that has overfitted its rows would take doubt for
flips. How sure of itself it deserves to be, b, is learned with the rates.

Sources that label the same tasks err together where a task is hard for all. Tasks that an anchor has labelled too show
by how much: the log-odds of the model and the other sources together are multiplied by what makes them agree best with
the anchor's labels there. Without that, rates of 203 workers came out too low by .03 on average.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from uneven.anchor import PublicRows, solve
from uneven.matrices import join_rows
from uneven.noise import FlippedLabels, Noise
from uneven.problem import Problem
from uneven.training.refusals import find_unknown

Array = NDArray[np.float64]
Places = NDArray[np.int64]

LARGEST = 0.49
ROUNDS, FOLDS = 4, 5
ITERATIONS = 200
START = 0.25
LEAST = 1e-6

FEW, MANY, APART = 10, 500, 0.1
"""Of so few sources with unknown rates and so many labels each, two rates that differ by more than this are noticed."""

STRENGTH = 0.5
"""L2 strength of the models, for rows of norm 1, times the number of rows."""

OWN = 2.0
"""Labels that each source is taken to have given like all those whose rate is not known."""

REPEATED = 0.01
"""Share of rows that may come twice in one source, where equal rows of different sources are taken for one task."""


@dataclass(frozen=True)
class _Labels:
    """Labels of all sources: the place of each one's task and source, and its sign; features of the tasks."""

    X: Any
    task: Places
    source: Places
    sign: Array
    known: Array
    """Flip rates of each source's positive and negative labels, NaN where to be estimated. Shape (sources, 2)."""
    paired: NDArray[np.bool_]
    """Which sources have two rates to estimate."""

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Sources whose rates are to be estimated."""
        return np.asarray(np.isnan(self.known[:, 0]))

    @property
    def anchored(self) -> NDArray[np.bool_]:
        """Which tasks have a label from a source whose rate is known."""
        return np.bincount(self.task[~self.missing[self.source]], minlength=self.X.shape[0]) > 0


def estimate_noises(noises: Mapping[str, Noise], data: Mapping[str, tuple[Any, Array]]) -> dict[str, Noise]:
    """Noises with every unknown rate replaced by its estimate.

    Parameters
    ----------
    noises : dict of str to Noise
    data : dict of str to (X, y)
        Rows of each source without privacy, of norm 1 or so, and labels -1 and 1.
    """
    names = [name for name in data if not noises[name].private]
    labels = _collect(names, noises, data)
    rates = estimate_rates(labels)
    pairs = {
        name: rates[names.index(name)] * min(1.0, 2.0 * LARGEST / rates[names.index(name)].sum())
        for name in find_unknown(noises)
    }
    found = {
        name: FlippedLabels(tuple(pair.tolist()) if labels.paired[names.index(name)] else float(pair[0]))
        for name, pair in pairs.items()
    }
    for name in (name for name, one in found.items() if one.known_rate > LARGEST - 1e-9):
        warnings.warn(
            f"flip rate of {name!r} was estimated at its limit, {LARGEST}: its labels carry almost no information, or "
            "are more often wrong than right",
            UserWarning,
            stacklevel=5,
        )
    _warn_of_two_rates(labels, names)
    return {name: found.get(name, noise) for name, noise in noises.items()}


def _warn_of_two_rates(labels: _Labels, names: Sequence[str]) -> None:
    """Say where one rate is to be estimated and labels of the two classes are wrong at rates far apart.

    Only for few sources of many labels: it takes as long as the estimate, and single workers' rates are uncertain.
    """
    alike, counts = labels.missing & ~labels.paired, np.bincount(labels.source, minlength=len(names))
    asked = np.flatnonzero(alike & (counts >= MANY))
    if not len(asked) or labels.missing.sum() > FEW:
        return
    two = estimate_rates(replace(labels, paired=labels.missing))
    for place in asked.tolist():
        positive, negative = two[place]
        if abs(positive - negative) > APART:
            warnings.warn(
                f"flip rate of {names[place]!r} seems not to be one: about {positive:.2f} of positive and "
                f"{negative:.2f} of negative labels are wrong; FlippedLabels(('estimate', 'estimate')) learns both",
                UserWarning,
                stacklevel=6,
            )


def estimate_rates(labels: _Labels) -> Array:
    """Flip rates of each source's positive and negative labels, by EM with a model of the features."""
    use, rates = labels.anchored, np.where(np.isnan(labels.known), START, labels.known)
    q, noisy = expit(_votes(labels, rates)), bool(labels.known[~labels.missing].any())
    for seed in range(ROUNDS):
        if noisy and seed == 0:
            calibrated = _from_noisy_anchors(labels)
        else:
            evidence = _held_out(labels.X, q, use, seed)
            calibrated = _slope(evidence[use], q[use]) * evidence
        rates, q = _iterate(labels, rates, calibrated)
        use = np.ones_like(use)  # the first model is that of the anchors alone
    return rates


def _iterate(labels: _Labels, rates: Array, evidence: Array) -> tuple[Array, Array]:
    """EM of the rates, given the model's log-odds of each task."""
    missing = labels.missing
    stated = _votes(labels, _told_by(labels.known, ~missing))
    both = labels.anchored & (np.bincount(labels.task[missing[labels.source]], minlength=len(stated)) > 0)
    target = expit(stated[both])
    for _ in range(ITERATIONS):
        odds = evidence + _votes(labels, _told_by(rates, missing))
        q = expit(_slope(odds[both], target, prior=1.0) * odds + stated)
        before, rates = rates, _rates_given(labels, q[labels.task])
        if np.abs(rates - before).max() < 1e-6:
            break
    return rates, q


def _rates_given(labels: _Labels, q: Array) -> Array:
    """Rates of each source where its labels' tasks are positive with the probabilities q."""
    missing, k = labels.missing, len(labels.known)

    def add_up(values: Array) -> Array:
        return np.asarray(np.bincount(labels.source, values, minlength=k), dtype=np.float64)

    wrong = np.column_stack(
        [add_up(np.where(labels.sign < 0, q, 0.0)), add_up(np.where(labels.sign > 0, 1.0 - q, 0.0))]
    )
    counts = np.column_stack([add_up(q), add_up(1.0 - q)])
    shared = wrong[missing].sum() / counts[missing].sum()
    one = (wrong.sum(axis=1) + OWN * shared) / (counts.sum(axis=1) + OWN)
    two = (wrong + OWN * shared) / (counts + OWN)
    estimates = np.where(labels.paired[:, None], two, one[:, None])
    return np.where(missing[:, None], estimates, labels.known)


def _told_by(rates: Array, of: NDArray[np.bool_]) -> Array:
    """Rates of some of the sources; of the others one half, at which labels say nothing."""
    return np.where(of[:, None], rates, 0.5)


def _votes(labels: _Labels, rates: Array) -> Array:
    """Log-odds of each task's label by what the sources say."""
    positive, negative = np.clip(rates, LEAST, 1.0 - LEAST).T
    said = np.log((1.0 - positive) / negative)[labels.source], np.log(positive / (1.0 - negative))[labels.source]
    weight = np.where(labels.sign > 0, *said)
    return np.asarray(np.bincount(labels.task, weight, minlength=labels.X.shape[0]), dtype=np.float64)


def _from_noisy_anchors(labels: _Labels) -> Array:
    """Log-odds of each task by models of the anchors alone, whose labels are flipped at known rates.

    The surrogate of flipped labels has no bias, where posteriors that rest on one label would take a flip for doubt.
    How sure the models deserve to be is the b of EM with the anchors' own labels.
    """
    at = np.flatnonzero(~labels.missing[labels.source])
    task, source, sign, tasks = labels.task[at], labels.source[at], labels.sign[at], labels.X.shape[0]
    fold, found = np.random.default_rng(0).permutation(tasks) % min(FOLDS, tasks), np.zeros(tasks)
    for one in np.unique(fold):
        used = [np.flatnonzero((source == k) & (fold[task] != one)) for k in np.unique(source)]
        pairs = [(rows, tuple(labels.known[source[rows[0]]].tolist())) for rows in used if len(rows)]
        sources = [PublicRows.from_arrays(labels.X[task[i]], sign[i], FlippedLabels(pair)) for i, pair in pairs]
        if sources:
            strength = STRENGTH / sum(part.count for part in sources)
            model = solve(Problem(labels.X.shape[1], strength, 1), sources)
            found[fold == one] = labels.X[np.flatnonzero(fold == one)] @ model.weights
    votes, use, evidence = _votes(labels, _told_by(labels.known, ~labels.missing)), labels.anchored, found
    for _ in range(ITERATIONS):
        before, evidence = evidence, _slope(found[use], expit(evidence + votes)[use]) * found
        if np.abs(evidence - before).max(initial=0.0) < 1e-4:
            break
    return evidence


def _held_out(X: Any, q: Array, use: NDArray[np.bool_], seed: int) -> Array:
    """Log-odds of each task by a model that did not learn from it."""
    from sklearn.linear_model import LogisticRegression

    fold = np.random.default_rng(seed).permutation(len(q)) % min(FOLDS, len(q))
    found = np.zeros(len(q))
    for one in np.unique(fold):
        rows = np.flatnonzero(use & (fold != one))
        weights = np.concatenate([q[rows], 1.0 - q[rows]])
        targets = np.repeat([1, 0], len(rows))
        if (np.bincount(targets, weights, minlength=2) > LEAST).all():
            model = LogisticRegression(C=1.0 / STRENGTH, fit_intercept=False, tol=1e-3, max_iter=200)
            model.fit(X[np.tile(rows, 2)], targets, sample_weight=weights)
            found[fold == one] = X[np.flatnonzero(fold == one)] @ model.coef_[0]
    return found


def _slope(m: Array, target: Array, prior: float = 0.0) -> float:
    """b >= 0 for which the log-odds b·m agree best with probabilities: Newton's method, from 1.

    `prior` is how many tasks' worth of information says that b = 1.
    """
    slope, tasks = 1.0, max(len(m), 1)
    for _ in range(20):
        p = expit(slope * m)
        bend = float((p * (1.0 - p) * m**2).sum())
        pull = prior * bend / tasks * (1.0 - slope)
        slope = float(np.clip(slope + (m @ (target - p) + pull) / max(bend * (1.0 + prior / tasks), LEAST), 0.0, 10.0))
    return slope


def _collect(names: Sequence[str], noises: Mapping[str, Noise], data: Mapping[str, tuple[Any, Array]]) -> _Labels:
    X = join_rows([data[name][0] for name in names])
    source = np.repeat(np.arange(len(names)), [len(data[name][1]) for name in names])
    first, task = number_tasks(X, source)
    missing = find_unknown(noises)
    known = [
        (np.nan, np.nan) if name in missing else (one.known_rate + one.skew, one.known_rate - one.skew)
        for name, one in ((name, noises[name]) for name in names)
    ]
    paired = np.array([name in missing and getattr(noises[name], "two_rates", False) for name in names])
    signs = np.concatenate([data[name][1] for name in names])
    return _Labels(X[first], task, source, signs, np.array(known), paired)


def number_tasks(X: Any, source: Places) -> tuple[Places, Places]:
    """Number each row's task, and give a row of each: rows of different sources that are equal are one task.

    Only where rows hardly ever come twice in one source: in a table of few values equal rows are different people.

    >>> X = np.array([[1.0, 0.5], [0.2, 0.3], [1.0, 0.5]])
    >>> number_tasks(X, np.array([0, 0, 1]))[1].tolist(), number_tasks(X, np.array([0, 1, 0]))[1].tolist()
    ([1, 0, 1], [0, 1, 2])
    """
    directions = np.random.default_rng(0).normal(size=(X.shape[1], 2))
    keys = np.round(np.asarray(X @ directions), 9)
    _, first, task = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    task = task.ravel()
    pairs = len(np.unique(task * (int(source.max()) + 1) + source))
    if len(source) - pairs > REPEATED * len(source):
        return np.arange(len(source)), np.arange(len(source))
    return first, task
