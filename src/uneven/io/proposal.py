"""A first ``sources.toml`` for files of rows: what can be guessed is guessed, and everything is commented."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, count
from pathlib import Path
from typing import Any

import numpy as np

from uneven.columns import Column, as_text, columns_to_dict, complete_columns, guess_columns
from uneven.io.delimited import CsvFile
from uneven.io.files import is_same_file
from uneven.io.refusals import list_names
from uneven.io.source_entry import SourceEntry
from uneven.io.sources_file import TOP_KEYS, check_delimiter, read_sources
from uneven.io.sources_text import format_columns, format_value, parse_file
from uneven.io.sources_writing import write_sources
from uneven.io.tables import OPENERS, Table, open_table
from uneven.noise import Exact, LocalPrivacy

LABELS = ("label", "labels", "y", "target", "class", "outcome", "diagnosis", "response")
"""Names that a label's column often has, the likeliest first."""

CODES = re.compile(r"(?:.*[^a-z])?(?:id|uuid|index|zip|zip.?code|post.?code|postal.?code|phone)|rowid|.*[a-z]I[Dd]")
"""Names of columns that say which row or place it is: their numbers count nothing."""

CONVENTIONS = (("0", "1"), ("-1", "1"), ("false", "true"))
"""Labels that need no statement."""

CLASSES = 20
"""Different values up to which the last column is taken for the labels."""

NOTE = """\
# How good are these rows? If the line above does not say so, put one of these in its place:
# noise = { kind = "exact" }  # they are right, and need no protection
# noise = { kind = "local-privacy", epsilon = 1.0 }  # each row releases gradients with this epsilon only
# noise = { kind = "site-privacy", epsilon = 1.0 }  # only noisy sums of many rows leave their site, which is trusted
# noise = { kind = "label-privacy", epsilon = 1.0 }  # the label is private; FEATURES ARE NOT PROTECTED
# noise = { kind = "flipped-labels", rate = 0.2 }  # this share of the labels is wrong
# price = 0.05  # of one more row, for 'uneven value'
"""

FOUND = """\
# What is publicly known of each column to learn from; delete a line to leave its column out. Numbers beyond a range
# count as its ends, and values that are not listed are one more category. Taken from {sources}, because that is not
# private here; if you change that below, put public knowledge in place of these lines and delete columns_from.
"""

CLASSES_PROPOSED = """
# classes = {classes}  # all possible labels: PROPOSED FROM PRIVATE ROWS; state them by public knowledge
"""

PROPOSED = """\
# What is publicly known of each column to learn from: a range that most numbers are in, or a list of values.
# THESE ARE PROPOSALS MADE FROM PRIVATE ROWS. Put public knowledge in their place (a codebook, a form, what is
# possible), and delete the "# " in front of each line that you confirm. Until there is one, this file is refused.
"""


@dataclass(frozen=True)
class Start:
    """What was guessed: the label's column and why, columns left out, sources, and files without column names.

    `proposed` says whether columns are described by private rows, and so have to be confirmed; `classes` are the labels
    that are proposed with them, where they have to be stated.
    """

    label: str | None
    reason: str
    left_out: tuple[str, ...]
    names: tuple[str, ...]
    headless: tuple[str, ...]
    proposed: bool = False
    classes: tuple[Any, ...] = ()


