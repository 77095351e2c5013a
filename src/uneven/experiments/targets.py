"""What going beyond the paper should achieve, each with what was measured and whether it did.

A target holds if what was measured meets it; standard errors stand beside the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.experiments.claims import CONFIDENT, FAILS, HOLDS, Claim, differences
from uneven.experiments.results import Results

Array = NDArray[np.float64]

EVERYWHERE, AT_HIGH_NOISE, HIGH_NOISE = 40.0, 100.0, 3.0
"""Algorithm 2's excess objective over ours: at least this everywhere, and this at ε_N up to that."""

POINTS = 1.5
"""How many points of test accuracy below the optimum's we may be."""


def excess(results: Results, method: str) -> tuple[Array, Array, Array]:
    """Values of x, and the mean of f - f* at each with its standard error."""
    x, runs = results.of(method)
    above = runs - results.settings["optimum"]["objective"]
    return x, above.mean(axis=1), above.std(axis=1, ddof=1) / np.sqrt(results.runs)


def judged(results: Mapping[str, Results]) -> list[Claim]:
    """Every target that the panels there are can tell of."""
    made: list[Claim] = []
    for name, one in results.items():
        if name.startswith("beyond-"):
            made += [small_excess(one), accurate(one)]
        if name.startswith(("beyond-", "harder-", "wide-")):
            made.append(not_behind_clean_only(one))
        if name.startswith("sources-"):
            made.append(more_sources_do_no_harm(one))
    return made


def small_excess(results: Results) -> Claim:
    """The excess objective is a small part of Algorithm 2's."""
    x, theirs, _ = excess(results, "Algorithm2")
    ours = excess(results, "uneven")[1]
    ratio = theirs / ours
    enough = np.where(x <= HIGH_NOISE, AT_HIGH_NOISE, EVERYWHERE)
    return Claim(
        results.panel,
        f"excess objective at most 1/{EVERYWHERE:g} of Algorithm2's, 1/{AT_HIGH_NOISE:g} at ε_N ≤ {HIGH_NOISE:g}",
        HOLDS if (ratio >= enough).all() else FAILS,
        "1/" + ", 1/".join(f"{r:.0f}" for r in ratio) + f" at ε_N = {x[0]:g} to {x[-1]:g}",
        {"epsilon": x, "ratio": ratio, "excess": ours, "excess of Algorithm2": theirs},
    )


def accurate(results: Results) -> Claim:
    """Test accuracy is near the optimum's, which has seen no noise."""
    x, runs = results.of("uneven", "accuracy")
    best = results.settings["optimum"]["accuracy"]
    behind = 100.0 * (best - runs.mean(axis=1))
    error = 100.0 * runs.std(axis=1, ddof=1) / np.sqrt(results.runs)
    return Claim(
        results.panel,
        f"test accuracy within {POINTS:g} points of the optimum's without privacy",
        HOLDS if (behind <= POINTS).all() else FAILS,
        f"behind {best:.2%} by {', '.join(f'{points:.2f}' for points in behind)} points (± {error[0]:.2f} to "
        f"{error[-1]:.2f}) at ε_N = {x[0]:g} to {x[-1]:g}",
        {"epsilon": x, "points behind": behind, "standard error": error, "optimum": best},
    )


def not_behind_clean_only(results: Results) -> Claim:
    """Using the noisy source is never worse than dropping it, with the same mechanism and clipping."""
    x, ours = results.of("uneven")
    mean, error = differences(ours, results.of("uneven, clean only")[1])
    above = mean > CONFIDENT * error
    return Claim(
        results.panel,
        f"never above clean only, with the same mechanism and clipping, by more than {CONFIDENT:g} standard errors",
        FAILS if above.any() else HOLDS,
        "difference of the objective "
        + ", ".join(f"{m:.4f} ± {e:.4f}" for m, e in zip(mean, error, strict=True))
        + f" at ε_N = {', '.join(f'{one:g}' for one in x)}",
        {"epsilon": x, "difference": mean, "standard error": error},
    )


def more_sources_do_no_harm(results: Results) -> Claim:
    """Each noisier source that is added leaves the result as good or better."""
    _, ours = results.of("uneven")
    mean, error = differences(ours[1:], ours[:-1])
    worse = mean > CONFIDENT * error
    return Claim(
        results.panel,
        "with more noisy sources the result never gets significantly worse",
        FAILS if worse.any() else HOLDS,
        "objective " + ", ".join(f"{m:.4f}" for m in ours.mean(axis=1)) + " with 1 to 4 sources",
        {"change": mean, "standard error": error},
    )


def reference(results: Results) -> str:
    """What the numbers of a panel's table are to be compared with, in words."""
    best = results.settings["optimum"]
    return (
        f"f* = {best['objective']:.4f}, with {best['accuracy']:.2%} of test rows right. Predicting nothing has an "
        f"excess of {best['nothing'] - best['objective']:.4f}; the commoner class is right in {best['majority']:.2%}."
    )


def table(results: Results) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table of a panel: excess objective of each method at each x, and test accuracy of ours.

    An ablation has more methods than values of x, and a method a row.
    """
    methods = list(dict.fromkeys(method for method, _ in results.values["objective"]))
    if results.panel.startswith("ablation"):
        x = excess(results, "uneven")[0]
        named = {method: excess(results, method)[1] for method in methods}
        return ["", *(f"ε_N = {one:g}" for one in x)], [[m, *(f"{v:.4f}" for v in named[m])] for m in methods]
    xs = [x for x in excess(results, "uneven")[0] if not np.isnan(x)]
    found = {method: _by_x(results, method, xs) for method in methods}
    accuracy = dict(zip(*_means(results, "uneven"), strict=True))
    baselines = [method for method in ("Algorithm2", "CleanOnly") if method in methods]
    head = [results.settings["varies"], *methods, *(f"{m} / uneven" for m in baselines), "accuracy of uneven"]
    rows = [
        [
            f"{x:g}",
            *(f"{found[method][x]:.4f}" for method in methods),
            *(f"{found[method][x] / found['uneven'][x]:.0f}" for method in baselines),
            f"{accuracy[x]:.2%}",
        ]
        for x in xs
    ]
    return head, rows


def _by_x(results: Results, method: str, xs: Sequence[float]) -> dict[float, float]:
    x, mean, _ = excess(results, method)
    return {one: float(mean[0] if np.isnan(x[0]) else mean[list(x).index(one)]) for one in xs}


def _means(results: Results, method: str) -> tuple[list[Any], list[float]]:
    x, runs = results.of(method, "accuracy")
    return [float(one) for one in x], [float(one) for one in runs.mean(axis=1)]
