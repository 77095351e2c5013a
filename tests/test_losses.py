"""Losses against finite differences, their constants, and the capped loss as what it claims to be."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uneven.losses import LOSSES, get_loss

MARGINS = np.linspace(-30, 30, 1001) + 0.0123  # off the kinks at 0 and 1
CAPS = (math.inf, 1.0, 0.75, 0.5, 0.1)

every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


@every_loss
@pytest.mark.parametrize("cap", CAPS)
def test_slope_is_the_derivative_of_the_value(loss, cap):
    # Central differences err by h²/6·|ℓ'''| ≤ 2e-12, plus rounding of about eps·|ℓ|/h = 30·2.2e-16/1e-5.
    h = 1e-5
    numeric = (loss.value(MARGINS + h, cap) - loss.value(MARGINS - h, cap)) / (2 * h)
    np.testing.assert_allclose(loss.slope(MARGINS, cap), numeric, atol=2e-9)


@every_loss
@pytest.mark.parametrize("cap", CAPS)
def test_convex_and_no_steeper_than_stated(loss, cap):
    slope = loss.slope(MARGINS, cap)
    assert (np.diff(slope) >= 0).all()
    assert slope.max() <= 0
    assert -slope.min() == pytest.approx(min(cap, loss.lipschitz))  # attained, so not just an upper bound


@every_loss
def test_constants(loss):
    assert loss.value(0.0) == loss.value_at_zero
    curvature = np.diff(loss.slope(MARGINS)) / np.diff(MARGINS)
    if loss.smooth:
        # The grid's step is 0.06: the largest difference quotient is within 0.1% of the curvature at 0.
        assert curvature.max() == pytest.approx(loss.curvature, rel=1e-3, abs=1e-12)
    else:
        assert curvature.max() > 10
    assert loss.value(1e9) == (loss.infimum if math.isfinite(loss.infimum) else -1e9)


@every_loss
@given(margin=st.floats(-1e300, 1e300), cap=st.floats(1e-6, 10))
def test_finite_for_any_margin(loss, margin, cap):
    assert np.isfinite(loss.value(margin, cap))
    assert np.isfinite(loss.slope(margin, cap))
    assert loss.value(margin, cap) <= loss.value(margin) or loss.name == "linear"


def test_logistic_at_extreme_margins_is_exact():
    logistic = LOSSES["logistic"]
    assert logistic.value(-1e5) == 1e5
    assert logistic.value(40.0) == pytest.approx(math.exp(-40), rel=1e-12)
    assert logistic.slope(40.0) == pytest.approx(-math.exp(-40), rel=1e-12)


def test_capped_at_half_touches_only_misclassified_rows():
    logistic, right = LOSSES["logistic"], MARGINS[MARGINS >= 0]
    np.testing.assert_array_equal(logistic.value(right, 0.5), logistic.value(right))
    wrong = MARGINS[MARGINS < 0]
    np.testing.assert_allclose(logistic.value(wrong, 0.5), math.log(2) - wrong / 2, rtol=1e-14)


@every_loss
@pytest.mark.parametrize("cap", [1.0, 0.3])
def test_clipping_a_row_gradient_is_capping_the_slope(loss, cap):
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(200, 4)), rng.normal(size=4)
    y = rng.choice([-1.0, 1.0], 200)
    norms = np.linalg.norm(X, axis=1)
    plain = (loss.slope(y * (X @ w)) * y)[:, None] * X
    length = np.linalg.norm(plain, axis=1)
    shrunk = plain * np.minimum(1.0, cap / np.maximum(length, 1e-300))[:, None]
    capped = (loss.slope(y * (X @ w), cap / norms) * y)[:, None] * X
    np.testing.assert_allclose(capped, shrunk, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("clip", [0.05, 0.25, 0.4, 0.5, 0.7, 1.0])
def test_clipped_curvature_is_the_largest_there_is(clip):
    """By finite differences of the slope, over margins and norms of rows: never above, and attained."""
    logistic, h = LOSSES["logistic"], 1e-5
    margins, norms = np.linspace(-8, 8, 4001)[:, None], np.linspace(0.01, 1, 100)
    cap = clip / norms
    curvature = norms**2 * (logistic.slope(margins + h, cap) - logistic.slope(margins - h, cap)) / (2 * h)
    largest = logistic.clipped_curvature(clip)
    assert largest * 0.995 < curvature.max() < largest * (1 + 1e-5)  # 0.005: the grid's step


def test_a_loss_is_found_by_name_or_passed_through():
    assert get_loss("hinge") is get_loss(LOSSES["hinge"])
