"""Theorem 2: the exact deviation by simulation, and the order it prefers."""

import itertools

import numpy as np
import pytest

from uneven import AdditiveNoise, theory

LAM = 0.5
CLEAN, NOISY = AdditiveNoise(variance=0.25), AdditiveNoise(variance=4.0)


def simulate(c, order, runs=20_000, d=4, seed=7):
    """‖w - v‖² after one pass of SGD on the linear problem, over many draws of the noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(order), d)) / np.sqrt(d)
    y = rng.choice([-1.0, 1.0], len(order))
    w = np.zeros((runs, d))
    v = np.zeros(d)
    for t, (noise, x, label) in enumerate(zip(order, X, y, strict=True), start=1):
        gradient = LAM * w - label * x
        w = w - c / t * noise.release(gradient, 1.0, rng)
        v = v - c / t * (LAM * v - label * x)
    return ((w - v) ** 2).sum(axis=1)


@pytest.mark.parametrize("c", [0.5 / LAM, 1 / LAM, 2 / LAM])
@pytest.mark.parametrize("first", ["clean", "noisy"])
def test_mean_deviation_is_the_sum(c, first):
    blocks = [[CLEAN] * 15, [NOISY] * 45]
    order = blocks[0] + blocks[1] if first == "clean" else blocks[1] + blocks[0]
    measured = simulate(c, order)
    steps = c / np.arange(1, len(order) + 1)
    stated = theory.theorem2_deviation(steps, [noise.variance for noise in order], LAM)
    error = measured.std() / np.sqrt(len(measured))
    assert abs(measured.mean() - stated) < 4 * error
    for wrong in (0.9, 1.1):  # and the test would notice a scale that is 10% off
        assert abs(measured.mean() - wrong * stated) > 4 * error


def test_measured_preference_flips_at_one_over_lambda():
    def lead_of_clean_first(c):
        clean_first = simulate(c, [CLEAN] * 15 + [NOISY] * 45)
        noisy_first = simulate(c, [NOISY] * 45 + [CLEAN] * 15, seed=8)
        error = np.sqrt((clean_first.var() + noisy_first.var()) / len(clean_first))
        return (noisy_first.mean() - clean_first.mean()) / error

    assert lead_of_clean_first(0.5 / LAM) > 4
    assert abs(lead_of_clean_first(1 / LAM)) < 4
    assert lead_of_clean_first(2 / LAM) < -4


@pytest.mark.parametrize(
    ("c", "best"),
    [(0.3, "clean-first"), (0.99, "clean-first"), (1, "either"), (1.01, "noisy-first"), (3, "noisy-first")],
)
def test_stated_preference(c, best):
    t = np.arange(1, 101)
    assert theory.theorem2_order(c / LAM / t, LAM, noisy_steps=70) == best


@pytest.mark.parametrize("c", [0.5, 0.9, 1.5, 2.9])
def test_preferred_order_is_the_best_of_all_interleavings(c):
    steps = c / LAM / np.arange(1, 9)
    deviation = {
        noisy: theory.theorem2_deviation(steps, [9.0 if t in noisy else 1.0 for t in range(8)], LAM)
        for noisy in itertools.combinations(range(8), 3)
    }
    best = {"clean-first": (5, 6, 7), "noisy-first": (0, 1, 2)}[theory.theorem2_order(steps, LAM, noisy_steps=3)]
    assert deviation[best] <= min(deviation.values()) * (1 + 1e-12)


@pytest.mark.parametrize("noisy_steps", [0, 10, 11])
def test_an_order_needs_steps_of_both_sources(noisy_steps):
    with pytest.raises(ValueError, match="noisy_steps must be at least 1 and below 10"):
        theory.theorem2_order(1 / np.arange(1, 11), LAM, noisy_steps)


def test_slip_in_theorem_2_for_large_rates():
    """|Δ_t| rises from t = (cλ - 1)/2 on; before that it falls, so a short run prefers clean first at c > 3/λ."""
    c, t = 10.5, np.arange(1, 41)
    size = np.abs(theory.deviation_weights(c / LAM / t, LAM))
    turn = int((c - 1) / 2)
    assert (np.diff(size[:turn]) < 0).all()
    assert (np.diff(size[turn:]) > 0).all()
    short = c / LAM / np.arange(1, 3)
    assert theory.theorem2_deviation(short, [1, 9], LAM) < theory.theorem2_deviation(short, [9, 1], LAM)


@pytest.mark.parametrize("c", [1.5, 2.0, 3.0])
def test_no_slip_up_to_three(c):
    size = np.abs(theory.deviation_weights(c / LAM / np.arange(1, 200), LAM))
    assert (np.diff(size) >= -1e-12 * size[1:]).all()
