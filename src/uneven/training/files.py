"""The door for files: a ``sources.toml`` in, what the trainer made of its files out.

The first reading checks every value, label and norm. Then private rows are charged, and only then are rows learned
from: those held from the first reading if they are few, else from a second one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.engine import objective
from uneven.io import SourceEntry, SourcesFile, Table, is_same_file, located, read_ids, read_levels
from uneven.ledger import Ledger
from uneven.noise import Noise
from uneven.planner import Plan
from uneven.redaction import redacted
from uneven.training.charging import Account
from uneven.training.known_rows import Known
from uneven.training.labels import as_numbers, list_targets
from uneven.training.model import Model
from uneven.training.quality import Comparison, compare, fit_public_rivals
from uneven.training.rows import Piece, Rows
from uneven.training.scaling import Scale, shorten_rows
from uneven.training.scan import HELD_BYTES, XY, scan_rows
from uneven.training.trainer import Bar, Trained, show_nothing, train


def read_rows(
    file: SourcesFile, table: Table, columns: Sequence[str] = (), checked: bool = True, gaps: Sequence[str] = ()
) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """Rows of a table as the file describes them, and more columns as they are written, with empty cells in `gaps`."""
    return table.read(file.label, file.feature_names, columns, checked, file.encoder, gaps)


def find_cells(file: SourcesFile, said: Mapping[str, Any]) -> dict[str, Any] | None:
    """Cells of the described columns among columns as they are written; None where none are described."""
    return None if file.columns is None else {column.name: said[column.name] for column in file.columns}


@dataclass(frozen=True)
class FileRows(Rows):
    """Rows of the files that a ``sources.toml`` names, source after source."""

    file: SourcesFile

    @property
    def tells_noise(self) -> bool:
        """Whether rows of some source have their own noise."""
        return any({"epsilon", "flip_rate"} & entry.columns.keys() for entry in self.file.sources)

    @property
    def n_features(self) -> int:
        """Number of columns learned from."""
        return self.file.n_features

    @property
    def described(self) -> tuple[str, ...] | None:
        """Columns whose cells the rows are known by; None where they are known by their features."""
        return None if self.file.columns is None else self.file.feature_names

    def pieces(self, checked: bool = True, only: str | None = None) -> Iterator[Piece]:
        """All rows, in the order of the sources and of their files; of one source alone where it has its own file."""
        if self.file.shared is not None:
            yield from self._shared_pieces(self.file.shared, checked)
            return
        for entry in self.file.sources:
            if only not in (None, entry.name):
                continue
            count = 0
            for piece in self._pieces(entry, checked):
                count += len(piece.y)
                yield piece
            with located(str(self.file.path)):
                entry.refuse_count(count)

    def _pieces(self, entry: SourceEntry, checked: bool) -> Iterator[Piece]:
        assert entry.table is not None
        columns, first = list(entry.columns.values()), 0
        for X, y, said in read_rows(self.file, entry.table, columns, checked):
            rows = range(first, first + len(y))
            own = {_argument(key): _read_own(entry.table, key, c, said[c], rows) for key, c in entry.columns.items()}
            first += len(y)
            yield Piece(X, y, entry.name, **own, cells=find_cells(self.file, said), where=str(entry.table.path))

    def _shared_pieces(self, table: Table, checked: bool) -> Iterator[Piece]:
        """Rows that name their sources; a column that one source's rows have is empty for the others."""
        column, first = self.file.source_column, 0
        assert column is not None
        told = list(dict.fromkeys(c for entry in self.file.sources for c in entry.columns.values() if c != column))
        for X, y, said in read_rows(self.file, table, [column, *told], checked, gaps=told):
            names = np.asarray(said[column]).astype(str)
            own: dict[str, Any] = {}
            for entry in self.file.sources:
                mine = np.flatnonzero(names == entry.name)
                for key, place in entry.columns.items():
                    before = own.setdefault(_argument(key), np.full(len(y), -1 if key == "id" else np.nan))
                    before[mine] = _read_own(table, key, place, np.asarray(said[place])[mine], (first + mine).tolist())
            first += len(y)
            yield Piece(X, y, names, **own, cells=find_cells(self.file, said), where=str(table.path))


def _read_own(table: Table, key: str, column: str, cells: Any, rows: Sequence[int]) -> NDArray[Any]:
    """Values of a per-row column (ε, flip rate or id), as numbers."""
    return (read_ids if key == "id" else read_levels)(table.path, column, np.asarray(cells), rows)


