"""Files larger than the memory a fit may use: peak memory, and time against reading the file alone.

Twenty columns in Parquet; and TF-IDF rows of 20,000 columns in libsvm's format, private, for some rows and for four
times as many.
"""

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
WORDS, LENGTH, EPSILON = 20_000, 60, 3.0
TEXTS = max(1_000, ROWS // 400)
SOURCES = f"""n_features = {WORDS}
classes = [0, 1]
row_norm = 1.0
sketch = "{{}}"
[[source]]
name = "texts"
data = "texts.svm"
noise = {{{{ kind = "local-privacy", epsilon = {EPSILON} }}}}
"""


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


def write_texts(path: Path, count: int) -> None:
    """TF-IDF rows of made-up texts: words as frequent as Zipf has it, some three times as often in one class."""
    rng = np.random.default_rng(0)
    base = 1.0 / np.arange(1, WORDS + 1)
    telling = np.random.default_rng(1).permutation(np.arange(20, 2_000))[:400].reshape(2, 200)
    shares = np.stack([base, base])
    for label in (0, 1):
        shares[label, telling[label]] *= 3.0
    shares, weight = np.cumsum(shares, axis=1), 1.0 - np.log1p(-((1.0 - base / base.sum()) ** LENGTH))
    with path.open("w") as file:
        for _ in range(count):
            label = int(rng.integers(2))
            drawn = np.searchsorted(shares[label], rng.random(LENGTH) * shares[label, -1])
            words, times = np.unique(drawn, return_counts=True)
            values = times * weight[words]
            pairs = zip(words + 1, 0.999 * values / np.linalg.norm(values), strict=True)
            file.write(" ".join([str(label), *(f"{word}:{value:.5f}" for word, value in pairs)]) + "\n")


def fit_texts(path: str) -> None:
    from uneven.io import read_sources
    from uneven.training import train_files

    start = time.perf_counter()
    train_files(read_sources(path), seed=0)
    print(time.perf_counter() - start)


def child(what: str, path: Path) -> tuple[float, float]:
    """Seconds and peak memory (MB) of one of the functions above, in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, what, str(path)]
    out = subprocess.check_output(command, text=True).split()
    return float(out[0]), float(out[1]) / 1e3


def stream_texts() -> None:
    """Rows of private text, streamed from a file: time and memory, with a stated width and with one that is chosen."""
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "sources.toml"
        for count in (TEXTS, 4 * TEXTS):
            write_texts(Path(folder) / "texts.svm", count)
            print(f"Private TF-IDF text from a libsvm file, {count:,} x {WORDS:,}, ε = {EPSILON:g}")
            for width in ("256", "auto"):
                sources.write_text(SOURCES.format(width).replace('"256"', "256"))
                seconds, memory = child("texts", sources)
                row(f"streamed fit, sketch = {width}", f"{seconds:.1f} s, {memory:.0f} MB")


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
    stream_texts()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        if sys.argv[1] == "read":
            start = time.perf_counter()
            read(sys.argv[2])
            print(time.perf_counter() - start)
        else:
            (fit_texts if sys.argv[1] == "texts" else fit)(sys.argv[2])
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    else:
        main()
