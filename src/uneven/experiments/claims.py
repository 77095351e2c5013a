"""The paper's statements, each with what was measured and a verdict from the runs' own standard errors.

Within a run all methods share permutations and noise, so methods are compared by their differences within runs: a
difference counts if its mean is more than `CONFIDENT` of its standard errors from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.experiments.panel import ALPHA
from uneven.experiments.results import Results

Array = NDArray[np.float64]

CONFIDENT = 2.0
"""Standard errors that a difference must be from 0 to count."""

HOLDS, IN_PART, UNDECIDED, FAILS = "holds", "in part", "undecided", "fails"


@dataclass(frozen=True)
class Claim:
    """One statement of the paper about one panel.

    Attributes
    ----------
    panel : str
    statement : str
    verdict : {"holds", "in part", "undecided", "fails"}
        Undecided: the difference could be chance; more runs would tell.
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


def differences(a: Array, b: Array) -> tuple[Array, Array]:
    """Mean over runs of a - b at each point, and its standard error; both of shape (points, runs).

    >>> mean, error = differences(np.array([[3.0, 5.0]]), np.array([[1.0, 1.0]]))
    >>> mean.tolist(), error.tolist()
    ([3.0], [1.0])
    """
    difference = np.broadcast_to(a, np.broadcast_shapes(a.shape, b.shape)) - b
    runs = difference.shape[1]
    return difference.mean(axis=1), difference.std(axis=1, ddof=1) / np.sqrt(runs)


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


def lower(a: Array, b: Array) -> NDArray[np.bool_]:
    """Where a is below b by more than chance would have it."""
    mean, error = differences(a, b)
    return np.asarray(mean < -CONFIDENT * error)


def verdict(for_it: Any, against_it: Any) -> str:
    """Holds if most points speak for it and none against it; fails if some speak against it and none for it."""
    if np.any(for_it):
        return HOLDS if np.mean(for_it) > 0.5 and not np.any(against_it) else IN_PART
    return FAILS if np.any(against_it) else UNDECIDED


def _sign(mean: float, error: float) -> str:
    """Whether a difference is below 0."""
    return verdict(mean < -CONFIDENT * error, mean > CONFIDENT * error)


def judged(results: Results) -> list[Claim]:
    """Every statement of the paper that this panel is about."""
    kind = results.panel.rsplit("-", 1)[0]
    return [claim(results) for claim in CLAIMS[kind]]


def clean_first_is_best_below(results: Results) -> Claim:
    """Order: for c < 1/λ the clean source should come first."""
    return _order_claim(results, "CleanFirst", "NoisyFirst", lambda c: c < 0.99 / ALPHA, "c < 1/λ")


def noisy_first_is_best_above(results: Results) -> Claim:
    """Order: for c > 1/λ the noisy source should come first."""
    return _order_claim(results, "NoisyFirst", "CleanFirst", lambda c: c > 1.01 / ALPHA, "c > 1/λ")


def _order_claim(
    results: Results, best: str, other: str, where: Callable[[Array], NDArray[np.bool_]], said: str
) -> Claim:
    c, ours = results.gap(best)
    theirs, mixed = results.gap(other)[1], results.gap("Arbitrary")[1]
    at = where(c)
    better = lower(ours[at], theirs[at]) & lower(ours[at], mixed[at])
    worse = lower(theirs[at], ours[at]) | lower(mixed[at], ours[at])
    ratio = theirs[at].mean(axis=1) / ours[at].mean(axis=1)
    return Claim(
        results.panel,
        f"{best} is best for {said}",
        verdict(better, worse),
        f"below both others at {better.sum()} of {at.sum()} values of c, beaten at {worse.sum()}; "
        f"{other} is {ratio.min():.3g} to {ratio.max():.3g} times as far from its twin",
        {"c": c[at], "better": better, "beaten": worse, "ratio": ratio},
    )


def arbitrary_is_near_noisy_first(results: Results) -> Claim:
    """Order: with a tenth of the rows clean, shuffling is nearly NoisyFirst."""
    c, mixed = results.gap("Arbitrary")
    noisy, clean = (results.gap(method)[1] for method in ("NoisyFirst", "CleanFirst"))

    def how_much_nearer(left: NDArray[np.bool_]) -> Array:
        means = [np.log(runs[:, left].mean(axis=1)) for runs in (mixed, noisy, clean)]
        return np.asarray(np.abs(means[0] - means[1]) - np.abs(means[0] - means[2]))

    nearer, error = jackknife(how_much_nearer, results.runs)
    off_centre, below = np.abs(np.log(c * ALPHA)) > 0.01, c < 0.99 / ALPHA
    for_it, against = (nearer < -CONFIDENT * error)[off_centre], (nearer > CONFIDENT * error)[off_centre]
    ratio = np.exp(np.abs(np.log(mixed.mean(axis=1) / noisy.mean(axis=1))))
    return Claim(
        results.panel,
        "Arbitrary is close to NoisyFirst for a range of c",
        verdict(for_it, against),
        f"within {ratio[below].max() - 1:.0%} of NoisyFirst for c < 1/λ, but up to {ratio.max():.3g} times as far from "
        f"its twin above; nearer to NoisyFirst than to CleanFirst at {for_it.sum()} of {off_centre.sum()} values of c, "
        f"nearer to CleanFirst at {against.sum()}",
        {"c": c[off_centre], "nearer": for_it, "farther": against, "factor": ratio[off_centre]},
    )


