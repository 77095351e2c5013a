"""A bound is printed where a theorem covers what was run, and nowhere else."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import uneven
from uneven import LocalPrivacy, UnevenClassifier, theory
from uneven.planner import OtherPromise, Plan, describe_promises, make_plan, predict_excess, text
from uneven.planner.prediction import CURVATURES, predict_typical
from uneven.problem import Problem
from uneven.schedules import LAST_SHARE, SETTLED, Precision
from uneven.words import format_number

SITE = uneven.SitePrivacy(1.0)


def rows(n=100):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) / 3
    return X, (X[:, 0] + 0.2 * rng.normal(size=n) > 0).astype(int)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"passes": 200}, "used 200 times"),
        ({"strategy": "precision", "moments": "estimated"}, "estimated on the way"),
        ({"strategy": "precision", "average": "growing"}, "'growing'"),
        ({"strategy": "two-rates", "average": "steps"}, "'steps'"),
        ({"strategy": "averaged", "average": "last"}, "'last'"),
    ],
)
def test_what_no_theorem_covers_has_no_bound(settings, why, tmp_path):
    model = UnevenClassifier(alpha=0.01, random_state=0, **settings).fit(*rows())
    plan = model.plan_
    assert why in plan.void
    assert plan.bound == np.inf
    assert (plan.excess_bound, plan.answer_bound, plan.evaluated_bound()) == (None, None, None)
    assert "No bound is promised" in plan.summary()
    assert "Promise" not in plan.summary()
    again = Plan.from_dict(json.loads(json.dumps(plan.to_dict())))
    assert again.void == plan.void
    model.save(tmp_path / "model.json")
    assert UnevenClassifier.load(tmp_path / "model.json").plan_.bound == np.inf


@pytest.mark.parametrize("settings", [{}, {"average": "last"}, {"average": "late"}])
def test_what_a_theorem_covers_has_one(settings):
    plan = UnevenClassifier(alpha=0.01, strategy="precision", random_state=0, **settings).fit(*rows()).plan_
    assert not plan.void
    assert plan.bound <= plan.answer_bound <= 4 * plan.bound
    assert "The bound assumes that each row is used once" in " ".join(plan.summary().split())


@given(
    moments=st.lists(st.floats(1e-2, 1e4), min_size=8, max_size=60), lam=st.floats(1e-2, 1), radius=st.floats(0.1, 50)
)
def test_the_late_average_is_within_its_bound(moments, lam, radius):
    """The triangle inequality step by step, with Theorem C's bound of each iterate in the average."""
    p, offset = 1 / np.array(moments), 1e-3 + theory.theorem_c_offset(1e-3, lam, lam + 0.1, radius)
    clock = np.cumsum(p)
    late = clock > SETTLED * offset
    each = np.sqrt([theory.theorem_c_bound(tau, lam, radius, offset) for tau in clock])
    mean = np.average(each[late], weights=p[late]) if late.any() else each[-1]
    start = max(SETTLED * offset - p.max(), 0.0) if late.any() else clock[-1]
    bound = theory.theorem_c_late_bound(clock[-1], lam, radius, offset, start, LAST_SHARE)
    assert (LAST_SHARE * each[-1] + (1 - LAST_SHARE) * mean) ** 2 <= bound * (1 + 1e-9)


def test_the_late_bound_is_attained_where_all_is_variance():
    """E‖w - w*‖² = 1/(λ²s): the mean of 1/√s over a long clock is 2/√S, so that the bound is (2/3 + 2/3)² = 16/9."""
    late = theory.theorem_c_late_bound(1e12, 1e-3, 1e-6, 1.0, SETTLED, LAST_SHARE)
    assert late / theory.theorem_c_bound(1e12, 1e-3, 1e-6, 1.0) == pytest.approx(16 / 9, rel=1e-4)


@pytest.mark.parametrize(("curvature", "more"), [(1.0, 1.111), (1.5, 1.0), (2.0, 1.037), (2.5, 1.111)])
def test_the_late_average_is_nearly_the_best_of_any_linear_method(curvature, more):
    """On quadratics that curve κλ, noise of the late average against the Kalman filter's 1/(κλ)²P."""
    steps, lam = 20_000, 0.5
    eta = Precision(lam, offset=10.0)(np.arange(1, steps + 1), 1.0, np.arange(1.0, steps + 1))
    kept = np.append(np.cumprod((1 - curvature * lam * eta)[::-1])[::-1][1:], 1.0)  # of step t's noise, at the end
    last = eta * kept
    first = int(SETTLED * 10)  # iterates before that are not averaged
    ends = 1 / np.cumprod(1 - curvature * lam * eta)
    average = eta * ends * np.cumsum((np.arange(steps) >= first)[::-1] / ends[::-1])[::-1] / (steps - first)
    variance = np.sum((LAST_SHARE * last + (1 - LAST_SHARE) * average) ** 2)
    assert variance * (curvature * lam) ** 2 * steps == pytest.approx(more, rel=0.01)


