"""A progress bar for long work; it vanishes when the output is not a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def show_bar(title: str, total: float, shown: bool = True) -> Iterator[Callable[..., None]]:
    """Show a bar with the time left on standard error, if it is a terminal.

    Parameters
    ----------
    title : str
    total : float
        All the work there is, in any unit.
    shown : bool
        False for no bar at all.

    Returns
    -------
    context manager
        It gives a function to call with the work that was done since the last call, 1 by default.
    """
    if not shown:
        yield lambda done=1.0: None  # noqa: ARG005
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=total or None)
        yield lambda done=1.0: progress.advance(task, done)
