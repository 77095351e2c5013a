"""Verdicts: made-up runs in which a claim is true, false, true in part or beyond telling."""

import math

import numpy as np
import pytest
from scipy import stats

from uneven.experiments import claims, targets
from uneven.experiments.claims import FAILS, HOLDS, IN_PART, UNDECIDED
from uneven.experiments.figures import draw_paper
from uneven.experiments.panels import EPSILONS, RATES
from uneven.experiments.results import Results, estimate_mean, format_mean

RUNS = 40


def made_up(panel, means, spread=0.01, twin=False, marks=None):
    """Runs whose means are as given; the same seed for all methods, as in a sweep."""
    rng = np.random.default_rng(0)
    objective = {key: mean + spread * rng.normal(size=RUNS) for key, mean in means.items()}
    values = {"objective": objective}
    if twin:
        values["twin_objective"] = {key: np.zeros(RUNS) for key in means}
    return Results(panel, {"marks": marks or {}}, values)


def order_panel(clean, noisy, mixed, **options):
    means = {}
    for method, mean in [("CleanFirst", clean), ("NoisyFirst", noisy), ("Arbitrary", mixed)]:
        means |= {(method, c): mean(c * 1e-3) for c in RATES}
    return made_up("order-mnist", means, twin=True, **options)


@pytest.mark.parametrize(
    ("clean", "noisy", "mixed", "verdicts"),
    [
        (lambda x: x, lambda x: 1 / x, lambda x: 1.1 / x, [HOLDS, HOLDS, HOLDS]),
        (lambda x: 1 / x, lambda x: x, lambda x: 1.1 / x, [FAILS, FAILS, FAILS]),
        (lambda x: x, lambda x: 1 / x, lambda x: max(x, 1 / x), [HOLDS, HOLDS, IN_PART]),
        (lambda x: x if x < 0.5 else 3, lambda x: 1 / x, lambda x: 2 / x, [IN_PART, HOLDS, IN_PART]),
    ],
)
def test_order(clean, noisy, mixed, verdicts):
    assert [claim.verdict for claim in claims.judge(order_panel(clean, noisy, mixed))] == verdicts


def test_nothing_is_claimed_from_noise():
    """Methods and rates that do not differ: nothing holds, and nothing fails."""
    same = order_panel(lambda _: 1.0, lambda _: 1.0, lambda _: 1.0, spread=0.5)
    assert HOLDS not in {claim.verdict for claim in claims.judge(same)}
    level = two_rates_panel(lambda _: 1.0, lambda _: 1.0, lambda _: 1.0, 1.0)
    assert claims.judge(level)[0].verdict in (UNDECIDED, IN_PART)
    assert HOLDS not in {claim.verdict for claim in claims.judge(level)}
    assert [claim.verdict for claim in claims.judge(vary_panel(lambda _: 1.0, 1.0))] == [UNDECIDED, UNDECIDED]


def two_rates_panel(ours, clean, noisy, alone, **options):
    means = {("CleanOnly", math.nan): alone, ("Optimal", math.nan): 0.5}
    for method, mean in [("Algorithm2", ours), ("SameClean", clean), ("SameNoisy", noisy)]:
        means |= {(method, e): mean(e) for e in EPSILONS}
    return made_up("two-rates-mnist", means, **options)


@pytest.mark.parametrize(
    ("ours", "clean", "alone", "verdicts"),
    [
        (lambda e: 10 / e, lambda e: 20 / e - 0.9, 9.5, [HOLDS, HOLDS, HOLDS]),
        (lambda e: 10 / e, lambda e: 20 / e - 0.9, 4.0, [HOLDS, HOLDS, IN_PART]),  # ahead by more than slightly
        (lambda e: 10 / e, lambda e: 10 / e + (1 if e < 8 else 0), 9.5, [IN_PART, HOLDS, HOLDS]),  # not at every ε_N
        (lambda e: 10 / e, lambda e: 9 / e, 9.5, [FAILS, FAILS, HOLDS]),
        (lambda e: 10 / e, lambda e: 10 / e + (1 if e < 5 else -0.5), 0.1, [IN_PART, HOLDS, FAILS]),
        (lambda e: 10 / e, lambda e: 10 / e + e, 20.0, [HOLDS, FAILS, IN_PART]),
    ],
)
def test_two_rates(ours, clean, alone, verdicts):
    results = two_rates_panel(ours, clean, lambda e: 100 / e, alone)
    assert [claim.verdict for claim in claims.judge(results)] == verdicts


