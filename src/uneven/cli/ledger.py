"""``uneven ledger``: what a ledger holds, whether it is sound, all of it as a table, and a lower budget."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uneven.cli import manual, terminal

if TYPE_CHECKING:
    from uneven.ledger import Ledger

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    cls=manual.Group,
    help="Look at a ledger of privacy spent, or lower its budget.",
)
LedgerPath = Annotated[Path, typer.Argument(metavar="LEDGER", help="A ledger that 'uneven fit --ledger' keeps.")]


@app.command("show", cls=manual.Command)
def show(path: LedgerPath, json: terminal.Json = False) -> None:
    """Rows, epsilon spent and left, and the last charge of each source.

    [bold]Example:[/] uneven ledger show ledger.db
    """
    ledger = _opened(path)
    found = ledger.summary()
    if json:
        terminal.print_json({"budget": ledger.stored_budget, "sources": [asdict(one) for one in found]})
        return
    budget = "no budget: it refuses nothing" if ledger.stored_budget is None else f"budget ε = {ledger.stored_budget:g}"
    rows = [
        (one.name, f"{one.rows:,}", _span(one.least, one.most), _left(one.left), one.last[:16].replace("T", " "))
        for one in found
    ]
    header = ["source", "rows", "ε spent by a row", "ε left at least", "last charge"]
    terminal.make_console().print(terminal.make_table(f"{path}, {budget}", header, rows))


def _fit_digest(digest: str) -> str:
    """The digest, in two halves where lines are broken and too short for it."""
    from uneven.words import measure_screen

    half = len(digest) // 2
    narrow = terminal.is_wrapped(sys.stdout) and measure_screen() < len(digest) + 2
    return f"{digest[:half]} {digest[half:]}" if narrow else digest


def _left(epsilon: float) -> str:
    return "no limit" if math.isinf(epsilon) else f"{epsilon:g}"


@app.command("check", cls=manual.Command)
def check(path: LedgerPath, json: terminal.Json = False) -> None:
    """Check that the file is whole and no row is beyond the budget; the digest names the state it is in.

    [bold]Example:[/] uneven ledger check ledger.db
    """
    ledger = _opened(path)
    wrong = ledger.check()
    if json:
        terminal.print_json({"sound": not wrong, "problems": wrong, "digest": ledger.digest()})
    elif not wrong:
        digest = f"SHA-256 of its budget, charges and claims: {_fit_digest(ledger.digest())}"
        terminal.say(f"{path} is sound: no row is beyond its budget. {digest}")
    for problem in wrong:
        terminal.note(f"{path}: {problem}")
    if wrong:
        raise typer.Exit(1)


@app.command("budget", cls=manual.Command, context_settings={"ignore_unknown_options": True})  # so that -1 is a number
def budget(
    path: LedgerPath,
    most: Annotated[float, typer.Argument(metavar="EPSILON", help="The most that any row may spend in all.")],
    json: terminal.Json = False,
) -> None:
    """Give a ledger without a budget one, or lower the one it has. It is never raised.

    [bold]Example:[/] uneven ledger budget ledger.db 4
    """
    ledger = _opened(path)
    ledger.lower_budget(most)
    if json:
        terminal.print_json({"budget": ledger.stored_budget})
    else:
        terminal.say(f"No row of {path} may spend more than ε = {ledger.stored_budget:g}.")


@app.command("export", cls=manual.Command)
def export(
    path: LedgerPath,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file to write; else standard output.")
    ] = None,
    json: terminal.Json = False,
) -> None:
    """Write every row with what it was charged under each name, as CSV; fingerprints without their key.

    [bold]Example:[/] uneven ledger export ledger.db -o ledger.csv
    """
    from uneven.io import write_text_atomically

    terminal.refuse_output("--output", output, terminal.TABLE)
    terminal.refuse_overwriting({"--output": output}, {"the ledger": path})
    entries = _opened(path).entries()
    if json:
        terminal.print_json([{"source": name, "row": row, "epsilon": epsilon} for name, row, epsilon in entries])
        return
    text = "source,row,epsilon\n" + "".join(f"{_quoted(name)},{row},{epsilon:.10g}\n" for name, row, epsilon in entries)
    if output is None:
        sys.stdout.write(text)
    else:
        write_text_atomically(output, text)
        terminal.say(f"{len(entries):,} entries are in {output}.")


def _opened(path: Path) -> Ledger:
    """A ledger that is there: looking at one must not make it."""
    from uneven.ledger import Ledger

    if not path.exists():
        raise FileNotFoundError(f"LEDGER must be a file that 'uneven fit --ledger' made; no such file: {path}")
    with terminal.name_ledger("LEDGER", "a ledger that 'uneven fit --ledger' made", path):
        return Ledger(path)


def _span(least: float, most: float) -> str:
    return f"{most:g}" if least == most else f"{least:g} to {most:g}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if any(mark in name for mark in ',"\n\r') else name
