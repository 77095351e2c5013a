"""What each row of each source has spent: in memory, or in an SQLite file for a site.

The charge is the claim. A row's ε is written down, durably, before anything computed from the row is released. So a
row that was charged when its process died is spent, which is safe; and a row whose charge was not written down was
not released.
"""

from __future__ import annotations

import errno
import math
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uneven import checks

APPLICATION, FORMAT = 0x756E6576, 1  # in the header of every ledger file; "unev"
TOLERANCE = 1e-9  # relative: ten charges of 0.1 are within a budget of 1
PATIENCE = 60.0  # seconds to wait for another process to finish its charge
BROKEN_DISK = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_IOERR: errno.EIO}  # what SQLite says, as the system
LEAST, MOST = 1e-6, 1e6  # of ε and of a budget: within these, floats add up without losing a charge

SCHEMA = (
    "CREATE TABLE source (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    "CREATE TABLE spent (source INTEGER NOT NULL, row INTEGER NOT NULL, epsilon REAL NOT NULL, "
    "PRIMARY KEY (source, row)) WITHOUT ROWID",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)
REFUSED = """
    SELECT count(*) OVER (), asked.row, coalesce(spent.epsilon, 0.0) AS already, asked.epsilon
    FROM asked LEFT JOIN spent ON spent.source = :source AND spent.row = asked.row
    WHERE coalesce(spent.epsilon, 0.0) + asked.epsilon > :limit
    ORDER BY already DESC, asked.row LIMIT 1
"""
CHARGE = """
    INSERT INTO spent SELECT :source, row, epsilon FROM asked WHERE true
    ON CONFLICT DO UPDATE SET epsilon = epsilon + excluded.epsilon
"""
SPENT = "SELECT row, epsilon FROM spent JOIN source ON id = source WHERE name = ? ORDER BY row"
MOST_SPENT = "SELECT coalesce(max(epsilon), 0.0) FROM spent JOIN source ON id = source WHERE name = ?"
CLAIMS = "CREATE TABLE IF NOT EXISTS claim (name TEXT PRIMARY KEY) WITHOUT ROWID"
COUNTS = "SELECT name, (SELECT count(*) FROM spent WHERE source = id) FROM source ORDER BY id"

# One call at a time in a process; and a fork waits for it, because SQLite's record of its own locks must not be copied
# half-way. No file stays open between calls, for the same reason.
_one_at_a_time = threading.RLock()
if hasattr(os, "register_at_fork"):
    _let_go = _one_at_a_time.release
    os.register_at_fork(before=_one_at_a_time.acquire, after_in_parent=_let_go, after_in_child=_let_go)


class BudgetExceeded(ValueError):  # noqa: N818 (it says what happened)
    """A charge would have taken a row beyond its budget. Nothing was charged."""


class Ledger:
    """What each row of each source has spent, in ε; a row never spends more than its budget.

    `charge` first, release afterwards: the charge is the claim. With a path, a charge is one durable transaction. It
    survives the death of the process and of the machine, and processes that share the file can never together take a
    row beyond its budget.

    A ledger is not copied: `copy.copy`, `copy.deepcopy` and `sklearn.clone` return the ledger itself, because a copy
    would let rows be spent twice. One with a path can be pickled (the path is kept, the file must be there) and used
    after a fork; one in memory belongs to its process. Nothing stays open between calls, so there is nothing to close.

    Parameters
    ----------
    path : str or Path, optional
        File on a local disk, made if there is none. None keeps the ledger in memory.
    budget : float, optional
        The most that any row may spend. It is not written to the file: it binds the charges of this object.

    Examples
    --------
    >>> ledger = Ledger(budget=1.5)
    >>> ledger.charge("clinic", range(100), epsilon=1.0)
    >>> ledger.charge("clinic", [3, 7, 200], epsilon=1.0)
    Traceback (most recent call last):
    uneven.ledger.BudgetExceeded: 2 of 3 rows of source 'clinic' would exceed the budget of 1.5: row 3 has spent 1 ...
    >>> ledger.charge("clinic", [3], epsilon=0.5)
    >>> ledger.max_spent("clinic"), ledger.sources()
    (1.5, {'clinic': 100})
    >>> ledger.remaining("clinic", [3, 7, 200])
    array([0. , 0.5, 1.5])
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, budget: float | None = None) -> None:
        self.path = None if path is None else _checked_path(path)
        self.budget = None if budget is None else checks.positive("budget", budget, LEAST, MOST)
        if self.path is None:
            self._process = os.getpid()
            self._memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            weakref.finalize(self, self._memory.close)
            _make_if_empty(self._memory)
        else:
            with _connected(self.path, "rwc") as book:
                _make_if_empty(book)
                _expect_ledger(book, self.path)

    def charge(self, source: str, rows: ArrayLike, epsilon: ArrayLike, budget: float | None = None) -> None:
        """Charge ε to every row, or raise `BudgetExceeded` and charge none: spent + ε ≤ budget for each row.

        Call it before the release. When it has returned, the rows may be released once at this ε. Two passes over the
        rows cost two charges.

        Parameters
        ----------
        source : str
        rows : array of distinct non-negative whole numbers
            Which rows of the source; any ids that stay the same from run to run.
        epsilon : float, or array of one for each row
        budget : float, optional
            The most that any of these rows may have spent afterwards. The stricter of this and the ledger's counts.
        """
        self.charge_all([(source, rows, epsilon)], budget)

    def charge_all(
        self,
        charges: Iterable[tuple[str, ArrayLike, ArrayLike]],
        budget: float | None = None,
        claim: str | None = None,
    ) -> bool:
        """Charge rows of several sources in one transaction: all of them, or none and `BudgetExceeded`.

        Parameters
        ----------
        charges : list of tuples
            A source, rows of it and ε, as `charge` takes them; each source once.
        budget : float, optional
            As in `charge`, for every row of every source.
        claim : str, optional
            Name of the release that this pays for, written down with the charge. A claim is charged once: called again
            by the same name, nothing is charged.

        Returns
        -------
        bool
            False if the claim was charged before.

        Examples
        --------
        >>> ledger = Ledger(budget=1.0)
        >>> ledger.charge("survey", [7], 0.5)
        >>> ledger.charge_all([("clinic", range(100), 1.0), ("survey", [7, 8], 0.75)])
        Traceback (most recent call last):
        uneven.ledger.BudgetExceeded: 1 of 2 rows of source 'survey' would exceed the budget of 1: row 7 has ...
        >>> ledger.sources()
        {'survey': 1}
        """
        asked = [_checked_charge(*charge) for charge in charges]
        if len({source for source, _, _ in asked}) < len(asked):
            raise ValueError(f"charges must name each source once, got {checks.shown([one[0] for one in asked])}")
        most = self._strictest(budget)
        with self._opened() as book, book:  # the second `with` commits, or takes everything back
            # The lock is taken before the first look: between the check and the charge nobody else may charge.
            book.execute("BEGIN IMMEDIATE")
            if claim is not None and not _claim(book, claim):
                return False
            for source, ids, epsilons in asked:
                _charge(book, source, ids, epsilons, most)
        return True

    def claimed(self, claim: str) -> bool:
        """Whether a claim was charged."""
        with self._opened() as book:
            book.execute(CLAIMS)
            return book.execute("SELECT 1 FROM claim WHERE name = ?", (claim,)).fetchone() is not None

    def spent(self, source: str) -> dict[int, float]:
        """What each row of the source has spent, for the rows that have spent anything."""
        checks.text("source", source)
        with self._opened() as book:
            return dict(book.execute(SPENT, (source,)))

    def max_spent(self, source: str) -> float:
        """The most that any row of the source has spent; 0 if none has spent anything."""
        checks.text("source", source)
        with self._opened() as book:
            return float(book.execute(MOST_SPENT, (source,)).fetchone()[0])

    def remaining(self, source: str, rows: ArrayLike, budget: float | None = None) -> NDArray[np.float64]:
        """What each of these rows may still spend, in their order; infinity if there is no budget."""
        ids, most = _checked_rows(rows), self._strictest(budget)
        spent = self.spent(source)
        return np.maximum(0.0, most - np.array([spent.get(row, 0.0) for row in ids.tolist()]))

    def sources(self) -> dict[str, int]:
        """Name of every source that was charged, and how many of its rows have spent something."""
        with self._opened() as book:
            return dict(book.execute(COUNTS))

    def _strictest(self, budget: float | None) -> float:
        given = math.inf if budget is None else checks.positive("budget", budget, LEAST, MOST)
        return given if self.budget is None else min(given, self.budget)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if self.path is not None:
            with _connected(self.path, "rw") as book:
                _expect_ledger(book, self.path)
                yield book
        elif self._process == os.getpid():
            with _one_at_a_time:
                yield self._memory
        else:
            raise ValueError("a ledger in memory must stay in its process, got a fork of it; use Ledger(path)")

    def __repr__(self) -> str:
        return f"Ledger({None if self.path is None else str(self.path)!r}, budget={self.budget!r})"

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise TypeError("a ledger in memory cannot be pickled: a copy could spend rows twice; use Ledger(path)")
        return _reopened, (str(self.path), self.budget)


def _claim(book: sqlite3.Connection, claim: str) -> bool:
    """Write the name of a release down, inside a transaction; False if it is there already."""
    book.execute(CLAIMS)
    return book.execute("INSERT OR IGNORE INTO claim VALUES (?)", (checks.text("claim", claim),)).rowcount == 1


def _charge(
    book: sqlite3.Connection, source: str, ids: NDArray[np.integer], epsilons: NDArray[np.float64], most: float
) -> None:
    """Charge rows of one source, inside a transaction."""
    order = np.argsort(ids)
    book.execute("CREATE TEMP TABLE asked (row INTEGER PRIMARY KEY, epsilon REAL NOT NULL)")
    pairs = zip(ids[order].tolist(), epsilons[order].tolist(), strict=True)
    book.executemany("INSERT INTO asked VALUES (?, ?)", pairs)
    book.execute("INSERT INTO source (name) VALUES (?) ON CONFLICT DO NOTHING", (source,))
    (number,) = book.execute("SELECT id FROM source WHERE name = ?", (source,)).fetchone()
    if refused := book.execute(REFUSED, {"source": number, "limit": most * (1 + TOLERANCE)}).fetchone():
        count, row, already, more = refused
        raise BudgetExceeded(
            f"{count} of {len(ids)} rows of source {source!r} would exceed the budget of {most:.10g}: "
            f"row {row} has spent {already:.10g} and was asked for {more:.10g}; nothing was charged"
        )
    book.execute(CHARGE, {"source": number})
    book.execute("DROP TABLE asked")


def _reopened(path: str, budget: float | None) -> Ledger:
    """Unpickle: the same file, never a new and empty one."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"ledger {path!r} must be there to be used again, got no such file")
    return Ledger(path, budget=budget)


@contextmanager
def _connected(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """The file, open; what SQLite finds wrong with it is said in one line."""
    # The file must not be opened in any other way, not even to look at its first bytes: closing it would drop the
    # locks that SQLite holds on it for other threads.
    address = f"{path.as_uri()}?mode={mode}"
    try:
        with _one_at_a_time, closing(sqlite3.connect(address, PATIENCE, isolation_level=None, uri=True)) as book:
            for setting in ("synchronous = FULL", "fullfsync = ON", "temp_store = MEMORY"):
                book.execute(f"PRAGMA {setting}")
            yield book
    except sqlite3.OperationalError as reason:
        if reason.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise TimeoutError(f"ledger {str(path)!r} is held by another process: waited {PATIENCE:g} s") from None
        if number := BROKEN_DISK.get(reason.sqlite_errorcode & 0xFF):
            raise OSError(number, f"ledger {str(path)!r} could not be written ({reason}): is its disk full?") from None
        raise OSError(f"ledger {str(path)!r} must be a file in a folder, both writable; got: {reason}") from None
    except sqlite3.DatabaseError as reason:
        raise ValueError(f"path must be a ledger or a new file, got {str(path)!r}: {reason}") from None


def _make_if_empty(book: sqlite3.Connection) -> None:
    if _is_empty(book):
        _keep_a_log(book)
        with book:
            book.execute("BEGIN IMMEDIATE")
            for statement in SCHEMA if _is_empty(book) else ():  # another process may have been faster
                book.execute(statement)


def _is_empty(book: sqlite3.Connection) -> bool:
    return _identity(book) == (0, 0) and not book.execute("SELECT 1 FROM sqlite_master").fetchone()


def _identity(book: sqlite3.Connection) -> tuple[int, int]:
    application, version = (book.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    return application, version


def _keep_a_log(book: sqlite3.Connection) -> None:
    """Write ahead. The file remembers it, so it is set once; SQLite does not wait for its turn here, so we do."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            book.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as reason:
            if reason.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def _expect_ledger(book: sqlite3.Connection, path: Path) -> None:
    application, version = _identity(book)
    if application != APPLICATION:
        raise ValueError(f"path must be a ledger or a new file, got {str(path)!r}, an SQLite file of something else")
    if version != FORMAT:
        raise ValueError(f"path must be a ledger of format {FORMAT}, got {str(path)!r} of format {version}")


def _checked_path(path: object) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path must be a file name or None, got {checks.shown(path)}")
    # Another directory later, or in another process, must not mean another ledger.
    resolved = Path(os.path.realpath(path))
    if resolved.exists() and not resolved.is_file():
        raise ValueError(f"path must be a ledger or a new file, got {str(path)!r}, which is no file")
    return resolved


def _checked_charge(
    source: str, rows: ArrayLike, epsilon: ArrayLike
) -> tuple[str, NDArray[np.integer], NDArray[np.float64]]:
    ids = _checked_rows(rows)
    return checks.text("source", source), ids, _checked_epsilons(epsilon, len(ids))


def _checked_rows(rows: ArrayLike) -> NDArray[np.integer]:
    ids = _listed(rows)
    if ids is None or ids.dtype.kind not in "iu" or len(ids) == 0 or ids.min() < 0 or ids.max() >= 2**63:
        raise ValueError(f"rows must be a list of non-negative whole numbers, got {checks.shown(rows)}")
    ordered = np.sort(ids)
    if (twice := ordered[1:] == ordered[:-1]).any():
        raise ValueError(f"rows must be distinct, got {ordered[1:][twice][0]} more than once")
    return ids


def _checked_epsilons(epsilon: Any, count: int) -> NDArray[np.float64]:
    values = _listed(epsilon)
    if values is None:
        return np.full(count, checks.positive("epsilon", epsilon, LEAST, MOST))
    if len(values) != count or values.dtype.kind not in "iuf":
        raise ValueError(f"epsilon must be a number or one for each of {count} rows, got {checks.shown(epsilon)}")
    for wrong in values[~((values >= LEAST) & (values <= MOST))].tolist():
        checks.positive("epsilon", wrong, LEAST, MOST)
    return values.astype(np.float64)


def _listed(values: ArrayLike) -> NDArray[Any] | None:
    """As an array of one dimension; None for what is not."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # lists of different lengths, and worse
        return None
    return array if array.ndim == 1 else None
