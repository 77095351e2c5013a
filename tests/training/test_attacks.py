"""Attacks on the promise of privacy, each of which worked once; and bugs that were planted and not noticed."""

import copy
import json
import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import uneven
from uneven.io import open_table, read_sources
from uneven.ledger import count_copies
from uneven.redaction import owner_only, redacted
from uneven.training import continuation
from uneven.training.files import train_files
from uneven.training.known_rows import ERRORS, Hashes

NOISE = uneven.LocalPrivacy(1.0)


def rows(n=120, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3)) / 4
    return X, (X[:, 0] > 0).astype(int)


def classifier(noise=NOISE, **settings):
    return uneven.UnevenClassifier(noise, **{"row_norm": 2.0, "alpha": 0.01, **settings})


def described(folder, frame, head="", name="clinic", data="clinic.csv"):
    frame.to_csv(folder / data, index=False)
    text = f'label = "y"\nrow_norm = 2.0\nalpha = 0.01\n{head}\n[[source]]\nname = "{name}"\ndata = "{data}"\n'
    (folder / "sources.toml").write_text(text + 'noise = { kind = "local-privacy", epsilon = 1.0 }\n')
    return read_sources(folder / "sources.toml")


def framed(X, y):
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)


# A seed is not privacy


def test_a_seed_warns_once_and_promises_nothing(tmp_path):
    X, y = rows()
    with pytest.warns(uneven.SimulationWarning, match="a simulation that protects nobody") as said:
        clf = classifier(random_state=7).fit(X, y)
    assert len(said) == 1
    assert clf.privacy_spent_ == {"data": math.inf}
    clf.save(tmp_path / "model.json")
    saved = json.loads((tmp_path / "model.json").read_text())
    assert saved["simulated"] is True
    assert saved["privacy_spent"] == {"data": "infinite"}
    assert "random_state" not in saved["settings"]
    again = uneven.UnevenClassifier.load(tmp_path / "model.json")
    assert again.random_state is None
    assert again.privacy_spent_ == {"data": math.inf}
    assert again._model().simulated
    clf.set_params(random_state=None).fit(X, y)
    assert clf.privacy_spent_ == {"data": math.inf}  # what the seed gave away does not come back


def test_no_seed_and_no_private_rows_are_no_simulation(tmp_path):
    X, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        private, public = classifier().fit(X, y), classifier(uneven.Exact(), random_state=0).fit(X, y)
    assert private.privacy_spent_ == {"data": 1.0}
    for clf in (private, public):
        clf.save(tmp_path / "model.json")
        saved = json.loads((tmp_path / "model.json").read_text())
        assert saved["simulated"] is False
        assert "random_state" not in saved["settings"]


def test_a_seeded_run_is_charged_all_the_same():
    (X, y), ledger = rows(), uneven.Ledger(budget=1.0)
    classifier(random_state=0, ledger=ledger).fit(X, y)
    with pytest.raises(uneven.BudgetExceeded):
        classifier(ledger=ledger).fit(X, y)


# Classes are public


def test_one_private_label_does_not_show_up():
    X, y = rows()
    words = np.where(y == 1, "ill", "well").astype(object)
    words[7] = "HIV"
    for clf in (classifier(), classifier(classes=["ill", "well"])):
        with pytest.raises(ValueError, match="classes") as caught:
            clf.fit(X, words)
        assert "HIV" not in str(caught.value)
    numbers = y.copy()
    numbers[7] = 3
    with pytest.raises(ValueError, match="classes must be given where a source is private, unless every label is 0 or"):
        classifier().fit(X, numbers)
    with pytest.raises(ValueError, match="got another") as caught:
        classifier().partial_fit(X, words, classes=["ill", "well"], row_id=np.arange(len(y)))
    assert "HIV" not in str(caught.value)


@pytest.mark.parametrize("pair", [(0, 1), (-1, 1), (False, True), (0.0, 1.0)])
def test_conventional_labels_need_no_statement(pair):
    X, y = rows()
    assert classifier().fit(X, np.array(pair)[y]).classes_.tolist() == list(pair)


