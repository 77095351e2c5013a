"""The one way to train: rows in pieces and settings in, a model out.

Stations on the way: scan the rows, group them by source, choose their scale, estimate unknown flip rates, plan, refuse
what no run could do, charge private rows, run, and read the weights back for rows as given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.engine import Fit, Path, State, Stream, fit, objective, tasks_of
from uneven.noise import Exact, FlippedLabels
from uneven.planner import Plan
from uneven.problem import Problem
from uneven.settings import Settings
from uneven.training import flips, line_search
from uneven.training.charging import Account
from uneven.training.grouping import Grouped, group_pieces, group_rows
from uneven.training.labels import as_signs, positive_classes
from uneven.training.model import Model
from uneven.training.norms import choose_scale, count_long, shorten_rows
from uneven.training.planning import describe_sources, plan_fit, scaled_problem
from uneven.training.rows import Rows, join_rows
from uneven.training.scaling import Scale
from uneven.training.scan import HELD_BYTES, XY, Scan, scan_rows

Array = NDArray[np.float64]
Tick = Callable[[int], None]
Bar = Callable[[str, int], AbstractContextManager[Tick]]
Data = dict[str, Any]


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
        Where the run of each problem ended: one for two classes, else one per class.
    groups : Grouped
    path : Path or None
        Record of the first problem's run, if one was asked for.
    too_long : dict
        How many rows of each source were shrunk: for the rows' owner only.
    sample : (X, y) or None
        Rows learned from that may be looked at; None where there are none.
    sampled : tuple of str
        The sources they are of.
    """

    model: Model
    states: tuple[State, ...]
    groups: Grouped
    path: Path | None
    too_long: Mapping[str, int]
    sample: XY | None
    sampled: tuple[str, ...]

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


@dataclass(frozen=True)
class Job:
    """One fit between its stations: the rows as read, and what was decided about them so far."""

    rows: Rows
    settings: Settings
    scan: Scan
    groups: Grouped
    scale: Scale
    tick: Tick = lambda _: None

    @property
    def bound(self) -> float | None:
        """Norm that longer rows are shrunk to; None if there is no bound."""
        return self.scale.row_norm if self.scale.norms == "largest" else None

    @property
    def problem(self) -> Problem:
        """Problem of the rows as scaled."""
        return scaled_problem(self.settings, self.scale, self.scan.n_features, self.groups.any_private)

    def unit_rows(self, X: Any) -> Any:
        """Rows as the engine takes them: long ones shrunk, scaled, with the intercept's feature."""
        return self.scale.rows(shorten_rows(X, self.bound))

    @cached_property
    def _held_units(self) -> dict[str, tuple[Any, NDArray[Any]]]:
        """Scaled rows and labels of each source, where all are in memory."""
        assert self.scan.held is not None
        X, y = self.scan.held
        if len(self.groups.names) == 1:
            return {self.groups.names[0]: (self.unit_rows(X), y)}
        numbers = {name: self.groups.rows_of(k) for k, name in enumerate(self.groups.names)}
        return {name: (self.unit_rows(X[mine]), y[mine]) for name, mine in numbers.items() if len(mine)}

    def data(self, positive: Any, names: Collection[str], in_memory: bool) -> Data:
        """Rows of these sources for the engine, with labels 1 for the positive class."""
        if self.scan.held is not None:
            units = self._held_units
            return {name: (units[name][0], as_signs(units[name][1], positive)) for name in names}
        streams = {name: _SourceStream(self, name, positive) for name in names}
        if in_memory:
            return {name: tuple(join_rows(part) for part in zip(*s, strict=True)) for name, s in streams.items()}
        return {name: Stream(stream, fresh=True) for name, stream in streams.items()}

    def sample(self, names: Collection[str]) -> XY | None:
        """Some rows of these sources; all of them where they are in memory and rows name their own sources."""
        if self.groups.index is not None and self.scan.held is not None:
            X, y = self.scan.held
            mine = np.isin(self.groups.index, [k for k, name in enumerate(self.groups.names) if name in names])
            return (X[mine], y[mine]) if mine.any() else None
        only = len(self.groups.names) == 1
        parts = [part for name, part in self.scan.sample.items() if name in names or (only and names)]
        return (join_rows([X for X, _ in parts]), join_rows([y for _, y in parts])) if parts else None


