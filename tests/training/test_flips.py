"""Flip rates of many sources that label the same tasks, anchored by a few exact labels."""

import numpy as np

from uneven.noise import Exact, FlippedLabels
from uneven.training.flips import estimated


def test_rates_of_workers_who_label_the_same_tasks():
    """Features of noise alone: what is left to learn the rates from is that rows of different workers are equal."""
    rng = np.random.default_rng(0)
    X, truth = rng.normal(size=(600, 20)) / 20**0.5, rng.choice([-1.0, 1.0], 600)
    rates = dict(zip("abcdef", (0.05, 0.1, 0.2, 0.3, 0.4, 0.2), strict=True))
    data = {name: (X, np.where(rng.random(600) < rate, -truth, truth)) for name, rate in rates.items()}
    data["gold"] = X[:100], truth[:100]
    noises = {**{name: FlippedLabels("estimate") for name in rates}, "gold": Exact()}
    found = estimated(noises, data)
    assert found["gold"] == Exact()
    for name, rate in rates.items():  # four standard errors of a share of 600
        assert abs(found[name].rate - rate) < 4 * (rate * (1 - rate) / 600) ** 0.5, (name, found[name])


def test_workers_who_err_on_the_same_tasks():
    """A quarter of the tasks is hard for everybody: without what the anchors show of it, rates come out too low."""
    rng = np.random.default_rng(1)
    n, names = 4_000, "abcdefgh"
    X, truth = rng.normal(size=(n, 20)) / 20**0.5, rng.choice([-1.0, 1.0], n)
    chance = np.where(rng.random(n) < 0.25, 0.6, 0.1)
    data = {name: (X, np.where(rng.random(n) < chance, -truth, truth)) for name in names}
    wrong = {name: float((y != truth).mean()) for name, (_, y) in data.items()}
    gaps = {}
    for shared in (True, False):  # the anchor's tasks are labelled by the workers too, or by nobody else
        gold = X[:400] if shared else rng.normal(size=(400, 20)) / 20**0.5
        noises = {**{name: FlippedLabels("estimate") for name in names}, "gold": Exact()}
        found = estimated(noises, {**data, "gold": (gold, truth[:400])})
        gaps[shared] = np.mean([found[name].rate - wrong[name] for name in names])
    assert gaps[False] < -0.05
    assert abs(gaps[True]) < 0.02
