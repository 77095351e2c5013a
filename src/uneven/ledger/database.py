"""The SQLite file of a ledger: how it is made, opened and charged."""

from __future__ import annotations

import errno
import math
import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from uneven.ledger.fingerprints import CELLS, KEY_BYTES
from uneven.redaction import owner_only

APPLICATION, FORMAT = 0x756E6576, 2  # in the header of every ledger file; "unev"
TOLERANCE = 1e-9  # relative: ten charges of 0.1 are within a budget of 1
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR)  # a table or column that is not there is damage too
BROKEN_DISK = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_IOERR: errno.EIO}  # what SQLite says, as the system
PATIENCE = 60.0  # seconds to wait for another process to finish its charge

SCHEMA = (
    "CREATE TABLE fact (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE source (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, charges INTEGER NOT NULL, last TEXT)",
    "CREATE TABLE spent (row INTEGER NOT NULL, source INTEGER NOT NULL, epsilon REAL NOT NULL CHECK (epsilon > 0), "
    "PRIMARY KEY (row, source)) WITHOUT ROWID",
    "CREATE TABLE claim (name TEXT PRIMARY KEY) WITHOUT ROWID",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)
ASKED = "CREATE TEMP TABLE asked (row INTEGER, source INTEGER, epsilon REAL, PRIMARY KEY (row, source)) WITHOUT ROWID"
REFUSED = """
    SELECT count(*) OVER (), row, already, more FROM (
        SELECT mine.row, (SELECT sum(epsilon) FROM asked WHERE asked.row = mine.row) AS more,
            coalesce((SELECT sum(epsilon) FROM spent WHERE spent.row = mine.row), 0.0) AS already
        FROM asked AS mine WHERE mine.source = :source)
    WHERE already + more > :limit ORDER BY already DESC, row LIMIT 1
"""
CHARGE = """
    INSERT INTO spent SELECT row, source, epsilon FROM asked WHERE true
    ON CONFLICT DO UPDATE SET epsilon = epsilon + excluded.epsilon
"""
NAMED = """
    INSERT INTO source (name, charges, last) VALUES (:name, 1, :now)
    ON CONFLICT DO UPDATE SET charges = charges + 1, last = max(last, excluded.last) RETURNING id
"""
TOTALS = """
    SELECT row, (SELECT sum(epsilon) FROM spent AS every WHERE every.row = spent.row) AS total
    FROM spent WHERE source = (SELECT id FROM source WHERE name = ?)
"""
TOTALS_OF = "SELECT (SELECT total(epsilon) FROM spent WHERE row = value) FROM json_each(?) ORDER BY key"
HELD = (
    "SELECT name, row, epsilon FROM spent JOIN source ON id = source ORDER BY name, row",
    "SELECT name, charges FROM source ORDER BY name",
    "SELECT name FROM claim ORDER BY name",
)
"""What a digest covers."""
MOST_SPENT = f"SELECT coalesce(max(total), 0.0) FROM ({TOTALS})"
COUNTS = "SELECT name, (SELECT count(*) FROM spent WHERE source = id) FROM source ORDER BY id"

EARLIER = (
    "; the same table, known by its features before it was described or by an earlier version, goes on in a new ledger "
    "whose budget is what is left in this one"
)

Found = TypeVar("Found")
Charge = tuple[str, NDArray[np.int64], NDArray[np.float64]]

# One call at a time in a process; and a fork waits for it, because SQLite's record of its own locks must not be copied
# half-way. No file stays open between calls, for the same reason.
one_at_a_time = threading.RLock()
if hasattr(os, "register_at_fork"):
    _let_go = one_at_a_time.release
    os.register_at_fork(before=one_at_a_time.acquire, after_in_parent=_let_go, after_in_child=_let_go)


class BudgetExceeded(ValueError):  # noqa: N818 (it says what happened)
    """A charge would have taken a row beyond its budget. Nothing was charged."""


