"""Measured runs of a panel, as a table in Parquet: one row per case and run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uneven.io import written_atomically

Array = NDArray[np.float64]

KEY = b"uneven"
"""Key of the settings in a Parquet file's metadata."""


@dataclass(frozen=True)
class Results:
    """Measured runs of one panel.

    Attributes
    ----------
    panel : str
    settings : dict
        What the runs were made with.
    values : dict of str to dict of (str, float) to array
        By quantity, then by method and x: one number per run, in the order of the runs.
    """

    panel: str
    settings: Mapping[str, Any]
    values: Mapping[str, Mapping[tuple[str, float], Array]]

    @property
    def kind(self) -> str:
        """Kind of the panel, such as "ablation" of "ablation-mnist"."""
        return self.panel.rpartition("-")[0]

    @property
    def runs(self) -> int:
        """Number of runs of each case."""
        return len(next(iter(self.values["objective"].values())))

    @property
    def methods(self) -> list[str]:
        """Methods, in the order of the panel's cases."""
        return list(dict.fromkeys(method for method, _ in self.values["objective"]))

    def of(self, method: str, quantity: str = "objective") -> tuple[Array, Array]:
        """Values of x, shape (points,), and the method's runs at each, shape (points, runs)."""
        found = {x: runs for (name, x), runs in self.values[quantity].items() if name == method}
        return np.array(list(found)), np.array(list(found.values()))

    def gap(self, method: str) -> tuple[Array, Array]:
        """The same for |f(w) - f(v)|: how far noise has taken a run from its noise-free twin."""
        x, noisy = self.of(method)
        return x, np.abs(noisy - self.of(method, "twin_objective")[1])

    def excess(self, method: str) -> tuple[Array, Array, Array]:
        """Values of x, and the mean of f - f* at each with its standard error."""
        x, runs = self.of(method)
        return x, *estimate_mean(runs - self.settings["optimum"]["objective"])


def estimate_mean(runs: ArrayLike) -> tuple[Array, Array]:
    """Mean over runs, the last axis, and its standard error s/√runs; NaN for one run.

    >>> mean, error = estimate_mean([[1.0, 3.0, 1.0, 3.0]])
    >>> mean.tolist(), error.round(4).tolist()
    ([2.0], [0.5774])
    """
    values = np.asarray(runs, dtype=np.float64)
    count = values.shape[-1]
    spread = values.std(axis=-1, ddof=1) if count > 1 else np.full(values.shape[:-1], np.nan)
    return np.asarray(values.mean(axis=-1)), np.asarray(spread / np.sqrt(count))


def format_mean(runs: ArrayLike, percent: bool = False) -> str:
    """Mean over runs ± its standard error; of shares perhaps in percent.

    >>> format_mean([1.0, 2.0, 3.0]), format_mean([0.5, 0.6, 0.7], percent=True)
    ('2.000 ± 0.577', '60.0% ± 5.8')
    """
    mean, error = estimate_mean(runs)
    return f"{mean:.1%} ± {100 * error:.1f}" if percent else f"{mean:.3f} ± {error:.3f}"


def write_part(path: Path, columns: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Write some runs as Parquet with what they were made with, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.table(dict(columns)).replace_schema_metadata({KEY: json.dumps(settings)})
    with written_atomically(path) as temporary:
        pyarrow.parquet.write_table(table, temporary)


def read_part(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Columns of some runs, and what they were made with."""
    import pyarrow as pa
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
        settings = json.loads((table.schema.metadata or {})[KEY])
    except (pa.ArrowInvalid, OSError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is not a result of uneven, or is damaged; remove it to run again ({error})") from None
    return {name: table.column(name).to_numpy() for name in table.column_names}, settings


def list_parts(folder: Path, panel: str) -> list[Path]:
    """Files with runs of a panel."""
    return sorted((folder / panel).glob("runs-*.parquet"))


def read_results(folder: Path, panel: str) -> Results:
    """All runs of a panel that were measured so far."""
    if not (found := list_parts(folder, panel)):
        raise FileNotFoundError(f"{folder / panel} has no results; run 'uneven reproduce {panel}' first")
    read = [read_part(path) for path in found]
    columns = {name: np.concatenate([part[name] for part, _ in read]) for name in read[0][0]}
    pairs = np.stack([columns["case"], columns["run"]])
    order = np.unique(pairs, axis=1, return_index=True)[1]  # sorted, and a run that is in two files counts once
    columns = {name: values[order] for name, values in columns.items()}
    starts = np.unique(columns["case"], return_index=True)[1]
    keys = [(str(columns["method"][i]), float(columns["x"][i])) for i in starts]
    quantities = set(columns) - {"case", "method", "x", "run"}
    values = {name: dict(zip(keys, np.split(columns[name], starts[1:]), strict=True)) for name in quantities}
    return Results(panel, read[0][1], values)
