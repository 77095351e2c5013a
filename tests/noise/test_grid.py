"""Rounding to the grid: unbiased, its kernel as stated, and no low bits that tell inputs apart."""

import math
from fractions import Fraction

import numpy as np
import pytest

from uneven import LocalPrivacy, Problem, SitePrivacy
from uneven.audit.drawing import draw_by_engine
from uneven.engine import Task, checked_chunk, initial_state, kernels, measure_gradient
from uneven.noise import grid
from uneven.noise.privacy import MECHANISMS, Releases, draw_l2_laplace
from uneven.schedules import Rate

N = 40_000


def rounded(x, cell=0.5, n=N, seed=0):
    z, rng = np.full(n, float(x)), np.random.default_rng(seed)
    grid.round_to_grid(z, cell, rng)
    return z


def kernel(x, k):
    """Probability of cell k: (1 - frac)·G(k - ⌊x⌋) + frac·G(k - ⌊x⌋ - 1), G(k) = 2^{-|k|}/3."""
    low = math.floor(x)
    return (1 - x + low) * 2.0 ** -abs(k - low) / 3 + (x - low) * 2.0 ** -abs(k - low - 1) / 3


@pytest.mark.parametrize("x", [0.0, 0.3, -1.7, 12.5])
def test_law_of_the_rounding(x):
    cells = rounded(0.5 * x) / 0.5
    assert (cells == np.round(cells)).all()
    for k in range(math.floor(x) - 5, math.floor(x) + 7):
        p = kernel(x, k)
        assert abs((cells == k).mean() - p) < 4.5 * math.sqrt(p * (1 - p) / N)
    assert abs(cells.mean() - x) < 4 * cells.std() / math.sqrt(N)
    assert abs(((cells - x) ** 2).mean() - 4) < 0.25 + 4 * ((cells - x) ** 2).std() / math.sqrt(N)
    assert ((cells - x) ** 2).mean() < 1.1 * grid.EXTRA


@pytest.mark.parametrize("round_to_grid", [grid.round_to_grid, kernels.round_to_grid])
def test_what_no_cell_holds_stays_what_it_is(round_to_grid):
    """NaN and infinity stay; so do numbers that are more cells than a whole number of 64 bits, up to rounding."""
    odd = np.array([math.nan, math.inf, -math.inf, 1e30, -1e30, 1e300, 0.5])
    z = odd.copy()
    round_to_grid(z, 1e-3, np.random.default_rng(0))
    np.testing.assert_allclose(z[:-1], odd[:-1], rtol=1e-15)
    assert abs(z[-1] - 0.5) < 0.05


def test_probabilities_change_by_no_more_than_the_move():
    """|log P(k | x + e) - log P(k | x)| ≤ e, in cells: what the guarantee in floats rests on. It is attained."""
    rng = np.random.default_rng(0)
    x, e = rng.uniform(-3, 3, 2_000), rng.uniform(0, 2, 2_000) ** 3
    pairs = [(a, b, k) for a, b in zip(x, e, strict=True) for k in range(-9, 10)]
    changes = [abs(math.log(kernel(a + b, k)) - math.log(kernel(a, k))) / b for a, b, k in pairs]
    assert max(changes) <= 1 + 1e-9
    assert abs(math.log(kernel(1e-6, 5)) - math.log(kernel(0.0, 5))) / 1e-6 == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("d", [1, 54, 784, 10_000, 100_000])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("reach", [1.0, 32.0])
def test_slack_is_what_the_grid_costs_and_a_thousandth_at_most(d, epsilon, reach):
    cost = grid.error_bound(d, reach) / grid.fineness(d, epsilon, reach)
    assert grid.slack(d, epsilon, reach) == pytest.approx(cost)
    assert cost <= epsilon / 1024 * (1 + 1e-12)
    assert grid.fineness(d, epsilon, reach) >= 2**-18


@pytest.mark.parametrize("d", [1, 54, 784, 100_000])
@pytest.mark.parametrize("reach", [1, 32])
def test_error_bound_is_twice_what_the_theorem_takes(d, reach):
    """2E of docs/theory.md: ‖e‖₁ ≤ √d·‖e‖, ‖e‖ ≤ (4d + 1024)u of a release's length, at most `reach`·√d coordinates."""
    per_length = (4 * d + 1024) * Fraction(1, 2**53)
    assert grid.error_bound(d, reach) == pytest.approx(float(2 * d * reach * per_length), rel=1e-12)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("d", [1, 54])
