"""Planning from ranks alone: which source is noisier than which, and by how much is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from uneven import checks

KNOWN = (
    "Noisiest first, cleanest last: with step sizes that shrink, early steps on noisy rows are forgotten, and the last "
    "ones, which matter most, are on the cleanest rows. It takes ranks alone, not levels.",
)

UNKNOWN = (
    "Step sizes: how much shorter steps on noisy rows must be depends on their variance.",
    "Exchange rates: how many noisy rows are worth a clean one.",
    "Whether the noisiest rows are worth using at all: by a strategy with one rate for all, they can do harm.",
    "The promise: no bound on f(w) - f* follows from ranks.",
)


@dataclass(frozen=True)
class RankedPlan:
    """What ranks of noise alone say.

    Attributes
    ----------
    ranks : dict of str to int
        As given: 1 is the cleanest.
    order : list of str
        Order of use: the noisiest first; sources of one rank as given.
    known, unknown : tuple of str
        Why that order, and what would take levels of noise to know, a sentence each.
    """

    ranks: Mapping[str, int]
    order: list[str]
    known: tuple[str, ...] = KNOWN
    unknown: tuple[str, ...] = UNKNOWN

    def summary(self) -> str:
        """All of it in words, for a terminal."""
        use = f"Use {', then '.join(map(repr, self.order))}: one pass, each row once."
        told = [f"Not known from ranks: {line}" for line in self.unknown]
        advice = "State a noise for each source, even roughly, with an interval, to know these too."
        return "\n".join([use, *self.known, *told, advice])

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"ranks": dict(self.ranks), "order": self.order, "known": [*self.known], "unknown": [*self.unknown]}


def plan_by_rank(ranks: Mapping[str, int]) -> RankedPlan:
    """Plan where it is only known which source is noisier: an order, and what cannot be known.

    Parameters
    ----------
    ranks : dict of str to int
        Rank of each source's noise by its name: 1 is the cleanest. Equal ranks are allowed.

    Returns
    -------
    RankedPlan

    Examples
    --------
    >>> plan_by_rank({"expert": 1, "crowd": 2}).order
    ['crowd', 'expert']
    """
    if not isinstance(ranks, Mapping) or not ranks:
        raise ValueError(f"ranks must be a dict of names and ranks, got {checks.shown(ranks)}")
    checked = {checks.text("name", name): checks.whole(f"rank of {name!r}", rank) for name, rank in ranks.items()}
    return RankedPlan(checked, sorted(checked, key=lambda name: -checked[name]))
