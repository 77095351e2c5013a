"""Exact rows as the anchor of private ones: ``python benchmarks/anchor.py [twelve|large|shift|predict] [runs]``.

Excess objective at alpha = 1e-3, on all rows to learn from. The mechanism is `quiet` on both sides, compiled here.
"""

import csv
import math
import os
import sys
from functools import cache, partial
from pathlib import Path

import numpy as np
from numba import njit

import uneven
from uneven.anchor.clock import Coordinates, expected_excess
from uneven.anchor.rows import PublicRows
from uneven.anchor.shape import choose_coordinates, plain_coordinates
from uneven.anchor.shift import SHARE, react
from uneven.anchor.solver import solve
from uneven.anchor.uncertainty import fit_anchor
from uneven.anchor.verdicts import judge_sources
from uneven.datasets import LOADERS
from uneven.engine import objective
from uneven.noise.privunit import mean_in, share_of
from uneven.theory import theorem_c_offset

ALPHA, BATCH, CLIP = 1e-3, 50, 0.5


@cache
def quiet(d, epsilon, activity=0.5):
    """Least energy at the planned activity: cap height, mean, p, q, p₁ and p₀ of the theory's Section 7."""
    best, e = (math.inf, ()), math.exp(epsilon)
    for height in np.linspace(0.0, 0.98, 400):
        q = share_of(d, 1.0 - height)
        if q < 1e-12:
            continue
        low = 1.0 / (1.0 - q + e * q)
        p, m = e * q * low, mean_in(d, 1.0 - height) * (e - 1.0) * low
        for p1 in np.linspace((e - 1.0) / (e - low), 1.0, 21):
            p0 = max(low * p1, 1.0 - e * (1.0 - p1))
            energy = (activity * p1 + (1.0 - activity) * p0) / (p1 * m) ** 2
            if energy < best[0]:
                best = energy, (height, m, p, q, p1, p0)
    return np.array(best[1])


def energy(d, epsilon, activity):
    _, m, _, _, p1, p0 = quiet(d, epsilon)
    return CLIP**2 * (activity * p1 + (1.0 - activity) * p0) / (p1 * m) ** 2


def clock_of(rows, d, epsilon, activity):
    return rows * d / energy(d, epsilon, activity)


@njit(cache=True)
def direction_near(v, x, sign, height, q, inside, rng):
    """Fill v with a direction from the cap around sign·x (|x| = 1), or from the rest of the sphere."""
    d = len(v)
    while True:
        along, square = 0.0, 0.0
        for j in range(d):
            v[j] = rng.standard_normal()
            along += v[j] * x[j] * sign
            square += v[j] * v[j]
        if inside and q < 0.25:
            break
        if (along / math.sqrt(square) >= height) == inside:
            v /= math.sqrt(square)
            return
    slope, width = (d - 3) * height / (1.0 - height**2), 1.0 - height
    while True:
        step = -math.log1p(rng.random() * math.expm1(-slope * width)) / slope
        t = height + step
        ratio = 0.5 * (d - 3) * math.log(max(1.0 - t * t, 1e-300) / (1.0 - height**2)) + slope * step
        if math.log(1.0 - rng.random()) <= ratio:
            break
    across = math.sqrt((1.0 - t * t) / (square - along * along))
    for j in range(d):
        v[j] = t * sign * x[j] + across * (v[j] - along * sign * x[j])


@njit(cache=True)
def released_sum(G, Z, y, u, clip, mechanism, rng):
    """Sum of the releases of the rows' clipped gradients at u."""
    height, m, p, q, p1, p0 = mechanism
    G[:] = 0.0
    v = np.empty(len(u))
    for i in range(len(y)):
        length = math.sqrt((Z[i] * Z[i]).sum())
        slope = 1.0 / (1.0 + math.exp(min(y[i] * (Z[i] @ u), 500.0)))
        if rng.random() < min(slope * length / clip, 1.0):
            if rng.random() >= p1:
                continue
            direction_near(v, Z[i] / length, -y[i], height, q, rng.random() < p, rng)
        else:
            if rng.random() >= p0:
                continue
            for j in range(len(v)):
                v[j] = rng.standard_normal()
            v /= math.sqrt((v * v).sum())
        G += clip / (p1 * m) * v


@njit(cache=True)
def mean_release(Z, y, u, clip, mechanism, rng):
    G = np.empty(len(u))
    released_sum(G, Z, y, u, clip, mechanism, rng)
    return G / len(y)


