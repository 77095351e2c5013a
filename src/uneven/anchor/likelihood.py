"""Minus the log-likelihood of labels as observed, where some are flipped, and its derivatives in the scores.

A label y flipped at rates ρ₊ and ρ₋ is observed with probability a = ρ₋y + (1-ρ₊-ρ₋)p, p = 1/(1 + e^{-m}) that of the
margin m. The surrogate of flipped labels asks for Σ x(z - a) = 0, z the labels as observed, whatever they tell: rows
that are classified for sure bring as many wrong labels as the others and next to no curvature. The likelihood asks for
Σ x(z - a)·a'/(a(1-a)) = 0, so rows count by what they tell. It is not convex, but it is where weights are short: solved
from there it has the least variance that is possible for many rows (Cramér and Rao), and it is the logistic loss of
exact rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

Array = NDArray[np.float64]

LEAST = np.finfo(np.float64).tiny


def describe_margins(margins: Array, rate: Any, skew: Any) -> tuple[Array, Array, Array]:
    """-log a at each margin, its slope -a'/a, and its expected second derivative a'²/(a(1-a)), which is at least 0.

    Parameters
    ----------
    margins : array
    rate, skew : arrays or floats
        (ρ₊+ρ₋)/2, and (ρ₊-ρ₋)/2 times the label: the label observed is flipped at `rate + skew`, the other at
        `rate - skew`.

    Examples
    --------
    >>> value, slope, bend = describe_margins(np.zeros(1), 0.25, 0.0)
    >>> value.round(4).tolist(), slope.tolist(), bend.tolist()  # log 2, -(1-2σ)/2, (1-2σ)²/4
    ([0.6931], [-0.25], [0.0625])
    """
    p, q, told, other = expit(margins), expit(-margins), 1.0 - 2.0 * rate, rate - skew
    seen, unseen = other + told * p, rate + skew + told * q
    exact = other <= 0.0  # a is a multiple of p, which may round to 0
    value = np.where(exact, np.logaddexp(0.0, -margins) - np.log(told), -np.log(np.maximum(seen, LEAST)))
    slope = -told * q * np.where(exact, 1.0 / told, p / np.maximum(seen, LEAST))
    sure = (rate + skew) <= 0.0
    bend = -slope * told * p * np.where(sure, 1.0 / told, q / np.maximum(unseen, LEAST))
    return np.asarray(value), np.asarray(slope), np.asarray(bend)


def describe_scores(scores: Array, chances: Array, confusion: Array) -> tuple[Array, Array, Array]:
    """The same for more than two classes: -log a, its gradient p - q in the scores, and what its curvature counts.

    a = Σ_k p_k T_ky is the probability of the label y observed, and q_k = p_k T_ky/a that of class k, given it. The
    expected second derivative Σ_y a_y(q_y - p)(q_y - p)ᵀ is taken as the multiple of that of an exact row, diag(p) -
    ppᵀ, that has its trace.

    Parameters
    ----------
    scores : array of shape (n, K)
    chances : array of shape (n, K)
        T_ky of the label observed.
    confusion : array of shape (K, K)
        T.
    """
    p = softmax(scores, axis=1)
    joint = p * chances
    seen = np.maximum(joint.sum(axis=1), LEAST)
    each = np.maximum(p @ confusion, LEAST)
    told = (p**2 * ((1.0 / each) @ (confusion**2).T - 1.0)).sum(axis=1)
    own = (p * (1.0 - p)).sum(axis=1)
    return -np.log(seen), p - joint / seen[:, None], np.clip(told / np.maximum(own, LEAST), 0.0, 1.0)
