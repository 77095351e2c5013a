"""Label privacy: randomised response on labels, and nothing else."""

import math

import numpy as np
import pytest

import uneven
from uneven import FlippedLabels, LabelPrivacy, LocalPrivacy, Problem
from uneven.engine import Task, repeat_generator
from uneven.schedules import Rate


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_the_odds_of_the_true_label_are_e_to_the_epsilon(epsilon):
    noise, n = LabelPrivacy(epsilon), 400_000
    assert (1 - noise.rate) / noise.rate == pytest.approx(math.exp(epsilon), rel=1e-12)
    flipped = (noise.corrupt(np.ones(n), np.random.default_rng(1)) < 0).mean()
    assert abs(flipped - noise.rate) < 4 * math.sqrt(noise.rate * (1 - noise.rate) / n)


def test_the_chance_of_a_flip_is_never_below_the_rate():
    """A generator's numbers are multiples of 2⁻⁵³: where σ is smaller, 0 itself must flip the label."""

    class Zeros:
        def random(self, n):
            return np.zeros(n)

    assert LabelPrivacy(100.0).rate < 2.0**-53
    assert LabelPrivacy(100.0).draw_flips(3, Zeros()).all()
    assert LabelPrivacy(1e6).draw_flips(3, Zeros()).all()  # e^-ε itself is 0 in floats


def test_noise_is_a_33rd_of_full_privacy_at_25_dimensions_and_epsilon_1():
    problem = Problem(n_features=25, alpha=1e-3, batch_size=50)
    ratio = LocalPrivacy(1.0).variance_bound(problem) / LabelPrivacy(1.0).variance_bound(problem)
    assert ratio == pytest.approx(33, abs=0.5)


def test_moments_are_those_of_the_flips_it_makes():
    problem = Problem(n_features=3, alpha=1e-2, batch_size=5, clip=0.5)
    private, flipped = LabelPrivacy(1.3), FlippedLabels(1 / (1 + math.exp(1.3)))
    assert private.second_moment(problem) == pytest.approx(flipped.second_moment(problem))
    assert private.variance_bound(problem) == pytest.approx(problem.gradient_norm**2 / math.tanh(0.65) ** 2 / 5)


def test_it_says_that_features_are_not_protected():
    source = uneven.Source("clinic", 1000, LabelPrivacy(2.0))
    for text in (LabelPrivacy(2.0).describe(), LabelPrivacy.__doc__, uneven.plan([source], n_features=3).summary()):
        assert "FEATURES" in text
        assert "NOT" in text
    assert LabelPrivacy(2.0).private
    assert not LabelPrivacy(2.0).protects_features
    assert LocalPrivacy(2.0).protects_features
    assert not FlippedLabels(0.1).protects_features


def test_steps_refuse_labels_that_were_not_randomised():
    problem, noise = Problem(3, 1e-2, 5), LabelPrivacy(1.0)
    moment = noise.moment("variance", problem)
    with pytest.raises(ValueError, match="randomised before any step"):
        Task(problem, ("a",), (noise,), (moment,), Rate(1.0))


@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_run_of_a_plan_randomises_labels_once(passes, streamed):
    """The answer is that of a run on labels flipped beforehand, also where rows are read several times."""
    rng, n = np.random.default_rng(0), 400
    X = rng.normal(size=(n, 3)) / 4
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    y, private = np.where(X[:, 0] > 0, 1.0, -1.0), LabelPrivacy(1.0)
    flipped = private.corrupt(y, repeat_generator(7, 0, "a", "labels")())
    assert 0.15 < (flipped != y).mean() < 0.4

    class Pieces:
        def __init__(self, labels):
            self.labels = labels

        def __iter__(self):
            return iter([(X[:150], self.labels[:150]), (X[150:], self.labels[150:])])

    def run(noise, labels):
        plan = uneven.plan([uneven.Source("a", n * passes, noise)], n_features=3, alpha=0.01, batch_size=20)
        rows = uneven.Stream(Pieces(labels)) if streamed else (X, labels)
        return uneven.fit(plan, {"a": rows}, seed=7, passes=passes).weights

    np.testing.assert_array_equal(run(private, y), run(private.observed, flipped))


def test_without_a_seed_every_run_draws_other_flips():
    draws = [repeat_generator(None, 0, "a", "labels")().random(4).tolist() for _ in range(2)]
    assert draws[0] != draws[1]