def _argument(key: str) -> str:
    """What the trainer calls a column of ``sources.toml``."""
    return "row_id" if key == "id" else key


@dataclass(frozen=True)
class Measure:
    """Scores of the model on some rows: which rows, how many, accuracy, and the objective for two classes.

    `compared` has accuracy, AUC and log-loss with their intervals, beside what else could have been done.
    `learned_from` says whether the model was learned from these rows.
    """

    which: str
    rows: int
    accuracy: float
    objective: float | None
    compared: Comparison
    learned_from: bool = False

    @property
    def auc(self) -> float | None:
        """Area under the ROC curve, with two classes."""
        found = self.compared.scores.auc
        return None if found is None else found.value


@dataclass(frozen=True)
class FileFit:
    """A fit to files: what the trainer made, and how it does where that may be looked at.

    Attributes
    ----------
    trained : Trained
    measures : tuple of Measure
        None of private rows, unless it was a simulation.
    followed : str
        Which rows the path's objective is measured on; empty for none.
    simulated : bool
        With a seed: nothing is promised about privacy.
    """

    trained: Trained
    measures: tuple[Measure, ...]
    followed: str
    simulated: bool

    @property
    def model(self) -> Model:
        """The model."""
        return self.trained.model

    @property
    def plan(self) -> Plan:
        """The plan that was run, for rows in the unit ball."""
        return self.trained.plan

    @property
    def scale(self) -> Scale:
        """What the rows were scaled by."""
        return self.trained.scale

    def describe_activity(self) -> list[str]:
        """A sentence on how active private rows were, if any could be silent."""
        if not self.trained.activity:
            return []
        each = ", ".join(f"{name!r} {one}" for name, one in self.trained.activity.items())
        return [f"Mean gradient norm ÷ clip: {each}. Measuring it cost no ε."]


def train_files(
    file: SourcesFile,
    *,
    seed: int | None = None,
    ledger: Ledger | None = None,
    budget: float | None = None,
    test: Table | None = None,
    validation: Table | None = None,
    record: int = 0,
    held_bytes: int = HELD_BYTES,
    bar: Bar = show_nothing,
) -> FileFit:
    """Fit what a ``sources.toml`` describes.

    Parameters
    ----------
    file : SourcesFile
    seed : int or None
        None draws noise from a cryptographic generator; a seed is for simulations.
    ledger : Ledger or None
        Ledger that private rows are charged to before use: by their id column, or their content.
    budget : float or None
        The most that a row may have spent, instead of the file's.
    test, validation : Table or None
        Rows without privacy, never learned from, to measure on and to compare the runs of a line search on; the data
        of a source is refused.
    record : int
        Number of points of the path to keep, for two classes.
    held_bytes : int
        Size up to which rows are held in memory and read once.
    bar : callable
        Makes a progress bar.

    Returns
    -------
    FileFit
    """
    _refuse_without_rows(file)
    seed = None if seed is None else checks.whole("seed", seed, least=0)
    budget = file.settings.budget if budget is None else budget
    settings = replace(file.settings, random_state=seed, budget=budget)
    for what, table in (("test", test), ("validation", validation)):
        _refuse_learned_from(what, file, table)
    noises, names = list_declared_noises(file), (file.label, file.feature_names)
    is_open = [entry.name for entry in file.sources if seed is not None or not entry.private]

    def compare(known: Known) -> None:
        for what, table in (("test", test), ("validation", validation)):
            if table is not None:
                known.refuse(what, f"{table.path}: ", _TableRows(table, file).pieces())

    with redacted(settings.redact):
        trained = train(
            FileRows(file),
            noises or None,
            settings,
            account=Account(ledger),
            validation=None if validation is None else validation.arrays(*names, file.encoder),
            open_sources=None if len(is_open) == len(file.sources) else is_open,
            feature_names=file.feature_names if file.encoder is None else file.encoder.names,
            record=record,
            follow=lambda classes: _test_sample(file, test, classes),
            compare=None if test is None and validation is None else compare,
            held_bytes=held_bytes,
            bar=bar,
        )
    trained = replace(trained, model=replace(trained.model, columns=file.columns))
    followed = _sampled_words(trained) if test is None else str(test.path)
    return FileFit(trained, tuple(_measure_all(file, trained, test)), followed, seed is not None)


