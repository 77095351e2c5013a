"""Private labels: one randomised release, charged before, and nothing learned from the labels themselves."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

from uneven import Exact, FlippedLabels, LabelPrivacy, Ledger, LocalPrivacy, UnevenClassifier
from uneven.anchor.length import measure_optimism
from uneven.anchor.objective import Objective
from uneven.anchor.rows import PublicRows
from uneven.anchor.solver import solve
from uneven.engine import repeat_generator
from uneven.io import read_sources
from uneven.problem import Problem
from uneven.settings import Settings
from uneven.training import continuation, trainer
from uneven.training.charging import Account
from uneven.training.files import train_files
from uneven.training.grouping import group_pieces
from uneven.training.label_release import move_labels, release_labels
from uneven.training.rows import ArrayRows, Piece

SEED, EPSILON = 3, 1.5


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) / 3
    return X, np.where(X @ [2.0, -1.0, 0.5, 0.0] + 0.3 * rng.logistic(size=n) / 3 > 0, 1, 0)


def flipped(y, name="a", run=0):
    draws = repeat_generator(SEED, run, name, "labels")()
    return np.where(LabelPrivacy(EPSILON).draw_flips(len(y), draws), 1 - y, y)


@pytest.mark.parametrize("settings", [{}, {"strategy": "precision", "passes": 3}, {"alpha": 0.01}])
def test_a_fit_is_that_of_labels_flipped_beforehand(settings):
    """Also alpha and the scale: nothing is taken from the labels as they were."""
    X, y = rows()
    private = UnevenClassifier({"a": LabelPrivacy(EPSILON)}, random_state=SEED, **settings).fit(X, y)
    open_ = UnevenClassifier({"a": LabelPrivacy(EPSILON).observed}, random_state=SEED, **settings).fit(X, flipped(y))
    np.testing.assert_array_equal(private.coef_, open_.coef_)
    assert private.alpha_ == open_.alpha_
    assert "FEATURES ARE NOT" in " ".join(private.plan_.caveats)


def test_beside_public_and_fully_private_rows():
    X, y = rows(1500)
    source = np.repeat(["open", "a", "b"], 500)
    noise = {"open": Exact(), "a": LabelPrivacy(EPSILON), "b": LocalPrivacy(8.0)}
    private = UnevenClassifier(noise, random_state=SEED, use="all", row_norm=3.0).fit(X, y, source=source)
    seen = np.where(source == "a", np.concatenate([y[:500], flipped(y[500:1000]), y[1000:]]), y)
    noise["a"] = noise["a"].observed
    open_ = UnevenClassifier(noise, random_state=SEED, use="all", row_norm=3.0).fit(X, seen, source=source)
    np.testing.assert_array_equal(private.coef_, open_.coef_)
    assert set(open_.plan_.verdicts) == {"b"}
    assert set(private.plan_.verdicts) == {"a", "b"}
    assert private.plan_.converged == ("open", "a")  # the labels' release is used to convergence, with the public rows


def test_labels_cost_one_epsilon_however_often_they_are_used():
    X, y = rows()
    ledger = Ledger()
    model = UnevenClassifier({"a": LabelPrivacy(EPSILON)}, strategy="precision", passes=4, ledger=ledger)
    model.fit(X, y)
    assert ledger.max_spent("a") == EPSILON
    assert len(ledger.spent("a")) == len(y)
    assert model.privacy_spent_ == {"a": EPSILON}


def test_rows_of_both_kinds_of_privacy_are_charged_once_each():
    X, y = rows()
    source, ledger = np.repeat(["a", "b"], 300), Ledger()
    noise = {"a": LabelPrivacy(EPSILON), "b": LocalPrivacy(2.0)}
    UnevenClassifier(noise, ledger=ledger, use="all", row_norm=3.0).fit(X, y, source=source)
    assert {name: (len(ledger.spent(name)), ledger.max_spent(name)) for name in "ab"} == {
        "a": (300, EPSILON),
        "b": (300, 2.0),
    }


def test_the_charge_comes_before_the_release(monkeypatch):
    X, y = rows()
    account = Account(Ledger())

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "release_labels", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.train(ArrayRows(Piece(X, y)), {"a": LabelPrivacy(EPSILON)}, Settings(), account=account)
    assert account.ledger.max_spent("a") == EPSILON


def test_a_budget_that_is_too_small_releases_nothing():
    X, y = rows()
    with pytest.raises(ValueError, match="budget"):
        UnevenClassifier({"a": LabelPrivacy(EPSILON)}, budget=1.0).fit(X, y)


def test_every_reading_has_the_same_labels_however_it_is_cut():
    X, y = rows(60)

    class Cut:
        n_features = 4

        def __init__(self, size):
            self.size = size

        def pieces(self, checked=True, only=None):
            for name, start, end in (("a", 0, 40), ("open", 40, 60)):
                for i in range(start, end, self.size) if only in (None, name) else ():
                    j = min(end, i + self.size)
                    yield Piece(X[i:j], y[i:j], name)

    groups = group_pieces({"a": 40, "open": 20}, {"a": LabelPrivacy(EPSILON), "open": Exact()})

    def read(released, only=None):
        return np.concatenate([piece.y for piece in released.pieces(only=only)])

    released = release_labels(Cut(7), groups, np.array([0, 1]), None)
    first = read(released)
    assert (read(released) == first).all()
    assert (read(released, only="a") == first[:40]).all()
    assert (first[40:] == y[40:]).all()
    assert (first[:40] != y[:40]).any()
    seeded = [read(release_labels(Cut(size), groups, np.array([0, 1]), SEED)) for size in (7, 40)]
    np.testing.assert_array_equal(seeded[0], seeded[1])


@pytest.mark.parametrize("held", [0, 1 << 25])
def test_both_doors_alike_streamed_or_held(tmp_path, held):
    X, y = rows()
    table = np.column_stack([X, y])
    np.savetxt(tmp_path / "a.csv", table, delimiter=",", header="p,q,r,s,label", comments="", fmt="%.17g")
    (tmp_path / "sources.toml").write_text(
        'label = "label"\nalpha = 0.001\n[[source]]\nname = "a"\ndata = "a.csv"\n'
        f'noise = {{ kind = "label-privacy", epsilon = {EPSILON} }}\n'
    )
    found = train_files(read_sources(tmp_path / "sources.toml"), seed=SEED, held_bytes=held)
    model = UnevenClassifier({"a": LabelPrivacy(EPSILON)}, random_state=SEED, alpha=0.001).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(found.model.coef, model.coef_, rtol=1e-5)


def test_partial_fit_randomises_and_charges_each_call():
    X, y = rows()
    ledger = Ledger()
    model = UnevenClassifier({"a": LabelPrivacy(EPSILON)}, ledger=ledger, random_state=SEED, passes=2)
    for part in (slice(0, 300), slice(300, 600)):
        model.partial_fit(X[part], y[part], classes=[0, 1], row_id=np.arange(600)[part])
    assert len(ledger.spent("a")) == 600
    assert ledger.max_spent("a") == EPSILON
    open_ = UnevenClassifier({"a": FlippedLabels(LabelPrivacy(EPSILON).rate)}, random_state=SEED, passes=2)
    for part, step in ((slice(0, 300), 0), (slice(300, 600), 12)):  # two passes over six batches
        open_.partial_fit(X[part], flipped(y[part], run=step), classes=[0, 1])
    np.testing.assert_array_equal(model.coef_, open_.coef_)


def test_labels_of_any_kind_are_flipped_to_the_other_class():
    classes = np.array(["no", "perhaps"])
    assert move_labels(np.array(["no", "no"]), np.array([1, 0]), classes).tolist() == ["perhaps", "no"]
    assert move_labels(np.array([True, False]), np.array([1, 1]), np.array([False, True])).tolist() == [False, True]
    words = np.array(["no", "perhaps"], dtype=object)
    assert move_labels(words, np.array([1, 1]), words).tolist() == ["perhaps", "no"]


def test_it_is_far_better_than_hiding_features_too():
    X, y = rows(4000)
    X_test, y_test = rows(4000, seed=9)
    label, local = (
        [UnevenClassifier(noise, random_state=s, row_norm=3.0).fit(X, y).score(X_test, y_test) for s in range(5)]
        for noise in (LabelPrivacy(1.0), LocalPrivacy(1.0))
    )
    assert np.mean(label) > np.mean(local) + 0.03 + 2 * np.std(local) / 5**0.5


def test_the_fit_says_that_features_are_not_protected(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    X, y = rows()
    model = UnevenClassifier({"a": LabelPrivacy(EPSILON)}, random_state=SEED).fit(X, y)
    assert "FEATURES ARE NOT" in model.notes_[0]
    assert "FEATURES NOT PROTECTED" in model.plan_.summary()


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_labels_flipped_by_a_seed_have_spent_everything(method):
    (X, y), clf = rows(), UnevenClassifier({"a": LabelPrivacy(EPSILON)}, random_state=SEED)
    getattr(clf, method)(X, y, row_id=np.arange(len(y)))
    assert clf.privacy_spent_ == {"a": np.inf}


def test_later_labels_without_a_seed_are_flipped_by_no_fixed_one(monkeypatch):
    (X, y), seen = rows(), []

    def watched(*arguments):
        released = release_labels(*arguments)
        seen.append(next(released.pieces()).y)
        return released

    monkeypatch.setattr(continuation, "release_labels", watched)
    for _ in range(2):
        UnevenClassifier({"a": LabelPrivacy(EPSILON)}).partial_fit(X, y, row_id=np.arange(len(y)))
    assert (seen[0] != seen[1]).any()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_private_labels_without_signal_are_not_worse_than_predicting_nothing(classes, epsilon):
    """Log-loss on new rows, over eight draws; classes are still predicted, and a strong signal is left as it is."""
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(4_000, 20)), rng.integers(0, classes, 4_000)
        model = UnevenClassifier(LabelPrivacy(epsilon), classes=list(range(classes)), random_state=seed)
        model.fit(X[:3_000], y[:3_000])
        found.append(log_loss(y[3_000:], model.predict_proba(X[3_000:])) - np.log(classes))
        assert len(set(model.predict(X[3_000:]).tolist())) > 1
    assert np.mean(found) < 2 * np.std(found) / np.sqrt(8) + 1e-4
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 20))
    y = (X[:, 0] + rng.logistic(size=4_000) > 0).astype(int)
    model = UnevenClassifier(LabelPrivacy(2.0), random_state=0).fit(X, y)
    assert not any("shrunk" in note for note in model.notes_)


def test_what_is_expected_of_new_rows_is_what_they_lose():
    """`measure_optimism`, against the loss on many new rows less that on the rows learned from, over 200 draws."""
    noise, gaps, expected = FlippedLabels(0.3), [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X, truth = rng.normal(size=(6_000, 10)) / 3, rng.choice([-1.0, 1.0], 6_000)
        y = noise.corrupt(truth, rng)
        problem = Problem(10, 0.01, 1)
        f, new = (
            Objective.of(problem, [PublicRows.from_arrays(X[part], y[part], noise)], None)
            for part in (slice(500), slice(500, None))
        )
        w = solve(problem, [PublicRows.from_arrays(X[:500], y[:500], noise)]).weights
        once = np.array([1.0])
        gaps.append(new.along(w, once)[0, 0] - f.along(w, once)[0, 0])
        expected.append(measure_optimism(f, w))
    error = np.std(gaps) / np.sqrt(200)
    assert np.mean(expected) == pytest.approx(np.mean(gaps), abs=4 * error + 0.1 * np.mean(gaps))
    assert np.mean(gaps) > 8 * error


def draw_settings(rng):
    """Settings of a fit with private labels, many of which no fit can follow; and the labels' classes and weights."""
    classes = int(rng.integers(2, 5))
    noises = [LabelPrivacy(float(rng.choice([0.3, 1.0, 4.0]))), LabelPrivacy(2.0) & FlippedLabels(0.2)]
    if classes == 3:
        noises.append(LabelPrivacy(2.0) & FlippedLabels(((0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.0, 0.2, 0.8))))
    stated = {k: float(rng.choice([0.01, 0.5, 1.0, 3.0, 50.0])) for k in range(classes)}
    settings = {
        "class_weight": [None, "balanced", stated][rng.integers(3)],
        "loss": str(rng.choice(["logistic", "hinge"], p=[0.9, 0.1])),
        "strategy": str(rng.choice(["auto", "precision", "anchored", "two-rates"], p=[0.6, 0.2, 0.1, 0.1])),
        "alpha": ["auto", 0.01][rng.integers(2)],
        "row_norm": ["auto", 3.0, 0.01][rng.integers(3)],
        "long_rows": str(rng.choice(["shrink", "refuse"], p=[0.8, 0.2])),
        "multi_class": str(rng.choice(["softmax", "one-vs-rest"], p=[0.95, 0.05])),
        "sketch": [None, None, None, "auto"][rng.integers(4)],
        "threshold": None if classes > 2 or rng.random() < 0.8 else 0.3,
        "line_search": int(rng.choice([0, 2], p=[0.95, 0.05])),
        "budget": None if rng.random() < 0.9 else 0.5,
    }
    return classes, noises[rng.integers(len(noises))], settings


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(150))
def test_a_refused_fit_charges_nothing(seed):
    """Over random settings, alone and beside rows without privacy: what is refused is refused before the charge."""
    rng = np.random.default_rng(seed)
    classes, noise, settings = draw_settings(rng)
    X, ledger = rng.normal(size=(150, 3)), Ledger()
    y = np.minimum(rng.integers(0, classes, 150), rng.integers(0, classes, 150))  # the last class is rare
    beside = seed % 2 == 0
    noises = {"a": noise, "b": Exact()} if beside else {"a": noise}
    source = np.where(np.arange(150) < 50 * beside, "b", "a")
    try:
        model = UnevenClassifier(noises, classes=list(range(classes)), ledger=ledger, **settings)
        model.fit(X, y, source=source, row_id=np.arange(150))
    except ValueError:
        assert not ledger.sources()
    else:
        assert ledger.max_spent("a") == noise.epsilon_per_row