@contextmanager
def connect(path: Path) -> Iterator[sqlite3.Connection]:
    """The file, open; what SQLite finds wrong with it is said in one line."""
    # The file must not be opened in any other way, not even to look at its first bytes: closing it would drop the
    # locks that SQLite holds on it for other threads.
    with _explained(path), one_at_a_time, _open(path) as connection:
        yield connection


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Context that says in one line what SQLite finds wrong."""
    try:
        yield
    except (sqlite3.Error, TypeError, OverflowError) as reason:
        code = getattr(reason, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code == sqlite3.SQLITE_BUSY:
            raise TimeoutError(f"ledger {str(path)!r} is held by another process: waited {PATIENCE:g} s") from None
        if number := BROKEN_DISK.get(code):
            raise OSError(number, f"ledger {str(path)!r} could not be written ({reason}): is its disk full?") from None
        if isinstance(reason, sqlite3.OperationalError) and code not in DAMAGED:
            raise _unusable(path, reason) from None
        said = " ".join(str(reason).split())[:200]
        raise ValueError(f"path must be a ledger or a new file, got {str(path)!r}: {said}") from None


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(
        sqlite3.connect(f"{path.as_uri()}?mode=rw", timeout=PATIENCE, isolation_level=None, uri=True)
    ) as connection:
        for setting in ("synchronous = FULL", "fullfsync = ON", "temp_store = MEMORY", "trusted_schema = OFF"):
            connection.execute(f"PRAGMA {setting}")
        yield connection


def _unusable(path: Path, reason: object) -> OSError:
    return OSError(f"ledger {str(path)!r} must be a file in a folder, both writable; got: {reason}")


def refuse_unwritable(path: Path) -> None:
    """Refuse a place where no ledger can be made; none is made yet."""
    _make_neighbour(path).unlink()


def _make_neighbour(path: Path) -> Path:
    """An empty file beside a ledger, under another name."""
    try:
        number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as reason:
        raise _unusable(path, reason.strerror) from None
    os.close(number)
    return Path(name)


def make_file(
    path: Path, key: bytes, budget: float | None, change: Callable[[sqlite3.Connection], Found]
) -> tuple[bool, Found]:
    """Make a ledger that holds its first change; False where another process was faster: then nothing has changed.

    It is made under another name and linked to its own: nobody ever sees half of one, or an empty file.
    """
    made = _make_neighbour(path)
    try:
        with _explained(path), one_at_a_time, _open(made) as connection:
            make_tables(connection, key, budget)
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                found = change(connection)
            connection.execute("PRAGMA journal_mode = WAL")  # the file remembers it; and no log holds what was charged
        return _link(made, path), found
    finally:
        for left in (made, *(Path(f"{made}{end}") for end in ("-journal", "-wal", "-shm"))):
            left.unlink(missing_ok=True)


def _link(made: Path, path: Path) -> bool:
    """Give a new ledger its name, on the disk too when this returns, unless another process was faster."""
    try:
        os.link(made, path)
    except FileExistsError:
        return False
    except OSError:  # a disk without links
        if path.exists():
            return False
        os.replace(made, path)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return True


def make_tables(connection: sqlite3.Connection, key: bytes, budget: float | None) -> None:
    """Make the tables, with the key of the fingerprints and the budget."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA:
            connection.execute(statement)
        facts = {"key": key, "budget": budget, "known by": None}
        connection.executemany("INSERT INTO fact VALUES (?, ?)", facts.items())


