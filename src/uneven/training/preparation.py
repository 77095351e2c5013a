"""Prepare a job from rows as scanned, the one way for every door: sources, scale, flip rates, class weights, alpha."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from uneven.noise import Noise
from uneven.problem import DEFAULT_ALPHA
from uneven.settings import Settings
from uneven.training import flips
from uneven.training.class_weights import find_weights
from uneven.training.components import with_components
from uneven.training.convergence import with_chosen_alpha
from uneven.training.grouping import Grouped, group_pieces, group_rows
from uneven.training.job import Job
from uneven.training.label_release import as_against_rest, as_observed
from uneven.training.labels import as_numbers, list_targets
from uneven.training.norms import choose_scale
from uneven.training.refusals import find_unknown, refuse_unanchored, refuse_unfit
from uneven.training.rows import Rows
from uneven.training.scaling import Scale
from uneven.training.scan import Scan


def prepare(
    rows: Rows,
    scan: Scan,
    groups: Grouped,
    settings: Settings,
    scale: Scale | None = None,
    here: Collection[str] | None = None,
) -> Job:
    """The job of rows as scanned, with what cannot be done refused: all that is decided before there is a plan.

    `groups` have the noises as declared. `scale` is None where it is to be chosen. `here` names the
    sources whose rows can be read, where others are only described.
    """
    targets, groups = list_targets(scan.classes, settings), as_observed(groups, len(scan.classes))
    refuse_unanchored(groups.noises, settings.loss)
    refuse_unfit(groups.noises, settings, scan.classes, scan.sparse and settings.sketch is None)
    groups = as_against_rest(groups, settings, len(scan.classes))
    chosen = choose_scale(scan, groups, settings, groups.any_private) if scale is None else scale
    job = _with_known_rates(Job(rows, settings, scan, groups, chosen), targets)
    job = replace(job, class_weights=find_weights(job))
    return with_components(job, targets, here) if scale is None else with_chosen_alpha(job, targets[0], here)


def prepare_alone(
    rows: Rows, scan: Scan, scale: Scale, name: str, noise: Noise, kept: int = 0, tellers: int = 0
) -> Job:
    """The job of one source whose scale, problem and kept rows were decided elsewhere, as at a site of a federation."""
    steps = Settings(strategy="precision", alpha=DEFAULT_ALPHA)  # for which nothing is chosen
    job = prepare(rows, scan, group_pieces({name: scan.rows}, {name: noise}), steps, scale)
    return replace(job, kept=kept, tellers=tellers, units={}) if kept else job


def group_scanned(scan: Scan, noise: Any, settings: Settings) -> Grouped:
    """Which source each row is of."""
    source, levels = scan.source, (scan.epsilon, scan.flip_rate)
    if source is None and None not in scan.counts:
        if scan.epsilon is None and scan.flip_rate is None:
            return group_pieces(scan.counts, noise)
        source = np.repeat(list(scan.counts), list(scan.counts.values()))
    return group_rows(scan.rows, noise, source, *levels, mechanism=settings.mechanism)


def _with_known_rates(job: Job, targets: Sequence[Any]) -> Job:
    """The job with flip rates estimated where that was asked for."""
    if not find_unknown(job.groups.noises):
        return job
    rows = {name: job.sample([name]) for name, noise in job.groups.noises.items() if not noise.private}
    data = {
        name: (job.unit_rows(found[0]), as_numbers(found[1], targets[0]))
        for name, found in rows.items()
        if found is not None
    }
    noises = flips.estimate_noises(job.groups.noises, data)
    return replace(job, groups=job.groups.with_noises(noises))
