"""Plans: what each strategy decides, what it promises, and how a plan prints, draws and keeps itself."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import uneven
from uneven import theory
from uneven.planner import STRATEGIES

CLINIC = uneven.Source("clinic", 6_000, uneven.LocalPrivacy(10, "l2-laplace"))
SURVEY = uneven.Source("survey", 54_000, uneven.LocalPrivacy(1, "l2-laplace"))
CROWD = uneven.Source("crowd", 1_234, uneven.FlippedLabels(0.2), price=0.05)
EXPERT = uneven.Source("expert", 17)
THREE = [CLINIC, SURVEY, CROWD]

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)

noises = st.one_of(
    st.just(uneven.Exact()),
    st.builds(uneven.LocalPrivacy, st.floats(0.1, 20)),
    st.builds(uneven.FlippedLabels, st.floats(0, 0.45)),
    st.builds(uneven.AdditiveNoise, st.floats(0, 100)),
)
descriptions = st.lists(st.tuples(st.integers(1, 5_000), noises), min_size=1, max_size=4)


def described(descriptions):
    return [uneven.Source(f"s{i}", rows, noise) for i, (rows, noise) in enumerate(descriptions)]


@settings(max_examples=40, deadline=None)
@given(
    descriptions=descriptions,
    strategy=st.sampled_from(list(STRATEGIES)),
    loss=st.sampled_from(["logistic", "hinge", "linear"]),
    batch_size=st.integers(1, 300),
    radius=st.sampled_from(["tight", "paper"]),
    clip=st.sampled_from([None, 0.5, 3.0]),
    alpha=st.floats(1e-5, 2),
)
def test_any_plan_is_sound(descriptions, strategy, loss, batch_size, radius, clip, alpha):
    sources = described(descriptions)
    plan = uneven.plan(sources, 7, alpha, batch_size, loss, strategy, radius=radius, clip=clip)
    assert math.isfinite(plan.bound)
    assert plan.bound > 0
    assert sorted(plan.order) == sorted(s.name for s in sources) or strategy == "clean-only"
    eta, moments = plan.step_sizes(), plan.step_moments()
    assert len(eta) == len(moments) == plan.steps
    assert (eta > 0).all()
    assert (moments > 0).all()
    assert max(plan.exchange.values()) == 1
    assert uneven.Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    if plan.theorem in ("Theorem A", "Theorem C"):  # these are bounds for the very steps taken
        assert plan.evaluated_bound() <= plan.bound * (1 + 1e-9)
    if plan.theorem == "Theorem C":
        assert eta.max() <= 2 / (plan.problem.smoothness + alpha) * (1 + 1e-9)


@settings(max_examples=30, deadline=None)
@given(descriptions=descriptions, alpha=st.floats(1e-4, 1), rows=st.integers(1, 5_000), noise=noises)
def test_another_source_never_hurts_the_precision_bound(descriptions, alpha, rows, noise):
    sources = described(descriptions)
    more = [*sources, uneven.Source("more", rows, noise)]
    before, after = (uneven.plan(s, 7, alpha, 10, moments="upper") for s in (sources, more))
    assert after.bound < before.bound


@every_strategy
def test_summary_says_what_matters(strategy):
    plan = uneven.plan([*THREE, EXPERT], n_features=25, strategy=strategy)
    words = plan.summary()
    assert str(plan) == words
    for text in ["clinic", "survey", "crowd", "expert", "54,000", "ε = 10", "20% of labels flipped", plan.theorem]:
        assert text in words
    for other in STRATEGIES:
        assert other in words
    assert max(map(len, words.splitlines())) <= 110


@every_strategy
@pytest.mark.parametrize("sources", [THREE, [EXPERT]])
def test_picture_shows_every_source_used_and_every_strategy(strategy, sources):
    plan = uneven.plan(sources, n_features=25, strategy=strategy)
    figure = plan.plot()
    left, right = figure.axes
    shown = sum(len(line.get_xdata()) > 0 for line in left.get_lines())
    assert shown == len(plan.segments)
    assert [label.get_text() for label in right.get_yticklabels()] == list(STRATEGIES)
    bounds = {
        float(line.get_xdata()[0]) for line in right.get_lines() if line.get_marker() == "o" and len(line.get_xdata())
    }
    assert bounds == {other.bound for other in plan.alternatives().values()}


def test_short_batches_count_as_what_they_are():
    source = uneven.Source("s", 103, uneven.AdditiveNoise(5.0))
    plan = uneven.plan([source], 3, 0.1, batch_size=50, moments="upper")
    upper = [source.noise.second_moment(plan.problem, rows)[1] for rows in (50, 50, 3)]
    np.testing.assert_allclose(plan.step_moments(), upper)
    assert plan.bound == pytest.approx(theory.theorem_a_bound(sum(1 / m for m in upper), 0.1))


def test_batch_larger_than_a_source_is_one_step_of_its_rows():
    plan = uneven.plan([EXPERT], 3, 0.1, batch_size=50, strategy="two-rates")
    assert plan.steps == 1
    assert plan.step_moments() == [EXPERT.noise.second_moment(plan.problem, 17)[1]]


def test_variances_add_up_to_the_rows_whatever_the_batches():
    """A row of variance v carries 1/v: cutting rows into other batches moves the clock just as far."""
    totals = [np.sum(1 / uneven.plan([CROWD, SURVEY], 25, batch_size=b).step_moments()) for b in (1, 7, 50, 100_000)]
    np.testing.assert_allclose(totals, totals[0], rtol=1e-12)


def test_exchange_is_the_ratio_of_row_variances():
    plan = uneven.plan([CLINIC, SURVEY], 25)
    v = [1 + 4 * (25**2 + 25) / epsilon**2 for epsilon in (10, 1)]
    assert plan.exchange == pytest.approx({"clinic": 1.0, "survey": v[0] / v[1]})


def test_precision_uses_the_noisiest_first():
    assert uneven.plan([*THREE, EXPERT], 25).order == ["survey", "clinic", "crowd", "expert"]


def test_auto_moments():
    def resolved(strategy, loss):
        return uneven.plan(THREE, 25, strategy=strategy, loss=loss).moments

    assert resolved("precision", "logistic") == resolved("precision", "linear") == "variance"
    assert resolved("precision", "hinge") == resolved("two-rates", "logistic") == "upper"


def test_clean_only_and_arbitrary():
    clean = uneven.plan([CLINIC, SURVEY], 25, strategy="clean-only", radius="paper")
    assert clean.order == ["clinic"]
    assert clean.rates == {"clinic": 1000.0}
    assert clean.bound == pytest.approx(4 * 4.52 / (1e-6 * 120))
    mixed = uneven.plan([CLINIC, SURVEY], 25, strategy="arbitrary", radius="paper")
    assert mixed.shuffled
    mean = 0.1 * 4.52 + 0.9 * 56.0
    assert mixed.bound == pytest.approx(4 * mean / (1e-6 * 1200))


def test_arbitrary_is_the_mean_over_shuffles():
    """The evaluated bound of the mixed plan is the mean over random interleavings of the two sources' steps."""
    plan = uneven.plan([CLINIC, SURVEY], 25, strategy="arbitrary", radius="paper")
    rng, levels = np.random.default_rng(0), np.repeat([4.52, 56.0], [120, 1080])
    eta, start = plan.step_sizes(), plan.problem.ball**2
    bounds = [theory.recursion_bound(eta, rng.permutation(levels), 1e-3, start) for _ in range(400)]
    error = np.std(bounds) / np.sqrt(len(bounds))
    assert abs(np.mean(bounds) - plan.evaluated_bound()) < 4 * error


