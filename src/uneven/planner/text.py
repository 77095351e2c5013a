"""The plan in words, for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from uneven.noise import AdditiveNoise, FlippedLabels, LocalPrivacy, Noise
from uneven.planner.decision import Decision
from uneven.planner.segments import Segment
from uneven.problem import Problem

WIDTH = 100
COMPARE = "Compare by 'evaluated': the inequality behind the theorem, step by step."


def summary(plan: Decision, others: Mapping[str, Decision]) -> str:
    """Plan as a few paragraphs: what to do, why, what it promises, and the other strategies beside it."""
    to_do, promised = (_wrapped(lines) for lines in (words(plan), promise(plan)))
    return "\n\n".join([headline(plan), table(source_rows(plan), right=(2, 5)), to_do, promised, _others(plan, others)])


def noise_words(noise: Noise) -> str:
    """Noise in a few words.

    >>> noise_words(FlippedLabels(rate=0.2))
    '20% of labels flipped'
    """
    if isinstance(noise, LocalPrivacy):
        return f"private, ε = {noise.epsilon:g} ({noise.mechanism})"
    if isinstance(noise, FlippedLabels):
        return f"{100 * noise.known_rate:.3g}% of labels flipped"
    if isinstance(noise, AdditiveNoise):
        return f"gradient noise, variance {noise.variance:g}"
    return noise.kind


def _wrapped(lines: Sequence[str]) -> str:
    return "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in lines)


def headline(plan: Decision) -> str:
    """What is planned, in one line."""
    problem = plan.problem
    clip = "" if problem.clip is None else f", gradients clipped to {problem.clip:g}"
    return (
        f"Plan '{plan.strategy}': {plan.steps:,} step{'s' * (plan.steps > 1)} of {problem.batch_size} rows, "
        f"{problem.loss} loss, "
        f"alpha = {problem.alpha:g}, {problem.n_features} features{clip}"
    )


def source_rows(plan: Decision) -> list[tuple[str, ...]]:
    """A header and a row for each source, in order of use: its rows, noise, step sizes and worth."""
    by_name = {source.name: source for source in plan.sources}
    steps = {name: span for segment, span in _spans(plan) for name in segment.sources}
    rows: list[tuple[str, ...]] = [("use", "source", "rows", "noise", "step sizes", "worth of a row")]
    for name in [*plan.order, *(name for name in by_name if name not in plan.order)]:
        source = by_name[name]
        position = str(plan.order.index(name) + 1) if name in plan.order else "no"
        use = "mixed" if plan.shuffled else position
        worth = f"{plan.exchange[name]:.3g}"
        noise, span = noise_words(source.noise), steps.get(name, "none")
        rows.append((use, shortened(name, 24), f"{source.rows:,}", noise, span, worth))
    return rows


def _spans(plan: Decision) -> Iterator[tuple[Segment, str]]:
    """Each segment with its first and last step size, a short last batch aside."""
    eta, start = plan.step_sizes(), 0
    for segment in plan.segments:
        full = max(segment.rows // segment.batch_size, 1)
        yield segment, f"{eta[start]:.4g} to {eta[start + full - 1]:.4g}"
        start += segment.steps


def words(plan: Decision) -> list[str]:
    """What to do, and what a row of each source is worth: one sentence each."""
    lines = []
    if plan.shuffled:
        lines.append("Shuffle all rows together and use each once.")
    elif len(plan.order) > 1:
        lines.append(f"Use {', then '.join(map(repr, plan.order))}: one pass, each row once.")
    else:
        lines.append(f"Use {plan.order[0]!r} alone: one pass, each row once.")
    if unused := [source.name for source in plan.sources if source.name not in plan.order]:
        lines.append(f"Leave out {', '.join(map(repr, unused))}.")
    if rates := plan.rates:
        described = ", ".join(f"{name!r} {rate:.5g}" for name, rate in rates.items())
        lines.append(f"Step sizes are c/t over all steps t, with c: {described}.")
    cleanest = max(plan.exchange, key=lambda name: plan.exchange[name])
    lines += [
        f"One row of {cleanest!r} is worth {1 / worth:.3g} rows of {name!r}."
        for name, worth in plan.exchange.items()
        if name != cleanest
    ]
    return lines


def promise(plan: Decision) -> list[str]:
    """What the plan promises, and what a reader should know of it: one sentence each."""
    what = f"{plan.theorem}, {'variances' if plan.moments == 'variance' else plan.moments + ' moments'}"
    if plan.moments == "lower":
        lines = [f"The formula gives {number(plan.bound)} for the mean of ‖w - w*‖² ({what})."]
    else:
        which = "average" if plan.theorem == "Theorem B" else "last"
        lines = [f"Promise: the mean of ‖w - w*‖² of the {which} iterate is at most {number(plan.bound)} ({what})."]
    if plan.excess_bound is not None and plan.moments != "lower":
        lines.append(_excess(plan.problem, plan.excess_bound))
    lines += [f"Note: {caveat}" for caveat in plan.caveats]
    return lines


def _excess(problem: Problem, bound: float) -> str:
    """What is promised for f(w) - f*, if that is more than weights of zero promise: ℓ(0) - inf ℓ, log 2 for logistic.

    >>> _excess(Problem(25, 1e-3, 50), 0.7)
    'For f(w) - f* that is no promise: weights of zero, which predict nothing, have at most 0.6931.'
    """
    nothing = problem.loss_function.value_at_zero - problem.loss_function.infimum
    if bound >= nothing:
        return f"For f(w) - f* that is no promise: weights of zero, which predict nothing, have at most {nothing:.4g}."
    return f"So the mean of f(w) - f* is at most {number(bound)}."


def _others(plan: Decision, others: Mapping[str, Decision]) -> str:
    told = " ".join(filter(None, [f"Every strategy (* this plan). {COMPARE}", same_clip(plan)]))
    return _wrapped([told]) + "\n" + table(strategy_rows(plan, others), right=(2, 3))


def same_clip(plan: Decision) -> str:
    """That other strategies are compared with this plan's clip, which they need not have when run; empty if none."""
    clip = plan.problem.clip
    return "" if clip is None else f"All are with gradients clipped to {clip:g}, as this plan has it."


def strategy_rows(plan: Decision, others: Mapping[str, Decision]) -> list[tuple[str, ...]]:
    """A header and a row for each strategy: its order and its bounds."""
    rows: list[tuple[str, ...]] = [("strategy", "order", "bound", "evaluated")]
    for name, other in others.items():
        evaluated = other.evaluated_bound()
        order = "all together" if other.shuffled else shortened(", ".join(other.order), 48)
        mark = f"{name} *" if name == plan.strategy else name
        cell = "" if evaluated is None else number(evaluated)
        rows.append((mark, order, number(other.bound), cell))
    return rows


def number(value: float) -> str:
    """Four digits for a reader.

    >>> [number(x) for x in (21520.3, 0.01234567, 1.5e12)]
    ['21,520', '0.01235', '1.5e+12']
    """
    return f"{value:,.0f}" if 1e3 <= value < 1e9 else f"{value:.4g}"


def shortened(text: str, width: int) -> str:
    """Text on one line, cut to `width`.

    >>> shortened("a rather long name", 10)
    'a rather …'
    """
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Rows in aligned columns, the first as a header.

    >>> print(table([("name", "rows"), ("clinic", "6")], right=(1,)))
    name    rows
    ------------
    clinic     6
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * (len(widths) - 1)), *lines[1:]])
