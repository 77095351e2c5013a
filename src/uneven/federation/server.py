"""The server: asks the sites one after the other, in the plan's order; after a crash it goes on where it was."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from uneven import checks
from uneven.anchor import Disagreement
from uneven.columns import columns_to_dict
from uneven.engine import State
from uneven.federation.anchors import (
    MOST_FEATURES,
    camps_from_dict,
    camps_to_dict,
    describe_found,
    move_summary,
    start_to_dict,
    summary_from_dict,
    summary_to_dict,
)
from uneven.federation.asking import SiteFailed, ask_anchor
from uneven.federation.calibrating import ask_lengths, ask_shares, finish_weights, leave_out, read_state
from uneven.federation.calls import Ask, Lost, reading
from uneven.federation.jobs import Job, Progress, load_progress, save_progress
from uneven.federation.messages import (
    digest,
    read_answer,
    read_description,
    read_message,
    state_from_dict,
    state_to_dict,
    write_message,
)
from uneven.federation.policy import MODES, Refused
from uneven.federation.segments import apply_answer, check_counts, check_segment
from uneven.io import SourcesFile
from uneven.planner import Plan
from uneven.training import (
    Camp,
    Model,
    choose_rivals,
    explain_no_anchor,
    group_pieces,
    join,
    mix,
    refuse_anchored,
    resume_state,
)

MOST_RESTARTS = 20
"""How often a site may be restarted during one step."""


@dataclass(frozen=True)
class Federated:
    """Result of a federated run: the model, the sites used, and those left out and why.

    `simulated` says that a site's noise had a seed.
    """

    model: Model
    state: State
    used: tuple[str, ...]
    left_out: Mapping[str, str]
    simulated: bool

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found on the way, in words."""
        return self.model.notes

    @property
    def plan(self) -> Plan:
        """The plan that was run."""
        assert self.model.plan is not None
        return self.model.plan


def federate(
    file: SourcesFile,
    ask: Ask,
    folder: Path,
    name: str = "uneven",
    mode: str = "relay",
    show: Callable[[Plan], None] = lambda _: None,
) -> Federated:
    """Run the plan of a ``sources.toml`` at the sites that its sources are named after.

    Parameters
    ----------
    file : SourcesFile
        Its sources need no data.
    ask : Ask
    folder : Path
        Where the job's progress is kept; a job that was broken off goes on.
    name : str
        Of the job, for the sites' policies.
    mode : {"relay", "oracle"}
    show : callable
        Given the plan, and with it what a row of each site is worth, before any site is asked for a row.

    Returns
    -------
    Federated
    """
    checks.one_of("mode", mode, MODES)
    _refuse_unfit(file)
    asked = digest(f"{file.path.read_text(encoding='utf-8')}\0{name}\0{mode}")
    progress = load_progress(folder, asked)
    if not progress.sites:
        progress = _describe(file, ask, progress, name, mode)
        progress = _ask_anchor(file, ask, progress, name, mode)
        save_progress(folder, progress)
    job = Job(file, progress, name, mode)
    show(job.plan)
    for found in _ask_sites(job, ask, progress):
        save_progress(folder, progress := found)
    return _result(job, progress)


def _refuse_unfit(file: SourcesFile) -> None:
    """Refuse what sites cannot do, before any is asked."""
    settings = file.settings
    if settings.pass_count != 1 or settings.line_search:
        raise ValueError("passes must be 1 and line_search 0 where rows stay at their sites: each is released once")
    if settings.sketch is not None:
        raise ValueError(f"sketch must be left out where rows stay at their sites, got {settings.sketch!r}")
    if settings.classes is not None and len(settings.classes) != 2:
        raise ValueError(f"classes must be two where rows stay at their sites, got {len(settings.classes)}")
    for name in ("class_weight", "threshold"):
        if (given := getattr(settings, name)) is not None:
            raise ValueError(f"{name} must be left out where rows stay at their sites, got {given!r}")
    for entry in file.sources:
        if entry.noise is None:
            raise ValueError(f"noise of source {entry.name!r} must be stated for all its rows, got none")
        if entry.noise.private and not entry.noise.protects_features:
            raise ValueError(f"noise of source {entry.name!r} must protect features too, got {entry.noise.kind!r}")