def test_both_doors_take_classes(tmp_path):
    X, y = rows()
    words = np.where(y == 1, "ill", "well")
    ledger = uneven.Ledger(budget=1.0)
    with pytest.raises(ValueError, match="classes must be given where a source is private"):
        train_files(described(tmp_path, framed(X, words)), ledger=ledger)
    with pytest.raises(ValueError, match=r"labels must be of the classes \['a', 'b'\], got another"):
        train_files(described(tmp_path, framed(X, words), 'classes = ["a", "b"]'), ledger=ledger)
    assert ledger.sources() == {}
    file = described(tmp_path, framed(X, words), 'classes = ["well", "ill"]')
    model = train_files(file, seed=0).model
    clf = classifier(classes=["well", "ill"], random_state=0).fit(X.astype(np.float32), words, source=["clinic"] * 120)
    assert model.classes.tolist() == clf.classes_.tolist() == ["ill", "well"]
    for wrong in (["a"], "ab", [1, "a"], ["a", "a"], 3, [1.5, 2.5]):
        with pytest.raises(ValueError, match="classes must be None or a list"):
            classifier(classes=wrong).fit(X, words)


# The ledger knows rows


def test_the_same_rows_under_another_name_in_another_file_are_the_same(tmp_path):
    X, y = rows()
    ledger = uneven.Ledger(tmp_path / "book.db", budget=1.5)
    frame = framed(X, y)
    train_files(described(tmp_path, frame), ledger=ledger)
    shuffled = frame.sample(frac=1.0, random_state=1)
    others = {
        "renamed": (frame, "renamed", "clinic.csv"),
        "copied": (frame, "clinic", "copy.csv"),
        "shuffled": (shuffled, "new", "shuffled.csv"),
        "one row of it": (frame.iloc[[77, 80]], "few", "few.csv"),
        "columns": (frame[["y", "c", "a", "b"]], "columns", "columns.csv"),
        "labels": (frame.assign(y=1 - y), "labels", "labels.csv"),
    }
    for data, name, file in others.values():
        with pytest.raises(uneven.BudgetExceeded):
            train_files(described(tmp_path, data, "classes = [0, 1]", name, file), ledger=ledger)
    with pytest.raises(uneven.BudgetExceeded):
        classifier(ledger=ledger).fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
    train_files(described(tmp_path, framed(*rows(seed=9)), name="clinic"), ledger=ledger)  # others may come
    assert ledger.sources() == {"clinic": 240}


def test_copies_within_a_source_are_rows_of_their_own():
    X, y = np.repeat(rows(20)[0], 3, axis=0), np.tile([0, 1, 0], 20)
    ledger = uneven.Ledger(budget=1.0)
    classifier(ledger=ledger).fit(X, y)
    assert ledger.sources() == {"data": 60}
    assert set(ledger.spent("data").values()) == {1.0}
    with pytest.raises(uneven.BudgetExceeded, match="1 of 2 rows"):
        ledger.charge("other", ledger.fingerprint(np.vstack([X[:1], np.full((1, 3), 0.5)])), 1.0)


def test_fingerprints_need_the_key_of_their_ledger():
    X, _ = rows(5)
    one, two = (set(uneven.Ledger(budget=1.0).fingerprint(X).numbers) for _ in range(2))
    assert not one & two


def test_copies_are_the_same_rows_in_any_order():
    hashes = np.array([-9, -5, -5, -7, -5, -9])
    known = sorted(count_copies(b"key", hashes).numbers)
    assert len(set(known)) == 6
    for seed in range(20):
        mixed = np.random.default_rng(seed).permutation(hashes)
        numbers = count_copies(b"key", mixed).numbers
        assert sorted(numbers) == known
        for one in (-9, -7, -5):
            assert numbers[np.flatnonzero(mixed == one)[0]] == one


def test_rows_are_known_in_the_same_way_however_they_are_read(tmp_path):
    X, y = rows(60)
    X = X.astype(np.float32)
    ledger, keys = uneven.Ledger(budget=9.0), []
    framed(X, y).to_parquet(tmp_path / "clinic.parquet")
    file = described(tmp_path, framed(X, y))
    train_files(file, ledger=ledger)
    keys.append(set(ledger.spent("clinic")))
    train_files(file, ledger=ledger, held_bytes=100)  # in pieces, read twice
    text = (tmp_path / "sources.toml").read_text().replace("clinic.csv", "clinic.parquet")
    (tmp_path / "sources.toml").write_text(text)
    train_files(read_sources(tmp_path / "sources.toml"), ledger=ledger)
    assert set(ledger.spent("clinic")) == keys[0]
    assert set(ledger.spent("clinic").values()) == {3.0}


