"""More than two classes: multinomial logistic regression without privacy, one private release of all with it."""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from tests.training.test_doors import check_same, write_files

import uneven
from uneven import AdditiveNoise, Exact, FlippedLabels, LabelPrivacy, LocalPrivacy, SitePrivacy, UnevenClassifier
from uneven.training import convergence
from uneven.training.files import train_files

NAMES = np.array(["a", "b", "c", "d"])
CONFUSION = ((0.7, 0.1, 0.1, 0.1), (0.2, 0.8, 0.0, 0.0), (0.0, 0.1, 0.9, 0.0), (0.1, 0.2, 0.1, 0.6))
SIMULATED = pytest.mark.filterwarnings("ignore::uneven.SimulationWarning", "ignore:.*were shrunk")


def draw_rows(n=1500, d=3, seed=0):
    """Rows whose classes follow a softmax model, so that no noise means no bias."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [1.0, 2.0, 0.5][:d]
    scores = X @ np.random.default_rng(9).normal(size=(d, 4)) + [0.5, 0.0, -0.5, 0.0]
    return X, NAMES[(scores + rng.gumbel(size=scores.shape)).argmax(axis=1)]


def test_noise_that_all_classes_share_is_taken_away():
    """Weights sum to 0 over the classes, as the gradient does; probabilities are those of the steps as they ended."""
    X, y = draw_rows()
    clf = UnevenClassifier(LocalPrivacy(2.0), classes=NAMES, row_norm=12.0, strategy="precision", random_state=0)
    clf.fit(X, y)
    np.testing.assert_allclose(clf.coef_.sum(axis=0), 0.0, atol=1e-12)
    assert abs(clf.intercept_.sum()) < 1e-12
    (state,) = clf._progress.states
    raw = state.answer.reshape(4, -1)
    assert np.abs(raw.mean(axis=0)).max() > 0.01  # the noise that is taken away
    coef, intercept = (np.array(part) for part in zip(*map(clf.scale_.coefficients, raw), strict=True))
    scores = X @ coef.T + intercept
    expected = np.exp(scores - np.logaddexp.reduce(scores, axis=1)[:, None])
    np.testing.assert_allclose(clf.predict_proba(X), expected, atol=1e-10)
    assert (clf.coef_**2).sum() == pytest.approx((coef**2).sum() - 4 * (coef.mean(axis=0) ** 2).sum())


def measure_objective(clf, X, y, alpha):
    """scikit-learn's: the mean loss and the L2 term, the intercept free."""
    scores = X @ clf.coef_.T + clf.intercept_
    losses = np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(y)), np.searchsorted(clf.classes_, y)]
    return losses.mean() + alpha / 2 * (clf.coef_**2).sum()


@pytest.mark.parametrize("alpha", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_it_is_multinomial_logistic_regression(alpha, form):
    """The same optimum as scikit-learn's: objective to 1e-6 of itself, as `solve` promises, and probabilities."""
    X, y = draw_rows()
    ours = UnevenClassifier(alpha=alpha).fit(form(X), y)
    theirs = LogisticRegression(C=1 / (alpha * len(y)), tol=1e-9, max_iter=10_000).fit(X, y)
    best = measure_objective(theirs, X, y, alpha)
    assert abs(measure_objective(ours, X, y, alpha) / best - 1) < 1e-6
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=3e-3)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=0.01)
    np.testing.assert_allclose(ours.coef_.sum(axis=0), 0.0, atol=1e-9)


def test_alpha_is_chosen_by_cross_validation_over_all_classes():
    X, y = draw_rows(600)
    chosen = UnevenClassifier().fit(X, y)
    shuffled = UnevenClassifier().fit(X, np.random.default_rng(0).permutation(y))
    assert shuffled.alpha_ > 10 * chosen.alpha_


