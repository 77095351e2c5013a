"""Before any ε is spent: what each private source would bring, and whether to use it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uneven.anchor.accuracy import expect_gain
from uneven.anchor.belief import Anchor
from uneven.anchor.classes import ClassAnchor, list_frames
from uneven.anchor.clock import Coordinates, compute_capped_excess, expected_excess
from uneven.anchor.ladder import WORTH, Information, Ladder, rank_sources
from uneven.anchor.objective import weigh_source
from uneven.intervals import find_wilson_interval
from uneven.noise import LocalPrivacy, Noise
from uneven.problem import Problem

Array = NDArray[np.float64]

STEPS = (1, 2, 5, 10, 20, 30, 50, 80, 120, 200, 300, 500, 800, 1200)
"""How many steps the sources of one noise may be split into, where it is drawn once per batch."""

MOST_GAINED = 0.75
"""Part of the loss of rows left out that private rows may take away in what is said of accuracy: where more is
expected, the stated noise does not fit the rows, or they are too few to tell."""

COMPUTED = 16
"""Steps of a ladder that an accuracy is computed for: of those between it is interpolated."""


@dataclass(frozen=True)
class Accuracy:
    """Expected share of correct classifications and its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Verdict:
    """Expected value of a private source together with all less useful ones, before ε is spent.

    Attributes
    ----------
    excess, excess_without : float
        Expected f(w) - f(w*) with all sources that are used, or with all where this one is not; and without this one
        and all that bring no more than it.
    accuracy, accuracy_without : Accuracy
    use : bool
        Whether the source is to be used: not where such sources bring nothing or harm together.
    others : int
        How many others bring no more than this one.
    """

    excess: float
    excess_without: float
    accuracy: Accuracy
    accuracy_without: Accuracy
    use: bool
    others: int = 0

    @property
    def word(self) -> str:
        """The verdict for a reader: "worth it", "little" or "no"."""
        if not self.use:
            return "no"
        return "worth it" if self.excess <= WORTH * self.excess_without else "little"


def measure_information(noise: Noise, rows: int, problem: Problem) -> Information:
    """Precision that rows of a private noise add at a given activity: rows·d/(second moment of a release).

    What is added once per batch is shared by its rows.
    """
    once = noise.batch_energy(problem) / problem.batch_size
    return lambda activity: rows * problem.n_features / (compute_release_energy(noise, problem, activity) + once)


def choose_batch_sizes(problem: Problem, coordinates: Coordinates, sources: Sequence[tuple[Noise, int]]) -> list[int]:
    """Batch size of each private source, given by its noise and rows.

    Where noise is drawn once per batch it is that of the least expected excess, with the rows of all sources of this
    noise: they step one after the other, and a batch is of one source.
    """
    together = Counter[Noise]()
    for noise, rows in sources:
        together[noise] += rows
    found = {noise: _choose_batch_size(problem, coordinates, noise, rows) for noise, rows in together.items()}
    return [min(rows, found[noise]) if _has_own_batches(noise, problem) else found[noise] for noise, rows in sources]


def _has_own_batches(noise: Noise, problem: Problem) -> bool:
    """Whether the batches of a source with this noise may have a size of their own."""
    return noise.once_a_batch and problem.own_batches


