"""`value`: what data is worth, and what to buy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from uneven import checks
from uneven.planner import Plan, Source, plan
from uneven.planner.source import checked_sources
from uneven.problem import Problem
from uneven.valuation import picture, text
from uneven.valuation.answer import Answer, Purchase, Worth
from uneven.valuation.buying import Basket, Step, buy, steps_of
from uneven.valuation.offers import Offer, Prices, checked_prices, checked_range, menu_of, offer_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 60
"""Points of the curve, besides those where a source is sold out."""

MOMENTS = ("auto", "upper", "variance")


class Valuation(Answer):
    """What `uneven.value` found. Frozen: to change it, ask again."""

    def plan(self) -> Plan:
        """Plan ``"precision"`` for what is owned and what is to be bought."""
        if not self.owned and not self.purchases:
            raise ValueError("a plan needs rows: nothing is owned, and nothing is bought")
        bought = [Source(item.source, item.rows, item.noise, item.price) for item in self.purchases]
        return plan([*self.owned, *bought], **self.problem.to_dict(), moments=self.moments)

    def summary(self) -> str:
        """What to buy and why, in words and tables, for a terminal."""
        return text.summary(self)

    def __str__(self) -> str:
        return self.summary()

    def plot(self) -> Figure:
        """Two pictures: the bound against spend, and what precision costs at each source."""
        return picture.picture(self)


def value(
    sources: Iterable[Source],
    n_features: int,
    alpha: float = 1e-3,
    batch_size: int = 50,
    loss: str = "logistic",
    moments: str = "auto",
    radius: str = "tight",
    clip: float | None = None,
    *,
    budget: float | None = None,
    prices: Mapping[str, Prices] | None = None,
    epsilons: tuple[float, float] = (0.1, 10.0),
    more: int = 1_000,
) -> Valuation:
    """What data is worth: maximise Σ n_k/v_k, v_k the variance of a row of source k, under a budget Σ n_k·price_k.

    One currency for all data: a row of variance v carries precision 1/v, and the bound falls with their sum (Theorems A
    and C). So buying is a fractional knapsack, by precision for money.

    Parameters
    ----------
    sources : list of Source
        Without a price: owned, free, and not for sale. With a price: on offer, none of it owned, `rows` of it to
        be had at that price each. Where more is on offer than anyone could pay for, give any large number. If some
        rows of a kind are owned and others on offer, describe them as two sources.
    n_features, alpha, batch_size, loss, moments, radius, clip
        As in `uneven.plan`; moments are "auto", "upper" or "variance".
    budget : float or None
        Money to spend; None to buy nothing.
    prices : dict or None
        For sources of local privacy whose price depends on ε: by name, a dict ``{epsilon: price of a row}`` of
        what is on offer, or a function of ε. They replace the source's own price and ε. Rows are bought at the ε
        that maximises precision for money, and upgraded if there is money left when they are sold out.
    epsilons : (float, float)
        Range of ε in which a function is tried, at 200 values.
    more : int
        The marginal worth is that of so many rows more.

    Returns
    -------
    Valuation

    Examples
    --------
    >>> import uneven
    >>> clinic = uneven.Source("clinic", rows=6_000, noise=uneven.LocalPrivacy(10), price=0.5)
    >>> survey = uneven.Source("survey", rows=10**9, noise=uneven.LocalPrivacy(3), price=0.1)
    >>> found = uneven.value([clinic, survey], n_features=25, budget=4_000)
    >>> [(purchase.source, purchase.rows) for purchase in found.purchases]
    [('clinic', 6000), ('survey', 10000)]
    >>> round(1 / found.exchange["survey"], 1)  # rows of the survey that are worth one of the clinic
    6.6
    """
    described = checked_sources(sources)
    checks.one_of("moments", moments, MOMENTS)
    problem = Problem(n_features, alpha, batch_size, loss, radius, clip)
    money = 0.0 if budget is None else checks.not_negative("budget", budget, 1e15)
    checks.whole("more", more)
    which = plan(described, **problem.to_dict(), moments=moments).moments
    market = _market(described, checked_prices(prices, described), checked_range(epsilons), problem, which)
    basket = buy(market.steps, money) if budget is not None else Basket()
    return _valued(market, basket, None if budget is None else money, more)


@dataclass(frozen=True)
class _Market:
    """What is owned, what is on offer, and the steps of buying it."""

    problem: Problem
    moments: str
    owned: tuple[Offer, ...]
    steps: tuple[Step, ...]

    def promise(self, rows: Sequence[tuple[Offer, int]]) -> tuple[float, Plan | None]:
        """Bound with what is owned and so many rows of some offers; and the plan for it, if there are any."""
        held = [offer.source for offer in self.owned]
        held += [replace(offer.source, rows=count) for offer, count in rows]
        if not held:
            return self.problem.ball**2, None
        made = plan(held, **self.problem.to_dict(), moments=self.moments)
        return min(made.bound, self.problem.ball**2), made


def _market(
    sources: Sequence[Source],
    prices: Mapping[str, Prices],
    epsilons: tuple[float, float],
    problem: Problem,
    moments: str,
) -> _Market:
    owned, menus = [], []
    for source in sources:
        if source.price is None and source.name not in prices:
            owned.append(offer_of(source, problem, moments))
        else:
            menu = menu_of(source, prices.get(source.name), epsilons)
            menus.append([offer_of(sold, problem, moments, source.name) for sold in menu])
    return _Market(problem, moments, tuple(owned), tuple(steps_of(menus)))


def _valued(market: _Market, basket: Basket, budget: float | None, more: int) -> Valuation:
    before, _ = market.promise(())
    after, made = market.promise(basket.rows)
    spends, bounds, going_to = _curve(market, budget)
    owned = sum(offer.source.rows * offer.precision for offer in market.owned)
    valuation = Valuation(
        problem=market.problem,
        moments=market.moments,
        theorem="Theorem C" if market.moments == "variance" else "Theorem A",
        budget=budget,
        purchases=tuple(Purchase(o.name, o.source.noise, count, o.price) for o, count in basket.rows),
        worths=tuple(_worths(market, basket, after, owned + basket.precision, more)),
        owned=tuple(offer.source for offer in market.owned),
        bound_before=before,
        bound=after,
        precision_before=owned,
        precision=owned + basket.precision,
        more=more,
        spends=spends,
        bounds=bounds,
        going_to=going_to,
        caveats=(),
    )
    return replace(valuation, caveats=tuple(_caveats(valuation, made)))


def _worths(market: _Market, basket: Basket, bound: float, precision: float, more: int) -> Iterator[Worth]:
    shown = [*market.owned, *_shown(market.steps, basket)]
    cleanest = max(offer.precision for offer in shown)
    margin = _margin(market.steps, basket)
    for offer in shown:
        next_rows = replace(offer, source=replace(offer.source, name=f"more of {offer.name}"))
        next_bound, _ = market.promise([*basket.rows, (next_rows, more)])
        yield Worth(
            name=offer.name,
            noise=offer.source.noise,
            rows=offer.source.rows,
            price=None if offer in market.owned else offer.price,
            precision=offer.precision,
            exchange=offer.precision / cleanest,
            money=offer.precision / margin.rate if margin else None,
            next_bound=next_bound,
            next_change=next_bound / bound - 1.0,
            next_precision=more * offer.precision / precision if precision else math.inf,
        )


def _margin(steps: Sequence[Step], basket: Basket) -> Step | None:
    """Step that sets the price of precision: where the money ends, or the last one if it buys everything."""
    if not basket.rows:
        return steps[0] if steps else None
    return basket.margin or steps[-1]


def _shown(steps: Sequence[Step], basket: Basket) -> list[Offer]:
    """Offers worth showing: those bought, and the best deal of each source that none is bought of."""
    bought = [offer for offer, _ in basket.rows]
    origins = {offer.origin for offer in bought}
    return bought + [step.offer for step in steps if step.before is None and step.offer.origin not in origins]


def _curve(market: _Market, budget: float | None) -> tuple[tuple[float, ...], tuple[float, ...], tuple[str, ...]]:
    """Bound against spend: up to twice the budget, or to where everything is sold out."""
    sold_out = np.cumsum([step.price * step.offer.source.rows for step in market.steps])
    total = float(sold_out[-1]) if len(sold_out) else 0.0
    end = total if budget is None else max(budget, min(2.0 * budget, total))
    corners = [float(spend) for spend in sold_out if spend < end]
    spends = sorted({*np.linspace(0.0, end, POINTS).tolist(), *corners, *([] if budget is None else [budget])})
    bounds = [market.promise(buy(market.steps, spend).rows)[0] for spend in spends]
    places = np.minimum(np.searchsorted(sold_out, np.array(spends) * (1 - 1e-9)), len(market.steps) - 1)
    going_to = [market.steps[i].offer.origin for i in places] if market.steps else [""] * len(spends)
    return tuple(spends), tuple(bounds), tuple(going_to)


def _caveats(valuation: Answer, made: Plan | None) -> Iterator[str]:
    spends, bounds = valuation.curve
    if (np.diff(bounds) > 1e-9 * bounds[:-1]).any():
        above = np.flatnonzero(bounds > valuation.bound_before * (1 + 1e-9))
        until = f"up to a spend of about {spends[above[-1]]:,.4g}" if len(above) else "at some spends"
        yield (
            f"The bound rises {until} though precision does too: the cleanest rows set the pace for all "
            "(Theorem C), and there the money buys too few of them to make up for it."
        )
    if made is not None:
        yield from made.caveats
    noises = [worth.noise for worth in valuation.worths]
    certain = [noise.added_energy(valuation.problem) > 0 for noise in noises]
    if any(certain) and not all(certain):
        yield (
            "Rows without added noise are counted at the largest variance they could have, C²; against private "
            "rows and rows with added noise they are worth more than said, perhaps ten times."
        )
