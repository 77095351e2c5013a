"""One-line refusals: each names the argument, the value it got and what it would accept."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from numbers import Integral, Real
from typing import Any


def shown(value: object) -> str:
    """Value on one line, shortened: a refusal stays readable whatever it was given.

    >>> shown([1] * 100)
    '[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,...'
    """
    plain = value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value  # of NumPy
    text = " ".join(repr(plain).split())
    return text if len(text) <= 60 else text[:57] + "..."


def join_words(words: Sequence[str], link: str = "and") -> str:
    """Words with commas, and with "and" before the last, or another link.

    >>> join_words(["a", "b", "c"]), join_words(["a", "b"], "or")
    ('a, b and c', 'a or b')
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {link} {words[-1]}"


def positive(name: str, value: object, low: float = 1e-12, high: float = 1e12) -> float:
    """Return `value` as a float, or refuse what is not a positive number in a range that floats can work with.

    >>> positive("alpha", 1e-3)
    0.001
    >>> positive("alpha", float("nan"))
    Traceback (most recent call last):
    ValueError: alpha must be a positive finite number, got nan
    """
    number = _number(value)
    if number is not None and 0 < number < math.inf and not low <= number <= high:
        raise ValueError(f"{name} must be between {low:g} and {high:g}, got {shown(value)}")
    if number is None or not 0 < number < math.inf:
        raise ValueError(f"{name} must be a positive finite number, got {shown(value)}")
    return number


LEAST, MOST = 1e-6, 1e6
"""Range of ε, budgets, clips and class weights: within it floats add up without losing one of them."""


def moderate(name: str, value: object) -> float:
    """Return `value` as a float, or refuse what is not a number between `LEAST` and `MOST`.

    >>> moderate("epsilon", 2)
    2.0
    """
    return positive(name, value, LEAST, MOST)


def not_negative(name: str, value: object, high: float = 1e12) -> float:
    """Return `value` as a float, or refuse what is not zero or a positive number of at most `high`."""
    number = _number(value)
    if number is None or not 0 <= number < math.inf:
        raise ValueError(f"{name} must be zero or a positive finite number, got {shown(value)}")
    if number > high:
        raise ValueError(f"{name} must be at most {high:g}, got {shown(value)}")
    return number


def within(name: str, value: object, low: float, high: float) -> float:
    """Return `value` as a float, or refuse what is not in the half-open interval [low, high)."""
    number = _number(value)
    if number is None or not low <= number < high:
        raise ValueError(f"{name} must be a number in [{low:g}, {high:g}), got {shown(value)}")
    return number


def between(name: str, value: object, low: float, high: float) -> float:
    """Return `value` as a float, or refuse what is not in the closed interval [low, high]."""
    number = _number(value)
    if number is None or not low <= number <= high:
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}, got {shown(value)}")
    return number


def whole(name: str, value: object, least: int = 1, most: int | None = None) -> int:
    """Return `value` as an int, or refuse what is not a whole number of at least `least`, or is above `most`."""
    if isinstance(value, Integral) and not isinstance(value, bool) and (number := int(value)) >= least:
        if most is not None and number > most:
            raise ValueError(f"{name} must be at most {most:,}, got {shown(value)}")
        return number
    raise ValueError(f"{name} must be a whole number of at least {least}, got {shown(value)}")


def text(name: str, value: object) -> str:
    """Return `value`, or refuse what is not a string with something in it."""
    if isinstance(value, str) and value.strip():
        return value
    raise ValueError(f"{name} must be a non-empty string, got {shown(value)}")


def one_of(name: str, value: object, choices: Collection[str]) -> str:
    """Return `value`, or refuse what is not one of `choices`."""
    if isinstance(value, str) and value in choices:
        return value
    raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {shown(value)}")


def only_keys(what: str, given: Collection[str], accepted: Collection[str]) -> None:
    """Refuse keys that nobody would read, so that a typing slip is not silently ignored."""
    if unknown := sorted(set(given) - set(accepted)):
        raise ValueError(f"{what} has no key {unknown[0]!r}; accepted: {', '.join(map(repr, accepted)) or 'none'}")


def needed_keys(what: str, given: Collection[str], needed: Collection[str]) -> None:
    """Refuse a mapping that lacks one of the keys it must have."""
    if missing := [key for key in needed if key not in given]:
        raise ValueError(f"{what} needs {missing[0]!r}; it is missing")


def table(what: str, values: object, keys: Collection[str], needed: Collection[str] | None = None) -> Mapping[str, Any]:
    """Return values that are a mapping with these keys and no others; all of them unless `needed` names fewer.

    >>> table("a verdict", {"word": "no", "why": ""}, ["word"])
    Traceback (most recent call last):
    ValueError: a verdict has no key 'why'; accepted: 'word'
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} must be a mapping, got {shown(values)}")
    only_keys(what, values, keys)
    needed_keys(what, values, keys if needed is None else needed)
    return values


def _number(value: Any) -> float | None:
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:  # an int beyond all floats
        return math.inf


def almost_equal(a: Any, b: Any) -> bool:
    """Equal, but for rounding of numbers."""
    if isinstance(b, Mapping):
        return isinstance(a, Mapping) and a.keys() == b.keys() and all(almost_equal(a[key], b[key]) for key in b)
    if isinstance(b, list | tuple):
        return isinstance(a, list | tuple) and len(a) == len(b) and all(map(almost_equal, a, b))
    if isinstance(b, float):
        return isinstance(a, float | int) and abs(a - b) <= 1e-6 * abs(b)
    return bool(a == b)
