"""The small simulation: its optimum, how rows are dealt, and measured distances beside the bounds."""

import numpy as np
import pytest
from scipy import stats

import uneven
from uneven.datasets import Dataset, load_covertype_sample
from uneven.engine import find_optimum
from uneven.studio import document, simulation, table
from uneven.studio.pictures import draw_measured_figure


@pytest.fixture(scope="module")
def sample():
    return load_covertype_sample()


@pytest.fixture(scope="module")
def tiny():
    """600 rows of 4 features in the unit ball, with labels that a line tells apart but for a tenth."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    X = (X / (np.linalg.norm(X, axis=1).max() * 1.000001)).astype(np.float32)
    y = np.where((X[:, 0] > 0) != (rng.random(600) < 0.1), 1.0, -1.0)
    return Dataset("tiny", X[:500], y[:500], X[500:], y[500:])


@pytest.mark.parametrize(("rows", "limit"), [((50_000, 450_000), 20_000), ((1, 10**9), 100), ((7, 8, 9), 10)])
def test_rows_are_scaled_in_proportion(rows, limit):
    sources = [uneven.Source(str(i), n, price=2.0) for i, n in enumerate(rows)]
    small = simulation.scale_rows(sources, limit)
    assert limit - len(rows) < sum(source.rows for source in small) <= limit
    for before, after in zip(sources, small, strict=True):
        assert abs(after.rows - limit * before.rows / sum(rows)) <= len(rows)
        assert (after.name, after.noise, after.price) == (before.name, before.noise, before.price)


def test_few_rows_are_left_as_they_are():
    assert simulation.scale_rows(table.HOSPITALS, 500_000) == list(table.HOSPITALS)
    with pytest.raises(ValueError, match="sources must be at most 1 to run on the sample, got 2"):
        simulation.scale_rows(table.HOSPITALS, 1)


def test_rows_are_dealt_once_and_labels_flipped_where_they_should_be(tiny):
    numbered = Dataset("numbered", np.arange(500, dtype=np.float32)[:, None], tiny.y, tiny.X_test, tiny.y_test)
    noises = uneven.Exact(), uneven.FlippedLabels(0.3)
    sources = [uneven.Source("a", 100, noises[0]), uneven.Source("b", 390, noises[1])]
    dealt = simulation.deal(sources, numbered, np.random.default_rng(0))
    places = {name: X[:, 0].astype(int) for name, (X, _) in dealt.items()}
    assert {name: len(place) for name, place in places.items()} == {"a": 100, "b": 390}
    assert len(np.unique(np.concatenate(list(places.values())))) == 490
    np.testing.assert_array_equal(dealt["a"][1], tiny.y[places["a"]])
    flipped = (dealt["b"][1] != tiny.y[places["b"]]).mean()
    assert abs(flipped - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 390)  # four standard errors


def test_every_strategy_has_its_own_measurements(tiny):
    """Distance and accuracy of each strategy are those of its own answers, with scipy's standard errors."""
    sources = [uneven.Source("a", 60, uneven.LocalPrivacy(8)), uneven.Source("b", 400, uneven.LocalPrivacy(0.5))]
    done = simulation.simulate(uneven.plan(sources, 4, alpha=0.1, batch_size=5), tiny, runs=5, seed=2)
    runs = [simulation._one_run(done.plans, tiny, np.random.SeedSequence([2, run])) for run in range(5)]
    best = find_optimum(next(iter(done.plans.values())).problem, tiny.X, tiny.y)
    for i, name in enumerate(done.plans):
        correct = [np.mean((tiny.X_test @ w[i] > 0) == (tiny.y_test > 0)) for w in runs]
        distance = [np.sum((w[i] - best) ** 2) for w in runs]
        assert done.accuracy[name] == pytest.approx((np.mean(correct), stats.sem(correct)))
        assert done.distance[name] == pytest.approx((np.mean(distance), stats.sem(distance)))
    assert len({mean for mean, _ in done.accuracy.values()}) > 3


def test_without_noise_or_flips_it_ends_near_the_optimum(tiny):
    """Each strategy's mean is below its bound, which holds whatever the rows are; their noise keeps it above 0."""
    planned = uneven.plan([uneven.Source("a", 500)], 9, alpha=0.1, batch_size=5)
    done = simulation.simulate(planned, tiny, runs=6)
    assert set(done.plans) == set(planned.alternatives())
    for name, (mean, error) in done.distance.items():
        assert 0 < mean + 4 * error < done.plans[name].bound
        assert done.plans[name].problem.n_features == 4
        assert abs(done.accuracy[name][0] - done.best_accuracy) < 0.1
    assert done.rows == {"a": 500}


def test_same_seed_same_figures_and_another_seed_others(tiny):
    planned = uneven.plan([uneven.Source("a", 300, uneven.LocalPrivacy(2))], 4, alpha=0.1)
    one, again, other = (simulation.simulate(planned, tiny, runs=2, seed=seed).distance for seed in (0, 0, 1))
    assert one == again
    assert one != other


def test_flipped_labels_are_corrected(tiny):
    """The surrogate is unbiased: four tenths of labels wrong, and the mean still goes where clean labels lead.

    Without the correction, or without flips, w would end short of w* or beyond it, by a factor 1 - 2·0.4 = 1/5 or 5.
    """
    planned = uneven.plan(
        [uneven.Source("a", 500, uneven.FlippedLabels(0.4))], 4, alpha=1.0, loss="linear", batch_size=5
    )
    best = find_optimum(planned.problem, tiny.X, tiny.y)
    plans = planned.alternatives()  # precision is the first
    answers = np.stack([simulation._one_run(plans, tiny, np.random.SeedSequence([0, run]))[0] for run in range(60)])
    error = answers.std(axis=0, ddof=1) / np.sqrt(len(answers))
    assert (np.abs(answers.mean(axis=0) - best) < 4 * error).all()
    assert np.linalg.norm(4 * error) < 0.5 * np.linalg.norm(best)  # it would notice a factor of 5


def test_the_page_s_own_simulation(sample):
    """Two hospitals on the embedded sample: every mean is below its bound, and precision comes nearest of all."""
    planned, _ = document.begin().plan()
    told = []
    done = simulation.simulate(planned, sample, runs=3, limit=5_000, tick=told.append)
    assert told == [0.0, 1 / 3, 2 / 3, 1.0]
    assert done.rows == {"clinic": 500, "region": 4_499}
    for name, (mean, error) in done.distance.items():
        assert mean + 4 * error < done.plans[name].bound
    assert min(done.distance, key=lambda name: done.distance[name]) == "precision"
    figure = draw_measured_figure(done.plans["precision"], done.plans, done.distance, "dark")
    means = figure.axes[0].containers[0].lines[0].get_xdata()
    np.testing.assert_array_equal(means, [mean for mean, _ in done.distance.values()])
