"""Flipped labels: the surrogate averaged over flips is the clean loss, exactly."""

import numpy as np
import pytest

from uneven import Exact, FlippedLabels, Problem, surrogate_objective
from uneven.losses import LOSSES
from uneven.theory import rcn_second_moment

MARGINS = np.linspace(-20, 20, 401)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.49])
@pytest.mark.parametrize("cap", [np.inf, 0.5])
def test_mean_over_flips_is_the_clean_gradient(loss, rate, cap):
    """A flipped label has margin -m and turns the gradient slope·y·x around: (1-σ)s̃(m) - σs̃(-m) = ℓ'(m)."""
    noise = FlippedLabels(rate)
    mean = (1 - rate) * noise.slope(loss, MARGINS, cap) - rate * noise.slope(loss, -MARGINS, cap)
    # Terms of size 1/(1-2σ) cancel, and rounding grows with them.
    np.testing.assert_allclose(mean, loss.slope(MARGINS, cap), atol=4e-16 / (1 - 2 * rate) ** 2)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("rates", [(0.0, 0.3), (0.4, 0.1), (0.7, 0.2)])
@pytest.mark.parametrize("label", [1.0, -1.0])
def test_mean_over_unequal_flips_is_the_clean_gradient(loss, rates, label):
    """A true label y stays with probability 1 - ρy: (1-ρy)s̃(m; y) - ρy·s̃(-m; -y) = ℓ'(m), for either label."""
    noise, own = FlippedLabels(rates), rates[0] if label > 0 else rates[1]
    stays, turns = (noise.slope(loss, sign * MARGINS, 0.5, sign * label) for sign in (1.0, -1.0))
    np.testing.assert_allclose((1 - own) * stays - own * turns, loss.slope(MARGINS, 0.5), atol=1e-13)


def test_the_surrogate_objective_of_unequal_flips_is_what_is_descended():
    rng, problem, rates = np.random.default_rng(0), Problem(3, 0.1, 5), (0.3, 0.05)
    X, w = rng.uniform(-0.5, 0.5, (40, 3)), rng.normal(size=3)
    y, h = np.where(rng.random(40) < 0.4, 1.0, -1.0), 1e-6
    up, down = (surrogate_objective(problem, w + sign * h * np.eye(3), X, y, rates) for sign in (1, -1))
    descended = FlippedLabels(rates).row_gradients(problem, w, X, y).mean(axis=0) + 0.1 * w
    np.testing.assert_allclose((up - down) / (2 * h), descended, atol=1e-8)


def test_two_equal_rates_are_one():
    problem, rng = Problem(n_features=4, alpha=0.1, batch_size=3), np.random.default_rng(0)
    one, two = FlippedLabels(0.2), FlippedLabels((0.2, 0.2))
    assert one.second_moment(problem) == two.second_moment(problem)
    X, y, w = rng.uniform(-0.5, 0.5, (9, 4)), np.where(rng.random(9) < 0.5, 1.0, -1.0), rng.normal(size=4)
    np.testing.assert_array_equal(one.row_gradients(problem, w, X, y), two.row_gradients(problem, w, X, y))


def test_each_label_is_flipped_at_its_own_rate():
    rng, n = np.random.default_rng(0), 100_000
    for label, rate in ((1.0, 0.05), (-1.0, 0.3)):
        flipped = (FlippedLabels((0.05, 0.3)).corrupt(np.full(n, label), rng) == -label).mean()
        assert abs(flipped - rate) < 4 * np.sqrt(rate * (1 - rate) / n)


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        ((0.1,), "rate must be a number or two, of positive and of negative labels; got"),
        (
            (0.6, 0.4),
            r"rate must have two numbers with a sum below 1, or labels carry no information; got \(0.6, 0.4\)",
        ),
        ((-0.1, 0.4), "rate of positive labels must be .* got -0.1"),
        ((0.1, "b"), "rate of negative labels must be .* got 'b'"),
    ],
)
def test_bad_pairs(rate, words):
    with pytest.raises(ValueError, match=words):
        FlippedLabels(rate)


