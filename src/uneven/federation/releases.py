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

The ledger has claims of its own for answers and reservations, and the tally counts the answers to steps. So where
this file, or the ledger, was put back from an older copy, that shows: what may have been released is not made again.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from pathlib import Path
from typing import Any

from uneven.federation.policy import Policy, Refused
from uneven.ledger import BudgetExceeded, Ledger

AHEAD = 64
"""Batches that are reserved at a time: as many are lost at most when the machine goes down."""

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS release (name TEXT PRIMARY KEY, request TEXT NOT NULL, seed INTEGER NOT NULL, "
    "reserved INTEGER NOT NULL, skipped INTEGER NOT NULL, boot TEXT NOT NULL, rows TEXT NOT NULL DEFAULT '')",
    "CREATE TABLE IF NOT EXISTS answer (name TEXT, step INTEGER, request TEXT NOT NULL, text TEXT NOT NULL, "
    "PRIMARY KEY (name, step)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)
BOOT = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """What tells one start of the machine from another; empty where that is unknown, which counts as another."""
    return BOOT.read_text(encoding="ascii").strip() if BOOT.exists() else ""


class Releases:
    """Releases of one site, in an SQLite file; `tally` is an open file for the number of answers, or None."""

    def __init__(self, path: Path, tally: Any = None) -> None:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)  # an older file; SQLite gives its other files the same
        self._book = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for setting in ("journal_mode = WAL", "fullfsync = ON"):
            self._book.execute(f"PRAGMA {setting}")
        for statement in SCHEMA:
            self._durably(statement)
        if "rows" not in [column[1] for column in self._book.execute("PRAGMA table_info(release)")]:  # an older file
            self._durably("ALTER TABLE release ADD COLUMN rows TEXT NOT NULL DEFAULT ''")
        self._tally, self._total = tally, int(self._book.execute("SELECT count(*) FROM answer").fetchone()[0])
        if tally is not None and not self._agrees():
            self._durably("UPDATE release SET boot = ''")  # as after a restart of the machine
        self._write_tally()  # at once: a process that ends before its first answer has lost nothing

    def _agrees(self) -> bool:
        """Whether all answers are here that the tally has counted since the machine was started."""
        boot, _, count = os.pread(self._tally.fileno(), 200, 0).decode("ascii", "replace").strip().partition(" ")
        return boot == boot_id() and count.isdigit() and self._total >= int(count)

    def _count(self) -> None:
        """Count one more answer."""
        self._total += 1
        self._write_tally()

    def _write_tally(self) -> None:
        """Write the number of answers, without waiting for the disk, so it survives the death of the process."""
        if self._tally is not None:
            os.pwrite(self._tally.fileno(), f"{boot_id()} {self._total}\n".encode(), 0)

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
        self._count()

    def find(self, name: str, step: int) -> tuple[str, str] | None:
        """Digest of the request and answer of one step; None if nothing was released for it."""
        query = "SELECT request, text FROM answer WHERE name = ? AND step = ?"
        found: tuple[str, str] | None = self._book.execute(query, (name, step)).fetchone()
        return found

    def count(self, name: str) -> int:
        """Number of answers given for a release."""
        return int(self._book.execute("SELECT count(*) FROM answer WHERE name = ?", (name,)).fetchone()[0])

    def answered(self) -> list[str]:
        """Names of all releases that something was answered for."""
        return [name for (name,) in self._book.execute("SELECT DISTINCT name FROM answer ORDER BY name")]

    def bind(self, key: bytes) -> bool:
        """Whether this is the record beside the ledger of that key; a new record becomes it."""
        self._durably("INSERT OR IGNORE INTO fact VALUES ('ledger', ?)", hashlib.sha256(key).hexdigest())
        found = self._book.execute("SELECT value FROM fact WHERE name = 'ledger'").fetchone()
        return bool(found[0] == hashlib.sha256(key).hexdigest())

    # Step by step

    def reserved(self, name: str) -> int:
        """Number of batches that are reserved."""
        return int(self._book.execute("SELECT reserved FROM release WHERE name = ?", (name,)).fetchone()[0])

    def resume(self, name: str) -> int:
        """Number of batches to pass over; after a restart of the machine, all that were reserved."""
        query = "SELECT reserved, boot FROM release WHERE name = ?"
        reserved, boot = self._book.execute(query, (name,)).fetchone()
        if not (now := boot_id()) or boot != now:
            skipped = max(reserved - self.count(name), 0)
            self._durably("UPDATE release SET skipped = ?, boot = ? WHERE name = ?", skipped, now, name)
        return self.used(name)

    def used(self, name: str) -> int:
        """Number of batches that were answered or passed over."""
        (skipped,) = self._book.execute("SELECT skipped FROM release WHERE name = ?", (name,)).fetchone()
        return self.count(name) + int(skipped)

    def reserve(self, name: str, batch: int) -> int:
        """Reserve a batch before it is used; the number now reserved, or 0 where it was reserved already."""
        if batch < self.reserved(name):
            return 0
        self._durably("UPDATE release SET reserved = ? WHERE name = ?", batch + AHEAD, name)
        return batch + AHEAD

    def keep_step(self, name: str, step: int, request: str, text: str) -> None:
        """Keep the answer of a step, whose batch was reserved, before it is sent."""
        self._book.execute("PRAGMA synchronous = NORMAL")
        self._book.execute("INSERT INTO answer VALUES (?, ?, ?, ?)", (name, step, request, text))
        self._count()

    def close(self) -> None:
        """Close the file."""
        self._book.close()


def open_ledger(policy: Policy) -> Ledger:
    """The site's ledger; a new one is refused where answers were given under another."""
    ledger, releases = policy.path(policy.ledger), policy.path(policy.releases)
    if releases.exists() and not ledger.exists():
        raise ValueError(f"{ledger} must exist next to {releases}, got none: what rows have spent would be lost")
    return Ledger(ledger, budget=policy.budget)


def open_releases(policy: Policy, ledger: Ledger, tally: Any) -> Releases:
    """The record of answers, refused where it or the ledger is not the one, or not as new as the other."""
    path, kept = policy.path(policy.releases), f"{policy.name} keeps {policy.releases}"
    if ledger.claimed(kept) and not path.exists():
        raise ValueError(f"{path} must exist next to {ledger.path}, got none: what was released would be lost")
    ledger.make()  # first: a record without its ledger is refused
    releases = Releases(path, tally)
    try:
        if not releases.bind(ledger.key):
            raise ValueError(f"{ledger.path} must be the ledger that was beside {path}, got another one")
        if policy.private and not ledger.claimed(*releases.answered()):
            raise ValueError(f"{ledger.path} must have charged what {path} has answered, got an older copy of it")
    except ValueError:
        releases.close()
        raise
    ledger.claim(kept)
    return releases


def charge_rows(
    policy: Policy, ledger: Ledger, releases: Releases, charge: tuple[str, Any, float], release: str
) -> None:
    """Charge the rows of a release, once; refused where the ledger was put back from an older copy meanwhile."""
    if not ledger.claimed(*releases.answered()):
        raise Refused(f"{policy.name!r} must be started again: its ledger has changed; nothing was charged")
    try:
        ledger.charge_all([charge], policy.budget, claim=release)
    except BudgetExceeded:
        more = f"their budget of {policy.budget:g} with {charge[2]:g} more"
        raise Refused(f"rows of {charge[0]!r} would exceed {more}; nothing was charged") from None
