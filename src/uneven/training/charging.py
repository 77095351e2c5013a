"""What private rows are charged, before anything is computed from them that leaves their owner."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.ledger import BudgetExceeded, Ledger
from uneven.noise import Noise
from uneven.training.grouping import Grouped


@dataclass
class Account:
    """What the private rows of one model have spent over its calls; a call that breaks leaves its charges on it.

    Attributes
    ----------
    ledger : Ledger or None
        The user's ledger; or the model's own, from the first call that tells rows apart by their ids.
    spent : dict
        The most ε that a row of each private source has spent.
    seen : dict
        Rows of each source so far, by which rows of a later call without ids are known as new ones.
    """

    ledger: Ledger | None = None
    spent: dict[str, float] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)

    def start(self, ledger: Ledger | None) -> None:
        """Begin a fit: the rows are counted anew, what was spent stays."""
        if ledger is not None:
            self.ledger = ledger
        self.seen = {}

    def charge(
        self,
        groups: Grouped,
        row_id: Any,
        budget: float | None,
        times: int,
        used: Collection[str],
        again: bool,
        counted: bool = True,
    ) -> None:
        """Charge every private row of the sources in use for `times` releases, or refuse and charge none.

        Parameters
        ----------
        groups : Grouped
        row_id : array or None
            How the ledger knows the rows; None is by their place among their source's.
        budget : float or None
            The most that a row may have spent afterwards.
        times : int
            Releases of each row.
        used : collection of str
            Sources whose rows will be released.
        again : bool
            Whether rows without ids may have been charged to this account before: those of a second fit.
        counted : bool
            Whether the rows then count as seen; not where another charge for the same rows follows.
        """
        costs = {
            name: _releases(noise, times) * (noise.epsilon_per_row or 0.0) if name in used else 0.0
            for name, noise in groups.noises.items()
        }
        ids = _checked_ids(groups, row_id)
        if self.ledger is None and ids is not None and groups.any_private:
            self.ledger = self._own_ledger()
        before = self.spent if again else {}
        _refuse_beyond(budget, {name: cost for name, cost in costs.items() if cost}, before)
        if self.ledger is None:
            for name, cost in costs.items():
                if cost:
                    self.spent[name] = max(self.spent.get(name, 0.0), before.get(name, 0.0) + cost)
        else:
            self._charge_ledger(self.ledger, groups, ids, costs, budget)
        for name, count in zip(groups.names, groups.counts.tolist(), strict=True) if counted else ():
            self.seen[name] = self.seen.get(name, 0) + count

    def _charge_ledger(
        self, ledger: Ledger, groups: Grouped, ids: Any, costs: Mapping[str, float], budget: float | None
    ) -> None:
        """One transaction for all sources; rows that told their own noise are charged where their source is."""
        charges: dict[str, list[tuple[str, NDArray[Any], float]]] = {}
        places = _Places(groups, self.seen)
        for k, name in enumerate(groups.names):
            rows = places.of(k) if ids is None else ids[groups.rows_of(k)]
            rows = places.of(k) if (rows == -1).all() else rows
            if costs[name] and len(rows):
                charges.setdefault(groups.charged_to[k], []).append((name, rows, costs[name]))
        if not charges:
            return
        asked = [
            (source, np.concatenate([rows for _, rows, _ in parts]), _repeat(parts))
            for source, parts in charges.items()
        ]
        ledger.charge_all(asked, budget)
        for source, parts in charges.items():
            spent = ledger.spent(source) if len(parts) > 1 or groups.by_row else None
            for name, rows, _ in parts:
                most = ledger.max_spent(source) if spent is None else max(spent[row] for row in rows.tolist())
                self.spent[name] = max(self.spent.get(name, 0.0), most)

    def _own_ledger(self) -> Ledger:
        """A ledger of the model's own; rows before are known by their place."""
        own = Ledger()
        known = [(name, range(self.seen[name]), epsilon) for name, epsilon in self.spent.items() if self.seen.get(name)]
        if known:
            own.charge_all(known)
        return own

    def __getstate__(self) -> dict[str, Any]:
        entries = None
        if self.ledger is not None and self.ledger.path is None:
            entries = {name: self.ledger.spent(name) for name in self.ledger.sources()}
        return {"ledger": None if entries is not None else self.ledger, "entries": entries} | {
            "spent": self.spent,
            "seen": self.seen,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.ledger, self.spent, self.seen = state["ledger"], state["spent"], state["seen"]
        if state["entries"] is not None:
            self.ledger = Ledger()
            entries = [(name, list(spent), list(spent.values())) for name, spent in state["entries"].items() if spent]
            self.ledger.charge_all(entries)


def _releases(noise: Noise, times: int) -> int:
    """Releases of a row that is used so often: private labels are randomised once, however often they are used."""
    return times if noise.protects_features else 1


def _repeat(parts: list[tuple[str, NDArray[Any], float]]) -> NDArray[np.float64]:
    return np.concatenate([np.full(len(rows), cost) for _, rows, cost in parts])


def _refuse_beyond(budget: float | None, costs: Mapping[str, float], before: Mapping[str, float]) -> None:
    """Refuse what a row would spend by this call, or by this and those before it."""
    for name, cost in costs.items():
        if budget is not None and cost > budget * (1 + 1e-9):
            raise ValueError(f"budget must be at least {cost:g}, what a row of {name!r} would spend, got {budget!r}")
        spent = before.get(name, 0.0)
        if budget is not None and spent + cost > budget * (1 + 1e-9):
            raise BudgetExceeded(
                f"rows of source {name!r} would exceed the budget of {budget:g}: they have spent {spent:g} in earlier "
                f"fits of this model and were asked for {cost:g}; nothing was charged"
            )


class _Places:
    """Ids of rows that have none: their place among their source's rows, after those of earlier calls."""

    def __init__(self, groups: Grouped, seen: Mapping[str, int]) -> None:
        self.groups, self.seen = groups, seen

    def of(self, k: int) -> NDArray[np.int64]:
        """Places of source k's rows among those charged under its name."""
        groups, name = self.groups, self.groups.charged_to[k]
        alike = [j for j, other in enumerate(groups.charged_to) if other == name]
        rows = groups.rows_of(k)
        first = sum(self.seen.get(groups.names[j], 0) for j in alike)
        if len(alike) == 1:
            return first + np.arange(len(rows))
        together = np.sort(np.concatenate([groups.rows_of(j) for j in alike]))
        return first + np.searchsorted(together, rows)


def _checked_ids(groups: Grouped, row_id: Any) -> NDArray[Any] | None:
    if row_id is None:
        return None
    if np.shape(row_id) != (groups.rows,):
        raise ValueError(f"row_id must have one number per row, shape ({groups.rows},), got shape {np.shape(row_id)}")
    ids = np.asarray(row_id)
    if ids.dtype.kind not in "iu":
        raise ValueError(f"row_id must be whole numbers, got {ids.dtype}")
    names = sorted(set(groups.charged_to))
    for name in names:
        parts = [k for k, other in enumerate(groups.charged_to) if other == name]
        private = [ids[groups.rows_of(k)] for k in parts if groups.noises[groups.names[k]].private]
        if private:
            _refuse_twice(np.concatenate(private))
    return ids


def _refuse_twice(ids: NDArray[Any]) -> None:
    ordered = np.sort(ids[ids != -1])
    if (twice := ordered[1:] == ordered[:-1]).any():
        raise ValueError(
            f"row_id must be distinct among a source's private rows, got {ordered[1:][twice][0]} more than once"
        )
