"""Sites that keep their rows, as processes on this machine with mutual TLS between them: what that costs.

Relay over three sites with 500,000 rows against the local fit of the same files; steps per second of oracle mode; both
from 3 to 30 sites; and a model fitted to those figures for 10,000 sites with 100 ms between them and the server.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from timing import row

from uneven.federation.calls import Ask
from uneven.federation.cells import open_server, open_site
from uneven.federation.kits import Kit, make_kits
from uneven.federation.policy import policy_to_text, read_policy
from uneven.federation.rehearsal import find_free_port
from uneven.federation.server import federate
from uneven.federation.site import Site
from uneven.io import read_sources
from uneven.ledger import Ledger
from uneven.training.files import train_files

FEATURES, BATCH = 20, 50
ROWS = int(os.environ.get("UNEVEN_BENCH_ROWS", 500_000))
SITES = tuple(map(int, os.environ.get("UNEVEN_BENCH_SITES", "3,10,30").split(",")))
AWAY, MANY = 0.1, 10_000
"""Seconds of a round trip between the server and a site, and sites, that the model is asked about."""


def make(root: Path, sites: int, rows: int) -> None:
    """Folders of sites with so many rows each, kits, and sources.toml with the data and without."""
    names = [f"site-{k}" for k in range(sites)]
    columns = [f"x{j}" for j in range(FEATURES)]
    make_kits(root, names, f"127.0.0.1:{find_free_port()}")
    head = f'features = {json.dumps(columns)}\nalpha = 0.001\nbatch_size = {BATCH}\nrow_norm = 1.0\nlabel = "y"\n'
    head += 'strategy = "precision"\n'  # all rows take steps
    files = {"local.toml": head, "sources.toml": head}
    for k, name in enumerate(names):
        rng = np.random.default_rng(k)
        X = rng.normal(size=(rows, FEATURES)).astype(np.float32) / np.sqrt(FEATURES) / 2
        np.savez(root / name / "rows.npz", X=X, y=(X[:, 0] > 0).astype(int))
        epsilon = 1.0 + k % 3
        values = {"name": name, "data": "rows.npz", "features": columns, "classes": [0, 1], "epsilon": epsilon}
        (root / name / "site.toml").write_text(policy_to_text(values | {"budget": 1e6}))
        noise = f'noise = {{ kind = "local-privacy", epsilon = {epsilon} }}\n'
        for file, where in (("local.toml", f'data = "{name}/rows.npz"'), ("sources.toml", f"rows = {rows}")):
            files[file] += f'[[source]]\nname = "{name}"\n{where}\n{noise}'
    for file, text in files.items():
        (root / file).write_text(text)


@contextmanager
def running(root: Path, sites: int) -> Iterator[None]:
    """A process for each site, forked so that all share what was imported."""
    children = []
    for k in range(sites):
        child = os.fork()
        if child == 0:
            folder = root / f"site-{k}"
            site = Site(read_policy(folder / "site.toml"))
            with open_site(Kit(folder), site.answer):
                time.sleep(1e6)
        children.append(child)
    try:
        yield
    finally:
        for child in children:
            os.kill(child, 9)
            os.waitpid(child, 0)


def timed(root: Path, ask: Ask, job: str, mode: str) -> float:
    start = time.perf_counter()
    done = federate(read_sources(root / "sources.toml"), ask, root / job, mode=mode)
    assert not done.left_out, done.left_out
    return time.perf_counter() - start


def measure(sites: int, rows: int, turns: int) -> dict[str, float]:
    """Seconds of the local fit, of a relay, of an oracle run (of fewer rows) and of start-up."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        make(root, sites, rows)
        start = time.perf_counter()
        with running(root, sites), open_server(Kit(root / "server")) as call:
            ask = Ask(call, 600.0)
            for k in range(sites):
                ask(f"site-{k}", {"kind": "describe", "name": "uneven", "mode": "relay"})
            found = {"start-up": time.perf_counter() - start}
            found["relay"] = min(timed(root, ask, f"relay{turn}", "relay") for turn in range(turns))
            if rows <= 10_000:
                found["oracle"] = timed(root, ask, "oracle", "oracle")
            else:
                found["local"] = min(local(root, turn) for turn in range(turns))
    return found


def local(root: Path, turn: int) -> float:
    start = time.perf_counter()
    train_files(read_sources(root / "local.toml"), ledger=Ledger(root / f"ledger{turn}.db", budget=1e6))
    return time.perf_counter() - start


def child(sites: int, rows: int, turns: int) -> dict[str, float]:
    """The same in a process of its own: NVFlare knows one server a process."""
    import subprocess

    command = [sys.executable, __file__, str(sites), str(rows), str(turns)]
    return dict(json.loads(subprocess.check_output(command, text=True)))


def main() -> None:
    large = child(3, ROWS // 3, 3)
    row(f"local fit of {ROWS:,} rows of 3 files, charged", f"{large['local']:.2f} s")
    ratio = f"{large['relay'] / large['local']:.2f} x local"
    row("relay over 3 sites with the same rows", f"{large['relay']:.2f} s")
    row("", ratio, "at most 3, plus start-up")
    row("start-up of server and sites", f"{large['start-up']:.2f} s")
    rows, steps = 1_000, 1_000 // BATCH
    small = {sites: child(sites, rows, 1) for sites in SITES}
    for sites, found in small.items():
        row(f"relay, {sites} sites of {rows:,} rows", f"{1e3 * found['relay'] / sites:.0f} ms/site")
        row(f"oracle, {sites} sites", f"{sites * steps / found['oracle']:.0f} steps/s", "at least 100")
    # One round trip to describe a site, one to run it; or one to open it and one for each step. Seconds per site are
    # fitted by least squares through the origin, over the numbers of sites that were measured.
    counts = np.array(list(small), dtype=float)
    relay, oracle = (counts @ [one[mode] for one in small.values()] / (counts @ counts) for mode in ("relay", "oracle"))
    for what, each, trips in (("relay", relay, 2), ("oracle", oracle, 2 + steps)):
        hours = MANY * (each + trips * AWAY) / 3600
        row(f"model: {what}, {MANY:,} sites of {rows:,} rows, {1e3 * AWAY:g} ms away", f"{hours:.1f} h")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(*map(int, sys.argv[1:]))))
        sys.stdout.flush()
        os._exit(0)
    main()