def test_the_budget_is_kept_in_the_ledger_and_not_raised(tmp_path):
    path = tmp_path / "book.db"
    uneven.Ledger(path, budget=2.0).charge("a", [0], 1.0)
    with pytest.raises(ValueError, match=r"budget must be at most 2, which the ledger .* was made with, got 3"):
        uneven.Ledger(path, budget=3.0)
    book = uneven.Ledger(path)
    assert book.budget == 2.0
    book.charge("a", [1], 1.5)
    for more in (None, 100.0):
        with pytest.raises(uneven.BudgetExceeded, match="the budget of 2"):
            book.charge("renamed", [1], 1.0, budget=more)
    with pytest.raises(uneven.BudgetExceeded, match=r"the budget of 1.7"):
        uneven.Ledger(path, budget=1.7).charge("a", [1], 0.4)
    assert uneven.Ledger(path).budget == 2.0


def test_a_ledger_without_a_budget_says_so_at_every_charge():
    book = uneven.Ledger()
    for _ in range(3):
        with pytest.warns(uneven.NoBudgetWarning, match="the ledger in memory has no budget: it refuses nothing$"):
            book.charge("a", [1], 1.0)
    with pytest.warns(uneven.NoBudgetWarning, match="refuses nothing beyond the 9 of this charge"):
        book.charge("a", [1], 1.0, budget=9.0)


def test_a_person_with_an_id_in_two_sources_pays_for_both():
    X, y = rows()
    ids = np.concatenate([np.arange(60), np.arange(60)])
    source = np.repeat(["a", "b"], 60)
    ledger = uneven.Ledger(budget=1.5)
    with pytest.raises(uneven.BudgetExceeded, match="and needs 2"):
        classifier({"a": NOISE, "b": NOISE}, ledger=ledger).fit(X, y, source=source, row_id=ids)
    assert ledger.sources() == {}


# Later rows


def test_private_rows_that_come_later_must_be_known():
    X, y = rows()
    with pytest.raises(ValueError, match="row_id must be given for partial_fit on private rows, or a ledger"):
        classifier().partial_fit(X, y)
    clf = classifier(ledger=uneven.Ledger(budget=1.0)).partial_fit(X[:60], y[:60])
    with pytest.raises(uneven.BudgetExceeded):
        clf.partial_fit(X[30:90], y[30:90])
    clf.partial_fit(X[60:], y[60:])
    assert clf.privacy_spent_ == {"data": 1.0}


def test_a_second_fit_under_another_name_goes_on_counting():
    X, y = rows()
    clf = classifier({"a": NOISE}, budget=1.5).fit(X, y)
    with pytest.raises(uneven.BudgetExceeded, match="they may have spent 1 in earlier fits"):
        clf.set_params(noise={"b": NOISE}).fit(X, y)


@pytest.mark.parametrize("how", ["copy", "shuffled", "half of it", "with others"])
def test_a_copy_of_private_rows_is_no_test(tmp_path, how):
    X, y = rows()
    frame, others = framed(X, y), framed(*rows(300, 5))
    file = described(tmp_path, frame)
    made = {"copy": frame, "shuffled": frame.sample(frac=1, random_state=0), "half of it": frame.iloc[::2]}
    made["with others"] = pd.concat([frame, others])
    made[how].to_csv(tmp_path / "test.csv", index=False)
    others.to_csv(tmp_path / "others.csv", index=False)
    ledger = uneven.Ledger(budget=1.0)
    for what in ("test", "validation"):
        with pytest.raises(ValueError, match=rf"{what} must be rows that are not learned from, got .*test.csv: \d+ of"):
            train_files(file, ledger=ledger, **{what: open_table(tmp_path / "test.csv")})
    assert ledger.sources() == {}
    assert train_files(file, ledger=ledger, test=open_table(tmp_path / "others.csv")).measures[-1].rows == 300


