"""Private rows alone, of classes that are not alike: is the result above predicting the shares of the classes?

``python benchmarks/shares.py [runs]`` prints test log-loss less that of the shares of the classes among the rows to
learn from, with its standard error, and accuracy less that of the majority class: of what a fit does by default, and
of the steps alone (`strategy="precision"`). Rows are drawn anew for each run, with labels of a logistic model: ``none``
has labels that the features do not tell, ``weak`` and ``strong`` have scores with a standard deviation of 1 and 4. A
star marks what is above 0 by more than two standard errors; the last lines count the stars.
"""

import sys
import warnings

import numpy as np
from scipy.special import expit

from uneven import LocalPrivacy, UnevenClassifier

ROWS, TESTED, COLUMNS = (1_000, 10_000), 4_000, (5, 50)
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
SIGNALS = {"none": 0.0, "weak": 1.0, "strong": 4.0}
BASES = (-3.0, -1.0, 0.0)


def draw(rng, n, d, signal, base):
    """Rows and labels; `base` is the log-odds of a row whose features say nothing."""
    X, w = rng.normal(size=(n, d)) / np.sqrt(d), rng.normal(size=d)
    score = SIGNALS[signal] * np.sqrt(d) * X @ w / np.linalg.norm(w)
    return X, (rng.random(n) < expit(score + base)).astype(int)


def measure(signal, base, n, d, epsilon, runs):
    """Log-loss and accuracy of each run, less those of the shares and of the majority: by default, and by steps."""
    found = {"auto": [], "precision": []}
    for seed in range(runs):
        X, y = draw(np.random.default_rng(seed), n + TESTED, d, signal, base)
        share, true = y[:n].mean(), 2 * y[n:] - 1
        nothing = np.logaddexp(0, -true * np.log(share / (1 - share))).mean()
        for strategy, values in found.items():
            clf = UnevenClassifier(LocalPrivacy(epsilon), strategy=strategy, random_state=seed).fit(X[:n], y[:n])
            margins = true * clf.decision_function(X[n:])
            values.append((np.logaddexp(0, -margins).mean() - nothing, (margins > 0).mean() - max(share, 1 - share)))
    return [np.array(values).T for values in found.values()]


def show(values):
    """Mean and standard error, with a star where it is above 0; and whether it is."""
    mean, error = values.mean(), values.std(ddof=1) / np.sqrt(len(values))
    above = round(mean, 3) > 2 * error
    return f"{mean:+.3f} ± {error:.3f}{' *' if above else '  '}", above


def main(runs):
    """Print the table."""
    print("signal  base       n   d     ε  by default        steps alone       accuracy          steps alone")
    stars = np.zeros((len(BASES), 2), dtype=int)
    for k, base in enumerate(BASES):
        for signal in SIGNALS:
            for n in ROWS:
                for d in COLUMNS:
                    for epsilon in EPSILONS:
                        (ours, accuracy), (steps, without) = measure(signal, base, n, d, epsilon, runs)
                        (mine, above), (theirs, also) = show(ours), show(steps)
                        stars[k] += above, also
                        rest = f"{show(accuracy)[0][:15]}   {show(without)[0][:15]}"
                        print(f"{signal:6} {base:5g} {n:7,} {d:3} {epsilon:5g}  {mine}  {theirs}  {rest}", flush=True)
    each = len(SIGNALS) * len(ROWS) * len(COLUMNS) * len(EPSILONS)
    for base, (mine, theirs) in zip(BASES, stars, strict=True):
        print(f"log-odds {base:g}: above the shares {mine} of {each}; steps alone {theirs}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
