"""Rows scaled to norm 1, by a public constant or by their root mean square; an intercept is one more feature.

Where a row is private, its own norm must be bounded: rows are divided by a public constant, and longer ones shrunk.
Where it is not stated, it is 1, or a round number that nearly all rows without privacy keep (`choose_bound`).
Where none is, every bound needs only the mean square (`Problem.norms`): rows are divided by the root of it, the
largest of the sources', and none is shrunk, so that one long row does not set the pace for all.

An intercept is one more feature with a constant value, in proportion to the rows' norm. In the new coordinates
weights are larger by the factor that rows were divided by, and alpha is smaller by its square: `Scale` has both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from uneven import checks
from uneven.matrices import is_sparse
from uneven.problem import DEFAULT_ALPHA
from uneven.softmax import centre_weights
from uneven.training.sketch import draw_projection, project

Array = NDArray[np.float64]

INTERCEPT = 0.5
"""Value of the intercept's feature, in row norms: smaller ones weigh on the intercept, larger ones on all else."""

PRIVATE_INTERCEPT = 0.25
"""The same under privacy, where it takes its share of the noise. Of 0.05, 0.1, 0.25, 0.5 and 1 on MNIST and Covertype
it is the one that never does badly: larger ones lose points where alpha is large, and smaller ones more where the rows
are centred, so that the intercept matters."""


ROUNDING = 1e-6
"""What a row may be longer than a bound by: a part of it."""

SHORTEST, LEAST_ALPHA = 1e-12, 1e-18
"""Rows' norm and the L2 strength of scaled rows are between these and their inverses: floats can work with that."""

BOUNDS = tuple(float(f"{10 ** (k / 20):.2g}") for k in range(241))
"""Bounds on rows' norms to choose from: 1, 1.1, 1.3, 1.4, 1.6, … to 1e12, twenty for each power of ten."""

KEPT = 0.99
"""Share of the rows without privacy that a chosen bound leaves as they are."""

ALPHAS = (1e-12, 1e12)
"""What `Settings` takes for alpha."""

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
    columns: int = 0
    """Columns of rows as given, where they are sketched."""
    sketch: int = 0
    """Columns of the sketch; 0 for none."""
    basis: bytes = field(default=b"", repr=False)
    """Its matrix as float32 where it is by principal components, shape (columns, sketch); empty for a random one."""

    @property
    def projection(self) -> Any:
        """Matrix that rows are multiplied by, where they are sketched."""
        if not self.basis:
            return draw_projection(self.columns, self.sketch)
        return np.frombuffer(self.basis, dtype=np.float32).reshape(self.columns, self.sketch)

    @property
    def intercept(self) -> bool:
        """Whether there is one."""
        return self.constant > 0.0

    @property
    def factor(self) -> float:
        """What rows are divided by: their norm, its constant included; a hair more, for float32."""
        return math.hypot(self.row_norm, self.constant) * (1.0 + 1e-6)

    @property
    def unit_constant(self) -> float:
        """Value of the intercept's feature in rows as scaled; 0 for none."""
        return self.constant / self.factor

    def usual_alpha(self, alpha: Any) -> float:
        """L2 strength for rows as given: alpha if it is a number, else the default.

        The default is that of rows of norm 1 in the units of these, so that units decide nothing. Where no norm is
        stated and none is private, it is the number itself.
        """
        if not isinstance(alpha, str):
            return float(alpha)
        return DEFAULT_ALPHA * (self.row_norm**2 if self.norms == "largest" else 1.0)

    def refuse_norm(self) -> None:
        """Refuse a stated norm in whose units the default alpha is beyond what settings take."""
        least, most = ((end / DEFAULT_ALPHA) ** 0.5 for end in ALPHAS)
        if self.norms == "largest" and not least <= self.row_norm <= most:
            between = f"between {least:.1g} and {most:.1g}"
            raise ValueError(f"row_norm must be {between} where alpha is chosen, got {self.row_norm:g}; {ADVICE}")

    def alpha(self, alpha: float) -> float:
        """L2 strength for rows as scaled that means `alpha` for the rows as given."""
        scaled = alpha / self.factor**2
        if not LEAST_ALPHA <= scaled <= 1.0 / LEAST_ALPHA:
            what = "a root-mean-square norm" if self.norms == "rms" else "a row_norm"
            raise ValueError(f"X has rows with {what} of {self.row_norm:.4g}, {BEYOND} for alpha = {alpha:g}; {ADVICE}")
        return scaled

    def rows(self, X: Any) -> Any:
        """Rows as scaled, float32, with the constant feature last; those of a sketch are shrunk to the bound again."""
        if self.sketch:
            X = shorten_rows(project(X, self.projection), self.row_norm)
        if is_sparse(X):
            parts: list[Any] = [sparse.csr_array(X) / self.factor]
            if self.intercept:
                parts.append(sparse.csr_array(np.full((X.shape[0], 1), self.unit_constant)))
            return sparse.csr_array(sparse.hstack(parts)).astype(np.float32)
        unit = np.empty((X.shape[0], X.shape[1] + self.intercept), dtype=np.float32)
        np.divide(X, self.factor, out=unit[:, : X.shape[1]], casting="unsafe")
        if self.intercept:
            unit[:, -1] = self.unit_constant
        return unit

    @property
    def bound(self) -> float | None:
        """Norm that longer rows are shrunk to, to learn from and to predict; None if there is no bound."""
        return self.row_norm if self.norms == "largest" else None

    def read_back(self, problems: Iterable[Array], outputs: int) -> tuple[Array, Array]:
        """Coefficients and intercepts of all problems' weights, each of so many outputs, for the rows as given.

        Those of several outputs sum to 0 over them.
        """
        centred = [weights if outputs == 1 else centre_weights(weights, outputs) for weights in problems]
        found = [self.coefficients(part) for weights in centred for part in weights.reshape(outputs, -1)]
        return np.array([coef for coef, _ in found]), np.array([intercept for _, intercept in found])

    def coefficients(self, weights: Array) -> tuple[Array, float]:
        """Coefficients and intercept for the rows as given, from weights for the rows as scaled."""
        scaled = weights / self.factor
        coef, intercept = (scaled[:-1], float(scaled[-1] * self.constant)) if self.intercept else (scaled, 0.0)
        return (self.projection @ coef if self.sketch else coef), intercept


