"""quiet: unbiased, its stated energy for every length, ε-private in exact arithmetic, and where silence helps."""

import copy
import json
import math
import pickle
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from releases import compiled_releases, exact_share
from scipy import stats

from uneven import LocalPrivacy, Problem
from uneven.noise import directions, noise_from_dict, privunit, quiet
from uneven.noise.privacy import Releases, pool_activity
from uneven.noise.privunit import mean_in, share_of

DIMENSIONS = [1, 2, 3, 25, 784]
EPSILONS = [0.1, 1.0, 3.0, 10.0]
NORMS = [0.0, 0.1, 0.5, 0.8, 1.0]


def silent_calibration(d, epsilon, activity=0.5):
    """With silence, also where privunit would be better."""
    return quiet.with_silence(d, epsilon, quiet.best_silent_depth(d, epsilon, activity))


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("norm", NORMS)
def test_unbiased_with_the_stated_energy(d, epsilon, norm):
    how, n = silent_calibration(d, epsilon), 4_000 if d > 100 else 40_000
    z = compiled_releases(how, d, n, norm)
    squares = (z**2).sum(axis=1)
    stated = how.energy(norm)
    spoken = how.base + norm * how.own
    error = math.sqrt(spoken * (1 - spoken) / n) / how.mean**2 + 1e-9 * stated
    assert abs(squares.mean() - stated) < 4 * error
    if error < 0.02 * stated:  # a scale that is 10% wrong would be seen, either way
        for wrong in (0.9, 1.1):
            assert abs(wrong**2 * squares.mean() - stated) > 4 * error
    each = np.sqrt((stated - norm**2) / d / n) + np.maximum(z.std(axis=0), 1e-12) / math.sqrt(n)
    truth = np.eye(d)[0] * norm
    assert (np.abs(z.mean(axis=0) - truth) < 5 * each).all()
    if norm == 1.0 and each[0] < 0.01:
        assert abs(z[:, 0].mean() - 0.9) > 5 * each[0]