def two_rates_beat_one(results: Results) -> Claim:
    """Two rates: Algorithm 2 is below SameClean and SameNoisy at every ε_N (at ε_N = 10 all three are the same)."""
    x, ours = results.of("Algorithm2")
    same = {method: results.of(method)[1] for method in ("SameClean", "SameNoisy")}
    uneven = x < 9.99
    better = np.all([lower(ours, runs) for runs in same.values()], axis=0)[uneven]
    beaten = np.any([lower(runs, ours) for runs in same.values()], axis=0)[uneven]
    leads = {method: (runs.mean(axis=1) - ours.mean(axis=1)) for method, runs in same.items()}
    return Claim(
        results.panel,
        "Algorithm2 is below SameClean and SameNoisy at every ε_N",
        verdict(better, beaten),
        f"below both at {better.sum()} of {uneven.sum()} values of ε_N under 10, beaten by one at {beaten.sum()}"
        + (f"; too close to tell at ε_N = {_listed(x[uneven][~better & ~beaten])}" if not better.all() else "")
        + "; its lead at ε_N = 1 is "
        + " and ".join(f"{lead[0]:.3g} over {method}" for method, lead in leads.items()),
        {"epsilon": x, "better": better, "beaten": beaten, **{f"lead over {m}": v for m, v in leads.items()}},
    )


def the_lead_shrinks(results: Results) -> Claim:
    """Two rates: the lead over the better of the two shrinks as ε_N grows."""
    x, ours = results.of("Algorithm2")
    same = np.array([results.of(method)[1] for method in ("SameClean", "SameNoisy")])
    better = same.mean(axis=2).argmin(axis=0)
    runs = same[better, np.arange(len(x))] - ours  # of the lead, at each ε_N
    change, error = differences(runs[1:], runs[:-1])
    grows, lead = change > CONFIDENT * error, runs.mean(axis=1)
    whole, its_error = differences(runs[-1:], runs[:1])
    return Claim(
        results.panel,
        "Its lead shrinks as ε_N grows",
        verdict(whole < -CONFIDENT * its_error, grows),
        f"over the better of the two: {lead[0]:.3g} at ε_N = 1, {lead[4]:.3g} at 5, {lead[-1]:.3g} at 10; it grows at "
        f"{grows.sum()} of {len(grows)} steps",
        {"epsilon": x, "lead": lead, "grows": grows},
    )


def clean_only_leads_at_low_epsilon(results: Results) -> Claim:
    """Two rates: CleanOnly is ahead of Algorithm 2 only where the noisy source is very noisy."""
    x, ours = results.of("Algorithm2")
    alone = results.of("CleanOnly")[1]
    ahead, behind = lower(np.broadcast_to(alone, ours.shape), ours), lower(ours, alone)
    first = int(np.argmax(behind)) if behind.any() else len(x)
    holds = ahead.any() and behind.any() and not ahead[first:].any()
    return Claim(
        results.panel,
        "CleanOnly is ahead of Algorithm2 only at low ε_N",
        IN_PART if behind.any() and not holds else verdict(behind.any(), ahead & ~behind.any()),
        f"CleanOnly ({alone.mean():.4g}) ahead at ε_N = {_listed(x[ahead])}; Algorithm2 ahead at {_listed(x[behind])} "
        f"({ours[0].mean():.4g} at ε_N = 1, {ours[-1].mean():.4g} at 10)",
        {"epsilon": x, "CleanOnly ahead": ahead, "Algorithm2 ahead": behind, "CleanOnly": alone.mean()},
    )


def some_second_rate_beats_clean_only(results: Results) -> Claim:
    """Vary c₂: chosen on half of the runs, the best c₂ is compared with CleanOnly on the other half."""
    c, ours = results.of("TwoRates")
    alone = results.of("CleanOnly")[1]
    half = results.runs // 2
    best = int(np.argmin(ours[:, :half].mean(axis=1)))
    mean, error = differences(ours[best : best + 1, half:], alone[:, half:])
    return Claim(
        results.panel,
        "Some c₂ beats CleanOnly: noisy data helps",
        _sign(mean[0], error[0]),
        f"at c₂ = {c[best]:.4g} the objective is {ours[best, half:].mean():.4g} against {alone[:, half:].mean():.4g}: "
        f"a difference of {mean[0]:.3g} ± {error[0]:.2g}",
        {"c2": c[best], "difference": mean[0], "standard error": error[0]},
    )


def best_second_rate_is_in_the_interval(results: Results) -> Claim:
    """Vary c₂: the best c₂ lies between c₂(L) and c₂(U)."""
    c, ours = results.of("TwoRates")
    low, high = sorted(results.settings["marks"].values())
    best = int(np.argmin(ours.mean(axis=1)))
    as_good = ~lower(np.broadcast_to(ours[best], ours.shape), ours)
    inside = (c >= low * 0.999) & (c <= high * 1.001)
    held = verdict((as_good & inside).any(), (as_good & ~inside).any())
    held = UNDECIDED if held == IN_PART else held  # as good a rate inside as outside
    mean, error = differences(ours[inside][[np.argmin(ours[inside].mean(axis=1))]], ours[best])
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


CLAIMS: dict[str, tuple[Callable[[Results], Claim], ...]] = {
    "order": (clean_first_is_best_below, noisy_first_is_best_above, arbitrary_is_near_noisy_first),
    "two-rates": (two_rates_beat_one, the_lead_shrinks, clean_only_leads_at_low_epsilon),
    "vary-c2": (some_second_rate_beats_clean_only, best_second_rate_is_in_the_interval),
}


def _listed(values: Array) -> str:
    return ", ".join(f"{value:g}" for value in values) or "none"
