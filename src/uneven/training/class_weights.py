"""What rows of each class count: as stated, or balanced by counts of rows without privacy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.anchor import refuse_uneven
from uneven.noise import FlippedLabels, Noise
from uneven.settings import Settings
from uneven.training.grouping import Grouped
from uneven.training.job import Job
from uneven.training.labels import as_numbers, read_weights
from uneven.training.refusals import EVERYONE_PRIVATE, find_unknown, uses_solver

EDGE = 1e-6
"""Balanced weights that had to be made more even leave each row this part of a mean one at least."""


def find_weights(job: Job) -> tuple[float, ...]:
    """Weights of the K classes: as stated, or n/(K·n_k), counted on rows without privacy and corrected for flips."""
    classes, settings = job.scan.classes, job.settings
    if settings.class_weight != "balanced":
        return read_weights(settings, classes)
    names = [name for name, noise in job.groups.noises.items() if not noise.private]
    if not names:
        raise ValueError(EVERYONE_PRIVATE)
    counts = np.zeros(len(classes))
    for name, found in zip(names, _count_classes(job, names), strict=True):
        counts += found @ np.linalg.inv(job.groups.noises[name].confusion_of(len(classes)))
    rows = counts.sum()
    shares = np.clip(counts / rows, 1.0 / (rows + 1.0), rows / (rows + 1.0))
    weights = _make_even(1.0 / len(classes) / shares, _list_solved(settings, job.groups.noises))
    return tuple((weights / (shares @ weights)).tolist())


def _list_solved(settings: Settings, noises: Mapping[str, Noise]) -> list[Noise]:
    """Noises of the rows that the solver reads, with flip rates that are known."""
    public = {name: noise for name, noise in noises.items() if not noise.private}
    known = [noise for name, noise in public.items() if name not in find_unknown(public)]
    return known if uses_solver(settings, known) else []


def _count_observed(weights: NDArray[np.float64], noises: Iterable[Noise]) -> NDArray[np.float64]:
    """What a row counts that is observed as each class: the sums of T⁻¹·diag(weights) over its rows."""
    sums = [np.linalg.solve(noise.confusion_of(len(weights)), weights) for noise in noises]
    return np.concatenate([weights, *sums])


def _make_even(weights: NDArray[np.float64], noises: Iterable[Noise]) -> NDArray[np.float64]:
    """These weights, moved towards equal ones until every row's effective weight is at least 0."""
    least, even = float(_count_observed(weights, noises).min()), float(weights.mean())
    share = min(1.0, (-least + EDGE * even) / (even - least)) if least < EDGE * even / 2.0 else 0.0
    return (1.0 - share) * weights + share * even


def refuse_weights(groups: Grouped, settings: Settings, classes: NDArray[Any]) -> None:
    """Refuse stated weights that are too uneven for labels as flipped: `groups` have the noises as observed."""
    if settings.class_weight not in (None, "balanced"):
        weights = np.array(read_weights(settings, classes))
        refuse_uneven(_list_solved(settings, groups.noises), (weights / weights.max()).tolist())


def describe_weights(job: Job) -> tuple[str, ...]:
    """What to know of balanced weights: that some rows are private, or that flips allow no more uneven ones."""
    if job.settings.class_weight != "balanced":
        return ()
    named = zip(job.scan.classes.tolist(), job.class_weights, strict=True)
    shown, notes = ", ".join(f"{one!r} {weight:.4g}" for one, weight in named), []
    if job.groups.any_private:
        notes.append(f"class_weight='balanced' was counted on the rows without privacy only: {shown}.")
    weights = np.array(job.class_weights)
    if _count_observed(weights, _list_solved(job.settings, job.groups.noises)).min() < 2.0 * EDGE * weights.mean():
        notes.append(
            f"class_weight='balanced' was made more even, {shown}: with more uneven weights and so many labels "
            "flipped, some rows would count less than nothing."
        )
    return tuple(notes)


def describe_shares(job: Job, noises: Mapping[str, Noise]) -> tuple[str, ...]:
    """Sources in which a class is rarer than errors at the stated rate make it, whatever the true labels are.

    `noises` are those of labels as the learner gets them. Rows that are streamed are not read again for this.
    """
    if job.scan.held is None:
        return ()
    classes, notes = job.scan.classes, []
    stated = {name: one for name, one in noises.items() if isinstance(one, FlippedLabels) and not one.unknown}
    for name, noise in stated.items():
        counts = _count_classes(job, [name])[0]
        shares, least = counts / max(counts.sum(), 1.0), noise.confusion_of(len(classes)).min(axis=0)
        errors = np.sqrt(least * (1.0 - least) / max(counts.sum(), 1.0))
        notes += [
            f"Source {name!r}: {share:.3g}% of its labels are {one!r}, fewer than the {low:.3g}% that errors alone "
            "make at the stated rate: is the rate right?"
            for one, share, low, error in zip(classes.tolist(), 100 * shares, 100 * least, 100 * errors, strict=True)
            if share < low - 2.0 * error
        ]
    return tuple(notes)


def _count_classes(job: Job, names: Sequence[str]) -> NDArray[np.float64]:
    """Rows of each source in each class, as observed: shape (sources, classes)."""
    classes = job.scan.classes
    if job.scan.held is not None:
        mine = [job.groups.rows_of(job.groups.names.index(name)) for name in names]
        pieces = [[as_numbers(job.scan.held[1][rows], classes)] for rows in mine]
    else:
        pieces = [[y for _, y in read()] for read in job.readings(classes, names).values()]
    counts = [sum(np.bincount(y.astype(np.int64), minlength=len(classes)) for y in one) for one in pieces]
    return np.array(counts, dtype=np.float64).reshape(len(names), len(classes))
