"""privunit: its calibration, its law, its moments and its density ratio."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.optimize import minimize_scalar

from uneven import LocalPrivacy, Problem
from uneven.engine.kernels import add_release as compiled_release
from uneven.noise.privunit import Cap, add_release, calibrated, mean_in, share_of

SURE = 1e-3
DIMENSIONS = [1, 2, 3, 5, 25, 784]


def draws(d, epsilon, n, norm=1.0, seed=0):
    """Releases of the vector of that norm along the first axis, by the compiled function."""
    rng, out, scratch = np.random.default_rng(seed), np.zeros((n, d)), np.empty(d)
    row, cap = np.zeros(d), tuple(calibrated(d, epsilon))
    row[0] = 0.7  # only its direction counts
    for i in range(n):
        compiled_release(out[i], row, 1.0, 0.7, norm, 1.0, cap, scratch, rng)
    return out


def log_odds_ratio(chance, share):
    """Log of (p/q)/((1-p)/(1-q)) to 60 digits: floats are fractions, and p is a multiple of 2⁻⁵³ as draws are."""
    p, q = Fraction(chance), Fraction(share)
    assert (p * 2**53).denominator == 1
    ratio = p * (1 - q) / (q * (1 - p))
    with localcontext(prec=60):
        return (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()


def exact_share(d, depth):
    """q in an odd dimension: Beta(a, a) of whole a is a binomial sum, here of fractions."""
    n, x = d - 2, Fraction(depth) / 2
    up, whole = x.numerator, x.denominator
    terms = (math.comb(n, j) * up**j * (whole - up) ** (n - j) for j in range((d - 1) // 2, n + 1))
    return Fraction(sum(terms), whole**n)


@pytest.mark.parametrize(("d", "epsilon", "energy"), [(25, 1, 155.6), (25, 10, 2.8), (54, 1, 339), (784, 1, 4960)])
def test_energies_of_the_design(d, epsilon, energy):
    assert calibrated(d, epsilon).mean ** -2 == pytest.approx(energy, rel=0.02)


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
    cap = calibrated(d, epsilon)
    inverse = 1 / math.expm1(epsilon)

    def m(height):
        return mean_in(d, 1 - height) / (inverse + share_of(d, 1 - height))

    # The best height is m itself, and no other height does better.
    assert cap.mean == pytest.approx(m(cap.height), rel=1e-8)
    if epsilon <= 50:  # beyond, the best cap may be thinner than floats can tell
        assert cap.mean == pytest.approx(cap.height, rel=1e-8)
    best = minimize_scalar(lambda h: -m(h), bounds=(0, 1 - 1e-12), method="bounded", options={"xatol": 1e-12})
    assert cap.mean >= -best.fun * (1 - 1e-9)
    # Unbiased: m = I·(p/q - (1-p)/(1-q)).
    mean = mean_in(d, 1 - cap.height) * (cap.chance / cap.share - (1 - cap.chance) / (1 - cap.share))
    assert mean == pytest.approx(cap.mean, rel=1e-6)


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
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1 / calibrated(d, epsilon).mean, rtol=1e-9)
    mean = calibrated(d, epsilon).mean
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
    cap, n = calibrated(d, epsilon), 5_000 if d > 100 else 20_000
    t = draws(d, epsilon, n)[:, 0] * cap.mean
    inside = t >= cap.height
    assert abs(inside.mean() - cap.chance) < 4 * math.sqrt(cap.chance * (1 - cap.chance) / n) + 1e-9
    law = stats.beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)
    if inside.sum() > 100:
        survival = law.sf(t[inside]) / law.sf(cap.height)
        assert stats.kstest(survival, "uniform").pvalue > SURE
    if (~inside).sum() > 100:
        assert stats.kstest(law.cdf(t[~inside]) / law.cdf(cap.height), "uniform").pvalue > SURE


def test_directions_across_are_uniform():
    z = draws(5, 3.0, 20_000)[:, 1:]
    angle = np.arctan2(z[:, 0], z[:, 1]) / (2 * math.pi) + 0.5
    assert stats.kstest(angle, "uniform").pvalue > SURE


EPSILONS = [0.01, 0.1, 0.5, 1, 2, 3, 5, 10, 15, 20, 25, 30, 33, 36, 36.7, 36.8, 37, 40, 45, 50]


@pytest.mark.parametrize("d", [1, 2, 3, 25, 784, 785])
@pytest.mark.parametrize("epsilon", [1e-6, *EPSILONS, 300, 1e6])
def test_odds_of_the_cap_never_exceed_epsilon(d, epsilon):
    """A release is in the cap with odds at most e^ε times those of another input's, in the numbers that are drawn by.

    So all other ratios are smaller: the density has two values, and short inputs and their mixtures lie between.
    """
    cap = calibrated(d, epsilon)
    share = exact_share(d, 1 - cap.height) if d in (3, 25, 785) else cap.share
    realised = log_odds_ratio(cap.chance, share)
    assert realised <= Decimal(epsilon)
    # And nothing is given away: all of ε is used, but for what 1 - p of whole multiples of 2⁻⁵³ allows.
    grains = (1 - cap.chance) * 2**53
    assert grains >= 1
    lost = math.inf if grains == 1 else math.log(grains / (grains - 1))
    if epsilon <= 50:  # beyond, the best cap may be thinner than floats can tell
        assert float(realised) >= epsilon - lost - 1e-10


@pytest.mark.parametrize("d", [1, 2, 3, 25, 784])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_mean_is_that_of_the_chance_in_use(d, epsilon):
    """E[T] = I·(p/q - (1-p)/(1-q)) = I·(p - q)/(q(1 - q)), with p and q as they are stored: unbiased."""
    cap = calibrated(d, epsilon)
    p, q = Fraction(cap.chance), Fraction(cap.share)
    integral = Fraction(mean_in(d, 1 - cap.height) if d > 1 else 0.5)
    assert cap.mean == pytest.approx(float(integral * (p - q) / (q * (1 - q))), rel=1e-14)


@pytest.mark.parametrize("epsilon", [37.0, 50.0, 1e6])
def test_a_sign_is_never_sure(epsilon):
    """The largest draw there is flips it, however large ε is."""

    class Largest:
        def random(self):
            return 1 - 2.0**-53

    out = np.zeros(1)
    add_release(out, np.ones(1), 1.0, 1.0, 1.0, 1.0, calibrated(1, epsilon), np.empty(1), Largest())
    assert out[0] == pytest.approx(-1.0)


@settings(max_examples=60, deadline=None)
@given(
    d=st.integers(1, 60),
    epsilon=st.floats(0.01, 50),
    norms=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    seed=st.integers(0, 99),
)
def test_density_ratio_never_exceeds_epsilon(d, epsilon, norms, seed):
    """Exact density of a release against the uniform law, over pairs of inputs and random outputs."""
    cap, rng = calibrated(d, epsilon), np.random.default_rng(seed)

    def unit(n):
        z = rng.normal(size=(n, d))
        return z / np.linalg.norm(z, axis=1, keepdims=True)

    def density(v, u, norm):
        t = np.round(v @ u, 12)  # so that u is in its own cap
        on, off = cap.chance / cap.share, (1 - cap.chance) / (1 - cap.share)
        plus, minus = np.where(t >= cap.height, on, off), np.where(-t >= cap.height, on, off)
        return (1 + norm) / 2 * plus + (1 - norm) / 2 * minus

    u, other = unit(2)
    v = np.concatenate([unit(200), u[None], -u[None], other[None], -other[None]])
    ratio = np.log(density(v, u, norms[0])) - np.log(density(v, other, norms[1]))
    assert ratio.max() <= epsilon + 1e-13 * (1 + epsilon)  # the rounding of these lines


@pytest.mark.parametrize("d", [1, 3, 25])
def test_so_short_a_row_is_released_as_nothing(d):
    """A row too short for floats to hold its direction: the length of the release must not tell."""
    row = np.zeros((50, d))
    row[:, 0] = np.geomspace(1e-170, 1e-130, 50)
    released = LocalPrivacy(10.0).release(row, 1.0, np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(released, axis=1), 1 / calibrated(d, 10.0).mean, rtol=1e-9)


def test_cap_is_plain_numbers():
    assert all(type(value) is float for value in Cap(*calibrated(25, 1.0)))
