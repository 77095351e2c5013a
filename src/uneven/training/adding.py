"""Add one private source to what public rows say, wherever its rows are: all it needs of those is their summary.

Sources that disagree have optima of their own. Those that agree with one another are a camp, the first of which is that
of the public rows. A source is compared with that first camp and, where it disagrees, with the largest of the others:
it joins the one that it agrees with, or begins its own. No camp moves another, so the order of the sources decides
nothing; the answer is that of all camps, by rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.anchor import (
    LOST_SHARE,
    MEASURED_SHARE,
    TOLD_SHARE,
    UNMEASURED,
    Coordinates,
    Disagreement,
    Share,
    Summary,
    change_basis,
    choose_coordinates,
    compute_error_covariances,
    compute_release_energy,
    doubt_curvature,
    estimate_share,
    measure_information,
    react,
    start_from_share,
    turn_rows,
)
from uneven.engine import (
    NO_GROUP,
    Chunk,
    State,
    Task,
    check_rows,
    checked_chunk,
    iterate_chunks,
    make_generator,
    measure_gradient,
)
from uneven.engine import compiled_advance as advance
from uneven.noise import Noise
from uneven.planner import list_gradients, make_asked
from uneven.problem import Problem
from uneven.schedules import MatrixClock
from uneven.training import shares
from uneven.training.job import Tick

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Camp:
    """A cluster of sources whose optima agree: their joint estimate and number of rows."""

    summary: Summary
    rows: int


def choose_rivals(camps: Sequence[Camp]) -> list[int]:
    """Places of the camps that a source is compared with: the first, and the largest of the others."""
    return [0, *sorted(range(1, len(camps)), key=lambda place: -camps[place].rows)[:1]]


def join(camps: Sequence[Camp], place: int, joined: Camp) -> list[Camp]:
    """Camps after a source with so many rows has moved the one at this place, or has begun one of its own."""
    before = camps[place].rows if place < len(camps) else 0
    return [*camps[:place], replace(joined, rows=before + joined.rows), *camps[place + 1 :]]


def mix(camps: Sequence[Camp]) -> Summary:
    """What all camps say: the optimum of all rows is the mean of theirs, by rows, to second order."""
    total = sum(camp.rows for camp in camps)
    parts = [(camp.rows / total, camp.summary) for camp in camps]
    weights = np.sum([share * one.weights for share, one in parts], axis=0)
    return parts[0][1].moved(weights, np.sum([share**2 * one.covariance for share, one in parts], axis=0))


@dataclass(frozen=True)
class Addition:
    """What a source has brought.

    Attributes
    ----------
    place : int
        Of the summary that it agreed with; the number of summaries if it agreed with none.
    summary : Summary
        That one, moved.
    disagreement : Disagreement
        How it agreed with the first.
    state : State
    share : Share or None
        Of the class that no public row is of, where the source's rows told it.
    """

    place: int
    summary: Summary
    disagreement: Disagreement
    state: State
    share: Share | None = None


@dataclass(frozen=True)
class PrivateSource:
    """One private source: its noise, the problem of the rows as scaled, and its rows."""

    name: str
    noise: Noise
    problem: Problem
    rows: int

    def add(
        self, rivals: Sequence[Summary], state: State, data: Any, seed: int | None, tick: Tick = lambda _: None
    ) -> Addition:
        """Measure with the first rows, then step through the rest.

        Parameters
        ----------
        rivals : sequence of Summary
            The anchor, and what others say that disagree with it.
        state : State
            Its counts go on.
        data : (X, y) or Stream
        seed : int or None
        tick : callable
            Told how many rows were used since the last time.
        """
        problem, anchor = self.problem, rivals[0]
        rng, order = (make_generator(seed, 0, self.name, what) for what in ("noise", "order"))
        tells, measures = anchor.one_class is not None, MEASURED_SHARE if anchor.takes_long_step else LOST_SHARE
        wanted = (TOLD_SHARE if tells else measures) * self.rows
        rows, share = check_rows(self.name, data, problem.columns, problem.classes), None
        coming = iterate_chunks((self.name,), [rows], problem, order, max(1, int(wanted) // problem.batch_size))
        if wanted < problem.batch_size:  # of few rows, few measure, and noise once per batch leaves the others
            wanted = int(wanted)
            coming = _cut_first(coming, wanted, len(rivals))
        if tells:
            anchor, share, measured = self._ask_share(anchor, coming, wanted, seed, tick)
            coordinates, disagreement = anchor.plain, UNMEASURED
        else:
            coordinates, disagreement, measured, state = self._look(anchor, state, coming, wanted, rng, tick)
        place = len(rivals) if disagreement.matters else 0
        for other in range(1, len(rivals) if disagreement.matters and measured <= 2 * wanted else 0):
            joined, found, more, state = self._look(rivals[other], state, coming, wanted, rng, tick)
            measured += more
            if not found.matters:
                place, coordinates = other, joined
                break
        left = measure_information(self.noise, self.rows - measured, problem)
        agrees = place < len(rivals)
        if agrees:
            moved = anchor.moved(coordinates.weights(coordinates.start), *find_covariances(coordinates, 0.0))
            coordinates = choose_coordinates(moved.possible, left)
        if not (agrees and anchor.knows_curvature):
            coordinates = doubt_curvature(coordinates, left(coordinates.activity))
        task = self._task(coordinates)
        state = replace(state, weights=coordinates.start, clock=0.0)
        for chunk in coming:
            state = self._advance(state, task, chunk, coordinates, rng)
            tick(len(chunk.y))
        clock = left(coordinates.activity)
        after = anchor.moved(coordinates.weights(state.weights), *find_covariances(coordinates, clock))
        return Addition(place, after, disagreement, state, share)

    def _ask_share(
        self, anchor: Summary, coming: Iterator[Chunk], wanted: float, seed: int | None, tick: Tick
    ) -> tuple[Summary, Share | None, int]:
        """Start where the first rows' classes, told privately, put the share of the class that no public row is of."""
        labels, measured = [], 0
        while measured < wanted and (chunk := next(coming, None)) is not None:
            labels.append(chunk.y.copy())
            measured += len(chunk.y)
            tick(len(chunk.y))
        if not measured:
            return anchor, None, 0
        y = np.concatenate(labels)
        asked = make_asked(self.name, self.noise, self.problem, measured)
        rows = shares.describe_constant(y[:, None]), y
        told = shares.ask_source(shares.start_heard(self.problem), asked, rows, self.problem, seed).told
        ends = list_gradients(self.problem)[:, 0]
        assert anchor.one_class is not None
        missing, seen = ends if anchor.one_class.positive else ends[::-1]
        share, variance = (told.gradient[0] - seen) / (missing - seen), told.variance / (missing - seen) ** 2
        found = estimate_share(anchor.one_class.rows, float(share), float(variance))
        return start_from_share(anchor, found, self.problem.class_weights), found, measured

    def _look(
        self,
        anchor: Summary,
        state: State,
        coming: Iterator[Chunk],
        wanted: float,
        rng: np.random.Generator,
        tick: Tick,
    ) -> tuple[Coordinates, Disagreement, int, State]:
        """Measure the source with about as many rows as wanted: where to go on from, and how many rows were used."""
        coordinates, total, measured = anchor.plain, np.zeros(self.problem.n_features), 0
        state = replace(state, weights=coordinates.start)
        while measured < wanted and (chunk := next(coming, None)) is not None:
            found, state = self._measure(state, self._task(coordinates), chunk, coordinates, rng)
            total, measured = total + found, measured + len(chunk.y)
            tick(len(chunk.y))
        if not measured:
            return coordinates, UNMEASURED, 0, state
        gradient = total / measured + coordinates.gradient_of_penalty(coordinates.start)
        together = replace(self.problem, batch_size=min(measured, self.problem.batch_size))
        clock = measure_information(self.noise, measured, together)(coordinates.activity)
        return *react(coordinates, gradient, clock, anchor.takes_long_step), measured, state

    def _measure(
        self, state: State, task: Task, chunk: Chunk, coordinates: Coordinates, rng: np.random.Generator
    ) -> tuple[Array, State]:
        """Sum of the rows' gradients as released, in the coordinates; the state's weights stay.

        Of more than two classes rows stay as they are, but for their length; what was released is turned: noise is
        isotropic, so it is that of the coordinates.
        """
        if self.problem.outputs == 1:
            return measure_gradient(state, task, _turned(chunk, coordinates.transform, self.name), rng)
        factor = float(np.linalg.norm(coordinates.transform[0]))
        there = replace(state, weights=coordinates.weights(state.weights) / factor)
        rows = _turned(chunk, factor * np.eye(chunk.X.shape[1]), self.name, self.problem.classes)
        found, after = measure_gradient(there, task, rows, rng)
        return coordinates.transform @ found / factor, replace(after, weights=state.weights)

    def _advance(
        self, state: State, task: Task, chunk: Chunk, coordinates: Coordinates, rng: np.random.Generator
    ) -> State:
        """Steps of Theorem D through the chunk's rows."""
        if self.problem.outputs == 1:
            return advance(state, task, _turned(chunk, coordinates.transform, self.name), rng)
        size, schedule = self.problem.batch_size, task.schedule
        assert isinstance(schedule, MatrixClock)
        for start in range(0, len(chunk.y), size):
            rows = slice(start, start + size)
            batch = Chunk(chunk.X[rows], chunk.y[rows], NO_GROUP, chunk.squares[rows])
            found, state = self._measure(state, task, batch, coordinates, rng)
            moment, u = task.moments[0].at(len(batch.y)), state.weights
            clock = state.clock + 1.0 / moment
            gradient = found / len(batch.y) + coordinates.gradient_of_penalty(u)
            moved = u - schedule.steps(moment, clock) * gradient
            state = replace(state, weights=moved, clock=clock, step=state.step + 1)
        return state

    def _task(self, coordinates: Coordinates) -> Task:
        problem = replace(self.problem, clip=coordinates.clip)
        energy = compute_release_energy(self.noise, problem, coordinates.activity)
        moment = replace(self.noise.moment("variance", problem), per_row=energy)
        clock = MatrixClock(
            tuple(coordinates.variance.tolist()), tuple(coordinates.curvature.tolist()), coordinates.longest_step
        )
        return Task(problem, (self.name,), (self.noise,), (moment,), clock, penalty=coordinates.penalty)


