"""The ledger: no row is released beyond its budget, whoever charges at once and whoever dies on the way."""

import copy
import json
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import uneven
from uneven import BudgetExceeded, Ledger
from uneven.ledger import database, hash_rows

SCRIPT = Path(__file__).with_name("ledger_processes.py")
EPSILON = 0.1
ROUNDING = 1e-9  # of sums of at most a few hundred floats, and the tolerance that the ledger states
posix = pytest.mark.skipif(os.name != "posix", reason="forks, or sends SIGKILL")


@pytest.fixture(params=["memory", "file"])
def book(request, tmp_path):
    return Ledger(None if request.param == "memory" else tmp_path / "book.db")


def make(path, budget=None):
    """A ledger whose file is there already, without a charge."""
    ledger = Ledger(path, budget=budget)
    ledger.make()
    return ledger


def start(*arguments):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # threads do not survive a fork
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def output(*arguments):
    with start(*arguments) as process:
        try:
            return process.communicate(timeout=120)[0]
        finally:
            process.kill()


def assert_sound(path):
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)


# What a charge is


def test_charges_add_up_by_row_and_by_source(book):
    book.charge("a", [5, 0, 3], 1.0)
    book.charge("a", np.array([3], dtype=np.uint8), 0.5)
    book.charge("b", range(10, 12), 2.0)
    assert book.spent("a") == {0: 1.0, 3: 1.5, 5: 1.0}
    assert book.spent("b") == {10: 2.0, 11: 2.0}
    assert book.spent("c") == {}
    assert (book.max_spent("a"), book.max_spent("b"), book.max_spent("c")) == (1.5, 2.0, 0.0)
    assert book.sources() == {"a": 3, "b": 2}


def test_two_passes_cost_two_epsilon(book):
    for _ in range(2):
        book.charge("a", range(10), 1.5, budget=3.0)
    assert set(book.spent("a").values()) == {3.0}
    with pytest.raises(BudgetExceeded):
        book.charge("a", range(10), 1.5, budget=3.0)


def test_all_or_nothing(book):
    book.charge("clinic", [7, 9], 1.5, budget=2.0)
    with pytest.raises(BudgetExceeded) as caught:
        book.charge("clinic", [1, 7, 8, 9], 1.0, budget=2.0)
    assert str(caught.value) == (
        "2 of 4 rows of source 'clinic' would exceed the budget of 2: "
        "row 7 has spent 1.5 and needs 1; nothing was charged"
    )
    with pytest.raises(BudgetExceeded, match="1 of 1 rows of source 'new' would exceed the budget of 2: row 0 has sp"):
        book.charge("new", [0], 3.0, budget=2.0)
    assert book.spent("clinic") == {7: 1.5, 9: 1.5}
    assert book.sources() == {"clinic": 2}
    book.charge("clinic", [1, 8], 1.0, budget=2.0)


def test_every_row_its_own_epsilon(book):
    book.charge("a", [4, 2, 3], [0.4, 0.2, 0.3])
    assert book.spent("a") == {2: 0.2, 3: 0.3, 4: 0.4}
    with pytest.raises(BudgetExceeded, match=r"1 of 2 rows .* row 2 has spent 0.2 and needs 0.9"):
        book.charge("a", [4, 2], [0.1, 0.9], budget=1.0)


def test_what_is_refused_was_beyond_the_budget_and_not_a_matter_of_rounding(book):
    for _ in range(10):
        book.charge("a", [0], 0.1, budget=1.0)  # in floats they sum to 0.9999999999999999
    for _ in range(3):
        book.charge("b", [1], 0.1, budget=0.3)  # and these to 0.30000000000000004
    for source, row, budget in [("a", 0, 1.0), ("b", 1, 0.3)]:
        with pytest.raises(BudgetExceeded):
            book.charge(source, [row], 0.1, budget=budget)
        with pytest.raises(BudgetExceeded):
            book.charge(source, [row], 1e-6, budget=budget)


@pytest.mark.parametrize(("own", "given"), [(1.0, None), (1.0, 5.0), (5.0, 1.0), (None, 1.0)])
def test_the_stricter_budget_counts(tmp_path, own, given):
    for path in (None, tmp_path / "book.db"):
        book = Ledger(path, budget=own)
        book.charge("a", [0], 0.75, given)
        np.testing.assert_array_equal(book.remaining([1, 0], given), [1.0, 0.25])
        with pytest.raises(BudgetExceeded, match="the budget of 1:"):
            book.charge("a", [0], 0.5, given)


