"""Public rows as the anchor of private ones: what they say, what each private source would add, and adding it.

Stage one reads rows without privacy to convergence: the start, its uncertainty and the curvature. A verdict on each
private source follows before any ε is spent. Stage two uses the private sources one after the other: the first rows of
each measure whether it agrees with the anchor, the rest move the weights by the matrix clock of Theorem D.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.anchor import (
    MOST_CLASS_ROWS,
    Anchor,
    ClassAnchor,
    Coordinates,
    Disagreement,
    Information,
    PublicRows,
    Summary,
    Verdict,
    choose_batch_sizes,
    choose_coordinates,
    expected_excess,
    fit_anchor,
    fit_class_anchor,
    judge_sources,
    limit_steps,
    list_frames,
    measure_information,
    solve,
    summarize,
    take_diagonal,
    weigh_public_row,
)
from uneven.engine import State
from uneven.noise import Exact, FlippedLabels, Noise, swap_promise
from uneven.planner import OtherPromise
from uneven.problem import Problem
from uneven.training.adding import Camp, PrivateSource, choose_rivals, find_covariances, join, mix
from uneven.training.convergence import find_carried_share, free_intercept, list_public_rows, scale_alpha, solve_public
from uneven.training.job import Job

Array = NDArray[np.float64]

LEAST_SAMPLE, ROWS_PER_FEATURE, LARGEST_SAMPLE = 5_000, 50, 20_000
"""Public rows that the uncertainty is computed from, within these bounds so many per column; of more, a sample."""

MOST_FEATURES, FEW_ROWS, MOST_CELLS = 1_000, 2_000, 20_000_000
"""Columns up to which the clock has a matrix; with more it has the diagonal, and its uncertainty is computed from at
most so many public rows, and so many values in them."""

INTERCEPT = 0.01
"""Factor of alpha for the intercept: next to free, but not without a best value where the public rows are of one class.
"""


def weigh_penalty(problem: Problem, intercept: bool) -> Array:
    """Factors of the L2 term of an anchor: next to none for the intercept's feature."""
    return np.maximum(free_intercept(problem, intercept), INTERCEPT)


@dataclass(frozen=True)
class Anchoring:
    """What the public rows say, and what that means for the private sources.

    Attributes
    ----------
    anchor : Anchor or ClassAnchor
    possible : tuple of Coordinates
        That private rows may be released in, those of rows as they are first.
    converged : tuple of str
        Sources without privacy, learned to convergence.
    verdicts : dict of str to Verdict
        What each private source would bring.
    order : tuple of str
        Private sources to use, the cleanest first.
    left_out : tuple of str
        Private sources that are not expected to help.
    sizes : dict of str to int
        Batch sizes of sources whose noise is drawn once per batch.
    """

    anchor: Anchor | ClassAnchor
    possible: tuple[Coordinates, ...]
    converged: tuple[str, ...]
    verdicts: Mapping[str, Verdict]
    order: tuple[str, ...]
    left_out: tuple[str, ...]
    sizes: Mapping[str, int]


def prepare_anchor(job: Job, target: Any, anchor: Anchor | ClassAnchor | None = None) -> Anchoring:
    """Learn the anchor, unless it is given, and judge the private sources, before anything is charged."""
    groups = job.groups
    converged = tuple(name for name, noise in groups.noises.items() if not noise.private)
    anchor = fit_public(job, converged, target) if anchor is None else anchor
    possible = list_frames(anchor)
    private = [name for name, noise in groups.noises.items() if noise.private]
    sources = [(groups.noises[name], groups.row_counts[name]) for name in private]
    sizes = dict(zip(private, choose_batch_sizes(job.problem, possible[0], sources), strict=True))
    everything = private if job.settings.use == "all" else None
    verdicts = judge_sources(anchor, _list_information(job, sizes, private), possible, everything)
    used = [name for name in private if verdicts[name].use or job.settings.use == "all"]
    rows = _list_information(job, sizes, used, rows=1)
    used.sort(key=lambda name: -rows[name](1.0))
    left_out = tuple(name for name in private if name not in used)
    return Anchoring(anchor, possible, converged, verdicts, tuple(used), left_out, sizes)


def settle(job: Job, target: Any, anchor: Anchor | ClassAnchor | None = None) -> tuple[Job, Anchoring]:
    """What is decided of the private sources, and the job with alpha for the rows in use, where it was chosen.

    An anchor that is given stays as it is. With every private source left out, the answer is that of the public rows
    alone, or of one class the shares of the classes.
    """
    prepared = prepare_anchor(job, target, anchor)
    if not prepared.left_out or anchor is not None:
        return job, prepared
    names = prepared.converged
    if job.chosen is not None:
        job = scale_alpha(job, names, (*names, *prepared.order))
    if not prepared.order:  # nothing is added to them: what is expected of them was said by the verdicts
        if (alone := prepared.anchor.alone) is not None:
            return job, _judge_again(job, replace(prepared, anchor=alone, possible=list_frames(alone)))
        found = prepared.anchor.moved(solve_public(job, names, target).weights, prepared.anchor.covariance)
        plain = prepared.possible[0].moved(found.weights, found.covariance)
        return job, replace(prepared, anchor=found, possible=(plain,))
    if job.chosen is None:
        return job, prepared
    found = fit_public(job, names, target)
    return job, _judge_again(job, replace(prepared, anchor=found, possible=list_frames(found)))


