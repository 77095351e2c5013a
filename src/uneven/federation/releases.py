"""What a site has released, so that a repeated request gets the answer it got before, and no row is released twice.

A release is entered before its rows are charged and its answer before it is sent. So after a crash at any moment: no
entry means that nothing was charged; an entry without an answer, that nothing was sent. An answer that was sent is
kept, and sent again to whoever repeats the request: that is post-processing and costs nothing.

An entry holds a digest of the rows in their order. Batches that were used are passed over by their numbers, so a
release goes on only with the same rows in the same order.

Entries and the answers of whole segments are on the disk before anything goes on. To wait for the disk at every step
would take longer than the step: answers to steps reach the operating system, which survives the death of the process
but not that of the machine. So batches are reserved on the disk, `AHEAD` of them at a time, before they are used. After
a restart of the machine all that were reserved are passed over, whether their answers were kept or not.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

AHEAD = 64
"""Batches that are reserved at a time: as many are lost at most when the machine goes down."""

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS release (name TEXT PRIMARY KEY, request TEXT NOT NULL, seed INTEGER NOT NULL, "
    "reserved INTEGER NOT NULL, skipped INTEGER NOT NULL, boot TEXT NOT NULL, rows TEXT NOT NULL DEFAULT '')",
    "CREATE TABLE IF NOT EXISTS answer (name TEXT, step INTEGER, request TEXT NOT NULL, text TEXT NOT NULL, "
    "PRIMARY KEY (name, step)) WITHOUT ROWID",
)
BOOT = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """What tells one start of the machine from another; empty where that is unknown, which counts as another."""
    return BOOT.read_text(encoding="ascii").strip() if BOOT.exists() else ""


class Releases:
    """Releases of one site, in an SQLite file."""

    def __init__(self, path: Path) -> None:
        self._book = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for setting in ("journal_mode = WAL", "fullfsync = ON"):
            self._book.execute(f"PRAGMA {setting}")
        for statement in SCHEMA:
            self._durably(statement)
        if "rows" not in [column[1] for column in self._book.execute("PRAGMA table_info(release)")]:  # an older file
            self._durably("ALTER TABLE release ADD COLUMN rows TEXT NOT NULL DEFAULT ''")

    def _durably(self, statement: str, *values: object) -> None:
        """Execute, and wait for the disk: for this and for all that came before."""
        self._book.execute("PRAGMA synchronous = FULL")
        self._book.execute(statement, values)

    def entry(self, name: str) -> tuple[str, str, int] | None:
        """Digests of what was asked and of the rows, and seed of their order; None if the release was not entered."""
        query = "SELECT request, rows, seed FROM release WHERE name = ?"
        found: tuple[str, str, int] | None = self._book.execute(query, (name,)).fetchone()
        return found

    def enter(self, name: str, request: str, rows: str, seed: int) -> None:
        """Enter a release, before its rows are charged."""
        self._durably("INSERT INTO release VALUES (?, ?, ?, 0, 0, ?, ?)", name, request, seed, boot_id(), rows)

    def keep(self, name: str, request: str, text: str) -> None:
        """Keep the answer of a whole segment, before it is sent."""
        self._durably("INSERT INTO answer VALUES (?, 0, ?, ?)", name, request, text)

    def find(self, name: str, step: int) -> tuple[str, str] | None:
        """Digest of the request and answer of one step; None if nothing was released for it."""
        query = "SELECT request, text FROM answer WHERE name = ? AND step = ?"
        found: tuple[str, str] | None = self._book.execute(query, (name, step)).fetchone()
        return found

    def count(self, name: str) -> int:
        """Number of answers given for a release."""
        return int(self._book.execute("SELECT count(*) FROM answer WHERE name = ?", (name,)).fetchone()[0])

    # Step by step

    def resume(self, name: str) -> int:
        """Number of batches to pass over; after a restart of the machine, all that were reserved."""
        query = "SELECT reserved, skipped, boot FROM release WHERE name = ?"
        reserved, skipped, boot = self._book.execute(query, (name,)).fetchone()
        count, now = self.count(name), boot_id()
        if not now or boot != now:
            skipped = max(reserved - count, 0)
            self._durably("UPDATE release SET skipped = ?, boot = ? WHERE name = ?", skipped, now, name)
        return int(count + skipped)

    def reserve(self, name: str, batch: int) -> None:
        """Reserve a batch before it is used."""
        (reserved,) = self._book.execute("SELECT reserved FROM release WHERE name = ?", (name,)).fetchone()
        if batch >= reserved:
            self._durably("UPDATE release SET reserved = ? WHERE name = ?", batch + AHEAD, name)

    def keep_step(self, name: str, step: int, request: str, text: str) -> None:
        """Keep the answer of a step, whose batch was reserved, before it is sent."""
        self._book.execute("PRAGMA synchronous = NORMAL")
        self._book.execute("INSERT INTO answer VALUES (?, ?, ?, ?)", (name, step, request, text))

    def close(self) -> None:
        """Close the file."""
        self._book.close()