# Messages


def test_redacted_messages_tell_nothing_of_single_rows(tmp_path):
    X, y = rows()
    X[5] *= 1000
    longest = f"{np.linalg.norm(X[5]):.6g}"
    with pytest.warns(UserWarning, match=r"1 of 120 rows"):
        classifier().fit(X, y)
    with pytest.warns(UserWarning, match="^some rows"):
        classifier(redact=True).fit(X, y)
    for redact in (False, True):
        with pytest.raises(ValueError, match="row_norm must be at least") as caught:
            classifier(long_rows="refuse", redact=redact).fit(X, y)
        assert (longest in str(caught.value)) is not redact
    frame = framed(*rows()).astype({"b": object})
    frame.loc[17, "b"] = "secret"
    for head, told in (("", True), ("redact = true", False)):
        with pytest.raises(ValueError, match="column 'b' must hold") as caught:
            train_files(described(tmp_path, frame, head))
        assert ("secret" in str(caught.value)) is told
        assert ("17" in str(caught.value).replace(str(tmp_path), "")) is told
    ledger = uneven.Ledger(budget=1.0)
    ledger.charge("a", [41], 1.0)
    X, y = rows()
    with pytest.raises(uneven.BudgetExceeded, match=r"^rows of source 'data' would exceed the budget of 1; noth"):
        classifier(ledger=ledger, redact=True).fit(X, y, row_id=np.arange(120))


def test_redacted_messages_have_no_cells_names_or_ids():
    X, y = rows()
    words = X.astype(object)
    words[3, 1] = "HIV"
    sources = np.where(np.arange(120) == 7, "HIVclinic", "a")
    ids = np.where(np.arange(120) == 7, -1, np.arange(120) + 5000)
    ledger = uneven.Ledger(budget=9.0)
    for redact in (True, np.True_, 1):
        clf = classifier({"a": NOISE}, redact=redact)
        calls = [
            lambda clf=clf: clf.fit(words, y),
            lambda clf=clf: clf.fit(X, y, source=sources),
            lambda clf=clf: clf.fit(X, y, source=["a"] * 120, epsilon=["HIV"] * 120),
            lambda clf=clf: clf.set_params(ledger=ledger).fit(X, y, row_id=ids),
            lambda: uneven.UnevenClassifier(redact=True).fit(X, y).predict(words),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="must") as caught:
                call()
            assert not re.search(r"HIV|50\d\d", str(caught.value))
    with pytest.raises(ValueError, match="HIV"):
        classifier(redact=np.False_).fit(words, y)


def test_a_row_that_cannot_be_read_is_not_shown_where_redacted(tmp_path):
    frame = framed(*rows())
    for head, told in (("", True), ("redact = true", False)):
        described(tmp_path, frame, head)
        with (tmp_path / "clinic.csv").open("a") as file:
            file.write("0.1,0.2,0.3,0,SECRET,9\n")
        with pytest.raises(ValueError, match="cannot be read as CSV") as caught:
            train_files(read_sources(tmp_path / "sources.toml"))
        assert ("SECRET" in str(caught.value)) is told
    columns = "[columns]\na = { range = [-2, 2] }\nb = { range = [-2, 2] }\nc = { range = [-2, 2] }\n"
    frame = frame.astype({"b": object})
    frame.loc[17, "b"] = "SECRET"
    described(tmp_path, frame, "redact = true\n")
    text = (tmp_path / "sources.toml").read_text()
    (tmp_path / "sources.toml").write_text(text.replace("[[source]]", columns + "[[source]]"))
    with pytest.raises(ValueError, match="'b' must hold numbers") as caught:
        train_files(read_sources(tmp_path / "sources.toml"))
    assert not re.search("SECRET|17", str(caught.value).replace(str(tmp_path), ""))


def test_redaction_inside_redaction_stays():
    with redacted(), redacted(False):
        assert owner_only("detail") == ""
    assert owner_only("detail") == "detail"


# Planted, and not noticed at first


