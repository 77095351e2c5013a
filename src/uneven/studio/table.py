"""The table of sources: its rows as changes of a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from uneven.noise import NOISES, LocalPrivacy
from uneven.planner import Plan, Source, find_rate_intervals

COLUMNS = ("name", "rows", "kind", "level", "mechanism", "price")

LEVELS = {
    kind: next((field.name for field in fields(noise) if field.default is MISSING), None)
    for kind, noise in NOISES.items()
}
"""What the level of each kind of noise is called: an epsilon, a rate, a variance, or nothing."""

HOSPITALS = (
    Source("clinic", rows=50_000, noise=LocalPrivacy(epsilon=10.0)),
    Source("region", rows=450_000, noise=LocalPrivacy(epsilon=1.0)),
)
"""Two hospitals, one with a tenth of the rows and ten times the epsilon: what the page starts with."""

MOST_STEPS = 5_000_000
"""Steps of a plan that the page shows."""

LARGEST = 10**15
"""Largest whole number of the page: a browser rounds those above 2⁵³."""


def make_row(source: Mapping[str, Any], place: int | None = None) -> dict[str, Any]:
    """Row of the table for a source as ``sources.toml`` has it; `place` is the source's in the file.

    >>> make_row({"name": "crowd", "rows": 50, "noise": {"kind": "additive", "variance": 4.0}}, 0)
    {'place': 0, 'name': 'crowd', 'rows': 50, 'kind': 'additive', 'level': '4', 'mechanism': None, 'price': None}
    """
    noise = _single(source)
    told = _tell_noise(source)
    values = source["name"], source.get("rows"), *told, noise.get("mechanism")
    return {"place": place, **dict(zip(COLUMNS, (*values, source.get("price")), strict=True))}


def change_of(row: Mapping[str, Any], shown: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """What a row of the table changes in its source.

    Parameters
    ----------
    row, shown : dict
        The row as it is now, and as it was shown at first; empty for a new source.
    old : dict
        The source as ``sources.toml`` has it; empty for a new one.

    Returns
    -------
    dict
        New values of keys of the source; None for one to leave out.

    Examples
    --------
    >>> change_of({"name": "crowd", "rows": 900.0, "kind": "flipped-labels", "level": "0.2"}, {}, {})
    {'name': 'crowd', 'rows': 900, 'noise': {'kind': 'flipped-labels', 'rate': 0.2}}
    """
    changed = {key: row.get(key) for key in COLUMNS if row.get(key) != shown.get(key)}
    if "rows" in changed and shown.get("rows") is not None and "rows" not in old:
        raise ValueError(f"rows of {old['name']!r} are counted in its data, so they cannot be changed here")
    change: dict[str, Any] = {key: _whole(changed[key]) for key in ("name", "rows", "price") if key in changed}
    touched = {"kind", "level", "mechanism"} & set(changed)
    if touched and "kind" not in changed and shown.get("kind") not in (None, *NOISES):
        raise ValueError(
            f"noise of {old['name']!r} is shown in words, {row['kind']}: change it in the file, or choose another kind"
        )
    if touched or not ({"noise", "epsilon", "flip_rate"} & set(old)):
        change["noise"] = _noise_of(row, _single(old))
    return change


def _noise_of(row: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any] | None:
    """Noise of a row; what the table does not show stays, and what does not belong to the kind is ignored."""
    kind = row.get("kind") or "exact"
    level = LEVELS.get(kind)
    noise = dict(old) if old.get("kind") == kind else {"kind": kind}
    if level is not None:
        noise[level] = parse_cell(row.get("level"))
    if kind == LocalPrivacy.kind:
        noise["mechanism"] = row.get("mechanism")
    return {key: value for key, value in noise.items() if value is not None}


def parse_cell(text: Any) -> Any:
    """What was typed into a cell: a number or a list where it is one, else text; None for nothing.

    >>> parse_cell("0.2"), parse_cell("[0.1, 0.3]"), parse_cell("estimate"), parse_cell(" ")
    (0.2, [0.1, 0.3], 'estimate', None)
    """
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text.strip() or None


def parse_count(name: str, text: str) -> int:
    """A whole number as people write it, with or without commas.

    >>> parse_count("rows", " 10,000 ")
    10000
    >>> parse_count("rows", "many")
    Traceback (most recent call last):
    ValueError: rows must be a whole number of at least 1, such as 10,000; got 'many'
    """
    digits = re.sub(r"[,_\s\u202f']", "", text)
    if not (digits.isascii() and digits.isdigit() and int(digits[:20])):
        raise ValueError(f"{name} must be a whole number of at least 1, such as 10,000; got {text!r}")
    return int(digits[:20])


def check(source: Mapping[str, Any], anywhere: bool = False) -> None:
    """Refuse a source that says something wrong; rows may be missing where it has data, in a file of its own or not."""
    rows = {"rows": 1} if anywhere or "data" in source else {"rows": None}
    keys = {key: source[key] for key in ("name", "rows", "noise", "price") if source.get(key) is not None}
    Source.from_dict({"name": None, "noise": {"kind": "exact"}, **rows, **keys})


def is_empty(row: Mapping[str, Any]) -> bool:
    """Whether nothing was typed into a row; its menus may be set."""
    return row.get("place") is None and all(row.get(column) is None for column in ("name", "rows", "level", "price"))


def refuse_large(planned: Plan) -> Plan:
    """The plan, refused if a page could not show it (at once)."""
    refuse_large_numbers([planned.problem.n_features, planned.problem.batch_size, *(s.rows for s in planned.sources)])
    if planned.steps > MOST_STEPS:
        raise ValueError(
            f"rows must make at most {MOST_STEPS:,} steps to be shown here, got {planned.steps:,}; a larger "
            "batch_size makes fewer, and 'uneven plan' has no limit"
        )
    return planned


def refuse_large_numbers(numbers: Iterable[int]) -> None:
    """Refuse a number that a browser would round."""
    if (largest := max(numbers)) > LARGEST:
        raise ValueError(f"numbers must be at most {LARGEST:,} to be shown here, got {largest:,}")


def find_intervals(planned: Plan) -> dict[str, tuple[float, float]]:
    """Where to search for each source's rate, for the sources and the problem of a plan: `uneven.rate_interval`."""
    return find_rate_intervals(planned.sources, planned.problem)


def _tell_noise(source: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Kind and level of a source's noise; in words where there are several, or each row has its own."""
    noise = source.get("noise")
    if isinstance(noise, Mapping):
        return noise.get("kind"), _shown(noise.get(LEVELS.get(noise.get("kind", "")) or ""))
    if isinstance(noise, list):
        parts = [_tell_noise({"noise": one}) for one in noise]
        return " & ".join(str(kind) for kind, _ in parts), "; ".join(level for _, level in parts if level) or None
    column = next((key for key in ("epsilon", "flip_rate") if key in source), None)
    return (None, None) if column is None else (f"{column} of each row", f"column {source[column]!r}")


def _single(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """Noise of a source where there is one; several at once are shown in words, and kept."""
    noise = source.get("noise")
    return noise if isinstance(noise, Mapping) else {}


def _shown(level: Any) -> str | None:
    """Level as text of a cell."""
    if level is None or isinstance(level, str):
        return level
    return f"{level:g}" if isinstance(level, float) and float(f"{level:g}") == level else json.dumps(level)


def _whole(value: Any) -> Any:
    """A float that is a whole number, as an int: tables hold numbers as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
