"""Escaped text, tables and figures: whatever comes from outside goes through `escape_text`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from hashlib import sha256
from html import escape

from uneven.report.style import CSS

COPY = """
for (const box of document.querySelectorAll('.scroll')) {
  const button = document.createElement('button');
  button.textContent = 'Copy table';
  button.onclick = () => {
    const rows = [...box.querySelectorAll('tr')].map(row => [...row.cells].map(cell => cell.textContent).join('\\t'));
    const area = document.createElement('textarea');
    area.value = rows.join('\\n');
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    button.textContent = done ? 'Copied' : 'Could not copy';
    setTimeout(() => { button.textContent = 'Copy table'; }, 2000);
  };
  box.after(button);
}
"""
"""The only script: a button below each table that copies it. `execCommand` works for files too, the clipboard's newer
interface does not everywhere."""


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
    stacked: bool = False,
) -> str:
    """Table whose first column names its rows; those in `numbers` are set to the right, rows in `marked` stand out.

    On a phone a stacked one has its cells below one another, each with its header; others scroll sideways.
    """
    role = partial(_role, stacked)
    head = "".join(
        f'<th scope="col"{role("columnheader")}{_kind(i, numbers)}>{escape_text(cell)}</th>'
        for i, cell in enumerate(header)
    )
    body = "".join(_row(row, header if stacked else (), numbers, k in marked) for k, row in enumerate(rows))
    told = escape_text(caption)
    return (
        f'<div class="scroll" role="region" aria-label="{told}" tabindex="0">'
        f"<table{role('table')}{_class('stacked' * stacked)}><caption><span>{told}</span></caption>"
        f"<thead{role('rowgroup')}><tr{role('row')}>{head}</tr></thead><tbody{role('rowgroup')}>{body}</tbody>"
        "</table></div>"
    )


def _row(cells: Sequence[object], labels: Sequence[str], numbers: Collection[int], marked: bool) -> str:
    """Row of a table; with labels for its cells it can be stacked."""
    role = partial(_role, bool(labels))
    first = f'<th scope="row"{role("rowheader")}>{escape_text(cells[0])}</th>'
    rest = "".join(
        f"<td{role('cell')}{_label(labels, i)}{_kind(i, numbers)}>{escape_text(cell)}</td>"
        for i, cell in enumerate(cells[1:], start=1)
    )
    return f"<tr{role('row')}{_class('marked' if marked else '')}>{first}{rest}</tr>"


def _role(stacked: bool, name: str) -> str:
    """A part of a table that is laid out as something else must say what it is."""
    return f' role="{name}"' if stacked else ""


def _label(labels: Sequence[str], place: int) -> str:
    return f' data-label="{escape_text(labels[place].rstrip("?"))}"' if labels else ""


def _kind(place: int, numbers: Collection[int]) -> str:
    return _class("number" * (place in numbers))


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
    """Whole file: nothing in it refers to anything outside, and no script runs but `COPY`."""
    hashed = b64encode(sha256(COPY.encode()).digest()).decode()
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        f"img-src data:; script-src 'sha256-{hashed}'\">"
        f'<link rel="icon" href="data:,"><title>{escape_text(title)}</title><style>{CSS}</style></head>'
        f"<body><main><h1>{escape_text(title)}</h1>{make_paragraph(lead, 'lead')}\n"
        + "\n".join(sections)
        + f"\n<footer>{make_paragraph(foot)}</footer></main><script>{COPY}</script></body></html>\n"
    )
