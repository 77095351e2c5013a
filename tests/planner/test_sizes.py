"""Batch sizes of sites: the least predicted excess, a number where one is given, and both promises side by side."""

import itertools
import json

import numpy as np
import pytest
from scipy import stats

import uneven
from uneven.planner import Plan, make_plan
from uneven.planner.prediction import predict_excess
from uneven.planner.sizes import LARGEST

PAPER = ("two-rates", "same-rate-clean-first", "same-rate-noisy-first", "clean-only", "arbitrary")


def sites(epsilons=(10.0, 1.0), rows=(6_000, 54_000)):
    pairs = zip(("clean", "noisy"), rows, epsilons, strict=True)
    return [uneven.Source(name, n, uneven.SitePrivacy(epsilon)) for name, n, epsilon in pairs]


@pytest.mark.parametrize("strategy", ["precision", "averaged"])
@pytest.mark.parametrize("epsilons", [(10.0, 1.0), (1.0, 1.0), (1.0, 0.1)])
def test_no_pair_on_a_grid_is_predicted_to_be_better(epsilons, strategy):
    """2% apart at most: the grid's steps are of 26%, and the search stops where 10% more or less does not help."""
    plan = uneven.plan(sites(epsilons), 25, clip=0.5, strategy=strategy)
    grid = np.unique(np.geomspace(1, 6_000, 39).round().astype(int))

    def score(sizes):
        planned = make_plan(plan.sources, plan.problem, strategy, plan.moments, sizes)
        return planned.bound if planned.predicted_excess is None else planned.predicted_excess

    least = min(score({"clean": a, "noisy": b}) for a, b in itertools.product(grid.tolist(), (9 * grid).tolist()))
    assert score(plan.batch_sizes) <= 1.02 * least


def test_large_sites_have_large_batches():
    """A million rows: as good as the best size up to the largest that is tried, which is far above 2,048."""
    plan = uneven.plan([uneven.Source("a", 10**6, uneven.SitePrivacy(0.1))], 54, clip=0.5)
    grid = np.unique(np.geomspace(1, LARGEST, 60).round().astype(int))
    least = min(make_plan(plan.sources, plan.problem, sizes={"a": size}).predicted_excess for size in grid.tolist())
    assert plan.predicted_excess <= 1.02 * least
    assert 2_048 < plan.batch_sizes["a"] <= LARGEST


@pytest.mark.parametrize("alpha", [1e-3, 1e-2])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_size_loses_little_on_any_curvature_and_penalty(alpha, epsilon):
    """Step by step on quadratics with a given gradient at 0, ‖g‖² = c·log 2: at most twice the best of 20 sizes."""
    n, d = 20_000, 54
    chosen = uneven.plan([uneven.Source("a", n, uneven.SitePrivacy(epsilon))], d, alpha, clip=0.5)
    sizes = np.geomspace(20, n, 20).round().astype(int).tolist()
    plans = [chosen, *(make_plan(chosen.sources, chosen.problem, sizes={"a": size}) for size in sizes)]
    for c in (0.25 / d / 16, 0.25 / d / 4, 0.25 / d):
        h, found = alpha + c, []
        for plan in plans:
            error = np.log(2) * c / h**2
            for eta, moment in zip(plan.step_sizes(), plan.step_moments(), strict=True):
                error = (1 - h * eta) ** 2 * error + eta**2 * moment
            found.append(h / 2 * error)
        assert found[0] < 2.0 * min(found[1:])
        assert found[0] < 1.1 * h / 2 * np.log(2) * c / h**2  # of predicting nothing


def test_predicted_excess_is_the_recursion_of_typical_objectives():
    """E ← (1 - 2hη)E + η²σ² step by step, from ‖g‖²/h² with ‖g‖² = c·log 2; the closed form leaves out terms of order
    1/T."""
    plan = uneven.plan(sites((1.0, 1.0), (60_000, 540_000)), 25, clip=0.5, batch_size=300)
    found = []
    for c in (0.25 / 25 / 16, 0.25 / 25 / 4, 0.25 / 25):
        h, error = 1e-3 + c, np.log(2) * c / (1e-3 + c) ** 2
        for eta, moment in zip(plan.step_sizes(), plan.step_moments(), strict=True):
            error = (1 - 2 * h * eta) * error + eta**2 * moment
        found.append(h / 2 * error)
    assert predict_excess(plan.problem, plan.segments) == pytest.approx(stats.gmean(found), rel=0.05)