def test_partial_fit_without_a_seed_draws_from_no_fixed_one():
    X, y = rows()
    one, two = (classifier().partial_fit(X, y, row_id=np.arange(120)).coef_ for _ in range(2))
    assert (one != two).any()


def test_partial_fit_charges_before_the_release(monkeypatch):
    X, y = rows()
    ledger, seen = uneven.Ledger(budget=1.0), []

    def stop(*_, **__):
        seen.append(ledger.max_spent("data"))
        raise RuntimeError("power cut")

    monkeypatch.setattr(continuation, "advance", stop)
    clf = classifier(ledger=ledger)
    with pytest.raises(RuntimeError, match="power cut"):
        clf.partial_fit(X, y)
    assert seen == [1.0]
    with pytest.raises(uneven.BudgetExceeded):
        clf.partial_fit(X, y)
    assert seen == [1.0]


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_of_two_sources_with_the_same_epsilon_both_are_charged(method):
    X, y = rows()
    ledger = uneven.Ledger(budget=1.0)
    clf = classifier({"a": NOISE, "b": NOISE}, ledger=ledger)
    getattr(clf, method)(X, y, source=np.repeat(["a", "b"], 60))
    assert ledger.sources() == {"a": 60, "b": 60}
    assert clf.privacy_spent_ == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_budget_without_a_ledger_is_not_exceeded_by_one_percent(method):
    X, y = rows()
    with pytest.raises(ValueError, match="budget must be at least 1"):
        getattr(classifier(budget=0.995), method)(X, y, row_id=np.arange(120))
    clf = classifier(budget=1.99).fit(X, y)
    with pytest.raises(uneven.BudgetExceeded):
        clf.fit(X, y)
    getattr(classifier(budget=1.0), method)(X, y, row_id=np.arange(120))


# What copies, loads and other ledgers must not forget


def test_a_copied_model_charges_the_same_ledger():
    (X, y), ledger = rows(), uneven.Ledger(budget=1.0)
    clf = classifier(ledger=ledger).partial_fit(X[:30], y[:30])
    copy.deepcopy(clf).partial_fit(X[30:], y[30:])
    assert ledger.sources() == {"data": 120}
    with pytest.raises(uneven.BudgetExceeded):
        copy.deepcopy(clf).partial_fit(X[30:], y[30:])
    known = classifier(budget=1.0).partial_fit(X, y, row_id=np.arange(120))
    with pytest.raises(uneven.BudgetExceeded):
        copy.deepcopy(known).partial_fit(X, y, row_id=np.arange(120))  # its own ledger is copied with it


@pytest.mark.parametrize("first", ["ids", "public", "another ledger"])
def test_a_ledger_that_is_set_later_is_charged(first):
    (X, y), ledger, old = rows(), uneven.Ledger(budget=5.0), uneven.Ledger(budget=5.0)
    noise = {"public": uneven.Exact(), "a": NOISE}
    clf = classifier(noise, ledger=old if first == "another ledger" else None)
    name = "public" if first == "public" else "a"
    clf.partial_fit(X[:60], y[:60], source=[name] * 60, row_id=np.arange(60))
    clf.set_params(ledger=ledger).partial_fit(X[60:], y[60:], source=["a"] * 60, row_id=np.arange(60, 120))
    assert ledger.sources() == {"a": 60}
    assert old.sources() == ({"a": 60} if first == "another ledger" else {})
    assert clf.privacy_spent_ == {"a": 1.0 if first == "public" else 2.0}  # the new ledger does not know the old rows


def test_the_same_rows_under_changing_names_are_counted_without_a_ledger():
    X, y = rows()
    clf = classifier({"a": NOISE, "b": NOISE}, budget=2.0)
    for name in "ab":
        clf.fit(X, y, source=[name] * 120)
    assert clf.privacy_spent_ == {"a": 1.0, "b": 2.0}
    with pytest.raises(uneven.BudgetExceeded):
        clf.fit(X, y, source=["a"] * 120)


