"""`audit`: look on some draws, test on others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from uneven import checks
from uneven.audit.drawing import (
    DRAWN_BY,
    Draw,
    Releases,
    draw_by_batches,
    draw_by_engine_batches,
    draw_by_engine_in_all_ways,
    draw_by_release,
    split_total,
)
from uneven.audit.events import DIGITS, Event, bound_log_ratio, find_best_event, list_statistics
from uneven.audit.pairs import SPLITS, Array, Pair, Split, list_neighbouring_batches, list_pairs
from uneven.engine import check_seed, make_generator
from uneven.noise import Noise
from uneven.problem import Problem

LEAST_DRAWS = 1_000

BRIEFLY = ("opposite", "one and nothing")
"""Pairs that are tried in every way of drawing: each more takes draws from the others."""


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes
    ----------
    mechanism : str
    drawn_by : {"release", "engine", "measure"}
    n_features : int
    clip : float
        Norm C that gradients are bounded by.
    epsilon : float
        As stated.
    bound : float
        Lower bound on the true ε, at that confidence; 0 if nothing could be told apart.
    confidence : float
    draws : int
        Releases drawn in all: half of them to choose the pair and the event, half to test them.
    pair, event : str
        The inputs and the event that were chosen.
    seconds : float
    """

    mechanism: str
    drawn_by: str
    n_features: int
    clip: float
    epsilon: float
    bound: float
    confidence: float
    draws: int
    pair: str
    event: str
    seconds: float

    @property
    def share(self) -> float:
        """Share of the stated ε that could be shown."""
        return self.bound / self.epsilon

    @property
    def violated(self) -> bool:
        """Whether the release is less private than stated, up to the confidence."""
        return self.bound > self.epsilon

    @property
    def verdict(self) -> str:
        """``"VIOLATION"``, or ``"no flaw found"``: an audit never proves privacy."""
        return "VIOLATION" if self.violated else "no flaw found"

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold."""
        return {**vars(self), "share": self.share, "verdict": self.verdict}


def audit(
    noise: Releases,
    n_features: int,
    *,
    clip: float | None = None,
    draws: int = 1_000_000,
    confidence: float = 0.99,
    drawn_by: str = "release",
    splits: Sequence[Split] = SPLITS,
    seed: int | None = None,
) -> Audit:
    """Lower bound on ε from releases alone: log(p̲/q̄) for the event that tells two inputs apart best.

    For an ε-private release, any two inputs and any event A: P(A | one) ≤ e^ε·P(A | other). Half of the draws choose
    the inputs and the event, among several of each; the other half, fresh ones, count how often it happens. So the
    choice costs no confidence, however many were tried.

    Parameters
    ----------
    noise : Noise, or any object with ``epsilon_per_row`` and ``release(gradients, bound, rng)``
        Rows of one call are taken to be released independently.
    n_features : int
    clip : float or None
        Norm that gradients are bounded by; 1 if None.
    draws : int
        Releases to draw in all.
    confidence : float
        The bound exceeds the true ε with probability 1 - confidence at most.
    drawn_by : {"release", "engine", "measure"}
        Audit the noise's own `release`, the compiled step that `uneven.fit` takes, or the compiled measurement that an
        anchor and a site's answers are made with. Noise that is drawn once per batch is audited by the sums of batches,
        of data sets that differ in one row.
    splits : sequence of callable
        For such noise: how rows are split into batches, given their labels; the engine's own ways.
    seed : int or None
        None draws as a private run does, from the operating system's randomness.

    Returns
    -------
    Audit

    Examples
    --------
    >>> import uneven
    >>> found = audit(uneven.LocalPrivacy(2.0, "l2-laplace"), n_features=1, draws=200_000, seed=0)
    >>> found.verdict, 0.95 < found.share <= 1
    ('no flaw found', True)
    """
    began = time.perf_counter()
    epsilon = _checked_epsilon(noise)
    checks.whole("draws", draws, least=LEAST_DRAWS)
    checks.within("confidence", confidence, 0.5, 1.0)
    problem = Problem(n_features, alpha=1e-3, batch_size=1, clip=clip)
    rng = make_generator(check_seed(seed), 0, "audit", "noise")
    once = bool(getattr(noise, "once_a_batch", False))
    pairs = list_neighbouring_batches(problem.n_features, splits) if once else list_pairs(problem.n_features)
    ways = _list_ways(noise, problem, drawn_by, once)
    bound, pair, event = _look_and_test(ways, pairs, draws, confidence, rng)
    return Audit(
        mechanism=str(getattr(noise, "mechanism", getattr(noise, "kind", type(noise).__name__))),
        drawn_by=drawn_by,
        n_features=problem.n_features,
        clip=problem.gradient_norm,
        epsilon=epsilon,
        bound=max(bound, 0.0),
        confidence=confidence,
        draws=draws,
        pair=pair,
        event=str(event),
        seconds=time.perf_counter() - began,
    )


def _checked_epsilon(noise: Releases) -> float:
    epsilon = getattr(noise, "epsilon_per_row", None)
    if epsilon is None or not callable(getattr(noise, "release", None)):
        raise ValueError(
            f"noise must be private, such as uneven.LocalPrivacy(1.0), to be audited; {checks.shown(noise)} states no "
            "epsilon per row"
        )
    return checks.positive("epsilon_per_row of the noise", epsilon)


def _list_ways(noise: Releases, problem: Problem, drawn_by: str, once: bool) -> dict[str, Draw]:
    """How releases are drawn: of rows, or of batches where noise is drawn once per batch; each way with its words."""
    if checks.one_of("drawn_by", drawn_by, DRAWN_BY) == "release":
        return {"": draw_by_batches(noise, problem) if once else draw_by_release(noise, problem)}  # type: ignore[arg-type]
    ways: dict[str, Draw] | None = None
    if isinstance(noise, Noise):
        drawing = draw_by_engine_batches if once else draw_by_engine_in_all_ways
        ways = drawing(noise, problem, drawn_by)
    if ways is None:
        raise ValueError(f"drawn_by must be 'release' for {checks.shown(noise)}, which has no compiled form")
    return ways


def _look_and_test(
    ways: Mapping[str, Draw], pairs: Sequence[Pair], draws: int, confidence: float, rng: np.random.Generator
) -> tuple[float, str, Event]:
    """Choose the way, the pair and the event on one half of the draws, count it on the other.

    All pairs are tried in the first way, and those of `BRIEFLY` in the others.
    """
    half, d = draws // 2, len(pairs[0].one)
    tried = [(words, pair) for words in ways for pair in pairs if words == "" or pair.words in BRIEFLY]
    each, tested = max(1, half // (2 * len(tried))), half // 2
    looks = [(*_look(ways[words], pair, each, tested, confidence, rng), words, pair) for words, pair in tried]
    _, event, words, pair = max(looks, key=lambda look: look[0])
    draw = ways[words]
    statistic = {event.statistic: list_statistics(pair)[event.statistic]}

    def count(v: Array) -> int:
        measured = (_measured(draw, v, n, statistic, rng)[event.statistic] for n in split_total(tested, d))
        return sum(int(event.holds(values).sum()) for values in measured)

    hits, others = (count(v) for v in ((pair.other, pair.one) if event.swapped else (pair.one, pair.other)))
    return float(bound_log_ratio(hits, others, tested, confidence)), pair.words + words, event


def _look(
    draw: Draw, pair: Pair, each: int, tested: int, confidence: float, rng: np.random.Generator
) -> tuple[float, Event]:
    """Most promising event for one pair."""
    asked = list_statistics(pair)
    one, other = (_gathered(draw, v, each, asked, rng) for v in (pair.one, pair.other))
    return max(
        (find_best_event(name, one[name], other[name], tested, confidence) for name in asked), key=lambda it: it[0]
    )


def _gathered(
    draw: Draw, v: Array, count: int, asked: dict[str, Callable[[Array], Array]], rng: np.random.Generator
) -> dict[str, Array]:
    parts = [_measured(draw, v, n, asked, rng) for n in split_total(count, len(v))]
    return {name: np.concatenate([part[name] for part in parts]) for name in asked}


def _measured(
    draw: Draw, v: Array, count: int, asked: dict[str, Callable[[Array], Array]], rng: np.random.Generator
) -> dict[str, Array]:
    released = draw(v, count, rng)
    return {name: np.round(statistic(released), DIGITS) for name, statistic in asked.items()}
