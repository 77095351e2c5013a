"""A rehearsal on one machine: a real process for each site, certificates, mutual TLS on the loopback address."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from uneven.columns import columns_to_dict
from uneven.federation.kits import make_kits
from uneven.federation.policy import Refused, policy_to_text
from uneven.io import SourceEntry, SourcesFile
from uneven.training import FileRows, scan_rows

Call = Callable[[str, str], str]


def make_sites(file: SourcesFile, folder: Path, seed: int | None = None) -> None:
    """A folder for each source of a ``sources.toml`` with data: a kit, and a policy that allows what the file asks for.

    Ledgers are new and empty: a rehearsal spends nothing of the sites' true budgets, and protects nobody's rows
    beyond itself.
    """
    for entry in file.sources:
        if entry.data is None:
            raise ValueError(f"source {entry.name!r} must have data of its own to be rehearsed, got none")
    make_kits(folder, [entry.name for entry in file.sources], f"127.0.0.1:{find_free_port()}")
    stated = file.settings.classes
    classes = scan_rows(FileRows(file), held_bytes=0).classes.tolist() if stated is None else list(stated)
    for entry in file.sources:
        text = policy_to_text({**_policy(file, entry), "classes": classes, "seed": seed})
        (folder / entry.name / "site.toml").write_text(text, encoding="utf-8")


def _policy(file: SourcesFile, entry: SourceEntry) -> dict[str, object]:
    assert entry.data is not None
    epsilon = None if entry.noise is None else entry.noise.epsilon_per_row
    norm = file.settings.row_norm
    return {
        "name": entry.name,
        "data": str(entry.data.absolute()),
        "label": file.label,
        **describe_features(file),
        "row_norm": 1.0 if isinstance(norm, str) else float(norm),
        "private": epsilon is not None,
        "noises": None if epsilon is None or entry.noise is None else [entry.noise.protection.kind],
        "epsilon": epsilon,
        "budget": epsilon,
        "id": entry.columns.get("id"),
    }


def describe_features(file: SourcesFile) -> dict[str, object]:
    """Columns to learn from as a policy has them: described, or by name."""
    if file.columns is not None:
        return {"columns": columns_to_dict(file.columns)}
    return {"features": None if file.feature_names is None else list(file.feature_names)}


def find_free_port() -> int:
    """A port of the loopback address that nobody uses now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def run_sites(folder: Path, names: list[str], call: Call) -> Iterator[Call]:
    """Start ``uneven site run`` for each site, and end the processes afterwards; their logs are in their folders.

    Gives `call`, but for sites whose process has ended: those refuse with the last line of their log.
    """
    running: dict[str, subprocess.Popen[bytes]] = {}

    def checked(site: str, text: str) -> str:
        if running[site].poll() is not None:
            lines = (folder / site / "site.log").read_text(encoding="utf-8", errors="replace").splitlines()
            raise Refused(f"{site!r} has ended: {lines[-1] if lines else 'without a word'}")
        return call(site, text)

    try:
        for name in names:
            running[name] = start_site(folder / name)
        yield checked
    finally:
        for process in running.values():
            process.kill()  # a site may die at any moment
            process.wait()


def start_site(folder: Path) -> subprocess.Popen[bytes]:
    """A process that answers for the site in this folder."""
    with (folder / "site.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "uneven", "site", "run", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
