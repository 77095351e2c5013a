"""What private rows are charged, before anything is computed from them that leaves their owner."""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.cautions import SimulationWarning
from uneven.columns import digest_cells
from uneven.ledger import (
    BudgetExceeded,
    Fingerprints,
    Ledger,
    count_copies,
    dump_memory,
    hash_digests,
    hash_rows,
    load_memory,
    open_own_ledger,
)
from uneven.redaction import owner_only
from uneven.settings import Settings
from uneven.training.grouping import Grouped
from uneven.training.refusals import find_cost, refuse_costs
from uneven.training.rows import Piece, find_private

HASHED_ROWS, HASHED_CELLS = 4096, 1 << 20
"""Rows that are hashed at a time, and numbers in them with zeros that are not stored, so that memory stays bounded."""


@dataclass(frozen=True)
class Bill:
    """What one call is to be charged.

    Attributes
    ----------
    groups : Grouped
    row_id : array or None
        Ids of the rows, by which a ledger knows them; -1 for none.
    content : array or None
        Hashes of the rows' content, by which a ledger knows those without an id.
    times : int
        Releases of each row.
    used : collection of str
        Sources whose rows will be released.
    budget : float or None
        The most that a row may have spent afterwards.
    simulated : bool
        Whether the noise comes from a seed: rows are charged all the same, and nothing is promised.
    columns : str
        Columns that were hashed (`list_columns`).
    """

    groups: Grouped
    row_id: NDArray[Any] | None
    content: NDArray[np.int64] | None
    times: int
    used: Collection[str]
    budget: float | None = None
    simulated: bool = False
    columns: str = ""

    @property
    def costs(self) -> dict[str, float]:
        """ε that a row of each source costs; those that are not private, or not used, are left out."""
        noises, used = self.groups.noises, set(self.used)
        each = {name: find_cost(one, self.times) for name, one in noises.items() if name in used}
        return {name: cost for name, cost in each.items() if cost}


