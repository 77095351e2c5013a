"""Models in files: what comes back is what was saved, and anything else is refused in one line."""

import json

import numpy as np
import pytest

from samples import blobs, uneven_labels
from uneven import BudgetExceeded, Exact, FlippedLabels, Ledger, LocalPrivacy, UnevenClassifier
from uneven.training.model_file import _digest


def test_a_saved_model_predicts_the_same(tmp_path):
    X, _, observed, source = uneven_labels()
    noise = {"expert": LocalPrivacy(8.0), "crowd": FlippedLabels(0.35)}
    names = np.array(["no", "yes"])
    clf = UnevenClassifier(noise, random_state=0, row_norm=5.0, ledger=Ledger(), classes=names)
    clf.fit(X, names[observed], source=source)
    clf.save(tmp_path / "model.json")
    again = UnevenClassifier.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert list(again.classes_) == ["no", "yes"]
    assert (again.plan_, again.privacy_spent_) == (clf.plan_, clf.privacy_spent_)
    assert again.noise == noise
    with pytest.raises(ValueError, match="can predict but not go on learning"):
        again.partial_fit(X, names[observed], source=source)


def test_a_saved_model_keeps_what_the_fit_found(tmp_path):
    """A file from before there were notes has none, and is read as it was."""
    X, y = blobs(600)
    source, file = np.repeat(["open", "closed"], 300), tmp_path / "model.json"
    noise = {"open": Exact(), "closed": LocalPrivacy(30.0)}
    clf = UnevenClassifier(noise, row_norm=5.0, use="all").fit(X, y, source=source)
    clf.save(file)
    assert UnevenClassifier.load(file).notes_ == clf.notes_
    assert "'closed'" in clf.notes_[0]
    UnevenClassifier.load(file).save(tmp_path / "again.json")
    assert file.read_text() == (tmp_path / "again.json").read_text()
    values = json.loads(file.read_text())
    del values["notes"]
    file.write_text(json.dumps({**values, "digest": _digest(values)}))
    old = UnevenClassifier.load(file)
    assert old.notes_ == ()
    np.testing.assert_array_equal(old.predict_proba(X), clf.predict_proba(X))


def test_a_searched_model_keeps_its_rate(tmp_path):
    X, y = blobs()
    X /= np.linalg.norm(X, axis=1).max()
    source = np.where(np.arange(len(y)) < 400, "a", "b")
    noise = {"a": LocalPrivacy(10.0), "b": LocalPrivacy(1.0)}
    clf = UnevenClassifier(noise, budget=40.0, strategy="two-rates", random_state=0, line_search=3)
    clf.fit(X, y, source=source, validation=(X[:500] + 1e-3, y[:500])).save(tmp_path / "model.json")
    assert UnevenClassifier.load(tmp_path / "model.json").plan_ == clf.plan_


def test_what_was_run_is_saved_whatever_is_set_later(tmp_path):
    """A search asked for after the fit was not made; one that was made is not forgotten."""
    clf = UnevenClassifier(random_state=0).fit(*blobs(200)).set_params(line_search=3)
    clf.save(tmp_path / "model.json")
    assert UnevenClassifier.load(tmp_path / "model.json").plan_ == clf.plan_
    (X, y), source = blobs(400), np.repeat(["a", "b"], 200)
    noise = {"a": Exact(), "b": FlippedLabels(0.2)}
    clf = UnevenClassifier(noise, strategy="two-rates", line_search=3, random_state=0).fit(X, y, source=source)
    clf.set_params(line_search=0).save(tmp_path / "model.json")
    assert UnevenClassifier.load(tmp_path / "model.json").plan_ == clf.plan_


