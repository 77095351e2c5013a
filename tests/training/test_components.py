"""A sketch beside public rows: their principal components, the width by expected loss, folded back into the weights."""

import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from tests.training.test_doors import check_same, write_files

import uneven
from uneven.anchor.rows import PublicRows
from uneven.anchor.uncertainty import fit_anchor
from uneven.datasets import load_mnist
from uneven.training import anchoring, components
from uneven.training.ahead import plan_ahead
from uneven.training.components import find_components
from uneven.training.files import train_files
from uneven.training.scaling import Scale

NOISE = {"private": uneven.LocalPrivacy(3.0), "public": uneven.Exact()}
STATED = {"row_norm": 1.0, "classes": [0, 1], "alpha": 1e-3, "random_state": 0}


def draw_rows(n=900, d=60, held=5, seed=0, public=200):
    """Rows of which all but little lies in `held` directions, those that the classes depend on."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(np.random.default_rng(9).normal(size=(d, held)))[0]
    X = rng.normal(size=(n, held)) @ basis.T + 0.02 * rng.normal(size=(n, d))
    X /= 1.01 * np.linalg.norm(X, axis=1).max()
    y = np.where(X @ basis @ np.linspace(1, 2, held) + 0.05 * rng.normal(size=n) > 0, 1, 0)
    return X, y, np.where(np.arange(n) < n - public, "private", "public")


@pytest.mark.parametrize(("n", "d"), [(40, 90), (90, 40)])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_components_are_the_leading_singular_vectors(n, d, form):
    """Up to sign; the intercept's column is not among them, and directions without rows are none."""
    X = np.random.default_rng(0).normal(size=(n, 6)) @ np.random.default_rng(1).normal(size=(6, d))
    rows = form(np.column_stack([X, np.full(n, 0.3)]))
    parts = [PublicRows.from_arrays(rows[i::2], np.ones(len(X[i::2]))) for i in (0, 1)]
    found = find_components(parts, d, 10)
    expected = np.linalg.svd(X, full_matrices=False)[2][:6].T
    np.testing.assert_allclose(np.abs((found * expected).sum(axis=0)), 1.0, atol=1e-6)
    np.testing.assert_allclose(found.T @ found, np.eye(6), atol=1e-6)
    np.testing.assert_allclose(np.abs(find_components(parts, d, 2)), np.abs(found[:, :2]), atol=1e-6)


def test_only_public_rows_are_looked_at():
    """Other private rows: the same projection to the bit, at a stated width and at one that is chosen."""
    X, y, source = draw_rows()
    other = np.where((source == "private")[:, None], np.roll(X, 7, axis=1) / 2, X)
    for sketch in (8, "auto"):
        fits = [uneven.UnevenClassifier(NOISE, sketch=sketch, **STATED).fit(Z, y, source=source) for Z in (X, other)]
        assert fits[0].scale_ == fits[1].scale_
        assert fits[0].scale_.basis
        assert fits[0].notes_[0] == fits[1].notes_[0]


def test_weights_are_folded_back_and_no_row_is_longer():
    X, y, source = draw_rows()
    clf = uneven.UnevenClassifier(NOISE, sketch=8, **STATED).fit(X, y, source=source)
    V = clf.scale_.projection
    np.testing.assert_allclose(V.T @ V, np.eye(8), atol=1e-5)
    np.testing.assert_allclose(V @ (V.T @ clf.coef_[0]), clf.coef_[0], atol=1e-4 * np.abs(clf.coef_).max())
    assert (np.linalg.norm(X @ V, axis=1) <= np.linalg.norm(X, axis=1) * (1 + 1e-6)).all()
    assert clf.plan_.problem.n_features == 9
    w = np.random.default_rng(1).normal(size=9)
    coef, intercept = clf.scale_.coefficients(w)
    np.testing.assert_allclose(X @ coef + intercept, clf.scale_.rows(X) @ w, atol=1e-5)
    said = "Rows are projected to 8 columns, the leading principal components of the rows without privacy."
    assert said in clf.notes_


def test_the_width_is_that_of_the_least_expected_loss(monkeypatch):
    """Of those tried; with classes that lie in few directions it is the narrowest, and all columns are not worse."""
    tried, real = {}, components.expect_losses

    def note(job, target):
        losses = real(job, target)
        tried[job.scale.sketch] = losses.mean()
        return losses

    monkeypatch.setattr(components, "expect_losses", note)
    X, y, source = draw_rows(d=150)
    clf = uneven.UnevenClassifier(NOISE, sketch="auto", **STATED).fit(X, y, source=source)
    assert list(tried) == [16, 32, 64, 0]
    assert clf.scale_.sketch == min(tried, key=tried.get) == 16
    assert f"the expected loss is {tried[16]:.3g}, and {tried[0]:.3g} with all columns" in clf.notes_[0]


