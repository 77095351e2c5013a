"""Rows of any scale: what they are divided by, and what one long row may not do."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from samples import blobs, objective, uneven_labels
from uneven import Exact, FlippedLabels, LocalPrivacy, UnevenClassifier
from uneven.engine import scale_rows
from uneven.settings import Settings
from uneven.training import load_model
from uneven.training.grouping import group_rows
from uneven.training.norms import choose_scale, find_largest_eigenvalue, measure_steepness
from uneven.training.rows import ArrayRows, Piece
from uneven.training.scaling import BOUNDS, Scale, choose_bound, shorten_rows, sort_norms
from uneven.training.scan import scan_rows


def scale_of(X, noise=None, source=None, private=False, **settings):
    """Scale that a fit would choose for these rows."""
    scan = scan_rows(ArrayRows(Piece(X, np.arange(len(X)) % 2, source)))
    groups = group_rows(len(X), noise, source)
    return choose_scale(scan, groups, Settings(**settings), private)


def test_without_privacy_rows_have_a_mean_square_of_1():
    """The largest of the sources', the constant feature included; a hair less for float32."""
    X, _, _, source = uneven_labels()
    X = X * np.where(source == "expert", 7.0, 1.0)[:, None]
    scale = scale_of(X, {"expert": Exact(), "crowd": FlippedLabels(0.1)}, source)
    unit = scale.rows(X)
    squares = (unit.astype(float) ** 2).sum(axis=1)
    assert squares[source == "expert"].mean() == pytest.approx(1.0, rel=1e-5)
    assert squares[source == "crowd"].mean() < 0.3
    assert scale.norms == "rms"
    assert scale.constant == scale.row_norm / 2


def test_one_long_row_does_not_ruin_the_fit():
    """A row fifty times as long as the others: within 1% of logistic regression's objective, and not shrunk."""
    X, y = blobs(20_000)
    X[0] *= 100 / np.linalg.norm(X[0])
    y[0] = int(X[0] @ [1, 2, 3, 4] > 0)
    ours = UnevenClassifier(random_state=0, passes=1).fit(X, y)
    theirs = LogisticRegression(C=1 / (1e-3 * len(y)), tol=1e-8, max_iter=1_000).fit(X, y)
    assert objective(ours, X, y, 1e-3) < 1.01 * objective(theirs, X, y, 1e-3)
    bounded = UnevenClassifier(random_state=0, passes=1, row_norm=100.0).fit(X, y)
    assert objective(bounded, X, y, 1e-3) > 1.1 * objective(theirs, X, y, 1e-3)  # what the largest norm would do


def test_a_stated_norm_is_a_bound():
    X, y = blobs()
    with pytest.warns(UserWarning, match="are longer than row_norm = 1 and were shrunk to it"):
        shrunk = UnevenClassifier(random_state=0, row_norm=1.0).fit(X, y)
    assert (shrunk.scale_.norms, shrunk.scale_.eigenvalue) == ("largest", 1.0)
    short = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
    np.testing.assert_allclose(
        UnevenClassifier(random_state=0, row_norm=1.0).fit(short, y).coef_, shrunk.coef_, rtol=1e-5
    )


@pytest.mark.parametrize(("private", "constant"), [(False, 0.5), (True, 0.25)])
@pytest.mark.parametrize("norm", [1.0, 6.0])
def test_the_intercept_is_in_proportion_to_the_norm(private, constant, norm):
    X, _ = blobs(100)
    scale = scale_of(X, private=private, row_norm=norm)
    assert (scale.row_norm, scale.constant) == (norm, constant * norm)
    longest = np.eye(1, 4) * norm
    assert 1 - 1e-5 < np.linalg.norm(scale.rows(longest)) <= 1  # inside the unit ball, constant and all
    assert scale_of(X, private=private, row_norm=norm, fit_intercept=False).constant == 0.0


@pytest.mark.parametrize("d", [3, 300])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_largest_eigenvalue(d, form):
    """Against singular values, by the matrix itself and by iterations (to the tolerance of those)."""
    X = np.random.default_rng(0).normal(size=(500, d)) * np.linspace(1, 3, d)
    truth = np.linalg.svd(X, compute_uv=False)[0] ** 2 / 500
    assert find_largest_eigenvalue(form(X)) == pytest.approx(truth, rel=1e-3)


