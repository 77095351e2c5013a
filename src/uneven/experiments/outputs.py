"""What is written beside the runs: claims as JSON, tables as Markdown, figures as PNG and PDF."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uneven.experiments.claims import Claim
from uneven.experiments.results import Results
from uneven.io import write_text_atomically, written_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_claims(path: Path, results: Mapping[str, Results], claims: Sequence[Claim]) -> None:
    """Write claims as JSON, with the number of runs behind them."""
    facts = {"runs": min(one.runs for one in results.values()), "claims": [claim.to_dict() for claim in claims]}
    write_text_atomically(path, json.dumps(facts, indent=2, default=_plain, ensure_ascii=False) + "\n")


def write_figure(folder: Path, figure: Figure) -> None:
    """Write a figure for the screen and for print, each whole or not at all."""
    for kind in ("png", "pdf"):
        with written_atomically(folder / f"figure.{kind}") as temporary:
            figure.savefig(temporary, dpi=200, format=kind)


def markdown_claims(said: str, claims: Sequence[Claim]) -> str:
    """Claims as a table in Markdown."""
    rows = ((claim.panel, claim.statement, f"**{claim.verdict}**", claim.measured) for claim in claims)
    return markdown_table(("panel", said, "verdict", "measured"), rows)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Table in Markdown, bars in cells escaped.

    >>> print(markdown_table(["ε", "f"], [["1", "0.25"]]), end="")
    | ε | f |
    |---|---|
    | 1 | 0.25 |
    """
    lines = [head, ["---"] * len(head), *rows]
    texts = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    return "".join(f"|{'|'.join(line)}|\n" if line[0] == "---" else f"| {' | '.join(line)} |\n" for line in texts)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"no plain value for {type(value).__name__}")
