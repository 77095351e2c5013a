"""Private labels: one randomised release, charged before, and nothing learned from the labels themselves."""

import numpy as np
import pytest

from uneven import Exact, FlippedLabels, LabelPrivacy, Ledger, LocalPrivacy, UnevenClassifier
from uneven.engine import repeat_generator
from uneven.io import read_sources
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
    assert set(private.plan_.verdicts) == {"b"}  # the labels' release is used to convergence, with the public rows


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
