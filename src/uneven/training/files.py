"""A classifier from a ``sources.toml``: the files are read twice, streamed, and nothing is charged that is refused.

The first reading looks at every value, label and norm. Then private rows are charged, and only then the second reading
learns, each row once. Memory does not grow with the files; a ledger keeps an entry a row. Scale, intercept, clip and
step sizes are those of `UnevenClassifier` with the same settings, and the model is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.engine import Fit, Path, Stream, fit, objective, tasks_of
from uneven.estimator import UnevenClassifier
from uneven.io import SourcesFile, Table, same_file
from uneven.ledger import Ledger
from uneven.planner import Plan
from uneven.training import accounts
from uneven.training.grouping import Grouped
from uneven.training.planning import plan_scaled
from uneven.training.scaling import Scale, measured_scale, row_norms, shrunk, stated_scale
from uneven.training.scan import Look, Tick, look_at_test, look_through
from uneven.training.scoring import without_names

Array = NDArray[np.float64]
Rows = tuple[Any, NDArray[Any]]
Bar = Callable[[str, int], AbstractContextManager[Tick]]


def no_bar(_title: str, _total: int) -> AbstractContextManager[Tick]:
    """Show nothing."""
    return nullcontext(lambda _done: None)


@dataclass(frozen=True)
class Measure:
    """How the model does on some rows: which they are, how many, accuracy, and objective if there are two classes."""

    which: str
    rows: int
    accuracy: float
    objective: float | None


@dataclass(frozen=True)
class Trained:
    """What came of it.

    Attributes
    ----------
    model : UnevenClassifier
    scale : Scale
    measures : tuple of Measure
        None of private rows, unless it was a simulation.
    path : Path or None
    followed : str
        Which rows the path's objective is measured on; empty for none.
    too_long : dict
        How many rows of each source were shrunk: for the rows' owner only.
    simulated : bool
        With a seed: nothing is promised about privacy.
    """

    model: UnevenClassifier
    scale: Scale
    measures: tuple[Measure, ...]
    path: Path | None
    followed: str
    too_long: dict[str, int]
    simulated: bool

    @property
    def plan(self) -> Plan:
        """The plan that was run, for rows in the unit ball."""
        made: Plan = self.model.plan_
        return made


def train(
    file: SourcesFile,
    *,
    seed: int | None = None,
    ledger: Ledger | None = None,
    budget: float | None = None,
    test: Table | None = None,
    record: int = 0,
    bar: Bar = no_bar,
) -> Trained:
    """Fit what a ``sources.toml`` describes, its files streamed.

    Parameters
    ----------
    file : SourcesFile
    seed : int or None
        None draws noise from a cryptographic generator; a seed is for simulations.
    ledger, budget
        Book that private rows are charged in, by their place in their file, before they are used; and the most that
        one may have spent.
    test : Table or None
        Rows without privacy, never learned from, to measure on; the data of a source is refused.
    record : int
        Number of points of the path to keep, for two classes.
    bar : callable
        Makes a progress bar.
    """
    job = _Job(file, _tables(file), None if seed is None else checks.whole("seed", seed, least=0))
    if budget is not None:
        checks.positive("budget", budget, 1e-6, 1e6)
    if test is not None:
        _refuse_learned_from(test, job.tables)
    with bar("Looking through the rows", job.rows) as tick:
        job.look_through(tick)
    held_out = None if test is None else look_at_test(file, test, job.look.classes)
    job.refuse()
    spent = _charge(job.plan, ledger, budget)
    own = job.look.sample(job.learned_names)
    with bar("Learning", job.rows * len(job.positives)) as tick:
        fits = job.learn(tick, record, own if held_out is None else held_out)
    model = _model(job, [one.weights for one in fits], spent, budget)
    measures = [job.measure(model, job.own_sample, own)]
    measures += [] if test is None else [job.measure(model, str(test.path), test)]
    return Trained(
        model,
        job.scale,
        tuple(one for one in measures if one is not None),
        fits[0].path,
        job.own_sample if test is None else str(test.path),
        {name: count for name, count in job.look.too_long.items() if name in job.plan.order},
        seed is not None,
    )


def _tables(file: SourcesFile) -> dict[str, Table]:
    for entry in file.sources:
        if entry.table is None:
            raise ValueError(f"{file.path}: source {entry.source.name!r} must have data to learn from, got none")
    return {entry.source.name: entry.table for entry in file.sources if entry.table is not None}


def _refuse_learned_from(test: Table, tables: dict[str, Table]) -> None:
    """An exact measure on private rows would be a release that nobody is charged for; on others it is no test."""
    for name, table in tables.items():
        if same_file(test.path, table.path):
            raise ValueError(f"test must be rows that are not learned from, got {test.path}, the data of {name!r}")


def _charge(chosen: Plan, ledger: Ledger | None, budget: float | None) -> dict[str, float]:
    """Charge every private row that the plan uses, or refuse; what a row of each private source is charged."""
    used = [source for source in chosen.sources if source.name in chosen.order]
    noises = {source.name: source.noise for source in used}
    counts = [1 if ledger is None else source.rows for source in used]
    groups = Grouped(noises, np.repeat(np.arange(len(used)), counts))
    return accounts.charge(ledger, budget, groups, accounts.row_ids(groups, None, {}), times=1)


class _Job:
    """One fit: what is known before the first reading, and after it."""

    def __init__(self, file: SourcesFile, tables: dict[str, Table], seed: int | None) -> None:
        self.file, self.tables, self.seed = file, tables, seed
        self.rows = sum(table.rows for table in tables.values())
        noises = {entry.source.name: entry.source.noise for entry in file.sources}
        self.hidden = {name for name, one in noises.items() if one.private}
        self.private = bool(self.hidden)
        self.row_norm: Any = "auto" if file.row_norm is None else file.row_norm
        self.clip: Any = "auto" if file.problem.clip is None else file.problem.clip

    @property
    def open_names(self) -> list[str]:
        """Sources whose rows may be looked at after learning: all of them in a simulation."""
        return [name for name in self.tables if self.seed is not None or name not in self.hidden]

    @property
    def learned_names(self) -> list[str]:
        """Those of them that the plan uses."""
        return [name for name in self.open_names if name in self.plan.order]

    @property
    def own_sample(self) -> str:
        """The sample of rows learned from, in words."""
        names = self.learned_names
        if not names:
            return ""
        if len(names) == len(self.plan.order):
            return "rows learned from"
        return f"rows learned from, of {', '.join(map(repr, names))}"

    @property
    def positives(self) -> list[Any]:
        """Classes to tell from the rest, one problem each."""
        classes = self.look.classes
        return list(classes[1:] if len(classes) == 2 else classes)

    def look_through(self, tick: Tick) -> None:
        """Read everything once; then the scale is known, and with it the plan."""
        intercept, batch_size = self.file.fit_intercept, self.file.problem.batch_size
        stated = stated_scale(self.row_norm, intercept, self.private)
        bound = None if stated is None else stated.row_norm
        self.look: Look = look_through(self.file, self.tables, bound, self.open_names, tick)
        self.scale = stated or measured_scale(self.look.norm, self.look.spread, intercept, batch_size)
        self.plan = plan_scaled(self.file, self.scale)

    def refuse(self) -> None:
        """What a run would refuse, before anything is charged for it."""
        if len(self.positives) > 1 and self.private:
            raise ValueError(
                f"labels must be of two classes where a source is private, got {len(self.positives)}: one-vs-rest "
                "would release every row once a class"
            )
        if self.look.sparse and self.private:
            raise ValueError("rows must be dense where a source is private: its noise fills every coordinate")
        tasks_of(self.plan)

    def learn(self, tick: Tick, record: int, sample: Rows | None) -> list[Fit]:
        """One run for two classes, one a class for more."""
        return [self._run(positive, tick, record, sample) for positive in self.positives]

    def _run(self, positive: Any, tick: Tick, record: int, sample: Rows | None) -> Fit:
        evaluate = None
        if record and sample is not None:
            unit, signs = self._unit(sample[0]), _signs(sample[1], positive)
            evaluate = lambda w: float(objective(self.plan.problem, w, unit, signs))  # noqa: E731
        data = {name: self._data(name, positive, tick) for name in self.plan.order}
        return fit(self.plan, data, seed=self.seed, record=record, evaluate=evaluate)

    def _data(self, name: str, positive: Any, tick: Tick) -> Any:
        """Rows of a source as a stream; in memory where they are to be shuffled with those of others."""
        pieces = self._pieces(name, positive, tick)
        if not self.plan.shuffled:
            return Stream(pieces, fresh=True)
        X, y = zip(*pieces, strict=True)
        return np.concatenate(X), np.concatenate(y)

    def _pieces(self, name: str, positive: Any, tick: Tick) -> Iterator[tuple[Any, Array]]:
        for X, y in self.tables[name].stream(self.file.label, self.file.feature_names):
            tick(len(y))
            yield self._unit(X), _signs(y, positive)

    def _unit(self, X: Any) -> Any:
        if self.scale.norms == "largest":
            X = shrunk(X, row_norms(X), self.scale.row_norm)
        return self.scale.rows(X)

    def measure(self, model: UnevenClassifier, which: str, rows: Table | Rows | None) -> Measure | None:
        """How the model does on a table or on some rows; None where there are none that may be looked at."""
        if rows is None:
            return None
        pieces = rows.stream(self.file.label, self.file.feature_names) if isinstance(rows, Table) else [rows]
        return self._measured(model, which, pieces)

    def _measured(self, model: UnevenClassifier, which: str, pieces: Iterable[Rows]) -> Measure:
        plain, count, right, total = without_names(model), 0, 0, 0.0
        weights = np.append(model.coef_[0], model.intercept_[0] / (self.scale.constant or 1.0)) * self.scale.factor
        for X, y in pieces:
            count += len(y)
            right += int((plain.predict(X) == y).sum())
            if len(self.positives) == 1:
                w = weights if self.scale.intercept else weights[:-1]
                value = objective(self.plan.problem, w, self._unit(X), _signs(y, self.positives[0]))
                total += len(y) * float(value)
        return Measure(which, count, right / count, total / count if len(self.positives) == 1 else None)


def _signs(y: NDArray[Any], positive: Any) -> Array:
    return np.where(np.asarray(y == positive, dtype=bool), 1.0, -1.0)


def _model(job: _Job, weights: list[Array], spent: dict[str, float], budget: float | None) -> UnevenClassifier:
    """The model that `UnevenClassifier.fit` would have made of these rows."""
    file, problem = job.file, job.file.problem
    noises = {entry.source.name: entry.source.noise for entry in file.sources}
    model = UnevenClassifier(
        noises,
        alpha=problem.alpha,
        batch_size=problem.batch_size,
        loss=problem.loss,
        strategy=file.strategy,
        moments=file.moments,
        radius=problem.radius,
        fit_intercept=file.fit_intercept,
        clip=job.clip,
        row_norm=job.row_norm,
        budget=budget,
        random_state=job.seed,
    )
    coefs, intercepts = zip(*(job.scale.coefficients(w) for w in weights), strict=True)
    model.coef_, model.intercept_ = np.array(coefs), np.array(intercepts)
    model.classes_, model.plan_, model.scale_ = job.look.classes, job.plan, job.scale
    model.privacy_spent_ = spent
    model.flip_rates_ = {name: one.rate for name, one in noises.items() if hasattr(one, "rate")}
    model.n_features_in_ = problem.n_features
    model.feature_names_in_ = np.array(file.feature_names, dtype=object)
    return model
