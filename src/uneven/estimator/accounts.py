"""What private rows are charged, before anything is computed from them that leaves their owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.estimator.grouping import Grouped
from uneven.ledger import Ledger

BOOK = "data"
"""Source under which the ledger knows rows that told their own ε."""


def charge(
    ledger: Ledger | None,
    budget: float | None,
    groups: Grouped,
    ids: NDArray[np.int64],
    times: int,
) -> dict[str, float]:
    """Charge every private row for `times` releases, or refuse; what a row of each private source is charged."""
    costs = {name: times * (one.epsilon_per_row or 0.0) for name, one in groups.noises.items()}
    dearest = max(costs, key=lambda name: costs[name])
    if budget is not None and costs[dearest] > budget * (1 + 1e-9):
        most = f"{costs[dearest]:g}, what a row of {dearest!r} would spend"
        raise ValueError(f"budget must be at least {most}, got {budget!r}")
    used = {name: cost for k, (name, cost) in enumerate(costs.items()) if cost and len(groups.rows_of(k))}
    if ledger is not None and used and groups.by_row:
        ledger.charge(BOOK, ids, np.array(list(costs.values()))[groups.index], budget)
    elif ledger is not None:
        charges = [(name, ids[groups.rows_of(k)], used[name]) for k, name in enumerate(costs) if name in used]
        if charges:
            ledger.charge_all(charges, budget)
    return used


def row_ids(groups: Grouped, row_id: Any, seen: Mapping[str, int]) -> NDArray[np.int64]:
    """How the ledger knows each row: as told, or by its place among its source's, after the `seen` of earlier calls."""
    if row_id is not None:
        if np.shape(row_id) != groups.index.shape:
            shape = np.shape(row_id)
            raise ValueError(f"row_id must have one number a row, shape {groups.index.shape}, got shape {shape}")
        ids = np.asarray(row_id)
        if ids.dtype.kind not in "iu":
            raise ValueError(f"row_id must be whole numbers, got {ids.dtype}")
        return ids
    if groups.by_row:
        return np.arange(len(groups.index))
    ids = np.empty(len(groups.index), dtype=np.int64)
    for k, name in enumerate(groups.names):
        rows = groups.rows_of(k)
        ids[rows] = seen.get(name, 0) + np.arange(len(rows))
    return ids


def counted(groups: Grouped, seen: Mapping[str, int]) -> dict[str, int]:
    """Rows of each source so far, these included."""
    return {**seen, **{name: seen.get(name, 0) + len(groups.rows_of(k)) for k, name in enumerate(groups.names)}}


def most(spent: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    """The most that a row of each source has spent, in calls of which each had rows of its own."""
    return {name: max(spent.get(name, 0.0), more.get(name, 0.0)) for name in {**spent, **more}}
