"""What ``--help`` shows: usage, paragraphs, and tables of arguments, options and commands, broken to the window."""

from __future__ import annotations

import inspect
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from uneven.words import measure_screen

MARGIN, NAMES = 2, 26
"""Spaces before a line of a table; most columns for its names: longer ones have a line of their own."""

LARGE = 10_000
"""Defaults from which on thousands are set apart: not in the number of a port."""

TOGETHER = "\N{NO-BREAK SPACE}"
EXAMPLE = "Example:"

KINDS = {Path: "FILE", float: "NUMBER", int: "NUMBER", str: "TEXT"}
"""What an option's value is called where it has no name of its own."""

FIRST = {"Column": "COLUMN", "Columns": "COLUMNS", "Folder": "FOLDER", "Name": "NAME", "Seconds": "SECONDS"}
"""What it is called by the first word of its help, where that says more."""

OWN = {"kit": "FOLDER", "provision": "FOLDER", "patience": "SECONDS", "job": "NAME", "delimiter": "CHARACTER"}
"""What it is called by the option's own name."""


class Command(TyperCommand):
    """A command whose help is `describe`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write(describe(self, ctx))


class Group(TyperGroup):
    """A group of commands whose help is `describe`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write(describe(self, ctx))


def describe(command: Any, context: Any) -> str:
    """The help of a command, or of a group of them."""
    context.color = _is_coloured() or None
    width, kinds = measure_screen(), _list_kinds(command)
    shown = [one for one in command.get_params(context) if not getattr(one, "hidden", False)]
    arguments = [one for one in shown if not one.opts[0].startswith("-")]
    options = [one for one in shown if one not in arguments]
    rows = {
        "Commands": [(name, _first(one)) for name, one in getattr(command, "commands", {}).items() if not one.hidden],
        "Arguments": [(_call(one), _explain(one)) for one in arguments],
        "Options": [(_spell(one, kinds.get(one.name, "")), _explain(one)) for one in options],
    }
    usage = [_call(one) if one.required else f"[{_call(one)}]" for one in arguments]
    typed = " ".join([context.command_path, *usage, *(["COMMAND"] if rows["Commands"] else []), "[OPTIONS]"])
    parts = [f"{_style('Usage:')} {typed}", *_list_paragraphs(command, width)]
    parts += [_tabulate(title, some, width) for title, some in rows.items() if some]
    return "\n\n".join(parts) + "\n"


def _list_paragraphs(command: Any, width: int) -> Iterator[str]:
    """What the command does, a paragraph each; one that starts with a bold word keeps it so."""
    text = inspect.cleandoc(command.help or (command.callback and command.callback.__doc__) or "")
    for part in text.split("\n\n"):
        bold = re.match(r"\[bold\](.*?)\[/\]", part)
        filled = textwrap.fill(_strip(part), width, break_long_words=False, break_on_hyphens=False)
        if bold and bold[1] == EXAMPLE:
            filled = f"{EXAMPLE}\n{_break_command(_strip(part).removeprefix(EXAMPLE).strip(), width)}"
        yield filled.replace(bold[1], _style(bold[1]), 1) if bold else filled


def _break_command(typed: str, width: int) -> str:
    r"""A command to be pasted: broken before options, each line but the last with a backslash.

    >>> print(_break_command("uneven fit sources.toml -o model.json --report report.html", 40))
      uneven fit sources.toml \
        -o model.json --report report.html
    """
    parts = re.split(r" (?=-)", typed)
    lines = [" " * MARGIN + parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + len(" ") + len(" \\") <= width:
            lines[-1] += f" {part}"
        else:
            lines += [" " * 2 * MARGIN + part]
    return " \\\n".join(lines)


def _strip(text: str) -> str:
    r"""Text on one line, without markup.

    >>> _strip("[bold]Example:[/] uneven\\[studio]\nand more")
    'Example: uneven[studio] and more'
    """
    return re.sub(r"(?<!\\)\[/?[a-z]*\]", "", " ".join(text.split())).replace("\\[", "[")


def _first(command: Any) -> str:
    """First paragraph of a command's help."""
    return _strip(inspect.cleandoc(command.help or "").partition("\n\n")[0])


def _tabulate(title: str, rows: Sequence[tuple[str, str]], width: int) -> str:
    """A heading, and each name with what it means beside it, or below a long one."""
    room = min(max(len(name) for name, _ in rows), NAMES)
    lines = [_style(f"{title}:")]
    for name, said in rows:
        start = MARGIN + room + 2
        wrapped = textwrap.wrap(said, max(width - start, 20), break_long_words=False, break_on_hyphens=False)
        told = [line.replace(TOGETHER, " ") for line in wrapped] or [""]
        first = " " * MARGIN + _style(name, fg="cyan")
        if len(name) > room:
            lines += [first, *(" " * start + line for line in told)]
        else:
            gap = " " * (room - len(name) + 2)
            lines += [(first + gap + told[0]).rstrip(), *(" " * start + line for line in told[1:])]
    return "\n".join(lines)


def _call(param: Any) -> str:
    """An argument as it is called, with dots where there may be several."""
    name = str(param.metavar or param.name.upper())
    return f"{name}..." if param.nargs != 1 else name


def _spell(param: Any, kind: str) -> str:
    """An option as it is typed: its short form first, and what its value is called."""
    names = ", ".join(sorted((*param.opts, *param.secondary_opts), key=len))
    named = OWN.get(param.name) or FIRST.get((param.help or "").partition(" ")[0], kind)
    value = "" if getattr(param, "is_flag", False) else param.metavar or named
    return f"{names} {value}".rstrip()


def _explain(param: Any) -> str:
    """What an option or argument is for, and what it is where it is not given."""
    said, default = _strip(param.help or ""), param.default
    if param.required and param.opts[0].startswith("-"):
        return f"{said} [required]"
    if isinstance(getattr(param, "show_default", None), str):
        return f"{said} [default: {param.show_default}]"
    if callable(default) or isinstance(default, bool | list | tuple) or default is None or default == "":
        return said
    if isinstance(default, int | float):
        default = f"{default:,.0f}" if default >= LARGE else f"{default:g}"
    return f"{said} [default:{TOGETHER}{default}]"


def _list_kinds(command: Any) -> dict[str, str]:
    """What the value of each option is called, by the type of the function's parameter."""
    hints = get_type_hints(inspect.unwrap(command.callback)) if command.callback else {}
    found = {}
    for name, hint in hints.items():
        parts = {hint, *get_args(hint), *(inner for one in get_args(hint) for inner in get_args(one))}
        found[name] = next((called for kind, called in KINDS.items() if kind in parts), "")
    return found


def _is_coloured() -> bool:
    """Whether help may have colour: on a terminal, or where that is asked for, unless NO_COLOR is set."""
    if "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def _style(text: str, **how: Any) -> str:
    return typer.style(text, **(how or {"bold": True})) if _is_coloured() else text
