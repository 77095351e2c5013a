"""l2-laplace: its law row by row, its sum in one draw, its privacy, and its refusals."""

import numpy as np
import pytest
from scipy import stats

from uneven import LocalPrivacy, SitePrivacy
from uneven.noise.privacy import MECHANISMS, draw_l2_laplace
from uneven.problem import Problem
from uneven.theory import laplace_energy, laplace_second_moment

ROWS, D, EPSILON, DRAWS = 7, 5, 2.0, 40_000
SURE = 1e-3  # a fixed seed: the right law has p far above this, a 10% wrong scale far below


def one_by_one(seed, scale=1.0, rows=ROWS, d=D):
    rng = np.random.default_rng(seed)
    return scale * draw_l2_laplace(DRAWS * rows, d, EPSILON, rng).reshape(DRAWS, rows, d).sum(axis=1)


def at_once(seed, rows=ROWS, d=D):
    rng = np.random.default_rng(seed)
    noise, nothing = LocalPrivacy(EPSILON, "l2-laplace"), np.zeros((rows, d))
    return np.stack([noise.release_sum(nothing, 1.0, rng) for _ in range(DRAWS)])


def radius(z):
    return np.linalg.norm(z, axis=1)


def projection(z):
    direction = np.arange(1, z.shape[1] + 1)
    return z @ (direction / np.linalg.norm(direction))


@pytest.mark.parametrize("statistic", [radius, projection])
@pytest.mark.parametrize(("rows", "d"), [(ROWS, D), (1, 5), (50, 1), (3, 25)])
def test_sum_in_one_draw_has_the_law_of_the_sum(statistic, rows, d):
    many, one = statistic(one_by_one(1, rows=rows, d=d)), statistic(at_once(2, rows=rows, d=d))
    assert stats.ks_2samp(many, one).pvalue > SURE
    for wrong in (0.9, 1.1):
        assert stats.ks_2samp(wrong * many, one).pvalue < SURE


@pytest.mark.parametrize("draw", [one_by_one, at_once])
def test_moments_of_the_sum(draw):
    z = draw(3)
    squares = (z**2).sum(axis=1)
    stated, error = ROWS * laplace_energy(D, EPSILON), squares.std() / np.sqrt(DRAWS)
    assert abs(squares.mean() - stated) < 4 * error
    assert abs(squares.mean() - 1.1 * stated) > 4 * error
    assert (np.abs(z.mean(axis=0)) < 4.5 * z.std(axis=0) / np.sqrt(DRAWS)).all()
    # The fourth moment tells the law from a Gaussian of the same variance: E W² of the gamma number is larger.
    fourth = squares**2
    gaussian, error = stated**2 * (D + 2) / D, fourth.std() / np.sqrt(DRAWS)
    truth = gaussian * (1 + 2 / (ROWS * (D + 1)))
    assert abs(fourth.mean() - truth) < 4 * error < 0.75 * (truth - gaussian)


def test_radius_of_one_row_is_gamma():
    r = radius(draw_l2_laplace(DRAWS, D, EPSILON, np.random.default_rng(4)))
    assert stats.kstest(r, stats.gamma(D, scale=2 / EPSILON).cdf).pvalue > SURE
    assert stats.kstest(1.1 * r, stats.gamma(D, scale=2 / EPSILON).cdf).pvalue < SURE


def test_direction_of_one_row_is_uniform():
    z = draw_l2_laplace(DRAWS, D, EPSILON, np.random.default_rng(5))
    cosine = z[:, 0] / radius(z)
    assert stats.kstest((1 + cosine) / 2, stats.beta((D - 1) / 2, (D - 1) / 2).cdf).pvalue > SURE


def test_density_ratio_never_exceeds_epsilon():
    """The exact log ratio over random pairs of gradients in the ball, and its supremum at antipodes."""
    rng, bound = np.random.default_rng(6), 0.5
    scale = 2 * bound / EPSILON  # density of the release: exp(-‖z - g‖/scale)

    def in_ball(n):
        return bound * draw_unit(n, rng) * rng.random((n, 1)) ** (1 / D)

    g, other, z = in_ball(DRAWS), in_ball(DRAWS), rng.normal(size=(DRAWS, D))
    ratio = (radius(z - other) - radius(z - g)) / scale
    assert ratio.max() <= EPSILON
    u = bound * draw_unit(1, rng)
    attained = (radius(10 * u + u) - radius(10 * u - u)) / scale
    assert attained[0] == pytest.approx(EPSILON, rel=1e-12)


def draw_unit(n, rng):
    z = rng.normal(size=(n, D))
    return z / np.linalg.norm(z, axis=1, keepdims=True)


@pytest.mark.parametrize("bound", [1.0, 0.25])
def test_release_scales_the_noise_with_the_bound(bound):
    noise, rng = LocalPrivacy(EPSILON, "l2-laplace"), np.random.default_rng(8)
    released = noise.release(np.zeros((DRAWS, D)), bound, rng)
    squares = (released**2).sum(axis=1)
    stated = bound**2 * laplace_energy(D, EPSILON)
    assert abs(squares.mean() - stated) < 4 * squares.std() / np.sqrt(DRAWS)


@pytest.mark.parametrize("batch_size", [1, 50])
def test_noise_and_theorem_1_agree(batch_size):
    problem = Problem(D, 0.1, batch_size, radius="paper")
    assert LocalPrivacy(EPSILON, "l2-laplace").second_moment(problem)[1] == laplace_second_moment(
        D, EPSILON, batch_size
    )


@pytest.mark.parametrize("noise", [*(LocalPrivacy(1.0, name) for name in MECHANISMS), SitePrivacy(1.0)])
@pytest.mark.parametrize("bound", [0.0, -1.0, np.inf, np.nan])
def test_a_bound_that_is_no_length_is_refused(noise, bound):
    for method in (noise.release, noise.release_sum):
        with pytest.raises(ValueError, match="bound must be"):
            method(np.zeros((1, 2)), bound, np.random.default_rng(0))


@pytest.mark.parametrize("noise", [*(LocalPrivacy(1.0, name) for name in MECHANISMS), SitePrivacy(1.0)])
def test_the_sum_of_no_rows_is_refused(noise):
    with pytest.raises(ValueError, match=r"^rows of gradients must be a whole number of at least 1, got 0$"):
        noise.release_sum(np.zeros((0, 2)), 1.0, np.random.default_rng(0))
    assert noise.release(np.zeros((0, 2)), 1.0, np.random.default_rng(0)).shape == (0, 2)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("method", ["release", "release_sum"])
@pytest.mark.parametrize("row", [[0.8, 0.8], [1.0 + 1e-9, 0.0], [np.nan, 0.0], [np.inf, 0.0], [1e200, 0.0]])
def test_gradient_beyond_the_bound_is_never_released(method, row, mechanism):
    with pytest.raises(ValueError, match=r"gradients must have norm at most 1, .* nothing was released"):
        getattr(LocalPrivacy(1.0, mechanism), method)(np.array([[0.1, 0.1], row]), 1.0, np.random.default_rng(0))
