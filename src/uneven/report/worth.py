"""Whether each source is worth using: verdicts, or what is predicted without looking at rows; as a table and charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from uneven.anchor import LITTLE, WORTH
from uneven.planner import SAME_ALPHA, VERDICTS, Plan, Verdict, find_excess_start, predict_excess
from uneven.report import charts, markup, words
from uneven.report.axes import Axis, choose_axis
from uneven.report.charts import Dot, describe_interval
from uneven.words import format_number, shorten

if TYPE_CHECKING:
    from uneven.training import Measure

MOST_DRAWN = 4
"""Most sources whose accuracy is drawn one by one; of more, that of all together."""

FAR = 5.0
"""Times the largest excess from which predicting nothing is told and not drawn: else all else would be in one place."""

PROBABILITIES = "* Worth it for its probabilities: accuracy gains less than half a percentage point. "
"""Said where "worth it" has a star."""

ALIKE = "the same"
"""Said in place of an accuracy that rounds to the one beside it."""

NAME = 28
"""Longest name of a source in an answer."""

NAMED = 4
"""Most sources of one verdict that an answer names."""

DEFINED = (
    f"Worth it: the excess with it is up to {WORTH:g} of that without it. Little: up to {LITTLE:g}. No: more than "
)
LEFT_OUT = "that, so it is left out and not charged. "
ALL_USED = "that; it is used all the same, as the settings ask. "
HELPS = ("helps clearly", "a little", "hardly")
HELPED = (
    f"Helps clearly: the predicted excess with it is up to {WORTH:g} of that without it. A little: up to {LITTLE:g}. "
    "Hardly: more. "
)
TOGETHER = "each alone hardly helps; together they may"

DECIDED = (
    "The verdict goes by the excess objective, which is how far the objective is above its minimum. It is estimated "
    "from the rows without privacy, before any ε is spent. Where accuracy hardly changes though the excess does, it is "
    "the predicted probabilities that gain. "
    "Overlapping intervals do not mean that a source adds nothing: each is for one figure, not for the difference."
)
SMALLER = "it and the smaller ones"
"""What a source is judged together with, where others bring no more than it."""

JOINT = " Each source is removed together with all sources that contribute less."
SOME_UNUSED = " Figures with all are with the sources that are used; for a source that is left out, with every source."
ALL_PRIVATE = "No verdict: estimating accuracy needs public rows. "
NOT_LEARNED_FIRST = (
    "No verdict: one is given only where public rows are learned first, and once private labels, if any, have been "
    "released. "
)
PREDICTED = (
    "The excess objective, how far the objective is above its minimum, is predicted from numbers of rows and noise "
    "alone, for a typical problem. Compare these figures with one another: a source is worth its ε where the excess is "
    "clearly larger without it."
)
UNTOLD = "No verdict: that needs rows without privacy. "
UNPREDICTED = (
    "Information is rows ÷ variance of one row's gradient. A source with 5% of it makes the answer about 5% more "
    "precise; decide whether that is worth its ε."
)
FREE = "No source is private, so using all of them costs no ε."


class Worth(NamedTuple):
    """Whether each source is worth using: in a few words; as a table, its header, cells and caption; what to know."""

    answer: str
    header: list[str]
    cells: list[tuple[str, ...]]
    caption: str
    why: str
    numbers: set[int]


def tell_worth(plan: Plan) -> Worth:
    """Verdicts where rows without privacy gave some; else the predicted excess, or the share of the information."""
    if plan.verdicts:
        return _tell_verdicts(plan)
    shares, pairs = words.share_information(plan), plan.predict_without()
    header = ["source", "used?", "share of the information"]
    cells: list[tuple[str, ...]] = [
        (one.name, "yes", charts.format_percent(shares[one.name][1])) if one.name in shares else (one.name, "no", "")
        for one in plan.sources
    ]
    if pairs:
        header += ["predicted excess with it", "excess without it", "change"]
        blank = ("", "", "")
        told = {name: (*map(format_number, pair), _change(*pair)) for name, pair in pairs.items()}
        cells = [(*cell, *told.get(cell[0], blank)) for cell in cells]
    private = any(source.noise.private for source in plan.sources)
    some_open = private and not all(source.noise.private for source in plan.sources)
    reasons = (NOT_LEARNED_FIRST, NOT_LEARNED_FIRST) if some_open else (ALL_PRIVATE, UNTOLD)
    compared = f"{PREDICTED}{_tell_nothing(plan)} {SAME_ALPHA}"
    why = HELPED + reasons[0] + compared if pairs else reasons[1] + UNPREDICTED if private else FREE
    answer = _answer_predicted(pairs) if pairs else "no verdict" if private else "all cost no ε"
    return Worth(answer, header, cells, "What each source adds", why, set(range(2, len(header))))


def _answer_predicted(pairs: dict[str, tuple[float, float]]) -> str:
    """Which sources lower the predicted excess, in a few words.

    >>> _answer_predicted({"a": (0.1, 0.2), "b": (0.1, 0.101), "c": (0.1, 0.11)})
    'helps clearly: a; a little: c; hardly: b'
    >>> _answer_predicted({"a": (0.1, 0.1), "b": (0.1, 0.101)})
    'each alone hardly helps; together they may'
    """
    told = {name: HELPS[(now > WORTH * without) + (now > LITTLE * without)] for name, (now, without) in pairs.items()}
    alike = len(told) > 1 and set(told.values()) == {HELPS[-1]}
    return TOGETHER if alike else _group_names(told, HELPS)


def _answer_verdicts(verdicts: dict[str, Verdict]) -> str:
    """The verdicts in a few words; that on a single source with its accuracies."""
    if len(verdicts) > 1:
        return _group_names({name: one.word for name, one in verdicts.items()}, VERDICTS)
    ((name, one),) = verdicts.items()
    now, without = (f"{pair[0]:.1%}" for pair in (one.accuracy, one.accuracy_without))
    gain = f"{now} with it and without" if now == without else f"{now} with it, {without} without"
    return f"{shorten(name, NAME)}: {one.word}: accuracy {gain}"


def _group_names(told: dict[str, str], kinds: Sequence[str]) -> str:
    """Sources by what is said of each; of many, their number.

    >>> _group_names({"a": "no", "b": "yes", "c": "no"}, ("yes", "no"))
    'yes: b; no: a, c'
    """
    groups = {kind: [shorten(name, NAME) for name, one in told.items() if one == kind] for kind in kinds}
    listed = {
        kind: ", ".join(names) if len(names) <= NAMED else f"{len(names)} sources" for kind, names in groups.items()
    }
    return "; ".join(f"{kind}: {names}" for kind, names in listed.items() if names)


def _tell_verdicts(plan: Plan) -> Worth:
    cells: list[tuple[str, ...]] = [
        (
            name,
            f"{one.word}*" if one.gains_probabilities else one.word,
            format_number(one.excess, 3),
            format_number(one.excess_without, 3),
            _change(one.excess, one.excess_without),
            describe_interval(one.accuracy),
            ALIKE if _are_alike(one.accuracy, one.accuracy_without) else describe_interval(one.accuracy_without),
        )
        for name, one in plan.verdicts.items()
    ]
    joint = _are_joint(plan)
    ends = ("with all", f"without {SMALLER}") if joint else ("with it", "without it")
    header = [
        "private source",
        "verdict",
        *(f"excess {one}" for one in ends),
        "change",
        *(f"accuracy {one}" for one in ends),
    ]
    caption = "Expected excess objective and accuracy (95% interval), before any ε was spent"
    starred = any(one.gains_probabilities for one in plan.verdicts.values())
    unused = joint and not all(one.use for one in plan.verdicts.values())
    kept = any(not one.use and name in plan.order for name, one in plan.verdicts.items())
    defined = DEFINED + (ALL_USED if kept else LEFT_OUT)
    why = f"{defined}{PROBABILITIES * starred}{DECIDED}{JOINT * joint}{SOME_UNUSED * unused} {SAME_ALPHA}"
    return Worth(_answer_verdicts(plan.verdicts), header, cells, caption, why, {2, 3, 4, 5, 6})


def _are_joint(plan: Plan) -> bool:
    """Whether some source is judged together with others that bring no more."""
    return any(one.others for one in plan.verdicts.values())


def list_excesses(plan: Plan) -> dict[str, tuple[float, float]]:
    """Excess with and without each source, as expected by its verdict or as predicted."""
    return {name: (one.excess, one.excess_without) for name, one in plan.verdicts.items()} or plan.predict_without()


def _tell_nothing(plan: Plan) -> str:
    nothing = predict_excess(plan.problem, ())
    return "" if nothing is None else f" A model with all weights zero has an excess of {format_number(nothing)}."


def _change(now: float, without: float) -> str:
    """Change by a source, in percent.

    >>> _change(0.8, 1.0), _change(0.9999, 1.0), _change(0.0, 0.0)
    ('-20%', '0.0%', '')
    """
    change = 100 * (now / without - 1) if without else 0.0
    if without and abs(change) < 0.05:
        return "0.0%"
    return f"{change:+.{0 if abs(change) >= 9.95 else 1}f}%" if without else ""


def _are_alike(*shares: tuple[float, float, float]) -> bool:
    """Whether these look the same to a reader."""
    return len({f"{100 * one[0]:.1f}" for one in shares}) == 1


def draw_worth(plan: Plan, measures: Sequence[Measure] = ()) -> str:
    """What each source is expected to add, and what was measured; empty without anything of the kind."""
    pairs = list_excesses(plan)
    parts = [*([_draw_excess(plan, pairs)] if pairs else []), *_draw_accuracy(plan, measures)]
    heading = "What each private source adds" if plan.verdicts else "What each source adds"
    return markup.make_section(heading if pairs else "How well it does in comparison", *parts) if parts else ""


def _draw_excess(plan: Plan, pairs: dict[str, tuple[float, float]]) -> str:
    nothing = predict_excess(plan.problem, ())
    start = find_excess_start(plan) if plan.verdicts else nothing or 0.0
    what = "expected" if plan.verdicts else "predicted"
    dotted = "from the rows without privacy alone" if plan.verdicts else "predicting nothing"
    rows = [(name, *pair) for name, pair in pairs.items()]
    largest = max(sum(pairs.values(), ()))
    near = start <= FAR * largest
    axis = Axis(f"{what} excess objective (smaller is better)", 0.0, 1.05 * max(start if near else 0.0, largest))
    compared = f"Dotted: {dotted}, {format_number(start)}." if near else f"Not drawn: {dotted}, {format_number(start)}."
    joint = _are_joint(plan)
    ends = f"Filled: without {SMALLER}. Hollow: with all." if joint else "Filled: without this source. Hollow: with it."
    told = f"{ends} {compared}"
    title = f"{what.capitalize()} excess objective with and without each source{' and the smaller ones' * joint}"
    return charts.draw_intervals(title, told, rows, axis, "", start if near else None)


def _draw_accuracy(plan: Plan, measures: Sequence[Measure]) -> list[str]:
    """Accuracy as expected and as measured, with lines at the majority class and at the public rows alone."""
    groups = [
        (name, [Dot(f"with {with_it}", *one.accuracy, 0), Dot(f"without {without}", *one.accuracy_without, 7)])
        for name, one, with_it, without in _list_drawn(plan)
    ]
    unseen = [one for one in measures if not one.learned_from] or list(measures)
    lines = [("public rows alone, expected", find_public_accuracy(plan))] if plan.verdicts else []
    if unseen:
        beside = unseen[0].compared
        groups.append((f"measured on {unseen[0].which}", _list_measured(unseen[0])))
        lines = [(one.name, one.accuracy.value) for one in beside.others]
    if not groups:
        return []
    every = [end for _, dots in groups for dot in dots for end in (dot.low, dot.high)]
    axis = choose_axis("accuracy", [*every, *(value for _, value in lines)], percent=True)
    together = " and the smaller ones" * (_are_joint(plan) and len(plan.verdicts) <= MOST_DRAWN)
    title = f"Accuracy with and without each private source{together}" if plan.verdicts else "Measured accuracy"
    return [charts.draw_dots(title, "Bars: 95% intervals.", groups, axis, lines)]


def _list_drawn(plan: Plan) -> list[tuple[str, Verdict, str, str]]:
    """Verdicts whose accuracy is drawn, with what to call both ends; of many, all together."""
    if len(plan.verdicts) > MOST_DRAWN:
        return [("all private sources", max(plan.verdicts.values(), key=lambda one: one.others), "them", "them")]
    return [
        (name, one, "all" if one.others else "it", SMALLER if one.others else "it")
        for name, one in plan.verdicts.items()
    ]


def _list_measured(measure: Measure) -> list[Dot]:
    scores = [(measure.compared.scores, 0), *((one, 7) for one in measure.compared.others)]
    return [Dot(one.name, *one.accuracy, colour) for one, colour in scores]


def doubt_expected(plan: Plan, measures: Sequence[Measure]) -> list[str]:
    """One caveat for each measure on rows not learned from whose accuracy is clearly not the expected one."""
    if not plan.verdicts:
        return []
    used = [one for one in plan.verdicts.values() if one.use]
    most = max(used or plan.verdicts.values(), key=lambda one: one.others)
    value, low, high = most.accuracy if used else most.accuracy_without
    told = []
    for one in measures:
        found = one.compared.scores.accuracy
        if not one.learned_from and (found.high < low or found.low > high):
            told.append(
                f"Accuracy on {one.which} is {describe_interval(found)}, but {describe_interval((value, low, high))} "
                "was expected, and the intervals do not overlap. Perhaps a stated noise is wrong, or these rows are "
                "of another population than those without privacy."
            )
    return told


def find_public_accuracy(plan: Plan) -> float:
    """Expected accuracy without any private source."""
    first = dict(plan.judged) or plan.verdicts  # private labels are added first, and others to them
    return max(first.values(), key=lambda one: one.others).accuracy_without[0]
