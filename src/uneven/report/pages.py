"""Whole reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uneven.crowd.text import summarise, tabulate
from uneven.planner import Plan
from uneven.planner.text import FRESH, number
from uneven.report import markup, sections
from uneven.report.words import QUESTION, describe_repeat
from uneven.schedules import LATE_AVERAGE

if TYPE_CHECKING:
    from uneven.crowd import Crowd
    from uneven.experiments import Demo
    from uneven.training.files import FileFit

FOOT = "Written by uneven. This file refers to nothing outside itself."
UNIT_BALL = "The bound is for rows in the unit ball, shuffled, and labels as described: it says nothing of other rows."
DESCRIBED = (
    "Everything rests on the sources being as noisy as described: a rate or an ε that is wrong makes the plan wrong."
)

CROWD_QUESTION = (
    "Who of the crowd is right how often, what is the true label of each task, and what is an answer worth?"
)
INDEPENDENT = (
    "Errors are estimated as if workers erred independently of one another. Where some tasks are hard for everybody, "
    "labels are wrong more often than stated here."
)
WORTH = "The worth of a label is in exact labels: 1 is never wrong, 0 says nothing."
LATE = f"The bound is of the last iterate; of {LATE_AVERAGE}, which is the answer of a fit, it is at most {{}}."


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
    privacy = sections.privacy_planned(plan)
    return _write_page("A plan for data of uneven quality", plan, "", "", privacy, said, command, settings)


def fit_report(trained: FileFit, command: str, settings: str = "") -> str:
    """Report of a fit, as one HTML file; it tells nothing about private rows beyond what was released.

    Parameters
    ----------
    trained : FileFit
        What `uneven.training.files.train_files` returned.
    command, settings : str
        See `plan_report`.
    """
    plan, scale = trained.plan, trained.scale
    intercept = ", with one more feature for the intercept" if scale.intercept else ""
    scaled = f"Rows were divided by {scale.factor:.6g}{intercept}: all figures of the plan are for rows so scaled."
    measured = sections.measures(trained.measures) + sections.learning(trained)
    path = "" if trained.trained.path is None else sections.path(plan, trained.trained.path, trained.followed)
    privacy = sections.privacy(trained.model.privacy_spent, trained.simulated)
    said = [scaled]
    if any(one.which.startswith("rows learned from") for one in trained.measures):
        said.append("Accuracy on training rows is optimistic: measure on rows that the model has not seen.")
    title, head = "A classifier from data of uneven quality", sections.simulated(trained.model.simulated)
    again = describe_repeat(_costs(trained, "--ledger" in command), command)
    return _write_page(title, plan, measured, path, privacy, said, again, settings, head)


def _costs(trained: FileFit, ledger: bool) -> dict[str, float]:
    """ε that the same run would cost each private row again; nothing is left to lose after a simulation."""
    if trained.model.simulated and not ledger:
        return {}
    settings, noises = trained.model.settings, {one.name: one.noise for one in trained.plan.sources}
    times = settings.pass_count * max(1, settings.line_search)
    costs = {name: (noises[name].epsilon_per_row or 0.0) * times for name in trained.plan.order}
    return {name: cost for name, cost in costs.items() if cost}


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
    privacy = sections.privacy({s.name: s.noise.epsilon_per_row or 0.0 for s in plan.sources}, simulated=True)
    measured, path = sections.comparison(demo) + sections.public_rows(demo), sections.demo_paths(demo)
    title = "Two sites, two privacy rules: the demo of uneven"
    return _write_page(title, plan, measured, path, privacy, [simulated], command, settings)


def crowd_report(crowd: Crowd, command: str, accuracy: float | None = None) -> str:
    """Report of what a crowd's answers came to, as one HTML file.

    Parameters
    ----------
    crowd : Crowd
        What `uneven.from_answers` returned.
    command : str
        What to type to get it again.
    accuracy : float or None
        Of the model learned from it, on tasks with true labels, if that was measured.

    Returns
    -------
    str
    """
    head, rows = tabulate(crowd)
    said = summarise(crowd)
    if accuracy is not None:
        said.append(f"The classifier learned from them classifies {accuracy:.1%} of the test tasks correctly.")
    parts = [
        markup.section("The answer in short", markup.card(markup.bullets(said))),
        markup.section("The workers", markup.table("Workers", head, rows, set(range(1, len(head))))),
        sections.caveats([INDEPENDENT, WORTH]),
        sections.repeat(command, ""),
    ]
    return markup.page("A classifier from a crowd's answers", CROWD_QUESTION, parts, FOOT)


def _write_page(
    title: str,
    plan: Plan,
    measured: str,
    path: str,
    privacy: str,
    said: list[str],
    command: str,
    settings: str,
    head: str = "",
) -> str:
    """What all reports have, with what was measured, the path and the privacy where they belong."""
    stepped = not plan.converged
    late = plan.answer_bound if plan.average == "late" and stepped else None
    average = [] if late is None else [FRESH, LATE.format(number(late))]
    proved = [*plan.caveats, *average] if stepped or plan.anchored is not None else []
    parts = [
        head,
        sections.answer(plan),
        measured,
        sections.verdicts(plan),
        sections.sources(plan),
        sections.the_plan(plan),
        sections.step_sizes(plan),
        path,
        sections.contributed(plan),
        sections.exchange(plan),
        privacy,
        sections.caveats([*proved, *said, *([UNIT_BALL] if stepped else []), DESCRIBED]),
        sections.repeat(command, settings),
    ]
    return markup.page(title, QUESTION, filter(None, parts), FOOT)
