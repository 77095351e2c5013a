"""Levels of noise that are only roughly known: intervals, what would change, and ranks alone."""

import json

import numpy as np
import pytest

import uneven
from uneven import AdditiveNoise, Exact, FlippedLabels, LabelPrivacy, LocalPrivacy, SitePrivacy, Source
from uneven.noise import noise_from_dict
from uneven.planner import tabulate_changes
from uneven.planner.prediction import CURVATURES, predict_typical
from uneven.report import plan_report

EXPERT, CROWD = Source("expert", 900), Source("crowd", 9_000, FlippedLabels(0.2))
LEVELS = [
    LocalPrivacy(2.0, interval=(1.0, 8.0)),
    SitePrivacy(2.0, interval=(1.0, 2.0)),
    LabelPrivacy(2.0, interval=(1.0, 3.0)),
    FlippedLabels(0.2, interval=(0.1, 0.3)),
    FlippedLabels((0.1, 0.2), interval=((0.0, 0.1), (0.3, 0.4))),
    AdditiveNoise(4.0, interval=(0.0, 5.0)),
]


@pytest.mark.parametrize("noise", LEVELS, ids=lambda one: one.kind)
def test_an_interval_changes_nothing_but_what_is_tried(noise):
    stated = noise.at_level(getattr(noise, noise.level))
    assert stated.interval is None
    plans = [uneven.plan([EXPERT, Source("a", 5_000, one)], 5) for one in (noise, stated)]
    assert plans[0].bound == plans[1].bound
    assert plans[0].exchange == plans[1].exchange
    assert [one.actual for one in plans[0].sensitivity()] == [
        end for end in noise.interval if end != getattr(noise, noise.level)
    ]
    again = noise_from_dict(json.loads(json.dumps(noise.to_dict())))
    assert again == noise
    assert again.interval == noise.interval
    assert uneven.Plan.from_dict(plans[0].to_dict()) == plans[0]


COMPOSED = [
    one & FlippedLabels(0.1) for one in (LocalPrivacy(2.0), SitePrivacy(2.0), LabelPrivacy(2.0), AdditiveNoise(4.0))
]


@pytest.mark.parametrize("noise", [*LEVELS, *COMPOSED], ids=repr)
@pytest.mark.parametrize("strategy", ["precision", "averaged", "two-rates"])
def test_each_change_is_the_plan_at_that_level(noise, strategy):
    """Made from the beginning, with batches of its own where noise is drawn once for each."""
    others = [EXPERT, Source("site", 4_000, SitePrivacy(1.0))]
    plan = uneven.plan([*others, Source("a", 5_000, noise)], 5, strategy=strategy)
    changes = [one for one in plan.sensitivity() if one.source == "a"]
    assert changes
    for one in changes:
        if isinstance(noise, uneven.noise.Composed):
            parts = [noise.then, noise.labels]
            parts = [part.at_level(one.actual) if part.level == one.level else part for part in parts]
            other = parts[0] & parts[1]
        else:
            other = noise.at_level(one.actual)
        again = uneven.plan([*others, Source("a", 5_000, other)], 5, strategy=strategy)
        assert one.order == again.order
        assert one.exchange == again.exchange
        assert one.excess == (again.excess_bound if again.predicted_excess is None else again.predicted_excess)
        assert one.regret >= 1.0 - 1e-12


def predict_step_by_step(plan):
    """Excess that these steps leave of a quadratic, w ← w - η(hw + noise of variance γ²): mean as `predict_excess`."""
    excesses = []
    for share in CURVATURES:
        run, left, noise = predict_typical(plan.problem, plan.segments, share), 1.0, 0.0
        for eta, moment in zip(plan.step_sizes(), plan.step_moments(), strict=True):
            left, noise = (1 - run.curvature * eta) * left, (1 - run.curvature * eta) ** 2 * noise + eta**2 * moment
        excesses.append(run.curvature / 2 * (run.start * left**2 + noise))
    return float(np.exp(np.log(excesses).mean()))


