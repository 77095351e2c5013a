"""The one way to train: rows in pieces and settings in, a model out.

Stations on the way: scan the rows, group them by source, choose their scale, estimate unknown flip rates, plan, refuse
what no run could do, charge private rows, run, and read the weights back for rows as given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.engine import Path, State, objective
from uneven.ledger import list_columns
from uneven.noise import Activity, FlippedLabels
from uneven.planner import Plan, warn_unprotected
from uneven.redaction import owner_only
from uneven.settings import Settings
from uneven.training.charging import Account, Bill, make_hasher, warn_simulated
from uneven.training.class_weights import describe_shares, describe_weights, refuse_weights
from uneven.training.convergence import describe_harmful, restore_sources
from uneven.training.copies import warn_copies
from uneven.training.doubts import doubt_rates
from uneven.training.grouping import Grouped
from uneven.training.job import Job, Tick
from uneven.training.known_rows import Known, make_known
from uneven.training.label_release import as_observed, find_private_labels, release_labels
from uneven.training.label_worth import judge_labels
from uneven.training.labels import as_numbers, list_targets, read_classes
from uneven.training.model import Model
from uneven.training.norms import choose_scale, count_long
from uneven.training.planning import describe_sketch, describe_sources
from uneven.training.preparation import group_scanned, prepare
from uneven.training.refusals import refuse_impossible
from uneven.training.rows import Rows, SameRows, find_private
from uneven.training.running import Result, can_anchor, decide, run
from uneven.training.scaling import Scale, list_bounds
from uneven.training.scan import HELD_BYTES, XY, Scan, scan_rows

Array = NDArray[np.float64]
Bar = Callable[[str, int], AbstractContextManager[Tick]]


def show_nothing(_title: str, _total: int) -> AbstractContextManager[Tick]:
    """Show nothing."""
    return nullcontext(lambda _done: None)


@dataclass(frozen=True)
class Trained:
    """A model and the run that made it.

    Attributes
    ----------
    model : Model
    states : tuple of State
        Where the run of each problem ended: one, but for one-vs-rest one per class.
    groups : Grouped
    path : Path or None
        Record of the first problem's run, if one was asked for.
    too_long : dict
        How many rows of each source were shrunk: for the rows' owner only.
    sample : (X, y) or None
        Rows learned from that may be looked at; None where there are none.
    sampled : tuple of str
        The sources they are of.
    activity : dict of str to Activity
        Mean of ‖g‖/C of each private source that can be silent: found beside planned.
    spending : dict
        The most ε that one of these rows of each private source had spent before the run, and has after it.
    """

    model: Model
    states: tuple[State, ...]
    groups: Grouped
    path: Path | None
    too_long: Mapping[str, int]
    sample: XY | None
    sampled: tuple[str, ...]
    activity: Mapping[str, Activity] = field(default_factory=dict)
    spending: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    pace: float | None = None
    """Curvature that the clock of later rows takes, where the run found one out; None means alpha."""
    public: Callable[[], dict[str, XY]] = field(default=dict, repr=False, compare=False)
    """Rows of each source without privacy, or some of them: whatever is done with them costs no ε."""
    copied: bool = False
    """Whether private rows without an id agree with another in everything."""

    @property
    def plan(self) -> Plan:
        """The plan that was run, for rows in the unit ball."""
        assert self.model.plan is not None
        return self.model.plan

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found on the way, in words."""
        return self.model.notes

    @property
    def scale(self) -> Scale:
        """What the rows were scaled by."""
        assert self.model.scale is not None
        return self.model.scale


