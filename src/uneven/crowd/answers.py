"""Answers in long form as numbers: one (task, worker, label) a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from uneven import checks

Array = NDArray[np.float64]
COLUMNS = ("task", "worker", "label")


@dataclass(frozen=True)
class Answers:
    """Answers with tasks, workers and classes numbered.

    Attributes
    ----------
    tasks, workers, classes : arrays
        Their names, in the order of their numbers.
    task, worker, label : arrays of int, shape (answers,)
    """

    tasks: NDArray[Any]
    workers: NDArray[Any]
    classes: NDArray[Any]
    task: NDArray[np.int64]
    worker: NDArray[np.int64]
    label: NDArray[np.int64]

    @property
    def incidence(self) -> sparse.csr_array:
        """Matrix of shape (workers x classes, tasks): how often each worker gave each label to each task."""
        m, k, n = len(self.workers), len(self.classes), len(self.tasks)
        place = self.worker * k + self.label
        return sparse.csr_array((np.ones(len(place)), (place, self.task)), shape=(m * k, n))

    def votes(self) -> Array:
        """Share of each label among a task's answers, shape (tasks, classes); alike for a task without answers."""
        n, k = len(self.tasks), len(self.classes)
        counts = np.bincount(self.task * k + self.label, minlength=n * k).reshape(n, k).astype(np.float64)
        total = counts.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0, counts / np.maximum(total, 1.0), 1.0 / k))


def read_answers(columns: Any, tasks: ArrayLike | None) -> Answers:
    """Number the answers of a frame or a mapping of columns; what cannot be an answer is refused.

    Parameters
    ----------
    columns : data frame, or mapping of names to arrays
        Has `COLUMNS`.
    tasks : array or None
        Tasks in the order wanted; None means those answered, in order.
    """
    task, worker, label = (_column(columns, name) for name in COLUMNS)
    if not len(task) == len(worker) == len(label) or len(task) == 0:
        raise ValueError(
            "answers must have a task, a worker and a label in every row and at least one row, got "
            f"{len(task)}, {len(worker)} and {len(label)}"
        )
    classes = np.unique(label)
    if len(classes) < 2:
        raise ValueError(f"answers must have at least two different labels, got only {checks.shown(classes[0])}")
    names = np.unique(task) if tasks is None else _checked_tasks(tasks)
    workers, numbers = np.unique(worker, return_inverse=True)
    return Answers(names, workers, classes, find(names, task), numbers, np.searchsorted(classes, label))


def find(names: NDArray[Any], wanted: NDArray[Any], what: str = "answers") -> NDArray[np.int64]:
    """Place of each wanted task among the names; refused if one is not there."""
    if (names.dtype.kind in "iuf") != (wanted.dtype.kind in "iuf"):
        names, wanted = names.astype(str), wanted.astype(str)
    order = np.argsort(names, kind="stable")
    found = order[np.minimum(np.searchsorted(names, wanted, sorter=order), len(names) - 1)]
    if (absent := names[found] != wanted).any():
        raise ValueError(
            f"{what} must be about the tasks given, got {checks.shown(wanted[absent][0])} "
            f"({int(absent.sum()):,} such {what})"
        )
    return np.asarray(found, dtype=np.int64)


def _column(columns: Any, name: str) -> NDArray[Any]:
    present = list(columns) if isinstance(columns, Mapping) or hasattr(columns, "columns") else None
    if present is None or name not in present:
        got = checks.shown(columns) if present is None else checks.shown(present)
        raise ValueError(f"answers must have the columns 'task', 'worker' and 'label', got {got}")
    values = np.asarray(columns[name])
    if values.dtype.kind == "O":
        missing = [i for i, one in enumerate(values) if one is None or one != one]
        _refuse_missing(name, missing)
        values = values.astype(str) if any(isinstance(one, str) for one in values) else np.array(values.tolist())
    elif values.dtype.kind == "f":
        _refuse_missing(name, np.flatnonzero(np.isnan(values)).tolist())
    return values


def _refuse_missing(name: str, places: list[int]) -> None:
    if places:
        raise ValueError(f"answers must have a {name} in every row, got none in row {places[0]}")


def _checked_tasks(tasks: ArrayLike) -> NDArray[Any]:
    names = np.asarray(tasks)
    if names.dtype.kind == "O":
        names = names.astype(str)
    if names.ndim != 1 or len(np.unique(names)) < len(names):
        raise ValueError(f"tasks must be a list of different tasks, got {checks.shown(tasks)}")
    return names