NEARLY = [[0.5, 0.3, 0.2], [0.5 - 1e-10, 0.3 + 1e-10, 0.2], [0.1, 0.1, 0.8]]


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (NEARLY, "rate must be a matrix with an inverse, or labels carry no information; got a singular one"),
        ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], "whose diagonal has a sum above 1, or labels name other classes than"),
        ([[0.3, 0.7, 0], [0, 0.4, 0.6], [0.7, 0, 0.3]], "diagonal has a sum above 1, .*; got 1$"),
        ([[0.8, 0.1, 0.1], [0.1, float("nan"), 0.1], [0, 0.2, 0.8]], "whose rows sum to 1, got .*nan"),
        ([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]], r"got shape \(3, 2\)"),
    ],
)
def test_bad_matrices(rate, words):
    with pytest.raises(ValueError, match=words):
        FlippedLabels(rate)


def test_ends_of_an_interval_are_numbers():
    with pytest.raises(ValueError, match=r"interval must have numbers for its ends, got \(0.1, 'estimate'\)"):
        FlippedLabels(0.2, interval=(0.1, "estimate"))


def test_without_the_correction_it_is_not():
    logistic, rate = LOSSES["logistic"], 0.3
    mean = (1 - rate) * logistic.slope(MARGINS) - rate * logistic.slope(-MARGINS)
    assert np.abs(mean - logistic.slope(MARGINS)).max() > 0.1


def test_rate_zero_is_exact():
    problem = Problem(n_features=4, alpha=0.1, batch_size=3)
    assert FlippedLabels(0.0).second_moment(problem) == Exact().second_moment(problem)
    assert FlippedLabels(0.0).variance_bound(problem) == Exact().variance_bound(problem)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4])
def test_moment_of_one_row_is_the_papers(rate):
    problem = Problem(n_features=4, alpha=0.1, batch_size=1, radius="paper")
    assert FlippedLabels(rate).second_moment(problem)[1] == pytest.approx(3 + 1 / (1 - 2 * rate) ** 2)
    assert rcn_second_moment(rate) == pytest.approx(3 + 1 / (1 - 2 * rate) ** 2)


def test_noise_and_theory_agree_on_batches():
    problem = Problem(n_features=4, alpha=0.1, batch_size=8, clip=0.5)
    stated = rcn_second_moment(0.2, batch_size=8, signal=problem.signal, gradient_norm=0.5)
    assert FlippedLabels(0.2).second_moment(problem)[1] == pytest.approx(stated)


def test_flips_come_at_the_stated_rate():
    rng, n, rate = np.random.default_rng(0), 100_000, 0.2
    flipped = (FlippedLabels(rate).corrupt(np.ones(n), rng) < 0).mean()
    error = np.sqrt(rate * (1 - rate) / n)
    assert abs(flipped - rate) < 4 * error


def test_symmetric_flips_tell_something_up_to_all_classes_alike():
    """Of K classes, σ = (K-1)/K observes each class equally often, whatever is true."""
    noise = FlippedLabels(0.6)
    np.testing.assert_allclose(noise.confusion_of(10), np.full((10, 10), 0.6 / 9) + (0.4 - 0.6 / 9) * np.eye(10))
    for classes in (2, 3):
        with pytest.raises(ValueError, match=f"rate must be below {classes - 1}/{classes} for {classes} classes, or"):
            FlippedLabels((classes - 1) / classes).confusion_of(classes)
    for use in (lambda: noise.second_moment(Problem(3, 0.1, 5)), lambda: noise.corrupt([1.0], np.random.default_rng())):
        with pytest.raises(
            ValueError, match=r"rate must be below 1/2 for 2 classes, or labels carry no information; got 0\.6"
        ):
            use()


def test_one_class_against_the_rest_is_observed_at_the_rates_of_the_confusion():
    """P(observed k | true k) = 1-a and P(observed k | true other) = b, by the confusion matrix itself."""
    confusion = FlippedLabels(0.45).confusion_of(5)
    a, b = FlippedLabels(0.45).against_rest(5).rate
    np.testing.assert_allclose([1 - a, b, b, b, b], confusion[:, 0])
    assert FlippedLabels((a, b)).against_rest(5).rate == (a, b)
    with pytest.raises(ValueError, match="rate must be one number for multi_class='one-vs-rest', got a matrix"):
        FlippedLabels(confusion).against_rest(5)


def test_rates_in_an_array_are_the_same_as_in_a_tuple():
    assert FlippedLabels(np.array([0.1, 0.2])) == FlippedLabels((0.1, 0.2))
    assert FlippedLabels(np.array(0.2)) == FlippedLabels(0.2)
    with pytest.raises(ValueError, match=r"rate must be a number or two, .*; got \[0.1, 0.2, 0.3\]"):
        FlippedLabels(np.array([0.1, 0.2, 0.3]))