@dataclass(frozen=True)
class _SourceStream:
    """Rows of one source read again from where they came, scaled and labelled -1 and 1."""

    job: Job
    name: str
    positive: Any

    def __iter__(self) -> Iterator[tuple[Any, Array]]:
        job, first = self.job, 0
        place = job.groups.names.index(self.name)
        # Rows that tell their own noise are known by their place among all rows: then all are read.
        for piece in job.rows.pieces(checked=False, only=self.name if job.groups.index is None else None):
            count = len(piece.y)
            job.tick(count)
            if job.groups.index is not None:
                mine = np.flatnonzero(job.groups.index[first : first + count] == place)
                first += count
                if len(mine):
                    yield job.unit_rows(piece.X[mine]), as_signs(piece.y[mine], self.positive)
            elif piece.source in (self.name, None):
                yield job.unit_rows(piece.X), as_signs(piece.y, self.positive)


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
    held_bytes: int = HELD_BYTES,
    bar: Bar = no_bar,
) -> Trained:
    """Fit a classifier.

    Parameters
    ----------
    rows : Rows
        Read once to be checked, and once more to learn where they are too many to hold.
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
    held_bytes : int
        Size up to which rows that come in pieces are held in memory.
    bar : callable
        Makes a progress bar.

    Returns
    -------
    Trained
    """
    account = Account() if account is None else account
    bound = 1.0 if isinstance(settings.row_norm, str) else settings.row_norm
    with bar("Reading", 0) as tick:
        scan = scan_rows(rows, bound, None, open_sources, held_bytes, tick)
    followed, groups = follow(scan.classes), _group(scan, noise, settings)
    positives = positive_classes(scan.classes)
    flips.refuse_unanchored(groups.noises, settings.loss)
    refuse_unfit(groups, len(positives), scan.sparse)
    job = Job(rows, settings, scan, groups, choose_scale(scan, groups, settings, groups.any_private))
    too_long = {} if job.bound is None else count_long(scan, groups, job.bound)
    _refuse_long(too_long, scan, settings)
    job = _with_known_rates(job, positives)
    plan = plan_fit(describe_sources(job.groups.noises, groups.counts, settings.pass_count), job.problem, settings)
    plans = _compared_plans(job, plan, validation, len(positives))
    tasks_of(plan, settings.average, settings.estimate)  # refuses what no run could do
    account.charge(groups, scan.row_id, settings.budget, settings.pass_count * len(plans), plan.order, again=True)
    names = [name for name in plan.order if open_sources is None or name in open_sources]
    own = job.sample(names)
    with bar("Learning", scan.rows * len(positives) * len(plans)) as tick:
        job = replace(job, tick=tick)
        evaluate = _objective_on(job, own if followed is None else followed, positives[0]) if record else None
        chosen, fits = _run_all(job, plans, positives, validation, record, evaluate)
    too_long = {name: count for name, count in too_long.items() if name in plan.order}
    model = _read_back(job, chosen, fits, account, noise, feature_names)
    return Trained(model, tuple(f.state for f in fits), job.groups, fits[0].path, too_long, own, tuple(names))


def _group(scan: Scan, noise: Any, settings: Settings) -> Grouped:
    """Which source each row is of."""
    source, levels = scan.source, (scan.epsilon, scan.flip_rate)
    if source is None and None not in scan.counts:
        if scan.epsilon is None and scan.flip_rate is None:
            return group_pieces(scan.counts, noise)
        source = np.repeat(list(scan.counts), list(scan.counts.values()))
    return group_rows(scan.rows, noise, source, *levels, mechanism=settings.mechanism)


def refuse_unfit(groups: Grouped, problems: int, sparse: bool) -> None:
    """Refuse what cannot be done with these rows, before anything is charged."""
    if problems > 1 and groups.any_private:
        raise ValueError(
            f"labels must be of two classes where a source is private, got {problems}: one-vs-rest would release "
            "every row once per class"
        )
    if problems > 1 and flips.unknown(groups.noises):
        raise ValueError(f"labels must be of two classes to estimate flip rates, got {problems}")
    if sparse and groups.any_private:
        raise ValueError("rows must be dense where a source is private: its noise fills every coordinate")


