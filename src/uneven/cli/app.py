"""All commands, and how errors are reported.

Command modules import what they need inside their functions: ``uneven --help`` must not wait for a compiler.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from uneven.cli import (
    audit,
    beyond,
    crowd,
    demo,
    evaluate,
    federate,
    fit,
    init,
    ledger,
    manual,
    plan,
    predict,
    refusals,
    reproduce,
    site,
    studio,
    terminal,
    value,
)

BAD_INPUT, FAILED = 2, 1
"""Exit codes; 0 is success."""

NOT_INPUT = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""What a disk says that is full or broken: nothing was wrong with what the user asked for."""

INTERRUPTED = 130
"""What typer makes of Ctrl-C."""

HELP = """Learn classifiers from data of uneven quality.

In what order to use it, how far to step on each part, is each source worth using, and what is it worth?
"""

app = typer.Typer(
    name="uneven",
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    cls=manual.Group,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo", cls=manual.Command)(demo.command)
app.command("init", cls=manual.Command)(init.command)
app.command("plan", cls=manual.Command)(plan.command)
app.command("fit", cls=manual.Command)(fit.command)
app.command("crowd", cls=manual.Command)(crowd.command)
app.command("predict", cls=manual.Command)(predict.command)
app.command("evaluate", cls=manual.Command)(evaluate.command)
app.command("value", cls=manual.Command)(value.command)
app.command("federate", cls=manual.Command)(federate.command)
app.add_typer(site.app, name="site")
app.command("studio", cls=manual.Command)(studio.command)
app.command("audit", cls=manual.Command)(audit.command)
app.command("reproduce", cls=manual.Command)(reproduce.command)
app.command("beyond", cls=manual.Command)(beyond.command)
app.add_typer(ledger.app, name="ledger")


def _print_version(asked: bool) -> None:
    if asked:
        from uneven import __version__

        typer.echo(f"uneven {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback if something goes wrong.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    os.environ["UNEVEN_DEBUG"] = "1" if debug else os.environ.get("UNEVEN_DEBUG", "")


def main(arguments: list[str] | None = None) -> None:
    """Run one command; errors are one line on standard error, and the exit code says which kind."""
    _say_warnings()
    try:
        code = app(arguments, prog_name="uneven", standalone_mode=False)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except Exception as error:
        sys.exit(_report(error, sys.argv[1:] if arguments is None else arguments))
    if code == INTERRUPTED:
        terminal.note("interrupted")
        sys.exit(FAILED)
    sys.exit(code if isinstance(code, int) else 0)


def _say_warnings() -> None:
    """Warnings about privacy as one line each, like every other note."""
    import warnings

    from uneven.cautions import PrivacyWarning

    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, PrivacyWarning):
            terminal.note(str(message))
        else:
            usual(message, category, *rest, **more)

    warnings.showwarning = show


def _report(error: Exception, arguments: Sequence[str]) -> int:
    """Print the error as one line, and return the exit code."""
    if os.environ.get("UNEVEN_DEBUG"):
        raise error
    if isinstance(error, typer.Abort):
        terminal.note("interrupted")
        return FAILED
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.ctx.get_help())  # type: ignore[attr-defined]
        return BAD_INPUT
    if isinstance(error, typer.TyperException):
        if message := refusals.explain_usage(error):
            terminal.note(message)
        return error.exit_code
    if type(error).__name__ == "BudgetExceeded":  # by name, so that the ledger is not imported here
        terminal.note(str(error))
        return FAILED
    if isinstance(error, terminal.Failure | TimeoutError):  # also a ledger that another process holds
        terminal.note(str(error))
        return FAILED
    if isinstance(error, OSError) and error.errno in NOT_INPUT:
        named = "" if error.filename is None else f": {str(error.filename)!r}"
        terminal.note(f"{error.strerror or error}{named}")
        return FAILED
    if isinstance(error, ValueError | OSError | ImportError):
        terminal.note(refusals.name_argument(error, app, arguments))
        return BAD_INPUT
    terminal.note(f"something went wrong ({type(error).__name__}: {error}); 'uneven --debug ...' shows where")
    return FAILED
