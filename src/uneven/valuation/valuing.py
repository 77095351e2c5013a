"""`Valuation`, `value_sources`, and its wrapper with keywords, `value`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uneven import checks
from uneven.anchor import Anchor, ClassAnchor, fit_anchor
from uneven.planner import Plan, Source, check_sources, make_plan
from uneven.problem import PRIVATE_CLIP, Problem
from uneven.valuation import picture, text
from uneven.valuation.buying import Basket
from uneven.valuation.currencies import Bound, Currency, Expected, Predicted
from uneven.valuation.market import find_worths, open_market, trace_curve
from uneven.valuation.offers import Prices, check_prices, check_range
from uneven.valuation.worths import Purchase, Worth

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PREDICTED = "Figures are a predicted excess for typical objectives: a prediction, not a promise."

EXPECTATION = (
    "The expected excess, and the worth of one row more of each source, come from the owned rows without privacy. They "
    "are expectations, not bounds, and assume that all sources have the same distribution."
)


@dataclass(frozen=True)
class Valuation:
    """What data is worth and what to buy. Made by `uneven.value`.

    Attributes
    ----------
    problem : Problem
        What a fit would minimise.
    strategy, moments, theorem : str
        What the bound rests on, as in `Plan`.
    anchored : bool
        Whether rows are worth what they take from the expected excess, instead of a bound.
    budget : float or None
        Money to spend; None where nothing is bought.
    purchases : tuple of Purchase
        What to buy, the best deal first. They never leave a higher bound than there is without them.
    declined : tuple of str
        Sources with as good a deal that are not bought from, since that would raise the bound.
    worths : tuple of Worth
        Sources that are owned, then those to buy from, the best deal first, then the others.
    owned : tuple of Source
        Sources without a price.
    bound_before, bound : float
        Bound on E‖w - w*‖² with what is owned, and with what is bought too: that of the plan for them, or
        R² if that is smaller, which holds without any step. With owned rows without privacy at hand (`anchored`), the
        expected excess objective f(w) - f(w*) of an anchored fit instead.
    precision_before, precision : float
        Σ 1/γ² over the steps, before and after.
    more : int
        Number of rows that `Worth.next_bound` is about.
    spends, bounds : tuple of float
        The curve of bound against spend.
    going_to : tuple of str
        Source that the last of the money goes to, at each spend; empty where nothing is bought.
    caveats : tuple of str
        What a reader of the bound should know.
    """

    problem: Problem
    strategy: str
    moments: str
    theorem: str
    anchored: bool
    budget: float | None
    purchases: tuple[Purchase, ...]
    declined: tuple[str, ...]
    worths: tuple[Worth, ...]
    owned: tuple[Source, ...]
    bound_before: float
    bound: float
    precision_before: float
    precision: float
    more: int
    spends: tuple[float, ...]
    bounds: tuple[float, ...]
    going_to: tuple[str, ...]
    caveats: tuple[str, ...]

    @property
    def spent(self) -> float:
        """Cost of all purchases together."""
        return sum(purchase.cost for purchase in self.purchases)

    @property
    def exchange(self) -> dict[str, float]:
        """Worth of one row of each source, in rows of the cleanest."""
        return {worth.name: worth.exchange for worth in self.worths}

    @property
    def curve(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Spend, and the bound that it buys."""
        return np.array(self.spends), np.array(self.bounds)

    def plan(self) -> Plan:
        """Plan of this strategy for what is owned and what is to be bought."""
        if not self.owned and not self.purchases:
            raise ValueError("a plan needs rows: nothing is owned, and nothing is bought")
        bought = [Source(item.source, item.rows, item.noise, item.price) for item in self.purchases]
        return make_plan([*self.owned, *bought], self.problem, self.strategy, self.moments)

    def summary(self) -> str:
        """What to buy and why, in words and tables, for a terminal."""
        return text.summarize(self)

    def __str__(self) -> str:
        return self.summary()

    def plot(self) -> Figure:
        """Two charts: the bound against spend, and what precision costs at each source."""
        return picture.draw_valuation(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold."""
        return {
            "problem": self.problem.to_dict(),
            "strategy": self.strategy,
            "moments": self.moments,
            "theorem": self.theorem,
            "budget": self.budget,
            "spent": self.spent,
            "purchases": [purchase.to_dict() for purchase in self.purchases],
            "declined": list(self.declined),
            "worths": [worth.to_dict() for worth in self.worths],
            "exchange": self.exchange,
            "owned": [source.to_dict() for source in self.owned],
            "bound_before": self.bound_before,
            "bound": self.bound,
            "precision_before": self.precision_before,
            "precision": self.precision,
            "more": self.more,
            "curve": {"spend": list(self.spends), "bound": list(self.bounds), "going_to": list(self.going_to)},
            "caveats": list(self.caveats),
        }


def value_sources(
    sources: Iterable[Source],
    problem: Problem,
    moments: str = "auto",
    strategy: str = "precision",
    *,
    budget: float | None = None,
    prices: Mapping[str, Prices] | None = None,
    epsilons: tuple[float, float] = (0.1, 10.0),
    more: int = 1_000,
    anchor: Anchor | ClassAnchor | None = None,
    use_all: bool = False,
    notes: Sequence[str] = (),
) -> Valuation:
    """What data is worth for a problem; `value` with keywords is the same.

    Parameters
    ----------
    sources : list of Source
    problem : Problem
    moments, strategy, budget, prices, epsilons, more
        As in `uneven.value`.
    anchor : Anchor or None
        What the owned rows without privacy say: then rows are worth what they take from the expected excess.
    use_all : bool
        Whether a fit uses private sources too that are not expected to help.
    notes : list of str
        More caveats, the first ones.

    Returns
    -------
    Valuation
    """
    described = check_sources(sources)
    money = 0.0 if budget is None else checks.not_negative("budget", budget, 1e15)
    checks.whole("more", more)
    planned = make_plan(described, problem, strategy, moments)
    offered = check_prices(prices, described), check_range(epsilons)
    currency = _choose_currency(problem, planned, described, offered[0], anchor, use_all)
    market = open_market(described, currency, *offered)
    basket = market.choose(money) if budget is not None else Basket()
    before, _ = market.bound_with(())
    after, found = market.bound_with(basket.rows)
    worths = tuple(find_worths(market, basket, after, more))
    (spends, bounds, going_to), rise = trace_curve(market, None if budget is None else money)
    own = [EXPECTATION] if anchor is not None else _note_exact_rows(problem, worths)
    predicted = [PREDICTED] if isinstance(currency, Predicted) else []
    return Valuation(
        problem=problem,
        strategy=strategy,
        moments=planned.moments,
        theorem=currency.theorem or planned.theorem,
        anchored=currency.theorem is not None,
        budget=None if budget is None else money,
        purchases=tuple(Purchase(o.name, o.source.noise, count, o.price) for o, count in basket.rows),
        declined=basket.declined,
        worths=worths,
        owned=tuple(offer.source for offer in market.owned),
        bound_before=before,
        bound=after,
        precision_before=market.precision,
        precision=market.precision + basket.precision,
        more=more,
        spends=spends,
        bounds=bounds,
        going_to=going_to,
        caveats=(*notes, *filter(None, [rise]), *found, *own, *predicted),
    )


def _choose_currency(
    problem: Problem,
    planned: Plan,
    described: Sequence[Source],
    offered: Collection[str],
    anchor: Anchor | ClassAnchor | None,
    use_all: bool,
) -> Currency:
    """What rows are worth: what they take from the excess expected or predicted, or from the bound."""
    if anchor is not None:
        owned = tuple(one for one in described if one.price is None and one.name not in offered)
        if all(one.noise.private for one in owned):
            raise ValueError("sources must own rows without privacy where their rows are given, got none")
        return Expected(problem, anchor, owned, use_all)
    once = problem.own_batches and any(one.noise.once_a_batch for one in described)
    if (once or planned.void) and planned.predicted_excess is not None:
        return Predicted(problem, planned.moments, planned.batch_sizes)
    return Bound(problem, planned.moments, planned.strategy)


def _note_exact_rows(problem: Problem, worths: Sequence[Worth]) -> Iterator[str]:
    added = [worth.noise.added_energy(problem) > 0 for worth in worths]
    if any(added) and not all(added):
        yield (
            "Rows without added noise are counted at the largest variance they could have, C²; compared with private "
            "rows and rows with added noise they are worth more than stated, perhaps ten times."
        )


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
    strategy: str = "precision",
    public: tuple[ArrayLike, ArrayLike] | None = None,
) -> Valuation:
    """What data is worth: maximise Σ n_k/v_k, v_k the variance of a row of source k, under a budget Σ n_k·price_k.

    One currency for all data: a row of variance v carries precision 1/v, and the bound falls with their sum (Theorems A
    and C). So buying is a fractional knapsack, in order of precision per price.

    Parameters
    ----------
    sources : list of Source
        Without a price: owned, free, and not for sale. With a price: for sale, none of it owned, with `rows` available
        at that price each. Where supply is unlimited, give any large number. If some rows of a kind are owned and
        others for sale, describe them as two sources.
    n_features, alpha, batch_size, loss, moments, radius, clip
        As in `uneven.plan`.
    budget : float or None
        Money to spend; None to buy nothing.
    prices : dict or None
        For sources of local privacy whose price depends on ε: by name, a dict ``{epsilon: price of a row}``, or a
        function of ε. They replace the source's own price and ε. Rows are bought at the ε with the most precision per
        price, and upgraded if there is money left when they are sold out.
    epsilons : (float, float)
        Range of ε in which a function is tried, at 200 values.
    more : int
        Number of additional rows that the marginal worth is about.
    strategy : str
        Whose bound is to be small, as in `uneven.plan`.
    public : (X, y) or None
        Rows of the owned sources without privacy, in the unit ball, and their labels -1 and 1. With them, rows are
        worth what they take from the expected excess objective of an anchored fit, which is the fit that would be run:
        without them, rows without noise are undervalued about ten times.

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
    8.3
    """
    problem = Problem(n_features, alpha, batch_size, loss, radius, clip)
    anchor = None
    if public is not None:
        X, y = _checked_public(*public, n_features)
        anchor, problem = fit_anchor(X, y, alpha), replace(problem, clip=PRIVATE_CLIP)
    bought = {"budget": budget, "prices": prices, "epsilons": epsilons}
    return value_sources(sources, problem, moments, strategy, **bought, more=more, anchor=anchor)  # type: ignore[arg-type]


def _checked_public(X: ArrayLike, y: ArrayLike, n_features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows without privacy as arrays; refused if they do not fit."""
    rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if rows.ndim != 2 or rows.shape != (len(labels), n_features):
        raise ValueError(f"public must be rows of {n_features} columns and a label for each, got shape {rows.shape}")
    if not (np.abs(labels) == 1.0).all() or not np.isfinite(rows).all():
        raise ValueError("public must hold finite numbers, and labels -1 and 1")
    return rows, labels
