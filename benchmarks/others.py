"""Other tools beside uneven: Opacus, diffprivlib, cleanlab and plain logistic regression, on the same rows.

Run: python benchmarks/others.py DATA > docs/results/others.md, with a folder that has mnist, bank and crowd. Tools that
are not installed are left out: pip install opacus diffprivlib cleanlab.

All figures are accuracies on test rows, as mean and standard error over runs. Where a tool needs a strength or a
learning rate that its documentation leaves to the user, there is a line for its default and one for the best of three
as judged on the test rows, which favours that tool: such a choice would cost ε.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import uneven
from crowd import long_form, sentiment
from uneven.datasets import load_covertype_sample, load_mnist

RUNS = 3
DELTA = 1e-5
Method = Callable[[int], float]
"""Takes a seed, gives an accuracy."""
Lines = Iterator[tuple[str, str, list[Method]]]
"""Who sees the rows (or what is known), the name of a tool, and the settings of which the best counts."""
CURATOR, SITE, READER, NOBODY = "one curator", "their site", "the machine that reads them", "nobody"


def plain(X: Any, y: Any, X_test: Any, y_test: Any, seed: int = 0, strength: float = 1.0) -> float:
    return LogisticRegression(C=strength, max_iter=1_000, random_state=seed).fit(X, y).score(X_test, y_test)


def ours(noise: Any, rows: Any, seed: int, source: Any = None, alpha: Any = "auto") -> float:
    X, y, X_test, y_test = rows
    clf = uneven.UnevenClassifier(noise, row_norm=1.0, random_state=seed, alpha=alpha)
    return clf.fit(X, y, source=source).score(X_test, y_test)


def perturb_objective(epsilon: float, strength: float, rows: Any, seed: int) -> float:
    """diffprivlib's logistic regression: pure ε, rows of norm at most 1."""
    from diffprivlib.models import LogisticRegression as PrivateRegression

    X, y, X_test, y_test = rows
    clf = PrivateRegression(epsilon=epsilon, data_norm=1.0, C=strength, max_iter=1_000, random_state=seed)
    return clf.fit(X, y).score(X_test, y_test)


def dp_sgd(epsilon: float, rate: float, rows: Any, seed: int, epochs: int = 10, batch: int = 1_200) -> float:
    """Opacus on a linear layer: (ε, δ), gradients clipped at 1."""
    import torch
    from opacus import PrivacyEngine

    torch.manual_seed(seed)
    X, y, X_test, y_test = rows
    parts = torch.tensor(np.asarray(X), dtype=torch.float32), torch.tensor(y > y.min(), dtype=torch.float32)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*parts), batch_size=batch, shuffle=True)
    layer = torch.nn.Linear(X.shape[1], 1)
    model, optimiser, loader = PrivacyEngine().make_private_with_epsilon(
        module=layer,
        optimizer=torch.optim.SGD(layer.parameters(), lr=rate),
        data_loader=loader,
        target_epsilon=epsilon,
        target_delta=DELTA,
        epochs=epochs,
        max_grad_norm=1.0,
    )
    loss = torch.nn.BCEWithLogitsLoss()
    for _ in range(epochs):
        for rows_now, labels in loader:
            optimiser.zero_grad()
            loss(model(rows_now).squeeze(1), labels).backward()
            optimiser.step()
    with torch.no_grad():
        told = model(torch.tensor(np.asarray(X_test), dtype=torch.float32)).squeeze(1).numpy() > 0
    return float(np.mean(told == (y_test > y_test.min())))


def central(epsilon: float, rows: Any) -> Lines:
    """Tools for a curator who may see every row."""
    yield CURATOR, f"diffprivlib, ε = {epsilon:g}, default C", [partial(perturb_objective, epsilon, 1.0, rows)]
    tries = [partial(perturb_objective, epsilon, strength, rows) for strength in (0.01, 0.1, 10.0)]
    yield CURATOR, f"diffprivlib, ε = {epsilon:g}, best of three C", tries
    tries = [partial(dp_sgd, epsilon, rate, rows) for rate in (0.5, 2.0, 8.0)]
    yield CURATOR, f"Opacus, ε = {epsilon:g}, δ = {DELTA:g}, best of three rates", tries


