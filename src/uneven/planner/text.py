"""The plan in words, for a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from uneven.checks import join_words
from uneven.planner.anchored import describe_verdicts
from uneven.planner.guarantees import USELESS
from uneven.planner.prediction import count_kept
from uneven.planner.promises import describe_promises
from uneven.planner.segments import Segment, compute_step_sizes
from uneven.planner.sensitivity import describe_changes
from uneven.planner.shares import has_length_rows
from uneven.problem import Problem
from uneven.schedules import LATE_AVERAGE
from uneven.words import FEW, format_bound, format_count, format_number, format_table, name_few, wrap

if TYPE_CHECKING:
    from uneven.planner.planning import Plan

FRESH = "The bound assumes that each row is used once; w* is the best possible model."
ALL = "Every strategy (* this plan)."
COMPARE = "Compare the 'evaluated' column: the bound computed step by step."
NO_MODEL = "This bound does not guarantee a useful model: all-zero weights meet it too."
NO_OBJECTIVE = "This bound does not guarantee a useful model: all-zero weights meet what it says about the objective."
ONLY_RANK = "Such bounds only rank strategies."
NO_MODELS = (
    "None of these bounds guarantees a useful model: all-zero weights meet what they say about the objective. "
    "They only rank strategies."
)
NO_OTHERS = "No other strategy's bound is informative here: all-zero weights satisfy it."
SAME_ALPHA = "Excess figures are for this alpha: do not compare them with those of a plan with another alpha."

MOST_TOLD = 4
"""Sources that are named with what is predicted without each."""

HARDLY = 0.97
"""Part of the predicted excess without a source above which it hardly helps: as for a verdict of public rows."""

ORDER_WIDTH = 32
"""Letters up to which a strategy's order is told in full."""


def summarize(plan: Plan, others: Mapping[str, Plan]) -> str:
    """Plan as a few paragraphs: what to do, why, what it guarantees, and the other strategies beside it."""
    to_do, guaranteed = wrap(describe_use(plan)), wrap(describe_guarantee(plan))
    sources = format_table(tabulate_sources(plan), right=(2, 5))
    compared = _describe_others(plan, others)
    changes = wrap(describe_changes(plan))
    return "\n\n".join(filter(None, [wrap([_headline(plan)]), sources, to_do, guaranteed, changes, compared]))


def _headline(plan: Plan) -> str:
    problem = plan.problem
    clip = "" if problem.clip is None else f", gradients clipped to {problem.clip:g}"
    if not uses_steps(plan):
        return f"Plan: learn to convergence, {describe_problem(problem)}"
    return f"Plan '{plan.strategy}': {describe_steps(plan)}, {describe_problem(problem)}{clip}"


def uses_steps(plan: Plan) -> bool:
    """Whether a fit takes the plan's steps; not if it learns all rows to convergence."""
    return not plan.converged or plan.anchored is not None


def describe_steps(plan: Plan) -> str:
    """How many steps, and of how many rows: "1,200 steps of 50 rows"; "no steps" where no source takes any."""
    if not plan.steps or not uses_steps(plan):
        return "no steps"
    sizes = sorted({min(one.batch_size, one.rows) for one in plan.segments}) or [plan.problem.batch_size]
    span = "" if len(sizes) == 1 else f"{sizes[0]:,} to "
    return f"{format_count(plan.steps, 'step')} of {span}{format_count(sizes[-1])}"


def describe_steps_taken(plan: Plan, taken: int) -> str:
    """The plan's steps, and what became of rows that took none: `taken` is how many steps moved the weights."""
    kept = sum(count_kept(source.rows, plan.kept) for source in plan.sources if source.name in plan.order)
    if kept:
        return f"{describe_steps(plan)}, and {format_count(kept)} used only to calibrate the weights"
    checked = plan.steps - taken if plan.anchored is not None and taken else 0
    checks = "tests whether this source has" if checked == 1 else "test whether this source has"
    several = len(plan.segments) > 1
    checks = checks.replace("this source has", "these sources have") if several else checks
    seen = f", {checked:,} of them {checks} the same distribution as the public rows" if checked > 0 else ""
    return f"{describe_steps(plan)}{seen}"


def describe_problem(problem: Problem) -> str:
    """Loss, L2 strength and number of weights, an intercept's included.

    >>> describe_problem(Problem(25, 1e-3, 50))
    'logistic loss, alpha = 0.001, 25 weights'
    """
    each = "" if problem.outputs == 1 else f" ({problem.columns:,} for each of {problem.classes} classes, by softmax)"
    return f"{problem.loss} loss, alpha = {problem.given_alpha:.3g}, {format_count(problem.n_features, 'weight')}{each}"


