"""Plans: what each strategy decides, what it promises, and how a plan prints, draws and keeps itself."""

import json
import math
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import uneven
from uneven import theory
from uneven.losses import LOSSES
from uneven.planner import (
    STRATEGIES,
    Verdict,
    change_rates,
    describe_verdicts,
    mark_converged,
    tabulate_sources,
    tabulate_strategies,
)
from uneven.planner.guarantees import bound_late_average

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
    loss=st.sampled_from(list(LOSSES)),
    batch_size=st.integers(1, 300),
    radius=st.sampled_from(["tight", "paper"]),
    clip=st.sampled_from([None, 0.2, 0.5, 3.0]),
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


def test_summary_has_the_right_figures(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    plan = uneven.plan([CLINIC, SURVEY, CROWD], 25, 0.02, strategy="two-rates")
    words, eta = plan.summary(), plan.step_sizes()
    lines = {line.split()[1]: line for line in words.splitlines()[4:7]}
    start = 0
    for segment in plan.segments:
        (name,) = segment.sources
        full = segment.rows // 50
        assert f" {eta[start]:.4g} to {eta[start + full - 1]:.4g} " in lines[name]
        assert lines[name].endswith(f" {plan.exchange[name]:.3g}")
        start += segment.steps
    said = {a[1]: float(a[0]) for a in re.findall(r"One row of 'crowd' is worth (\S+) rows of '(\w+)'", words)}
    assert said == pytest.approx({name: 1 / plan.exchange[name] for name in ("clinic", "survey")}, rel=5e-3)
    for strategy, other in plan.alternatives().items():
        (line,) = (line for line in words.splitlines() if line.startswith((f"{strategy} *", f"{strategy}  ")))
        figures = [float(word.replace(",", "")) for word in line.split() if word[0].isdigit()]
        evaluated = other.evaluated_bound()
        assert figures == pytest.approx([other.bound] if evaluated is None else [other.bound, evaluated], rel=1e-3)


def test_summary_of_lower_moments_promises_nothing():
    words = uneven.plan([CLINIC, SURVEY], 25, strategy="two-rates", moments="lower").summary()
    assert "Promise" not in words
    assert "The formula gives" in words


def test_summary_stays_narrow_with_long_names():
    sources = [uneven.Source(f"a source with quite a long name, number {i}", 100 + i) for i in range(12)]
    words = uneven.plan(sources, 25).summary()
    assert max(map(len, words.splitlines())) <= 130


@every_strategy
def test_summary_says_what_matters(strategy, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
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
    left, right = plan.plot().axes
    eta, start = plan.step_sizes(), 0
    assert len(left.get_lines()) == len(plan.segments)
    for line, segment in zip(left.get_lines(), plan.segments, strict=True):
        t = line.get_xdata().astype(int)
        assert (t.min(), t.max()) == (start + 1, start + segment.steps)
        np.testing.assert_array_equal(line.get_ydata(), eta[t - 1])
        start += segment.steps
    assert len({line.get_color() for line in left.get_lines()}) == len(plan.segments)
    assert [label.get_text() for label in right.get_yticklabels()] == list(STRATEGIES)
    others = plan.alternatives().values()
    for marker, stated in [("o", [p.bound for p in others]), ("D", [p.evaluated_bound() for p in others])]:
        drawn = {float(x) for line in right.get_lines() if line.get_marker() == marker for x in line.get_xdata()}
        assert drawn == {value for value in stated if value is not None}


def test_picture_of_awkward_names(tmp_path):
    names = ["_hidden", r"$\frac$", "x" * 80]
    plan = uneven.plan([uneven.Source(name, 60) for name in names], 25)
    figure = plan.plot()
    figure.savefig(tmp_path / "plan.png")
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert any("_hidden" in label for label in labels)
    assert len(labels) == 3
    assert max(map(len, labels)) < 45


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


@every_strategy
def test_the_answer_is_the_iterate_that_the_bound_is_of(strategy):
    plan = uneven.plan(THREE, 25, strategy=strategy, moments="upper")
    assert (plan.average == "steps") == (plan.guarantee.iterate == "average")


@pytest.mark.parametrize("rows", [100, 101, 150])
def test_the_first_step_of_anytime_is_as_noisy_as_the_last_batch(rows):
    """A short last batch is the noisiest: the bound must hold for it too."""
    noise = uneven.LocalPrivacy(1, "l2-laplace")
    plan = uneven.plan([uneven.Source("a", rows, noise)], 25, batch_size=100, strategy="anytime")
    moments = plan.step_moments()
    expected = theory.anytime_bound(float(np.sum(1 / moments)), float(1 / moments.max()), plan.problem.ball)
    assert plan.excess_bound == pytest.approx(expected)


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


@pytest.mark.parametrize("clip", [None, 0.25, 0.5, 4.0])
def test_tight_radius_with_a_clip(clip):
    norm = min(1.0, clip or 1.0)
    assert uneven.Problem(25, 3.0, 50, clip=clip).ball == pytest.approx(min(norm / 3, math.sqrt(2 * math.log(2) / 3)))
    assert uneven.Problem(25, 3.0, 50, clip=clip, radius="paper").signal == pytest.approx((norm + 1) ** 2)


@pytest.mark.parametrize("loss", LOSSES)
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
    assert any("is of no use" in caveat for caveat in vacuous.caveats)
    many = [uneven.Source(f"s{i}", 100 + i, uneven.AdditiveNoise(1.0 + i)) for i in range(13)]
    assert any("groups of similar noise" in c for c in uneven.plan(many, 3, strategy="two-rates").caveats)
    assert not uneven.plan([uneven.Source("s", 10**7)], 3, alpha=0.1).caveats


def loop_bound(plan):
    """The recursion behind each theorem as a plain loop, from the definition of the steps."""
    lam, L, R = plan.problem.alpha, plan.problem.smoothness, plan.problem.ball
    eta, moments, E = plan.step_sizes(), plan.step_moments(), R**2
    for t in range(plan.steps):
        if plan.moments != "variance":
            E = max(0, 1 - 2 * lam * eta[t]) * E + eta[t] ** 2 * moments[t]
        elif eta[t] > 2 / (L + lam) * (1 + 1e-12):
            E = (2 * R) ** 2  # no contraction: all that is known is the ball
        else:
            E = (1 - lam * eta[t]) ** 2 * E + eta[t] ** 2 * moments[t]
    return E


@pytest.mark.parametrize("strategy", ["two-rates", "same-rate-clean-first", "clean-only", "precision"])
@pytest.mark.parametrize("moments", ["upper", "variance"])
@pytest.mark.parametrize("radius", ["tight", "paper"])
@pytest.mark.parametrize("sources", [[CLINIC, SURVEY], [EXPERT, CROWD]])
def test_evaluated_bound_is_the_loop(strategy, moments, radius, sources):
    plan = uneven.plan(sources, 25, 0.02, strategy=strategy, moments=moments, radius=radius)
    assert plan.evaluated_bound() == pytest.approx(loop_bound(plan), rel=1e-9)
    if plan.theorem == "Theorem 3":
        assert plan.bound >= plan.evaluated_bound()


def test_a_noisy_last_batch_is_part_of_the_promise():
    """400,001 rows in batches of 10,000 leave one row, whose step alone adds (c/T)²·V²."""
    source = uneven.Source("s", 400_001, uneven.AdditiveNoise(1e4))
    plan = uneven.plan([source], 2, 1.0, batch_size=10_000, loss="linear", strategy="clean-only")
    leading = 4 * (4 + 1.0) / 41
    assert plan.bound == pytest.approx(leading + (1e4 - 1.0) / 41**2, rel=1e-9)
    assert plan.bound >= plan.evaluated_bound()


def test_theorem_3_for_a_source_smaller_than_a_batch():
    plan = uneven.plan([EXPERT], 3, 0.1, batch_size=50, strategy="clean-only", radius="paper")
    assert plan.bound == pytest.approx(4 * 4.0 / (0.01 * 1))
    noisy = uneven.Source("n", 17, uneven.AdditiveNoise(34.0))
    plan = uneven.plan([noisy], 3, 0.1, batch_size=50, strategy="clean-only", radius="paper")
    assert plan.bound == pytest.approx(4 * (4.0 + 34.0 / 17) / 0.01)


def test_the_offset_keeps_every_step_short():
    """A noisy and an exact source with large batches: the exact one's steps are the long ones."""
    sources = [uneven.Source("noisy", 10_000, uneven.AdditiveNoise(500.0)), uneven.Source("exact", 10_000)]
    plan = uneven.plan(sources, 5, 1e-3, batch_size=1_000)
    limit = 2 / (0.25 + 2e-3)
    assert plan.step_sizes().max() <= limit * (1 + 1e-12)
    alone = uneven.plan(sources[1:], 5, 1e-3, batch_size=1_000)
    assert alone.step_sizes()[0] == pytest.approx(limit)  # no shorter than it has to be


def test_too_few_very_clean_rows_are_pointed_out():
    survey = uneven.Source("survey", 10**7, uneven.LocalPrivacy(1, "l2-laplace"))
    both = uneven.plan([survey, uneven.Source("expert", 1_000)], 25, 0.01, 1_000)
    alone = uneven.plan([survey], 25, 0.01, 1_000)
    assert alone.bound < both.bound
    assert any("Without 'expert' the bound would be smaller" in caveat for caveat in both.caveats)
    assert not any("Without" in caveat for caveat in uneven.plan([CLINIC, SURVEY], 25).caveats)


def test_what_the_bound_says_about_the_objective():
    """f(w) - f* ≤ L/2·‖w - w*‖² for an L-smooth f; nothing of the kind for a kink."""
    plan = uneven.plan([CLINIC, SURVEY], 25, 0.3)
    assert plan.problem.smoothness == 0.25 + 0.3
    assert plan.excess_bound == pytest.approx((0.25 + 0.3) / 2 * plan.bound)
    assert uneven.plan([CLINIC], 25, loss="hinge").excess_bound is None


@pytest.mark.parametrize("strategy", ["averaged", "precision"])
@pytest.mark.parametrize("moments", ["auto", "upper"])
def test_noisiest_first(strategy, moments):
    plan = uneven.plan([*THREE, EXPERT], 25, strategy=strategy, moments=moments)
    assert plan.order == ["survey", "clinic", "crowd", "expert"]


def test_a_clean_source_is_clean_however_few_its_rows():
    """Two exact rows make a noisier step than fifty rows of mild noise, but not noisier rows."""
    few, many = uneven.Source("few", 2), uneven.Source("many", 5_000, uneven.AdditiveNoise(4.0))
    plan = uneven.plan([many, few], 3, 0.1, 50, strategy="same-rate-clean-first", moments="variance")
    assert plan.order == ["few", "many"]
    assert uneven.plan([many, few], 3, 0.1, 50, strategy="clean-only").order == ["few"]


def test_of_sources_alike_the_larger_is_the_clean_one():
    small, big = (
        uneven.Source("small", 100, uneven.LocalPrivacy(1)),
        uneven.Source("big", 10**6, uneven.LocalPrivacy(1)),
    )
    for sources in ([small, big], [big, small]):
        assert uneven.plan(sources, 25, strategy="clean-only").order == ["big"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "sources",
    [
        [uneven.Source("a", 1_000, uneven.LocalPrivacy(1e-6)), uneven.Source("b", 100_000)],
        [uneven.Source("a", 10**13, uneven.LocalPrivacy(1e6)), uneven.Source("b", 1, uneven.AdditiveNoise(1e12))],
        [uneven.Source("a", 1), uneven.Source("b", 1)],
    ],
)
@pytest.mark.parametrize("alpha", [1e-18, 1e-3, 1e18])
def test_extremes_are_planned_without_a_warning(strategy, sources, alpha):
    plan = uneven.plan(sources, 784, alpha, strategy=strategy, clip=1e-6)
    assert math.isfinite(plan.bound)
    assert plan.bound > 0


def test_the_promise_is_vacuous_from_the_squared_radius_on():
    def vacuous(rows):
        plan = uneven.plan([uneven.Source("s", rows)], 5, 0.01, strategy="clean-only")
        return plan.bound >= plan.problem.ball**2, any("is of no use" in c for c in plan.caveats)

    said = [vacuous(rows) for rows in (100, 1_000, 10_000, 20_000, 100_000, 10**6)]
    assert all(is_so == is_said for is_so, is_said in said)
    assert {is_so for is_so, _ in said} == {True, False}


def test_alternatives_differ_in_strategy_only():
    plan = uneven.plan([CLINIC, SURVEY], 25, 0.02, 7, "hinge", "two-rates", radius="paper", clip=0.3)
    for strategy, other in plan.alternatives().items():
        assert (other.strategy, other.problem, other.sources) == (strategy, plan.problem, plan.sources)
    lower = uneven.plan([CLINIC, SURVEY], 25, strategy="two-rates", moments="lower").alternatives()
    assert {other.moments for other in lower.values()} == {"lower"}
    variance = uneven.plan([CLINIC, SURVEY], 25, strategy="two-rates", moments="variance").alternatives()
    assert {s for s, other in variance.items() if other.moments != "variance"} == {"averaged", "anytime"}


def test_a_plan_is_frozen_and_plain():
    plan = uneven.plan([CLINIC], 25)
    with pytest.raises(AttributeError):
        plan.bound = 0.0
    plan.exchange["clinic"] = 99.0  # a copy
    assert plan.exchange["clinic"] == 1.0
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert hash(plan) == hash(uneven.plan([CLINIC], 25))
    for strategy in STRATEGIES:
        assert type(uneven.plan([CLINIC, EXPERT], 25, strategy=strategy).bound) is float


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("format"), "format of a plan must be 1, got None"),
        (lambda d: d.update(format=99), "format of a plan must be 1, got 99"),
        (lambda d: d.pop("bound"), "a plan needs 'bound'"),
        (lambda d: d.update(bounds=1.0), "a plan has no key 'bounds'"),
        (lambda d: d.update(order=d["order"][::-1]), "order of a plan must follow from its sources and problem"),
        (lambda d: d.update(bound=-1), "bound of a plan must follow"),
        (lambda d: d.update(bound=d["bound"] * (1 + 1e-4)), "bound of a plan must follow"),
        (lambda d: d.update(sources=None), "sources of a plan must be a list, got None"),
        (lambda d: d.update(bound="x"), "bound of a plan must follow"),
        (lambda d: d.update(strategy="magic"), "strategy must be one of"),
        (lambda d: d.update(moments="foo"), "moments must be one of"),
        (lambda d: d.update(segments=[]), "segments of a plan must follow"),
        (lambda d: d["segments"][0].update(rows=-5), "segments of a plan must follow"),
        (lambda d: d["segments"][0]["moment"].update(fixed=math.nan), "segments of a plan must follow"),
        (lambda d: d["segments"][0]["schedule"].update(kind="cosine"), "segments of a plan must follow"),
        (lambda d: d["exchange"].update(nobody=1.0), "exchange of a plan must follow"),
        (lambda d: d["sources"].append(d["sources"][0]), "sources must have names that differ"),
        (lambda d: d["sources"][0].update(weight=1), "a source has no key 'weight'"),
        (lambda d: d["sources"][0].pop("rows"), "a source needs 'rows'"),
        (lambda d: d["sources"].append(3), "a source must be a mapping, got 3"),
        (lambda d: d["sources"][0].update(noise=3), "noise must be a mapping with a kind, or a list of such, got 3"),
        (lambda d: d["problem"].update(beta=1), "problem has no key 'beta'"),
        (lambda d: d["problem"].pop("alpha"), "problem needs 'alpha'"),
        (lambda d: d.update(problem=3), "problem must be a mapping, got 3"),
        (lambda d: d.pop("sources"), "a plan needs 'sources'"),
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


def test_other_rates_have_a_bound_of_their_own():
    """Theorem 3 at the rates that run, or the recursion if it is larger; at the planned ones, the plan itself."""
    best = uneven.plan([CLINIC, SURVEY], 25, strategy="two-rates", radius="paper")
    rates = list(best.rates.values())
    assert change_rates(best, rates) == best
    for factor in (0.6, 1.5, 4.0):
        other = change_rates(best, [rates[0], factor * rates[1]])
        moments, steps = [s.step_moment for s in best.segments], [s.steps for s in best.segments]
        closed = theory.theorem3_bound(moments, steps, [rates[0], factor * rates[1]], best.problem.alpha)
        assert other.bound == pytest.approx(max(closed, other.evaluated_bound()), rel=1e-9)
        assert other.excess_bound == pytest.approx(best.excess_bound * other.bound / best.bound)
        assert other.bound > best.bound
        assert list(other.rates.values()) == [rates[0], factor * rates[1]]


def test_rates_too_slow_for_theorem_3_have_the_recursions_bound():
    best = uneven.plan([CLINIC, SURVEY], 25, strategy="two-rates", radius="paper")
    slow = change_rates(best, [0.4 / best.problem.alpha] * 2)
    assert slow.bound == slow.evaluated_bound()


def test_other_rates_are_for_rates():
    with pytest.raises(ValueError, match="planned must have step sizes c/t, got strategy 'precision'"):
        change_rates(uneven.plan(THREE, 25), [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="rates must be 2, one per segment, got 1"):
        change_rates(uneven.plan([CLINIC, SURVEY], 25, strategy="two-rates"), [1.0])


@pytest.mark.parametrize("columns", [80, 60])
def test_a_summary_fits_the_screen(monkeypatch, columns):
    """Ten sources with long names and noises: words are broken between columns, and no cell is lost."""
    monkeypatch.setenv("COLUMNS", str(columns))
    kinds = [uneven.LabelPrivacy(1.0), uneven.FlippedLabels(0.2), uneven.LocalPrivacy(2.0), uneven.Exact()]
    sources = [uneven.Source(f"hospital number {k}", 10_000 * (k + 1), kinds[k % 4]) for k in range(10)]
    words = uneven.plan(sources, 25).summary()
    wide = [line for line in words.splitlines() if len(line) > columns]
    assert wide == []
    assert words.count("FEATURES") >= 3


def test_verdicts_are_on_the_sources_that_are_used():
    """Of nine sources four are left out: the others are judged together, and a source alone if it is the only one."""
    one = {"excess": 0.002, "excess_without": 0.01, "accuracy": (0.9, 0.8, 1.0), "accuracy_without": (0.8, 0.7, 0.9)}
    used = {f"used {k}": Verdict(**one, word="worth it", others=8 - k) for k in range(5)}
    out = {f"out {k}": Verdict(**one, word="no", others=k) for k in range(4)}
    (said,) = describe_verdicts({**used, **out})
    assert said.startswith("5 private sources together: worth it.")
    said = describe_verdicts({"a": replace(used["used 0"], others=1), "b": out["out 0"]})
    assert [line.partition(".")[0] for line in said] == ["'a': worth it", "'b': no"]
    said = describe_verdicts({"a": used["used 0"], "b": replace(out["out 0"], word="little")})
    assert said[0].startswith("'a' and one smaller source together: worth it.")


@pytest.mark.parametrize(("gain", "word", "said"), [(0.004, "worth it", True), (0.006, "worth it", False)])
def test_a_verdict_says_where_only_the_probabilities_gain(gain, word, said):
    """Below half a percentage point; "little" and "no" need no such excuse."""
    one = Verdict(0.002, 0.01, (0.8 + gain, 0.7, 0.9), (0.8, 0.7, 0.9), word)
    for others in (0, 1):
        told = one.describe("a", others)
        assert f": {word}. " in told
        whose = "their" if others else "its"
        assert (f"for {whose} probabilities: accuracy gains less than half a percentage point" in told) == said
    assert "probabilities" not in replace(one, word="little").describe("a")


@pytest.mark.parametrize(("rows", "beyond"), [(50, True), (100, False)])
def test_why_a_bound_guarantees_no_useful_model(rows, beyond):
    """All-zero weights meet a bound of R² or more; one below it, only what follows for the objective."""
    noise = uneven.LocalPrivacy(1.0) if beyond else uneven.Exact()
    strategy = "clean-only" if beyond else "precision"
    plan = uneven.plan([uneven.Source("a", rows, noise)], 5, alpha=0.01, strategy=strategy)
    assert (plan.bound >= plan.problem.ball**2) == beyond
    said = " ".join(plan.summary().split())
    assert ("useful model: all-zero weights meet it too" in said) == beyond
    assert ("useful model: all-zero weights meet what it says about the objective" in said) == (not beyond)


def test_one_row_is_one_step_of_one_row():
    assert "1 step of 1 row," in uneven.plan([uneven.Source("a", 1, uneven.LocalPrivacy(1.0))], 3).summary()


def test_an_estimate_is_not_listed_among_bounds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3)) / 3
    source = np.where(np.arange(600) < 100, "open", "closed")
    noise = {"open": uneven.Exact(), "closed": uneven.LocalPrivacy(4.0)}
    plan = uneven.UnevenClassifier(noise, row_norm=3.0).fit(X, (X[:, 0] > 0).astype(int), source=source).plan_
    assert plan.anchored is not None
    assert [row[0] for row in tabulate_strategies(plan, plan.alternatives())] == ["strategy", *STRATEGIES]
    told = " ".join(plan.summary().split())
    assert "No other strategy's bound is informative here: all-zero weights satisfy it." in told
    assert not any(f"{name} " in told for name in STRATEGIES)  # figures that say nothing are not listed


