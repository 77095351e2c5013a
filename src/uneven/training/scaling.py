"""Rows scaled to norm 1, by a public constant or by their root mean square; an intercept is one more feature.

Where a row is private, its own norm must be bounded: rows are divided by a public constant, and longer ones shrunk.
Where none is, every bound needs only the mean square (`Problem.norms`): rows are divided by the root of it, the
largest of the sources', and none is shrunk, so that one long row does not set the pace for all.

An intercept is one more feature with a constant value, in proportion to the rows' norm. In the new coordinates
weights are larger by the factor that rows were divided by, and alpha is smaller by its square: `Scale` has both.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from uneven import checks
from uneven.matrices import is_sparse
from uneven.training.grouping import Grouped

Array = NDArray[np.float64]

LONG_ROWS = ("shrink", "refuse")

INTERCEPT = 0.5
"""Value of the intercept's feature, in row norms: smaller ones weigh on the intercept, larger ones on all else."""

PRIVATE_INTERCEPT = 0.25
"""The same under privacy, where it takes its share of the noise. Of 0.05, 0.1, 0.25, 0.5 and 1 on MNIST and Covertype
it is the one that never does badly: larger ones lose points where alpha is large, and smaller ones more where the rows
are centred, so that the intercept matters."""

LATER = 2.0
"""How much longer rows that come later may be, in root mean square, than those that the scale was taken from."""

SAMPLE, SAMPLE_CELLS = 50_000, 5_000_000
"""Rows that the largest eigenvalue is computed from, evenly spaced, and the most numbers in them."""

DENSE = 256
"""Up to this many features, by the matrix itself; above, by Lanczos iterations."""


SHORTEST, LEAST_ALPHA = 1e-12, 1e-18
"""Rows' norm and the L2 strength of scaled rows are between these and their inverses: floats can work with that."""

BEYOND = "which is beyond what can be computed with"
ADVICE = "scale the columns, for example with StandardScaler"


@dataclass(frozen=True)
class Scale:
    """What brings rows to norm 1: the norm they have, the intercept's feature, and what is known of them then.

    `norms` and `eigenvalue` are the problem's (`Problem`), for the rows as scaled.
    """

    row_norm: float
    constant: float = 0.0
    norms: str = "largest"
    eigenvalue: float = 1.0

    @property
    def intercept(self) -> bool:
        """Whether there is one."""
        return self.constant > 0.0

    @property
    def factor(self) -> float:
        """What rows are divided by: their norm, its constant included; a hair more, for float32."""
        return math.hypot(self.row_norm, self.constant) * (1.0 + 1e-6)

    def alpha(self, alpha: float) -> float:
        """L2 strength for rows as scaled that means `alpha` for the rows as given."""
        scaled = alpha / self.factor**2
        if not LEAST_ALPHA <= scaled <= 1.0 / LEAST_ALPHA:
            what = "a root-mean-square norm" if self.norms == "rms" else "a row_norm"
            raise ValueError(f"X has rows with {what} of {self.row_norm:.4g}, {BEYOND} for alpha = {alpha:g}; {ADVICE}")
        return scaled

    def rows(self, X: Any) -> Any:
        """Rows as scaled, float32, with the constant feature last."""
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
        """Coefficients and intercept for the rows as given, from weights for the rows as scaled."""
        coef = weights / self.factor
        return (coef[:-1], float(coef[-1] * self.constant)) if self.intercept else (coef, 0.0)


def scale_of(X: Any, groups: Grouped, row_norm: Any, intercept: bool, private: bool, batch_size: int) -> Scale:
    """Scale for these rows: by a stated bound; "auto" is 1 under privacy, else taken from the rows."""
    if (stated := stated_scale(row_norm, intercept, private)) is not None:
        return stated
    return measured_scale(max(mean_square_norms(X, groups)), X[:: sample_stride(*X.shape)], intercept, batch_size)


def stated_scale(row_norm: Any, intercept: bool, private: bool) -> Scale | None:
    """Scale by a stated bound on every row, or by 1 under privacy; None where it is to be taken from the rows."""
    auto = isinstance(row_norm, str) and row_norm == "auto"
    if auto and not private:
        return None
    bound = 1.0 if auto else checks.positive("row_norm", row_norm)
    share = PRIVATE_INTERCEPT if private else INTERCEPT
    return Scale(bound, share * bound if intercept else 0.0)


def measured_scale(norm: float, sample: Any, intercept: bool, batch_size: int) -> Scale:
    """Scale for rows of this root-mean-square norm, of which these are some, evenly spaced."""
    norm = norm or 1.0
    if not SHORTEST <= norm <= 1.0 / SHORTEST:
        raise ValueError(f"X has rows with a root-mean-square norm of {norm:.4g}, {BEYOND}; {ADVICE}")
    scale = Scale(norm, INTERCEPT * norm if intercept else 0.0, "rms")
    return replace(scale, eigenvalue=steepness(scale.rows(sample), batch_size))


