"""Escaped text, tables and figures: whatever comes from outside goes through `escape_text`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from uneven.report.style import CSS


def escape_text(text: object) -> str:
    """Text that is safe between tags and inside attributes.

    >>> escape_text("<b> & 'c'")
    '&lt;b&gt; &amp; &#x27;c&#x27;'
    """
    return escape(str(text), quote=True)


def make_paragraph(text: str, kind: str = "") -> str:
    """Paragraph of plain text."""
    return f"<p{_class(kind)}>{escape_text(text)}</p>"


def make_bullets(lines: Iterable[str]) -> str:
    """List of plain lines."""
    return "<ul>" + "".join(f"<li>{escape_text(line)}</li>" for line in lines) + "</ul>"


def make_card(html: str, kind: str = "") -> str:
    """A box around some markup."""
    return f'<div class="{f"card {kind}".strip()}">{html}</div>'


def make_code(text: str) -> str:
    """Text as typed."""
    return f'<pre tabindex="0"><code>{escape_text(text)}</code></pre>'


def make_table(
    caption: str,
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    numbers: Collection[int] = (),
    marked: Collection[int] = (),
) -> str:
    """Table whose first column names its rows; those in `numbers` are set to the right, rows in `marked` stand out."""
    head = "".join(f'<th scope="col"{_number(i in numbers)}>{escape_text(cell)}</th>' for i, cell in enumerate(header))
    body = "".join(_row(row, numbers, k in marked) for k, row in enumerate(rows))
    return (
        f'<div class="scroll" role="region" aria-label="{escape_text(caption)}" tabindex="0"><table>'
        f"<caption>{escape_text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(cells: Sequence[object], numbers: Collection[int], marked: bool) -> str:
    first = f'<th scope="row">{escape_text(cells[0])}</th>'
    rest = "".join(f"<td{_number(i in numbers)}>{escape_text(cell)}</td>" for i, cell in enumerate(cells[1:], start=1))
    return f"<tr{_class('marked' if marked else '')}>{first}{rest}</tr>"


def _number(yes: bool) -> str:
    return _class("number" if yes else "")


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def make_section(heading: str, *parts: str) -> str:
    """Section with a heading of the second level."""
    return f"<section><h2>{escape_text(heading)}</h2>{''.join(parts)}</section>"


def fold_sections(summary: str, sections: Iterable[str]) -> str:
    """Sections that a reader opens; empty without any."""
    inside = "\n".join(filter(None, sections))
    return f"<details><summary>{escape_text(summary)}</summary>{inside}</details>" if inside else ""


def make_page(title: str, lead: str, sections: Iterable[str], foot: str) -> str:
    """Whole file: nothing in it refers to anything outside."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">'
        f'<link rel="icon" href="data:,"><title>{escape_text(title)}</title><style>{CSS}</style></head>'
        f"<body><main><h1>{escape_text(title)}</h1>{make_paragraph(lead, 'lead')}\n"
        + "\n".join(sections)
        + f"\n<footer>{make_paragraph(foot)}</footer></main></body></html>\n"
    )