@pytest.mark.parametrize(("rows", "part"), [(1, 1e-9), (50, 1e-7), (1_000, 1e-6), (10_000, 2e-4), (65_536, 0.05)])
def test_rounding_costs_nothing_that_could_be_measured(mechanism, d, rows, part):
    """What it adds to the energy of a sum, as a part of the rows' own; long sums too."""
    noise = LocalPrivacy(1.0, mechanism)
    added = grid.EXTRA * d * grid.width(noise.grid(d, 1.0), rows) ** 2 / rows
    assert added < part * noise.row_energy(Problem(d, 1e-3, 1))
    assert noise.epsilon - grid.slack(d, 1.0, 32.0) > 1 - 2e-4


@pytest.mark.parametrize("noise", [LocalPrivacy(3.0), LocalPrivacy(10.0), SitePrivacy(10.0)])
def test_a_large_batch_has_the_variance_that_is_stated(noise):
    """Batches of 50,000 rows: the mean's noise is what is stated, within four standard errors, both ways."""
    rows, d, runs = 50_000, 4, 60
    problem = Problem(d, 1e-3, rows, loss="linear", clip=0.5)
    X = np.zeros((rows, d), dtype=np.float32)
    X[:, 0] = 1.0
    moment, rng = noise.moment("variance", problem), np.random.default_rng(0)
    task = Task(problem, ("a",), (noise,), (moment,), Rate(1.0))
    chunk = checked_chunk(["a"], X, np.ones(rows), np.arange(rows))
    found = np.array([measure_gradient(initial_state(d), task, chunk, rng)[0] for _ in range(runs)]) / rows
    energy = ((found - found.mean(axis=0)) ** 2).sum(axis=1) * runs / (runs - 1)
    stated = (noise.row_energy(problem) - 0.25) / rows + noise.batch_energy(problem) / rows**2
    assert energy.mean() == pytest.approx(stated, abs=4 * energy.std() / runs**0.5 + 0.02 * stated)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("d", [1, 25, 784, 100_000])
@pytest.mark.parametrize("epsilon", [1e-3, 3.0, 20.0])
def test_mechanism_and_rounding_together_stay_within_epsilon(mechanism, d, epsilon):
    """The ε that noise is drawn with and what rounding costs add up to what is stated and charged, all of it."""
    noise = LocalPrivacy(epsilon, mechanism)
    rounding = grid.slack(d, epsilon, 1.0 if noise.by_direction else 32.0)
    if noise.by_direction:
        how = noise.calibration(d)
        used = math.log1p(how.own / how.share / how.base)
        if not how.fill:
            assert math.log((1 - how.base) / (1 - how.base - how.own)) + rounding <= epsilon * (1 + 1e-14)
    else:
        used = math.sqrt(8.0 / noise.coefficients(Problem(d, 1e-3, 1)).gamma)
    assert epsilon * (1 - 1e-7) <= used + rounding <= epsilon * (1 + 1e-14)
    assert used <= epsilon - 0.999 * rounding
    assert noise.epsilon_per_row == epsilon


@pytest.mark.parametrize("rows", [1, 2, 50, 1024, 100_000])
@pytest.mark.parametrize("d", [1, 784])
def test_cells_of_a_sum_are_as_wide_as_its_errors(rows, d):
    """In roundings of one release's length: the errors of m releases, and of adding them up in any order, m²/2."""
    errors = rows * (4 * d + 512) + rows * rows / 2
    assert errors <= (4 * d + 1024) * grid.width(1.0, rows) <= 10 * errors


def values_of(noise, x, n, rng):
    return noise.release(np.full((n, 1), x), 1.0, rng).ravel()


def told_apart(one, other):
    """Share of releases of one input that show, by their bits, that they are not of the other's kind."""
    return float((~np.isin(one, other)).mean())


