"""Rows for sale or owned: what one costs, and the precision it carries."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from uneven import checks
from uneven.noise import LocalPrivacy
from uneven.planner import Source

TRIED = 200
"""Number of values of ε that are tried where a price is a function of it."""

Prices = Mapping[float, float] | Callable[[float], float]
"""Price of a row at each ε that it is sold at."""


@dataclass(frozen=True)
class Offer:
    """Rows of one source at one noise and price; `precision` is that of one row. Owned rows cost nothing."""

    source: Source
    precision: float
    origin: str

    @property
    def name(self) -> str:
        """Name of the source in a plan."""
        return self.source.name

    @property
    def price(self) -> float:
        """Price of one row."""
        return self.source.price or 0.0


def list_menu(source: Source, prices: Prices | None, epsilons: tuple[float, float]) -> list[Source]:
    """What one source is sold as: itself, or itself at each ε that has a price."""
    if prices is None:
        return [source]
    noise = source.noise
    if not isinstance(noise, LocalPrivacy):
        raise ValueError(
            f"prices of source {source.name!r} must be left out: a price for each epsilon needs a noise of local "
            f"privacy, got {noise!r}"
        )
    return [
        replace(source, name=f"{source.name} (ε = {epsilon:.4g})", noise=replace(noise, epsilon=epsilon), price=price)
        for epsilon, price in _priced(source.name, prices, epsilons)
    ]


def check_prices(prices: object, sources: Sequence[Source]) -> Mapping[str, Prices]:
    """Prices by source; an error if they are not a mapping or name an unknown source."""
    if prices is None:
        return {}
    if not isinstance(prices, Mapping):
        raise ValueError(f"prices must be a dict of source names, got {checks.shown(prices)}")
    names = tuple(source.name for source in sources)
    checks.only_keys("prices", prices, names)
    return prices


def check_range(epsilons: Any) -> tuple[float, float]:
    """Range of ε to try: two positive numbers, the first the smaller."""
    if not isinstance(epsilons, Sequence) or len(epsilons) != 2:
        raise ValueError(f"epsilons must be two numbers, the least and the largest, got {checks.shown(epsilons)}")
    low, high = (checks.moderate("epsilons", end) for end in epsilons)
    if not low < high:
        raise ValueError(f"epsilons must be two numbers, the least and the largest, got {checks.shown(epsilons)}")
    return low, high


def _priced(name: str, prices: Prices, epsilons: tuple[float, float]) -> list[tuple[float, float]]:
    """Each ε on offer and its price, both checked."""
    if isinstance(prices, Mapping):
        pairs = list(prices.items())
    elif callable(prices):
        pairs = [(float(e), prices(float(e))) for e in np.geomspace(*epsilons, TRIED)]
    else:
        raise ValueError(
            f"prices of source {name!r} must be a dict of epsilon and price, or a function of epsilon; "
            f"got {checks.shown(prices)}"
        )
    if not pairs:
        raise ValueError(f"prices of source {name!r} must have at least one epsilon, got none")
    return [
        (
            checks.moderate(f"epsilon in the prices of source {name!r}", epsilon),
            checks.not_negative(f"price of source {name!r} at epsilon = {checks.shown(epsilon)}", price),
        )
        for epsilon, price in pairs
    ]


def keep_efficient(offers: Sequence[Offer]) -> list[Offer]:
    """Offers for the same rows that are the best for some budget, cheapest first.

    These are the corners of the concave hull of (price, precision) from (0, 0): each carries more precision than those
    before it, at a higher price for the extra precision. The first maximises precision/price.
    """
    kept: list[Offer] = []
    for offer in sorted(offers, key=lambda offer: (offer.price, -offer.precision)):
        if kept and offer.precision <= kept[-1].precision:
            continue
        # A corner lies below the hull if the slope to it is no steeper than the slope from it to the new offer.
        while kept and compute_precision_per_price(
            kept[-2] if len(kept) > 1 else None, kept[-1]
        ) <= compute_precision_per_price(kept[-1], offer):
            kept.pop()
        kept.append(offer)
    return kept


def compute_precision_per_price(before: Offer | None, offer: Offer) -> float:
    """Precision per price of a row, or of upgrading a row from another offer to this one; infinite if it is free."""
    price = offer.price - (before.price if before else 0.0)
    precision = offer.precision - (before.precision if before else 0.0)
    return precision / price if price > 0 else math.inf
