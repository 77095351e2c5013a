"""alpha="auto" against the best value on a grid, judged on rows that it has not seen."""

import os
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.preprocessing import StandardScaler

from uneven import UnevenClassifier
from uneven.anchor import folds, path, strength
from uneven.anchor.folds import FoldRows
from uneven.anchor.objective import Objective
from uneven.anchor.rows import PublicRows
from uneven.anchor.solver import solve
from uneven.anchor.strength import DEFAULT_ALPHA, LENGTH, choose_alpha
from uneven.datasets import load_covertype_sample, load_mnist
from uneven.noise import FlippedLabels
from uneven.problem import Problem

GRID = 10.0 ** np.arange(-7.0, 0.0, 0.5)


def excess_of_choice(data, rows, seed, noise=None):
    """Loss on test rows at the alpha chosen, over the least on the grid."""
    drawn = data.subsample(rows, seed)
    y = drawn.y if noise is None else noise.corrupt(drawn.y, np.random.default_rng(seed))
    public, problem = [PublicRows.from_arrays(drawn.X, y, noise)], Problem(drawn.X.shape[1], 1e-3, 1)

    def test_loss(alpha):
        w = solve(replace(problem, alpha=float(alpha)), public).weights
        return np.logaddexp(0, -data.y_test * (data.X_test @ w)).mean()

    return test_loss(choose_alpha(problem, public).alpha) / min(map(test_loss, GRID))


@pytest.mark.parametrize(("rows", "most"), [(30, 1.15), (100, 1.05), (500, 1.05), (2000, 1.02)])
def test_choice_is_near_the_best_on_the_grid(rows, most):
    data = load_covertype_sample()
    assert np.mean([excess_of_choice(data, rows, seed) for seed in range(6)]) <= most


@pytest.mark.slow
def test_choice_under_flips_is_near_the_best_on_the_grid():
    data = load_covertype_sample()
    assert np.mean([excess_of_choice(data, 5000, seed, FlippedLabels(0.3)) for seed in range(4)]) <= 1.05


@pytest.mark.slow
def test_choice_on_mnist_is_near_the_best_on_the_grid():
    if not os.environ.get("UNEVEN_DATA"):
        pytest.skip("UNEVEN_DATA is not set")
    data = load_mnist()
    assert np.mean([excess_of_choice(data, 500, seed) for seed in range(6)]) <= 1.05


def test_sparse_streamed_and_again_choose_the_same():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6)) * (rng.random((400, 6)) < 0.5)
    y = np.where(X[:, 0] + rng.logistic(size=400) > 0, 1.0, -1.0)
    problem = Problem(6, 1e-3, 1)

    def pieces():
        return ((X[i : i + 90], y[i : i + 90]) for i in range(0, 400, 90))

    first, *others = (
        choose_alpha(problem, [rows])
        for rows in (
            PublicRows.from_arrays(X, y),
            PublicRows.from_arrays(X, y),
            PublicRows.from_arrays(sparse.csr_array(X), y),
            PublicRows(pieces, 400),
        )
    )
    for other, rtol in zip(others, (1e-9, 1e-4, 1e-9), strict=True):  # sparse folds are learned one by one
        assert other.alpha == pytest.approx(first.alpha, rel=1e-12)
        np.testing.assert_allclose(other.path, first.path, rtol=rtol)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_more_columns_than_rows_may_be_narrowed(form, monkeypatch):
    """Weights lie in the span of the rows: a path through that span alone has the same held-out losses."""
    monkeypatch.setattr(folds, "ENOUGH", 1e-8)
    rng = np.random.default_rng(1)
    X, penalty = np.hstack([rng.normal(size=(40, 90)), np.ones((40, 1))]), np.append(np.ones(90), 0.0)
    rows = [PublicRows.from_arrays(form(X), np.where(X[:, 0] + rng.normal(size=40) > 0, 1.0, -1.0))]
    narrow = choose_alpha(Problem(91, 1e-3, 1), rows, penalty)
    monkeypatch.setattr(strength, "NARROW_ROWS", 0)
    wide = choose_alpha(Problem(91, 1e-3, 1), rows, penalty)
    assert narrow.alpha == pytest.approx(wide.alpha, rel=1e-9)
    np.testing.assert_allclose(narrow.path, wide.path, rtol=1e-3)