def tabulate_sources(plan: Plan) -> list[tuple[str, ...]]:
    """A header and a row for each source, in order of use: its rows, noise, step sizes and worth."""
    by_name, worth, order = {source.name: source for source in plan.sources}, plan.exchange, plan.order
    spans = list_step_spans(plan) if uses_steps(plan) else []
    steps = {name: f"{a:.4g} to {b:.4g}" for segment, a, b in spans for name in segment.sources}
    later = [name for name in order if name not in plan.converged]
    places = {name: str(later.index(name) + 1 + bool(plan.converged)) if name in later else "1" for name in order}
    rows: list[tuple[str, ...]] = [("use", "source", "rows", "noise", "step sizes", "worth of a row")]
    for name in [*order, *(name for name in by_name if name not in order)]:
        source = by_name[name]
        use = "mixed" if plan.shuffled else places.get(name, "no")
        span = steps.get(name, "none")
        rows.append((use, name, f"{source.rows:,}", source.noise.describe(), span, f"{worth[name]:.3g}"))
    return rows


def list_step_spans(plan: Plan) -> list[tuple[Segment, float, float]]:
    """Each segment with its first and last step size, not counting a short last batch."""
    sizes = compute_step_sizes(plan.segments)
    pairs = zip(plan.segments, sizes, strict=True)
    return [(segment, float(eta[0]), float(eta[segment.full_steps - 1])) for segment, eta in pairs]


def describe_use(plan: Plan) -> list[str]:
    """What to do, and what a row of each source is worth: one sentence each."""
    lines, passes = [], plan.sources[0].passes
    often = ("one pass", "once") if passes == 1 else (f"{passes} passes", f"{passes} times")
    if plan.converged:
        lines.append(
            f"Learn {join_words(list(map(repr, plan.converged)))} to convergence: these rows may be read again."
        )
    stepped = [name for segment in plan.segments for name in segment.sources if name not in plan.converged]
    if plan.converged:
        lines += [f"Then use {_list_in_order(stepped)}: each row once."] if stepped else []
    elif plan.shuffled:
        lines.append(f"Shuffle all rows together and use each {often[1]}.")
    elif len(plan.order) > 1:
        lines.append(f"Use {_list_in_order(plan.order)}: {often[0]}, each row {often[1]}.")
    else:
        lines.append(f"Use {plan.order[0]!r} alone: {often[0]}, each row {often[1]}.")
    unused = [source.name for source in plan.sources if source.name not in plan.order]
    if unused and plan.anchored is None:  # its caveats say so, and why
        lines.append(f"Leave out {name_few(unused)}.")
    if rates := plan.rates:
        described = ", ".join(f"{name!r} {rate:.5g}" for name, rate in rates.items())
        lines.append(f"Step sizes are c/t over all steps t, with c: {described}.")
    if plan.kept:
        lines.append(_describe_kept(plan))
    lines += tell_verdicts(plan) or describe_contributions(plan.predict_without())
    return [*lines, *describe_exchange(plan.exchange), *describe_sizes(plan), *describe_privacy(plan)]


def tell_verdicts(plan: Plan) -> list[str]:
    """A sentence for each verdict, on private labels and on the sources added to them; and what not to compare."""
    later = {} if plan.anchored is None else dict(plan.anchored.verdicts)
    told = [*describe_verdicts(dict(plan.judged)), *describe_verdicts(later)]
    return [*told, SAME_ALPHA] if told else []


def describe_contributions(pairs: Mapping[str, tuple[float, float]]) -> list[str]:
    """What is predicted without each of several sources, the least useful first; and which bring next to nothing.

    Where each alone brings next to nothing, all together may bring much: then nothing is said.

    >>> describe_contributions({"a": (0.1, 0.2), "b": (0.1, 0.101)})[0]
    "Without 'b' the predicted excess would be 0.101 instead of 0.1, without 'a' 0.2."
    """
    order = sorted(pairs, key=lambda name: pairs[name][1])
    idle = [name for name in order if pairs[name][0] > HARDLY * pairs[name][1]]
    if len(idle) == len(pairs):
        return []
    now, (first, *others) = format_number(pairs[order[0]][0], 3), order[:MOST_TOLD]
    then = {name: format_number(pairs[name][1], 3) for name in order}
    rest = "".join(f", without {name!r} {then[name]}" for name in others)
    lines = [f"Without {first!r} the predicted excess would be {then[first]} instead of {now}{rest}."]
    if idle:
        lowered = f"{name_few(idle)} {'each lower' if len(idle) > 1 else 'lowers'} it by less than {1 - HARDLY:.0%}"
        lines.append(f"{lowered}, which is hardly worth any ε.")
    return lines