def test_remaining_is_never_negative_and_infinite_without_a_budget(book):
    book.charge("a", [0], 2.0)
    np.testing.assert_array_equal(book.remaining([0, 1], budget=1.0), [0.0, 1.0])
    np.testing.assert_array_equal(book.remaining([0, 1]), [np.inf, np.inf])


charges = st.tuples(
    st.sampled_from(["a", "b"]),
    st.lists(st.integers(0, 5), min_size=1, unique=True),
    st.sampled_from([0.1, 0.3, 1.0]),
    st.sampled_from([None, 0.3, 1.0, 2.0]),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(charges, max_size=15))
def test_memory_and_file_agree_with_a_dictionary(sequence):
    truth, names = {}, {"a": set(), "b": set()}
    with tempfile.TemporaryDirectory() as folder:
        books = [Ledger(), Ledger(Path(folder) / "book.db")]
        for source, rows, epsilon, budget in sequence:
            after = {row: truth.get(row, 0.0) + epsilon for row in rows}
            fits = budget is None or max(after.values()) <= budget * (1 + 1e-9)
            if fits:
                truth |= after
                names[source] |= set(rows)
            for book in books:
                if fits:
                    book.charge(source, rows, epsilon, budget)
                else:
                    with pytest.raises(BudgetExceeded):
                        book.charge(source, rows, epsilon, budget)
        for book in books:
            for source, rows in names.items():  # sums in another order, so in floats not the very same
                assert book.spent(source) == pytest.approx({row: truth[row] for row in rows}, rel=ROUNDING)
            assert book.sources() == {source: len(rows) for source, rows in names.items() if rows}


@pytest.mark.slow
def test_half_a_million_rows(book):
    rows = np.random.default_rng(0).permutation(500_000)
    for _ in range(2):
        book.charge("a", rows, 1.0, budget=2.0)
    assert book.sources() == {"a": 500_000}
    with pytest.raises(BudgetExceeded, match="500,000 of 500,001 rows"):
        book.charge("a", range(500_001), 1.0, budget=2.0)
    assert book.max_spent("a") == 2.0


def test_threads_share_a_ledger(book):
    released, lock = Counter(), threading.Lock()

    def work():
        for row in [*range(20)] * 3:
            try:
                book.charge("a", [row], EPSILON, budget=5 * EPSILON)
            except BudgetExceeded:
                continue
            with lock:
                released[row] += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert book.spent("a") == pytest.approx(dict.fromkeys(range(20), 5 * EPSILON))
    assert released == dict.fromkeys(range(20), 5)


# A new ledger comes into being with its first change


def refused(ledger):
    with pytest.raises(BudgetExceeded):
        ledger.charge("a", [0], 4.0)


def test_a_refused_charge_leaves_no_file(tmp_path):
    """Nor a budget: a run that was refused can be run again with another."""
    path = tmp_path / "book.db"
    book = Ledger(path, budget=2.0)
    for look in (book.sources, book.entries, book.summary, book.check, lambda: book.claimed("x")):
        assert not look()
    assert (book.max_spent("a"), book.remaining([3]).tolist(), book.budget) == (0.0, [2.0], 2.0)
    refused(book)
    assert not list(tmp_path.iterdir())
    Ledger(path, budget=5.0).charge("a", [0], 4.0)
    assert Ledger(path).stored_budget == 5.0
    assert [file.name for file in tmp_path.iterdir()] == ["book.db"]
    assert_sound(path)


@pytest.mark.parametrize("change", [lambda book: book.claim("x"), pickle.dumps, lambda book: book.lower_budget(1.0)])
def test_other_changes_make_the_file_too(tmp_path, change):
    """A claim is a reservation; and a copy elsewhere must know rows by the same key."""
    change(Ledger(tmp_path / "book.db", budget=2.0))
    assert Ledger(tmp_path / "book.db").budget in (1.0, 2.0)