def test_steepness_counts_what_few_rows_add():
    """λ_max + E‖x‖⁴/(b·E‖x‖²), never more than 1."""
    X = np.array([[1.0, 0.0], [0.0, 0.5], [0.5, 0.0], [0.0, 0.25]])
    square, fourth = (1 + 0.25 + 0.25 + 0.0625) / 4, (1 + 0.0625 + 0.0625 + 0.0625**2) / 4
    assert measure_steepness(X, 10) == pytest.approx(1.25 / 4 + fourth / square / 10)
    assert measure_steepness(X, 1) == 1.0
    assert measure_steepness(np.zeros((5, 2)), 1) > 0


def test_clipping_is_for_private_rows_and_the_precision_clock():
    X, y = blobs(400)
    private = {"noise": LocalPrivacy(5.0), "row_norm": 5.0}
    for options, clip in [
        (private, 0.5),
        ({}, None),
        ({**private, "strategy": "averaged"}, None),
        ({**private, "clip": None}, None),
        ({**private, "clip": 0.3}, 0.3),
        ({"clip": 0.3}, 0.3),
    ]:
        assert UnevenClassifier(random_state=0, **options).fit(X, y).plan_.problem.clip == clip


@pytest.mark.parametrize("d", [3, 300])
def test_rows_of_nothing_but_zeros(d):
    clf = UnevenClassifier(fit_intercept=False, random_state=0)
    clf.partial_fit(sparse.csr_matrix((1, d)), [0], classes=[0, 1])
    assert not clf.coef_.any()
    assert clf.scale_.eigenvalue == 1e-9


@pytest.mark.parametrize(
    ("column", "norm"),
    [(1.7e9, r"1.7e\+09, .* for alpha = 0.001"), (1e14, r"1e\+14"), (1e200, "inf"), (1e-13, "1e-13")],
)
def test_rows_of_extreme_scale_are_told_what_they_are(column, norm):
    """A column of Unix timestamps, say."""
    y = np.arange(100) % 2
    X = np.full((100, 1), column) * (1 + 1e-9 * y[:, None])
    with pytest.raises(ValueError, match=rf"^X has rows with a root-mean-square norm of {norm}.*with StandardScaler$"):
        UnevenClassifier().fit(X, y)


def test_a_stated_norm_that_is_too_large_for_alpha():
    X, y = blobs(100)
    with pytest.raises(ValueError, match=r"^X has rows with a row_norm of 1e\+11, .* for alpha = 0.001; scale"):
        UnevenClassifier(row_norm=1e11, alpha=0.001).fit(X, y)


def test_rows_are_shrunk_to_predict_as_they_were_to_learn(tmp_path):
    """A row twice as long as the bound is told what the row at the bound is told, by every way to predict."""
    X, y = blobs()
    X *= 5 / np.linalg.norm(X, axis=1, keepdims=True)
    with pytest.warns(UserWarning, match="were shrunk"):
        clf = UnevenClassifier(row_norm=2.0, random_state=0, alpha=1e-3).fit(X, y)
    at_the_bound = X * (2.0 / 5.0)
    np.testing.assert_allclose(clf.decision_function(X), clf.decision_function(at_the_bound), rtol=1e-9)
    clf.save(tmp_path / "model.json")
    model = load_model(tmp_path / "model.json")
    np.testing.assert_allclose(model.predict_proba(X), clf.predict_proba(at_the_bound), rtol=1e-9)
    np.testing.assert_allclose(clf.predict_proba(sparse.csr_array(X)), clf.predict_proba(X), rtol=1e-9)
    free = UnevenClassifier(random_state=0, alpha=1e-3).fit(X, y)
    assert np.abs(free.decision_function(2 * X)).mean() > 1.5 * np.abs(free.decision_function(X)).mean()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("constant", [0.0, 0.3])
@pytest.mark.parametrize("bound", [1.7, None])
def test_rows_scaled_by_the_compiled_loop_are_those_scaled_by_numpy(kind, constant, bound):
    """To the bit where none is shrunk; else to within the rounding of float32, since NumPy then works in float64."""
    rng = np.random.default_rng(0)
    X, places = rng.normal(size=(200, 5)).astype(kind), rng.permutation(200)[:60]
    scale = Scale(1.7, constant)
    expected = scale.rows(shorten_rows(X[places], bound))
    found = scale_rows(X, places, scale.factor, constant, np.inf if bound is None else bound)
    assert found.dtype == expected.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0 if bound is None else 2e-7)
    assert (np.linalg.norm(X[places], axis=1) > 1.7).any()


