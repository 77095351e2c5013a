"""alpha where all rows are private: what a run is predicted to reach decides, so that no row is looked at.

A strong penalty holds noise down, and it holds down what there is to learn: with many rows or little noise a weaker one
is better, for the log-loss and for the classes predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from uneven.losses import get_loss
from uneven.planner import CURVATURES, Source, has_prediction, make_plan, predict_run
from uneven.problem import Problem
from uneven.settings import Settings
from uneven.training.sketch import expect_spectrum

SIGNAL = 0.6
"""Half of this part of what zero weights lose is there to gain, along a quadratic, in the run that is predicted. Weaker
signals ask for more of a penalty, stronger ones for less."""

HALVINGS = 6
"""How often the default is halved at most."""

NEAR = 1.05
"""Expected losses that differ by this factor at most count as the same: the largest alpha is taken, which is safer."""


def choose_private_alpha(settings: Settings, sources: Sequence[Source], problem: Problem, usual: float) -> float:
    """alpha for rows as given: as stated, or for ``"auto"`` the default or a part of it, by the least expected loss.

    `usual` is what is stated, or the default (`Scale.usual_alpha`).

    It stays the default where some rows are not private, or private in their labels alone; for site privacy; and for
    losses and strategies whose runs are not predicted. The problem is that of the rows as scaled, with the default.
    """
    used = [source for source in sources if source.rows]
    local = all(source.noise.protects_features and not source.noise.once_a_batch for source in used)
    if not (used and local and isinstance(settings.alpha, str) and get_loss(settings.loss).probabilistic):
        return usual
    parts, pooled = 0.5 ** np.arange(HALVINGS), [_pool_rows(used, problem)]
    tried = [replace(problem, alpha=problem.alpha * part) for part in parts]
    expected = np.array([expect_loss(pooled, one, settings.stepping) for one in tried])
    return float(usual * parts[np.argmax(expected <= NEAR * expected.min())])


def _pool_rows(sources: Sequence[Source], problem: Problem) -> Source:
    """One source that knows as much as these do: as many rows of the one that knows most as the others are worth."""
    energies = [source.noise.planned_energy(problem) for source in sources]
    most = int(np.argmax([source.rows / energy for source, energy in zip(sources, energies, strict=True)]))
    rows = sum(source.rows * energies[most] / energy for source, energy in zip(sources, energies, strict=True))
    return replace(sources[most], rows=max(1, round(rows)))


def expect_loss(sources: Sequence[Source], problem: Problem, strategy: str) -> float:
    """Expected excess of the mean loss, without the penalty, as a share of what there is to learn.

    It is 1 for strategies whose runs are not predicted.

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
    return float(1.0 - (2.0 * scale * found - scale**2 * energy) / gains.sum())