def test_all_columns_are_kept_where_the_last_ones_matter():
    """The classes depend on the shortest directions: a projection would lose them, and is not made."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_500, 40)) * np.where(np.arange(40) < 20, 1.0, 0.3) / 12.0
    y, source = np.where(X[:, 20:].sum(axis=1) > 0, 1, 0), np.repeat(["private", "public"], [500, 1_000])
    clf = uneven.UnevenClassifier(NOISE, sketch="auto", **STATED).fit(X, y, source=source)
    assert clf.scale_ == replace(clf.scale_, sketch=0, columns=0, basis=b"")
    assert clf.notes_[0].startswith("Rows are not projected, since no less loss can be expected")


def test_the_leave_one_out_loss_is_that_of_other_rows():
    """Within 4 standard errors of a row's loss."""
    X, y, _ = draw_rows(4_000, d=10)
    signs = 2.0 * y - 1
    anchor = fit_anchor(X[:400], signs[:400], 1e-3)
    losses = np.logaddexp(0.0, -signs[400:] * (X[400:] @ anchor.weights))
    assert abs(anchor.losses.mean() - losses.mean()) < 4 * losses.std() / np.sqrt(400)


@pytest.mark.parametrize("epsilon", [1e-3, 8.0])
def test_the_expected_loss_counts_what_private_rows_bring(monkeypatch, epsilon):
    """It is the leave-one-out loss where they bring nothing, and lower where they bring something."""
    found, real = [], components.expect_losses

    def note(job, target):
        losses = real(job, target)
        found.append((losses.mean(), anchoring.prepare_anchor(job, target).anchor.losses.mean()))
        return losses

    monkeypatch.setattr(components, "expect_losses", note)
    X, y, source = draw_rows(4_000, public=100)
    noise = {**NOISE, "private": uneven.LocalPrivacy(epsilon)}
    uneven.UnevenClassifier(noise, sketch="auto", **STATED).fit(X, y, source=source)
    for with_private, alone in found:
        assert with_private == pytest.approx(alone) if epsilon < 1 else with_private < alone - 1e-3


def test_few_public_rows_have_too_few_components():
    X, y, source = draw_rows(public=10)
    clf = uneven.UnevenClassifier(NOISE, sketch=12, **STATED).fit(X, y, source=source)
    assert clf.scale_.sketch == 12
    assert not clf.scale_.basis
    alone = uneven.UnevenClassifier(NOISE["private"], sketch=12, **STATED).fit(X, y)
    assert not alone.scale_.basis


@pytest.mark.parametrize("sketch", [8, "auto"])
def test_both_doors_the_plan_and_the_model_file(tmp_path, sketch):
    X, y, source = draw_rows()
    settings = {key: value for key, value in STATED.items() if key != "random_state"} | {"sketch": sketch}
    clf = uneven.UnevenClassifier(NOISE, random_state=0, **settings).fit(X, y, source=source)
    file = write_files(tmp_path, X, y, source, NOISE, settings)
    file = replace(file, settings=replace(file.settings, sketch=sketch))
    trained = train_files(file, seed=0)
    check_same(trained, clf)
    plan, note = plan_ahead(file)
    assert plan.problem == clf.plan_.problem
    assert note.endswith(clf.notes_[0].rstrip("."))
    clf.save(tmp_path / "model.json")
    again = uneven.UnevenClassifier.load(tmp_path / "model.json")
    assert again.scale_ == clf.scale_
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))


@pytest.mark.parametrize(
    ("basis", "words"),
    [
        ("AAAA", r"basis of scale must have 480 finite numbers, columns times sketch; got others"),
        ("no text", r"basis of scale must be text in base64, got 'no text'"),
        (7, r"basis of scale must be text in base64, got 7"),
    ],
)
def test_a_model_file_with_another_basis_is_refused(tmp_path, basis, words):
    X, y, source = draw_rows()
    path = tmp_path / "model.json"
    uneven.UnevenClassifier(NOISE, sketch=8, **STATED).fit(X, y, source=source).save(path)
    import json

    values = json.loads(path.read_text())
    values["scale"]["basis"] = basis
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match=words):
        uneven.UnevenClassifier.load(path)


