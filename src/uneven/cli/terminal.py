"""What every command shares: the console, tables, ``--json``, notes, and checks of files to write."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from uneven import checks
from uneven.checks import join_words
from uneven.progress import show_bar as show_bar  # the commands take it from here

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

    from uneven.io import SourcesFile
    from uneven.ledger import Ledger

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for scripts.")]
Data = Annotated[
    Path | None,
    typer.Option(help="Folder with the data sets; else UNEVEN_DATA, else they are downloaded.", show_default=False),
]
SourcesPath = Annotated[Path, typer.Argument(metavar="SOURCES", help="A sources.toml; 'uneven init' writes one.")]

STRATEGIES = (
    "auto",
    "anchored",
    "precision",
    "averaged",
    "anytime",
    "two-rates",
    "same-rate-clean-first",
    "same-rate-noisy-first",
    "clean-only",
    "arbitrary",
)
"""As `Settings` has them, whose module is slow to import."""

Strategy = Annotated[
    str | None,
    typer.Option(metavar="NAME", help=f"Strategy to use instead of the file's: {', '.join(STRATEGIES)}."),
]

VERDICT = re.compile(r": (worth\s+it|little|no)\.")
COLOURS = {"worth": "green", "little": "yellow", "no": "red"}
MODEL, PAGE, STATEMENT = (".json",), (".html", ".htm"), (".md",)
TABLE, PREDICTIONS, SETTINGS, PICTURE = (".csv",), (".csv", ".parquet"), (".toml",), (".png", ".pdf", ".svg", "")
"""Endings of what commands write: another one may be that of somebody's rows."""

FRAME, GAP = 4, 3
"""Columns that a table takes besides its cells: at its ends, and between two."""


class Failure(Exception):  # noqa: N818 (it says what happened)
    """Something failed that was not the user's doing: one line, and an exit code of 1."""


def make_console() -> Console:
    """Console on standard output; without colour if that is not a terminal or NO_COLOR is set."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not is_wrapped(sys.stdout))


def is_wrapped(stream: TextIO) -> bool:
    """Whether lines are broken: to COLUMNS where that is set, else to the terminal, if there is one."""
    return bool(os.environ.get("COLUMNS")) or stream.isatty()


def refuse_output(option: str, path: Path | None, endings: Sequence[str] = ()) -> None:
    """Refuse a path that cannot be written, or that ends as if something else were in it, before any work is done."""
    from uneven.io import resolve_target

    if path is None:
        return
    resolve_target(path)
    if endings and path.suffix.lower() not in endings:
        accepted = join_words([one for one in endings if one], "or")
        raise ValueError(f"{option} must end in {accepted}, got {str(path)!r}")


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure to exactly this path, atomically, in the format of its suffix (PNG if it has none)."""
    from uneven.io import written_atomically

    with written_atomically(path) as temporary:
        figure.savefig(temporary, dpi=150, format=path.suffix.lstrip(".") or "png")


