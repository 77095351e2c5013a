"""alpha where all rows are private: predicted from public numbers, the same in plans and fits, never above usual."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar

import uneven
from uneven.io import read_sources
from uneven.losses import get_loss
from uneven.planner import CURVATURES, make_plan
from uneven.problem import DEFAULT_ALPHA, Problem
from uneven.settings import Settings
from uneven.training import train_files
from uneven.training.ahead import plan_ahead
from uneven.training.sketch import expect_spectrum
from uneven.training.strength import (
    HALVINGS,
    RARE,
    RARER,
    SIGNAL,
    choose_private_alpha,
    choose_private_clip,
    expect_loss,
    find_clip_cost,
    find_intercept_cost,
)

LOCAL = uneven.LocalPrivacy


def choose(rows=60_000, epsilon=10.0, d=30, noise=None, **settings):
    source = uneven.Source("a", rows, LOCAL(epsilon) if noise is None else noise)
    asked = Settings(**settings)
    usual = DEFAULT_ALPHA if asked.alpha == "auto" else asked.alpha
    return choose_private_alpha(asked, [source], Problem(d, usual, 50, clip=0.5), usual)


def test_the_expected_loss_is_that_of_simulated_steps():
    """A quadratic of the spectrum supposed, with the penalty in the steps and not in the loss; four standard errors."""
    source, problem = uneven.Source("a", 5_000, LOCAL(3.0)), Problem(8, 3e-3, 50, clip=0.5)
    (segment,), rng = make_plan([source], problem, "precision").segments, np.random.default_rng(0)
    counts, shares = expect_spectrum(8)
    c = np.repeat(shares, counts.astype(int)) / 4 * CURVATURES[1]
    signal = SIGNAL * np.log(2) / 2  # ½Σc·w²
    best, noise = np.full(8, np.sqrt(2 * signal / c.sum())), np.sqrt(segment.step_moment / 8)
    w, clock = np.zeros((600, 8)), 0.0
    for step in range(1, segment.steps + 1):
        clock += 1 / segment.step_moment
        eta = segment.schedule(step, segment.step_moment, clock)
        w -= eta * (c * (w - best) + problem.alpha * w + noise * rng.normal(size=w.shape))
    found, energy = (w * best) @ c / 2, w**2 @ c / 2
    scale = min(1.0, found.mean() / energy.mean())
    left = (signal - 2 * scale * found + scale**2 * energy) / signal
    expected = expect_loss([source], problem, 0.0, "precision")
    assert 0.1 < expected < 0.9
    assert left.mean() == pytest.approx(expected, abs=4 * left.std() / np.sqrt(600) + 0.02 * expected)


def test_alpha_falls_with_rows_and_with_epsilon_and_never_rises():
    by_rows = [choose(rows) for rows in (1_000, 10_000, 100_000, 1_000_000)]
    by_epsilon = [choose(epsilon=epsilon) for epsilon in (0.1, 1.0, 3.0, 10.0)]
    for found in (by_rows[1:], by_epsilon):
        assert found == sorted(found, reverse=True)
        assert found[0] > found[-1]
    assert by_epsilon[:2] == [DEFAULT_ALPHA] * 2
    least = DEFAULT_ALPHA / 2 ** (HALVINGS - 1)
    assert all(least <= alpha <= DEFAULT_ALPHA for alpha in (*by_rows, *by_epsilon, choose(10**9)))


def test_sources_alike_are_one_and_a_source_without_worth_changes_nothing():
    problem = Problem(30, DEFAULT_ALPHA, 50, clip=0.5)
    halves = [uneven.Source(name, 30_000, LOCAL(10.0)) for name in "ab"]
    noisy = uneven.Source("c", 1_000, LOCAL(0.01))
    assert choose_private_alpha(Settings(), halves, problem, DEFAULT_ALPHA) == choose(60_000)
    assert choose_private_alpha(Settings(), [*halves, noisy], problem, DEFAULT_ALPHA) == choose(60_000)


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": DEFAULT_ALPHA},
        {"strategy": "two-rates"},
        {"loss": "hinge"},
        {"noise": uneven.LabelPrivacy(10.0)},
        {"noise": uneven.Exact()},
    ],
)
def test_alpha_is_the_usual_one_where_nothing_is_predicted(change):
    assert choose() < DEFAULT_ALPHA
    assert choose(**change) == DEFAULT_ALPHA
    assert choose(alpha=0.02) == 0.02


def test_site_privacy_of_two_classes_is_predicted_source_by_source():
    """Of a dozen sources at most; of more classes it stays as it is."""
    problem, site = Problem(10, DEFAULT_ALPHA, 50, clip=0.5, own_batches=True), uneven.SitePrivacy(3.0)
    few, many = ([uneven.Source(f"s{k}", 2_000, site) for k in range(count)] for count in (12, 13))
    assert choose_private_alpha(Settings(), few, problem, DEFAULT_ALPHA) < DEFAULT_ALPHA
    assert choose_private_alpha(Settings(), many, problem, DEFAULT_ALPHA) == DEFAULT_ALPHA
    several = Problem(30, DEFAULT_ALPHA, 50, clip=0.5, own_batches=True, classes=3)
    assert choose_private_alpha(Settings(), few, several, DEFAULT_ALPHA) == DEFAULT_ALPHA


def minimise_constant(share, alpha, clip):
    """Loss above the entropy of two classes, by a constant feature alone, with a penalty and slopes cut at the clip."""
    feature = 0.25 / np.hypot(1.0, 0.25)

    def lost(b):
        loss = get_loss("logistic")
        each = loss.value(np.array([b, -b]), clip) if clip else loss.value(np.array([b, -b]))
        return share * each[0] + (1 - share) * each[1] + alpha / 2 * (b / feature) ** 2

    b = minimize_scalar(lost, bounds=(-12.0, 0.0), method="bounded", options={"xatol": 1e-9}).x
    true, told = np.array([share, 1 - share]), 1 / (1 + np.exp([-b, b]))
    return np.sum(true * np.log(true / told))


@pytest.mark.parametrize("alpha", [1e-3, 1e-4])
def test_the_price_of_a_penalty_and_of_a_clip_is_what_a_constant_loses(alpha):
    unit = SIGNAL * np.log(2) / 2
    assert find_intercept_cost(alpha) * unit == pytest.approx(minimise_constant(RARE, alpha, None), rel=1e-3)
    assert find_clip_cost(0.5) * unit == pytest.approx(minimise_constant(RARER, 0.0, 0.5), rel=1e-3)
    assert find_clip_cost(1.0) == 0.0


def test_gradients_are_clipped_less_where_noise_is_small():
    """With an intercept, by a fit's own choice; a clip that is stated stays."""

    def choose_clip(epsilon, rows=100_000, **settings):
        source, problem = uneven.Source("a", rows, LOCAL(epsilon)), Problem(6, 1e-4, 50, clip=0.5)
        return choose_private_clip(Settings(**settings), [source], problem)

    assert [choose_clip(epsilon) for epsilon in (0.3, 1.0, 10.0, 30.0)] == [0.5, 0.5, 1.0, 1.0]
    assert choose_clip(10.0, rows=500) == 0.5
    assert choose_clip(10.0, fit_intercept=False) == choose_clip(10.0, clip=0.5) == 0.5
    assert choose_clip(10.0, strategy="two-rates") == choose_clip(10.0, loss="hinge") == 0.5


