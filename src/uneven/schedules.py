"""Step sizes as plain values, called with the step's number, its moment and the precision clock.

``schedule(t, moment, clock)`` gives η_t, where t counts steps from 1 over all sources, `moment` is γ_t² of this
step's mini-batch, and ``clock`` is τ_t = Σ_{s≤t} 1/γ_s², this step included. Arrays broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uneven import checks

AVERAGES = ("last", "late", "growing", "steps")
"""Which iterates the answer is made of.

last     the last one
late     w_{t+1} weighted by precision, over the steps with τ_t > `after`: the last quarter of the clock, whose end must
         be known. Under privacy, of a clock with an offset τ₀: from where the start has faded, τ_t > 2τ₀ at the latest;
         the last iterate is up to two thirds of the answer then (`find_late_window`)
growing  w_{t+1} weighted by precision times clock, p_t·τ_t: nearly the same, without knowing the end
steps    w_t weighted by step size (Theorem B)
"""


@dataclass(frozen=True)
class Rate:
    """η_t = c/t, the paper's.

    >>> Rate(1000.0)(step=4, moment=2.0, clock=1.0)
    250.0
    """

    rate: float

    def __call__(self, step: Any, moment: Any, clock: Any) -> Any:
        """Step size η_t."""
        return self.rate / step


@dataclass(frozen=True)
class Precision:
    """η_t = 1/(λγ_t²(τ₀ + τ_t)): the share of this step's precision in the clock, over λ.

    For equal noise and τ₀ = 0 it is the classical 1/(λt).

    >>> Precision(lam=0.5)(step=4, moment=2.0, clock=4 / 2.0)
    0.5
    """

    lam: float
    offset: float = 0.0

    def __call__(self, step: Any, moment: Any, clock: Any) -> Any:
        """Step size η_t."""
        return 1.0 / (self.lam * moment * (self.offset + clock))


@dataclass(frozen=True)
class Averaged:
    """η_t = a/γ_t², for the η-weighted average of the iterates (Theorem B).

    >>> Averaged(scale=3.0)(step=4, moment=2.0, clock=1.0)
    1.5
    """

    scale: float

    def __call__(self, step: Any, moment: Any, clock: Any) -> Any:
        """Step size η_t."""
        return self.scale / moment


@dataclass(frozen=True)
class Anytime:
    """η_t = R/(γ_t²√τ_t), of order 1/√t, for the η-weighted average at any time (`theory.anytime_bound`).

    >>> float(Anytime(radius=3.0)(step=4, moment=2.0, clock=4.0))
    0.75
    """

    radius: float

    def __call__(self, step: Any, moment: Any, clock: Any) -> Any:
        """Step size η_t."""
        return self.radius / (moment * np.sqrt(clock))


@dataclass(frozen=True)
class MatrixClock:
    """η_{t,j} = min(p_t·v_jh_j/(1 + v_jh_j²T_t), η_max), p_t = d/γ_t², T_t = d·τ_t: Theorem D, a step per coordinate.

    v is the variance of the start's error and h the curvature, in coordinates where both are diagonal. Called, it gives
    the mean step; `steps` has one per coordinate.

    >>> MatrixClock(variance=(1.0,), curvature=(0.5,), longest=9.0)(step=1, moment=0.25, clock=12.0)
    0.5
    """

    variance: tuple[float, ...]
    curvature: tuple[float, ...]
    longest: float

    def steps(self, moment: float, clock: float) -> NDArray[np.float64]:
        """Step size of each coordinate."""
        v, h = np.array(self.variance), np.array(self.curvature)
        return np.asarray(np.minimum(len(v) / moment * v * h / (1.0 + v * h**2 * len(v) * clock), self.longest))

    def __call__(self, step: Any, moment: Any, clock: Any) -> Any:
        """Mean step size."""
        if np.ndim(moment) == 0:
            return float(self.steps(moment, clock).mean())
        return np.array([self.steps(m, c).mean() for m, c in zip(moment, clock, strict=True)])


Schedule = Rate | Precision | Averaged | Anytime | MatrixClock

FARTHEST = 1e12
"""Largest weight in the coordinates of a matrix clock, which has no ball. Privacy rests on it: with weights that
overflow, a gradient is NaN for some rows and not for others, and a mechanism passes that on."""

LATE = 0.25
"""Part of the clock that the "late" average is over, without privacy or without an offset."""

SETTLED = 2.0
"""The "late" average of a clock with an offset is over the steps after so many times that offset. There the clock with
its offset has tripled, so that the start counts for a third at most, in every direction."""

LAST_SHARE = 2.0 / 3.0
"""Largest share of the last iterate in the "late" average of a clock with an offset; the rest is the average's.

