"""A file with rows that tell their epsilon, several noises at once, and a price for each epsilon."""

import numpy as np

OWN_EPSILON = """\
label = "y"
row_norm = 1.0
[[source]]
name = "open"
data = "open.csv"
noise = { kind = "exact" }
[[source]]
name = "consented"
data = "consented.csv"
epsilon = "eps"
price = 0.5
[[source]]
name = "both"
data = "both.csv"
noise = [{ kind = "flipped-labels", rate = 0.1 }, { kind = "local-privacy", epsilon = 2.0 }]
[[source]]
name = "sold"
data = "sold.csv"
noise = { kind = "local-privacy", epsilon = 1.0 }
prices = [{ epsilon = 1, price = 0.02 }, { epsilon = 3, price = 0.1 }]
"""


def write_own_epsilons(folder):
    """Public rows, rows that tell their epsilon, rows with two noises and rows with a price for each epsilon."""
    rng = np.random.default_rng(0)
    for name in ("open", "consented", "both", "sold"):
        X = rng.uniform(-0.5, 0.5, (400, 2))
        rows = np.column_stack([X, X[:, 0] > 0, *([np.tile([1.0, 4.0], 200)] if name == "consented" else [])])
        header = "a,b,y,eps" if name == "consented" else "a,b,y"
        np.savetxt(folder / f"{name}.csv", rows, "%.6g", ",", header=header, comments="")
    (folder / "sources.toml").write_text(OWN_EPSILON, encoding="utf-8")
    return folder / "sources.toml"
