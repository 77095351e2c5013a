"""Write ``sources.toml``: what `read_sources` reads back, with comments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from uneven import checks
from uneven.io.agreement import agree_on_width
from uneven.io.files import write_text_atomically
from uneven.io.source_entry import SourceEntry, list_entry_tables
from uneven.io.sources_file import SETTINGS, check_columns, check_delimiter
from uneven.io.sources_text import format_sources
from uneven.planner import Source, check_sources
from uneven.settings import Settings

ALWAYS = ("alpha", "batch_size", "loss", "strategy", "moments", "radius")
"""Settings that are written even where they are the usual ones."""

USUAL = asdict(Settings())


def write_sources(
    path: str | os.PathLike[str],
    sources: Iterable[SourceEntry | Source],
    *,
    label: str | int | None = None,
    features: Sequence[str] | None = None,
    n_features: int | None = None,
    columns: str = "",
    delimiter: str | None = None,
    columns_from: Sequence[str] | None = None,
    note: str = "",
    counted: bool = False,
    **settings: Any,
) -> None:
    """Write a commented ``sources.toml`` that `read_sources` reads back; whole or not at all.

    Parameters
    ----------
    path : path
    sources : iterable of SourceEntry or Source
        Data in the file's folder, or below it, is written as a path from there, so that the folder can be moved.
    label, features, n_features
        See `SourcesFile`; `n_features` where no source has data.
    columns : str
        Text of the table ``[columns]``, as `uneven.io.sources_text.format_columns` writes it.
    delimiter : str or None
        What separates the columns of files of text.
    columns_from : list of str or None
        Sources whose rows the columns were read from: the file is refused once one of them is private.
    note : str
        Lines to put below every source, such as comments.
    counted : bool
        Whether to write the rows of files too, for readers that do not open them: then a file must not grow.
    **settings
        Settings of the classifier, but for its seed.
    """
    folder = Path(path).absolute().parent
    given: dict[str, Any] = {"label": label, "features": features, "n_features": n_features, "delimiter": delimiter}
    given |= {"columns": columns, "columns_from": columns_from, "note": note, "counted": counted}
    text = sources_to_text(sources, folder, **given, **settings)
    write_text_atomically(path, text)


def sources_to_text(
    sources: Iterable[SourceEntry | Source],
    folder: Path | None = None,
    *,
    label: str | int | None = None,
    features: Sequence[str] | None = None,
    n_features: int | None = None,
    columns: str = "",
    delimiter: str | None = None,
    columns_from: Sequence[str] | None = None,
    note: str = "",
    counted: bool = False,
    **settings: Any,
) -> str:
    """Text that `write_sources` writes; `folder` is where the file will be, the current one if None.

    Examples
    --------
    >>> print(sources_to_text([Source("clinic", rows=6000)], n_features=25))
    # Sources of data of uneven quality, for uneven: ...
    # alpha = 0.001  # L2 strength; left out: ...
    ...
    [[source]]
    name = "clinic"
    rows = 6000
    noise = { kind = "exact" }
    """
    given = list(sources)
    check_sources(Source(one.name, 1) if isinstance(one, SourceEntry) else one for one in given)
    entries = [one if isinstance(one, SourceEntry) else SourceEntry.of(one) for one in given]
    checks.only_keys("sources.toml", settings, SETTINGS)
    stated = {"label": label, "features": features, "n_features": n_features}
    label, names, width = check_columns({key: value for key, value in stated.items() if value is not None})
    if names is not None or all(entry.data is None for entry in entries):
        agree_on_width(width, names)
    values = asdict(Settings(**settings))
    written = {key: values[key] for key in SETTINGS if key in ALWAYS or values[key] != USUAL[key]}
    chosen = [key for key in ("alpha", "batch_size", "strategy") if written[key] == "auto"]
    written = {key: value for key, value in written.items() if key not in chosen}
    written |= {"clip": "none"} if values["clip"] is None else {}
    place = Path.cwd() if folder is None else folder
    written |= {"label": label, "features": names, "n_features": width}
    written |= {} if delimiter is None else {"delimiter": check_delimiter(delimiter)}
    written |= {} if columns_from is None else {"columns_from": list(columns_from)}
    return format_sources(written, list_entry_tables(entries, place, counted), note, columns)
