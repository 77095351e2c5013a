"""Public rows of one class: the share of the other is a posterior mean, and the start that of rows with this share."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, norm

from uneven.anchor import estimate_share, start_from_share, summarize
from uneven.anchor.belief import know_little, know_shares
from uneven.anchor.one_class import Share
from uneven.losses import LOGISTIC


@pytest.mark.parametrize(
    ("rows", "told", "error"), [(20, 0.02, 0.05), (20, 0.6, 0.05), (200, -0.1, 0.2), (5, 0.3, 9.0)]
)
def test_the_share_is_the_posterior_mean_of_chance_and_design(rows, told, error):
    """Integrals by quadrature, over the angle: the prior is infinite at 0 and 1."""

    def weigh(angle, power):
        share = np.sin(angle) ** 2
        prior = beta(0.5, 0.5).pdf(share) * 2.0 * np.sin(angle) * np.cos(angle)
        return share**power * prior * ((1.0 - share) ** rows + 1.0) * norm.pdf(told, share, error)

    whole, first, second = (quad(weigh, 1e-9, np.pi / 2 - 1e-9, (power,), limit=200)[0] for power in range(3))
    found, mean = estimate_share(rows, told, error**2), first / whole
    assert found.mean == pytest.approx(mean, rel=1e-5)
    assert found.variance == pytest.approx((second / whole - mean**2) / (mean * (1.0 - mean)) ** 2, rel=1e-4)


def test_clear_answers_of_private_rows_decide_and_unclear_ones_leave_it_to_the_public_rows():
    assert estimate_share(50, 0.5, 1e-4).mean == pytest.approx(0.5, abs=0.01)
    assert estimate_share(50, 0.0, 1e-4).mean < 0.01
    assert 0.4 < estimate_share(50, 0.0, 1e4).mean < 0.5
    assert 0.05 < estimate_share(50, 0.2, 0.01).mean < 0.2


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("positive", [False, True])
def test_the_start_is_that_of_rows_with_this_share(positive, diagonal):
    """As `know_shares` has it of 10,000 such rows: weights, H of all columns, V, and the activity."""
    rng, n, rare = np.random.default_rng(0), 10_000, 800
    X = np.column_stack([rng.uniform(-1.0, 1.0, (n, 3)) / 4, np.full(n, 0.5)])
    factors, sign = np.array([1.0, 1.0, 1.0, 0.01]), 1.0 if positive else -1.0
    y = np.full(n, sign)
    known = 1e-3, factors, (1.0, 1.0), LOGISTIC, diagonal
    summary = summarize(know_little(X, y, *known))
    assert summary.one_class is not None
    moved = start_from_share(summary, Share((rare + 0.5) / (n + 1.0), 0.3), (1.0, 1.0))
    y[:rare] = -sign
    direct = know_shares(X, y, *known)
    np.testing.assert_allclose(moved.weights, direct.weights, rtol=1e-9)
    V = moved.covariance if diagonal else moved.covariance.diagonal()
    expected = direct.covariance if diagonal else direct.covariance.diagonal()
    np.testing.assert_allclose(V - [0.0, 0.0, 0.0, 0.3 / 0.25], expected, rtol=2e-3)
    plain, other = moved.plain, summarize(direct).plain
    if diagonal:
        np.testing.assert_allclose(plain.hessian, other.hessian, rtol=1e-6)
    slopes = np.where(y == sign, rare / n, 1.0 - rare / n)
    lengths = np.linalg.norm(X, axis=1)
    assert np.trace(np.atleast_2d(plain.hessian)) == pytest.approx(np.trace(np.atleast_2d(other.hessian)), rel=1e-6)
    assert plain.activity == pytest.approx(np.minimum(2.0 * slopes, 1.0) @ lengths / n, rel=0.01)
    assert moved.one_class is None
