"""Run a panel a few runs at a time, write them as Parquet, and continue after an interruption."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.anchor import PublicRows, solve
from uneven.datasets import Dataset
from uneven.engine import find_optimum, measure_accuracy, measure_auc, objective, sweep
from uneven.experiments.panels import Case, Panel
from uneven.experiments.results import list_parts, read_part, write_part
from uneven.planner import Plan, count_kept
from uneven.problem import Problem
from uneven.schedules import LAST_SHARE, LATE, SETTLED
from uneven.softmax import centre_weights
from uneven.training import draw_projection, find_scale, make_direction, project, shorten_rows

Array = NDArray[np.float64]

TOGETHER = 10
"""Runs written at a time: the most that an interruption loses."""

APART = 1_000_003
"""Between the seeds of the problems of one-vs-rest, whose noises are independent."""

FORMAT = 1
"""Version of the files, raised when the same settings would give other numbers."""


def run_panel(
    panel: Panel, data: Dataset, folder: Path, runs: int, seed: int, tick: Callable[[float], None] = lambda _: None
) -> None:
    """Run what is missing of a panel's runs; `tick` is called with each finished share of the panel's work.

    Each run has its own permutations and noise, which all cases share. How the rows are dealt to the sources is the
    same in all.
    """
    settings = describe_settings(panel, len(data.y), data.X.shape[1], seed)
    done = find_finished_runs(folder, panel.name, settings)
    tick(sum(run in done for run in range(runs)) / runs)
    if done.issuperset(range(runs)):
        return
    sources, best = data.split(panel.shares, seed), measure_without_noise(panel.cases[0].plan.problem, data)
    (folder / panel.name).mkdir(parents=True, exist_ok=True)
    for first, count in _find_missing(done, runs):
        weights, twins = _run_cases(panel, sources, first, count, seed, lambda part, n=count: tick(part * n / runs))  # type: ignore[misc]
        columns = _label_columns(panel, first, count) | _measure(panel, data, weights, twins)
        path = folder / panel.name / f"runs-{first:04d}-{first + count - 1:04d}.parquet"
        write_part(path, columns, {**settings, "optimum": best})


def _run_cases(
    panel: Panel, sources: Mapping[str, Any], first: int, count: int, seed: int, tick: Callable[[float], None]
) -> tuple[Array, Array | None]:
    """Weights of every case and run, and of their twins: one sweep for all cases with the same averaging."""
    problem = panel.cases[0].plan.problem
    weights = np.empty((len(panel.cases), count, problem.n_features))
    twins = weights.copy() if panel.twin else None
    alike: dict[tuple[str, bool, bool, int, int], list[int]] = {}
    for i, case in enumerate(panel.cases):
        alike.setdefault((case.average, case.estimate, case.one_vs_rest, case.sketch, case.plan.kept), []).append(i)
    for (average, estimate, apart, sketch, kept), members in alike.items():
        plans, share = [panel.cases[i].plan for i in members], len(members) / len(panel.cases)
        used = {
            name: (_sketch(X, sketch), y)
            for name, (X, y) in sources.items()
            if any(name in plan.order for plan in plans)
        }
        problems = [_against_rest(used, k) for k in range(problem.classes)] if apart else [used]
        each = share / len(problems)
        for k, rows in enumerate(problems):
            swept = sweep(
                plans,
                {name: divide_rows(one, kept)[0] for name, one in rows.items()},
                runs=count,
                first_run=first,
                seed=seed + k * APART,
                average=average,
                estimate=estimate,
                twin=panel.twin,
                progress=lambda part, share=each: tick(part * share),  # type: ignore[misc]
            )
            if swept.interrupted:
                raise KeyboardInterrupt
            found = swept.weights
            if kept:
                pairs = zip(plans, swept.weights, strict=True)
                found = np.array([shorten_weights(plan, w, rows, first, seed) for plan, w in pairs])
            if sketch:
                found = found @ draw_projection(problem.n_features, sketch).T
            width = found.shape[-1]
            weights[members, :, k * width : (k + 1) * width] = found
            if twins is not None:
                twins[members] = swept.twins
    return (weights if problem.outputs == 1 else _centre(panel, weights)), twins


def _centre(panel: Panel, weights: Array) -> Array:
    """Weights of more than two classes as a model has them; those of one-vs-rest stay, whose classes stand alone."""
    return np.array(
        [
            w if case.one_vs_rest else centre_weights(w, case.plan.problem.classes)
            for w, case in zip(weights, panel.cases, strict=True)
        ]
    )


def _sketch(X: Any, width: int) -> Any:
    """Rows projected to so many columns and shrunk to norm 1 again, as a fit does; as they are for a width of 0."""
    if not width:
        return X
    return np.ascontiguousarray(shorten_rows(project(X, draw_projection(X.shape[1], width)), 1.0), dtype=np.float32)


def divide_rows(rows: Any, kept: int) -> tuple[Any, Any]:
    """Rows of a source that take a step, and its last ones, which are kept."""
    X, y = rows
    stepped = len(y) - count_kept(len(y), kept)
    return (X[:stepped], y[:stepped]), (X[stepped:], y[stepped:])


def shorten_weights(plan: Plan, weights: Array, sources: Mapping[str, Any], first: int, seed: int) -> Array:
    """Weights of each run with the length that the kept rows find."""
    found = []
    for run, w in enumerate(weights, start=first):
        direction = make_direction(w, 0.0, plan.problem)
        last = {name: divide_rows(sources[name], plan.kept)[1] for name in plan.order}
        kept = {name: (direction.describe_rows(X), y) for name, (X, y) in last.items()}
        found.append(find_scale(direction, kept, plan, seed, run) * w)
    return np.array(found)


def _against_rest(sources: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The same rows with 1 for one class and -1 for the others."""
    return {name: (X, np.where(y == number, 1.0, -1.0)) for name, (X, y) in sources.items()}


