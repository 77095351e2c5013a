"""One reading of all files before anything is charged or learned: a run that would be refused is refused here."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from uneven import checks
from uneven.io import SourcesFile, Table
from uneven.matrices import is_sparse
from uneven.training.scaling import row_norms, sample_stride, too_long

Rows = tuple[Any, NDArray[Any]]
Tick = Callable[[int], None]

MOST_CLASSES = 1000
"""More different labels than this are no classes."""

SAMPLE_ROWS = 10_000
"""Rows kept to follow the objective on."""

KINDS = {"text": (str,), "booleans": (bool, np.bool_), "numbers": (int, float, np.number)}


@dataclass(frozen=True)
class Look:
    """What one reading of the files found.

    Attributes
    ----------
    classes : array
        Labels there are, in order.
    norm : float
        Root-mean-square norm of the rows of a source, the largest there is.
    spread : array or None
        Some rows of all sources, spread evenly, to take the scale from; None if it is known already.
    too_long : dict
        How many rows of each source are longer than the stated bound: for the rows' owner only.
    sparse : bool
    samples : dict of (X, y)
        Some rows, spread evenly, of each source that may be looked at again after learning.
    """

    classes: NDArray[Any]
    norm: float
    spread: Any
    too_long: dict[str, int]
    sparse: bool
    samples: dict[str, Rows]

    def sample(self, names: Collection[str]) -> Rows | None:
        """Some rows of these sources together; None where none of them may be looked at."""
        return _joined([rows for name, rows in self.samples.items() if name in names])


def look_through(
    file: SourcesFile, tables: Mapping[str, Table], bound: float | None, sampled: Collection[str], tick: Tick
) -> Look:
    """Read every row of every source once: values, labels and norms; keep a sample of the sources in `sampled`.

    `bound` is the norm that rows are shrunk to, or None if their scale is to be taken from themselves.
    """
    total = sum(table.rows for name, table in tables.items() if name in sampled)
    labels, samples = _Labels(), {name: _Sample(max(1, math.ceil(total / SAMPLE_ROWS))) for name in sampled}
    spread = _Sample(sample_stride(sum(table.rows for table in tables.values()), file.problem.n_features))
    squares, long_rows, any_sparse = dict.fromkeys(tables, 0.0), dict.fromkeys(tables, 0), False
    for name, table in tables.items():
        for X, y in table.stream(file.label, file.feature_names):
            labels.see(table, y)
            norms = row_norms(X)
            squares[name] += float((norms**2).sum())
            if bound is None:
                spread.see(X, y)
            else:
                long_rows[name] += int(too_long(norms, bound).sum())
            any_sparse = any_sparse or is_sparse(X)
            if name in samples:
                samples[name].see(X, y)
            tick(len(y))
    norm = max(math.sqrt(squares[name] / table.rows) for name, table in tables.items())
    kept, long = spread.rows(), {name: count for name, count in long_rows.items() if count}
    seen = {name: rows for name, sample in samples.items() if (rows := sample.rows()) is not None}
    return Look(labels.classes(), norm, None if kept is None else kept[0], long, any_sparse, seen)


class _Labels:
    """The different labels of all files, which must be of one kind."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()
        self.kind: tuple[str, Table] | None = None

    def see(self, table: Table, y: NDArray[Any]) -> None:
        found = [value.item() if isinstance(value, np.generic) else value for value in set(y.tolist())]
        for kind in {_kind(table, value) for value in found}:
            self.kind = self.kind or (kind, table)
            if kind != self.kind[0]:
                raise ValueError(
                    f"labels must be of one kind, got {self.kind[0]} in {self.kind[1].path} and {kind} in {table.path}"
                )
        self.seen.update(found)
        if len(self.seen) > MOST_CLASSES:
            raise ValueError(
                f"{table.path}: label must be a column of classes, got more than {MOST_CLASSES:,} different values"
            )

    def classes(self) -> NDArray[Any]:
        classes = np.array(sorted(self.seen))
        if len(classes) < 2:
            raise ValueError(f"labels must have at least two classes, got one class: {checks.shown(classes[0].item())}")
        return classes


def _kind(table: Table, value: Any) -> str:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"{table.path}: label must be a column of classes, got the number {value:g}")
    for kind, types in KINDS.items():
        if isinstance(value, types):
            return kind
    raise ValueError(f"{table.path}: labels must be text, numbers or booleans, got {type(value).__name__}")


class _Sample:
    """Every `stride`-th row of those seen."""

    def __init__(self, stride: int) -> None:
        self.stride, self.count = stride, 0
        self.parts: list[Rows] = []

    def see(self, X: Any, y: NDArray[Any]) -> None:
        first = -self.count % self.stride
        self.parts.append((X[first :: self.stride].copy(), y[first :: self.stride].copy()))
        self.count += len(y)

    def rows(self) -> Rows | None:
        return _joined([(X, y) for X, y in self.parts if len(y)])


def _joined(parts: Sequence[Rows]) -> Rows | None:
    """All these rows, one part after the other; None for no part."""
    if not parts:
        return None
    X = [X for X, _ in parts]
    joined = sparse.csr_array(sparse.vstack(X)) if any(map(is_sparse, X)) else np.concatenate(X)
    return joined, np.concatenate([y for _, y in parts])


def look_at_test(file: SourcesFile, table: Table, classes: NDArray[Any]) -> Rows | None:
    """Read rows to test on once, refuse labels that nothing was learned about, and return a sample."""
    labels, sample = _Labels(), _Sample(max(1, math.ceil(table.rows / SAMPLE_ROWS)))
    for X, y in table.stream(file.label, file.feature_names):
        labels.see(table, y)
        sample.see(X, y)
    if unknown := sorted(labels.seen - set(classes.tolist()), key=str):
        raise ValueError(
            f"{table.path}: labels must be of the classes {checks.shown(classes.tolist())}, "
            f"got {checks.shown(unknown[0])}"
        )
    return sample.rows()
