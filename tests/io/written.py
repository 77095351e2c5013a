"""The same rows in every format."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

BY_NAME = ("csv", "tsv", "csv.gz", "TSV.GZ", "parquet", "arrow", "arrow stream", "feather", "npz records")
OTHERS = ("npy", "npz", "svm", "libsvm", "svmlight")
FORMATS = (*BY_NAME, *OTHERS)


def rows(n=300, d=3, seed=0):
    """Rows of float64 and labels 0 and 1. The first row has no zero: a libsvm file then shows all its columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    X[0] = 0.5
    return X, rng.integers(2, size=n)


def as_table(X, y):
    return pa.table({**{f"x{j}": X[:, j] for j in range(X.shape[1])}, "y": y})


def write(folder, form, X, y):
    """File of these rows, and what the label is called in it."""
    name = form.replace("arrow stream", "arrows.arrow").replace("npz records", "records.npz")
    path = folder / f"rows.{name}"
    WRITERS[form](path, X, y)
    return path, {"npy": f"x{X.shape[1]}", "svm": "label", "libsvm": "label", "svmlight": "label"}.get(form, "y")


def write_csv(path, X, y, delimiter=","):
    pyarrow.csv.write_csv(as_table(X, y), path, pyarrow.csv.WriteOptions(delimiter=delimiter))


def write_gzip(path, X, y, delimiter=","):
    write_csv(path, X, y, delimiter)
    path.write_bytes(gzip.compress(path.read_bytes()))


def write_ipc(path, X, y, new=pa.ipc.new_file):
    table = as_table(X, y)
    with new(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=70)


def write_records(path, X, y):
    fields = [*((f"x{j}", X[:, j]) for j in range(X.shape[1])), ("y", y)]
    np.savez(path, np.rec.fromarrays([v for _, v in fields], names=[k for k, _ in fields]))


def write_libsvm(path, X, y):
    lines = (" ".join([repr(float(label)), *cells(row)]) for row, label in zip(X, y, strict=True))
    path.write_text("".join(line + "\n" for line in lines))


def cells(row):
    """Columns that are not zero, counted from 1."""
    return (f"{j}:{float(value)!r}" for j, value in enumerate(row, start=1) if value != 0)


WRITERS = {
    "csv": write_csv,
    "tsv": lambda path, X, y: write_csv(path, X, y, "\t"),
    "csv.gz": write_gzip,
    "TSV.GZ": lambda path, X, y: write_gzip(path, X, y, "\t"),
    "parquet": lambda path, X, y: pyarrow.parquet.write_table(as_table(X, y), path, row_group_size=70),
    "arrow": write_ipc,
    "arrow stream": lambda path, X, y: write_ipc(path, X, y, pa.ipc.new_stream),
    "feather": lambda path, X, y: pyarrow.feather.write_feather(as_table(X, y), str(path), chunksize=70),
    "npz records": write_records,
    "npy": lambda path, X, y: np.save(path, np.column_stack([X, y])),
    "npz": lambda path, X, y: np.savez(path, X=X, y=y),
    "svm": write_libsvm,
    "libsvm": write_libsvm,
    "svmlight": write_libsvm,
}
