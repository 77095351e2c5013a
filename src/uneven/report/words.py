"""A plan in plain words, with its reasons: what to use first, how far to step, what a row of each is worth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from uneven.checks import join_words
from uneven.planner import FEW_NAMED, Plan, list_step_spans, shorten_order, tell_verdicts
from uneven.schedules import Averaged, Rate
from uneven.words import format_number, read_clock

if TYPE_CHECKING:
    from uneven.training import FileFit

SIMULATED = "A simulation: the noise came from a seed and can be repeated, so this protects nobody."

QUESTION = (
    "In what order should this data be used, how far should each step go, is each source worth using, and what is "
    "it worth?"
)
EACH_COORDINATE = (
    "each coordinate has its own step size: long where the rows without privacy leave the weights uncertain, short "
    "where they are known."
)
SIMULATION = "This was a simulation: with a seed the noise can be repeated, so it protects nobody."


def explain(plan: Plan) -> list[str]:
    """What the plan says to do and why, a sentence or three for each question.

    >>> import uneven
    >>> two = [uneven.Source("a", 100), uneven.Source("b", 900, uneven.FlippedLabels(0.3))]
    >>> for line in explain(uneven.plan(two, 5)):
    ...     print(line)
    What first: use 'b', then 'a'. The last steps decide where ...
    How far to step: ... on 'b', then ... on 'a'. ...
    What a row is worth: one row of 'a' is worth 6.25 rows of 'b', so the 900 rows of 'b' count for 144 of 'a'.
    """
    if plan.converged:
        return _explain_converged(plan)
    return [
        f"What first: {_explain_order(plan)}",
        f"How far to step: {_explain_steps(plan)}",
        f"What a row is worth: {_explain_worth(plan)}",
    ]


def was_stepped(plan: Plan) -> bool:
    """Whether any source is used step by step; else all that are used were learned to convergence."""
    return bool(plan.segments) and (plan.anchored is not None or not plan.converged)


def _explain_converged(plan: Plan) -> list[str]:
    """The answers for a fit that learned some or all of its sources to convergence."""
    first = f"learn {join_words(list(map(repr, plan.converged)))} to convergence: these rows may be read again."
    stepped = [name for name in plan.order if name not in plan.converged]
    unused = [source.name for source in plan.sources if source.name not in plan.order]
    first += f" Then use {', then '.join(map(repr, stepped))}, each row once." if stepped else ""
    first += f" Leave out {join_words(list(map(repr, unused)))}." if unused else ""
    far = EACH_COORDINATE if was_stepped(plan) else "there are no step sizes to choose."
    verdicts = " ".join(tell_verdicts(plan))
    return [
        f"What first: {first}",
        f"How far to step: {far}",
        *([f"Is private data worth using: {verdicts}"] if verdicts else []),
        f"What a row is worth: {_explain_worth(plan)}",
    ]


def _explain_order(plan: Plan) -> str:
    if plan.shuffled:
        return "shuffle all rows together. This strategy makes no difference between them."
    named = ", then ".join(map(repr, plan.order))
    unused = [source.name for source in plan.sources if source.name not in plan.order]
    if unused:
        return f"use {named} alone, and leave out {join_words(list(map(repr, unused)))}."
    return f"use {named}. {give_order_reason(plan)}".rstrip()


def describe_order(plan: Plan) -> str:
    """Sources in order of use for a table: of many, the first and the last."""
    return ", ".join(plan.order) if len(plan.order) <= FEW_NAMED else shorten_order(plan.order)


def give_order_reason(plan: Plan) -> str:
    """Why the sources come in this order."""
    if plan.converged:
        then = " Private sources come after them, each row once." if was_stepped(plan) else ""
        labels = any(one.noise.private for one in plan.sources if one.name in plan.converged)
        released = ", and those whose private labels are released once," if labels else ""
        return f"Rows without privacy{released} are learned to convergence: they may be read again.{then}"
    if len(plan.sources) == 1:
        return "It is the only source."
    worth = [plan.exchange[name] for name in plan.order]
    if worth == sorted(worth) and worth[0] < worth[-1]:
        return (
            "The last steps decide where the weights end up, so the cleanest rows come last: errors from noisy rows "
            "fade with the steps that follow."
        )
    if worth == sorted(worth, reverse=True) and worth[0] > worth[-1]:
        return "The cleanest come first, as this strategy asks."
    return ""


def _explain_steps(plan: Plan) -> str:
    said = ", then ".join(
        f"{format_number(a)} down to {format_number(b)} on {name}" for name, a, b in find_spans(plan, quoted=True)
    )
    return f"{said}. {give_step_reason(plan)}"


def give_step_reason(plan: Plan) -> str:
    """What decides how long a step is."""
    if plan.anchored is not None:
        return EACH_COORDINATE[0].upper() + EACH_COORDINATE[1:]
    schedule = plan.segments[0].schedule
    if isinstance(schedule, Rate):
        rates = plan.rates or {}
        return f"The t-th step is c/t long, with c = {join_words([f'{c:.5g} for {n!r}' for n, c in rates.items()])}."
    if isinstance(schedule, Averaged):
        return "Steps are longer where gradients have less noise, and the answer is the average of all weights."
    return (
        "Steps are longer where gradients have less noise (in proportion to one over their variance), and "
        f"{'within a source ' * (len(plan.segments) > 1)}become shorter as more has been learned."
    )


def find_spans(plan: Plan, quoted: bool = False) -> list[tuple[str, float, float]]:
    """Name, first and last step size of each segment, a short last batch aside."""
    found = []
    for segment, first, last in list_step_spans(plan):
        own = repr(segment.sources[0]) if quoted else segment.sources[0]
        found.append(("all rows" if len(segment.sources) > 1 else own, first, last))
    return found


def _explain_worth(plan: Plan) -> str:
    cleanest = max(plan.exchange, key=lambda name: plan.exchange[name])
    rows = {source.name: source.rows for source in plan.sources}
    others = [name for name in plan.exchange if name != cleanest]
    if not others:
        return f"{cleanest!r} is the only source."
    if plan.anchored is not None:  # what one row more adds: not to be multiplied by the rows that are there
        worth = [f"{format_number(1 / plan.exchange[name])} more of {name!r}" for name in others]
        return f"one more row of {cleanest!r} adds as much as {join_words(worth)}."
    said = [
        f"one row of {cleanest!r} is worth {format_number(1 / plan.exchange[name])} rows of {name!r}, so the "
        f"{rows[name]:,} rows of {name!r} count for {format_number(rows[name] * plan.exchange[name])} of {cleanest!r}"
        for name in others
    ]
    return "; ".join(said) + "."


def share_information(plan: Plan) -> dict[str, tuple[float, float]]:
    """Share of the rows and of the information (rows times exchange rate) of each source used."""
    rows = {source.name: float(source.rows) for source in plan.sources if source.name in plan.order}
    worth = {name: n * plan.exchange[name] for name, n in rows.items()}
    return {name: (rows[name] / sum(rows.values()), worth[name] / sum(worth.values())) for name in plan.order}


def _epsilon(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:g}"


def describe_repeat(costs: Mapping[str, float], command: str, left: Mapping[str, float | None] | None = None) -> str:
    """The command to run it again, as a comment where that would spend privacy: pasted, it does nothing.

    `left` is what rows may still spend by the ledger: where it is less, the command is refused.
    """
    if not costs:
        return command
    each = "; ".join(f"{epsilon:g} for each row of {name!r}" for name, epsilon in costs.items())
    rest = {name: (left or {}).get(name) for name in costs}
    short = [f"{one:g} of {name!r}" for name, one in rest.items() if one is not None and one < costs[name]]
    if short:
        return (
            f"# Running it again would spend privacy again: ε = {each}.\n"
            f"# It will be refused: the ledger has only ε = {'; '.join(short)} left for each row.\n# {command}"
        )
    return f"# Running it again would spend privacy again: ε = {each}. To do so, remove the '#':\n# {command}"


def explain_learned_rows(trained: FileFit) -> str:
    """Why scores on rows learned from are not those on others: too good, or too low where labels are wrong."""
    sampled, classes = trained.trained.sampled, len(trained.model.classes)
    noises = {one.name: one.noise.observed_among(classes) for one in trained.plan.sources if one.name in sampled}
    rates = {name: noise.known_rate for name, noise in noises.items() if noise.known_rate}
    if not rates:
        return "Scores on rows learned from are too good: compare on other rows."
    if len(rates) > FEW_NAMED:
        wrong = f"Up to {max(rates.values()):.0%} of the labels of {len(rates)} sources are wrong"
    else:
        wrong = f"{join_words([f'{rate:.0%} of the labels of {name!r}' for name, rate in rates.items()])} are wrong"
    return f"{wrong}, so scores on rows learned from are too low: compare on rows with true labels."


COPIED = (
    "Some private rows are exact copies of others. Each is charged as a row of its own: if they are one person's, "
    "that person spends ε once per copy. Drop copies, or give ids."
)
UNTOLD = (
    "Whether rows were longer than row_norm and shrunk to it, or are exact copies of others that are each "
    "charged, is not said here, because redact is set: the rows' owner sees it in the terminal."
)


HUGE = 2_000
"""Odds to 1 above which a guess is as good as known."""


def describe_cautions(trained: FileFit) -> list[str]:
    """What a fit warned about; without the counts, which are for the rows' owner only, and with redact not at all."""
    if trained.model.settings.redact:
        return [UNTOLD] if any(source.noise.private for source in trained.plan.sources) else []
    names = ", ".join(map(repr, trained.trained.too_long))
    shrunk = (
        f"Some rows of {names} are longer than row_norm = {trained.scale.row_norm:g} and were shrunk to it; row_norm "
        "in the sources file is a public bound on the rows' norm."
    )
    return [*([shrunk] if names else []), *([COPIED] if trained.trained.copied else [])]


