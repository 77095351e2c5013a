"""What rows are worth in: a bound that needs no data, or, with rows without privacy, the excess that they expect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Protocol

from uneven.anchor import (
    Anchor,
    ClassAnchor,
    Coordinates,
    Information,
    choose_batch_sizes,
    expected_excess,
    list_frames,
    measure_information,
    rank_sources,
    weigh_public_row,
)
from uneven.planner import THEOREM_D, Sizes, Source, get_strategy, make_plan, predict_excess
from uneven.problem import Problem

STEP = 0.01
"""Relative change of what is owned that the worth of one row is computed from."""


class Currency(Protocol):
    """What rows are worth, and what all rows together come to.

    Attributes
    ----------
    theorem : str or None
        What an expected excess rests on; None for a bound, which rests on the plan's theorem.
    of_anchored_fit : bool
        Whether it is the excess of an anchored fit, which leaves out private rows that do not help; rows with privacy
        and without are two goods to it.
    """

    theorem: ClassVar[str | None]
    of_anchored_fit: ClassVar[bool]

    def precision(self, source: Source) -> float:
        """Worth of one row."""

    def total(self, sources: Sequence[Source]) -> tuple[float, tuple[str, ...]]:
        """What is to be as small as possible, with these sources; and what to know of it."""

    @property
    def additive(self) -> bool:
        """Whether the total falls with the sum of all rows' worth, or nearly so."""


@dataclass(frozen=True)
class Bound:
    """A strategy's bound on E‖w - w*‖², or R² without rows; a row carries 1/(b·γ²), γ² of a full mini-batch."""

    theorem: ClassVar[str | None] = None
    of_anchored_fit: ClassVar[bool] = False
    problem: Problem
    moments: str
    strategy: str = "precision"

    def precision(self, source: Source) -> float:
        """1/(b·γ²); with variances that is 1/v."""
        gamma2 = source.noise.moment(self.moments, self.problem).at(self.problem.batch_size)
        return 1.0 / (self.problem.batch_size * gamma2)

    def total(self, sources: Sequence[Source]) -> tuple[float, tuple[str, ...]]:
        """The bound, and the plan's caveats."""
        if not sources:
            return self.problem.ball**2, ()
        plan = make_plan(sources, self.problem, self.strategy, self.moments)
        return min(plan.bound, self.problem.ball**2), tuple(plan.caveats)

    @property
    def additive(self) -> bool:
        """False for the paper's strategies, whose steps c/t do not weigh rows by their noise."""
        return not get_strategy(self.strategy).from_paper


@dataclass(frozen=True)
class Predicted:
    """The predicted excess, by which batch sizes of sites are chosen; a row carries 1/(b·γ²) at its source's own b."""

    theorem: ClassVar[str | None] = "prediction for typical objectives"
    of_anchored_fit: ClassVar[bool] = False
    problem: Problem
    moments: str
    sizes: Sizes

    def precision(self, source: Source) -> float:
        """1/(b·γ²), with the batch size of the plan for all sources."""
        size = self.sizes.get(source.name, self.problem.batch_size)
        return 1.0 / (size * source.noise.moment(self.moments, self.problem).at(size))

    def total(self, sources: Sequence[Source]) -> tuple[float, tuple[str, ...]]:
        """The predicted excess, of predicting nothing without rows."""
        plan = make_plan(sources, self.problem, moments=self.moments) if sources else None
        excess = predict_excess(self.problem, plan.segments if plan else ())
        assert excess is not None
        return excess, ()

    @property
    def additive(self) -> bool:
        """True."""
        return True


@dataclass(frozen=True)
class Expected:
    """The expected excess objective of an anchored fit (Theorem D): public rows shrink V₀, private ones move the clock.

    Attributes
    ----------
    problem : Problem
    anchor : Anchor
        Of the rows without privacy that are owned.
    owned : tuple of Source
        All that is owned, those rows among them.
    use_all : bool
        Whether private sources that are not expected to help are used all the same.
    """

    theorem: ClassVar[str | None] = THEOREM_D.name
    of_anchored_fit: ClassVar[bool] = True
    problem: Problem
    anchor: Anchor | ClassAnchor
    owned: tuple[Source, ...]
    use_all: bool = False

    @property
    def additive(self) -> bool:
        """False: rows with privacy and without are two goods."""
        return False

    @cached_property
    def _possible(self) -> tuple[Coordinates, ...]:
        return list_frames(self.anchor)

    @cached_property
    def _public(self) -> float:
        """Owned rows without privacy, in exact rows."""
        return sum(one.rows * weigh_public_row(one.noise, self.problem) for one in self.owned if not one.noise.private)

    def excess(self, sources: Sequence[Source], more: float = 0.0) -> float:
        """Expected excess with these sources and `more` exact rows."""
        private = self._list_information(sources)
        return self.problem.loss_unit * min(
            expected_excess(c, sum(one(c.activity) for one in private)) for c in self._list_frames(sources, more)
        )

    def _list_frames(self, sources: Sequence[Source], more: float = 0.0) -> tuple[Coordinates, ...]:
        """Coordinates at the start that the rows without privacy of these sources give, and `more` exact rows."""
        public = sum(one.rows * weigh_public_row(one.noise, self.problem) for one in sources if not one.noise.private)
        share = self._public / (public + more)
        return tuple(replace(c, covariance=c.covariance * share) for c in self._possible)

    def _list_information(self, sources: Sequence[Source]) -> list[Information]:
        """Clock that each private source brings, at its own batch size beside the others of its noise."""
        private = [one for one in sources if one.noise.private]
        known = [(one.noise, one.rows) for one in private]
        sizes = choose_batch_sizes(self.problem, self._possible[0], known)
        problems = [replace(self.problem, batch_size=size) for size in sizes]
        return [measure_information(*one, problem) for one, problem in zip(known, problems, strict=True)]

    def total(self, sources: Sequence[Source]) -> tuple[float, tuple[str, ...]]:
        """Expected excess; private sources that are not expected to help are left out, as a fit leaves them out."""
        if self.use_all:
            return self.excess(sources), ()
        private = [one for one in sources if one.noise.private]
        used = rank_sources(self._list_frames(sources), self._list_information(private)).used
        kept = [one for one, use in zip(private, used, strict=True) if use]
        return self.excess([*(one for one in sources if not one.noise.private), *kept]), ()

    def precision(self, source: Source) -> float:
        """What one row takes from the expected excess, beside what is owned: by a step of 1%."""
        now = self.excess(self.owned)
        if not source.noise.private:
            more = STEP * self._public
            return (now - self.excess(self.owned, more=more)) / more * weigh_public_row(source.noise, self.problem)
        rows = max(1, round(STEP * self._public))
        while (gain := now - self.excess([*self.owned, replace(source, rows=rows)])) <= 0 and rows < 10**12:
            rows *= 4  # a release so noisy that few rows change no digit
        return max(gain, 0.0) / rows
