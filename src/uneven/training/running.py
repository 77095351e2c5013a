"""Decide how to learn from the rows, and do it: to convergence, anchored, or step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.anchor import Anchor, ClassAnchor, describe_disagreements, measure_spread, use_one_thread
from uneven.anchor import Verdict as Judged
from uneven.engine import Fit, Path, State, fit, tasks_of
from uneven.noise import Exact
from uneven.planner import (
    Anchored,
    Plan,
    Verdict,
    count_kept,
    has_length_rows,
    list_asked,
    make_anchored_plan,
    mark_converged,
)
from uneven.schedules import MatrixClock
from uneven.training import anchoring, calibration, convergence, line_search, shares
from uneven.training.anchoring import Anchoring
from uneven.training.job import CLASS, LENGTH, Job
from uneven.training.labels import as_numbers
from uneven.training.planning import describe_sources, keep_rows, name_trusted, plan_steps
from uneven.training.refusals import explain_no_anchor, refuse_anchored
from uneven.training.scan import XY

Array = NDArray[np.float64]

MANY = "There are so many rows that one pass over them is about as good as learning to convergence."


@dataclass(frozen=True)
class Decision:
    """How a fit will learn.

    Attributes
    ----------
    plans : tuple of Plan
        The plan; several for a line search.
    times : int
        Releases of each private row in use.
    converges : bool
        Whether all sources are learned to convergence.
    anchoring : Anchoring or None
        What the public rows say, where private ones are added to them.
    alpha : float or None
        L2 strength chosen for rows as given, once it was known which sources are used; None means as stated.
    """

    plans: tuple[Plan, ...]
    times: int = 1
    converges: bool = False
    anchoring: Anchoring | None = None
    alpha: float | None = None

    @property
    def plan(self) -> Plan:
        """The plan, or the first of a line search's."""
        return self.plans[0]


@dataclass(frozen=True)
class Result:
    """Result of a run: weights and state of each problem, the plan that was run, and what was found on the way.

    `pace` is the curvature that the clock of later rows takes, where the run found one out.
    """

    weights: list[Array]
    states: tuple[State, ...]
    plan: Plan
    path: Path | None = None
    notes: tuple[str, ...] = ()
    pace: float | None = None


def decide(job: Job, targets: Sequence[Any], validation: XY | None) -> Decision:
    """Choose the way to learn; what no run could do is refused, before any charge."""
    settings, groups = job.settings, job.groups
    streamed = 0 if job.scan.held is not None else job.problem.n_features
    if settings.public_first and can_anchor(job, len(targets)):
        with use_one_thread():
            return decide_anchored(job, targets[0])
    plan = plan_steps(describe_sources(groups.noises, groups.counts), job.problem, settings)
    if convergence.can_converge(settings, groups, streamed, lambda: _measure_spread(job)):
        return Decision((mark_converged(plan),), converges=True, alpha=job.alpha)
    plan = keep_rows(plan, settings)
    plans = _compared_plans(job, plan, validation, len(targets))
    tasks_of(plan, settings.average, settings.estimate)
    return Decision(tuple(plans), settings.pass_count * len(plans), alpha=job.alpha)


def _measure_spread(job: Job) -> float:
    """How far apart the scales of columns are, by some of the rows."""
    found = job.sample(job.groups.names)
    return 1.0 if found is None else measure_spread([found[0]])


def can_anchor(job: Job, problems: int) -> bool:
    """Whether private rows can be added to public ones; refused where they cannot and the settings ask for it."""
    sparse = job.scan.sparse and not job.scale.sketch
    why = explain_no_anchor(job.settings, job.groups.noises, problems, sparse)
    refuse_anchored(job.settings, why)
    return why is None


def decide_anchored(job: Job, target: Any, anchor: Anchor | ClassAnchor | None = None) -> Decision:
    """Choose how private sources are added to the public ones, whose anchor may be given."""
    job, prepared = anchoring.settle(job, target, anchor)
    coordinates = prepared.possible[0]
    clock = MatrixClock(
        tuple(coordinates.variance.tolist()), tuple(coordinates.curvature.tolist()), coordinates.longest_step
    )
    unit = job.problem.loss_unit
    start, excess, distance, worths = anchoring.expect(job, prepared)
    verdicts = tuple((name, make_plain(one, unit)) for name, one in prepared.verdicts.items())
    own = {name: size for name, size in prepared.sizes.items() if size != job.problem.batch_size}
    promises = anchoring.compare_promises(job, prepared, excess)
    expected = unit * start, unit * excess, distance, worths
    decided = Anchored(prepared.converged, prepared.order, clock, *expected, verdicts, tuple(own.items()), promises)
    sources = describe_sources(job.groups.noises, job.groups.counts)
    return Decision((make_anchored_plan(sources, job.problem, decided),), anchoring=prepared, alpha=job.alpha)