def _describe_kept(plan: Plan) -> str:
    """Why some rows take no step, and what they are expected to find."""
    if not has_length_rows(plan):
        return (
            f"One row in {plan.kept} of each source tells its class, so that steps begin at the shares of the classes."
        )
    learned = "the length of the weights and the shares of the classes" if plan.tellers else "the length of the weights"
    kept = f"Keep one row in {plan.kept} of each source to set {learned}, because noise is large."
    share = plan.expected_scale
    if share > 0.995:
        return (
            f"{kept} The length is expected to stay as it is, or to shrink where features say little about the label."
        )
    return (
        f"{kept} The weights are expected to shrink to about {share:.0%} of their length, or less where features say "
        "little about the label."
    )


def _list_in_order(names: Sequence[str]) -> str:
    """Names in order of use; of many, where to find it.

    >>> _list_in_order(["a", "b"]), _list_in_order([str(k) for k in range(20)])
    ("'a', then 'b'", '20 sources in the order of the table')
    """
    if len(names) > FEW:
        return f"{len(names)} sources in the order of the table"
    return ", then ".join(map(repr, names))


def describe_sizes(plan: Plan) -> list[str]:
    """Batch sizes that were chosen, with what others would give: one sentence per source."""
    what = "predicted excess" if plan.predicted_excess is not None else "bound"
    chosen = plan.batch_sizes
    lines = []
    for name, sizes in plan.other_sizes().items():
        others = ", ".join(f"{size:,}: {value:.2g}" for size, value in sizes.items() if size != chosen[name])
        best = f"{name!r}: {chosen[name]:,} rows per step, chosen for the least {what}, {sizes[chosen[name]]:.2g}"
        lines.append(f"{best} (with {others})." if others else f"{best}.")
    return lines


def describe_privacy(plan: Plan) -> list[str]:
    """From whom rows are protected, and what the other promise would bring at the same ε."""
    used = [source for source in plan.sources if source.name in plan.order]
    return describe_promises(used, plan.other_promises(), plan.predicted_excess is not None)


def describe_exchange(worth: Mapping[str, float]) -> list[str]:
    """How many rows of each source one row of the cleanest is worth.

    >>> describe_exchange({"a": 0.25, "b": 1.0})
    ["One row of 'b' is worth 4 rows of 'a'."]
    """
    best = max(worth, key=lambda name: worth[name])
    others = [name for name in worth if name != best]
    if len(others) > FEW:
        least, most = (format_number(1 / end(worth[name] for name in others), 3) for end in (max, min))
        return [f"One row of {best!r} is worth {least} to {most} rows of the {len(others)} other sources."]
    rows = {name: format_number(1 / worth[name], 3) for name in others}
    return [f"One row of {best!r} is worth {n} row{'s' * (n != '1')} of {name!r}." for name, n in rows.items()]


def describe_guarantee(plan: Plan) -> list[str]:
    """What the plan guarantees, and its caveats: one sentence each."""
    basis = f"{plan.theorem}, {name_moments(plan.moments)}"
    if plan.anchored is not None:
        told = describe_expected(plan, 2)
        return [f"{told} ({basis}).", *(f"Note: {caveat}" for caveat in plan.caveats)]
    if not uses_steps(plan):
        return [f"Note: {caveat}" for caveat in plan.caveats]
    if plan.void:
        return [f"No bound is promised: {plan.void}", *(f"Note: {caveat}" for caveat in plan.caveats)]
    if plan.moments == "lower":
        lines = [f"The formula gives {format_number(plan.bound)} for the mean of ‖w - w*‖² ({basis})."]
    else:
        which = plan.guarantee.iterate
        word = "Promise" if can_promise(plan) else "Bound"
        lines = [
            f"{word}: the mean of ‖w - w*‖² of the {which} iterate is at most {format_number(plan.bound)} ({basis})."
        ]
        if can_promise(plan) and plan.average == "late" and plan.answer_bound is not None:
            lines.append(f"For {LATE_AVERAGE}, which a fit returns, the bound is {format_number(plan.answer_bound)}.")
        lines.append(FRESH)
        if not can_promise(plan):
            lines.append(explain_useless(plan))
        elif plan.excess_bound is not None:
            lines.append(f"So the mean of f(w) - f* is at most {format_number(plan.excess_bound)}.")
    return lines + [f"Note: {caveat}" for caveat in plan.caveats if not caveat.startswith(USELESS)]