Where a quadratic curves κλ, weights 1/κ and 1 - 1/κ of the last iterate and of the average over the whole clock give
the Kalman filter's answer, the best there is (`docs/theory.md`). Losses curve λ in some directions and a few times that
in most others: 2/3 is exact for κ = 1.5, and has at most 12% more variance than the best for κ from 1 to 2.5."""

TYPICAL = 1.0 / 16.0
"""Typical curvature of a direction, as a share of L/d, the most that it can be on average."""


class LateWindow(NamedTuple):
    """The "late" average: of the steps after this clock, beside a share of the last iterate."""

    after: float
    last_share: float


def find_late_window(
    end: float, offset: float, private: bool, smoothness: float, alpha: float, dimension: int
) -> LateWindow:
    """Steps that the "late" average is over, for a clock that ends at `end`.

    Without an offset, or without privacy, it is the last part `LATE` of the clock. The noise of private releases is the
    same in all directions, which leaves most of it where the loss hardly curves: there the last iterate is better. It
    has the share 1/κ, κ = L/(16λd) and at least 3/2, and the average begins where the start, which fades like
    (τ₀/(τ₀ + τ))^κ, counts a third; for κ = 3/2 at `SETTLED`, as if κ were 1. Without privacy a gradient's noise is
    small where the loss hardly curves.

    >>> find_late_window(1000.0, 10.0, True, 0.25, 1e-3, 54)
    LateWindow(after=20.0, last_share=0.6666666666666666)
    >>> find_late_window(1000.0, 10.0, False, 0.25, 1e-3, 54)
    LateWindow(after=750.0, last_share=0.0)
    """
    if offset == 0.0 or not private:
        return LateWindow(end * (1.0 - LATE), 0.0)
    share = min(LAST_SHARE, alpha * dimension / (TYPICAL * smoothness))
    return LateWindow(offset * ((1.0 + SETTLED) ** (share / LAST_SHARE) - 1.0), share)


def refuse_late(average: str, is_end_known: bool) -> None:
    """Refuse the "late" average of a clock whose end is not known beforehand."""
    if average == "late" and not is_end_known:
        raise ValueError("average must be 'growing' where the clock's end is unknown; got 'late'")


LATE_AVERAGE = "the average of late iterates"
"""The "late" average in words."""


def schedule_to_dict(schedule: Schedule) -> dict[str, Any]:
    """Plain values that say which schedule it is.

    >>> schedule_to_dict(Rate(2.0))
    {'kind': 'rate', 'rate': 2.0}
    """
    return {"kind": type(schedule).__name__.lower(), **asdict(schedule)}


def schedule_from_dict(values: Mapping[str, Any]) -> Schedule:
    """Schedule that `schedule_to_dict` described.

    >>> schedule_from_dict({"kind": "rate", "rate": 2.0})
    Rate(rate=2.0)
    """
    kinds: dict[str, type[Schedule]] = {
        one.__name__.lower(): one for one in (Rate, Precision, Averaged, Anytime, MatrixClock)
    }
    if not isinstance(values, Mapping):
        raise ValueError(f"schedule must be a mapping, got {checks.shown(values)}")
    kind = kinds[checks.one_of("kind of schedule", values.get("kind"), kinds)]
    checks.only_keys("schedule", values, ("kind", *kind.__dataclass_fields__))
    given: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, list | tuple):
            given[key] = tuple(checks.not_negative(key, one) for one in value)
        elif key != "kind":
            given[key] = checks.not_negative(f"{key} of schedule", value, 1e18)
    return kind(**given)
