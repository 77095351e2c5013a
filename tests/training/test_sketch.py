"""Wide rows under privacy: a public projection, folded back into the weights."""

import os
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import log_loss

import uneven
from uneven.datasets import load_mnist
from uneven.io import read_sources
from uneven.planner import Source
from uneven.problem import Problem
from uneven.settings import Settings
from uneven.training.ahead import plan_ahead
from uneven.training.files import train_files
from uneven.training.planning import describe_sketch, with_sketch
from uneven.training.scaling import Scale
from uneven.training.sketch import (
    choose_width,
    draw_projection,
    expect_excess,
    expect_width,
    find_lost,
    project,
)

PRIVATE = uneven.LocalPrivacy(3.0)


def rows(n=600, d=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(X @ rng.normal(size=d) > 0, 1, 0)


def test_lengths_and_scores_are_kept_on_average():
    """E‖Rx‖² = ‖x‖² and E⟨Rw, Rx⟩ = ⟨w, x⟩, with a variance of at most (‖w‖²‖x‖² + ⟨w, x⟩²)/k."""
    X, _ = rows(d=3000)
    sketched, k = project(X, draw_projection(3000, 100)), 100
    squares = (sketched**2).sum(axis=1)
    assert abs(squares.mean() - 1) < 4 * np.sqrt(2 / k / len(X)) + 4 * np.sqrt(2 / k / 3000)
    assert squares.std() == pytest.approx(np.sqrt(2 / k), rel=0.2)
    errors = sketched[1:] @ sketched[0] - X[1:] @ X[0]
    assert errors.std() == pytest.approx(np.sqrt(1 / k), rel=0.2)


def test_the_projection_is_public():
    """It depends on the numbers of columns alone."""
    np.testing.assert_array_equal(draw_projection.__wrapped__(300, 20), draw_projection.__wrapped__(300, 20))
    assert not np.array_equal(draw_projection(300, 20), draw_projection(301, 20)[:300])


def test_large_projections_have_few_signs(monkeypatch):
    monkeypatch.setattr("uneven.training.sketch.DENSE", 0)
    found = draw_projection.__wrapped__(10_000, 50)
    assert sparse.issparse(found)
    assert found.nnz == pytest.approx(50 * 100, rel=0.1)
    lengths = np.asarray(found.multiply(found).sum(axis=0)).ravel()
    assert lengths.mean() == pytest.approx(10_000 / 50, rel=0.1)


def test_weights_are_folded_back():
    """Scores of the folded weights on rows as given are the scores of the weights on sketched rows."""
    X, _ = rows()
    scale = Scale(2.0, 0.5, columns=300, sketch=40)  # so wide a bound that no sketch is shrunk
    w = np.random.default_rng(1).normal(size=41)
    coef, intercept = scale.coefficients(w)
    np.testing.assert_allclose(X @ coef + intercept, scale.rows(X) @ w, atol=1e-5)


def test_no_sketched_row_is_longer_than_the_bound():
    X, _ = rows()
    assert (np.linalg.norm(Scale(1.0, 0.25, columns=300, sketch=10).rows(X), axis=1) <= 1).all()


def test_dense_and_sparse_rows_give_the_same_model():
    X, y = rows()
    fits = [uneven.UnevenClassifier(PRIVATE, sketch=30, random_state=0).fit(Z, y) for Z in (X, sparse.csr_array(X))]
    assert fits[0].coef_.shape == (1, 300)
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-4, atol=1e-6)
    assert fits[0].plan_.problem.n_features == 31


def test_sparse_text_can_be_private():
    rng = np.random.default_rng(0)
    X = sparse.random_array((1000, 20_000), density=0.002, random_state=0, format="csr")
    X = sparse.csr_array(X.multiply(1 / np.maximum(np.sqrt(X.multiply(X).sum(axis=1)), 1e-9)[:, None]))
    y = np.where(X @ rng.normal(size=20_000) > 0, 1, 0)
    fitted = uneven.UnevenClassifier(PRIVATE, sketch="auto", random_state=0).fit(X, y)
    assert 0 < fitted.scale_.sketch < 1000
    assert np.isfinite(fitted.coef_).all()
    assert fitted.predict(X).shape == (1000,)
    with pytest.raises(ValueError, match=r"rows must be dense where a source is private, .* or give sketch"):
        uneven.UnevenClassifier(PRIVATE).fit(X, y)