def log(ratio):
    with localcontext(prec=60):
        return (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()


def share_as_fraction(d, how):
    """Exact in odd dimensions; else as computed, for which calibration leaves a margin."""
    if d == 1:
        return Fraction(1, 2)
    return exact_share(d, 1 - how.height) if d % 2 and d < 100 else Fraction(how.share)


@settings(max_examples=150, deadline=None)
@given(
    d=st.sampled_from([1, 2, 3, 5, 9, 25, 54, 784, 10_000, 100_000]),
    epsilon=st.floats(1e-3, 50),
    activity=st.floats(1e-3, 1),
    norms=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    best=st.booleans(),
)
def test_no_ratio_of_probabilities_exceeds_epsilon(d, epsilon, activity, norms, best):
    """Exact arithmetic on the numbers that draws are compared with, over pairs of rows of any length and direction.

    A direction is in a row's cap or not, and both happen for any pair of rows: so the ratio of two densities is largest
    where it is in one cap and not in the other.
    """
    how = quiet.calibrated(d, epsilon, activity) if best else silent_calibration(d, epsilon, activity)
    base, own, share = Fraction(how.base), Fraction(how.own), share_as_fraction(d, how)
    assert (base * 2**53).denominator == (own * 2**53).denominator == 1
    assert base > 0
    assert 0 <= own <= 1 - base

    def probabilities(norm):
        rho = Fraction(norm)
        filled = (1 - rho) * own if how.fill else Fraction(0)
        off = base + filled
        return off, off + rho * own / share, 1 - base - own + (1 - rho) * own - filled

    for one, other in (norms, norms[::-1], (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)):
        (_, on, silent), (off, _, other_silent) = probabilities(one), probabilities(other)
        assert log(on / off) <= Decimal(epsilon)
        if silent:
            assert log(silent / other_silent) <= Decimal(epsilon)


@pytest.mark.parametrize("d", [1, 3, 25])
@pytest.mark.parametrize("epsilon", [1.0, 3.0, 10.0])
def test_all_of_epsilon_is_used(d, epsilon):
    """Both conditions hold with equality but for rounding: neither directions nor silence could tell more."""
    how = silent_calibration(d, epsilon)
    assert math.log1p(how.own / how.share / how.base) == pytest.approx(epsilon, abs=1e-9)
    assert math.log((1 - how.base) / (1 - how.base - how.own)) == pytest.approx(epsilon, abs=1e-9)


@pytest.mark.parametrize(("epsilon", "gains"), [(1, (1.2, 1.0, 0.9)), (3, (2.6, 1.5, 1.1)), (10, (5.3, 1.9, 1.2))])
def test_gains_of_the_design(epsilon, gains):
    plain, how = privunit.calibrated(25, epsilon), silent_calibration(25, epsilon, 0.5)
    assert [plain.energy(rho) / how.energy(rho) for rho in (0.15, 0.5, 0.8)] == pytest.approx(gains, abs=0.06)


@settings(max_examples=100, deadline=None)
@given(d=st.integers(1, 100_000), epsilon=st.floats(1e-3, 50), activity=st.floats(1e-3, 1))
def test_calibration_is_the_best_there_is(d, epsilon, activity):
    """Against a dense search over caps and over every split of what a short row leaves, within a thousandth.

    `spoken` = p₁ is the chance that a full row says something: with the largest κ for it, p₀ = max(f·p₁, 1 - e^ε(1 -
    p₁)) of a row of no length is the least that is private (f = 1/(1 + (e^ε - 1)q), privunit's density off the cap).
    """
    found = min(
        how.energy(activity) for how in (silent_calibration(d, epsilon, activity), privunit.calibrated(d, epsilon))
    )
    heights = np.unique(np.concatenate([np.geomspace(1e-6, 30, 150) / math.sqrt(d), 1 - np.geomspace(1e-13, 1, 100)]))
    caps = [(share_of(d, 1 - h), mean_in(d, 1 - h)) for h in heights if 0 < h < 1] if d > 1 else [(0.5, 0.5)]
    share, mean = np.array([cap for cap in caps if cap[1] > 1e-100]).T[:, :, None]
    growth = math.expm1(epsilon)
    f = 1 / (1 + growth * share)
    lowest = growth / (growth + 1 - f)
    p1 = lowest + (1 - lowest) * np.linspace(0, 1, 12)
    p0 = np.maximum(f * p1, 1 - math.exp(epsilon) * (1 - p1))
    energy = (activity * p1 + (1 - activity) * p0) / (p1 * growth * f * mean) ** 2
    assert found <= energy.min() * (1 + 1e-3)


@pytest.mark.parametrize("d", [2, 25, 54, 784])
def test_silence_must_pay_for_rows_more_active_than_planned(d):
    """At ε = 1 and activity ½ it would gain 1% as planned and lose 6% at Covertype's 0.65: then it is privunit."""
    plain, used = privunit.calibrated(d, 1.0).energy(0.5), silent_calibration(d, 1.0, 0.5)
    assert 0.98 < used.energy(0.5) / plain < 1.0 < 1.05 < used.energy(0.65) / plain
    assert quiet.calibrated(d, 1.0, 0.5) == privunit.calibrated(d, 1.0)
    for epsilon, activity in ((1.0, 0.15), (1.5, 0.5), (2.0, 0.5), (10.0, 0.8)):
        how = quiet.calibrated(d, epsilon, activity)
        assert how.fill == 0.0
        assert how.energy(math.sqrt(activity)) < privunit.calibrated(d, epsilon).energy(0.5)


@pytest.mark.parametrize("d", [1, 2, 25, 784, 100_000])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 50.0])
def test_calibration_is_quick(d, epsilon, monkeypatch):
    """Caps looked at, each some microseconds: at most 250 the first time (20 ms allow for thousands), then none."""
    looked_at = []
    monkeypatch.setattr(privunit, "share_of", lambda *cap: looked_at.append(cap) or share_of(*cap))
    quiet.calibrated.cache_clear()
    privunit.calibrated.cache_clear()
    LocalPrivacy(epsilon).calibration(d)
    assert len(looked_at) <= 250
    looked_at.clear()
    LocalPrivacy(epsilon).calibration(d)
    assert not looked_at


