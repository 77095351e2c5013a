"""All commands, and how errors are reported.

Command modules import what they need inside their functions: ``uneven --help`` must not wait for a compiler.
"""

from __future__ import annotations

import errno
import inspect
import os
import re
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
    plan,
    predict,
    reproduce,
    site,
    studio,
    terminal,
    value,
)
from uneven.words import measure_screen

BAD_INPUT, FAILED = 2, 1
"""Exit codes; 0 is success."""

NOT_INPUT = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""What a disk says that is full or broken: nothing was wrong with what the user asked for."""

LEAST_BOXED = 80
"""Columns from which help is shown in boxes."""

INTERRUPTED = 130
"""What typer makes of Ctrl-C."""

HELP = """Learn classifiers from data of uneven quality.

In what order to use it, how far to step on each part, is the bad data worth using at all, and what is it worth?
"""

app = typer.Typer(
    name="uneven",
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.command)
app.command("init")(init.command)
app.command("plan")(plan.command)
app.command("fit")(fit.command)
app.command("crowd")(crowd.command)
app.command("predict")(predict.command)
app.command("evaluate")(evaluate.command)
app.command("value")(value.command)
app.command("federate")(federate.command)
app.add_typer(site.app, name="site")
app.command("studio")(studio.command)
app.command("audit")(audit.command)
app.command("reproduce")(reproduce.command)
app.command("beyond")(beyond.command)
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
    _fit_help(app, measure_screen() < LEAST_BOXED)
    try:
        code = app(arguments, standalone_mode=False)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except Exception as error:
        sys.exit(_report(error, sys.argv[1:] if arguments is None else arguments))
    if code == INTERRUPTED:
        terminal.note("interrupted")
        sys.exit(FAILED)
    sys.exit(code if isinstance(code, int) else 0)


def _fit_help(group: typer.Typer, narrow: bool) -> None:
    """Make one line of each paragraph of help, for the terminal to break; boxes, which cut words, only where wide."""
    group.rich_markup_mode = None if narrow else "rich"
    for one in group.registered_commands:
        one.help = _join_lines(inspect.getdoc(one.callback) or "", narrow)
        one.short_help = one.help.partition("\n\n")[0] if narrow else None
    for part in group.registered_groups:
        if part.typer_instance is not None:
            part.short_help = part.typer_instance.info.help if narrow else None
            _fit_help(part.typer_instance, narrow)


def _join_lines(text: str, plain: bool) -> str:
    r"""Paragraphs on a line each, without markup where it would be shown as it is written.

    >>> _join_lines("What it\ndoes.\n\n[bold]Example:[/] uneven\\[studio]", plain=True)
    'What it does.\n\nExample: uneven[studio]'
    """
    joined = "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
    return re.sub(r"(?<!\\)\[/?[a-z]*\]", "", joined).replace("\\[", "[") if plain else joined


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


def _explain_value(error: typer.TyperException) -> str:
    """What an option accepts instead of the value it got; empty where the error is of another kind."""
    found = getattr(error.__cause__ or error.__context__, "errors", None)
    name = re.match(r"Invalid value for '([^']+)'", error.format_message())
    if found is None or name is None:
        return ""
    (first, *_), kinds = found(), {"float": "a number", "int": "a whole number", "bool": "true or false"}
    limits, kind = first.get("ctx", {}), first["type"].partition("_")[0]
    accepted = {"ge": "at least {}", "le": "at most {}", "gt": "more than {}", "lt": "less than {}"}
    said = [accepted[key].format(value) for key, value in limits.items() if key in accepted] or [kinds.get(kind, "")]
    return f"{name[1]} must be {said[0]}, got {first['input']!r}" if said[0] else ""


def _name_option(message: str, arguments: Sequence[str]) -> str:
    """A refusal with its argument as it was typed: an option, not the name that Python has for it.

    >>> _name_option("seed must be a whole number of at least 0, got -1", ["audit", "--seed", "-1"])
    '--seed must be a whole number of at least 0, got -1'
    >>> _name_option("seed must be a whole number of at least 0, got -1", ["plan", "sources.toml"])
    'seed must be a whole number of at least 0, got -1'
    """
    name, must, rest = message.partition(" must ")
    option = f"--{name.replace('_', '-')}"
    typed = any(one == option or one.startswith(f"{option}=") for one in arguments)
    return f"{option}{must}{rest}" if typed else message


def _report(error: Exception, arguments: Sequence[str]) -> int:
    """Print the error as one line, and return the exit code."""
    if os.environ.get("UNEVEN_DEBUG"):
        raise error
    if isinstance(error, typer.Abort):
        terminal.note("interrupted")
        return FAILED
    if isinstance(error, typer.TyperException):
        if message := _explain_value(error) or error.format_message():
            unknown = message.startswith("No such command") and "Did you mean" not in message
            terminal.note(f"{message} 'uneven --help' lists all commands." if unknown else message)
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
        terminal.note(_name_option(str(error), arguments))
        return BAD_INPUT
    terminal.note(f"something went wrong ({type(error).__name__}: {error}); 'uneven --debug ...' shows where")
    return FAILED
