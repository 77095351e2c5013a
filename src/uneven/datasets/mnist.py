"""MNIST as the paper uses it: 1 against the rest, projected at random to 25 dimensions."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.datasets.dataset import ROUNDING, Dataset
from uneven.datasets.folder import check_arrays, downloading, find_data_folder, find_file

SHA256 = "c2069063c1105f2bf96266aef1ff68c6e13bdda7a54e37bf19c16f1db24efc83"
TRAIN, PIXELS = 60_000, 784

Bytes = NDArray[np.uint8]


def load_mnist(
    data: str | os.PathLike[str] | None = None, dimensions: int | None = 25, seed: int = 0, digits: bool = False
) -> Dataset:
    """MNIST, 1 against the rest: 60,000 rows to learn from and 10,000 to test on.

    Pixels are divided by 255, projected by a Gaussian matrix over √d, and divided by the largest row norm. The paper
    does not say how it brought rows into the unit ball; this is our choice.

    Parameters
    ----------
    data : path or None
        Folder with ``mnist/``, the four original files. None takes `UNEVEN_DATA`, or else scikit-learn's
        ``fetch_openml``, which downloads them once.
    dimensions : int or None
        None keeps all 784.
    seed : int
        Of the projection.
    digits : bool
        Whether labels are the ten digits themselves, instead of 1 for a one and -1 for the rest.
    """
    images, labels = _raw(find_data_folder(data))
    check_arrays("MNIST", SHA256, images, labels)
    X = images.astype(np.float64) / 255.0
    if dimensions is not None:
        checks.whole("dimensions", dimensions)
        X = X @ (np.random.default_rng(seed).standard_normal((PIXELS, dimensions)) / np.sqrt(dimensions))
    rows = (X / (np.linalg.norm(X, axis=1).max() * ROUNDING)).astype(np.float32)
    y = labels.astype(np.float64) if digits else np.where(labels == 1, 1.0, -1.0)
    return Dataset("mnist", rows[:TRAIN], y[:TRAIN], rows[TRAIN:], y[TRAIN:])


def _raw(folder: Path | None) -> tuple[Bytes, Bytes]:
    if folder is None:
        from sklearn.datasets import fetch_openml

        with downloading("MNIST"):
            images, labels = fetch_openml("mnist_784", version=1, as_frame=False, return_X_y=True, parser="liac-arff")
        return images.astype(np.uint8), labels.astype(np.uint8)
    images, labels = (
        np.concatenate([_idx(find_file(folder, "mnist", f"{part}-{kind}-ubyte.gz")) for part in ("train", "t10k")])
        for kind in ("images-idx3", "labels-idx1")
    )
    return images.reshape(-1, PIXELS), labels


def _idx(path: Path) -> Bytes:
    """Values of an idx file: a header of four bytes, one size a dimension, and bytes."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} cannot be read, it may be damaged or cut short: {error}") from None
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * content[3])