# Who takes part


def _describe(file: SourcesFile, ask: Ask, progress: Progress, name: str, mode: str) -> Progress:
    """Ask every site what it has; those that do not answer or refuse are left out, before any row is spent."""
    sites: dict[str, dict[str, Any]] = {}
    left_out: dict[str, str] = {}
    for entry in file.sources:
        ask.tell(entry.name, "described", 0, 0)
        try:
            reply = ask(entry.name, {"kind": "describe", "name": name, "mode": mode})
            with reading(entry.name):
                sites[entry.name] = read_description(reply)
        except (Refused, OSError) as reason:
            left_out[entry.name] = str(reason)
    left_out |= (unfit := _find_unfit(file, sites))
    sites = {site: described for site, described in sites.items() if site not in unfit}
    if not sites:
        raise ConnectionError(f"no site takes part: {'; '.join(left_out.values())}; no row was spent")
    _refuse_lost_anchor(file, mode, sites, unfit)
    return replace(progress, sites=sites, left_out=left_out)


def _find_unfit(file: SourcesFile, sites: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """Sites with other rows, columns, classes, row norm or protection than the rest, and why they are left out."""
    noises = {entry.name: entry.noise for entry in file.sources if entry.noise is not None}
    stated = file.settings.row_norm
    if isinstance(stated, str) and not any(noise.private for noise in noises.values()):
        raise ValueError(f"row_norm must be a number where rows stay at their sites, got {stated!r}")
    expected = {
        "features": _held_by_most("features", sites) if file.feature_names is None else list(file.feature_names),
        "columns": None if file.columns is None else columns_to_dict(file.columns),
        "classes": _held_by_most("classes", sites) if file.settings.classes is None else list(file.settings.classes),
        "row_norm": 1.0 if isinstance(stated, str) else float(stated),
    }
    unfit, stated_rows = {}, {entry.name: entry.stated_rows for entry in file.sources}
    for site, described in sites.items():
        if stated_rows[site] not in (None, described["rows"]):
            unfit[site] = f"its rows must be {stated_rows[site]:,} as sources.toml says, got {described['rows']:,}"
        asked, allowed = noises[site].epsilon_per_row, described["epsilon"]
        for key in (key for key in expected if described[key] != expected[key]):
            unfit[site] = f"its {key} must be {checks.shown(expected[key])}, got {checks.shown(described[key])}"
        if allowed is not None and (asked is None or asked > allowed * (1.0 + 1e-9)):
            wanted = "no privacy" if asked is None else f"ε = {asked:g}"
            unfit[site] = f"it allows ε = {allowed:g} for one release of a row, and the plan asks for {wanted}"
    return unfit


def _held_by_most(key: str, sites: Mapping[str, dict[str, Any]]) -> Any:
    """What most sites say of themselves; refused where that is not one thing."""
    counts = Counter(write_message({key: described[key]}) for described in sites.values()).most_common(2)
    if len(counts) == 2 and counts[0][1] == counts[1][1]:
        raise ValueError(f"{key} must be stated in sources.toml, since sites do not agree on it; no row was spent")
    return read_message(counts[0][0])[key] if counts else None


def _refuse_lost_anchor(
    file: SourcesFile, mode: str, sites: Mapping[str, dict[str, Any]], unfit: Mapping[str, str]
) -> None:
    """Refuse to spend private rows without the anchor that was planned, where a mistake alone is in its way."""
    public = [entry.name for entry in file.sources if entry.noise is not None and not entry.noise.private]
    lost = [site for site in public if site in unfit]
    if lost and mode == "relay" and file.settings.public_first and not set(public) & set(sites):
        raise ValueError(f"{lost[0]!r} must fit to be the anchor of the others: {unfit[lost[0]]}; no row was spent")


def _ask_anchor(file: SourcesFile, ask: Ask, progress: Progress, name: str, mode: str) -> Progress:
    """Ask the site without privacy, where there is one beside private ones, for what those are added to."""
    job = Job(file, progress, name, mode)
    public = [one for one, noise in job.noises.items() if not noise.private]
    groups = group_pieces({one: int(progress.sites[one]["rows"]) for one in job.noises}, job.noises)
    why = explain_no_anchor(job.settings, groups.noises, 1, sparse=False)
    if job.problem.n_features > MOST_FEATURES + 1:
        why = why or f"an anchor must have at most {MOST_FEATURES} columns to be sent"
    if not job.settings.public_first or mode != "relay" or why is not None:
        refuse_anchored(job.settings, why, "sites")
        if job.settings.public_first and why is None:
            listed = ", ".join(map(repr, public))
            raise ValueError(
                f"mode must be 'relay' where rows without privacy, of {listed}, are the anchor of private ones, got "
                f"{mode!r}; strategy = 'precision' goes without an anchor"
            )
        return progress
    lead = max(public, key=lambda one: int(progress.sites[one]["rows"]))
    try:
        reply = ask_anchor(job, ask, lead, public)
        with reading(lead):
            summary_from_dict(reply["summary"], job.problem.n_features)
            found = replace(progress, anchor=reply)
            Job(file, found, name, mode)
    except (Refused, OSError, SiteFailed) as reason:
        site, why = reason.args if isinstance(reason, SiteFailed) else (lead, str(reason))
        rest = {one: said for one, said in progress.sites.items() if one != site}
        left_out = {**progress.left_out, site: why}
        return _ask_anchor(file, ask, replace(progress, sites=rest, left_out=left_out), name, mode)
    return found


# The run


def _ask_sites(job: Job, ask: Ask, progress: Progress) -> Iterator[Progress]:
    """Progress after each site: for the shares of the classes, then for its steps, then for the length."""
    shares, steps = job.phases
    for place in range(progress.next, shares + steps):
        if place < shares:
            progress = ask_shares(job, ask, progress, job.asked[place])
        else:
            progress = _segment(job, ask, progress, place - shares)
        progress = replace(progress, next=place + 1)
        yield progress
    yield from ask_lengths(job, ask, progress)


def _segment(job: Job, ask: Ask, progress: Progress, number: int) -> Progress:
    """Progress after one segment; a site that refuses or does not return is left out."""
    (site,) = job.plan.segments[number].sources
    if site in progress.left_out:
        return progress
    state = read_state(job, progress)
    ask.tell(site, "asked", 0, int(progress.sites[site]["rows"]))
    try:
        if job.anchor is not None:
            return _add(job, ask, progress, number, state)
        after = (_relay if job.mode == "relay" else _oracle)(job, ask, site, number, state)
    except (Refused, OSError) as reason:
        ask.tell(site, "left out", 0, 0)
        return leave_out(progress, site, reason)
    ask.tell(site, "done", int(progress.sites[site]["rows"]), int(progress.sites[site]["rows"]))
    return replace(progress, state=state_to_dict(after))


def _add(job: Job, ask: Ask, progress: Progress, number: int, state: State) -> Progress:
    """Progress after a site has added its rows to the anchor."""
    assert progress.anchor is not None
    (site,), d = job.plan.segments[number].sources, job.problem.n_features
    rows = {source.name: source.rows for source in job.sources}
    camps = _camps(job, progress)
    rivals = choose_rivals(camps)
    others = [start_to_dict(camps[place].summary) for place in rivals[1:]]
    sent = {"anchor": summary_to_dict(camps[0].summary), "others": others, "state": state_to_dict(state)}
    reply = ask(site, {**job.request_adding(number), **sent})
    with reading(site):
        place = checks.whole("place", reply["added"]["place"], 0, len(rivals))
        moved = move_summary(camps[0].summary, reply["added"], job.problem.class_weights)
        camps = join(camps, [*rivals, len(camps)][place], Camp(moved, rows[site]))
        said = reply["added"]["disagreement"]
        keys = ("statistic", "p_value", "variance")
        found = Disagreement(**{key: checks.not_negative(key, said[key], 1e300) for key in keys})
        after = state_from_dict(reply["state"], d)
        check_counts(state, after, site, rows[site])
        _checked_state(resume_state(after, mix(camps))[0])
    ask.tell(site, "done", rows[site], rows[site])
    return replace(
        progress,
        state=state_to_dict(after),
        anchor={**progress.anchor, **camps_to_dict(camps)},
        disagreements={**progress.disagreements, site: vars(found)},
    )


def _camps(job: Job, progress: Progress) -> list[Camp]:
    """What the sites say so far."""
    assert progress.anchor is not None
    public = [one.rows for one in job.sources if one.name in job.plan.converged and one.name not in progress.left_out]
    return camps_from_dict(progress.anchor, job.problem.n_features, sum(public))


def _relay(job: Job, ask: Ask, site: str, number: int, state: State) -> State:
    reply = ask(site, {**job.request(number), "state": state_to_dict(state)})
    with reading(site):
        after = state_from_dict(reply["state"], len(state.weights))
        return _checked_state(check_segment(state, after, job.tasks[number], job.plan.segments[number].rows))


def _checked_state(state: State) -> State:
    """The state as it can be sent on, with a finite answer."""
    if not np.isfinite(state.answer).all():
        raise ValueError("state must have a finite answer, got another")
    return state_from_dict(state_to_dict(state), len(state.weights))


def _oracle(job: Job, ask: Ask, site: str, number: int, state: State) -> State:
    """Step by step; what goes wrong after the rows were charged loses the site."""
    ask(site, job.request(number))
    try:
        return _steps(job, ask, site, number, state)
    except Refused as reason:
        raise Lost(str(reason)) from None


def _steps(job: Job, ask: Ask, site: str, number: int, state: State) -> State:
    task, rows = job.tasks[number], job.plan.segments[number].rows
    for step in range(job.plan.segments[number].steps):
        request = {
            "kind": "step",
            "job": job.id,
            "number": number,
            "step": step,
            "weights": state.weights.tolist(),
        }
        answer = _ask_step(job, ask, site, number, request)
        if "finished" in answer:  # its machine was restarted, and batches that may have been used are passed over
            break
        with reading(site):
            size = task.problem.batch_size
            found = read_answer(answer, len(state.weights), (size, rows % size) if rows % size else (size,))
            state = _checked_state(apply_answer(state, task, found))
        ask.tell(site, "at work", min((step + 1) * job.plan.problem.batch_size, rows), rows)
    return state


def _ask_step(job: Job, ask: Ask, site: str, number: int, request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer to a step; a site that was restarted in between is told again what the steps are for."""
    for _ in range(MOST_RESTARTS):
        if "closed" not in (answer := ask(site, request)):
            return answer
        ask(site, job.request(number))
    raise Lost(f"{site!r} forgot what a step is for {MOST_RESTARTS} times")


def _result(job: Job, progress: Progress) -> Federated:
    state, notes = read_state(job, progress), tuple[str, ...]()
    if progress.anchor is not None:
        state, _ = resume_state(state, mix(_camps(job, progress)))
        weights = state.answer
    elif progress.state is None:
        raise ConnectionError(f"no site took part: {'; '.join(progress.left_out.values())}")
    else:
        weights, notes = finish_weights(job, progress)
    used = tuple(name for name in job.plan.order if name not in progress.left_out)
    coef, intercept = job.scale.coefficients(np.array(weights))
    simulated = any(progress.sites[name]["simulated"] for name in used)
    model = Model(
        classes=np.array(job.classes),
        coef=coef[None],
        intercept=np.array([intercept]),
        settings=job.settings,
        noise=job.noises,
        scale=job.scale,
        plan=job.plan,
        alpha=job.alpha,
        privacy_spent={
            name: math.inf if progress.sites[name]["simulated"] else epsilon
            for name in job.plan.order
            if (name in used or name in progress.charged) and (epsilon := job.noises[name].epsilon_per_row) is not None
        },
        feature_names=job.names,
        columns=job.file.columns,
        simulated=simulated,
        notes=(*notes, *describe_found(progress.disagreements), *progress.notes),
    )
    return Federated(model, state, used, dict(progress.left_out), simulated)