@pytest.mark.parametrize("class_weight", [None, {"b": 2.0}])
def test_folds_learned_together_are_those_learned_alone(monkeypatch, class_weight):
    X, y = draw_rows(400)
    noise, source = {"a": Exact(), "b": FlippedLabels(0.1)}, np.repeat(["a", "b"], 200)
    together = UnevenClassifier(noise, class_weight=class_weight).fit(X, y, source=source)
    monkeypatch.setattr("uneven.anchor.folds.FoldRows.of", lambda *_: None)
    alone = UnevenClassifier(noise, class_weight=class_weight).fit(X, y, source=source)
    assert together.alpha_ == pytest.approx(alone.alpha_, rel=1e-9)


def test_wide_rows_choose_alpha_in_their_own_span():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 300)), NAMES[rng.integers(0, 3, 60)]
    assert np.isfinite(UnevenClassifier().fit(X, y).coef_).all()


@pytest.mark.parametrize("noise", [FlippedLabels(0.3), FlippedLabels(CONFUSION), LabelPrivacy(1.5)])
@SIMULATED
def test_unreliable_labels_are_corrected(noise):
    """Near the probabilities learned from true labels, and nearer than with the labels taken as they are."""
    X, y = draw_rows(20_000)
    seen = y
    if isinstance(noise, FlippedLabels):
        numbers = noise.corrupt_classes(np.searchsorted(NAMES, y), 4, np.random.default_rng(1))
        seen = NAMES[numbers]
    true, ours = (
        UnevenClassifier(alpha=1e-4).fit(X, y),
        UnevenClassifier(noise, alpha=1e-4, classes=NAMES, random_state=0).fit(X, seen),
    )
    off = np.abs(ours.predict_proba(X) - true.predict_proba(X)).mean()
    assert off < 0.04
    if isinstance(noise, FlippedLabels):
        naive = UnevenClassifier(alpha=1e-4).fit(X, seen)
        assert off < 0.3 * np.abs(naive.predict_proba(X) - true.predict_proba(X)).mean()
    else:
        assert ours.privacy_spent_ == {"data": np.inf}
        assert "FEATURES ARE NOT" in " ".join(ours.plan_.caveats)


NOISES = [LocalPrivacy(8.0), LocalPrivacy(8.0, "privunit"), LocalPrivacy(20.0, "l2-laplace"), SitePrivacy(2.0)]


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@SIMULATED
def test_private_rows_of_many_classes_are_learned_from(noise):
    X, y = draw_rows(20_000)
    clf = UnevenClassifier(noise, classes=NAMES, row_norm=5.0, random_state=0).fit(X, y)
    assert clf.coef_.shape == (4, 3)
    best = UnevenClassifier(alpha=1e-3).fit(X, y).score(X, y)
    assert clf.score(X, y) > best - 0.06
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1.0)
    scores = clf.decision_function(X)
    np.testing.assert_allclose(clf.predict_proba(X)[:, 0], 1.0 / np.exp(scores - scores[:, :1]).sum(axis=1))
    assert clf.plan_.problem.n_features == 4 * 4  # the intercept's feature is one of four
    assert np.isinf(clf.plan_.bound)


def test_every_private_row_is_charged_once():
    X, y = draw_rows(300)
    ledger = uneven.Ledger()
    clf = UnevenClassifier({"a": LocalPrivacy(2.0)}, classes=NAMES, ledger=ledger, row_norm=9.0).fit(X, y)
    assert clf.privacy_spent_ == {"a": 2.0}
    assert set(ledger.spent("a").values()) == {2.0}
    assert len(ledger.spent("a")) == 300


ANCHORS = {
    "exact": Exact(),
    "flipped": FlippedLabels(0.1),
    "confused": FlippedLabels(CONFUSION),
    "additive": AdditiveNoise(1.0),
}


@pytest.mark.parametrize("kind", ANCHORS)
@SIMULATED
def test_public_rows_anchor_private_ones(kind):
    """Both together are no worse than the public rows alone, and better where those are few."""
    X, y = draw_rows(12_000)
    source = np.where(np.arange(len(y)) < 150, "open", "hidden")
    noise = {"open": ANCHORS[kind], "hidden": LocalPrivacy(6.0)}
    test, truth = draw_rows(4_000, seed=5)
    both = UnevenClassifier(noise, classes=NAMES, row_norm=6.0, random_state=0).fit(X, y, source=source)
    alone = UnevenClassifier({"open": ANCHORS[kind]}, row_norm=6.0).fit(X[:150], y[:150])
    assert both.plan_.order == ["open", "hidden"]
    assert both.plan_.verdicts["hidden"].word != "no"
    losses = [
        -np.log(c.predict_proba(test)[np.arange(4_000), np.searchsorted(NAMES, truth)]).mean() for c in (both, alone)
    ]
    assert losses[0] < losses[1]