@pytest.mark.parametrize("d", [1, 3, 25])
def test_without_use_for_silence_it_is_privunit(d):
    rows = np.random.default_rng(0).normal(size=(20, d)) / 9
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
    for noise in (LocalPrivacy(0.5, "quiet"), LocalPrivacy(5.0, "quiet", activity=1.0)):
        plain = LocalPrivacy(noise.epsilon, "privunit")
        for method in ("release", "release_sum"):
            one, other = (getattr(which, method)(rows, 1.0, np.random.default_rng(1)) for which in (noise, plain))
            np.testing.assert_array_equal(one, other)


def test_energy_grows_with_activity_between_the_stated_ends():
    problem, noise = Problem(25, 1e-3, 1, clip=0.5), LocalPrivacy(3.0, activity=0.3)
    how = noise.calibration(25)
    energies = [0.25 * how.energy(rho) for rho in np.linspace(0, 1, 11)]
    assert np.diff(energies).min() > 0
    assert noise.row_energy(problem) == energies[-1]
    assert noise.planned_energy(problem) == pytest.approx(energies[3])
    beyond = [energy - 0.25 * rho**2 for energy, rho in zip(energies, np.linspace(0, 1, 11), strict=True)]
    assert noise.added_energy(problem) == pytest.approx(min(beyond))


@pytest.mark.parametrize("d", [1, 2, 25])
@pytest.mark.parametrize("rows", [2, 7])
def test_sum_in_one_draw_has_the_law_of_the_sum(d, rows):
    """Length and projection of sums drawn at once (a random walk) against sums of single releases."""
    noise, n, rng = LocalPrivacy(2.0), 4_000, np.random.default_rng(0)
    gradients = rng.normal(size=(rows, d))
    gradients *= np.linspace(0.1, 1, rows)[:, None] / np.linalg.norm(gradients, axis=1, keepdims=True)
    at_once, one_by_one = np.zeros((n, d)), np.zeros((n, d))
    for i in range(n):
        releases = Releases(at_once[i])
        for g in gradients:
            releases.add(noise, g, 1.0, rng)
            single = Releases(one_by_one[i])
            single.add(noise, g, 1.0, rng)
            single.finish(rng)
        releases.finish(rng)
    along = gradients.sum(axis=0)
    for statistic in (lambda z: np.linalg.norm(z, axis=1), lambda z: z @ along):
        one, many = (np.round(statistic(z), 9) for z in (at_once, one_by_one))
        assert stats.ks_2samp(one, many).pvalue > 1e-3
    if d == 25:  # there the length would show a scale that is 10% wrong
        one, many = (np.linalg.norm(z, axis=1) for z in (at_once, one_by_one))
        assert stats.ks_2samp(1.1 * one, many).pvalue < 1e-3


@pytest.mark.parametrize("how", [silent_calibration(25, 3.0), privunit.calibrated(25, 3.0)])
def test_draws_are_compared_to_the_last_grain(how):
    """Each outcome has exactly the number of draws, of 2⁵³, that its probability says: the next one has another."""
    last, grain = 1 - 2.0**-53, 2.0**-53

    def way(norm, *draws):
        return directions.choose(norm, how.base, how.own, how.fill, SimpleNamespace(random=iter(draws).__next__))

    left = directions.UNIFORM if how.fill else directions.SILENT
    assert way(1.0, 0.0) == way(1.0, how.base - grain) == directions.UNIFORM
    assert way(1.0, how.base, last) == way(1.0, how.base + how.own - grain, last) == directions.CAP
    assert way(0.0, how.base, 0.0) == way(0.5, how.base, 0.5) == left
    assert way(0.5, how.base, 0.5 - grain) == directions.CAP
    if not how.fill:
        assert way(1.0, how.base + how.own) == way(1.0, last) == directions.SILENT