def propose_sources(
    files: Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    force: bool = False,
    *,
    label: str | None = None,
    delimiter: str | None = None,
    epsilon: Mapping[str, float] | None = None,
    id_column: str | None = None,
) -> Start:
    """Write a commented ``sources.toml`` for these files, and say what was guessed.

    Parameters
    ----------
    files : list of paths
        Of any format that `uneven.io.open_table` reads.
    path : path
        File to write; never one of the files, nor any that is not a ``sources.toml``.
    force : bool
        Whether to write over a ``sources.toml`` that is there.
    label : str or None
        Column of the labels; None guesses.
    delimiter : str or None
        What separates the columns of files of text; None finds out.
    epsilon : dict of str to float or None
        ε of each source that is private, by its name: the file's without its extension.
    id_column : str or None
        Column by which a ledger knows the rows.
    """
    delimiter = None if delimiter is None else check_delimiter(delimiter)
    tables = [open_table(file, delimiter=delimiter) for file in files]
    _refuse_twice(tables)
    _refuse_output(Path(path), tables, force)
    shared = [c for c in tables[0].columns if all(c in table.columns for table in tables)]
    if not shared:
        raise ValueError(f"files must have columns in common, got none in {', '.join(str(t.path) for t in tables)}")
    entries = _entries(tables, epsilon or {}, id_column, shared)
    looked_at = [entry.table for entry in _looked_at(entries) if entry.table is not None]
    chosen, reason = _label(looked_at, shared) if label is None else (_stated("--label", label, shared), "as stated")
    columns = _describe(entries, [c for c in shared if c not in (chosen, id_column) and not _is_code(c)])
    if not columns:
        raise ValueError(f"{tables[0].path} must have a column to learn from besides the label {chosen!r}, got none")
    left_out = _left_out(tables, [chosen, *(column.name for column in columns)])
    plain = all(column.plain for column in columns) and not _any_hidden(entries)
    classes, proposed = _find_classes(entries, chosen), all(entry.hidden for entry in entries)
    stated: dict[str, Any] = {"classes": classes} if classes and not proposed else {}
    write_sources(
        path,
        entries,
        label=None if tables[0].reader.own_label is not None else chosen,
        features=[column.name for column in columns] if plain and left_out else None,
        columns="" if plain else _columns_text(columns, entries, classes if proposed else []),
        delimiter=delimiter,
        columns_from=None if plain or proposed else [entry.name for entry in _looked_at(entries)],
        note=NOTE,
        **stated,
    )
    if not proposed:
        read_sources(path)
    headless = tuple(str(table.path) for table in tables if isinstance(table.reader, CsvFile) and table.reader.numbered)
    return Start(
        chosen,
        reason,
        left_out,
        tuple(entry.name for entry in entries),
        headless,
        proposed,
        tuple(classes) if proposed else (),
    )


def _find_classes(entries: Sequence[SourceEntry], label: str | None) -> list[Any]:
    """Labels of the rows that may be looked at, where a source is private and they have to be stated; else none.

    Labels that `uneven fit` takes without a statement (0 and 1, -1 and 1, booleans) are none of them.
    """
    if label is None or not _any_hidden(entries):
        return []
    tables = [entry.table for entry in _looked_at(entries) if entry.table is not None]
    found = {text for table in tables for cells in table.cells([label]) for text in as_text(cells[label])} - {None}
    if not 2 <= len(found) <= CLASSES or any(found <= set(known) for known in CONVENTIONS):
        return []
    try:
        return sorted(int(text) for text in found if text is not None)
    except ValueError:
        return sorted(text for text in found if text is not None)


def _is_code(name: str) -> bool:
    return bool(CODES.fullmatch(name) or CODES.fullmatch(name.lower()))


def _left_out(tables: Sequence[Table], used: Sequence[str | None]) -> tuple[str, ...]:
    """Columns of any file that are not used."""
    return tuple(dict.fromkeys(name for table in tables for name in table.columns if name not in used))


def _any_hidden(entries: Iterable[SourceEntry]) -> bool:
    return any(entry.hidden for entry in entries)


def _refuse_twice(tables: Sequence[Table]) -> None:
    for one, other in combinations(tables, 2):
        if is_same_file(one.path, other.path):
            raise ValueError(f"files must differ, one per source; got {one.path} and {other.path}, which are one file")


def _refuse_output(path: Path, tables: Sequence[Table], force: bool) -> None:
    """Refuse to write over data: over a source, and over a file that is no ``sources.toml``, whatever is asked for."""
    for table in tables:
        if is_same_file(path, table.path):
            raise ValueError(f"--output must be a file of its own, got {path}, which is the data of a source")
    if not path.exists():
        return
    if not force:
        raise FileExistsError(f"{path} is there already; --force writes over it, -o names another")
    try:
        found = parse_file(path)
        sources = found.get("source")
        known = (
            found.keys() <= set(TOP_KEYS)
            and isinstance(sources, list)
            and all(isinstance(one, dict) for one in sources)
        )
    except ValueError:
        known = False
    if not known and path.stat().st_size:
        raise ValueError(f"--output must be a new file or a sources.toml to write over, got {path}, which is neither")


def _stated(option: str, column: str, shared: Sequence[str]) -> str:
    if column not in shared:
        raise ValueError(f"{option} must be a column of all files, got {column!r}; there are {list_names(shared)}")
    return column