def private(rows: Any, epsilon: float) -> Lines:
    """Every row is private."""
    for who, noise in ((READER, uneven.LocalPrivacy(epsilon)), (SITE, uneven.SitePrivacy(epsilon))):
        name = f"uneven, `{type(noise).__name__}({epsilon:g})`"
        yield who, name, [partial(ours, noise, rows)]
        tries = [partial(ours, noise, rows, alpha=alpha) for alpha in (1e-5, 1e-4, 1e-2)]
        yield who, f"{name}, best of three alpha", tries
    yield from central(epsilon, rows)
    yield "everyone", "logistic regression, no privacy", [partial(plain, *rows)]


def bank(folder: Path) -> tuple[Any, Any]:
    """Rows as in the quickstart: 1,029 public, 36,040 private; columns described by the public ones."""
    import pandas as pd

    table = pd.read_csv(folder / "bank-additional-full.csv", sep=";")
    line = np.arange(len(table)) + 2
    public, test = line % 40 == 0, line % 10 == 5
    kinds = {
        name: {"kind": "number" if pd.api.types.is_numeric_dtype(table[name]) else "category"}
        for name in table.columns[:-1]
    }
    y = (table.pop("y") == "yes").to_numpy().astype(int)
    X = uneven.PublicColumns(kinds).fit(table, public=public & ~test).transform(table)
    rows = X[~test], y[~test], X[test], y[test]
    return rows, np.where(public[~test], "public", "private")


def mixed(rows: Any, source: Any, epsilon: float) -> Lines:
    """A few rows are public."""
    X, y, *test = rows
    few = source == "public"
    alone = f"logistic regression on {few.sum():,} public rows"
    yield NOBODY, f"{alone}, default C", [partial(plain, X[few], y[few], *test)]
    tries = [partial(plain, X[few], y[few], *test, strength=strength) for strength in (10.0, 100.0, 1_000.0)]
    yield NOBODY, f"{alone}, best of three C", tries
    for who, noise in ((READER, uneven.LocalPrivacy(epsilon)), (SITE, uneven.SitePrivacy(epsilon))):
        noises = {"public": uneven.Exact(), "private": noise}
        yield (
            who,
            f"uneven, public rows and `{type(noise).__name__}({epsilon:g})`",
            [partial(ours, noises, rows, source=source)],
        )
    yield from central(epsilon, rows)


def flipped(rows: Any, rates: dict[str, float]) -> Lines:
    """Two halves of the rows have labels that are wrong at different rates."""
    from cleanlab.classification import CleanLearning

    X, y, X_test, y_test = rows
    source = np.where(np.arange(len(y)) % 2 == 0, *rates)
    noise = {name: uneven.FlippedLabels(rate) for name, rate in rates.items()}

    def wrong(seed: int) -> Any:
        chance = np.where(source == next(iter(rates)), *rates.values())
        return np.where(np.random.default_rng(seed).random(len(y)) < chance, 1 - y, y)

    def clean(seed: int) -> float:
        found = CleanLearning(LogisticRegression(max_iter=1_000), seed=seed).fit(X, wrong(seed))
        return found.score(X_test, y_test)

    def corrected(seed: int, noise: Any = noise) -> float:
        return ours(noise, (X, wrong(seed), X_test, y_test), seed, source)

    yield "both rates", "uneven, `FlippedLabels(rate)` for each half", [corrected]
    estimated = noise | {"crowd": uneven.FlippedLabels("estimate")}
    yield "the experts' rate", "uneven, the other rate estimated", [partial(corrected, noise=estimated)]
    yield "nothing", "logistic regression", [lambda seed: plain(X, wrong(seed), X_test, y_test)]
    yield "nothing", "cleanlab, `CleanLearning`", [clean]


