"""Where a ledger is kept: in memory, or in a file that its first change makes."""

from __future__ import annotations

import os
import secrets
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from uneven.ledger import database
from uneven.ledger.arguments import refuse_links
from uneven.ledger.fingerprints import KEY_BYTES

Found = TypeVar("Found")


class Book:
    """Tables of a ledger. A new file comes into being with the first change that is not refused, and holds it.

    Attributes
    ----------
    path : Path or None
    budget : float or None
        That of the file; of one that is not there yet, the budget it will be made with.
    """

    def __init__(self, path: Path | None, budget: float | None) -> None:
        self.path, self.budget, self._key = path, budget, secrets.token_bytes(KEY_BYTES)
        self._new = path is not None  # until the file is known to be there
        self._handed_out = self._outrun = False  # whether somebody has the key; and another process made the file then
        if path is None:
            self._process, self._memory = os.getpid(), _connect_memory()
            weakref.finalize(self, self._memory.close)
            database.make_tables(self._memory, self._key, budget)
        elif not path.exists():
            database.refuse_unwritable(path)
        self._is_made()

    @property
    def key(self) -> bytes:
        """Key of the fingerprints."""
        self._is_made()
        self._handed_out = True
        return self._key

    def _is_made(self) -> bool:
        """Whether the tables are there to be changed; a file that another process has made gives its key and budget."""
        if self._new and self.path is not None and self.path.exists():
            with self._connect(self.path) as connection:
                key, self.budget = database.read_facts(connection)
            self._outrun = self._handed_out and key != self._key
            self._key, self._new = self._key if self._outrun else key, False
        return not self._new

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """The tables; empty ones where there is no file yet."""
        if not self._is_made():
            with closing(_connect_memory()) as connection:
                database.make_tables(connection, self._key, self.budget)
                yield connection
        elif self.path is not None:
            with self._connect(self.path) as connection:
                yield connection
        elif self._process == os.getpid():
            with database.one_at_a_time:
                yield self._memory
        else:
            raise ValueError("a ledger in memory must stay in its process, got a fork of it; use Ledger(path)")

    def make(self) -> None:
        """Make the file, if there is none yet."""
        if self.path is not None and not self._is_made():
            self.change(lambda _: None)

    def change(self, change: Callable[[sqlite3.Connection], Found]) -> Found:
        """Make a change in one durable transaction, or none of it where it raises; the first one makes the file."""
        if self.path is not None and not self._is_made():
            made, found = database.make_file(self.path, self._key, self.budget, change)
            if made:
                self._new = False
                return found
        with self.read() as connection:
            with connection:  # commits, or takes everything back
                # The lock is taken before the first look: between the check and the charge nobody else may charge.
                connection.execute("BEGIN IMMEDIATE")
                found = change(connection)
            # From the log into the file, as far as readers let it: then the file alone holds the charge.
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return found

    def read_budget(self, connection: sqlite3.Connection, by_content: bool) -> float | None:
        """The budget as it is now; refuses another ledger in place of this one, or rows known by another key."""
        key, budget = database.read_facts(connection)
        if key != self._key and not self._outrun:
            raise ValueError(f"ledger {str(self.path)!r} must be the one that was opened, got another in its place")
        if key != self._key and by_content:
            raise ValueError(
                f"ledger {str(self.path)!r} must be opened again: another process has made it since, and knows rows "
                "by another key; nothing was charged"
            )
        return budget

    def dump(self) -> bytes:
        """A ledger in memory as bytes."""
        with self.read() as connection:
            return connection.serialize()

    def load(self, data: bytes) -> None:
        """Go on with what `dump` wrote."""
        self._memory.deserialize(data)
        self._key, self.budget = database.read_facts(self._memory)

    @staticmethod
    @contextmanager
    def _connect(path: Path) -> Iterator[sqlite3.Connection]:
        refuse_links(path)
        with database.connect(path) as connection:
            database.expect_ledger(connection, path)
            yield connection


def _connect_memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