def train(
    rows: Rows,
    noise: Any,
    settings: Settings,
    *,
    account: Account | None = None,
    validation: XY | None = None,
    open_sources: Collection[str] | None = None,
    feature_names: tuple[str, ...] | None = None,
    record: int = 0,
    follow: Callable[[NDArray[Any]], XY | None] = lambda _: None,
    compare: Callable[[Known], None] | None = None,
    held_bytes: int = HELD_BYTES,
    bar: Bar = show_nothing,
) -> Trained:
    """Fit a classifier.

    Parameters
    ----------
    rows : Rows
        Read once to be checked, and again to learn where they are too many to hold: once where they are private.
    noise : Noise, dict of str to Noise, or None
        Of all rows, or of each source by name; None means `Exact`.
    settings : Settings
    account : Account or None
        What private rows are charged to before they are used; None starts a new one.
    validation : (X, y) or None
        Rows without privacy to compare the runs of a line search on.
    open_sources : collection of str or None
        Sources whose rows may be looked at beside learning from them; None means all of them.
    feature_names : tuple of str or None
    record : int
        Number of points of the path to keep, for two classes.
    follow : callable
        Given the classes, before anything is charged: rows (X, y) that the path's objective is measured on, or None for
        the sample of rows learned from.
    compare : callable or None
        Given what all rows are known by, before anything is charged: refuses rows that must not be among them.
    held_bytes : int
        Size up to which rows that come in pieces are held in memory.
    bar : callable
        Makes a progress bar.

    Returns
    -------
    Trained
    """
    account = Account() if account is None else account
    described = rows.described
    hasher = make_hasher(account, noise, feature_names, described is not None, every=compare is not None)
    with bar("Reading the rows", 0) as tick:
        hidden = lambda piece: bool(find_private(piece, noise).any())  # noqa: E731
        stated = read_classes(settings.classes)
        scan = scan_rows(rows, list_bounds(settings.row_norm), stated, open_sources, held_bytes, tick, hasher, hidden)
    declared, rows = group_scanned(scan, noise, settings), SameRows(rows, scan.digests) if scan.digests else rows
    if compare is not None and hasher is not None and scan.content is not None:
        compare(make_known(scan.content, declared, hasher, settings.random_state is not None))
    followed = follow(scan.classes)
    refuse_impossible(declared.noises, settings, scan.classes, scan.sparse, validation is not None)
    copied = warn_copies(scan, declared)
    simulated, columns = warn_simulated(settings, declared), list_columns(feature_names, scan.n_features, described)
    bill = Bill(declared, scan.row_id, scan.content, 1, (), settings.budget, simulated, columns)
    if find_private_labels(declared):
        rows, scan = _release_labels(rows, scan, bill, settings, account, open_sources, held_bytes)
    job = prepare(rows, scan, declared, settings)
    targets, too_long = list_targets(scan.classes, settings), _count_long(whole := restore_sources(job, declared))
    decided = decide(job, targets, validation)
    job, owners = replace(job, alpha=decided.alpha), job.groups.owners
    account.charge(replace(bill, groups=whole.groups, times=decided.times, used=decided.plan.order))
    names = [name for name in decided.plan.order if open_sources is None or owners[name] in open_sources]
    own = job.sample(names)
    with bar("Learning", scan.rows * len(targets) * len(decided.plans)) as tick:
        job = replace(job, tick=tick)
        evaluate = _objective_on(job, own if followed is None else followed, targets[0]) if record else None
        result = run(job, decided, targets, validation, record, evaluate)
    result = replace(result, plan=judge_labels(result.plan, job, targets, declared))
    model = _read_back(job, result, account, declared, noise, feature_names)
    shrunk = {name: count for name, count in too_long.items() if name in decided.plan.order}
    told = shrunk, own, tuple(names), result.states[0].find_activity(job.groups.noises, job.groups.charged_to)
    open_names = [name for name in job.groups.names if not declared.noises[name].private]
    public, spending = partial(_public_rows, job, open_names), dict(account.changes)
    return Trained(model, result.states, job.groups, result.path, *told, spending, result.pace, public, copied)


