"""The top of a report: five tiles, each with one question, its answer and the reason."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from uneven.planner import Plan
from uneven.report import markup, words
from uneven.report.worth import tell_worth
from uneven.words import format_number, shorten

NAME = 28
"""Longest name of a source in an answer; tables have names in full."""

DIGITS = 3
MOST = 4
"""Most sources that an answer names one after another."""

SIDEWAYS = "The table has more columns to the right; sources.csv, at the end, has them too."

FIRST, STEP, WORTH, ROW, COST = QUESTIONS = (
    "Which source first?",
    "How far to step?",
    "Is each source worth using?",
    "What is a row worth?",
    "What does it cost in privacy?",
)


@dataclass(frozen=True)
class Cost:
    """What a row of each private source spends: ε before the run and after it, and the most that is allowed.

    `charged` says where and when.
    """

    after: Mapping[str, float]
    before: Mapping[str, float] = field(default_factory=dict)
    budget: float | None = None
    planned: bool = False
    simulated: bool = False
    charged: str = ""

    def left(self, name: str) -> float | None:
        """What a row may still spend; None without a budget."""
        return None if self.budget is None else max(self.budget - self.after[name], 0.0)


def make_tiles(plan: Plan, cost: Cost, measured: Sequence[str] = ()) -> str:
    """All five, with sentences on what was measured."""
    answers = (_first(plan), _step(plan), _worth(plan, measured), _row(plan), _cost(cost, plan))
    return wrap_tiles(dict(zip(QUESTIONS, answers, strict=True)))


def wrap_tiles(answers: Mapping[str, tuple[str, ...]]) -> str:
    """A tile for each question: its answer in a few words, and markup below it."""
    made = (_tile(k == 2, question, *answer) for k, (question, answer) in enumerate(answers.items()))
    return markup.make_section("The answer in short", f'<div class="tiles">{"".join(made)}</div>')


def _tile(middle: bool, question: str, answer: str, *parts: str) -> str:
    """One of them; the middle one of five is as wide as two, so that no place is left empty."""
    wide = " wide-tile" if middle else ""
    told = f'<p class="answer">{markup.escape_text(answer)}</p>' if answer else ""
    return f'<div class="card tile{wide}"><h3>{markup.escape_text(question)}</h3>{told}{"".join(parts)}</div>'


def _first(plan: Plan) -> tuple[str, ...]:
    unused = [shorten(source.name, NAME) for source in plan.sources if source.name not in plan.order]
    left = [markup.make_paragraph(f"Left out: {', '.join(unused)}.")] if unused else []
    if plan.shuffled and not plan.converged:
        return "all together", markup.make_paragraph("This strategy shuffles all rows."), *left
    together = " + ".join(shorten(name, NAME) for name in plan.converged)
    names = [*filter(None, [together]), *(shorten(name, NAME) for name in plan.order if name not in plan.converged)]
    said = [" → ".join(names)] if len(names) <= MOST else [f"{names[0]} first, {names[-1]} last", " → ".join(names)]
    why = words.give_order_reason(plan)
    return said[0], *map(markup.make_paragraph, filter(None, [*said[1:], why])), *left


def _step(plan: Plan) -> tuple[str, ...]:
    if not words.was_stepped(plan):
        return "no steps to choose", markup.make_paragraph("All sources in use are learned to convergence.")
    sizes = [size for _, *ends in words.find_spans(plan) for size in ends]
    least, most = format_number(min(sizes), DIGITS), format_number(max(sizes), DIGITS)
    falls = sizes == sorted(sizes, reverse=True)
    said = f"{most} at first, {least} at last" if falls else f"{least} to {most}"
    return said, markup.make_paragraph(words.give_step_reason(plan))


def _worth(plan: Plan, measured: Sequence[str]) -> tuple[str, ...]:
    told = tell_worth(plan)
    lines = map(markup.make_paragraph, [*filter(None, [told.why]), *measured])
    many = len(told.cells) > MOST
    table = markup.make_table(told.caption, told.header, told.cells, told.numbers, stacked=not many)
    return told.answer, table, *([markup.make_paragraph(SIDEWAYS, "narrow")] if many else []), *lines


def _row(plan: Plan) -> tuple[str, ...]:
    cleanest = max(plan.exchange, key=lambda name: plan.exchange[name])
    others = [name for name in plan.exchange if name != cleanest]
    if not others:
        return "only one source", markup.make_paragraph("There is nothing to compare it with.")
    if all(math.isclose(plan.exchange[name], plan.exchange[cleanest], rel_tol=1e-3) for name in others):
        return "the same in every source", markup.make_paragraph("No source has more noise than another.")
    more = "One more row" if plan.anchored is not None else "One row"
    cells = [(name, format_number(1 / plan.exchange[name], DIGITS)) for name in others]
    short = shorten(cleanest, NAME)
    if len(others) == 1:
        other = shorten(others[0], NAME)
        added = f"One more row of {short} adds as much as {cells[0][1]} more of {other}."
        said = added if plan.anchored is not None else _total(plan, others[0], short)
        return f"1 {short} = {cells[0][1]} {other}", markup.make_paragraph(said)
    table = markup.make_table(f"{more} of {short} is worth", ["this many rows", "of"], [cell[::-1] for cell in cells])
    return "", table


def _total(plan: Plan, name: str, cleanest: str) -> str:
    """What all rows of a source count for."""
    rows = next(source.rows for source in plan.sources if source.name == name)
    count = format_number(rows * plan.exchange[name], DIGITS)
    return f"The {rows:,} rows of {shorten(name, NAME)} count for {count} of {cleanest}."


def _cost(cost: Cost, plan: Plan) -> tuple[str, ...]:
    if not cost.after:
        return "nothing", markup.make_paragraph("No source in use is private: no row is protected, and no ε is spent.")
    cells: list[tuple[str, ...]]
    if cost.planned:
        header = ["private source", "ε of a row", "odds change by at most"]
        cells = [(name, f"{epsilon:g}", words.format_odds(epsilon)) for name, epsilon in cost.after.items()]
        caption = "What each row would spend"
    else:
        header = ["private source", "ε before", "after", "left"]
        cells = [
            (name, f"{cost.before.get(name, 0.0):g}", _epsilon(after), _left(cost.left(name)))
            for name, after in cost.after.items()
        ]
        caption = "What each row has spent"
    private = [one for one in plan.sources if one.name in cost.after]
    once = [one.name for one in private if one.noise.once_a_batch]
    odds = words.describe_odds(cost.after.values(), outside=bool(once) and len(once) == len(private))
    labels = [one.name for one in private if not one.noise.protects_features]
    named = ", ".join(shorten(name, NAME) for name in labels)
    warned = [f"Of {named} only the labels are protected, the features are not."] if labels else []
    if once and len(once) < len(private):
        warned.append(f"Of {', '.join(shorten(name, NAME) for name in once)} that holds for everyone outside the site.")
    charged = [cost.charged] if cost.charged else []
    note = [markup.make_paragraph(one) for one in (*charged, *warned, *([words.SIMULATION] if cost.simulated else []))]
    return (
        "",
        markup.make_table(caption, header, cells, set(range(1, len(header)))),
        markup.make_paragraph(odds),
        *note,
    )


def _epsilon(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else "∞"


def _left(value: float | None) -> str:
    return "no budget" if value is None else f"{value:g}"