def test_silent_rows_are_zero_and_draw_one_or_two_numbers():
    class Counting:
        def __init__(self, values):
            self.values = list(values)

        def random(self):
            return self.values.pop(0)

    how = LocalPrivacy(10.0).calibration(25)
    assert directions.choose(1.0, how.base, how.own, how.fill, Counting([1 - 2**-53])) == directions.SILENT
    assert directions.choose(0.1, how.base, how.own, how.fill, Counting([how.base, 0.5])) == directions.SILENT
    released = LocalPrivacy(10.0).release(np.zeros((200, 25)), 1.0, np.random.default_rng(0))
    silent = (released == 0).all(axis=1)
    assert abs(silent.mean() - (1 - how.base)) < 4 * math.sqrt(how.base * (1 - how.base) / 200)


def test_silence_tells_the_activity():
    noise, rng, n = LocalPrivacy(3.0), np.random.default_rng(0), 20_000
    how = noise.calibration(25)
    for rho in (0.0, 0.3, 1.0):
        ways = np.array([directions.choose(rho, how.base, how.own, how.fill, rng) for _ in range(n)])
        found = noise.find_activity(25, int((ways == directions.SILENT).sum()), n)
        spoken = how.base + rho * how.own
        assert found.planned == 0.5
        error = math.sqrt(spoken * (1 - spoken) / n) / how.own
        assert abs(found.found - rho) < 4 * error
        assert max(rho - 1.96 * error, 0.0) == pytest.approx(found.low, abs=4.5 * error)
        if 0.0 < rho < 1.0:  # elsewhere it is cut
            assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.1)
    assert LocalPrivacy(0.5).find_activity(25, 0, 10) is None
    assert LocalPrivacy(3.0, "l2-laplace").find_activity(25, 0, 10) is None
    assert noise.find_activity(25, 0, 0) is None


@pytest.mark.parametrize("released", [1, 2, 7, 30])
@pytest.mark.parametrize("rho", [0.0, 0.2, 0.9])
def test_few_rows_tell_little_of_the_activity(released, rho):
    """The interval holds the truth with probability 95% at least, however few rows there are; one row tells nothing."""
    noise = LocalPrivacy(3.0)
    how, counts = noise.calibration(25), np.arange(released + 1)
    found = [noise.find_activity(25, int(silent), released) for silent in counts]
    chances = stats.binom(released, 1 - how.base - rho * how.own).pmf(counts)
    assert sum(p for p, one in zip(chances, found, strict=True) if one.low - 1e-12 <= rho <= one.high + 1e-12) >= 0.95
    if released == 1:
        assert all(one.high - one.low > 0.9 for one in found)
        assert str(found[1]) == f"0.00 (0.00 to {found[1].high:.2f}; planned: 0.5)"


def test_levels_of_one_source_tell_its_activity_together():
    """One interval, as wide as all rows allow, which holds the truth in 95% of runs at least; no level alone does."""
    rho, rng, runs = 0.3, np.random.default_rng(0), 400
    noises, released = [LocalPrivacy(epsilon) for epsilon in (0.5, *np.linspace(1.5, 8.0, 40))], 25
    hows = [noise.calibration(25) for noise in noises]
    held, found = 0, []
    for _ in range(runs):
        silent = [int(rng.binomial(released, 0 if how.fill else 1 - how.base - rho * how.own)) for how in hows]
        one = pool_activity(25, [(noise, count, released) for noise, count in zip(noises, silent, strict=True)])
        held += one.low <= rho <= one.high
        found.append(one.found)
    assert held >= 0.95 * runs - 4 * math.sqrt(runs * 0.05 * 0.95)
    assert abs(np.mean(found) - rho) < 4 * np.std(found) / math.sqrt(runs)
    assert one.high - one.low < 6 * np.std(found)
    assert one.planned == 0.5
    assert pool_activity(25, [(noises[0], 0, 25)]) is None  # privunit: never silent
    assert pool_activity(25, [(noises[3], 9, 25)]) == noises[3].find_activity(25, 9, 25)


