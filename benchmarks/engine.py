"""Speed of the engine as ratios within one run: ``make bench`` prints it."""

import subprocess
import sys
import warnings

import covertype
import numpy as np
from sklearn.linear_model import SGDClassifier
from timing import in_turn, row

import uneven
from uneven.noise.privacy import draw_l2_laplace

BATCH, ALPHA = 50, 1e-3


def sources(mechanism: str = "l2-laplace") -> list[uneven.Source]:
    return [
        uneven.Source("clean", covertype.ROWS // 10, uneven.LocalPrivacy(10, mechanism)),
        uneven.Source("noisy", covertype.ROWS - covertype.ROWS // 10, uneven.LocalPrivacy(1, mechanism)),
    ]


def split(X: np.ndarray, y: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    n = covertype.ROWS // 10
    return {"clean": (X[:n], y[:n]), "noisy": (X[n:], y[n:])}


def numpy_loop(X: np.ndarray, y: np.ndarray, order: np.ndarray) -> np.ndarray:
    """A careful NumPy loop with noise for each row, over rows in this order."""
    rng, w = np.random.default_rng(0), np.zeros(X.shape[1])
    for t, start in enumerate(range(0, len(order), BATCH), start=1):
        i = order[start : start + BATCH]
        batch, labels = X[i].astype(np.float64), y[i]
        slopes = -labels / (1 + np.exp(labels * (batch @ w)))
        noise = draw_l2_laplace(len(i), X.shape[1], 1.0, rng)
        w = w - (ALPHA * w + (slopes @ batch + noise.sum(axis=0)) / len(i)) / (ALPHA * t)
        w *= min(1.0, 1 / ALPHA / np.linalg.norm(w))
    return w


def fits() -> None:
    X, y, origin = covertype.load()
    data = split(X, y)
    plan = uneven.plan(sources(), covertype.FEATURES, ALPHA, BATCH)
    plans = [uneven.plan(sources(), covertype.FEATURES, alpha, BATCH) for alpha in np.geomspace(1e-4, 1e-2, 50)]
    tenth = np.random.default_rng(0).permutation(covertype.ROWS)[: covertype.ROWS // 10]
    uneven.fit(plan, data, seed=0)  # compile
    parts = {"clean": (covertype.ROWS // 10, 10), "noisy": (covertype.ROWS - covertype.ROWS // 10, 1)}
    sites = [uneven.Source(name, n, uneven.SitePrivacy(epsilon)) for name, (n, epsilon) in parts.items()]
    once = uneven.plan(sites, covertype.FEATURES, ALPHA)
    one, private, site, sgd, loop, many = in_turn(
        lambda: uneven.fit(plan, data, seed=0),
        lambda: uneven.fit(plan, data),
        lambda: uneven.fit(once, data, seed=0),
        lambda: SGDClassifier(loss="log_loss", max_iter=1, tol=None, fit_intercept=False).fit(X, y),
        lambda: numpy_loop(X, y, tenth),
        lambda: uneven.sweep(plans, data, seed=0),
    )
    loop *= 10  # it ran over a tenth of the rows
    print(f"Engine on {origin}, {covertype.ROWS:,} x {covertype.FEATURES}, batches of {BATCH}, l2-laplace")
    row("one fit", f"{1e3 * one:.0f} ms")
    row("one fit without a seed (cryptographic generator)", f"{1e3 * private:.0f} ms")
    row("one fit with site privacy, batches as planned / one fit", f"{site / one:.2f} x", "at most 1")
    row("one fit / scikit-learn's SGDClassifier, one epoch", f"{one / sgd:.2f} x", "at most 0.35")
    row("careful NumPy loop with noise per row / one fit", f"{loop / one:.1f} x", "at least 12")
    row("sweep of 50 plans on one permutation / one fit", f"{many / one:.1f} x", "at most 15")


def default_mechanism() -> None:
    """What users run: the default mechanism, without a clip and with the classifier's."""
    X, y, _ = covertype.load()
    data, features = split(X, y), covertype.FEATURES
    plan, clipped = (uneven.plan(sources("quiet"), features, ALPHA, BATCH, clip=clip) for clip in (None, 0.5))
    uneven.fit(plan, data, seed=0)  # compile
    one, half, private, sgd = in_turn(
        lambda: uneven.fit(plan, data, seed=0),
        lambda: uneven.fit(clipped, data, seed=0),
        lambda: uneven.fit(plan, data),
        lambda: SGDClassifier(loss="log_loss", max_iter=1, tol=None, fit_intercept=False).fit(X, y),
    )
    print("The same with quiet, the default mechanism")
    row("one fit / scikit-learn's SGDClassifier, one epoch", f"{one / sgd:.2f} x", "at most 0.8")
    row("one fit, clipped to 1/2 / the same", f"{half / sgd:.2f} x", "at most 0.8")
    row("one fit without a seed / the same", f"{private / sgd:.2f} x", "at most 0.8")


def classifier() -> None:
    """The classifier with every default, all rows private: its checks, scaling, plan and charge included."""
    X, y, _ = covertype.load()
    source = np.where(np.arange(len(y)) < covertype.ROWS // 10, "clean", "noisy")
    noise = {"clean": uneven.LocalPrivacy(10), "noisy": uneven.LocalPrivacy(1)}
    warnings.simplefilter("ignore", uneven.SimulationWarning)  # the seeded fits protect nobody, as they should not
    uneven.UnevenClassifier(noise, random_state=0).fit(X, y, source=source)  # compile
    seeded, private, sgd = in_turn(
        lambda: uneven.UnevenClassifier(noise, random_state=0).fit(X, y, source=source),
        lambda: uneven.UnevenClassifier(noise).fit(X, y, source=source),
        lambda: SGDClassifier(loss="log_loss", max_iter=1, tol=None).fit(X, y),
    )
    print("UnevenClassifier, every default, a tenth of the rows at eps = 10 and the others at 1")
    row("fit / scikit-learn's SGDClassifier, one epoch", f"{seeded / sgd:.2f} x", "at most 1.2")
    row("fit without a seed / the same", f"{private / sgd:.2f} x", "at most 1.2")


FIRST_FIT = """
import time
start = time.perf_counter()
import numpy as np, uneven
imported = time.perf_counter()
X = np.full((1000, 54), 0.01, dtype=np.float32)
plan = uneven.plan([uneven.Source("a", 1000, uneven.LocalPrivacy(1, "l2-laplace"))], 54)
uneven.fit(plan, {"a": (X, np.ones(1000))})
print(imported - start, time.perf_counter() - imported)
"""


def first_fit() -> None:
    times = [
        [float(t) for t in subprocess.check_output([sys.executable, "-c", FIRST_FIT], text=True).split()]
        for _ in range(4)
    ][1:]
    imported, fitted = (min(column) for column in zip(*times, strict=True))
    print("Fresh process, warm disk cache")
    row("import uneven", f"{imported:.2f} s")
    row("first plan and fit after import", f"{fitted:.2f} s", "at most 1.5")


if __name__ == "__main__":
    fits()
    default_mechanism()
    classifier()
    first_fit()
