"""Dawid and Skene (1979): the workers' errors and the true labels, each from the other.

The model: a task's true class y has probability π_y; worker w answers l with probability C_w[l, y], whatever the
others answer. EM: given the posteriors q of the true classes, a worker's confusions are shares of weighted counts,
C_w[l, y] = (Σ q_y over their answers l + κ·P[l, y]) / (the same summed over l), P the confusions of all workers
together; given the confusions, q_y ∝ π_y·Π C_w[l, y] over the task's answers. κ = 0 is the original. A worker with few
answers is otherwise taken to be like the others: with 59 workers and eight classes, EM without that is less often
right than majority votes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uneven.crowd.answers import Answers

Array = NDArray[np.float64]

KAPPA = 2.0
"""How many answers, for each true class, a worker is taken to have given like everybody else."""

LEAST = 1e-10
"""Probability of an answer that was never given."""


@dataclass(frozen=True)
class Consensus:
    """Result of EM.

    Attributes
    ----------
    posterior : array of shape (tasks, classes)
        Probability of each class.
    confusion : array of shape (workers, classes, classes)
        Probability of each answer (second axis), given the true class (third).
    prior : array of shape (classes,)
        Share of each class.
    """

    posterior: Array
    confusion: Array
    prior: Array


def estimate(
    answers: Answers,
    *,
    gold: NDArray[np.int64] | None = None,
    evidence: Array | None = None,
    start: Array | None = None,
    kappa: float = KAPPA,
    rounds: int = 200,
    tolerance: float = 1e-5,
) -> Consensus:
    """Run EM from majority votes until no posterior moves by more than `tolerance`.

    Parameters
    ----------
    answers : Answers
    gold : array of shape (tasks,) or None
        True class of tasks where it is known, -1 elsewhere.
    evidence : array of shape (tasks, classes) or None
        Log-probability of each class before any answer, such as a classifier's; None means the share of the class.
    start : array of shape (tasks, classes) or None
        Posteriors to start from; None means the votes.
    kappa : float
    rounds : int
        At most.
    tolerance : float
    """
    incidence, k = answers.incidence, len(answers.classes)
    q = _with_gold(answers.votes() if start is None else start, gold)
    for _ in range(rounds):
        prior, confusion = q.mean(axis=0), estimate_confusions(incidence @ q, k, kappa)
        scores = incidence.T @ np.log(np.maximum(confusion, LEAST)).reshape(-1, k)
        scores += np.log(np.maximum(prior, LEAST)) if evidence is None else evidence
        before, q = q, _with_gold(normalise(scores), gold)
        if np.abs(q - before).max() <= tolerance:
            break
    return Consensus(q, estimate_confusions(incidence @ q, k, kappa), q.mean(axis=0))


def estimate_confusions(counts: Array, k: int, kappa: float) -> Array:
    """Confusions of each worker from counts of shape (workers x answers, true classes), drawn to those of all."""
    own = counts.reshape(-1, k, k)
    everybody = own.sum(axis=0)
    shared = everybody / np.maximum(everybody.sum(axis=0), LEAST)
    smoothed = own + kappa * shared
    return np.asarray(smoothed / np.maximum(smoothed.sum(axis=1, keepdims=True), LEAST))


def normalise(scores: Array) -> Array:
    """Probabilities from logarithms that lack a constant in each row."""
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def _with_gold(q: Array, gold: NDArray[np.int64] | None) -> Array:
    if gold is None:
        return q
    return np.where(gold[:, None] >= 0, np.eye(q.shape[1])[np.maximum(gold, 0)], q)