def test_weights_that_are_too_uneven_for_the_flips_are_refused_or_made_more_even():
    """Of a row observed as some class the weight is c₊(1-b) - c₋a or c₋(1-a) - c₊b, times 1/(1-a-b): at least 0."""
    X, y = rows(3_000)
    y = y * (np.arange(len(y)) % 10 == 0)
    flipped = np.where(LabelPrivacy(1.0).observed.corrupt(2.0 * y - 1.0, np.random.default_rng(0)) > 0, 1, 0)
    for noise, labels in ((LabelPrivacy(1.0), y), (LabelPrivacy(1.0).observed, flipped)):
        ledger = Ledger()
        stated = UnevenClassifier(noise, class_weight={1: 10.0}, ledger=ledger)
        with pytest.raises(ValueError, match=r"between 0\.3679 and 2\.718 where 27% and 27%"):
            stated.fit(X, labels)
        assert not ledger.sources()
        model = UnevenClassifier(noise, class_weight="balanced", random_state=0).fit(X, labels)
        (note,) = [note for note in model.notes_ if "made more even" in note]
        negative, positive = (float(word.split()[1].rstrip(":")) for word in note.split("even, ")[1].split(", ")[:2])
        assert positive / negative == pytest.approx(np.e, rel=1e-3)  # (1-σ)/σ, the largest that is allowed
        plain = UnevenClassifier(noise, random_state=0).fit(X, labels)
        assert model.predict_proba(X)[:, 1].mean() > 1.5 * plain.predict_proba(X)[:, 1].mean()
    even = UnevenClassifier(LabelPrivacy(4.0), class_weight="balanced", random_state=0).fit(*rows())
    assert not any("more even" in note for note in even.notes_)


def test_files_of_private_labels_alone_need_no_row_norm(tmp_path):
    """Their features are public: both doors take the scale from them."""
    X, y = rows()
    text = "\n".join(["a,b,c,d,y", *(",".join([*map(repr, x.tolist()), str(k)]) for x, k in zip(X, y, strict=True))])
    (tmp_path / "rows.csv").write_text(text + "\n")
    source = '[[source]]\nname = "s"\ndata = "rows.csv"\nnoise = { kind = "label-privacy", epsilon = 3.0 }\n'
    (tmp_path / "sources.toml").write_text('label = "y"\n' + source)
    model = train_files(read_sources(tmp_path / "sources.toml"), seed=SEED).model
    arrays = UnevenClassifier({"s": LabelPrivacy(3.0)}, random_state=SEED).fit(X, y, source=np.full(len(y), "s"))
    np.testing.assert_array_equal(model.coef, arrays.coef_)