def test_each_fold_has_its_share_of_each_class():
    y = np.where(np.arange(1000) < 10, 1.0, -1.0)
    sample = [PublicRows.from_arrays(np.arange(1000.0)[:, None], y)]
    (numbers,) = path._fold_numbers(sample, 0)
    assert np.bincount(numbers[:10]).tolist() == [2] * 5
    assert np.bincount(numbers).tolist() == [200] * 5
    for fold, (part,) in enumerate(path._folds(sample, [numbers])):
        assert next(iter(part.pieces()))[0][:, 0].tolist() == np.flatnonzero(numbers != fold).tolist()


@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_folds_learned_together_have_the_answers_of_each_alone(rate, monkeypatch):
    monkeypatch.setattr(folds, "ENOUGH", 1e-8)
    rng, penalty = np.random.default_rng(3), np.append(np.ones(6), 0.1)
    X = np.hstack([rng.normal(size=(300, 6)), np.ones((300, 1))])
    y = np.where(X @ rng.normal(size=7) + rng.logistic(size=300) > 0, 1.0, -1.0)
    flipped = np.where(rng.random(200) < rate, -y[:200], y[:200])
    sample = [
        PublicRows.from_arrays(X[:200], flipped, FlippedLabels(rate) if rate else None),
        PublicRows.from_arrays(X[200:], y[200:]),
    ]
    problem, numbers = Problem(7, 0.03, 1), path._fold_numbers(sample, 0)
    together, W = FoldRows.of(problem, sample, numbers), np.zeros((7, 10))
    for factor in (30.0, 10.0, 3.0, 1.0):
        W, done = together.descend(factor * Objective.of(problem, sample, penalty).ridge, W)
        assert done.all()
    for w, train in zip(W.T, path._folds(sample, numbers), strict=True):
        alone = solve(problem, train, penalty)
        np.testing.assert_allclose(w, alone.weights, atol=1e-3)
        assert Objective.of(problem, train, penalty).at(w).value <= alone.objective + 1e-7 * abs(alone.objective)


def test_the_path_is_that_of_folds_learned_one_by_one(monkeypatch):
    """Down to an alpha where the folds no longer share a Hessian: the rows can be separated."""
    monkeypatch.setattr(folds, "ENOUGH", 1e-8)
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 20))
    rows = [PublicRows.from_arrays(X, np.where(X[:, 0] + 0.1 * rng.normal(size=60) > 0, 1.0, -1.0))]
    done = []
    descend = FoldRows.descend
    monkeypatch.setattr(FoldRows, "descend", lambda *given: done.append(descend(*given)) or done[-1])
    together = choose_alpha(Problem(20, 1.0, 1), rows)
    shares = [share.mean() for _, share in done]
    assert max(shares) == 1.0 > min(shares)
    monkeypatch.setattr(FoldRows, "of", lambda *_: None)
    apart = choose_alpha(Problem(20, 1.0, 1), rows)
    assert together.alpha == apart.alpha
    np.testing.assert_allclose(together.path, apart.path, rtol=1e-3)


def test_alpha_times_rows_is_carried_over(monkeypatch):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(4000, 5))
    rows = [PublicRows.from_arrays(X, np.where(X[:, 0] + rng.logistic(size=4000) > 0, 1.0, -1.0))]
    monkeypatch.setattr(strength, "MOST_ROWS", 1000)
    choice = choose_alpha(Problem(5, 1.0, 1), rows)
    strongest = path._strongest([rows[0].sample(0.25)], np.ones(5, dtype=bool)) * choice.rows * 0.8 / 4000
    assert choice.path[0][0] == pytest.approx(strongest, rel=1e-12)
    assert abs(choice.rows - 1000) < 4 * np.sqrt(750)


