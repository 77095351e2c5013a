"""Exchange rates, predicted and measured, on Covertype's sample: ``python benchmarks/exchange.py docs/exchange.png``.

Source A is run with several numbers of rows, drawn with replacement; source B with many. The measured rate is the rows
of B over the rows of A that leave the same excess objective. ``python benchmarks/exchange.py anchored`` has the rates
of an anchored fit: private rows beside a few exact ones, over the exact rows that would lower the excess as much.
"""

import sys
from functools import cache

import numpy as np
from scipy.optimize import minimize

import uneven
from uneven import AdditiveNoise, Exact, FlippedLabels, LocalPrivacy
from uneven.datasets import load_covertype_sample

BATCH, MOST = 50, 51_200
PAIRS = [
    (LocalPrivacy(10), LocalPrivacy(5)),
    (LocalPrivacy(10), LocalPrivacy(3)),
    (LocalPrivacy(4), LocalPrivacy(2)),
    (LocalPrivacy(10), AdditiveNoise(100)),
    (AdditiveNoise(10), AdditiveNoise(100)),
    (FlippedLabels(0.1), FlippedLabels(0.3)),
    (Exact(), FlippedLabels(0.3)),
    (Exact(), LocalPrivacy(10)),
    (FlippedLabels(0.3), LocalPrivacy(10)),
]


@cache
def sample():
    data = load_covertype_sample()
    return data.X, data.y


