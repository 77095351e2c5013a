"""What rows of each class count: as stated, or balanced by counts of rows without privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from uneven.noise import FlippedLabels, Noise
from uneven.training.job import Job
from uneven.training.labels import as_numbers, read_weights
from uneven.training.refusals import EVERYONE_PRIVATE


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
    return tuple((1.0 / len(classes) / shares).tolist())


def describe_weights(job: Job) -> tuple[str, ...]:
    """What to know of balanced weights where some rows are private; nothing else."""
    if job.settings.class_weight != "balanced" or not job.groups.any_private:
        return ()
    named = zip(job.scan.classes.tolist(), job.class_weights, strict=True)
    shown = ", ".join(f"{one!r} {weight:.4g}" for one, weight in named)
    return (f"class_weight='balanced' was counted on the rows without privacy only: {shown}.",)


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
        notes += [
            f"Source {name!r}: {share:.3g}% of its labels are {one!r}, fewer than the {low:.3g}% that errors alone "
            "make at the stated rate: is the rate right?"
            for one, share, low in zip(classes.tolist(), 100 * shares, 100 * least, strict=True)
            if share < low
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
