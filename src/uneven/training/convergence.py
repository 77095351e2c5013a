"""Sources without privacy are learned to convergence: their rows may be read as often as it takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.anchor import Objective, PublicRows, Solution, choose_alpha, solve, weigh_source
from uneven.engine import State
from uneven.planner import Plan
from uneven.problem import Problem
from uneven.settings import Settings
from uneven.training.grouping import Grouped
from uneven.training.job import Job
from uneven.training.planning import describe_sources
from uneven.training.refusals import lacks_surrogate
from uneven.training.scaling import ADVICE, ALPHAS, BEYOND
from uneven.training.strength import choose_private_alpha, choose_private_clip
from uneven.words import name_few

Array = NDArray[np.float64]

MOST_CELLS, ROWS_PER_WEIGHT, ROWS_PER_SPREAD = 10**8, 10_000, 1_000
"""Rows that are streamed take one pass of SGD where they have more numbers than this, and are so many for each weight:
then one pass is as good for new rows, and far quicker than several readings. It is not beside a column with a large
mean or on a larger scale, such as a year, unless they are so many times `measure_spread`: a step is at most 2/L, L the
rows' mean square, so columns of variance v take L/v rows to be learned at all."""

STRONGEST = 10.0
"""Beside private rows alpha is at most so many times the default: a few public rows may ask for a far stronger one, and
all the signal of the private rows would be shrunk.
"""


@dataclass(frozen=True)
class Converged:
    """Weights learned to convergence.

    Attributes
    ----------
    weights : list of arrays of shape (d,)
        One for each target, for rows as scaled.
    readings : int
        How often the rows were read for the first of them.
    caveats : tuple of str
        What to know of them.
    """

    weights: list[Array]
    readings: int
    caveats: tuple[str, ...]


def can_converge(
    settings: Settings, groups: Grouped, columns: int = 0, spread: Callable[[], float] = lambda: 1.0
) -> bool:
    """Whether these sources are learned to convergence: none is private, and nothing asks for single steps.

    `columns` is how many weights there are for rows that are read again each time; 0 where they are in memory. `spread`
    tells how far apart the scales of columns are (`measure_spread`).
    """
    if groups.any_private or not settings.left_open or settings.steps_asked is not None:
        return False
    rows = int(groups.counts.sum())
    many = rows * columns > MOST_CELLS and rows > ROWS_PER_WEIGHT * columns
    many = many and rows > ROWS_PER_SPREAD * spread()
    return not many and not lacks_surrogate(settings, groups.noises.values())


def list_public_rows(job: Job, names: Collection[str], target: Any) -> list[PublicRows]:
    """Rows of these sources as the solver reads them, with labels as numbers for the target."""
    counts = dict(zip(job.groups.names, job.groups.counts.tolist(), strict=True))
    data = job.readings(target, names)
    return [PublicRows(data[name], counts[name], job.groups.noises[name], job.parts.get(name, 1.0)) for name in names]


def with_chosen_alpha(job: Job, target: Any, here: Collection[str] | None = None) -> Job:
    """The job with alpha chosen by cross-validation on rows without privacy, or predicted where there are none.

    `here` names the sources whose rows can be read; None means all. Rows that the solver cannot take leave alpha at its
    default, and beside private rows it is at most `STRONGEST` times that.
    Where private sources are left out later it is chosen again, for the rest (`scale_alpha`).
    """
    noises, settings = job.groups.noises, job.settings
    names = [name for name, noise in noises.items() if not noise.private and (here is None or name in here)]
    if job.groups.any_private and isinstance(settings.alpha, str):
        job.scale.refuse_norm()
    if all(noise.private for noise in noises.values()):
        sources, usual = describe_sources(noises, job.groups.counts), job.scale.usual_alpha(settings.alpha)
        if isinstance(settings.alpha, str):
            job = replace(job, alpha=choose_private_alpha(settings, sources, job.problem, usual))
        return replace(job, clip=choose_private_clip(settings, sources, job.problem))
    if not (names and settings.public_first) or lacks_surrogate(settings, (noises[name] for name in names)):
        return job
    job = _with_tried_alpha(job, names, target)
    if job.likelihood or not _are_uneven(job):
        return job
    return _with_tried_alpha(replace(job, parts=find_parts(job, names, target)), names, target)


def _with_tried_alpha(job: Job, names: Collection[str], target: Any) -> Job:
    """The job with alpha chosen by cross-validation on these sources' rows, unless it is stated."""
    if not isinstance(job.settings.alpha, str):
        return job
    rows, factors = list_public_rows(job, names, target), free_intercept(job.problem, job.scale.intercept)
    even = job.problem.loss_function.probabilistic and len(set(job.class_weights)) < 2
    sift = job.settings.use == "auto" and even
    chosen = choose_alpha(job.problem, rows, factors, likelihood=even and not job.parts, sift=sift)
    if chosen.alone:
        job, names = _leave_out_flipped(job, names)
    in_rows = job.scale.factor**2 * max(job.class_weights)  # as stated: for rows and class weights as given
    if not chosen.path:  # nothing could be told: the default of rows that are all private
        return replace(job, alpha=job.scale.usual_alpha(job.settings.alpha))
    job = replace(job, chosen=chosen.alpha * in_rows, length=chosen.length, likelihood=chosen.likelihood)
    return scale_alpha(job, names)


