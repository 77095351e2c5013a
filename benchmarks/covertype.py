"""Covertype for the benchmarks: the paper's 500,000 rows, or without them the package's sample ten times over."""

import os

import numpy as np

from uneven.datasets import load_covertype, load_covertype_sample

ROWS, FEATURES = 500_000, 54


def load() -> tuple[np.ndarray, np.ndarray, str]:
    """Rows (float32), labels (-1 and 1), and where they came from."""
    if os.environ.get("UNEVEN_DATA"):
        data = load_covertype()
        return data.X, data.y, "Covertype"
    data = load_covertype_sample()
    times = ROWS // len(data.y)
    return (
        np.tile(data.X, (times, 1)),
        np.tile(data.y, times),
        f"the sample of Covertype {times} times (no UNEVEN_DATA)",
    )
