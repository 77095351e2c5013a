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
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import minimize
from threadpoolctl import ThreadpoolController

from uneven.anchor.length import DENSE_COLUMNS, choose_length
from uneven.anchor.objective import TOLERANCE, Curvature, Objective, Point
from uneven.anchor.rows import PublicRows
from uneven.problem import Problem
from uneven.softmax import centre_weights

Array = NDArray[np.float64]


AIM = 1e-2 * TOLERANCE
"""Estimated distance at which to stop: the estimate comes from a model of the Hessian."""

SAMPLE_ROWS = 20_000

MOST_READINGS = 300
SHORT = 1e-3
"""Length of a step below which the curvature at a point is taken to say nothing of that around it."""

WIDTHS = (4.0, 1.0, 0.1, 0.01, 0.001)
"""Widths of the parabola in place of a kink, one after the other; with slopes of 1, f is off by half the last."""


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
        Estimate of f minus its minimum, before the answer was shortened.
    readings : int
        How often all rows were read.
    converged : bool
    caveat : str or None
        One line to show where it has not converged, or was shortened.
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
    longest: float | None = None,
    aim: float = AIM,
    likelihood: bool = False,
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
    longest : float or None
        Shorten an answer that flipped labels leave unsure (`choose_length`), to this multiple of itself at most; None
        to leave it as it is.
    aim : float
        Relative distance to the least objective at which L-BFGS stops, and Newton's method on a likelihood; larger is
        faster, where accuracy matters less.
    likelihood : bool
        Take minus the log-likelihood of flipped labels as observed for their loss, instead of the convex surrogate. It
        is convex near 0, where to start if not near the answer.

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
    f = Objective.of(problem, rows, penalty, likelihood)
    w = np.zeros(problem.n_features) if start is None else np.array(start, dtype=np.float64)
    if w.shape != (problem.n_features,):
        raise ValueError(f"start must have {problem.n_features} weights, got shape {w.shape}")
    with use_one_thread(), np.errstate(over="ignore", invalid="ignore"):  # a step that goes too far is taken back
        if len(w) <= DENSE_COLUMNS:
            found = _newton_from_sample(f, w, start is None, aim if f.likelihood else AIM)
        else:
            found = _quasi_newton_by_width(f, w, aim)
        f = replace(f, width=_widths(f)[-1])
        length = 1.0
        if longest is not None:
            length = min(longest, choose_length(f, found.point.weights, len(w) <= DENSE_COLUMNS))
        point = found.point if length == 1.0 else f.at(length * found.point.weights)
        curvature = f.at(point.weights, _kind(len(w))).hessian if hessian else None
    converged = found.excess <= TOLERANCE * found.point.scale
    return Solution(
        point.weights if problem.outputs == 1 else centre_weights(point.weights, problem.outputs),
        point.value,
        float(np.linalg.norm(point.gradient)),
        found.excess,
        found.readings + hessian,
        converged,
        _describe_length(length) if converged else _caveat(problem, found),
        curvature,
    )


def _describe_length(length: float) -> str | None:
    """Note for weights that were shrunk."""
    if length == 1.0:
        return None
    return (
        f"flipped labels leave open how sure the model should be: its weights were shrunk to {length:.2g} of their "
        "length, where the expected loss is least"
    )


@cache
def _threads() -> Any:
    return ThreadpoolController()


_limited = ContextVar("_limited", default=False)


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Keep linear algebra on one thread: on a busy machine OpenBLAS's threads wait for each other, 50 times as long."""
    if _limited.get():  # to ask the libraries takes longer than a small solve
        yield
        return
    token = _limited.set(True)
    try:
        with _threads().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.reset(token)


def _kind(columns: int) -> Curvature:
    return "full" if columns <= DENSE_COLUMNS else "diagonal"


class Readable(Protocol):
    """An objective that can be read at some weights, wherever its rows are."""

    def at(self, w: Array, curvature: Curvature = "none") -> Point:
        """f and its derivatives at w."""


@dataclass(frozen=True)
class _Found:
    point: Point
    excess: float
    readings: int
    model: Callable[[Array], Array] | None = None


