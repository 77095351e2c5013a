"""Two real crowds without gold labels, as `benchmarks/crowd.py` reads them: sentences in two classes, photographs in
eight."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

import uneven

DATA = Path(os.environ.get("UNEVEN_DATA", "nowhere"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (DATA / "crowd").is_dir(), reason="UNEVEN_DATA names no folder with the data"),
]


def benchmark():
    place = Path(__file__).parents[2] / "benchmarks" / "crowd.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_crowds", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def error_of(values):
    return np.std(values, ddof=1) / np.sqrt(len(values))


def test_sentences_without_gold():
    """Six splits, with features and without: a point above majority votes, not below Dawid-Skene with soft labels, at
    most a point behind gold labels; each difference within two standard errors of itself."""
    scores = benchmark().measure(benchmark().sentiment(DATA / "crowd" / "sentiment_amt"))[0]
    for ours in ("answers alone, uneven", "answers and features, uneven"):
        for other, least in (
            ("majority votes, logistic regression", 0.01),
            ("Dawid-Skene soft labels, logistic regression", 0.0),
            ("gold labels, logistic regression", -0.01),
        ):
            lead = np.subtract(scores[ours], scores[other])
            assert lead.mean() > least - 2 * error_of(lead), (ours, other, lead)


@pytest.mark.filterwarnings("ignore:flip rate of .* was estimated at its limit")
@pytest.mark.parametrize("anchors", [100, 1_000])
def test_rates_of_two_hundred_workers(anchors):
    """Estimated beside sentences with gold labels: the rate of a label's worker is within .03 of the share of their
    labels that is wrong, on average; and each worker's is within .03 and three standard errors of so many labels."""
    folder = DATA / "crowd" / "sentiment_amt"
    X, answers, gold, _, _ = next(benchmark().sentiment(folder))
    task, worker = np.nonzero(answers >= 0)
    known = np.random.default_rng(0).permutation(len(gold))[:anchors]
    source = np.concatenate([np.full(anchors, "gold"), np.char.add("w", worker.astype(str))])
    noise = {name: uneven.FlippedLabels("estimate") for name in np.unique(source)} | {"gold": uneven.Exact()}
    clf = uneven.UnevenClassifier(noise, alpha=1e-3, random_state=0)
    clf.fit(X[np.concatenate([known, task])], np.concatenate([gold[known], answers[task, worker]]), source=source)
    labels = np.bincount(worker)
    wrong = np.bincount(worker, answers[task, worker] != gold[task]) / np.maximum(labels, 1)
    found = np.array([clf.flip_rates_.get(f"w{w}", np.nan) for w in range(len(labels))])
    gap, there = np.abs(found - np.minimum(wrong, 0.49)), labels > 0
    assert np.average(gap[there], weights=labels[there]) < 0.03
    assert gap[labels >= 50].mean() < 0.03
    own = np.sqrt(np.clip(found * (1 - found), 0.05, None) / np.maximum(labels, 1))
    assert (gap < 0.03 + 3 * own)[there].all()
