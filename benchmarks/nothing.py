"""Private rows alone, over a grid of rows, features and ε: is the result above predicting nothing?

``python benchmarks/nothing.py [runs] [local|site] [signal ...]`` prints f(w) - f(0) with its standard error: of the
steps alone (`strategy="precision"`), and of what a fit does by default. Rows are drawn anew for each signal: ``plain``
and ``weak`` have features alike in all directions, ``skewed`` has features of falling variance with a mean, ``none``
has labels that the features do not tell; and where it is asked for, ``aligned`` has rows of a norm near 1 along one
direction, 65% of them on the side of their class. A star marks what is above 0 by more than two standard errors; the
last line of each signal counts the stars, and has the largest value that has one.

Data sets among the signals, ``mnist``, ``bank`` and ``covertype``, print the price where there is a signal: accuracy
and log-loss on test rows of `UnevenClassifier`, by default and of the steps alone, at ε = 1, 3 and 10.
"""

import sys
import warnings
from dataclasses import replace

import numpy as np

from anchor import bank
from uneven import LocalPrivacy, SitePrivacy, UnevenClassifier
from uneven.datasets import LOADERS
from uneven.engine import objective, sweep
from uneven.experiments.running import divide_rows, shorten_weights
from uneven.planner import Source, make_plan
from uneven.problem import PRIVATE_CLIP, USUAL_BATCH, Problem
from uneven.settings import Settings
from uneven.training import keep_rows

ROWS, FEATURES = (1_000, 10_000, 50_000, 100_000), (5, 25, 100)
EPSILONS = (0.05, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 8.0)
SIGNALS = {"plain": 6.0, "weak": 2.0, "skewed": 6.0, "none": 0.0}
NOISES = {"local": LocalPrivacy, "site": SitePrivacy}
SEED, MEASURED = 0, 10_000


def draw(signal, n, d):
    """Rows in the unit ball, and labels by a logistic model of one direction."""
    rng = np.random.default_rng(SEED)
    if signal == "aligned":
        side = rng.choice([-1.0, 1.0], n)
        X = rng.normal(size=(n, d)) * 0.05 / np.sqrt(d)
        X[:, 0] += side * rng.uniform(0.75, 0.85, n)
        return np.ascontiguousarray(X, dtype=np.float32), np.where(rng.random(n) < 0.65, side, -side)
    spread = 1.0 / np.arange(1, d + 1) if signal == "skewed" else np.ones(d)
    X = rng.normal(size=(n, d)) * spread + (0.5 * spread if signal == "skewed" else 0.0)
    X /= 1.2 * np.sqrt((X**2).sum(axis=1).mean())
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    direction = rng.normal(size=d)
    score = (X - X.mean(axis=0)) @ direction
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-SIGNALS[signal] / 3.0 * score / score.std())), 1.0, -1.0)
    return np.ascontiguousarray(X, dtype=np.float32), y


def measure(X, y, noise, runs):
    """The plan, and f(w) - f(0) of each run: by default, and by steps alone."""
    n, d = X.shape
    problem = Problem(d, 1e-3, USUAL_BATCH, clip=PRIVATE_CLIP, own_batches=noise.once_a_batch)
    steps = make_plan([Source("a", n, noise)], problem)
    plan, found = keep_rows(steps, Settings(fit_intercept=False)), []
    for one in (plan, steps):
        weights = sweep([one], {"a": divide_rows((X, y), one.kept)[0]}, runs=runs, seed=SEED, threads=1).weights[0]
        if one.kept:
            weights = shorten_weights(one, weights, {"a": (X, y)}, 0, SEED)
        found.append(objective(replace(problem, clip=None), weights, X[:MEASURED], y[:MEASURED]) - np.log(2))
    return plan, *found


def show(values):
    """Mean and standard error, with a star where it is above 0; and the mean if it is, else 0."""
    mean, error = values.mean(), values.std(ddof=1) / np.sqrt(len(values))
    above = round(mean, 4) > 2 * error
    return f"{mean:+.4f} ± {error:.4f}{' *' if above else '  '}", mean if above else 0.0


def divide(name, seed):
    """Rows and labels to learn from, and to test on; of Bank a quarter is drawn for the test."""
    if name != "bank":
        data = LOADERS[name]()
        return data.X, data.y.astype(int), data.X_test, data.y_test.astype(int)
    X, y = bank()
    order = np.random.default_rng(seed).permutation(len(y))
    first, last = np.split(order, [3 * len(y) // 4])
    return X[first], y[first].astype(int), X[last], y[last].astype(int)


def price(name, runs):
    """Print accuracy and log-loss of a data set, by default and of steps alone."""
    for epsilon in (1.0, 3.0, 10.0):
        found = {"auto": [], "precision": []}
        for seed in range(runs):
            X, y, X_test, y_test = divide(name, seed)
            for strategy, scores in found.items():
                clf = UnevenClassifier(LocalPrivacy(epsilon), strategy=strategy, row_norm=1.0, random_state=seed)
                margins = y_test * clf.fit(X, y).decision_function(X_test)
                scores.append(((margins > 0).mean(), np.logaddexp(0, -margins).mean(), clf.plan_.kept))
        kept = int(found["auto"][0][2])
        shown = (f"{mean:.4f} ± {error:.4f}" for one in found.values() for mean, error in summarize(one))
        print(f"{name:9} {len(y):7,} {X.shape[1]:3} {epsilon:3g} {kept:4}  {'  '.join(shown)}", flush=True)


def summarize(scores):
    """Mean and standard error of accuracy and of log-loss."""
    values = np.array(scores)[:, :2]
    return zip(values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values)), strict=True)


def main(runs, kind, signals):
    """Print the table of one kind of noise."""
    print("signal       n   d     ε  kept  expected  by default           steps alone")
    for signal in signals:
        above = []
        for d in FEATURES:
            for n in ROWS:
                X, y = draw(signal, n, d)
                for epsilon in EPSILONS:
                    plan, ours, steps = measure(X, y, NOISES[kind](epsilon), runs)
                    facts = f"{signal:6} {n:7,} {d:3} {epsilon:5g} {plan.kept:5} {plan.expected_scale:9.3f}"
                    (shown, mine), (alone, theirs) = show(ours), show(steps)
                    above.append((mine, theirs))
                    print(f"{facts}  {shown}  {alone}", flush=True)
        stars, most = np.count_nonzero(above, axis=0), np.max(above, axis=0)
        told = (f"{count} of {len(above)}, at most {one:+.4f}" for count, one in zip(stars, most, strict=True))
        print(f"{signal:6} above nothing: {'; steps alone '.join(told)}", flush=True)


if __name__ == "__main__":
    words = sys.argv[1:]
    warnings.simplefilter("ignore")  # a seed makes it a simulation
    many = int(words.pop(0)) if words and words[0].isdecimal() else 20
    noise, named = words.pop(0) if words and words[0] in NOISES else "local", words or list(SIGNALS)
    drawn = [*SIGNALS, "aligned"]
    if any(word in drawn for word in named):
        main(many, noise, [word for word in named if word in drawn])
    for word in named:
        if word not in drawn:
            price(word, many)