def test_averaged_promises_an_objective_and_a_distance():
    plan = uneven.plan([CLINIC, SURVEY], 25, strategy="averaged")
    precision = float(np.sum(1 / plan.step_moments()))
    assert plan.excess_bound == pytest.approx(theory.theorem_b_bound(precision, plan.problem.ball))
    assert plan.bound == pytest.approx(2 / plan.problem.alpha * plan.excess_bound)
    assert plan.rates is None
    np.testing.assert_allclose(
        plan.step_sizes(), theory.theorem_b_scale(precision, plan.problem.ball) / plan.step_moments()
    )


@pytest.mark.parametrize(("loss", "expected"), [("logistic", 37.23), ("hinge", 44.72), ("linear", 1000.0)])
def test_tight_radius(loss, expected):
    assert uneven.Problem(25, 1e-3, 50, loss).ball == pytest.approx(expected, rel=1e-3)
    assert uneven.Problem(25, 1e-3, 50, loss, radius="paper").ball == 1000.0
    assert uneven.Problem(25, 1e-3, 50, loss, radius="paper").signal == pytest.approx(4.0)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "linear"])
@pytest.mark.parametrize("alpha", [1e-3, 0.1, 3.0])
@pytest.mark.parametrize("clip", [None, 0.3])
def test_the_optimum_lies_in_the_tight_ball(loss, alpha, clip):
    """Gradient descent to the optimum of the (capped) objective on rows of one class, the worst case for the norm."""
    problem = uneven.Problem(2, alpha, 1, loss, clip=clip)
    w, x = np.zeros(2), np.array([1.0, 0.0])
    for t in range(1, 20_001):
        w = w - (problem.alpha * w + problem.loss_function.slope(w @ x, problem.gradient_norm) * x) / (alpha * t)
    assert np.linalg.norm(w) <= problem.ball * (1 + 1e-3)