@pytest.mark.parametrize(
    ("others", "rows", "noise", "rates", "settings"),
    [
        (Source("a", 2_000, LocalPrivacy(3.0) & FlippedLabels(0.2)), 20_000, LocalPrivacy(1.0), (0.2, 0.45), {}),
        (Source("a", 20_000, LocalPrivacy(3.0)), 2_000, Exact(), (0.05, 0.3), {"classes": 3, "clip": 0.5}),
    ],
    ids=["noise outweighs what is learned", "a clean source sets the offset"],
)
def test_a_noisier_source_can_lower_the_predicted_excess(others, rows, noise, rates, settings):
    """A property of the steps, not of the prediction: each step computed by itself, they leave less of it too."""
    plans = [uneven.plan([others, Source("b", rows, noise & FlippedLabels(r))], 20, **settings) for r in rates]
    low, high = (plan.predicted_excess for plan in plans)
    assert high < 0.99 * low
    for plan in plans:  # the closed form takes steps to be short: a product of (1 - ηh) to be e^{-Σηh}
        assert predict_step_by_step(plan) == pytest.approx(plan.predicted_excess, rel=0.01)


def test_off_by_two_without_an_interval():
    tried = {
        one: [change.actual for change in uneven.plan([Source("a", 500, one)], 5).sensitivity()]
        for one in (LocalPrivacy(3.0), AdditiveNoise(5.0), FlippedLabels(0.3), FlippedLabels((0.3, 0.5)), Exact())
    }
    assert tried[LocalPrivacy(3.0)] == [1.5, 6.0]
    assert tried[AdditiveNoise(5.0)] == [2.5, 10.0]
    assert tried[FlippedLabels(0.3)] == [0.15, pytest.approx(0.49)]
    assert tried[FlippedLabels((0.3, 0.5))] == [(0.15, 0.25), pytest.approx((0.3675, 0.6125))]
    assert tried[Exact()] == []


def test_an_interval_may_be_an_array():
    assert FlippedLabels(0.2, interval=np.array([0.1, 0.3])).interval == (0.1, 0.3)
    pair = FlippedLabels([0.1, 0.2], interval=np.array([[0.0, 0.1], [0.3, 0.4]]))
    assert pair.interval == ((0.0, 0.1), (0.3, 0.4))


def test_off_by_two_of_more_than_two_classes():
    """Rates up to where ten classes tell nothing; of a matrix, all that is not on its diagonal."""
    T = ((0.8, 0.1, 0.1), (0.0, 1.0, 0.0), (0.3, 0.1, 0.6))
    tried = {
        noise: [one.actual for one in uneven.plan([Source("a", 500, noise)], 5, classes=classes).sensitivity()]
        for noise, classes in ((FlippedLabels(0.3), 10), (FlippedLabels(0.6), 10), (FlippedLabels(T), 3))
    }
    assert tried[FlippedLabels(0.3)] == [0.15, 0.6]
    assert tried[FlippedLabels(0.6)] == [0.3, pytest.approx(0.98 * 0.9)]
    half, twice = (np.array(one) for one in tried[FlippedLabels(T)])
    np.testing.assert_allclose(half, [[0.9, 0.05, 0.05], [0, 1, 0], [0.15, 0.05, 0.8]])
    np.testing.assert_allclose(twice - np.eye(3), 1.96 * (np.array(T) - np.eye(3)))  # at 2, two rows are alike
    summary = " ".join(uneven.plan([Source("a", 500, FlippedLabels(T))], 5, classes=3).summary().split())
    assert "If the rate of 'a' were 0.1 on average or 0.392 on average instead of 0.2 on average" in summary


def test_regret_is_the_variance_of_a_mean_with_the_wrong_weights():
    """n₁ steps of variance γ₁² and n₂ of γ₂², simulated: weights by stated variances against weights by true ones."""
    sources = [Source("a", 2_000, AdditiveNoise(1.0)), Source("b", 6_000, AdditiveNoise(20.0))]
    plan = uneven.plan(sources, 5, batch_size=50)
    (change,) = [one for one in plan.sensitivity() if (one.source, one.actual) == ("b", 10.0)]
    guess, true = np.repeat([2.0, 21.0], [40, 120]), np.repeat([2.0, 11.0], [40, 120])
    draws = np.random.default_rng(0).normal(size=(20_000, 160)) * np.sqrt(true)
    means = [draws @ (weights / weights.sum()) for weights in (1 / guess, 1 / true)]
    measured = np.var(means[0]) / np.var(means[1])
    assert change.regret == pytest.approx(measured, abs=4 * 0.02 * 0.3)  # the same draws: the ratio errs far less
    assert 1.0 < change.regret < 1.2