@njit(cache=True)
def run(Z, y, u, a, h, penalty, precision, longest, radius, clip, mechanism, rng):
    """Steps p/(a + hτ) in mini-batches, projected to the radius: the last iterate, and the mean of the late ones."""
    u, G, mean, clock, weight = u.copy(), np.empty(len(u)), np.zeros(len(u)), 0.0, 0.0
    for start in range(0, len(y), BATCH):
        rows, labels = Z[start : start + BATCH], y[start : start + BATCH]
        p = precision * len(labels)
        clock += p
        released_sum(G, rows, labels, u, clip, mechanism, rng)
        u -= np.minimum(p / (a + h * clock), longest) * (G / len(labels) + penalty @ u)
        u *= min(1.0, radius / max(math.sqrt((u * u).sum()), 1e-300))
        if clock > precision * len(y) / 2.0:
            weight += p
            mean += p / weight * (u - mean)
    return u, mean


def draws(seed):
    return np.random.default_rng([2, seed])


def private_only(X, y, epsilon, seed):
    """The default for private rows alone: Theorem C's clock, the tight radius, the late average."""
    d = X.shape[1]
    problem = uneven.Problem(n_features=d, alpha=ALPHA, batch_size=BATCH, clip=CLIP)
    precision = 1.0 / energy(d, epsilon, 0.5)
    offset = theorem_c_offset(precision * BATCH, ALPHA, problem.smoothness, problem.ball)
    a, h, rows = np.full(d, ALPHA * offset), np.full(d, ALPHA), np.ascontiguousarray(X, dtype=np.float64)
    mechanism, penalty = quiet(d, epsilon), ALPHA * np.eye(d)
    return run(rows, y, np.zeros(d), a, h, penalty, precision, 1e9, problem.ball, CLIP, mechanism, draws(seed))[1]


def anchored(anchor, X, y, epsilon, seed):
    """The first tenth measures, the rest moves: weights, and what the measurement found."""
    d, n, mechanism = X.shape[1], len(y), quiet(X.shape[1], epsilon)
    first = int(SHARE * n)
    plain = plain_coordinates(anchor)
    Z = np.ascontiguousarray(X[:first] @ plain.transform.T)
    g = mean_release(Z, y[:first], plain.start, CLIP, mechanism, draws(seed)) + plain.gradient_of_penalty(plain.start)
    c, found = react(plain, g, clock_of(first, d, epsilon, plain.activity), anchor.knows_curvature)
    if not found.found:
        T = c.transform
        moved = anchor.moved(c.weights(c.start), T.T @ c.covariance @ T)
        c = choose_coordinates(moved, partial(clock_of, n - first, d, epsilon))
    return finish(c, X[first:], y[first:], epsilon, seed), found


def finish(c: Coordinates, X, y, epsilon, seed):
    d = X.shape[1]
    Z, precision = np.ascontiguousarray(X @ c.transform.T), clock_of(1, d, epsilon, c.activity)
    penalty, a = c.alpha * c.transform @ c.transform.T, 1.0 / (c.variance * c.curvature)
    mechanism = quiet(d, epsilon)
    u, _ = run(
        Z, y, c.start, a, c.curvature, penalty, precision, c.longest_step, 1e9, c.clip, mechanism, draws(seed + 1000)
    )
    return c.weights(u)


def optimum(X, y, alpha=ALPHA):
    problem = uneven.Problem(n_features=X.shape[1], alpha=alpha, batch_size=BATCH)
    return solve(problem, [PublicRows.from_arrays(X, y)]).weights


def excesses(weights, X, y, best):
    problem = uneven.Problem(n_features=X.shape[1], alpha=ALPHA, batch_size=BATCH)
    values = objective(problem, np.vstack([best, *weights]), X, y)
    return values[1:] - values[0]


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
    if name == "bank":
        X, y = bank()
    else:
        data = LOADERS[name]()
        X, y = data.X, data.y
    return X, y, optimum(X, y)


def show(values):
    values = np.asarray(values)
    return f"{values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


def split(name, public, private, seed):
    X, y, _ = rows_of(name)
    order = np.random.default_rng(seed).permutation(len(y))
    one, two = order[:public], order[public : public + private]
    return X[one].astype(float), y[one], X[two].astype(float), y[two]


def cell(name, public, private, epsilon, runs):
    """Excesses of each run: exact rows alone, private rows alone, anchored."""
    X, y, best = rows_of(name)
    weights = []
    for seed in range(runs):
        X0, y0, X1, y1 = split(name, public, private, seed)
        weights += [optimum(X0, y0), private_only(X1, y1, epsilon, seed)]
        weights.append(anchored(fit_anchor(X0, y0, ALPHA), X1, y1, epsilon, seed)[0])
    return excesses(weights, X, y, best).reshape(runs, 3).T


