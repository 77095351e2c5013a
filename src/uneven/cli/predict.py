"""``uneven predict``: labels and probabilities for a file of rows."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from uneven.checks import join_words
from uneven.cli import terminal


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that 'uneven fit' wrote.")],
    rows: Annotated[
        Path, typer.Argument(metavar="ROWS", help="A file of rows that has the columns the model learned from.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the predictions, .csv or .parquet.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Column of the rows to keep beside the predictions; may be given more than once."),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Probability from which the second of two classes is predicted.")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="What separates the columns of a file of text; detected if not given.")
    ] = None,
    json: terminal.Json = False,
) -> None:
    """Predict the label of every row, with the probability of each class, whatever the file's size.

    Rows are as the model learned from them: raw, where its columns were described. Without -o the predictions go to
    standard output, as CSV or with --json as a list.

    [bold]Example:[/] uneven predict model.json rows.parquet -o predictions.csv --keep id
    """
    from uneven.redaction import owner_only, redacted
    from uneven.training import load_model, open_rows, predict_table

    terminal.refuse_output("--output", output, terminal.PREDICTIONS)
    terminal.refuse_overwriting({"--output": output}, {"the model": model, "the file of rows": rows})
    fitted = load_model(model)
    with redacted(fitted.settings.redact):
        table, features = open_rows(fitted, rows, delimiter)
        unknown: dict[str, Counter[str]] = {}
        pieces = predict_table(fitted, table, features, keep or (), threshold, unknown)
        _write(pieces, output, json, fitted.simulated)
        for name, values in unknown.items():
            if values:
                such = owner_only(f", such as {values.most_common(1)[0][0]!r}")
                terminal.note(
                    f"{values.total():,} rows have a value in column {name!r} that the model does not know{such}: each "
                    "counts as one extra category, which the model knows nothing about unless it learned from such rows"
                )


def _write(pieces: Iterator[dict[str, Any]], output: Path | None, json: bool, simulated: bool) -> None:
    from uneven.training import count_labels, mark_simulated, stream_csv, stream_json, write_predictions

    if output is not None:
        counts: dict[Any, int] = {}
        write_predictions(count_labels(pieces, counts), output)
        _say(output, counts, json, simulated)
    elif json:
        stream_json(mark_simulated(pieces) if simulated else pieces, sys.stdout)
    else:
        sys.stdout.flush()
        stream_csv(pieces, sys.stdout.buffer)


def _say(output: Path, counts: dict[Any, int], json: bool, simulated: bool) -> None:
    if json:
        rows = sum(counts.values())
        terminal.print_json({"output": output, "rows": rows, "labels": counts, "simulated": simulated})
        return
    from uneven.words import format_count

    each = join_words([f"{label!r} {format_count(times, 'time')}" for label, times in counts.items()])
    terminal.say(f"Predicted {format_count(sum(counts.values()))}: {each}. They are in {output}.")
