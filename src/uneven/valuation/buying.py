"""Buy the most precision for money, in whole rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from uneven.valuation.offers import Offer, compute_precision_per_price, keep_efficient


@dataclass(frozen=True)
class Step:
    """Rows to buy next: of an offer, or upgraded to it from a cheaper one for the same rows."""

    offer: Offer
    before: Offer | None = None

    @property
    def price(self) -> float:
        """Price of a row, or of upgrading it."""
        return self.offer.price - (self.before.price if self.before else 0.0)

    @property
    def rate(self) -> float:
        """Precision per price."""
        return compute_precision_per_price(self.before, self.offer)


@dataclass(frozen=True)
class Basket:
    """What some money buys: rows of each offer, and the step that more money would go to first.

    `declined` names the sources that would be bought from if that did not raise the bound.
    """

    rows: tuple[tuple[Offer, int], ...] = ()
    margin: Step | None = None
    declined: tuple[str, ...] = ()

    @property
    def origins(self) -> tuple[str, ...]:
        """Names of the sources that are bought from."""
        return tuple(dict.fromkeys(offer.origin for offer, _ in self.rows))

    @property
    def last_origin(self) -> str:
        """Source that the last of the money goes to; empty where nothing is bought."""
        bought = [offer for offer, _ in self.rows]
        partly = self.margin is not None and self.margin.offer in bought
        last = self.margin.offer if self.margin and partly else bought[-1] if bought else None
        return last.origin if last else ""

    @property
    def spent(self) -> float:
        """What all of them cost."""
        return sum(count * offer.price for offer, count in self.rows)

    @property
    def precision(self) -> float:
        """Σ rows/(row's variance)."""
        return sum(count * offer.precision for offer, count in self.rows)


def rank_steps(menus: Sequence[Sequence[Offer]]) -> list[Step]:
    """Steps of buying, the best deal first.

    Each menu lists one source's rows at one or more prices and noises. A row is bought at the best deal of its menu
    and upgraded once that is the best use of money. The corners of the hull come in this order, each at a worse rate
    than the one before, so buying in order of rate solves the fractional knapsack.
    """
    steps = []
    for menu in menus:
        corners = keep_efficient(menu)
        steps += [Step(offer, before) for before, offer in zip([None, *corners[:-1]], corners, strict=True)]
    return sorted(steps, key=lambda step: -step.rate)


def buy(steps: Sequence[Step], money: float) -> Basket:
    """Spend money on the steps in turn, until one cannot be paid in full; whole rows only.

    Steps whose price of one row exceeds the money left are skipped. Fractional rows would add less precision than one
    row of the first step that is not paid in full.
    """
    held: dict[Offer, int] = {}
    margin = None
    for step in steps:
        most = step.offer.source.rows if step.before is None else held.get(step.before, 0)
        count = _affordable(money, step.price, most)
        held[step.offer] = count
        if step.before is not None:
            held[step.before] -= count
        money = max(0.0, money - count * step.price)
        if count < most:
            margin = margin or step
            if count:
                break
    return Basket(tuple((offer, count) for offer, count in held.items() if count), margin)


def _affordable(money: float, price: float, most: int) -> int:
    """Number of rows, at most `most`, that the money buys; the factor keeps rounding from costing a row."""
    if price * most <= money:
        return most
    return min(most, math.floor(money / price * (1.0 + 1e-12)))