@SIMULATED
def test_a_private_source_that_would_not_help_is_left_out_uncharged():
    X, y = draw_rows(4_000)
    source, ledger = np.where(np.arange(len(y)) < 3_500, "open", "hidden"), uneven.Ledger()
    noise = {"open": Exact(), "hidden": LocalPrivacy(0.1)}
    clf = UnevenClassifier(noise, classes=NAMES, row_norm=6.0, ledger=ledger).fit(X, y, source=source)
    assert clf.plan_.order == ["open"]
    assert clf.plan_.verdicts["hidden"].word == "no"
    assert not ledger.spent("hidden")


@SIMULATED
def test_a_shifted_private_source_is_noticed():
    """Private labels of other classes: the anchor is told that they disagree."""
    X, y = draw_rows(12_000)
    y = np.where(np.arange(len(y)) < 1_000, y, NAMES[(np.searchsorted(NAMES, y) + 1) % 4])
    noise = {"open": Exact(), "hidden": LocalPrivacy(10.0)}
    source = np.where(np.arange(len(y)) < 1_000, "open", "hidden")
    clf = UnevenClassifier(noise, classes=NAMES, row_norm=6.0, random_state=0).fit(X, y, source=source)
    assert "disagrees" in clf.notes_[0]


@SIMULATED
def test_one_vs_rest_stays_an_option():
    X, y = draw_rows()
    together, apart = (UnevenClassifier(alpha=1e-3, multi_class=how).fit(X, y) for how in ("softmax", "one-vs-rest"))
    first = UnevenClassifier(alpha=1e-3).fit(X, y == "a")
    np.testing.assert_allclose(apart.coef_[0], first.coef_[0], rtol=1e-6)
    assert not np.allclose(together.coef_, apart.coef_, rtol=0.05)
    assert abs(together.score(X, y) - apart.score(X, y)) < 0.05
    two = [UnevenClassifier(alpha=1e-3, multi_class=how).fit(X, y == "a").coef_ for how in ("softmax", "one-vs-rest")]
    np.testing.assert_array_equal(*two)


@SIMULATED
@pytest.mark.parametrize("seed", range(4))
def test_a_model_of_public_and_private_rows_is_read_back(seed, tmp_path):
    """All classes share a direction that nothing is known of: its variance is 0, and not less by rounding."""
    X, y = draw_rows(seed=seed)
    source = np.where(np.arange(len(y)) < 150, "open", "hidden")
    noise = {"open": Exact(), "hidden": LocalPrivacy(3.0)}
    clf = UnevenClassifier(noise, classes=NAMES, row_norm=6.0, random_state=0).fit(X, y, source=source)
    clf.save(tmp_path / "model.json")
    again = UnevenClassifier.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    values = json.loads((tmp_path / "model.json").read_text())
    assert min(values["plan"]["anchored"]["clock"]["variance"]) >= 0.0


@pytest.mark.parametrize("how", ["softmax", "one-vs-rest"])
def test_a_model_file_keeps_how_classes_were_learned(how, tmp_path):
    X, y = draw_rows(300)
    clf = UnevenClassifier({"data": FlippedLabels(CONFUSION if how == "softmax" else 0.1)}, multi_class=how).fit(X, y)
    clf.save(tmp_path / "model.json")
    again = UnevenClassifier.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert again.multi_class == how
    assert again.noise == clf.noise
    assert again.flip_rates_ == clf.flip_rates_
    assert json.loads((tmp_path / "model.json").read_text())["settings"]["multi_class"] == how


DOORS = [
    {"a": LocalPrivacy(3.0), "b": SitePrivacy(1.0)},
    {"a": FlippedLabels(CONFUSION), "b": FlippedLabels(0.1)},
    {"a": Exact(), "b": LocalPrivacy(5.0)},
    {"a": LabelPrivacy(2.0), "b": AdditiveNoise(1.0)},
]


