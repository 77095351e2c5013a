"""The plan that a fit of a ``sources.toml`` will run, before any ε is spent."""

from __future__ import annotations

from dataclasses import replace

from uneven.io import SourcesFile
from uneven.io.refusals import located
from uneven.planner import Plan
from uneven.training.planning import plan_fit, problem_ahead

PUBLIC = "planned as 'uneven fit' runs it, from the rows without privacy; private rows were counted and not looked at"

UNREAD = (
    "planned by steps alone, since no rows were read; 'uneven fit' learns the rows without privacy to convergence "
    "first, and reports the plan that it ran"
)


LABELS = (
    "planned by steps alone; 'uneven fit' randomises private labels once, which is charged, learns rows without "
    "privacy and those with private labels to convergence, and reports the plan that it ran"
)


def plan_ahead(file: SourcesFile) -> tuple[Plan, str]:
    """The plan that a fit would run, and a note on what was planned for.

    Parameters
    ----------
    file : SourcesFile

    Returns
    -------
    plan : Plan
        Rows without privacy are read where the plan depends on them: for alpha, their scale, and the verdicts on
        private sources.
    note : str
        What it was planned for.
    """
    with located(str(file.path)):
        if _needs_public_rows(file):
            return _plan_from_public_rows(file), PUBLIC
        problem, note = problem_ahead(file)
        if any(entry.noise is not None and entry.noise.observed is not entry.noise for entry in file.sources):
            return plan_fit(file.described(), problem, file.settings), LABELS
        if _has_public(file) and file.settings.strategy == "auto" and file.shared is not None:
            note = UNREAD
        return plan_fit(file.described(), problem, file.settings), note


def _has_public(file: SourcesFile) -> bool:
    return any(entry.noise is not None and not entry.noise.private for entry in file.sources)


def _needs_public_rows(file: SourcesFile) -> bool:
    opened = all(
        entry.table is not None and entry.noise is not None and entry.noise.observed is entry.noise
        for entry in file.sources
    )
    return (
        opened
        and _has_public(file)
        and file.settings.strategy in ("auto", "anchored")
        and file.settings.steps_asked is None
    )


def _plan_from_public_rows(file: SourcesFile) -> Plan:
    """Read the rows of the sources without privacy, and plan with the others by their number alone."""
    from uneven.training.files import FileRows, declared_noises
    from uneven.training.grouping import group_pieces
    from uneven.training.labels import positive_classes
    from uneven.training.running import choose_alpha, decide
    from uneven.training.scan import scan_rows
    from uneven.training.trainer import begin  # now only: it needs a compiler

    noises = declared_noises(file)
    public = [entry for entry in file.sources if not noises[entry.name].private]
    private = [entry for entry in file.sources if noises[entry.name].private]
    rows = FileRows(replace(file, sources=tuple(public)))
    scan = scan_rows(rows)
    counts = {entry.name: scan.counts.get(entry.name, 0) for entry in public}
    counts |= {entry.name: entry.source.rows for entry in private}
    job = begin(rows, scan, group_pieces(counts, noises), file.settings)
    positives = positive_classes(scan.classes)
    return decide(choose_alpha(job, positives), positives, None).plan
