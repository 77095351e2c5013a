"""The test of agreement holds its level, finds real shifts, and estimates their size."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from uneven import Exact, LocalPrivacy
from uneven.anchor.clock import absorb
from uneven.anchor.shape import find_plain_coordinates
from uneven.anchor.shift import (
    LEVEL,
    Disagreement,
    allow_shift,
    doubt_curvature,
    limit_shift,
    measure_shift,
    measure_square,
    react,
)
from uneven.anchor.uncertainty import fit_anchor
from uneven.noise.privunit import calibrated

H, V, CLOCK, LARGEST = np.geomspace(0.1, 1e-3, 30), np.full(30, 0.5), 1e4, 1e4


def drawn(t2, runs, seed=0):
    spread = np.sqrt(1 / CLOCK + H**2 * V + H * t2)
    return spread * np.random.default_rng(seed).standard_normal((runs, 30))


def test_agreement_is_rejected_as_often_as_the_level_says():
    runs = 1000
    rejected = sum(measure_shift(g, CLOCK, H, V, LARGEST).found for g in drawn(0.0, runs))
    assert abs(rejected / runs - LEVEL) < 4 * np.sqrt(LEVEL * (1 - LEVEL) / runs)


def test_the_variance_between_sources_is_bounded_from_below():
    """84% of the bounds lie below the truth (asymptotically: allow two points more), and not far below."""
    bounds = np.array([measure_shift(g, CLOCK, H, V, LARGEST).variance for g in drawn(20.0, 400)])
    assert abs(np.mean(bounds < 20.0) - 0.84) < 0.02 + 4 * np.sqrt(0.84 * 0.16 / 400)
    assert 8.0 < np.median(bounds) < 20.0


def test_without_a_shift_its_variance_is_seldom_positive():
    positive = [measure_shift(g, CLOCK, H, V, LARGEST).variance > 1e-4 for g in drawn(0.0, 400, seed=1)]
    assert np.mean(positive) < 0.16 + 4 * np.sqrt(0.16 * 0.84 / 400)


def test_chance_where_nothing_curves_is_not_taken_for_a_far_optimum():
    """g² is 2.2 times its variance, h² a thousandth of that: only a variance above 50 would explain it."""
    g, flat = np.full(30, 0.015), np.full(30, 1e-3)
    absurd, plausible = (measure_shift(g, CLOCK, flat, V, largest) for largest in (1e4, 1.0))
    assert absurd.p_value == plausible.p_value < LEVEL
    assert absurd.matters
    assert not plausible.matters
    assert "no allowance is made for it" in plausible.describe("clinic")


def test_what_chance_may_have_made_is_said_and_not_acted_on():
    likely, unclear, clear = (Disagreement(50.0, p, 1.0) for p in (0.02, 0.005, 1e-4))
    assert [one.matters for one in (likely, unclear, clear)] == [False, False, True]
    assert likely.describe("a") == "'a': no clear disagreement with the public rows (p = 0.02)"
    assert unclear.describe("a") == "'a' may disagree with the public rows (p = 0.005), not clearly enough to act on"
    assert clear.describe("a") == "'a' disagrees with the public rows by more than noise explains (p = 0.0001)"


def test_the_level_holds_where_the_variance_was_estimated_from_few_rows():
    """v is the mean of four squares, as of a column seen four times."""
    runs, rng = 1000, np.random.default_rng(8)
    estimated = V * rng.chisquare(4, (runs, 30)) / 4
    gradients = drawn(0.0, runs, seed=9)
    loud = 1e6  # releases without noise: all variance is the estimated one
    g = gradients * np.sqrt(H**2 * V + 1 / loud) / np.sqrt(1 / CLOCK + H**2 * V)
    few, known = (
        np.mean([measure_shift(x, loud, H, v, LARGEST, n).p_value < LEVEL for x, v in zip(g, estimated, strict=True)])
        for n in (np.full(30, 4.0), None)
    )
    assert abs(few - LEVEL) < 0.01 + 4 * np.sqrt(LEVEL * (1 - LEVEL) / runs)  # Satterthwaite's is an approximation
    assert known > 0.2


def rows(n, truth, rng, balance=0.0):
    X = rng.uniform(-1, 1, (n, 4)) * 0.45
    X[:, 0] = 0.4
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-(X @ truth + balance))), 1.0, -1.0)
    return X, y


TRUTH = np.array([0.0, 5.0, -3.0, 0.0])
ROTATED = np.array([0.0, 3.0, 5.0, 0.0])


@pytest.mark.parametrize(
    ("truth", "balance", "shifted"),
    [(TRUTH, 0.0, False), (TRUTH, 2.0, True), (ROTATED, 0.0, True)],
    ids=["same", "label shift", "rotated"],
)
def test_a_shift_is_found_and_the_answer_is_near_the_better_of_both(truth, balance, shifted, loop):
    rng, noise, alpha = np.random.default_rng(4), LocalPrivacy(4.0, mechanism="privunit"), 1e-3
    anchor = fit_anchor(*rows(500, TRUTH, rng), alpha)
    c = find_plain_coordinates(anchor)
    X, y = rows(8000, truth, rng, balance)
    row_precision = 4 * calibrated(4, 4.0).mean ** 2 / c.clip**2
    g = loop.mean_gradient(c, noise, X[:1000], y[:1000], rng)
    c, found = react(c, g, 1000 * row_precision, step=True)
    c = doubt_curvature(c, 7000 * row_precision) if found.matters else c
    assert found.found == shifted
    assert ("more than noise explains" in found.describe("clinic")) == shifted
    end = c.weights(loop.run(c, noise, X[1000:], y[1000:], row_precision, rng).weights)
    X, y = rows(100_000, truth, rng, balance)

    def value(w):
        return np.logaddexp(0, -y * (X @ w)).mean() + alpha / 2 * w @ w

    least = value(fit_anchor(X, y, alpha).weights)
    assert value(end) - least < (0.2 * (value(anchor.weights) - least) if shifted else 0.02)


def coordinates_of_rows(n, seed):
    return find_plain_coordinates(fit_anchor(*rows(n, TRUTH, np.random.default_rng(seed)), 1e-3))


def test_a_shift_adds_as_much_excess_in_each_direction_up_to_the_mean_square_of_a_weight():
    c = coordinates_of_rows(300, 5)
    most = (c.start @ c.start + c.variance.sum()) / 4
    assert measure_square(c) == pytest.approx(most)
    least = c.curvature.min()
    small, large = (allow_shift(c, np.zeros(4), Disagreement(9.0, 1e-9, t2)) for t2 in (0.1 * most * least, 1e9))
    np.testing.assert_allclose(c.curvature * (small.variance - c.variance), np.full(4, 0.1 * most * least))
    np.testing.assert_allclose(large.variance, c.variance + most)
    np.testing.assert_array_equal(large.start, c.start)


@pytest.mark.parametrize(("multiple", "begins"), [(0.6, 0.6), (-1.0, 0.0), (2.0, 1.0)])
def test_a_source_that_disagrees_begins_at_the_multiple_of_the_start_that_it_asks_for(multiple, begins):
    """Of a quadratic whose optimum is a multiple of the start the gradient there is H(u₀ - u*)."""
    c = coordinates_of_rows(300, 5)
    gradient = c.hessian @ ((1.0 - multiple) * c.start)
    allowed = allow_shift(c, gradient, Disagreement(9.0, 1e-9, 1.0))
    np.testing.assert_allclose(allowed.start, begins * c.start, atol=1e-9)


@pytest.mark.slow
def test_a_doubted_curvature_has_the_least_regret_of_those_between_what_is_known_and_alpha():
    """By another way than the code's: each pair of steps and truth is followed through the recursion, step by step."""
    c = coordinates_of_rows(300, 5)
    c = allow_shift(c, np.zeros(4), Disagreement(9.0, 1e-9, 1.0))
    possible = [c.curvature ** (1 - q) * 1e-3**q for q in (0, 0.25, 0.5, 0.75, 1)]

    def follow(h, true, clock, steps=4000):
        """Expected excess of a quadratic with curvature `true`, of steps made for h."""
        error = c.variance.copy()
        for t in range(1, steps + 1):
            eta = clock / steps / (1 / (c.variance * h) + h * t * clock / steps)
            error = (1 - eta * true) ** 2 * error + eta**2 * steps / clock
        return float(true @ error)

    chosen = []
    for clock in (1e2, 1e4, 1e6):
        found = doubt_curvature(c, clock).curvature
        excess = np.array([[follow(h, true, clock) for true in possible] for h in possible])
        best = (excess - excess.min(axis=0)).max(axis=1).argmin()
        np.testing.assert_allclose(found, possible[best], rtol=1e-9)
        chosen.append(best)
    assert len(set(chosen)) > 1  # less noise, other steps