@cache
def optimum(alpha):
    """f*, by a converged solver."""
    X, y = sample()
    rows = X.astype(float)

    def objective(w):
        margins = y * (rows @ w)
        slope = -y / (1.0 + np.exp(margins))
        return np.logaddexp(0, -margins).mean() + alpha / 2 * w @ w, rows.T @ slope / len(y) + alpha * w

    return minimize(objective, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", options={"ftol": 1e-15}).fun


@cache
def excess(noise, rows, alpha, repeats):
    """Mean of f(w) - f* over runs with so many rows of that noise, each with its own rows and noise."""
    X, y = sample()
    plan = uneven.plan([uneven.Source("rows", rows, noise)], X.shape[1], alpha, BATCH)
    weights = []
    for i in range(repeats):
        rng = np.random.default_rng(i)
        chosen = rng.integers(len(y), size=rows)
        labels = noise.corrupt(y[chosen], rng)
        weights.append(uneven.sweep([plan], {"rows": (X[chosen], labels)}, seed=i).weights[0, 0])
    return float(uneven.objective(plan.problem, np.array(weights), X, y).mean() - optimum(alpha))


def predicted(one, other, alpha):
    described = [uneven.Source("one", 1000, one), uneven.Source("other", 1000, other)]
    exchange = uneven.value(described, sample()[0].shape[1], alpha, BATCH).exchange
    return exchange["one"] / exchange["other"]


def measured(one, other, alpha, repeats=40, rows=MOST):
    """Rows of the noisier source over the rows of the cleaner that leave the same error."""
    target = np.log(excess(other, rows, alpha, repeats))
    guess = rows / predicted(one, other, alpha)
    sizes = sorted({max(100, int(guess * 2.0**k)) for k in np.arange(-5, 1.5)})
    errors = np.log([excess(one, size, alpha, repeats) for size in sizes])
    larger = np.flatnonzero(errors > target)  # from the last of these on the error is smaller
    if len(larger) == 0 or larger[-1] + 1 == len(sizes):
        return np.nan  # no number of rows tried leaves the same error
    last = int(larger[-1])
    share = (errors[last] - target) / (errors[last] - errors[last + 1])
    return rows / (sizes[last] * (sizes[last + 1] / sizes[last]) ** share)


def equal_rows(target, sizes, values):
    """Size at which decreasing values reach the target, between the sizes on a log scale."""
    return float(np.exp(np.interp(-np.log(target), -np.log(values), np.log(sizes))))


def anchored(public, private, epsilon, repeats=10, alpha=1e-3):
    """Private rows over the exact rows that lower the excess as much, beside `public` exact ones: predicted, measured.

    Predicted: by `uneven.value` with the public rows, and without them.
    """
    X, y = sample()
    d, sizes = X.shape[1], (public * 2.0 ** np.arange(0.25, 6.0, 0.5)).astype(int)
    noise = {"exact": Exact(), "private": LocalPrivacy(epsilon)}
    sources = [uneven.Source("exact", public, noise["exact"]), uneven.Source("private", 1, noise["private"])]
    scalar = uneven.value(sources, d, alpha, BATCH).exchange
    expected, found, problem = [], [], uneven.Problem(d, alpha, BATCH)
    for seed in range(repeats):
        order = np.random.default_rng(seed).permutation(len(y))
        first = order[:public]

        def value(more, first=first):
            with_rows = uneven.value(sources, d, alpha, BATCH, public=(X[first], y[first]), more=int(more))
            return {worth.name: worth.next_bound for worth in with_rows.worths}

        expected.append([value(private)["private"], *(value(size)["exact"] for size in sizes)])
        clf = uneven.UnevenClassifier(
            noise, alpha=alpha, row_norm=1.0, fit_intercept=False, use="all", random_state=seed
        )
        names = np.where(np.arange(public + private) < public, "exact", "private")
        rows = order[: public + private]
        weights = [clf.fit(X[rows], y[rows], source=names).coef_[0]]
        for size in sizes:
            plain = uneven.UnevenClassifier(alpha=alpha, fit_intercept=False)
            weights.append(plain.fit(X[order[: public + size]], y[order[: public + size]]).coef_[0])
        found.append(uneven.objective(problem, np.array(weights), X, y) - optimum(alpha))
    rates = [
        private / equal_rows(one[0], sizes, one[1:]) for one in (np.mean(expected, axis=0), np.mean(found, axis=0))
    ]
    return scalar["exact"] / scalar["private"], *rates


def main_anchored():
    print("exact  private  eps  without public rows  predicted  measured  predicted/measured")
    for public, private, epsilon in (
        (100, 20_000, 3),
        (100, 40_000, 3),
        (500, 40_000, 3),
        (100, 20_000, 10),
        (500, 20_000, 10),
    ):
        scalar, predicted, measured = anchored(public, private, epsilon)
        rates = f"{scalar:19.1f}  {predicted:9.1f}  {measured:8.1f}  {predicted / measured:.2f}"
        print(f"{public:5}  {private:7}  {epsilon:3}  {rates}", flush=True)


def name(noise):
    return noise.describe().replace(" (quiet)", "").replace("private, ", "").replace("gradient noise, ", "")


def draw(found, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 5.4), layout="constrained")
    axes = figure.subplots()
    line = np.array([0.4, 120])
    axes.fill_between(line, line / 1.7, line * 1.7, color="#56B4E9", alpha=0.25, lw=0, label="within a factor of 1.7")
    axes.plot(line, line, color="#555555", lw=1)
    for alpha, marker, colour in ((0.1, "o", "#0072B2"), (0.01, "D", "#E69F00")):
        points = [(p, m) for a, _, p, m in found if a == alpha]
        axes.plot(*zip(*points, strict=True), marker, color=colour, ms=7, ls="none", label=f"alpha = {alpha:g}")
    for alpha, pair, p, m in found:
        if alpha == 0.1 and m > 1.7 * p:
            axes.annotate(pair, (p, m), (9, -4), textcoords="offset points", fontsize=9)
    label = "predicted: rows of the second for one of the first, log scale"
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel="measured, log scale")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_ticks([1, 2, 5, 10, 20, 50, 100])
        axis.minorticks_off()
    axes.set_title("Exchange rates on Covertype", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=130)


def main():
    if sys.argv[1:] == ["anchored"]:
        return main_anchored()
    found = []
    print(f"{'alpha':>6}  {'pair':44}  predicted  measured  ratio")
    for alpha in (0.1, 0.01):
        for one, other in PAIRS:
            pair = f"{name(one)}, {name(other)}"
            p, m = predicted(one, other, alpha), measured(one, other, alpha)
            found.append((alpha, pair, p, m))
            print(f"{alpha:6g}  {pair:44}  {p:9.2f}  {m:8.2f}  {m / p:5.2f}", flush=True)
    if len(sys.argv) > 1:
        draw(found, sys.argv[1])


if __name__ == "__main__":
    main()
