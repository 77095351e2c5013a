"""What a row of a source is worth, and rows to buy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from uneven.noise import Noise


@dataclass(frozen=True)
class Worth:
    """What one row of a source is worth.

    Attributes
    ----------
    name : str
    noise : Noise
    rows : int
        Rows owned, or for sale.
    price : float or None
        Price of a row; None if the source is owned.
    precision : float
        Precision of a row: 1/v for a row of variance v.
    exchange : float
        The same, in rows of the cleanest source.
    money : float or None
        Worth of a row at the marginal price of precision, where the money ends: a row that costs less is worth buying.
        None where nothing has a price.
    next_bound : float
        The bound with `Valuation.more` more rows of it, on top of what is owned and bought.
    next_change, next_precision : float
        Relative change of the bound and of the precision by those rows.
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

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {**vars(self), "noise": self.noise.to_dict()}


@dataclass(frozen=True)
class Purchase:
    """Rows to buy of one source, at one noise and price."""

    source: str
    noise: Noise
    rows: int
    price: float

    @property
    def cost(self) -> float:
        """Price of all rows together."""
        return self.rows * self.price

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {**vars(self), "noise": self.noise.to_dict(), "cost": self.cost}