def test_a_source_that_agrees_moves_the_start_and_one_that_does_not_widens_it():
    c = coordinates_of_rows(300, 6)
    near, agreed = react(c, 0.5 * np.sqrt(1e-4 + c.curvature**2 * c.variance), 1e4, step=True)
    assert not agreed.found
    assert (near.variance < c.variance).all()
    assert (near.start != c.start).all()
    assert react(c, np.zeros(4), 1e4, step=False)[0] is c
    far, differed = react(c, np.full(4, 0.5), 1e4, step=True)
    assert differed.found
    assert (far.variance > c.variance).all()


def test_a_covariance_limited_for_few_steps_raises_no_alarm_and_makes_the_same_step():
    """The test goes by the covariance before, the step by the limited one; both shrink by the step's gain."""
    c = coordinates_of_rows(300, 6)
    small, noise = replace(c, covariance=c.covariance / 1e3), 1e-4 + c.clip_variance
    gradient = 1.6 * np.sqrt(1e-4 + c.curvature**2 * c.variance)
    assert react(small, gradient, 1e4, step=True)[1].found
    limited = replace(small, unlimited=c.covariance)
    agreed, found = react(limited, gradient, 1e4, step=True)
    assert not found.found
    np.testing.assert_array_equal(agreed.start, absorb(small, gradient - c.clip_shift, 1.0 / noise).start)
    gain = small.variance * small.curvature**2 / (noise + small.variance * small.curvature**2)
    expected = np.outer(1 - gain, 1 - gain) * c.covariance + np.diag(gain**2 / small.curvature**2 * noise)
    np.testing.assert_allclose(agreed.unlimited, expected, rtol=1e-9, atol=1e-15)


