"""Targets beyond the paper, each with what was measured and a verdict: a target holds if what was measured meets it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uneven.experiments.claims import (
    CONFIDENT,
    FAILS,
    HOLDS,
    Array,
    Claim,
    Judgements,
    compare,
    decide_everywhere,
    jackknife,
)
from uneven.experiments.panels import (
    CHOSEN_ALONE,
    FITS,
    ONE_VS_REST,
    SITE,
    SITE_EPSILONS,
    SKETCHES,
    STEPS_ALONE,
    name_setting,
)
from uneven.experiments.results import Results, estimate_mean

HIGH_NOISE = 3.0
"""Up to this ε_N the noisy source counts as very noisy."""


class Target(NamedTuple):
    """What is asked for on a data set: Algorithm 2's excess over ours, and points of accuracy below the optimum's."""

    everywhere: float
    at_high_noise: float
    points: float


CLASS_TARGETS = {"mnist": (0.40, 0.60, 0.65)}
"""Test accuracy that is asked for with more than two classes, at each of `CLASS_EPSILONS`."""

CHOSEN = "uneven, sketch auto"

SKETCH_TARGET = 0.94
"""Test accuracy that is asked for with a sketch of 784 columns, at the first of `WIDE_EPSILONS`."""

NEAR = 0.01
"""How far below the best stated width the accuracy of a chosen one may be."""

SITE_TARGETS = {"mnist": (0.0060, 0.0090, 0.045), "covertype": (0.0018, 0.0025, 0.020)}
"""Excess objective that is asked for with site privacy, at each of `SITE_EPSILONS`."""

TARGETS = {"mnist": Target(250.0, 500.0, 1.2), "covertype": Target(90.0, 180.0, 0.4)}


def _target(results: Results) -> Target:
    return TARGETS.get(results.panel.rsplit("-", 1)[-1], TARGETS["mnist"])


def judge_silence(results: Results) -> Claim:
    """With one ε for all rows, quiet is never worse than privunit."""
    statement = "one ε for all rows: never above privunit"
    return _judge_never_above(results, "uneven, strictest ε", "uneven, strictest ε, privunit", statement, "ε")


def _judge_never_above(results: Results, method: str, other: str, statement: str, varies: str) -> Claim:
    """Whether a method's objective is nowhere above another's by more than chance."""
    x, ours = results.of(method)
    mean, error = compare(ours, results.of(other)[1])
    return Claim(
        results.panel,
        f"{statement} by more than {CONFIDENT:g} standard errors",
        FAILS if (mean > CONFIDENT * error).any() else HOLDS,
        "difference of the objective "
        + ", ".join(f"{m:.4f} ± {e:.4f}" for m, e in zip(mean, error, strict=True))
        + f" at {varies} = {_list_settings(results, x)}",
        {"epsilon": x, "difference": mean, "standard error": error},
    )


def judge_excess(results: Results) -> Claim:
    """The excess objective is a small part of Algorithm 2's."""
    x, theirs = results.of("Algorithm2")
    ours, best = results.of("uneven")[1], results.settings["optimum"]["objective"]

    def compare_means(kept: NDArray[np.bool_]) -> Array:
        return np.asarray((theirs[:, kept].mean(axis=1) - best) / (ours[:, kept].mean(axis=1) - best))

    ratio, error = jackknife(compare_means, results.runs)
    target = _target(results)
    enough = np.where(x <= HIGH_NOISE, target.at_high_noise, target.everywhere)
    return Claim(
        results.panel,
        f"excess objective at most 1/{target.everywhere:g} of Algorithm2's, 1/{target.at_high_noise:g} at "
        f"ε_N ≤ {HIGH_NOISE:g}",
        HOLDS if (ratio >= enough).all() else FAILS,
        ", ".join(f"1/{r:.0f} ± {e:.0f}" for r, e in zip(ratio, error, strict=True))
        + f" at ε_N = {x[0]:g} to {x[-1]:g}",
        {
            "epsilon": x,
            "ratio": ratio,
            "standard error": error,
            "excess": ours.mean(axis=1) - best,
            "excess of Algorithm2": theirs.mean(axis=1) - best,
        },
    )


def judge_accuracy(results: Results) -> Claim:
    """Test accuracy is near the optimum's, which has seen no noise."""
    x, runs = results.of("uneven", "accuracy")
    best = results.settings["optimum"]["accuracy"]
    mean, error = estimate_mean(runs)
    behind, error, points = 100.0 * (best - mean), 100.0 * error, _target(results).points
    return Claim(
        results.panel,
        f"test accuracy within {points:g} points of the optimum's without privacy",
        HOLDS if (behind <= points).all() else FAILS,
        f"behind {best:.2%} by {', '.join(f'{points:.2f}' for points in behind)} points (± {error[0]:.2f} to "
        f"{error[-1]:.2f}) at ε_N = {x[0]:g} to {x[-1]:g}",
        {"epsilon": x, "points behind": behind, "standard error": error, "optimum": best},
    )