def test_caveats():
    lower = uneven.plan([CLINIC, SURVEY], 25, strategy="two-rates", moments="lower")
    assert any("not a guarantee" in caveat for caveat in lower.caveats)
    vacuous = uneven.plan([EXPERT], 25, strategy="clean-only")
    assert any("promises nothing" in caveat for caveat in vacuous.caveats)
    many = [uneven.Source(f"s{i}", 100 + i, uneven.AdditiveNoise(1.0 + i)) for i in range(13)]
    assert any("groups of like noise" in c for c in uneven.plan(many, 3, strategy="two-rates").caveats)
    assert not uneven.plan([uneven.Source("s", 10**7)], 3, alpha=0.1).caveats


def test_evaluated_bound_of_variances_waits_for_short_steps():
    """With c/t steps and variances the recursion holds once steps are below 2/(L + λ); until then, the diameter."""
    plan = uneven.plan([CLINIC, SURVEY], 25, strategy="two-rates", moments="variance")
    assert plan.evaluated_bound() < 4 * plan.problem.ball**2
    hopeless = uneven.plan([EXPERT], 25, strategy="two-rates", moments="variance")
    assert hopeless.evaluated_bound() is None


def test_a_plan_is_frozen():
    plan = uneven.plan([CLINIC], 25)
    with pytest.raises(AttributeError):
        plan.bound = 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("format"), "format of a plan must be 1, got None"),
        (lambda d: d.update(format=99), "format of a plan must be 1, got 99"),
        (lambda d: d.pop("bound"), "a plan needs 'bound'"),
        (lambda d: d.update(bounds=1.0), "a plan has no key 'bounds'"),
        (lambda d: d.update(order=["survey", "clinic"]), "order and rates of a plan must agree"),
        (lambda d: d["segments"][0]["schedule"].update(kind="cosine"), "schedule kind must be one of"),
        (lambda d: d["sources"][0]["noise"].update(kind="fog"), "noise kind must be one of 'exact'"),
        (lambda d: d["sources"][0]["noise"].update(epsilonn=1), "has no key 'epsilonn'"),
        (lambda d: d["sources"][0]["noise"].pop("epsilon"), "needs 'epsilon'"),
    ],
)
def test_from_dict_refuses_what_it_does_not_understand(change, message):
    values = uneven.plan([CLINIC, SURVEY], 54, strategy="two-rates", radius="paper").to_dict()
    values = json.loads(json.dumps(values))
    change(values)
    with pytest.raises(ValueError, match=message):
        uneven.Plan.from_dict(values)
