"""Which source each row is of: by name, by a noise level of its own, or all of one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.noise import Exact, FlippedLabels, LocalPrivacy, Noise
from uneven.redaction import owner_only

Array = NDArray[np.float64]

LEVELS = 256
"""More different ε than this, one per row, are rounded to this many."""

FLIP_LEVELS = 32
"""The same for flip rates: each moves by 0.008 at most, and the time of a fit grows with their number."""

NOWHERE = -1
"""Number of the source of rows that are not used."""

ONE = "data"
"""Name of the only source, where none is given."""


@dataclass(frozen=True)
class Grouped:
    """Which source each row is of, and each source's noise.

    Attributes
    ----------
    noises : dict of str to Noise
        Of the sources that have rows, in the order of their numbers.
    counts : array of shape (sources,)
        Rows of each.
    index : array of shape (rows,) or None
        Number of each row's source, `NOWHERE` for rows that are not used; None if the rows of each source follow one
        another, in order.
    charged_to : tuple of str
        Under which name the ledger knows each source's rows: rows that had their own noise keep their place.
    """

    noises: Mapping[str, Noise]
    counts: NDArray[np.int64]
    index: NDArray[np.int64] | None
    charged_to: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sources, in the order of their numbers."""
        return tuple(self.noises)

    @property
    def row_counts(self) -> dict[str, int]:
        """Number of rows of each source."""
        return dict(zip(self.names, self.counts.tolist(), strict=True))

    @property
    def owners(self) -> dict[str, str]:
        """Under which name the ledger knows the rows of each source."""
        return dict(zip(self.names, self.charged_to, strict=True))

    @property
    def by_row(self) -> bool:
        """Whether some rows told their noise themselves."""
        return self.charged_to != self.names

    @property
    def any_private(self) -> bool:
        """Whether a source is private."""
        return any(noise.private for noise in self.noises.values())

    @property
    def rows(self) -> int:
        """Number of all rows."""
        return int(self.counts.sum())

    def rows_of(self, k: int) -> NDArray[np.int64]:
        """Numbers of source k's rows."""
        if self.index is not None:
            return np.flatnonzero(self.index == k)
        start = int(self.counts[:k].sum())
        return np.arange(start, start + int(self.counts[k]))

    def with_noises(self, noises: Mapping[str, Noise]) -> Grouped:
        """The same rows with other noises of the same names."""
        return replace(self, noises={name: noises[name] for name in self.names})

    def without(self, names: Collection[str], in_memory: bool) -> Grouped:
        """The same without these sources; `in_memory` says that all rows are held, theirs among them."""
        keep = [k for k, name in enumerate(self.names) if name not in names]
        index = self.index
        if index is None and in_memory:
            index = np.repeat(np.arange(len(self.names)), self.counts)
        if index is not None:
            places = np.full(len(self.names), NOWHERE)
            places[keep] = np.arange(len(keep))
            index = places[index]
        noises = {name: noise for name, noise in self.noises.items() if name not in names}
        return Grouped(noises, self.counts[keep], index, tuple(self.charged_to[k] for k in keep))


def group_rows(
    n: int, noise: Any, source: Any = None, epsilon: Any = None, flip_rate: Any = None, mechanism: str = "quiet"
) -> Grouped:
    """Rows by source: from names, from noise levels of their own, or all of one.

    Parameters
    ----------
    n : int
        Number of rows.
    noise : Noise, dict of str to Noise, or None
        Of all rows, or of each source by name. Sources are numbered by their place in it, and those that it does not
        name after them, by name: ties between sources are broken by these numbers, whatever the order of the rows.
    source : array of shape (n,) or None
        Name of each row's source.
    epsilon, flip_rate : array of shape (n,) or None
        Each row's own noise, at most one of the two. With `source`, NaN leaves a row the noise of its source.
    mechanism : str
        Private mechanism for rows with their own ε.
    """
    if epsilon is not None and flip_rate is not None:
        raise ValueError("epsilon must be given alone, got epsilon and flip_rate")
    if epsilon is None and flip_rate is None:
        return _one_source(n, noise) if source is None else _by_name(n, noise, source)
    what, values = ("epsilon", epsilon) if flip_rate is None else ("flip_rate", flip_rate)
    if noise is not None and source is None:
        raise ValueError(f"noise must be None where rows have their own {what}, got {checks.shown(noise)}")
    levels = _checked_levels(what, values, n, gaps=source is not None)
    if what == "epsilon":
        return _by_level(n, _round_down(levels), lambda e: LocalPrivacy(e, mechanism), what, noise, source)
    return _by_level(n, _round_to_grid(levels), FlippedLabels, what, noise, source)