def test_a_bound_is_a_promise_only_where_weights_of_zero_do_not_meet_it():
    kept, broken = (uneven.plan([uneven.Source("clinic", rows)], 5, alpha=0.01) for rows in (100_000, 100))
    assert kept.excess_bound < math.log(2) < broken.excess_bound  # the logistic loss of weights of zero, less 0
    assert "Promise: the mean of" in kept.summary()
    assert "useful model" not in kept.summary()
    assert "Promise" not in broken.summary()
    assert "None of these bounds guarantees a useful model" in " ".join(broken.summary().split())


def test_rows_learned_to_convergence_have_no_steps_and_no_bounds_in_words():
    clinic, survey = uneven.Source("clinic", 600), uneven.Source("survey", 6_000, uneven.FlippedLabels(0.2))
    plan = mark_converged(uneven.plan([clinic, survey], 3))
    head, *rows = tabulate_sources(plan)
    assert [dict(zip(head, row, strict=True))["use"] for row in rows] == ["1", "1"]
    assert {dict(zip(head, row, strict=True))["step sizes"] for row in rows} == {"none"}
    told = plan.summary()
    assert told.startswith("Plan: learn to convergence")
    assert "at most" not in told
    assert "evaluated" not in told


def test_moment_of_a_pass_shorter_than_a_batch():
    """Rows are used once a pass: no batch has more of them, though two passes have more than a batch."""
    source = uneven.Source("a", rows=60, passes=2, noise=uneven.AdditiveNoise(3.0))
    (segment,) = uneven.plan([source], n_features=3, batch_size=50).segments
    assert segment.step_moment == pytest.approx(segment.moments()[0])


def test_the_late_average_begins_with_a_step_that_began_before_it():
    """The first iterate averaged is that of a step which takes 1/γ² of the clock and may begin so much earlier."""
    sources = [uneven.Source("a", 400, uneven.FlippedLabels(0.1)), uneven.Source("b", 300)]
    plan = uneven.plan(sources, n_features=3, batch_size=100)
    problem, offset = plan.problem, plan.segments[0].schedule.offset
    precision = sum(segment.precision for segment in plan.segments)
    after = 0.75 * precision  # no source is private: the last quarter of the clock
    start = after - max(1 / segment.step_moment for segment in plan.segments)
    limits = problem.alpha, problem.ball, offset
    late = theory.theorem_c_late_bound(precision, *limits, start, 0.0)
    assert late > 1.005 * theory.theorem_c_late_bound(precision, *limits, after, 0.0)
    found = bound_late_average(problem, plan.segments, plan.bound, private=False)
    assert found == pytest.approx(min(late, theory.theorem_c_bound(start, *limits)))
