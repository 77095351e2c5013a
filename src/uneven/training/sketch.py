"""Wide rows under privacy: a public random projection to fewer columns, before anything is released.

Private noise grows with the number of columns, steps become short, and most columns say little alone. A sketch x → Rx
with a random R of k rows keeps scores up to an error of variance ‖w‖²‖x‖²/k (Johnson and Lindenstrauss 1984; signs:
Achlioptas 2003; few of them: Li, Hastie and Church 2006). R comes from a fixed public seed and looks at no row, so it
costs no privacy. Weights v of the sketch are weights Rᵀv of the rows as given: that is what the model has. Beside rows
without privacy, their principal components stand for R (`components`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq

from uneven.losses import get_loss
from uneven.matrices import is_sparse
from uneven.planner import CURVATURES, Source, make_plan, predict_run
from uneven.problem import Problem

Array = NDArray[np.float64]

SEED = 2015
"""Seed of all projections: public, and the same for every source and every site."""

NARROWEST = 16
"""Sketches that are tried have this many columns, or twice, four times, ... as many."""

WIDE = 100
"""Columns from which on "auto" may take a sketch. The prediction is for columns of which a few matter most, as words or
pixels do; of fewer columns most matter, and a sketch that was predicted to be as good lost up to 24 points of accuracy.
"""

WIDEST = 2048
"""Most columns that "auto" gives sparse rows: with more, what is held of them would no longer be small."""

ALIKE, RELATIVELY = 0.02, 1.25
"""Expected excesses that differ by at most so much and by at most this factor count as the same: the narrower sketch is
taken, which needs less time and memory. Where noise is drawn once per batch none do: it grows faster with the width, so
sketches are narrow, and half as wide they lose more than typical rows have it."""

DENSE = 25_000_000
"""Projections with at most so many entries have a sign in each; larger ones have a few per column, to save memory."""


@lru_cache(maxsize=4)
def draw_projection(n_features: int, width: int) -> Any:
    """Rᵀ, of shape (n_features, width), with E‖Rx‖² = ‖x‖².

    >>> R = draw_projection(1000, 50)
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


def expect_excess(sources: Sequence[Source], problem: Problem, n_features: int) -> float:
    """Expected excess objective of the problem's columns, a sketch of `n_features`, as a share of predicting nothing's.

    It is that of typical rows, since nothing is taken from rows. The loss curves by c/(jΣᵢ1/i) in direction j, as the
    frequencies of words have it (Zipf); weights without a penalty would be alike in all directions; and w = 0 is half
    as bad as it can be. Of the weights in direction j a run learns the part A_j, with noise (`predict_run`); a
    sketch loses a share of their scores (`find_lost`); and the answer has the best length that is not above 1.
    """
    if problem.outputs == 1 and not get_loss(problem.loss).probabilistic:
        problem = replace(problem, loss="logistic")  # nothing can be predicted of a loss with a kink
    loss, alpha = problem.loss_function, problem.alpha
    counts, shares = expect_spectrum(n_features)
    own = shares * loss.curvature * CURVATURES[1]
    gains = counts * own**2 / (own + alpha)  # ½hw*² in each direction, in some unit
    gains *= (loss.value_at_zero - loss.infimum) / 2.0 / gains.sum()
    segments = make_plan(sources, problem, "precision").segments
    runs = [predict_run(problem, segments, float(h)) for h in own + alpha]
    learned, noise = 1.0 - np.sqrt([one.left for one in runs]), np.array([one.noise for one in runs])
    found, blur = gains.dot(learned), find_lost(own, counts, problem.columns) * own / (own + alpha)
    energy = gains.dot(learned**2 * (1.0 + blur)) + (counts * own).dot(noise) / problem.columns / 2.0
    scale = min(1.0, found / energy)
    return float(1.0 - (2.0 * scale * found - scale**2 * energy) / gains.sum())


@lru_cache(maxsize=4)
def expect_spectrum(n_features: int) -> tuple[Array, Array]:
    """Numbers of directions that are taken as one, and the share of each of them in the trace, 1/(jΣᵢ1/i)."""
    edges = np.unique(np.geomspace(1, n_features + 1, 40).round())
    counts, places = np.diff(edges), (edges[:-1] + edges[1:] - 1.0) / 2.0
    return counts, 1.0 / places / (counts / places).sum()


def find_lost(curvatures: Array, counts: Array, width: int) -> Array:
    """Share of a score in each direction that random columns, `width` of them, do not hold on average.

    It is κ/(h+κ), where κ is such that the shares that they do hold, Σh/(h+κ), add up to their number (Dereziński,
    Liang, Liao and Mahoney 2020); 0 where there are as many columns as directions.

    >>> find_lost(np.array([1.0]), np.array([40.0]), 10).round(6)
    array([0.75])
    """
    if width >= counts.sum():
        return np.zeros_like(curvatures)
    top = math.log(curvatures.max())
    held = lambda log: float(counts.dot(curvatures / (curvatures + math.exp(log)))) - width  # noqa: E731
    kappa = math.exp(brentq(held, top - 60.0, top + math.log(counts.sum())))
    return np.asarray(kappa / (curvatures + kappa))


def expect_width(width: int, sources: Sequence[Source], problem: Problem, n_features: int) -> float:
    """`expect_excess` of a sketch so wide, or of all columns for 0; the problem is that of rows as given."""
    extra = problem.columns - n_features  # the intercept's feature
    columns = (width or n_features) + extra
    return expect_excess(sources, replace(problem, n_features=columns * problem.outputs), n_features)


def choose_width(
    asked: int | str | None, sources: Iterable[Source], problem: Problem, n_features: int, sparse: bool
) -> int:
    """Columns of the sketch, or 0 for none; the problem is that of rows as given.

    ``"auto"`` takes the narrowest that is expected to do as well as the best, or the best itself where noise is drawn
    once per batch, and none of fewer columns than `WIDE`. Sparse rows must be sketched, since noise fills every column.
    """
    described = [source for source in sources if source.rows]
    if asked is None or not any(source.noise.protects_features for source in described):
        return 0
    if not isinstance(asked, str):
        if asked > n_features:
            raise ValueError(f"sketch must be at most {n_features}, the number of columns, got {asked}")
        return int(asked)
    if n_features < WIDE:
        return n_features if sparse else 0
    widths = (
        [width for width in list_widths(n_features) if width <= WIDEST] if sparse else [*list_widths(n_features), 0]
    )
    expected = np.array([expect_width(width, described, problem, n_features) for width in widths])
    if any(source.noise.once_a_batch for source in described):
        return widths[int(expected.argmin())]
    return widths[int(np.argmax(expected <= min(expected.min() + ALIKE, expected.min() * RELATIVELY)))]
