"""How a file of text is written: its encoding, what separates its columns, and whether its first line names them."""

from __future__ import annotations

import codecs
import csv
import gzip
import itertools
import math
import re
from dataclasses import dataclass
from pathlib import Path

from uneven.io.refusals import unreadable

DELIMITERS = (",", ";", "\t", "|")
"""What separates columns, the likeliest first; a space only where it is none of these."""

LOOKED_AT = 1 << 16
"""Bytes at the beginning of a file that its format is taken from."""

LINES = 50
COMMA, POINT = re.compile(r"[+-]?\d+,\d+"), re.compile(r"[+-]?\d+\.\d+")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
ENCODINGS = {codecs.BOM_UTF8: "utf8", codecs.BOM_UTF16_LE: "utf16", codecs.BOM_UTF16_BE: "utf16"}


@dataclass(frozen=True)
class TextFormat:
    """How a file of text is written.

    `width` is the number of columns where no line names them, else None; `decimal` separates a number's decimals;
    `padded` says that a space follows each delimiter.
    """

    delimiter: str = ","
    encoding: str = "utf8"
    width: int | None = None
    decimal: str = "."
    padded: bool = False

    @property
    def names(self) -> list[str] | None:
        """Names of columns that have none of their own; None where the first line names them."""
        return None if self.width is None else [f"x{j}" for j in range(self.width)]


def recognise(path: Path, delimiter: str | None = None) -> TextFormat:
    """Format of a file of text, from its beginning.

    Parameters
    ----------
    path : Path
        Plain or gzipped.
    delimiter : str or None
        What separates its columns; None finds out.
    """
    raw = _beginning(path)
    encoding = next((name for mark, name in ENCODINGS.items() if raw.startswith(mark)), "utf8")
    if encoding == "utf8" and b"\0" in raw:
        raise ValueError(
            f"{path} must be text in UTF-8, or in UTF-16 with its mark at the beginning; it has zero bytes"
        )
    text = raw.decode("utf-16" if encoding == "utf16" else "utf-8-sig", errors="replace")
    lines = [line for line in text.splitlines(keepends=True) if line.strip()]
    lines = lines[: min(LINES, len(lines) - 1)] if len(raw) == LOOKED_AT and len(lines) > 1 else lines[:LINES]
    chosen = _delimiter(path, lines) if delimiter is None else delimiter
    rows = _split(lines, chosen)
    decimal = "," if chosen != "," and _has_decimal_commas(rows) else "."
    first = [word.replace(decimal, ".") for word in rows[0]] if rows else []
    return TextFormat(
        chosen, encoding, len(first) if rows and _is_row(first, lines[0]) else None, decimal, _is_padded(rows)
    )


def _is_padded(rows: list[list[str]]) -> bool:
    """Whether a space follows each delimiter: then it is not part of a name or a word."""
    return any(len(row) > 1 for row in rows) and all(word.startswith(" ") for row in rows for word in row[1:] if word)


def _has_decimal_commas(rows: list[list[str]]) -> bool:
    """Whether numbers have commas for points: some have, none has a point, and not all commas may be of thousands."""
    words = [word.strip() for row in rows for word in row]
    found = [word for word in words if COMMA.fullmatch(word)]
    return not any(POINT.fullmatch(word) for word in words) and not all(map(THOUSANDS.fullmatch, found))


def _beginning(path: Path) -> bytes:
    with unreadable(path, "CSV"), gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        return file.read(LOOKED_AT)


def _split(lines: list[str], delimiter: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(lines, delimiter=delimiter) if row]
    except csv.Error:
        return []


def _delimiter(path: Path, lines: list[str]) -> str:
    """The first that cuts every line into as many columns, two or more; a comma where there is only one column."""
    for candidate in DELIMITERS:
        rows = _split(lines, candidate)
        # A line that is cut within quotes at the end of what was read may be short.
        if rows and len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows[:-1]):
            return candidate
    if not any(candidate in line for line in lines for candidate in DELIMITERS):
        words = [line.split() for line in lines]
        if len(words) > 1 and len(words[0]) > 2 and all(len(row) == len(words[0]) for row in words):
            if all(len(row) == len(words[0]) for row in _split([line.strip() for line in lines], " ")):
                return " "
            raise ValueError(f"{path} must have one character between columns, such as a comma; got runs of spaces")
    rows = _split(lines, ",")
    if rows and len(rows[0]) == 1 and (most := max(map(len, rows))) > 1:
        raise ValueError(
            f"{path} must have the same separator in every line, got lines of 1 and of {most} columns by commas; "
            "--delimiter, or delimiter in a sources.toml, states it"
        )
    return ","


def _is_row(first: list[str], line: str) -> bool:
    """Whether the first line is a row: it has numbers without quotes, other than whole ones that count the columns."""
    numbers = [word for word in first if _is_number(word) and f'"{word}"' not in line]
    counted = any(numbers == [str(j) for j in itertools.islice(itertools.count(k), len(numbers))] for k in (0, 1))
    return bool(numbers) and not (counted and len(numbers) > 1)


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False
