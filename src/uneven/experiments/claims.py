"""Claims, each with what was measured and a verdict: the paper's statements, and the targets beyond the paper.

Within a run all methods share permutations and noise, so methods are compared by their differences within runs: a
difference counts if its mean is more than `CONFIDENT` of its standard errors from 0. A target holds if what was
measured meets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uneven.experiments.panels import ALPHA, ONE_VS_REST, SITE, SITE_EPSILONS
from uneven.experiments.results import Results, estimate_mean

Array = NDArray[np.float64]

CONFIDENT = 2.0
"""Standard errors that a difference must be from 0 to count."""

HOLDS, IN_PART, UNDECIDED, FAILS = "holds", "in part", "undecided", "fails"

HIGH_NOISE = 3.0
"""Up to this ε_N the noisy source counts as very noisy."""


SLIGHTLY = 0.1
"""Up to this share of the objective a lead counts as slight."""


class Target(NamedTuple):
    """What is asked for on a data set: Algorithm 2's excess over ours, and points of accuracy below the optimum's."""

    everywhere: float
    at_high_noise: float
    points: float


CLASS_TARGETS = {"mnist": (0.40, 0.60, 0.65)}
"""Test accuracy that is asked for with more than two classes, at each of `CLASS_EPSILONS`."""

SITE_TARGETS = {"mnist": (0.0060, 0.0090, 0.045), "covertype": (0.0018, 0.0025, 0.020)}
"""Excess objective that is asked for with site privacy, at each of `SITE_EPSILONS`."""

TARGETS = {"mnist": Target(250.0, 500.0, 1.2), "covertype": Target(90.0, 180.0, 0.4)}


@dataclass(frozen=True)
class Claim:
    """One statement about one panel.

    Attributes
    ----------
    panel : str
    statement : str
    verdict : {"holds", "in part", "undecided", "fails"}
        Undecided: the difference could be chance, and more runs are needed.
    measured : str
        The numbers behind the verdict, in words.
    numbers : dict
        The same as plain values.
    """

    panel: str
    statement: str
    verdict: str
    measured: str
    numbers: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def compare(a: Array, b: Array) -> tuple[Array, Array]:
    """Mean over runs of a - b at each point, and its standard error; both of shape (points, runs).

    >>> mean, error = compare(np.array([[3.0, 5.0]]), np.array([[1.0, 1.0]]))
    >>> mean.tolist(), error.tolist()
    ([3.0], [1.0])
    """
    return estimate_mean(a - b)


def jackknife(statistic: Callable[[NDArray[np.bool_]], Array], runs: int) -> tuple[Array, Array]:
    """Statistic of all runs, and its standard error from leaving each out: it is given which runs to use.

    >>> values = np.array([1.0, 2.0, 3.0, 6.0])
    >>> mean, error = jackknife(lambda kept: values[kept].mean(), 4)
    >>> float(mean), round(float(error), 6), round(float(values.std(ddof=1)) / 2, 6)
    (3.0, 1.080123, 1.080123)
    """
    without = np.array([statistic(np.arange(runs) != run) for run in range(runs)])
    spread = ((without - without.mean(axis=0)) ** 2).sum(axis=0)
    return statistic(np.ones(runs, dtype=bool)), np.sqrt((runs - 1) / runs * spread)


def is_lower(a: Array, b: Array) -> NDArray[np.bool_]:
    """Where a is significantly below b."""
    mean, error = compare(a, b)
    return np.asarray(mean < -CONFIDENT * error)


def decide(for_it: Any, against_it: Any) -> str:
    """Verdict: holds if most points support it and none contradicts; fails if some contradict and none supports."""
    if np.any(for_it):
        return HOLDS if np.mean(for_it) > 0.5 and not np.any(against_it) else IN_PART
    return FAILS if np.any(against_it) else UNDECIDED


def decide_everywhere(for_it: Any, against_it: Any) -> str:
    """Verdict on what is said of every point: holds only if each supports it."""
    return HOLDS if np.all(for_it) else IN_PART if np.any(for_it) else decide(for_it, against_it)


def judge(results: Results) -> list[Claim]:
    """Judge every claim about a panel.

    Parameters
    ----------
    results : Results
        Measured runs of one panel.

    Returns
    -------
    list of Claim
        The paper's statements for a panel of the paper, else the targets; empty for an ablation.
    """
    kind = results.panel.rsplit("-", 1)[0]
    return [claim(results) for claim in CLAIMS.get(kind, ())]


def judge_clean_first(results: Results) -> Claim:
    """Order: for c < 1/λ the clean source should come first."""
    return _judge_order(results, "CleanFirst", "NoisyFirst", lambda c: c < 0.99 / ALPHA, "c < 1/λ")


def judge_noisy_first(results: Results) -> Claim:
    """Order: for c > 1/λ the noisy source should come first."""
    return _judge_order(results, "NoisyFirst", "CleanFirst", lambda c: c > 1.01 / ALPHA, "c > 1/λ")


def _judge_order(
    results: Results, best: str, other: str, where: Callable[[Array], NDArray[np.bool_]], said: str
) -> Claim:
    c, ours = results.gap(best)
    theirs, mixed = results.gap(other)[1], results.gap("Arbitrary")[1]
    at = where(c)
    better = is_lower(ours[at], theirs[at]) & is_lower(ours[at], mixed[at])
    worse = is_lower(theirs[at], ours[at]) | is_lower(mixed[at], ours[at])
    ratio = theirs[at].mean(axis=1) / ours[at].mean(axis=1)
    return Claim(
        results.panel,
        f"{best} is best for {said}",
        decide(better, worse),
        f"below both others at {better.sum()} of {at.sum()} values of c, beaten at {worse.sum()}; "
        f"{other} is {ratio.min():.3g} to {ratio.max():.3g} times as far from its twin",
        {"c": c[at], "better": better, "beaten": worse, "ratio": ratio},
    )


def judge_arbitrary(results: Results) -> Claim:
    """Order: with a tenth of the rows clean, shuffling is nearly NoisyFirst."""
    c, mixed = results.gap("Arbitrary")
    noisy, clean = (results.gap(method)[1] for method in ("NoisyFirst", "CleanFirst"))

    def measure_nearness(left: NDArray[np.bool_]) -> Array:
        means = [np.log(runs[:, left].mean(axis=1)) for runs in (mixed, noisy, clean)]
        return np.asarray(np.abs(means[0] - means[1]) - np.abs(means[0] - means[2]))

    nearer, error = jackknife(measure_nearness, results.runs)
    off_centre, below = np.abs(np.log(c * ALPHA)) > 0.01, c < 0.99 / ALPHA
    for_it, against = (nearer < -CONFIDENT * error)[off_centre], (nearer > CONFIDENT * error)[off_centre]
    ratio = np.exp(np.abs(np.log(mixed.mean(axis=1) / noisy.mean(axis=1))))
    return Claim(
        results.panel,
        "Arbitrary is close to NoisyFirst for a range of c",
        decide(for_it, against),
        f"within {ratio[below].max() - 1:.0%} of NoisyFirst for c < 1/λ, but up to {ratio.max():.3g} times as far from "
        f"its twin above; nearer to NoisyFirst than to CleanFirst at {for_it.sum()} of {off_centre.sum()} values of c, "
        f"nearer to CleanFirst at {against.sum()}",
        {"c": c[off_centre], "nearer": for_it, "farther": against, "factor": ratio[off_centre]},
    )


def judge_two_rates(results: Results) -> Claim:
    """Two rates: Algorithm 2 is below SameClean and SameNoisy at every ε_N (at ε_N = 10 all three are the same)."""
    x, ours = results.of("Algorithm2")
    same = {method: results.of(method)[1] for method in ("SameClean", "SameNoisy")}
    uneven = x < 9.99
    better = np.all([is_lower(ours, runs) for runs in same.values()], axis=0)[uneven]
    beaten = np.any([is_lower(runs, ours) for runs in same.values()], axis=0)[uneven]
    leads = {method: (runs.mean(axis=1) - ours.mean(axis=1)) for method, runs in same.items()}
    return Claim(
        results.panel,
        "Algorithm2 is below SameClean and SameNoisy at every ε_N",
        decide_everywhere(better, beaten),
        f"below both at {better.sum()} of {uneven.sum()} values of ε_N under 10, beaten by one at {beaten.sum()}"
        + (f"; too close to tell at ε_N = {_join(x[uneven][~better & ~beaten])}" if not better.all() else "")
        + "; its lead at ε_N = 1 is "
        + " and ".join(f"{lead[0]:.3g} over {method}" for method, lead in leads.items()),
        {"epsilon": x, "better": better, "beaten": beaten, **{f"lead over {m}": v for m, v in leads.items()}},
    )


def judge_lead(results: Results) -> Claim:
    """Two rates: the lead over the better of the two shrinks as ε_N grows."""
    x, ours = results.of("Algorithm2")
    same = np.array([results.of(method)[1] for method in ("SameClean", "SameNoisy")])
    better = same.mean(axis=2).argmin(axis=0)
    runs = same[better, np.arange(len(x))] - ours  # of the lead, at each ε_N
    change, error = compare(runs[1:], runs[:-1])
    grows, lead = change > CONFIDENT * error, runs.mean(axis=1)
    whole, its_error = compare(runs[-1:], runs[:1])
    return Claim(
        results.panel,
        "Its lead shrinks as ε_N grows",
        decide(whole < -CONFIDENT * its_error, grows),
        f"over the better of the two: {lead[0]:.3g} at ε_N = 1, {lead[4]:.3g} at 5, {lead[-1]:.3g} at 10; it grows at "
        f"{grows.sum()} of {len(grows)} steps",
        {"epsilon": x, "lead": lead, "grows": grows},
    )


def judge_clean_only(results: Results) -> Claim:
    """Two rates: CleanOnly is slightly ahead of Algorithm 2 where the noisy source is very noisy, and only there."""
    x, ours = results.of("Algorithm2")
    alone = results.of("CleanOnly")[1]
    ahead, behind = is_lower(alone, ours), is_lower(ours, alone)
    first = int(np.argmax(behind)) if behind.any() else len(x)
    lead = 1.0 - alone.mean() / ours.mean(axis=1)
    slight = lead[ahead] <= SLIGHTLY
    holds = ahead.any() and behind.any() and not ahead[first:].any() and slight.all()
    by = f", by {lead[ahead].max():.0%} of the objective at most" if ahead.any() else ""
    return Claim(
        results.panel,
        "CleanOnly is slightly ahead of Algorithm2 at low ε_N, and only there",
        IN_PART if behind.any() and not holds else decide(behind.any(), ahead & ~behind.any()),
        f"CleanOnly ({alone.mean():.4g}) ahead at ε_N = {_join(x[ahead])}{by}; Algorithm2 ahead at {_join(x[behind])} "
        f"({ours[0].mean():.4g} at ε_N = 1, {ours[-1].mean():.4g} at 10)",
        {"epsilon": x, "CleanOnly ahead": ahead, "Algorithm2 ahead": behind, "CleanOnly": alone.mean(), "lead": lead},
    )


def judge_second_rate(results: Results) -> Claim:
    """Vary c₂: chosen on half of the runs, the best c₂ is compared with CleanOnly on the other half."""
    c, ours = results.of("TwoRates")
    alone = results.of("CleanOnly")[1]
    half = results.runs // 2
    best = int(np.argmin(ours[:, :half].mean(axis=1)))
    mean, error = compare(ours[best : best + 1, half:], alone[:, half:])
    return Claim(
        results.panel,
        "Some c₂ beats CleanOnly: noisy data helps",
        decide(mean < -CONFIDENT * error, mean > CONFIDENT * error),
        f"at c₂ = {c[best]:.4g} the objective is {ours[best, half:].mean():.4g} against {alone[:, half:].mean():.4g}: "
        f"a difference of {mean[0]:.3g} ± {error[0]:.2g}",
        {"c2": c[best], "difference": mean[0], "standard error": error[0]},
    )


def judge_interval(results: Results) -> Claim:
    """Vary c₂: the best c₂ lies between c₂(L) and c₂(U)."""
    c, ours = results.of("TwoRates")
    low, high = sorted(results.settings["marks"].values())
    best = int(np.argmin(ours.mean(axis=1)))
    as_good = ~is_lower(ours[best], ours)
    inside = (c >= low * 0.999) & (c <= high * 1.001)
    held = decide((as_good & inside).any(), (as_good & ~inside).any())
    held = UNDECIDED if held == IN_PART else held  # as good a rate inside as outside
    mean, error = compare(ours[inside][[np.argmin(ours[inside].mean(axis=1))]], ours[best])
    return Claim(
        results.panel,
        "The best c₂ lies between c₂(L) and c₂(U)",
        held,
        f"best at c₂ = {c[best]:.4g}, as good from {c[as_good].min():.4g} to {c[as_good].max():.4g}; the interval is "
        f"[{low:.4g}, {high:.4g}]"
        + ("" if inside[best] else f", the best in it {mean[0]:.2g} ± {error[0]:.1g} above the best of all"),
        {
            "c2": c[best],
            "as good": [c[as_good].min(), c[as_good].max()],
            "interval": [low, high],
            "best inside, above the best of all": mean[0],
        },
    )


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
        + f" at {varies} = {', '.join(f'{one:g}' for one in x)}",
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
    return _judge_never_above(results, "uneven", "uneven, clean only", statement, "ε_N")


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
    """Noise once a batch, with the batch size that the plan chooses: the excess at each setting."""
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
        f"{majority:.2%}, the optimum without privacy {best:.2%}",
        {"epsilon": x, "accuracy": mean, "standard error": error, "target": asked, "optimum": best},
    )


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


CLAIMS: dict[str, tuple[Callable[[Results], Claim], ...]] = {
    "order": (judge_clean_first, judge_noisy_first, judge_arbitrary),
    "two-rates": (judge_two_rates, judge_lead, judge_clean_only),
    "vary-c2": (judge_second_rate, judge_interval),
    "beyond": (judge_excess, judge_accuracy, judge_noisy_source, judge_silence),
    "harder": (judge_noisy_source,),
    "wide": (judge_noisy_source,),
    "sources": (judge_more_sources,),
    "site": (judge_site,),
    "classes": (judge_class_accuracy, judge_one_vs_rest),
}
"""What is judged, by kind of panel."""


def _join(values: Array) -> str:
    return ", ".join(f"{value:g}" for value in values) or "none"