def _refuse_long(too_long: Mapping[str, int], scan: Scan, settings: Settings) -> None:
    if too_long and settings.long_rows == "refuse":
        bound = 1.0 if isinstance(settings.row_norm, str) else settings.row_norm
        raise ValueError(
            f"row_norm must be at least {scan.longest**0.5:.6g}, the longest row's norm, with long_rows='refuse'; got "
            f"{bound:.6g}, and {sum(too_long.values()):,} rows are longer"
        )


def _with_known_rates(job: Job, positives: NDArray[Any]) -> Job:
    """The job with flip rates estimated where that was asked for."""
    if not flips.unknown(job.groups.noises):
        return job
    rows = {name: job.sample([name]) for name, noise in job.groups.noises.items() if not noise.private}
    data = {
        name: (job.unit_rows(found[0]), as_signs(found[1], positives[0]))
        for name, found in rows.items()
        if found is not None
    }
    like = replace(job.problem, clip=None)
    noises = flips.estimated(job.groups.noises, flips.fitted_to(data, like, job.settings.random_state))
    return replace(job, groups=job.groups.with_noises(noises))


def _compared_plans(job: Job, plan: Plan, validation: XY | None, problems: int) -> list[Plan]:
    """The plan alone, or those of a line search; a search that could not be made is refused before any charge."""
    settings = job.settings
    if not settings.line_search:
        return [plan]
    if problems > 1:
        raise ValueError(f"line_search needs two classes, got {problems}")
    compared = line_search.comparable(job.groups.noises) if validation is None else ["validation"]
    line_search.refuse_unfit(plan, settings.line_search, settings.pass_count, settings.budget, compared)
    return line_search.candidates(plan, settings.line_search)


def _objective_on(job: Job, sample: XY | None, positive: Any) -> Callable[[Array], float] | None:
    """Objective of weights on some rows, for the record of a run."""
    if sample is None:
        return None
    unit, signs = job.unit_rows(sample[0]), as_signs(sample[1], positive)
    return lambda w: float(objective(job.problem, w, unit, signs))


def _run_all(
    job: Job, plans: list[Plan], positives: NDArray[Any], validation: XY | None, record: int, evaluate: Any
) -> tuple[Plan, list[Fit]]:
    """One run for two classes, one per class for more; of a line search's runs, the best."""
    if len(plans) == 1:
        return plans[0], [_run(job, plans[0], positive, record, evaluate) for positive in positives]
    fits = [_run(job, one, positives[0], record, evaluate) for one in plans]
    noise = Exact()
    if validation is None:
        name = line_search.comparable(job.groups.noises)[0]
        validation, noise = job.sample([name]), job.groups.noises[name]  # type: ignore[assignment]
    assert validation is not None
    compared = job.scale.rows(validation[0]), as_signs(validation[1], positives[0])
    best = line_search.best(plans[0], [one.weights for one in fits], *compared, noise)
    return plans[best], [fits[best]]


def _run(job: Job, plan: Plan, positive: Any, record: int, evaluate: Any) -> Fit:
    settings = job.settings
    data = job.data(positive, plan.order, in_memory=plan.shuffled)
    return fit(
        plan,
        data,
        seed=settings.random_state,
        average=settings.average,
        estimate=settings.estimate,
        record=record,
        evaluate=evaluate,
        passes=settings.pass_count,
    )


def _read_back(
    job: Job, plan: Plan, fits: list[Fit], account: Account, noise: Any, feature_names: tuple[str, ...] | None
) -> Model:
    """The model for rows as given."""
    coefs, intercepts = zip(*(job.scale.coefficients(one.weights) for one in fits), strict=True)
    rates = {name: one.rate for name, one in job.groups.noises.items() if isinstance(one, FlippedLabels)}
    return Model(
        classes=job.scan.classes,
        coef=np.array(coefs),
        intercept=np.array(intercepts),
        settings=job.settings,
        noise=noise,
        scale=job.scale,
        plan=plan,
        privacy_spent=dict(account.spent),
        flip_rates=rates,  # type: ignore[arg-type]
        feature_names=feature_names,
    )