def _entries(
    tables: Sequence[Table], epsilon: Mapping[str, float], id_column: str | None, shared: Sequence[str]
) -> list[SourceEntry]:
    """A source for each file: private where there is an ε for it, else exact."""
    names = list(_names(tables))
    for name in epsilon:
        if name not in names:
            raise ValueError(f"--epsilon must name a source, got {name!r}; there are {', '.join(map(repr, names))}")
    columns = {} if id_column is None else {"id": _stated("--id", id_column, shared)}
    noises = [LocalPrivacy(epsilon[name]) if name in epsilon else Exact() for name in names]
    return [
        SourceEntry(name, noise, None, None, table.path.absolute(), table, None, columns)
        for name, noise, table in zip(names, noises, tables, strict=True)
    ]


def _names(tables: Iterable[Table]) -> Iterator[str]:
    """A name for each file: its own without the extension, and a number where that was there before."""
    seen: set[str] = set()
    for table in tables:
        file = table.path.name
        stem = next((file[: -len(end)] for end in sorted(OPENERS, key=len)[::-1] if file.lower().endswith(end)), file)
        stem = stem or file
        name = next(n for n in chain([stem], (f"{stem}-{i}" for i in count(2))) if n not in seen)
        seen.add(name)
        yield name


def _looked_at(entries: Sequence[SourceEntry]) -> list[SourceEntry]:
    """Sources whose rows may be looked at; where all are private, all of them: for proposals to their owner only."""
    return [entry for entry in entries if not entry.hidden] or list(entries)


def _describe(entries: Sequence[SourceEntry], candidates: Sequence[str]) -> tuple[Column, ...]:
    """Columns to learn from, described by the rows that may be looked at."""
    tables = [entry.table for entry in _looked_at(entries) if entry.table is not None]
    if not candidates:
        return ()
    first = [next(iter(table.cells(candidates))) for table in tables]
    said = {name: np.concatenate([np.asarray(one[name], dtype=object) for one in first]) for name in candidates}
    guessed = guess_columns(said)
    # What stands for a missing value in one column may do so in any other, of a file that is not looked at.
    marks = tuple(dict.fromkeys(mark for column in guessed for mark in column.missing or ()))
    guessed = tuple(replace(column, missing=marks) if marks else column for column in guessed)
    names = [column.name for column in guessed]
    return complete_columns(guessed, ((said, str(table.path)) for table in tables for said in table.cells(names)))


def _columns_text(columns: Sequence[Column], entries: Sequence[SourceEntry], classes: Sequence[Any]) -> str:
    """The table ``[columns]``: as found in sources without privacy, or commented out where all are private.

    So are the `classes` that are proposed, above it.
    """
    if all(entry.hidden for entry in entries):
        said = CLASSES_PROPOSED.format(classes=format_value(classes)) if classes else ""
        return said + format_columns(columns_to_dict(columns), PROPOSED, "# ")
    sources = " and ".join(repr(entry.name) for entry in _looked_at(entries))
    return format_columns(columns_to_dict(columns), FOUND.format(sources=sources))


def _label(tables: Sequence[Table], shared: Sequence[str]) -> tuple[str | None, str]:
    """Likeliest column of labels, and why: one named like it, the last one, and only then a guess."""
    own = tables[0].reader.own_label
    if own is not None:
        return own, "the format says so"
    for name in LABELS:
        for column in shared:
            if column.lower() == name:
                return column, "by its name"
    if len(shared) < 2:
        raise ValueError(f"{tables[0].path} must have a column besides the label, got {list_names(shared)}")
    different = {column: _different(tables[0], column) for column in shared}
    if 2 <= different[shared[-1]] <= CLASSES:
        return shared[-1], "the last column"
    words = [c for c in shared if 2 <= different[c] <= CLASSES and not _is_numeric(tables[0], c)]
    if len(words) == 1:
        return words[0], "the only column of words"
    pairs = [column for column in shared if different[column] == 2]
    if pairs:
        return pairs[-1], "the last column with two different values"
    return shared[-1], "the last column, for want of a better guess"


def _is_numeric(table: Table, column: str) -> bool:
    """Whether the first rows of a column are numbers."""
    return any(found.kind == "number" for found in guess_columns(next(iter(table.cells([column])))))


def _different(table: Table, column: str) -> int:
    """How many different values the first rows of a column have."""
    return len(set(as_text(next(iter(table.cells([column])))[column])))