def twelve(runs):
    print("data       exact  eps  exact rows alone   private alone     anchored          targets")
    for name, private in (("mnist", 59_500), ("covertype", 100_000)):
        for public in (100, 500, 2000):
            for epsilon in (1.0, 3.0):
                exact, alone, ours = cell(
                    name, public, min(private, 60_000 - public) if name == "mnist" else private, epsilon, runs
                )
                error = (ours - exact).std(ddof=1) / np.sqrt(runs)
                met = ours.mean() <= exact.mean() + 2 * error and ours.mean() <= alone.mean()
                share = ours.mean() / min(exact.mean(), alone.mean())
                met = met and (share <= 0.4 or public > 100 or epsilon < 3)
                print(f"{name:10} {public:5}  {epsilon:3g}  {show(exact)}  {show(alone)}  {show(ours)}  "
                      f"{'met' if met else 'MISSED'} ({share:.2f} of the better)", flush=True)  # fmt: skip


def large(runs):
    print("Covertype, all other rows of 500,000 at eps = 10\nexact  exact alone        private alone      anchored")
    for public in (30, 60, 100, 200, 500):
        exact, alone, ours = cell("covertype", public, 500_000 - public, 10.0, runs)
        ratio = ours.mean() / alone.mean()
        print(f"{public:5}  {show(exact)}  {show(alone)}  {show(ours)}  {ratio:.2f} of private", flush=True)


SHIFTS = [(0, 500, 1), (0, 5000, 1), (0, 500, 3), (0, 5000, 3), (0, 5000, 10), (2, 500, 1), (2, 500, 3), (2, 5000, 3)]


def shift(runs):
    print("public area, rows, eps (private: area 2)  public alone       private alone      anchored")
    X, y, _ = rows_of("covertype")
    area = X[:, 10:14].argmax(axis=1)
    mine = np.flatnonzero(area == 2)
    best = optimum(X[mine], y[mine])
    for public, count, epsilon in SHIFTS:
        weights, found = [], 0
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            private, rest = np.split(rng.permutation(mine), [150_000])
            one = (rest if public == 2 else rng.permutation(np.flatnonzero(area == public)))[:count]
            X0, y0, X1, y1 = X[one].astype(float), y[one], X[private].astype(float), y[private]
            ours, disagreement = anchored(fit_anchor(X0, y0, ALPHA), X1, y1, float(epsilon), seed)
            found += disagreement.found
            weights += [optimum(X0, y0), private_only(X1, y1, float(epsilon), seed), ours]
        exact, alone, ours = excesses(weights, X[mine], y[mine], best).reshape(runs, 3).T
        ratio = ours.mean() / min(exact.mean(), alone.mean())
        print(f"{public} {count:5} {epsilon:3}  {show(exact)}  {show(alone)}  {show(ours)}  {ratio:.2f} of the better, "
              f"disagreement found {found}/{runs}", flush=True)  # fmt: skip


def predict(runs):
    print("data       exact   eps  predicted  measured  ratio  accuracy predicted     verdict")
    for name, private in (("mnist", 50_000), ("covertype", 100_000), ("bank", 30_000)):
        X, y, best = rows_of(name)
        for public in (100, 1000, 10_000):
            for epsilon in (0.3, 1.0, 3.0, 10.0):
                predicted, weights = [], []
                for seed in range(runs):
                    X0, y0, X1, y1 = split(name, public, private, seed)
                    anchor = fit_anchor(X0, y0, ALPHA)
                    information = partial(clock_of, len(y1), X.shape[1], epsilon)
                    verdict = judge_sources(anchor, {"others": information})["others"]
                    c = choose_coordinates(anchor, information)
                    predicted.append(expected_excess(c, information(c.activity)))
                    weights.append(finish(c, X1, y1, epsilon, seed))
                measured = excesses(weights, X, y, best).mean()
                ratio = np.mean(predicted) / measured
                acc = verdict.accuracy
                print(f"{name:10} {public:6} {epsilon:4g}  {np.mean(predicted):.5f}    {measured:.5f}   {ratio:4.2f}"
                      f"   {acc.value:.3f} [{acc.low:.3f}, {acc.high:.3f}]   {verdict.word}", flush=True)  # fmt: skip


def main():
    tables = {"twelve": twelve, "large": large, "shift": shift, "predict": predict}
    wanted = [name for name in sys.argv[1:] if name in tables] or list(tables)
    runs = next((int(word) for word in sys.argv[1:] if word.isdigit()), 10)
    for name in wanted:
        tables[name](runs)


if __name__ == "__main__":
    main()
