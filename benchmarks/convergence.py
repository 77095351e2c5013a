"""Learning to convergence beside scikit-learn's LogisticRegression, as ratios of CPU times within one run.

Words after the command name the tables to print: breast-cancer, bank, covertype, flips, anchored.
"""

import csv
import os
import sys
import time
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path

import covertype
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from timing import in_turn, row

import uneven
from uneven.anchor.rows import PublicRows
from uneven.anchor.solver import solve, use_one_thread
from uneven.anchor.strength import choose_alpha
from uneven.datasets import load_covertype, load_covertype_sample

ALPHAS = (1e-2, 1e-3, 1e-4)


def breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), 2.0 * y - 1.0


def bank() -> tuple[np.ndarray, np.ndarray]:
    """Bank Marketing without `duration`, one-hot and standardised."""
    with Path(os.environ["UNEVEN_DATA"], "bank", "bank-additional-full.csv").open() as file:
        names, *lines = csv.reader(file, delimiter=";")
    columns = dict(zip(names, np.array(lines).T, strict=True))
    y = np.where(columns.pop("y") == "yes", 1.0, -1.0)
    del columns["duration"]
    words = [v[0].isalpha() for v in (column[0] for column in columns.values())]
    X = [
        (column[:, None] == np.unique(column)[1:]) if word else column[:, None].astype(float)
        for word, column in zip(words, columns.values(), strict=True)
    ]
    return StandardScaler().fit_transform(np.hstack(X)), y


def fit_on_one_thread(model: LogisticRegression, X: np.ndarray, y: np.ndarray) -> None:
    with use_one_thread():
        model.fit(X, y)


def compare(name: str, X: np.ndarray, y: np.ndarray) -> None:
    rows = [PublicRows.from_arrays(np.hstack([X, np.ones((len(y), 1), X.dtype)]), y)]
    penalty = np.append(np.ones(X.shape[1]), 0.0)  # their intercept is free
    print(f"{name}, {X.shape[0]:,} x {X.shape[1]}")
    for alpha in ALPHAS:
        problem = uneven.Problem(len(penalty), alpha, 1)
        usual = LogisticRegression(C=1 / (alpha * len(y)))
        tight = LogisticRegression(C=usual.C, tol=1e-9, max_iter=10_000).fit(X.astype(np.float64), y)
        margins = y * (X.astype(np.float64) @ tight.coef_[0] + tight.intercept_)
        theirs = np.logaddexp(0, -margins).mean() + alpha / 2 * (tight.coef_**2).sum()
        found = solve(problem, rows, penalty)
        ours, classifier, threads, single = in_turn(
            lambda p=problem: solve(p, rows, penalty),
            lambda a=alpha: uneven.UnevenClassifier(alpha=a).fit(X, y),
            lambda model=usual: model.fit(X, y),
            lambda model=usual: fit_on_one_thread(model, X, y),
            rounds=3 if len(y) > 10_000 else 15,
            clock=time.process_time,
        )
        sklearn = min(threads, single)  # threads that wait for each other take time too
        row(
            f"alpha {alpha:g}: objective / scikit-learn's (tol 1e-9) - 1", f"{found.objective / theirs - 1:.1e}", "1e-4"
        )
        row(
            f"alpha {alpha:g}: {found.readings} readings, time / scikit-learn's",
            f"{ours / sklearn:.2f} x",
            "at most 1.5",
        )
        row(
            f"alpha {alpha:g}: the classifier's fit, time / scikit-learn's",
            f"{classifier / sklearn:.2f} x",
            "at most 1.5",
        )


def flips() -> None:
    data = load_covertype().subsample(100_000) if os.environ.get("UNEVEN_DATA") else load_covertype_sample()
    print(f"Covertype with flipped labels, {len(data.y):,} rows, alpha chosen by cross-validation")
    for rate, target in ((0.0, ""), (0.3, "at least 70.0%"), (0.45, "at least 69.5%")):
        noise = uneven.FlippedLabels(rate)
        rows = [PublicRows.from_arrays(data.X, noise.corrupt(data.y, np.random.default_rng(0)), noise)]
        problem = uneven.Problem(data.X.shape[1], 1e-3, 1)
        problem = replace(problem, alpha=choose_alpha(problem, rows).alpha)
        right = ((data.X_test @ solve(problem, rows).weights > 0) == (data.y_test > 0)).mean()
        choosing, solving = in_turn(
            lambda r=rows, p=problem: choose_alpha(p, r), lambda r=rows, p=problem: solve(p, r), rounds=3
        )
        row(f"flips {rate:g}: alpha {problem.alpha:.1e}, test accuracy", f"{right:.1%}", target)
        row(f"flips {rate:g}: choosing alpha / one solve", f"{choosing / solving:.1f} x", "about 3")


def anchored() -> None:
    """A fit with 500 public rows beside one with private rows alone, with the same alpha and with each default."""
    everything, labels, origin = covertype.load()
    noise = {"open": uneven.Exact(), "private": uneven.LocalPrivacy(1.0)}
    for rows, alpha in product((20_000, 100_000, 500_000), (1e-3, "auto")):
        X, y = everything[:rows], labels[:rows]
        source = np.where(np.arange(len(y)) < 500, "open", "private")
        print(f"Anchored on 500 rows of {origin}, beside the other rows of {len(y):,} alone, eps = 1")
        both, alone = (
            uneven.UnevenClassifier(kind, alpha=alpha, use="all", random_state=0) for kind in (noise, noise["private"])
        )
        ours, private = in_turn(
            lambda fit=both.fit, data=(X, y, source): fit(*data),
            lambda fit=alone.fit, data=(X[500:], y[500:]): fit(*data),
            rounds=5,
            clock=time.process_time,
        )
        row(f"alpha {alpha}: {1e3 * ours:.0f} ms, time / private rows alone", f"{ours / private:.2f} x", "at most 2")
        row(f"alpha {alpha}: time beyond that of private rows alone", f"{1e3 * (ours - private):.0f} ms")


def main() -> None:
    covered, labels, origin = covertype.load()
    tables = {
        "breast-cancer": lambda: compare("Breast cancer", *breast_cancer()),
        "bank": lambda: compare("Bank", *bank()) if os.environ.get("UNEVEN_DATA") else None,
        "covertype": lambda: compare(origin, covered[:200_000], labels[:200_000]),
        "flips": flips,
        "anchored": anchored,
    }
    for name in [word for word in sys.argv[1:] if word in tables] or list(tables):
        tables[name]()


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # scikit-learn's default may stop before it has converged
    main()
