"""Public rows as the anchor of private ones, with the classifier as users call it.

``python benchmarks/anchor.py [table] [runs] [first seed]``, the table one of twelve, large, shift, moved, hospitals,
predict, alarms and times, prints

- the excess objective at alpha = 1e-3 on all rows to learn from, as scikit-learn's `LogisticRegression` has it:
  exact rows alone (to convergence), private rows alone, both (anchored). Where all rows are private the intercept is
  regularised like the other weights; that excess is over the optimum of its own objective (`large` also has it in
  the objective of the others);
- with alpha = "auto", the log loss and the accuracy on test rows beside those of scikit-learn's `LogisticRegression` on
  the exact rows alone at the alpha chosen;
- `moved`: the excess for private rows of another distribution, made by a logistic model;
- `alarms`: how often a source of the same distribution is said to disagree;
- `times`: processor time of a fit of public and private rows, over that of the private rows alone; where alpha is
  chosen, also over the private rows alone and `LogisticRegressionCV` on the public ones, one after the other.
"""

import csv
import os
import sys
import warnings
from functools import cache
from pathlib import Path
from time import process_time

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import uneven
from uneven.anchor.rows import PublicRows
from uneven.anchor.solver import solve
from uneven.cautions import SimulationWarning
from uneven.datasets import LOADERS
from uneven.training.scaling import read_scale

ALPHA = 1e-3
SCALE = read_scale("auto", True, True)
"""Of rows in the unit ball where some are private, with the intercept's feature."""


def seeds(runs):
    """Seeds of the runs: from 0, or from the second number on the command line."""
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    first = numbers[1] if len(numbers) > 1 else 0
    return range(first, first + runs)


def fit(X, y, public, epsilon, seed, **settings):
    """Classifier of rows whose first `public` are exact and whose others are private."""
    noise = {"exact": uneven.Exact(), "private": uneven.LocalPrivacy(float(epsilon))}
    source = np.where(np.arange(len(y)) < public, "exact", "private")
    return uneven.UnevenClassifier(noise, random_state=seed, **settings).fit(X, y, source=source)


def weights_of(clf):
    """Weights for rows as scaled."""
    return np.append(clf.coef_[0], clf.intercept_[0] / SCALE.constant) * SCALE.factor


def penalty_of(X, intercept=0.0):
    """Factors of alpha."""
    return np.append(np.ones(X.shape[1]), intercept)


def optimum(X, y, intercept=0.0):
    """Weights that minimise the objective of these rows."""
    problem = uneven.Problem(X.shape[1] + 1, SCALE.alpha(ALPHA), 50)
    return solve(problem, [PublicRows.from_arrays(SCALE.rows(X), y)], penalty_of(X, intercept)).weights


def objectives(weights, X, y, intercept=0.0):
    margins = y * (np.asarray(weights, dtype=np.float32) @ SCALE.rows(X).T)
    losses = np.logaddexp(0, -margins).mean(axis=1, dtype=np.float64)
    return losses + SCALE.alpha(ALPHA) / 2 * np.square(weights) @ penalty_of(X, intercept)


def excesses(weights, X, y, best):
    """Excess of exact rows alone, of private ones in their own objective, of both, and of private ones in that of both.

    One column a run.
    """
    weights, (free, penalised) = np.asarray(weights).reshape(-1, 3, len(best[0])), best
    exact, same, both = (objectives([free, *weights[:, k]], X, y) for k in range(3))
    alone = objectives([penalised, *weights[:, 1]], X, y, 1.0)
    return [one[1:] - one[0] for one in (exact, alone, both, same)]


def optima(X, y):
    return optimum(X, y), optimum(X, y, 1.0)


def test_scores(clf, X0, y0, X, y):
    """Log loss and accuracy on test rows: of logistic regression on the exact rows, and of the classifier."""
    model = LogisticRegression(C=1 / (clf.alpha_ * len(y0)), max_iter=5_000).fit(X0, y0)
    scores = []
    for one in (model, clf):
        margins = y * one.decision_function(X)
        scores += [np.logaddexp(0, -margins).mean(), (margins > 0).mean()]
    return scores


@cache
def bank():
    """Bank Marketing without the call's duration: numbers scaled to [0, 1], a column for each category."""
    path = Path(os.environ["UNEVEN_DATA"]) / "bank" / "bank-additional-full.csv"
    with path.open() as file:
        table = list(csv.DictReader(file, delimiter=";"))
    columns = []
    for name in table[0]:
        if name in ("duration", "y"):
            continue
        values = [row[name] for row in table]
        try:
            numbers = np.array(values, dtype=float)
            columns.append((numbers - numbers.min()) / np.ptp(numbers))
        except ValueError:
            columns += [np.array([value == kind for value in values], dtype=float) for kind in sorted(set(values))]
    X = np.column_stack(columns)
    y = np.where([row["y"] == "yes" for row in table], 1.0, -1.0)
    return X / np.linalg.norm(X, axis=1).max(), y


