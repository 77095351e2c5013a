"""A few rows without privacy beside private ones: alone, the private ones alone, and both."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uneven.cautions import SimulationWarning
from uneven.datasets import Dataset
from uneven.engine import measure_auc
from uneven.estimator import UnevenClassifier
from uneven.noise import Exact, LocalPrivacy, Noise
from uneven.planner import Verdict, describe_verdicts

Array = NDArray[np.float64]

PUBLIC, ALONE, PRIVATE, BOTH = "open", "public rows alone", "private rows alone", "anchored: both"
SHARE = 0.01
"""Share of the rows that are public; the largest site has so many fewer."""

MOST_RUNS = 4


@dataclass(frozen=True)
class PublicRows:
    """What a few public rows change.

    Attributes
    ----------
    rows : int
        Number of public rows.
    accuracy, auc : dicts of str to array
        Test accuracy and AUC of each run of each way to learn.
    verdicts : dict of str to Verdict
        What each private source was expected to add in the first run, before anything was charged.
    spent : dict of str to float
        ε that a row of each private source spent in that run; those not used spent nothing.
    """

    rows: int
    accuracy: Mapping[str, Array]
    verdicts: Mapping[str, Verdict]
    spent: Mapping[str, float]
    auc: Mapping[str, Array]


def compare_public_rows(
    data: Dataset, sites: Mapping[str, tuple[float, float]], runs: int, seed: int, tick: Callable[[int], None]
) -> PublicRows:
    """Learn from a few public rows, from private sites, and from both, by the classifier with its defaults.

    Parameters
    ----------
    data : Dataset
        Rows in the unit ball.
    sites : dict of str to (float, float)
        Share of the rows and ε of each site.
    runs, seed : int
        At most `MOST_RUNS` runs, each with its own rows and noise.
    tick : callable
        Called with 1 after each run.

    Returns
    -------
    PublicRows
    """
    largest = max(sites, key=lambda name: sites[name][0])
    shares = {PUBLIC: SHARE} | {name: share - SHARE * (name == largest) for name, (share, _) in sites.items()}
    noises: dict[str, Noise] = {PUBLIC: Exact()} | {name: LocalPrivacy(epsilon) for name, (_, epsilon) in sites.items()}
    ways = {ALONE: [PUBLIC], PRIVATE: list(sites), BOTH: list(shares)}
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    first = None
    for run in range(min(runs, MOST_RUNS)):
        parts = data.split(shares, seed + run)
        for way, names in ways.items():
            model = UnevenClassifier({name: noises[name] for name in names}, row_norm=1.0, random_state=seed + run)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SimulationWarning)  # the demo says that it is one
                model.fit(
                    np.concatenate([parts[name][0] for name in names]),
                    np.concatenate([parts[name][1] for name in names]),
                    source=np.repeat(names, [len(parts[name][1]) for name in names]),
                )
            area = float(measure_auc(model.coef_[0], data.X_test, data.y_test))
            found[way].append((float(model.score(data.X_test, data.y_test)), area))
        first = first or model
        tick(1)
    assert first is not None
    accuracy, areas = ({way: np.array(pairs)[:, k] for way, pairs in found.items()} for k in (0, 1))
    spent = {name: epsilon if name in first.plan_.order else 0.0 for name, (_, epsilon) in sites.items()}
    return PublicRows(len(parts[PUBLIC][1]), accuracy, first.plan_.verdicts, spent, areas)


def describe_public_rows(found: PublicRows) -> list[str]:
    """What was found, in words, a line each."""
    alone, private, both = (f"{100 * found.accuracy[way].mean():.1f}%" for way in (ALONE, PRIVATE, BOTH))
    said = [
        f"{found.rows:,} rows without privacy classify {alone} of the test rows correctly, the private rows {private}, "
        f"and both together {both}: the first are learned to convergence, the others add to them.",
        "Public rows also choose the L2 strength by cross-validation: so this may be above 'no noise at all', which "
        "has the L2 strength of the strategies.",
        *describe_verdicts(found.verdicts),
    ]
    if unspent := [repr(name) for name, epsilon in found.spent.items() if not epsilon]:
        said.append(f"So {' and '.join(unspent)} was not used, and its rows spent no privacy.")
    return said
