"""A crowd in words and as a table."""

from __future__ import annotations

from uneven.crowd.learning import Crowd
from uneven.crowd.workers import Worker

UNSURE = 0.2

WORTH = (
    "The worth of a label is in exact labels: 1 is never wrong, 0 carries no information. Workers are ordered by the "
    "lower end of its 95% interval, 'at least': few labels prove little."
)


def describe_crowd(crowd: Crowd) -> list[str]:
    """Result of learning from the answers, a line each."""
    per_task, rates = crowd.answers / len(crowd.tasks), crowd.flip_rates
    gold = f"The true label of {crowd.gold:,} tasks was given." if crowd.gold else "No gold labels were used."
    return [
        f"{crowd.answers:,} answers of {len(crowd.workers):,} workers to {len(crowd.tasks):,} tasks, "
        f"{per_task:.1f} per task. {gold}",
        f"The most likely labels are expected to be wrong for {rates.mean():.1%} of the tasks. "
        f"{(rates > UNSURE).mean():.1%} of tasks have more than a {UNSURE:.0%} chance of a wrong label and get less "
        "weight.",
    ]


def tabulate_workers(crowd: Crowd, by_class: bool = True) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table of workers, ordered by what a label of theirs is worth at least."""
    classes = crowd.classes.tolist() if by_class else []
    head = ["worker", "labels", "error", *(f"error if {one}" for one in classes), "worth", "at least"]
    rows = [
        [
            str(one.name),
            f"{one.labels:,}",
            f"{one.error:.1%}",
            *(f"{one.errors[label]:.1%}" for label in classes),
            f"{one.worth:.2f}",
            f"{one.worth_at_least:.2f}",
        ]
        for one in rank_workers(crowd)
    ]
    return head, rows


def rank_workers(crowd: Crowd) -> list[Worker]:
    """Workers by what a label of theirs is worth at least: few labels prove little, so who gave few comes later."""
    return sorted(crowd.workers, key=lambda one: (-one.worth_at_least, -one.worth))
