"""Real crowds without gold labels: sentences about films (two classes) and photographs (eight), six splits each.

Run: python benchmarks/crowd.py DATA, a folder that has crowd/sentiment_amt and crowd/labelme.

Every method learns from the same tasks and is measured on the same held-out tasks by their gold labels, which no
method but "gold labels" has seen. Prints the mean accuracy, its standard error over the splits, and how far it is ahead
of majority votes with logistic regression, with the standard error of that difference.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import uneven
from uneven.crowd import dawid_skene, features
from uneven.crowd.answers import read_answers

SPLITS = 6
Split = tuple[Any, Any, Any, Any, Any]
"""Features, answers and gold labels of the tasks learned from; features and gold labels of those held out."""


def sentiment(folder: Path) -> Iterator[Split]:
    """4,999 sentences, 203 workers; 1,000 sentences held out."""
    text = (folder / "Sentiment_text_train.txt").read_text(encoding="utf-8", errors="replace").split("\n")[:4999]
    answers, gold = (np.loadtxt(folder / name, dtype=int) for name in ("answers.txt", "Sentiment_Z_train.txt"))
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(gold))
        test, train = order[:1_000], order[1_000:]
        words = TfidfVectorizer(min_df=2, sublinear_tf=True).fit([text[i] for i in train])
        X, X_test = (words.transform([text[i] for i in rows]) for rows in (train, test))
        yield X, answers[train], gold[train], X_test, gold[test]


def labelme(folder: Path) -> Iterator[Split]:
    """1,000 photographs, 59 workers, 800 of them learned from; 1,188 others held out."""
    X, X_test = (np.load(folder / f"LabelMe_VGG_avg_{part}.npy") for part in ("train", "test"))
    gold, gold_test = (np.loadtxt(folder / f"LabelMe_Z_{part}.txt", dtype=int) for part in ("train", "test"))
    answers = np.loadtxt(folder / "answers.txt", dtype=int)
    for split in range(SPLITS):
        train = np.random.default_rng(split).permutation(len(gold))[:800]
        scale = StandardScaler().fit(X[train].reshape(len(train), -1))
        rows, rows_test = (scale.transform(x.reshape(len(x), -1)) / 20.0 for x in (X[train], X_test))
        yield rows, answers[train], gold[train], rows_test, gold_test


def long_form(answers: Any) -> dict[str, Any]:
    """A matrix of tasks and workers, -1 for no answer, as task, worker and label."""
    task, worker = np.nonzero(answers >= 0)
    return {"task": task, "worker": worker, "label": answers[task, worker]}


def learn_soft(X: Any, posterior: Any) -> Any:
    """Logistic regression on every label of every task, weighted by its probability."""
    task, label = np.nonzero(posterior > 1e-3)
    return LogisticRegression(max_iter=1_000).fit(X[task], label, sample_weight=posterior[task, label])


def know_workers(X: Any, said: dict[str, Any], gold: Any) -> Any:
    """What could be reached at best: every worker's confusions are counted from gold labels, which no crowd has."""
    answers, crowd = read_answers(said, None), uneven.from_answers(said)
    k, scaled = len(crowd.classes), features.standardise(X)
    true = dawid_skene.estimate_confusions(answers.incidence @ np.eye(k)[gold], k, kappa=0.0)
    said_of_tasks = answers.incidence.T @ np.log(np.maximum(true, dawid_skene.LEAST)).reshape(-1, k)
    posterior = dawid_skene.normalise(said_of_tasks)
    strength = features.choose_strength(scaled, posterior)
    for seed in range(3):
        posterior = dawid_skene.normalise(said_of_tasks + features.predict_held_out(scaled, posterior, strength, seed))
    return replace(crowd, posterior=posterior).fit(X)


def learn(X: Any, answers: Any, gold: Any) -> dict[str, Callable[[], Any]]:
    """Each method: what it takes to get a classifier."""
    said = long_form(answers)
    votes = np.stack([(answers == one).sum(axis=1) for one in range(said["label"].max() + 1)], axis=1)
    ties = np.random.default_rng(0).random(votes.shape)
    return {
        "majority votes, logistic regression": lambda: LogisticRegression(max_iter=1_000).fit(
            X, (votes + 0.1 * ties).argmax(axis=1)
        ),
        "Dawid-Skene soft labels, logistic regression": lambda: learn_soft(X, uneven.from_answers(said).posterior),
        "gold labels, logistic regression": lambda: LogisticRegression(max_iter=1_000).fit(X, gold),
        "gold labels, uneven": lambda: uneven.UnevenClassifier().fit(X, gold),
        "answers alone, uneven": lambda: uneven.from_answers(said).fit(X),
        "answers and features, uneven": lambda: uneven.from_answers(said, X).fit(X),
        "the same if each worker's errors were known": lambda: know_workers(X, said, gold),
    }


def measure(splits: Iterator[Split]) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Accuracy of every method on every split, and its seconds a split."""
    scores, seconds = defaultdict(list), defaultdict(float)
    for X, answers, gold, X_test, gold_test in splits:
        for name, make in learn(X, answers, gold).items():
            started = time.process_time()
            scores[name].append(make().score(X_test, gold_test))
            seconds[name] += (time.process_time() - started) / SPLITS
    return scores, seconds


def run(splits: Iterator[Split]) -> None:
    """Measure every method on every split, and print a line for each."""
    scores, seconds = measure(splits)
    first = next(iter(scores.values()))
    print("| method | accuracy | ahead of majority votes | seconds |\n|---|---|---|---|")
    for name, found in scores.items():
        lead = np.subtract(found, first)
        cells = [f"{np.mean(one):.3f} ± {np.std(one, ddof=1) / SPLITS**0.5:.3f}" for one in (found, lead)]
        print(f"| {name} | {cells[0]} | {cells[1]} | {seconds[name]:.1f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("data", type=Path)
    folder = parser.parse_args().data / "crowd"
    for title, splits in (("Sentiment", sentiment(folder / "sentiment_amt")), ("LabelMe", labelme(folder / "labelme"))):
        print(f"\n{title}\n")
        run(splits)