def draw(n=20_000, d=20):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) / np.sqrt(d) / 2
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) * 1.001)
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-15 * X[:, 0] - 1.0)), 1, 0)


@pytest.mark.parametrize("weights", [None, {0: 1.0, 1: 1.1}])
def test_a_plan_before_the_fit_has_the_alpha_of_the_fit(tmp_path, weights):
    """From a file, in its plan, and from arrays; for rows and class weights as given."""
    X, y = draw()
    X *= 0.9
    columns = {**{f"x{j}": X[:, j] for j in range(20)}, "y": y}
    pd.DataFrame(columns).to_parquet(tmp_path / "a.parquet")
    weight = "" if weights is None else "class_weight = {0 = 1.0, 1 = 1.1}\n"
    (tmp_path / "sources.toml").write_text(
        f'label = "y"\nrow_norm = 0.9\nlong_rows = "shrink"\nclasses = [0, 1]\n{weight}'
        '[[source]]\nname = "a"\ndata = "a.parquet"\nnoise = {kind = "local-privacy", epsilon = 10}\n'
    )
    file = read_sources(tmp_path / "sources.toml")
    planned, fitted = plan_ahead(file)[0], train_files(file, seed=0)
    model = uneven.UnevenClassifier(LOCAL(10.0), row_norm=0.9, random_state=0, class_weight=weights).fit(X, y)
    assert planned.problem == fitted.trained.plan.problem == model.plan_.problem
    assert fitted.trained.model.alpha == model.alpha_ < DEFAULT_ALPHA
    default = 0.9**2 * DEFAULT_ALPHA
    usual = replace(model.plan_.problem, alpha=default / model.alpha_ * model.plan_.problem.alpha)
    source = uneven.Source("a", len(y), LOCAL(10.0))
    assert model.alpha_ == choose_private_alpha(Settings(), [source], usual, default)


def test_more_rows_go_on_with_the_alpha_of_the_fit():
    X, y = draw()
    model = uneven.UnevenClassifier(LOCAL(10.0), random_state=0).fit(X, y)
    planned = model.plan_.problem
    model.partial_fit(X[:100], y[:100], row_id=np.arange(100))
    assert model.alpha_ < DEFAULT_ALPHA
    assert model.plan_.problem == planned


def test_probabilities_are_better_than_with_the_usual_alpha():
    """Log-loss on fresh rows, over ten runs of the same noise: better by more than four standard errors."""
    X, y = draw(40_000)
    noise, gains = LOCAL(10.0), []
    for seed in range(10):
        models = (uneven.UnevenClassifier(noise, alpha=alpha, random_state=seed) for alpha in ("auto", DEFAULT_ALPHA))
        ours, usual = (model.fit(X[:20_000], y[:20_000]).predict_proba(X[20_000:]) for model in models)
        rows = np.arange(20_000)
        gains.append(np.log(ours[rows, y[20_000:]] / usual[rows, y[20_000:]]).mean())
    assert np.mean(gains) > 4 * np.std(gains, ddof=1) / np.sqrt(10)
