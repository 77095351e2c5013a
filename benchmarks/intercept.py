"""Private rows alone: what an intercept brings or costs, at the same alpha.

``python benchmarks/intercept.py [runs] [data ...]`` prints accuracy, log-loss and AUC on test rows without an
intercept, and the mean difference that one makes in the same runs with its standard error. Data is as in
`benchmarks/strength.py`, and ``bank``. A star marks what is worse by more than two standard errors. AUC is of the
direction alone: where scores are cut does not change it.
"""

import sys
import warnings

import numpy as np
from strength import load, measure

from anchor import bank
from uneven import LocalPrivacy, UnevenClassifier
from uneven.problem import DEFAULT_ALPHA

EPSILONS = (1.0, 3.0, 10.0)
DATA = ("mnist", "covertype", "bank", "drawn", "uncentred", "rare", "uncentred-rare")
MOST = 60_000


def load_rows(name):
    """Rows to learn from, at most `MOST`, and to test on."""
    if name != "bank":
        X, y, X_test, y_test = load(name)
        some = np.random.default_rng(0).permutation(len(y))[:MOST]
        return X[some], y[some], X_test, y_test
    X, y = bank()
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    return X[8_000:], y[8_000:], X[:8_000], y[:8_000]


def fit(rows, epsilon, intercept, seed):
    """Figures on test rows of one fit."""
    X, y, X_test, y_test = rows
    model = UnevenClassifier(
        LocalPrivacy(epsilon), row_norm=1.0, alpha=DEFAULT_ALPHA, fit_intercept=intercept, random_state=seed
    )
    return measure(model.fit(X, y), X_test, y_test)


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    warnings.simplefilter("ignore")
    print(f"{'data':15s} {'ε':>4s}  without: accuracy, log-loss, AUC    with an intercept, the same less that without")
    for name in sys.argv[2:] or DATA:
        rows = load_rows(name)
        for epsilon in EPSILONS:
            found = np.array([[fit(rows, epsilon, one, seed) for one in (False, True)] for seed in range(runs)])
            more = found[:, 1] - found[:, 0]
            mean, error = more.mean(axis=0), more.std(axis=0, ddof=1) / np.sqrt(runs)
            worse = np.array([-1, 1, -1]) * mean > 2 * error
            told = "  ".join(
                f"{m:+.4f} ± {e:.4f}{'*' if star else ' '}" for m, e, star in zip(mean, error, worse, strict=True)
            )
            plain = "  ".join(f"{value:.4f}" for value in found[:, 0].mean(axis=0))
            print(f"{name:15s} {epsilon:4g}  {plain}               {told}", flush=True)


if __name__ == "__main__":
    main()
