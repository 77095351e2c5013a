"""Covertype as the paper uses it, for the benchmarks: type 2 against the rest, 500,000 rows in the unit ball."""

import os
from pathlib import Path

import numpy as np
import pyarrow.csv

ROWS, FEATURES = 500_000, 54


def load() -> tuple[np.ndarray, np.ndarray, str]:
    """Rows (float32), labels (-1 and 1), and where they came from: UNEVEN_DATA, or made up in the same shape."""
    folder = Path(os.environ.get("UNEVEN_DATA", Path(__file__).parents[2] / "shared" / "data"))
    file = folder / "covtype" / "covtype.data.gz"
    rng = np.random.default_rng(0)
    if not file.exists():
        X = rng.random((ROWS, FEATURES), dtype=np.float32)
        return X / 9, np.where(X[:, 0] > 0.5, 1.0, -1.0), "made up (no UNEVEN_DATA)"
    options = pyarrow.csv.ReadOptions(autogenerate_column_names=True)
    table = pyarrow.csv.read_csv(file, read_options=options)
    columns = [table.column(i).to_numpy() for i in range(FEATURES + 1)]
    keep = rng.permutation(len(columns[0]))[:ROWS]
    X = np.stack(columns[:-1], axis=1)[keep].astype(np.float32)
    X = (X - X.min(axis=0)) / np.maximum(X.max(axis=0) - X.min(axis=0), 1)
    X /= np.linalg.norm(X, axis=1).max()
    return np.ascontiguousarray(X), np.where(columns[-1][keep] == 2, 1.0, -1.0), "Covertype"
