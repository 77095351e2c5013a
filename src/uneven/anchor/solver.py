"""Learn from rows without privacy to convergence.

    f(w) = (α/2)·Σ_j p_j w_j² + Σ_i c_i ℓ̃_i(y_i·wᵀx_i) / Σ_i c_i

c_i is the precision of the row's source relative to an exact one: C² over the energy of a row's gradient. Under flips
of rate σ it is (1-2σ)², and the surrogate ℓ̃(m) = ((1-σ)ℓ(m) - σℓ(-m))/(1-2σ) is convex for the logistic loss:
ℓ(m) - ℓ(-m) = -m, so ℓ̃(m) = ℓ(m) - m·σ/(1-2σ).

Newton's method up to `DENSE_COLUMNS` columns, L-BFGS above. Newton starts at the optimum of a small sample of the rows,
with that sample's Hessian as the model of the whole, and computes another only where the model stops helping: most
readings of the rows are for a gradient alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import minimize
from threadpoolctl import ThreadpoolController

from uneven import checks
from uneven.anchor.rows import EXACT, PublicRows, join_sources
from uneven.losses import Loss
from uneven.matrices import is_sparse
from uneven.noise import Noise
from uneven.problem import Problem

Array = NDArray[np.float64]
Curvature = Literal["none", "diagonal", "full"]

TOLERANCE = 1e-6
"""Promised distance of f from its minimum, relative to it."""

AIM = 1e-2 * TOLERANCE
"""Estimated distance at which to stop: the estimate comes from a model of the Hessian."""

DENSE_COLUMNS = 2000
"""Columns up to which a Hessian is kept and factorised."""

SAMPLE_ROWS = 20_000
SMALL_ROWS, JOINED_ROWS = 5_000, 50_000
"""Sources of at most the first number of rows are read as one, where they have no more than the second together."""

MOST_READINGS = 300
BLOCK_BYTES = 1 << 21
HINGE_WIDTHS = (4.0, 1.0, 0.1, 0.01, 0.001)
"""Widths of the parabola in place of the hinge's kink, one after the other; f is off by at most half the last."""


@dataclass(frozen=True)
class Solution:
    """Where `solve` stopped.

    Attributes
    ----------
    weights : array of shape (d,)
    objective : float
        f there.
    gradient_norm : float
    excess : float
        Estimate of f minus its minimum.
    readings : int
        How often all rows were read.
    converged : bool
    caveat : str or None
        One line to show where it has not converged.
    hessian : array or None
        If asked for: shape (d, d), or its diagonal, shape (d,), above `DENSE_COLUMNS`.
    """

    weights: Array
    objective: float
    gradient_norm: float
    excess: float
    readings: int
    converged: bool
    caveat: str | None
    hessian: Array | None


def solve(
    problem: Problem,
    rows: Sequence[PublicRows],
    penalty: ArrayLike | None = None,
    start: ArrayLike | None = None,
    hessian: bool = False,
) -> Solution:
    """Minimise the weighted objective of all sources without privacy.

    Parameters
    ----------
    problem : Problem
        Its `n_features`, `alpha` and `loss`; nothing is clipped, because nothing is released.
    rows : sequence of PublicRows
        One for each source.
    penalty : array of shape (d,) or None
        Factors p of alpha, one a weight; 0 leaves a weight free, as scikit-learn leaves its intercept. None for ones.
        Under flips every factor is at least 1: a free weight may have no best value there.
    start : array of shape (d,) or None
        Weights to start at, such as the answer for a similar alpha.
    hessian : bool
        Whether to return the Hessian at the answer: one more reading.

    Returns
    -------
    Solution
        Within 1e-6 of the least objective, relative to it; otherwise `converged` is false and `caveat` says so.

    Examples
    --------
    >>> rows = PublicRows.from_arrays([[1.0], [1.0], [1.0]], [1, 1, -1])
    >>> solve(Problem(n_features=1, alpha=1e-9, batch_size=1), [rows]).weights.round(4).tolist()  # log 2
    [0.6931]
    """
    f = _Objective.of(problem, rows, penalty)
    w = np.zeros(problem.n_features) if start is None else np.array(start, dtype=np.float64)
    if w.shape != (problem.n_features,):
        raise ValueError(f"start must have {problem.n_features} weights, got shape {w.shape}")
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):  # a step that goes too far is taken back
        found = _newton_from_sample(f, w, start is None) if len(w) <= DENSE_COLUMNS else _quasi_newton(f, w)
        curvature = f.at(found.point.weights, _kind(len(w))).hessian if hessian else None
    converged = found.excess <= TOLERANCE * found.point.scale
    return Solution(
        found.point.weights,
        found.point.value,
        float(np.linalg.norm(found.point.gradient)),
        found.excess,
        found.readings + hessian,
        converged,
        None if converged else _caveat(problem, found),
        curvature,
    )


