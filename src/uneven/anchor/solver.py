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

from uneven.anchor.objective import TOLERANCE, Curvature, Objective, Point
from uneven.anchor.rows import PublicRows
from uneven.problem import Problem
from uneven.softmax import centre_weights

Array = NDArray[np.float64]


AIM = 1e-2 * TOLERANCE
"""Estimated distance at which to stop: the estimate comes from a model of the Hessian."""

DENSE_COLUMNS = 2000
"""Columns up to which a Hessian is kept and factorised."""

SAMPLE_ROWS = 20_000

MOST_READINGS = 300
SHORT = 1e-3
"""Length of a step below which the curvature at a point is taken to say nothing of that around it."""

POSSIBLE = 2.0 ** np.arange(2.0, -48.0, -0.5)
"""Multiples of the answer that are thought possible where labels are flipped: not 0, so that classes are predicted."""

LENGTH_ROWS = 5_000
"""Rows that the length of weights from flipped labels is judged by, counted in exact ones; of more, a sample."""

CLEAR, DOUBT = 2.0, 2.0
"""Standard errors, and differences of the log-likelihood, that are clear: the second is what two of the first make."""

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
    shorten: bool = False,
    aim: float = AIM,
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
    shorten : bool
        Whether to shorten an answer that flipped labels leave unsure (`choose_length`).
    aim : float
        Relative distance to the least objective at which L-BFGS stops; larger is faster, where accuracy matters less.

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
    f = Objective.of(problem, rows, penalty)
    w = np.zeros(problem.n_features) if start is None else np.array(start, dtype=np.float64)
    if w.shape != (problem.n_features,):
        raise ValueError(f"start must have {problem.n_features} weights, got shape {w.shape}")
    with use_one_thread(), np.errstate(over="ignore", invalid="ignore"):  # a step that goes too far is taken back
        found = (
            _newton_from_sample(f, w, start is None) if len(w) <= DENSE_COLUMNS else _quasi_newton_by_width(f, w, aim)
        )
        f = replace(f, width=_widths(f)[-1])
        length = choose_length(f, found.point.weights) if shorten else 1.0
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


def choose_length(f: Objective, w: Array) -> float:
    """Multiple of the weights, at most 1, with the least expected loss where labels are flipped.

    The surrogate of flipped labels is unbiased, but its minimum may be far from the loss's, or not exist: its mean can
    fall below 0, which no loss does, as where fewer labels are positive than the stated rate alone would make. The
    labels as observed tell how long w should be, by their likelihood, but not the sure from the nearly sure. So all
    lengths of a grid are thought possible, as likely as they make the labels of new rows (`measure_optimism`), and the
    answer takes the length that loses least on average over them. Lengths whose surrogate has a mean clearly below 0
    are not possible: the stated rate is too large, or the rows were learned by heart. Where no length is clearly
    likelier than 0, the answer is as good as 0.
    """
    if not f.flipped or not f.loss.probabilistic:
        return 1.0
    told = sum(source.count * (1.0 - 2.0 * source.flip_rate) ** 2 for source, _ in f.sources)  # in exact rows
    if told > LENGTH_ROWS:
        f = f.sample(LENGTH_ROWS / told) or f
    lost, levels, slopes, surrogate, squares = f.along(w, POSSIBLE)
    errors = np.sqrt(np.maximum(squares - surrogate**2, 0.0) / f.count)
    prior, moderate = doubt_long(slopes)
    evidence = -f.count * (lost + np.minimum(POSSIBLE / min(moderate, 1.0), 1.0) * measure_optimism(f))
    nothing, evidence = evidence[-1], np.where(surrogate + CLEAR * errors < 0.0, -np.inf, evidence)
    if evidence.max() < nothing + DOUBT:
        return float(POSSIBLE[-1])
    weights = prior * np.exp(evidence - evidence.max())
    expected = levels - POSSIBLE * (weights @ slopes / weights.sum())
    return float(POSSIBLE[np.argmin(np.where(POSSIBLE <= 1.0, expected, np.inf))])


def doubt_long(slopes: Array) -> tuple[Array, float]:
    """Prior weight of each possible length, and the length from which on it falls, as rows are classified for sure.

    Jeffreys' prior of the logarithm of a length t is t√B', B' the mean variance of the scores over the classes: small
    where even exact labels could hardly tell a length from longer ones. Up to its largest value it is taken as that.
    `slopes` are B.
    """
    prior = POSSIBLE * np.sqrt(np.maximum(np.gradient(slopes, POSSIBLE), 0.0))
    most = int(np.argmax(prior))
    return np.where(np.arange(len(prior)) >= most, 1.0, prior / max(prior[most], 1e-300)), float(POSSIBLE[most])


def measure_optimism(f: Objective) -> float:
    """How much more the answer w loses on new rows than on its own, in log-likelihood; 0 where there are many columns.

    To first order that is tr(H⁻¹C)/n with C = E gsᵀ, g the gradients of what is lost and s those of what w minimises
    (Takeuchi 1976 for g = s). Of a label flipped at rate σ, given x, s takes the values -(1-a)/(1-2σ) with probability
    a = σ + (1-2σ)p and a/(1-2σ) else, times x, and g is -(1-2σ)p(1-p)/a and (1-2σ)p(1-p)/(1-a): so E gs = p(1-p), as
    for exact labels, and C is the curvature of the loss. Both are taken at 0, where the loss curves most: at weights
    that followed noise far out next to nothing curves, and little would seem to be at stake. Of a multiple of w it is
    that part, and all of it from the length on at which rows are classified for sure.
    """
    if len(f.ridge) > DENSE_COLUMNS:
        return 0.0
    hessian = f.at(np.zeros_like(f.ridge), "full").hessian
    assert hessian is not None
    return float(np.trace(np.linalg.lstsq(hessian, hessian - np.diag(f.ridge))[0])) / f.count


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


def _newton_from_sample(f: Objective, w: Array, cold: bool) -> _Found:
    """Newton's method, first on a sample if the rows are many."""
    *before, last = _widths(f)
    wanted, readings, model = max(SAMPLE_ROWS, 10 * len(w)), 0, None
    if cold and f.count > 3 * wanted and (sample := f.sample(wanted / f.count)) is not None:
        first = _newton_from_sample(sample, w, False)
        w, model, readings, before = first.point.weights, first.model, 1, []
    for width in before:
        part = run_newton(replace(f, width=width), w, None)
        w, readings = part.point.weights, readings + part.readings
    found = run_newton(replace(f, width=last), w, model)
    return replace(found, readings=readings + found.readings)


def _widths(f: Objective) -> tuple[float, ...]:
    return (0.0,) if f.loss.smooth else WIDTHS


def run_newton(f: Readable, w: Array, model: Callable[[Array], Array] | None = None) -> _Found:
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
        if excess <= AIM * point.scale or readings >= MOST_READINGS or length < 1e-12:
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