def make_plain(judged: Judged, unit: float) -> Verdict:
    """The verdict as plain numbers, its excess in the objective of class weights as given."""
    with_it, without = ((one.value, one.low, one.high) for one in (judged.accuracy, judged.accuracy_without))
    return Verdict(unit * judged.excess, unit * judged.excess_without, with_it, without, judged.word, judged.others)


def _compared_plans(job: Job, plan: Plan, validation: XY | None, problems: int) -> list[Plan]:
    """The plan alone, or those of a line search; a search that could not be made is refused."""
    settings = job.settings
    if not settings.line_search:
        return [plan]
    line_search.refuse_line_search(job.groups.noises, settings, problems, validation is not None)
    return line_search.list_candidates(plan, settings.line_search)


def run(
    job: Job,
    decided: Decision,
    targets: Sequence[Any],
    validation: XY | None,
    record: int,
    evaluate: Callable[[Array], float] | None,
) -> Result:
    """Learn as decided: one problem for two classes, one per class for more."""
    if decided.anchoring is not None:
        with use_one_thread():
            added = anchoring.add_private(job, decided.anchoring, targets[0])
        notes = describe_disagreements(added.disagreements)
        trusted = name_trusted(decided.plan)
        return Result([added.weights], (added.state,), decided.plan, notes=(*notes, *trusted), pace=added.pace)
    if decided.converges:
        found = convergence.converge(job, targets)
        states = tuple(convergence.make_state_after(w, decided.plan) for w in found.weights)
        readings = f"Learned to convergence: the rows were read {found.readings} times."
        return Result(found.weights, states, decided.plan, notes=(readings, *found.caveats))
    if decided.plan.kept:
        divided = replace(job, kept=decided.plan.kept, tellers=decided.plan.tellers, units={})
        return _run_kept(divided, decided.plan, targets[0], record, evaluate)
    plan, fits = _run_steps(job, decided.plans, targets, validation, record, evaluate)
    told = (MANY,) if job.settings.left_open and not job.groups.any_private and job.scan.held is None else ()
    found_out = (*told, *calibration.doubt_steps(plan), *name_trusted(plan))
    return Result([one.weights for one in fits], tuple(one.state for one in fits), plan, fits[0].path, found_out)


def _run_kept(job: Job, plan: Plan, target: Any, record: int, evaluate: Any) -> Result:
    """The shares of the classes from some of the kept rows, steps from there, and the length of the weights."""
    seed, constant, problem = job.settings.random_state, job.scale.unit_constant, plan.problem
    start, offsets = np.zeros(problem.n_features), np.zeros(problem.outputs)
    if job.tellers:
        rows = job.kept_rows(target, plan.order, shares.describe_constant, CLASS)
        offsets = shares.find_offsets(shares.ask_shares(rows, plan, seed), plan.problem)
        start = shares.make_start(offsets, constant, problem.columns)
    fitted = _run(job, plan, target, record, evaluate, start)
    if not has_length_rows(plan):
        told = shares.describe_offsets(offsets, job.scan.classes, sum(one.rows for one in list_asked(plan)))
        return Result([fitted.weights], (fitted.state,), plan, fitted.path, (*told, *name_trusted(plan)))
    found = fitted.weights - start
    direction = calibration.make_direction(found, constant, problem, offsets)
    rows = job.kept_rows(target, plan.order, direction.describe_rows, LENGTH)
    scale = calibration.find_scale(direction, rows, plan, seed)
    kept = sum(count_kept(source.rows, plan.kept) for source in plan.sources)
    told = shares.describe_offsets(offsets, job.scan.classes)
    notes = calibration.describe_scale(scale, kept, bool(told)), *told, *name_trusted(plan)
    return Result([start + scale * found], (fitted.state,), plan, fitted.path, notes)


def _run_steps(
    job: Job, plans: tuple[Plan, ...], targets: Sequence[Any], validation: XY | None, record: int, evaluate: Any
) -> tuple[Plan, list[Fit]]:
    """One run for two classes, one per class for more; of a line search's runs, the best."""
    if len(plans) == 1:
        return plans[0], [_run(job, plans[0], target, record, evaluate) for target in targets]
    fits = [_run(job, one, targets[0], record, evaluate) for one in plans]
    noise = Exact()
    if validation is None:
        name = line_search.list_comparable(job.groups.noises)[0]
        validation, noise = job.sample([name]), job.groups.noises[name]  # type: ignore[assignment]
    assert validation is not None
    compared = job.scale.rows(validation[0]), as_numbers(validation[1], targets[0])
    best = line_search.find_best(plans[0], [one.weights for one in fits], *compared, noise)
    return plans[best], [fits[best]]


def _run(job: Job, plan: Plan, target: Any, record: int, evaluate: Any, start: Array | None = None) -> Fit:
    settings = job.settings
    data = job.data(target, plan.order, in_memory=plan.shuffled)
    return fit(
        plan,
        data,
        seed=settings.random_state,
        average=settings.average,
        estimate=settings.estimate,
        record=record,
        evaluate=evaluate,
        passes=settings.pass_count,
        start=start,
    )
