"""How long the rows are: what their scale is taken from, which are too long for it, and how steep the loss can be."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from uneven.anchor import use_one_thread
from uneven.engine import measure_squared_norms
from uneven.matrices import is_sparse, join_rows
from uneven.settings import Settings
from uneven.training.grouping import Grouped
from uneven.training.planning import describe_sources, with_sketch
from uneven.training.refusals import refuse_sketch
from uneven.training.scaling import (
    ADVICE,
    BEYOND,
    INTERCEPT,
    KEPT,
    SHORTEST,
    Scale,
    choose_bound,
    find_too_long,
    read_scale,
    sort_norms,
)
from uneven.training.scan import Scan

Array = NDArray[np.float64]

DENSE = 256
"""Up to this many features, by the matrix itself; above, by Lanczos iterations."""

LATER = 2.0
"""How much longer rows that come later may be, in root mean square, than those that the scale was taken from."""


def measure_rms_norms(scan: Scan, groups: Grouped) -> list[float]:
    """Root-mean-square norm of each source's rows, of those that were read."""
    totals, counts = list(scan.totals.values()), list(scan.counts.values())
    if groups.index is not None and scan.squares is not None:
        # Adds row after row, as the running sums of the scan do: both round the same way.
        totals = np.bincount(groups.index, scan.squares, minlength=len(groups.names)).tolist()
        counts = np.bincount(groups.index, minlength=len(groups.names)).tolist()
    return [math.sqrt(total / max(count, 1)) for total, count in zip(totals, counts, strict=True)]


def choose_scale(scan: Scan, groups: Grouped, settings: Settings, private: bool) -> Scale:
    """Scale for the scanned rows: by a stated bound, or one that those without privacy keep; without privacy, by all.

    `private` is whether any source that may come is, now or in later calls.
    """
    refuse_sketch(settings, private)
    kept = 1.0 if settings.long_rows == "refuse" else KEPT
    usual = choose_bound(_sort_public_norms(scan, groups), kept) if settings.row_norm == "auto" else 1.0
    if (stated := read_scale(settings.row_norm, settings.fit_intercept, private, usual)) is not None:
        sources = describe_sources(groups.noises, groups.counts)
        return with_sketch(stated, settings, sources, scan.n_features, scan.sparse)
    parts = [X for X, _ in scan.sample.values()]  # none before private labels are released
    norm, sample = max(measure_rms_norms(scan, groups)), join_rows(parts) if parts else None
    return measure_scale(norm, sample, settings.fit_intercept, settings.batching(own=False)["batch_size"])


def _sort_public_norms(scan: Scan, groups: Grouped) -> NDArray[np.int64]:
    """How long the rows without privacy are (`sort_norms`)."""
    public = [not noise.private for noise in groups.noises.values()]
    if groups.index is not None and scan.squares is not None:
        return sort_norms(scan.squares[np.array(public)[groups.index]], scan.bounds)
    names = {groups.owners[name] for name, is_public in zip(groups.noises, public, strict=True) if is_public}
    found = [lengths for name, lengths in scan.lengths.items() if name in names]
    return np.asarray(np.sum(found, axis=0, dtype=np.int64))


def measure_scale(norm: float, sample: Any, intercept: bool, batch_size: int) -> Scale:
    """Scale for rows of this root-mean-square norm, of which these are some, evenly spaced; None where there are none.

    Without them nothing is known of how steep the objective is.
    """
    norm = norm or 1.0
    if not SHORTEST <= norm <= 1.0 / SHORTEST:
        raise ValueError(f"X has rows with a root-mean-square norm of {norm:.4g}, {BEYOND}; {ADVICE}")
    scale = Scale(norm, INTERCEPT * norm if intercept else 0.0, "rms")
    return scale if sample is None else replace(scale, eigenvalue=measure_steepness(scale.rows(sample), batch_size))


def measure_row_norms(X: Any) -> Array:
    """Norm of each row."""
    return np.asarray(np.sqrt(measure_squared_norms(X)))


def measure_steepness(unit: Any, batch_size: int) -> float:
    """Largest eigenvalue of E xxᵀ, and E‖x‖⁴/(b·E‖x‖²) for what the sampling of b rows adds: at most 1, and not 0.

    A larger bound than the eigenvalue alone costs no promise, and keeps steps on few rows in hand: it is the expected
    smoothness of Gower et al. (SGD: General Analysis and Improved Rates, 2019) with a mean in place of a maximum.
    """
    squares = measure_row_norms(unit) ** 2
    sampling = (squares**2).mean() / max(batch_size * squares.mean(), 1e-300)
    return float(np.clip(find_largest_eigenvalue(unit) + sampling, 1e-9, 1.0))


def find_largest_eigenvalue(unit: Any) -> float:
    """Largest eigenvalue of the rows' mean outer product.

    >>> round(find_largest_eigenvalue(np.array([[1.0, 0.0], [0.0, 0.5]])), 6)
    0.5
    """
    n, d = unit.shape
    if not measure_row_norms(unit).any():
        return 0.0  # Lanczos iterations have nowhere to go
    if d <= DENSE:
        with use_one_thread():
            product = unit.T @ unit
            dense = product.toarray() if is_sparse(product) else product
            largest = np.linalg.eigvalsh(dense.astype(np.float64))[-1] / n
    else:
        outer = LinearOperator((d, d), matvec=lambda v: unit.T @ (unit @ v) / n, dtype=np.float64)
        largest = eigsh(outer, k=1, v0=np.random.default_rng(0).normal(size=d), tol=1e-3)[0][0]
    return float(largest)


def count_long(scan: Scan, groups: Grouped, bound: float) -> dict[str, int]:
    """How many rows are longer than the bound, for each source that has such rows: for the rows' owner only."""
    if groups.index is None:
        counts = list(scan.count_long(bound).values())
    else:
        assert scan.squares is not None  # kept where rows name their sources
        counts = np.bincount(groups.index[find_too_long(scan.squares, bound)], minlength=len(groups.names)).tolist()
    return {name: int(count) for name, count in zip(groups.names, counts, strict=True) if count}
