"""Change a few values of a ``sources.toml`` and leave the rest of its text as it is, comments included."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from uneven.io.sources_text import format_document, format_key, format_source, format_value, parse_content

Change = tuple[int | None, Mapping[str, Any]]
"""A source of the changed file: its place in the file as it was, or None for a new one; and what changes."""

TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'  # text over several lines
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'"  # text on one line
    r"|#[^\n]*|.",
    re.DOTALL,
)
KEY = re.compile(r"""\s*(?:"(?P<text>[^"\\]*)"|'(?P<literal>[^']*)'|(?P<bare>[\w-]+))\s*(?P<dotted>\.)?""")


@dataclass
class _Statement:
    """Lines that belong together: a key with its value, or a comment, or an empty line (then `key` is empty)."""

    text: str
    key: str = ""
    dotted: bool = False
    value: slice = field(default_factory=lambda: slice(0, 0))

    def with_value(self, value: Any) -> str:
        return self.text[: self.value.start] + format_value(value) + self.text[self.value.stop :]


@dataclass
class _Block:
    """A header such as ``[[source]]`` with the statements below it; the first block of a file has none."""

    name: tuple[str, ...] = ()
    lead: str = ""
    statements: list[_Statement] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.lead + "".join(one.text for one in self.statements)


def edit_sources(text: str, settings: Mapping[str, Any], sources: Sequence[Change]) -> str:
    """Text with these changes.

    Parameters
    ----------
    text : str
        A ``sources.toml``.
    settings : dict
        New values of keys above the sources; None removes a key.
    sources : sequence of (place, changes)
        Every source that is to stay, by its place in the file, with new values of its keys; a new one has no place.

    Returns
    -------
    str
        Reads as the old text with the changes. Comments stay, unless the file is written in a way that only a whole
        new text can express, such as sources in one line.

    Examples
    --------
    >>> old = 'label = "y"  # the diagnosis' + chr(10) + '[[source]]' + chr(10) + 'name = "a"' + chr(10) + 'rows = 5'
    >>> print(edit_sources(old, {}, [(0, {"rows": 6})]))
    label = "y"  # the diagnosis
    [[source]]
    name = "a"
    rows = 6
    """
    values = parse_content(text.encode(), "sources.toml")
    settings = {key: value for key, value in settings.items() if values.get(key) != value}
    sources = [(place, _differing(values, place, changes)) for place, changes in sources]
    if not settings and sources == [(place, {}) for place in range(len(values.get("source", [])))]:
        return text
    changed = [_changed(values, place, changes) for place, changes in sources]
    wanted = _merged(values, {**settings, "source": changed or None})
    edited = _edited(text, settings, sources)
    try:
        kept = tomllib.loads(edited.removeprefix("\ufeff")) == wanted
    except tomllib.TOMLDecodeError:
        kept = False
    return edited if kept else format_document(wanted)


def _differing(values: Mapping[str, Any], place: int | None, changes: Mapping[str, Any]) -> dict[str, Any]:
    old = {} if place is None else values["source"][place]
    return {key: value for key, value in changes.items() if old.get(key) != value}


def _changed(values: Mapping[str, Any], place: int | None, changes: Mapping[str, Any]) -> dict[str, Any]:
    return _merged({} if place is None else values["source"][place], changes)


def _merged(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**old, **changes}.items() if value is not None}


def _edited(text: str, settings: Mapping[str, Any], sources: Sequence[Change]) -> str:
    """Text with the changes, statement by statement; the caller checks that it says what it should."""
    blocks = list(_read_blocks(text))
    _change([blocks[0]], settings)
    groups: list[list[_Block]] = []
    for block in blocks:
        if block.name == ("source",):
            groups.append([block])
        elif block.name[:1] == ("source",) and groups:
            groups[-1].append(block)
    kept = {place for place, _ in sources if place is not None}
    gone = [block for place, group in enumerate(groups) if place not in kept for block in group]
    added = ""
    for place, changes in sources:
        if place is None:
            added += format_source(changes)
        elif place < len(groups):
            gone += _change(groups[place], changes)
    whole = "".join(block.text for block in blocks if not any(block is one for one in gone))
    return whole + ("" if not added or whole.endswith("\n") else "\n") + added


