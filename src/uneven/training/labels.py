"""Labels of any kind as -1 and 1: once for two classes, once a class for more."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from uneven import checks


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
        raise ValueError(f"{name} must have a label in every row, got {values.ravel()[missing[0]]} in row {missing[0]}")


def _is_missing(one: Any) -> bool:
    return one is None or type(one).__name__ in ("NAType", "NaTType") or (isinstance(one, float) and one != one)


def classes_of(y: Any) -> NDArray[Any]:
    """Classes in order; at least two."""
    check_classification_targets(y)
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(f"y must have at least two classes, got one class: {checks.shown(classes[0])}")
    return classes


def refuse_others(given: Any, known: NDArray[Any]) -> None:
    """Refuse classes other than those that a model knows already; None is no matter."""
    if given is not None and set(np.unique(np.asarray(given)).tolist()) != set(known.tolist()):
        raise ValueError(f"classes must stay {checks.shown(known.tolist())} for partial_fit, got {checks.shown(given)}")


def signs(y: Any, classes: NDArray[Any]) -> list[NDArray[np.float64]]:
    """For each problem (one, or one a class) each row's label: 1 if it is of the problem's class, else -1.

    >>> [s.tolist() for s in signs(np.array(["b", "a"]), np.array(["a", "b"]))]
    [[1.0, -1.0]]
    """
    if unknown := sorted(set(np.unique(y)) - set(classes)):
        raise ValueError(f"y must hold the classes {checks.shown(list(classes))}, got {checks.shown(unknown[0])}")
    return [np.where(y == one, 1.0, -1.0) for one in (classes[1:] if len(classes) == 2 else classes)]