def source_weight(noise: Noise, problem: Problem) -> float:
    """c, what a row of this noise counts beside an exact one: C² over the energy of its gradient.

    >>> from uneven.noise import FlippedLabels
    >>> round(source_weight(FlippedLabels(0.3), Problem(25, 1e-3, 50)), 4)  # (1-2σ)²
    0.16
    """
    return EXACT.row_energy(problem) / noise.row_energy(problem)


@cache
def _threads() -> Any:
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Keep linear algebra on one thread: on a busy machine OpenBLAS's threads wait for each other, 50 times as long."""
    limit: AbstractContextManager[Any] = _threads().limit(limits=1, user_api="blas")
    return limit


def _kind(columns: int) -> Curvature:
    return "full" if columns <= DENSE_COLUMNS else "diagonal"


@dataclass(frozen=True)
class _Point:
    """f and its derivatives at some weights."""

    weights: Array
    value: float
    gradient: Array
    hessian: Array | None
    scale: float
    """What relative errors of f are relative to: |f|, or next to nothing of f(0) where that is less."""


@dataclass(frozen=True)
class _Found:
    point: _Point
    excess: float
    readings: int
    model: Callable[[Array], Array] | None = None


@dataclass(frozen=True)
class _Objective:
    """f, read from the rows each time it is asked for."""

    loss: Loss
    ridge: Array
    """α·p."""
    sources: tuple[tuple[PublicRows, float], ...]
    """Each with the weight c of its rows."""
    parts: tuple[_Part, ...] = ()
    """The same rows, small sources joined: a call for each of 200 workers would take longer than the sums."""
    width: float = 0.0
    """Of the parabola in place of the hinge's kink."""

    @classmethod
    def of(cls, problem: Problem, rows: Sequence[PublicRows], penalty: ArrayLike | None) -> _Objective:
        if not rows:
            raise ValueError("rows must have at least one source, got none")
        d, loss = problem.n_features, problem.loss_function
        factors = np.ones(d) if penalty is None else np.asarray(penalty, dtype=np.float64)
        if factors.shape != (d,) or not (np.isfinite(factors) & (factors >= 0)).all():
            raise ValueError(f"penalty must have {d} finite factors of at least 0, got {checks.shown(penalty)}")
        flips = any(source.flip_rate > 0 for source in rows)
        if flips and loss.name == "hinge":
            raise ValueError("loss must be 'logistic' with flipped labels, whose hinge is not convex; got 'hinge'")
        if flips or loss.name == "linear":
            factors = np.maximum(factors, 1.0)
        weighted = tuple((source, source_weight(source.noise, problem)) for source in rows)
        return cls(loss, problem.alpha * factors, weighted, _join(weighted, loss))

    @property
    def count(self) -> int:
        return sum(source.count for source, _ in self.sources)

    def sample(self, share: float) -> _Objective | None:
        """f of a sample of the rows, held in memory."""
        drawn = [(source.sample(share), weight) for source, weight in self.sources]
        kept = tuple((source, weight) for source, weight in drawn if source is not None)
        return replace(self, sources=kept, parts=_join(kept, self.loss)) if kept else None

    def at(self, w: Array, curvature: Curvature = "none") -> _Point:
        """Read all rows once."""
        d = len(w)
        value, total, gradient = 0.0, 0.0, np.zeros(d)
        hessian = None if curvature == "none" else np.zeros((d, d) if curvature == "full" else d)
        for part in self.parts:
            first = 0
            for X, y in _blocks(part.rows, d):
                rows = slice(first, first := first + len(y))
                weight, tilt = part.weight[rows], part.tilt[rows]
                margins = y * (X @ w)
                losses, slopes, bends = self.loss.terms(margins, self.width)
                total += float(weight.sum())
                if part.joined:
                    value += float(weight @ (self.loss.value(margins) - tilt * margins))
                else:
                    value += float(weight[0] * (losses - tilt[0] * margins.sum()))
                gradient += X.T @ (weight * y * (slopes - tilt))
                if hessian is not None:
                    _add_curvature(hessian, X, weight * bends)
        pull = self.ridge * w
        if hessian is not None:
            hessian /= total
            hessian[np.diag_indices(d) if curvature == "full" else slice(None)] += self.ridge
        value = value / total + float(pull @ w) / 2.0
        scale = max(abs(value), TOLERANCE * max(self.loss.value_at_zero, TOLERANCE))
        return _Point(w, value, gradient / total + pull, hessian, scale)