def refuse_overwriting(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Refuse an output that is also an input or another output, even under another name."""
    from uneven.io import is_same_file

    taken = {what: path for what, path in inputs.items() if path is not None}
    for what, path in outputs.items():
        if path is None:
            continue
        if other := next((name for name, known in taken.items() if is_same_file(path, known)), None):
            raise ValueError(f"{what} must be a file of its own, got {str(path)!r}, which is {other}")
        taken[what] = path


def refuse_numbers(seed: int | None, patience: float) -> None:
    """Refuse an invalid seed or waiting time, before any work is done."""
    checks.whole("--seed", 0 if seed is None else seed, least=0)
    checks.positive("--patience", patience)


def list_files(file: SourcesFile) -> dict[str, Path | None]:
    """Paths of the sources file and of the data files that it names."""
    data = {f"the data of {entry.name!r}": entry.data for entry in file.sources}
    shared = None if file.shared is None else file.shared.path
    return {"the sources file": file.path, "the data of all sources": shared, **data}


def note(message: str) -> None:
    """Print one line on standard error; on a terminal it is broken between words."""
    from uneven.words import wrap

    line = f"uneven: {' '.join(message.split())}"
    print(wrap([line]) if sys.stderr.isatty() else line, file=sys.stderr)


def announce(message: str, piped: bool = False) -> None:
    """Say what takes the next seconds, where somebody watches a terminal, or elsewhere too."""
    from uneven.words import wrap

    if piped or sys.stderr.isatty():
        print(wrap([f"{message} ..."]), file=sys.stderr, flush=True)


def use_strategy(file: SourcesFile, strategy: str | None) -> SourcesFile:
    """The file with the strategy of an option; what is wrong with that is the option's fault."""
    from dataclasses import replace

    if strategy is None:
        return file
    try:
        return replace(file, settings=replace(file.settings, strategy=strategy))
    except ValueError as error:
        raise ValueError(f"--{error}") from None


def say(lines: Iterable[str] | str) -> None:
    """Print lines, broken between words with a hanging indent where lines are; on a terminal verdicts have a colour."""
    from uneven.words import wrap

    given = [lines] if isinstance(lines, str) else list(lines)
    if given:
        typer.echo(_colour(wrap(given)) if is_wrapped(sys.stdout) else "\n".join(given))


def show(summary: str) -> None:
    """Print a summary, whose lines are broken already; on a terminal its headings and verdicts stand out."""
    title, gap, rest = summary.partition("\n\n")
    headings = re.sub(r"(?m)^(.+)(?=\n-+$)", lambda found: _style(found[1], bold=True), rest)
    typer.echo(_colour(_style(title, bold=True) + gap + headings))


def _colour(text: str) -> str:
    """Text with its verdicts in colour, where that is shown."""
    return VERDICT.sub(lambda found: f": {_style(found[1], fg=COLOURS[found[1].split()[0]])}.", text)


def _style(text: str, **how: Any) -> str:
    """Text in a style; as it is where standard output is no terminal, or NO_COLOR is set."""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain else typer.style(text, **how)


def read_command_line(hide_seed: bool = False) -> list[str]:
    """The command line as typed, beginning with ``uneven``; without the seed where that gives private rows away."""
    typed = ["uneven", *sys.argv[1:]]
    if not hide_seed:
        return typed
    after = ["", *typed]
    hidden = [re.sub(r"^(--seed=).*", r"\1SEED", one) for one in typed]
    return ["SEED" if last == "--seed" else one for last, one in zip(after, hidden, strict=False)]


def join_quoted(values: Iterable[object]) -> str:
    """List values in quotes, with commas and an "and".

    >>> join_quoted(["a", "b", "c"])
    "'a', 'b' and 'c'"
    """
    return join_words([repr(value) for value in values])


def print_json(values: Any) -> None:
    """Print values as JSON; infinity and NaN, which JSON does not have, become null."""
    typer.echo(json.dumps(_plain(values), indent=2, ensure_ascii=False, allow_nan=False))


def make_table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Table with the first column aligned left and the others right; text that is too wide is broken, never cut."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from uneven.words import fit_widths, split_cell

    cells = [tuple(map(str, row)) for row in (columns, *rows)]
    numbers = [i for i in range(1, len(columns)) if not any(re.search("[a-z]{2}", row[i]) for row in cells[1:])]
    widths = fit_widths(cells, numbers, make_console().width - FRAME, GAP)
    broken = [["\n".join(split_cell(cell, size)) for cell, size in zip(row, widths, strict=True)] for row in cells]
    made = Table(title=title, box=SIMPLE_HEAD, title_justify="left", title_style="bold")
    for i, column in enumerate(broken[0]):
        made.add_column(column, justify="right" if i else "left", overflow="fold")
    for row in broken[1:]:
        made.add_row(*row)
    return made


def make_tables(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[Table]:
    """The same as one table, or as several that share the first column, where a word or a number would be broken."""
    parts = split_columns([columns, *rows], make_console().width)
    return [
        make_table(
            title if not k else f"{title}, continued",
            [columns[i] for i in part],
            [[row[i] for i in part] for row in rows],
        )
        for k, part in enumerate(parts)
    ]


def split_columns(cells: Sequence[Sequence[object]], room: int) -> list[list[int]]:
    """Columns in groups, each with the first, whose longest words fit beside one another; at least two in each.

    >>> split_columns([["name", "accuracy", "objective"], ["a", "0.5", "0.25"]], 24)
    [[0, 1], [0, 2]]
    """
    longest = [
        max((len(word) for row in cells for word in str(row[i]).split()), default=0) for i in range(len(cells[0]))
    ]
    groups, left = [[0]], room - FRAME - longest[0]
    for i, width in list(enumerate(longest))[1:]:
        if left < width + GAP and len(groups[-1]) > 1:
            groups, left = [*groups, [0]], room - FRAME - longest[0]
        groups[-1].append(i)
        left -= width + GAP
    return groups


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


def open_ledger(path: Path | None, budget: float | None) -> Ledger | None:
    """The ledger; a new one is made with the budget. An existing ledger keeps the budget it has."""
    from uneven.ledger import Ledger

    if path is None:
        return None
    with name_ledger("--ledger", "a ledger or a new file", path):
        return Ledger(path, budget=None if path.exists() else budget)


@contextmanager
def name_ledger(argument: str, accepted: str, path: Path) -> Iterator[None]:
    """Say which argument is refused as a ledger, and with which path, as it was typed."""
    try:
        yield
    except ValueError as error:
        said = str(error).replace(repr(str(path.absolute())), repr(str(path)))
        raise ValueError(
            said.replace("path must be a ledger or a new file", f"{argument} must be {accepted}")
        ) from None
