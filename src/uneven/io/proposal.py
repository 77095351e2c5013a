"""A first ``sources.toml`` for files of rows: what can be guessed is guessed, and everything is commented."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, count
from pathlib import Path

import numpy as np

from uneven.io import SourceEntry, Table, open_table, read_sources, same_file, write_sources
from uneven.io.refusals import shortened
from uneven.noise import Exact

LABELS = ("label", "labels", "y", "target", "class", "outcome", "diagnosis", "response")
"""Names that a label's column often has, the likeliest first."""

IDS = ("id", "row_id", "rowid", "index", "uuid")
"""Names that say which row it is, and nothing about it."""

NOTE = """\
# How good are these rows? The line above takes them to be exact. If they are not, put one of these in its place:
# noise = { kind = "local-privacy", epsilon = 1.0 }  # each row releases gradients with this epsilon only
# noise = { kind = "label-privacy", epsilon = 1.0 }  # the label is private; FEATURES ARE NOT PROTECTED
# noise = { kind = "flipped-labels", rate = 0.2 }  # this share of the labels is wrong
# price = 0.05  # of one more row, for 'uneven value'
"""


@dataclass(frozen=True)
class Start:
    """What was guessed: the label's column and why, columns left out, sources, and files that seem headless."""

    label: str | None
    reason: str
    left_out: tuple[str, ...]
    names: tuple[str, ...]
    headless: tuple[str, ...]


def start(files: Sequence[str | os.PathLike[str]], path: str | os.PathLike[str], force: bool = False) -> Start:
    """Write a commented ``sources.toml`` for these files, and say what was guessed.

    Parameters
    ----------
    files : list of paths
        Of any format that `uneven.io.open_table` reads.
    path : path
        File to write.
    force : bool
        Whether to write over one that is there.
    """
    tables = [open_table(file) for file in files]
    _refuse_twice(tables)
    if Path(path).exists() and not force:
        raise FileExistsError(f"{os.fspath(path)} is there already; --force writes over it, -o names another")
    shared = [c for c in tables[0].columns if all(c in table.columns for table in tables)]
    if not shared:
        raise ValueError(f"files must have columns in common, got none in {', '.join(str(t.path) for t in tables)}")
    label, reason = _label(tables, shared)
    usable = [c for c in shared if c != label and c.lower() not in IDS and all(_numeric(t, c) for t in tables)]
    if not usable:
        raise ValueError(f"{tables[0].path} must have a column of numbers besides the label {label!r}, got no other")
    left_out = [c for t in tables for c in t.columns if c != label and c not in usable]
    own = all(table.reader.own_label is not None for table in tables)
    entries = list(map(_entry, _names(tables), tables))
    written = None if own else label
    write_sources(path, entries, label=written, features=usable if left_out else None, note=NOTE)
    read_sources(path)
    names, headless = (entry.name for entry in entries), (str(t.path) for t in tables if _headless(t))
    return Start(label, reason, tuple(dict.fromkeys(left_out)), tuple(names), tuple(headless))


def _refuse_twice(tables: Sequence[Table]) -> None:
    for one, other in combinations(tables, 2):
        if same_file(one.path, other.path):
            raise ValueError(f"files must differ, one a source; got {one.path} and {other.path}, which are one file")


def _entry(name: str, table: Table) -> SourceEntry:
    return SourceEntry(name, Exact(), None, None, table.path.absolute(), table)


def _names(tables: Iterable[Table]) -> Iterator[str]:
    """A name for each file: its own without the extension, and a number where that was there before."""
    seen: set[str] = set()
    for table in tables:
        stem = table.path.name.split(".")[0] or table.path.name
        name = next(n for n in chain([stem], (f"{stem}-{i}" for i in count(2))) if n not in seen)
        seen.add(name)
        yield name


def _label(tables: Sequence[Table], shared: Sequence[str]) -> tuple[str | None, str]:
    """Likeliest column of labels, and why."""
    own = tables[0].reader.own_label
    if own is not None:
        return own, "the format says so"
    for name in LABELS:
        for column in shared:
            if column.lower() == name:
                return column, "by its name"
    words = [c for c in shared if not all(_numeric(table, c) for table in tables) and _different(tables[0], c) <= 20]
    if len(words) == 1:
        return words[0], "the only column of words"
    pairs = [column for column in shared if _different(tables[0], column) == 2]
    if pairs:
        return pairs[-1], "the last column with two different values"
    if len(shared) < 2:
        raise ValueError(f"{tables[0].path} must have a column besides the label, got {shortened(shared)}")
    return shared[-1], "the last column, for want of a better guess"


def _headless(table: Table) -> bool:
    """Whether a name of a column is a number: then the first line is a row, as a rule."""
    return any(_is_number(column) for column in table.columns)


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _numeric(table: Table, column: str) -> bool:
    """Whether the first rows of a column are numbers; a missing value is for a fit to refuse, by its row."""
    pieces = table.reader.pieces([], [column])
    try:
        return next(pieces)[0].dtype.kind in "biuf"
    except ValueError:
        return False


def _different(table: Table, column: str) -> int:
    """How many different values the first rows of a column have."""
    other = next(c for c in table.columns if c != column) if len(table.columns) > 1 else column
    features = [c for c in table.columns if c != column and _numeric(table, c)][:1] or [other]
    try:
        _, said = next(table.reader.pieces([column], features))
    except ValueError:
        return 0
    return len(set(np.asarray(said[column]).tolist()))
