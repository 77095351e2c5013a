"""Checked rows: what the loops take, and the checks that refuse everything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from uneven import checks
from uneven.engine import kernels
from uneven.engine import sparse as sparse_loops
from uneven.matrices import is_sparse
from uneven.problem import Problem
from uneven.redaction import owner_only

ROW_LIMIT = (1.0 + 1e-6) ** 2
"""Squared norm from which a row is refused: outside the unit ball by more than float32 rounding."""

FINITE = float(np.finfo(np.float64).max)
"""The same where only the mean square is bounded: a row need only be finite."""

NO_GROUP = np.zeros(0, dtype=np.int64)
"""The group of rows that are all of one source."""


class Chunk(NamedTuple):
    """Checked rows: features, labels (-1 or 1, or numbers of classes), the source of each, and their squared norms.

    `group` is empty if all rows are of one source. `checked_chunk` makes one.
    """

    X: Any
    y: NDArray[np.float64]
    group: NDArray[np.int64]
    squares: NDArray[np.float64]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """As the compiled loops take it: a sparse X as its three arrays."""
        if is_sparse(self.X):
            return (self.X.data, self.X.indices, self.X.indptr), *self[1:]
        return tuple(self)


@dataclass(frozen=True)
class Arrays:
    """Rows in memory or in a memory map, checked; of `Selected` rows, X as it was given."""

    X: Any
    y: Any
    numbers: NDArray[np.int64] | None = None
    prepare: Callable[[Any, NDArray[np.int64]], Any] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def places(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where these rows are in X."""
        return numbers if self.numbers is None else self.numbers[numbers]

    @property
    def blockwise(self) -> bool:
        """Whether rows lie in a file, where a full permutation would read a page for each."""
        return isinstance(self.X, np.memmap)


def find_limit(problem: Problem) -> float:
    """Squared norm from which a row of this problem is refused."""
    return ROW_LIMIT if problem.norms == "largest" else FINITE


def checked_chunk(
    names: Sequence[str], X: Any, y: Any, numbers: Any, group: Any = None, limit: float = ROW_LIMIT, classes: int = 2
) -> Chunk:
    """Check rows, wherever they come from, and make a chunk of them; a row that is refused is named by its number.

    Parameters
    ----------
    names : sequence of str
        The task's sources.
    X : array or CSR matrix of shape (n, d)
    y : array of shape (n,), labels -1 and 1, or 0 to K - 1 for K > 2 classes
    numbers : array of shape (n,)
        The rows' numbers, for messages.
    group : array of shape (n,), only if there are several sources
        Which of them each row is of.
    limit : float
        Squared norm from which a row is refused (`find_limit`).
    classes : int

    Returns
    -------
    Chunk

    Examples
    --------
    >>> checked_chunk(["a"], np.eye(2), np.array([1.0, -1.0]), numbers=[0, 1]).squares.tolist()
    [1.0, 1.0]
    """
    if isinstance(names, str) or np.ndim(X) != 2 or np.ndim(y) != 1:
        raise ValueError(f"names must be a list and X, y of two and one dimensions, got {checks.shown(names)}")
    rows = check_arrays(names[0], X, y, X.shape[1], classes=classes)
    of = NO_GROUP if group is None else np.asarray(group)
    if len(names) == 1 and len(of):
        raise ValueError("group must be left out for one source, got one")
    if len(names) > 1 and (of.shape != rows.y.shape or of.dtype.kind not in "iu" or not _below(of, len(names))):
        raise ValueError(f"group must say which of the {len(names)} sources each row is of, got {checks.shown(of)}")
    return make_chunk(names, (rows.X, rows.y, np.asarray(numbers), of.astype(np.int64)), limit)


def _below(group: NDArray[Any], count: int) -> bool:
    return len(group) == 0 or bool(group.min() >= 0 and group.max() < count)


