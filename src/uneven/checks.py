"""One-line refusals: each names the argument, the value it got and what it would accept."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real


def positive(name: str, value: object) -> float:
    """Return `value` as a float, or refuse what is not a positive finite number.

    >>> positive("alpha", 1e-3)
    0.001
    >>> positive("alpha", float("nan"))
    Traceback (most recent call last):
    ValueError: alpha must be a positive finite number, got nan
    """
    if _is_number(value) and math.isfinite(number := float(value)) and number > 0:  # type: ignore[arg-type]
        return number
    raise ValueError(f"{name} must be a positive finite number, got {value!r}")


def not_negative(name: str, value: object) -> float:
    """Return `value` as a float, or refuse what is not zero or a positive finite number."""
    if _is_number(value) and math.isfinite(number := float(value)) and number >= 0:  # type: ignore[arg-type]
        return number
    raise ValueError(f"{name} must be zero or a positive finite number, got {value!r}")


def within(name: str, value: object, low: float, high: float) -> float:
    """Return `value` as a float, or refuse what is not in the half-open interval [low, high)."""
    if _is_number(value) and low <= (number := float(value)) < high:  # type: ignore[arg-type]
        return number
    raise ValueError(f"{name} must be a number in [{low:g}, {high:g}), got {value!r}")


def whole(name: str, value: object, least: int = 1) -> int:
    """Return `value` as an int, or refuse what is not a whole number of at least `least`."""
    if isinstance(value, Integral) and not isinstance(value, bool) and (number := int(value)) >= least:
        return number
    raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def text(name: str, value: object) -> str:
    """Return `value`, or refuse what is not a string with something in it."""
    if isinstance(value, str) and value.strip():
        return value
    raise ValueError(f"{name} must be a non-empty string, got {value!r}")


def one_of(name: str, value: object, choices: Collection[str]) -> str:
    """Return `value`, or refuse what is not one of `choices`."""
    if isinstance(value, str) and value in choices:
        return value
    raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}")


def only_keys(what: str, given: Collection[str], accepted: Collection[str]) -> None:
    """Refuse keys that nobody would read, so that a typing slip is not silently ignored."""
    if unknown := sorted(set(given) - set(accepted)):
        raise ValueError(f"{what} has no key {unknown[0]!r}; accepted: {', '.join(map(repr, accepted))}")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
