"""What private rows are charged, before anything is computed from them that leaves their owner."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.ledger import Ledger
from uneven.training.grouping import Grouped

BOOK = "data"
"""Source under which the ledger knows rows that told their own ε."""


def charge(
    book: Ledger | None,
    budget: float | None,
    groups: Grouped,
    ids: NDArray[np.int64],
    times: int,
    names: Collection[str] | None = None,
) -> dict[str, float]:
    """Charge every private row for `times` releases, or refuse; the most that a row of each source has spent then.

    A book knows what rows have spent before; without one, each is taken to be new. Only rows of the sources in `names`
    are used, if they are given.
    """
    times_of = {name: times if names is None or name in names else 0 for name in groups.names}
    costs = {name: times_of[name] * (one.epsilon_per_row or 0.0) for name, one in groups.noises.items()}
    dearest = max(costs, key=lambda name: costs[name])
    if budget is not None and costs[dearest] > budget * (1 + 1e-9):
        most = f"{costs[dearest]:g}, what a row of {dearest!r} would spend"
        raise ValueError(f"budget must be at least {most}, got {budget!r}")
    used = {name: cost for k, (name, cost) in enumerate(costs.items()) if cost and len(groups.rows_of(k))}
    if book is None or not used:
        return used
    mine = {name: ids[groups.rows_of(k)] for k, name in enumerate(costs) if name in used}
    if groups.by_row:
        each = np.array(list(costs.values()))[groups.index]
        book.charge(BOOK, ids[each > 0], each[each > 0], budget)
        spent = book.spent(BOOK)
        return {name: max(spent[row] for row in rows.tolist()) for name, rows in mine.items()}
    book.charge_all([(name, rows, used[name]) for name, rows in mine.items()], budget)
    return {name: book.max_spent(name) for name in mine}


def own_book(book: Ledger | None, row_id: Any, spent: Mapping[str, float], seen: Mapping[str, int]) -> Ledger | None:
    """A model's own book, from the first call that tells rows apart; rows before are known by their place."""
    if book is not None or row_id is None:
        return book
    book = Ledger()
    book.charge_all([(name, range(seen[name]), epsilon) for name, epsilon in spent.items() if seen.get(name)])
    return book


def written(book: Ledger) -> dict[str, dict[int, float]]:
    """What a book says, as plain values."""
    return {name: book.spent(name) for name in book.sources()}


def with_written(book: Ledger, entries: Mapping[str, Mapping[int, float]]) -> Ledger:
    """The book, with these entries charged in it as well."""
    book.charge_all([(name, list(spent), list(spent.values())) for name, spent in entries.items() if spent])
    return book


def after_a_break(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What a call that broke leaves of its accounts: all that was charged, by it and before it."""
    kept = {key: after[key] for key in ("_rows_seen", "_book") if after.get(key)}
    spent = most(before.get("privacy_spent_", {}), after.get("privacy_spent_", {}))
    old, new = before.get("_book"), after.get("_book")
    if old and new and old is not new:
        with_written(new, written(old))
        spent |= {name: new.max_spent(name) for name in new.sources() if name in spent}
    return {**kept, "privacy_spent_": spent} if spent else kept


def row_ids(groups: Grouped, row_id: Any, seen: Mapping[str, int]) -> NDArray[np.int64]:
    """How the ledger knows each row: as told, or by its place among its source's, after the `seen` of earlier calls."""
    if row_id is not None:
        if np.shape(row_id) != groups.index.shape:
            shape = np.shape(row_id)
            raise ValueError(f"row_id must have one number a row, shape {groups.index.shape}, got shape {shape}")
        ids = np.asarray(row_id)
        if ids.dtype.kind not in "iu":
            raise ValueError(f"row_id must be whole numbers, got {ids.dtype}")
        _refuse_twice(groups, ids)
        return ids
    if groups.by_row:
        return np.arange(len(groups.index))
    ids = np.empty(len(groups.index), dtype=np.int64)
    for k, name in enumerate(groups.names):
        rows = groups.rows_of(k)
        ids[rows] = seen.get(name, 0) + np.arange(len(rows))
    return ids


def _refuse_twice(groups: Grouped, ids: NDArray[Any]) -> None:
    """Refuse private rows of one source that go by the same number."""
    books = (np.zeros_like(groups.index) if groups.by_row else groups.index)[groups.private]
    numbers = ids[groups.private]
    order = np.lexsort((numbers, books))
    alike = (np.diff(books[order]) == 0) & (numbers[order][1:] == numbers[order][:-1])
    if alike.any():
        twice = numbers[order][1:][alike][0]
        raise ValueError(f"row_id must be distinct among a source's private rows, got {twice} more than once")


def counted(groups: Grouped, seen: Mapping[str, int]) -> dict[str, int]:
    """Rows of each source so far, these included."""
    return {**seen, **{name: seen.get(name, 0) + len(groups.rows_of(k)) for k, name in enumerate(groups.names)}}


def most(spent: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    """The most that a row of each source has spent, by what one call and another say."""
    return {name: max(spent.get(name, 0.0), more.get(name, 0.0)) for name in {**spent, **more}}
