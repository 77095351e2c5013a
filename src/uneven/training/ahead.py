"""The plan that a fit of a ``sources.toml`` will run, before any ε is spent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uneven.anchor import Anchor, ClassAnchor
from uneven.io import SourceEntry, SourcesFile, located, read_levels
from uneven.noise import Exact
from uneven.planner import Plan, Source, declare_noises
from uneven.problem import Problem
from uneven.redaction import redacted
from uneven.training.labels import PUBLIC as STATED
from uneven.training.notes import (
    AS_RUN,
    BALANCED,
    COMPARED,
    CONVERGED,
    ESTIMATED,
    LABELS,
    OFFERED,
    PUBLIC,
    RAN,
    RELEASED,
    TOLD,
    UNJUDGED,
    UNREAD,
    UNRELEASED,
)
from uneven.training.planning import (
    expect_problem,
    find_void,
    keep_rows,
    plan_released,
    plan_steps,
    refuse_file,
    uses_scale_of_rows,
    with_known_rates,
)
from uneven.training.refusals import explain_no_start, find_cost, find_unknown, refuse_costs
from uneven.training.rows import SelectedRows

if TYPE_CHECKING:
    from uneven.training.grouping import Grouped
    from uneven.training.job import Job


def plan_ahead(file: SourcesFile) -> tuple[Plan, str]:
    """The plan that a fit would run, and a note on what was planned for.

    Parameters
    ----------
    file : SourcesFile

    Returns
    -------
    plan : Plan
        Rows without privacy are read: alpha, their scale, their classes and the verdicts on private sources may depend
        on them.
    note : str
        What it was planned for.
    """
    with located(str(file.path)), redacted(file.settings.redact):
        _refuse_text_labels(file)
        if (reads := _list_public(file) and _is_opened(file)) and not _has_private_labels(file):
            job, targets = _public_job(file)
            from uneven.training.running import decide  # now only: it needs a compiler

            decided = decide(job, targets, None)
            _refuse_spending(file, decided.plan.sources, job.groups.owners, decided.plan.order, decided.times)
            return decided.plan, ". ".join(filter(None, (PUBLIC, job.sketched.rstrip("."))))
        if reads and file.settings.public_first and not _find_unknown(file):
            return _plan_labels(file)
        sources, owners = _describe_sources(file)
        problem, note = expect_problem(file, sources)
        seen = [replace(one, noise=one.noise.observed_among(problem.classes)) for one in with_known_rates(sources)]
        released = plan_released(seen, problem, file.settings) if _has_labels_alone(file) else None
        planned = released or keep_rows(plan_steps(seen, problem, file.settings), file.settings)
        planned = declare_noises(planned, {one.name: one.noise for one in sources})
        _refuse_spending(file, planned.sources, owners, planned.order, file.settings.pass_count)
        return planned, _add_caveat(file, note)


def _plan_labels(file: SourcesFile) -> tuple[Plan, str]:
    """The plan of sources with private labels beside rows without privacy, which alone are read."""
    from uneven.training.label_worth import decide_ahead  # now only: it needs a compiler

    job, targets = _public_job(file, names=(names := _list_public(file)))
    read = _list_levels(job.groups, names)
    labels = [name for name, noise in job.groups.noises.items() if not noise.private and name not in read]
    decided = decide_ahead(job, targets, labels)
    plan = declare_noises(decided.plan, {one.name: one.noise for one in _describe_sources(file)[0]})
    _refuse_spending(file, plan.sources, job.groups.owners, plan.order, decided.times)
    balanced = UNRELEASED if file.settings.class_weight == "balanced" else ""
    return plan, ". ".join(one.rstrip(".") for one in (RELEASED, job.sketched, balanced) if one)


def _refuse_spending(
    file: SourcesFile, sources: Iterable[Source], owners: Mapping[str, str], used: Collection[str], times: int
) -> None:
    """Refuse a budget below what a row would spend in a fit that uses these of the sources.

    Where labels are private all count: labels are released before it is known which sources are used. Rows that tell
    their own ε are charged under the name of their source, `owners`.
    """
    early = _has_private_labels(file)
    charged = [one for one in sources if early or one.name in used]
    refuse_costs([(owners[one.name], find_cost(one.noise, times)) for one in charged], file.settings.budget)


def _add_caveat(file: SourcesFile, note: str) -> str:
    """The note of a plan made without reading rows, beside or in place of what it was planned for."""
    settings = file.settings
    found = (
        _find_caveat(file),
        BALANCED if settings.class_weight == "balanced" else "",
        ESTIMATED if _find_unknown(file) else "",
        COMPARED if settings.line_search and all(one.private for one in file.sources) else "",
    )
    said = list(filter(None, found))
    if not said or uses_scale_of_rows(file):
        said.append(note)
    said = [*(one.replace(RAN, "") for one in said[:-1]), said[-1]]
    return ". ".join([said[0], *(f"{one[0].upper()}{one[1:]}" for one in said[1:])])


def _find_unknown(file: SourcesFile) -> list[str]:
    return find_unknown({one.name: one.noise for one in file.sources if one.noise is not None})


def _find_caveat(file: SourcesFile) -> str:
    """Why a fit may run another plan than one made without reading rows; empty where it will not."""
    if any(entry.noise is None and not _has_rows(file, entry) for entry in file.sources):
        return TOLD
    if _has_private_labels(file) and file.settings.public_first:
        return UNJUDGED if _has_labels_alone(file) else LABELS
    return UNREAD if _converges(file) and _list_public(file) and not _is_opened(file) else ""


def _converges(file: SourcesFile) -> bool:
    """Whether a fit learns rows without privacy to convergence, where it can."""
    return file.settings.public_first and file.settings.steps_asked is None


@dataclass(frozen=True)
class Valued:
    """What a valuation starts from: sources, the problem that a fit of them solves, and what their rows say.

    Attributes
    ----------
    sources : list of Source
        With noises as the learner gets them: flip rates as estimated, activities for as many classes as there are.
    problem : Problem
    anchor : Anchor, ClassAnchor or None
        Of the owned rows without privacy, where a fit would add private ones to them.
    notes : tuple of str
        What to know of figures that do not come from rows.
    """

    sources: list[Source]
    problem: Problem
    anchor: Anchor | ClassAnchor | None
    notes: tuple[str, ...]


def value_ahead(file: SourcesFile) -> Valued:
    """The problem that a fit of the owned sources would solve, and what their rows without privacy say to a valuation.

    Parameters
    ----------
    file : SourcesFile
        Sources with a price are not owned: none of their rows are read.

    Returns
    -------
    Valued
    """
    _refuse_text_labels(file)
    (sources, owners), mine = _describe_sources(file), [one.name for one in file.sources if not one.on_offer]
    owned = [one.name for one in sources if owners[one.name] in mine]
    readable = tuple(one for one in file.sources if one.name in mine and not one.private)
    if not (readable and _is_opened(replace(file, sources=readable))):
        return _value_unread(file, sources, owners, owned)
    from uneven.training.anchoring import fit_public, settle  # now only: they need a compiler
    from uneven.training.convergence import can_converge, describe_harmful
    from uneven.training.label_worth import expect_anchor
    from uneven.training.running import decide_anchored

    _refuse_unread_rates([one for one in sources if one.name not in owned])
    settings, counts = file.settings, {one.name: one.rows if one.name in mine else 1 for one in file.described()}
    job, targets = _public_job(file, counts, [one.name for one in readable])
    read = _list_levels(job.groups, [one.name for one in readable])
    told, sources = (
        sources,
        [
            replace(one, noise=job.groups.noises.get(one.name, one.noise))
            for one in sources
            if one.name not in job.harmful
        ],
    )
    labels = [one.name for one in sources if one.name in owned and not one.noise.private and one.name not in read]
    balanced = settings.class_weight == "balanced" and _has_private_labels(file)
    harmful = describe_harmful(list(job.harmful))
    notes = (*harmful, *_note_alpha(job, sources, owned), *([UNRELEASED] if balanced else []))
    by_steps = settings.steps_asked is not None or not settings.public_first
    if not by_steps and explain_no_start(settings, job.groups.noises, len(targets), job.scan.sparse) is None:
        used = [one.name for one in sources if one.name not in owned]
        if job.groups.any_private and not used:
            job, prepared = settle(job, targets[0], expect_anchor(job, targets[0], labels) if labels else None)
            anchor, used = prepared.anchor, list(prepared.order)
        else:
            anchor = expect_anchor(job, targets[0], labels) if labels else fit_public(job, read, targets[0])
            if settings.budget is not None and job.groups.any_private:
                used += decide_anchored(job, targets[0], anchor).plan.order
        _refuse_spending(file, told, owners, used, 1)
        return Valued(sources, job.problem, anchor, notes)
    _refuse_spending(file, told, owners, plan_steps(sources, job.problem, settings).order, settings.pass_count)
    run = _note_run(file, [one for one in sources if one.name in owned], job.problem)
    run = (CONVERGED,) if can_converge(settings, job.groups) else run
    return Valued(sources, job.problem, None, (*notes, *run))


def _value_unread(file: SourcesFile, sources: list[Source], owners: dict[str, str], owned: list[str]) -> Valued:
    """What a valuation starts from where no row without privacy is owned, or none is there to be read."""
    problem, note = expect_problem(file, sources)
    sources = with_known_rates(sources)
    used = plan_steps(sources, problem, file.settings).order
    _refuse_spending(file, sources, owners, used, file.settings.pass_count)
    run = _note_run(file, [one for one in sources if one.name in owned], problem)
    note = _add_caveat(file, note)
    if _list_public(file) and _converges(file):
        note = note.replace(AS_RUN, OFFERED)
    return Valued(sources, problem, None, (f"{note[0].upper()}{note[1:]}.", *run))


def _note_alpha(job: Job, sources: list[Source], owned: Collection[str]) -> tuple[str, ...]:
    """That a fit chooses alpha by all its rows, where it was chosen and rows are on offer."""
    if job.alpha is None or len(owned) == len(sources):
        return ()
    return (
        f"All figures are for alpha = {job.alpha:.4g}, chosen by the owned rows without privacy. 'uneven fit' "
        "chooses it again for the rows that it uses.",
    )


def _refuse_unread_rates(offered: list[Source]) -> None:
    for name in find_unknown({one.name: one.noise for one in offered}):
        raise ValueError(
            f"source {name!r}: rate must be a number for rows on offer, which are not read; got 'estimate'"
        )


def _note_run(file: SourcesFile, sources: list[Source], problem: Problem) -> tuple[str, ...]:
    """Why a fit of these sources by steps has no bound, though one pass over all their rows has."""
    if not sources:
        return ()
    plan = keep_rows(plan_steps(sources, problem, file.settings), file.settings)
    why = find_void(plan, file.settings) or (plan.void if plan.kept else "")
    return (f"Figures are those of one pass over all rows, and no theorem covers the fit: {why}",) if why else ()


def _refuse_text_labels(file: SourcesFile) -> None:
    """Refuse labels of text that nobody stated where rows are private, as a fit does; no label is looked at."""
    if file.settings.classes is not None:
        return
    tables = (entry.table or file.shared for entry in file.sources if entry.private)
    if any(table.has_text_labels(file.label) for table in tables if table is not None):
        raise ValueError(STATED)


def _list_public(file: SourcesFile) -> list[str]:
    return [entry.name for entry in file.sources if not entry.private]


def _has_private_labels(file: SourcesFile) -> bool:
    return any(one.noise.private and not one.noise.protects_features for one in file.sources if one.noise is not None)


def _has_labels_alone(file: SourcesFile) -> bool:
    """Whether the labels of every source are private, and no features."""
    return all(entry.private and not entry.hidden for entry in file.sources)


def _is_opened(file: SourcesFile) -> bool:
    return all(_has_rows(file, entry) for entry in file.sources)


def _has_rows(file: SourcesFile, entry: SourceEntry) -> bool:
    return file.shared is not None or entry.table is not None


def _describe_sources(file: SourcesFile) -> tuple[list[Source], dict[str, str]]:
    """The sources as planned with, and the name in the file of each.

    Those whose rows have their own noise are one for each level of it, where there are rows to tell it.
    """
    sources = file.described()
    if not any(entry.noise is None and _has_rows(file, entry) for entry in file.sources):
        return sources, {one.name: one.name for one in sources}
    groups = _group_told(file, {one.name: one.rows for one in sources})
    prices = {one.name: one.price for one in sources}
    found = zip(groups.noises.items(), groups.counts.tolist(), groups.charged_to, strict=True)
    return [Source(name, rows, noise, prices[origin]) for (name, noise), rows, origin in found], groups.owners


def _list_levels(groups: Grouped, names: Collection[str]) -> list[str]:
    """Sources of these names in the file, with each level of noise that their rows tell."""
    return [name for name, owner in groups.owners.items() if owner in names]


def _group_told(file: SourcesFile, counts: Mapping[str, int]) -> Grouped:
    """Rows, source after source, by the noise that they tell, which is public; nothing else of them is read.

    `counts` are how many rows of each source to take, its first ones; rows that are not there tell of no noise.
    """
    from uneven.training.grouping import group_rows  # now only: it needs a compiler

    entries, parts = {entry.name: entry for entry in file.sources}, []
    noises = {name: one.noise or Exact() for name, one in entries.items() if one.noise or not _has_rows(file, one)}
    for name, rows in counts.items():
        levels = {key: np.full(rows, np.nan) for key in ("epsilon", "flip_rate")}
        for key, column in entries[name].columns.items():
            if key in levels and _has_rows(file, entries[name]):
                levels[key] = _read_column(file, entries[name], column)[:rows]
        parts.append({"source": np.full(rows, name), **levels})
    found = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    told = {key: level for key, level in found.items() if key == "source" or not np.isnan(level).all()}
    return group_rows(len(found["source"]), noises, **told, mechanism=file.settings.mechanism)


def _read_column(file: SourcesFile, entry: SourceEntry, column: str) -> NDArray[np.float64]:
    """A column of one source's rows as numbers."""
    table, names, parts, first = entry.table or file.shared, file.source_column, [], 0
    assert table is not None
    for said in table.cells([column] if names is None else [column, names]):
        cells = np.asarray(said[column])
        mine = np.arange(len(cells))
        if names is not None:
            mine = np.flatnonzero(np.asarray(said[names]).astype(str) == entry.name)
        parts.append(read_levels(table.path, column, cells[mine], (first + mine).tolist()))
        first += len(cells)
    return np.concatenate(parts)