def _release_labels(
    rows: Rows,
    scan: Scan,
    bill: Bill,
    settings: Settings,
    account: Account,
    open_sources: Collection[str] | None,
    held_bytes: int,
) -> tuple[Rows, Scan]:
    """Charge private labels and randomise them; refuse before that what would be refused after it."""
    declared, labels = bill.groups, find_private_labels(bill.groups)
    groups = as_observed(declared, len(scan.classes))
    refuse_weights(groups, settings, scan.classes)
    job = Job(rows, settings, scan, groups, choose_scale(scan, groups, settings, groups.any_private))
    _count_long(job)
    can_anchor(job, len(list_targets(scan.classes, settings)))
    account.refuse_costs(Bill(groups, None, None, settings.pass_count, groups.names, settings.budget))
    account.charge(replace(bill, used=labels))
    released = release_labels(rows, declared, scan.classes, settings.random_state)
    looked_at = None if open_sources is None else {*open_sources, *labels}
    found = scan_rows(released, list_bounds(settings.row_norm), scan.classes, looked_at, held_bytes, digested=False)
    return released, replace(found, content=scan.content)


def _list_notes(job: Job, result: Result, declared: Grouped) -> tuple[str, ...]:
    """What was found on the way, in words."""
    whole = restore_sources(job, declared)
    shares = describe_shares(whole, as_observed(declared, len(job.scan.classes)).noises)
    sources = describe_sources(job.groups.noises, job.groups.counts)
    sketch = (job.sketched,) if job.sketched else describe_sketch(job.scale, job.settings, sources, job.scan.n_features)
    doubts = doubt_rates(whole, declared.noises)
    said = (*describe_harmful(list(job.harmful)), *describe_weights(job), *shares, *sketch, *doubts, *result.notes)
    return (*warn_unprotected(result.plan.sources), *said)


def _public_rows(job: Job, names: Sequence[str]) -> dict[str, XY]:
    """Rows of each of these sources that has any."""
    found = {name: job.sample([name]) for name in names}
    return {name: rows for name, rows in found.items() if rows is not None}


def _count_long(job: Job) -> dict[str, int]:
    """How many rows of each source are longer than the scale's bound; refused where the settings refuse them."""
    bound, settings = job.scale.bound, job.settings
    found = {} if bound is None else count_long(job.scan, job.groups, bound)
    if found and settings.long_rows == "refuse":
        least = owner_only(f"{job.scan.longest**0.5:.6g}, the longest row's norm,", "the longest row's norm")
        many = owner_only(f", and {sum(found.values()):,} rows are longer")
        raise ValueError(f"row_norm must be at least {least} with long_rows='refuse'; got {bound:.6g}{many}")
    return found


def _objective_on(job: Job, sample: XY | None, target: Any) -> Callable[[Array], float] | None:
    """Objective of weights on some rows, for the record of a run."""
    if sample is None:
        return None
    unit, signs = job.unit_rows(sample[0]), as_numbers(sample[1], target)
    return lambda w: float(objective(job.problem, w, unit, signs))


def _read_back(
    job: Job, result: Result, account: Account, declared: Grouped, noise: Any, feature_names: tuple[str, ...] | None
) -> Model:
    """The model for rows as given."""
    stated = {name: one for name, one in declared.noises.items() if isinstance(one, FlippedLabels) and not one.unknown}
    coef, intercept = job.scale.read_back(result.weights, job.problem.outputs)
    labels = {name: getattr(one, "flips", one) for name, one in {**job.harmful, **job.groups.noises, **stated}.items()}
    rates = {name: one.rate for name, one in labels.items() if isinstance(one, FlippedLabels)}
    return Model(
        classes=job.scan.classes,
        coef=coef,
        intercept=intercept,
        settings=job.settings,
        noise=noise,
        scale=job.scale,
        plan=result.plan,
        alpha=job.scale.usual_alpha(job.settings.alpha) if job.alpha is None else job.alpha,
        privacy_spent=account.spent,
        simulated=bool(account.simulated),
        flip_rates=rates,  # type: ignore[arg-type]
        feature_names=feature_names,
        notes=_list_notes(job, result, declared),
    )