def test_a_ledger_in_which_nothing_is_charged_takes_a_new_budget(tmp_path):
    """The first charge writes it, so that a refused one changes nothing; and what was lowered meanwhile stays."""
    path = tmp_path / "book.db"
    make(path, 2.0)
    before = path.read_bytes()
    refused(Ledger(path, budget=3.0))
    assert path.read_bytes() == before
    early = Ledger(path, budget=6.0)
    Ledger(path).lower_budget(1.0)
    refused(early)
    Ledger(path, budget=5.0).charge("a", [0], 4.0)
    assert Ledger(path).stored_budget == 5.0
    with pytest.raises(ValueError, match=r"budget must be at most 5, which the ledger .* was made with, got 6"):
        Ledger(path, budget=6.0)


def test_a_lowered_budget_is_not_raised_by_the_first_charge(book):
    book.lower_budget(2.0)
    refused(book)
    assert book.stored_budget == 2.0


def test_a_refusal_says_which_of_two_budgets_counts(tmp_path):
    book = Ledger(tmp_path / "z.db", budget=2.0)
    book.charge("a", book.fingerprint(np.eye(2)), 1.0)
    rows, reason = book.fingerprint(np.eye(2)), "2 of 2 rows of source 'b' would exceed the budget of "
    one = ": one row (identified by content) has spent 1 and needs 4"
    for own, whose in (
        (None, "2{}, but z.db has a budget of 2"),
        (
            5.0,
            "2{}, but z.db allows 2 a row, stated when it was made; a budget of 5 cannot raise it: use less epsilon, "
            "or other rows",
        ),
        (1.5, "1.5{}"),
    ):
        with pytest.raises(BudgetExceeded) as caught:
            book.charge("b", rows, 4.0, own)
        assert str(caught.value) == f"{reason}{whose.format(one)}; nothing was charged"


def test_two_new_ledgers_of_one_file(tmp_path):
    """Whoever is second goes on with the key and the budget of the first, or is refused if it has used its own key."""
    path, X = tmp_path / "book.db", np.eye(3)
    first, second, third = (Ledger(path, budget=budget) for budget in (2.0, 5.0, 9.0))
    early = third.fingerprint(X)
    first.charge("a", first.fingerprint(X), 1.0)
    assert second.spent_by(second.fingerprint(X)).tolist() == [1.0] * 3
    with pytest.raises(BudgetExceeded, match="would exceed the budget of 2"):
        second.charge("b", second.fingerprint(X), 1.5)
    for rows in (early, third.fingerprint(X)):
        with pytest.raises(ValueError, match=r"ledger '.*book.db' must be opened again: another process has made it"):
            third.charge("b", rows, 0.5)
    assert first.sources() == {"a": 3}
    other = tmp_path / "ids.db"
    first, second = Ledger(other), Ledger(other)
    assert first.key != second.key
    first.charge("a", [1], 1.0)
    second.charge("b", [1], 1.0)  # a row known by its id is the same under any key
    assert Ledger(other).spent("a") == {1: 2.0}


@posix
def test_a_place_where_nothing_can_be_written_is_refused_when_a_ledger_is_opened():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "book.db"
        path.parent.chmod(0o555)
        said = output("powerless", path)
        path.parent.chmod(0o755)
        assert said.startswith(f"OSError ledger {str(path)!r} must be a file in a folder, both writable; got: ")
        assert not list(path.parent.iterdir())


@posix
def test_a_first_charge_is_on_the_disk_before_it_returns(tmp_path, monkeypatch):
    """The file, and then its name: else a cut of the power could take a ledger away whose rows were released."""
    seen, link, fsync = [], os.link, os.fsync
    monkeypatch.setattr(os, "link", lambda *paths: (seen.append("link"), link(*paths)))
    monkeypatch.setattr(
        os, "fsync", lambda file: (seen.append(os.path.samestat(os.fstat(file), tmp_path.stat())), fsync(file))
    )
    Ledger(tmp_path / "book.db").charge("a", [1], 1.0)
    assert seen == ["link", True]
    with closing(sqlite3.connect(f"{(tmp_path / 'book.db').as_uri()}?immutable=1", uri=True)) as file:  # without a log
        assert file.execute("SELECT count(*) FROM spent").fetchone() == (1,)


# A ledger is not copied