def _measure_all(file: SourcesFile, trained: Trained, test: Table | None) -> Iterator[Measure]:
    """How the model does on rows learned from that may be looked at, and on those of the test."""
    sample, rivals = trained.sample, fit_public_rivals(trained)
    if sample is not None:
        yield measure(trained, _sampled_words(trained), [sample], rivals, learned_from=True)
    if test is not None:
        pieces = test.stream(file.label, file.feature_names, file.encoder)
        yield measure(trained, str(test.path), pieces, rivals)


def list_declared_noises(file: SourcesFile) -> dict[str, Noise]:
    """Noise of each source that has one for all its rows."""
    return {entry.name: entry.noise for entry in file.sources if entry.noise is not None}


def _refuse_without_rows(file: SourcesFile) -> None:
    for entry in file.sources:
        if entry.table is None and file.shared is None:
            raise ValueError(f"{file.path}: source {entry.name!r} must have data to learn from, got none")


def _refuse_learned_from(what: str, file: SourcesFile, table: Table | None) -> None:
    """An exact measure on private rows would be a release that nobody is charged for; on others it is not a test."""
    tables = {entry.name: entry.table for entry in file.sources} | {"data": file.shared}
    for name, own in tables.items():
        if table is not None and own is not None and is_same_file(table.path, own.path):
            raise ValueError(f"{what} must be rows that are not learned from, got {table.path}, the data of {name!r}")


def _test_sample(file: SourcesFile, test: Table | None, classes: NDArray[Any]) -> XY | None:
    """Some rows to test on, read once; refused if their labels are of other classes."""
    if test is None:
        return None
    scan = scan_rows(_TableRows(test, file), classes=classes, held_bytes=0)
    return next(iter(scan.sample.values()))


@dataclass(frozen=True)
class _TableRows(Rows):
    """Rows of one table that belong to no source."""

    table: Table
    file: SourcesFile

    @property
    def n_features(self) -> int:
        return self.file.n_features

    def pieces(self, checked: bool = True, only: str | None = None) -> Iterator[Piece]:
        for X, y, said in read_rows(self.file, self.table, checked=checked):
            yield Piece(X, y, cells=find_cells(self.file, said), where=str(self.table.path))


def _sampled_words(trained: Trained) -> str:
    """The sample of rows learned from, in words; empty without one."""
    if not trained.sampled:
        return ""
    if len(trained.sampled) == len(trained.plan.order):
        return "rows learned from"
    return f"rows learned from, of {', '.join(map(repr, trained.sampled))}"


def measure(
    trained: Trained,
    which: str,
    pieces: Iterable[tuple[Any, NDArray[Any]]],
    rivals: Mapping[str, Model] | None = None,
    learned_from: bool = False,
) -> Measure:
    """How the model does on rows in pieces, in one reading of them."""
    found = _MeanObjective(trained)
    compared = compare(trained.model, rivals or {}, found.watch(pieces), learned_from)
    return Measure(which, found.count, compared.scores.accuracy.value, found.mean, compared, learned_from)


class _MeanObjective:
    """The objective on rows that pass by, where there is one problem; and their number."""

    def __init__(self, trained: Trained) -> None:
        model, scale = trained.model, replace(trained.scale, sketch=0)  # the model's weights are for rows as given
        self.scale, self.targets, self.count, self.total = scale, list_targets(model.classes, model.settings), 0, 0.0
        rows = np.column_stack([model.coef, model.intercept / (scale.constant or 1.0)]) * scale.factor
        rows = rows if scale.intercept else rows[:, :-1]
        self.weights = rows.ravel() if len(self.targets) == 1 else rows[0]
        self.problem = replace(trained.plan.problem, n_features=len(self.weights))
        # Learned to convergence, the intercept has no L2 term, or next to none.
        self.free = float(np.linalg.norm(rows[:, -1])) if scale.intercept and trained.plan.converged else 0.0

    def watch(self, pieces: Iterable[tuple[Any, NDArray[Any]]]) -> Iterator[tuple[Any, NDArray[Any]]]:
        """The same pieces, counted on their way."""
        for X, y in pieces:
            self.count += len(y)
            if len(self.targets) == 1:
                unit = self.scale.rows(shorten_rows(X, self.scale.bound))
                signs = as_numbers(y, self.targets[0])
                self.total += len(y) * float(objective(self.problem, self.weights, unit, signs))
            yield X, y

    @property
    def mean(self) -> float | None:
        """Mean over the rows; None where there are several problems."""
        if len(self.targets) > 1:
            return None
        return self.total / self.count - self.problem.alpha / 2.0 * self.free**2