def test_an_order_that_would_change_is_told():
    plan = uneven.plan([Source("a", 900, AdditiveNoise(4.0)), Source("b", 900, AdditiveNoise(3.0))], 5)
    orders = {(one.source, one.actual): one.order for one in plan.sensitivity()}
    assert plan.order == ["a", "b"] == orders["a", 8.0] == orders["b", 1.5]
    assert orders["a", 2.0] == orders["b", 6.0] == ["b", "a"]
    said = " ".join(plan.summary().split())
    assert "If the variance of 'a' were 2 or 8 instead of 4: the order would be b, a" in said
    assert "Planning with a wrong variance increases the variance by at most 9%." in said
    assert len(tabulate_changes(plan)) == 5
    assert not any(cell.startswith("-") for row in tabulate_changes(plan) for cell in row)
    assert "If the noise is only roughly known" in plan_report(plan, "uneven plan sources.toml")


def test_many_sources_have_one_sentence_on_all():
    sources = [Source(f"site {k}", 900, LocalPrivacy(1.0 + k)) for k in range(10)]
    plan = uneven.plan(sources, 5)
    said = plan.summary()
    words = " ".join(said.split())
    assert words.count("If ") == 1
    assert "If one level of noise were half or twice as stated: the order may change (9 sources). Planning" in words
    assert words.count("With site privacy for") == 0
    assert words.count("Site privacy would help most at") == 1
    assert "Use 10 sources in the order of the table" in words
    assert "Of all strategies 'precision' has the smallest bound, computed step by step" in words
    assert len(said.splitlines()) <= 40


def test_an_anchored_plan_is_interpolated_between_its_known_ends():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 3)) / 3
    y, source = (X[:, 0] > 0).astype(int), np.where(np.arange(4_000) < 300, "open", "closed")
    noise = {"open": Exact(), "closed": LocalPrivacy(4.0, interval=(4.0, 40.0))}
    plan = uneven.UnevenClassifier(noise, row_norm=3.0).fit(X, y, source=source).plan_
    (change,) = plan.sensitivity()
    assert plan.strategy == "anchored"
    assert change.order == plan.order
    assert change.excess < plan.anchored.excess < plan.anchored.excess_start
    assert change.exchange["closed"] > plan.exchange["closed"]
    # One over the excess is linear in the clock, which passes one over a row's energy.
    stated, actual = (LocalPrivacy(epsilon).planned_energy(plan.problem) for epsilon in (4.0, 40.0))
    start, end = 1 / plan.anchored.excess_start, 1 / plan.anchored.excess
    assert 1 / change.excess == pytest.approx(start + (end - start) * stated / actual)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LocalPrivacy(2.0, interval=(3.0, 4.0)), r"interval must hold the epsilon 2.0, got \(3.0, 4.0\)"),
        (lambda: LocalPrivacy(2.0, interval=(4.0, 1.0)), r"interval must hold the epsilon 2.0, got"),
        (lambda: LocalPrivacy(2.0, interval=3.0), r"interval of 'local-privacy' must be \(lowest, highest\) epsilon"),
        *[
            (
                lambda kind=kind, end=end: kind(1.0, interval=(end, 3.0)),
                f"interval must have ends that could be the {kind.level}, got .*{kind.level} must be .*, got",
            )
            for kind in (LocalPrivacy, SitePrivacy, LabelPrivacy, AdditiveNoise)
            for end in (-1.0, np.nan, np.inf, True, None, (0.5, 0.6), 10**400)
        ],
        *[
            (
                lambda end=end: FlippedLabels(0.2, interval=(end, 0.3)),
                "interval must have ends that could be the rate, got .*rate must be .*, got",
            )
            for end in (-0.1, np.nan, False, None, ((0.1, 0.2), (0.2, 0.3)))
        ],
        (
            lambda: FlippedLabels((0.1, 0.2), interval=((0.1, 0.1), (0.6, 0.5))),
            r"^interval must have .*, got \(\(0.1, 0.1\), \(0.6, 0.5\)\): rate must have two numbers with a sum",
        ),
        *[
            (
                lambda noise=noise: uneven.plan([Source("a", 100, noise)], 5),
                r"interval must end below 1/2 for 2 classes, .*; got \(0.1, 0.6\)$",
            )
            for flips in [FlippedLabels(0.2, interval=(0.1, 0.6))]
            for noise in (flips, LocalPrivacy(1.0) & flips, LabelPrivacy(1.0) & flips)
        ],
        (lambda: FlippedLabels(0.2, interval=(0.1, (0.3, 0.4))), "interval must hold the rate 0.2, got"),
        (lambda: FlippedLabels("estimate", interval=(0.1, 0.3)), "interval must hold the rate 'estimate', got"),
        (
            lambda: Exact(interval=(1.0, 2.0)),
            r"interval of 'exact' must be left out: it has no level of noise, got \(1.0",
        ),
        (
            lambda: FlippedLabels(np.eye(3) * 0.7 + 0.1, interval=(0.1, 0.3)),
            r"interval must be left out where rate is a matrix, got \(0.1, 0.3\)",
        ),
        (lambda: uneven.plan_by_rank({}), "ranks must be a dict of names and ranks, got {}"),
        (lambda: uneven.plan_by_rank({"a": 0}), "rank of 'a' must be a whole number of at least 1, got 0"),
        (lambda: uneven.plan_by_rank(["a", "b"]), r"ranks must be a dict of names and ranks, got \['a', 'b'\]"),
    ],
)
def test_bad_values_are_refused_in_one_line(make, message):
    with pytest.raises(ValueError, match=message) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_an_interval_may_end_above_a_half_where_classes_are_many():
    noise = FlippedLabels(0.4, interval=(0.3, 0.6))
    changes = uneven.plan([Source("a", 5_000, noise), Source("b", 500)], 5, classes=3).sensitivity()
    assert [change.actual for change in changes] == [0.3, 0.6]
    with pytest.raises(ValueError, match="interval must end below 2/3 for 3 classes"):
        uneven.plan([Source("a", 500, FlippedLabels(0.4, interval=(0.3, 0.7)))], 5, classes=3)