@cache
def rows_of(name):
    """Rows, labels, the optimum, test rows and their labels."""
    if name == "bank":
        X, y = bank()
        return X, y, optima(X, y), X, y
    data = LOADERS[name]()
    return data.X, data.y, optima(data.X, data.y), data.X_test, data.y_test


def show(values):
    values = np.asarray(values)
    return f"{values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


def split(name, public, private, seed):
    X, y, *_ = rows_of(name)
    order = np.random.default_rng(seed).permutation(len(y))[: public + private]
    return X[order], y[order]


def compare(X, y, public, epsilon, seed):
    """Weights of exact rows alone, private rows alone and both, at alpha = 1e-3."""
    both = fit(X, y, public, epsilon, seed, alpha=ALPHA)
    alone = fit(X[public:], y[public:], 0, epsilon, seed, alpha=ALPHA)
    return [optimum(X[:public], y[:public]), weights_of(alone), weights_of(both)], both


def cell(name, public, private, epsilon, runs):
    """Excesses of each run, exact rows alone, private alone, anchored; and test scores with alpha = "auto"."""
    X, y, best, X_test, y_test = rows_of(name)
    weights, scores = [], []
    for seed in seeds(runs):
        one, labels = split(name, public, private, seed)
        weights += compare(one, labels, public, epsilon, seed)[0]
        auto = fit(one, labels, public, epsilon, seed)
        scores.append(test_scores(auto, one[:public], labels[:public], X_test, y_test))
    return excesses(weights, X, y, best), np.array(scores)


def show_auto(scores):
    loss, right, own_loss, own_right = scores.mean(axis=0)
    return f"{loss:.4f} {100 * right:.1f}%  {own_loss:.4f} {100 * own_right:.1f}%"


def twelve(runs):
    print("alpha = 1e-3: excess objective; alpha = auto: test log loss and accuracy")
    print("data       exact  eps  exact rows alone  private alone    anchored         share   goal    exact, anchored")
    for name, rows in (("mnist", 60_000), ("covertype", 102_000)):
        for public in (100, 500, 2000):
            for epsilon in (1.0, 3.0):
                (exact, alone, ours, _), scores = cell(name, public, rows - public, epsilon, runs)
                error = (ours - exact).std(ddof=1) / np.sqrt(runs)
                met = ours.mean() <= exact.mean() + 2 * error and ours.mean() <= alone.mean()
                share = ours.mean() / min(exact.mean(), alone.mean())
                met = met and (share <= 0.4 or public > 100 or epsilon < 3)
                print(f"{name:10} {public:5}  {epsilon:3g}  {show(exact)}  {show(alone)}  {show(ours)}  {share:.2f}  "
                      f"{'met   ' if met else 'MISSED'}  {show_auto(scores)}", flush=True)  # fmt: skip


def large(runs):
    print("Covertype, all other rows of 500,000 at eps = 10\nexact  exact alone        private alone      anchored")
    for public in (30, 60, 100, 200, 500):
        (exact, alone, ours, same), scores = cell("covertype", public, 500_000 - public, 10.0, runs)
        ratio, fair = ours.mean() / alone.mean(), ours.mean() / same.mean()
        print(f"{public:5}  {show(exact)}  {show(alone)}  {show(ours)}  {ratio:.2f} of private (goal 1.1), "
              f"{fair:.2f} in one objective  "
              f"{show_auto(scores)}", flush=True)  # fmt: skip


SHIFTS = [(0, 500, 1), (0, 5000, 1), (0, 500, 3), (0, 5000, 3), (0, 5000, 10), (2, 500, 1), (2, 500, 3), (2, 5000, 3)]


def shift(runs):
    print("public area, rows, eps (private: area 2)  public alone       private alone      anchored")
    X, y, *_ = rows_of("covertype")
    area = X[:, 10:14].argmax(axis=1)
    mine = np.flatnonzero(area == 2)
    best = optima(X[mine], y[mine])
    for public, count, epsilon in SHIFTS:
        weights, used = [], 0
        for seed in seeds(runs):
            rng = np.random.default_rng(seed)
            private, rest = np.split(rng.permutation(mine), [150_000])
            one = (rest if public == 2 else rng.permutation(np.flatnonzero(area == public)))[:count]
            rows = np.concatenate([one, private])
            found, clf = compare(X[rows], y[rows], count, epsilon, seed)
            used += bool(clf.privacy_spent_)
            weights += found
        exact, alone, ours, _ = excesses(weights, X[mine], y[mine], best)
        ratio = ours.mean() / min(exact.mean(), alone.mean())
        print(f"{public} {count:5} {epsilon:3}  {show(exact)}  {show(alone)}  {show(ours)}  {ratio:.2f} of the better "
              f"(goal 1.3), used {used}/{runs}", flush=True)  # fmt: skip