def judge_noisy_source(results: Results) -> Claim:
    """Using the noisy source is never worse than dropping it, with the same mechanism and clipping."""
    statement = "never above clean only, with the same mechanism and clipping,"
    return _judge_never_above(results, "uneven", "uneven, clean only", statement, results.settings.get("varies", "ε_N"))


def judge_nothing(results: Results) -> Claim:
    """However noisy the sources, predicting nothing is never better."""
    x, ours, error = results.excess("uneven")
    best, steps = results.settings["optimum"], results.excess(STEPS_ALONE)[1]
    nothing = best["nothing"] - best["objective"]
    return Claim(
        results.panel,
        f"never above predicting nothing by more than {CONFIDENT:g} standard errors",
        FAILS if (ours > nothing + CONFIDENT * error).any() else HOLDS,
        f"excess {', '.join(f'{m:.4f} ± {e:.4f}' for m, e in zip(ours, error, strict=True))} at ε = "
        f"{_list_settings(results, x)}; predicting nothing {nothing:.4f}; steps alone "
        f"{', '.join(f'{m:.4f}' for m in steps)}",
        {"excess": ours, "standard error": error, "nothing": nothing, "steps alone": steps},
    )


def judge_log_loss(results: Results) -> Claim:
    """Rows that learn the length of the weights make probabilities no worse."""
    _, ours = results.of("uneven", "log_loss")
    mean, error = compare(ours, results.of(STEPS_ALONE, "log_loss")[1])
    return Claim(
        results.panel,
        f"log-loss on test rows never above that of steps alone by more than {CONFIDENT:g} standard errors",
        FAILS if (mean > CONFIDENT * error).any() else HOLDS,
        f"log-loss {', '.join(f'{m:.4f}' for m in ours.mean(axis=1))}; difference "
        + ", ".join(f"{m:+.4f} ± {e:.4f}" for m, e in zip(mean, error, strict=True)),
        {"log-loss": ours.mean(axis=1), "difference": mean, "standard error": error},
    )


def judge_sketch(results: Results) -> Claim:
    """Sketches of wide rows have a good accuracy where most rows are ten times noisier than the rest."""
    x, plain = results.of("uneven", "accuracy")
    sketched = [*SKETCHES, *(name for name, sketch in FITS.items() if sketch)]
    found = {name: estimate_mean(results.of(name, "accuracy")[1]) for name in sketched}
    said = "; ".join(f"{name.removeprefix('uneven, ')} {mean[0]:.2%} ± {e[0]:.2%}" for name, (mean, e) in found.items())
    reached = np.array([mean[0] for mean, _ in found.values()]) >= SKETCH_TARGET
    return Claim(
        results.panel,
        f"with a sketch, test accuracy at least {SKETCH_TARGET:.0%} at ε = {name_setting(results.kind, x[0])}",
        decide_everywhere(reached, ~reached),
        f"{said}; no sketch {plain.mean(axis=1)[0]:.2%}; the majority class "
        f"{results.settings['optimum']['majority']:.2%}",
        {"no sketch": plain.mean(axis=1), **{name: mean for name, (mean, _) in found.items()}},
    )


def judge_chosen_sketch(results: Results) -> Claim:
    """A sketch as wide as a fit chooses is never worse than none, in accuracy.

    Objectives are not comparable: ½λ‖w‖² of the folded-back weights counts directions that the sketch does not see.
    """
    x, ours = results.of(CHOSEN, "accuracy")
    mean, error = compare(ours, results.of("uneven", "accuracy")[1])
    return Claim(
        results.panel,
        f"with sketch='auto', test accuracy never below that of no sketch by more than {CONFIDENT:g} standard errors",
        FAILS if (mean < -CONFIDENT * error).any() else HOLDS,
        f"difference {_list_points(mean, error)} points at ε = {_list_settings(results, x)}",
        {"difference": mean, "standard error": error},
    )


def judge_sketched_source(results: Results) -> Claim:
    """With a sketch, using the noisy source is never worse than dropping it, in accuracy."""
    x, ours = results.of(CHOSEN, "accuracy")
    mean, error = compare(ours, results.of(CHOSEN_ALONE, "accuracy")[1])
    return Claim(
        results.panel,
        "with sketch='auto', test accuracy never below that of the clean source alone by more than "
        f"{CONFIDENT:g} standard errors",
        FAILS if (mean < -CONFIDENT * error).any() else HOLDS,
        f"difference {_list_points(mean, error)} points at ε = {_list_settings(results, x)}",
        {"difference": mean, "standard error": error},
    )


def judge_width(results: Results) -> Claim:
    """A sketch as wide as a fit chooses is nearly as good as the best of some stated widths, and none at all."""
    x, ours = results.of(CHOSEN, "accuracy")
    others = {name: results.of(name, "accuracy")[1] for name in ("uneven", *SKETCHES) if name != CHOSEN}
    best = [max(others, key=lambda name: others[name][i].mean()) for i in range(len(x))]
    mean, error = compare(ours, np.array([others[name][i] for i, name in enumerate(best)]))
    near = mean + NEAR + CONFIDENT * error >= 0.0
    named = ", ".join(name.removeprefix("uneven").removeprefix(", ") or "no sketch" for name in best)
    return Claim(
        results.panel,
        f"with sketch='auto', test accuracy at most {100 * NEAR:g} point below that of the best stated width, or "
        f"within {CONFIDENT:g} standard errors of that",
        decide_everywhere(near, ~near),
        f"difference {_list_points(mean, error)} points at ε = {_list_settings(results, x)}; the best were {named}",
        {"difference": mean, "standard error": error, "best": best},
    )