def _leave_out_flipped(job: Job, names: Collection[str]) -> tuple[Job, list[str]]:
    """The job without the sources of flipped labels among these, and the names of the others."""
    harmful = {name: one for name, one in job.groups.noises.items() if name in names and one.known_rate > 0.0}
    groups = job.groups.without(harmful, job.scan.held is not None)
    job = replace(job, groups=groups, harmful=harmful, units={}, gathered={})
    return job, [name for name in names if name not in harmful]


def restore_sources(job: Job, declared: Grouped) -> Job:
    """The job with every source, those that are left out among them: for what is said of all rows as they came."""
    if not job.harmful:
        return job
    noises = {name: job.harmful.get(name) or job.groups.noises[name] for name in declared.names}
    return replace(job, groups=declared.with_noises(noises), harmful={}, units={}, gathered={})


def describe_harmful(names: Sequence[str]) -> tuple[str, ...]:
    """One sentence on sources of flipped labels that are left out.

    >>> describe_harmful(["crowd"])
    ("'crowd' is left out: held-out rows with true labels are predicted better without it. use='all' uses it.",)
    """
    if not names:
        return ()
    verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
    told = f"{name_few(names)} {verb} left out: held-out rows with true labels are predicted better without {them}."
    return (f"{told} use='all' uses {them}.",)


def _are_uneven(job: Job) -> bool:
    """Whether labels of some sources are flipped more often than those of others, and all are learned together.

    One-vs-rest has a problem for each class, and no truth that all of them share.
    """
    noises = job.groups.noises.values()
    rates = {(noise.known_rate, noise.skew) for noise in noises}
    together = job.problem.outputs > 1 or len(job.scan.classes) <= 2
    return len(rates) > 1 and together and not job.groups.any_private and job.problem.loss_function.probabilistic


def find_parts(job: Job, names: Collection[str], target: Any) -> dict[str, float]:
    """Part of its usual weight that a row of each source should count by, going by a first answer.

    Flipped labels are noisier than their usual weight says where most rows are classified for sure: exact ones then
    hardly err, and as many are flipped as ever.
    """
    rows, factors = list_public_rows(job, names, target), free_intercept(job.problem, job.scale.intercept)
    first = solve(job.problem, rows, factors, longest=1.0).weights
    return dict(zip(names, Objective.of(job.problem, rows, factors).find_parts(first), strict=True))


def scale_alpha(job: Job, names: Collection[str], used: tuple[str, ...] | None = None) -> Job:
    """The job with the alpha that was chosen on rows of `names`, for those of the sources in use; None means all."""
    assert job.chosen is not None
    alpha = job.chosen * find_carried_share(job.groups, job.problem, names, used)
    if not ALPHAS[0] <= alpha <= ALPHAS[1]:
        raise ValueError(f"X has rows for which alpha = {alpha:.3g} would be chosen, {BEYOND}; {ADVICE}")
    private = any(job.groups.noises[name].private for name in (job.groups.names if used is None else used))
    most = STRONGEST * job.scale.usual_alpha("auto") if private else alpha
    return replace(job, alpha=min(alpha, most), used=used)


def find_carried_share(
    groups: Grouped, problem: Problem, names: Collection[str], used: Collection[str] | None = None
) -> float:
    """Share of these sources' rows, each counted by its worth: alpha times the rows is what carries over to all.

    All are those of the sources in use; None means every source.
    """
    worth = {
        name: count * weigh_source(groups.noises[name], problem)
        for name, count in zip(groups.names, groups.counts.tolist(), strict=True)
        if used is None or name in used
    }
    return float(sum(worth[name] for name in names) / sum(worth.values()))


def free_intercept(problem: Problem, intercept: bool) -> Array:
    """Factors of the L2 term: none for the intercept's feature, as scikit-learn has it."""
    factors = np.ones(problem.columns)
    if intercept:
        factors[-1] = 0.0
    return np.tile(factors, problem.outputs)


def converge(job: Job, targets: Sequence[Any]) -> Converged:
    """Minimise the weighted objective of all sources, once for each target."""
    found = [solve_public(job, job.groups.names, target) for target in targets]
    caveats = dict.fromkeys(one.caveat for one in found if one.caveat is not None)
    return Converged([one.weights for one in found], found[0].readings, tuple(caveats))


def solve_public(job: Job, names: Collection[str], target: Any) -> Solution:
    """Minimise the weighted objective of these sources."""
    factors = free_intercept(job.problem, job.scale.intercept)
    rows = list_public_rows(job, names, target)
    return solve(job.problem, rows, factors, longest=job.length, likelihood=job.likelihood)


def make_state_after(weights: Array, plan: Plan) -> State:
    """State that later rows go on from: the answer, at the clock that one pass over the rows would have reached."""
    clock = sum(segment.precision for segment in plan.segments)
    return State(weights, plan.steps, clock, 0.0, weights, clock**2 / 2.0)
