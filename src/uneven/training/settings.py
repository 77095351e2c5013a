"""Constructor arguments, checked: each by itself, and against the rows they are for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from uneven import checks
from uneven.engine.state import AVERAGES
from uneven.ledger import Ledger
from uneven.losses import LOSSES
from uneven.noise import MOMENTS, Noise
from uneven.noise.privacy import MECHANISMS
from uneven.planner import STRATEGIES
from uneven.problem import RADII
from uneven.training import flips
from uneven.training.grouping import Grouped, checked_noises
from uneven.training.scaling import LONG_ROWS

Check = Callable[[str, Any], object]


def _one_of(*accepted: str) -> Check:
    return lambda name, value: checks.one_of(name, value, accepted)


def _unless(usual: object, check: Check) -> Check:
    """Nothing is checked where the value is `usual`: None or a word."""
    return lambda name, value: None if type(value) is type(usual) and value == usual else check(name, value)


def _boolean(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {checks.shown(value)}")


def _ledger(name: str, value: Any) -> None:
    if not isinstance(value, Ledger):
        raise ValueError(f"{name} must be an uneven.Ledger, got {checks.shown(value)}")


def _clip(name: str, value: Any) -> None:
    if isinstance(value, str):
        raise ValueError(f"{name} must be 'auto', None or a positive number, got {checks.shown(value)}")
    checks.positive(name, value, 1e-6, 1e6)


def _row_norm(name: str, value: Any) -> None:
    if isinstance(value, str):
        raise ValueError(f"{name} must be 'auto' or a positive number, got {checks.shown(value)}")
    checks.positive(name, value)


CHECKS: Mapping[str, Check] = {
    "noise": _unless(None, lambda _, value: isinstance(value, Noise) or checked_noises(value)),
    "alpha": checks.positive,
    "batch_size": checks.whole,
    "loss": _one_of(*LOSSES),
    "strategy": _one_of(*STRATEGIES),
    "moments": _one_of("auto", *MOMENTS, "estimated"),
    "radius": _one_of(*RADII),
    "fit_intercept": _boolean,
    "clip": _unless("auto", _unless(None, _clip)),
    "average": _one_of("auto", *AVERAGES),
    "row_norm": _unless("auto", _row_norm),
    "long_rows": _one_of(*LONG_ROWS),
    "passes": checks.whole,
    "budget": _unless(None, lambda name, value: checks.positive(name, value, 1e-6, 1e6)),
    "ledger": _unless(None, _ledger),
    "line_search": lambda name, value: checks.whole(name, value, least=0),
    "mechanism": _one_of(*MECHANISMS),
    "random_state": _unless(None, lambda name, value: checks.whole(name, value, least=0)),
}


def refuse_bad(settings: Mapping[str, Any]) -> None:
    """Refuse a setting that no rows could be used with."""
    for name, check in CHECKS.items():
        check(name, settings[name])


def refuse_unfit(loss: str, groups: Grouped, problems: int) -> None:
    """Refuse what cannot be done with these rows."""
    flips.refuse_unanchored(groups.noises, loss)
    if problems > 1 and groups.private.any():
        raise ValueError(
            f"y must have two classes where a source is private, got {problems}: one-vs-rest would release every "
            "row once a class, and no account for that is kept yet"
        )