def make_chunk(names: Sequence[str], part: Sequence[Any], limit: float) -> Chunk:
    """Chunk of rows that `check_arrays` has checked; a row that is not finite or is too long is refused."""
    X, y, numbers, group = part if len(part) == 4 else (*part, NO_GROUP)
    squares = sparse_loops.square_norms(X.data, X.indptr) if is_sparse(X) else kernels.square_norms(X)
    unfit = np.flatnonzero(~(squares <= limit))  # not "> limit": a NaN must not pass
    if len(unfit):
        i = int(unfit[0])
        name = names[int(group[i])] if len(group) else names[0]
        _refuse_row(name, float(squares[i]), int(numbers[i]))
    return Chunk(X, y, group, squares)


def _refuse_row(name: str, square: float, number: int) -> None:
    where = owner_only(f" in row {number}")
    if not np.isfinite(square):
        raise ValueError(f"X of source {name!r} must be finite, got NaN or infinity{where}")
    got = owner_only(f"norm {square**0.5:.6g}{where}", "a longer one")
    raise ValueError(f"rows of source {name!r} must lie in the unit ball, got {got}")


def check_arrays(
    name: str, X: Any, y: Any, n_features: int, first: int = 0, by_block: bool = False, classes: int = 2
) -> Arrays:
    """X as float rows, dense or CSR, and y as floats; refused where shapes or labels do not fit.

    With `by_block` a memory map stays as it is: it may not fit memory, and its blocks come here one by one.
    """
    if isinstance(X, np.memmap) and not by_block:
        X = np.asarray(X)
    if is_sparse(X):
        X = repair_csr(X, name)
    elif not isinstance(X, np.ndarray) or isinstance(X, np.ma.MaskedArray) or X.dtype.kind not in "fiub":
        X = convert_numbers(f"X of source {name!r}", X)
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(f"X of source {name!r} must have shape (n, {n_features}), got {X.shape}")
    if np.shape(y) != (X.shape[0],):
        raise ValueError(f"y of source {name!r} must have shape ({X.shape[0]},) like X, got {np.shape(y)}")
    if by_block and isinstance(X, np.memmap):
        return Arrays(X, y if isinstance(y, np.ndarray) else np.asarray(y))
    labels = convert_numbers(f"labels of source {name!r}", y)
    refuse_labels(name, labels, first, classes)
    return Arrays(X if X.dtype in (np.float32, np.float64) else X.astype(np.float64), labels)


def convert_numbers(what: str, values: Any) -> NDArray[np.float64]:
    """Real numbers as floats; anything else is refused."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub" or isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{what} must be plain real numbers, got {type(values).__name__} of {array.dtype}")
    return array.astype(np.float64, copy=False)


def repair_csr(X: Any, name: str) -> Any:
    """X as CSR with valid pointers and column numbers and no entry twice; a copy where that takes a change."""
    csr = sparse.csr_array(X)
    if csr.ndim != 2:
        raise ValueError(f"X of source {name!r} must have two dimensions, got {csr.ndim}")
    if csr.indptr[0] != 0 or csr.indptr[-1] > len(csr.indices) or (np.diff(csr.indptr) < 0).any():
        raise ValueError(f"X of source {name!r} must be valid CSR, got row pointers that are not sorted")
    if csr.dtype.kind not in "fiub":
        raise ValueError(f"X of source {name!r} must be plain real numbers, got {csr.dtype}")
    if len(csr.indices) and not 0 <= csr.indices.min() <= csr.indices.max() < csr.shape[1]:
        raise ValueError(f"X of source {name!r} must have column numbers below {csr.shape[1]}, got others")
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr if csr.dtype in (np.float32, np.float64) else csr.astype(np.float64)


def refuse_labels(name: str, y: NDArray[np.float64], first: int = 0, classes: int = 2) -> None:
    """Refuse labels other than -1 and 1; for K > 2 classes, other than 0 to K - 1."""
    known = np.abs(y) == 1.0 if classes == 2 else (y >= 0) & (y < classes) & (y == np.floor(y))
    if len(wrong := np.flatnonzero(~known)):
        i, accepted = int(wrong[0]), "-1 or 1" if classes == 2 else f"whole numbers from 0 to {classes - 1}"
        raise ValueError(
            f"labels of source {name!r} must be {accepted}, got {owner_only(f'{y[i]:g} in row {first + i}', 'another')}"
        )
