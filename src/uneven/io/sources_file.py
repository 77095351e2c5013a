"""Read ``sources.toml``: the sources, where their rows are, and the settings of a run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product
from pathlib import Path
from typing import Any

from uneven import checks
from uneven.columns import Column, Encoder, describe_columns
from uneven.io.agreement import agree_on_features, agree_on_width, complete_from_public
from uneven.io.files import is_same_file, resolve
from uneven.io.refusals import located
from uneven.io.source_entry import SourceEntry, parse_entry
from uneven.io.sources_text import parse_content, parse_file
from uneven.io.tables import Table, open_table
from uneven.planner import Source
from uneven.redaction import redacted
from uneven.settings import NAMES, Settings

SETTINGS = tuple(name for name in NAMES if name != "random_state")
"""Settings that a file can have: all but the seed, which makes a simulation of a fit."""

TOP_KEYS = (
    *SETTINGS,
    "label",
    "features",
    "n_features",
    "data",
    "source_column",
    "delimiter",
    "columns",
    "columns_from",
    "source",
)


@dataclass(frozen=True)
class SourcesFile:
    """What a ``sources.toml`` says, checked.

    Parameters
    ----------
    path : Path
    settings : Settings
    label : str, int or None
        Column of the labels, as given.
    features : tuple of str or None
        Columns to learn from, as given.
    n_features : int
        How many there are.
    feature_names : tuple of str or None
        Columns to learn from, in the order of the first file; None if no source has data and none are given.
    sources : tuple of SourceEntry
    shared : Table or None
        File with the rows of all sources.
    source_column : str or None
        Its column that names each row's source.
    columns : tuple of Column or None
        Columns to learn from where they are described publicly, with what is not stated taken from sources without
        privacy; then `n_features` counts the features they become.
    delimiter : str or None
        What separates the columns of files of text.
    """

    path: Path
    settings: Settings
    label: str | int | None
    features: tuple[str, ...] | None
    n_features: int
    feature_names: tuple[str, ...] | None = field(repr=False)
    sources: tuple[SourceEntry, ...]
    shared: Table | None = field(default=None, repr=False)
    source_column: str | None = None
    columns: tuple[Column, ...] | None = None
    delimiter: str | None = None

    @cached_property
    def encoder(self) -> Encoder | None:
        """What makes features of the described columns; None where there are none, and columns are features."""
        return None if self.columns is None else Encoder(self.columns)

    @property
    def tables(self) -> tuple[Table, ...]:
        """The files of rows, opened."""
        own = (entry.table for entry in self.sources)
        return tuple(table for table in (self.shared, *own) if table is not None)

    def described(self) -> list[Source]:
        """The sources as planned with: rows that are not stated are counted, which may take a reading of the files."""
        if self.shared is None or all(entry.stated_rows is not None for entry in self.sources):
            return [entry.source for entry in self.sources]
        assert self.source_column is not None
        counts: Counter[str] = Counter()
        for said in self.shared.cells([self.source_column]):
            counts.update(map(str, said[self.source_column].tolist()))
        for entry in self.sources:
            if not counts[entry.name]:
                raise ValueError(f"source {entry.name!r} must have rows in {self.shared.path}, got none")
        return [replace(entry, stated_rows=counts[entry.name]).source for entry in self.sources]


def read_sources(path: str | os.PathLike[str]) -> SourcesFile:
    """Read a ``sources.toml``; what is wrong with it is said in one line that names the file, the table and the key.

    Parameters
    ----------
    path : path
        Paths of data in it are relative to its folder.

    Returns
    -------
    SourcesFile

    Examples
    --------
    >>> import tempfile
    >>> from uneven.io import write_sources
    >>> path = Path(tempfile.mkdtemp()) / "sources.toml"
    >>> clinic = Source("clinic", rows=6000)
    >>> write_sources(path, [clinic], n_features=25, alpha=0.01)
    >>> file = read_sources(path)
    >>> file.sources[0].source == clinic, file.settings.alpha, file.n_features
    (True, 0.01, 25)
    """
    file = Path(path)
    resolve(file)  # a loop of links is refused
    return _understood(file, parse_file(file), lambda *given: open_table(*given))


def read_ranks(path: str | os.PathLike[str]) -> dict[str, int] | None:
    """Rank of each source's noise where a ``sources.toml`` has ``rank`` in place of ``noise``; None where it has none.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict of str to int, or None
    """
    file = Path(path)
    resolve(file)
    values = parse_file(file)
    with located(str(file)):
        tables = _source_tables(values)
    if not any(isinstance(table, Mapping) and "rank" in table for table in tables):
        return None
    ranks: dict[str, int] = {}
    for number, table in enumerate(tables, start=1):
        with located(f"{file}: source {number}"):
            name = checks.text("name", table.get("name"))
            if "noise" in table or "rank" not in table:
                raise ValueError(f"rank must be given for all sources and noise for none, or the reverse; see {name!r}")
            if name in ranks:
                raise ValueError(f"name must differ from other sources', got {name!r} twice")
            ranks[name] = checks.whole("rank", table["rank"])
    return ranks


def sources_from_text(
    content: str | bytes, name: str | os.PathLike[str] = "sources.toml", opened: bool = False
) -> SourcesFile:
    """Read the content of a ``sources.toml`` from elsewhere.

    Parameters
    ----------
    content : str or bytes
    name : path
        Of the file, for errors; and where it would be, for its data.
    opened : bool
        Whether data is opened. If not, each source must say its rows.

    Examples
    --------
    >>> from uneven.io import sources_to_text
    >>> clinic = Source("clinic", rows=6000)
    >>> sources_from_text(sources_to_text([clinic], n_features=25)).sources[0].source == clinic
    True
    """
    raw = content.encode("utf-8") if isinstance(content, str) else content
    values = parse_content(raw, str(name))
    return _understood(Path(name), values, (lambda *given: open_table(*given)) if opened else (lambda *_: None))


def check_sources_text(content: bytes, name: str) -> None:
    """Refuse a ``sources.toml`` that no data could make right, without opening any; `name` is for errors."""
    _stated(Path(name), parse_content(content, name))


def _understood(file: Path, values: Mapping[str, Any], opened: Callable[..., Table | None]) -> SourcesFile:
    """What a file says; `opened` makes a table of a file of rows, or None where none is to be opened."""
    said = _stated(file, values)
    with redacted(said[0].redact):
        return _agreed(file, said, opened)


def _agreed(file: Path, said: tuple[Any, ...], opened: Callable[..., Table | None]) -> SourcesFile:
    """What a file says, and what its data, of which the first rows are read, has in common."""
    settings, stated, described_columns, delimiter, (shared, column), described = said
    label, features, width = stated
    # All that can be said without the data is said by now.
    options = (width if features is None else None, delimiter)
    entries = tuple(_with_table(file, entry, opened, *options) for entry in described)
    with located(f"{file}: data"):
        common = None if shared is None else opened(shared, *options)
    tables_of = {one.name: one.table for one in entries if one.table is not None}
    tables_of |= {} if common is None else {"data": common}
    told = {column for entry in entries for column in entry.columns.values()} | ({column} if column else set())
    if described_columns is not None:
        features = tuple(one.name for one in described_columns)
    names = agree_on_features(str(file), tables_of, label, features, told)
    with located(str(file)):
        if described_columns is not None:
            described_columns = complete_from_public(described_columns, entries, common, column)
            count = Encoder(described_columns).width
        else:
            count = agree_on_width(width, names)
    return SourcesFile(
        file, settings, label, features, count, names, entries, common, column, described_columns, delimiter
    )


def _stated(file: Path, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Everything that can be said of a file without its data, checked."""
    with located(str(file)):
        checks.only_keys("the top level", values, TOP_KEYS)
        settings = _checked_settings(values)
        stated = check_columns(values)
        described_columns = _checked_described(values)
        delimiter = None if values.get("delimiter") is None else check_delimiter(values["delimiter"])
        shared, column = _checked_shared(file, values)
        tables = _source_tables(values)
    described = [parse_entry(file, number, table, column, TOP_KEYS) for number, table in enumerate(tables, start=1)]
    with located(str(file)):
        _refuse_twice([entry.name for entry in described])
        _refuse_shared([(entry.name, entry.data) for entry in described if entry.data is not None])
        _refuse_read_from(values.get("columns_from"), described)
        _refuse_both_levels(described)
    return settings, stated, described_columns, delimiter, (shared, column), described