def _cut_first(chunks: Iterator[Chunk], rows: int, times: int) -> Iterator[Chunk]:
    """Chunks, the first of them in parts: so many rows, so many times, and the rest."""
    first = next(chunks)
    ends = [rows * k for k in range(times + 1)]
    for part in (*map(slice, ends[:-1], ends[1:]), slice(ends[-1], None)):
        cut = Chunk(first.X[part], first.y[part], first.group, first.squares[part])
        if len(cut.y):
            yield cut
    yield from chunks


def _turned(chunk: Chunk, transform: Array, name: str, classes: int = 2) -> Chunk:
    """The chunk's rows in the coordinates; a longer row does no harm there: its gradient is capped by its true norm."""
    Z = turn_rows(chunk.X, transform.astype(chunk.X.dtype))
    longest = float(np.finfo(np.float64).max)
    return checked_chunk((name,), Z, chunk.y, np.arange(len(chunk.y)), limit=longest, classes=classes)


def find_covariances(coordinates: Coordinates, clock: float) -> tuple[Array, Array | None]:
    """Covariance of the weights' error at a clock, and what it is from the unlimited one of the start."""
    found, unlimited = compute_error_covariances(coordinates, clock)
    T = coordinates.transform.T
    return change_basis(T, found), None if unlimited is None else change_basis(T, unlimited)