def test_the_width_grows_with_what_the_rows_can_tell():
    """More rows or a larger ε leave room for more columns; without privacy, none are left out."""

    def width(rows, epsilon):
        noise = uneven.LocalPrivacy(epsilon)
        return choose_width("auto", [Source("a", rows, noise)], Problem(785, 1e-3, 50, clip=0.5), 784, False)

    widths = [width(10**4, 1.0), width(10**5, 1.0), width(10**6, 1.0), width(10**6, 10.0)]
    assert widths == sorted(widths, key=lambda k: k or 784)
    assert widths[0] < widths[2]
    assert width(10**9, 20.0) == 0
    exact = [Source("a", 100, uneven.Exact())]
    assert choose_width("auto", exact, Problem(785, 1e-3, 50), 784, False) == 0


def test_random_columns_hold_as_much_of_each_direction_as_predicted():
    """The projection onto the rows of RH^½ keeps h/(h+κ) of direction j on average, up to O(1/k)."""
    rng, h, k, draws = np.random.default_rng(0), 1.0 / np.arange(1, 61), 15, 400
    lost = np.zeros((draws, 60))
    for i in range(draws):
        basis = np.linalg.qr((rng.normal(size=(k, 60)) * np.sqrt(h)).T)[0]
        lost[i] = 1.0 - (basis**2).sum(axis=1)
    expected = find_lost(h, np.ones(60), k)
    assert expected.sum() == pytest.approx(60 - k)
    error = lost.std(axis=0) / np.sqrt(draws)
    assert (np.abs(lost.mean(axis=0) - expected) < 4 * error + expected / k).all()
    assert not find_lost(h, np.ones(60), 60).any()


def test_a_loss_with_a_kink_is_sketched_too():
    """Nothing is predicted of it, so it is taken for the logistic loss: noise in 784 columns is not for nothing."""
    sources = [Source("a", 10_000, uneven.LocalPrivacy(1.0))]
    widths = [
        choose_width("auto", sources, Problem(785, 1e-3, 50, loss, clip=0.5), 784, False)
        for loss in ("hinge", "logistic")
    ]
    assert widths[0] == widths[1] > 0


def make_text(seed, train=20_000, test=5_000, words=20_000):
    """TF-IDF rows of texts of about 60 words by Zipf's law, where every word is a little more frequent in one class."""
    rng = np.random.default_rng(seed)
    shift, y = 0.4 * rng.normal(size=words), rng.integers(0, 2, train + test)
    ends = np.concatenate([[0], np.cumsum(rng.poisson(60, train + test) + 1)])
    labels, drawn = np.repeat(y, np.diff(ends)), np.empty(ends[-1], dtype=np.int64)
    for label in (0, 1):
        shares = np.exp(shift * (2 * label - 1)) / np.arange(1, words + 1)
        mine = labels == label
        drawn[mine] = np.searchsorted(np.cumsum(shares / shares.sum()), rng.random(mine.sum())).clip(0, words - 1)
    counts = sparse.csr_array((np.ones(len(drawn)), drawn, ends), shape=(train + test, words))
    counts.sum_duplicates()
    X = TfidfTransformer().fit_transform(counts)
    return X[:train], y[:train], X[train:], y[train:]


@pytest.mark.slow
def test_text_gets_as_many_columns_as_it_needs():
    """At ε = 3, accuracy and log-loss of "auto" are near the best of the widths from 32 to 1024, for several texts."""
    scores = {}
    for seed in range(5):
        X, y, X_test, y_test = make_text(seed)
        for width in (32, 64, 128, 256, 512, 1024, "auto"):
            fitted = uneven.UnevenClassifier(PRIVATE, sketch=width, row_norm=1.0, random_state=seed).fit(X, y)
            found = fitted.score(X_test, y_test), -log_loss(y_test, fitted.predict_proba(X_test))
            scores.setdefault(width, []).append(found)
    means = {width: np.mean(one, axis=0) for width, one in scores.items()}
    for k in (0, 1):
        best = max(means, key=lambda width: means[width][k])
        behind = np.array(scores[best])[:, k] - np.array(scores["auto"])[:, k]
        assert behind.mean() < 2 * behind.std(ddof=1) / np.sqrt(5) + 0.05, (k, best, means)


def test_the_plan_is_that_of_the_sketch_and_the_ledger_is_charged_once():
    X, y = rows()
    fitted = uneven.UnevenClassifier(PRIVATE, sketch=30, random_state=0).fit(X, y)
    assert sum(source.rows for source in fitted.plan_.sources) == 600
    settings = Settings(sketch=30)
    scale = Scale(1.0, 0.25)
    assert with_sketch(scale, settings, fitted.plan_.sources, 300) == replace(scale, columns=300, sketch=30)


def test_a_penalty_that_leaves_little_to_learn_leaves_little_to_lose():
    """α ≫ c: weights are g/α, and those of a sketch RᵀRg/α: on average the same gain, and the same penalty ‖Rg‖²/2α."""
    source = [Source("a", 10**8, uneven.LocalPrivacy(100.0))]
    strong, weak = (expect_excess(source, Problem(17, alpha, 50, clip=0.5), 784) for alpha in (10.0, 1e-5))
    assert strong < 0.02 < 0.2 < weak