@dataclass(frozen=True)
class _Part:
    """Rows of one source or of several, each with its weight c and the tilt σ/(1-2σ) of its surrogate."""

    rows: PublicRows
    weight: Array
    tilt: Array
    joined: bool = False


def _join(sources: Sequence[tuple[PublicRows, float]], loss: Loss) -> tuple[_Part, ...]:
    """Parts to read: small sources as one, in memory, if they are many and small together."""
    small = [one for one in sources if one[0].count <= SMALL_ROWS]
    if loss.name == "hinge" or len(small) < 2 or sum(source.count for source, _ in small) > JOINED_ROWS:
        return tuple(_part([one], loss) for one in sources)
    return (*(_part([one], loss) for one in sources if one[0].count > SMALL_ROWS), _part(small, loss))


def _part(sources: Sequence[tuple[PublicRows, float]], loss: Loss) -> _Part:
    counts = [source.count for source, _ in sources]
    factor = 2.0 if loss.name == "linear" else 1.0
    tilts = [factor * source.flip_rate / (1.0 - 2.0 * source.flip_rate) for source, _ in sources]
    if len(sources) == 1:  # as many rows as there may be: no array of their number
        (rows, weight), count = sources[0], (counts[0],)
        return _Part(rows, np.broadcast_to(weight, count), np.broadcast_to(tilts[0], count))
    rows = join_sources([source for source, _ in sources])
    if rows.count != sum(counts):
        _refuse_count(rows.count, sum(counts))
    return _Part(rows, np.repeat([weight for _, weight in sources], counts), np.repeat(tilts, counts), True)


