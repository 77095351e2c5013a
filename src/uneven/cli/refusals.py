"""Refusals in the words of who typed the command: the option or argument, its value, and what would be accepted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from uneven.checks import shown

SUBJECT = r"(must|does not|is|cannot|has) "
"""What follows a file that a refusal is about."""


class Typed(NamedTuple):
    """An option or argument: how it was typed, or is called, its values, and all its names."""

    name: str
    values: tuple[str, ...]
    given: bool
    names: tuple[str, ...] = ()


def explain_usage(error: typer.TyperException) -> str:
    """What is wrong with a command line that could not be read, and what would be accepted."""
    context, message = getattr(error, "ctx", None), error.format_message()
    path = context.command_path if context is not None else "uneven"
    if found := _explain_value(error):
        return found
    if (param := getattr(error, "param", None)) is not None and message.startswith("Missing"):
        said = (param.help or "").rstrip(".")
        return f"{_name(param)} must be given: {said[:1].lower()}{said[1:]}. '{path} --help' shows how"
    if message.startswith("No such command") and "Did you mean" not in message:
        return f"{message} '{path} --help' lists all commands."
    if message.startswith("No such option") and "Possible" not in message:
        return f"{message}. '{path} --help' lists the options"
    if extra := re.match(r"Got unexpected extra argument\S* \((.*)\)", message):
        return f"'{path}' takes no further argument, got {extra[1]!r}. '{path} --help' shows what it takes"
    return message


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


def name_argument(error: Exception, app: typer.Typer, arguments: Sequence[str]) -> str:
    """A refusal with its argument as it was typed: not the name that Python has for it, nor its file alone."""
    message = str(error)
    if isinstance(error, OSError) and error.strerror and error.filename is not None:  # as the system says it
        message = f"{shown(Path(str(error.filename)).name)} cannot be used: {error.strerror.lower()}"
    typed = sorted(_list_typed(app, arguments), key=lambda one: not one.name.startswith("-"))
    found = re.match(r"(?:(?P<where>[^:]+): )?(?:--)?(?P<name>[A-Za-z_ ]+) must (?P<rest>.*)", message)
    option = next((one.name for one in typed if found and one.given and _is_called(one, found["name"])), None)
    if found and option is not None:
        return f"{option} must {found['rest']}" + (f" ({found['where']})" if found["where"] else "")
    return _name_column(message, typed) or _name_file(message, typed) or message


def _name_column(message: str, typed: Sequence[Typed]) -> str:
    """Refusal of a column that an option names; empty for any other."""
    found = re.match(r"(?P<file>.+) must have a column '(?P<column>[^']*)'; (?P<rest>there are .*)", message)
    if found is None:
        return ""
    named = [one for one in typed if one.name.startswith("-") and found["column"] in one.values]
    for one in named:
        if one.given:
            return f"{one.name} must be a column of {found['file']}, got {found['column']!r}; {found['rest']}"
    return f"{_name_file(message, typed) or message}; {named[0].name} names another" if named else ""


def _name_file(message: str, typed: Sequence[Typed]) -> str:
    """Refusal of a file, with the argument that it was given for; empty where it was given for none."""
    for one in typed:
        for value in one.values if one.given else ():
            path = Path(value)
            forms = "|".join(map(re.escape, (str(path), repr(str(path)), repr(value), shown(path.name))))
            if re.match(f"({forms}) {SUBJECT}", message):
                return f"{one.name} {message}"
            if re.match(f"folder of ({forms}) {SUBJECT}", message):
                return f"{one.name}: {message}"
            if one.name.startswith("-") and re.match(f"({forms}): ", message):  # what is in it
                return f"{one.name} {message}"
    return ""


def _list_typed(app: typer.Typer, arguments: Sequence[str]) -> Iterator[Typed]:
    """Options and arguments of the command that was typed, with their values; none of a line that cannot be read."""
    command: Any = typer.main.get_command(app)
    rest = [one for one in arguments if one != "--debug"]
    while hasattr(command, "commands") and rest:
        command, rest = command.commands.get(rest[0]), rest[1:]
    if command is None:
        return
    try:
        values = command.make_context("", list(rest), resilient_parsing=True).params
    except typer.TyperException:
        return
    for param in command.params:
        value = values.get(param.name)
        several = value if isinstance(value, list | tuple) else [value]
        typed = next((one for one in param.opts for said in rest if said == one or said.startswith(f"{one}=")), None)
        given = typed is not None or (_is_argument(param) and value is not None)
        yield Typed(
            typed or _name(param), tuple(str(one) for one in several if one is not None), given, tuple(param.opts)
        )


def _is_argument(param: Any) -> bool:
    return not param.opts[0].startswith("-")


def _name(param: Any) -> str:
    """An argument's name in the help, or an option's long one."""
    return str(param.metavar or param.name.upper()) if _is_argument(param) else str(param.opts[0])


def _is_called(typed: Typed, name: str) -> bool:
    """Whether an option or argument is the one that Python, or the help, has this name for.

    >>> short = Typed("-o", ("model.json",), True, ("--output", "-o"))
    >>> _is_called(Typed("--row-norm", (), True), "row_norm"), _is_called(short, "output"), _is_called(short, "seed")
    (True, True, False)
    """
    return name.lower() in (one.lstrip("-").replace("-", "_").lower() for one in (typed.name, *typed.names))