def _list_points(mean: Array, error: Array) -> str:
    return ", ".join(f"{100 * m:+.2f} ± {100 * e:.2f}" for m, e in zip(mean, error, strict=True))


def _list_settings(results: Results, x: Array) -> str:
    return ", ".join(name_setting(results.kind, one) for one in x)


def judge_more_sources(results: Results) -> Claim:
    """Each noisier source that is added leaves the result as good or better."""
    _, ours = results.of("uneven")
    mean, error = compare(ours[1:], ours[:-1])
    worse = mean > CONFIDENT * error
    return Claim(
        results.panel,
        "with more noisy sources the result never gets significantly worse",
        FAILS if worse.any() else HOLDS,
        "objective " + ", ".join(f"{m:.4f}" for m in ours.mean(axis=1)) + " with 1 to 4 sources",
        {"change": mean, "standard error": error},
    )


def judge_site(results: Results) -> Claim:
    """Noise once per batch, with the batch size that the plan chooses: the excess at each setting."""
    _, ours, error = results.excess(SITE)
    local, target = results.excess("uneven")[1], np.array(SITE_TARGETS[results.panel.rsplit("-", 1)[-1]])
    named = ", ".join(f"{clean:g} and {noisy:g}" for clean, noisy in SITE_EPSILONS)
    return Claim(
        results.panel,
        f"site privacy: excess objective at most {', '.join(f'{one:g}' for one in target)} at ε = {named}",
        HOLDS if (ours <= target).all() else FAILS,
        f"{', '.join(f'{m:.4f} ± {e:.4f}' for m, e in zip(ours, error, strict=True))}; local privacy at the same ε "
        f"{', '.join(f'{one:.4f}' for one in local)}",
        {"excess": ours, "standard error": error, "excess of local privacy": local, "target": target},
    )


def judge_class_accuracy(results: Results) -> Claim:
    """More than two classes: test accuracy at each ε."""
    x, runs = results.of("uneven", "accuracy")
    mean, error = estimate_mean(runs)
    target = CLASS_TARGETS.get(results.panel.rsplit("-", 1)[-1])
    majority, best = results.settings["optimum"]["majority"], results.settings["optimum"]["accuracy"]
    named = ", ".join(f"{one:g}" for one in x)
    asked = np.full(len(x), majority) if target is None else np.array(target)
    shown = "that of the majority class" if target is None else ", ".join(f"{one:.0%}" for one in target)
    return Claim(
        results.panel,
        f"test accuracy at least {shown} at ε = {named}",
        HOLDS if (mean >= asked).all() else FAILS,
        f"{', '.join(f'{m:.2%} ± {e:.2%}' for m, e in zip(mean, error, strict=True))}; the majority class "
        f"{majority:.2%}, the optimum without privacy {best:.2%}{_tell_areas(results)}",
        {"epsilon": x, "accuracy": mean, "standard error": error, "target": asked, "optimum": best},
    )


def _tell_areas(results: Results) -> str:
    """AUC beside accuracy, and that of the optimum; nothing where it was not measured."""
    if "auc" not in results.values:
        return ""
    found = ", ".join(f"{m:.4f} ± {e:.4f}" for m, e in zip(*estimate_mean(results.of("uneven", "auc")[1]), strict=True))
    return f"; AUC {found}, the optimum {results.settings['optimum']['auc']:.4f}"


def judge_one_vs_rest(results: Results) -> Claim:
    """More than two classes: one release of the softmax gradient beats K of one-vs-rest at ε/K."""
    x, ours = results.of("uneven", "accuracy")
    mean, error = compare(ours, results.of(ONE_VS_REST, "accuracy")[1])
    better, worse = mean > CONFIDENT * error, mean < -CONFIDENT * error
    return Claim(
        results.panel,
        "test accuracy above that of one-vs-rest at ε/K each",
        decide_everywhere(better, worse),
        f"by {', '.join(f'{100 * m:.1f} ± {100 * e:.1f}' for m, e in zip(mean, error, strict=True))} points at "
        f"ε = {', '.join(f'{one:g}' for one in x)}",
        {"epsilon": x, "difference": mean, "standard error": error},
    )


TARGETS_BY_PANEL: Judgements = {
    "beyond": (judge_excess, judge_accuracy, judge_noisy_source, judge_silence),
    "harder": (judge_noisy_source, judge_nothing, judge_log_loss),
    "wide": (judge_noisy_source, judge_sketched_source, judge_sketch, judge_chosen_sketch, judge_width),
    "sources": (judge_more_sources,),
    "site": (judge_site,),
    "classes": (judge_class_accuracy, judge_one_vs_rest, judge_nothing, judge_log_loss),
}
"""What is asked for, by kind of panel."""
