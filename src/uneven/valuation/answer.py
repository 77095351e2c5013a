"""What a valuation is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.noise import Noise
from uneven.planner import Source
from uneven.problem import Problem


@dataclass(frozen=True)
class Worth:
    """What one row of a source is worth.

    Attributes
    ----------
    name : str
    noise : Noise
    rows : int
        Rows owned, or on offer.
    price : float or None
        Price of a row; None if the source is owned.
    precision : float
        What a row carries: 1/v for a row of variance v.
    exchange : float
        That, in rows of the cleanest source.
    money : float or None
        What a row is worth at the price of precision where the money ends: a row that costs less is worth buying.
        None where nothing has a price.
    next_bound : float
        The bound with `Answer.more` rows more of it, on top of what is owned and bought.
    next_change, next_precision : float
        By what fraction those rows change the bound and the precision.
    """

    name: str
    noise: Noise
    rows: int
    price: float | None
    precision: float
    exchange: float
    money: float | None
    next_bound: float
    next_change: float
    next_precision: float


@dataclass(frozen=True)
class Purchase:
    """Rows to buy of one source, at one noise and price."""

    source: str
    noise: Noise
    rows: int
    price: float

    @property
    def cost(self) -> float:
        """Price of all of them."""
        return self.rows * self.price


@dataclass(frozen=True)
class Answer:
    """What data is worth and what to buy.

    Attributes
    ----------
    problem : Problem
    moments, theorem : str
        What the bound rests on, as in `Plan`.
    budget : float or None
    purchases : tuple of Purchase
        What to buy, the best deal first.
    worths : tuple of Worth
        Sources that are owned, then those to buy from, the best deal first, then the others.
    owned : tuple of Source
    bound_before, bound : float
        Bound on E‖w - w*‖² with what is owned, and with what is bought too: that of the plan ``"precision"``, or
        R² if that is smaller, which is what taking no step promises.
    precision_before, precision : float
        Σ 1/γ² over the steps, before and after.
    more : int
        How many rows `Worth.next_bound` is about.
    spends, bounds : tuple of float
        The curve of bound against spend.
    going_to : tuple of str
        Source that the last of the money goes to, at each spend; empty where nothing is for sale.
    caveats : tuple of str
    """

    problem: Problem
    moments: str
    theorem: str
    budget: float | None
    purchases: tuple[Purchase, ...]
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
        """What the purchases cost together."""
        return sum(purchase.cost for purchase in self.purchases)

    @property
    def exchange(self) -> dict[str, float]:
        """Worth of one row of each source, in rows of the cleanest."""
        return {worth.name: worth.exchange for worth in self.worths}

    @property
    def curve(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Spend, and the bound that it buys."""
        return np.array(self.spends), np.array(self.bounds)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold."""
        purchases = [{**_plain(purchase), "cost": purchase.cost} for purchase in self.purchases]
        return {
            "problem": self.problem.to_dict(),
            "moments": self.moments,
            "theorem": self.theorem,
            "budget": self.budget,
            "spent": self.spent,
            "purchases": purchases,
            "worths": [_plain(worth) for worth in self.worths],
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


def _plain(item: Worth | Purchase) -> dict[str, Any]:
    return {**vars(item), "noise": item.noise.to_dict()}
