"""The server: asks the sites one after the other, in the plan's order, and keeps what it needs to go on after a crash.

`call` sends a request to a site and returns its reply; it raises an OSError (such as TimeoutError) where none came.
Nothing here knows how.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from uneven import checks
from uneven.columns import plain_columns
from uneven.engine import State, Task, initial_state, tasks_of
from uneven.federation.messages import (
    digest,
    read_message,
    state_from_dict,
    state_to_dict,
    task_to_dict,
    write_message,
)
from uneven.federation.policy import MODES, Refused
from uneven.federation.segments import apply_answer
from uneven.io import SourcesFile, write_text_atomically
from uneven.planner import Plan, void_bound
from uneven.settings import Settings
from uneven.training.model import Model
from uneven.training.planning import describe_sources, plan_fit, scaled_problem
from uneven.training.running import find_void
from uneven.training.scaling import Scale, stated_scale

Call = Callable[[str, str], str]
Tell = Callable[[str, str, int, int], None]
"""Told of a site: its name, what it does, how many of its rows are done, and how many there are."""

PAUSES = (0.005, 0.5)
"""Seconds between two requests to a site that is busy or away: the first pause, and the longest."""


def no_tell(_site: str, _what: str, _done: int, _of: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Ask:
    """How a server asks: by which call, how long it waits for a site that is away, and whom it tells of progress."""

    call: Call
    patience: float = 60.0
    tell: Tell = no_tell

    def __call__(self, site: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Reply of a site; asked again while it is away or still at work.

        Raises
        ------
        Refused
            Where the site says no, or cannot answer.
        TimeoutError
            Where it was away for longer than the patience.
        """
        text, pause, since = write_message(request), PAUSES[0], time.monotonic()
        while True:
            try:
                answer = self.call(site, text)
            except OSError:
                if time.monotonic() - since > self.patience:
                    raise TimeoutError(f"no answer from {site!r} for {self.patience:g} s") from None
            else:
                reply = _accepted(site, answer)
                if "working" not in reply:
                    return reply
                since = time.monotonic()
                self.tell(site, "at work", int(reply["working"]["rows"]), int(reply["working"]["of"]))
            time.sleep(pause)
            pause = min(2.0 * pause, PAUSES[1])


def _accepted(site: str, answer: str) -> dict[str, Any]:
    try:
        reply = read_message(answer)
    except ValueError:
        raise Refused(f"{site!r} sent something that is no message") from None
    for key in ("refused", "failed"):
        if key in reply:
            raise Refused(f"{site!r} {key}: {reply[key]}")
    return reply


@dataclass(frozen=True)
class Progress:
    """How far a job is: everything that the server needs to go on.

    Attributes
    ----------
    job : str
        Its id, by which sites know a repeated request.
    asked : str
        Digest of what was asked for: a job goes on only with the same.
    sites : dict
        What each site in the plan said of itself.
    left_out : dict
        Sites that are not in the result, and why.
    next : int
        Number of the segment to ask for next.
    state : dict or None
        Where the run stands; None before the first segment.
    """

    job: str
    asked: str
    sites: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    next: int = 0
    state: dict[str, Any] | None = None


@dataclass(frozen=True)
class Federated:
    """What a federated run came to: the model, the sites used, those left out and why, and whether noise had a seed."""

    model: Model
    state: State
    used: tuple[str, ...]
    left_out: Mapping[str, str]
    simulated: bool

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
    progress = _load(folder, asked)
    if not progress.sites:
        progress = _describe(file, ask, progress, name, mode)
        _save(folder, progress)
    job = _Job(file, progress, name, mode)
    show(job.plan)
    for number in range(progress.next, len(job.plan.segments)):
        progress = _segment(job, ask, progress, number)
        _save(folder, progress)
    return _result(job, progress)


def _refuse_unfit(file: SourcesFile) -> None:
    """Refuse what sites cannot do, before any is asked."""
    settings = file.settings
    if settings.pass_count != 1 or settings.line_search:
        raise ValueError("passes must be 1 and line_search 0 where rows stay at their sites: each is released once")
    for entry in file.sources:
        if entry.noise is None:
            raise ValueError(f"noise of source {entry.name!r} must be stated for all its rows, got none")


# Who takes part


def _describe(file: SourcesFile, ask: Ask, progress: Progress, name: str, mode: str) -> Progress:
    """Ask every site what it has; those that do not answer or refuse are left out, before any row is spent."""
    sites: dict[str, dict[str, Any]] = {}
    left_out: dict[str, str] = {}
    for entry in file.sources:
        ask.tell(entry.name, "described", 0, 0)
        try:
            sites[entry.name] = ask(entry.name, {"kind": "describe", "name": name, "mode": mode})
        except (Refused, OSError) as reason:
            left_out[entry.name] = str(reason)
    if not sites:
        raise ConnectionError(f"no site takes part: {'; '.join(left_out.values())}")
    _refuse_disagreement(file, sites)
    return replace(progress, sites=sites, left_out=left_out)


def _refuse_disagreement(file: SourcesFile, sites: Mapping[str, dict[str, Any]]) -> None:
    """Refuse sites with other columns, classes or row norm than the rest, before any row is spent."""
    first, held = next(iter(sites.items()))
    private = any(entry.noise is not None and entry.noise.private for entry in file.sources)
    stated = file.settings.row_norm
    if isinstance(stated, str) and not private:
        raise ValueError(f"row_norm must be a number where rows stay at their sites, got {stated!r}")
    expected = {
        "features": held["features"] if file.feature_names is None else list(file.feature_names),
        "columns": None if file.columns is None else plain_columns(file.columns),
        "classes": held["classes"],
        "row_norm": 1.0 if isinstance(stated, str) else float(stated),
    }
    for site, described in sites.items():
        for key, value in expected.items():
            if described[key] != value:
                raise ValueError(
                    f"{key} of site {site!r} must be {checks.shown(value)}, as {str(file.path)!r} and {first!r} have "
                    f"it; got {checks.shown(described[key])}; no row was spent"
                )


