"""Numbers, names and tables as text for a reader, in a terminal or on a page."""

from __future__ import annotations

import math
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import zip_longest

WIDTH, LEAST_WIDTH = 100, 40
EPOCH = "SOURCE_DATE_EPOCH"
"""Variable that fixes the time that is written, in seconds since 1970: so that builds can be repeated."""

GAP, NARROWEST = 2, 10
"""Spaces between columns of a table, and the least width of one of text."""

FEW = 8
"""Things up to which each is named, or has a sentence of its own."""


def read_clock() -> datetime:
    """The time now, or that which `EPOCH` states; whatever is dated asks here."""
    stated = os.environ.get(EPOCH, "")
    return datetime.fromtimestamp(int(stated), UTC) if stated.isdigit() else datetime.now(UTC)


def wrap(lines: Sequence[str]) -> str:
    """Lines broken between words to the width of a terminal, each with a hanging indent."""
    return "\n".join(_fill(line, measure_screen()) for line in lines)


def _fill(line: str, width: int) -> str:
    """One line, broken between words; what follows is indented by two more than it.

    >>> print(_fill("  of 6,000 rows", 12))
      of 6,000
        rows
    """
    hanging = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.fill(line, width, subsequent_indent=hanging, break_on_hyphens=False, break_long_words=False)


def measure_screen() -> int:
    """Columns of the terminal, at most `WIDTH`; that many where there is no terminal and COLUMNS does not say."""
    try:
        usual = os.get_terminal_size(sys.__stderr__.fileno()).columns if sys.__stderr__ else WIDTH
    except (OSError, ValueError):
        usual = WIDTH
    return max(LEAST_WIDTH, min(WIDTH, shutil.get_terminal_size((usual, 24)).columns))


def format_count(count: int, word: str = "row") -> str:
    """A number of things, as people write it.

    >>> format_count(1), format_count(2060), format_count(0, "step")
    ('1 row', '2,060 rows', '0 steps')
    """
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def format_number(value: float, digits: int = 4) -> str:
    """Four digits for a reader, or so many.

    >>> [format_number(x) for x in (21520.3, 0.01234567, 1.5e12)], [format_number(x, 2) for x in (2.9632, 163.0)]
    (['21,520', '0.01235', '1.5e+12'], ['3', '160'])
    """
    text = f"{value:,.0f}" if 1e3 <= value < 1e9 else f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if "e+" in text and value < 1e9 else text


def format_bound(value: float) -> str:
    """A bound for a reader; infinite where no theorem gives one.

    >>> format_bound(391.93), format_bound(float("inf"))
    ('391.9', 'none')
    """
    return format_number(value) if math.isfinite(value) else "none"


def name_few(names: Sequence[str]) -> str:
    """Names in quotes; of many, the first.

    >>> name_few(["a", "b"]), name_few([str(k) for k in range(20)])
    ("'a', 'b'", "'0', '1', '2', '3', '4', '5', '6', '7' and 12 others")
    """
    more = f" and {format_count(len(names) - FEW, 'other')}" if len(names) > FEW else ""
    return ", ".join(map(repr, names[:FEW])) + more


def shorten(text: str, width: int) -> str:
    """Text on one line, cut to `width`.

    >>> shorten("a rather long name", 10)
    'a rather …'
    """
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def format_table(rows: Sequence[Sequence[str]], right: Sequence[int] = (), width: int | None = None) -> str:
    """Rows in aligned columns, the first as a header; wide columns of text are broken to fit `width`, the screen's.

    Columns that still do not fit follow below, with the first column again.

    >>> print(format_table([("name", "rows"), ("clinic", "6")], right=(1,)))
    name    rows
    ------------
    clinic     6
    >>> print(format_table([("name", "noise"), ("clinic", "labels private, features not")], width=30))
    name    noise
    ------------------------------
    clinic  labels private,
            features not
    >>> print(format_table([("name", "price", "cost"), ("a", "10.00", "12.00")], right=(1, 2), width=12))
    name  price
    -----------
    a     10.00
    <BLANKLINE>
    name   cost
    -----------
    a     12.00
    """
    width = measure_screen() if width is None else width
    widths, count = fit_widths(rows, right, width), len(rows[0])
    while (_sum_widths(widths[:count]) > width) and count > 2:
        count -= 1
    if count < len(rows[0]):
        rest = [(row[0], *row[count:]) for row in rows]
        shown = format_table([row[:count] for row in rows], [i for i in right if i < count], width)
        return shown + "\n\n" + format_table(rest, [i - count + 1 for i in right if i >= count], width)
    lines = []
    for row in rows:
        cells = [split_cell(cell, size) for cell, size in zip(row, widths, strict=True)]
        lines.append([_align(parts, widths, right) for parts in zip_longest(*cells, fillvalue="")])
    rule = "-" * _sum_widths(widths)
    return "\n".join([*lines[0], rule, *(line for broken in lines[1:] for line in broken)])


def split_cell(cell: str, width: int) -> list[str]:
    """Lines of a cell: broken between words and after hyphens.

    >>> split_cell("same-rate-clean-first", 10)
    ['same-rate-', 'clean-', 'first']
    """
    return textwrap.wrap(cell, max(1, width)) or [""]


def _sum_widths(widths: Sequence[int], gap: int = GAP) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _align(parts: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    pairs = enumerate(zip(parts, widths, strict=True))
    return "  ".join(cell.rjust(size) if i in right else cell.ljust(size) for i, (cell, size) in pairs).rstrip()


def fit_widths(rows: Sequence[Sequence[str]], right: Sequence[int], width: int, gap: int = GAP) -> list[int]:
    """Width of each column: that of its longest cell, less in the widest where all together are too wide.

    Headers of numbers are broken first, between words, into two lines at most; then text.
    """
    longest = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    words = [_fit_header(header) for header in rows[0]]
    numbers = [max((len(row[i]) for row in rows[1:]), default=0) for i in range(len(rows[0]))]
    least = [max(words[i], numbers[i]) if i in right else min(longest[i], NARROWEST) for i in range(len(longest))]
    while _sum_widths(longest, gap) > width:
        widest = max(range(len(longest)), key=lambda i: (longest[i] > least[i], i in right, longest[i]))
        if longest[widest] <= least[widest]:
            break
        longest[widest] -= 1
    return longest


def _fit_header(header: str) -> int:
    """Least width of a header in two lines.

    >>> _fit_header("worth of a row"), _fit_header("rows"), _fit_header("")
    (8, 4, 0)
    """
    parts = header.split()
    halves = [(" ".join(parts[:k]), " ".join(parts[k:])) for k in range(len(parts))]
    return min((max(map(len, pair)) for pair in halves), default=0)
