"""Losses against finite differences, their constants, and the capped loss as what it claims to be."""

import math
import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import uneven
from uneven.engine import find_optimum, reference
from uneven.losses import HINGE, LOSSES, Loss, get_loss

MARGINS = np.linspace(-30, 30, 1001) + 0.0123  # off the kinks at 0 and 1
CAPS = (math.inf, 1.0, 0.75, 0.5, 0.1)

SMOOTHED = Loss(
    "tried-hinge",  # not the name on the page: a loss of that one may be there for good
    value_at_zero=0.5,
    lipschitz=1.0,
    curvature=1.0,
    infimum=0.0,
    capped_value=lambda m, cap: np.clip(1 - m, 0, cap) * (np.maximum(0, 1 - m) - np.clip(1 - m, 0, cap) / 2),
    plain_slope=lambda m: -np.clip(1 - m, 0, 1),
    second_derivative=lambda m: np.where((m > 0) & (m < 1), 1.0, 0.0),
)
"""The example of docs/add-a-loss.md."""

registered = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
every_loss = pytest.mark.parametrize("loss", [*LOSSES.values(), SMOOTHED], ids=[*LOSSES, SMOOTHED.name])


@every_loss
@pytest.mark.parametrize("cap", CAPS)
def test_slope_is_the_derivative_of_the_value(loss, cap):
    # Central differences err by h²/6·|ℓ'''| ≤ 2e-12, plus rounding of about eps·|ℓ|/h = 30·2.2e-16/1e-5.
    h = 1e-5
    numeric = (loss.value(MARGINS + h, cap) - loss.value(MARGINS - h, cap)) / (2 * h)
    np.testing.assert_allclose(loss.slope(MARGINS, cap), numeric, atol=2e-9)


@every_loss
@pytest.mark.parametrize("cap", CAPS)
def test_curvature_is_the_derivative_of_the_slope(loss, cap):
    """Off the kinks at 0, at 1 and where the cap takes hold; errors as above."""
    h = 1e-5
    numeric = (loss.slope(MARGINS + h, cap) - loss.slope(MARGINS - h, cap)) / (2 * h)
    np.testing.assert_allclose(loss.curvature_at(MARGINS, cap), numeric, atol=2e-9)
    assert (loss.curvature_at(MARGINS, 1e-9) == 0.0).all() or loss.slope(MARGINS).max() > -1e-9
    assert loss.curvature_at(MARGINS, cap).max() <= loss.curvature


@every_loss
def test_sum_is_the_sum_of_values(loss):
    margins = np.random.default_rng(0).normal(size=(1_700, 3)) * 20
    np.testing.assert_allclose(loss.summed(margins.copy()), loss.value(margins).sum(axis=0), rtol=1e-12)