def sample_stride(rows: int, features: int) -> int:
    """Every how many rows one is taken for the sample.

    >>> sample_stride(1_000_000, 20), sample_stride(1_000_000, 1_000)
    (20, 200)
    """
    return max(1, -(-rows // min(SAMPLE, max(1, SAMPLE_CELLS // max(features, 1)))))


def clip_of(clip: Any, strategy: str, private: bool) -> float | None:
    """Norm that rows' gradients are shrunk to; "auto" is a half for private rows and the precision clock."""
    if isinstance(clip, str):
        return 0.5 if private and strategy == "precision" else None
    return None if clip is None else float(clip)


def row_norms(X: Any) -> Array:
    """Norm of each row."""
    if is_sparse(X):
        return np.asarray(np.sqrt(np.asarray(sparse.csr_array(X).multiply(X).sum(axis=1), dtype=np.float64).ravel()))
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64)))


def mean_square_norms(X: Any, groups: Grouped) -> list[float]:
    """Root-mean-square norm of each source's rows; 0 for one without rows."""
    squares, count = row_norms(X) ** 2, len(groups.names)
    rows = np.bincount(groups.index, minlength=count)
    means = np.bincount(groups.index, squares, minlength=count) / np.maximum(rows, 1)
    return [math.sqrt(mean) for mean in means]


def steepness(unit: Any, batch_size: int) -> float:
    """Largest eigenvalue of E xxᵀ, and E‖x‖⁴/(b·E‖x‖²) for what the sampling of b rows adds: at most 1, and not 0.

    A larger bound than the eigenvalue alone costs no promise, and keeps steps on few rows in hand: it is the expected
    smoothness of Gower et al. (SGD: General Analysis and Improved Rates, 2019) with a mean in place of a maximum.
    """
    squares = row_norms(unit) ** 2
    sampling = (squares**2).mean() / max(batch_size * squares.mean(), 1e-300)
    return float(np.clip(largest_eigenvalue(unit) + sampling, 1e-9, 1.0))


def largest_eigenvalue(unit: Any) -> float:
    """Largest eigenvalue of the rows' mean outer product.

    >>> round(largest_eigenvalue(np.array([[1.0, 0.0], [0.0, 0.5]])), 6)
    0.5
    """
    n, d = unit.shape
    if not row_norms(unit).any():
        return 0.0  # Lanczos iterations have nowhere to go
    if d <= DENSE:
        product = unit.T @ unit
        dense = product.toarray() if is_sparse(product) else product
        largest = np.linalg.eigvalsh(dense.astype(np.float64))[-1] / n
    else:
        outer = LinearOperator((d, d), matvec=lambda v: unit.T @ (unit @ v) / n, dtype=np.float64)
        largest = eigsh(outer, k=1, v0=np.random.default_rng(0).normal(size=d), tol=1e-3)[0][0]
    return float(largest)


def fitting(X: Any, scale: Scale, long_rows: str, groups: Grouped) -> Any:
    """X with rows that are too long for the scale shrunk to it, with a word to the data's owner; or a refusal."""
    if scale.norms == "largest":
        return _bounded(X, scale.row_norm, long_rows, groups.private)
    most, norms = LATER * scale.row_norm, np.array(mean_square_norms(X, groups))
    if norms.max(initial=0.0) <= most:
        return X
    k = int(norms.argmax())
    if long_rows == "refuse":
        raise ValueError(
            f"rows of source {groups.names[k]!r} must have a root-mean-square norm of at most {most:.6g}, twice that "
            f"of earlier ones, with long_rows='refuse'; got {norms[k]:.6g}"
        )
    warnings.warn(
        f"rows were shrunk to {most:.6g}, twice the root-mean-square norm of earlier ones; got {norms[k]:.6g} in "
        f"source {groups.names[k]!r}",
        UserWarning,
        stacklevel=4,
    )
    return _multiplied(X, np.minimum(1.0, most / np.maximum(norms, 1e-300))[groups.index])


def _bounded(X: Any, row_norm: float, long_rows: str, private: NDArray[np.bool_]) -> Any:
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
        stacklevel=5,
    )
    return shrunk(X, norms, row_norm)


def too_long(norms: Array, row_norm: float) -> NDArray[np.bool_]:
    """Which rows are longer than `row_norm`, by more than rounding."""
    return np.asarray(norms > row_norm * (1.0 + 1e-6))


def shrunk(X: Any, norms: Array, row_norm: float) -> Any:
    """X with rows longer than `row_norm` shrunk to it; X itself where there are none."""
    if not (long := too_long(norms, row_norm)).any():
        return X
    return _multiplied(X, np.where(long, row_norm / np.where(long, norms, 1.0), 1.0))


def _multiplied(X: Any, factors: Array) -> Any:
    return sparse.csr_array(sparse.diags_array(factors) @ X) if is_sparse(X) else X * factors[:, None]
