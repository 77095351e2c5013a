"""Site privacy: the law of its noise, its privacy for every row of a batch, and how it falls with the batch."""

import math

import numpy as np
import pytest
from scipy import stats

from uneven import LocalPrivacy, Problem, SitePrivacy
from uneven.losses import LOSSES
from uneven.noise import grid, swap_promise
from uneven.noise.privacy import REACH
from uneven.theory import laplace_energy

D, EPSILON, CLIP, DRAWS = 5, 2.0, 0.5, 20_000
SURE = 1e-3  # a fixed seed: the right law has p far above this, a 10% wrong scale far below


def noise_of(rows, d=D, epsilon=EPSILON, seed=0):
    rng, batch = np.random.default_rng(seed), np.full((rows, d), 0.1)
    noise = SitePrivacy(epsilon)
    return np.stack([noise.release_sum(batch, CLIP, rng) - 0.1 * rows for _ in range(DRAWS)])


@pytest.mark.parametrize(("rows", "d"), [(1, 5), (7, 5), (300, 5), (40, 1)])
def test_radius_is_gamma_however_many_rows(rows, d):
    """Density exp(-ε‖z‖/(2C)): the radius is Gamma(d, 2C/ε), and its direction uniform."""
    z = noise_of(rows, d)
    radius = np.linalg.norm(z, axis=1)
    assert stats.kstest(radius, stats.gamma(d, scale=2 * CLIP / EPSILON).cdf).pvalue > SURE
    for wrong in (0.9, 1.1):
        assert stats.kstest(wrong * radius, stats.gamma(d, scale=2 * CLIP / EPSILON).cdf).pvalue < SURE
    if d > 1:  # the square of a coordinate of a uniform direction is Beta(1/2, (d-1)/2)
        assert stats.kstest((z[:, 0] / radius) ** 2, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > SURE


def test_energy_is_as_stated():
    problem = Problem(D, 1e-3, 7, clip=CLIP)
    squares = (noise_of(7) ** 2).sum(axis=1)
    stated, error = SitePrivacy(EPSILON).batch_energy(problem), squares.std() / math.sqrt(DRAWS)
    assert stated == pytest.approx(CLIP**2 * laplace_energy(D, EPSILON))
    assert abs(squares.mean() - stated) < 4 * error
    for wrong in (0.9, 1.1):
        assert abs(squares.mean() - wrong * stated) > 4 * error


def log_density(z, total, epsilon):
    """log of exp(-ε‖z - total‖/(2C)), up to a constant that no row enters."""
    return -epsilon / (2 * CLIP) * np.linalg.norm(z - total, axis=-1)


@pytest.mark.parametrize("loss", LOSSES)
def test_ratio_is_at_most_e_to_the_epsilon_for_any_replaced_row(loss):
    """Random batches, weights and replaced rows, clipped by the noise's own code: at every point, exactly."""
    rng, worst = np.random.default_rng(1), 0.0
    for trial in range(300):
        d, m = rng.integers(1, 8), rng.integers(1, 40)
        problem = Problem(int(d), 1e-3, int(m), loss, clip=CLIP)
        X = rng.normal(size=(m + 1, d))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y, w = rng.choice([-1.0, 1.0], m + 1), rng.normal(size=d) * 10.0 ** rng.integers(-2, 3)
        if trial % 3 == 0:  # as far apart as two rows can be: the same row, with both labels
            X[m], y[m], w = X[0], -y[0], 0 * w
        epsilon = 10.0 ** rng.uniform(-1, 1)
        rows = SitePrivacy(epsilon).row_gradients(problem, w, X, y)
        sums = rows[:m].sum(axis=0), rows[1:].sum(axis=0)  # one row replaced by another
        far = sums[0] + 100.0 * (sums[0] - sums[1])
        z = np.vstack([sums[0] + rng.normal(size=(50, d)) * 10.0 ** rng.uniform(-3, 3, (50, 1)), *sums, far])
        ratios = log_density(z, sums[0], epsilon) - log_density(z, sums[1], epsilon)
        assert np.abs(ratios).max() <= epsilon * (1 + 1e-9)
        worst = max(worst, np.abs(ratios).max() / epsilon)
    assert worst > 1 - 1e-9  # attained: a smaller sensitivity than 2C would not do


def test_variance_falls_with_the_square_of_the_batch():
    problem = Problem(D, 1e-3, 1, clip=CLIP)
    moment = SitePrivacy(EPSILON).moment("variance", problem)
    for rows in (1, 10, 1000):
        stated = CLIP**2 / rows + 4 * CLIP**2 * (D**2 + D) / (EPSILON * rows) ** 2
        assert moment.at(rows) == pytest.approx(stated)
        assert moment.rows_for(moment.at(rows)) == pytest.approx(rows)
    assert SitePrivacy(EPSILON).variance_bound(problem, rows=1) == pytest.approx(
        LocalPrivacy(EPSILON, "l2-laplace").variance_bound(problem, rows=1)
    )


def test_longer_gradients_are_refused_before_anything_is_released():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    with pytest.raises(ValueError, match=r"norm at most 0\.5"):
        SitePrivacy(1.0).release_sum(np.array([[0.1, 0.1], [0.6, 0.0]]), 0.5, rng)
    assert rng.bit_generator.state == before


@pytest.mark.parametrize("rows", [1, 1000, 20_000])
def test_cells_are_wide_enough_for_the_errors_of_floats(rows):
    """2‖e‖₁/g is below what is set aside of ε, for the error e of a sum; and cells stay fine."""
    d, rng, noise = 54, np.random.default_rng(2), SitePrivacy(1.0)
    batch = rng.normal(size=(rows, d))
    batch *= CLIP / np.linalg.norm(batch, axis=1, keepdims=True)
    batch[1::2] = -batch[: rows - 1 : 2]  # sums that cancel have the largest errors
    error = np.abs(batch.cumsum(axis=0)[-1] - [math.fsum(column) for column in batch.T]).sum()
    cell = grid.width(noise.grid(d, CLIP), rows) + noise.batch_grid(d, CLIP)
    assert 2 * error / cell < grid.slack(d, 1.0, REACH) < 1e-3
    total = noise.release_sum(batch, CLIP, rng) / cell
    np.testing.assert_allclose(total, np.round(total), atol=1e-6)
    problem = Problem(d, 1e-3, rows, clip=CLIP)
    assert grid.EXTRA * d * cell**2 < 0.01 * rows**2 * noise.variance_bound(problem)


@pytest.mark.parametrize("rows", [1, 1000])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
def test_cells_are_wide_enough_for_the_errors_of_the_noise(epsilon, rows):
    """Draws of the noise up to `REACH` times its root mean square have errors too: 2‖e‖₁/g is what is set aside."""
    d, noise = 54, SitePrivacy(epsilon)
    rms = CLIP * math.sqrt(laplace_energy(d, epsilon) / d)
    cell = grid.width(noise.grid(d, CLIP), rows) + noise.batch_grid(d, CLIP)
    assert grid.error_bound(d, REACH) * rms / cell <= grid.slack(d, epsilon, REACH) * (1.0 + 1e-12)


def test_each_promise_names_the_other_and_neither_takes_its_name():
    local, site = LocalPrivacy(3.0), SitePrivacy(3.0)
    assert swap_promise(local) == site
    assert swap_promise(site) == local
    assert "from everyone except the machine that reads it" in local.promise
    assert "site" not in local.promise.lower() + local.describe()
    assert "from everyone outside its site" in site.promise
    assert "local" not in site.promise.lower() + site.describe()


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("d", [5, 784])
def test_noise_and_rounding_together_stay_within_epsilon(d, epsilon):
    """The noise's own ε = √8·C/√(8C²/ε²), and what rounding costs, add up to what is stated."""
    gamma = SitePrivacy(epsilon).coefficients(Problem(d, 1e-3, 7, clip=CLIP)).batch_gamma
    rounding = grid.slack(d, epsilon, REACH)
    assert rounding > 1e-12 * epsilon  # else this would show nothing
    assert CLIP * math.sqrt(8.0 / gamma) + rounding == pytest.approx(epsilon, rel=1e-14)