def vary_panel(mean, alone, **options):
    means = {("TwoRates", c): mean(math.log10(c)) for c in np.geomspace(1, 1e4, 17)}
    means[("CleanOnly", math.nan)] = alone
    return made_up("vary-c2-mnist", means, marks={"c₂(L)": 1000.0, "c₂(U)": 100.0}, **options)


@pytest.mark.parametrize(
    ("best", "alone", "spread", "verdicts"),
    [
        (2.5, 1.5, 0.01, [HOLDS, HOLDS]),
        (3.0, 1.5, 0.01, [HOLDS, HOLDS]),
        (1.0, 0.5, 0.01, [FAILS, FAILS]),
        (1.5, 1.02, 3.0, [UNDECIDED, UNDECIDED]),
    ],
)
def test_vary_c2(best, alone, spread, verdicts):
    results = vary_panel(lambda log_c: 1 + (log_c - best) ** 2, alone, spread=spread)
    assert [claim.verdict for claim in claims.judge(results)] == verdicts


def test_standard_errors_are_the_spread_over_the_root_of_the_runs():
    """Against scipy's, wherever one is shown; and n means of 16 runs spread by what 16 runs say."""
    rng = np.random.default_rng(2)
    runs = rng.normal(size=(400, 16))
    mean, error = estimate_mean(runs)
    np.testing.assert_allclose(error, stats.sem(runs, axis=1), rtol=1e-12)
    spread = mean.std(ddof=1)  # of 400 means, known to 1/√800
    assert math.sqrt((error**2).mean()) == pytest.approx(spread, rel=4 * math.sqrt(1 / 800 + 1 / 12_000))
    assert format_mean(runs[0]) == f"{runs[0].mean():.3f} ± {stats.sem(runs[0]):.3f}"
    settings = {"optimum": {"objective": 0.5, "accuracy": 0.9}}
    results = Results("beyond-x", settings, {key: {("uneven", 1.0): runs[0]} for key in ("objective", "accuracy")})
    assert results.excess("uneven")[2] == pytest.approx(stats.sem(runs[0]))
    assert targets.judge_accuracy(results).numbers["standard error"] == pytest.approx(100 * stats.sem(runs[0]))


def test_figures_show_one_standard_error():
    results = two_rates_panel(lambda e: 10 / e, lambda e: 20 / e, lambda e: 100 / e, 4.0)
    axes = draw_paper({"two-rates-mnist": results}).axes[0]
    for method, container in zip(("Algorithm2", "SameClean", "SameNoisy"), axes.containers, strict=True):
        _, runs = results.of(method)
        segments = np.array(container.lines[2][0].get_segments())  # from mean - error to mean + error
        np.testing.assert_allclose(np.diff(segments[:, :, 1], axis=1)[:, 0], 2 * stats.sem(runs, axis=1), rtol=1e-9)


def test_differences_are_within_runs():
    """What both share cancels: a difference of 1 stands out of runs that spread by 1,000."""
    shared = 1_000 * np.random.default_rng(0).normal(size=(1, RUNS))
    noise = 0.1 * np.random.default_rng(1).normal(size=(1, RUNS))
    mean, error = claims.compare(shared + noise, shared + 1.0)
    assert mean[0] == pytest.approx(-1, abs=4 * error[0])
    assert error[0] == pytest.approx(0.1 / math.sqrt(RUNS), rel=4 / math.sqrt(2 * RUNS))
    assert claims.is_lower(shared + noise, shared + 1.0).all()