def describe_privacy(spent: Mapping[str, float], simulated: bool, planned: bool = False) -> list[str]:
    """What each private row has spent, or would spend, in words."""
    spend = "would spend" if planned else "has spent"
    lines = [f"Each row of {name!r} {spend} ε = {_epsilon(epsilon)}." for name, epsilon in spent.items()]
    if spent and simulated:
        lines.append(SIMULATION)
    return lines or ["No source is private: no ε was spent, and no row is protected."]


def describe_charge(ledger: str) -> str:
    """Where private rows were charged, and when."""
    day = f"{read_clock():%Y-%m-%d}"
    if ledger:
        return f"Charged in {ledger} before the rows were used; earlier charges are included. Written on {day}."
    return f"No ledger keeps account of it. Written on {day}."


def describe_odds(epsilons: Iterable[float], outside: bool) -> str:
    """What ε means at its smallest and largest, in odds; `outside` where it holds for those outside a site only.

    >>> describe_odds([1.0, 1.0], outside=True)
    'In odds, for everyone outside its site: at ε = 1, odds of 1 to 10 on any guess about a row become at most 2.7 ...
    """
    given = [one for one in epsilons if one] or [0.0]
    each = "; ".join(
        f"at ε = {_epsilon(epsilon)}, odds of 1 to 10 on any guess about a row {_tell_odds(epsilon)}"
        for epsilon in sorted({min(given), max(given)})
    )
    return f"In odds{', for everyone outside its site' * outside}: {each}."


