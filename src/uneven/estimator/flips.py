"""Flip rates estimated from the labels, anchored by sources whose rates are known.

The likelihood of an observed label is (1-σ)p + σ(1-p), p the model's probability of it. Given p, each source's σ is
one EM iteration away from a better one; given the rates, the model is fitted again. A few rounds of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from uneven.noise import FlippedLabels, Noise

Array = NDArray[np.float64]

LARGEST = 0.49
ROUNDS = 5
ROW_VISITS = 400_000
"""Rows that a model is fitted to in a round, all passes together: one that has not converged is less sure than it
should be, and takes flips for doubt. The rows are not private, so passes cost nothing."""


def unknown(noises: Mapping[str, Noise]) -> list[str]:
    """Sources whose flip rate is to be estimated."""
    return [name for name, noise in noises.items() if isinstance(noise, FlippedLabels) and noise.rate == "estimate"]


def refuse_unanchored(noises: Mapping[str, Noise], loss: str) -> None:
    """Refuse where nothing tells flipped labels from a flipped model."""
    missing = unknown(noises)
    anchors = [name for name, noise in noises.items() if name not in missing and noise.epsilon_per_row is None]
    if missing and not anchors:
        raise ValueError(
            f"noise must have a source with a known flip rate and without privacy, to anchor the estimate of "
            f"{missing[0]!r}; got {', '.join(map(repr, noises))}"
        )
    if missing and loss != "logistic":
        raise ValueError(f"loss must be 'logistic' to estimate flip rates: they need probabilities; got {loss!r}")


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
    noises: Mapping[str, Noise], fit: Callable[[Mapping[str, Noise]], Callable[[str], Array]]
) -> dict[str, Noise]:
    """Noises with every unknown rate replaced by its estimate.

    `fit` fits the sources it is given and returns a function from a source's name to the model's probability of each
    of its observed labels. The first model is that of the anchors alone.
    """
    missing = unknown(noises)
    known = {name: noise for name, noise in noises.items() if name not in missing and noise.epsilon_per_row is None}
    probability = fit(known)
    for _ in range(ROUNDS):
        rates = {name: FlippedLabels(rate_of(np.clip(probability(name), 1e-12, 1 - 1e-12))) for name in missing}
        probability = fit({**known, **rates})
    return {name: rates.get(name, noise) for name, noise in noises.items()}