def _choose_batch_size(problem: Problem, coordinates: Coordinates, noise: Noise, rows: int) -> int:
    if not _has_own_batches(noise, problem):
        return problem.batch_size

    def excess(steps: int) -> float:
        precision = measure_information(noise, rows, replace(problem, batch_size=-(-rows // steps)))(
            coordinates.activity
        )
        return compute_capped_excess(coordinates, precision / steps, steps)

    return -(-rows // min((steps for steps in STEPS if steps <= rows), key=excess))


def compute_release_energy(noise: Noise, problem: Problem, activity: float) -> float:
    """Energy of one row's release where gradients are `activity` times the clip long on average."""
    share, square = noise.corrected_activity(min(max(activity, 0.0), 1.0)), noise.bound(problem) ** 2
    if noise.once_a_batch:
        return square * share  # no noise of its own, and E‖g‖² ≤ C²·activity
    if isinstance(how := noise.protection, LocalPrivacy) and how.by_direction:
        return square * how.calibration(problem.n_features).energy(share)
    return noise.row_energy(problem)


def weigh_public_row(noise: Noise, problem: Problem) -> float:
    """Weight of a public row, in exact rows."""
    return weigh_source(noise, replace(problem, clip=None))


def judge_sources(
    anchor: Anchor | ClassAnchor,
    sources: Mapping[str, Information],
    possible: tuple[Coordinates, ...] | None = None,
    used: Collection[str] | None = None,
) -> dict[str, Verdict]:
    """Verdict on each private source, taken together with all that bring no more than it.

    Parameters
    ----------
    anchor : Anchor or ClassAnchor
    sources : mapping of names to callables
        Clock τ that a source brings at a given activity: rows·d/energy(activity).
    possible : tuple of Coordinates or None
        To choose from; None for `list_frames` of the anchor.
    used : collection of names or None
        Those that are used; None for those whose verdict says so.

    Returns
    -------
    dict of names to Verdict
    """
    ladder = rank_sources(possible or list_frames(anchor), list(sources.values()), anchor.nothing)
    accuracies, excesses = _list_accuracies(anchor, ladder), ladder.excesses.tolist()
    places, advised = dict(zip(sources, ladder.places.tolist(), strict=True)), ladder.used.tolist()
    first = ladder.cut if used is None else min((places[name] for name in used), default=0)
    verdicts = {}
    for (name, place), use in zip(places.items(), advised, strict=True):
        with_it, without = first if place >= first else 0, place + 1
        others = int(np.sum(ladder.places <= place)) - 1
        verdicts[name] = Verdict(
            excesses[with_it], excesses[without], accuracies[with_it], accuracies[without], use, others
        )
    return verdicts


def judge_rows(anchor: Anchor | ClassAnchor, public: float, added: Mapping[str, float]) -> dict[str, Verdict]:
    """Verdict on sources that are learned together with the public rows, such as those of private labels.

    The covariance of an answer falls in proportion to the rows that it is from, counted by their worth. Such rows never
    harm: a source is taken together with all that bring no more than it, and is "worth it" or brings "little".

    Parameters
    ----------
    anchor : Anchor or ClassAnchor
        Of the public rows.
    public : float
        Their number, each counted by its worth.
    added : mapping of names to floats
        That of each source that is added.

    Returns
    -------
    dict of names to Verdict
    """
    start = min(expected_excess(list_frames(anchor)[0], 0.0), anchor.nothing)

    def expect_with(rows: float) -> tuple[float, Accuracy]:
        excess = start * public / (public + rows)
        return excess, _expect_fall(anchor, start, excess)

    (excess, accuracy), verdicts = expect_with(sum(added.values())), {}
    for name, rows in added.items():
        without, accuracy_without = expect_with(sum(one for one in added.values() if one > rows))
        others = sum(one <= rows for one in added.values()) - 1
        verdicts[name] = Verdict(excess, without, accuracy, accuracy_without, True, others)
    return verdicts


def _list_accuracies(anchor: Anchor | ClassAnchor, ladder: Ladder) -> list[Accuracy]:
    """Expected accuracy at each step; of many, between those that are computed, by the excess."""
    at = np.unique(np.linspace(0, len(ladder.excesses) - 1, COMPUTED).round().astype(np.int64))
    found = [expect_accuracy(anchor, ladder.frames[step], float(ladder.clocks[step])) for step in at]
    known = ladder.excesses[at]
    order = np.argsort(known, kind="stable")
    columns = [
        np.interp(ladder.excesses, known[order], np.array([getattr(one, end) for one in found])[order])
        for end in ("value", "low", "high")
    ]
    exact = dict(zip(at.tolist(), found, strict=True))
    between = np.array(columns).T.tolist()
    return [exact.get(step, Accuracy(*shares)) for step, shares in enumerate(between)]


def expect(
    anchor: Anchor | ClassAnchor, sources: list[Information], possible: tuple[Coordinates, ...] | None = None
) -> tuple[float, Accuracy]:
    """Expected excess, and accuracy, of the anchor with these private sources, in their best coordinates."""
    ladder = rank_sources(possible or list_frames(anchor), sources, anchor.nothing)
    return float(ladder.excesses[0]), expect_accuracy(anchor, ladder.frames[0], float(ladder.clocks[0]))


def expect_accuracy(anchor: Anchor | ClassAnchor, coordinates: Coordinates, clock: float) -> Accuracy:
    """Leave-one-out accuracy of the public rows plus the gain that private ones bring (`accuracy.expect_gain`).

    The log-loss of rows that are left out is expected to fall by as much as the excess, as far as that is likely. The
    interval is Wilson's for the leave-one-out accuracy, moved by the gain.
    """
    before, after = (min(expected_excess(coordinates, one), anchor.nothing) for one in (0.0, clock))
    return _expect_fall(anchor, before, after if clock else before)


def _expect_fall(anchor: Anchor | ClassAnchor, before: float, after: float) -> Accuracy:
    """Expected accuracy where the expected excess falls from that of the public rows alone."""
    (correct, n), loss = anchor.tested, anchor.log_loss
    less = anchor.likely * (before - after) / float(np.mean(anchor.counts))
    gain = expect_gain(anchor.shares, loss, max(loss - less, (1.0 - MOST_GAINED) * loss)) if less else 0.0
    moved = np.clip(np.add(find_wilson_interval(correct * n, n), gain), 0.0, 1.0)
    return Accuracy(*moved.tolist())
