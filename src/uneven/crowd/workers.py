"""One worker of a crowd: how many labels, how often wrong for each class, and what a label is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.intervals import find_wilson_interval

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Worker:
    """A worker as estimated.

    Attributes
    ----------
    name : str or int
    labels : int
        How many they gave.
    errors : dict
        For each true class, the share of their labels that are wrong.
    error : float
        Share of their labels that are wrong, for tasks of the usual mix of classes.
    worth : float
        Exact labels that one of theirs is worth, at most 1.
    """

    name: Any
    labels: int
    errors: Mapping[Any, float]
    error: float
    worth: float

    @property
    def worth_at_least(self) -> float:
        """Lower end of the worth's 95% interval for so many labels, as if every class had the same error.

        With error e, the worth is (1-2e)²: the interval is Wilson's for the share 1-e of labels that are right.
        """
        right = find_wilson_interval(self.labels * (1.0 + math.sqrt(self.worth)) / 2.0, self.labels)
        return max(0.0, 2.0 * right.low - 1.0) ** 2


def describe_workers(
    names: NDArray[Any], classes: NDArray[Any], counts: NDArray[np.int64], confusion: Array, prior: Array
) -> tuple[Worker, ...]:
    """Workers, those with most labels first."""
    wrong = 1.0 - np.einsum("wcc->wc", confusion)
    worths = find_worth(confusion, prior)
    return tuple(
        Worker(
            names[w].item(),
            int(counts[w]),
            dict(zip(classes.tolist(), wrong[w].tolist(), strict=True)),
            float(wrong[w] @ prior),
            float(worths[w]),
        )
        for w in np.argsort(-counts, kind="stable")
    )


def find_worth(confusion: Array, prior: Array) -> Array:
    """Worth of a label of each worker, in exact labels: Σ π_c·(P(c | c) - P(c | not c))².

    For two classes it is (1 - a - b)², a and b the error rates of the classes: the inverse of how much larger the
    variance of the corrected gradient is (Natarajan et al. 2013), and (1-2σ)² where a = b = σ.

    >>> find_worth(np.array([[[0.9, 0.1], [0.1, 0.9]]]), np.array([0.5, 0.5])).round(4).tolist()
    [0.64]
    """
    right = np.einsum("wcc->wc", confusion)
    others = (confusion @ prior - right * prior) / np.maximum(1.0 - prior, 1e-12)
    return np.asarray((right - others) ** 2 @ prior)
