"""What the releases of two inputs are told apart by, and what counting it says about ε."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from uneven.audit.pairs import Array, Pair

THRESHOLDS = 400
"""How many thresholds are tried for each statistic: quantiles, closer together in both tails."""

LUCK = 3.0
"""Standard errors by which an event must look better than another."""

DIGITS = 9
"""Statistics are rounded to so many decimals: floating point leaks in the last digits, and that is not audited."""

FARTHEST = 1e100
"""Coordinates beyond this, in units of C, are looked at as if they were there; infinite ones too."""

Statistic = Callable[[Array], Array]


class Event(NamedTuple):
    """A statistic of the release at or above a threshold, or below it; and which input makes it likelier."""

    statistic: str
    threshold: float
    above: bool
    swapped: bool

    def holds(self, values: Array) -> Array:
        """Where it happens, for values of its statistic."""
        return np.asarray(values >= self.threshold if self.above else values < self.threshold)

    def __str__(self) -> str:
        """In words: ``nearer to one than to the other ≥ 1.2``."""
        return f"{self.statistic} {'≥' if self.above else '<'} {self.threshold:.4g}"


def list_statistics(pair: Pair) -> dict[str, Statistic]:
    """Numbers to tell releases of the pair apart by: halfspaces, distances, lengths, caps, silence, no number.

    For noise that depends on its Euclidean norm the difference of distances orders releases by their likelihood ratio,
    so its events are the best there are; for noise on each coordinate the city-block distance does; for a release by
    direction the angle. A release that is infinite or NaN may give its input away by that alone; to the others infinity
    is far away and NaN is 0, so that their values are always numbers.

    >>> asked = list_statistics(Pair("opposite", np.ones(1), -np.ones(1)))
    >>> z = np.array([[-2.0], [-np.inf], [np.nan]])
    >>> [asked[name](z).tolist() for name in ("length", "infinite (1) or NaN (2)")]
    [[2.0, 1e+100, 0.0], [0.0, 1.0, 2.0]]
    """
    _, one, other, batches = pair
    found: dict[str, Statistic] = {
        "side": lambda z: z @ (one - other),
        "nearer to one than to the other": lambda z: _norms(z - other) - _norms(z - one),
        "nearer in city blocks": lambda z: np.abs(z - other).sum(axis=1) - np.abs(z - one).sum(axis=1),
        "length": _norms,
        "silence (0) or not (1)": lambda z: np.asarray(z.any(axis=1), dtype=np.float64),
        "angle to one": lambda z: (z @ one) / np.maximum(_norms(z), 1e-300),
    }
    if abs(one @ other) < np.linalg.norm(one) * np.linalg.norm(other) * (1 - 1e-9):
        found["angle to the other"] = lambda z: (z @ other) / np.maximum(_norms(z), 1e-300)
    if batches > 1:  # each with noise of its own, so that their likelihood ratios multiply
        found["nearer, batch by batch"] = lambda z: (
            (_norms((z - other).reshape(-1, len(one) // batches)) - _norms((z - one).reshape(-1, len(one) // batches)))
            .reshape(-1, batches)
            .sum(axis=1)
        )
    return {name: _of_numbers(statistic) for name, statistic in found.items()} | {"infinite (1) or NaN (2)": _oddity}


def _of_numbers(statistic: Statistic) -> Statistic:
    """That statistic, of releases whose coordinates are numbers that can be squared."""

    def of_numbers(z: Array) -> Array:
        tame = np.abs(z).max(initial=0.0) <= FARTHEST  # not so for NaN
        return statistic(z if tame else np.clip(np.where(np.isnan(z), 0.0, z), -FARTHEST, FARTHEST))

    return of_numbers


def _oddity(z: Array) -> Array:
    """0 for a finite release, 1 for one with an infinite coordinate, 2 for one with NaN."""
    return np.asarray(np.where(np.isnan(z), 2.0, np.isinf(z)).max(axis=1))


def _norms(z: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", z, z)))


def bound_log_ratio(hits: ArrayLike, others: ArrayLike, draws: int, confidence: float) -> Array:
    """log(p̲/q̄): a lower bound on ε from how often an event happened in as many draws of either input.

    p̲ and q̄ are Clopper and Pearson's bounds (1934), each wrong with probability (1 - confidence)/2 at most. Since
    p ≤ e^ε·q for every event of an ε-private release, the result exceeds ε with probability 1 - confidence at most.

    >>> round(float(bound_log_ratio(880_797, 119_203, 1_000_000, 0.99)), 3)  # randomised response at ε = 2
    1.992
    """
    k, j = np.asarray(hits, dtype=np.float64), np.asarray(others, dtype=np.float64)
    wrong = (1.0 - confidence) / 2.0
    lower = np.where(k > 0, betaincinv(np.maximum(k, 1), draws - k + 1, wrong), 0.0)
    upper = np.where(j < draws, betaincinv(j + 1, np.maximum(draws - j, 1), 1.0 - wrong), 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(lower) - np.log(upper))


def find_best_event(name: str, one: Array, other: Array, draws: int, confidence: float) -> tuple[float, Event]:
    """Event of one statistic that promises most, from its values on as many releases of either input.

    It is judged by the bound that `draws` more releases of either would give at these frequencies, less three standard
    errors of what was seen: the best of many would else be the luckiest.
    """
    seen, scale = len(one), draws / len(one)
    one, other = np.sort(one), np.sort(other)
    both = np.sort(np.concatenate([one, other]), kind="stable")  # merges two sorted runs
    thresholds = np.unique(both[(_quantiles() * (len(both) - 1)).astype(np.intp)])
    below = np.array([np.searchsorted(values, thresholds, side="left") for values in (one, other)])
    best = (-np.inf, Event(name, 0.0, True, False))
    for above in (True, False):
        counts = seen - below if above else below
        for swapped in (False, True):
            hits, others = counts[::-1] if swapped else counts
            few, many = hits - LUCK * np.sqrt(hits), others + LUCK * np.sqrt(others) + LUCK
            bounds = bound_log_ratio(np.maximum(few, 0) * scale, np.minimum(many * scale, draws), draws, confidence)
            i = int(np.argmax(bounds))
            if bounds[i] > best[0]:
                best = float(bounds[i]), Event(name, float(thresholds[i]), above, swapped)
    return best


def _quantiles() -> Array:
    tail = np.geomspace(1e-6, 0.05, THRESHOLDS // 4)
    return np.concatenate([tail, np.linspace(0.05, 0.95, THRESHOLDS // 2), 1.0 - tail])
