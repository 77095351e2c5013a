"""Where the files are, and whether what was read is what it should be."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def find_data_folder(folder: str | os.PathLike[str] | None) -> Path | None:
    """Folder with the data sets: as given, or `UNEVEN_DATA`, or None, for scikit-learn's own download and cache."""
    named = folder or os.environ.get("UNEVEN_DATA")
    if not named:
        return None
    if not Path(named).is_dir():
        what = "data" if folder else "UNEVEN_DATA"
        raise FileNotFoundError(f"{what} must be a folder with the data sets, got {str(named)!r}, which is none")
    return Path(named)


@contextmanager
def downloading(name: str) -> Iterator[None]:
    """Say in one line what to do where a download fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of each try
            yield
    except OSError as error:
        raise OSError(
            f"{name} could not be downloaded ({error}); --data or UNEVEN_DATA may name a folder that has it"
        ) from None


def find_file(folder: Path, *parts: str) -> Path:
    """File of a data set, or a refusal that names it."""
    path = folder.joinpath(*parts)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; the data folder must have it, or leave UNEVEN_DATA unset")
    return path


def check_arrays(name: str, sha256: str, *arrays: NDArray[np.integer]) -> None:
    """Refuse arrays whose bytes are not those we know: the same check wherever they came from."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    if digest.hexdigest() != sha256:
        raise ValueError(f"{name} must have the sha256 {sha256[:12]}..., got {digest.hexdigest()[:12]}...: damaged?")
