"""The rows of a site, read and checked against its own policy before it answers anyone."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from uneven.federation.policy import Policy, Refused
from uneven.io import Table, open_table
from uneven.ledger import Fingerprints, count_copies, list_columns
from uneven.training import ArrayRows, Hasher, Piece, Rows, SameRows, Scan, scan_rows


@dataclass(frozen=True)
class SiteRows(Rows):
    """Rows of a site's file."""

    table: Table
    policy: Policy

    @property
    def n_features(self) -> int:
        """Number of columns learned from."""
        return self.policy.n_features

    def pieces(self, checked: bool = True, only: str | None = None) -> Iterator[Piece]:
        """Rows piece by piece, in the file's order."""
        policy, columns = self.policy, [] if self.policy.id is None else [self.policy.id]
        for X, y, said in self.table.read(policy.label, policy.features, columns, checked, policy.encoder):
            ids = None if policy.id is None else said[policy.id]
            cells = None if policy.encoder is None else {name: said[name] for name in policy.features}
            yield Piece(X, y, policy.name, row_id=ids, cells=cells, where=str(self.table.path))


@dataclass(frozen=True)
class Opened:
    """Rows of a file as they are released, what the first reading found, and which file that was."""

    rows: Rows
    scan: Scan
    path: Path
    file: tuple[int, ...]

    def refuse_changed(self, name: str) -> None:
        """Refuse, before anything is charged, to read again a file that has changed; `SameRows` looks at each row."""
        if not isinstance(self.rows, ArrayRows) and identify_file(self.path) != self.file:
            raise Refused(f"{name!r} must be started again: a file of its rows has changed; nothing was charged")


def identify_file(path: Path) -> tuple[int, ...]:
    """Numbers that change when a file is replaced or written to; empty if there is no file."""
    found = path.stat() if path.exists() else None
    return () if found is None else (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def open_rows(policy: Policy, file: str, key: bytes) -> Opened:
    """Rows of a file, and what the first reading found; the key is that of the ledger's fingerprints."""
    path = policy.path(file)
    before, rows = identify_file(path), SiteRows(open_table(path), policy)
    scan = _checked_scan(policy, rows, key)
    held = None if scan.held is None else ArrayRows(Piece(*scan.held, policy.name, where=str(path)))
    return Opened(SameRows(rows, scan.digests) if held is None else held, scan, path, before)


def identify_rows(policy: Policy, scan: Scan, key: bytes) -> NDArray[np.int64] | Fingerprints:
    """How the ledger knows the rows: by their ids, or by their content."""
    if scan.row_id is not None:
        return scan.row_id
    assert scan.content is not None
    cells = None if policy.encoder is None else policy.features
    return count_copies(key, scan.content, list_columns(policy.feature_names, scan.n_features, cells))


def refuse_shared_rows(policy: Policy, scan: Scan, kept: Scan) -> None:
    """Refuse rows kept aside that are also learned from: what they may spend would then tell the server which."""
    ours, theirs = (one.content if one.row_id is None else one.row_id for one in (scan, kept))
    if ours is not None and theirs is not None and len(both := np.intersect1d(ours, theirs)):
        raise ValueError(
            f"{policy.kept} must have other rows than {policy.data}, got {len(both)} that are in both; leave them out, "
            "or give an id to every row"
        )


def digest_rows(scan: Scan) -> str:
    """Digest of how the ledger knows the rows, in their order; empty if no row is private."""
    known = scan.content if scan.row_id is None else scan.row_id
    return "" if known is None else hashlib.sha256(known.astype("<i8").tobytes()).hexdigest()


def _checked_scan(policy: Policy, rows: SiteRows, key: bytes) -> Scan:
    """The site's rows, refused where they are not what its policy says: for its operator only."""
    known = Hasher(key, None, policy.feature_names, every=True, described=policy.encoder is not None)
    hasher = known if policy.private and policy.id is None else None
    scan = scan_rows(rows, (policy.row_norm,), policy.class_values, (), hasher=hasher)
    if scan.sparse and policy.private:
        raise ValueError(f"{policy.data} must have dense rows to be private: noise fills every coordinate")
    if scan.row_id is not None and scan.row_id.dtype.kind not in "iu":
        raise ValueError(f"{policy.id} of {policy.data} must be whole numbers, got {scan.row_id.dtype}")
    if scan.row_id is not None and len(np.unique(scan.row_id)) < scan.rows:
        raise ValueError(f"{policy.id} of {policy.data} must be distinct, got the same id more than once")
    return scan


def hold_folder(policy: Policy) -> IO[bytes]:
    """Hold the site's folder until the process ends, however it ends: two processes could release a row each."""
    lock = os.fdopen(os.open(policy.path("site.lock"), os.O_RDWR | os.O_CREAT, 0o600), "r+b")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise ValueError(f"{policy.folder} must be used by one site at a time, got a second one") from None
    return lock
