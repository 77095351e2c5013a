"""Flip rates estimated from the labels, anchored by sources whose rates are known.

Each task (a row, or the rows of several sources with the same features) has one true label. Given the rates σ and a
model's log-odds m of the true label, its posterior log-odds are b·m + Σ y·log((1-σ)/σ) over the labels y = ±1 that it
was given; given the posteriors, a source's σ is the mean probability that its labels are wrong. EM, a few rounds of it
with a model learned again from the posteriors.

The model is asked only about tasks it did not learn from: one that has learned its rows by heart would take doubt for
flips. How sure of itself it deserves to be, b, is learned with the rates.

Sources that label the same tasks err together where a task is hard for all. Tasks that an anchor has labelled too show
by how much: the log-odds of the model and the other sources together are multiplied by what makes them agree best with
the anchor's labels there. Without that, rates of 203 workers came out too low by .03 on average.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from uneven.losses import get_loss
from uneven.noise import FlippedLabels, Noise
from uneven.training.rows import join_rows

Array = NDArray[np.float64]
Places = NDArray[np.int64]

LARGEST = 0.49
ROUNDS, FOLDS = 4, 5
ITERATIONS = 200
START = 0.25
LEAST = 1e-6

STRENGTH = 0.5
"""L2 strength of the models, for rows of norm 1, times the number of rows."""

OWN = 2.0
"""Labels that each source is taken to have given like all those whose rate is not known."""

REPEATED = 0.01
"""Share of rows that may come twice in one source, where equal rows of different sources are taken for one task."""


def unknown(noises: Mapping[str, Noise]) -> list[str]:
    """Sources whose flip rate is to be estimated."""
    return [name for name, noise in noises.items() if isinstance(noise, FlippedLabels) and noise.rate == "estimate"]


def refuse_unanchored(noises: Mapping[str, Noise], loss: str) -> None:
    """Refuse where nothing tells flipped labels from a flipped model."""
    missing = unknown(noises)
    if missing and not _anchors(noises):
        raise ValueError(
            f"noise must have a source with a known flip rate and without privacy, to anchor the estimate of "
            f"{missing[0]!r}; got {', '.join(map(repr, noises))}"
        )
    if missing and not get_loss(loss).probabilistic:
        raise ValueError(f"loss must be 'logistic' to estimate flip rates: they need probabilities; got {loss!r}")


def _anchors(noises: Mapping[str, Noise]) -> dict[str, Noise]:
    missing = unknown(noises)
    return {name: one for name, one in noises.items() if name not in missing and not one.private}


@dataclass(frozen=True)
class _Labels:
    """Labels of all sources: the place of each one's task and source, and its sign; features of the tasks."""

    X: Any
    task: Places
    source: Places
    sign: Array
    known: Array
    """Flip rate of each source, NaN where it is to be estimated."""

    @property
    def anchored(self) -> NDArray[np.bool_]:
        """Which tasks have a label from a source whose rate is known."""
        return np.bincount(self.task[~np.isnan(self.known)[self.source]], minlength=self.X.shape[0]) > 0


def estimated(noises: Mapping[str, Noise], data: Mapping[str, tuple[Any, Array]]) -> dict[str, Noise]:
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
    found = {name: FlippedLabels(min(float(rates[names.index(name)]), LARGEST)) for name in unknown(noises)}
    for name in (name for name, one in found.items() if one.rate == LARGEST):
        warnings.warn(
            f"flip rate of {name!r} was estimated at its limit, {LARGEST}: its labels tell next to nothing, or are "
            "more often wrong than right",
            UserWarning,
            stacklevel=5,
        )
    return {name: found.get(name, noise) for name, noise in noises.items()}


def estimate_rates(labels: _Labels) -> Array:
    """Flip rate of each source, by EM with a model of the features."""
    use, rates = labels.anchored, np.where(np.isnan(labels.known), START, labels.known)
    q = expit(_votes(labels, rates, np.ones(len(rates), dtype=bool)))
    for seed in range(ROUNDS):
        evidence = _held_out(labels.X, q, use, seed)
        rates, q = _iterate(labels, rates, _slope(evidence[use], q[use]) * evidence)
        use = np.ones_like(use)  # the first model is that of the anchors alone
    return rates


def _iterate(labels: _Labels, rates: Array, evidence: Array) -> tuple[Array, Array]:
    """EM of the rates, given the model's log-odds of each task."""
    missing, counts = np.isnan(labels.known), np.bincount(labels.source, minlength=len(labels.known))
    stated = _votes(labels, labels.known, ~missing)
    both = labels.anchored & (np.bincount(labels.task[missing[labels.source]], minlength=len(stated)) > 0)
    target = expit(stated[both])
    for _ in range(ITERATIONS):
        odds = evidence + _votes(labels, rates, missing)
        q = expit(_slope(odds[both], target, prior=1.0) * odds + stated)
        wrong = np.where(labels.sign > 0, 1.0 - q[labels.task], q[labels.task])
        sums = np.bincount(labels.source, wrong, minlength=len(counts))
        shared = sums[missing].sum() / counts[missing].sum()
        before, rates = rates, np.where(missing, (sums + OWN * shared) / (counts + OWN), labels.known)
        if np.abs(rates - before).max() < 1e-6:
            break
    return rates, q


def _votes(labels: _Labels, rates: Array, of: NDArray[np.bool_]) -> Array:
    """Log-odds of each task's label by what some of the sources say."""
    sigma = np.clip(np.where(of, rates, 0.5), LEAST, 1.0 - LEAST)
    weight = np.log((1.0 - sigma) / sigma)[labels.source] * labels.sign
    return np.asarray(np.bincount(labels.task, weight, minlength=labels.X.shape[0]), dtype=np.float64)


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
    known = [np.nan if name in unknown(noises) else getattr(noises[name], "known_rate", 0.0) for name in names]
    return _Labels(X[first], task, source, np.concatenate([data[name][1] for name in names]), np.array(known))


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
