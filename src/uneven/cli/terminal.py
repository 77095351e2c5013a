"""What every command shares: the console, ``--json``, tables."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

    from uneven.io import SourcesFile

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for scripts.")]
Data = Annotated[
    Path | None,
    typer.Option(help="Folder with the data sets; else UNEVEN_DATA, else they are downloaded.", show_default=False),
]
SourcesPath = Annotated[Path, typer.Argument(metavar="SOURCES", help="A sources.toml; 'uneven init' writes one.")]


def console() -> Console:
    """Console on standard output; it drops colour where there is no terminal or NO_COLOR is set."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def refuse_output(path: Path | None) -> None:
    """Refuse a file that could not be written, before any work is done for it."""
    if path is None:
        return
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"folder of {str(path)!r} must exist, got {str(folder)!r}, which does not")
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} must be a file to write, got a folder")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"folder of {str(path)!r} must be writable, got {str(folder)!r}, which is not")


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure under exactly that name, in the format that the name ends in (PNG if in none), or not at all."""
    from uneven.io import written_atomically

    with written_atomically(path) as temporary:
        figure.savefig(temporary, dpi=150, format=path.suffix.lstrip(".") or "png")


def refuse_overwriting(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Refuse to write into a file that is read, or twice into one, under whatever names it goes."""
    from uneven.io import same_file

    taken = {what: path for what, path in inputs.items() if path is not None}
    for what, path in outputs.items():
        if path is None:
            continue
        if other := next((name for name, known in taken.items() if same_file(path, known)), None):
            raise ValueError(f"{what} must be a file of its own, got {str(path)!r}, which is {other}")
        taken[what] = path


def described_files(file: SourcesFile) -> dict[str, Path | None]:
    """The sources file and the files of rows that it names."""
    data = {f"the data of {entry.source.name!r}": entry.data for entry in file.sources}
    return {"the sources file": file.path, **data}


def bar(title: str, total: float) -> AbstractContextManager[Callable[[float], None]]:
    """Progress bar on standard error; it vanishes when that is no terminal."""
    from uneven.engine.progress import bar

    return bar(title, total)


def note(message: str) -> None:
    """Say something on standard error."""
    print(f"uneven: {' '.join(message.split())}", file=sys.stderr)


def command_line() -> list[str]:
    """What was typed, with the program's own name."""
    return ["uneven", *sys.argv[1:]]


def listed(values: Iterable[object]) -> str:
    """Values as a reader would list them.

    >>> listed(["a", "b", "c"])
    "'a', 'b' and 'c'"
    """
    return joined([repr(value) for value in values])


def joined(words: Sequence[str]) -> str:
    """Words with commas, and an "and" before the last."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def print_json(values: Any) -> None:
    """Print plain values as JSON; what JSON cannot hold (infinity, NaN) becomes null."""
    typer.echo(json.dumps(_plain(values), indent=2, ensure_ascii=False, allow_nan=False))


def table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Table with the first column to the left, and the others to the right, as numbers are."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(title=title, box=SIMPLE_HEAD, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        made.add_column(column, justify="right" if i else "left")
    for row in rows:
        made.add_row(*map(str, row))
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return str(value) if isinstance(value, Path) else value
