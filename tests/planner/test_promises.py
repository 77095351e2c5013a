"""A bound is printed where a theorem covers what was run, and nowhere else."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import uneven
from uneven import UnevenClassifier, theory
from uneven.planner import Plan


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
    assert plan.bound < plan.answer_bound <= 16 / 9 * plan.bound
    assert "fresh rows, each used once" in " ".join(plan.summary().split())


@given(
    moments=st.lists(st.floats(1e-2, 1e4), min_size=8, max_size=60), lam=st.floats(1e-2, 1), radius=st.floats(0.1, 50)
)
def test_the_late_average_is_within_its_bound(moments, lam, radius):
    """The mean of Theorem C's bounds over the late clock, weighted by precision, is what convexity gives."""
    clock = np.cumsum(1 / np.array(moments))
    offset = theory.theorem_c_offset(1 / min(moments), lam, lam + 1.0, radius)
    late = clock > 0.75 * clock[-1]
    each = [theory.theorem_c_bound(tau, lam, radius, offset) for tau in clock[late]]
    mean = np.average(each, weights=1 / np.array(moments)[late])
    assert mean <= theory.theorem_c_late_bound(clock[-1], lam, radius, offset) * (1 + 1e-9)


def test_the_late_bound_is_attained_in_its_parts():
    """All bias: (4/3)² at the start of the average; all variance: 4/3."""
    bias = theory.theorem_c_late_bound(1e9, 1e3, 1e6, 1.0) / theory.theorem_c_bound(1e9, 1e3, 1e6, 1.0)
    variance = theory.theorem_c_late_bound(1e9, 1e-3, 1e-6, 1.0) / theory.theorem_c_bound(1e9, 1e-3, 1e-6, 1.0)
    assert (bias, variance) == (pytest.approx(16 / 9), pytest.approx(4 / 3))


def test_upper_moments_have_four_thirds():
    plan = uneven.plan([uneven.Source("a", 500)], n_features=3, moments="upper")
    assert plan.answer_bound == pytest.approx(4 / 3 * plan.bound)
