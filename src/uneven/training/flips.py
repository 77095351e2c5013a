"""Flip rates estimated from the labels, anchored by sources whose rates are known.

The likelihood of an observed label is (1-σ)p + σ(1-p), p the model's probability of it. Given p, each source's σ is
one EM iteration away from a better one; given the rates, the model is fitted again. A few rounds of both.

Those models are only for the rates: their L2 strength follows from the number of rows, whatever the final one's is. A
model that is held back is less sure than it should be, and takes flips for doubt; one that has learned its rows by
heart takes doubt for flips.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from uneven.engine import fit
from uneven.losses import get_loss
from uneven.noise import FlippedLabels, Noise
from uneven.planner import Source, make_plan
from uneven.problem import Problem

Array = NDArray[np.float64]

LARGEST = 0.49
ROUNDS = 5
STRENGTH = 0.5
"""L2 strength in the rounds, for rows of norm 1, times the number of rows."""

ROW_VISITS = 400_000
"""Rows that a model is fitted to in a round, all passes together: one that has not converged is too unsure as well.
The rows are not private, so passes cost nothing."""

MOST_PASSES = 50
"""Of a round: few rows gone through more often than this are learned by heart."""


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


def rate_of(probability: Array, start: float = 0.25, iterations: int = 200) -> float:
    """Maximum-likelihood flip rate, given the model's probability of each observed label.

    EM: a label was flipped with posterior probability σ(1-p)/((1-σ)p + σ(1-p)); the next σ is their mean.

    >>> p = np.array([0.9] * 80 + [0.1] * 20)
    >>> round(rate_of(p), 3)  # (σ·0.8 + 0.1 = 0.2) solved for σ
    0.125
    """
    sigma = start
    for _ in range(iterations):
        flipped = sigma * (1.0 - probability)
        sigma = float(np.mean(flipped / ((1.0 - sigma) * probability + flipped)))
    return min(sigma, LARGEST)


def estimated(
    noises: Mapping[str, Noise], fitted: Callable[[Mapping[str, Noise]], Callable[[str], Array]]
) -> dict[str, Noise]:
    """Noises with every unknown rate replaced by its estimate.

    `fitted` fits a model to the sources it is given and returns a function from a source's name to the model's
    probability of each of its observed labels. The first model is that of the anchors alone.
    """
    missing, known = unknown(noises), _anchors(noises)
    probability = fitted(known)
    for _ in range(ROUNDS):
        rates = {name: FlippedLabels(rate_of(np.clip(probability(name), 1e-12, 1 - 1e-12))) for name in missing}
        probability = fitted({**known, **rates})
    for name in (name for name, one in rates.items() if one.rate == LARGEST):
        warnings.warn(
            f"flip rate of {name!r} was estimated at its limit, {LARGEST}: its labels tell next to nothing, or are "
            "more often wrong than right",
            UserWarning,
            stacklevel=5,
        )
    return {name: rates.get(name, noise) for name, noise in noises.items()}


def fitted_to(data: Mapping[str, tuple[Any, Array]], like: Problem, seed: int | None) -> Any:
    """What `estimated` asks for, from each source's scaled rows and signs; `like` has their norms and batch size."""

    def fitted(noises: Mapping[str, Noise]) -> Callable[[str], Array]:
        visited = sum(len(data[name][1]) for name in noises)
        passes = min(MOST_PASSES, -(-ROW_VISITS // visited))
        sources = [Source(name, len(data[name][1]) * passes, one) for name, one in noises.items()]
        planned = make_plan(sources, replace(like, alpha=STRENGTH / visited))
        w = fit(planned, {name: data[name] for name in noises}, seed=seed, passes=passes).weights
        return lambda name: np.asarray(expit(data[name][1] * np.asarray(data[name][0] @ w)))

    return fitted