def _tell_odds(epsilon: float) -> str:
    """What odds of 1 to 10 become.

    >>> [_tell_odds(epsilon) for epsilon in (1.0, 3.0, 8.0)]
    ['become at most 2.7 to 10', 'become at most 2 to 1', 'become at most 298 to 1']
    >>> _tell_odds(10.0)
    'may become more than 2,000 to 1: practically no protection'
    """
    if not math.isfinite(epsilon):
        return "may become anything: nothing is promised"
    factor = math.exp(min(epsilon, 700.0))
    if factor > 10 * HUGE:
        return f"may become more than {HUGE:,} to 1: practically no protection"
    odds, to = (factor, 10) if factor < 10 else (factor / 10, 1)
    return f"become at most {odds:.2g} to {to}" if odds < 100 else f"become at most {format_number(odds, 3)} to {to}"


def format_odds(epsilon: float) -> str:
    """Factor e^ε.

    >>> format_odds(1.0), format_odds(10.0), format_odds(0.0)
    ('2.7', '22,026', '1')
    """
    factor = math.exp(min(epsilon, 700.0))
    return f"{factor:.2g}" if factor < 100 else format_number(factor)


def describe_sources(plan: Plan) -> list[tuple[str, str, str, str]]:
    """Name, rows, noise and price of each source, for a reader."""
    prices = ["" if source.price is None else f"{source.price:g}" for source in plan.sources]
    return [(s.name, f"{s.rows:,}", s.noise.describe(), price) for s, price in zip(plan.sources, prices, strict=True)]