def test_where_nothing_can_be_compared():
    one = PublicRows.from_arrays([[1.0]], [1.0])
    assert choose_alpha(Problem(1, 1.0, 1), [one]).alpha == DEFAULT_ALPHA
    two = PublicRows.from_arrays([[1.0], [0.5]], [1.0, -1.0])
    assert choose_alpha(Problem(1, 1.0, 1, loss="linear"), [two]).alpha == DEFAULT_ALPHA
    for labels in ([1.0, -1.0], [1.0, 1.0]):
        assert choose_alpha(
            Problem(1, 1.0, 1), [replace(two, pieces=lambda y=labels: [(np.eye(2)[:, :1], np.array(y))])]
        )


def one_against_rest(X, y, test):
    """Class of each test row: the largest margin of one solve a class, each with its own alpha and a free intercept."""
    rows, penalty = np.hstack([X, np.ones((len(y), 1))]), np.append(np.ones(X.shape[1]), 0.0)
    problem, margins = Problem(len(penalty), 1e-3, 1), []
    for label in np.unique(y):
        public = [PublicRows.from_arrays(rows, np.where(y == label, 1.0, -1.0))]
        alpha = choose_alpha(problem, public, penalty).alpha
        w = solve(replace(problem, alpha=alpha), public, penalty).weights
        margins.append(test @ w[:-1] + w[-1])
    return np.argmax(margins, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("load", [load_iris, load_digits])
def test_several_classes_within_a_point_of_scikit_learn(load):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    X /= np.sqrt((X**2).sum(axis=1).mean())
    splits = RepeatedStratifiedKFold(n_splits=5, n_repeats=4 if load is load_iris else 1, random_state=0)
    scale = (StandardScaler().fit_transform(load().data) ** 2).sum(axis=1).mean()
    theirs = cross_val_score(LogisticRegression(C=scale, max_iter=2000), X, y, cv=splits).mean()
    ours = np.mean([(one_against_rest(X[a], y[a], X[b]) == y[b]).mean() for a, b in splits.split(X, y)])
    assert ours >= theirs - 0.01


@pytest.mark.parametrize("seed", [0, 1, 2015])
def test_a_sample_has_nothing_to_do_with_what_a_user_drew(seed):
    """Of 50,000 rows, 10% flipped by a user's own default_rng: 10% of the sample too, within four standard errors."""
    flipped = np.random.default_rng(seed).random(50_000) < 0.1
    y, X = np.where(flipped, -1.0, 1.0), np.zeros((50_000, 1))
    sampled = PublicRows.from_arrays(X, y).sample(0.2, seed)
    _, labels = next(iter(sampled.pieces()))
    assert (labels < 0).mean() == pytest.approx(0.1, abs=4 * (0.1 * 0.9 / 10_000) ** 0.5)


@pytest.mark.parametrize(("rate", "rows"), [(0.0, 5_000), (0.25, 20_000), (0.45, 50_000)])
def test_flipped_labels_are_counted_by_what_they_tell(rate, rows):
    """Labels flipped at rate σ tell (1 - 2σ)² of an exact one: four times the rows at 1/4, all of them at 0.45."""
    X, y = np.ones((50_000, 1)), np.where(np.arange(50_000) % 2, 1.0, -1.0)
    found = choose_alpha(Problem(1, 1.0, 1), [PublicRows.from_arrays(X, y, FlippedLabels(rate) if rate else None)])
    assert found.rows == pytest.approx(rows, abs=4 * (rows * (1 - rows / 50_000)) ** 0.5)


def test_folds_of_many_columns_are_learned_no_better_than_it_takes():
    """Wide folds stop far from convergence but well within a standard error: the same alpha as from exact ones."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((400, 3_000), density=0.01, random_state=0, format="csr") * 0.3
    y = np.where(X @ rng.normal(size=3_000) + 0.3 * rng.normal(size=400) > 0, 1.0, -1.0)
    wide, rows = Problem(3_000, 1.0, 1), [PublicRows.from_arrays(X, y)]
    roughly, exactly = (solve(replace(wide, alpha=1e-3), rows, aim=aim) for aim in (1e-4, 1e-8))
    assert roughly.readings < exactly.readings
    assert 0.0 <= roughly.objective - exactly.objective < 1e-3 * exactly.objective
    chosen = [choose_alpha(wide, rows).alpha]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uneven.anchor.path.ROUGHLY", 1e-8)
        patch.setattr("uneven.anchor.strength.NARROW_ROWS", 0)
        chosen.append(choose_alpha(wide, rows).alpha)
        patch.setattr("uneven.anchor.path.ROUGHLY", 1e-4)
        chosen.append(choose_alpha(wide, rows).alpha)
    assert chosen[0] == chosen[1] == chosen[2]


@pytest.mark.parametrize("size", [1e3, 5e4])
def test_columns_on_a_far_smaller_scale_are_learned_too(size):
    """Three columns that decide beside one of mean `size` that does not: alphas are tried until those count."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(3_000, 3)), size * (1.0 + 0.3 * rng.normal(size=3_000))])
    y = np.where(X[:, 0] + X[:, 1] + 0.5 * rng.logistic(size=3_000) > 0, 1, 0)
    clf = UnevenClassifier().fit(X[:1_000], y[:1_000])
    alone = LogisticRegression(max_iter=5_000).fit(X[:1_000, :3], y[:1_000])
    assert clf.score(X[1_000:], y[1_000:]) > alone.score(X[1_000:, :3], y[1_000:]) - 0.01


def test_rows_of_any_scale_are_learned_or_refused_with_what_to_do():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] > 0, 1, 0)
    assert UnevenClassifier().fit(1e6 * X, y).score(1e6 * X, y) > 0.97
    with pytest.raises(ValueError, match="scale the columns"):
        UnevenClassifier().fit(1e-8 * X, y)


