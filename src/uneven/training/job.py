"""One fit between its stations: the rows as read, and what was decided about them so far."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.engine import Selected, Stream, scale_rows
from uneven.matrices import BLOCK_ROWS, is_sparse, join_rows
from uneven.noise import Noise
from uneven.problem import Problem
from uneven.settings import Settings
from uneven.training.grouping import Grouped
from uneven.training.labels import as_numbers
from uneven.training.planning import scale_problem
from uneven.training.rows import Rows
from uneven.training.scaling import Scale, find_too_long, shorten_rows
from uneven.training.scan import HELD_BYTES, XY, Scan

Array = NDArray[np.float64]
Tick = Callable[[int], None]
Data = dict[str, Any]

BLOCK_CELLS = 1 << 22
"""Numbers in a block of rows, as scaled, that are shuffled together."""

GATHERED_BYTES = HELD_BYTES
"""Values of rows that are gathered in one reading, where the rows of several sources are mixed in the files."""

STEP, LENGTH, CLASS = 0, 1, 2
"""What a row is used for: a step, or where it is kept, the length of the weights or the shares of the classes."""


@dataclass(frozen=True)
class Job:
    """One fit between its stations: the rows as read, and what was decided about them so far."""

    rows: Rows
    settings: Settings
    scan: Scan
    groups: Grouped
    scale: Scale
    alpha: float | None = None
    """L2 strength chosen for rows as given; None means as stated."""
    clip: float | None = None
    """Norm that gradients are shrunk to; None means as the settings have it."""
    chosen: float | None = None
    """What cross-validation chose for the rows without privacy alone, in the same units; None where it did not."""
    likelihood: bool = False
    """Whether flipped labels have the likelihood of what was observed, instead of the convex surrogate."""
    length: float = 1.0
    """Largest multiple of the answer from flipped labels that cross-validation allows."""
    used: tuple[str, ...] | None = None
    """Sources whose rows alpha is for; None means all."""
    class_weights: tuple[float, ...] = ()
    """What rows of each class count; all alike where it is empty."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Part of its usual weight that a row of each source counts by, where labels are flipped; all where not listed."""
    tick: Tick = lambda _: None
    units: dict[str, tuple[Any, NDArray[Any]]] = field(default_factory=dict, repr=False, compare=False)
    """Rows in memory as scaled, by source: held from one station to the next."""
    gathered: dict[str, list[XY]] = field(default_factory=dict, repr=False, compare=False)
    """Rows as read of sources that are mixed in the files, of as many as fit (`GATHERED_BYTES`): held for later."""
    kept: int = 0
    """One row in so many of each source takes no step (`Plan.kept`); 0 for none."""
    tellers: int = 0
    """One kept row in so many tells its class (`shares`), the others the length of the weights; 0 for none."""
    harmful: Mapping[str, Noise] = field(default_factory=dict)
    """Sources of flipped labels that are left out, since rows held out are better predicted without them."""
    sketched: str = ""
    """What is said of a projection onto principal components, where one was looked at."""

    @cached_property
    def problem(self) -> Problem:
        """Problem of the rows as scaled."""
        chosen = {key: value for key in ("alpha", "clip") if (value := getattr(self, key)) is not None}
        settings = replace(self.settings, **chosen)
        noises = self.groups.noises.values()
        private, classes = self.groups.any_private, len(self.scan.classes)
        columns, weights = self.scan.n_features, self.class_weights
        return scale_problem(settings, self.scale, columns, private, noises, classes, weights)

    @property
    def longest(self) -> float | None:
        """`length`, where flipped labels have a likelihood; else None."""
        return self.length if self.likelihood else None

    def unit_rows(self, X: Any) -> Any:
        """Rows as the engine takes them: long ones shrunk, if the scan has found any, scaled, with the intercept."""
        if is_sparse(X):
            return self.scale.rows(shorten_rows(X, self._bound))
        return self._unit_rows_at(X, np.arange(len(X)))

    def _unit_rows_at(self, X: Any, places: NDArray[np.int64]) -> Any:
        """The same for some rows of a dense X, in one reading of them."""
        if self.scale.sketch:
            return self.scale.rows(shorten_rows(X[places], self._bound))
        bound = np.inf if self._bound is None else self._bound
        return scale_rows(X, places, self.scale.factor, self.scale.constant, bound)

    @property
    def _bound(self) -> float | None:
        """Norm that longer rows are shrunk to; None where the scan has found none."""
        bound = self.scale.bound
        return bound if bound is not None and find_too_long(np.array(self.scan.longest), bound) else None

    def _held_unit(self, name: str) -> tuple[Any, NDArray[Any]]:
        """Scaled rows and labels of one source, where all are in memory; kept while rows, sources and scale are."""
        assert self.scan.held is not None
        if name not in self.units:
            X, y = self.scan.held
            mine = _as_slice(self._numbers(name))
            self.units[name] = self.unit_rows(X[mine]), y[mine]
        return self.units[name]

    def _numbers(self, name: str, part: int = STEP) -> NDArray[np.int64]:
        """Numbers of a source's rows of one part (`_divide`): by default those that take a step."""
        numbers = self.groups.rows_of(self.groups.names.index(name))
        return numbers[_divide(0, len(numbers), self.kept, self.tellers) == part] if self.kept else numbers

    def kept_rows(self, target: Any, names: Collection[str], describe: Callable[[Any], Any], part: int) -> Data:
        """Of each source's kept rows that tell the length of the weights, or their class (`LENGTH`, `CLASS`):

        what `describe` makes of them as scaled, and labels as numbers for the target.
        """
        if self.scan.held is None:
            return {
                name: self._stream(_SourceStream(self, name, target, tuple(names), part, describe)) for name in names
            }
        (X, y), numbers = self.scan.held, {name: self._numbers(name, part) for name in names}
        return {
            name: (describe(self.unit_rows(X[mine])), as_numbers(y[mine], target)) for name, mine in numbers.items()
        }

    def _held_data(self, name: str, target: Any, ready: bool) -> Any:
        """Rows in memory of one source: scaled and kept, or scaled chunk by chunk as they are used."""
        if ready:
            unit, labels = self._held_unit(name)
            return unit, as_numbers(labels, target)
        assert self.scan.held is not None
        X, y = self.scan.held
        mine = _as_slice(self._numbers(name))
        signs = as_numbers(y[mine], target)
        if isinstance(mine, slice):
            return Selected(X[mine], signs, self._unit_rows_at)
        return Selected(X, signs, self._unit_rows_at, mine)

    def data(self, target: Any, names: Collection[str], in_memory: bool) -> Data:
        """Rows of these sources for the engine, with labels as numbers for the target."""
        if self.scan.held is not None:
            ready = in_memory or not self._is_plain(self.scan.held[0])
            return {name: self._held_data(name, target, ready or name in self.units) for name in names}
        streams = {name: _SourceStream(self, name, target, tuple(names)) for name in names}
        if in_memory:
            return {name: tuple(join_rows(part) for part in zip(*s, strict=True)) for name, s in streams.items()}
        return {name: self._stream(stream) for name, stream in streams.items()}

    def _stream(self, pieces: _SourceStream) -> Stream:
        """Stream of these rows; blocks of very wide ones have fewer rows, so that memory stays bounded."""
        most = max(self.problem.batch_size, BLOCK_CELLS // self.problem.columns)
        return Stream(pieces, min(BLOCK_ROWS, most), fresh=True)

    def _is_plain(self, X: Any) -> bool:
        """Whether single rows are quick to make ready: dense or sketched, and not in a file."""
        return not isinstance(X, np.memmap) and (bool(self.scale.sketch) or not is_sparse(X))

    def readings(self, target: Any, names: Collection[str]) -> dict[str, Callable[[], Iterable[tuple[Any, Array]]]]:
        """For each of these sources, a function that reads its rows again, scaled, with labels as numbers."""
        if self.scan.held is not None:
            held = {name: [pair] for name, pair in self.data(target, names, in_memory=True).items()}
            return {name: lambda pairs=pairs: pairs for name, pairs in held.items()}  # type: ignore[misc]
        order = tuple(names)
        return {name: lambda name=name: _SourceStream(self, name, target, order) for name in order}  # type: ignore[misc]

    def read_mixed(self, name: str, order: Sequence[str]) -> Iterable[XY]:
        """Rows and labels of a source that is mixed with others in the files, known by their place among all rows.

        Sources that follow it in `order`, and then others, are gathered in the same reading: as many as fit together.
        """
        if name in self.gathered:
            return list(self.gathered[name])
        coming = list(dict.fromkeys([*order[order.index(name) :], *self.groups.names]))
        counts = self.groups.row_counts
        sizes = np.cumsum([8 * self.scan.n_features * counts[one] for one in coming])
        together = coming[: int(np.searchsorted(sizes, GATHERED_BYTES, side="right"))]
        if not together:
            return ((X, y) for _, X, y in self._pick([name]))
        self.gathered.clear()
        found: dict[str, list[XY]] = {one: [] for one in together}
        for one, X, y in self._pick(together):
            found[one].append((X, y))
        self.gathered.update(found)
        return list(found[name])

    def _pick(self, names: Sequence[str]) -> Iterator[tuple[str, Any, NDArray[Any]]]:
        """Rows of these sources in one reading of all rows, piece by piece, each with the name of its source."""
        assert self.groups.index is not None
        places, first = [(name, self.groups.names.index(name)) for name in names], 0
        for piece in self.rows.pieces(checked=False):
            index = self.groups.index[first : first + len(piece.y)]
            first += len(piece.y)
            for name, place in places:
                if len(mine := np.flatnonzero(index == place)):
                    yield name, piece.X[mine], piece.y[mine]

    def sample(self, names: Collection[str]) -> XY | None:
        """Some rows of these sources; all of them where they are in memory and rows name their own sources."""
        if self.groups.index is not None and self.scan.held is not None:
            X, y = self.scan.held
            if set(self.groups.names) <= set(names) and not self.harmful:
                return X, y
            mine = np.isin(self.groups.index, [k for k, name in enumerate(self.groups.names) if name in names])
            return (X[mine], y[mine]) if mine.any() else None
        only = len(self.groups.names) == 1 and not self.harmful
        parts = [part for name, part in self.scan.sample.items() if name in names or (only and names)]
        return (join_rows([X for X, _ in parts]), join_rows([y for _, y in parts])) if parts else None


def _as_slice(numbers: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Row numbers in a form that copies nothing, where they are without gaps and in order."""
    count = len(numbers)
    together = count > 0 and numbers[-1] - numbers[0] == count - 1  # they are in order and distinct
    return slice(int(numbers[0]), int(numbers[0]) + count) if together else numbers


def _divide(first: int, count: int, kept: int, tellers: int) -> NDArray[np.int64]:
    """What rows of a source do, by their place in it: a step, but one in `kept` tells the length of the weights.

    Of those, one in `tellers` tells its class instead; 0 for none.

    >>> _divide(3, 4, 5, 0).tolist(), _divide(8, 4, 5, 2).tolist()
    ([0, 1, 0, 0], [0, 2, 0, 0])
    """
    places, parts = np.arange(first + 1, first + count + 1), np.full(count, STEP)
    if kept:
        parts[places % kept == 0] = LENGTH
    if kept and tellers:
        parts[places % (kept * tellers) == 0] = CLASS
    return parts


@dataclass(frozen=True)
class _SourceStream:
    """Rows of one source read again from where they came, scaled, with labels as numbers: those of one part."""

    job: Job
    name: str
    target: Any
    order: Sequence[str]
    part: int = STEP
    describe: Callable[[Any], Any] = lambda X: X

    def __iter__(self) -> Iterator[tuple[Any, Array]]:
        job, first = self.job, 0
        for X, y in self._read():
            if job.kept:
                wanted = _divide(first, len(y), job.kept, job.tellers) == self.part
                first += len(y)
                X, y = X[wanted], y[wanted]
            if len(y):
                yield self.describe(job.unit_rows(X)), as_numbers(y, self.target)

    def _read(self) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Rows and labels of this source, as they come."""
        job = self.job
        if job.groups.index is not None:
            for X, y in job.read_mixed(self.name, self.order):
                job.tick(len(y))
                yield X, y
            return
        for piece in job.rows.pieces(checked=False, only=self.name):
            job.tick(len(piece.y))
            if piece.source in (self.name, None):
                yield piece.X, piece.y
