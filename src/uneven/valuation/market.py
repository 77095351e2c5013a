"""What is owned and what is for sale: the bound that money buys, and what more rows of each source are worth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uneven.planner import Source
from uneven.valuation.buying import Basket, Step, buy, rank_steps
from uneven.valuation.currencies import Currency
from uneven.valuation.offers import Offer, Prices, list_menu
from uneven.valuation.worths import Worth

Curve = tuple[tuple[float, ...], tuple[float, ...], tuple[str, ...]]
"""Spends, their bounds, and the source that the last of the money goes to."""

SPLITS = 11
"""Ways to split money between rows with privacy and without that are tried."""

POINTS = 60
"""Points of the curve, besides those where a source is sold out."""


@dataclass(frozen=True)
class Market:
    """What is owned, and the steps of buying what is for sale."""

    currency: Currency
    owned: tuple[Offer, ...]
    steps: tuple[Step, ...]

    @property
    def precision(self) -> float:
        """Σ rows·(worth of a row) of what is owned."""
        return sum(offer.source.rows * offer.precision for offer in self.owned)

    def bound_with(self, rows: Sequence[tuple[Offer, int]]) -> tuple[float, tuple[str, ...]]:
        """Bound, or expected excess, with what is owned and this many rows of some offers; and its caveats."""
        held: dict[str, Source] = {offer.name: offer.source for offer in self.owned}
        for offer, count in rows:
            before = held[offer.name].rows if offer.name in held else 0
            held[offer.name] = replace(offer.source, rows=before + count)
        return self.currency.total(list(held.values()))

    def choose(self, money: float) -> Basket:
        """What to buy: the most precision for the money, unless the bound is lower with less.

        The cleanest rows limit the step sizes of all (Theorem C), so that few of them can raise the bound. Rows no
        cleaner than those owned do not. Rows with privacy and without are two goods (Theorem D): the more there is of
        one, the less more of it is worth. Steps c/t do not weigh rows by their noise (Theorem 3), so that one source
        alone may be best. Nothing is bought that leaves the bound higher than it was, or as it was.
        """
        most = buy(self.steps, money)
        cleanest = max((offer.precision for offer in self.owned), default=0.0)
        no_cleaner = buy([step for step in self.steps if step.offer.precision <= cleanest], money)
        baskets = (most, no_cleaner, *self._splits(money), *self._singles(money), Basket())
        bounds = [(self.bound_with(basket.rows)[0], basket.spent) for basket in baskets]
        least = min(bound for bound, _ in bounds)
        near = [k for k, (bound, _) in enumerate(bounds) if bound <= least * (1.0 + 1e-12)]
        best = self._drop_unused(baskets[min(near, key=lambda k: k if self.currency.additive else bounds[k][1])])
        declined = set(most.origins) - set(best.origins)
        first = [step.offer for step in self.steps if step.before is None]
        return replace(best, declined=tuple(offer.name for offer in first if offer.origin in declined))

    def _drop_unused(self, basket: Basket) -> Basket:
        """The basket without rows that a fit would leave out: the expected excess is the same without them."""
        if not self.currency.of_anchored_fit:
            return basket
        least, kept = self.bound_with(basket.rows)[0], list(basket.rows)
        for one in basket.rows:
            fewer = [other for other in kept if other is not one]
            kept = fewer if self.bound_with(fewer)[0] <= least * (1.0 + 1e-12) else kept
        return replace(basket, rows=tuple(kept))

    def _singles(self, money: float) -> Iterator[Basket]:
        """All the money for one source, where worths do not add up."""
        if not self.currency.additive:
            for origin in dict.fromkeys(step.offer.origin for step in self.steps):
                yield buy([step for step in self.steps if step.offer.origin == origin], money)

    def _splits(self, money: float) -> Iterator[Basket]:
        """The money split between rows with privacy and without, where their worths do not simply add up."""
        private = [step for step in self.steps if step.offer.source.noise.private]
        public = [step for step in self.steps if not step.offer.source.noise.private]
        if not self.currency.of_anchored_fit or not (private and public):
            return
        for share in np.linspace(0.0, 1.0, SPLITS):
            one, other = buy(public, share * money), buy(private, (1.0 - share) * money)
            yield Basket(one.rows + other.rows, one.margin or other.margin)


def open_market(
    sources: Sequence[Source], currency: Currency, prices: Mapping[str, Prices], epsilons: tuple[float, float]
) -> Market:
    """Market of these sources: those without a price are owned, the others for sale."""
    owned, menus = [], []
    for source in sources:
        if source.price is None and source.name not in prices:
            owned.append(Offer(source, currency.precision(source), source.name))
        else:
            menu = list_menu(source, prices.get(source.name), epsilons)
            menus.append([Offer(sold, currency.precision(sold), source.name) for sold in menu])
    return Market(currency, tuple(owned), tuple(rank_steps(menus)))


def find_worths(market: Market, basket: Basket, bound: float, more: int) -> Iterator[Worth]:
    """Worth of each source that is owned or for sale, given what is bought and the bound with it."""
    offers = [*market.owned, *_select_offers(market.steps, basket)]
    cleanest = max(offer.precision for offer in offers)
    precision, margin = market.precision + basket.precision, _find_margin(market.steps, basket)
    for offer in offers:
        next_bound, _ = market.bound_with([*basket.rows, (offer, more)])
        yield Worth(
            name=offer.name,
            noise=offer.source.noise,
            rows=offer.source.rows,
            price=None if offer in market.owned else offer.price,
            precision=offer.precision,
            exchange=offer.precision / cleanest if cleanest else 1.0,
            money=offer.precision / margin.rate if margin else None,
            next_bound=next_bound,
            next_change=next_bound / bound - 1.0,
            next_precision=more * offer.precision / precision if precision else math.inf,
        )


def _find_margin(steps: Sequence[Step], basket: Basket) -> Step | None:
    """Step that sets the price of precision: where the money ends, or the last one if it buys everything."""
    if not basket.rows:
        return steps[0] if steps else None
    return basket.margin or steps[-1]


def _select_offers(steps: Sequence[Step], basket: Basket) -> list[Offer]:
    """Offers that are bought, and the best deal of each source that is not."""
    bought = [offer for offer, _ in basket.rows]
    origins = {offer.origin for offer in bought}
    return bought + [step.offer for step in steps if step.before is None and step.offer.origin not in origins]


def trace_curve(market: Market, budget: float | None) -> tuple[Curve, str]:
    """The curve of bound against spend, up to twice the budget or all for sale; and a note on where it rises."""
    sold_out = np.cumsum([step.price * step.offer.source.rows for step in market.steps])
    total = float(sold_out[-1]) if len(sold_out) else 0.0
    end = total if budget is None else max(budget, min(2.0 * budget, total))
    corners = [float(spend) for spend in sold_out if spend < end]
    spends = sorted({*np.linspace(0.0, end, POINTS).tolist(), *corners, *([] if budget is None else [budget])})
    baskets = [market.choose(spend) for spend in spends]
    bounds = [market.bound_with(basket.rows)[0] for basket in baskets]
    going_to = tuple(basket.last_origin for basket in baskets)
    declined = [(spend, basket.declined) for spend, basket in zip(spends, baskets, strict=True) if basket.declined]
    return (tuple(spends), tuple(bounds), going_to), _note_rise(market, declined, np.array(bounds))


def _note_rise(market: Market, declined: Sequence[tuple[float, tuple[str, ...]]], bounds: NDArray[np.float64]) -> str:
    if market.currency.of_anchored_fit:
        return ""
    why = (
        "the cleanest rows limit the step sizes of all (Theorem C), and there the money buys too few of them to make "
        "up for it."
        if market.currency.additive
        else "step sizes c/t do not weigh rows by their noise (Theorem 3)."
    )
    if declined:
        names = ", ".join(repr(name) for name in dict.fromkeys(name for _, names in declined for name in names))
        until = f"Up to a spend of about {declined[-1][0]:,.4g}"
        return f"{until}, buying from {names} would raise the bound though precision rises too: {why}"
    return f"The bound rises at some spends: {why}" if (np.diff(bounds) > 1e-9 * bounds[:-1]).any() else ""
