"""What the files of several sources must agree on: their columns, what is said of them, and their ranges."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from uneven.columns import Column, complete_columns
from uneven.io.refusals import list_names, located
from uneven.io.source_entry import SourceEntry
from uneven.io.tables import Table


def agree_on_features(
    file: str,
    tables: Mapping[str, Table],
    label: str | int | None,
    features: tuple[str, ...] | None,
    told: Collection[str] = (),
) -> tuple[str, ...] | None:
    """Columns to learn from that all sources' files have, in the order of the first one's; None without files.

    Columns in `told`, in which rows say something of themselves, are not learned from.
    """
    first: tuple[Table, tuple[str, ...]] | None = None
    for source, table in tables.items():
        with located(f"{file}: source {source!r}, data"):
            names = _features(table, label, features, told)
        if first is None:
            first = table, names
        with located(file):
            _refuse_difference(*first, table, names)
    return features if first is None else first[1]


def _features(
    table: Table, label: str | int | None, features: tuple[str, ...] | None, told: Collection[str]
) -> tuple[str, ...]:
    name, names = table.select(label, features)
    if features is None:
        names = tuple(column for column in names if column not in told)
    if name is None:
        raise ValueError(f"label must be given: which column of {table.path}? There are {list_names(table.columns)}")
    return names


def _refuse_difference(one: Table, names: Sequence[str], other: Table, others: Sequence[str]) -> None:
    """Refuse files whose columns differ; another order is fine, since columns are asked for by name."""
    for here, mine, theirs in ((one, names, others), (other, others, names)):
        known = set(theirs)
        if lone := next((name for name in mine if name not in known), None):
            advice = "" if other.first_index is None else "; n_features says how many a libsvm file has"
            raise ValueError(
                f"{one.path} and {other.path} must have the same features; only {here.path} has {lone!r}{advice}"
            )
    if None not in (one.first_index, other.first_index) and one.first_index != other.first_index:
        raise ValueError(
            f"{one.path} and {other.path} must count columns alike, got a first column of {one.first_index} and "
            f"{other.first_index}"
        )


def agree_on_width(width: int | None, names: tuple[str, ...] | None) -> int:
    """Number of features: that of the names, or as given if there are none."""
    if names is None:
        if width is None:
            raise ValueError("n_features must be given where no source has data and there is no list of features")
        return width
    if width not in (None, len(names)):
        raise ValueError(f"n_features must be {len(names)}, the number of features, or left out; got {width}")
    return len(names)


def complete_from_public(
    columns: Sequence[Column], entries: Sequence[SourceEntry], shared: Table | None, source_column: str | None
) -> tuple[Column, ...]:
    """Columns with ranges and values that are not stated taken from the sources without privacy, and from no other."""
    unstated = [column for column in columns if not column.complete]
    if not unstated:
        return tuple(columns)
    public = [entry for entry in entries if not entry.hidden]
    if not any(shared is not None or entry.table is not None for entry in public):
        what = "range" if unstated[0].kind == "number" else "values"
        raise ValueError(
            f"column {unstated[0].name!r} must have its {what} stated, by public knowledge: there are no rows without "
            "privacy to take them from"
        )
    names = [column.name for column in unstated]
    return complete_columns(columns, _public_cells(names, public, shared, source_column))


def _public_cells(
    names: Sequence[str], public: Sequence[SourceEntry], shared: Table | None, source_column: str | None
) -> Iterator[tuple[dict[str, Any], str]]:
    """Values of columns in public rows, and the source of each."""
    for entry in public:
        if entry.table is not None:
            yield from ((said, str(entry.table.path)) for said in entry.table.cells(names))
    if shared is not None and source_column is not None:
        known = [entry.name for entry in public]
        for said in shared.cells([*names, source_column]):
            mine = np.isin(said[source_column].astype(str), known)
            yield {name: np.asarray(said[name])[mine] for name in names}, str(shared.path)
