"""Labels and probabilities for a file of rows, a piece at a time."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from uneven import checks
from uneven.io import Table, check_delimiter, list_names, open_table, written_atomically
from uneven.losses import get_loss
from uneven.softmax import compute_probabilities
from uneven.training.model import Model, choose_classes

Columns = dict[str, Any]
FORMATS = (".csv", ".parquet")


def open_rows(
    model: Model, path: str | os.PathLike[str], delimiter: str | None = None
) -> tuple[Table, tuple[str, ...]]:
    """File of rows, and the columns that the model learned from; others may be there too."""
    stated = None if delimiter is None else check_delimiter(delimiter)
    table = open_table(path, n_features=model.n_features, delimiter=stated)
    names = model.feature_names if model.columns is None else tuple(column.name for column in model.columns)
    if names is None:
        _, own = table.select()
        if len(own) != model.n_features:
            raise ValueError(
                f"{table.path} must have {model.n_features} columns for a model that does not know their names, "
                f"got {len(own)}"
            )
        return table, own
    missing = [name for name in names if name not in table.columns]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(
            f"{table.path} must have the columns the model learned from; {missing[0]!r}{more} missing, "
            f"there are {list_names(table.columns)}"
        )
    return table, names


def predict_table(
    model: Model,
    table: Table,
    features: tuple[str, ...],
    keep: Sequence[str] = (),
    threshold: float | None = None,
    unknown: dict[str, Counter[str]] | None = None,
) -> Iterator[Columns]:
    """Predicted label and the probability of each class, in pieces; scores for a loss without probabilities.

    Parameters
    ----------
    model : Model
    table : Table
    features : tuple of str
        Columns that the model learned from.
    keep : sequence of str
        Columns of the table to put before them, as they are written.
    threshold : float or None
        Probability of the second of two classes from which it is predicted; None means the model's own, or one half.
    unknown : dict or None
        Gets the values of each category that the model does not know, and how many rows have them.
    """
    cut = model.settings.threshold if threshold is None else _checked_threshold(model, threshold)
    kept = table.verbatim(keep) if keep else repeat({})
    return _predictions(model, table.read(None, features, encoder=model.encoder), kept, cut, unknown)


def _predictions(
    model: Model,
    pieces: Iterator[tuple[Any, Any, dict[str, Any]]],
    kept: Iterator[Mapping[str, Any]],
    cut: float | None,
    unknown: dict[str, Counter[str]] | None,
) -> Iterator[Columns]:
    for (X, _, said), cells in zip(pieces, kept, strict=False):
        if unknown is not None and model.encoder is not None:
            for name, texts in model.encoder.find_unknown(said).items():
                unknown.setdefault(name, Counter()).update(texts)
        scores = model.scores(X)
        labels = choose_classes(scores, model.classes, cut)
        found = {"label": labels, **_confidence(model, scores)}
        for name, values in cells.items():
            if name in found:
                raise ValueError(f"--keep must be columns other than the predicted {', '.join(found)}; got {name!r}")
            assert len(values) == len(labels)
        yield {**cells, **found}


def _checked_threshold(model: Model, threshold: float) -> float:
    """The threshold, for a model with probabilities of two classes."""
    if len(model.classes) != 2 or not get_loss(model.settings.loss).probabilistic:
        raise ValueError("--threshold must be left out for a model without the probabilities of two classes")
    return checks.fraction("--threshold", threshold)


def _confidence(model: Model, scores: NDArray[np.float64]) -> Columns:
    if get_loss(model.settings.loss).probabilistic:
        probabilities = compute_probabilities(scores, model.together)
        return {f"probability_{one}": probabilities[:, k] for k, one in enumerate(model.classes.tolist())}
    if scores.ndim == 1:
        return {"score": scores}
    return {f"score_{one}": scores[:, k] for k, one in enumerate(model.classes.tolist())}


def mark_simulated(pieces: Iterator[Columns]) -> Iterator[Columns]:
    """Pieces whose every row says that the model was made with noise from a seed, which protects nobody."""
    for piece in pieces:
        yield {**piece, "simulated": np.full(len(piece["label"]), True)}


def count_labels(pieces: Iterator[Columns], counts: dict[Any, int]) -> Iterator[Columns]:
    """The pieces themselves; on the way, how often each label was predicted."""
    for piece in pieces:
        labels, times = np.unique(piece["label"], return_counts=True)
        for label, n in zip(labels.tolist(), times.tolist(), strict=True):
            counts[label] = counts.get(label, 0) + n
        yield piece


def write_predictions(pieces: Iterator[Columns], path: str | os.PathLike[str]) -> None:
    """Write pieces to a .csv or .parquet file, whole or not at all."""
    writer = _WRITERS.get(Path(path).suffix.lower())
    if writer is None:
        raise ValueError(f"{os.fspath(path)} must end in {' or '.join(FORMATS)}; it is what predictions are written to")
    with written_atomically(path) as temporary, temporary.open("wb") as file:
        writer(pieces, file)


def stream_csv(pieces: Iterator[Columns], file: IO[bytes]) -> None:
    """Write pieces as CSV."""
    from pyarrow import csv

    options = csv.WriteOptions(quoting_style="needed")
    _write(pieces, lambda schema: csv.CSVWriter(file, schema, write_options=options))


def _write_parquet(pieces: Iterator[Columns], file: IO[bytes]) -> None:
    from pyarrow import parquet

    _write(pieces, lambda schema: parquet.ParquetWriter(file, schema))


_WRITERS: Mapping[str, Callable[[Iterator[Columns], IO[bytes]], None]] = {
    ".csv": stream_csv,
    ".parquet": _write_parquet,
}


def _write(pieces: Iterator[Columns], opened: Callable[[Any], Any]) -> None:
    import pyarrow

    batches = (pyarrow.RecordBatch.from_pydict({k: _arrow(v) for k, v in piece.items()}) for piece in pieces)
    first = next(batches)
    with opened(first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def _arrow(values: Any) -> Any:
    """Values as an Arrow array; text columns stay text even in a piece without text."""
    import pyarrow

    if isinstance(values, pyarrow.Array):
        return values
    return pyarrow.array(values, type=pyarrow.string() if values.dtype.kind == "O" else None)


def stream_json(pieces: Iterator[Columns], file: IO[str]) -> None:
    """Write pieces as one JSON list, an object a line."""
    separator = "[\n"
    for piece in pieces:
        names, columns = list(piece), [column.tolist() for column in piece.values()]
        for values in zip(*columns, strict=True):
            file.write(separator + json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False, default=str))
            separator = ",\n"
    file.write("\n]\n")