def _change(group: Sequence[_Block], changes: Mapping[str, Any]) -> list[_Block]:
    """Change keys of a block; tables of their own that cannot be changed key by key are returned, to be left out."""
    first, *others = group
    gone: list[_Block] = []
    for key, value in changes.items():
        tables = [block for block in others if block.name[1] == key]
        if len(tables) == 1 and len(tables[0].name) == 2 and isinstance(value, Mapping):
            _change_table(tables[0], value)
            continue
        gone += tables
        mine = [one for one in first.statements if one.key == key]
        if len(mine) == 1 and not mine[0].dotted and value is not None:
            mine[0].text = mine[0].with_value(value)
            continue
        first.statements[:] = [one for one in first.statements if one.key != key]
        if value is not None:
            _insert(first, f"{format_key(key)} = {format_value(value)}\n")
    return gone


def _change_table(block: _Block, wanted: Mapping[str, Any]) -> None:
    """Change the keys of a table such as ``[source.noise]`` that differ; its other lines stay, comments included."""
    old = tomllib.loads("".join(one.text for one in block.statements))
    _change([block], {key: wanted.get(key) for key in {**old, **wanted} if old.get(key) != wanted.get(key)})


def _insert(block: _Block, line: str) -> None:
    """Put a line below the last key of a block, or at its top."""
    last = max((place for place, one in enumerate(block.statements) if one.key), default=-1)
    if last >= 0 and not block.statements[last].text.endswith("\n"):
        block.statements[last].text += "\n"
    elif last < 0 and block.lead and not block.lead.endswith("\n"):
        block.lead += "\n"
    block.statements.insert(last + 1, _Statement(line))


def _read_blocks(text: str) -> Iterator[_Block]:
    """Blocks of a file. Comments right above a header go with it, and so does an empty line above them."""
    block = _Block()
    for statement in _read_statements(text):
        if statement.key:
            block.statements.append(statement)
        elif statement.text.lstrip().startswith("["):
            lead = _take_lead(block)
            yield block
            block = _Block(tuple(_header_names(statement.text)), lead + statement.text)
        else:
            block.statements.append(statement)
    yield block


def _take_lead(block: _Block) -> str:
    """Cut from the end of a block what belongs to the next header: from the last key's comments' end on."""
    end = len(block.statements)
    start = next((k + 1 for k in range(end - 1, -1, -1) if block.statements[k].key), 0)
    if not block.name and not start:  # comments above the first key or header belong to the file
        start = end
    empty = next((k for k in range(start, end) if not block.statements[k].text.strip()), start)
    lead = "".join(one.text for one in block.statements[empty:])
    del block.statements[empty:]
    return lead


def _header_names(text: str) -> Iterator[str]:
    inside = text.strip().lstrip("[")
    while found := KEY.match(inside):
        yield next(part for part in found.group("text", "literal", "bare") if part is not None)
        inside = inside[found.end() :] if found["dotted"] else ""


def _read_statements(text: str) -> Iterator[_Statement]:
    """Statements of a file, in order; together they are its text."""
    start = 0
    for end in _statement_ends(text):
        yield _read_statement(text[start:end])
        start = end


def _statement_ends(text: str) -> Iterable[int]:
    depth, header = 0, True
    for token in TOKEN.finditer(text):
        what = token.group()
        if what == "=" and not depth:
            header = False
        elif what in "[{" or what in "]}":
            depth += 0 if header else (1 if what in "[{" else -1)
        elif what == "\n" and depth <= 0:
            depth, header = 0, True
            yield token.end()
    if not text.endswith("\n"):
        yield len(text)


def _read_statement(text: str) -> _Statement:
    equals = end = None
    for token in TOKEN.finditer(text):
        what = token.group()
        if what == "=" and equals is None:
            equals = token.end()
        elif not what.startswith("#") and not what.isspace():
            end = token.end()
    key = KEY.match(text.removeprefix("\ufeff"))
    if equals is None or end is None or key is None:
        return _Statement(text)
    start = equals + len(text[equals:]) - len(text[equals:].lstrip())
    name = next(part for part in key.group("text", "literal", "bare") if part is not None)
    return _Statement(text, name, key["dotted"] is not None, slice(start, end))