@pytest.mark.parametrize("n", [5_000, 60_000, 1_000_000])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 10.0])
def test_auto_is_the_narrowest_that_is_as_good_as_the_best(n, epsilon):
    """As good: within 0.02 of what there is to learn, and within a quarter of the least excess."""
    source, problem = [Source("a", n, uneven.LocalPrivacy(epsilon))], Problem(785, 1e-3, 50, clip=0.5)
    widths = [16, 32, 64, 128, 256, 512, 784]
    expected = [expect_excess(source, Problem(width + 1, 1e-3, 50, clip=0.5), 784) for width in widths]
    good = [one <= min(expected) + 0.02 and one <= 1.25 * min(expected) for one in expected]
    chosen = choose_width("auto", source, problem, 784, sparse=False)
    assert (chosen or 784) == widths[good.index(True)]


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_auto_is_the_best_where_noise_is_drawn_once_per_batch(epsilon):
    """With one such source among others too: a narrower sketch that counts as good would be taken without it."""
    problem = Problem(20_001, 1e-3, 50, clip=0.5, own_batches=True)
    site, local = Source("a", 30_000, uneven.SitePrivacy(epsilon)), Source("b", 100, uneven.LocalPrivacy(epsilon))
    for sources in ([site], [site, local]):
        expected = {width: expect_width(width, sources, problem, 20_000) for width in (16, 32, 64, 128, 256, 512)}
        best = min(expected, key=lambda width: expected[width])
        assert choose_width("auto", sources, problem, 20_000, sparse=True) == best
        assert expected[best // 2] <= min(expected[best] + 0.02, 1.25 * expected[best])


@pytest.mark.slow
def test_text_is_predicted_better_with_the_best_width_where_noise_is_drawn_once_per_batch():
    """By log-loss, than with 32 columns, expected to be nearly as good at ε = 1: by more than two standard errors."""
    gained = []
    for seed in range(5):
        X, y, X_test, y_test = make_text(seed)
        how = {"row_norm": 1.0, "random_state": seed}
        fits = [uneven.UnevenClassifier(uneven.SitePrivacy(1.0), sketch=k, **how).fit(X, y) for k in (32, "auto")]
        less, best = (log_loss(y_test, fitted.predict_proba(X_test)) for fitted in fits)
        gained.append(less - best)
    assert np.mean(gained) > 2 * np.std(gained, ddof=1) / np.sqrt(5)


@pytest.mark.parametrize("noise", [uneven.LocalPrivacy(0.3), uneven.SitePrivacy(1.0), uneven.LocalPrivacy(8.0)])
def test_auto_takes_no_sketch_of_fewer_than_a_hundred_columns(noise):
    """Sketches of 18 to 64 columns lost 3 to 24 points of accuracy where they were predicted to be as good."""
    sources = [Source("a", 2_000, noise)]
    assert all(choose_width("auto", sources, Problem(d + 1, 1e-3, 50, clip=0.5), d, False) == 0 for d in (17, 64, 99))
    assert choose_width("auto", sources, Problem(100, 1e-3, 50, clip=0.5), 99, sparse=True) == 99
    assert choose_width("auto", [Source("a", 2_000, uneven.LocalPrivacy(0.3))], Problem(102, 1e-3, 50), 101, False) > 0


def test_sparse_rows_get_at_most_2048_columns():
    source, problem = [Source("a", 10**9, uneven.LocalPrivacy(20.0))], Problem(20_001, 1e-4, 50, clip=0.5)
    assert choose_width("auto", source, problem, 20_000, sparse=True) == 2048
    assert choose_width("auto", source, problem, 20_000, sparse=False) in (0, 4096, 8192, 16384)


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("UNEVEN_DATA"), reason="UNEVEN_DATA names no folder with MNIST")
def test_a_sketch_of_wide_digits_beats_all_their_columns():
    """784 columns at ε = 1: the noise in all of them leaves the majority class, and that of a sketch often does not.

    Half of the runs of a sketch end there too: the mean is above it by about two standard errors; one is asked for.
    """
    data = load_mnist(dimensions=None)

    def score(sketch, seed):
        fitted = uneven.UnevenClassifier(uneven.LocalPrivacy(1.0), sketch=sketch, random_state=seed)
        return fitted.fit(data.X, data.y).score(data.X_test, data.y_test)

    wide, sketched = score(None, 0), np.array([score("auto", seed) for seed in range(6)])
    assert wide < 0.8865 + 4 * 0.003  # the standard error of an accuracy of 0.9 on 10,000 rows is 0.003
    assert sketched.mean() > wide + sketched.std(ddof=1) / np.sqrt(6)
    assert sketched.min() > wide - 4 * 0.003


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sketch": 0}, "sketch must be a whole number of at least 1, got 0"),
        ({"sketch": "wide"}, "sketch must be None, 'auto' or a whole number of at least 1, got 'wide'"),
        ({"sketch": 301}, "sketch must be at most 300, the number of columns, got 301"),
        ({"sketch": 30, "noise": None}, "sketch must be None or 'auto' where no source's features are private, got 30"),
    ],
)
def test_bad_input(options, words):
    X, y = rows()
    with pytest.raises(ValueError, match=words):
        uneven.UnevenClassifier(**{"noise": PRIVATE, **options}).fit(X, y)


