"""The tiles of a report on a crowd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uneven.report import charts, markup
from uneven.words import format_count, format_number, shorten

if TYPE_CHECKING:
    from uneven.crowd import Crowd
    from uneven.training import Comparison

NAME = 28
MOST_DRAWN = 12
"""Workers in the chart; the table has all."""

LEAST_WORTH = 0.1
"""Worth of a label, in exact ones, below which a worker is hardly worth asking."""


def answer_for_crowd(crowd: Crowd, compared: Comparison | None) -> dict[str, tuple[str, ...]]:
    """Questions and answers: those of a plan that a crowd has too, and how good the labels are."""
    from uneven.crowd import describe_crowd

    asked, labels = describe_crowd(crowd)
    text = markup.make_paragraph
    measured = [text(line) for line in tell_accuracy(compared)] if compared else []
    return {
        "Whom to ask first?": (
            _name_best(crowd),
            text("Their labels are worth most, by the lower end of the 95% interval: few labels prove little."),
        ),
        "How good are the labels?": (f"about {crowd.flip_rates.mean():.1%} wrong", text(labels), *measured),
        "Is each worker worth asking?": (*_tell_workers(crowd), text(asked)),
        "What is an answer worth?": (_tell_exchange(crowd), text("On average over all answers, in exact labels.")),
        "What does it cost in privacy?": (
            "nothing",
            text("Answers are not private: no ε is spent, and nobody is protected."),
        ),
    }


def draw_shares(crowd: Crowd) -> str:
    """How much each worker brings, beside how much each has answered; empty where no label carries information."""
    answers = sum(one.labels for one in crowd.workers)
    worth = sum(one.labels * one.worth for one in crowd.workers)
    if not worth > 0:
        return ""
    shown = sorted(crowd.workers, key=lambda one: -one.labels * one.worth)[:MOST_DRAWN]
    rows = [(str(one.name), one.labels / answers, one.labels * one.worth / worth) for one in shown]
    kinds = ("share of all answers", "share of the worth of all answers")
    few = "" if len(shown) == len(crowd.workers) else f" The {MOST_DRAWN} workers who bring most."
    told = f"A worker whose second bar is the longer is better than the average.{few}"
    return markup.make_section("What each worker brings", charts.draw_bars("Shares of workers", told, rows, kinds))


def record_workers(crowd: Crowd) -> list[dict[str, object]]:
    """One record for each worker."""
    from uneven.crowd import rank_workers

    return [
        {
            "worker": str(one.name),
            "labels": one.labels,
            "error": one.error,
            **{f"error_if_{label}": share for label, share in one.errors.items()},
            "worth": one.worth,
            "worth_at_least": one.worth_at_least,
        }
        for one in rank_workers(crowd)
    ]


def tell_accuracy(compared: Comparison) -> list[str]:
    """How the classifier does on test tasks, with intervals, beside the majority class."""
    own, (majority, *_) = compared.scores, compared.others
    area = "" if own.auc is None else f" Its AUC is {own.auc.value:.3f} ({own.auc.low:.3f} to {own.auc.high:.3f})."
    share = charts.describe_interval(own.accuracy)
    other = f"{majority.name}: {charts.describe_interval(majority.accuracy)}"
    return [f"Accuracy of the classifier on the test tasks: {share}; {other}.{area}", *compared.words]


def _name_best(crowd: Crowd) -> str:
    from uneven.crowd import rank_workers

    return ", ".join(shorten(str(one.name), NAME) for one in rank_workers(crowd)[:3])


def _tell_workers(crowd: Crowd) -> tuple[str, str]:
    weak = [one for one in crowd.workers if one.worth < LEAST_WORTH]
    share = sum(one.labels for one in weak) / sum(one.labels for one in crowd.workers)
    said = f"{len(crowd.workers) - len(weak):,} of {format_count(len(crowd.workers), 'worker')}"
    why = (
        f"The other {format_count(len(weak), 'worker')} gave {share:.1%} of answers; each of theirs is worth less than "
        f"{LEAST_WORTH} exact labels."
    )
    return said, markup.make_paragraph(why if weak else f"Each answer is worth at least {LEAST_WORTH} exact labels.")


def _tell_exchange(crowd: Crowd) -> str:
    labels = sum(one.labels for one in crowd.workers)
    worth = sum(one.labels * one.worth for one in crowd.workers) / labels
    return f"1 exact label = {format_number(1 / worth, 3)} answers" if worth > 0 else "nothing"