def list_bounds(row_norm: Any) -> tuple[float, ...]:
    """Bounds that rows are compared with: the one that is stated, or those to choose from."""
    return BOUNDS if isinstance(row_norm, str) else (float(row_norm),)


def sort_norms(squares: Array, bounds: tuple[float, ...]) -> NDArray[np.int64]:
    """How many rows keep each of these bounds and none before it; at the end, how many keep none.

    >>> sort_norms(np.array([0.5, 1.5, 100.0]), (1.0, 2.0)).tolist()
    [1, 1, 1]
    """
    limits = (np.array(bounds) * (1.0 + ROUNDING)) ** 2
    return np.bincount(np.searchsorted(limits, squares), minlength=len(bounds) + 1)


def choose_bound(sorted_norms: NDArray[np.int64], kept: float) -> float:
    """Least of `BOUNDS` that this share of rows keeps, from how `sort_norms` sorted them; 1 where there are no rows.

    >>> choose_bound(sort_norms(np.array([0.3, 2.0, 4.0, 9.0]), BOUNDS), kept=0.75)
    2.0
    """
    within = np.cumsum(sorted_norms)
    return BOUNDS[min(int(np.searchsorted(within, kept * within[-1])), len(BOUNDS) - 1)]


def read_scale(row_norm: Any, intercept: bool, private: bool, usual: float = 1.0) -> Scale | None:
    """Scale by a stated bound on every row, or by the usual one under privacy; None to take rows as they are."""
    auto = isinstance(row_norm, str) and row_norm == "auto"
    if auto and not private:
        return None
    bound = usual if auto else checks.positive("row_norm", row_norm)
    share = PRIVATE_INTERCEPT if private else INTERCEPT
    return Scale(bound, share * bound if intercept else 0.0)


def shorten_rows(X: Any, bound: float | None) -> Any:
    """X with rows longer than `bound` shrunk to it; X itself where there are none or no bound.

    >>> shorten_rows(np.array([[3.0, 4.0], [0.5, 0.0]]), 1.0).tolist()
    [[0.6000000000000001, 0.8], [0.5, 0.0]]
    """
    if bound is None:
        return X
    # Without compiled code: a prediction need not wait for it to load.
    found = X.multiply(X).sum(axis=1) if is_sparse(X) else np.einsum("ij,ij->i", X, X, dtype=np.float64)
    squares = np.asarray(found).ravel()
    long = find_too_long(squares, bound)
    if not long.any():
        return X
    return multiply_rows(X, np.where(long, bound / np.sqrt(np.where(long, squares, 1.0)), 1.0))


def find_too_long(squares: Array, bound: float) -> NDArray[np.bool_]:
    """Which rows are longer than the bound by more than rounding, from their squared norms."""
    return np.asarray(squares > (bound * (1.0 + ROUNDING)) ** 2)


def multiply_rows(X: Any, factors: Array) -> Any:
    """Each row times its own factor."""
    return sparse.csr_array(sparse.diags_array(factors) @ X) if is_sparse(X) else X * factors[:, None]
