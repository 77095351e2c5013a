"""What a site has released, so that a repeated request gets the answer it got before, and no row is released twice.

A release is entered before its rows are charged and its answer before it is sent. So after a crash at any moment: no
entry means that nothing was charged; an entry without an answer, that nothing was sent. An answer that was sent is
kept, and sent again to whoever repeats the request: that is post-processing and costs nothing.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS release (name TEXT PRIMARY KEY, request TEXT NOT NULL, seed INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS answer (name TEXT, step INTEGER, request TEXT NOT NULL, text TEXT NOT NULL, "
    "PRIMARY KEY (name, step)) WITHOUT ROWID",
)


class Releases:
    """Releases of one site, in an SQLite file; what was written survives the death of process and machine."""

    def __init__(self, path: Path) -> None:
        self._book = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for setting in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON"):
            self._book.execute(f"PRAGMA {setting}")
        for statement in SCHEMA:
            self._book.execute(statement)

    def entry(self, name: str) -> tuple[str, int] | None:
        """Digest of what was asked and seed of the rows' order, of a release that was entered; None if it was not."""
        query = "SELECT request, seed FROM release WHERE name = ?"
        found: tuple[str, int] | None = self._book.execute(query, (name,)).fetchone()
        return found

    def enter(self, name: str, request: str, seed: int) -> None:
        """Enter a release, before its rows are charged."""
        self._book.execute("INSERT INTO release VALUES (?, ?, ?)", (name, request, seed))

    def keep(self, name: str, step: int, request: str, text: str) -> None:
        """Keep an answer before it is sent."""
        self._book.execute("INSERT INTO answer VALUES (?, ?, ?, ?)", (name, step, request, text))

    def find(self, name: str, step: int) -> tuple[str, str] | None:
        """Digest of the request and answer of one step; None if nothing was released for it."""
        query = "SELECT request, text FROM answer WHERE name = ? AND step = ?"
        found: tuple[str, str] | None = self._book.execute(query, (name, step)).fetchone()
        return found

    def count(self, name: str) -> int:
        """Number of answers given for a release."""
        return int(self._book.execute("SELECT count(*) FROM answer WHERE name = ?", (name,)).fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._book.close()
