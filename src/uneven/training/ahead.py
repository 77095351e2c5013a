"""The plan that a fit of a ``sources.toml`` will run, before any ε is spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from uneven.anchor.classes import ClassAnchor
from uneven.anchor.uncertainty import Anchor
from uneven.io import SourcesFile
from uneven.io.refusals import located
from uneven.planner import Plan
from uneven.problem import Problem
from uneven.training.planning import keep_rows, plan_fit, problem_ahead
from uneven.training.rows import Piece

if TYPE_CHECKING:
    from uneven.training.files import FileRows
    from uneven.training.job import Job

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
            job, targets = _public_job(file, {source.name: source.rows for source in file.described()})
            from uneven.training.running import decide  # now only: it needs a compiler

            return decide(job, targets, None).plan, PUBLIC
        sources = file.described()
        problem, note = problem_ahead(file, sources)
        if _has_private_labels(file):
            note = LABELS
        elif _has_public(file) and file.settings.strategy == "auto" and file.shared is not None:
            note = UNREAD
        return keep_rows(plan_fit(sources, problem, file.settings), file.settings), note


def anchor_ahead(file: SourcesFile) -> tuple[Anchor | ClassAnchor, Problem] | None:
    """What the owned rows without privacy say to a valuation, and the problem; None where nothing can be anchored.

    Parameters
    ----------
    file : SourcesFile
        Sources with a price are not owned: none of their rows are read.

    Returns
    -------
    (Anchor, Problem) or None
    """
    owned = tuple(entry for entry in file.sources if entry.price is None and entry.prices is None)
    readable = tuple(entry for entry in owned if not (entry.noise is None or entry.noise.private))
    if not readable or not _needs_public_rows(replace(file, sources=readable)):
        return None
    counts = {entry.name: entry.source.rows if entry in owned else 1 for entry in file.sources}
    from uneven.training.anchoring import fit_public, refuse_anchor  # now only: they need a compiler

    job, targets = _public_job(file, counts, tuple(entry.name for entry in readable))
    if refuse_anchor(job.settings, job.groups, len(targets), job.scan.sparse) is not None:
        return None
    return fit_public(job, [entry.name for entry in readable], targets[0]), job.problem


def _has_public(file: SourcesFile) -> bool:
    return any(entry.noise is not None and not entry.noise.private for entry in file.sources)


def _has_private_labels(file: SourcesFile) -> bool:
    noises = [entry.noise for entry in file.sources if entry.noise is not None]
    return any(noise.private and not noise.protects_features for noise in noises)


def _needs_public_rows(file: SourcesFile) -> bool:
    opened = file.shared is not None or all(entry.table is not None for entry in file.sources)
    return (
        opened
        and all(entry.noise is not None for entry in file.sources)
        and _has_public(file)
        and not _has_private_labels(file)
        and file.settings.strategy in ("auto", "anchored")
        and file.settings.steps_asked is None
    )


def _public_job(file: SourcesFile, counts: Mapping[str, int], names: tuple[str, ...] | None = None) -> tuple[Job, Any]:
    """Job of the rows without privacy with alpha chosen, and its classes; of other sources, only their number is known.

    `names` are the sources that are read; None for all without privacy.
    """
    from uneven.training.files import FileRows, declared_noises
    from uneven.training.grouping import group_pieces
    from uneven.training.labels import learning_targets
    from uneven.training.running import choose_alpha
    from uneven.training.scan import scan_rows
    from uneven.training.trainer import begin  # now only: it needs a compiler

    noises = declared_noises(file)
    public = tuple(name for name, noise in noises.items() if not noise.private) if names is None else names
    order = [*public, *(name for name in noises if name not in public)]
    rows = _Selected(FileRows(file), public)
    scan = scan_rows(rows)
    known = {name: scan.counts.get(name, 0) if name in public else counts[name] for name in order}
    job = begin(rows, scan, group_pieces(known, noises), file.settings)
    targets = learning_targets(scan.classes, file.settings)
    return choose_alpha(job, targets), targets


@dataclass(frozen=True)
class _Selected:
    """Rows of some sources, one source after the other, from files that may have rows of others too."""

    rows: FileRows
    names: tuple[str, ...]

    @property
    def n_features(self) -> int:
        return self.rows.n_features

    def pieces(self, checked: bool = True, only: str | None = None) -> Iterator[Piece]:
        for name in self.names if only is None else (only,):
            for piece in self.rows.pieces(checked, name):
                if isinstance(piece.source, str):
                    yield piece
                elif (mine := piece.source == name).any():
                    yield Piece(piece.X[mine], piece.y[mine], name, where=piece.where)