def _newton_from_sample(f: Objective, w: Array, cold: bool, aim: float) -> _Found:
    """Newton's method, first on a sample if the rows are many."""
    *before, last = _widths(f)
    wanted, readings, model = max(SAMPLE_ROWS, 10 * len(w)), 0, None
    if cold and f.count > 3 * wanted and (sample := f.sample(wanted / f.count)) is not None:
        first = _newton_from_sample(sample, w, False, aim)
        w, model, readings, before = first.point.weights, first.model, 1, []
    for width in before:
        part = run_newton(replace(f, width=width), w, None)
        w, readings = part.point.weights, readings + part.readings
    found = run_newton(replace(f, width=last), w, model, aim)
    return replace(found, readings=readings + found.readings)


def _widths(f: Objective) -> tuple[float, ...]:
    return (0.0,) if f.loss.smooth else WIDTHS


def run_newton(f: Readable, w: Array, model: Callable[[Array], Array] | None = None, aim: float = AIM) -> _Found:
    """Newton's method with step halving and a Hessian that is kept while each step cuts the excess tenfold."""
    point, readings, exact, length, renew = f.at(w, "none" if model else "full"), 1, not model, 1.0, False
    bounded = False
    if not (math.isfinite(point.value) and np.isfinite(point.gradient).all()):
        raise ValueError("X must be finite and of moderate size, got NaN, infinity or an overflow")
    if point.hessian is not None:
        model = factorise(point.hessian)
    assert model is not None
    step = model(point.gradient)
    while True:
        excess = float(point.gradient @ step) / 2.0
        if excess <= aim * point.scale or readings >= MOST_READINGS or length < 1e-12:
            return _Found(point, excess, readings, model)
        trial = f.at(point.weights - length * step, "full" if renew else "none")
        readings += 1
        if not trial.value <= point.value - 1e-4 * length * 2.0 * excess:  # also if it is NaN
            if exact and not bounded and length < SHORT:  # no curvature here, as where a loss is straight
                point, bounded, length, readings = f.at(point.weights, "largest"), True, 1.0, readings + 1
                model = factorise(point.hessian)
                step = model(point.gradient)
            elif exact:
                length /= 4.0
            else:  # the model misleads: compute the Hessian here
                point, exact, renew, readings = f.at(point.weights, "full"), True, True, readings + 1
                model = factorise(point.hessian)
                step = model(point.gradient)
            continue
        step = model(trial.gradient)
        renew = float(trial.gradient @ step) / 2.0 > 0.1 * excess
        point, length, exact, bounded = trial, 1.0, trial.hessian is not None, False
        if trial.hessian is not None:
            model = factorise(trial.hessian)
            step = model(trial.gradient)


def factorise(hessian: Array | None) -> Callable[[Array], Array]:
    """Function that solves with the Hessian for one gradient or several, as columns; a singular one is lifted a little.

    Columns are first brought to one scale.
    """
    assert hessian is not None
    scale = np.sqrt(np.maximum(np.diag(hessian), 1e-300))
    scaled = hessian / scale / scale[:, None]
    for lift in (0.0, 1e-13, 1e-11, 1e-9, 1e-6):
        scaled[np.diag_indices(len(scale))] = 1.0 + lift
        factor, failed = dpotrf(scaled)
        if not failed:
            return lambda g: np.asarray((dpotrs(factor, (g.T / scale).T)[0].T / scale).T)
    return lambda g: np.asarray((g.T / scale / scale / len(scale)).T)


def _quasi_newton_by_width(f: Objective, w: Array, aim: float) -> _Found:
    """L-BFGS, for a loss with a kink with one width after the other."""
    readings = 0
    for width in _widths(f):
        found = _quasi_newton(replace(f, width=width), w, aim)
        w, readings = found.point.weights, readings + found.readings
    return replace(found, readings=readings)


def _quasi_newton(f: Objective, w: Array, aim: float) -> _Found:
    """L-BFGS on rescaled columns, restarted until a restart no longer improves the objective."""
    point, readings, excess = f.at(w, "diagonal"), 1, math.inf
    if not (math.isfinite(point.value) and np.isfinite(point.gradient).all()):
        raise ValueError("X must be finite and of moderate size, got NaN, infinity or an overflow")
    assert point.hessian is not None
    scale = np.sqrt(np.maximum(point.hessian, 1e-300))

    def value(u: Any) -> tuple[float, Any]:
        at = f.at(u / scale)
        return at.value, at.gradient / scale

    while excess > aim * point.scale and readings < MOST_READINGS:
        options: Any = {"maxfun": MOST_READINGS - readings, "ftol": 1e-3 * aim * point.scale, "gtol": 0.0, "maxcor": 10}
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