def _checked_settings(values: Mapping[str, Any]) -> Settings:
    given = {key: values[key] for key in SETTINGS if values.get(key) is not None}
    if isinstance(given.get("clip"), str) and given["clip"] == "none":
        given["clip"] = None
    return Settings(**given)


def _checked_shared(file: Path, values: Mapping[str, Any]) -> tuple[Path | None, str | None]:
    """File that has the rows of all sources, and its column that names them: both or neither."""
    data, column = values.get("data"), values.get("source_column")
    if (data is None) != (column is None):
        missing, given = ("data", "source_column") if data is None else ("source_column", "data")
        raise ValueError(f"{missing} must be given with {given}: one file, and its column of sources")
    if data is None:
        return None, None
    return file.parent / checks.text("data", data), checks.text("source_column", column)


def check_columns(values: Mapping[str, Any]) -> tuple[str | int | None, tuple[str, ...] | None, int | None]:
    """Label, features and n_features as given."""
    label, features, width = (values.get(key) for key in ("label", "features", "n_features"))
    if label is not None and type(label) is not int:
        label = checks.text("label", label)
    if features is not None:
        features = _checked_names(features)
    if width is not None:
        width = checks.whole("n_features", width)
    return label, features, width


def _checked_described(values: Mapping[str, Any]) -> tuple[Column, ...] | None:
    """Columns as described; they are the features, so nothing else may say what these are."""
    if values.get("columns") is None:
        return None
    for key in ("features", "n_features"):
        if values.get(key) is not None:
            raise ValueError(f"{key} must be left out where [columns] describes what to learn from, got both")
    with located("[columns]"):
        return describe_columns(values["columns"])