def test_a_stated_half_is_not_the_default():
    """With more than two classes the default grows; whoever states 0.5 gets 0.5, also after saving and copying."""
    unstated, stated = LocalPrivacy(3.0), LocalPrivacy(3.0, "quiet", 0.5)
    assert unstated.activity == stated.activity == 0.5
    for noise, planned in ((unstated, 0.5 * math.sqrt(1.8)), (stated, 0.5)):
        again = noise_from_dict(json.loads(json.dumps(noise.to_dict())))
        copies = noise, again, pickle.loads(pickle.dumps(noise)), replace(noise, epsilon=3.0), copy.deepcopy(noise)
        assert [one.observed_among(10).activity for one in copies] == [pytest.approx(planned)] * 5
        assert noise.observed_among(2).activity == 0.5
    assert "activity" not in unstated.to_dict()
    assert stated.to_dict()["activity"] == 0.5
    problem = Problem(50, 1e-3, 1, clip=0.5, classes=10)
    assert stated.coefficients(problem).own == stated.calibration(problem.n_features).own
    assert unstated.coefficients(problem).own != stated.coefficients(problem).own


@pytest.mark.parametrize("activity", [0, -0.5, 1e-7, 1.0001, math.nan, math.inf, "half", None, True])
def test_activity_is_refused_outside_its_range(activity):
    with pytest.raises(ValueError, match="activity must be a number from 1e-06 to 1, got ") as refused:
        LocalPrivacy(1.0, activity=activity)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("activity", [1e-6, 1])
def test_ends_of_the_range_of_activity_are_in_it(activity):
    assert LocalPrivacy(1.0, activity=activity).activity == activity


@pytest.mark.parametrize(("d", "most"), [(1, 1.18), (25, 1.14), (784, 1.14)])
def test_privunit_in_place_of_silence_costs_little_as_planned(d, most):
    """As docs/theory.md says: privunit where silence saves nothing at √ρ, with so much more energy at ρ at most."""
    ratios = [
        how.energy(rho) / silent_calibration(d, epsilon, rho).energy(rho)
        for rho in (0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.7)
        for epsilon in np.arange(0.6, 1.8, 0.04)
        if (how := quiet.calibrated(d, epsilon, rho)).fill
    ]
    assert most - 0.01 < max(ratios) <= most + 5e-4


@pytest.mark.parametrize(("size", "used"), [(0.124, 8), (0.126, 4)])
def test_short_normals_are_drawn_again(size, used):
    """Below a mean square of 1/64 = 0.125² a generator's spacing would show in the direction."""
    v, left = np.empty(4), iter([size] * 4 + [1.0] * 4)
    square = directions._fill_normal(v, SimpleNamespace(standard_normal=left.__next__))
    assert 8 - len([*left]) == used
    assert square == pytest.approx((v**2).sum())


def test_plans_from_before_activity_are_read():
    old = {"kind": "local-privacy", "epsilon": 2.0, "mechanism": "privunit"}
    assert noise_from_dict(old) == LocalPrivacy(2.0, "privunit")
    assert noise_from_dict(old).to_dict() == old
    assert noise_from_dict({"kind": "local-privacy", "epsilon": 2.0}).mechanism == "quiet"


def test_pooled_activity_is_planned_by_the_rows_weight():
    """A mean by rows, each with the weight that its own release has."""
    one, two, d = LocalPrivacy(1.0, activity=0.1), LocalPrivacy(4.0, activity=0.9), 9
    own = [noise.calibration(d).own for noise in (one, two)]
    found = pool_activity(d, [(one, 500, 1000), (two, 900, 3000)])
    expected = (0.1 * own[0] * 1000 + 0.9 * own[1] * 3000) / (own[0] * 1000 + own[1] * 3000)
    assert found.planned == pytest.approx(expected)
