"""The text of a ``sources.toml``: parsed, with line numbers in errors; and written, with comments."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from uneven.planner import STRATEGIES

STRING = r'("{3}(?:\\.|[^\\])*?"{3,5}|\'{3}.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')'
"""A string of TOML, of any of its four kinds."""

COMMENT = re.compile(STRING + r"|(?:(?<=\n)|\A)[ \t]*#[^\n]*(?:\n|\Z)|[ \t]*#[^\n]*", re.DOTALL)
GAP = re.compile(STRING + r"|(?:\A|(?<=\n))\n(?=\n|\Z)|\A\n", re.DOTALL)

CLIP = STRATEGIES["precision"].private_clip
HEADER = """\
# Sources of data of uneven quality, for uneven: settings of the whole run first, then a [[source]] for each.
"""

MEANING = {
    "alpha": "L2 strength",
    "batch_size": "rows per step",
    "loss": '"logistic", "hinge" or "linear"',
    "strategy": 'how to learn: "auto", "anchored", "precision", or another strategy',
    "moments": 'which estimate of gradient noise the plan uses: "auto", "upper", "lower", "variance" or "estimated"',
    "radius": 'the ball that the weights stay in: "tight" or "paper"',
    "clip": 'norm that rows\' gradients are shrunk to; "none" for none',
    "row_norm": "public bound on the norm of rows; longer ones are shrunk to it",
    "long_rows": 'what to do with longer ones: "shrink" or "refuse"',
    "fit_intercept": "whether to fit an intercept",
    "average": 'which iterates the answer is made of: "auto", "last", "late", "growing" or "steps"',
    "passes": "passes over each row; private rows are charged for each",
    "use": 'whether private sources that are not expected to help are left out ("auto") or used ("all")',
    "sketch": 'columns that private rows are projected to, or "auto"',
    "budget": "limit on the total epsilon of each row, earlier runs included",
    "line_search": 'with strategy "two-rates": how many second rates to try',
    "mechanism": "private mechanism for rows with an epsilon of their own",
    "redact": "whether details of rows are kept out of messages",
    "label": "column of the labels",
    "classes": "all possible labels: public, and never taken from private rows",
    "multi_class": 'how more than two classes are learned: "softmax" or "one-vs-rest"',
    "class_weight": 'weight of each class: "balanced", or a table of classes and weights',
    "threshold": "probability of the second class from which it is predicted; left out: one half",
    "features": "columns to learn from",
    "n_features": "how many columns there are to learn from",
    "data": "file with the rows of all sources",
    "source_column": "its column that names each row's source",
    "delimiter": "what separates the columns of files of text",
    "columns_from": "sources whose rows [columns] was read from; delete it once that is public knowledge",
}
"""Every key above the sources, in the order of the file."""

LEFT_OUT = {
    "alpha": "# alpha = 0.001  # L2 strength; left out: by rows without privacy, or predicted if all are private\n",
    "batch_size": "# batch_size = 50  # rows per step; left out: 50, or what is best for each site with site privacy\n",
    "strategy": '# strategy = "precision"  # how to learn; left out: to convergence, and private rows after that\n',
    "clip": f"# clip = {CLIP}  # norm that gradients are clipped to; left out: none, or {CLIP} in private fits\n",
    "row_norm": "# row_norm = 1.0  # public bound on the norm of rows; left out: by public rows, or 1\n",
    "features": "# features = [...]  # columns to learn from; left out: all but the label's\n",
}


def parse_file(path: Path) -> dict[str, Any]:
    """What the file says, or in which line it is not TOML."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; sources are described in a file like sources.toml")
    if not path.is_file():
        raise ValueError(f"{path} must be a file like sources.toml; it is not a file")
    try:
        return parse_content(path.read_bytes(), str(path))
    except ValueError as error:
        if path.suffix.lower() == ".toml":
            raise
        start = f"uneven init {shlex.quote(str(path))}"
        raise ValueError(f"{path} must be a sources.toml; for a file of rows, run: {start} (got: {error})") from None


def parse_content(content: bytes, name: str) -> dict[str, Any]:
    """What a file of that name with this content says, or in which line it is not TOML."""
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{name}, line {line}: must be UTF-8 text, got the byte {content[error.start]:#04x}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(_syntax_error(name, str(error), content)) from None


def _syntax_error(name: str, message: str, content: bytes) -> str:
    place = re.search(r"\(at line (\d+), column \d+\)$", message)
    line = int(place[1]) if place else max(1, len(content.splitlines()))  # else: at the end of the document
    reason = " ".join(re.sub(r"\(at [^()]*\)$", "", message).split())
    return f"{name}, line {line}: {reason}"


def format_sources(
    settings: Mapping[str, Any], sources: Iterable[Mapping[str, Any]], note: str = "", columns: str = ""
) -> str:
    """Text with these settings, columns and sources; None is left out. `note` goes below each source."""
    head = HEADER + "".join(_setting(key, settings.get(key)) for key in MEANING)
    return head + columns + "".join(format_source(source) + note for source in sources)


def format_document(values: Mapping[str, Any]) -> str:
    """What a file says, without comments.

    >>> print(format_document({"label": "y", "source": [{"name": "a", "rows": 5}]}), end="")
    label = "y"
    <BLANKLINE>
    [[source]]
    name = "a"
    rows = 5
    """
    plain = {key: value for key, value in values.items() if key not in ("columns", "source")}
    head = "".join(f"{format_key(key)} = {format_value(value)}\n" for key, value in plain.items())
    columns = format_columns(values["columns"]) if "columns" in values else ""
    return head + columns + "".join(map(format_source, values.get("source", [])))


def format_columns(columns: Mapping[str, Any], note: str = "", start: str = "") -> str:
    """The table ``[columns]``, with comments above it; each line of a column begins with `start`."""
    lines = [f"{start}{format_key(name)} = {format_value(values)}\n" for name, values in columns.items()]
    return f"\n{note}[columns]\n" + "".join(lines)


def _setting(key: str, value: Any) -> str:
    return LEFT_OUT.get(key, "") if value is None else f"{key} = {format_value(value)}  # {MEANING[key]}\n"


def format_source(values: Mapping[str, Any]) -> str:
    """One ``[[source]]``; None is left out."""
    lines = (f"{key} = {format_value(value)}\n" for key, value in values.items() if value is not None)
    return "\n[[source]]\n" + "".join(lines)


def leave_out_comments(text: str) -> str:
    r"""The same file for others to see: comments may have been written from private rows.

    >>> print(leave_out_comments('# ages 3 to 97\nname = "a#b"  # rare\n'), end="")
    name = "a#b"
    """
    for part in (COMMENT, GAP):
        text = part.sub(lambda found: found[1] or "", text)
    return text


def format_key(name: str) -> str:
    """A key as TOML writes it: in quotes where it has other characters than letters, digits, dashes and underscores."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else format_value(name)


def format_value(value: Any) -> str:
    r"""A value as TOML writes it.

    >>> print(format_value({"kind": "local-privacy", "epsilon": 10.0}))
    { kind = "local-privacy", epsilon = 10.0 }
    """
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{format_key(key)} = {format_value(inner)}' for key, inner in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, str):
        # JSON writes strings as TOML reads them, but for one control character that only TOML forbids.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)
