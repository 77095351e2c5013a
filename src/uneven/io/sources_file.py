"""Read and write ``sources.toml``: the sources, where their rows are, and the settings of a run."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from uneven import checks
from uneven.io.agreement import agreed_features, agreed_width
from uneven.io.files import same_file, write_text_atomically
from uneven.io.refusals import located
from uneven.io.sources_text import parsed, parsed_content, toml_text
from uneven.io.tables import Table, open_table
from uneven.noise import MOMENTS, Exact, LocalPrivacy, Noise, noise_from_dict
from uneven.planner import STRATEGIES, Plan, Source, checked_sources, make_plan, plan
from uneven.problem import Problem

DEFAULTS: dict[str, Any] = {
    name: parameter.default
    for name, parameter in inspect.signature(plan).parameters.items()
    if parameter.default is not parameter.empty and name not in ("norms", "eigenvalue")
}
"""Settings of a run, with the defaults of `uneven.plan`; what its rows are like is not for a file to say."""

SCALE_KEYS = ("row_norm", "fit_intercept")
"""Settings of `UnevenClassifier` that a plan for the unit ball does without."""

TOP_KEYS = (*DEFAULTS, *SCALE_KEYS, "label", "features", "n_features", "source")
SOURCE_KEYS = ("name", "data", "rows", "noise", "price", "prices")


@dataclass(frozen=True)
class SourceEntry:
    """One ``[[source]]``: its description, and the file that has its rows, if there is one.

    Parameters
    ----------
    source : Source
    data : Path or None
    table : Table or None
        The file, opened.
    prices : dict or None
        Price of a row at each ε that it is sold at, for `uneven.value`.
    """

    source: Source
    data: Path | None = None
    table: Table | None = field(default=None, repr=False, compare=False)
    prices: Mapping[float, float] | None = None


@dataclass(frozen=True)
class SourcesFile:
    """What a ``sources.toml`` says, checked.

    Parameters
    ----------
    path : Path
    problem : Problem
        alpha, batch_size, loss, radius and clip; n_features is that of the files.
    strategy, moments : str
        As `uneven.plan` takes them.
    label : str, int or None
        Column of the labels, as given.
    features : tuple of str or None
        Columns to learn from, as given.
    feature_names : tuple of str or None
        Columns to learn from, in the order of the first file; None if no source has data and none are given.
    sources : tuple of SourceEntry
    row_norm : float or None
        Public bound on the norm of rows, for fitting; None is the classifier's ``"auto"``.
    fit_intercept : bool
        Whether to fit one.
    """

    path: Path
    problem: Problem
    strategy: str
    moments: str
    label: str | int | None
    features: tuple[str, ...] | None
    feature_names: tuple[str, ...] | None = field(repr=False)
    sources: tuple[SourceEntry, ...]
    row_norm: float | None = None
    fit_intercept: bool = True

    def plan(self) -> Plan:
        """Plan for these sources and settings, rows in the unit ball."""
        with located(str(self.path)):
            return make_plan([entry.source for entry in self.sources], self.problem, self.strategy, self.moments)


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
    >>> path = Path(tempfile.mkdtemp()) / "sources.toml"
    >>> clinic = Source("clinic", rows=6000)
    >>> write_sources(path, [clinic], n_features=25, alpha=0.01)
    >>> file = read_sources(path)
    >>> file.sources[0].source == clinic, file.problem.alpha, file.plan().steps
    (True, 0.01, 120)
    """
    file = Path(path)
    return _understood(file, parsed(file), _entry)


def sources_from_text(content: str | bytes, name: str = "sources.toml") -> SourcesFile:
    """Read the content of a ``sources.toml`` from elsewhere: no file is opened, so each source must say its rows.

    Parameters
    ----------
    content : str or bytes
    name : str
        Of the file, for errors.

    Examples
    --------
    >>> clinic = Source("clinic", rows=6000)
    >>> sources_from_text(sources_to_text([clinic], n_features=25)).sources[0].source == clinic
    True
    """
    raw = content.encode("utf-8") if isinstance(content, str) else content
    return _understood(Path(name), parsed_content(raw, name), _unopened)


def _understood(file: Path, values: Mapping[str, Any], entry: Callable[..., SourceEntry]) -> SourcesFile:
    """What a file says, with `entry` made of each source."""
    with located(str(file)):
        checks.only_keys("the top level", values, TOP_KEYS)
        settings = {**DEFAULTS, **{key: values[key] for key in DEFAULTS if key in values}}
        label, features, width = _checked_columns(values)
        scale = _checked_scale(values)
        _checked_problem(settings, width)
        tables = _source_tables(values)
    described = [_described(file, number, table) for number, table in enumerate(tables, start=1)]
    with located(str(file)):
        _refuse_twice([source["name"] for source in described])
        _refuse_shared([(source["name"], source["data"]) for source in described if source["data"] is not None])
    # All that can be said without the data is said by now: counting rows may take a while.
    libsvm_width = width if features is None else None
    entries = tuple(entry(file, libsvm_width, **source) for source in described)
    opened = {one.source.name: one.table for one in entries if one.table is not None}
    names = agreed_features(str(file), opened, label, features)
    with located(str(file)):
        problem = _checked_problem(settings, agreed_width(width, names))
    steps = settings["strategy"], settings["moments"]
    return SourcesFile(file, problem, *steps, label, features, names, entries, **scale)