BROKEN = {
    "cut short": (lambda text: text[: len(text) // 2], "must be a complete JSON model file"),
    "empty": (lambda _: "", "must be a complete JSON model file"),
    "something else": (lambda _: "[1, 2]", "must be a model saved by uneven"),
    "newer": (lambda text: text.replace('"version": 2', '"version": 99'), "must be a model of version 2, got 99"),
    "unknown key": (lambda text: text.replace('"classes"', '"klasses"', 1), "has no key 'klasses'"),
    "no weights": (lambda text: text.replace('"coef": [', '"coef": ["x", ', 1), "must have numbers for weights"),
    "classes out of order": (
        lambda text: text.replace('"classes": [\n  0,\n  1', '"classes": [\n  1,\n  0'),
        "classes in order",
    ),
    "other plan": (lambda text: text.replace('"bound":', '"bound": 1, "bounds":', 1), "a plan has no key 'bounds'"),
}


@pytest.mark.parametrize(("change", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_model_file_is_refused(change, message, tmp_path):
    clf = UnevenClassifier(random_state=0).fit(*blobs(200))
    file = tmp_path / "model.json"
    clf.save(file)
    file.write_text(change(file.read_text()))
    with pytest.raises(ValueError, match=message) as caught:
        UnevenClassifier.load(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([0, 1]),
        np.array([3, 200], dtype=np.uint8),
        np.array([-1, 1], dtype=np.int16),
        np.array([3.0, 7.0]),
        np.array([3.0, 7.0], dtype=np.float32),
    ],
    ids=lambda labels: labels.dtype.str,
)
def test_labels_keep_their_type(labels, tmp_path):
    X, y = blobs(400)
    clf = UnevenClassifier(random_state=0).fit(X, labels[y])
    clf.save(tmp_path / "model.json")
    again = UnevenClassifier.load(tmp_path / "model.json")
    assert again.classes_.dtype == clf.classes_.dtype
    assert again.predict(X).dtype == clf.predict(X).dtype
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))
    assert again.score(X, labels[y]) == clf.score(X, labels[y])


@pytest.mark.parametrize("options", [{}, {"row_norm": 6.0}, {"fit_intercept": False}])
def test_the_scale_is_kept(options, tmp_path):
    clf = UnevenClassifier(random_state=0, **options).fit(*blobs(400))
    clf.save(tmp_path / "model.json")
    assert UnevenClassifier.load(tmp_path / "model.json").scale_ == clf.scale_


CHANGED = {
    "alpha": (("settings", "alpha"), "x", "settings: alpha must be 'auto' or a positive number, got 'x'"),
    "passes": (("settings", "passes"), 1.5, "settings: passes must be a whole number"),
    "clip": (("settings", "clip"), "x", "settings: clip must be 'auto', None or a positive number, got 'x'"),
    "fit_intercept": (("settings", "fit_intercept"), 1, "settings: fit_intercept must be true or false, got 1"),
    "unknown setting": (("settings", "speed"), 1, "settings has no key 'speed'"),
    "settings": (("settings",), [1], "settings must be a table of names and values"),
    "noise": (("settings", "noise"), 3, "noise must be a mapping with a kind, or a list of such, got 3"),
    "noise by source": (("settings", "noise"), {"by source": [1]}, "must be a model saved by uneven"),
    "searched_rate": (("searched_rate",), "fast", "searched_rate must be null for a plan without two rates"),
    "privacy_spent": (("privacy_spent",), {"data": "much"}, "privacy_spent of 'data' must be a number"),
    "privacy_spent below 0": (("privacy_spent",), {"data": -1}, "privacy_spent of 'data' must be a number"),
    "privacy_spent as a list": (("privacy_spent",), [1], "privacy_spent must be a table of sources and numbers"),
    "flip_rates": (("flip_rates",), {"data": 0.7}, "flip_rates of 'data' must be a number in [0, 0.5)"),
    "scale": (("scale", "row_norm"), None, "row_norm of scale must be a positive finite number, got None"),
    "norms": (("scale", "norms"), "mean", "norms of scale must be one of"),
    "classes as text": (("classes",), ["0", "1"], "classes must be a list of values of class_type '<i8'"),
    "a class twice": (("classes",), [1, 1], "must have two or more classes in order"),
    "class_type": (("class_type",), "nonsense", "must be a model saved by uneven"),
    "class_type of times": (("class_type",), "<M8[s]", "classes must be a list of values of class_type"),
    "classes beyond their type": (("class_type",), "|b1", "classes must be a list of values of class_type '|b1'"),
    "feature names": (("feature_names",), [1, 2, 3, 4], "must have a list of feature names"),
    "weights": (("coef",), [[1.0, 2.0, 3.0, None]], "must have finite weights"),
    "plan": (("plan", "strategy"), "magic", "strategy must be one of"),
}


@pytest.mark.parametrize(("place", "value", "message"), CHANGED.values(), ids=CHANGED)
def test_a_value_that_does_not_fit_is_refused(place, value, message, tmp_path):
    file = tmp_path / "model.json"
    UnevenClassifier(random_state=0).fit(*blobs(200)).save(file)
    values = inner = json.loads(file.read_text())
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    file.write_text(json.dumps(values))
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is checked below)
        UnevenClassifier.load(file)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_every_setting_must_be_there(tmp_path):
    file = tmp_path / "model.json"
    UnevenClassifier(random_state=0).fit(*blobs(200)).save(file)
    values = json.loads(file.read_text())
    del values["settings"]["clip"]
    file.write_text(json.dumps(values))
    with pytest.raises(ValueError, match="settings must have 'clip'; it is not there"):
        UnevenClassifier.load(file)


def test_labels_that_no_file_can_hold_are_refused(tmp_path):
    X, y = blobs(200)
    clf = UnevenClassifier(random_state=0).fit(X, y)
    clf.classes_ = np.array([None, ("a", 1)], dtype=object)
    with pytest.raises(ValueError, match="classes must be text, numbers or booleans to be saved, got object"):
        clf.save(tmp_path / "model.json")
    assert not list(tmp_path.iterdir())


def test_a_changed_number_is_noticed(tmp_path):
    """Values that would fit, and are not those that were saved; spaces and the order of keys do not matter."""
    file = tmp_path / "model.json"
    UnevenClassifier(random_state=0).fit(*blobs(200)).save(file)
    values = json.loads(file.read_text())
    file.write_text(json.dumps(dict(reversed(values.items()))))
    UnevenClassifier.load(file)
    changes = {
        "coef": [[w + 1e-9 for w in values["coef"][0]]],
        "intercept": [0.0],
        "alpha": 2 * values["alpha"],
        "privacy_spent": {"data": 0.1},
        "digest": "0" * 64,
    }
    for key, value in changes.items():
        file.write_text(json.dumps({**values, key: value}))
        with pytest.raises(ValueError, match=r"model.json must be an unmodified model file, got one whose digest does"):
            UnevenClassifier.load(file)


def test_a_loaded_model_remembers_what_its_rows_have_spent(tmp_path):
    """Rows without ids may be the same at the next fit: what the file says they spent counts on top."""
    X, y = blobs(400)
    made = UnevenClassifier(LocalPrivacy(1.0), row_norm=5.0, budget=1.5).fit(X, y)
    made.save(tmp_path / "model.json")
    loaded = UnevenClassifier.load(tmp_path / "model.json")
    with pytest.raises(BudgetExceeded, match="may have spent 1 in earlier fits of this model"):
        loaded.fit(X, y)
    loaded.set_params(budget=2.0).fit(X, y)
    assert loaded.privacy_spent_ == {"data": 2.0}
