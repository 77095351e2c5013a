"""A job of the server: how far it is, which survives a crash, and the plan and the requests that follow from it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from uneven.engine import Task, tasks_of
from uneven.federation.messages import read_message, task_to_dict, write_message
from uneven.io import SourcesFile, write_text_atomically
from uneven.planner import Anchored, Asked, Plan, list_asked, make_anchored_plan
from uneven.problem import Problem
from uneven.settings import Settings
from uneven.training import (
    Scale,
    choose_private_alpha,
    choose_private_clip,
    describe_sources,
    keep_rows,
    plan_steps,
    read_scale,
    scale_problem,
)


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
    anchor : dict or None
        What the site without privacy said, where private ones are added to it.
    disagreements : dict
        How each private site agreed with the anchor.
    notes : list of str
        What else was found on the way.
    charged : list of str
        Sites that may have charged their rows though they took no step.
    keeps : bool
        Whether rows may be kept for the length of the weights; false in a job that an older version began.
    heard, reached : dict or None
        What kept rows have told of the classes' shares, and of the length of the weights; None before the first.
    unheard : list of str
        Sites whose steps are in the result, but whose kept rows did not tell the length.
    """

    job: str
    asked: str
    sites: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    next: int = 0
    state: dict[str, Any] | None = None
    anchor: dict[str, Any] | None = None
    disagreements: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    charged: Sequence[str] = ()
    keeps: bool = False
    heard: dict[str, Any] | None = None
    reached: dict[str, Any] | None = None
    unheard: Sequence[str] = ()


class Job:
    """A job as planned: the same plan after a restart, since it is made of what the sites said at first."""

    def __init__(self, file: SourcesFile, progress: Progress, name: str, mode: str) -> None:
        self.file, self.id, self.name, self.mode = file, progress.job, name, mode
        described = next(iter(progress.sites.values()))
        self.features, self.columns, self.classes = (described[key] for key in ("features", "columns", "classes"))
        noises = {entry.name: entry.noise for entry in file.sources if entry.name in progress.sites}
        self.noises = {key: noise for key, noise in noises.items() if noise is not None}
        self.private = any(noise.private for noise in self.noises.values())
        self.settings: Settings = file.settings
        scale = read_scale(self.settings.row_norm, self.settings.fit_intercept, self.private)
        assert scale is not None
        self.scale: Scale = scale
        self.names = tuple(self.features) if file.encoder is None else file.encoder.names
        self.sources = describe_sources(self.noises, [int(progress.sites[key]["rows"]) for key in self.noises])
        self.anchor = progress.anchor
        chosen = None if self.anchor is None else self.anchor["alpha"]
        usual = scale_problem(self.settings, scale, len(self.names), self.private, self.noises.values())
        if chosen is None:
            stated = scale.usual_alpha(self.settings.alpha)
            chosen = choose_private_alpha(self.settings, self.sources, usual, stated)
        self.alpha = float(chosen)
        problem = replace(usual, alpha=scale.alpha(self.alpha))
        clip = problem.clip if self.anchor else choose_private_clip(self.settings, self.sources, problem)
        self.problem: Problem = replace(problem, clip=clip)
        self.plan = self._plan(progress.keeps)
        self.tasks: Sequence[Task] = tasks_of(self.plan, self.settings.average, self.settings.estimate)

    def _plan(self, keeps: bool) -> Plan:
        if self.anchor is not None:
            decided = Anchored.from_dict(self.anchor["anchored"])
            worths = dict(decided.worths)
            ordered = tuple((source.name, worths[source.name]) for source in self.sources)
            return make_anchored_plan(self.sources, self.problem, replace(decided, worths=ordered))
        plan = plan_steps(self.sources, self.problem, self.settings)
        if plan.shuffled:
            raise ValueError(f"strategy must use one source after the other, got {plan.strategy!r}")
        return keep_rows(plan, self.settings) if keeps else plan

    @cached_property
    def asked(self) -> list[Asked]:
        """Sites that tell the shares of the classes, in this order."""
        return list_asked(self.plan) if self.plan.tellers else []

    @property
    def phases(self) -> tuple[int, int]:
        """How many sites are asked for the shares of the classes, and how many for steps; then some for the length."""
        return len(self.asked), len(self.plan.segments)

    def common(self) -> dict[str, Any]:
        """What every request has."""
        kept = {"kept": self.plan.kept, "tellers": self.plan.tellers} if self.plan.kept else {}
        return {
            **kept,
            "job": self.id,
            "name": self.name,
            "features": self.features,
            "columns": self.columns,
            "classes": self.classes,
            "row_norm": self.scale.row_norm,
            "intercept": self.scale.intercept,
            "private": self.private,
        }

    def request(self, number: int) -> dict[str, Any]:
        """What every request for the steps of a segment has."""
        kind = "relay" if self.mode == "relay" else "open"
        return {"kind": kind, **self.common(), "number": number, "task": task_to_dict(self.tasks[number])}

    def request_kept(self, kind: str, site: str) -> dict[str, Any]:
        """A request for rows of a site that take no step; its number is that of the site's steps."""
        (number,) = (k for k, segment in enumerate(self.plan.segments) if site in segment.sources)
        return {"kind": kind, **self.common(), "number": number, "noise": self.noises[site].to_dict()}

    def request_adding(self, number: int) -> dict[str, Any]:
        """A request to add the rows of a segment's site to the anchor."""
        segment, decided = self.plan.segments[number], self.plan.anchored
        assert decided is not None
        (site,) = segment.sources
        size = dict(decided.sizes).get(site, self.problem.batch_size)
        return {
            "kind": "add",
            **self.common(),
            "number": number,
            "problem": replace(self.problem, batch_size=size).to_dict(),
            "noise": self.noises[site].to_dict(),
        }


def load_progress(folder: Path, asked: str) -> Progress:
    """Progress of the job in the folder; a new job where there is none."""
    file = folder / "job.json"
    if not file.exists():
        return Progress(secrets.token_hex(8), asked, keeps=True)
    progress = Progress(**read_message(file.read_text(encoding="utf-8")))
    if progress.asked != asked:
        raise ValueError(f"{folder} must be the folder of this job, got that of another one; choose another folder")
    return progress


def save_progress(folder: Path, progress: Progress) -> None:
    """Write the progress of a job, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text_atomically(folder / "job.json", write_message(vars(progress)))
