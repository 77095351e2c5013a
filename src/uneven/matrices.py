"""What files and the engine both know of matrices; it needs no compiler, so that planning need not wait for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

BLOCK_ROWS = 1 << 16
"""Rows read, and shuffled, together."""


def is_sparse(X: Any) -> bool:
    """Whether X is one of SciPy's sparse matrices or arrays."""
    return bool(sparse.issparse(X))


def refuse_sparse_steps(joint: bool, filling: Mapping[str, Any]) -> None:
    """Refuse steps on sparse rows that would fill them: of several classes in one problem, or with these noises."""
    if joint:
        raise ValueError("multi_class must be 'one-vs-rest' for sparse rows that are learned step by step")
    for name, noise in filling.items():
        raise ValueError(f"rows of source {name!r} must be dense: {noise!r} fills every coordinate")


def join_rows(parts: Sequence[Any]) -> Any:
    """Matrices or arrays one below the other; one alone is not copied."""
    if len(parts) == 1:
        return parts[0]
    return sparse.csr_array(sparse.vstack(parts)) if any(map(is_sparse, parts)) else np.concatenate(parts)


def make_feature_matrix(batch: Any, names: Sequence[str]) -> NDArray[Any]:
    """Columns of a record batch side by side as float rows; a missing value becomes a NaN, for others to refuse."""
    if not names:
        return np.empty((batch.num_rows, 0))
    try:
        return np.asarray(batch.select(names).to_tensor(null_to_nan=True, row_major=True).to_numpy())
    except (TypeError, NotImplementedError):  # a column that is not a plain number, such as a boolean one
        columns = [_column(batch.column(name), name) for name in names]
        return np.column_stack(columns)


def _column(column: Any, name: str) -> NDArray[np.float64]:
    values = np.asarray(column.to_numpy(zero_copy_only=False))
    with_gaps = values.dtype == object and str(column.type) == "bool"  # None becomes NaN
    if values.dtype.kind not in "fiub" and not with_gaps:
        raise ValueError(f"column {name!r} must hold numbers, got {values.dtype}")
    return values.astype(np.float64)
