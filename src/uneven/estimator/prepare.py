"""Rows into the unit ball, labels to -1 and 1, and the rows of each source together.

An intercept is one more feature with a constant value: `row_norm`, or a quarter of it where rows are private, since
there it takes its share of the noise budget. Dividing by the norm of the longest row so extended, a public constant,
brings rows into the unit ball. In those coordinates the weights are larger by the same factor and alpha is smaller by
its square: `Scale` has both.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from uneven import checks
from uneven.matrices import is_sparse
from uneven.noise import Exact, FlippedLabels, LocalPrivacy, Noise

Array = NDArray[np.float64]

LEVELS = 256
"""More different noise levels than this, one a row, are rounded to this many."""

LONG_ROWS = ("shrink", "refuse")

PRIVATE_INTERCEPT = 0.25
"""Value of the intercept's feature under privacy, in row norms; larger ones did worse on MNIST and Covertype."""


@dataclass(frozen=True)
class Scale:
    """The public constants that bring rows into the unit ball: their norm's bound, and the intercept's feature."""

    row_norm: float
    constant: float = 0.0

    @property
    def intercept(self) -> bool:
        """Whether there is one."""
        return self.constant > 0.0

    @property
    def factor(self) -> float:
        """What rows are divided by: the norm of the longest, its constant included; a hair more, for float32."""
        return math.hypot(self.row_norm, self.constant) * (1.0 + 1e-6)

    def alpha(self, alpha: float) -> float:
        """L2 strength in the unit ball that means `alpha` for the rows as given."""
        return alpha / self.factor**2

    def rows(self, X: Any) -> Any:
        """Rows in the unit ball, float32, with the constant feature last."""
        if is_sparse(X):
            parts: list[Any] = [sparse.csr_array(X) / self.factor]
            if self.intercept:
                parts.append(sparse.csr_array(np.full((X.shape[0], 1), self.constant / self.factor)))
            return sparse.csr_array(sparse.hstack(parts)).astype(np.float32)
        unit = np.empty((X.shape[0], X.shape[1] + self.intercept), dtype=np.float32)
        np.divide(X, self.factor, out=unit[:, : X.shape[1]], casting="unsafe")
        if self.intercept:
            unit[:, -1] = self.constant / self.factor
        return unit

    def coefficients(self, weights: Array) -> tuple[Array, float]:
        """Coefficients and intercept for the rows as given, from weights in the unit ball."""
        coef = weights / self.factor
        return (coef[:-1], float(coef[-1] * self.constant)) if self.intercept else (coef, 0.0)


def scale_for(row_norm: Any, largest: Callable[[], float], private: bool, fit_intercept: bool) -> Scale:
    """Public constants: `row_norm` as given; ``"auto"`` is 1 where rows are private, else `largest()`, or 1 for 0."""
    if isinstance(row_norm, str) and row_norm == "auto":
        row_norm = 1.0 if private else largest() or 1.0
    norm = checks.positive("row_norm", row_norm)
    return Scale(norm, norm * (PRIVATE_INTERCEPT if private else 1.0) if fit_intercept else 0.0)


def clip_for(clip: Any, strategy: str, private: bool) -> float | None:
    """Clip as given; ``"auto"`` is 0.5 where rows are private and the strategy is "precision", else None."""
    if isinstance(clip, str) and clip == "auto":
        return 0.5 if private and strategy == "precision" else None
    return None if clip is None else float(clip)


def row_norms(X: Any) -> Array:
    """Norm of each row."""
    if is_sparse(X):
        return np.asarray(np.sqrt(np.asarray(sparse.csr_array(X).multiply(X).sum(axis=1), dtype=np.float64).ravel()))
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64)))


def checked_norms(X: Any, row_norm: float, long_rows: str, private: NDArray[np.bool_]) -> Any:
    """X with rows longer than `row_norm` shrunk to it, with a word to the data's owner; or a refusal."""
    norms = row_norms(X)
    long = too_long(norms, row_norm)
    if not long.any():
        return X
    count, longest = int(long.sum()), float(norms.max())
    if long_rows == "refuse":
        raise ValueError(
            f"row_norm must be at least {longest:.6g}, the longest row's norm, with long_rows='refuse'; got "
            f"{row_norm:.6g}, and {count:,} rows are longer (the first is row {int(np.argmax(long))})"
        )
    whose = " (private rows among them)" if (long & private).any() else ""
    warnings.warn(
        f"{count:,} of {len(norms):,} rows{whose} are longer than row_norm = {row_norm:.6g} and were shrunk to it",
        UserWarning,
        stacklevel=4,
    )
    return shrunk(X, norms, row_norm)


def too_long(norms: Array, row_norm: float) -> NDArray[np.bool_]:
    """Which rows are longer than `row_norm`, by more than rounding."""
    return np.asarray(norms > row_norm * (1.0 + 1e-6))


def shrunk(X: Any, norms: Array, row_norm: float) -> Any:
    """X with rows longer than `row_norm` shrunk to it; X itself where there are none."""
    if not too_long(norms, row_norm).any():
        return X
    factors = np.minimum(1.0, row_norm / np.maximum(norms, row_norm))
    return sparse.csr_array(sparse.diags_array(factors) @ X) if is_sparse(X) else X * factors[:, None]


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
        kinds = np.array([noise.epsilon_per_row is not None for noise in self.noises.values()])
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
        return Grouped(_checked_noises(noise), np.zeros(n, dtype=np.int64))
    raise ValueError(
        f"source must name the source of each row where noise has several, got None ({checks.shown(noise)})"
    )


def _by_name(n: int, noise: Any, source: Any) -> Grouped:
    names = np.asarray(source)
    if names.shape != (n,):
        raise ValueError(f"source must have one name a row, shape ({n},), got shape {names.shape}")
    if isinstance(noise, Noise) or noise is None:
        noise = {str(name): noise or Exact() for name in np.unique(names)}
    known = _checked_noises(noise)
    found, inverse = np.unique(names.astype(str), return_inverse=True)
    if unknown := [name for name in found if name not in known]:
        accepted = ", ".join(map(repr, known))
        raise ValueError(f"source must be one of noise's names, {accepted}; got {str(unknown[0])!r}")
    used = {name: known[name] for name in map(str, found)}
    return Grouped(used, inverse.astype(np.int64))


def _checked_noises(noise: Any) -> dict[str, Noise]:
    if not isinstance(noise, Mapping) or not noise:
        raise ValueError(f"noise must be a noise or a dict of names and noises, got {checks.shown(noise)}")
    if len(set(map(str, noise))) < len(noise):
        raise ValueError(f"noise must have names that differ as text, got {checks.shown(list(noise))}")
    for name, one in noise.items():
        if not isinstance(one, Noise):
            raise ValueError(f"noise of {name!r} must be a noise such as uneven.Exact(), got {checks.shown(one)}")
    return {str(name): one for name, one in noise.items()}


def _levels(name: str, values: Any, n: int) -> Array:
    levels = np.asarray(values, dtype=np.float64)
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