def _blocks(source: PublicRows, d: int) -> Iterator[tuple[Any, Array]]:
    """Rows in blocks of float64 that fit the cache; a dense block is overwritten by the next."""
    step, seen = max(64, BLOCK_BYTES // (8 * d)), 0
    buffer: Array | None = None
    for X, y in source.pieces():
        labels = np.asarray(y, dtype=np.float64)
        if X.ndim != 2 or X.shape != (len(labels), d):
            raise ValueError(f"X must have shape ({len(labels)}, {d}), a row for each label, got {X.shape}")
        if not (np.abs(labels) == 1.0).all():
            raise ValueError("y must hold the labels -1 and 1 only, got others")
        seen += len(labels)
        if seen > source.count:
            _refuse_count(seen, source.count)
        if is_sparse(X):
            yield X, labels
            continue
        buffer = np.empty((step, d)) if buffer is None else buffer
        for start in range(0, len(labels), step):
            part = X[start : start + step]
            buffer[: len(part)] = part
            yield buffer[: len(part)], labels[start : start + step]
    if seen != source.count:
        _refuse_count(seen, source.count)


def _refuse_count(seen: int, count: int) -> NoReturn:
    raise ValueError(f"count must be the number of rows in pieces, {seen}, got {count}")


def _add_curvature(hessian: Array, X: Any, bends: Array) -> None:
    """Add Xᵀ·diag(bends)·X, or its diagonal; a dense X is overwritten."""
    if hessian.ndim == 1:
        hessian += X.multiply(X).T @ bends if is_sparse(X) else bends @ X**2
    elif is_sparse(X):
        scaled = X.multiply(np.sqrt(bends)[:, None]).tocsr()
        hessian += (scaled.T @ scaled).toarray()
    else:
        X *= np.sqrt(bends)[:, None]
        hessian += X.T @ X


def _newton_from_sample(f: _Objective, w: Array, cold: bool) -> _Found:
    """Newton's method, first on a sample if the rows are many."""
    *before, last = HINGE_WIDTHS if f.loss.name == "hinge" else (0.0,)
    wanted, readings, model = max(SAMPLE_ROWS, 10 * len(w)), 0, None
    if cold and f.count > 3 * wanted and (sample := f.sample(wanted / f.count)) is not None:
        first = _newton_from_sample(sample, w, False)
        w, model, readings, before = first.point.weights, first.model, 1, []
    for width in before:
        part = _newton(replace(f, width=width), w, None)
        w, readings = part.point.weights, readings + part.readings
    found = _newton(replace(f, width=last), w, model)
    return replace(found, readings=readings + found.readings)


def _newton(f: _Objective, w: Array, model: Callable[[Array], Array] | None) -> _Found:
    """Newton's method with step halving and a Hessian that is kept while each step cuts the excess tenfold."""
    point, readings, exact, length, renew = f.at(w, "none" if model else "full"), 1, not model, 1.0, False
    if not (math.isfinite(point.value) and np.isfinite(point.gradient).all()):
        raise ValueError("X must be finite and of moderate size, got NaN, infinity or an overflow")
    if point.hessian is not None:
        model = _inverse(point.hessian)
    assert model is not None
    while True:
        step = model(point.gradient)
        excess = float(point.gradient @ step) / 2.0
        if excess <= AIM * point.scale or readings >= MOST_READINGS or length < 1e-12:
            return _Found(point, excess, readings, model)
        trial = f.at(point.weights - length * step, "full" if renew else "none")
        readings += 1
        if not trial.value <= point.value - 1e-4 * length * 2.0 * excess:  # also if it is NaN
            if exact:
                length /= 4.0
            else:  # the model misleads: compute the Hessian here
                point, exact, renew, readings = f.at(point.weights, "full"), True, True, readings + 1
                model = _inverse(point.hessian)
            continue
        renew = float(trial.gradient @ model(trial.gradient)) / 2.0 > 0.1 * excess
        point, length, exact = trial, 1.0, trial.hessian is not None
        if trial.hessian is not None:
            model = _inverse(trial.hessian)


def _inverse(hessian: Array | None) -> Callable[[Array], Array]:
    """Function that solves with the Hessian, columns first brought to one scale; a singular one is lifted a little."""
    assert hessian is not None
    scale = np.sqrt(np.maximum(np.diag(hessian), 1e-300))
    scaled = hessian / scale / scale[:, None]
    for lift in (0.0, 1e-13, 1e-11, 1e-9, 1e-6):
        try:
            factor = cho_factor(scaled + lift * np.eye(len(scaled)))
            return lambda g: np.asarray(cho_solve(factor, g / scale) / scale)
        except LinAlgError:
            continue
    return lambda g: np.asarray(g / scale / scale / len(scale))


def _quasi_newton(f: _Objective, w: Array) -> _Found:
    """L-BFGS with columns brought to one scale, begun anew until that no longer helps."""
    point, readings, excess = f.at(w, "diagonal"), 1, math.inf
    if not (math.isfinite(point.value) and np.isfinite(point.gradient).all()):
        raise ValueError("X must be finite and of moderate size, got NaN, infinity or an overflow")
    assert point.hessian is not None
    scale = np.sqrt(np.maximum(point.hessian, 1e-300))

    def value(u: Any) -> tuple[float, Any]:
        at = f.at(u / scale)
        return at.value, at.gradient / scale

    while excess > AIM * point.scale and readings < MOST_READINGS:
        options: Any = {"maxfun": MOST_READINGS - readings, "ftol": 1e-3 * AIM * point.scale, "gtol": 0.0, "maxcor": 20}
        result = minimize(value, point.weights * scale, jac=True, method="L-BFGS-B", options=options)
        before, point = point, f.at(result.x / scale)
        readings += int(result.nfev) + 1
        excess = before.value - point.value
    return _Found(point, max(excess, 0.0), readings)


def _caveat(problem: Problem, found: _Found) -> str:
    relative = found.excess / found.point.scale
    return (
        f"not converged after {found.readings} readings of the rows: the objective may be {relative:.1g} of itself "
        f"above its minimum; a larger alpha than {problem.alpha:g}, or columns of one scale, would help"
    )