@every_loss
@pytest.mark.parametrize("clip", [10.0, 0.3])
def test_no_row_pulls_the_minimiser_away(loss, clip):
    """w* is stationary: 0 is a subgradient. With a kink, by f(w) - f(w*) ≥ (λ/2)‖w - w*‖² all around it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)) / 3
    y, cap, alpha = np.where(X[:, 0] + 0.3 * rng.normal(size=500) > 0, 1.0, -1.0), clip / np.linalg.norm(X, axis=1), 0.1

    def f(w):
        return alpha / 2 * w @ w + loss.value(y * (X @ w), cap).mean()

    best = loss.minimise(loss, X, y, cap, alpha)
    assert np.linalg.norm(best) > 0.1
    if loss.smooth:
        gradient = alpha * best + (loss.slope(y * (X @ best), cap) * y) @ X / 500
        assert np.linalg.norm(gradient) < 1e-6 * alpha * np.linalg.norm(best)
    for step in rng.normal(size=(100, 3)) * np.repeat([0.01, 0.1, 1.0, 3.0], 25)[:, None]:
        assert f(best + step) - f(best) >= alpha / 2 * step @ step - 1e-7  # liblinear leaves a little


@every_loss
@pytest.mark.parametrize("cap", CAPS)
def test_convex_and_no_steeper_than_stated(loss, cap):
    slope = loss.slope(MARGINS, cap)
    assert (np.diff(slope) >= 0).all()
    assert slope.max() <= 0
    assert -slope.min() <= min(cap, loss.lipschitz)
    assert -loss.slope(-1e9, cap) == pytest.approx(min(cap, loss.lipschitz))  # tended to: not just an upper bound


@every_loss
def test_constants(loss):
    assert loss.value(0.0) == loss.value_at_zero
    curvature = np.diff(loss.slope(MARGINS)) / np.diff(MARGINS)
    if loss.smooth:
        # The grid's step is 0.06: the largest difference quotient is within 0.1% of the curvature at 0.
        assert curvature.max() == pytest.approx(loss.curvature, rel=1e-3, abs=1e-12)
    else:
        assert curvature.max() > 10
    least = loss.infimum if math.isfinite(loss.infimum) else -1e9
    assert least <= loss.value(1e9) <= least + 1e-9  # reached, or tended to as 1/m


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


@every_loss
@pytest.mark.parametrize("clip", [0.05, 0.25, 0.4, 0.5, 0.7, 1.0])
def test_clipped_curvature_is_the_largest_there_is(loss, clip):
    """By finite differences of the slope, over margins and norms of rows: never above, and attained."""
    h = 1e-5
    margins, norms = np.linspace(-8, 8, 4001)[:, None], np.linspace(0.01, 1, 100)
    cap = clip / norms
    curvature = norms**2 * (loss.slope(margins + h, cap) - loss.slope(margins - h, cap)) / (2 * h)
    largest = loss.clipped_curvature(clip)
    if loss.smooth:
        assert largest * 0.995 <= curvature.max() <= largest * (1 + 1e-5)  # 0.005: the grid's step
    else:
        assert largest == math.inf


def test_a_loss_is_found_by_name_or_passed_through():
    assert get_loss("hinge") is get_loss(LOSSES["hinge"])


def test_a_new_loss_runs_as_the_page_says(monkeypatch):
    """A smoothed hinge, registered and nothing more: planned, run by the reference loop, and its optimum found."""
    monkeypatch.setitem(LOSSES, SMOOTHED.name, SMOOTHED)
    X, y, _ = draw_rows()
    plan = uneven.plan([uneven.Source("a", 600)], 3, 0.1, 10, loss=SMOOTHED.name)
    state = uneven.fit(plan, {"a": (X, y)}, seed=0).state
    slow = uneven.fit(plan, {"a": (X, y)}, seed=0, backend=reference.advance).state
    np.testing.assert_array_equal(state.weights, slow.weights)
    best = find_optimum(plan.problem, X, y)
    np.testing.assert_allclose(best, -((SMOOTHED.slope(y * (X @ best)) * y) @ X / 600) / 0.1, rtol=1e-6, atol=1e-9)
    assert np.linalg.norm(state.answer - best) < 0.2 * np.linalg.norm(best)


def draw_rows(n=600, seed=0):
    """Rows in the unit ball, labels that a plane tells apart but for noise, and sources: a tenth public."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.001
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, np.where(np.arange(n) < n // 10, "public", "private")


NOISES = {
    "exact": uneven.Exact(),
    "private": uneven.LocalPrivacy(4.0),
    "both": {"public": uneven.Exact(), "private": uneven.LocalPrivacy(8.0)},
    "flipped": {"public": uneven.Exact(), "private": uneven.FlippedLabels(0.2)},
}


def fit(loss, noise, n=600, seed=0, **settings):
    X, y, source = draw_rows(n, seed)
    settings = {"row_norm": 1.0, "alpha": 0.01, "random_state": 0, **settings}
    clf = uneven.UnevenClassifier(NOISES[noise], loss=loss, **settings)
    return clf.fit(X, y, source=source if isinstance(NOISES[noise], dict) else None)


@pytest.mark.parametrize("noise", NOISES)
@registered
def test_the_name_of_a_loss_decides_nothing(monkeypatch, loss, noise):
    """Under another name a loss has no compiled code, and gives the same model: a sum in another order apart."""
    monkeypatch.setitem(LOSSES, "another", replace(loss, name="another"))
    ours, theirs = fit(loss.name, noise), fit("another", noise)
    np.testing.assert_allclose(theirs.coef_, ours.coef_, rtol=1e-6, atol=1e-9)
    assert theirs.plan_.strategy == ours.plan_.strategy
    assert theirs.plan_.converged == ours.plan_.converged


@pytest.mark.slow
def test_a_new_loss_is_fitted_exactly_privately_and_anchored(monkeypatch):
    monkeypatch.setitem(LOSSES, SMOOTHED.name, SMOOTHED)
    X, y, _ = draw_rows(6000)
    exact = fit(SMOOTHED.name, "exact", 6000, alpha="auto")
    signed = y[:, None] * np.column_stack([X, np.ones(6000)])
    w = np.append(exact.coef_[0], exact.intercept_)
    pull = exact.alpha_ * w * [1, 1, 1, 0]  # the intercept has no L2 term
    np.testing.assert_allclose(SMOOTHED.slope(signed @ w) @ signed / 6000, -pull, atol=1e-4)
    private, both = (fit(SMOOTHED.name, noise, 6000) for noise in ("private", "both"))
    assert private.score(X, y) > exact.score(X, y) - 0.02
    assert both.plan_.strategy == "anchored"
    assert both.plan_.verdicts["private"].word != "no"
    low, high = both.plan_.verdicts["private"].accuracy[1:]
    assert low < both.score(X, y) < high
    pairs = np.array([compare_with_public(seed) for seed in range(8)])
    gains = pairs[:, 1] - pairs[:, 0]
    assert gains.mean() > 2 * gains.std() / 8**0.5


def compare_with_public(seed):
    """Squared distances to the answer of all rows, were they exact: of public and private rows, of public ones."""
    best, both = (fit(SMOOTHED.name, noise, 6000, seed) for noise in ("exact", "both"))
    return [np.sum((one.coef_ - best.coef_) ** 2) for one in (both, fit_public(seed))]


def fit_public(seed):
    X, y, source = draw_rows(6000, seed)
    kept = source == "public"
    return uneven.UnevenClassifier(loss=SMOOTHED.name, row_norm=1.0, alpha=0.01).fit(X[kept], y[kept])


@every_loss
def test_the_odd_part_is_linear_where_that_is_stated(loss):
    """Where ℓ(-m) - ℓ(m) is linear its slope is stated, and elsewhere none is: flips then have no convex surrogate."""
    odd = (loss.value(-MARGINS) - loss.value(MARGINS)) / MARGINS
    assert np.ptp(odd) < 1e-9 if loss.odd_slope is not None else np.ptp(odd) > 0.1
    assert loss.odd_slope in (None, pytest.approx(odd[0]))


def test_the_page_names_every_field_and_file():
    page = (Path(__file__).parents[1] / "docs" / "add-a-loss.md").read_text(encoding="utf-8")
    assert [f.name for f in fields(Loss) if f"`{f.name}`" not in page and f.name != "name"] == []
    for path in re.findall(r"`(src/[^`]+)`", page):
        assert (Path(__file__).parents[1] / path).is_file(), path


@every_loss
def test_terms_are_the_loss_and_its_derivatives_away_from_a_kink(loss):
    margins, width = np.array([-30.0, -2.0, 0.3, 0.8, 1.5, 40.0]), 1e-9
    total, slopes, bends = loss.terms(margins, width)
    np.testing.assert_allclose(total, loss.value(margins).sum(), rtol=1e-9)
    np.testing.assert_allclose(slopes, loss.slope(margins), rtol=1e-12)
    np.testing.assert_allclose(bends, loss.curvature_at(margins), rtol=1e-12, atol=1e-300)


def test_the_kink_is_rounded_off_smoothly():
    """The derivative of the smoothed hinge is its slope, and that of the slope its second derivative."""
    margins, width, h = np.array([0.2, 0.75, 0.95, 1.2]), 0.5, 1e-6
    up, down = ([HINGE.terms(margins[i : i + 1] + s, width) for i in range(4)] for s in (h, -h))
    _, slopes, bends = HINGE.terms(margins, width)
    np.testing.assert_allclose([(a[0] - b[0]) / (2 * h) for a, b in zip(up, down, strict=True)], slopes, atol=1e-8)
    np.testing.assert_allclose(
        [(a[1] - b[1]).item() / (2 * h) for a, b in zip(up, down, strict=True)], bends, atol=1e-6
    )


def test_the_page_on_adding_a_loss_names_every_text_that_lists_them():
    """Lines with the names of all losses, in code and docs; refusals make theirs of `LOSSES`."""
    root = Path(__file__).parents[1]
    page = (root / "docs" / "add-a-loss.md").read_text(encoding="utf-8")
    listing = set()
    for path in [*(root / "src").rglob("*.py"), *(root / "docs").rglob("*.md"), root / "README.md"]:
        lines = path.read_text(encoding="utf-8").splitlines()
        if any(
            all(re.search(rf"\b{name}\b", line) for name in LOSSES) and "must be one of" not in line for line in lines
        ):
            listing.add(path.relative_to(root).as_posix())
    named = {"src/uneven/problem.py": "`Problem`", "src/uneven/planner/keywords.py": "`uneven.plan`"}
    named["src/uneven/estimator/classifier.py"] = "`UnevenClassifier`"
    assert len(listing) == 5
    assert {path for path in listing if named.get(path, f"`{path}`") not in page} == set()
