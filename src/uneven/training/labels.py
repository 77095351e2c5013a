"""Labels of any kind as numbers: -1 and 1 for two classes; for more their places, or -1 and 1 once per class."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.redaction import owner_only
from uneven.settings import Settings, name_class

MOST_CLASSES = 1000
"""More different labels than this are not classes."""

KINDS = {"text": (str,), "booleans": (bool, np.bool_), "numbers": (int, float, np.number)}


def refuse_missing(name: str, labels: Any) -> None:
    """Refuse labels of which one is missing: None, NaN, or what pandas has for it."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind != "O":
        return
    try:
        values = np.asarray(labels)
    except (TypeError, ValueError):  # lists of different lengths: scikit-learn says so
        return
    missing = [i for i, one in enumerate(values.ravel()) if _is_missing(one)] if values.dtype.kind == "O" else []
    if missing and values.ndim:
        which = owner_only(f", got {values.ravel()[missing[0]]} in row {missing[0]}")
        raise ValueError(f"{name} must have a label in every row{which}")


def _is_missing(one: Any) -> bool:
    return one is None or type(one).__name__ in ("NAType", "NaTType") or (isinstance(one, float) and one != one)


CONVENTIONS = ((0, 1), (-1, 1))
"""Labels that may be taken from private rows: which of the two (booleans are 0 and 1) is public, nothing else."""

PUBLIC = (
    "classes must be given where a source is private, unless every label is 0 or 1, -1 or 1, or a boolean, and two "
    'rows or more have each: they are public; classes = ["no", "yes"] says what they are'
)


def read_classes(given: Any) -> NDArray[Any] | None:
    """Classes as stated, in order; None where they are left to the rows."""
    return None if given is None else np.unique(np.array(list(given)))


def expect_classes(settings: Settings, private: bool = False) -> NDArray[Any]:
    """Classes before any label is read: as stated, else a usual pair that class weights can be of, or those named.

    Where a source is `private`, labels that are not stated must be of a usual pair.
    """
    named = set(settings.class_weight) if isinstance(settings.class_weight, dict) else set()
    other = CONVENTIONS[0] if private else tuple(sorted(named if len(named) > 1 else {*named, "another"}))
    usual = next((pair for pair in (*CONVENTIONS, (False, True)) if named <= set(map(name_class, pair))), other)
    return np.array(usual) if settings.classes is None else np.unique(np.array(settings.classes))


def read_weights(settings: Settings, classes: NDArray[Any]) -> tuple[float, ...]:
    """Weights of the classes that one problem tells apart, as stated; 1 for a class that is not named."""
    given, joint = settings.class_weight, settings.joint_classes(len(classes))
    if given is not None and joint < len(classes):
        got = f"loss {settings.loss!r}" if settings.multi_class == "softmax" else repr(settings.multi_class)
        raise ValueError(
            f"class_weight must be None for {len(classes)} classes unless multi_class is 'softmax', with the logistic "
            f"loss; got {got}"
        )
    if given is None or isinstance(given, str):
        return (1.0,) * joint
    names = [name_class(one) for one in classes.tolist()]
    if unknown := [name for name in given if name not in names]:
        raise ValueError(f"class_weight must name the classes {', '.join(map(repr, names))}; got {unknown[0]!r}")
    return tuple(float(given.get(name, 1.0)) for name in names)


def _different(labels: NDArray[Any]) -> set[Any]:
    return set((labels if labels.dtype.kind == "O" else np.unique(labels)).tolist())


def _conventional(labels: NDArray[Any]) -> NDArray[Any]:
    """Both classes of the convention that labels follow, also where only one is there; or a refusal that tells none."""
    values = _different(labels)
    if all(isinstance(one, KINDS["booleans"] + KINDS["numbers"]) for one in values):
        for convention in CONVENTIONS:
            if values <= set(convention):
                return np.array(convention).astype(labels.dtype if labels.dtype.kind != "O" else int)
    raise ValueError(PUBLIC)