def _measure(panel: Panel, data: Dataset, weights: Array, twins: Array | None) -> dict[str, Array]:
    """What is kept of each run: the objective over all training rows, and the accuracy on the test rows.

    And the log-loss on those, where rows learn the length of the weights; and AUC in some panels.
    """
    problem = panel.cases[0].plan.problem
    values = {
        "objective": objective(problem, weights, data.X, data.y),
        "accuracy": measure_accuracy(weights, data.X_test, data.y_test, problem.classes),
    }
    if any(case.plan.kept for case in panel.cases):
        values["log_loss"] = objective(replace(problem, alpha=1e-18), weights, data.X_test, data.y_test)
    if panel.auc:
        test, classes = (data.X_test, data.y_test), problem.classes
        pairs = zip(weights, panel.cases, strict=True)
        values["auc"] = np.array([measure_auc(w, *test, classes, together=not case.one_vs_rest) for w, case in pairs])
    if twins is not None:
        values["twin_objective"] = objective(problem, twins, data.X, data.y)
    return {name: value.ravel() for name, value in values.items()}


def measure_without_noise(problem: Problem, data: Dataset) -> dict[str, float]:
    """Objective, accuracy and AUC at the minimum of f, objective of weights zero, accuracy of the majority class."""
    plain = replace(problem, clip=None)
    if problem.outputs == 1:
        w = find_optimum(plain, data.X, data.y)
    else:
        w = solve(plain, [PublicRows.from_arrays(data.X, data.y)]).weights
    return {
        "objective": float(objective(problem, w, data.X, data.y)),
        "accuracy": float(measure_accuracy(w, data.X_test, data.y_test, problem.classes)),
        "auc": float(measure_auc(w, data.X_test, data.y_test, problem.classes)),
        "nothing": problem.loss_function.value_at_zero,
        "majority": float(np.unique(data.y_test, return_counts=True)[1].max() / len(data.y_test)),
    }


def describe_settings(panel: Panel, rows: int, features: int, seed: int) -> dict[str, Any]:
    """Everything that the numbers depend on, as plain values."""
    return {
        "format": FORMAT,
        "panel": panel.name,
        "rows": rows,
        "features": features,
        "seed": seed,
        "shares": dict(panel.shares),
        "late": [LATE, SETTLED, LAST_SHARE],
        "cases": [[c.method, repr(c.x), c.average, c.estimate, _digest(c), c.sketch, c.plan.kept] for c in panel.cases],
        "marks": dict(panel.marks),
        "varies": panel.varies,
        **({"auc": True} if panel.auc else {}),
    }


def _digest(case: Case) -> str:
    """Hash of everything in a plan that a run depends on."""
    facts = {key: value for key, value in case.plan.to_dict().items() if key in ("problem", "sources", "segments")}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def find_finished_runs(folder: Path, panel: str, settings: Mapping[str, Any]) -> set[int]:
    """Runs that are in the folder already; those made with other settings are refused."""
    done: set[int] = set()
    for path in list_parts(folder, panel):
        columns, others = read_part(path)
        if different := [key for key in settings if others.get(key) != settings[key]]:
            raise ValueError(
                f"{path} was made with another value of {different[0]!r}; choose another folder, or remove it"
            )
        done |= set(columns["run"].tolist())
    return done


def _find_missing(done: set[int], runs: int) -> Iterator[tuple[int, int]]:
    """Stretches of runs that are still to be made: the first of each, and how many.

    >>> list(_find_missing({0, 1, 2, 9}, 14))
    [(3, 6), (10, 4)]
    """
    run = 0
    while run < runs:
        stop = run
        while stop < min(run + TOGETHER, runs) and stop not in done:
            stop += 1
        if stop > run:
            yield run, stop - run
        run = max(stop, run + 1)


def _label_columns(panel: Panel, first: int, count: int) -> dict[str, Any]:
    cases = range(len(panel.cases))
    return {
        "case": np.repeat(cases, count),
        "method": np.repeat([case.method for case in panel.cases], count),
        "x": np.repeat([case.x for case in panel.cases], count),
        "run": np.tile(np.arange(first, first + count), len(panel.cases)),
    }
