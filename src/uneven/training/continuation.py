"""More rows later: the precision clock continues, without knowing how many rows will follow."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.engine import (
    Average,
    State,
    Task,
    advance,
    checked_chunk,
    find_limit,
    initial_state,
    make_generator,
    tasks_of,
)
from uneven.ledger import list_columns
from uneven.matrices import is_sparse
from uneven.noise import FlippedLabels, Noise
from uneven.planner import TRUSTED, Source, expect_scale_at, get_strategy, make_plan
from uneven.problem import Problem
from uneven.redaction import owner_only
from uneven.schedules import Precision, Schedule
from uneven.settings import Settings
from uneven.theory import theorem_c_offset
from uneven.training.calibration import DOUBTFUL
from uneven.training.charging import Account, Bill, make_hasher, refuse_unknown_rows, warn_simulated
from uneven.training.copies import warn_copies
from uneven.training.grouping import Grouped, group_rows
from uneven.training.label_release import as_against_rest, as_observed, release_labels
from uneven.training.labels import ClassFinder, as_numbers, find_classes, list_targets, read_weights
from uneven.training.norms import LATER, choose_scale, count_long, measure_rms_norms
from uneven.training.planning import name_machine, scale_problem
from uneven.training.refusals import find_unknown, refuse_unfit
from uneven.training.rows import ArrayRows
from uneven.training.scaling import Scale, list_bounds, multiply_rows, shorten_rows
from uneven.training.scan import Scan, scan_rows
from uneven.training.trainer import Trained

KEPT = (
    *("alpha", "batch_size", "loss", "moments", "radius", "fit_intercept", "clip", "row_norm"),
    *("class_weight", "multi_class", "sketch"),
)
"""Settings that the clock, the weights and their scale were made with: they stay as they were."""

UNKNOWN_ROWS = "the best one depends on how many rows are to come"


@dataclass(frozen=True)
class Progress:
    """Where learning stands, and what all later calls agree on.

    Attributes
    ----------
    classes : array
    scale : Scale
    states : tuple of State
        One, but for one-vs-rest one per class.
    problem : Problem
    schedule : Schedule
        The clock, its offset that of the cleanest source that may come.
    moments : str
        What stands for a step's noise.
    settings : Settings
    noise : Noise, dict or None
        As given at the first call.
    flip_rates : dict
        Rates known by now.
    pace : float or None
        After an anchored fit: the curvature that the clock takes, instead of alpha (`resume_state`).
    """

    classes: NDArray[Any]
    scale: Scale
    states: tuple[State, ...]
    problem: Problem
    schedule: Schedule
    moments: str
    settings: Settings
    noise: Any
    flip_rates: Mapping[str, float]
    pace: float | None = None

    def choose_steps(self, moment: float) -> tuple[Schedule, Average]:
        """Clock of a source's steps and the iterate that answers.

        After an anchored fit the state holds what is known: the clock needs no offset but the one by which no step of
        the source is longer than 2/(L + λ), and the last iterate is the Kalman filter's answer.
        """
        if self.pace is None:
            return self.schedule, Average("growing")
        steepest = max(self.problem.smoothness, self.pace)
        return Precision(self.pace, theorem_c_offset(1.0 / moment, self.pace, steepest, np.inf)), Average("last")

    def describe(self, groups: Grouped) -> tuple[str, ...]:
        """What to know after rows of these sources were learned from."""
        noises = groups.noises
        doubtful = all(noise.protects_features for noise in noises.values()) and self.pace is None
        scale = expect_scale_at(self.problem, self.schedule, self.states[0].clock) if doubtful else 1.0
        trusted = [name for name, noise in noises.items() if noise.private]
        machine = (name_machine(trusted),) if any(noise.once_a_batch for noise in noises.values()) else ()
        return (*((DOUBTFUL,) if scale < TRUSTED else ()), *machine)

    def refuse_changes(self, settings: Settings, noise: Any) -> None:
        """Refuse to go on under another setting: it would be ignored, or break what was promised."""
        pairs = {"noise": (self.noise, noise)} | {n: (getattr(self.settings, n), getattr(settings, n)) for n in KEPT}
        for name, (was, now) in pairs.items():
            if was != now:
                raise ValueError(
                    f"{name} must stay {checks.shown(was)} for partial_fit to continue, got {checks.shown(now)}; "
                    "fit starts anew"
                )


def refuse_settings(settings: Settings) -> None:
    """Refuse what `partial_fit` could only ignore."""
    if not get_strategy(settings.stepping).can_continue:
        raise ValueError(f"strategy must be 'precision' for partial_fit, got {settings.strategy!r}")
    if settings.average not in ("auto", "growing"):
        raise ValueError(
            f"average must be 'auto' or 'growing' for partial_fit: how many rows will come is unknown; got "
            f"{settings.average!r}"
        )
    if settings.line_search:
        raise ValueError(f"line_search must be 0 for partial_fit, got {settings.line_search}")


def keep_progress(trained: Trained, noise: Any) -> Progress | str:
    """What `partial_fit` goes on from after a fit; or, as text, the reason why it cannot."""
    model, settings = trained.model, trained.model.settings
    if not get_strategy(settings.stepping).can_continue:
        return f"a fit with strategy {settings.strategy!r}: its steps were for these rows alone; clone the model"
    if trained.plan.problem.own_batches:
        return f"a fit that chose batch sizes for site privacy: {UNKNOWN_ROWS}; give batch_size a number"
    if trained.plan.kept and _was_shortened(trained):
        return (
            "a fit some of whose rows learned another length for the weights: later steps would undo it; "
            "clone the model, or fit with strategy='precision', which takes steps alone"
        )
    if trained.groups.by_row:
        return "a fit to rows with noise of their own: partial_fit needs named sources; clone the model"
    problem, rates = trained.plan.problem, dict(model.flip_rates)
    noises = _usable_noises(_declared_noises(noise, trained.groups), rates, problem)
    tasks = tasks_of(trained.plan, settings.average, settings.estimate)  # none if every private source was left out
    states = tuple(extend_average(state, tasks[-1].average.kind) if tasks else state for state in trained.states)
    progress = _progress(model.classes, trained.scale, states, problem, noises, settings, noise, rates)
    return replace(progress, pace=trained.pace)


def _was_shortened(trained: Trained) -> bool:
    """Whether the weights are not those that the steps ended at."""
    steps, _ = trained.scale.read_back([trained.states[0].answer], trained.plan.problem.outputs)
    return not np.array_equal(steps, trained.model.coef)


def extend_average(state: State, kind: str) -> State:
    """State whose average goes on growing: the answer of a late clock stands for all of it, ∫τ dτ = τ²/2."""
    if kind != "late":
        return state
    return replace(state, average=state.answer, average_weight=state.clock**2 / 2.0, last_share=0.0)


def continue_training(
    before: Progress | None,
    rows: ArrayRows,
    noise: Any,
    settings: Settings,
    account: Account,
    classes: Any = None,
    feature_names: tuple[str, ...] | None = None,
) -> tuple[Progress, Grouped, Mapping[str, int]]:
    """Learn from more rows: the step count and the precision clock continue.

    Parameters
    ----------
    before : Progress or None
        Where learning stands; None for the first rows.
    rows : ArrayRows
    noise : Noise, dict of str to Noise, or None
    settings : Settings
    account : Account
        What private rows are charged to before they are used.
    classes : array or None
        All classes that will come, at the first call; None takes those of its rows.
    feature_names : tuple of str or None

    Returns
    -------
    progress : Progress
    groups : Grouped
        Which source each of the rows is of.
    too_long : dict
        How many rows of each source were shrunk to a stated bound: for the rows' owner only.
    """
    piece = rows.piece
    bounds = list_bounds(settings.row_norm if before is None else before.scale.row_norm)
    groups = group_rows(len(piece.y), noise, piece.source)
    groups = groups.with_noises(_with_known_rates(groups.noises, {} if before is None else before.flip_rates))
    stated = settings.classes if classes is None else classes
    found = before.classes if before is not None else _first_classes(piece.y, stated, groups.any_private)
    sparse = is_sparse(piece.X) and settings.sketch is None
    refuse_unfit(groups.noises, settings, found, sparse)
    hasher = make_hasher(account, noise, feature_names, rows.described is not None)
    scan = scan_rows(rows, bounds, found, hasher=hasher, private=lambda _: groups.any_private)
    now = _begin(found, scan, groups, settings, noise) if before is None else before
    now.refuse_changes(settings, noise)
    refuse_unknown_rows(account, groups, piece.row_id)
    learned = as_against_rest(as_observed(groups, len(found)), settings, len(found))
    if learned.any_private and now.scale.norms != "largest":
        raise ValueError(
            "row_norm must be a number where private rows come after others, got 'auto', which scaled by those"
        )
    too_long = count_long(scan, groups, now.scale.row_norm) if now.scale.norms == "largest" else {}
    unit = now.scale.rows(_shorten(piece.X, scan, groups, now.scale, settings))
    simulated = settings.random_state is not None and groups.any_private
    if simulated and not account.simulated:  # once, not at every call
        warn_simulated(settings, groups)
    columns, times = list_columns(feature_names, scan.n_features, rows.described), settings.pass_count
    warn_copies(scan, groups)
    account.charge(Bill(groups, piece.row_id, scan.content, times, groups.names, settings.budget, simulated, columns))
    (piece,) = release_labels(rows, groups, found, settings.random_state, now.states[0].step).pieces()
    signs = [as_numbers(piece.y, target) for target in list_targets(found, settings)]
    states = [_advance(s, now, learned, unit, sign, settings) for s, sign in zip(now.states, signs, strict=True)]
    return replace(now, states=tuple(states)), groups, too_long


def _first_classes(y: NDArray[Any], stated: Any, private: bool) -> NDArray[Any]:
    """Classes of all rows that will come: as stated, or those of the first rows."""
    if stated is not None:
        return find_classes(np.asarray(stated))
    finder = ClassFinder()
    finder.see(y, "y", private)
    return finder.classes()


def _begin(found: NDArray[Any], scan: Scan, groups: Grouped, settings: Settings, noise: Any) -> Progress:
    """Begin with `partial_fit`, for all sources that may come."""
    noises = _with_known_rates(_declared_noises(noise, groups), {})
    private = any(one.protects_features for one in noises.values())
    scale = choose_scale(scan, groups, settings, private)
    if settings.class_weight == "balanced":
        raise ValueError("class_weight must be None or a dict to begin with partial_fit, got 'balanced'")
    counted = len(found), read_weights(settings, found)
    problem = scale_problem(settings, scale, scan.n_features, private, noises.values(), *counted)
    if problem.own_batches:
        raise ValueError(f"batch_size must be a number for partial_fit with site privacy: {UNKNOWN_ROWS}; got 'auto'")
    states = tuple(initial_state(problem.n_features) for _ in list_targets(found, settings))
    return _progress(found, scale, states, problem, noises, settings, noise, {})


def _progress(
    classes: NDArray[Any],
    scale: Scale,
    states: tuple[State, ...],
    problem: Problem,
    noises: Mapping[str, Noise],
    settings: Settings,
    noise: Any,
    rates: Mapping[str, float],
) -> Progress:
    """Progress for sources of these noises, whichever of them come and when."""
    one_by_one = len(states) > 1
    learned = {name: one.against_rest(len(classes)) if one_by_one else one for name, one in noises.items()}
    sources = [Source(name, problem.batch_size, one) for name, one in learned.items()]
    planned = make_plan(sources, problem, settings.stepping, settings.planned_moments)
    moments = "upper" if settings.estimate else planned.moments
    as_given = dict(noise) if isinstance(noise, Mapping) else noise
    return Progress(
        classes, scale, states, problem, planned.segments[0].schedule, moments, settings, as_given, dict(rates)
    )


def _declared_noises(noise: Any, groups: Grouped) -> dict[str, Noise]:
    """All sources that may come: those of `noise`, and of these rows."""
    named = noise if isinstance(noise, Mapping) else {}
    return {**{str(name): one for name, one in named.items()}, **groups.noises}


def _with_known_rates(noises: Mapping[str, Noise], rates: Mapping[str, Any]) -> dict[str, Noise]:
    """Noises with flip rates that a fit before has estimated."""
    known: dict[str, Noise] = {}
    for name in find_unknown(noises):
        if name not in rates:
            raise ValueError(f"rate of {name!r} must be known for partial_fit, got 'estimate': fit can estimate it")
        known[name] = FlippedLabels(rates[name])
    return {**noises, **known}


def _usable_noises(noises: Mapping[str, Noise], rates: Mapping[str, Any], problem: Problem) -> dict[str, Noise]:
    """Noises that may come after a fit to this problem: private ones only if rows have a bound, known rates only."""
    bounded = problem.norms == "largest"
    usable = {name: one for name, one in noises.items() if bounded or not one.protects_features}
    return _with_known_rates({n: one for n, one in usable.items() if n in rates or not find_unknown({n: one})}, rates)


def _shorten(X: Any, scan: Scan, groups: Grouped, scale: Scale, settings: Settings) -> Any:
    """X with rows that are too long for the scale shrunk to it; or a refusal."""
    if scale.norms == "largest":
        return shorten_rows(X, scale.row_norm)
    norms, most = np.array(measure_rms_norms(scan, groups)), LATER * scale.row_norm
    if norms.max() <= most:
        return X
    name, norm = groups.names[int(norms.argmax())], norms.max()
    if settings.long_rows == "refuse":
        raise ValueError(
            f"rows of source {name!r} must have a root-mean-square norm of at most {most:.6g}, twice that of earlier "
            f"ones, with long_rows='refuse'{owner_only(f'; got {norm:.6g}')}"
        )
    warnings.warn(
        f"rows were shrunk to {most:.6g}, twice the root-mean-square norm of earlier ones, in source {name!r}"
        + owner_only(f"; got {norm:.6g}"),
        UserWarning,
        stacklevel=5,
    )
    factors = np.minimum(1.0, most / np.maximum(norms, 1e-300))
    return multiply_rows(X, factors[groups.index] if groups.index is not None else np.full(X.shape[0], factors[0]))


def _advance(
    state: State, on: Progress, groups: Grouped, unit: Any, sign: NDArray[np.float64], settings: Settings
) -> State:
    """State after these rows, each as often as there are passes, the noisiest source's first."""
    problem, seed = on.problem, settings.random_state
    levels = {name: one.moment(on.moments, problem) for name, one in groups.noises.items()}
    for name in sorted(levels, key=lambda name: -levels[name].at(problem.batch_size)):
        mine = groups.rows_of(groups.names.index(name))
        steps = on.choose_steps(levels[name].at(problem.batch_size))
        noises, moments = (groups.noises[name],), (levels[name],)
        task = Task(problem, (name,), noises, moments, *steps, settings.estimate)
        for _ in range(settings.pass_count if len(mine) else 0):
            rows = mine[make_generator(seed, state.step, name, "order").permutation(len(mine))]
            chunk = checked_chunk(
                (name,), unit[rows], sign[rows], rows, limit=find_limit(problem), classes=problem.classes
            )
            state = advance(state, task, chunk, make_generator(seed, state.step, name, "noise"))
    return state
