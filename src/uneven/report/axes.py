"""Axes of pictures: where values are, and the round numbers beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Axis:
    """One direction of a picture: what it shows, from where to where, and whether in logarithms."""

    label: str
    low: float
    high: float
    log: bool = False
    percent: bool = False

    def place(self, values: ArrayLike) -> Array:
        """Where values are between the two ends, from 0 to 1."""
        a = np.asarray(values, dtype=np.float64)
        if self.log:
            return np.asarray(np.log(a / self.low) / math.log(self.high / self.low))
        return np.asarray((a - self.low) / (self.high - self.low))

    def ticks(self) -> list[float]:
        """Round values in between."""
        return _log_ticks(self.low, self.high) if self.log else _ticks(self.low, self.high)

    def list_ticks(self) -> list[tuple[float, str]]:
        """The same with their texts."""
        return [(tick, f"{100 * tick:.4g}%" if self.percent else tick_text(tick)) for tick in self.ticks()]


def choose_axis(label: str, values: ArrayLike, log: bool = False, percent: bool = False) -> Axis:
    """Axis that has room for these values; `percent` is how shares are written.

    >>> choose_axis("step", [1, 10], log=True).place([1, 10]).round(2).tolist()
    [0.05, 0.95]
    """
    a = np.asarray(values, dtype=np.float64)
    a = a[np.isfinite(a) & ((a > 0) | (not log))]
    low, high = (float(a.min()), float(a.max())) if len(a) else (1.0, 2.0)
    if high - low <= 1e-9 * abs(high):
        low, high = (low * 0.8, high * 1.25) if log else (low - 0.5, high + 0.5)
    if log:
        margin = (high / low) ** (0.05 / 0.9)
        return Axis(label, low / margin, high * margin, True)
    margin = (high - low) * 0.05 / 0.9
    return Axis(label, low - margin, high + margin, percent=percent)


def _ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1, 2, 2.5, 5, 10) if unit * m >= rough)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for multiples in ((1,), (1, 3), (1, 2, 5), tuple(range(1, 10))):
        found = [m * 10.0**k for k in decades for m in multiples if low <= m * 10.0**k <= high]
        if len(found) >= 4:
            return found[:: math.ceil(len(found) / 6)]
    return _ticks(low, high)  # so short a stretch is as good as linear


def tick_text(value: float) -> str:
    """Number on an axis.

    >>> [tick_text(x) for x in (0, 1200, 0.05, 3e-7, 2e6)]
    ['0', '1,200', '0.05', '3e-07', '2e+06']
    """
    value = 0.0 if abs(value) < 1e-300 else value
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.6g}"
