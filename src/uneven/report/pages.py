"""Whole reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uneven.planner import Plan
from uneven.report import markup, sections
from uneven.report.words import QUESTION
from uneven.schedules import Precision

if TYPE_CHECKING:
    from uneven.experiments import Demo
    from uneven.training.files import Trained

FOOT = "Written by uneven. This file refers to nothing outside itself."
UNIT_BALL = "The bound is for rows in the unit ball, shuffled, and labels as described: it says nothing of other rows."
DESCRIBED = (
    "Everything rests on the sources being as noisy as described: a rate or an ε that is wrong makes the plan wrong."
)

LATE = (
    "The bound is of the last iterate; the answer of a fit is the average over the last quarter of the clock, for "
    "which nothing is proved here."
)


def _explain_bound(plan: Plan) -> list[str]:
    """What a reader of the bound should know."""
    return [*plan.caveats, *([LATE] if isinstance(plan.segments[0].schedule, Precision) else [])]


def plan_report(plan: Plan, command: str, settings: str = "", note: str = "") -> str:
    """Report of a plan, as one HTML file.

    Parameters
    ----------
    plan : Plan
    command : str
        What to type to get it again.
    settings : str
        Text of the sources file, if there is one.
    note : str
        What was planned for.

    Returns
    -------
    str

    Examples
    --------
    >>> import uneven
    >>> html = plan_report(uneven.plan([uneven.Source("<b>", 100)], 5), "uneven plan sources.toml")
    >>> "<b>" in html, "&lt;b&gt;" in html
    (False, True)
    """
    said = [f"{note[0].upper()}{note[1:]}."] if note else []
    parts = [
        sections.answer(plan),
        sections.sources(plan),
        sections.the_plan(plan),
        sections.step_sizes(plan),
        sections.contributed(plan),
        sections.exchange(plan),
        sections.privacy_planned(plan),
        sections.caveats([*_explain_bound(plan), *said, UNIT_BALL, DESCRIBED]),
        sections.repeat(command, settings),
    ]
    return markup.page("A plan for data of uneven quality", QUESTION, parts, FOOT)


def fit_report(trained: Trained, command: str, settings: str = "") -> str:
    """Report of a fit, as one HTML file; it tells nothing about private rows beyond what was released.

    Parameters
    ----------
    trained : Trained
        What `uneven.training.files.train` returned.
    command, settings : str
        See `plan_report`.
    """
    plan, scale = trained.plan, trained.scale
    intercept = ", with one more feature for the intercept" if scale.intercept else ""
    scaled = f"Rows were divided by {scale.factor:.6g}{intercept}: step sizes and bounds are for rows so scaled."
    parts = [
        sections.answer(plan),
        sections.measures(trained.measures),
        sections.sources(plan),
        sections.the_plan(plan),
        sections.step_sizes(plan),
        *([] if trained.path is None else [sections.path(plan, trained.path, trained.followed)]),
        sections.contributed(plan),
        sections.exchange(plan),
        sections.privacy(trained.model.privacy_spent_, trained.simulated),
        sections.caveats([*_explain_bound(plan), scaled, UNIT_BALL, DESCRIBED, *_explain_measures(trained)]),
        sections.repeat(command, settings),
    ]
    return markup.page("A classifier from data of uneven quality", QUESTION, parts, FOOT)


def demo_report(demo: Demo, command: str, settings: str) -> str:
    """Report of the demo, as one HTML file: a plan, and every strategy simulated.

    Parameters
    ----------
    demo : Demo
        What `uneven.experiments.run_demo` returned.
    command, settings : str
        See `plan_report`.

    Returns
    -------
    str
    """
    plan = demo.plan
    simulated = (
        f"A simulation: {demo.runs} runs with noise from a seed, measured on rows that a real run would not look at. "
        "The ± is one standard error over the runs."
    )
    parts = [
        sections.answer(plan),
        sections.comparison(demo),
        sections.sources(plan),
        sections.the_plan(plan),
        sections.step_sizes(plan),
        sections.demo_paths(demo),
        sections.contributed(plan),
        sections.exchange(plan),
        sections.privacy({s.name: s.noise.epsilon_per_row or 0.0 for s in plan.sources}, simulated=True),
        sections.caveats([*_explain_bound(plan), simulated, UNIT_BALL, DESCRIBED]),
        sections.repeat(command, settings),
    ]
    return markup.page("Two sites, two privacy rules: the demo of uneven", QUESTION, parts, FOOT)


def _explain_measures(trained: Trained) -> list[str]:
    if any(one.which.startswith("rows learned from") for one in trained.measures):
        return ["Rows learned from flatter a model: rows that it has not seen are the test."]
    return []
