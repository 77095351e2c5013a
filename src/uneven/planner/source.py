"""A source of data, described: no rows are needed to plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from uneven import checks
from uneven.noise import Exact, Noise, noise_from_dict
from uneven.problem import Problem

MOST_ROWS = 10**15
"""Of one source: counts up to this are exact in floats, and so are sums of several."""


@dataclass(frozen=True)
class Source:
    """Rows of one quality.

    Parameters
    ----------
    name : str
        How plans, reports and ledgers call it; no two sources share one.
    rows : int
        Number of rows; each is used once. Of several passes, the rows of all passes together.
    noise : Noise
        Noise or protection of its rows; `Exact` if there is none.
    price : float or None
        Price of one row, if the rows are for sale; None if they are owned. Only `uneven.value` uses it.
    passes : int
        How often each row is used: the rows divided by the passes are how many there are.

    Examples
    --------
    >>> from uneven import LocalPrivacy
    >>> Source("clinic", rows=6000, noise=LocalPrivacy(epsilon=10))
    Source(name='clinic', rows=6000, noise=LocalPrivacy(epsilon=10.0, mechanism='quiet', activity=0.5), price=None)
    """

    name: str
    rows: int
    noise: Noise = Exact()  # noqa: RUF009 (frozen)
    price: float | None = None
    passes: int = field(default=1, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        checks.text("name", self.name)
        object.__setattr__(self, "rows", checks.whole(f"rows of source {self.name!r}", self.rows, most=MOST_ROWS))
        object.__setattr__(self, "passes", checks.whole(f"passes over source {self.name!r}", self.passes))
        if self.rows % self.passes:
            raise ValueError(
                f"rows of source {self.name!r} must be those of all {self.passes} passes together, got {self.rows}"
            )
        if not isinstance(self.noise, Noise):
            raise ValueError(
                f"noise of source {self.name!r} must be a noise such as uneven.Exact(), got {checks.shown(self.noise)}"
            )
        if self.price is not None:
            price = checks.not_negative(f"price of source {self.name!r}", self.price)
            object.__setattr__(self, "price", price)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` reads."""
        passes = {} if self.passes == 1 else {"passes": self.passes}
        return {"name": self.name, "rows": self.rows, "noise": self.noise.to_dict(), "price": self.price, **passes}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Source:
        """Source that `to_dict` described."""
        values = checks.table("a source", values, tuple(cls.__dataclass_fields__), ("name", "rows", "noise"))
        return cls(**{**values, "noise": noise_from_dict(values["noise"])})


def check_sources(sources: Iterable[Source]) -> tuple[Source, ...]:
    """Sources as a tuple; an error if there are none, if one is not a `Source` or if two share a name."""
    if isinstance(sources, Source) or not isinstance(sources, Iterable):
        raise ValueError(f"sources must be a list of uneven.Source, got {checks.shown(sources)}")
    checked = tuple(sources)
    if not checked:
        raise ValueError("sources must hold at least one uneven.Source, got none")
    seen: set[str] = set()
    for source in checked:
        if not isinstance(source, Source):
            raise ValueError(f"sources must hold uneven.Source objects only, got {checks.shown(source)}")
        if source.name in seen:
            raise ValueError(f"sources must have names that differ, got {source.name!r} twice")
        seen.add(source.name)
    return checked


def refuse_private_rms(sources: Sequence[Source], problem: Problem) -> None:
    """Refuse private rows whose norms are bounded on average only."""
    private = [source.name for source in sources if source.noise.protects_features]
    if private and problem.norms != "largest":
        raise ValueError(
            f"norms must be 'largest' where a source is private: each row's own norm must be bounded; got "
            f"{problem.norms!r} and {private[0]!r}"
        )
