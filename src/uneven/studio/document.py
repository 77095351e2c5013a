"""A ``sources.toml`` in the page: a table and settings, written back with what was changed and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from uneven.io import (
    Change,
    SourcesFile,
    check_sources_text,
    edit_sources,
    parse_content,
    sources_from_text,
    sources_to_text,
)
from uneven.losses import LOSSES
from uneven.noise import MOMENTS
from uneven.planner import STRATEGIES, Plan
from uneven.problem import RADII
from uneven.settings import PUBLIC_FIRST
from uneven.studio import table
from uneven.training import plan_ahead
from uneven.valuation import Valuation, value_file

CHOICES: dict[str, tuple[str, ...]] = {
    "strategy": (*PUBLIC_FIRST, *STRATEGIES),
    "loss": tuple(LOSSES),
    "radius": tuple(RADII),
    "moments": ("auto", *MOMENTS, "estimated"),
}
"""Settings of the page that are chosen from a list."""

TYPED = ("alpha", "batch_size", "n_features", "row_norm", "clip")
"""Settings of the page that are typed."""

LABELS = {
    "alpha": "L2 strength λ (alpha)",
    "batch_size": "Rows per step (batch_size)",
    "n_features": "Dimension (n_features)",
    "row_norm": "Bound on the norm of rows (row_norm)",
    "clip": "Clip gradients to (clip)",
    "strategy": "Strategy",
    "loss": "Loss",
    "radius": "Radius",
    "moments": "Moments",
}
"""What the page calls each setting."""


@dataclass(frozen=True)
class Document:
    """Text of a ``sources.toml``.

    Parameters
    ----------
    text : str
    path : str
        Where it is, or what it is called.
    opened : bool
        Whether its data may be read: only if the studio was started with it.
    """

    text: str
    path: str = "sources.toml"
    opened: bool = False

    @cached_property
    def values(self) -> dict[str, Any]:
        """What it says."""
        return parse_content(self.text.encode(), self.path)

    @cached_property
    def file(self) -> SourcesFile:
        """What it says, checked; its data is opened where that is allowed."""
        return sources_from_text(self.text, self.path, self.opened)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The table: a row for each source, with its place in the file; rows are counted where data is opened."""
        counts = {one.name: one.rows for one in self.file.described()} if self.opened else {}
        sources = [{"rows": counts.get(one["name"]), **one} for one in self.values["source"]]
        return [table.make_row(source, place) for place, source in enumerate(sources)]

    @cached_property
    def settings(self) -> dict[str, str]:
        """Settings of the page as text; an empty one is left out of the file."""
        return {key: _shown(self.values.get(key)) for key in (*TYPED, *CHOICES)}

    @property
    def kept(self) -> list[str]:
        """Keys that the page does not show; they stay as they are."""
        shown = {*self.settings, "source", *table.COLUMNS, "noise"}
        own = {key for source in self.values.get("source", []) for key in source}
        return [key for key in [*self.values, *sorted(own - set(self.values))] if key not in shown]

    def edit(self, rows: Sequence[Mapping[str, Any]], settings: Mapping[str, str]) -> tuple[Document, list[str]]:
        """The document with what was typed, and a line for each row that says something wrong and is left out."""
        changes, refusals = self._changes(rows)
        given = {key: table.parse_cell(text) for key, text in settings.items() if text != self.settings[key]}
        return replace(self, text=edit_sources(self.text, given, changes)), refusals

    def _changes(self, rows: Sequence[Mapping[str, Any]]) -> tuple[list[Change], list[str]]:
        changes: list[Change] = []
        names: list[str] = []
        refusals: list[str] = []
        for number, row in enumerate(rows, start=1):
            if table.is_empty(row):
                continue
            place = None if row.get("place") is None else int(row["place"])
            old = {} if place is None else self.values["source"][place]
            try:
                change = table.change_of(row, {} if place is None else self.rows[place], old)
                table.check({**old, **change}, anywhere="source_column" in self.values)
                name = {**old, **change}["name"]
                if name in names:
                    raise ValueError(f"name must differ from those above, got {name!r} again")
            except ValueError as error:
                refusals.append(f"Row {number}: {' '.join(str(error).split())}")
            else:
                changes.append((place, change))
                names.append(name)
        return changes, refusals

    def plan(self) -> tuple[Plan, str]:
        """The plan that a fit runs, and what it was planned for; refused if a page could not show it."""
        planned, note = plan_ahead(self.file)
        return table.refuse_large(planned), note

    def value(self, more: int) -> Valuation:
        """What so many more rows of each source would change, where all that is described is owned."""
        table.refuse_large_numbers(source.rows + more for source in self.file.described())
        owned = (replace(entry, price=None, prices=None) for entry in self.file.sources)
        return value_file(replace(self.file, sources=tuple(owned)), more=more)

    @property
    def stamp(self) -> tuple[int, ...]:
        """When its data were last changed."""
        named = [self.values.get("data"), *(source.get("data") for source in self.values.get("source", []))]
        files = [Path(self.path).parent / one for one in named if isinstance(one, str)] if self.opened else []
        return tuple(file.stat().st_mtime_ns for file in files if file.exists())


def begin() -> Document:
    """What the page begins with: two hospitals."""
    return Document(sources_to_text(table.HOSPITALS, n_features=54))


def read_document(content: bytes, path: str, opened: bool = False) -> Document:
    """Document with this content, refused if no data could make it right."""
    check_sources_text(content, path)
    document = Document(content.decode("utf-8"), path, opened)
    table.refuse_large_numbers(source.get("rows", 1) for source in document.values["source"])
    return document


def _shown(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)
