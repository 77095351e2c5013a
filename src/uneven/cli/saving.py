"""Models and reports that are never lost: room for them before anything is charged, a rescue file if all fails."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from uneven.checks import join_words
from uneven.cli import terminal

if TYPE_CHECKING:
    from uneven.io import Output
    from uneven.training import Model

MODEL_BYTES, BYTES_A_FEATURE, REPORT_BYTES = 1 << 18, 256, 1 << 19
"""Room that is reserved on the disk; what needs more asks for it when it is written."""


def open_files(model: Path, n_features: int, *reports: Path | None) -> AbstractContextManager[dict[Path, Output]]:
    """Files for a model and perhaps reports, opened with room for all."""
    from uneven.io import open_outputs

    sizes = {path: REPORT_BYTES for path in reports if path is not None}
    return open_outputs({model: MODEL_BYTES + BYTES_A_FEATURE * n_features, **sizes})


def tell_files(model: Path, report: Path | None = None) -> list[str]:
    """Where the model and perhaps its report are, and what to do next."""
    told = f"The model is in {model}" + (f", the report in {report}." if report else ".")
    return [told, f"Next: uneven predict {shlex.quote(str(model))} ROWS -o predictions.csv"]


def write_model(output: Output, model: Model) -> None:
    """Write a model; if that fails, to a rescue file or standard output, and say where and what was charged."""
    from uneven.training import model_to_text

    text = model_to_text(model)
    try:
        output.write(text)
    except (OSError, KeyboardInterrupt) as error:
        where = _rescue(output.path, text)
        raise terminal.Failure(f"{_not_written(output, error)}; the model is {where}{_charged(model)}") from None


def write_report(output: Output, model: Model, saved: Path, make: Callable[[], str]) -> None:
    """Write the report of a model that is saved already."""
    try:
        output.write(make())
    except OSError as error:
        raise terminal.Failure(f"{_not_written(output, error)}; the model is in {saved}{_charged(model)}") from None


def _not_written(output: Output, error: BaseException) -> str:
    reason = getattr(error, "strerror", None) or str(error) or "interrupted"
    return f"{str(output.path)!r} could not be written ({reason})"


def _rescue(path: Path, text: str) -> str:
    """Put the text where there is room, and say where."""
    try:
        number, name = tempfile.mkstemp(suffix=path.suffix, prefix=f"{path.stem}-rescued-")
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            os.unlink(name)
            raise
    except OSError:
        sys.stdout.write(text)
        sys.stdout.flush()
        return "on standard output"
    return f"in {name} instead"


def _charged(model: Model) -> str:
    spent = [f"ε = {epsilon:g} for each row of {name!r}" for name, epsilon in model.privacy_spent.items()]
    return f"; charged: {join_words(spent)}" if spent else ""