def make_rows(count, weights, bias, rng):
    """Rows in the unit ball and labels of a logistic model."""
    X = rng.normal(size=(count, len(weights))) / len(weights) ** 0.5
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    return X, np.where(X @ weights + bias + rng.logistic(size=count) > 0, 1.0, -1.0)


def moved(runs):
    """30,000 private rows whose weights are turned, or whose labels are more often positive, than the public ones'."""
    print("private rows           public  eps  public alone       private alone      anchored")
    for kind, angle, bias in (("the same", 0, 0), ("turned by 45 degrees", 45, 0), ("turned by 90", 90, 0),
                              ("more positives", 0, 2)):  # fmt: skip
        for public in (200, 2_000):
            for epsilon in (0.3, 1.0, 3.0):
                excess, told = [], 0
                for seed in seeds(runs):
                    rng = np.random.default_rng(seed)
                    first, second = 6.0 * np.linalg.qr(rng.normal(size=(10, 2)))[0].T
                    turned = np.cos(np.radians(angle)) * first + np.sin(np.radians(angle)) * second
                    theirs = [make_rows(count, turned, bias, rng) for count in (30_000, 50_000)]
                    pieces = make_rows(public, first, 0.0, rng), theirs[0]
                    X, y = (np.concatenate([piece[k] for piece in pieces]) for k in (0, 1))
                    weights, clf = compare(X, y, public, epsilon, seed)
                    told += any("disagrees" in note for note in clf.notes_)
                    excess.append([one[0] for one in excesses(weights, *theirs[1], optima(*theirs[1]))[:3]])
                exact, alone, ours = np.array(excess).T
                ratio = ours.mean() / min(exact.mean(), alone.mean())
                print(f"{kind:20} {public:8} {epsilon:4}  {show(exact)}  {show(alone)}  {show(ours)}  {ratio:.2f} of "
                      f"the better, said to disagree {told}/{runs}", flush=True)  # fmt: skip


HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
NUMBERS, CATEGORIES = [0, 3, 4, 7, 9, 11], [1, 2, 5, 6, 8, 10, 12]


def patients():
    """Measurements with NaN for gaps, 1 for ill and -1 for well, and the hospital."""
    folder = Path(os.environ["UNEVEN_DATA"]) / "heart"
    tables = [np.genfromtxt(folder / f"processed.{name}.data", delimiter=",", missing_values="?") for name in HOSPITALS]
    table = np.concatenate(tables)
    return table[:, :13], np.where(table[:, 13] > 0, 1, -1), np.repeat(HOSPITALS, [len(one) for one in tables])


def preparation():
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")), CATEGORIES),
    )