def test_sparse_rows_and_partial_fit():
    X, y, source = draw_rows()
    dense, thin = (
        uneven.UnevenClassifier(NOISE, sketch=8, **STATED).fit(form(X), y, source=source)
        for form in (np.asarray, sparse.csr_array)
    )
    np.testing.assert_allclose(dense.coef_, thin.coef_, rtol=1e-3, atol=1e-3 * np.abs(dense.coef_).max())
    before = dense.scale_
    more, labels, _ = draw_rows(seed=1)
    dense.partial_fit(more, labels, source=np.repeat("private", 900), row_id=np.arange(5_000, 5_900))
    assert dense.scale_ == before


def test_several_classes_beside_public_rows():
    """784 columns times 3 classes cannot be anchored, and their components can."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 6)) @ np.random.default_rng(1).normal(size=(6, 784)) / 300.0
    y = np.argmax(X[:, :3], axis=1)
    source = np.repeat(["private", "public"], [600, 300])
    stated = {**STATED, "classes": [0, 1, 2]}
    clf = uneven.UnevenClassifier(NOISE, sketch="auto", **stated).fit(X, y, source=source)
    assert clf.scale_.basis == b""  # rank 6 is below the narrowest width: a random projection
    clf = uneven.UnevenClassifier(NOISE, sketch=6, **stated).fit(X, y, source=source)
    assert clf.scale_.basis
    assert clf.score(X, y) > 0.9
    with pytest.raises(ValueError, match="sketch must bring columns times classes to at most 1,000"):
        uneven.UnevenClassifier(NOISE, **stated).fit(X, y, source=source)


def test_a_stated_width_beyond_the_public_rows_is_random_and_said_to_be():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 60)) / 10
    y, source = (X[:, 0] > 0).astype(int), np.where(np.arange(300) < 20, "public", "private")
    noise = {"public": uneven.Exact(), "private": uneven.LocalPrivacy(5.0)}
    clf = uneven.UnevenClassifier(noise, sketch=40, row_norm=2.0, random_state=0).fit(X, y, source=source)
    (said,) = [note for note in clf.notes_ if "projected" in note]
    assert said.startswith("Rows are projected to 40 columns by a public random matrix: rows without privacy have no")
    assert "20 principal components" in said


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("UNEVEN_DATA"), reason="UNEVEN_DATA names no folder with MNIST")
def test_auto_is_not_below_no_sketch_on_wide_digits():
    """784 columns, 1,000 public rows and 20,000 at ε = 1: accuracy within two standard errors of the difference."""
    data, gains = load_mnist(dimensions=None), []
    source = np.repeat(["public", "private"], [1_000, 20_000])
    noise = {"public": uneven.Exact(), "private": uneven.LocalPrivacy(1.0)}
    for seed in range(4):
        chosen = np.random.default_rng(seed).permutation(len(data.X))[:21_000]
        scores = [
            uneven.UnevenClassifier(noise, sketch=sketch, random_state=seed)
            .fit(data.X[chosen], data.y[chosen], source=source)
            .score(data.X_test, data.y_test)
            for sketch in (None, "auto")
        ]
        gains.append(scores[1] - scores[0])
    assert np.mean(gains) > -2 * np.hypot(np.std(gains, ddof=1) / 2, 1e-3)  # 1e-3: of an accuracy of .99 on 10,000


def test_a_scale_without_components_is_as_it_was():
    assert Scale(1.0, columns=300, sketch=40).projection.shape == (300, 40)
    assert "basis" not in repr(Scale(1.0, basis=b"1234"))


def test_of_alike_widths_the_widest_is_taken():
    """Row by row: the third differs from the best by less than two standard errors, the first and the last by more."""
    rng = np.random.default_rng(0)
    best, noise = rng.normal(size=400), 0.1 * rng.normal(size=400)
    losses = np.array([best + 0.5, best, best + 0.001 + noise - noise.mean(), best + 0.2])
    assert components.choose_widest(losses) == 2
    assert components.choose_widest(losses[:2]) == 1
    assert components.choose_widest(losses[::-1]) == 2  # the best is last but one, and nothing after it is alike


def test_a_looked_at_sample_errs_more_than_all_public_rows(monkeypatch):
    """Losses of 2 of 4 rows hold what 2 rows err by, twice the expected excess of 4: that is taken from them."""
    anchor = SimpleNamespace(X=np.zeros((2, 3)), losses=np.array([1.0, 2.0]))
    prepared = SimpleNamespace(anchor=anchor, converged=("open",))
    monkeypatch.setattr(components.anchoring, "prepare_anchor", lambda *_: prepared)
    monkeypatch.setattr(components.anchoring, "expect", lambda *_: (0.25, 0.1, None, None))
    job = SimpleNamespace(groups=SimpleNamespace(row_counts={"open": 4, "closed": 900}))
    np.testing.assert_allclose(components.expect_losses(job, None), [1.0 - 0.5 + 0.1, 2.0 - 0.5 + 0.1])
