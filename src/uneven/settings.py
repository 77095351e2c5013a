"""The settings of a fit: the same names, defaults and checks for the classifier, ``sources.toml`` and model files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from uneven import checks
from uneven.losses import LOSSES
from uneven.noise import MECHANISMS, MOMENTS
from uneven.planner import ANCHORED, STRATEGIES
from uneven.problem import RADII, choose_batching
from uneven.schedules import AVERAGES

LONG_ROWS = ("shrink", "refuse")

MULTI_CLASS = ("softmax", "one-vs-rest")
"""How more than two classes are learned: as one problem, or each against the rest."""

LEFT_OPEN = "auto"
PUBLIC_FIRST = (LEFT_OPEN, ANCHORED.name)
"""Strategies that fit the public sources first, to convergence where possible."""

Check = Callable[[str, Any], object]


def _one_of(*accepted: str) -> Check:
    return lambda name, value: checks.one_of(name, value, accepted)


def _or(usual: str | None, accepted: str, check: Check) -> Check:
    """Accept `usual` (a word or None) as it is; any other word is refused with what is accepted."""

    def checked(name: str, value: Any) -> object:
        if (value is None and usual is None) or (isinstance(value, str) and value == usual):
            return value
        if isinstance(value, str):
            raise ValueError(f"{name} must be {accepted}, got {checks.shown(value)}")
        return check(name, value)

    return checked


def _boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be true or false, got {checks.shown(value)}")
    return bool(value)


def _clip(name: str, value: Any) -> float | None:
    return None if value is None else checks.moderate(name, value)


def _sketch(name: str, value: Any) -> int | None:
    return None if value is None else checks.whole(name, value)


def _budget(name: str, value: Any) -> float:
    return checks.moderate(name, value)


def _count(name: str, value: Any) -> int:
    return checks.whole(name, value, least=0)


def _classes(name: str, value: Any) -> tuple[Any, ...]:
    """Two or more different labels, all text, all whole numbers or all booleans."""
    shape = f"{name} must be None or a list of two or more labels, all text, all whole numbers or all booleans"
    if not isinstance(value, list | tuple | np.ndarray) or np.ndim(np.asarray(value, dtype=object)) != 1:
        raise ValueError(f"{shape}, got {checks.shown(value)}")
    plain = tuple(one.item() if isinstance(one, np.generic) else one for one in value)
    alike = len({type(one) for one in plain}) == 1 and isinstance(plain[0], str | int)
    if len(plain) < 2 or not alike or len(set(plain)) < len(plain):
        raise ValueError(f"{shape}, got {checks.shown(value)}")
    return plain


def name_class(label: Any) -> str:
    """A class as the keys of a TOML or JSON table have it.

    >>> name_class(True), name_class(0), name_class(np.str_("ill"))
    ('true', '0', 'ill')
    """
    plain = label.item() if isinstance(label, np.generic) else label
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


def _class_weight(name: str, value: Any) -> dict[str, float] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"{name} must be None, 'balanced' or a dict of classes and weights, got {checks.shown(value)}")
    found = {name_class(one): checks.moderate(f"{name} of {one!r}", w) for one, w in value.items()}
    if len(found) < len(value):
        raise ValueError(f"{name} must name each class once, got {checks.shown(value)}")
    return found


def _threshold(name: str, value: Any) -> float | None:
    return None if value is None else checks.fraction(name, value)


CHECKS: Mapping[str, Check] = {
    "alpha": _or("auto", "'auto' or a positive number", checks.positive),
    "batch_size": _or("auto", "'auto' or a whole number of at least 1", checks.whole),
    "loss": lambda name, value: checks.one_of(name, value, LOSSES),  # those there are now: one may be added
    "strategy": _one_of(*PUBLIC_FIRST, *STRATEGIES),
    "moments": _one_of("auto", *MOMENTS, "estimated"),
    "radius": _one_of(*RADII),
    "fit_intercept": _boolean,
    "clip": _or("auto", "'auto', None or a positive number", _clip),
    "average": _one_of("auto", *AVERAGES),
    "row_norm": _or("auto", "'auto' or a positive number", checks.positive),
    "long_rows": _one_of(*LONG_ROWS),
    "passes": _or("auto", "'auto' or a whole number of at least 1", checks.whole),
    "use": _one_of("auto", "all"),
    "redact": _boolean,
    "classes": _or(None, "None or a list of labels", _classes),
    "class_weight": _or("balanced", "None, 'balanced' or a dict of classes and weights", _class_weight),
    "threshold": _or(None, "None or a number in (0, 1)", _threshold),
    "multi_class": _one_of(*MULTI_CLASS),
    "sketch": _or("auto", "None, 'auto' or a whole number of at least 1", _sketch),
    "budget": _or(None, "None or a positive number", _budget),
    "line_search": _count,
    "mechanism": _one_of(*MECHANISMS),
    "random_state": _or(None, "None or a whole number", _count),
}
"""How each setting is checked; a check returns the value to use."""


@dataclass(frozen=True)
class Settings:
    """Everything a fit can be told besides its rows, their noise and the ledger; see `uneven.UnevenClassifier`.

    >>> Settings(alpha=0.01).alpha
    0.01
    >>> Settings(passes=0)
    Traceback (most recent call last):
    ValueError: passes must be a whole number of at least 1, got 0
    """

    alpha: Any = "auto"
    batch_size: Any = "auto"
    loss: str = "logistic"
    strategy: str = "auto"
    moments: str = "auto"
    radius: str = "tight"
    fit_intercept: bool = True
    clip: Any = "auto"
    average: str = "auto"
    row_norm: Any = "auto"
    long_rows: str = "shrink"
    passes: Any = "auto"
    use: str = "auto"
    redact: bool = False
    classes: Any = None
    class_weight: Any = None
    threshold: float | None = None
    multi_class: str = "softmax"
    sketch: Any = None
    budget: float | None = None
    line_search: int = 0
    mechanism: str = "quiet"
    random_state: int | None = None

    def __post_init__(self) -> None:
        for name, check in CHECKS.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))
        if self.threshold is not None and not LOSSES[self.loss].probabilistic:
            raise ValueError(
                f"threshold must be None for a loss without probabilities, {self.loss!r}; got {self.threshold}"
            )

    def batching(self, own: bool) -> dict[str, Any]:
        """Keyword arguments of `Problem` for the batch size; `own` if some source's noise is drawn once per batch."""
        return choose_batching(self.batch_size, own)

    @property
    def stated_classes(self) -> int:
        """How many classes are stated, or named by the class weights; two where they are left to the rows."""
        named = len(self.class_weight) if isinstance(self.class_weight, dict) else 2
        return max(2, named) if self.classes is None else len(self.classes)

    def joint_classes(self, count: int) -> int:
        """Classes that one problem tells apart: all of them by softmax, or two."""
        return count if self.multi_class == "softmax" and LOSSES[self.loss].multinomial else 2

    @property
    def stepping(self) -> str:
        """Strategy of a run by steps: "precision" where none is asked for."""
        return "precision" if self.public_first else self.strategy

    @property
    def public_first(self) -> bool:
        """Whether sources without privacy are learned first, to convergence where they can."""
        return self.strategy in PUBLIC_FIRST

    @property
    def needs_anchor(self) -> bool:
        """Whether rows that cannot be learned from an anchor are to be refused, rather than learned by steps."""
        return self.strategy == ANCHORED.name

    @property
    def left_open(self) -> bool:
        """Whether the strategy is "auto"."""
        return self.strategy == LEFT_OPEN

    @property
    def pass_count(self) -> int:
        """Times that a run by steps uses each row: once where nothing is asked for."""
        return 1 if isinstance(self.passes, str) else int(self.passes)

    @property
    def steps_asked(self) -> str | None:
        """Name of a setting that only SGD can honour, if one was given."""
        asked = {"passes": self.passes != "auto", "moments": self.moments != "auto", "average": self.average != "auto"}
        asked |= {"line_search": self.line_search > 0, "clip": self.clip != "auto"}
        return next((name for name, given in asked.items() if given), None)

    @property
    def estimate(self) -> bool:
        """Whether moments are estimated during the run."""
        return self.moments == "estimated"

    @property
    def planned_moments(self) -> str:
        """Moments to plan with; the strategy's own where they are estimated during the run."""
        return "auto" if self.estimate else self.moments


NAMES = tuple(field.name for field in fields(Settings))
"""Names of all settings, in order."""