def test_a_number_means_that_number_and_the_papers_strategies_keep_one():
    assert uneven.plan(sites(), 25, batch_size=70).batch_sizes == {"clean": 70, "noisy": 70}
    for strategy in PAPER:
        assert set(uneven.plan(sites(), 25, strategy=strategy).batch_sizes.values()) == {50}
    private = [uneven.Source("a", 9_000, uneven.LocalPrivacy(1.0)), uneven.Source("b", 900)]
    assert uneven.plan(private, 25) == uneven.plan(private, 25, batch_size=50)
    with pytest.raises(ValueError, match="batch_size must be 'auto' or a whole number of at least 1, got 'all'"):
        uneven.plan(sites(), 25, batch_size="all")


def test_size_grows_with_the_noise_and_steps_are_equally_noisy():
    chosen = [uneven.plan(sites((e, e)), 25, clip=0.5).batch_sizes["noisy"] for e in (10.0, 1.0, 0.1)]
    assert chosen == sorted(chosen)
    assert chosen[0] < chosen[1] < chosen[2]
    plan = uneven.plan(sites((1.0, 0.1)), 25, clip=0.5)
    clean, noisy = (segment.step_moment for segment in plan.segments)
    assert clean == pytest.approx(noisy, rel=0.15)


def test_other_kinds_of_sources_keep_theirs():
    mixed = [*sites(), uneven.Source("local", 9_000, uneven.LocalPrivacy(1.0)), uneven.Source("flips", 900)]
    sizes = uneven.plan(mixed, 25, clip=0.5).batch_sizes
    assert sizes["local"] == sizes["flips"] == 50
    assert sizes["noisy"] > 100


def test_round_trip_keeps_the_sizes():
    plan = uneven.plan(sites(), 25, clip=0.5)
    values = json.loads(json.dumps(plan.to_dict()))
    assert Plan.from_dict(values) == plan
    values["segments"][0]["batch_size"] += 1
    with pytest.raises(ValueError, match="of a plan must follow from"):
        Plan.from_dict(values)


def test_summary_shows_other_sizes_and_the_other_promise():
    plan = uneven.plan(sites(), 25, clip=0.5)
    shown = plan.other_sizes()["noisy"]
    assert min(shown, key=shown.get) == plan.batch_sizes["noisy"]
    other = plan.other_promises()["noisy"]
    assert (other.kind, other.now) == ("local-privacy", plan.predicted_excess)
    swapped = [uneven.Source("clean", 6_000, uneven.SitePrivacy(10.0))]
    swapped += [uneven.Source("noisy", 54_000, uneven.LocalPrivacy(1.0))]
    again = make_plan(swapped, plan.problem, sizes={"clean": plan.batch_sizes["clean"]})
    assert other.then == pytest.approx(again.predicted_excess)
    assert other.then > 2 * other.now
    text = " ".join(plan.summary().split())
    for size, excess in shown.items():
        assert f"{size:,}: {excess:.2g}" in text or size == plan.batch_sizes["noisy"]
    assert text.count("Site privacy protects a row from everyone outside its site") == 1
    assert "instead, at the same ε" not in text  # local privacy is worse, so nothing is said of it
    back = uneven.plan([uneven.Source("noisy", 54_000, uneven.LocalPrivacy(1.0))], 25, clip=0.5)
    assert "Local privacy protects a row from everyone except the machine" in " ".join(back.summary().split())
    other = back.other_promises()["noisy"]
    assert other.batch_size > 100
    rows = f"With site privacy for 'noisy' instead, at the same ε and alpha and with {other.batch_size:,} rows per step"
    assert f"{rows}, the predicted excess would be {other.then:.2g} instead of {other.now:.2g}." in " ".join(
        back.summary().split()
    )
    assert "Site privacy protects" not in back.summary()


def test_mixed_moments_are_at_most_those_of_all_sites_together():
    """Shuffled together, a batch has the noise of each site once: the plan's γ² is that of a batch with all of them."""
    plan = uneven.plan(sites(), 25, strategy="arbitrary")
    parts = [source.noise.moment("upper", plan.problem) for source in plan.sources]
    assert plan.segments[0].moment.per_batch == pytest.approx(sum(part.per_batch for part in parts))
