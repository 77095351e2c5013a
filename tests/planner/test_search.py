"""The search for rates and orders against brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from uneven import theory
from uneven.planner import search

sources = st.lists(st.tuples(st.floats(0.1, 1e4), st.integers(1, 10_000)), min_size=2, max_size=6)
lams = st.floats(1e-4, 10)


def columns(sources):
    return tuple(np.array(column, dtype=float) for column in zip(*sources, strict=True))


def dense_minimum(previous, moment, before, steps, lam):
    """Best κ of one more source by a dense grid and a local refinement, with the formula written out."""
    total = before + steps
    rho = before / total

    def bound(log_kappa):
        kappa = np.exp(log_kappa)
        fraction = (1 - rho ** (kappa - 1)) / (kappa - 1)
        return previous * rho**kappa + moment * (kappa / lam) ** 2 / total * fraction

    x = np.linspace(-90, 40, 65_001) + 1e-7
    with np.errstate(over="ignore"):
        values = bound(x)
    i = int(np.nanargmin(values))
    if i == 0:  # flat to the last digit: the source is worth nothing at all
        return float(values[0])
    found = minimize_scalar(bound, bounds=(x[i - 1], x[i + 1]), method="bounded", options={"xatol": 1e-10})
    return float(found.fun)


@settings(max_examples=60, deadline=None)
@given(
    previous=st.floats(1e-6, 1e6),
    moment=st.floats(1e-4, 1e6),
    before=st.integers(1, 10**6),
    steps=st.integers(1, 10**6),
    lam=lams,
)
def test_next_rate_is_the_global_minimum(previous, moment, before, steps, lam):
    args = (np.array([float(v)]) for v in (previous, moment, before, steps))
    kappa, value = search.find_best_next_rate(*args, lam)
    assert value[0] <= dense_minimum(previous, moment, before, steps, lam) * (1 + 1e-6)
    again = theory.segment_bound(previous, moment, before, steps, kappa[0], lam)
    assert value[0] == pytest.approx(float(again), rel=1e-12)


@settings(max_examples=25, deadline=None)
@given(sources=sources, lam=lams)
def test_set_search_equals_brute_force_over_permutations(sources, lam):
    moments, steps = columns(sources)
    orders = np.array(list(itertools.permutations(range(len(steps)))))
    _, bounds = search.find_best_rates(orders, moments, steps, lam)
    _, chosen = search.find_best_rates(np.array([search.find_exact_order(moments, steps, lam)]), moments, steps, lam)
    assert chosen[0] == pytest.approx(bounds.min(), rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(sources=sources, lam=lams, scale=st.floats(0.01, 100))
def test_scaling_of_the_best(sources, lam, scale):
    """κ does not depend on λ or on a common factor of all Γ²; bounds go as Γ² and 1/λ²."""
    moments, steps = columns(sources)
    order = np.arange(len(steps))[None]
    kappas, bounds = search.find_best_rates(order, moments, steps, lam)
    for factor, args in [(scale, (scale * moments, steps, lam)), (scale**-2, (moments, steps, scale * lam))]:
        scaled_kappas, scaled_bounds = search.find_best_rates(order, *args)
        assert scaled_bounds[0] == pytest.approx(factor * bounds[0], rel=1e-8)
        # A minimum's place is known to the root of the float's precision, less where it is flat.
        np.testing.assert_allclose(scaled_kappas, kappas, rtol=1e-3)


@settings(max_examples=40, deadline=None)
@given(sources=sources, lam=lams)
def test_shared_rate_is_the_global_minimum_and_agrees_with_theorem_3(sources, lam):
    moments, steps = columns(sources)
    kappa, bound = search.find_best_shared_rate(moments, steps, lam)
    rates = [kappa / (2 * lam)] * len(steps)
    assert bound == pytest.approx(theory.theorem3_bound(moments, steps, rates, lam), rel=1e-12)
    dense = min(
        theory.theorem3_bound(moments, steps, [k / (2 * lam)] * len(steps), lam)
        for k in 1 + np.geomspace(1e-6, 1e6, 2_000)
    )
    assert bound <= dense * (1 + 1e-9)


@settings(max_examples=25, deadline=None)
@given(sources=sources, lam=lams)
def test_own_rates_are_no_worse_than_a_shared_one_or_than_fewer_sources(sources, lam):
    moments, steps = columns(sources)
    _, bounds = search.find_best_rates(np.arange(len(steps))[None], moments, steps, lam)
    assert bounds[0] <= search.find_best_shared_rate(moments, steps, lam)[1] * (1 + 1e-9)
    _, fewer = search.find_best_rates(np.arange(len(steps) - 1)[None], moments[:-1], steps[:-1], lam)
    assert bounds[0] <= fewer[0] * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_grouped_order_of_many_sources_is_nearly_the_best(seed):
    rng, lam = np.random.default_rng(seed), 1e-3
    moments, steps = np.exp(rng.uniform(0, 8, 13)), np.floor(np.exp(rng.uniform(2, 9, 13)))
    exact, grouped = (
        search.find_best_rates(np.array([order(moments, steps, lam)]), moments, steps, lam)[1][0]
        for order in (search.find_exact_order, search.find_grouped_order)
    )
    assert exact <= grouped * (1 + 1e-12)
    assert grouped <= 1.01 * exact


def test_many_sources_use_every_source_once():
    rng = np.random.default_rng(0)
    order = search.find_best_order(np.exp(rng.uniform(0, 8, 203)), np.floor(np.exp(rng.uniform(0, 6, 203))), 1e-3)
    assert sorted(order) == list(range(203))