def hospitals(runs):
    """Two hospitals in the open, two private at eps = 8; a quarter of all patients is held out."""
    noise = {name: uneven.LocalPrivacy(8.0) if k >= 2 else uneven.Exact() for k, name in enumerate(HOSPITALS)}
    measured, ill, hospital = patients()
    correct, words = [], []
    for seed in seeds(runs):
        test = np.random.default_rng(seed).random(len(ill)) < 0.25
        public = ~test & np.isin(hospital, HOSPITALS[:2])
        prepare = preparation().fit(measured[public])
        X = prepare.transform(measured)
        X = X.toarray() if hasattr(X, "toarray") else X
        line = []
        for alpha in (1e-2, "auto"):
            clf = uneven.UnevenClassifier(noise, alpha=alpha, batch_size=5, row_norm=6.0, random_state=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # a few rows are longer than 6 and are shrunk to it
                clf.fit(X[~test], ill[~test], source=hospital[~test])
            plain = LogisticRegression(C=1 / (clf.alpha_ * public.sum()), max_iter=5_000).fit(X[public], ill[public])
            line += [(one.predict(X[test]) == ill[test]).mean() for one in (plain, clf)]
        words += [f"{name} {verdict.word}" for name, verdict in clf.plan_.verdicts.items()]
        correct.append(line)
    plain, ours, plain_auto, ours_auto = np.array(correct).T
    print(f"four hospitals, {runs} splits: share correct, public ones alone / anchored / difference")
    print(f"alpha 1e-2  {show(plain)}  {show(ours)}  {show(ours - plain)}")
    print(f"alpha auto  {show(plain_auto)}  {show(ours_auto)}  {show(ours_auto - plain_auto)}")
    print("verdicts with alpha = auto:", {word: words.count(word) for word in sorted(set(words))}, flush=True)


def predict(runs):
    """What the plan expected beside what was measured, whether it would have used the source or not."""
    print("data       exact   eps  predicted  measured  ratio  accuracy predicted     verdict")
    for name, private in (("mnist", 50_000), ("covertype", 100_000), ("bank", 30_000)):
        X, y, best, *_ = rows_of(name)
        for public in (100, 1000, 10_000):
            for epsilon in (0.3, 1.0, 3.0, 10.0):
                predicted, weights = [], []
                for seed in seeds(runs):
                    clf = fit(*split(name, public, private, seed), public, epsilon, seed, alpha=ALPHA, use="all")
                    verdict = clf.plan_.verdicts["private"]
                    predicted.append(verdict.excess)
                    weights.append(weights_of(clf))
                values = objectives([best[0], *weights], X, y)
                measured = (values[1:] - values[0]).mean()
                ratio = np.mean(predicted) / measured
                value, low, high = verdict.accuracy
                print(f"{name:10} {public:6} {epsilon:4g}  {np.mean(predicted):.5f}    {measured:.5f}   {ratio:4.2f}"
                      f"   {value:.3f} [{low:.3f}, {high:.3f}]   {verdict.word}", flush=True)  # fmt: skip


def alarms(runs):
    """Rows of a logistic model, private ones of the same model at eps = 3."""
    print("columns, public rows: said to disagree, of runs with weak and with strong weights")
    for d in (2, 5, 20):
        for public in (15, 30, 60, 200):
            found = 0
            for seed in seeds(runs):
                for strength in (2.0, 8.0):
                    rng = np.random.default_rng([d, public, int(strength), seed])
                    X, y = make_rows(public + 8_000, strength * rng.normal(size=d), 0.0, rng)
                    clf = fit(X, y, public, 3.0, seed, use="all", row_norm=1.0, classes=[-1, 1])
                    found += any("disagrees" in note for note in clf.notes_)
            print(f"{d:3} {public:4}  {found} of {2 * runs}", flush=True)


def time_call(call):
    """Least processor time of three calls."""
    taken = []
    for _ in range(3):
        before = process_time()
        call()
        taken.append(process_time() - before)
    return min(taken)


def time_fit(*arguments, **settings):
    return time_call(lambda: fit(*arguments, row_norm=1.0, classes=[-1, 1], **settings))


def times(_runs):
    """Once each; the machine's other work counts little in processor time."""
    print("columns, private rows, public rows: processor seconds, over that of the private rows alone;")
    print("alpha stated for both; alpha chosen on the public rows; that over LogisticRegressionCV on these as well")
    for d in (10, 54, 100):
        for private in (50_000, 500_000):
            rng = np.random.default_rng(0)
            X, y = make_rows(private + 20_000, 4.0 * rng.normal(size=d), 0.0, rng)
            alone = time_fit(X[20_000:], y[20_000:], 0, 3.0, 0)
            for public in (500, 2_000, 20_000):
                rows = slice(20_000 - public, None)
                found = [time_fit(X[rows], y[rows], public, 3.0, 0, alpha=alpha) for alpha in (ALPHA, "auto")]
                words = "   ".join(f"{both:.3f} / {alone:.3f} = {both / alone:.2f}" for both in found)
                mine = slice(20_000 - public, 20_000)
                chosen = time_call(lambda X=X[mine], y=y[mine]: LogisticRegressionCV(max_iter=5_000).fit(X, y))
                together = f"{found[1]:.3f} / ({alone:.3f} + {chosen:.3f}) = {found[1] / (alone + chosen):.2f}"
                print(f"{d:4} {private:7,} {public:6,}  {words}   {together}", flush=True)


def main():
    tables = {"twelve": twelve, "large": large, "shift": shift, "hospitals": hospitals, "predict": predict}
    tables |= {"moved": moved, "alarms": alarms, "times": times}
    wanted = [name for name in sys.argv[1:] if name in tables] or list(tables)
    runs = next((int(word) for word in sys.argv[1:] if word.isdigit()), 10)
    for name in wanted:
        tables[name](20 if name == "hospitals" and runs == 10 else runs)


if __name__ == "__main__":
    warnings.simplefilter("ignore", SimulationWarning)
    warnings.simplefilter("ignore", FutureWarning)  # of settings of LogisticRegressionCV that will change
    main()
