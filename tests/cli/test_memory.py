"""``uneven fit`` and ``uneven predict`` keep no more in memory for ten times the rows."""

import os
import subprocess
import sys

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

pytestmark = pytest.mark.slow

COLUMNS, PIECE = 40, 1 << 17
SOURCES = 'label = "y"\n[[source]]\nname = "a"\ndata = "{}"\nnoise = {{ kind = "flipped-labels", rate = 0.1 }}\n'


def write_rows(path, pieces):
    """Rows of float32, `pieces` times over; 21 MB a piece once it is read."""
    X = np.random.default_rng(0).normal(size=(PIECE, COLUMNS)).astype(np.float32)
    columns = {f"x{j}": X[:, j] for j in range(COLUMNS)}
    table = pyarrow.table({**columns, "y": X[:, 0] > 0})
    with parquet.ParquetWriter(path, table.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(pieces):
            writer.write_table(table)


MEASURE = """
import os, sys
child = os.posix_spawn(sys.executable, [sys.executable, "-m", "uneven", *sys.argv[1:]], os.environ)
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak(*arguments):
    """Most memory that a command had, in MB; a process in between, since a child starts with its parent's peak."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout.split()[-1]) / 1024


def least_peak(*arguments):
    """The less of two: on a busy machine pieces wait in memory to be used."""
    return min(peak(*arguments) for _ in range(2))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is in other units elsewhere")
def test_ten_times_the_rows_in_the_same_memory(tmp_path):
    used, sizes = {}, {}
    for name, pieces in (("small", 3), ("large", 30)):
        rows = tmp_path / f"{name}.parquet"
        write_rows(rows, pieces)
        (tmp_path / f"{name}.toml").write_text(SOURCES.format(rows.name))
        model = tmp_path / "model.json"
        sizes[name] = rows.stat().st_size / 2**20
        used[name] = [
            least_peak("fit", tmp_path / f"{name}.toml", "-o", model, "--seed", 0),
            least_peak("predict", model, rows, "-o", tmp_path / "p.parquet"),
        ]
        rows.unlink()
    print(f"files of {sizes}, peaks of {used} MB")
    for small, large in zip(used["small"], used["large"], strict=True):
        assert large - small < 0.1 * (sizes["large"] - sizes["small"])  # a tenth, for the allocator's moods
        assert large < sizes["large"]  # it does not fit in what was used


MIXED = """label = "y"
row_norm = 10.0
[[source]]
name = "open"
data = "open.parquet"
noise = { kind = "exact" }
[[source]]
name = "closed"
data = "closed.parquet"
noise = { kind = "local-privacy", epsilon = 3.0 }
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is in other units elsewhere")
def test_private_rows_beside_public_ones_take_no_more_memory_when_they_are_four_times_as_many(tmp_path):
    (tmp_path / "sources.toml").write_text(MIXED)
    write_rows(tmp_path / "open.parquet", 1)
    used, sizes = [], []
    for pieces in (3, 12):
        write_rows(tmp_path / "closed.parquet", pieces)
        sizes.append((tmp_path / "closed.parquet").stat().st_size / 2**20)
        used.append(least_peak("fit", tmp_path / "sources.toml", "-o", tmp_path / "model.json", "--seed", 0))
    assert '"anchored"' in (tmp_path / "model.json").read_text()
    assert used[1] - used[0] < 0.1 * (sizes[1] - sizes[0])


TEXT = """n_features = 20000
classes = [0, 1]
row_norm = 1.0
sketch = 128
[[source]]
name = "reviews"
data = "reviews.svm"
noise = { kind = "local-privacy", epsilon = 3.0 }
"""


def write_reviews(path, pieces, rows=20_000, words=100):
    """TF-IDF text as libsvm has it, `pieces` times over: 100 of 20,000 words in a row, frequent ones more often."""
    rng = np.random.default_rng(0)
    places = np.sort((20_000 ** rng.random((rows, words))).astype(int), axis=1)
    values = np.log(places + 1.0) / np.linalg.norm(np.log(places + 1.0), axis=1, keepdims=True) * 0.999
    labels = (values[:, :50].sum(axis=1) > np.median(values[:, :50].sum(axis=1))).astype(int)
    lines = [
        f"{label} " + " ".join(f"{at}:{value:.4f}" for at, value in dict(zip(*row, strict=True)).items())
        for label, *row in zip(labels, places.tolist(), values.tolist(), strict=True)
    ]
    with path.open("w") as file:
        for _ in range(pieces):
            file.write("\n".join(lines) + "\n")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is in other units elsewhere")
def test_private_text_of_20000_columns_takes_no_more_memory_for_more_rows(tmp_path):
    (tmp_path / "sources.toml").write_text(TEXT)
    used, sizes = [], []
    for pieces in (8, 20):
        write_reviews(tmp_path / "reviews.svm", pieces)
        sizes.append((tmp_path / "reviews.svm").stat().st_size / 2**20)
        used.append(least_peak("fit", tmp_path / "sources.toml", "-o", tmp_path / "model.json", "--seed", 0))
    print(f"files of {sizes}, peaks of {used} MB")
    assert used[1] - used[0] < 0.1 * (sizes[1] - sizes[0])  # a tenth, for the allocator's moods
