"""Whole reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from uneven.planner import FRESH, Plan
from uneven.report import downloads, markup, quality, sections, words
from uneven.report.charts import describe_interval
from uneven.report.crowds import answer_for_crowd, draw_shares, record_workers
from uneven.report.downloads import Records
from uneven.report.sensitivity import show_sensitivity
from uneven.report.statement import list_spending
from uneven.report.tiles import Cost, make_tiles, wrap_tiles
from uneven.report.words import QUESTION, describe_cautions, describe_repeat, explain_learned_rows
from uneven.report.worth import doubt_expected, draw_worth
from uneven.schedules import LATE_AVERAGE
from uneven.words import format_count, format_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from uneven.crowd import Crowd
    from uneven.experiments import Demo, Entry
    from uneven.training import Comparison, FileFit, Measure

FOOT = "Written by uneven. This file refers to nothing outside itself."
UNIT_BALL = (
    "The bound is for rows in the unit ball, shuffled, and labels as described: it says nothing about other rows."
)
DESCRIBED = "The figures are only as good as the descriptions of the sources."

CROWD_QUESTION = "How often is each worker right, what is the true label of each task, and what is an answer worth?"
INDEPENDENT = (
    "Errors are estimated as if workers erred independently of one another. Where some tasks are hard for everybody, "
    "labels are wrong more often than stated here."
)
TWO_CHANGES = (
    "The first two differ in their strategy too, so in steps and clip: not all of the difference is the other source's."
)
LATE = f"The bound is for the last iterate; for {LATE_AVERAGE}, which a fit returns, it is {{}}."


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
    costs = {s.name: s.noise.epsilon_per_row for s in plan.sources if s.noise.epsilon_per_row and s.name in plan.order}
    parts = Parts(
        Cost({name: epsilon for name, epsilon in costs.items() if epsilon}, planned=True),
        privacy=sections.show_planned_privacy(plan),
        caveats=said,
    )
    return _write_page("A plan for data of uneven quality", plan, parts, command, settings)


def fit_report(
    trained: FileFit,
    command: str,
    settings: str = "",
    budget: float | None = None,
    ledger: str = "",
) -> str:
    """Report of a fit, as one HTML file.

    Of private rows it tells what was released, and unless the settings redact that, whether some were shrunk or agree:
    never how many.

    Parameters
    ----------
    trained : FileFit
        What `uneven.training.files.train_files` returned.
    command, settings : str
        See `plan_report`.
    budget : float or None
        The most that a row is allowed to have spent.
    ledger : str
        Name of the ledger that private rows were charged in, if there is one.

    Returns
    -------
    str
    """
    from uneven.training import explain_class_weight  # a plan's report need not wait for the compiler

    plan, scale, classes = trained.plan, trained.scale, trained.model.classes.tolist()
    intercept = ", which leaves room for an intercept" if scale.intercept else ""
    said = [f"Rows were rescaled by 1/{scale.factor:.6g}{intercept}; the plan's figures refer to rescaled rows."]
    if len(quality.select_unseen(trained.measures)) < len(trained.measures):
        said.append(explain_learned_rows(trained))
    said += [*doubt_expected(plan, trained.measures), *describe_cautions(trained)]
    private = [one for one in list_spending(trained) if one.noise.private]
    cost = Cost(
        {one.name: one.after for one in private},
        {one.name: one.before for one in private},
        budget,
        simulated=trained.simulated,
        charged=words.describe_charge(ledger),
    )
    parts = Parts(
        cost,
        head=sections.warn_simulated(trained.model.simulated),
        measured=[
            *map(_tell_measure, quality.select_unseen(trained.measures) or trained.measures),
            *(explain_class_weight(trained.model) if trained.measures else []),
        ],
        measures=trained.measures,
        shown=quality.show_measures(trained.measures)
        + quality.show_details(trained.measures, classes)
        + sections.show_learning(trained),
        path="" if trained.trained.path is None else sections.draw_path(plan, trained.trained.path, trained.followed),
        privacy=sections.show_spending(trained, cost.charged),
        caveats=said,
        tables={**quality.record_measures(trained.measures, classes), "path": _record_path(trained)},
    )
    charged = bool(ledger) or "--ledger" in command
    left = {one.name: cost.left(one.name) for one in private} if charged else None
    again = describe_repeat(_costs(trained, charged), command, left)
    return _write_page("A classifier from data of uneven quality", plan, parts, again, settings)


def _record_path(trained: FileFit) -> Records:
    recorded = trained.trained.path
    if recorded is None:
        return []
    what, values = sections.choose_path(recorded, trained.followed)
    return downloads.describe_path(recorded, values, what)


def _tell_measure(one: Measure) -> str:
    """Accuracy of the model and of what else could have been done, in a sentence."""
    others = "".join(f"; {other.name}: {other.accuracy.value:.1%}" for other in one.compared.others)
    accuracy = describe_interval(one.compared.scores.accuracy)
    area = "" if one.auc is None else f" This model's AUC is {one.auc:.3f}."
    return f"Measured accuracy on {one.which} ({format_count(one.rows)}): {accuracy}{others}.{area}"


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
    costs = {s.name: s.noise.epsilon_per_row or 0.0 for s in plan.sources}
    first = {one.strategy: float(one.accuracy.mean()) for one in reversed(demo.entries)}
    cleanest = max(plan.exchange, key=lambda name: plan.exchange[name])
    parts = Parts(
        Cost(costs, planned=True, simulated=True),
        measured=[
            f"Measured accuracy: {first[plan.strategy]:.1%} with all sources ({plan.strategy}), "
            f"{first['clean-only']:.1%} with {cleanest!r} alone (clean-only), {demo.optimum[0]:.1%} without noise, "
            f"{demo.majority[0]:.1%} by the majority class. {TWO_CHANGES}"
        ],
        chart=sections.draw_accuracies(demo),
        shown=sections.show_public_rows(demo),
        path=sections.compare_strategies(demo) + sections.draw_demo_paths(demo),
        privacy=sections.show_privacy(costs, simulated=True, planned=True),
        caveats=[simulated],
        tables=_record_demo(demo),
    )
    return _write_page("Two sites, two privacy rules: the demo of uneven", plan, parts, command, settings)


def _record_demo(demo: Demo) -> dict[str, Records]:
    """Everything measured: strategies and what they are compared with, a few public rows, and paths."""
    baselines = [
        {"strategy": name, "mechanism": "", "accuracy": accuracy, "objective": value, "auc": area}
        for name, (accuracy, value, area) in (("no noise at all", demo.optimum), ("majority class", demo.majority))
    ]
    public = [
        {"learned_from": way, **_estimate("accuracy", shares), **_estimate("auc", demo.public.auc[way])}
        for way, shares in demo.public.accuracy.items()
    ]
    paths = [
        {"strategy": name, **point}
        for name, one in demo.paths.items()
        for point in downloads.describe_path(one, one.objective, "objective")
    ]
    return {"strategies": [*map(_record_entry, demo.entries), *baselines], "public_rows": public, "paths": paths}


def _record_entry(entry: Entry) -> dict[str, object]:
    figures = {"accuracy": entry.accuracy, "auc": entry.auc, "objective": entry.objective}
    estimates = (_estimate(what, values) for what, values in figures.items())
    return {"strategy": entry.strategy, "mechanism": entry.mechanism} | {
        k: v for one in estimates for k, v in one.items()
    }


def _estimate(what: str, values: NDArray[np.float64]) -> dict[str, float]:
    from uneven.experiments import estimate_mean

    mean, error = estimate_mean(values)
    return {what: float(mean), f"{what}_standard_error": float(error)}


def crowd_report(crowd: Crowd, command: str, measured: Comparison | None = None) -> str:
    """Report on what was learned from a crowd's answers, as one HTML file.

    Parameters
    ----------
    crowd : Crowd
        What `uneven.from_answers` returned.
    command : str
        What to type to get it again.
    measured : Comparison or None
        How the model learned from it does on tasks with true labels, beside the majority class, if that was measured.

    Returns
    -------
    str
    """
    from uneven.crowd import WORTH, tabulate_workers

    head, rows = tabulate_workers(crowd)
    parts = [
        wrap_tiles(answer_for_crowd(crowd, measured)),
        draw_shares(crowd),
        markup.make_section("The workers", markup.make_table("Workers", head, rows, set(range(1, len(head))))),
        sections.list_caveats([INDEPENDENT, WORTH]),
        downloads.make_downloads(None, {"workers": record_workers(crowd)}, command),
        sections.repeat(command, ""),
    ]
    return markup.make_page("A classifier from a crowd's answers", CROWD_QUESTION, filter(None, parts), FOOT)


@dataclass(frozen=True)
class Parts:
    """What reports differ in: the cost, sentences on what was measured, a chart, and sections as markup."""

    cost: Cost
    privacy: str
    caveats: list[str]
    measured: Sequence[str] = ()
    measures: Sequence[Measure] = ()
    head: str = ""
    chart: str = ""
    shown: str = ""
    path: str = ""
    tables: Mapping[str, Records] = field(default_factory=dict)


def _write_page(title: str, plan: Plan, parts: Parts, command: str, settings: str) -> str:
    """Five answers, one chart, a table of the sources, what was measured; the theory is folded away."""
    stepped = not plan.converged
    late = plan.answer_bound if plan.average == "late" and stepped else None
    average = [] if late is None else [FRESH, LATE.format(format_number(late))]
    proved = [*plan.caveats, *average] if stepped or plan.anchored is not None else []
    chart = parts.chart or draw_worth(plan, parts.measures)
    theory = [
        sections.show_plan(plan),
        sections.draw_step_sizes(plan),
        parts.path,
        sections.draw_contributions(plan) if chart else "",
        sections.show_exchange(plan),
        show_sensitivity(plan),
    ]
    tables = {
        "sources": downloads.describe_sources(plan, parts.cost),
        **parts.tables,
        "bounds": downloads.describe_strategies(plan) if stepped else [],
        "levels": downloads.describe_levels(plan),
    }
    told = [
        parts.head,
        make_tiles(plan, parts.cost, parts.measured),
        chart or sections.draw_contributions(plan),
        sections.show_sources(plan),
        parts.shown,
        parts.privacy,
        sections.list_caveats(
            [*proved, *parts.caveats, *([UNIT_BALL] if stepped and not plan.void else []), DESCRIBED]
        ),
        markup.fold_sections("Theory: step sizes, bounds, every strategy", theory),
        downloads.make_downloads(plan, tables, command),
        sections.repeat(command, settings),
    ]
    return markup.make_page(title, QUESTION, filter(None, told), FOOT)