def test_a_copy_is_the_ledger_itself(book):
    assert copy.copy(book) is book
    assert copy.deepcopy({"ledger": book})["ledger"] is book
    assert clone(book, safe=False) is book


def test_a_ledger_in_memory_is_not_pickled():
    with pytest.raises(TypeError, match="a ledger in memory cannot be pickled: a copy could spend rows twice; use"):
        pickle.dumps(Ledger())


def test_a_pickled_ledger_is_the_same_file_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    book = Ledger("book.db", budget=1.0)
    book.charge("a", [0], 1.0)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = pickle.loads(pickle.dumps(book))
    assert repr(again) == repr(book) == f"Ledger({str(tmp_path / 'book.db')!r}, budget=1.0)"
    for either in (book, again):
        with pytest.raises(BudgetExceeded):
            either.charge("a", [0], 0.5)


def test_unpickling_does_not_make_a_new_ledger(tmp_path):
    pickled = pickle.dumps(Ledger(tmp_path / "book.db"))
    (tmp_path / "book.db").unlink()
    with pytest.raises(FileNotFoundError, match=r"ledger '.*book.db' must be there to be used again"):
        pickle.loads(pickled)
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_open(tmp_path):
    book = Ledger(tmp_path / "book.db")
    book.charge("a", [0], 1.0)
    assert [file.name for file in tmp_path.iterdir()] == ["book.db"]  # the log is folded in by the last to leave
    assert_sound(tmp_path / "book.db")


def test_a_charge_is_on_the_disk_before_it_returns(tmp_path):
    """Only cutting the power could show it, so this looks at the setting: 2 is FULL."""
    with database.connect(make(tmp_path / "book.db").path) as file:
        assert file.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_ledger_is_read_again(tmp_path):
    Ledger(tmp_path / "a ledger? 100%#.db").charge("ä", [2**63 - 1], 1.0)
    assert Ledger(str(tmp_path / "a ledger? 100%#.db")).spent("ä") == {2**63 - 1: 1.0}


@posix
def test_forks(tmp_path):
    """A fork waits for a charge of another thread; and a fork of a ledger in memory is refused."""
    agreed, refusal = output("forks", tmp_path / "book.db").splitlines()
    assert agreed == "True"
    assert refusal.startswith("ValueError a ledger in memory must stay in its process")
    book = Ledger(tmp_path / "book.db")
    assert book.spent("children") == dict.fromkeys(range(1, 11), EPSILON)
    assert book.max_spent("parent") > 0
    assert_sound(tmp_path / "book.db")


# Bad input


CASES = {
    "no rows": (([], 1.0), "rows must be a list of non-negative whole numbers, got []"),
    "negative row": (([3, -1], 1.0), "rows must be a list of non-negative whole numbers, got [3, -1]"),
    "half a row": (([0.5], 1.0), "rows must be a list of non-negative whole numbers, got [0.5]"),
    "floats": (([1.0], 1.0), "rows must be a list of non-negative whole numbers, got [1.0]"),
    "a mask": (([True, False], 1.0), "rows must be a list of non-negative whole numbers, got [True, False]"),
    "text": ((["a"], 1.0), "rows must be a list of non-negative whole numbers, got ['a']"),
    "one number": ((3, 1.0), "rows must be a list of non-negative whole numbers, got 3"),
    "a set": (({3}, 1.0), "rows must be a list of non-negative whole numbers, got {3}"),
    "a table": (([[1, 2]], 1.0), "rows must be a list of non-negative whole numbers, got [[1, 2]]"),
    "a ragged table": (([[1], [1, 2]], 1.0), "rows must be a list of non-negative whole numbers, got [[1], [1, 2]]"),
    "too large": (([2**63], 1.0), "rows must be a list of non-negative whole numbers, got [9223372036854775808]"),
    "far too large": (([2**70], 1.0), "rows must be a list of non-negative whole numbers, got [11805"),
    "twice": (([4, 7, 1, 7], 1.0), "rows must be distinct, got 7 more than once"),
    "epsilon zero": (([0], 0), "epsilon must be a positive finite number, got 0"),
    "epsilon nan": (([0], np.nan), "epsilon must be a positive finite number, got nan"),
    "epsilon lost in a sum": (([0], 1e-17), "epsilon must be between 1e-06 and 1e+06, got 1e-17"),
    "epsilon text": (([0], "1"), "epsilon must be a positive finite number, got '1'"),
    "too few epsilons": (([0, 1], [1.0]), "epsilon must be a number or one for each of 2 rows, got [1.0]"),
    "one epsilon nan": (([0, 1], [1.0, np.nan]), "epsilon must be a positive finite number, got nan"),
    "one epsilon negative": (([0, 1], [1.0, -1]), "epsilon must be a positive finite number, got -1"),
    "budget": (([0], 1.0, -1), "budget must be a positive finite number, got -1"),
}