@dataclass
class Account:
    """What the private rows of one model have spent over its calls; a call that breaks leaves its charges on it.

    Attributes
    ----------
    ledger : Ledger or None
        The user's ledger; or the model's own, from the first call that tells rows apart by their ids.
    counted : dict
        The most ε that a row of each private source has spent.
    unnamed : float
        The most ε that a row has spent in fits that `ledger` does not know: any later row may be that one.
    simulated : set
        Sources whose rows were released with noise from a seed.
    own : bool
        Whether the ledger is the model's own, and is copied with it.
    earlier : float
        `unnamed` as it was when this fit began: one fit may charge twice, but different sources.
    changes : dict
        The most ε that a row of this fit had spent before it and has spent now, for each private source.
    """

    ledger: Ledger | None = None
    counted: dict[str, float] = field(default_factory=dict)
    unnamed: float = 0.0
    simulated: set[str] = field(default_factory=set)
    own: bool = False
    earlier: float = 0.0
    changes: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def spent(self) -> dict[str, float]:
        """The most ε that a row of each private source has spent; infinite where the noise came from a seed."""
        return {name: math.inf if name in self.simulated else epsilon for name, epsilon in self.counted.items()}

    def start(self, ledger: Ledger | None) -> None:
        """Begin a call; what was spent stays, and what another ledger was charged counts on top."""
        if ledger is not None and not _is_same(ledger, self.ledger):
            if self.ledger is not None:
                self.unnamed = max([self.unnamed, *self.counted.values()])
            self.ledger, self.own = ledger, False
        self.earlier, self.changes = self.unnamed, {}

    @classmethod
    def resume(cls, spent: Mapping[str, float]) -> Account:
        """Account of a model whose file says what its rows have spent."""
        seeded = {name for name, epsilon in spent.items() if math.isinf(epsilon)}
        return cls(counted=dict(spent), unnamed=max(spent.values(), default=0.0), simulated=seeded)

    def charge(self, bill: Bill) -> None:
        """Charge every private row of the sources in use, or refuse and charge none."""
        costs, ids, before = bill.costs, _checked_ids(bill.groups, bill.row_id), self.earlier
        if not costs:
            self._note(bill, ids, self._spent(bill, ids))
            return
        if self.ledger is None and ids is not None and has_all_ids(bill.groups, ids):
            self.ledger, self.own = open_own_ledger(), True
        self.refuse_costs(bill)
        earlier = self._spent(bill, ids)
        if self.ledger is None:
            spent = {name: before + cost for name, cost in costs.items()}
            self.unnamed = max(self.unnamed, *spent.values())
        else:
            _charge_ledger(self.ledger, bill, ids, before)
            known = {name: self.ledger.max_spent(name) for name in {**self.counted, **costs}}
            known |= self._spent(bill, ids) if bill.groups.by_row else {}
            spent = {name: before + most for name, most in known.items() if most}
        self.counted |= {name: max(self.counted.get(name, 0.0), epsilon) for name, epsilon in spent.items()}
        if bill.simulated:
            self.simulated |= set(costs)
        self._note(bill, ids, earlier)

    def refuse_costs(self, bill: Bill) -> None:
        """Refuse what a row would spend by this call, or by this and those before it."""
        budget, before = bill.budget, self.earlier
        known_as = bill.groups.owners
        costs = [(known_as[level], cost) for level, cost in bill.costs.items()]
        refuse_costs(costs, budget)
        for name, cost in costs:
            if budget is not None and before + cost > budget * (1 + 1e-9):
                raise BudgetExceeded(
                    f"rows of source {name!r} would exceed the budget of {budget:g}: they may have spent {before:g} in "
                    f"earlier fits of this model and need {cost:g}; nothing was charged"
                )

    def _spent(self, bill: Bill, ids: NDArray[Any] | None) -> dict[str, float]:
        """The most that the ledger knows of a row of each private source of a bill."""
        return {} if self.ledger is None else _largest_spent(self.ledger, bill, ids)

    def _note(self, bill: Bill, ids: NDArray[Any] | None, earlier: Mapping[str, float]) -> None:
        """Keep what the rows of a bill had spent and have spent now."""
        before, costs = self.earlier, bill.costs
        now = self._spent(bill, ids) or {name: costs.get(name, 0.0) for name in _private_parts(bill)}
        for name, most in now.items():
            after = math.inf if bill.simulated and name in costs else before + most
            self.changes[name] = before + earlier.get(name, 0.0), after

    def __getstate__(self) -> dict[str, Any]:
        """State with the model's own ledger as bytes; a user's ledger is not copied."""
        dumped = dump_memory(self.ledger) if self.own and self.ledger is not None else None
        return {**vars(self), "ledger": None if self.own else self.ledger, "dumped": dumped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        dumped = state.pop("dumped")
        self.__dict__.update(state)
        if dumped is not None:
            self.ledger = load_memory(dumped)


@dataclass(frozen=True)
class Hasher:
    """Hashes the content of rows as they are read.

    Attributes
    ----------
    key : bytes
    noise : Noise, dict of str to Noise, or None
    names : tuple of str or None
        Names of the features.
    every : bool
        Whether to hash all rows, not only the private ones without an id.
    described : bool
        Whether rows are known by the cells of their described columns, not by their features.
    """

    key: bytes
    noise: Any
    names: tuple[str, ...] | None
    every: bool
    described: bool = False

    def __call__(self, piece: Piece) -> NDArray[np.int64]:
        """Hash of each row; 0 where nobody needs it."""
        mine = np.full(len(piece.y), True) if self.every else find_private(piece, self.noise)
        if not self.every and np.shape(piece.row_id) == mine.shape:
            mine &= np.asarray(piece.row_id) == -1
        numbers, rows = np.zeros(len(piece.y), dtype=np.int64), np.flatnonzero(mine)
        numbers[rows] = self.hash(piece, rows)
        return numbers

    def hash(self, piece: Piece, rows: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Hash of some rows of a piece, or of all."""
        places = np.arange(len(piece.y)) if rows is None else rows
        at_once = min(HASHED_ROWS, max(1, HASHED_CELLS // piece.X.shape[1]))
        parts = np.split(places, range(at_once, len(places), at_once))
        return np.concatenate([self._hash_some(piece, some) for some in parts])

    def _hash_some(self, piece: Piece, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same for few rows."""
        if not self.described:
            return hash_rows(self.key, piece.X[rows], self.names)
        if piece.cells is None:
            raise ValueError(
                f"{piece.where} must be rows as PublicColumns.transform returns them, or chosen from those, like the "
                "rows learned from; got an array without its cells"
            )
        return hash_digests(self.key, digest_cells({name: values[rows] for name, values in piece.cells.items()}))


def make_hasher(
    account: Account, noise: Any, feature_names: tuple[str, ...] | None, described: bool, every: bool = False
) -> Hasher | None:
    """What hashes the content of rows as they are read; None where nobody needs it."""
    if account.ledger is None and not every and not described:
        return None
    key = secrets.token_bytes(32) if account.ledger is None else account.ledger.key
    return Hasher(key, noise, feature_names, every, described)


def _is_same(one: Ledger, other: Ledger | None) -> bool:
    return one is other or (other is not None and one.path is not None and one.path == other.path)


def _charge_ledger(ledger: Ledger, bill: Bill, ids: NDArray[Any] | None, before: float) -> None:
    """One transaction for all sources; rows that state their own noise are charged under their source's name."""
    groups, costs = bill.groups, bill.costs
    charges = []
    for source, parts in _by_charged_name(groups, costs).items():
        rows = np.concatenate([groups.rows_of(k) for k in parts])
        epsilons = np.concatenate([np.full(int(groups.counts[k]), costs[groups.names[k]]) for k in parts])
        if len(rows):
            charges.append((source, _known_as(ledger, bill, ids, rows), epsilons))
    if charges:
        ledger.charge_all(charges, None if bill.budget is None else bill.budget - before)


def _private_parts(bill: Bill) -> list[str]:
    return [name for name, noise in bill.groups.noises.items() if noise.private]


def _by_charged_name(groups: Grouped, names: Collection[str]) -> dict[str, list[int]]:
    """Numbers of some groups, by the name that the ledger has for their source."""
    parts: dict[str, list[int]] = {}
    for k, name in enumerate(groups.names):
        if name in names:
            parts.setdefault(groups.charged_to[k], []).append(k)
    return parts


def _known_as(
    ledger: Ledger, bill: Bill, ids: NDArray[Any] | None, rows: NDArray[np.int64]
) -> NDArray[Any] | Fingerprints:
    """How the ledger knows these rows of one source: by their ids, or where they have none by their content."""
    if ids is not None and not (ids[rows] == -1).all():
        return np.asarray(ids[rows])
    assert bill.content is not None
    return count_copies(ledger.key, bill.content[rows], bill.columns)


def _largest_spent(ledger: Ledger, bill: Bill, ids: NDArray[Any] | None) -> dict[str, float]:
    """The most that a row of each private source has spent."""
    groups, most = bill.groups, {}
    for parts in _by_charged_name(groups, _private_parts(bill)).values():
        each = [groups.rows_of(k) for k in parts]
        rows = np.concatenate(each)
        spent = ledger.spent_by(_known_as(ledger, bill, ids, rows)) if len(rows) else np.zeros(0)
        for k, own in zip(parts, np.split(spent, np.cumsum(list(map(len, each)))[:-1]), strict=True):
            most[groups.names[k]] = float(own.max(initial=0.0))
    return most


def warn_simulated(settings: Settings, groups: Grouped) -> bool:
    """Whether private rows are to be released with noise from a seed; their owner is warned."""
    simulated = settings.random_state is not None and groups.any_private
    if simulated:
        warnings.warn(
            "random_state (or --seed) makes the noise of private rows repeatable: this is a simulation that protects "
            "nobody, and privacy_spent_ is infinite",
            SimulationWarning,
            stacklevel=5,
        )
    return simulated


def has_all_ids(groups: Grouped, ids: NDArray[Any]) -> bool:
    """Whether every private row has an id."""
    private = [k for k, name in enumerate(groups.names) if groups.noises[name].private]
    return not any((ids[groups.rows_of(k)] == -1).any() for k in private)


def refuse_unknown_rows(account: Account, groups: Grouped, row_id: Any) -> None:
    """Refuse to go on with private rows that nobody could recognise if they came again."""
    ids = _checked_ids(groups, row_id)
    if account.ledger is None and groups.any_private and (ids is None or not has_all_ids(groups, ids)):
        raise ValueError(
            "row_id must be given for partial_fit on private rows, or a ledger: repeated rows must be recognised"
        )


def _checked_ids(groups: Grouped, row_id: Any) -> NDArray[Any] | None:
    if row_id is None:
        return None
    if np.shape(row_id) != (groups.rows,):
        raise ValueError(f"row_id must have one number per row, shape ({groups.rows},), got shape {np.shape(row_id)}")
    ids = np.asarray(row_id)
    if ids.dtype.kind not in "iu":
        raise ValueError(f"row_id must be whole numbers, got {ids.dtype}")
    for name in sorted(set(groups.charged_to)):
        parts = [k for k, other in enumerate(groups.charged_to) if other == name]
        private = [ids[groups.rows_of(k)] for k in parts if groups.noises[groups.names[k]].private]
        if private:
            _refuse_twice(name, np.concatenate(private))
    return ids


def _refuse_twice(name: str, ids: NDArray[Any]) -> None:
    ordered = np.sort(ids[ids != -1])
    if (twice := ordered[1:] == ordered[:-1]).any():
        which = owner_only(f", got {ordered[1:][twice][0]} more than once")
        raise ValueError(f"row_id (id in a sources.toml) must be distinct among the private rows of {name!r}{which}")
