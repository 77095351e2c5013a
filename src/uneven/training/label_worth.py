"""What private labels are expected to add to the rows without privacy: verdicts, and the plan of a fit ahead of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from uneven.anchor import Anchor, ClassAnchor, judge_rows, use_one_thread, weigh_public_row
from uneven.planner import Plan, Verdict, declare_noises
from uneven.training.anchoring import fit_public
from uneven.training.grouping import Grouped
from uneven.training.job import Job
from uneven.training.label_release import find_private_labels
from uneven.training.refusals import explain_no_start
from uneven.training.running import Decision, can_anchor, decide, decide_anchored, make_plain

Interval = tuple[float, float, float]
Judged = tuple[tuple[str, Verdict], ...]


def judge_labels(plan: Plan, job: Job, targets: Sequence[Any], declared: Grouped) -> Plan:
    """The plan with noises as declared, and a verdict on each source of private labels where there are public rows."""
    labels = [name for name in find_private_labels(declared) if name in job.groups.noises]
    plan = declare_noises(plan, declared.noises)
    public = _list_public(job, labels)
    if not labels or not public or not _can_judge(job, targets):
        return plan
    with use_one_thread():
        return replace(plan, judged=_judge(job, fit_public(job, public, targets[0]), labels))


def decide_ahead(job: Job, targets: Sequence[Any], labels: Collection[str]) -> Decision:
    """How a fit is expected to learn, before the labels of these sources are released; verdicts are in the plan.

    Only the rows without privacy are read. Those of `labels` count by their number and worth.
    """
    if not _can_judge(job, targets):
        return decide(job, targets, None)
    with use_one_thread():
        anchor = fit_public(job, _list_public(job, labels), targets[0])
        judged = _judge(job, anchor, labels)
        if can_anchor(job, len(targets)):
            decided = decide_anchored(job, targets[0], _add_labels(job, anchor, labels))
            plan = _start_higher(decided.plan, judged)
        else:
            decided = decide(job, targets, None)
            plan = decided.plan
    return replace(decided, plans=(replace(plan, judged=judged),))


def expect_anchor(job: Job, target: Any, labels: Collection[str]) -> Anchor | ClassAnchor:
    """Anchor that a fit is expected to have once the labels of these sources are released."""
    return _add_labels(job, fit_public(job, _list_public(job, labels), target), labels)


def _add_labels(job: Job, anchor: Anchor | ClassAnchor, labels: Collection[str]) -> Anchor | ClassAnchor:
    """The anchor of the rows without privacy, as sure as if it were of these rows too."""
    own = _weigh(job, _list_public(job, labels))
    return anchor.moved(anchor.weights, anchor.covariance * (own / (own + _weigh(job, labels))))


def _can_judge(job: Job, targets: Sequence[Any]) -> bool:
    """Whether the rows without privacy say what is to be expected of others."""
    sparse = job.scan.sparse and not job.scale.sketch
    why = explain_no_start(job.settings, job.groups.noises, len(targets), sparse)
    return job.settings.public_first and why is None


def _list_public(job: Job, labels: Collection[str]) -> list[str]:
    return [name for name, noise in job.groups.noises.items() if not noise.private and name not in labels]


def _weigh(job: Job, names: Collection[str]) -> float:
    """Rows of these sources, in exact rows."""
    counts, noises = job.groups.row_counts, job.groups.noises
    return sum(counts[name] * weigh_public_row(noises[name], job.problem) for name in names)


def _judge(job: Job, anchor: Anchor | ClassAnchor, labels: Collection[str]) -> Judged:
    added = {name: _weigh(job, [name]) for name in labels}
    found = judge_rows(anchor, _weigh(job, _list_public(job, labels)), added)
    return tuple((name, make_plain(one, job.problem.loss_unit)) for name, one in found.items())


def _start_higher(plan: Plan, judged: Judged) -> Plan:
    """The plan whose verdicts on other sources start from the accuracy that private labels are expected to bring."""
    assert plan.anchored is not None
    gain = judged[0][1].accuracy[0] - min(one.accuracy_without[0] for _, one in judged)

    def raised(shares: Interval) -> Interval:
        value, low, high = (min(share + gain, 1.0) for share in shares)
        return value, low, high

    verdicts = tuple(
        (name, replace(one, accuracy=raised(one.accuracy), accuracy_without=raised(one.accuracy_without)))
        for name, one in plan.anchored.verdicts
    )
    return replace(plan, anchored=replace(plan.anchored, verdicts=verdicts))