def test_a_loaded_model_goes_on_counting(tmp_path):
    X, y = rows()
    classifier(budget=1.5).fit(X, y).save(tmp_path / "model.json")
    again = uneven.UnevenClassifier.load(tmp_path / "model.json")
    with pytest.raises(uneven.BudgetExceeded):
        again.fit(X, y)
    assert again.set_params(budget=None).fit(X, y).privacy_spent_ == {"data": 2.0}
    classifier(random_state=0).fit(X, y).save(tmp_path / "model.json")
    seeded = uneven.UnevenClassifier.load(tmp_path / "model.json")
    assert seeded.fit(X, y).privacy_spent_ == {"data": math.inf}


def test_a_saved_model_tells_the_noise_that_it_was_made_with(tmp_path):
    X, y = rows()
    later = {"a": uneven.LocalPrivacy(0.01)}
    clf = classifier({"a": uneven.LocalPrivacy(5.0)}).fit(X, y)
    partial = classifier({"a": uneven.LocalPrivacy(5.0)}).partial_fit(X, y, row_id=np.arange(120))
    for one in (clf, partial):
        one.set_params(noise=later, alpha=7.0).save(tmp_path / "model.json")
        saved = json.loads((tmp_path / "model.json").read_text())
        assert saved["settings"]["noise"]["by source"]["a"]["epsilon"] == saved["privacy_spent"]["a"] == 5.0
        assert saved["settings"]["alpha"] == 0.01
    noise = {"a": uneven.LocalPrivacy(5.0)}
    clf = classifier(noise).fit(X, y)
    noise["a"] = uneven.LocalPrivacy(0.01)
    assert clf._model().noise["a"].epsilon == 5.0


def test_rows_without_ids_among_others_are_counted_as_unknown():
    X, y = rows()
    some = np.where(np.arange(120) < 60, np.arange(120), -1)
    for ids in (np.full(120, -1), some):
        assert classifier().fit(X, y, row_id=ids).privacy_spent_ == {"data": 1.0}
        with pytest.raises(ValueError, match="row_id must be given for partial_fit on private rows"):
            classifier().partial_fit(X, y, row_id=ids)
    ledger = uneven.Ledger(budget=1.0)
    classifier(ledger=ledger).fit(X, y, row_id=np.full(120, -1))
    assert ledger.sources() == {"data": 120}


def test_one_private_row_among_test_rows_is_refused(tmp_path):
    X, y = rows()
    file, others = described(tmp_path, framed(X, y)), framed(*rows(9, 5))
    pd.concat([others, framed(X, y).iloc[[7]]]).to_csv(tmp_path / "test.csv", index=False)
    for what in ("test", "validation"):
        with pytest.raises(ValueError, match=rf"{what} must be rows that are not .*test.csv: 1 of its 10 rows agree"):
            train_files(file, **{what: open_table(tmp_path / "test.csv")})
    assert train_files(file, seed=0, test=open_table(tmp_path / "test.csv")).measures[-1].rows == 10  # a simulation


def test_rows_that_agree_by_chance_are_not_refused(tmp_path):
    """In few columns some rows of a test file agree with private ones: up to a twentieth of them."""
    X, y = rows()
    file, others = described(tmp_path, framed(X, y)), framed(*rows(99, 5))
    pd.concat([others, framed(X, y).iloc[[7]]]).to_csv(tmp_path / "test.csv", index=False)
    assert train_files(file, test=open_table(tmp_path / "test.csv")).measures[-1].rows == 100


def test_the_classifier_refuses_private_rows_for_validation():
    (X, y), (V, v) = rows(), rows(12, 5)
    noise = {"a": uneven.LocalPrivacy(2.0), "b": NOISE}
    clf = classifier(noise, strategy="two-rates", line_search=2, budget=9.0)
    source = np.repeat(["a", "b"], 60)
    with pytest.raises(ValueError, match=r"validation must be rows that are not learned from, got 120 of its 120 rows"):
        clf.fit(X, y, source=source, validation=(X, y))
    with pytest.raises(ValueError, match="validation must be rows that are not learned from, got 1 of its 13 rows"):
        clf.fit(X, y, source=source, validation=(np.vstack([V, X[7]]), np.append(v, y[7])))
    assert not hasattr(clf, "privacy_spent_")
    clf.fit(X, y, source=source, validation=(V, v))


