"""Private rows alone: alpha as it is chosen by default, beside 0.001.

``python benchmarks/strength.py [runs] [data ...]`` prints accuracy, log-loss and AUC on test rows with each, and the
mean difference of the same runs with its standard error. Data is ``mnist``, ``mnist-784``, ``covertype``, or words that
describe rows to be drawn: ``weak`` (a weak signal), ``rare`` (7% positives), ``uncentred``, ``flat`` (features alike in
all directions), ``n2000`` (so many rows), ``d100`` (so many features); ``drawn`` alone has none of these. A star marks
what is worse by more than two standard errors. Where the chosen alpha is 0.001 nothing is run.
"""

import sys
import warnings

import numpy as np
from scipy.special import expit
from sklearn.metrics import log_loss, roc_auc_score

import uneven
from uneven.datasets import load_covertype, load_mnist
from uneven.problem import DEFAULT_ALPHA

EPSILONS = (10.0, 5.0, 3.0, 2.0, 1.0, 0.3, 0.1)
REAL = {"mnist": load_mnist, "mnist-784": lambda: load_mnist(dimensions=None), "covertype": load_covertype}
DRAWN = ("drawn", "uncentred", "rare", "uncentred-rare", "weak", "uncentred-weak", "flat", "weak-flat")
MORE = ("d100", "n2000", "weak-n2000", "weak-n10000-d100", "uncentred-rare-n10000", "d5", "weak-d5-n5000")
TESTED = 20_000


def draw(words, tested=10_000):
    """Rows in the unit ball, and labels by a logistic model of one direction: to learn from and to test on."""
    size = {word[0]: int(word[1:]) for word in words if word[1:].isdigit()}
    n, d, rng = size.get("n", 60_000), size.get("d", 30), np.random.default_rng(0)
    spread = np.ones(d) if "flat" in words else np.arange(1, d + 1) ** -0.5
    X = rng.normal(size=(n + tested, d)) * spread + (0.7 * spread if "uncentred" in words else 0.0)
    X /= 1.5 * np.sqrt((X**2).sum(axis=1).mean())
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    score = (X - X.mean(axis=0)) @ rng.normal(size=d)
    score = (1.0 if "weak" in words else 2.5) * score / score.std() - (4.5 if "rare" in words else 0.0)
    y = np.where(rng.random(len(X)) < expit(score), 1.0, -1.0)
    X = X.astype(np.float32)
    return X[:n], y[:n], X[n:], y[n:]


def load(name):
    """Rows to learn from and to test on."""
    if name not in REAL:
        return draw(name.split("-"))
    data = REAL[name]()
    return data.X, data.y, data.X_test[:TESTED], data.y_test[:TESTED]


def measure(model, X, y):
    """Accuracy, log-loss and AUC on test rows."""
    score, positive = model.decision_function(X), y > 0
    return ((score > 0) == positive).mean(), log_loss(positive, expit(score)), roc_auc_score(positive, score)


def compare(rows, epsilon, runs):
    """The chosen alpha, and (runs, 2, 3) figures: with it, and with 0.001; None where they are the same."""
    X, y, X_test, y_test = rows
    found = []
    for seed in range(runs):
        pair = []
        for alpha in ("auto", DEFAULT_ALPHA):
            model = uneven.UnevenClassifier(uneven.LocalPrivacy(epsilon), alpha=alpha, random_state=seed).fit(X, y)
            if alpha == "auto" and (chosen := model.alpha_) == DEFAULT_ALPHA:
                return chosen, None
            pair.append(measure(model, X_test, y_test))
        found.append(pair)
    return chosen, np.array(found)


def show(name, ours, usual, better):
    """One figure: with 0.001, as chosen, the difference and its standard error."""
    gain = ours - usual
    mean, error = gain.mean(), gain.std(ddof=1) / np.sqrt(len(gain))
    star = "*" if better * mean < -2 * error else " "
    return f"{name} {usual.mean():.4f} → {ours.mean():.4f} ({mean:+.4f} ± {error:.4f}){star}"


def main(runs, names):
    """Print the table."""
    warnings.simplefilter("ignore")  # simulated, and rows shrunk by a hair
    for name in names:
        rows = load(name)
        for epsilon in EPSILONS:
            alpha, found = compare(rows, epsilon, runs)
            text = "as usual"
            if found is not None:
                kinds = (("accuracy", 1), ("log-loss", -1), ("AUC", 1))
                text = "  ".join(show(kind, *found[:, :, k].T, sign) for k, (kind, sign) in enumerate(kinds))
            print(f"{name:22} ε = {epsilon:<4g} alpha {alpha:<8g} {text}", flush=True)


if __name__ == "__main__":
    words = sys.argv[1:]
    main(int(words[0]) if words else 12, words[1:] or [*DRAWN, *MORE, *REAL])
