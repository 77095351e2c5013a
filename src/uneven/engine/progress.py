"""A progress bar for long work; it vanishes when the output is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def bar(title: str, total: int) -> Iterator[Callable[..., None]]:
    """Show a bar on standard error; call what it gives for each piece of work done, with its size if that is not 1."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done=1: progress.advance(task, done)
