"""Whether stated flip rates are possible: labels that are flipped cannot be predicted too well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from uneven.anchor import PublicRows, solve
from uneven.noise import Exact, FlippedLabels, Noise
from uneven.problem import Problem
from uneven.training.job import Job
from uneven.training.labels import as_numbers
from uneven.training.scan import XY

FALSE_ALARMS = 1e-3
"""Chance that a fit doubts some rate though all are right, at most."""

STRENGTH = 0.5
"""L2 strength of the model, for rows of norm 1, times the number of rows."""

LEAST_ROWS, MOST_ROWS, MOST_SOURCES = 100, 20_000, 8
"""Rows of a source from which on it is tested, rows that are looked at, and sources: the largest."""


def doubt_rates(job: Job, noises: Mapping[str, Noise]) -> tuple[str, ...]:
    """A sentence for each source of flipped labels, as declared, whose stated rate is too high to be true.

    A model of half the rows predicts the labels of the other half. Whatever it predicts, and however well features tell
    the true label, a label that is flipped at rate σ is the predicted one with probability 1 - σ at most, independently
    of others: more agreement than a binomial distribution allows contradicts the rate. Only rows without privacy are
    looked at, so this costs no ε. Of more than two classes nothing is doubted.
    """
    stated = {name: one for name, one in noises.items() if isinstance(one, FlippedLabels) and not one.unknown}
    counts = job.groups.row_counts
    tested = [name for name in stated if stated[name].known_rate > 0 and counts.get(name, 0) >= LEAST_ROWS]
    tested = sorted(tested, key=lambda name: -counts[name])[:MOST_SOURCES]
    if not tested or len(job.scan.classes) != 2:
        return ()
    public = [name for name, noise in noises.items() if not noise.private]
    samples = {name: found for name in public if (found := _take_rows(job, name)) is not None}
    level, told = FALSE_ALARMS / len(tested), []
    for name in (one for one in tested if one in samples):  # no rows are kept of levels that streamed rows tell
        most = float(stated[name].confusion_of(2).max())
        rows, agreed = count_agreements(samples, name)
        if agreed and betainc(agreed, rows - agreed + 1, most) < level:  # the chance of so many or more
            told.append(
                f"The flip rate stated for {name!r} seems too high: a model of other rows predicts {agreed / rows:.1%} "
                f"of {rows:,} of its labels, where {most:.1%} at most are expected at that rate. A true rate is "
                f"doubted in fewer than 1 of {1 / FALSE_ALARMS:,.0f} fits. rate = 'estimate' finds it, with exact rows."
            )
    return tuple(told)


def _take_rows(job: Job, name: str) -> XY | None:
    """Some rows of a source, scaled, and their labels."""
    found = job.sample([name])
    if found is None:
        return None
    X, y = found
    at = np.linspace(0, len(y) - 1, min(len(y), MOST_ROWS)).astype(np.int64)
    return job.unit_rows(X[at]), as_numbers(y[at], job.scan.classes[1])


def count_agreements(samples: Mapping[str, XY], name: str) -> tuple[int, int]:
    """Rows of the source that are predicted from others, and how many of their labels are the predicted ones.

    Copies of a row are on one side, and count once: their labels may be one label.
    """
    X, y = samples[name]
    first, half = split_rows(X)
    learned = [(X[half], y[half]), *(rows for other, rows in samples.items() if other != name)]
    sources = [PublicRows.from_arrays(*rows, Exact()) for rows in learned if len(rows[1])]
    if not sources:  # all rows are alike
        return 0, 0
    kept = first[~half[first]]
    strength = STRENGTH / sum(source.count for source in sources)
    weights = solve(Problem(X.shape[1], strength, 1), sources).weights
    return len(kept), int((np.asarray(X[kept] @ weights) * y[kept] > 0).sum())


def split_rows(X: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Place of one row of each kind, and which rows are learned from: half of the kinds, with all their copies.

    >>> first, half = split_rows(np.array([[1.0, 0.0], [2.0, 1.0], [1.0, 0.0], [0.5, 3.0]]))
    >>> len(first), bool(half[0] == half[2]), int(half[first].sum())
    (3, True, 1)
    """
    rng = np.random.default_rng(0)
    keys = np.round(np.asarray(X @ rng.normal(size=(X.shape[1], 2))), 9)
    _, first, kind = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    chosen = np.zeros(len(first), dtype=bool)
    chosen[rng.permutation(len(first))[: len(first) // 2]] = True
    return first, chosen[kind.ravel()]
