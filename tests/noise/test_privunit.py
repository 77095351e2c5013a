"""privunit: its calibration, its law, its moments and its density ratio."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from releases import compiled_releases, exact_share
from scipy import integrate, stats
from scipy.optimize import minimize_scalar

from uneven import LocalPrivacy, Problem
from uneven.noise.directions import UNIFORM, choose
from uneven.noise.privunit import calibrated, mean_in, share_of

SURE = 1e-3
DIMENSIONS = [1, 2, 3, 5, 25, 784]


def draws(d, epsilon, n, norm=1.0, seed=0):
    return compiled_releases(calibrated(d, epsilon), d, n, norm, seed)


@pytest.mark.parametrize(("d", "epsilon", "energy"), [(25, 1, 155.6), (25, 10, 2.8), (54, 1, 339), (784, 1, 4960)])
def test_energies_of_the_design(d, epsilon, energy):
    assert calibrated(d, epsilon).energy(1.0) == pytest.approx(energy, rel=0.02)


@pytest.mark.parametrize(
    ("d", "epsilon", "times"),
    [(3, 1, 3), (25, 1, 17), (54, 1, 35), (784, 1, 496), (25, 10, 14), (54, 10, 26), (784, 10, 336)],
)
def test_how_much_less_noise_as_the_documents_have_it(d, epsilon, times):
    problem = Problem(d, 1e-3, 1)
    theirs, ours = (LocalPrivacy(epsilon, name).added_energy(problem) for name in ("l2-laplace", "privunit"))
    assert round(theirs / ours) == times


@pytest.mark.parametrize("d", [2, 3, 5, 25, 100, 784, 10_000])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1, 3, 10, 50, 300])
def test_calibration_is_the_best_height_and_consistent(d, epsilon):
    how = calibrated(d, epsilon)
    inverse = 1 / math.expm1(epsilon)

    def m(height):
        return mean_in(d, 1 - height) / (inverse + share_of(d, 1 - height))

    # The best height is m itself, and no other height does better.
    assert how.mean == pytest.approx(m(how.height), rel=1e-8)
    if epsilon <= 50:  # beyond, the best cap may be thinner than floats can tell
        assert how.mean == pytest.approx(how.height, rel=1e-8)
    best = minimize_scalar(lambda h: -m(h), bounds=(0, 1 - 1e-12), method="bounded", options={"xatol": 1e-12})
    assert how.mean >= -best.fun * (1 - 1e-8)


@pytest.mark.parametrize("d", [2, 3, 4, 25])
@pytest.mark.parametrize("height", [0.0, 0.1, 0.5, 0.9])
def test_share_and_mean_of_a_cap_by_quadrature(d, height):
    def angle(power, t_power):
        return integrate.quad(lambda a: math.sin(a) ** power * math.cos(a) ** t_power, 0, math.acos(height))[0]

    whole = integrate.quad(lambda a: math.sin(a) ** (d - 2), 0, math.pi)[0]
    assert share_of(d, 1 - height) == pytest.approx(angle(d - 2, 0) / whole, rel=1e-9)
    assert mean_in(d, 1 - height) == pytest.approx(angle(d - 2, 1) / whole, rel=1e-9, abs=1e-15)


def test_one_dimension_is_randomised_response():
    z = draws(1, 2.0, 40_000).ravel()
    m = math.tanh(1.0)
    np.testing.assert_allclose(np.abs(z), 1 / m)
    kept = (z > 0).mean()
    p = math.exp(2) / (1 + math.exp(2))
    assert abs(kept - p) < 4 * math.sqrt(p * (1 - p) / 40_000)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("epsilon", [0.5, 4.0, 12.0])
@pytest.mark.parametrize("norm", [1.0, 0.4, 0.0])
def test_unbiased_with_fixed_length(d, epsilon, norm):
    n = 4_000 if d > 100 else 20_000
    z = draws(d, epsilon, n, norm)
    mean = calibrated(d, epsilon).mean
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1 / mean, rtol=1e-9)
    error = np.maximum(z.std(axis=0), math.sqrt((mean**-2 - norm**2) / d)) / math.sqrt(n) + 1e-12
    truth = np.zeros(d)
    truth[0] = norm
    assert (np.abs(z.mean(axis=0) - truth) < 5 * error).all()  # up to 784 coordinates at once
    if norm == 1.0 and error[0] < 0.02:  # and a bias of 10% would be seen
        assert abs(z[:, 0].mean() - 1.1) > 4 * error[0]


@pytest.mark.parametrize("d", [2, 3, 4, 25, 784])
@pytest.mark.parametrize("epsilon", [0.2, 3.0, 10.0])
def test_law_of_the_height(d, epsilon):
    """T = ⟨V, u⟩ has the Beta law inside the cap and outside, weighed p/q and (1-p)/(1-q)."""
    how, n = calibrated(d, epsilon), 5_000 if d > 100 else 20_000
    t = draws(d, epsilon, n)[:, 0] * how.mean
    inside, chance = t >= how.height, how.own + how.base * how.share
    assert abs(inside.mean() - chance) < 4 * math.sqrt(chance * (1 - chance) / n) + 1e-9
    law = stats.beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)
    if inside.sum() > 100:
        survival = law.sf(t[inside]) / law.sf(how.height)
        assert stats.kstest(survival, "uniform").pvalue > SURE
    if (~inside).sum() > 100:
        assert stats.kstest(law.cdf(t[~inside]) / law.cdf(how.height), "uniform").pvalue > SURE


def test_directions_across_are_uniform():
    z = draws(5, 3.0, 20_000)[:, 1:]
    angle = np.arctan2(z[:, 0], z[:, 1]) / (2 * math.pi) + 0.5
    assert stats.kstest(angle, "uniform").pvalue > SURE


EPSILONS = [0.01, 0.1, 0.5, 1, 2, 3, 5, 10, 15, 20, 25, 30, 33, 36, 36.7, 36.8, 37, 40, 45, 50]


@pytest.mark.parametrize("d", [1, 2, 3, 25, 784, 785])
@pytest.mark.parametrize("epsilon", [1e-6, *EPSILONS, 300, 1e6])
def test_density_ratio_never_exceeds_epsilon(d, epsilon):
    """(υ + κ/q)/υ to 60 digits: floats are fractions, and probabilities are multiples of 2⁻⁵³ as draws are.

    All other ratios are smaller: a shorter input has a density between these two.
    """
    how = calibrated(d, epsilon)
    share = exact_share(d, 1 - how.height) if d in (3, 25, 785) else Fraction(how.share)
    base, own = Fraction(how.base), Fraction(how.own)
    assert base + own == 1
    assert (own * 2**53).denominator == 1
    assert base > 0
    ratio = 1 + own / share / base
    with localcontext(prec=60):
        realised = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
    assert realised <= Decimal(epsilon)
    # And nothing is given away: all of ε is used, but for what a υ of whole multiples of 2⁻⁵³ allows.
    grains = how.base * 2**53
    lost = math.inf if grains == 1 else math.log(grains / (grains - 1))
    if 0.01 <= epsilon <= 50:  # beyond, the best cap may be thinner than floats can tell
        assert float(realised) >= epsilon - lost - 1e-9


@pytest.mark.parametrize("d", [1, 2, 3, 25, 784])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_mean_is_that_of_the_chance_in_use(d, epsilon):
    """E[T] = κI/q, with κ and q as they are stored: unbiased."""
    how = calibrated(d, epsilon)
    integral = Fraction(mean_in(d, 1 - how.height) if d > 1 else 0.5)
    assert how.mean == pytest.approx(float(integral * Fraction(how.own) / Fraction(how.share)), rel=1e-14)


@pytest.mark.parametrize("epsilon", [37.0, 50.0, 1e6])
def test_a_direction_is_never_sure(epsilon):
    """The smallest draw there is ignores the row, however large ε is."""

    class Smallest:
        def random(self):
            return 0.0

    how = calibrated(1, epsilon)
    assert choose(1.0, how.base, how.own, how.fill, Smallest()) == UNIFORM


@pytest.mark.parametrize("d", [1, 3, 25])
def test_so_short_a_row_is_released_as_nothing(d):
    """A row too short for floats to hold its direction: the length of the release must not tell."""
    row = np.zeros((50, d))
    row[:, 0] = np.geomspace(1e-170, 1e-130, 50)
    noise = LocalPrivacy(10.0, "privunit")
    released = noise.release(row, 1.0, np.random.default_rng(0))
    # Rounding moves a coordinate by a few cells, each 2⁻¹⁸ of its root mean square.
    np.testing.assert_allclose(np.linalg.norm(released, axis=1), 1 / noise.calibration(d).mean, rtol=2e-4)


def test_calibration_is_plain_numbers():
    assert all(type(value) is float for value in calibrated(25, 1.0))
