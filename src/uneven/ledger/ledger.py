"""`Ledger`: charge rows, ask what they have spent."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uneven import checks
from uneven.cautions import NoBudgetWarning
from uneven.ledger import database
from uneven.ledger.arguments import check_charge, check_path, list_ids
from uneven.ledger.book import Book
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
        File on a local disk; where there is none, the first charge makes it. None keeps the ledger in memory.
    budget : float, optional
        The most that any row may spend. The first charge writes it into the ledger for good. Of a ledger that was
        charged before, a smaller one binds the charges of this object, and a larger one is refused. A ledger without a
        budget counts and refuses nothing, and warns so at every charge (`uneven.cautions.NoBudgetWarning`).

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
        self._book = Book(self.path, given)
        stored = self._book.budget
        if given is not None and stored is not None and given > stored and self.sources():
            raise ValueError(
                f"budget must be at most {stored:g}, which the ledger {str(self.path)!r} was made with, got "
                f"{given:g}: a ledger's budget can only be lowered"
            )
        self.stored_budget, self.budget = stored, stored if given is None else given

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
        by_content = any((rows < 0).any() for _, rows, _ in asked)

        def write_charges(connection: sqlite3.Connection) -> bool:
            if claim is not None and not _claim(connection, claim):
                return False
            stored, most = self._settle_budget(connection, by_content), self._strictest(budget)
            limit, whose = most, ""
            if stored is not None:
                limit, whose = min(most, stored), self._explain_budget(stored, budget)
            database.expect_columns(connection, columns)
            database.charge(connection, asked, limit, whose)
            self.stored_budget = self.stored_budget if stored is None else stored
            return True

        charged = self._book.change(write_charges)
        if charged and self.stored_budget is None:
            self._warn_no_budget(self._strictest(budget))
        return charged

    def _settle_budget(self, connection: sqlite3.Connection, by_content: bool) -> float | None:
        """The budget in the file. The first charge writes this object's, unless somebody has set another since."""
        stored = self._book.read_budget(connection, by_content)
        if self.budget is None or stored != self.stored_budget or database.is_charged(connection):
            return stored
        database.store_budget(connection, self.budget)
        return self.budget

    def _explain_budget(self, stored: float, given: float | None) -> str:
        """Where a budget is from that refuses a charge; empty where it came with the charge, or is in memory."""
        if self.path is None or self._strictest(given) < stored:
            return ""
        if given is None or given <= stored:
            return f", but {self.path.name} has a budget of {stored:.10g}"
        return (
            f", but {self.path.name} allows {stored:.10g} a row, stated when it was made; a budget of {given:.10g} "
            "cannot raise it: use less epsilon, or other rows"
        )

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

        def write_budget(connection: sqlite3.Connection) -> None:
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

        self._book.change(write_budget)
        self.stored_budget = float(budget)
        self.budget = float(budget) if self.budget is None else min(self.budget, float(budget))

    def make(self) -> None:
        """Make the file now, for who keeps other files beside it; otherwise the first charge or claim makes it."""
        self._book.make()

    def claim(self, claim: str) -> None:
        """Write a claim down, durably, that costs nothing: that something was released, or who uses the ledger."""
        self._book.change(lambda connection: _claim(connection, claim))

    def claimed(self, *claims: str) -> bool:
        """Whether all these claims were charged or written down."""
        with self._book.read() as connection:
            found = (connection.execute("SELECT 1 FROM claim WHERE name = ?", (claim,)).fetchone() for claim in claims)
            return all(one is not None for one in found)

    def refuse_unlike(self, rows: ArrayLike | Fingerprints) -> None:
        """Refuse rows that are known in another way than those of the ledger, before any is charged."""
        charge, columns = check_charge("rows", rows, 1.0), {getattr(rows, "columns", "")} - {""}
        with self._book.read() as connection:
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
        hashes = hash_rows(self._book.key, X, names) if cells is None else hash_digests(self._book.key, X.digests())  # type: ignore[union-attr]
        return count_copies(self._book.key, hashes, list_columns(names, np.shape(X)[1], cells))

    @property
    def key(self) -> bytes:
        """Key of the fingerprints. Who has it can tell whether a guessed row was charged: it stays with the ledger."""
        return self._book.key

    def spent(self, source: str) -> dict[int, float]:
        """What each row that was charged as one of this source has spent, under all names."""
        checks.text("source", source)
        with self._book.read() as connection:
            return {row: float(total) for row, total in connection.execute(database.TOTALS, (source,))}

    def max_spent(self, source: str) -> float:
        """The most that any row of the source has spent; 0 if none has spent anything."""
        checks.text("source", source)
        with self._book.read() as connection:
            return float(connection.execute(database.MOST_SPENT, (source,)).fetchone()[0])

    def spent_by(self, rows: ArrayLike | Fingerprints) -> NDArray[np.float64]:
        """What each of these rows has spent under all names, in their order."""
        with self._book.read() as connection:
            found = connection.execute(database.TOTALS_OF, (json.dumps(list_ids(rows)),))
            return np.array([total for (total,) in found])

    def remaining(self, rows: ArrayLike | Fingerprints, budget: float | None = None) -> NDArray[np.float64]:
        """What each of these rows may still spend, in their order; infinity if there is no budget."""
        return np.maximum(0.0, self._strictest(budget) - self.spent_by(rows))

    def sources(self) -> dict[str, int]:
        """Name of every source that was charged, and how many rows were charged under it."""
        with self._book.read() as connection:
            return dict(connection.execute(database.COUNTS))

    def summary(self) -> list[SourceSummary]:
        """Rows, ε spent and left, and the last charge of every source.

        >>> ledger = Ledger(budget=2.0)
        >>> ledger.charge("clinic", [1, 2], 0.5)
        >>> [(one.name, one.rows, one.most, one.left) for one in ledger.summary()]
        [('clinic', 2, 0.5, 1.5)]
        """
        with self._book.read() as connection:
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
        with self._book.read() as connection:
            read = connection.execute(
                "SELECT name, row, epsilon FROM spent JOIN source ON id = source ORDER BY name, row"
            )
            return [(name, str(row) if row >= 0 else f"{row + 2**63:016x}", epsilon) for name, row, epsilon in read]

    def digest(self) -> str:
        """SHA-256 of the budget, every entry, how often each source was charged, and every claim.

        The key and the times of charges are left out.
        """
        whole = hashlib.sha256(repr(self.stored_budget).encode())
        with self._book.read() as connection:
            for held in database.HELD:
                for entry in connection.execute(held):
                    whole.update(repr(entry).encode())
        return whole.hexdigest()

    def check(self) -> list[str]:
        """What is wrong with the ledger, in words; empty if nothing is.

        SQLite's own check of the file, and that no row has spent more than the budget.
        """
        with self._book.read() as connection:
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

    def __repr__(self) -> str:
        return f"Ledger({None if self.path is None else str(self.path)!r}, budget={self.budget!r})"

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise TypeError("a ledger in memory cannot be pickled: a copy could spend rows twice; use Ledger(path)")
        self._book.make()  # whoever has the copy must know rows by the same key
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
    return ledger._book.dump()


def load_memory(data: bytes) -> Ledger:
    """The ledger that `dump_memory` wrote."""
    ledger = open_own_ledger()
    ledger._book.load(data)
    ledger.budget = ledger._book.budget
    return ledger


def _reopened(path: str, budget: float | None) -> Ledger:
    """Unpickle: the same file, never a new and empty one."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"ledger {path!r} must be there to be used again, got no such file")
    return Ledger(path, budget=budget)