def check_delimiter(given: Any) -> str:
    r"""One character that can separate columns; a tab may be written as \t."""
    given = "\t" if given == "\\t" else given
    if isinstance(given, str) and len(given) == 1 and given.isascii() and not given.isalnum() and given not in '"\r\n':
        return given
    raise ValueError(f"delimiter must be one character such as ';', got {checks.shown(given)}")


def _checked_names(features: Any) -> tuple[str, ...]:
    if isinstance(features, str) or not isinstance(features, Sequence) or not features:
        raise ValueError(f"features must be a list of at least one column, got {checks.shown(features)}")
    return tuple(checks.text("features", name) for name in features)


def _source_tables(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    tables = values.get("source", [])
    if isinstance(tables, Mapping):
        raise ValueError("source must be a list of tables: head each with [[source]], not [source]")
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        raise ValueError(f"source must be a list of tables, each headed [[source]]; got {checks.shown(tables)}")
    if not tables:
        raise ValueError("there must be at least one table [[source]], got none")
    return tables


def _with_table(file: Path, entry: SourceEntry, opened: Callable[..., Table | None], *options: Any) -> SourceEntry:
    """Entry with its file opened."""
    if entry.data is None:
        return entry
    with located(f"{file}: source {entry.name!r}, data"):
        table = opened(entry.data, *options)
    if table is not None:
        return replace(entry, table=table)
    if entry.stated_rows is None:
        raise ValueError(
            f"{file}: source {entry.name!r}: rows must be given, since its data {entry.data} are not opened here"
        )
    return replace(entry, data=None)


def _refuse_twice(names: Sequence[str]) -> None:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ValueError(f"sources must have names that differ, got {name!r} twice")


def _refuse_read_from(given: Any, described: Sequence[SourceEntry]) -> None:
    """Refuse a description that was read from rows which are private by now."""
    names = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    for entry in described:
        if entry.name in names and entry.hidden:
            raise ValueError(
                f"columns_from must name sources without privacy, got {entry.name!r}, which is private: [columns] was "
                "read from its rows; put public knowledge in its place, then delete columns_from"
            )


def _refuse_both_levels(described: Sequence[SourceEntry]) -> None:
    """Refuse rows that have their own ε in one source and their own flip rate in another."""
    for one, other in product(described, repeat=2):
        if "epsilon" in one.columns and "flip_rate" in other.columns:
            raise ValueError(
                "sources must have columns for epsilon or for flip_rate, not some for each; got epsilon = "
                f"{one.columns['epsilon']!r} of {one.name!r} and flip_rate = {other.columns['flip_rate']!r} of "
                f"{other.name!r}"
            )


def _refuse_shared(data: Sequence[tuple[str, Path]]) -> None:
    """Each row is used once, and charged once: a file belongs to one source."""
    for (one, path), (other, again) in combinations(data, 2):
        if is_same_file(path, again):
            raise ValueError(f"sources must have files that differ, got {again} as data of both {one!r} and {other!r}")
