"""The table of sources: its rows as sources, sources as its rows, and what if there were more of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from uneven.io import SourcesFile
from uneven.noise import NOISES, LocalPrivacy
from uneven.planner import STRATEGIES, Plan, Source, find_rate_intervals, make_plan, plan
from uneven.training.ahead import plan_ahead
from uneven.training.planning import problem_ahead

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

SETTINGS: dict[str, Any] = {
    "n_features": 54,
    "alpha": 1e-3,
    "batch_size": 50,
    "loss": "logistic",
    "strategy": "precision",
    "moments": "auto",
    "radius": "tight",
    "clip": STRATEGIES["precision"].private_clip,
}
"""What the page starts with, by the names of `uneven.plan`."""

MOST_STEPS = 5_000_000
"""Steps of a plan that the page shows."""

LARGEST = 10**15
"""Largest whole number of the page: a browser rounds those above 2⁵³."""


@dataclass(frozen=True)
class WhatIf:
    """Bound with more rows of one source, beside the bound without.

    Attributes
    ----------
    source : Source
        With the rows it would have.
    before, after : float
        Bounds on E‖w - w*‖².
    cost : float or None
        What the rows would cost, if the source has a price.
    """

    source: Source
    before: float
    after: float
    cost: float | None

    @property
    def percent(self) -> float:
        """Change of the bound in percent; below 0 is better."""
        return 100.0 * (self.after / self.before - 1.0)


def row_of(source: Source) -> dict[str, Any]:
    """Row of the table for a source.

    >>> row_of(HOSPITALS[0])
    {'name': 'clinic', 'rows': 50000, 'kind': 'local-privacy', 'level': 10.0, 'mechanism': 'quiet', 'price': None}
    """
    noise = source.noise.to_dict()
    if noise["kind"] not in LEVELS:
        raise ValueError(f"noise of {source.name!r} must be one alone for the studio's table, got {source.noise!r}")
    level = LEVELS[noise["kind"]]
    amount = None if level is None else noise[level]
    values = source.name, source.rows, noise["kind"], amount, noise.get("mechanism"), source.price
    return dict(zip(COLUMNS, values, strict=True))


def source_of(row: Mapping[str, Any]) -> Source:
    """Source that a row of the table describes; a level without a noise, or a mechanism without privacy, is ignored.

    >>> source_of({"name": "crowd", "rows": 900, "kind": "flipped-labels", "level": 0.2})
    Source(name='crowd', rows=900, noise=FlippedLabels(rate=0.2), price=None)
    """
    kind = row.get("kind") or "exact"
    noise = {"kind": kind, LEVELS.get(kind): row.get("level")}
    if kind == LocalPrivacy.kind:
        noise["mechanism"] = row.get("mechanism")
    given = {key: value for key, value in noise.items() if key is not None and value is not None}
    return Source.from_dict(
        {"name": row.get("name"), "rows": _whole(row.get("rows")), "noise": given, "price": row.get("price")}
    )


def sources_of(rows: Iterable[Mapping[str, Any]]) -> tuple[list[Source], list[str]]:
    """Sources of a table, and one line for each row that is none; rows with nothing in them are passed over.

    >>> sources_of([{"name": "clinic", "rows": 0}, {"kind": "exact"}])
    ([], ["Row 1: rows of source 'clinic' must be a whole number of at least 1, got 0"])
    """
    sources: list[Source] = []
    refusals: list[str] = []
    for number, row in enumerate(rows, start=1):
        if all(row.get(column) is None for column in ("name", "rows", "level", "price")):
            continue
        try:
            source = source_of(row)
            if source.name in [other.name for other in sources]:
                raise ValueError(f"name must differ from those above, got {source.name!r} again")
            sources.append(source)
        except ValueError as error:
            refusals.append(f"Row {number}: {' '.join(str(error).split())}")
    return sources, refusals


def settings_of(file: SourcesFile) -> dict[str, Any]:
    """What a fit of a ``sources.toml`` would run, as far as known before rows are read, by the names of `SETTINGS`."""
    problem, _ = problem_ahead(file)
    return {**problem.to_dict(), "strategy": file.settings.stepping, "moments": file.settings.planned_moments}


def verdicts_of(file: SourcesFile) -> list[str]:
    """Whether each private source is worth its ε, in a sentence each, where rows without privacy can be read."""
    if all(entry.table is None for entry in file.sources) and file.shared is None:
        return []
    return [verdict.describe(name) for name, verdict in plan_ahead(file)[0].verdicts.items()]


def plan_of(sources: Sequence[Source], settings: Mapping[str, Any]) -> Plan:
    """Plan for these sources and settings, refused if a page could not show it (at once)."""
    return _refuse_large(plan(sources, **settings))


def _refuse_large(planned: Plan) -> Plan:
    numbers = [planned.problem.n_features, planned.problem.batch_size, *(source.rows for source in planned.sources)]
    if max(numbers) > LARGEST:
        raise ValueError(f"numbers must be at most {LARGEST:,} to be shown here, got {max(numbers):,}")
    if planned.steps > MOST_STEPS:
        raise ValueError(
            f"rows must make at most {MOST_STEPS:,} steps to be shown here, got {planned.steps:,}; a larger "
            "batch_size makes fewer, and 'uneven plan' has no limit"
        )
    return planned


def what_if(planned: Plan, name: str, more: int) -> WhatIf:
    """Plan again with that many more rows of one source.

    >>> before = plan(HOSPITALS, n_features=54, clip=0.5)
    >>> bought = what_if(before, "clinic", 50_000)
    >>> bought.source.rows, bought.after < bought.before
    (100000, True)
    """
    sources = [replace(s, rows=s.rows + more) if s.name == name else s for s in planned.sources]
    bought = next(source for source in sources if source.name == name)
    again = _refuse_large(make_plan(sources, planned.problem, planned.strategy, planned.moments))
    cost = None if bought.price is None else bought.price * more
    return WhatIf(bought, planned.bound, again.bound, cost)


def intervals(planned: Plan) -> dict[str, tuple[float, float]]:
    """Where to search for each source's rate, for the sources and the problem of a plan: `uneven.rate_interval`."""
    return find_rate_intervals(planned.sources, planned.problem)


def _whole(value: Any) -> Any:
    """A float that is a whole number, as an int: tables hold numbers as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