BOTH = {"open": Exact(), "hidden": LocalPrivacy(1.0)}


def mixed_rows(seed=0, public=300):
    """Rows of norms around 5 without privacy, and private ones."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * public, 25)) * rng.uniform(0.5, 1.5, size=(2 * public, 1))
    return X, np.repeat(["open", "hidden"], public)


def test_the_bound_is_the_least_round_one_that_99_in_100_public_rows_keep():
    X, source = mixed_rows()
    bound = scale_of(X, BOTH, source, private=True).row_norm
    norms = np.linalg.norm(X[source == "open"], axis=1)
    assert bound in BOUNDS
    assert np.mean(norms <= bound) >= 0.99 > np.mean(norms <= BOUNDS[BOUNDS.index(bound) - 1])
    whole = scale_of(X, BOTH, source, private=True, long_rows="refuse").row_norm
    assert whole >= norms.max() > BOUNDS[BOUNDS.index(whole) - 1]
    assert scale_of(X / 100, BOTH, source, private=True).row_norm == 1.0  # rows in the unit ball stay as they are
    assert scale_of(X, BOTH, source, private=True, row_norm=3.0).row_norm == 3.0


def test_private_rows_have_no_part_in_the_bound():
    X, source = mixed_rows()
    found = scale_of(X, BOTH, source, private=True)
    for factor in (0.0, 1e-3, 1e6):
        changed = np.where((source == "hidden")[:, None], factor * X, X)
        assert scale_of(changed, BOTH, source, private=True) == found
    hidden = X[source == "hidden"]
    assert scale_of(hidden, LocalPrivacy(1.0), private=True).row_norm == 1.0


def test_sorted_norms_count_what_each_bound_shrinks():
    squares = np.random.default_rng(0).lognormal(sigma=3.0, size=1_000) ** 2
    found = sort_norms(squares, BOUNDS)
    kept = squares[:, None] <= (np.array(BOUNDS) * (1 + 1e-6)) ** 2
    np.testing.assert_array_equal(np.cumsum(found)[:-1], kept.sum(axis=0))
    assert found.sum() == len(squares)
    assert choose_bound(found, 1.0) == BOUNDS[int(np.argmax(kept.all(axis=0)))]


def test_standardised_rows_are_no_worse_than_logistic_regression_on_the_public_ones():
    """Rows of norm 3, every setting at its default: shrunk to norm 1 they ended behind by more than 0.005."""
    worse = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, w = rng.normal(size=(27_000, 10)), rng.normal(size=10)
        y = (X @ w + rng.logistic(size=len(X)) > 0).astype(int)
        source = np.where(np.arange(22_000) < 2_000, "open", "hidden")
        with pytest.warns(UserWarning, match="shrunk to it"):
            ours = UnevenClassifier(BOTH, random_state=seed).fit(X[:22_000], y[:22_000], source=source)
        theirs = LogisticRegression(C=1.0).fit(X[:2_000], y[:2_000])
        losses = [-np.log(clf.predict_proba(X[22_000:])[np.arange(5_000), y[22_000:]]).mean() for clf in (ours, theirs)]
        worse.append(losses[0] - losses[1])
    assert np.mean(worse) < 2 * np.std(worse, ddof=1) / 2 + 1e-3


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("norm", [1e-9, 1e9])
@pytest.mark.parametrize("public", [0, 50])
def test_a_norm_that_no_default_alpha_fits_is_refused_by_its_name(norm, public):
    rng = np.random.default_rng(0)
    X, source = rng.normal(size=(300, 3)), np.where(np.arange(300) < public, "public", "private")
    noise = {"public": Exact(), "private": LocalPrivacy(1.0)}
    clf = UnevenClassifier({name: noise[name] for name in np.unique(source)}, row_norm=norm, random_state=0)
    with pytest.raises(ValueError, match=r"row_norm must be between 3e-05 and 3e\+07 where alpha is chosen, got 1e"):
        clf.fit(X, (X[:, 0] > 0).astype(int), source=source)
