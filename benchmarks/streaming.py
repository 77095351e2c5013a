"""A Parquet file larger than the memory a fit may use: peak memory and time against reading the file alone."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from timing import row

FEATURES, GROUP = 20, 250_000
ROWS = int(os.environ.get("UNEVEN_BENCH_ROWS", 20_000_000))


def write(path: Path) -> None:
    rng = np.random.default_rng(0)
    schema = pa.schema([("y", pa.bool_()), *((f"x{j}", pa.float32()) for j in range(FEATURES))])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, ROWS, GROUP):
            X = rng.random((FEATURES, min(GROUP, ROWS - start)), dtype=np.float32) / 5
            y = X[0] + X[1] > 0.2 + 0.05 * rng.standard_normal(X.shape[1])
            writer.write_table(pa.table([y, *X], schema=schema))


def batches(path: str):
    return pq.ParquetFile(path, pre_buffer=False).iter_batches(batch_size=1 << 16)


def read(path: str) -> None:
    for batch in batches(path):
        batch.num_rows  # noqa: B018


def fit(path: str) -> None:
    import uneven

    plan = uneven.plan([uneven.Source("file", ROWS, uneven.LocalPrivacy(1, "l2-laplace"))], FEATURES)
    start = time.perf_counter()
    fitted = uneven.fit(plan, {"file": uneven.from_record_batches(batches(path), label="y")}, seed=0)
    assert fitted.state.step == plan.steps
    print(time.perf_counter() - start)


def child(what: str, path: Path) -> tuple[float, float]:
    """Seconds and peak memory (MB) of one of the functions above, in a process of its own."""
    out = subprocess.check_output([sys.executable, __file__, what, str(path)], text=True).split()
    return float(out[0]), float(out[1]) / 1e3


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write(path)
        child("fit", path)  # compile, and bring the file into the page cache for both
        turns = [(child("read", path), child("fit", path)) for _ in range(3)]
        reading = min(read for (read, _), _ in turns)
        fitting = min(seconds for _, (seconds, _) in turns)
        memory = max(most for _, (_, most) in turns)
        print(f"Streamed Parquet, {ROWS:,} x {FEATURES} ({path.stat().st_size / 1e9:.1f} GB), l2-laplace")
        row("reading the file alone", f"{reading:.1f} s")
        row("streamed fit / reading alone", f"{fitting / reading:.2f} x", "at most 3")
        row("peak memory of the fit's process", f"{memory:.0f} MB", "under 500")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        if sys.argv[1] == "read":
            start = time.perf_counter()
            read(sys.argv[2])
            print(time.perf_counter() - start)
        else:
            fit(sys.argv[2])
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    else:
        main()
