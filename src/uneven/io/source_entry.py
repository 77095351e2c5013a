"""One ``[[source]]`` of a ``sources.toml``: what it says, and how it is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from uneven import checks
from uneven.io.refusals import located
from uneven.io.tables import Table
from uneven.noise import Exact, LocalPrivacy, Noise, noise_from_dict
from uneven.planner import Source

COLUMN_KEYS = ("id", "epsilon", "flip_rate")
"""Columns in which rows say something of themselves, named for each source."""

SOURCE_KEYS = ("name", "data", "rows", "noise", "price", "prices", *COLUMN_KEYS)


@dataclass(frozen=True)
class SourceEntry:
    """One ``[[source]]``: its description, and where its rows are, if anywhere.

    Parameters
    ----------
    name : str
    noise : Noise or None
        None where each row tells its own.
    price : float or None
    stated_rows : int or None
        Rows as the file states them.
    data : Path or None
        File that has its rows.
    table : Table or None
        The file, opened.
    prices : dict or None
        Price of a row at each ε that it is sold at, for `uneven.value`.
    columns : dict
        Column of each of ``id``, ``epsilon`` and ``flip_rate`` that is given.
    """

    name: str
    noise: Noise | None = None
    price: float | None = None
    stated_rows: int | None = None
    data: Path | None = None
    table: Table | None = field(default=None, repr=False, compare=False)
    prices: Mapping[float, float] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def hidden(self) -> bool:
        """Whether features are protected, by the noise of the source or perhaps of a row: none is looked at."""
        return self.noise.protects_features if self.noise is not None else "flip_rate" not in self.columns

    @classmethod
    def of(cls, source: Source, data: Path | None = None, **rest: Any) -> SourceEntry:
        """Entry of a described source."""
        return cls(source.name, source.noise, source.price, source.rows, data, **rest)

    @property
    def private(self) -> bool:
        """Whether its rows are private: by their noise, or because they have their own ε."""
        return "epsilon" in self.columns if self.noise is None else self.noise.private

    @property
    def on_offer(self) -> bool:
        """Whether it has a price: its rows are not owned."""
        return self.price is not None or self.prices is not None

    @cached_property
    def source(self) -> Source:
        """The source as planned with: its rows as stated, or counted in the file, which may take a reading of it."""
        rows = self.stated_rows if self.table is None else self.table.rows
        assert rows is not None
        self.refuse_count(rows)
        return Source(self.name, rows, Exact() if self.noise is None else self.noise, self.price)

    def refuse_count(self, rows: int) -> None:
        """Refuse a file whose number of rows is not the stated one."""
        if self.stated_rows not in (None, rows):
            raise ValueError(
                f"source {self.name!r}: rows must be {rows} as in {self.data}, or left out; got {self.stated_rows}"
            )


def parse_entry(
    file: Path, number: int, values: Mapping[str, Any], column: str | None, top_keys: Collection[str]
) -> SourceEntry:
    """What one ``[[source]]`` says, each key checked by itself.

    Parameters
    ----------
    file : Path
        For messages.
    number : int
        Which of the sources it is, from 1.
    values : dict
    column : str or None
        Column that names the sources in a file they share.
    top_keys : collection of str
        Keys of the whole file, which do not belong here.
    """
    with located(f"{file}: source {number}"):
        if "name" not in values:
            raise ValueError(f"name must be given, got {checks.shown(dict(values))}")
        name = checks.text("name", values["name"])
    _refuse_keys(file, name, values, top_keys)
    with located(f"{file}: source {name!r}, noise"):
        noise = noise_from_dict(values["noise"]) if "noise" in values else None
    with located(f"{file}: source {name!r}"):
        if column is not None and "data" in values:
            raise ValueError("data must be left out where source_column names each row's source")
        if column is None and "rows" not in values and "data" not in values:
            raise ValueError("rows must be given where there is no data, got neither")
        columns = {key: checks.text(key, values[key]) for key in COLUMN_KEYS if key in values}
        price = checks.not_negative("price", values["price"]) if "price" in values else None
        prices = _checked_prices(values, noise) if "prices" in values else None
        rows = checks.whole("rows", values["rows"]) if "rows" in values else None
        data = file.parent / checks.text("data", values["data"]) if "data" in values else None
        _refuse_noise(columns, noise)
    return SourceEntry(name, noise, price, rows, data, None, prices, columns)


def _refuse_noise(columns: Mapping[str, str], noise: Noise | None) -> None:
    """Refuse a source whose quality is not stated, or is stated twice."""
    own = [key for key in ("epsilon", "flip_rate") if key in columns]
    if len(own) > 1:
        raise ValueError("epsilon must be left out where there is flip_rate, got columns for both")
    if own and noise is not None:
        raise ValueError(f"noise must be left out where rows have their own {own[0]}, got both")
    if not own and noise is None:
        raise ValueError(
            'noise must be given, such as { kind = "exact" } or { kind = "local-privacy", epsilon = 1.0 }; got none'
        )


def _checked_prices(values: Mapping[str, Any], noise: Noise | None) -> dict[float, float]:
    """Price of a row at each ε, of ``prices = [{ epsilon = 1, price = 0.02 }, ...]``."""
    if "price" in values:
        raise ValueError("price must be left out where there are prices, got both")
    if not isinstance(noise, LocalPrivacy):
        got = "none" if noise is None else repr(noise.describe())
        raise ValueError(f"prices must be left out where noise is not local privacy alone, got noise {got}")
    entries = values["prices"]
    shape = "prices must be a list such as [{ epsilon = 1, price = 0.02 }, { epsilon = 3, price = 0.1 }]"
    if not isinstance(entries, list) or not entries:
        raise ValueError(f"{shape}, got {checks.shown(entries)}")
    prices: dict[float, float] = {}
    for entry in entries:
        if not isinstance(entry, Mapping) or set(entry) != {"epsilon", "price"}:
            raise ValueError(f"{shape}, got {checks.shown(entry)}")
        epsilon = checks.moderate("epsilon in prices", entry["epsilon"])
        if epsilon in prices:
            raise ValueError(f"prices must have each epsilon once, got {epsilon:g} twice")
        prices[epsilon] = checks.not_negative("price in prices", entry["price"])
    return prices


def _refuse_keys(file: Path, name: str, values: Mapping[str, Any], top_keys: Collection[str]) -> None:
    if "rank" in values:
        raise ValueError(f"{file}: source {name!r}: rank is for 'uneven plan' alone; state noise, if only roughly")
    for key in values:
        if key in top_keys and key not in SOURCE_KEYS:
            raise ValueError(
                f"{file}: source {name!r}: {key} is a setting of the whole file; write it above the first [[source]]"
            )
    with located(str(file)):
        checks.only_keys(f"source {name!r}", values, SOURCE_KEYS)


def list_entry_tables(entries: Iterable[SourceEntry], folder: Path, counted: bool) -> Iterator[dict[str, Any]]:
    """Each source as ``sources.toml`` has it. Rows are left out where they can be counted, unless `counted`."""
    for entry in entries:
        noise: Any = None if entry.noise is None else entry.noise.to_dict()
        if noise is not None:
            noise_from_dict(noise)  # refuses a noise that could not be read back
            noise = noise.get("noises", noise)  # several at once are a list
        rows = entry.source.rows if counted or (entry.data is None and entry.stated_rows is not None) else None
        yield {
            "name": entry.name,
            "data": None if entry.data is None else _from_folder(entry.data, folder),
            "rows": rows,
            "noise": noise,
            **entry.columns,
            "price": entry.price,
            "prices": None if entry.prices is None else [{"epsilon": e, "price": p} for e, p in entry.prices.items()],
        }


def _from_folder(data: Path, folder: Path) -> str:
    place = data.absolute()
    return (place.relative_to(folder) if place.is_relative_to(folder) else place).as_posix()
