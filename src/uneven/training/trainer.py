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
from uneven.io.refusals import located
from uneven.ledger import list_columns
from uneven.noise import Activity, FlippedLabels
from uneven.planner import Plan, declare_noises, warn_unprotected
from uneven.redaction import owner_only
from uneven.settings import Settings
from uneven.training import flips
from uneven.training.charging import Account, Bill, make_hasher, warn_simulated
from uneven.training.class_weights import describe_weights, find_weights, refuse_classes
from uneven.training.copies import warn_copies
from uneven.training.grouping import Grouped, group_pieces, group_rows
from uneven.training.job import Job, Tick
from uneven.training.known_rows import Known, make_known
from uneven.training.label_release import observed, private_labels, release_labels
from uneven.training.labels import as_numbers, learning_targets, public_classes, uses_softmax
from uneven.training.model import Model
from uneven.training.norms import choose_scale, count_long
from uneven.training.planning import describe_sketch, describe_sources
from uneven.training.rows import Rows, find_private
from uneven.training.running import Result, choose_alpha, decide, run
from uneven.training.scaling import Scale
from uneven.training.scan import HELD_BYTES, XY, Scan, scan_rows

Array = NDArray[np.float64]
Bar = Callable[[str, int], AbstractContextManager[Tick]]


def no_bar(_title: str, _total: int) -> AbstractContextManager[Tick]:
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
    notes : tuple of str
        What was found on the way, in words: whether private sources agree with the public ones, and the like.
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
    notes: tuple[str, ...] = ()
    activity: Mapping[str, Activity] = field(default_factory=dict)
    spending: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    public: Callable[[], dict[str, XY]] = field(default=dict, repr=False, compare=False)
    """Rows of each source without privacy, or some of them: whatever is done with them costs no ε."""

    @property
    def plan(self) -> Plan:
        """The plan that was run, for rows in the unit ball."""
        assert self.model.plan is not None
        return self.model.plan

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
    bar: Bar = no_bar,
) -> Trained:
    """Fit a classifier.

    Parameters
    ----------
    rows : Rows
        Read once to be checked, and again to learn where they are too many to hold: once where they are private.
    noise : Noise, dict of str to Noise, or None
        Of all rows, or of each source by name; None is `Exact`.
    settings : Settings
    account : Account or None
        What private rows are charged to before they are used; None starts a new one.
    validation : (X, y) or None
        Rows without privacy to compare the runs of a line search on.
    open_sources : collection of str or None
        Sources whose rows may be looked at beside learning from them; None is all of them.
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
    hasher = make_hasher(account, noise, feature_names, every=compare is not None)
    bound = 1.0 if isinstance(settings.row_norm, str) else settings.row_norm
    with bar("Reading the rows", 0) as tick:
        stated = None if settings.classes is None else public_classes(settings.classes)
        hidden = lambda piece: bool(find_private(piece, noise).any())  # noqa: E731
        scan = scan_rows(rows, bound, stated, open_sources, held_bytes, tick, hasher, hidden)
    declared = _group(scan, noise, settings)
    if compare is not None and hasher is not None and scan.content is not None:
        compare(make_known(scan.content, declared, hasher, settings.random_state is not None))
    followed = follow(scan.classes)
    targets, groups = learning_targets(scan.classes, settings), observed(declared, len(scan.classes))
    refuse_unfit(declared, settings, len(scan.classes), scan.sparse and settings.sketch is None)
    refuse_classes(settings, scan.classes, declared)
    simulated = warn_simulated(settings, declared)
    warn_copies(scan, declared)
    columns = list_columns(feature_names, scan.n_features)
    if labels := private_labels(declared):
        _refuse_before_release(scan, groups, settings)
        account.refuse_costs(Bill(groups, None, None, settings.pass_count, groups.names, settings.budget))
        account.charge(Bill(declared, scan.row_id, scan.content, 1, labels, settings.budget, simulated, columns))
        rows = release_labels(rows, declared, scan.classes, settings.random_state)
        looked_at = None if open_sources is None else {*open_sources, *labels}
        scan = replace(scan_rows(rows, bound, scan.classes, looked_at, held_bytes), content=scan.content)
    job = begin(rows, scan, groups, settings)
    too_long = {} if job.scale.bound is None else count_long(scan, groups, job.scale.bound)
    _refuse_long(too_long, scan, settings)
    job = choose_alpha(job, targets)
    decided = decide(job, targets, validation)
    order = decided.plan.order
    account.charge(Bill(groups, scan.row_id, scan.content, decided.times, order, settings.budget, simulated, columns))
    names = [name for name in decided.plan.order if open_sources is None or name in open_sources]
    own = job.sample(names)
    with bar("Learning", scan.rows * len(targets) * len(decided.plans)) as tick:
        job = replace(job, tick=tick)
        evaluate = _objective_on(job, own if followed is None else followed, targets[0]) if record else None
        result = run(job, decided, targets, validation, record, evaluate)
    too_long = {name: count for name, count in too_long.items() if name in decided.plan.order}
    result = replace(result, plan=declare_noises(result.plan, declared.noises))
    model = _read_back(job, result, account, noise, feature_names)
    sources = describe_sources(groups.noises, groups.counts, 1)
    sketch = describe_sketch(job.scale, settings, sources, scan.n_features)
    notes = (*warn_unprotected(result.plan.sources), *describe_weights(job), *sketch, *result.notes)
    activity = result.states[0].find_activity(job.groups.noises)
    public = partial(_public_rows, job, [name for name, one in declared.noises.items() if not one.private])
    told = (too_long, own, tuple(names), notes, activity, dict(account.changes))
    return Trained(model, result.states, job.groups, result.path, *told, public)


def _public_rows(job: Job, names: Sequence[str]) -> dict[str, XY]:
    """Rows of these sources, those that there are."""
    found = {name: job.sample([name]) for name in names}
    return {name: rows for name, rows in found.items() if rows is not None}


def begin(rows: Rows, scan: Scan, groups: Grouped, settings: Settings) -> Job:
    """The job of rows as scanned: what cannot be done is refused, the scale chosen, unknown flip rates estimated."""
    targets = learning_targets(scan.classes, settings)
    flips.refuse_unanchored(groups.noises, settings.loss)
    refuse_unfit(groups, settings, len(scan.classes), scan.sparse and settings.sketch is None)
    scale = choose_scale(scan, groups, settings, groups.any_private)
    job = _with_known_rates(Job(rows, settings, scan, groups, scale), targets)
    return replace(job, class_weights=find_weights(job))


def _refuse_before_release(scan: Scan, groups: Grouped, settings: Settings) -> None:
    """Refuse what would be refused after private labels are charged and released: a refused fit spends nothing."""
    if settings.line_search:
        raise ValueError(f"line_search must be 0 where labels are private, got {settings.line_search}")
    scale = choose_scale(scan, groups, settings, groups.any_private)
    _refuse_long({} if scale.bound is None else count_long(scan, groups, scale.bound), scan, settings)


def _group(scan: Scan, noise: Any, settings: Settings) -> Grouped:
    """Which source each row is of."""
    source, levels = scan.source, (scan.epsilon, scan.flip_rate)
    if source is None and None not in scan.counts:
        if scan.epsilon is None and scan.flip_rate is None:
            return group_pieces(scan.counts, noise)
        source = np.repeat(list(scan.counts), list(scan.counts.values()))
    return group_rows(scan.rows, noise, source, *levels, mechanism=settings.mechanism)


def refuse_unfit(groups: Grouped, settings: Settings, classes: int, sparse: bool) -> None:
    """Refuse what cannot be done with these rows, before anything is charged."""
    one_by_one = classes > 2 and not uses_softmax(settings, classes)
    if one_by_one and groups.any_private:
        got = f"loss {settings.loss!r}" if settings.multi_class == "softmax" else repr(settings.multi_class)
        raise ValueError(
            "multi_class must be 'softmax', with the logistic loss, for more than two classes where a source is "
            f"private: one-vs-rest would release every row once per class; got {got}"
        )
    if classes > 2 and flips.unknown(groups.noises):
        raise ValueError(f"labels must be of two classes to estimate flip rates, got {classes}")
    for name, one in groups.noises.items():
        labels = getattr(one, "labels", one)
        if isinstance(labels, FlippedLabels) and not labels.unknown:
            with located(f"source {name!r}"):
                labels.refuse_classes(classes)
            if one_by_one and labels.confusion is not None:
                raise ValueError("rate must be one number for multi_class='one-vs-rest', got a matrix")
    if sparse and any(noise.protects_features for noise in groups.noises.values()):
        raise ValueError("rows must be dense where a source is private, since noise fills every column; or give sketch")


def _refuse_long(too_long: Mapping[str, int], scan: Scan, settings: Settings) -> None:
    if too_long and settings.long_rows == "refuse":
        bound = 1.0 if isinstance(settings.row_norm, str) else settings.row_norm
        least = owner_only(f"{scan.longest**0.5:.6g}, the longest row's norm,", "the longest row's norm")
        many = owner_only(f", and {sum(too_long.values()):,} rows are longer")
        raise ValueError(f"row_norm must be at least {least} with long_rows='refuse'; got {bound:.6g}{many}")


def _with_known_rates(job: Job, targets: Sequence[Any]) -> Job:
    """The job with flip rates estimated where that was asked for."""
    if not flips.unknown(job.groups.noises):
        return job
    rows = {name: job.sample([name]) for name, noise in job.groups.noises.items() if not noise.private}
    data = {
        name: (job.unit_rows(found[0]), as_numbers(found[1], targets[0]))
        for name, found in rows.items()
        if found is not None
    }
    noises = flips.estimated(job.groups.noises, data)
    return replace(job, groups=job.groups.with_noises(noises))


def _objective_on(job: Job, sample: XY | None, target: Any) -> Callable[[Array], float] | None:
    """Objective of weights on some rows, for the record of a run."""
    if sample is None:
        return None
    unit, signs = job.unit_rows(sample[0]), as_numbers(sample[1], target)
    return lambda w: float(objective(job.problem, w, unit, signs))


def _read_back(job: Job, result: Result, account: Account, noise: Any, feature_names: tuple[str, ...] | None) -> Model:
    """The model for rows as given."""
    coef, intercept = job.scale.read_back(result.weights, job.problem.outputs)
    labels = {name: getattr(one, "flips", one) for name, one in job.groups.noises.items()}
    rates = {name: one.rate for name, one in labels.items() if isinstance(one, FlippedLabels)}
    return Model(
        classes=job.scan.classes,
        coef=coef,
        intercept=intercept,
        settings=job.settings,
        noise=noise,
        scale=job.scale,
        plan=result.plan,
        alpha=job.settings.stated_alpha if job.alpha is None else job.alpha,
        privacy_spent=account.spent,
        simulated=bool(account.simulated),
        flip_rates=rates,  # type: ignore[arg-type]
        feature_names=feature_names,
    )
