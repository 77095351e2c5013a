"""Algorithm 2, SameClean and SameNoisy on the paper's grid, against a dense brute-force minimisation of B(c₁, c₂)."""

import numpy as np
import pytest
from scipy.optimize import minimize

import uneven

LAM, BATCH = 1e-3, 50
SIZES = {25: 60_000, 54: 500_000}  # MNIST and Covertype
GRID = [(d, epsilon) for d in SIZES for epsilon in range(1, 11)]

on_the_grid = pytest.mark.parametrize(("d", "epsilon"), GRID)


def sources(d, epsilon):
    clean = SIZES[d] // 10
    return [
        uneven.Source("C", clean, uneven.LocalPrivacy(10, "l2-laplace")),
        uneven.Source("N", SIZES[d] - clean, uneven.LocalPrivacy(epsilon, "l2-laplace")),
    ]


def plan(d, epsilon, strategy, moments="auto"):
    return uneven.plan(sources(d, epsilon), d, LAM, BATCH, strategy=strategy, moments=moments, radius="paper")


def gamma2(d, epsilon):
    """Γ² of Theorem 1 with mini-batches."""
    return 4 + 4 * (d**2 + d) / (epsilon**2 * BATCH)


def b(k1, k2, d, epsilon, first):
    """B of eq. (orderopt_t) at κ₁, κ₂, the source `first` first; written out, with none of our code."""
    g, beta = {"C": gamma2(d, 10), "N": gamma2(d, epsilon)}, {"C": 0.1, "N": 0.9}
    second = {"C": "N", "N": "C"}[first]
    c1, c2, power = k1 / (2 * LAM), k2 / (2 * LAM), beta[first] ** (k2 - 1)
    T = SIZES[d] / BATCH
    return 4 * g[first] * power * c1**2 / (T * (k1 - 1)) + 4 * g[second] * (1 - power) * c2**2 / (T * (k2 - 1))


def brute_force(d, epsilon):
    """Order, κ₁, κ₂ and B at the best point of a dense grid over both rates and orders, refined by denser grids."""
    best = None
    for first in "CN":
        # Offsets keep κ₂ away from 1, where the printed formula is 0/0.
        low, high = np.log([1e-4, 1e-4]), np.log([60.0, 80.0])
        for _ in range(8):
            x1, x2 = (np.linspace(*ends, 801) for ends in zip(low, high, strict=True))
            values = b(1 + np.exp(x1)[:, None], np.exp(x2)[None] * (1 + 1e-9), d, epsilon, first)
            i, j = np.unravel_index(np.argmin(values), values.shape)
            width = (high - low) / 50
            at = np.array([x1[i], x2[j]])
            low, high = at - width, at + width
        found = (values[i, j], first, 1 + np.exp(x1[i]), np.exp(x2[j]))
        best = found if best is None or found < best else best
    return best


@on_the_grid
def test_algorithm_2(d, epsilon):
    value, first, k1, k2 = brute_force(d, epsilon)
    chosen = plan(d, epsilon, "two-rates")
    assert chosen.bound == pytest.approx(value, rel=1e-7)
    if epsilon == 10:  # equal noise: every order is as good
        assert list(chosen.rates.values()) == pytest.approx([1 / LAM, 1 / LAM], rel=1e-4)
        return
    second = {"C": "N", "N": "C"}[first]
    assert chosen.order == [first, second]
    assert chosen.rates[first] == pytest.approx(k1 / (2 * LAM), rel=1e-4)
    assert chosen.rates[second] == pytest.approx(k2 / (2 * LAM), rel=1e-4)


@on_the_grid
@pytest.mark.parametrize(("strategy", "first"), [("same-rate-clean-first", "C"), ("same-rate-noisy-first", "N")])
def test_same_rate(d, epsilon, strategy, first):
    """The constraint c₁ = c₂: the diagonal of the two-dimensional grid, κ > 1."""
    kappa = 1 + np.geomspace(1e-6, 200, 1_000_000)  # neighbours differ by 2e-5
    values = b(kappa, kappa, d, epsilon, first)
    chosen = plan(d, epsilon, strategy)
    assert chosen.bound == pytest.approx(values.min(), rel=1e-8)
    rates = set(chosen.rates.values())
    assert len(rates) == 1
    assert rates.pop() == pytest.approx(kappa[np.argmin(values)] / (2 * LAM), rel=1e-4)


def test_a_local_search_is_not_enough():
    """SameNoisy has two dips far apart; on Covertype at ε_N = 1, going downhill from c = 1/λ ends in the wrong one."""

    def bound(log_x):
        kappa = 1 + np.exp(log_x)
        return b(kappa, kappa, 54, 1, "N")

    x = np.log(np.geomspace(1e-4, 300, 100_001))
    values = bound(x)
    dips = 1 + np.exp(x[1:-1][(values[1:-1] < values[:-2]) & (values[1:-1] < values[2:])])
    assert len(dips) == 2
    assert dips[1] > 10 * dips[0]
    local = minimize(lambda x: np.log(bound(x[0])), [0.0], method="BFGS")
    assert 1 + np.exp(local.x[0]) == pytest.approx(dips[0], rel=1e-2)
    assert np.exp(local.fun) > 2 * values.min()
    assert plan(54, 1, "same-rate-noisy-first").rates["N"] == pytest.approx(dips[1] / (2 * LAM), rel=1e-3)


@on_the_grid
def test_theorem_a_is_at_or_below_algorithm_2(d, epsilon):
    precision = plan(d, epsilon, "precision", moments="upper")
    assert precision.theorem == "Theorem A"
    assert precision.bound <= plan(d, epsilon, "two-rates").bound / 4 * (1 + 1e-9)
    assert precision.evaluated_bound() <= plan(d, epsilon, "two-rates").evaluated_bound() * 1.04


@on_the_grid
def test_algorithm_2_is_no_worse_than_its_special_cases(d, epsilon):
    """As the paper says: one rate for all, and clean data only, are feasible for Algorithm 2."""
    best = plan(d, epsilon, "two-rates").bound
    for strategy in ("same-rate-clean-first", "same-rate-noisy-first", "clean-only", "arbitrary"):
        assert best <= plan(d, epsilon, strategy).bound * (1 + 1e-9)


@on_the_grid
def test_the_interval_for_c2_is_algorithm_2_with_each_moment(d, epsilon):
    interval = uneven.rate_interval(sources(d, epsilon), d, LAM, BATCH, radius="paper")
    upper, lower = (plan(d, epsilon, "two-rates", moments) for moments in ("upper", "lower"))
    assert list(interval) == upper.order
    first, second = upper.order
    assert interval[first] == (1 / LAM, 1 / LAM)
    if (d, epsilon) == (25, 1):  # the only point where the lower moments prefer the other order
        assert lower.order != upper.order
    else:
        assert lower.order == upper.order
        assert interval[second] == pytest.approx(sorted([lower.rates[second], upper.rates[second]]), rel=1e-7)