def test_upper_moments_have_four_thirds():
    plan = uneven.plan([uneven.Source("a", 500)], n_features=3, moments="upper")
    assert plan.answer_bound == pytest.approx(4 / 3 * plan.bound)


@pytest.mark.parametrize(("epsilon", "warned"), [(0.1, True), (10.0, False)])
def test_a_plan_says_where_private_rows_are_too_noisy_for_a_useful_model(epsilon, warned):
    """By the prediction: f(w) - f* of a typical problem is no less than that of all-zero weights."""
    planned = uneven.plan([uneven.Source(name, 3_000, uneven.LocalPrivacy(epsilon)) for name in "ab"], n_features=25)
    typical = predict_typical(planned.problem, planned.segments, CURVATURES[1])
    assert (typical.excess >= typical.excess_of_nothing) is warned
    assert ("may be no better than predicting nothing" in " ".join(planned.summary().split())) is warned


def test_rows_without_privacy_take_that_warning_away():
    described = [uneven.Source("open", 300), uneven.Source("closed", 3_000, uneven.LocalPrivacy(0.1))]
    assert "no better than predicting nothing" not in " ".join(uneven.plan(described, n_features=25).summary().split())


@pytest.mark.parametrize("kept", [0, 5, 20])
def test_the_excess_beside_another_promise_is_the_plan_s_own(kept):
    """One quantity has one figure: rows that take no step take none where the two promises are compared, either."""
    sources = [uneven.Source("clinic", 6_000, uneven.LocalPrivacy(1.0)), uneven.Source("b", 8_000, SITE)]
    problem = Problem(5, 1e-3, 50, own_batches=True)
    plan = make_plan(sources, problem, kept=kept)
    for other in plan.other_promises().values():
        assert other.now == pytest.approx(plan.predicted_excess, rel=1e-12)
    chosen = {name: sizes[plan.batch_sizes[name]] for name, sizes in plan.other_sizes().items()}
    assert chosen == {"b": pytest.approx(plan.predicted_excess, rel=1e-12)}


@pytest.mark.parametrize(("then", "told"), [(0.017, False), (0.0155, False), (0.0143, True), (0.002, True)])
@pytest.mark.parametrize("count", [1, 3])
def test_another_promise_is_told_of_only_where_it_is_clearly_better(then, told, count):
    others = {f"s{k}": OtherPromise("site-privacy", 50, 0.016, then) for k in range(count)}
    found = describe_promises([uneven.Source("s0", 90, uneven.LocalPrivacy(1.0))], others, predicted=True)
    assert found[0].startswith("Local privacy")
    assert [one for one in found[1:] if f"{then:.2g} instead of 0.016" in one] == found[1:]
    assert bool(found[1:]) is told


def test_without_a_source_nothing_is_worse_than_predicting_nothing():
    """A few noisy rows alone would be predicted to do worse than zero weights, which anybody can take instead."""
    sources = [
        uneven.Source("many", 50_000, uneven.LocalPrivacy(4.0)),
        uneven.Source("few", 50, uneven.LocalPrivacy(0.5)),
    ]
    plan = uneven.plan(sources, n_features=5)
    nothing = predict_excess(plan.problem, ())
    alone = make_plan(plan.sources[1:], plan.problem, plan.strategy, plan.moments).predicted_excess
    assert plan.predicted_excess < nothing < alone
    assert plan.predict_without()["many"] == (plan.predicted_excess, nothing)


def test_a_plan_of_private_rows_says_what_each_source_brings():
    """Without a source the plan is that of the others; one that lowers the excess by less than 3% is named as such."""
    clean, noisy = (
        uneven.Source(*one) for one in (("clean", 30_000, LocalPrivacy(10)), ("noisy", 3_000, LocalPrivacy(1)))
    )
    plan = uneven.plan([clean, noisy], n_features=25)
    without = {one.name: uneven.plan([one], n_features=25).predicted_excess for one in plan.sources}
    now = plan.predicted_excess
    nothing = predict_excess(plan.problem, ())
    assert without["clean"] < nothing < without["noisy"]
    assert plan.predict_without() == {"clean": (now, nothing), "noisy": (now, without["clean"])}
    assert now > 0.97 * without["clean"]
    told = " ".join(plan.summary().split())
    assert f"Without 'noisy' the predicted excess would be {format_number(without['clean'], 3)} instead of" in told
    assert "'noisy' lowers it by less than 3%, which is hardly worth any ε." in told


def test_a_name_with_quotes_is_told_as_it_is():
    (told,) = text.describe_contributions({"without o' b": (0.1, 0.3)})
    assert told == 'Without "without o\' b" the predicted excess would be 0.3 instead of 0.1.'


def test_sources_that_each_bring_little_and_together_much_are_not_called_useless():
    plan = uneven.plan([uneven.Source(f"s{k}", 3_000, LocalPrivacy(4)) for k in range(11)], n_features=5)
    pairs = plan.predict_without()
    assert all(now > 0.9 * without for now, without in pairs.values())
    assert "hardly worth" not in plan.summary()
    assert uneven.plan([uneven.Source("open", 900)], n_features=5).predict_without() == {}
