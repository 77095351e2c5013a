"""`Ledger`: charge rows, ask what they have spent."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uneven import checks
from uneven.cautions import NoBudgetWarning
from uneven.ledger import database
from uneven.ledger.arguments import check_charge, check_path, list_ids, refuse_links
from uneven.ledger.fingerprints import Fingerprints, count_copies, hash_digests, hash_rows, list_columns
from uneven.ledger.summary import SourceSummary
from uneven.redaction import owner_only


class Ledger:
    """What each row has spent, in ε; a row never spends more than its budget.

    `charge` first, release afterwards: the charge is the claim. With a path, a charge is one durable transaction. It
    survives the death of the process and of the machine, and processes that share the file can never together take a
    row beyond its budget.

    A row is known by its id, a number that is its own in the whole ledger, or by a fingerprint of its content under a
    key that is kept in the ledger. The name of its source does not matter: the same row under another name is the same
    row. All rows of a ledger are known in the same way, that of the first charge.

    A ledger is not copied: `copy.copy`, `copy.deepcopy` and `sklearn.clone` return the ledger itself, because a copy
    would let rows be spent twice. One with a path can be pickled (the path is kept, the file must be there) and used
    after a fork; one in memory belongs to its process. Nothing stays open between calls, so there is nothing to close.

    Parameters
    ----------
    path : str or Path, optional
        File on a local disk, made if there is none. None keeps the ledger in memory.
    budget : float, optional
        The most that any row may spend. It is written into a new ledger for good. Of a ledger that is there already,
        a smaller one binds the charges of this object, and a larger one is refused. A ledger without a budget counts
        and refuses nothing, and warns so at every charge (`uneven.cautions.NoBudgetWarning`).

    Examples
    --------
    >>> ledger = Ledger(budget=1.5)
    >>> ledger.charge("clinic", range(100), epsilon=1.0)
    >>> ledger.charge("renamed", [3, 7, 200], epsilon=1.0)
    Traceback (most recent call last):
    uneven.ledger.database.BudgetExceeded: 2 of 3 rows of source 'renamed' would exceed the budget of 1.5: row 3 has ...
    >>> ledger.charge("clinic", [3], epsilon=0.5)
    >>> ledger.max_spent("clinic"), ledger.sources()
    (1.5, {'clinic': 100})
    >>> ledger.remaining([3, 7, 200])
    array([0. , 0.5, 1.5])
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, budget: float | None = None) -> None:
        self.path = None if path is None else check_path(path)
        given = None if budget is None else checks.moderate("budget", budget)
        if self.path is None:
            self._process = os.getpid()
            self._memory = _in_memory()
            weakref.finalize(self, self._memory.close)
            database.make_tables(self._memory, given)
        elif not self.path.exists():
            database.make_file(self.path, given)
        with self._opened() as connection:
            self._key, self.budget = database.read_facts(connection)
        if given is not None and self.budget is not None and given > self.budget:
            raise ValueError(
                f"budget must be at most {self.budget:g}, which the ledger {str(self.path)!r} was made with, got "
                f"{given:g}: a ledger's budget can only be lowered"
            )
        self.stored_budget, self.budget = self.budget, self.budget if given is None else given

    def charge(
        self, source: str, rows: ArrayLike | Fingerprints, epsilon: ArrayLike, budget: float | None = None
    ) -> None:
        """Charge ε to every row, or raise `BudgetExceeded` and charge none: spent + ε ≤ budget for each row.

        Call it before the release. When it has returned, the rows may be released once at this ε. Two passes over the
        rows cost two charges.

        Parameters
        ----------
        source : str
            For `summary` and messages; a row is the same under any name.
        rows : array of distinct non-negative whole numbers, or Fingerprints
            Ids, each a row's own in the whole ledger; or what `fingerprint` returns.
        epsilon : float, or array of one for each row
            What each row spends.
        budget : float, optional
            The most that any of these rows may have spent afterwards. The stricter of this and the ledger's counts.
        """
        self.charge_all([(source, rows, epsilon)], budget)

    def charge_all(
        self,
        charges: Iterable[tuple[str, ArrayLike | Fingerprints, ArrayLike]],
        budget: float | None = None,
        claim: str | None = None,
    ) -> bool:
        """Charge rows of several sources in one transaction: all of them, or none and `BudgetExceeded`.

        Parameters
        ----------
        charges : list of tuples
            A source, rows of it and ε, as `charge` takes them; each source once. A row of several sources is charged
            for each of them.
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
        >>> ledger.charge_all([("clinic", range(100, 200), 1.0), ("survey", [7, 8], 0.75)])
        Traceback (most recent call last):
        uneven.ledger.database.BudgetExceeded: 1 of 2 rows of source 'survey' would exceed the budget of 1: row ...
        >>> ledger.sources()
        {'survey': 1}
        """
        given = list(charges)
        asked = [check_charge(*charge) for charge in given]
        columns = {rows.columns for _, rows, _ in given if isinstance(rows, Fingerprints) and rows.columns}
        if len({source for source, _, _ in asked}) < len(asked):
            raise ValueError(f"charges must name each source once, got {checks.shown([one[0] for one in asked])}")
        most = self._strictest(budget)
        with self._opened() as connection:
            with connection:  # commits, or takes everything back
                # The lock is taken before the first look: between the check and the charge nobody else may charge.
                connection.execute("BEGIN IMMEDIATE")
                if claim is not None and not _claim(connection, claim):
                    return False
                key, stored = database.read_facts(connection)
                if key != self._key:
                    raise ValueError(
                        f"ledger {str(self.path)!r} must be the one that was opened, got another in its place"
                    )
                if stored is not None:  # somebody may have set or lowered it
                    self.stored_budget, most = stored, min(most, stored)
                database.expect_columns(connection, columns)
                database.charge(connection, asked, most)
            # From the log into the file, as far as readers let it: then the file alone holds the charge.
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        if self.stored_budget is None:
            self._warn_no_budget(most)
        return True

    def lower_budget(self, budget: float) -> None:
        """Give a ledger without a budget one, or lower the one it has; every process obeys it from its next charge on.

        Parameters
        ----------
        budget : float
            At most the ledger's budget, and at least what any row has spent.

        Examples
        --------
        >>> ledger = Ledger(budget=4.0)
        >>> ledger.lower_budget(2.0)
        >>> ledger.lower_budget(3.0)
        Traceback (most recent call last):
        ValueError: budget must be at most 2, the ledger's, got 3: a ledger's budget can only be lowered
        """
        checks.moderate("budget", budget)
        with self._opened() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            stored = database.read_facts(connection)[1]
            if stored is not None and budget > stored:
                raise ValueError(
                    f"budget must be at most {stored:g}, the ledger's, got {budget:g}: "
                    "a ledger's budget can only be lowered"
                )
            if (most := database.find_largest_spent(connection)) > budget:
                raise ValueError(
                    f"budget must be at least what rows have spent{owner_only(f', {most:g} at most')}, got {budget:g}"
                )
            database.store_budget(connection, budget)
        self.stored_budget = float(budget)
        self.budget = float(budget) if self.budget is None else min(self.budget, float(budget))

    def claim(self, claim: str) -> None:
        """Write a claim down, durably, that costs nothing: that something was released, or who uses the ledger."""
        with self._opened() as connection, connection:
            _claim(connection, claim)

    def claimed(self, *claims: str) -> bool:
        """Whether all these claims were charged or written down."""
        with self._opened() as connection:
            found = (connection.execute("SELECT 1 FROM claim WHERE name = ?", (claim,)).fetchone() for claim in claims)
            return all(one is not None for one in found)

    def refuse_unlike(self, rows: ArrayLike | Fingerprints) -> None:
        """Refuse rows that are known in another way than those of the ledger, before any is charged."""
        charge, columns = check_charge("rows", rows, 1.0), {getattr(rows, "columns", "")} - {""}
        with self._opened() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                database.expect_kind(connection, [charge])
                database.expect_columns(connection, columns)
            finally:
                connection.rollback()  # nothing is written down

    def _warn_no_budget(self, most: float) -> None:
        which = "the ledger in memory" if self.path is None else f"ledger {str(self.path)!r}"
        only = "" if math.isinf(most) else f" beyond the {most:g} of this charge"
        warnings.warn(f"{which} has no budget: it refuses nothing{only}", NoBudgetWarning, stacklevel=4)

    def fingerprint(self, X: ArrayLike, names: Sequence[str] | None = None) -> Fingerprints:
        """Rows of one source by their content, to be charged: the n-th copy of a row is a row of its own.

        Parameters
        ----------
        X : array of shape (n, d)
            All rows of the source, each the values of its features. What `PublicColumns.transform` returns is known by
            the cells that it was made of.
        names : list of str, optional
            Names of the features; with them, columns in another order make no other row. Rows of one ledger are all
            known by the same names, or all by none.

        Examples
        --------
        >>> ledger, X = Ledger(budget=1.0), np.eye(3)
        >>> ledger.charge("clinic", ledger.fingerprint(X), 1.0)
        >>> ledger.remaining(ledger.fingerprint(X[::-1])).tolist()
        [0.0, 0.0, 0.0]
        """
        cells = getattr(X, "cells", None)
        hashes = hash_rows(self._key, X, names) if cells is None else hash_digests(self._key, X.digests())  # type: ignore[union-attr]
        return count_copies(self._key, hashes, list_columns(names, np.shape(X)[1], cells))

    @property
    def key(self) -> bytes:
        """Key of the fingerprints. Who has it can tell whether a guessed row was charged: it stays with the ledger."""
        return self._key

    def spent(self, source: str) -> dict[int, float]:
        """What each row that was charged as one of this source has spent, under all names."""
        checks.text("source", source)
        with self._opened() as connection:
            return {row: float(total) for row, total in connection.execute(database.TOTALS, (source,))}

    def max_spent(self, source: str) -> float:
        """The most that any row of the source has spent; 0 if none has spent anything."""
        checks.text("source", source)
        with self._opened() as connection:
            return float(connection.execute(database.MOST_SPENT, (source,)).fetchone()[0])

    def spent_by(self, rows: ArrayLike | Fingerprints) -> NDArray[np.float64]:
        """What each of these rows has spent under all names, in their order."""
        with self._opened() as connection:
            found = connection.execute(database.TOTALS_OF, (json.dumps(list_ids(rows)),))
            return np.array([total for (total,) in found])

    def remaining(self, rows: ArrayLike | Fingerprints, budget: float | None = None) -> NDArray[np.float64]:
        """What each of these rows may still spend, in their order; infinity if there is no budget."""
        return np.maximum(0.0, self._strictest(budget) - self.spent_by(rows))

    def sources(self) -> dict[str, int]:
        """Name of every source that was charged, and how many rows were charged under it."""
        with self._opened() as connection:
            return dict(connection.execute(database.COUNTS))

    def summary(self) -> list[SourceSummary]:
        """Rows, ε spent and left, and the last charge of every source.

        >>> ledger = Ledger(budget=2.0)
        >>> ledger.charge("clinic", [1, 2], 0.5)
        >>> [(one.name, one.rows, one.most, one.left) for one in ledger.summary()]
        [('clinic', 2, 0.5, 1.5)]
        """
        with self._opened() as connection:
            found = connection.execute("SELECT name, charges, last FROM source ORDER BY id").fetchall()
            totals = [[float(total) for _, total in connection.execute(database.TOTALS, (name,))] for name, *_ in found]
        most = self._strictest(None)
        return [
            SourceSummary(name, len(own), min(own), max(own), max(0.0, most - max(own)), charges, last)
            for (name, charges, last), own in zip(found, totals, strict=True)
            if own
        ]

    def entries(self) -> list[tuple[str, str, float]]:
        """Every source, row and the ε that was charged there; a fingerprint as hexadecimal digits, without the key."""
        with self._opened() as connection:
            read = connection.execute(
                "SELECT name, row, epsilon FROM spent JOIN source ON id = source ORDER BY name, row"
            )
            return [(name, str(row) if row >= 0 else f"{row + 2**63:016x}", epsilon) for name, row, epsilon in read]

    def digest(self) -> str:
        """SHA-256 of the budget, every entry, how often each source was charged, and every claim.

        The key and the times of charges are left out.
        """
        whole = hashlib.sha256(repr(self.stored_budget).encode())
        with self._opened() as connection:
            for held in database.HELD:
                for entry in connection.execute(held):
                    whole.update(repr(entry).encode())
        return whole.hexdigest()

    def check(self) -> list[str]:
        """What is wrong with the ledger, in words; empty if nothing is.

        SQLite's own check of the file, and that no row has spent more than the budget.
        """
        with self._opened() as connection:
            wrong = [
                f"damaged file: {said}" for (said,) in connection.execute("PRAGMA integrity_check") if said != "ok"
            ]
            beyond = "SELECT count(*) FROM (SELECT row FROM spent GROUP BY row HAVING sum(epsilon) > ?)"
            most = math.inf if self.stored_budget is None else self.stored_budget * (1 + database.TOLERANCE)
            (count,) = connection.execute(beyond, (most,)).fetchone()
        return wrong + ([f"{owner_only(f'{count:,} ')}rows have spent more than {self.stored_budget:g}"] * (count > 0))

    def _strictest(self, budget: float | None) -> float:
        given = math.inf if budget is None else checks.moderate("budget", budget)
        return given if self.budget is None else min(given, self.budget)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if self.path is not None:
            refuse_links(self.path)
            with database.connect(self.path) as connection:
                database.expect_ledger(connection, self.path)
                yield connection
        elif self._process == os.getpid():
            with database.one_at_a_time:
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


def _claim(connection: sqlite3.Connection, claim: str) -> bool:
    """Write the name of a release down, inside a transaction; False if it is there already."""
    return connection.execute("INSERT OR IGNORE INTO claim VALUES (?)", (checks.text("claim", claim),)).rowcount == 1


def open_own_ledger() -> Ledger:
    """A ledger in memory that a model keeps for itself: without a budget, and silent about it."""
    ledger = Ledger()
    ledger.stored_budget = math.inf
    return ledger


def dump_memory(ledger: Ledger) -> bytes:
    """A ledger in memory as bytes, for a model that is pickled with its own."""
    with ledger._opened() as connection:
        return connection.serialize()


def load_memory(data: bytes) -> Ledger:
    """The ledger that `dump_memory` wrote."""
    ledger = open_own_ledger()
    ledger._memory.deserialize(data)
    ledger._key, ledger.budget = database.read_facts(ledger._memory)
    return ledger


def _in_memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


def _reopened(path: str, budget: float | None) -> Ledger:
    """Unpickle: the same file, never a new and empty one."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"ledger {path!r} must be there to be used again, got no such file")
    return Ledger(path, budget=budget)