def test_no_single_private_row_decides_the_classes():
    X, _ = rows()
    ones = np.ones(120, dtype=int)
    for other in (1, 0, -1):  # neighbours of one another
        labels = np.append(ones[1:], other)
        with pytest.raises(ValueError, match="classes must be given where a source is private") as caught:
            classifier().fit(X, labels)
        told = str(caught.value)
        with pytest.raises(ValueError, match=re.escape(told)):
            classifier(ledger=uneven.Ledger(budget=1.0)).partial_fit(X, labels)
        assert classifier(classes=[-1, 1]).fit(X, np.append(ones[1:], -1)).classes_.tolist() == [-1, 1]
    assert classifier().fit(X, np.full(120, True)).classes_.tolist() == [False, True]  # their type says it


@pytest.mark.parametrize("ledger", [None, "held"])
def test_copies_of_a_private_row_are_noticed(ledger):
    (X, y), ledger = rows(), None if ledger is None else uneven.Ledger(budget=9.0)
    many, labels = np.tile(X, (5, 1)), np.tile(y, 5)
    with pytest.warns(uneven.CopiesWarning, match="^480 private rows are exact copies of others"):
        classifier(ledger=ledger).fit(many, labels)
    with pytest.warns(uneven.CopiesWarning, match="^some private rows are exact copies"):
        classifier(ledger=ledger, redact=True).fit(many, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier().fit(X, y)
        classifier().fit(many, labels, row_id=np.arange(600))  # their owner says that they are different ones
        classifier(uneven.Exact()).fit(many, labels)


def test_rows_that_tell_their_own_epsilon_are_not_measured_exactly(tmp_path):
    X, y = rows()
    described(tmp_path, framed(X, y).assign(e=np.repeat([1.0, 2.0], 60)))
    text = (tmp_path / "sources.toml").read_text()
    told = re.sub("noise = .*", 'epsilon = "e"', text)
    (tmp_path / "sources.toml").write_text(told)
    fit = train_files(read_sources(tmp_path / "sources.toml"))
    assert fit.measures == ()
    assert fit.trained.sample is None


def test_a_budget_counts_what_the_ledger_knows_and_what_it_does_not():
    (X, y), ledger = rows(), uneven.Ledger(budget=9.0)
    clf = classifier(budget=2.5).fit(X, y)
    classifier(ledger=ledger).fit(X, y)
    with pytest.raises(uneven.BudgetExceeded, match=r"the budget of 1\.5"):
        clf.set_params(ledger=ledger).fit(X, y)
    assert clf.set_params(budget=3.0).fit(X, y).privacy_spent_ == {"data": 3.0}


def test_a_refused_fit_spends_nothing_on_private_labels():
    """Labels are released first, so whatever is refused is refused before that."""
    X, y = rows()
    source = np.where(np.arange(len(y)) < 60, "labels", "rows")
    noise = {"labels": uneven.LabelPrivacy(1.0), "rows": uneven.LocalPrivacy(2.0)}
    for wrong in ({"long_rows": "refuse", "row_norm": 1e-3}, {"line_search": 2}, {"budget": 1.5}):
        ledger = uneven.Ledger(budget=9.0)
        made = uneven.UnevenClassifier(noise, **{"row_norm": 9.0, "ledger": ledger, **wrong})
        with pytest.raises(ValueError, match="must be"):
            made.fit(X, y, source=source)
        assert ledger.sources() == {}, wrong


@pytest.mark.parametrize("column", [0, 1, 2])
def test_rows_that_differ_in_one_column_are_no_copies(column):
    X = np.ones((60, 3)) / 3
    X[:, column] = np.linspace(0.1, 0.5, 60)
    model = uneven.UnevenClassifier(uneven.LocalPrivacy(1.0), row_norm=1.0, classes=[0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", uneven.CopiesWarning)
        model.fit(X, np.arange(60) % 2)


def test_chance_allows_a_few_standard_errors_of_agreement():
    """Half of the rows agree with another: of 10,000 others 5,000 do by chance, with an error of √(10,000·½·½) = 50."""
    hashes = Hashes(np.arange(3), np.array([2, 1, 1]))
    assert hashes.alike == 0.5
    assert hashes.most(10_000, 0.0) == pytest.approx(5_000 + ERRORS * 50)