def write_sources(folder, before="", data='data = "rows.npz"'):
    source = f'[[source]]\nname = "rows"\n{data}\nnoise = {{ kind = "local-privacy", epsilon = 3.0 }}\n'
    (folder / "sources.toml").write_text(before + source)
    return read_sources(folder / "sources.toml")


def test_a_fit_says_what_a_sketch_would_bring(tmp_path):
    """At both doors and in the plan, with the figures that "auto" chooses by; nothing where it chooses no sketch."""
    X, y = rows()
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    width = uneven.UnevenClassifier(PRIVATE, sketch="auto", random_state=0).fit(X, y).scale_.sketch
    fitted = uneven.UnevenClassifier(PRIVATE, random_state=0).fit(X, y)
    plan = fitted.plan_
    plain, sketched = (expect_excess(plan.sources, replace(plan.problem, n_features=k + 1), 300) for k in (300, width))
    assert sketched < plain
    (advice,) = [note for note in fitted.notes_ if "sketch" in note]
    assert (
        f"cost {plain:.0%} of what there is to learn; sketch = 'auto' would project rows to {width} columns" in advice
    )
    assert advice.endswith(f"with {sketched:.0%}.")
    file = write_sources(tmp_path)
    assert advice in train_files(file, seed=0).trained.notes
    assert plan_ahead(file)[1].endswith(advice.rstrip("."))
    narrow = uneven.UnevenClassifier(PRIVATE, random_state=0).fit(X[:, :5], y)
    assert not [note for note in narrow.notes_ if "sketch" in note]


def test_a_sketch_is_shown_in_the_plan_and_in_the_notes(tmp_path):
    X, y = rows()
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    fitted = uneven.UnevenClassifier(PRIVATE, sketch="auto", random_state=0).fit(X, y)
    (said,) = [note for note in fitted.notes_ if f"projected to {fitted.scale_.sketch} columns" in note]
    file = write_sources(tmp_path, 'sketch = "auto"\n')
    plan, note = plan_ahead(file)
    assert plan.problem == fitted.plan_.problem
    assert note.endswith(said.rstrip("."))
    assert said in train_files(file, seed=0).trained.notes
    described, note = plan_ahead(write_sources(tmp_path, 'sketch = "auto"\nn_features = 300\n', "rows = 600"))
    assert 0 < described.problem.n_features < 300
    assert f"projected to {described.problem.n_features} columns" in note


def test_nothing_is_advised_beside_rows_without_privacy():
    """They are learned to convergence: what noise costs is not what the columns cost."""
    X, y = rows()
    source = np.where(np.arange(600) < 100, "public", "private")
    noise = {"public": uneven.Exact(), "private": PRIVATE}
    assert describe_sketch(Scale(1.0, 0.25), Settings(), [Source("private", 500, PRIVATE)], 300)
    fitted = uneven.UnevenClassifier(noise, random_state=0).fit(X, y, source=source)
    assert not [note for note in fitted.notes_ if "sketch" in note]


def test_private_text_with_20000_columns_fits_in_bounded_memory(tmp_path):
    """Sparse rows of TF-IDF text in pieces, at ε = 3: never as dense rows, which would take 240 MB."""
    rng = np.random.default_rng(0)
    words = sparse.csr_array((np.ones(60_000), rng.integers(20_000, size=60_000), np.arange(0, 60_001, 20)))
    words.sum_duplicates()
    X = TfidfTransformer().fit_transform(words)
    y = (X @ rng.normal(size=X.shape[1]) > 0).astype(int)
    dump_svmlight_file(X, y, str(tmp_path / "text.svm"))
    file = write_sources(tmp_path, 'sketch = "auto"\n', 'data = "text.svm"')
    train_files(file, seed=0, held_bytes=0)  # compiles
    tracemalloc.start()
    try:
        trained = train_files(file, seed=0, held_bytes=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert trained.model.coef.shape == (1, 20_000)
    assert 0 < trained.scale.sketch < 300
    assert peak < 30e6