def crowd(folder: Path) -> Lines:
    """Answers of 203 workers to 4,999 sentences, without gold labels; a split for each run."""
    from cleanlab.multiannotator import get_label_quality_multiannotator, get_majority_vote_label

    splits = [split for split, _ in zip(sentiment(folder), range(RUNS), strict=False)]

    def votes(seed: int) -> float:
        X, answers, _, *test = splits[seed]
        return plain(X, get_majority_vote_label(np.where(answers < 0, np.nan, answers)), *test)

    def consensus(seed: int) -> float:
        X, answers, _, *test = splits[seed]
        said = np.where(answers < 0, np.nan, answers)
        said = said[:, np.isfinite(said).any(axis=0)]  # it refuses workers without an answer
        first = get_majority_vote_label(said)
        told = cross_val_predict(LogisticRegression(max_iter=1_000), X, first, method="predict_proba")
        found = get_label_quality_multiannotator(said, told, verbose=False)
        return plain(X, found["label_quality"]["consensus_label"].to_numpy(), *test)

    def crowd_fit(seed: int) -> float:
        X, answers, _, *test = splits[seed]
        return uneven.from_answers(long_form(answers), X).fit(X).score(*test)

    def gold(seed: int) -> float:
        X, _, labels, *test = splits[seed]
        return plain(X, labels, *test)

    yield "answers", "uneven, `from_answers`", [crowd_fit]
    yield "answers", "majority votes, ties broken by cleanlab, logistic regression", [votes]
    yield "answers", "cleanlab's consensus labels (CROWDLAB), logistic regression", [consensus]
    yield "gold labels", "logistic regression", [gold]


def show(title: str, known: str, lines: Lines) -> None:
    """A table, best setting of each tool; a tool that is not installed says so."""
    print(f"\n**{title}**\n\n| {known} | tool | accuracy |\n|---|---|---|", flush=True)
    for who, name, methods in lines:
        try:
            found = [[method(seed) for seed in range(RUNS)] for method in methods]
        except ImportError as error:
            print(f"| {who} | {name} | not installed: {error.name} |", flush=True)
            continue
        best = max(found, key=np.mean)
        error = np.std(best, ddof=1) / RUNS**0.5
        print(f"| {who} | {name} | {np.mean(best):.3f}\u00a0±\u00a0{error:.3f} |", flush=True)  # on one line of a page


def installed(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"no {name}"


def mnist(data: Path, epsilon: float) -> None:
    rows = load_mnist(data)
    title = f"MNIST, 1 or not, 25 columns, 60,000 private rows, ε = {epsilon:g}. Majority class"
    lines = private((rows.X, rows.y, rows.X_test, rows.y_test), epsilon)
    show(f"{title} {np.mean(rows.y_test < 0):.3f}", "who sees private rows", lines)


def clients(data: Path) -> None:
    rows, source = bank(data / "bank")
    title = f"Bank, 1,029 public rows and 36,040 private ones at ε = 3. Majority class {np.mean(rows[3] == 0):.3f}"
    show(title, "who sees private rows", mixed(rows, source, 3.0))


def flips(data: Path) -> None:  # noqa: ARG001 (its rows come with the package)
    sample = load_covertype_sample()
    rows = sample.X, (sample.y > 0).astype(int), sample.X_test, (sample.y_test > 0).astype(int)
    title = "Covertype's sample, 50,000 rows: 5% of the labels of one half are wrong, and 45% of the other's"
    show(title, "what is known", flipped(rows, {"experts": 0.05, "crowd": 0.45}))


def workers(data: Path) -> None:
    title = "Sentiment, 3,999 sentences with answers of 203 workers"
    show(title, "what is known", crowd(data / "crowd" / "sentiment_amt"))


TABLES: dict[str, Callable[[Path], None]] = {
    "mnist-1": partial(mnist, epsilon=1.0),
    "mnist-3": partial(mnist, epsilon=3.0),
    "bank": clients,
    "flips": flips,
    "crowd": workers,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("tables", nargs="*", help=f"of {', '.join(TABLES)}; all if none is named")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    tools = ("opacus", "diffprivlib", "cleanlab", "scikit-learn")
    print(f"Written by `python benchmarks/others.py DATA`, with {', '.join(map(installed, tools))}; {RUNS} runs each.")
    for name in given.tables or TABLES:
        TABLES[name](given.data)