@pytest.mark.parametrize("n", [500, 2_000])
def test_columns_on_scales_far_apart_are_learned_as_well_as_on_one(n):
    """Held-out losses still fall at the weakest alpha of six decades: weaker ones are tried until they do not."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(n, 10)), rng.normal(size=10)
    y = np.where(X @ w + rng.logistic(size=n) > 0, 1.0, -1.0)
    problem = Problem(10, 1.0, 1)
    even, apart = (
        np.array(choose_alpha(problem, [PublicRows.from_arrays(X * scale, y)]).path)
        for scale in (1.0, np.logspace(-2, 2, 10))
    )
    assert apart[:, 1].min() < even[:, 1].min() + 0.005
    assert len(apart) > len(even)
    assert len(choose_alpha(problem, [PublicRows.from_arrays(X, np.sign(X[:, 0]))]).path) <= LENGTH + 3


def test_more_rows_are_drawn_where_a_class_is_rare():
    """Of 100,000 rows with one positive in 1,000, 5,000 would have five: ten times as many are drawn."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(100_000) % 1_000 == 0, 1.0, -1.0)
    rows = PublicRows.from_arrays(rng.normal(size=(100_000, 2)) + y[:, None], y)
    assert choose_alpha(Problem(2, 1.0, 1), [rows]).rows > 15_000
    even = PublicRows.from_arrays(rng.normal(size=(100_000, 2)), rng.choice([-1.0, 1.0], 100_000))
    assert choose_alpha(Problem(2, 1.0, 1), [even]).rows < 5_500


def test_the_only_row_of_a_class_does_not_choose_alpha():
    """Without it nothing is known of its class, whatever alpha is; with it alone held out the strongest was chosen."""
    X, y = load_digits(return_X_y=True)
    rare = np.append(np.flatnonzero(y < 3)[:150], np.flatnonzero(y == 3)[:1])
    problem = Problem(4 * 64, 1.0, 1, classes=4)
    with_it, without = (
        choose_alpha(problem, [PublicRows.from_arrays(X[one] / 16, y[one].astype(float))]) for one in (rare, rare[:-1])
    )
    assert with_it.alpha < 10 * without.alpha