def test_an_anchor_that_says_nothing_agrees_and_disagrees_with_nobody():
    c = coordinates_of_rows(300, 6)
    nothing = replace(c, start=np.zeros(4))
    after, found = react(nothing, np.full(4, 0.5), 1e4, step=True)
    assert after is nothing
    assert not found.found
    assert found.describe("clinic") == "too little is known to tell whether 'clinic' agrees with the public rows"


@pytest.mark.parametrize(("d", "rows"), [(2, 15), (5, 15), (5, 60)])
def test_a_covariance_from_few_rows_raises_no_more_alarms(d, rows):
    """In the eigenbasis of a covariance of so many normal rows the sum of squares is Hotelling's T²: far from chi²."""
    rng, found = np.random.default_rng([d, rows]), []
    for _ in range(2_000):
        S = np.cov(rng.normal(size=(rows + 1, d)), rowvar=False).reshape(d, d)
        v, Q = np.linalg.eigh(S)
        gradient, ones = Q.T @ rng.normal(size=d), np.ones(d)
        known, few = (
            measure_shift(gradient, 1e12, ones, v, 100.0, freedom).found for freedom in (None, np.full(d, float(rows)))
        )
        found.append((known, few))
    as_known, as_few = np.mean(found, axis=0)
    error = (0.01 * 0.99 / 2_000) ** 0.5
    assert as_few <= 0.01 + 4 * error < as_known


def test_what_clipping_takes_from_a_rare_class_is_no_disagreement(loop):
    """One label in ten is positive, so slopes of those rows are near 1 and clipped to ½."""
    rng, truth = np.random.default_rng(7), np.array([-6.0, 2.0, 1.0, 0.0])
    X, y = rows(5000, truth, rng)
    anchor = fit_anchor(2.0 * X, y, 1e-3)
    c = find_plain_coordinates(anchor)
    X, y = rows(20_000, truth, rng)
    gradient = loop.mean_gradient(c, Exact(), 2.0 * X, y, rng)
    clock = len(y) * 4 / c.clip**2
    assert measure_shift(gradient, clock, c.curvature, c.variance, limit_shift(c)).found
    assert not react(c, gradient, clock, step=True)[1].found


def test_directions_that_share_few_rows_have_the_freedom_that_is_left():
    """As with Hotelling's T²: of f rows and d directions f - d + 1 degrees are left, beside SciPy's F."""
    d, rows = 20, 40
    for g in np.random.default_rng(0).standard_normal((5, d)):
        found = measure_shift(g, 1e12, np.ones(d), np.ones(d), 1.0, np.full(d, float(rows)))
        taken_down = stats.chi2.isf(stats.f.sf(g**2, 1, rows), 1)
        assert found.statistic == pytest.approx(taken_down.sum(), rel=1e-6)
        assert found.p_value == pytest.approx(stats.f.sf(taken_down.mean(), d, rows - d + 1), rel=1e-6)
