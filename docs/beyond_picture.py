"""The picture of docs/beyond.md: the excess of each method by ε, from the tables beside it."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.pyplot as plt

from uneven.plotting import label_plainly

RESULTS = Path(__file__).parent / "results" / "beyond"
SHOWN = {
    "Algorithm2": ("s--", "the paper's Algorithm 2"),
    "CleanOnly": ("^:", "the paper's steps, clean source only"),
    "uneven": ("o-", "uneven"),
    "uneven, clean only": ("v-.", "uneven, clean source only"),
}


def read_table(text: str, panel: str) -> dict[str, list[float]]:
    """The columns of the first table of a panel that are shown."""
    head, _, *rows = re.search(rf"^## {panel}\n.*?((?:^\|[^\n]*\n)+)", text, flags=re.M | re.S)[1].splitlines()
    names, *cells = ([cell.strip() for cell in row.strip("|").split("|")] for row in [head, *rows])
    return {name: [float(row[names.index(name)]) for row in cells] for name in ("ε_N", *SHOWN)}


def main() -> None:
    """Write the picture."""
    text = (RESULTS / "tables.md").read_text(encoding="utf-8")
    figure, both = plt.subplots(1, 2, figsize=(8, 3.9), layout="constrained")
    for axes, panel, title in zip(both, ("beyond-mnist", "beyond-covertype"), ("MNIST", "Covertype"), strict=True):
        table = read_table(text, panel)
        for name, (style, label) in SHOWN.items():
            axes.plot(table["ε_N"], table[name], style, label=label, ms=5)
        axes.set(yscale="log", title=title, xlabel="ε of the noisy source", ylabel="excess objective, log scale")
        label_plainly(axes.yaxis)
        axes.grid(alpha=0.25)
    figure.legend(*both[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9)
    figure.savefig(RESULTS / "excess.png", dpi=150)


if __name__ == "__main__":
    main()