class ClassFinder:
    """The different labels of all rows, which must be of one kind."""

    def __init__(self) -> None:
        self._found: list[NDArray[Any]] = []
        self._kind: tuple[str, str] | None = None
        self._private, self._typed = False, True
        self._rows: Counter[Any] = Counter()

    def see(self, y: NDArray[Any], where: str, private: bool = False) -> None:
        """Take in the labels of some rows; `where` they are from is for messages, which tell no private label."""
        if private:
            _conventional(y)
            self._private = True
        found = np.unique(y) if y.dtype.kind != "O" else np.array(sorted(set(y.tolist()), key=str), dtype=object)
        self._typed = self._typed and y.dtype.kind == "b"
        self._rows += Counter({one: int((y == one).sum()) for one in found[:3].tolist()})
        for kind in {_kind_of(value, where) for value in found.tolist()}:
            self._kind = self._kind or (kind, where)
            if kind != self._kind[0]:
                raise ValueError(
                    f"labels must be of one kind, got {self._kind[0]} in {self._kind[1]} and {kind} in {where}"
                )
        self._found = [np.unique(np.concatenate([*self._found, found]))]
        if len(self._found[0]) > MOST_CLASSES:
            raise ValueError(
                f"{where}: label must be a column of classes, got more than {MOST_CLASSES:,} different values"
            )

    def classes(self, unread: bool = False) -> NDArray[Any]:
        """Classes in order; at least two. `unread` says that there are private rows that were not read."""
        if self._private and not unread:
            self._refuse_single()
        if self._private or unread:
            return _conventional(self._found[0])
        return find_classes(self._found[0], "y" if self._kind and self._kind[1] == "y" else "labels")

    def _refuse_single(self) -> None:
        """Refuse classes that depend on a single row: changing its label would change the set of classes."""
        if not self._typed and (len(self._rows) < 2 or min(self._rows.values()) < 2):
            raise ValueError(PUBLIC)


def _kind_of(value: Any, where: str) -> str:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(
            f"{where}: label must be a column of classes, got {owner_only(f'the number {value:g}', 'fractions')}"
        )
    for kind, types in KINDS.items():
        if isinstance(value, types):
            return kind
    raise ValueError(f"{where}: labels must be text, numbers or booleans, got {type(value).__name__}")


def find_classes(labels: NDArray[Any], what: str = "y") -> NDArray[Any]:
    """Different labels in order; refused if there is only one."""
    classes = np.unique(labels)
    if len(classes) < 2:
        which = owner_only("".join(f": {checks.shown(one)}" for one in classes.tolist()))
        raise ValueError(f"{what} must have at least two classes, got one class{which}")
    return classes


def refuse_others(given: Any, known: NDArray[Any]) -> None:
    """Refuse classes other than those that a model knows already; None passes."""
    if given is not None and set(np.unique(np.asarray(given)).tolist()) != set(known.tolist()):
        raise ValueError(f"classes must stay {checks.shown(known.tolist())} for partial_fit, got {checks.shown(given)}")


def refuse_unknown(y: Any, classes: NDArray[Any], where: str = "y", private: bool = False) -> None:
    """Refuse a label that is none of the classes; which one, only where no row is private."""
    if unknown := sorted(_different(np.asarray(y)) - set(classes.tolist()), key=str):
        held = "y must hold the classes" if where == "y" else f"{where}: labels must be of the classes"
        got = "another" if private else owner_only(checks.shown(unknown[0]), "another")
        raise ValueError(f"{held} {checks.shown(classes.tolist())}, got {got}")


Target = Any
"""What a problem tells apart: one class from the rest, or all classes, as an array of them."""


def list_targets(classes: NDArray[Any], settings: Settings) -> list[Target]:
    """Classification targets, one problem each: the positive class; or all classes jointly, or one against the rest."""
    if len(classes) == 2:
        return [classes[1]]
    return [classes] if uses_softmax(settings, len(classes)) else list(classes)


def uses_softmax(settings: Settings, classes: int) -> bool:
    """Whether so many classes are learned as one problem."""
    return settings.joint_classes(classes) > 2


def as_numbers(y: Any, target: Target) -> NDArray[np.float64]:
    """1 for rows of the target class, -1 for the others; of all classes, the place of each row's class among them.

    >>> y = np.array(["c", "a"])
    >>> as_numbers(y, "c").tolist(), as_numbers(y, np.array(["a", "b", "c"])).tolist()
    ([1.0, -1.0], [2.0, 0.0])
    """
    if isinstance(target, np.ndarray):
        return np.searchsorted(target, np.asarray(y)).astype(np.float64)
    return np.where(np.asarray(y == target, dtype=bool), 1.0, -1.0)
