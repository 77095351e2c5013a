"""The plan that a fit of a ``sources.toml`` runs: with its scale, its intercept and its clip."""

from __future__ import annotations

from uneven.io import SourcesFile
from uneven.io.refusals import located
from uneven.planner import Plan, plan
from uneven.training.scaling import Scale, clip_of, stated_scale

UNKNOWN = (
    "planned for rows in the unit ball, without an intercept; 'uneven fit' takes its scale from the rows, adds the "
    "intercept's feature unless fit_intercept = false, and reports the plan that it ran"
)


def is_private(file: SourcesFile) -> bool:
    """Whether a source is private: then nothing is scaled by the data."""
    return any(entry.source.noise.private for entry in file.sources)


def plan_ahead(file: SourcesFile) -> tuple[Plan, str]:
    """The plan that a fit would run, where no row need be read for it, and a note on what was planned for.

    That is where a public ``row_norm`` is stated, or there is private data, whose rows are taken to be no longer than
    1. Else the scale is unknown until rows are read, and the plan is for rows in the unit ball.
    """
    stated = file.row_norm is not None
    if not stated and not (is_private(file) and any(entry.data is not None for entry in file.sources)):
        return file.plan(), UNKNOWN
    scale = stated_scale("auto" if file.row_norm is None else file.row_norm, file.fit_intercept, is_private(file))
    assert scale is not None
    intercept = " and one more feature for the intercept" if scale.intercept else ""
    note = f"planned as 'uneven fit' runs it, with rows divided by {scale.factor:.6g}{intercept}"
    return plan_scaled(file, scale), note


def plan_scaled(file: SourcesFile, scale: Scale) -> Plan:
    """Plan for the rows of these files as scaled."""
    problem, clip = file.problem, "auto" if file.problem.clip is None else file.problem.clip
    with located(str(file.path)):
        return plan(
            [entry.source for entry in file.sources],
            problem.n_features + scale.intercept,
            scale.alpha(problem.alpha),
            problem.batch_size,
            problem.loss,
            file.strategy,
            file.moments,
            problem.radius,
            clip_of(clip, file.strategy, is_private(file)),
            scale.norms,
            scale.eigenvalue,
        )
