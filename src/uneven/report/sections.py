"""One function per section: plain values in, markup out."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from uneven import __version__
from uneven.io import leave_out_comments
from uneven.planner import (
    Plan,
    can_promise,
    describe_clip,
    describe_expected,
    describe_privacy,
    describe_sizes,
    describe_steps,
    explain_useless,
    name_moments,
    thin_steps,
)
from uneven.report import charts, markup, words
from uneven.report.account import tell_protection, tell_training
from uneven.report.axes import Axis, choose_axis
from uneven.report.charts import Dot, Series
from uneven.words import format_bound, format_count, format_number, shorten

if TYPE_CHECKING:
    from uneven.engine import Path
    from uneven.experiments import Demo
    from uneven.training import FileFit


MIXED = 7
"""Colour of several sources together."""


def show_sources(plan: Plan) -> str:
    """What there is to learn from."""
    rows, problem = words.describe_sources(plan), plan.problem
    priced = any(row[3] for row in rows)
    header = ["source", "rows", "noise or protection", *(["price of a row"] if priced else [])]
    clip = "" if problem.clip is None else f", gradients shrunk to a norm of {problem.clip:g}"
    return markup.make_section(
        "The data",
        markup.make_table("Sources as described", header, [row[: 3 + priced] for row in rows], {1, 3}),
        markup.make_paragraph(
            f"A linear classifier of {problem.n_features:,} weights with the {problem.loss} loss, L2 strength "
            f"{problem.given_alpha:.3g}, {describe_steps(plan)}, rows in the unit ball{clip}."
        ),
        markup.make_bullets([*describe_sizes(plan), *describe_privacy(plan)]),
    )


def show_learning(trained: FileFit) -> str:
    """What the run chose and found on the way: the L2 strength, and notes such as whether sources agree."""
    model, notes = trained.model, [f"{note.rstrip('.')}." for note in trained.trained.notes]
    public = [source.name for source in trained.plan.sources if not source.noise.private]
    if not isinstance(model.settings.alpha, str):
        why = "as stated"
    elif trained.plan.converged:
        why = f"chosen by cross-validation on the rows of {', '.join(map(repr, public))}"
    elif model.alpha == trained.trained.scale.usual_alpha("auto"):
        why = "the default, since no rows without privacy could choose it"
    else:
        why = "predicted to do better than the default, from the numbers of private rows and their ε alone"
    strength = f"L2 strength alpha = {model.alpha:.3g}, for rows as given: {why}."
    return markup.make_section(
        "How it was learned",
        markup.make_bullets([*tell_training(trained), strength, *notes, *trained.describe_activity()]),
    )


def show_plan(plan: Plan) -> str:
    """Order, steps and promise, and every other strategy beside it; what was not run by steps has none of these."""
    if plan.converged:
        return markup.make_section("The plan", *map(markup.make_paragraph, _describe_converged(plan)))
    rows = [
        (k, name, format_number(first), format_number(last))
        for k, (name, first, last) in enumerate(words.find_spans(plan), start=1)
    ]
    used = markup.make_table("Order of use", ["use", "source", "first step", "last step"], rows, {2, 3})
    why = f"by {plan.theorem} with {name_moments(plan.moments)}"
    promise = (
        f"The mean of ‖w - w*‖² of the {plan.guarantee.iterate} iterate is at most {format_number(plan.bound)}, {why}."
    )
    if plan.moments == "lower":
        told = f"The formula gives {format_number(plan.bound)} for the mean of ‖w - w*‖²"
        promise = f"{told}; with lower moments it is not a promise."
    if plan.void:
        promise = f"No bound is promised: {plan.void}"
    elif not can_promise(plan):
        promise += f" {explain_useless(plan)}"
    return markup.make_section(
        "The plan",
        markup.make_paragraph(
            f"Strategy '{plan.strategy}', {plan.steps:,} step{'s' * (plan.steps > 1)}, each row used once."
        ),
        used,
        "<h3>What is proved</h3>",
        markup.make_paragraph(promise),
        *_others(plan),
    )


def _describe_converged(plan: Plan) -> list[str]:
    """What was learned to convergence, and what was expected of the rest."""
    said = [
        f"Learned to convergence: {', '.join(map(repr, plan.converged))}. Step sizes and bounds of a single pass play "
        "no part in that."
    ]
    if plan.anchored is not None:
        steps = f"{plan.steps:,} step{'s' * (plan.steps > 1)}" if plan.segments else "no steps"
        said.append(
            f"Strategy '{plan.strategy}': {steps} on private rows, each used once. {describe_expected(plan, 4)} "
            f"({plan.theorem})."
        )
    return said


def _others(plan: Plan) -> list[str]:
    others = plan.alternatives()
    evaluated = {name: other.evaluated_bound() for name, other in others.items()}
    largest = {name: max(other.bound, evaluated[name] or 0.0) for name, other in others.items()}
    rows = [(name, evaluated[name], bound) for name, bound in largest.items() if math.isfinite(bound)]
    start = plan.problem.ball**2
    every = [value for _, small, large in rows for value in (small, large) if value]
    axis = choose_axis("bound, log scale (smaller is better)", [*every, start], log=True)
    told = (
        "Filled: the bound as the theorem states it. Hollow: the same inequality evaluated step by step, the figure to "
        "compare strategies by. Dotted: bound before any training."
    )
    cells = [
        (
            f"{name} (this plan)" if name == plan.strategy else name,
            "all together" if other.shuffled else words.describe_order(other),
            format_bound(other.bound),
            "" if evaluated[name] is None else format_number(evaluated[name] or 0.0),
        )
        for name, other in others.items()
    ]
    marked = [k for k, name in enumerate(others) if name == plan.strategy]
    return [
        "<h3>Every strategy side by side</h3>",
        *([markup.make_paragraph(same)] if (same := describe_clip(plan)) else []),
        charts.draw_intervals("Bound of every strategy", told, rows, axis, plan.strategy, start),
        markup.make_table("Bounds", ["strategy", "order", "bound", "evaluated"], cells, {2, 3}, marked),
    ]


def draw_step_sizes(plan: Plan) -> str:
    """The size of every step, a line for each source; empty where there are no steps."""
    if not words.was_stepped(plan):
        return ""
    eta, begin, series = plan.step_sizes(), 0, []
    colours = _colours(plan)
    for segment in plan.segments:
        t = thin_steps(begin + 1, begin + max(segment.full_steps, 1))  # a short last batch has a shorter step
        mixed = len(segment.sources) > 1
        name = "all sources together" if mixed else segment.sources[0]
        series.append(
            Series(f"{format_count(segment.rows)} of {name}", t, eta[t - 1], MIXED if mixed else colours[name])
        )
        begin += segment.steps
    sizes = np.concatenate([np.asarray(one.y) for one in series])
    x, y = Axis("step", 0.0, plan.steps * 1.02 + 0.5), choose_axis("step size, log scale", sizes, log=True)
    mean = "" if plan.anchored is None else " Each coordinate has its own step size: these are the means over them."
    jumps = "; ".join(
        f"{format_number(a)} to {format_number(b)} on {name}" for name, a, b in words.find_spans(plan, quoted=True)
    )
    return markup.make_section(
        "Step sizes", charts.draw_lines("Step sizes over the run", f"From {jumps}.{mean}", series, x, y)
    )


def _colours(plan: Plan) -> dict[str, int]:
    """A source has the same colour in every picture."""
    return {source.name: k for k, source in enumerate(plan.sources)}


def draw_contributions(plan: Plan) -> str:
    """What each source brings, beside how many rows it has; verdicts say more where there are some."""
    if plan.anchored is not None:
        return ""
    shares = words.share_information(plan)
    told = "; ".join(
        f"{name!r} has {charts.format_percent(a)} of the rows and brings {charts.format_percent(b)} of the information"
        for name, (a, b) in shares.items()
    )
    rows = [(name, a, b) for name, (a, b) in shares.items()]
    return markup.make_section(
        "What each source contributes",
        markup.make_paragraph("Information = rows ÷ variance of one row's gradient."),
        charts.draw_bars(
            "Share of rows and of information", told + ".", rows, ("share of the rows", "share of the information")
        ),
    )


def show_exchange(plan: Plan) -> str:
    """What a row of each source is worth."""
    cleanest = shorten(max(plan.exchange, key=lambda name: plan.exchange[name]), 28)
    rows = {source.name: source.rows for source in plan.sources}
    cells = [
        (name, f"{worth:.4g}", format_number(1 / worth), format_number(rows[name] * worth))
        for name, worth in plan.exchange.items()
    ]
    header = ["source", f"one row in rows of {cleanest}", f"rows for one of {cleanest}"]
    if plan.anchored is not None:  # what one row more adds: not to be multiplied by the rows that are there
        table = markup.make_table("What one more row is worth", header, [row[:3] for row in cells], {1, 2})
    else:
        header.append(f"all its rows in rows of {cleanest}")
        table = markup.make_table("What a row is worth", header, cells, {1, 2, 3})
    return markup.make_section("Exchange rates", table)


def choose_path(recorded: Path, which: str) -> tuple[str, NDArray[np.float64]]:
    """What of a path may be shown: the objective, or where that may not be looked at the norm of the weights."""
    followed = bool(which) and bool(np.isfinite(recorded.objective).any())
    return ("objective", recorded.objective) if followed else ("norm of the weights", recorded.norm)


def draw_path(plan: Plan, recorded: Path, which: str) -> str:
    """The objective over the run, or the norm of the weights."""
    label, values = choose_path(recorded, which)
    series, colours = [], _colours(plan)
    for name in dict.fromkeys(recorded.source):
        mine = np.array([one == name for one in recorded.source])
        series.append(Series(f"while using {name}", recorded.step[mine], values[mine], colours.get(name, MIXED)))
    told = (
        f"Objective on {which}, of the answer so far: {values[0]:.4f} at first, {values[-1]:.4f} at the end."
        if label == "objective"
        else "Norm of the weights. The objective is not shown: on private rows it would be another release."
    )
    x, y = choose_axis("step", recorded.step), choose_axis(label, values)
    return markup.make_section("The path", charts.draw_lines(f"{label} over the run".capitalize(), told, series, x, y))


def draw_accuracies(demo: Demo) -> str:
    """Test accuracy of every strategy, grouped by mechanism, between the majority class and no noise at all."""
    from uneven.experiments import estimate_mean

    groups: dict[str, list[Dot]] = {}
    for one in demo.entries:
        mean, error = map(float, estimate_mean(one.accuracy))
        ours = one is demo.entries[0]
        name = f"{one.strategy} (default)" if ours else one.strategy
        dot = Dot(name, mean, mean - 2 * error, mean + 2 * error, 0 if ours else 7)
        groups.setdefault(f"mechanism {one.mechanism}", []).append(dot)
    lines = [("majority class", demo.majority[0]), ("no noise", demo.optimum[0])]
    every = [end for dots in groups.values() for dot in dots for end in (dot.low, dot.high)]
    axis = choose_axis("test accuracy", [*every, *(value for _, value in lines)], percent=True)
    told = f"Mean of {demo.runs} simulated runs; bars are two standard errors either way."
    chart = charts.draw_dots("Test accuracy of every strategy", told, list(groups.items()), axis, lines)
    return markup.make_section("Every strategy, measured", chart)


def compare_strategies(demo: Demo) -> str:
    """Every strategy with each mechanism, measured; and what no noise at all would reach."""
    from uneven.experiments import format_mean  # a plan's report need not wait for the engine

    cells = [
        (one.name, format_mean(one.accuracy, percent=True), *map(format_mean, (one.auc, one.objective)))
        for one in demo.entries
    ]
    for name, (accuracy, value, area) in (("no noise at all", demo.optimum), ("the majority class", demo.majority)):
        cells.append((name, f"{accuracy:.1%}", f"{area:.3f}", f"{value:.3f}"))
    header = ["strategy (mechanism)", "test accuracy", "AUC", "objective"]
    caption = (
        f"{demo.runs} simulated runs each on {demo.rows:,} rows, tested on {demo.test_rows:,}: mean ± standard error"
    )
    told = (
        f"The first row is uneven's default with mechanism quiet, gradients clipped to {demo.plan.problem.clip}, "
        "but without the intercept that 'uneven fit' adds; no other row clips. The mechanism quiet is used "
        "with the tight ball, l2-laplace with the paper's ball. No row of data spends more than its site "
        "allows. "
        "The objective is the logistic loss with its L2 term, on the training rows."
    )
    return markup.make_section(
        "Every strategy in figures",
        markup.make_table(caption, header, cells, {1, 2, 3}, {0}),
        markup.make_paragraph(told),
    )


def show_public_rows(demo: Demo) -> str:
    """What a few rows without privacy would change."""
    from uneven.experiments import describe_public_rows, format_mean

    found = demo.public
    runs = len(next(iter(found.accuracy.values())))
    cells = [
        (way, format_mean(shares, percent=True), format_mean(found.auc[way])) for way, shares in found.accuracy.items()
    ]
    caption = (
        f"Test accuracy and AUC with {found.rows:,} public rows, {runs} simulated runs each: mean ± standard error"
    )
    return markup.make_section(
        "If some of the rows were public",
        markup.make_table(caption, ["learned from", "test accuracy", "AUC"], cells, {1, 2}, {len(cells) - 1}),
        markup.make_bullets(describe_public_rows(found)),
    )


def draw_demo_paths(demo: Demo) -> str:
    """The objective over one run of some strategies, beside its minimum."""
    series = [Series(name, one.step, one.objective, k) for k, (name, one) in enumerate(demo.paths.items())]
    values = np.concatenate([np.asarray(one.y) for one in series])
    ends = "; ".join(f"{one.name} ends at {np.asarray(one.y)[-1]:.3g}" for one in series)
    told = f"One run each, objective on a fifth of the rows: {ends}. Dotted: {demo.optimum[1]:.3g}, the minimum."
    x = choose_axis("step", np.concatenate([np.asarray(one.x) for one in series]))
    y = choose_axis("objective, log scale", [*values, demo.optimum[1]], log=True)
    return markup.make_section(
        "The path", charts.draw_lines("Objective over the run", told, series, x, y, demo.optimum[1])
    )


def warn_simulated(was: bool) -> str:
    """Said before anything else: noise from a seed protects nobody."""
    return markup.make_paragraph(words.SIMULATED, "warning") if was else ""


def show_privacy(spent: Mapping[str, float], simulated: bool, planned: bool = False) -> str:
    """What each private row has spent, or would spend."""
    lines = words.describe_privacy(spent, simulated, planned)
    return markup.make_section("Privacy" if planned else "Privacy spent", markup.make_bullets(lines))


def show_spending(trained: FileFit, charged: str) -> str:
    """Who is protected, what each private row has spent, and where that was charged."""
    spent = trained.model.privacy_spent
    lines = words.describe_privacy(spent, trained.simulated)
    told = [tell_protection(trained), *lines, *([charged] if spent else [])]
    return markup.make_section("Privacy spent", markup.make_bullets(told))


def show_planned_privacy(plan: Plan) -> str:
    """What each private row would spend."""
    costs = {s.name: s.noise.epsilon_per_row for s in plan.sources if s.noise.epsilon_per_row and s.name in plan.order}
    lines = [f"Each row of {name!r} would spend ε = {epsilon:g}." for name, epsilon in costs.items()]
    return markup.make_section("Privacy", markup.make_bullets(lines or ["No source that is used is private."]))


def list_caveats(lines: Sequence[str]) -> str:
    """What a reader should know."""
    return markup.make_section("Caveats", markup.make_bullets(lines))


def repeat(command: str, settings: str = "") -> str:
    """How to get the same again."""
    versions = f"uneven {__version__}, Python {platform.python_version()}, NumPy {np.__version__}"
    parts = [markup.make_code(command), markup.make_paragraph(versions, "muted")]
    if settings:
        said = markup.make_paragraph("Its comments are left out: some may come from private rows.", "muted")
        shown = [said, markup.make_code(leave_out_comments(settings))]
        parts.append(markup.fold_sections("The sources file", shown))
    return markup.make_section("How to repeat it", *parts)