def write_sources(
    path: str | os.PathLike[str],
    sources: Iterable[SourceEntry | Source],
    *,
    label: str | int | None = None,
    features: Sequence[str] | None = None,
    n_features: int | None = None,
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
    note : str
        Lines to put below every source, such as comments.
    counted : bool
        Whether to write the rows of files too, for readers that do not open them: then a file must not grow.
    **settings
        Settings of `uneven.plan`: alpha, batch_size, loss, strategy, moments, radius, clip; and for fitting row_norm
        and fit_intercept.
    """
    folder = Path(path).absolute().parent
    columns: dict[str, Any] = {"label": label, "features": features, "n_features": n_features}
    write_text_atomically(path, sources_to_text(sources, folder, note=note, counted=counted, **columns, **settings))


def sources_to_text(
    sources: Iterable[SourceEntry | Source],
    folder: Path | None = None,
    *,
    label: str | int | None = None,
    features: Sequence[str] | None = None,
    n_features: int | None = None,
    note: str = "",
    counted: bool = False,
    **settings: Any,
) -> str:
    """Text that `write_sources` writes; `folder` is where the file will be, the current one if None.

    Examples
    --------
    >>> print(sources_to_text([Source("clinic", rows=6000)], n_features=25))
    # Sources of data of uneven quality, for uneven: ...
    alpha = 0.001  # L2 strength
    ...
    [[source]]
    name = "clinic"
    rows = 6000
    noise = { kind = "exact" }
    """
    entries = [entry if isinstance(entry, SourceEntry) else SourceEntry(entry) for entry in sources]
    checked_sources(entry.source for entry in entries)
    checks.only_keys("sources.toml", settings, (*DEFAULTS, *SCALE_KEYS))
    scale = _checked_scale(settings)
    settings = {key: value for key, value in settings.items() if key in DEFAULTS}
    columns = {"label": label, "features": features, "n_features": n_features}
    label, names, width = _checked_columns({key: value for key, value in columns.items() if value is not None})
    if names is not None or all(entry.data is None for entry in entries):
        agreed_width(width, names)
    every = {**DEFAULTS, **settings}
    every |= {key: value for key, value in _checked_problem(every, width).to_dict().items() if key in DEFAULTS}
    place = Path.cwd() if folder is None else folder
    columns = {"label": label, "features": names, "n_features": width}
    return toml_text({**every, **scale, **columns}, _tables_of(entries, place, counted), note)


def _checked_columns(values: Mapping[str, Any]) -> tuple[str | int | None, tuple[str, ...] | None, int | None]:
    """Label, features and n_features as given."""
    label, features, width = (values.get(key) for key in ("label", "features", "n_features"))
    if label is not None and type(label) is not int:
        label = checks.text("label", label)
    if features is not None:
        features = _checked_names(features)
    if width is not None:
        width = checks.whole("n_features", width)
    return label, features, width


def _checked_scale(values: Mapping[str, Any]) -> dict[str, Any]:
    """`row_norm` and `fit_intercept`, those that are given."""
    scale: dict[str, Any] = {}
    if values.get("row_norm") is not None:
        scale["row_norm"] = checks.positive("row_norm", values["row_norm"])
    if values.get("fit_intercept") is not None:
        if not isinstance(values["fit_intercept"], bool):
            raise ValueError(f"fit_intercept must be true or false, got {checks.shown(values['fit_intercept'])}")
        scale["fit_intercept"] = values["fit_intercept"]
    return scale


def _checked_names(features: Any) -> tuple[str, ...]:
    if isinstance(features, str) or not isinstance(features, Sequence) or not features:
        raise ValueError(f"features must be a list of at least one column, got {checks.shown(features)}")
    return tuple(checks.text("features", name) for name in features)


def _checked_problem(settings: Mapping[str, Any], width: int | None) -> Problem:
    checks.one_of("strategy", settings["strategy"], STRATEGIES)
    checks.one_of("moments", settings["moments"], ("auto", *MOMENTS))
    rest = {key: value for key, value in settings.items() if key not in ("strategy", "moments")}
    return Problem(1 if width is None else width, **rest)


def _source_tables(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    tables = values.get("source", [])
    if isinstance(tables, Mapping):
        raise ValueError("source must be a list of tables: head each with [[source]], not [source]")
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        raise ValueError(f"source must be a list of tables, each headed [[source]]; got {checks.shown(tables)}")
    if not tables:
        raise ValueError("there must be at least one table [[source]], got none")
    return tables


def _described(file: Path, number: int, values: Mapping[str, Any]) -> dict[str, Any]:
    """What one ``[[source]]`` says, each key checked by itself."""
    with located(f"{file}: source {number}"):
        if "name" not in values:
            raise ValueError(f"name must be given, got {checks.shown(dict(values))}")
        name = checks.text("name", values["name"])
    _refuse_keys(file, name, values)
    with located(f"{file}: source {name!r}, noise"):
        noise = noise_from_dict(values["noise"]) if "noise" in values else Exact()
    with located(f"{file}: source {name!r}"):
        if "rows" not in values and "data" not in values:
            raise ValueError("rows must be given where there is no data, got neither")
        price = checks.not_negative("price", values["price"]) if "price" in values else None
        prices = _checked_prices(values, noise) if "prices" in values else None
        rows = checks.whole("rows", values["rows"]) if "rows" in values else None
        data = file.parent / checks.text("data", values["data"]) if "data" in values else None
    return {"name": name, "noise": noise, "price": price, "rows": rows, "data": data, "prices": prices}


def _checked_prices(values: Mapping[str, Any], noise: Noise) -> dict[float, float]:
    """Price of a row at each ε, of ``prices = [{ epsilon = 1, price = 0.02 }, ...]``."""
    if "price" in values:
        raise ValueError("price must be left out where there are prices, got both")
    if not isinstance(noise, LocalPrivacy):
        raise ValueError(f"prices must be left out: they are for noise of local privacy, got {noise!r}")
    entries = values["prices"]
    shape = "prices must be a list such as [{ epsilon = 1, price = 0.02 }, { epsilon = 3, price = 0.1 }]"
    if not isinstance(entries, list) or not entries:
        raise ValueError(f"{shape}, got {checks.shown(entries)}")
    prices: dict[float, float] = {}
    for entry in entries:
        if not isinstance(entry, Mapping) or set(entry) != {"epsilon", "price"}:
            raise ValueError(f"{shape}, got {checks.shown(entry)}")
        epsilon = checks.positive("epsilon in prices", entry["epsilon"], 1e-6, 1e6)
        if epsilon in prices:
            raise ValueError(f"prices must have each epsilon once, got {epsilon:g} twice")
        prices[epsilon] = checks.not_negative("price in prices", entry["price"])
    return prices


def _entry(
    file: Path, width: int | None, name: str, rows: Any, data: Path | None, prices: Any, **rest: Any
) -> SourceEntry:
    """Entry of what `_described` returned, its file opened and counted."""
    if data is None:
        return SourceEntry(Source(name, rows, **rest), prices=prices)
    with located(f"{file}: source {name!r}, data"):
        table = open_table(data, n_features=width)
        count = table.rows
    if rows not in (None, count):
        raise ValueError(f"{file}: source {name!r}: rows must be {count} as in {data}, or left out; got {rows}")
    return SourceEntry(Source(name, count, **rest), data, table, prices)


def _unopened(
    file: Path, _width: int | None, name: str, rows: Any, data: Path | None, prices: Any, **rest: Any
) -> SourceEntry:
    """Entry of what `_described` returned, by what it says alone."""
    if rows is None:
        raise ValueError(f"{file}: source {name!r}: rows must be given, since its data {data} are not opened here")
    return SourceEntry(Source(name, rows, **rest), prices=prices)


def _refuse_twice(names: Sequence[str]) -> None:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ValueError(f"sources must have names that differ, got {name!r} twice")


def _refuse_shared(data: Sequence[tuple[str, Path]]) -> None:
    """Each row is used once, and charged once: a file belongs to one source."""
    for (one, path), (other, again) in combinations(data, 2):
        if same_file(path, again):
            raise ValueError(f"sources must have files that differ, got {again} as data of both {one!r} and {other!r}")


def _refuse_keys(file: Path, name: str, values: Mapping[str, Any]) -> None:
    for key in values:
        if key in TOP_KEYS and key not in SOURCE_KEYS:
            raise ValueError(
                f"{file}: source {name!r}: {key} is a setting of the whole file; write it above the first [[source]]"
            )
    with located(str(file)):
        checks.only_keys(f"source {name!r}", values, SOURCE_KEYS)


def _tables_of(entries: Iterable[SourceEntry], folder: Path, counted: bool) -> Iterator[dict[str, Any]]:
    """Each source as ``sources.toml`` has it. Rows are left out where they can be counted, unless `counted`."""
    for entry in entries:
        source = entry.source
        noise = source.noise.to_dict()
        noise_from_dict(noise)  # refuses a noise that could not be read back
        yield {
            "name": source.name,
            "data": None if entry.data is None else _from_folder(entry.data, folder),
            "rows": source.rows if counted or entry.data is None else None,
            "noise": noise,
            "price": source.price,
            "prices": None if entry.prices is None else [{"epsilon": e, "price": p} for e, p in entry.prices.items()],
        }


def _from_folder(data: Path, folder: Path) -> str:
    place = data.absolute()
    return (place.relative_to(folder) if place.is_relative_to(folder) else place).as_posix()