@pytest.mark.parametrize(("arguments", "message"), CASES.values(), ids=CASES)
def test_bad_charges(book, arguments, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is checked in full below)
        book.charge("a", *arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert book.sources() == {}


def test_bad_names(book):
    for call in (lambda: book.charge("", [0], 1.0), lambda: book.spent(None), lambda: book.max_spent(3)):
        with pytest.raises(ValueError, match="source must be a non-empty string"):
            call()


def sqlite_file(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        for statement in statements:
            file.execute(statement)


def half_a_ledger(path):
    Ledger(path).charge("a", range(50_000), 1.0)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


FILES = {
    "text": (
        lambda path: path.write_text("row,epsilon\n" * 100),
        "path must be a ledger or a new file, got {}: file is",
    ),
    "something else": (
        lambda path: sqlite_file(path, "CREATE TABLE t (x)"),
        "got {}, an SQLite file of something else",
    ),
    "newer": (
        lambda path: (make(path), sqlite_file(path, "PRAGMA user_version = 3")),
        "path must be a ledger of format 2, got {} of format 3",
    ),
    "cut short": (half_a_ledger, "path must be a ledger or a new file, got {}: database disk image is malformed"),
}


@pytest.mark.parametrize(("make", "message"), FILES.values(), ids=FILES)
def test_bad_files_are_named_and_left_alone(tmp_path, make, message):
    path = tmp_path / "file.db"
    make(path)
    before = path.read_bytes()
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is checked in full below)
        Ledger(path).charge("a", range(50_000), 1.0)
    assert message.format(repr(str(path))) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["file.db"]


def test_paths_that_cannot_hold_a_ledger(tmp_path):
    with pytest.raises(ValueError, match=f"path must be a ledger or a new file, got '{tmp_path}', which is not a file"):
        Ledger(str(tmp_path))
    with pytest.raises(ValueError, match="path must be a file name or None, got 3"):
        Ledger(3)
    with pytest.raises(
        OSError, match=r"ledger '.*book.db' must be a file in a folder, both writable; got: No such file or dir"
    ):
        Ledger(tmp_path / "no folder" / "book.db")
    assert not list(tmp_path.iterdir())


def test_a_file_of_0_bytes_is_refused(tmp_path):
    """A ledger that was cut to nothing must not begin again at zero."""
    (tmp_path / "book.db").touch()
    with pytest.raises(ValueError, match=r"path must be a ledger or a new file, got '.*book.db', a file of 0 bytes"):
        Ledger(tmp_path / "book.db")
    assert (tmp_path / "book.db").read_bytes() == b""


def test_a_ledger_that_was_removed_is_not_begun_again(tmp_path):
    book = make(tmp_path / "book.db")
    (tmp_path / "book.db").unlink()
    with pytest.raises(OSError, match=r"ledger '.*book.db' must be a file"):
        book.charge("a", [0], 1.0)
    assert not list(tmp_path.iterdir())


@posix
def test_a_file_that_may_only_be_read():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "book.db"
        Ledger(path).charge("a", [0], 1.0)
        before = path.read_bytes()
        path.chmod(0o444)
        path.parent.chmod(0o555)
        said = output("powerless", path)
        path.parent.chmod(0o755)
        assert said.startswith(f"OSError ledger {str(path)!r} must be a file in a folder, both writable; got: ")
        assert said.count("\n") == 1
        assert path.read_bytes() == before


def test_waiting_for_another_process_ends(tmp_path, monkeypatch):
    book = make(tmp_path / "book.db")
    monkeypatch.setattr(database, "PATIENCE", 0.01)
    with closing(sqlite3.connect(tmp_path / "book.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(TimeoutError, match=r"ledger '.*book.db' is held by another process: waited 0.01 s"):
            book.charge("a", [0], 1.0)
        assert book.spent("a") == {}  # readers do not wait
    book.charge("a", [0], 1.0)


# Several processes, and processes that die


def test_nobody_else_can_charge_from_the_first_look_to_the_last_word(tmp_path, monkeypatch):
    """Before each statement of a charge, a rival tries to get in: races rarely hit so small a gap."""
    book, connect, seen = make(tmp_path / "book.db"), sqlite3.connect, []

    with closing(connect(tmp_path / "book.db", timeout=0, isolation_level=None)) as rival:

        def attempt(statement):
            try:
                rival.execute("BEGIN IMMEDIATE")
                rival.execute("ROLLBACK")
                seen.append((statement, "got in"))
            except sqlite3.OperationalError:
                seen.append((statement, "locked out"))

        def watched(*arguments, **options):
            connection = connect(*arguments, **options)
            connection.set_trace_callback(attempt)
            return connection

        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "connect", watched)
            book.charge("a", [0], 1.0, budget=1.0)

    looks = [i for i, (statement, _) in enumerate(seen) if "spent" in statement]
    assert len(looks) == 2  # the check and the charge
    assert {fate for _, fate in seen[looks[0] : looks[-1] + 1]} == {"locked out"}
    assert seen[-2:] == [("COMMIT", "locked out"), ("PRAGMA wal_checkpoint(PASSIVE)", "got in")]
    assert seen[0][1] == "got in"


@pytest.mark.parametrize("where", ["memory", "file"])
def test_several_sources_are_charged_together_or_not_at_all(where, tmp_path):
    book = Ledger(None if where == "memory" else tmp_path / "book.db", budget=1.0)
    book.charge("b", [11], 0.5)
    before = {source: book.spent(source) for source in ("a", "b", "c")}
    with pytest.raises(
        BudgetExceeded, match=r"1 of 2 rows of source 'b' would exceed the budget of 1: row 11 has spent"
    ):
        book.charge_all([("a", [0, 1], 1.0), ("b", [10, 11], [1.0, 0.75]), ("c", [20], 1.0)])
    with pytest.raises(ValueError, match="epsilon must be"):
        book.charge_all([("a", [0, 1], 1.0), ("b", [0], -1.0)])
    with pytest.raises(ValueError, match=r"charges must name each source once, got \['a', 'a'\]"):
        book.charge_all([("a", [0], 1.0), ("a", [0], 1.0)])
    assert {source: book.spent(source) for source in before} == before
    assert book.sources() == {"b": 1}
    book.charge_all([("a", [0, 1], 1.0), ("b", [10, 11], [1.0, 0.5])])
    assert (book.spent("a"), book.spent("b")) == ({0: 1.0, 1: 1.0}, {10: 1.0, 11: 1.0})
    with pytest.raises(BudgetExceeded, match=r"1 of 1 rows of source 'd' .* row 30 has spent 0 and needs 1.5"):
        book.charge_all([("d", [30], 0.75), ("e", [30], 0.75)])  # one row under two names is one row


def test_several_sources_are_one_transaction(tmp_path, monkeypatch):
    """One BEGIN, one COMMIT: no moment at which another process could see one source charged and not the other."""
    statements, real = [], sqlite3.connect

    def watched(*args, **kwargs):
        connection = real(*args, **kwargs)
        connection.set_trace_callback(statements.append)
        return connection

    book = make(tmp_path / "book.db")
    monkeypatch.setattr(sqlite3, "connect", watched)
    book.charge_all([(source, [0], 1.0) for source in "abc"])
    ends = [one for one in statements if one.split()[0] in ("BEGIN", "COMMIT", "ROLLBACK")]
    assert ends == ["BEGIN IMMEDIATE", "COMMIT"]
    assert sum("INSERT INTO spent" in one for one in statements) == 1


@pytest.mark.slow
@posix
def test_processes_at_once_never_exceed_a_budget(tmp_path):
    path = tmp_path / "book.db"
    processes = [start("contest", path, tmp_path, seed, 700) for seed in range(3)]
    try:
        assert [process.stdout.readline() for process in processes] == ["ready\n"] * 3
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [process.wait(timeout=120) for process in processes] == [0] * 3
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    files = list(tmp_path.glob("released-*"))
    assert len(files) == 6
    released = Counter(int(row) for file in files for row in file.read_text().split())
    assert max(released.values()) == 2
    spent = Ledger(path).spent("site")
    assert spent == pytest.approx({row: EPSILON * count for row, count in released.items()}, rel=ROUNDING)
    assert_sound(path)
    for i in range(40):
        assert Ledger(tmp_path / f"new-{i}.db").spent("site") == {i: pytest.approx(6 * EPSILON)}
        assert_sound(tmp_path / f"new-{i}.db")


@pytest.mark.slow
@posix
def test_a_thousand_kills_and_copies_at_random_moments(tmp_path):
    """Six writers at once: noted ≤ spent ≤ budget for every row, after 1,000 kills and in each of 40 copies."""
    place = ["/dev/shm"] if os.access("/dev/shm", os.W_OK) else [str(tmp_path)]  # a kill loses nothing that a disk has
    command = [sys.executable, str(SCRIPT.with_name("ledger_torture.py")), "1000", *place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["kills"], facts["copies"]) == (1000, 40)
    assert facts["released"] > 1000
    assert facts["in vain"] > 0  # some kills landed between the charge and the release


def test_the_public_names():
    assert uneven.Ledger is Ledger
    assert issubclass(BudgetExceeded, ValueError)


@pytest.mark.parametrize("kept", [False, True])
def test_a_claim_is_charged_once(tmp_path, kept):
    """A refused claim is not written down; one that was charged is not charged again, in another process either."""
    path = tmp_path / "book.db" if kept else None
    ledger = Ledger(path, budget=1.0)
    with pytest.raises(BudgetExceeded):
        ledger.charge_all([("site", [1], 2.0)], claim="job/0")
    assert not ledger.claimed("job/0")
    assert ledger.charge_all([("site", [1, 2], 1.0)], claim="job/0")
    again = Ledger(path) if kept else ledger
    assert not again.charge_all([("site", [1, 2], 1.0)], claim="job/0")
    assert again.claimed("job/0")
    assert not again.claimed("job/1")
    assert again.spent("site") == {1: 1.0, 2: 1.0}


# A budget is lowered, never raised


def test_a_lower_budget_binds_every_process_from_its_next_charge_on(tmp_path):
    """A ledger that was opened before the budget was lowered obeys the lower one too."""
    before = Ledger(tmp_path / "book.db", budget=4.0)
    before.charge("clinic", [1], 1.0)
    Ledger(tmp_path / "book.db").lower_budget(2.0)
    with pytest.raises(BudgetExceeded):
        before.charge("clinic", [1], 1.5)
    before.charge("clinic", [1], 1.0)
    assert (before.max_spent("clinic"), Ledger(tmp_path / "book.db").budget) == (2.0, 2.0)


def test_a_budget_is_not_raised_nor_set_below_what_is_spent(book):
    book.charge("clinic", [1], 1.5)
    with pytest.raises(ValueError, match=r"at least what rows have spent, 1\.5 at most, got 1$"):
        book.lower_budget(1.0)
    book.lower_budget(2.0)
    with pytest.raises(ValueError, match="at most 2, the ledger's, got 3: a ledger's budget can only be lowered"):
        book.lower_budget(3.0)
    with pytest.raises(BudgetExceeded):
        book.charge("clinic", [1], 0.75)
    for wrong in (0.0, -1.0, float("nan"), "2"):
        with pytest.raises(ValueError, match="budget must be"):
            book.lower_budget(wrong)
    assert (book.stored_budget, book.check()) == (2.0, [])


# The same row by other columns


def test_rows_known_by_other_columns_are_refused(book):
    """A table without its names, or with renamed columns, would be other rows: ids tell them, content cannot."""
    X = np.random.default_rng(0).normal(size=(4, 3))
    book.charge("clinic", book.fingerprint(X, ["c", "b", "a"]), 1.0)
    book.charge("clinic", book.fingerprint(X[:, ::-1], ["a", "b", "c"]), 1.0)
    assert set(book.spent("clinic").values()) == {2.0}
    for other in (book.fingerprint(X), book.fingerprint(X, ["c", "b", "age"])):
        with pytest.raises(ValueError, match="by the content of the same columns each time, 'a', 'b', 'c', as its"):
            book.charge("clinic", other, 1.0)
    assert set(book.spent("clinic").values()) == {2.0}


def test_a_frame_and_its_values_are_not_two_tables():
    """The classifier has column names from a frame and none from an array."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    y, ledger = (X[:, 0] > 0).astype(int), Ledger(budget=1.0)
    private = uneven.UnevenClassifier(uneven.LocalPrivacy(1.0), row_norm=9.0, ledger=ledger)
    clone(private).set_params(ledger=ledger).fit(pd.DataFrame(X, columns=["c", "b", "a"]), y)
    with pytest.raises(ValueError, match="got 3 without names: a row would count as two"):
        clone(private).set_params(ledger=ledger).fit(X, y)


def test_a_second_name_of_the_file_is_refused(tmp_path):
    book = make(tmp_path / "book.db", budget=1.0)
    os.link(tmp_path / "book.db", tmp_path / "other.db")
    for use in (lambda: book.charge("a", [1], 1.0), lambda: Ledger(tmp_path / "other.db")):
        with pytest.raises(ValueError, match=r"path must be a ledger with one name, got .* which hard links name too"):
            use()
    (tmp_path / "other.db").unlink()
    os.link(tmp_path / "book.db", tmp_path / ".book.db.made")  # left by a process that was killed as it made the file
    book.charge("a", [1], 1.0)
    assert not (tmp_path / ".book.db.made").exists()


def test_a_charge_is_in_the_file_itself_while_others_have_it_open(tmp_path):
    book = make(tmp_path / "book.db", budget=1.0)
    other = sqlite3.connect(tmp_path / "book.db")
    other.execute("SELECT * FROM source").fetchall()
    book.charge("a", [1, 2], 1.0)
    shutil.copy(tmp_path / "book.db", tmp_path / "moved.db")  # without its log
    other.close()
    assert Ledger(tmp_path / "moved.db").sources() == {"a": 2}


def test_the_digest_tells_how_often_and_for_which_release_rows_were_charged():
    once, twice, claimed = (Ledger(budget=2.0) for _ in range(3))
    once.charge("a", [1], 1.0)
    for _ in range(2):
        twice.charge("a", [1], 0.5)
    claimed.charge_all([("a", [1], 1.0)], claim="release 1")
    assert once.entries() == twice.entries() == claimed.entries()
    assert len({one.digest() for one in (once, twice, claimed)}) == 3


def test_rows_known_by_ids_are_not_taken_for_rows_known_by_content():
    book, X = Ledger(budget=1.0), np.eye(3)
    book.charge("a", [1, 2, 3], 1.0)
    with pytest.raises(ValueError, match="rows of a ledger must all be known by ids, as its first were"):
        book.charge("a", book.fingerprint(X), 1.0)
    other = Ledger(budget=1.0)
    other.charge("a", other.fingerprint(X), 1.0)
    with pytest.raises(ValueError, match="must all be known by content"):
        other.charge("a", [1, 2, 3], 1.0)


def test_summary_leaves_what_the_row_that_spent_most_has_left():
    ledger = Ledger(budget=2.0)
    ledger.charge("clinic", [1, 2], 0.5)
    ledger.charge("clinic", [1], 1.0)
    (one,) = ledger.summary()
    assert (one.most, one.left) == (1.5, 0.5)


def test_a_sparse_row_has_the_fingerprint_of_the_dense_row_it_stands_for():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((40, 30)) < 0.2, rng.normal(size=(40, 30)), 0.0)
    X[3, 4], X[5, 6] = -1e-60, -0.0  # both are 0 when rounded to float32, and have a sign
    doubled = sparse.csr_array((np.array([1.0, 2.0]), np.array([7, 7]), np.array([0, 2])), shape=(1, 30))
    names = [f"x{j}" for j in range(30)]
    for order in (None, names):
        expected = hash_rows(b"key", X, order)
        np.testing.assert_array_equal(hash_rows(b"key", sparse.csr_array(X), order), expected)
        np.testing.assert_array_equal(hash_rows(b"key", sparse.coo_array(X), order), expected)
        assert hash_rows(b"key", doubled, order) == hash_rows(b"key", doubled.toarray(), order)
    assert doubled.nnz == 2
