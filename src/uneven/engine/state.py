"""State of a run between segments, and the task of a segment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.noise import Activity, LocalPrivacy, Moment, Noise, pool_activity
from uneven.problem import Problem
from uneven.schedules import AVERAGES, LateWindow, Schedule, refuse_late

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Average:
    """Which iterates the answer is made of: one of `AVERAGES`, and the share that the last one has beside them."""

    kind: str = "last"
    after: float = 0.0
    last_share: float = 0.0

    def __post_init__(self) -> None:
        checks.one_of("average", self.kind, AVERAGES)


def choose_average(kind: str, usual: str, window: LateWindow | None) -> Average:
    """Average that was asked for; ``"auto"`` is the plan's usual one, growing if it is late and the end is unknown."""
    checks.one_of("average", kind, ("auto", *AVERAGES))
    if kind == "auto":
        kind = "growing" if usual == "late" and window is None else usual
    if kind != "late":
        return Average(kind)
    refuse_late(kind, is_end_known=window is not None)
    assert window is not None
    return Average("late", *window)


@dataclass(frozen=True)
class Task:
    """What to do with the rows of one segment.

    Attributes
    ----------
    problem : Problem
    names, noises, moments : tuples
        The sources whose rows it has (several only if they are shuffled together), and γ² of each.
    schedule : Schedule
    average : Average
    estimate : bool
        Use the running mean of ‖G‖² as γ², starting from `moments`.
    penalty : array of shape (d, d), or (d,) for a diagonal, or None
        Matrix of the L2 term in the coordinates of a `MatrixClock`; None means αI.
    """

    problem: Problem
    names: tuple[str, ...]
    noises: tuple[Noise, ...]
    moments: tuple[Moment, ...]
    schedule: Schedule
    average: Average = Average()
    estimate: bool = False
    penalty: Array | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if labels := [noise for noise in self.noises if noise.observed is not noise]:
            raise ValueError(f"labels must be randomised before any step: use {labels[0]!r}.observed, got it itself")
        seen = tuple(noise.observed_among(self.problem.classes) for noise in self.noises)
        object.__setattr__(self, "noises", seen)  # an activity that was not stated depends on the number of classes
        private = any(noise.private for noise in self.noises)
        if private and self.problem.norms != "largest":
            raise ValueError(f"norms must be 'largest' where a source is private, got {self.problem.norms!r}")

    @property
    def mixed(self) -> bool:
        """Whether rows of several sources are shuffled together."""
        return len(self.noises) > 1


@dataclass(frozen=True)
class State:
    """Where a run stands: everything that its next step depends on, and nothing else.

    Attributes
    ----------
    weights : array of shape (d,)
    step : int
        Steps taken.
    clock : float
        τ = Σ 1/γ² over them.
    step_size : float
        Size η of the last one.
    average : array of shape (d,)
        Weighted mean of iterates so far, of total weight `average_weight`.
    last_share : float
        Share of the last iterate in the answer, beside the average.
    twin : array of shape (d,) or None
        The noise-free twin: same rows, same order, same step sizes, no added noise.
    estimates : mapping
        For each source with estimated moments: the sum of ‖G‖² and the number of steps it is over.
    silent, released : mappings
        For each source whose rows are released by direction: how many were silent, and how many were released in all.
    """

    weights: Array
    step: int = 0
    clock: float = 0.0
    step_size: float = 0.0
    average: Array = field(default_factory=lambda: np.zeros(0))
    average_weight: float = 0.0
    twin: Array | None = None
    estimates: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    silent: Mapping[str, int] = field(default_factory=dict)
    released: Mapping[str, int] = field(default_factory=dict)
    last_share: float = 0.0

    def __post_init__(self) -> None:
        if len(self.average) == 0:
            object.__setattr__(self, "average", np.zeros(len(self.weights)))
        for name in ("weights", "average", "twin"):
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, _read_only(values))
        for name in ("estimates", "silent", "released"):
            object.__setattr__(self, name, dict(getattr(self, name)))

    @property
    def answer(self) -> Array:
        """The average if there is one, with the last iterate's share in it; else the last iterate."""
        if self.average_weight == 0.0:
            return self.weights
        return self.average + self.last_share * (self.weights - self.average)

    def find_activity(self, noises: Mapping[str, Noise], owners: Iterable[str] | None = None) -> dict[str, Activity]:
        """Activity of each source as its silent rows tell it, beside what was planned; of those that can be silent.

        Several that are levels of one source, their owner, are one entry.
        """
        counts: dict[str, list[tuple[LocalPrivacy, int, int]]] = {}
        for (name, noise), owner in zip(noises.items(), noises if owners is None else owners, strict=True):
            if isinstance(how := noise.protection, LocalPrivacy) and name in self.released:
                counts.setdefault(owner, []).append((how, self.silent[name], self.released[name]))
        found = {owner: pool_activity(len(self.weights), of_owner) for owner, of_owner in counts.items()}
        return {owner: one for owner, one in found.items() if one is not None}


def _read_only(values: Array) -> Array:
    copy = np.array(values, dtype=np.float64)
    copy.setflags(write=False)
    return copy


def initial_state(n_features: int, twin: bool = False, start: Array | None = None) -> State:
    """State before the first step: w = 0, or where it is to start.

    >>> initial_state(2).weights.tolist()
    [0.0, 0.0]
    """
    weights = np.zeros(n_features) if start is None else start
    return State(weights, average=weights, twin=weights if twin else None)