def describe_expected(plan: Plan, digits: int) -> str:
    """Expected excess from the rows without privacy alone, with private labels where some are used, and with all."""
    assert plan.anchored is not None
    start = f"{find_excess_start(plan):.{digits}g} from the rows without privacy alone"
    labels = any(one.use for _, one in plan.judged)
    then = f", {plan.anchored.excess_start:.{digits}g} with those with private labels" if labels else ""
    every = all(one.use for _, one in plan.anchored.verdicts)
    together = "all" if every else "all that are used"
    return f"Expected f(w) - f*: {start}{then}, {plan.anchored.excess:.{digits}g} with {together}"


def find_excess_start(plan: Plan) -> float:
    """Expected excess without any private source; rows with private labels are added to the public ones first."""
    if plan.anchored is not None and not any(one.use for _, one in plan.judged):
        return plan.anchored.excess_start
    return max(one.excess_without for _, one in plan.judged)


def can_promise(plan: Plan) -> bool:
    """Whether the bound excludes weights of zero: f(w) - f* must be below ℓ(0) - inf ℓ, log 2 for logistic.

    >>> import uneven
    >>> few, many = (uneven.plan([uneven.Source("clinic", rows)], 5, alpha=0.01) for rows in (100, 100_000))
    >>> can_promise(few), can_promise(many)
    (False, True)
    """
    loss = plan.problem.loss_function
    if plan.bound >= plan.problem.ball**2:
        return False
    return plan.excess_bound is None or plan.excess_bound < loss.value_at_zero - loss.infimum


def explain_useless(plan: Plan) -> str:
    """Why a bound that promises nothing does not: weights of zero meet it, or what follows from it for f(w) - f*.

    >>> import uneven
    >>> explain_useless(uneven.plan([uneven.Source("clinic", 100)], 5, alpha=0.01)) == NO_OBJECTIVE
    True
    """
    return NO_MODEL if plan.bound >= plan.problem.ball**2 else NO_OBJECTIVE


def name_moments(moments: str) -> str:
    """Moments in words.

    >>> name_moments("variance"), name_moments("upper")
    ('variances', 'upper moments')
    """
    return "variances" if moments == "variance" else f"{moments} moments"


def _describe_others(plan: Plan, others: Mapping[str, Plan]) -> str:
    """What the other strategies' bounds are; empty where nothing has one, or no step is taken."""
    bounded = [one for one in others.values() if math.isfinite(one.bound) and one.anchored is None]
    if not bounded or not uses_steps(plan):
        return ""
    useful = any(map(can_promise, bounded))
    if not useful and plan.anchored is not None:
        return wrap([NO_OTHERS])
    if len(plan.sources) > FEW:
        known = {name: one for name, other in others.items() if (one := other.evaluated_bound()) is not None}
        best = min(known, key=lambda name: known[name])
        told = (
            f"Of all strategies {best!r} has the smallest bound, computed step by step: {format_number(known[best])}."
        )
        return wrap([" ".join([told, *([] if useful else [ONLY_RANK]), "The report has a table."])])
    which = "Strategies with a bound; 'anchored' has an estimate instead." if plan.anchored else ALL
    caption = " ".join(filter(None, [which, COMPARE, describe_clip(plan), "" if useful else NO_MODELS]))
    return wrap([caption]) + "\n" + format_table(tabulate_strategies(plan, others), right=(2, 3))


def describe_clip(plan: Plan) -> str:
    """Note that all strategies are compared at this plan's clip, though they may run with another; empty if none."""
    clip = plan.problem.clip
    return "" if clip is None else f"All have gradients clipped to {clip:g}, as in this plan."


def shorten_order(names: Sequence[str]) -> str:
    """Names in order of use; of many, the first and the last.

    >>> shorten_order(["a", "b"]), shorten_order([f"clinic {k}" for k in range(10)])
    ('a, b', 'clinic 0, ..., clinic 9')
    """
    told = ", ".join(names)
    return told if len(told) <= ORDER_WIDTH or len(names) < 3 else f"{names[0]}, ..., {names[-1]}"


def tabulate_strategies(plan: Plan, others: Mapping[str, Plan]) -> list[tuple[str, ...]]:
    """A header and a row for each strategy that has a bound: its order and its bounds."""
    rows: list[tuple[str, ...]] = [("strategy", "order", "bound", "evaluated")]
    for name, other in others.items():
        evaluated = other.evaluated_bound()
        if other.anchored is not None:
            continue  # its figure is an estimate: no bound to compare
        order = "all together" if other.shuffled else shorten_order(other.order)
        mark = f"{name} *" if name == plan.strategy else name
        cell = "" if evaluated is None else format_number(evaluated)
        rows.append((mark, order, format_bound(other.bound), cell))
    return rows
