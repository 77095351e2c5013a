"""Small simulated files that the console blocks of the documentation work on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

ROWS = {"clinic": 600, "survey": 6_000, "public": 500, "kept": 2_000, "rows": 10}
TASKS, WORKERS, ANSWERS = 300, 10, 4


def write_files(folder: Path) -> None:
    """Patients as clinic.parquet, survey.csv and others; a crowd's answers about tasks, and what is known of these."""
    rng = np.random.default_rng(0)
    begin = 0
    for name, rows in ROWS.items():
        table = patients(rng, np.arange(begin, begin + rows))
        begin += rows
        write(table.drop_columns("outcome") if name == "rows" else table, folder / name)
    write_crowd(rng, folder)


def patients(rng: np.random.Generator, ids: np.ndarray) -> pa.Table:
    """Age, pulse and whether a patient is ill, which grows likelier with both."""
    age, pulse = rng.uniform(20, 80, len(ids)).round(2), rng.normal(75, 10, len(ids)).round(2)
    ill = rng.random(len(ids)) < 1 / (1 + np.exp(-(age - 50) / 10 - (pulse - 75) / 10))
    return pa.table({"patient": ids, "age": age, "pulse": pulse, "outcome": np.where(ill, "ill", "well")})


def write_crowd(rng: np.random.Generator, folder: Path) -> None:
    """Answers of workers who are wrong 5% to 40% of the time."""
    truth = rng.integers(0, 2, TASKS)
    features = rng.normal(size=(TASKS, 2)) + truth[:, None]
    tasks = pa.table({"task": np.arange(TASKS), "length": features[:, 0], "tone": features[:, 1]})
    task, worker = np.repeat(np.arange(TASKS), ANSWERS), rng.integers(0, WORKERS, TASKS * ANSWERS)
    wrong = rng.random(len(task)) < np.linspace(0.05, 0.4, WORKERS)[worker]
    answers = pa.table({"task": task, "worker": worker, "label": np.where(wrong, 1 - truth[task], truth[task])})
    write(tasks, folder / "tasks")
    write(answers, folder / "answers")


def write(table: pa.Table, stem: Path) -> None:
    """One table in both formats: pages name the one that they are about."""
    pq.write_table(table, stem.with_suffix(".parquet"))
    pc.write_csv(table, stem.with_suffix(".csv"))
