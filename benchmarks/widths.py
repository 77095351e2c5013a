"""Wide private rows: the width that `sketch="auto"` takes, beside half and twice as many columns.

``python benchmarks/widths.py [runs] [local|site] [data ...]`` prints accuracy, AUC and log-loss on test rows with the
width that is chosen, and the mean difference that the other widths make in the same runs, with its standard error, by
local or by site privacy. Data is drawn:
``steep``, ``zipf`` and ``even`` have 400 columns whose variances fall like 1/j², 1/j and 1/√j; ``rare`` is ``zipf``
with one positive in ten; ``text`` is TF-IDF of made-up texts with 1,500 words; ``digits`` are scikit-learn's, drawn
again and again. A star marks what is better than the width chosen by more than two standard errors.
"""

import sys
import warnings

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss, roc_auc_score

from uneven import LocalPrivacy, SitePrivacy, UnevenClassifier

EPSILONS, ROWS, TESTED = (0.5, 1.0, 3.0), 40_000, 4_000
POWERS = {"steep": 2.0, "zipf": 1.0, "even": 0.5, "rare": 1.0}
DATA = (*POWERS, "text", "digits")
NOISES = {"local": LocalPrivacy, "site": SitePrivacy}


def draw(name):
    """Rows of norm 1 and labels of 0 and 1."""
    rng, n = np.random.default_rng(0), ROWS + TESTED
    if name == "digits":
        digits = load_digits()
        some = rng.integers(0, len(digits.target), n)
        X, y = digits.data[some], digits.target[some] % 2
    elif name == "text":
        X, y = draw_texts(rng, n, 1_500)
    else:
        X = rng.normal(size=(n, 400)) * np.arange(1, 401) ** (-POWERS[name] / 2.0)
        score = X @ rng.normal(size=400)
        y = rng.random(n) < expit(4.0 * (score - np.quantile(score, 0.9 if name == "rare" else 0.5)) / score.std())
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), np.asarray(y, dtype=int)


def draw_texts(rng, n, words, length=60):
    """TF-IDF of texts with words as frequent as Zipf has it; some are three times as frequent in one of two classes."""
    base = 1.0 / np.arange(1, words + 1)
    telling, y, X = rng.permutation(np.arange(20, words // 4))[:200].reshape(2, 100), rng.integers(0, 2, n), []
    for label in (0, 1):
        shares = base.copy()
        shares[telling[label]] *= 3.0
        X.append(rng.multinomial(length, shares / shares.sum(), size=n))
    counts = np.where(y[:, None] == 1, X[1], X[0])
    return counts * (1.0 - np.log1p(-((1.0 - base / base.sum()) ** length))), y


def fit(X, y, noise, width, seed):
    """Figures of one fit on test rows, and its width."""
    model = UnevenClassifier(noise, row_norm=1.0, sketch=width, random_state=seed)
    score, truth = model.fit(X[:ROWS], y[:ROWS]).decision_function(X[ROWS:]), y[ROWS:]
    figures = ((score > 0) == truth).mean(), roc_auc_score(truth, score), log_loss(truth, expit(score))
    return figures, model.scale_.sketch


def main(runs, kind, names):
    """Print the table of one kind of noise."""
    warnings.simplefilter("ignore")  # simulated, and rows shrunk by a hair
    for name in names:
        X, y = draw(name)
        for epsilon in EPSILONS:
            chosen = [fit(X, y, NOISES[kind](epsilon), "auto", seed) for seed in range(runs)]
            width, ours = chosen[0][1], np.array([figures for figures, _ in chosen])
            plain = ", ".join(f"{value:.4f}" for value in ours.mean(axis=0))
            print(
                f"{kind:5s} {name:7s} ε = {epsilon:<4g} {width or X.shape[1]} columns: accuracy, AUC, log-loss {plain}"
            )
            others = [width // 2, 2 * width] if width else [X.shape[1] // 2]
            for other in (one for one in others if 1 < one < X.shape[1]):
                more = np.array([fit(X, y, NOISES[kind](epsilon), other, seed)[0] for seed in range(runs)]) - ours
                mean, error = more.mean(axis=0), more.std(axis=0, ddof=1) / np.sqrt(runs)
                better = np.array([1, 1, -1]) * mean > 2 * error
                told = "  ".join(
                    f"{m:+.4f} ± {e:.4f}{'*' if star else ' '}" for m, e, star in zip(mean, error, better, strict=True)
                )
                print(f"    {other:4d} columns  {told}", flush=True)


if __name__ == "__main__":
    words = sys.argv[1:]
    many = int(words.pop(0)) if words and words[0].isdecimal() else 12
    main(many, words.pop(0) if words and words[0] in NOISES else "local", words or DATA)