class _Job:
    """A job as planned: the same plan after a restart, since it is made of what the sites said at first."""

    def __init__(self, file: SourcesFile, progress: Progress, name: str, mode: str) -> None:
        self.file, self.id, self.name, self.mode = file, progress.job, name, mode
        described = next(iter(progress.sites.values()))
        self.features, self.columns, self.classes = (described[key] for key in ("features", "columns", "classes"))
        noises = {entry.name: entry.noise for entry in file.sources if entry.name in progress.sites}
        self.noises = {key: noise for key, noise in noises.items() if noise is not None}
        self.private = any(noise.private for noise in self.noises.values())
        settings = file.settings
        scale = stated_scale(settings.row_norm, settings.fit_intercept, self.private)
        assert scale is not None
        self.settings: Settings = settings
        self.scale: Scale = scale
        self.names = tuple(self.features) if file.encoder is None else file.encoder.names
        problem = scaled_problem(settings, scale, len(self.names), self.private, self.noises.values())
        counts = [int(progress.sites[key]["rows"]) for key in self.noises]
        plan = plan_fit(describe_sources(self.noises, counts, 1), problem, settings)
        self.plan = void_bound(plan, why) if (why := find_void(plan, settings)) else plan
        if self.plan.shuffled:
            raise ValueError(f"strategy must use one source after the other, got {self.plan.strategy!r}")
        self.tasks: Sequence[Task] = tasks_of(self.plan, settings.average, settings.estimate)

    def request(self, number: int) -> dict[str, Any]:
        """What every request for a segment has."""
        return {
            "kind": "relay" if self.mode == "relay" else "open",
            "job": self.id,
            "name": self.name,
            "number": number,
            "features": self.features,
            "columns": self.columns,
            "classes": self.classes,
            "row_norm": self.scale.row_norm,
            "intercept": self.scale.intercept,
            "private": self.private,
            "task": task_to_dict(self.tasks[number]),
        }


# The run


def _segment(job: _Job, ask: Ask, progress: Progress, number: int) -> Progress:
    """Progress after one segment; a site that refuses or does not return is left out."""
    (site,), d = job.tasks[number].names, job.plan.problem.n_features
    state = initial_state(d) if progress.state is None else state_from_dict(progress.state, d)
    ask.tell(site, "asked", 0, int(progress.sites[site]["rows"]))
    try:
        after = (_relay if job.mode == "relay" else _oracle)(job, ask, site, number, state)
    except (Refused, OSError) as reason:
        ask.tell(site, "left out", 0, 0)
        return replace(progress, next=number + 1, left_out={**progress.left_out, site: str(reason)})
    ask.tell(site, "done", int(progress.sites[site]["rows"]), int(progress.sites[site]["rows"]))
    return replace(progress, next=number + 1, state=state_to_dict(after))


def _relay(job: _Job, ask: Ask, site: str, number: int, state: State) -> State:
    reply = ask(site, {**job.request(number), "state": state_to_dict(state)})
    return state_from_dict(reply.get("state"), len(state.weights))


def _oracle(job: _Job, ask: Ask, site: str, number: int, state: State) -> State:
    """Step by step; a site that was restarted in between is told again what the steps are for."""
    task, rows = job.tasks[number], job.plan.segments[number].rows
    ask(site, job.request(number))
    for step in range(job.plan.segments[number].steps):
        request = {
            "kind": "step",
            "job": job.id,
            "number": number,
            "step": step,
            "weights": state.weights.tolist(),
        }
        while "closed" in (answer := ask(site, request)):
            ask(site, job.request(number))
        if "finished" in answer:  # its machine was restarted, and batches that may have been used are passed over
            break
        state = apply_answer(state, task, answer)
        ask.tell(site, "at work", min((step + 1) * job.plan.problem.batch_size, rows), rows)
    return state


def _result(job: _Job, progress: Progress) -> Federated:
    if progress.state is None:
        raise ConnectionError(f"no site took part: {'; '.join(progress.left_out.values())}")
    state = state_from_dict(progress.state, job.plan.problem.n_features)
    used = tuple(name for name in job.plan.order if name not in progress.left_out)
    coef, intercept = job.scale.coefficients(np.array(state.answer))
    model = Model(
        classes=np.array(job.classes),
        coef=coef[None],
        intercept=np.array([intercept]),
        settings=job.settings,
        noise=job.noises,
        scale=job.scale,
        plan=job.plan,
        alpha=job.settings.stated_alpha,
        privacy_spent={name: e for name in used if (e := job.noises[name].epsilon_per_row) is not None},
        feature_names=job.names,
        columns=job.file.columns,
    )
    simulated = any(site["simulated"] for site in progress.sites.values())
    return Federated(model, state, used, dict(progress.left_out), simulated)


# What survives a crash


def _load(folder: Path, asked: str) -> Progress:
    """Progress of the job in the folder; a new job where there is none."""
    file = folder / "job.json"
    if not file.exists():
        return Progress(secrets.token_hex(8), asked)
    progress = Progress(**read_message(file.read_text(encoding="utf-8")))
    if progress.asked != asked:
        raise ValueError(f"{folder} must be the folder of this job, got that of another one; choose another folder")
    return progress


def _save(folder: Path, progress: Progress) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_text_atomically(folder / "job.json", write_message(vars(progress)))