@pytest.mark.parametrize("mechanism", ["privunit", "quiet"])
@pytest.mark.parametrize("drawn_by", ["release", "engine"])
def test_low_bits_do_not_tell_a_zero_gradient(mechanism, drawn_by):
    """In one dimension x/‖x‖·(1/m) once had other last bits than a random sign's; now every value is of the grid."""
    noise, rng = LocalPrivacy(3.0, mechanism), np.random.default_rng(0)
    cell = grid.width(noise.grid(1, 1.0), 1)
    if drawn_by == "engine":
        draw = draw_by_engine(noise, Problem(1, 1e-3, 1))
        one, other = (draw(np.array([x]), 20_000, rng).ravel() for x in (0.0, 0.3))
    else:
        one, other = (values_of(noise, x, 4_000, rng) for x in (0.0, 0.3))
    for values in (one, other):
        cells = values / cell
        np.testing.assert_allclose(cells, np.round(cells), atol=1e-6)
    # Values that the other input never gave are the rare far moves, 2⁻¹⁰ and rarer.
    assert told_apart(one, other) < 0.01
    assert told_apart(other, one) < 0.01


def attack(one, other):
    """log P(v | one)/P(v | other) of the value that tells most, chosen on half of the draws and tried on the others.

    Returns it with its standard error; a value that the other never gave counts as given once.
    """
    half = len(one) // 2
    values, counts = np.unique(one[:half], return_counts=True)
    against = np.array([(other[:half] == value).sum() for value in values])
    best = values[np.argmax(np.where(counts >= 30, counts / np.maximum(against, 1), 0))]
    a, b = ((drawn[half:] == best).sum() for drawn in (one, other))
    return math.log(max(a, 1) / max(b, 1)), math.sqrt(1 / max(a, 1) + 1 / max(b, 1))


def not_rounded(noise, x, n, rng):
    drawn = [Releases(np.zeros(1)) for _ in range(n)]
    for one in drawn:
        one.add(noise, np.array([x]), 1.0, rng)
    return np.array([one.finish(rng)[0] for one in drawn])


@pytest.mark.parametrize("mechanism", ["privunit", "quiet"])
def test_low_bits_of_directions_tell_more_than_epsilon_unless_rounded(mechanism):
    """x/‖x‖·(1/m) has last bits that a random sign z/|z|·(1/m) seldom has: some input is given away by them."""
    noise, rng, n = LocalPrivacy(1.0, mechanism, activity=0.1), np.random.default_rng(0), 4_000
    step = 1.0 / noise.calibration(1).mean
    common = not_rounded(noise, 0.0, n, rng)
    candidates = np.linspace(0.9, 1.0, 100)
    x = min(candidates, key=lambda one: (common == step * (1.0 / one) * one).sum())
    found, error = attack(not_rounded(noise, x, n, rng), common)
    assert found > noise.epsilon + 4 * error
    for draw in (lambda x, n: values_of(noise, x, n, rng), lambda x, n: drawn_by_engine(noise, x, n, rng)):
        found, error = attack(draw(x, 4 * n), draw(0.0, 4 * n))
        assert found <= noise.epsilon + 4 * error


def drawn_by_engine(noise, x, n, rng):
    return draw_by_engine(noise, Problem(1, 1e-3, 1))(np.array([x]), n, rng).ravel()


def test_low_bits_of_l2_laplace_tell_inputs_apart_unless_rounded():
    """1 + z is a multiple of 2⁻⁵³ where it is at least ½, and 0 + z hardly ever is where it is below 1/8."""
    rng, noise = np.random.default_rng(0), LocalPrivacy(1.0, "l2-laplace")

    def on_ones_grid(values):
        return np.round(values * 2.0**53) == values * 2.0**53

    z = draw_l2_laplace(200_000, 1, 1.0, rng).ravel()
    short = z[np.abs(z) < 0.125]
    assert on_ones_grid(1.0 + short).all()
    assert on_ones_grid(0.0 + short).mean() < 0.2  # so one such value below 1/8 gives the input away
    cell = grid.width(noise.grid(1, 1.0), 1)
    for x in (0.0, 1.0, 2.0**-12):
        cells = values_of(noise, x, 4_000, rng) / cell
        np.testing.assert_allclose(cells, np.round(cells), atol=1e-6)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_sums_are_on_a_grid_too(mechanism):
    noise, rng = LocalPrivacy(2.0, mechanism), np.random.default_rng(0)
    rows = rng.normal(size=(7, 3)) / 10
    cells = noise.release_sum(rows, 1.0, rng) / grid.width(noise.grid(3, 1.0), 7)
    np.testing.assert_allclose(cells, np.round(cells), atol=1e-6)