@pytest.mark.parametrize("noise", DOORS, ids=repr)
@SIMULATED
def test_both_doors_are_alike(noise, tmp_path):
    X, y = draw_rows(600)
    source = np.repeat(["a", "b"], 300)
    settings = {"multi_class": "softmax", "classes": NAMES.tolist(), "row_norm": 5.0, "alpha": 0.01}
    settings["class_weight"] = {"a": 0.5, "c": 2.0}
    trained = train_files(write_files(tmp_path, X, y, source, noise, settings), seed=1)
    check_same(trained, UnevenClassifier(noise, random_state=1, **settings).fit(X, y, source=source))


@SIMULATED
@pytest.mark.parametrize("noise", [Exact(), LocalPrivacy(8.0)], ids=repr)
def test_files_are_streamed(noise, tmp_path, monkeypatch):
    """Rows that are not held in memory: read in pieces, a step for each batch."""
    monkeypatch.setattr(convergence, "MOST_CELLS", 0)
    monkeypatch.setattr(convergence, "ROWS_PER_WEIGHT", 0)
    monkeypatch.setattr(convergence, "ROWS_PER_SPREAD", 0)
    X, y = draw_rows(6_000)
    settings = {"alpha": 0.001, "classes": NAMES.tolist(), "row_norm": 5.0}
    file = write_files(tmp_path, X, y, np.repeat("a", 6_000), {"a": noise}, settings)
    streamed, held = (train_files(file, seed=1, held_bytes=size).model for size in (0, 2**40))
    best = UnevenClassifier(alpha=1e-3).fit(X, y).score(X, y)
    for model in (streamed, held):
        assert (model.predict(X) == y).mean() > best - 0.1
    np.testing.assert_allclose(streamed.predict_proba(X).sum(axis=1), 1.0)


@SIMULATED
def test_partial_fit_goes_on():
    X, y = draw_rows(3_000)
    clf = UnevenClassifier(LocalPrivacy(8.0), classes=NAMES, row_norm=5.0, random_state=0)
    for part in np.split(np.arange(3_000), 3):
        clf.partial_fit(X[part], y[part], row_id=part)
    assert clf.coef_.shape == (4, 3)
    assert clf.score(X, y) > (y == "a").mean() + 0.1
    anchored = UnevenClassifier({"a": Exact(), "b": LocalPrivacy(8.0)}, classes=NAMES, row_norm=5.0, random_state=0)
    anchored.fit(X[:1000], y[:1000], source=np.repeat(["a", "b"], 500))
    before = anchored.coef_.copy()
    anchored.partial_fit(X[1000:], y[1000:], source=np.repeat("b", 2_000), row_id=np.arange(1000, 3000))
    assert not np.array_equal(before, anchored.coef_)
    open_ = UnevenClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="multi_class must stay 'softmax' for partial_fit to continue"):
        open_.set_params(multi_class="one-vs-rest").partial_fit(X, y)