def _judge_again(job: Job, prepared: Anchoring) -> Anchoring:
    """The same with the verdicts' figures for another alpha; what is used stays as it was decided."""
    information = _list_information(job, prepared.sizes, prepared.verdicts)
    again = judge_sources(prepared.anchor, information, prepared.possible, prepared.order)
    verdicts = {name: replace(again[name], use=one.use, others=one.others) for name, one in prepared.verdicts.items()}
    return replace(prepared, verdicts=verdicts)


def _list_information(
    job: Job, sizes: Mapping[str, int], names: Iterable[str], rows: int | None = None
) -> dict[str, Information]:
    """Clock that all rows of each of these private sources bring, or so many, at its batch size."""
    counts, problem = job.groups.row_counts, job.problem
    noises, problems = job.groups.noises, {size: replace(problem, batch_size=size) for size in set(sizes.values())}
    return {
        name: measure_information(noises[name], counts[name] if rows is None else rows, problems[sizes[name]])
        for name in names
    }


def fit_public(job: Job, names: Sequence[str], target: Any) -> Anchor | ClassAnchor:
    """Anchor of the public rows: exactly where they are few and exact, else from a sample and the answer of all."""
    sources = list_public_rows(job, names, target)
    count = sum(source.count for source in sources)
    d = job.problem.n_features
    most = int(np.clip(ROWS_PER_FEATURE * d, LEAST_SAMPLE, LARGEST_SAMPLE))
    if d > MOST_FEATURES:
        most = min(FEW_ROWS, max(MOST_CELLS // d, 1))
    if job.problem.outputs > 1:
        if d > MOST_FEATURES:
            raise ValueError(
                f"sketch must bring columns times classes to at most {MOST_FEATURES:,} for private rows beside public "
                f"ones of more than two classes, or strategy be 'precision'; got {d:,}"
            )
        most = MOST_CLASS_ROWS
    drawn = [source.sample(min(1.0, most / count)) for source in sources]
    kept = [source for source in drawn if source is not None]
    factors = weigh_penalty(job.problem, job.scale.intercept)
    chosen = (
        None if job.alpha is None else job.problem.alpha / find_carried_share(job.groups, job.problem, names, job.used)
    )
    anchor = _look(job, kept, factors, chosen)
    known = all(isinstance(source.noise, Exact | FlippedLabels) for source in sources)
    if (known and count <= most) or not anchor.weights.any():
        return _limit(job, anchor)
    # More rows than were looked at: the answer is that of all rows, and its covariance that of so many more. Gradients
    # with noise added: the covariance is that of so many exact rows as they are worth.
    worth = sum(source.count * weigh_public_row(source.noise, job.problem) for source in sources)
    covariance = anchor.covariance * (len(anchor.X) / (count if known else worth))
    answer = solve(replace(job.problem, clip=None), sources, factors, longest=job.longest, likelihood=job.likelihood)
    return _limit(job, anchor.moved(answer.weights, covariance))


def _limit(job: Job, anchor: Anchor | ClassAnchor) -> Anchor | ClassAnchor:
    """The anchor with its covariance limited where steps are few; what disagreement is told by stays unlimited."""
    if not any(noise.once_a_batch for noise in job.groups.noises.values()):
        return anchor
    covariance, likely = limit_steps(anchor.covariance, anchor.likely)
    return replace(anchor, covariance=covariance, likely=likely, unlimited=anchor.covariance)


def _look(job: Job, kept: Sequence[PublicRows], factors: Array, chosen: float | None) -> Anchor | ClassAnchor:
    """Anchor of rows in memory."""
    problem = job.problem
    if problem.outputs > 1:
        return fit_class_anchor(problem, kept, factors, chosen, job.longest)
    pieces = [next(iter(source.pieces())) for source in kept]
    X = np.concatenate([np.asarray(X, dtype=np.float64) for X, _ in pieces])
    y = np.concatenate([y for _, y in pieces])
    counts = [source.count for source in kept]
    rates, skews = (np.repeat([getattr(s, key) for s in kept], counts) for key in ("flip_rate", "flip_skew"))
    weights, wide = problem.class_weights, problem.n_features > MOST_FEATURES
    known = rates, skews, weights, wide, problem.loss, job.longest
    return fit_anchor(X, y, problem.alpha, factors, chosen, *known)


def expect(job: Job, prepared: Anchoring) -> tuple[float, float, float, tuple[tuple[str, float], ...]]:
    """Expected excess of the public rows alone and of all in use, expected ‖w - w*‖², and what a row of each is worth.

    A row's worth is what one row more takes from the expected excess: of a private source it moves the clock, of a
    public one it shrinks the start's covariance. It is in rows of the most valuable source.
    """
    names, problem, noises = job.groups.names, job.problem, job.groups.noises
    counts = job.groups.row_counts
    together = _add_up(_list_information(job, prepared.sizes, prepared.order).values())
    coordinates = choose_coordinates(prepared.possible if prepared.order else prepared.possible[:1], together)
    clock = together(coordinates.activity)
    start, excess = (expected_excess(coordinates, tau) for tau in (0.0, clock))
    distance = float(take_diagonal(find_covariances(coordinates, clock)[0]).sum())
    public = sum(counts[name] * weigh_public_row(noises[name], problem) for name in prepared.converged)
    more = replace(coordinates, covariance=coordinates.covariance * (public / (1.01 * public)))
    gain = (excess - expected_excess(more, clock)) / (0.01 * public)
    worths = {name: gain * weigh_public_row(noises[name], problem) for name in prepared.converged}
    rows = {
        name: information(coordinates.activity)
        for name, information in _list_information(job, prepared.sizes, prepared.sizes, rows=1).items()
    }
    step = 0.01 * sum(counts[name] * row for name, row in rows.items())
    per_clock = (excess - expected_excess(coordinates, clock + step)) / step
    worths |= {name: max(per_clock * row, 0.0) for name, row in rows.items()}
    most = max(worths.values()) or 1.0
    return start, excess, distance, tuple((name, max(worths[name] / most, 1e-12)) for name in names)


def _add_up(clocks: Iterable[Information]) -> Information:
    """Clock of all these sources together; each activity is asked for once."""
    parts = list(clocks)
    return cache(lambda activity: sum(clock(activity) for clock in parts))


def compare_promises(job: Job, prepared: Anchoring, now: float) -> tuple[tuple[str, OtherPromise], ...]:
    """For each private source in use: the other promise at the same ε, and the expected excess with it."""
    counts = job.groups.row_counts
    possible, problem, found = prepared.possible, replace(job.problem, own_batches=True), []
    own = _list_information(job, prepared.sizes, prepared.order)
    everything, rows = _add_up(own.values()), Counter[Noise]()
    for name in prepared.sizes:
        rows[job.groups.noises[name]] += counts[name]
    for name in prepared.order:
        if (other := swap_promise(job.groups.noises[name])) is None:
            continue
        size, _ = choose_batch_sizes(problem, possible[0], [(other, counts[name]), (other, rows[other])])
        swapped = measure_information(other, counts[name], replace(job.problem, batch_size=size))

        def together(activity: float, mine: Information = own[name], other: Information = swapped) -> float:
            return max(everything(activity) - mine(activity), 0.0) + other(activity)

        coordinates = choose_coordinates(possible, together)
        then = expected_excess(coordinates, together(coordinates.activity))
        unit = problem.loss_unit
        found.append((name, OtherPromise(other.protection.kind, size, unit * now, unit * then)))
    return tuple(found)


@dataclass(frozen=True)
class Added:
    """What the private sources brought: weights for rows as scaled, and how each source agreed with the anchor.

    `state` and `pace` are what later rows go on from (`resume_state`).
    """

    weights: Array
    disagreements: Mapping[str, Disagreement]
    state: State
    pace: float


def add_private(job: Job, anchoring: Anchoring, target: Any) -> Added:
    """Use the private sources one after the other, each row once."""
    counts, found = job.groups.row_counts, {}
    public = sum(counts[name] for name in anchoring.converged)
    camps = [Camp(summarize(anchoring.anchor, anchoring.possible), public)]
    state = State(np.zeros(job.problem.n_features))
    rows = job.data(target, anchoring.order, in_memory=False)
    for name in anchoring.order:
        problem = replace(job.problem, batch_size=anchoring.sizes[name])
        source, rivals = PrivateSource(name, job.groups.noises[name], problem, counts[name]), choose_rivals(camps)
        added = source.add([camps[place].summary for place in rivals], state, rows[name], job.settings.random_state)
        camps = join(camps, [*rivals, len(camps)][added.place], Camp(added.summary, counts[name]))
        found[name], state = added.disagreement, added.state
    summary = mix(camps)
    return Added(summary.weights, found, *resume_state(state, summary))


def resume_state(state: State, anchor: Summary) -> tuple[State, float]:
    """State that later rows go on from, and the λ that their clock 1/(λγ²(τ₀ + τ)) takes for the curvature.

    An answer w with error covariance V, and curvature H in d columns, has an expected excess of ½tr(HV). A step η of
    moment γ² changes it by -ηtr(H²V) + ½η²γ²trH/d, to first order in H, which is least at η = d·tr(H²V)/(γ²trH). The
    excess falls like that of one curvature λ = tr(H²V)/tr(HV), and τ₀ makes the first step this η. For H = αI these are
    λ = α and τ₀ = 1/(α²trV), where Theorem C is as sure of the answer.
    """
    plain = anchor.plain
    H, weighted = plain.hessian, plain.weighted
    excess = float(weighted.sum())  # tr(HV): both are symmetric
    fall = float((H * plain.covariance * H).sum()) if H.ndim == 1 else float((H @ H * plain.covariance).sum())
    pace = fall / excess
    clock = float(take_diagonal(H).mean()) / (pace * fall)
    return replace(state, weights=anchor.weights, clock=clock, step_size=0.0, average_weight=0.0), pace
