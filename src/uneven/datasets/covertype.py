"""Covertype as the paper uses it: type 2 against the rest, 500,000 rows to learn from.

Ten columns are numbers, four say which wilderness area and forty which soil. The numbers are scaled to [0, 1] by the
ranges below, which are public constants, and rows are divided by the largest norm, another.
"""

from __future__ import annotations

import os
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uneven.datasets.dataset import ROUNDING, Dataset
from uneven.datasets.folder import check_arrays, downloading, find_data_folder, find_file

SHA256 = "374d5311b45f82216fef53d5f74bda06336ef91e24f09b2a62ff374ddf9fb206"
TRAIN, AREAS, SOILS = 500_000, 4, 40

RANGES = {
    "elevation": (1859, 3858),
    "aspect": (0, 360),
    "slope": (0, 66),
    "to_water_across": (0, 1397),
    "to_water_down": (-173, 601),
    "to_road": (0, 7117),
    "shade_at_9": (0, 254),
    "shade_at_12": (0, 254),
    "shade_at_15": (0, 254),
    "to_fire_points": (0, 7173),
}
"""Columns that are numbers, and their ranges over all 581,012 rows."""

LONGEST = 2.759682152379221
"""Largest norm of a row with its numbers so scaled."""

SAMPLE, SAMPLE_TEST = "covertype-60000.parquet", 10_000

Cells = NDArray[np.int16]


def load_covertype(data: str | os.PathLike[str] | None = None, seed: int = 0, types: bool = False) -> Dataset:
    """Covertype, type 2 against the rest: 500,000 rows to learn from, drawn at random, and 81,012 to test on.

    Parameters
    ----------
    data : path or None
        Folder with ``covtype/covtype.data.gz``. None takes `UNEVEN_DATA`, or else scikit-learn's ``fetch_covtype``,
        which downloads it once.
    seed : int
        Of the draw.
    types : bool
        Whether labels are the seven types, numbered from 0, instead of 1 for type 2 and -1 for the rest.
    """
    cells = load_raw_cells(find_data_folder(data))
    check_arrays("Covertype", SHA256, cells)
    order = np.random.default_rng(seed).permutation(len(cells))
    X, y = _scaled(cells)
    y = (cells[:, -1] - 1).astype(np.float64) if types else y
    train, test = order[:TRAIN], order[TRAIN:]
    return Dataset("covertype", X[train], y[train], X[test], y[test])


def load_covertype_sample() -> Dataset:
    """Rows of Covertype that come with the package: 50,000 to learn from and 10,000 to test on.

    >>> data = load_covertype_sample()
    >>> data.X.shape, data.X_test.shape
    ((50000, 54), (10000, 54))
    """
    import pyarrow.parquet

    with as_file(files("uneven.datasets") / SAMPLE) as path:
        table = pyarrow.parquet.read_table(path)
    numbers = [table.column(name).to_numpy() for name in RANGES]
    area, soil = (table.column(name).to_numpy() for name in ("wilderness_area", "soil"))
    one_hot = [np.eye(AREAS, dtype=np.int16)[area], np.eye(SOILS, dtype=np.int16)[soil]]
    X, y = _scaled(np.column_stack([*numbers, *one_hot, table.column("cover_type").to_numpy()]))
    train = len(y) - SAMPLE_TEST
    return Dataset("covertype-sample", X[:train], y[:train], X[train:], y[train:])


def load_raw_cells(folder: Path | None) -> Cells:
    """All 581,012 rows as published: 54 columns and the type."""
    if folder is None:
        from sklearn.datasets import fetch_covtype

        with downloading("Covertype"):
            X, y = fetch_covtype(return_X_y=True)
        return np.column_stack([X, y]).astype("<i2")
    table = _table(find_file(folder, "covtype", "covtype.data.gz"))
    return np.column_stack([table.column(i).to_numpy().astype("<i2") for i in range(table.num_columns)])


def _table(path: Path) -> Any:
    import pyarrow.csv

    try:
        return pyarrow.csv.read_csv(path, read_options=pyarrow.csv.ReadOptions(autogenerate_column_names=True))
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} cannot be read, it may be damaged or cut short: {error}") from None


def _scaled(cells: NDArray[np.integer]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    X = cells[:, :-1].astype(np.float32)
    low, high = np.array(list(RANGES.values()), dtype=np.float32).T
    X[:, : len(RANGES)] = (X[:, : len(RANGES)] - low) / (high - low)
    return X / np.float32(LONGEST * ROUNDING), np.where(cells[:, -1] == 2, 1.0, -1.0)