def group_pieces(counts: Mapping[Any, int], noise: Any) -> Grouped:
    """Rows that come source after source, known by name alone."""
    known = check_noises(noise)
    return _grouped({name: known[name] for name in counts}, None, np.array(list(counts.values()), dtype=np.int64))


def _grouped(noises: Mapping[str, Noise], index: Any, counts: Any = None, charged_to: Any = None) -> Grouped:
    if counts is None:
        counts = np.bincount(index, minlength=len(noises))
    return Grouped(noises, counts, index, tuple(noises) if charged_to is None else tuple(charged_to))


def _one_source(n: int, noise: Any) -> Grouped:
    if noise is None or isinstance(noise, Noise):
        return _grouped({ONE: noise or Exact()}, None, np.array([n]))
    if isinstance(noise, Mapping) and len(noise) == 1:
        return _grouped(check_noises(noise), None, np.array([n]))
    raise ValueError(
        f"source must name the source of each row where noise has several, got None ({checks.shown(noise)})"
    )


def _by_name(n: int, noise: Any, source: Any) -> Grouped:
    found, inverse = _number_names(_checked_names(n, source), noise)
    if isinstance(noise, Noise) or noise is None:
        noise = {name: noise or Exact() for name in found}
    return _grouped(_noises_of(found, noise), inverse)


def _number_names(names: NDArray[Any], noise: Any) -> tuple[list[str], NDArray[np.int64]]:
    """Names there are, by their place in `noise` and then in order, and the number of each row's.

    >>> found, numbers = _number_names(np.array(["c", "c", "a", "b"]), {"c": Exact(), "unused": Exact()})
    >>> found, numbers.tolist()
    (['c', 'a', 'b'], [0, 0, 1, 2])
    """
    starts = np.concatenate([[0], np.flatnonzero(names[1:] != names[:-1]) + 1])  # a run of one name is looked up once
    found, numbers = np.unique(names[starts], return_inverse=True)
    place = {str(name): k for k, name in enumerate(noise)} if isinstance(noise, Mapping) else {}
    order = np.argsort([place.get(name, len(place)) for name in found.tolist()], kind="stable")
    return found[order].tolist(), np.repeat(np.argsort(order)[numbers], np.diff(starts, append=len(names)))


def _noises_of(names: Any, noise: Any) -> dict[str, Noise]:
    """Noise of each of these sources, or a refusal of a name that has none."""
    known, used = check_noises(noise), {}
    for name in names:
        if name not in known:
            accepted = ", ".join(map(repr, known))
            raise ValueError(
                f"source must be one of noise's names, {accepted}; got {owner_only(repr(name), 'another')}"
            )
        used[name] = known[name]
    return used


def _checked_names(n: int, source: Any) -> NDArray[Any]:
    """Name of each row's source, as text; refused where they are not all text or all whole numbers."""
    given = source if isinstance(source, np.ndarray) else np.asarray(source, dtype=object)
    if given.shape != (n,):
        raise ValueError(f"source must have one name per row, shape ({n},), got shape {given.shape}")
    if given.dtype.kind == "O":
        kinds = [str if isinstance(one, str) else int if isinstance(one, Integral) else None for one in given]
        wrong = [i for i, kind in enumerate(kinds) if kind is None or kind is not kinds[0]]
        if wrong:
            got = owner_only(f"{checks.shown(given[wrong[0]])} in row {wrong[0]}", "another")
            raise ValueError(f"source must hold names that are all text or all whole numbers, got {got}")
    elif given.dtype.kind not in "USTiub":
        raise ValueError(f"source must hold names that are all text or all whole numbers, got {given.dtype}")
    return given.astype(str, copy=False)