def _public_job(
    file: SourcesFile, counts: Mapping[str, int] | None = None, names: Collection[str] | None = None
) -> tuple[Job, Any]:
    """Job of the rows without privacy, and its classes; of other sources, only their number and noise are known.

    `counts` are those of the sources that are not read, None to count them; `names` those that are, None for all
    without privacy.
    """
    from uneven.training.files import FileRows, list_declared_noises
    from uneven.training.grouping import Grouped
    from uneven.training.labels import list_targets, read_classes
    from uneven.training.preparation import group_scanned, prepare  # now only: they need a compiler
    from uneven.training.scaling import list_bounds
    from uneven.training.scan import scan_rows

    settings, noises, read = file.settings, list_declared_noises(file), _list_public(file) if names is None else names
    rows = FileRows(file) if len(read) == len(file.sources) else SelectedRows(FileRows(file), tuple(read))
    unread = any(entry.private for entry in file.sources)
    scan = scan_rows(rows, list_bounds(settings.row_norm), read_classes(settings.classes), unread=unread)
    if len(read) == len(file.sources):
        groups = group_scanned(scan, noises or None, settings)
        refuse_file(file, groups.noises, scan.classes)
        return prepare(rows, scan, groups, settings), list_targets(scan.classes, settings)
    known = {one.name: one.rows for one in file.described()} if counts is None else counts
    if any(entry.noise is None for entry in file.sources):
        groups = _group_told(file, {**{str(name): count for name, count in scan.counts.items()}, **known})
        groups = replace(groups, index=groups.index if groups.index is None else groups.index[: scan.rows])
    else:
        order = list(noises)
        found = [scan.counts.get(name, 0) if name in read else known[name] for name in order]
        index = np.repeat([order.index(str(name)) for name in scan.counts], list(scan.counts.values()))
        groups = Grouped(noises, np.array(found), index, tuple(order))
    refuse_file(file, groups.noises, scan.classes)
    here = None if names is None else _list_levels(groups, names)
    return prepare(rows, scan, groups, settings, here=here), list_targets(scan.classes, settings)
