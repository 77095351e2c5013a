"""Wide rows under privacy: a public random projection to fewer columns, before anything is released.

Private noise grows with the number of columns, and most of them say little alone. A sketch x → Rx with a random R of k
rows keeps scores up to an error of variance ‖w‖²‖x‖²/k (Johnson and Lindenstrauss 1984; signs: Achlioptas 2003; few of
them: Li, Hastie and Church 2006). R comes from a fixed public seed and looks at no row, so it costs no privacy. Weights
v of the sketch are weights Rᵀv of the rows as given: that is what the model has. Beside rows without privacy, their
principal components stand for R (`components`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from uneven.matrices import is_sparse
from uneven.planner import Source
from uneven.problem import Problem

SEED = 2015
"""Seed of all projections: public, and the same for every source and every site."""

NARROWEST = 16
"""Sketches that are tried have this many columns, or twice, four times, ... as many."""

LOST = 5.0
"""Expected excess objective that a sketch of k columns costs, times k: ½·ℓ''‖w‖²/k with ℓ'' = 0.1 and ‖w‖ = 10."""

DENSE = 25_000_000
"""Projections with at most so many entries have a sign in each; larger ones have a few per column, to save memory."""


@lru_cache(maxsize=4)
def projection(n_features: int, width: int) -> Any:
    """Rᵀ, of shape (n_features, width), with E‖Rx‖² = ‖x‖².

    >>> R = projection(1000, 50)
    >>> R.shape, bool(0.5 < np.linalg.norm(R[7]) < 1.5)
    ((1000, 50), True)
    """
    from sklearn.random_projection import SparseRandomProjection

    density = 1.0 if n_features * width <= DENSE else "auto"
    made = SparseRandomProjection(width, density=density, random_state=SEED).fit(sparse.csr_array((1, n_features)))
    columns = made.components_.T.astype(np.float32)
    return np.ascontiguousarray(columns) if isinstance(columns, np.ndarray) else sparse.csr_array(columns)


def project(X: Any, matrix: Any) -> Any:
    """Rows as sketched, dense."""
    sketched = X @ matrix
    return sketched.toarray() if is_sparse(sketched) else np.asarray(sketched)


def list_widths(n_features: int) -> list[int]:
    """Widths that are tried: powers of two below the number of columns.

    >>> list_widths(100)
    [16, 32, 64]
    """
    return [NARROWEST << i for i in range(30) if NARROWEST << i < n_features]


def expect_excess(sources: Iterable[Source], problem: Problem, n_features: int) -> float:
    """Expected excess objective of the problem's columns: from noise, and from sketching `n_features` to them.

    Noise: ½·N/(ℓ''/d + λ), N = 1/Σ(nᵢ/Mᵢ) the energy of the noise in the mean gradient when each source is weighted by
    its precision, Mᵢ that of one released row; rows in the unit ball have a mean curvature of at most ℓ''/d.
    """
    d = problem.n_features
    precision = sum(source.rows / _row_energy(source, problem) for source in sources)
    noise = 0.5 / precision / (problem.loss_function.curvature / d + problem.alpha)
    return noise + LOST * max(0.0, 1.0 / problem.columns - 1.0 / n_features)


def expect_width(width: int, sources: Iterable[Source], problem: Problem, n_features: int) -> float:
    """Expected excess objective of a sketch so wide, or of all columns for 0; the problem is that of rows as given."""
    extra = problem.columns - n_features  # the intercept's feature
    columns = (width or n_features) + extra
    return expect_excess(sources, replace(problem, n_features=columns * problem.outputs), n_features)


def _row_energy(source: Source, problem: Problem) -> float:
    """Energy of one released row, and its share of what is added once per batch: of about a hundredth of the rows."""
    size = max(problem.batch_size, source.rows // 100) if problem.own_batches else problem.batch_size
    return source.noise.planned_energy(problem) + source.noise.batch_energy(problem) / size


def choose_width(
    asked: int | str | None, sources: Iterable[Source], problem: Problem, n_features: int, sparse: bool
) -> int:
    """Columns of the sketch, or 0 for none; the problem is that of rows as given.

    ``"auto"`` takes the width of least expected excess. Sparse rows must be sketched, since noise fills every column.
    """
    described = [source for source in sources if source.rows]
    if asked is None or not any(source.noise.protects_features for source in described):
        return 0
    if not isinstance(asked, str):
        if asked > n_features:
            raise ValueError(f"sketch must be at most {n_features}, the number of columns, got {asked}")
        return int(asked)
    widths = list_widths(n_features)
    if not sparse:
        widths.append(0)
    return min(widths, key=lambda k: (expect_width(k, described, problem, n_features), k), default=n_features)