def expect_ledger(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file of something else, or of another format."""
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != APPLICATION:
        raise ValueError(f"path must be a ledger or a new file, got {str(path)!r}, an SQLite file of something else")
    if version != FORMAT:
        raise ValueError(f"path must be a ledger of format {FORMAT}, got {str(path)!r} of format {version}")


def read_facts(connection: sqlite3.Connection) -> tuple[bytes, float | None]:
    """Key for fingerprints, and the budget that the ledger was made with."""
    facts = dict(connection.execute("SELECT name, value FROM fact"))
    key, budget = facts.get("key"), facts.get("budget", "none")
    if not isinstance(key, bytes) or len(key) != KEY_BYTES or not (budget is None or isinstance(budget, float)):
        raise sqlite3.DatabaseError("its key or budget is damaged")
    return key, budget


def is_charged(connection: sqlite3.Connection) -> bool:
    """Whether any row has spent anything."""
    return connection.execute("SELECT 1 FROM spent LIMIT 1").fetchone() is not None


def find_largest_spent(connection: sqlite3.Connection) -> float:
    """The most that any row has spent, under all names together; 0 in an empty ledger."""
    most = "SELECT max(total) FROM (SELECT sum(epsilon) AS total FROM spent GROUP BY row)"
    return float(connection.execute(most).fetchone()[0] or 0.0)


def store_budget(connection: sqlite3.Connection, budget: float) -> None:
    """Write another budget, inside a transaction."""
    connection.execute("UPDATE fact SET value = ? WHERE name = 'budget'", (float(budget),))


def charge(connection: sqlite3.Connection, charges: Sequence[Charge], most: float, whose: str = "") -> None:
    """Charge rows, inside a transaction. What one row is charged under several names adds up.

    A refusal says `whose` budget `most` is.
    """
    expect_kind(connection, charges)
    connection.execute(ASKED)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    numbers = {}
    for name, rows, epsilons in charges:
        (numbers[name],) = connection.execute(NAMED, {"name": name, "now": now}).fetchone()
        order = np.argsort(rows)
        listed = zip(rows[order].tolist(), [numbers[name]] * len(rows), epsilons[order].tolist(), strict=True)
        connection.executemany("INSERT INTO asked VALUES (?, ?, ?)", listed)
    for name, rows, _ in charges if math.isfinite(most) else ():
        limit = {"source": numbers[name], "limit": most * (1 + TOLERANCE)}
        if refused := connection.execute(REFUSED, limit).fetchone():
            raise BudgetExceeded(_describe_refusal(name, len(rows), most, whose, *refused))
    connection.execute(CHARGE)
    connection.execute("DROP TABLE asked")


def expect_kind(connection: sqlite3.Connection, charges: Sequence[Charge]) -> None:
    """Refuse to know rows by ids at one time and by content at another: the same row would be two."""
    kinds = {"content" if rows[0] < 0 else "ids" for _, rows, _ in charges}
    (known,) = connection.execute("SELECT value FROM fact WHERE name = 'known by'").fetchone()
    if len(kinds | ({known} if known else set())) > 1:
        raise ValueError(
            f"rows of a ledger must all be known by {known or 'ids'}, as its first were; got rows to be known by "
            f"{'content' if (known or 'ids') == 'ids' else 'ids'} (row_id, --id, or id in a sources.toml, gives ids)"
        )
    if known is None and kinds:
        connection.execute("UPDATE fact SET value = ? WHERE name = 'known by'", (kinds.pop(),))


def expect_columns(connection: sqlite3.Connection, columns: Collection[str]) -> None:
    """Refuse to know rows by the content of some columns at one time and of others at another."""
    known = connection.execute("SELECT value FROM fact WHERE name = 'columns'").fetchone()
    if len(found := {*columns, *(known or ())}) > 1:
        others = " and ".join(sorted(found - {*(known or ())}))
        raise ValueError(
            "rows of a ledger must be known by the content of the same columns each time"
            + (f", {known[0]}, as its first were" if known else "")
            + f"; got {others}: a row would count as two. Give ids, or another table a ledger of its own"
            + EARLIER * (CELLS in others)
        )
    if known is None and columns:
        connection.execute("INSERT INTO fact VALUES ('columns', ?)", tuple(columns))


def _describe_refusal(
    name: str, rows: int, most: float, whose: str, count: int, row: int, already: float, more: float
) -> str:
    which = f"row {row}" if row >= 0 else "one row (identified by content)"
    detail = owner_only(f": {which} has spent {already:.10g} and needs {more:.10g}")
    counted = owner_only(f"{count:,} of {rows:,} rows", "rows")
    return f"{counted} of source {name!r} would exceed the budget of {most:.10g}{detail}{whose}; nothing was charged"
