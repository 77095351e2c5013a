"""Labels that are wrong at a known rate: the default fit beside logistic regression that takes them as they are.

``python benchmarks/flips.py [runs] [data ...]`` prints accuracy and log-loss on test rows with true labels. The other
is scikit-learn's ``LogisticRegressionCV``, scored by log-loss; rows are drawn and labels flipped anew in each run. A
star marks what is worse by more than two standard errors of the difference of the same runs.
"""

import sys
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_hastie_10_2
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

import uneven
from uneven.datasets import load_covertype, load_mnist

RATES, TESTED = (0.1, 0.3, 0.45), 10_000


def load_squares():
    """Ten normal columns and their squares, which tell the classes apart."""
    X, y = make_hastie_10_2(20_000, random_state=0)
    return np.hstack([X, X**2]), (y > 0).astype(int)


def load_rows(load):
    """Rows of one of the package's data sets, labels 0 and 1."""
    data = load()
    return np.asarray(data.X, dtype=np.float64), (data.y > 0).astype(int)


def load_scaled(load, scale):
    """Rows of one of scikit-learn's data sets."""
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X) if scale else X / X.max(), y


DATA = {
    "squares-1000": (load_squares, 1_000),
    "squares-5000": (load_squares, 5_000),
    "breast-cancer": (lambda: load_scaled(load_breast_cancer, True), 350),
    "digits": (lambda: load_scaled(load_digits, False), 1_100),
    "mnist-5000": (lambda: load_rows(load_mnist), 5_000),
    "covertype-5000": (lambda: load_rows(load_covertype), 5_000),
    "covertype-40000": (lambda: load_rows(load_covertype), 40_000),
}


def run_once(X, y, rows, rate, seed):
    """Log-loss and accuracy of both."""
    rng, classes = np.random.default_rng(seed), len(np.unique(y))
    order = rng.permutation(len(y))[: rows + TESTED]
    train, test = order[:rows], order[rows:]
    seen, wrong = y[train].copy(), rng.random(rows) < rate
    seen[wrong] = (seen[wrong] + rng.integers(1, classes, wrong.sum())) % classes
    ours = uneven.UnevenClassifier(uneven.FlippedLabels(rate), random_state=0).fit(X[train], seen)
    theirs = LogisticRegressionCV(Cs=10, cv=5, scoring="neg_log_loss", max_iter=500).fit(X[train], seen)
    return [
        [log_loss(y[test], model.predict_proba(X[test])), model.score(X[test], y[test])] for model in (ours, theirs)
    ]


def main():
    """Print a line for each data set and rate."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    print("| data, rows | wrong | accuracy | ignoring flips | log-loss | ignoring flips |\n|---|---|---|---|---|---|")
    for name in sys.argv[2:] or DATA:
        load, rows = DATA[name]
        X, y = load()
        for rate in RATES:
            found = np.array([run_once(X, y, rows, rate, seed) for seed in range(runs)])
            apart = (found[:, 0] - found[:, 1]) * np.array([1.0, -1.0])  # above 0 where ours is worse
            error = apart.std(axis=0, ddof=1) / runs**0.5
            stars = np.where(apart.mean(axis=0) > 2.0 * error, "*", "")
            (loss, share), (other_loss, other_share) = found.mean(axis=0)
            print(
                f"| {name} | {rate:.0%} | {share:.3f}{stars[1]} | {other_share:.3f} | {loss:.3f}{stars[0]} | "
                f"{other_loss:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