def check_noises(noise: Any) -> dict[str, Noise]:
    """Noises by name, or a refusal."""
    if not isinstance(noise, Mapping) or not noise:
        raise ValueError(f"noise must be a noise or a dict of names and noises, got {checks.shown(noise)}")
    if len(set(map(str, noise))) < len(noise):
        raise ValueError(f"noise must have names that differ as text, got {checks.shown(list(noise))}")
    for name, one in noise.items():
        if not isinstance(one, Noise):
            raise ValueError(f"noise of {name!r} must be a noise such as uneven.Exact(), got {checks.shown(one)}")
    return {str(name): one for name, one in noise.items()}


def _checked_levels(name: str, values: Any, n: int, gaps: bool) -> Array:
    try:
        levels = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be a number in every row, got {owner_only(checks.shown(values), 'others')}"
        ) from None
    if levels.shape != (n,):
        raise ValueError(f"{name} must have one value per row, shape ({n},), got shape {levels.shape}")
    right = (levels > 0) & np.isfinite(levels) if name == "epsilon" else (levels >= 0) & (levels < 0.5)
    wrong = ~(right | (gaps & np.isnan(levels)))
    if wrong.any():
        i = int(np.argmax(wrong))
        accepted = "positive and finite" if name == "epsilon" else "in [0, 0.5)"
        none = ", or NaN in one that has the noise of its source" if gaps else ""
        raise ValueError(f"{name} must be {accepted} in every row{none}{owner_only(f', got {levels[i]:g} in row {i}')}")
    return levels


def _round_down(epsilon: Array) -> Array:
    """At most `LEVELS` values, none larger than it was: a row may get more privacy than it asked for, never less."""
    given = np.unique(epsilon[~np.isnan(epsilon)])
    if len(given) <= LEVELS:
        return epsilon
    grid = np.geomspace(given[0], given[-1], LEVELS)
    rounded = grid[np.searchsorted(grid, epsilon * (1 + 1e-12), side="right") - 1]
    return np.where(np.isnan(epsilon), np.nan, np.minimum(rounded, epsilon))


def _round_to_grid(rate: Array) -> Array:
    """At most `FLIP_LEVELS` values, each within half a step of what it was."""
    given = np.unique(rate[~np.isnan(rate)])
    if len(given) <= FLIP_LEVELS:
        return rate
    step = (given[-1] - given[0]) / (FLIP_LEVELS - 1)
    return np.asarray(given[0] + step * np.rint((rate - given[0]) / step))


def _name_level(source: str, what: str, level: float) -> str:
    """Rows of one level, for a reader.

    >>> _name_level("clinic", "epsilon", 0.5), _name_level("", "flip_rate", 0.1)
    ('clinic (ε = 0.5)', 'flip rate = 0.1')
    """
    said = f"{'ε' if what == 'epsilon' else what.replace('_', ' ')} = {level:.6g}"
    return f"{source} ({said})" if source else said


def _by_level(n: int, levels: Array, make: Callable[[float], Noise], what: str, noise: Any, source: Any) -> Grouped:
    """One source per level, or per name and level; rows without a level are of the source they name."""
    sources = np.zeros(n, dtype=np.int64)
    names = [""]
    if source is not None:
        names, sources = _number_names(_checked_names(n, source), noise)
    own = np.where(np.isnan(levels), -1.0, levels)  # a NaN differs from itself: no level is negative
    pairs, index = np.unique(np.column_stack([sources, own]), axis=0, return_inverse=True)
    bare = [names[int(k)] for k, level in pairs if level < 0]
    declared = _noises_of(bare, noise) if bare else {}
    noises: dict[str, Noise] = {}
    charged_to, taken = [], set(names)
    for i, (k, level) in enumerate(pairs):
        name = names[int(k)]
        if level < 0:
            noises[name] = declared[name]
        else:
            label = _name_level(name, what, float(level))
            label = f"{label} #{i}" if label in taken or label in noises else label
            noises[label] = make(float(level))
        charged_to.append(name or ONE)
    return _grouped(noises, index.ravel().astype(np.int64), None, charged_to)
