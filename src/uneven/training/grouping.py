"""Which source each row is of: by name, by one noise level a row, or all of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.noise import Exact, FlippedLabels, LocalPrivacy, Noise

Array = NDArray[np.float64]

LEVELS = 256
"""More different noise levels than this, one a row, are rounded to this many."""


@dataclass(frozen=True)
class Grouped:
    """Which source each row is of, and each source's noise; `by_row` if rows told their levels themselves."""

    noises: Mapping[str, Noise]
    index: NDArray[np.int64]
    by_row: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sources, in the order of their numbers."""
        return tuple(self.noises)

    @property
    def private(self) -> NDArray[np.bool_]:
        """Whether each row is private."""
        kinds = np.array([noise.private for noise in self.noises.values()])
        return kinds[self.index]

    def rows_of(self, k: int) -> NDArray[np.int64]:
        """Numbers of source k's rows."""
        return np.flatnonzero(self.index == k)


def grouped(n: int, noise: Any, source: Any, epsilon: Any, flip_rate: Any, mechanism: str) -> Grouped:
    """Rows by source: from names, from one noise level a row, or all of one."""
    given = [
        name
        for name, value in [("source", source), ("epsilon", epsilon), ("flip_rate", flip_rate)]
        if value is not None
    ]
    if len(given) > 1:
        raise ValueError(f"{given[0]} must be given alone, got {' and '.join(given)}")
    if noise is not None and (epsilon is not None or flip_rate is not None):
        raise ValueError(f"noise must be None where rows tell their own {given[0]}, got {checks.shown(noise)}")
    if epsilon is not None:
        levels = _levels("epsilon", epsilon, n)
        return _by_level(_rounded_down(levels), lambda e: LocalPrivacy(e, mechanism), "epsilon")
    if flip_rate is not None:
        levels = _levels("flip_rate", flip_rate, n)
        return _by_level(_rounded(levels), FlippedLabels, "flip_rate")
    if source is None:
        return _one_source(n, noise)
    return _by_name(n, noise, source)


def _one_source(n: int, noise: Any) -> Grouped:
    if noise is None or isinstance(noise, Noise):
        return Grouped({"data": noise or Exact()}, np.zeros(n, dtype=np.int64))
    if isinstance(noise, Mapping) and len(noise) == 1:
        return Grouped(checked_noises(noise), np.zeros(n, dtype=np.int64))
    raise ValueError(
        f"source must name the source of each row where noise has several, got None ({checks.shown(noise)})"
    )


def _by_name(n: int, noise: Any, source: Any) -> Grouped:
    found, inverse = np.unique(_names(n, source), return_inverse=True)
    if isinstance(noise, Noise) or noise is None:
        noise = {str(name): noise or Exact() for name in found}
    known = checked_noises(noise)
    if unknown := [name for name in found if name not in known]:
        accepted = ", ".join(map(repr, known))
        raise ValueError(f"source must be one of noise's names, {accepted}; got {str(unknown[0])!r}")
    used = {name: known[name] for name in map(str, found)}
    return Grouped(used, inverse.astype(np.int64))


def _names(n: int, source: Any) -> NDArray[Any]:
    """Name of each row's source, as text; refused where they are not all text or all whole numbers."""
    given = source if isinstance(source, np.ndarray) else np.asarray(source, dtype=object)
    if given.shape != (n,):
        raise ValueError(f"source must have one name a row, shape ({n},), got shape {given.shape}")
    if given.dtype.kind == "O":
        kinds = [str if isinstance(one, str) else int if isinstance(one, Integral) else None for one in given]
        wrong = [i for i, kind in enumerate(kinds) if kind is None or kind is not kinds[0]]
        if wrong:
            got = f"{checks.shown(given[wrong[0]])} in row {wrong[0]}"
            raise ValueError(f"source must hold names that are all text or all whole numbers, got {got}")
    elif given.dtype.kind not in "USTiub":
        raise ValueError(f"source must hold names that are all text or all whole numbers, got {given.dtype}")
    return given.astype(str)


def checked_noises(noise: Any) -> dict[str, Noise]:
    """Noises by name, or a refusal."""
    if not isinstance(noise, Mapping) or not noise:
        raise ValueError(f"noise must be a noise or a dict of names and noises, got {checks.shown(noise)}")
    if len(set(map(str, noise))) < len(noise):
        raise ValueError(f"noise must have names that differ as text, got {checks.shown(list(noise))}")
    for name, one in noise.items():
        if not isinstance(one, Noise):
            raise ValueError(f"noise of {name!r} must be a noise such as uneven.Exact(), got {checks.shown(one)}")
    return {str(name): one for name, one in noise.items()}


def _levels(name: str, values: Any, n: int) -> Array:
    try:
        levels = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number in every row, got {checks.shown(values)}") from None
    if levels.shape != (n,):
        raise ValueError(f"{name} must have one value a row, shape ({n},), got shape {levels.shape}")
    wrong = ~(levels > 0) if name == "epsilon" else ~((levels >= 0) & (levels < 0.5))
    if (wrong | ~np.isfinite(levels)).any():
        i = int(np.argmax(wrong | ~np.isfinite(levels)))
        accepted = "positive and finite" if name == "epsilon" else "in [0, 0.5)"
        raise ValueError(f"{name} must be {accepted} in every row, got {levels[i]:g} in row {i}")
    return levels


def _rounded_down(epsilon: Array) -> Array:
    """At most `LEVELS` values, none larger than it was: a row may get more privacy than it asked for, never less."""
    if len(np.unique(epsilon)) <= LEVELS:
        return epsilon
    grid = np.geomspace(epsilon.min(), epsilon.max(), LEVELS)
    return np.asarray(grid[np.searchsorted(grid, epsilon * (1 + 1e-12), side="right") - 1])


def _rounded(rate: Array) -> Array:
    """At most `LEVELS` values, each within half a step of what it was."""
    if len(np.unique(rate)) <= LEVELS:
        return rate
    grid = np.linspace(rate.min(), rate.max(), LEVELS)
    return np.asarray(grid[np.rint((rate - grid[0]) / (grid[1] - grid[0])).astype(int)])


def _by_level(levels: Array, make: Any, what: str) -> Grouped:
    values, inverse = np.unique(levels, return_inverse=True)
    noises = {f"{what}={value:.6g}#{i}": make(float(value)) for i, value in enumerate(values)}
    return Grouped(noises, inverse.astype(np.int64), by_row=True)