BAD = {
    "another word": (
        lambda X, y: UnevenClassifier(multi_class="ovr").fit(X, y),
        "multi_class must be one of 'softmax'",
    ),
    "no classes stated": (
        lambda X, y: UnevenClassifier(LocalPrivacy(1.0)).fit(X, y),
        "classes must be given where a source is private",
    ),
    "private, one by one": (
        lambda X, y: UnevenClassifier(LocalPrivacy(1.0), classes=NAMES, multi_class="one-vs-rest").fit(X, y),
        "multi_class must be 'softmax', with the logistic loss, .* got 'one-vs-rest'",
    ),
    "private hinge": (
        lambda X, y: UnevenClassifier(LocalPrivacy(1.0), classes=NAMES, loss="hinge").fit(X, y),
        "multi_class must be 'softmax', with the logistic loss, .* got loss 'hinge'",
    ),
    "a matrix for others": (
        lambda X, y: UnevenClassifier(FlippedLabels(((0.9, 0.1, 0), (0, 1, 0), (0, 0, 1)))).fit(X, y),
        "source 'data': rate must be one number or a matrix for 4 classes, got a matrix for 3 classes",
    ),
    "two rates": (
        lambda X, y: UnevenClassifier(FlippedLabels((0.1, 0.2))).fit(X, y),
        "rate must be one number or a matrix for 4 classes, got two rates",
    ),
    "a matrix for two classes": (
        lambda X, y: UnevenClassifier(FlippedLabels(CONFUSION)).fit(X, y == "a"),
        "rate must be one number or a matrix for 2 classes, got a matrix for 4 classes",
    ),
    "a matrix, one by one": (
        lambda X, y: UnevenClassifier(FlippedLabels(CONFUSION), multi_class="one-vs-rest").fit(X, y),
        "rate must be one number for multi_class='one-vs-rest', got a matrix",
    ),
    "an unknown rate": (
        lambda X, y: UnevenClassifier({"a": Exact(), "b": FlippedLabels("estimate")}).fit(
            X, y, source=np.repeat(["a", "b"], 150)
        ),
        "labels must be of two classes to estimate flip rates, got 4",
    ),
    "weights, one by one": (
        lambda X, y: UnevenClassifier(class_weight="balanced", multi_class="one-vs-rest").fit(X, y),
        "class_weight must be None for 4 classes unless multi_class is 'softmax', .*; got 'one-vs-rest'",
    ),
    "weights of the hinge": (
        lambda X, y: UnevenClassifier(class_weight={"a": 2.0}, loss="hinge").fit(X, y),
        "class_weight must be None for 4 classes .*, with the logistic loss; got loss 'hinge'",
    ),
    "a weight of no class": (
        lambda X, y: UnevenClassifier(class_weight={"e": 2.0}).fit(X, y),
        "class_weight must name the classes 'a', 'b', 'c', 'd'; got 'e'",
    ),
    "weights too uneven for flips": (
        lambda X, y: UnevenClassifier(FlippedLabels(0.3), class_weight={"a": 0.01}).fit(X, y),
        "class_weight must be more even where labels are flipped, .* must count at least 0, got -0.",
    ),
    "balanced by private rows": (
        lambda X, y: UnevenClassifier(LocalPrivacy(1.0), classes=NAMES, class_weight="balanced").fit(X, y),
        "class_weight must be None or a dict of public weights where every source is private",
    ),
    "sparse steps": (
        lambda X, y: UnevenClassifier(strategy="precision").fit(sparse.csr_array(X), y),
        "multi_class must be 'one-vs-rest' for sparse rows that are learned step by step",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_in_one_line(what):
    call, message = BAD[what]
    with pytest.raises(ValueError, match=message) as refused:
        call(*draw_rows(300))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("rate", "loss"), [(0.3, "logistic"), (0.6, "logistic"), (0.3, "hinge")])
def test_one_against_the_rest_corrects_the_flips_between_them(rate, loss):
    """Of K classes the others are seen as one class at σ/(K-1) each, not σ: intercepts are those of exact labels.

    The hinge loss is learned by steps, so there exact labels are, too.
    """
    asked = {"multi_class": "one-vs-rest", "loss": loss, "alpha": 1e-2, "random_state": 0, "strategy": "precision"}
    asked |= {"strategy": "auto", "alpha": 1e-3} if loss == "logistic" else {}
    noise, found, count = FlippedLabels(rate), [], 12_000 if rate > 0.5 else 3_000  # so that no weights are shrunk
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(count, 3)) / 3**0.5
        y = np.argmax(X @ (3.0 * np.eye(3, 4)) + rng.gumbel(size=(count, 4)), axis=1)
        flipped = UnevenClassifier(noise, **asked).fit(X, noise.corrupt_classes(y, 4, rng))
        assert flipped.flip_rates_ == {"data": rate}
        found.append(flipped.intercept_ - UnevenClassifier(**asked).fit(X, y).intercept_)
    error = np.std(found, axis=0, ddof=1) / 6**0.5
    np.testing.assert_array_less(np.abs(np.mean(found, axis=0)), 4.0 * error)
    assert np.abs(np.mean(found)) < 0.15  # with σ both ways it is below -1 for the logistic loss
