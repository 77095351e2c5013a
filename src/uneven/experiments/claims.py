"""The paper's claims, each with what was measured and a verdict, and how a verdict is reached.

Within a run all methods share permutations and noise, so methods are compared by their differences within runs: a
difference counts if its mean is more than `CONFIDENT` of its standard errors from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.experiments.panels import ALPHA
from uneven.experiments.results import Results, estimate_mean

Array = NDArray[np.float64]

CONFIDENT = 2.0
"""Standard errors that a difference must be from 0 to count."""

HOLDS, IN_PART, UNDECIDED, FAILS = "holds", "in part", "undecided", "fails"

SLIGHTLY = 0.1
"""Up to this share of the objective a lead counts as slight."""


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


Judgements = Mapping[str, tuple[Callable[[Results], Claim], ...]]

PAPER: Judgements = {
    "order": (judge_clean_first, judge_noisy_first, judge_arbitrary),
    "two-rates": (judge_two_rates, judge_lead, judge_clean_only),
    "vary-c2": (judge_second_rate, judge_interval),
}
"""What the paper says, by kind of panel."""


def judge(results: Results, statements: Judgements = PAPER) -> list[Claim]:
    """Judge every statement about a panel.

    Parameters
    ----------
    results : Results
        Measured runs of one panel.
    statements : dict, default=PAPER
        What to judge, by kind of panel.

    Returns
    -------
    list of Claim
        Empty for a kind of panel that has no statements.
    """
    kind = results.kind
    return [statement(results) for statement in statements.get(kind, ())]


def _join(values: Array) -> str:
    return ", ".join(f"{value:g}" for value in values) or "none"
