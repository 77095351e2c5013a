"""What is said of each column, by public knowledge: its kind, its range or its values, and what stands for missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from uneven import checks
from uneven.columns.cells import as_text

KINDS = ("number", "category")
KEYS = ("kind", "range", "mean", "sd", "values", "missing")
DEVIATIONS = 3.0
"""Standard deviations from its mean that a number is moved to where it is beyond."""


@dataclass(frozen=True)
class Column:
    """One column as it is described.

    Attributes
    ----------
    name : str
    kind : {"number", "category"}
    range : (float, float) or None
        Values of a number beyond it are moved to its ends; None means to be taken from rows without privacy. Of a
        number with a mean and a standard deviation, three of these to each side.
    values : tuple of str or None
        Of a category; None means to be taken from rows without privacy. All other values are one more category.
    missing : tuple of str or None
        What stands for a missing value, beside an empty cell; None where no value is missing.
    spread : (float, float) or None
        Mean and standard deviation of a number that is described by these.
    """

    name: str
    kind: str
    range: tuple[float, float] | None = None
    values: tuple[str, ...] | None = None
    missing: tuple[str, ...] | None = None
    spread: tuple[float, float] | None = None

    @property
    def complete(self) -> bool:
        """Whether all is said that features are made of."""
        return (self.range if self.kind == "number" else self.values) is not None

    @property
    def plain(self) -> bool:
        """Whether it is a number that is never missing: such a column can be a feature as it is."""
        return self.kind == "number" and self.missing is None


def describe_columns(columns: Any) -> tuple[Column, ...]:
    """Columns from plain values, checked.

    Parameters
    ----------
    columns : dict of str to dict
        For each column ``{"range": [low, high]}``, ``{"mean": m, "sd": s}``, ``{"values": [...]}``, or
        ``{"kind": "number"}`` or ``{"kind": "category"}`` where the rest is to be taken from rows without privacy;
        ``"missing": [...]`` with any.

    Examples
    --------
    >>> describe_columns({"age": {"range": [18, 90]}})
    (Column(name='age', kind='number', range=(18.0, 90.0), values=None, missing=None, spread=None),)
    >>> describe_columns({"age": {"range": [90, 18]}})
    Traceback (most recent call last):
    ValueError: column 'age': range must be two finite numbers, the lower one first, got [90, 18]
    """
    if not isinstance(columns, Mapping):
        raise ValueError(f"columns must describe at least one column, got {checks.shown(columns)}")
    if not columns:
        raise ValueError(
            "columns must describe at least one column, got none. Write what is publicly known of a column, such as "
            "age = { range = [18, 90] }; where a line is proposed, put public knowledge in it, and delete the '# ' in "
            "front of it"
        )
    return tuple(_column(checks.text("name of a column", name), values) for name, values in columns.items())


def columns_to_dict(columns: Sequence[Column]) -> dict[str, dict[str, Any]]:
    """Columns as plain values, which `describe_columns` reads back."""
    return {column.name: _plain(column) for column in columns}


def _plain(column: Column) -> dict[str, Any]:
    stated = {"range": None if column.spread else column.range, "values": column.values, "missing": column.missing}
    plain: dict[str, Any] = dict(zip(("mean", "sd"), column.spread or (), strict=False))
    plain |= {key: list(value) for key, value in stated.items() if value is not None}
    return plain if column.complete else {"kind": column.kind, **plain}


def _column(name: str, values: Any) -> Column:
    what = f"column {name!r}"
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} must be described like {{ range = [0, 1] }}, got {checks.shown(values)}")
    checks.only_keys(what, values, KEYS)
    if len(values.keys() & {"range", "values"} | ({"mean"} if values.keys() & {"mean", "sd"} else set())) > 1:
        raise ValueError(f"{what} must have a range, a mean and sd, or values, got more than one of them")
    if not values.keys() & {"kind", "range", "mean", "sd", "values"}:
        raise ValueError(f"{what} must have a range, a mean and sd, values or a kind, got {checks.shown(dict(values))}")
    spread = _spread(what, values.get("mean"), values.get("sd")) if values.keys() & {"mean", "sd"} else None
    stated = "number" if "range" in values or spread else "category" if "values" in values else None
    kind = checks.one_of(f"{what}: kind", values.get("kind", stated), KINDS)
    if stated not in (None, kind):
        raise ValueError(
            f"{what}: kind must be {stated!r} where there is a {'range' if stated == 'number' else 'list'}"
        )
    ends = None if spread is None else [spread[0] - DEVIATIONS * spread[1], spread[0] + DEVIATIONS * spread[1]]
    return Column(
        name,
        kind,
        _range(what, values.get("range", ends)) if "range" in values or ends else None,
        _texts(f"{what}: values", values["values"]) if "values" in values else None,
        _texts(f"{what}: missing", values["missing"], least=0) if "missing" in values else None,
        spread,
    )


def _spread(what: str, mean: Any, sd: Any) -> tuple[float, float]:
    if not (_is_finite(mean) and _is_finite(sd)) or sd <= 0:
        raise ValueError(f"{what}: mean and sd must be two finite numbers, sd above 0, got {mean!r} and {sd!r}")
    return float(mean), float(sd)


def _range(what: str, given: Any) -> tuple[float, float]:
    fits = isinstance(given, list | tuple) and len(given) == 2 and all(_is_finite(value) for value in given)
    if not fits or not given[0] < given[1]:
        raise ValueError(f"{what}: range must be two finite numbers, the lower one first, got {checks.shown(given)}")
    return float(given[0]), float(given[1])


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and abs(float(value)) < 1e300


def _texts(what: str, given: Any, least: int = 1) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or len(given) < least:
        raise ValueError(f"{what} must be a list{' of at least one value' * least}, got {checks.shown(given)}")
    if not all(isinstance(value, str | bool | Real) for value in given):
        raise ValueError(f"{what} must be words, numbers or booleans, got {checks.shown(given)}")
    texts = [text for text in as_text(given) if text is not None]
    if len(set(texts)) < len(texts):
        twice = next(text for place, text in enumerate(texts) if text in texts[:place])
        raise ValueError(f"{what} must differ, got {twice!r} twice")
    if len(texts) < least:
        raise ValueError(f"{what} must have a value that is not empty, got {checks.shown(given)}")
    return tuple(texts)