@pytest.mark.parametrize("noises", [(Exact(), FlippedLabels(0.3)), (LocalPrivacy(9.0), LocalPrivacy(1.0))])
def test_ranks_give_the_order_that_levels_give(noises):
    ranked = uneven.plan_by_rank({"clean": 1, "noisy": 2})
    sources = [Source(name, 2_000, noise) for name, noise in zip(("clean", "noisy"), noises, strict=True)]
    assert ranked.order == uneven.plan(sources, 5).order
    assert "Not known from ranks: Exchange rates" in ranked.summary()
    assert uneven.plan_by_rank({"a": 2, "b": 1, "c": 2}).order == ["a", "c", "b"]


def test_an_anchored_plan_takes_sources_in_the_order_of_their_other_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6_000, 3)) / 3
    y, source = (X[:, 0] > 0).astype(int), np.repeat(["open", "a", "b"], [200, 2_900, 2_900])
    noise = {"open": Exact(), "a": LocalPrivacy(1.5), "b": LocalPrivacy(2.0)}
    clf = uneven.UnevenClassifier(noise, row_norm=2.0, use="all", random_state=0).fit(X, y, source=source)
    assert clf.plan_.order == ["open", "b", "a"]
    orders = {(one.source, one.actual): one.order for one in clf.plan_.sensitivity()}
    assert orders["a", 0.75] == orders["b", 4.0] == ["open", "b", "a"]
    assert orders["a", 3.0] == orders["b", 1.0] == ["open", "a", "b"]


def test_noise_once_per_batch_is_shared_by_its_rows_in_an_anchored_plan():
    """The clock of each source is its rows over the energy of one, and one over the excess is linear in their sum."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6_000, 3)) / 3
    y, source = (X[:, 0] > 0).astype(int), np.repeat(["open", "site", "each"], [200, 2_900, 2_900])
    noise = {"open": Exact(), "site": SitePrivacy(1.0, interval=(1.0, 2.0)), "each": LocalPrivacy(2.0)}
    clf = uneven.UnevenClassifier(noise, row_norm=2.0, use="all", random_state=0).fit(X, y, source=source)
    plan, rows = clf.plan_, 2_900
    assert set(plan.order) == set(noise)

    def clock(name, noise):
        shared = noise.batch_energy(plan.problem) / plan.batch_sizes[name]
        return rows / (noise.planned_energy(plan.problem) + shared)

    each, stated, actual = (
        clock("each", noise["each"]),
        clock("site", SitePrivacy(1.0)),
        clock("site", SitePrivacy(2.0)),
    )
    start, end = 1 / plan.anchored.excess_start, 1 / plan.anchored.excess
    (change,) = [one for one in plan.sensitivity() if one.source == "site"]
    assert 1 / change.excess == pytest.approx(start + (end - start) * (each + actual) / (each + stated))
