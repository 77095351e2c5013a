"""Docstrings as this project writes them, for Sphinx.

`a, b : float` is two attributes, and a colon in a property's sentence ends no type. A module's list of its files is
left out, and so are fields of tuples, which their class describes.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon import NumpyDocstring

ENTRY = re.compile(r"^(\w+(?:, \w+)*) {2,}(\S.*)$")


def _list_attributes(self: NumpyDocstring, _section: str) -> list[str]:
    lines = []
    for names, kind, text in self._consume_fields():
        for name in (re.sub("_$", r"\\_", each) for each in names.split(", ")):  # coef_ is a name, not a link
            lines.extend(self._format_block(f":ivar {name}: ", text))
            lines.extend([f":vartype {name}: {kind}"] if kind else [])
    return [*lines, ""]


def _drop_files(_app: Sphinx, what: str, _name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    if what == "module":
        lines[:] = [line for line in lines if not ENTRY.match(line)]


def _skip_fields(_app: Sphinx, _what: str, _name: str, value: Any, _skip: bool, _options: Any) -> bool | None:
    return True if (getattr(value, "__doc__", "") or "").startswith("Alias for field number") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this."""
    NumpyDocstring._parse_attributes_section = _list_attributes
    NumpyDocstring._parse_attribute_docstring = NumpyDocstring._consume_to_end
    app.connect("autodoc-process-docstring", _drop_files)
    app.connect("autodoc-skip-member", _skip_fields)
    return {"parallel_read_safe": True}
