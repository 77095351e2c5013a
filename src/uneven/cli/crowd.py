"""``uneven crowd``: a model from a crowd's answers and the tasks' features."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uneven.cli import saving, terminal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from uneven.crowd import Crowd
    from uneven.intervals import Interval
    from uneven.training import Comparison, Model

SHOWN, MOST_COLUMNS = 20, 4
"""Workers in the table on the terminal, and classes that get a column of their own there."""


def command(
    answers: Annotated[
        Path, typer.Argument(metavar="ANSWERS", help="A file of answers: a task, a worker and a label in every row.")
    ],
    features: Annotated[Path, typer.Option(help="A file of tasks: a column of tasks, and numbers to learn from.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the model.")] = Path("model.json"),
    report: Annotated[Path | None, typer.Option(help="File for an HTML report.")] = None,
    gold: Annotated[Path | None, typer.Option(help="A file of tasks whose true label is known.")] = None,
    test: Annotated[Path | None, typer.Option(help="Tasks with true labels to measure on; never learned from.")] = None,
    task: Annotated[str, typer.Option(help="Column of tasks, in every file.")] = "task",
    worker: Annotated[str, typer.Option(help="Column of workers.")] = "worker",
    label: Annotated[str, typer.Option(help="Column of labels, in every file that has them.")] = "label",
    json: terminal.Json = False,
) -> None:
    """Learn a classifier from a crowd's answers, and how often each worker is wrong.

    No gold labels are needed: several workers answer each task. Each task's label is the most likely one, and counts
    more the more certain it is.

    [bold]Example:[/] uneven crowd answers.csv --features tasks.parquet -o model.json
    """
    from dataclasses import replace

    inputs = {"the answers": answers, "the features": features, "the gold file": gold, "the test file": test}
    terminal.refuse_output("--output", output, terminal.MODEL)
    terminal.refuse_output("--report", report, terminal.PAGE)
    terminal.refuse_overwriting({"--output": output, "--report": report}, inputs)
    _refuse_one_file(answers, features)
    from uneven.crowd import fit_model, from_answers
    from uneven.settings import Settings

    said = _columns(answers, {"task": task, "worker": worker, "label": label})
    known = {} if gold is None else _columns(gold, {"task": task, "label": label})
    X, names, tasks, columns = _features(features, task, label)
    with saving.open_files(output, len(names), report) as outputs:
        truth = dict(zip(known["task"].tolist(), known["label"].tolist(), strict=True)) if known else None
        crowd = from_answers(said, X, tasks=tasks, gold=truth, bar=terminal.show_bar)
        model = replace(fit_model(crowd, X, Settings(), names, terminal.show_bar), columns=columns)
        measured = None if test is None else _measure(model, test, label)
        saving.write_model(outputs[output], model)
        if report is not None:
            saving.write_report(outputs[report], model, output, lambda: _make_report(crowd, measured))
    scored = {key: one and one.value for key, one in _figures(measured).items()}
    facts = {"model": output, "report": report, "alpha": model.alpha, **scored, **_facts(crowd)}
    if json:
        terminal.print_json(facts)
    else:
        _print(crowd, measured, output, report)


def _refuse_one_file(answers: Path, features: Path) -> None:
    from uneven.io import is_same_file

    if is_same_file(answers, features):
        raise ValueError(
            f"ANSWERS and --features must be two files, got {str(answers)!r} for both: one has a task, a worker and a "
            "label in every row, the other one row for each task"
        )


def _columns(path: Path, names: dict[str, str]) -> dict[str, NDArray[Any]]:
    """Columns of a file as they are written, under the names that the crowd has for them."""
    import numpy as np

    from uneven.io import open_table

    table = open_table(path)
    for name in names.values():
        table.refuse_unknown(name)
    parts = [said for _, said in table.reader.pieces(list(names.values()), ())]
    return {what: np.concatenate([said[name] for said in parts]) for what, name in names.items()}


def _features(path: Path, task: str, label: str) -> tuple[Any, tuple[str, ...], NDArray[Any], Any]:
    """Features of each task, their names, the tasks, and how columns are described where they hold words or gaps."""
    import numpy as np

    from uneven.columns import Encoder, complete_columns, guess_columns
    from uneven.io import open_table

    table = open_table(path)
    table.refuse_unknown(task)
    names = tuple(name for name in table.columns if name not in (task, label))
    cells = list(table.cells(names))  # tasks are not private: their own values describe them
    guessed = guess_columns({name: np.concatenate([one[name] for one in cells]) for name in names})
    if len(guessed) == len(names) and all(column.plain for column in guessed):
        X, tasks = table.arrays(task, names)
        return X, names, np.asarray(tasks), None
    if not guessed:
        raise ValueError(f"{path} must have a column to learn from, numbers or words that repeat, got none")
    columns = complete_columns(guessed, ((one, str(path)) for one in cells))
    encoder = Encoder(columns)
    X, tasks = table.arrays(task, [column.name for column in columns], encoder)
    return X, encoder.names, np.asarray(tasks), columns


def _measure(model: Model, path: Path, label: str) -> Comparison:
    from uneven.io import open_table
    from uneven.training import compare

    names = model.feature_names if model.columns is None else [column.name for column in model.columns]
    return compare(model, {}, [open_table(path).arrays(label, names, model.encoder)])


def _figures(measured: Comparison | None) -> dict[str, Interval | None]:
    """Accuracy and AUC on the test file; None where they are not known."""
    return {key: getattr(measured and measured.scores, key, None) for key in ("accuracy", "auc")}


def _facts(crowd: Crowd) -> dict[str, Any]:
    return {
        "classes": crowd.classes,
        "tasks": len(crowd.tasks),
        "answers": crowd.answers,
        "gold": crowd.gold,
        "mean_flip_rate": float(crowd.flip_rates.mean()),
        "workers": [{**vars(one), "worth_at_least": one.worth_at_least} for one in crowd.workers],
    }


def _print(crowd: Crowd, measured: Comparison | None, output: Path, report: Path | None) -> None:
    from uneven.crowd import WORTH, describe_crowd, tabulate_workers
    from uneven.report import tell_accuracy

    terminal.say(describe_crowd(crowd))
    head, rows = tabulate_workers(crowd, by_class=len(crowd.classes) <= MOST_COLUMNS)
    title = "Workers" if len(rows) <= SHOWN else f"The {SHOWN} workers worth most, of {len(rows)}; --json has all"
    terminal.make_console().print(terminal.make_table(title, head, rows[:SHOWN]))
    if measured is not None:
        terminal.say(tell_accuracy(measured))
    terminal.say(WORTH)
    terminal.say(saving.tell_files(output, report))


def _make_report(crowd: Crowd, measured: Comparison | None) -> str:
    from uneven.report import crowd_report

    return crowd_report(crowd, shlex.join(terminal.read_command_line()), measured)
