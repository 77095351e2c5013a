"""``uneven plan``: in what order, how far, and what that promises."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uneven.cli import terminal

if TYPE_CHECKING:
    from uneven.planner import Plan


def command(
    sources: terminal.SourcesPath,
    strategy: terminal.Strategy = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the step sizes and the bounds into this PNG, PDF or SVG.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="File for an HTML report.")] = None,
    json: terminal.Json = False,
) -> None:
    """Say, before any epsilon is spent, which sources are worth using, in what order, and how far to step.

    Plans what 'uneven fit' would run, and says where that cannot be known. Rows without privacy are read for it;
    private rows are only counted.

    Beside each private source it shows what the other kind of privacy would bring at the same epsilon: "local-privacy"
    protects a row from everyone except the machine that reads it, "site-privacy" from everyone outside its site.

    Where the noise of sources is only ranked (rank = 1 for the cleanest, in place of noise), it says the order, and
    what cannot be known.

    [bold]Example:[/] uneven plan sources.toml --report plan.html
    """
    from uneven.io import read_ranks, read_sources
    from uneven.planner import list_promises, plan_by_rank
    from uneven.training import plan_ahead
    from uneven.words import wrap

    terminal.refuse_output("--plot", plot, terminal.PICTURE)
    terminal.refuse_output("--report", report, terminal.PAGE)
    if (ranks := read_ranks(sources)) is not None:
        ranked = plan_by_rank(ranks)
        if plot is not None or report is not None:
            raise ValueError("--plot and --report must be left out where sources have ranks alone")
        terminal.print_json(ranked.to_dict()) if json else terminal.say(ranked.summary().splitlines())
        return
    described = read_sources(sources)
    terminal.refuse_overwriting({"--plot": plot, "--report": report}, terminal.list_files(described))
    plan, note = plan_ahead(terminal.use_strategy(described, strategy))
    if plot is not None:
        terminal.write_figure(plan.plot(), plot)
    if report is not None:
        _write_report(plan, note, sources, report)
    if json:
        others = {name: other.bound for name, other in plan.alternatives().items()}
        facts = {
            "caveats": [*plan.caveats, note],
            "bounds": others,
            "promises": list_promises(plan.sources, plan.other_promises()),
            "sensitivity": [one.to_dict() for one in plan.sensitivity()],
        }
        sizes = {name: list(some.items()) for name, some in plan.other_sizes().items()}
        terminal.print_json({**plan.to_dict(), **facts, "sizes": sizes})
    else:
        terminal.show(f"{plan.summary()}\n\n{wrap([f'Note: {note}.'])}")


def _write_report(plan: Plan, note: str, sources: Path, path: Path) -> None:
    from uneven.io import write_text_atomically
    from uneven.report import plan_report

    command = shlex.join(terminal.read_command_line())
    write_text_atomically(path, plan_report(plan, command, sources.read_text(encoding="utf-8-sig"), note))
