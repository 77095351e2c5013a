"""alpha and the clip where all rows are private: what a run is predicted to reach decides; no row is looked at.

A strong penalty holds noise down, and it holds down what there is to learn: with many rows or little noise a weaker one
is better, for the log-loss and for the classes predicted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from uneven.losses import get_loss
from uneven.planner import CURVATURES, Source, has_prediction, make_plan, predict_run
from uneven.problem import Problem
from uneven.settings import Settings
from uneven.training.scaling import PRIVATE_INTERCEPT
from uneven.training.sketch import expect_spectrum

SIGNAL = 0.6
"""Half of this part of what zero weights lose is there to gain, along a quadratic, in the run that is predicted. Weaker
signals ask for more of a penalty, stronger ones for less."""

HALVINGS = 6
"""How often the default is halved at most."""

RARE, RARER = 0.02, 0.2
"""Shares of a class that decide what is lost where an intercept has the penalty of the weights, and is held back, and
where gradients are clipped, so that rows of the rarer class count for less."""

UNCLIPPED = 1.0
"""Clip that shrinks no gradient of a row in the unit ball."""

SMALL = 0.1
"""Expected loss from which on such a bias is not counted: then weaker signals would be lost in the noise."""

MOST_PLANNED = 12
"""Sources up to which those with a batch size of their own are predicted one by one."""

NEAR = 1.05
"""Expected losses that differ by this factor at most count as the same: the largest alpha is taken, which is safer."""


def choose_private_alpha(settings: Settings, sources: Sequence[Source], problem: Problem, usual: float) -> float:
    """alpha for rows as given: as stated, or for ``"auto"`` the default or a part of it, by the least expected loss.

    `usual` is what is stated, or the default (`Scale.usual_alpha`). It stays the default where no loss is expected
    (`_list_predicted`). The problem is that of the rows as scaled, with the default.
    """
    counted = _list_predicted(settings, sources, problem)
    if not (counted and isinstance(settings.alpha, str)):
        return usual
    parts = 0.5 ** np.arange(HALVINGS)
    tried = [replace(problem, alpha=problem.alpha * part) for part in parts]
    binary = settings.fit_intercept and problem.outputs == 1
    biases = [find_intercept_cost(one.alpha) * binary for one in tried]
    expected = np.array([expect_loss(counted, *one, settings.stepping) for one in zip(tried, biases, strict=True)])
    return float(usual * parts[np.argmax(expected <= NEAR * expected.min())])


def choose_private_clip(settings: Settings, sources: Sequence[Source], problem: Problem) -> float | None:
    """Norm that rows' gradients are shrunk to: that of the problem, or 1, which shrinks none, where noise is small.

    The loss with a clip of 1/2 and an intercept finds a class rarer than it is; with little noise that costs more than
    the noise for longer gradients.
    """
    counted = _list_predicted(settings, sources, problem)
    binary = settings.fit_intercept and problem.outputs == 1
    if not (counted and binary and settings.clip == "auto" and problem.clip is not None):
        return problem.clip
    clips = (problem.clip, UNCLIPPED)
    now, then = (expect_loss(counted, replace(problem, clip=c), find_clip_cost(c), settings.stepping) for c in clips)
    return UNCLIPPED if NEAR * then < now else problem.clip


def _list_predicted(settings: Settings, sources: Sequence[Source], problem: Problem) -> list[Source]:
    """Sources whose run is predicted; those with noise for each row count as one.

    None where some rows are not private, or private in their labels alone; of many sources with site privacy, or more
    than two classes; and for losses and strategies whose runs are not predicted.
    """
    used = [source for source in sources if source.rows]
    sites = any(source.noise.once_a_batch for source in used)
    private = all(source.noise.protects_features for source in used)
    if not (used and private and get_loss(settings.loss).probabilistic):
        return []
    if sites and (problem.outputs > 1 or len(used) > MOST_PLANNED):
        return []
    return used if sites else [_pool_rows(used, problem)]


def find_intercept_cost(alpha: float) -> float:
    """What a penalty on the intercept costs where one class has the share `RARE`, as a share of what there is to learn.

    It is KL(p‖q), q = ς(b) with q - p + αb/c² = 0 for an intercept's feature of c: nothing without a penalty.

    >>> [round(find_intercept_cost(alpha), 3) for alpha in (1e-3, 1e-4, 1e-9)]
    [0.109, 0.004, 0.0]
    """
    feature = PRIVATE_INTERCEPT / math.hypot(1.0, PRIVATE_INTERCEPT)
    score = brentq(lambda b: expit(b) - RARE + alpha * b / feature**2, math.log(RARE / (1.0 - RARE)), 0.0)
    return _compare_shares(RARE, float(expit(score)))


def find_clip_cost(clip: float) -> float:
    """What a clip costs where one class has the share `RARER` and features say nothing, in the same units.

    Slopes of the rarer class are cut at C: q with (1 - p)q = pC is predicted, unless 1 - p is below C.

    >>> round(find_clip_cost(0.5), 3), find_clip_cost(1.0)
    (0.107, 0.0)
    """
    return _compare_shares(RARER, min(RARER, RARER * clip / (1.0 - RARER)))


def _compare_shares(true: float, told: float) -> float:
    """KL(p‖q) as a share of what there is to learn."""
    lost = true * math.log(true / told) + (1.0 - true) * math.log((1.0 - true) / (1.0 - told))
    return lost / (SIGNAL * math.log(2.0) / 2.0)


def _pool_rows(sources: Sequence[Source], problem: Problem) -> Source:
    """One source that knows as much as these do: as many rows of the one that knows most as the others are worth."""
    energies = [source.noise.planned_energy(problem) for source in sources]
    most = int(np.argmax([source.rows / energy for source, energy in zip(sources, energies, strict=True)]))
    rows = sum(source.rows * energies[most] / energy for source, energy in zip(sources, energies, strict=True))
    return replace(sources[most], rows=max(1, round(rows)))


def expect_loss(sources: Sequence[Source], problem: Problem, bias: float, strategy: str) -> float:
    """Expected excess of the mean loss, without the penalty, as a share of what there is to learn.

    It is 1 for strategies whose runs are not predicted. `bias` is added where noise is small, less of it the
    larger the rest is: rows are kept then that make up for both.

    The loss curves by c_j in direction j, as in `sketch.expect_excess`, and weights without a penalty would be alike in
    all directions. Of those a run learns the part A_j·c_j/(c_j + α), with noise; and the answer has the best length
    that is not above 1.
    """
    loss, (counts, shares) = problem.loss_function, expect_spectrum(problem.columns)
    own = shares * loss.curvature * CURVATURES[1]
    gains = counts * own / counts.dot(own) * SIGNAL * (loss.value_at_zero - loss.infimum) / 2.0
    segments = make_plan(sources, problem, strategy).segments
    if not has_prediction(segments):
        return 1.0
    runs = [predict_run(problem, segments, float(h)) for h in own + problem.alpha]
    learned = (1.0 - np.sqrt([one.left for one in runs])) * own / (own + problem.alpha)
    found, noise = gains.dot(learned), (counts * own).dot([one.noise for one in runs]) / problem.columns / 2.0
    energy = gains.dot(learned**2) + noise
    scale = min(1.0, found / energy)
    left = float(1.0 - (2.0 * scale * found - scale**2 * energy) / gains.sum())
    return left + bias * max(0.0, 1.0 - left / SMALL)
