"""Answers of a crowd: Dawid-Skene against a literal loop and crowd-kit, and what the labels are good for."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import uneven
from uneven.crowd import dawid_skene, features, rank_workers
from uneven.crowd.answers import read_answers
from uneven.crowd.workers import Worker, find_worth
from uneven.intervals import find_wilson_interval


def crowd_of(n=600, errors=(0.05, 0.15, 0.25, 0.35, 0.45), classes=2, seed=0, share=1.0):
    """Answers of workers with these error rates, features of the tasks, and the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=n)
    X = np.eye(classes)[truth] + rng.normal(scale=0.7, size=(n, classes))
    task, worker = np.divmod(np.flatnonzero(rng.random(n * len(errors)) < share), len(errors))
    wrong = rng.random(len(task)) < np.array(errors)[worker]
    label = np.where(wrong, (truth[task] + rng.integers(1, classes, size=len(task))) % classes, truth[task])
    return {"task": task, "worker": worker, "label": label}, X, truth


def literal_em(answers, k, rounds, kappa):
    """Dawid and Skene as they wrote it, with loops."""
    rows = list(zip(answers["task"], answers["worker"], answers["label"], strict=True))
    n, m = max(t for t, _, _ in rows) + 1, max(w for _, w, _ in rows) + 1
    q = np.zeros((n, k))
    for t, _, label in rows:
        q[t, label] += 1
    q /= q.sum(axis=1, keepdims=True)
    for _ in range(rounds):
        counts = np.zeros((m, k, k))
        for t, w, label in rows:
            for y in range(k):
                counts[w, label, y] += q[t, y]
        shared = counts.sum(axis=0) / counts.sum(axis=(0, 1))
        confusion = np.array(
            [[[c + kappa * shared[i, y] for y, c in enumerate(row)] for i, row in enumerate(one)] for one in counts]
        )
        confusion /= confusion.sum(axis=1, keepdims=True)
        prior, q = q.mean(axis=0), np.zeros((n, k))
        for t in range(n):
            for y in range(k):
                q[t, y] = prior[y] * np.prod([confusion[w, label, y] for i, w, label in rows if i == t])
        q /= q.sum(axis=1, keepdims=True)
    return q


@pytest.mark.parametrize(("classes", "kappa"), [(2, 0.0), (2, 2.0), (4, 2.0)])
def test_em_is_the_literal_one(classes, kappa):
    answers, _, _ = crowd_of(n=40, classes=classes)
    found = dawid_skene.estimate(read_answers(answers, None), kappa=kappa, rounds=7, tolerance=0.0)
    np.testing.assert_allclose(found.posterior, literal_em(answers, classes, 7, kappa), atol=1e-12)
    np.testing.assert_allclose(found.confusion.sum(axis=1), 1.0)


def test_em_is_crowd_kits():
    """Where it is installed: the same posteriors, but for when each stops."""
    aggregation = pytest.importorskip("crowdkit.aggregation")
    answers, _, _ = crowd_of(share=0.6)
    theirs = aggregation.DawidSkene(n_iter=200, tol=0.0).fit_predict_proba(pd.DataFrame(answers))
    ours = dawid_skene.estimate(read_answers(answers, None), kappa=0.0, rounds=200, tolerance=0.0)
    np.testing.assert_allclose(ours.posterior, theirs.sort_index()[[0, 1]].to_numpy(), atol=1e-3)


def test_errors_of_workers_are_found_without_gold():
    """Each within four standard errors, √(e(1-e)/n) for n labels, of the rate that the answers were drawn with."""
    errors = (0.05, 0.15, 0.25, 0.35, 0.45)
    answers, _, _ = crowd_of(n=3_000, errors=errors, seed=1)
    crowd = uneven.from_answers(answers)
    assert [one.labels for one in crowd.workers] == [3_000] * 5
    found = {one.name: one for one in crowd.workers}
    for w, e in enumerate(errors):
        assert abs(found[w].error - e) < 4 * np.sqrt(e * (1 - e) / 3_000) + 0.01, (w, found[w])
        assert found[w].worth == pytest.approx((1 - 2 * e) ** 2, abs=0.06)
    assert crowd.answers == 15_000


def test_posteriors_are_calibrated():
    """Where answers are independent, as drawn here, labels are wrong as often as their flip rates say."""
    answers, _, truth = crowd_of(n=6_000, seed=2, share=0.7)
    crowd = uneven.from_answers(answers)
    wrong, rates = crowd.labels != truth[crowd.tasks], crowd.flip_rates
    assert abs(wrong.mean() - rates.mean()) < 4 * np.sqrt((rates * (1 - rates)).sum()) / len(rates) + 0.005
    unsure = rates > 0.2
    assert abs(wrong[unsure].mean() - rates[unsure].mean()) < 4 * 0.5 / np.sqrt(unsure.sum()) + 0.01


def test_features_are_one_more_worker():
    """Few answers a task: labels with features are right more often, and stay so when columns are sparse."""
    answers, X, truth = crowd_of(n=800, errors=(0.2, 0.3, 0.3, 0.4), share=0.5, seed=3)
    tasks = np.unique(answers["task"])
    alone = uneven.from_answers(answers)
    right = (alone.labels == truth[tasks]).mean()
    for rows in (X[tasks], sparse.csr_array(X[tasks])):
        both = uneven.from_answers(answers, rows)
        assert (both.labels == truth[tasks]).mean() > right + 0.03


def test_features_are_asked_about_tasks_not_learned_from():
    """Features of pure noise, as many as tasks: learned by heart they confirm the start, held out they say nothing."""
    rng = np.random.default_rng(0)
    X, posterior = rng.normal(size=(200, 200)), np.eye(2)[rng.integers(2, size=200)]
    said = np.exp(features.predict_held_out(features.standardise(X), posterior, 30.0, 0))
    assert abs((said * posterior).sum(axis=1).mean() - 0.5) < 4 * 0.5 / np.sqrt(200)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_fit_goes_on_from_there(classes):
    answers, X, truth = crowd_of(n=900, classes=classes, errors=(0.1, 0.2, 0.3, 0.4), seed=4)
    clf = uneven.from_answers(answers, X).fit(X)
    exact = uneven.UnevenClassifier().fit(X, truth)
    assert clf.classes_.tolist() == list(range(classes))
    assert clf.coef_.shape == exact.coef_.shape
    assert abs(clf.score(X, truth) - exact.score(X, truth)) < 0.02
    assert clf.predict_proba(X).shape == (900, classes)


def test_two_classes_are_the_classifier_with_flip_rates():
    answers, X, _ = crowd_of(seed=5)
    crowd = uneven.from_answers(answers)
    same = uneven.UnevenClassifier().fit(X, crowd.labels, flip_rate=crowd.flip_rates)
    np.testing.assert_allclose(crowd.fit(X).coef_, same.coef_, rtol=1e-6)
    saved = crowd.fit(X, alpha=0.01)
    assert saved.alpha_ == 0.01


def test_more_classes_are_a_softmax_of_the_posteriors():
    """At the optimum of (1/n)·Σ q·log p - α‖w‖²/2, its gradient is zero: Σ (p - q)x/n + αw, and Σ (p - q) = 0."""
    answers, X, _ = crowd_of(classes=4, errors=(0.2, 0.3, 0.4), seed=7)
    crowd = uneven.from_answers(answers)
    clf = crowd.fit(3.0 * X + 1.0, alpha=0.02)
    assert clf.alpha_ == pytest.approx(0.02)
    assert clf.coef_.shape == (4, 4)
    kept = np.where(crowd.posterior >= features.LEAST, crowd.posterior, 0.0)
    odds = (3.0 * X + 1.0) @ clf.coef_.T + clf.intercept_
    np.testing.assert_allclose(clf.predict_proba(3.0 * X + 1.0), dawid_skene.normalise(odds))
    gap = dawid_skene.normalise(odds) * kept.sum(axis=1, keepdims=True) - kept
    assert np.abs(gap.mean(axis=0)).max() < 1e-5
    assert np.abs(gap.T @ (3.0 * X + 1.0) / len(X) + 0.02 * clf.coef_).max() < 1e-4
    with pytest.raises(ValueError, match="alpha and fit_intercept only for more than two classes, got 'loss'"):
        crowd.fit(X, loss="hinge")


def test_a_class_that_nobody_gave_has_no_weights():
    coef, intercept = features.learn(np.array([[1.0], [-1.0]]), np.array([[0.9, 0.1, 0.0], [0.1, 0.9, 0.0]]), 1.0)
    assert coef[0, 0] == -coef[1, 0] > 0
    assert coef[2, 0] == 0.0
    assert intercept[2] < min(intercept[:2])


def test_gold_counts_for_its_tasks_and_for_the_workers():
    """Two of three workers are mostly wrong: majority votes, and EM from them, have the classes the wrong way round."""
    answers, _, truth = crowd_of(n=400, errors=(0.1, 0.7, 0.75), seed=6)
    assert (uneven.from_answers(answers).labels == truth).mean() < 0.5
    crowd = uneven.from_answers(answers, gold={i: truth[i] for i in range(200)})
    assert crowd.gold == 200
    assert (crowd.labels[:200] == truth[:200]).all()
    assert crowd.flip_rates[:200].max() == 0.0
    assert (crowd.labels[200:] == truth[200:]).mean() > 0.8


def test_names_of_any_kind_and_tasks_in_the_order_asked_for():
    frame = pd.DataFrame(
        {"task": ["b", "a", "b", "a"], "worker": ["v", "v", "w", "w"], "label": ["no", "yes", "no", "yes"]}
    )
    crowd = uneven.from_answers(frame, tasks=["b", "c", "a"])
    assert crowd.labels[[0, 2]].tolist() == ["no", "yes"]
    assert crowd.flip_rates[1] == 0.49  # nobody was asked about c
    assert {one.name for one in crowd.workers} == {"v", "w"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"answers": {"task": [1], "worker": [1]}}, "answers must have the columns 'task', 'worker' and 'label', got"),
        ({"answers": {"task": [1], "worker": [1], "label": [1]}}, "at least two different labels, got only"),
        (
            {"answers": {"task": [1, 2], "worker": [1, 1], "label": ["a", None]}},
            "must have a label in every row, got none in row 1",
        ),
        ({"answers": [1, 2]}, "answers must have the columns"),
        ({"tasks": [0, 1]}, r"answers must be about the tasks given, got .*2"),
        ({"tasks": [0, 0]}, "tasks must be a list of different tasks"),
        ({"features": np.ones((3, 2))}, "features must have a row for each of the 600 tasks, got 3"),
        ({"gold": {10_000: 1}}, "gold must be about the tasks given, got .*10000"),
    ],
)
def test_what_is_refused(change, words):
    answers, _, _ = crowd_of()
    with pytest.raises(ValueError, match=words):
        uneven.from_answers(**{"answers": answers, **change})


def test_worth_of_uneven_errors_is_the_variance_of_the_corrected_label():
    """A label corrected for error rates a (of 0) and b (of 1), (l - a)/(1 - a - b), is unbiased; beside an exact label
    of a balanced truth its signed variance grows by no more than 1/(1 - a - b)²."""
    a, b = 0.1, 0.3
    confusion = np.array([[[1 - a, b], [a, 1 - b]]])
    assert find_worth(confusion, np.array([0.5, 0.5]))[0] == pytest.approx((1 - a - b) ** 2)
    assert find_worth(np.full((1, 4, 4), 0.25), np.full(4, 0.25))[0] == pytest.approx(0.0)
    assert find_worth(np.eye(4)[None], np.full(4, 0.25))[0] == pytest.approx(1.0)


def test_worth_counts_classes_by_their_share():
    """Three classes of shares 0.7, 0.2 and 0.1, right with 0.9, 0.5 and 0.3: Σ π_c·(P(c | c) - P(c | not c))²."""
    prior = np.array([0.7, 0.2, 0.1])
    confusion = np.array([[0.9, 0.3, 0.1], [0.05, 0.5, 0.6], [0.05, 0.2, 0.3]])  # column: the true class
    apart = [
        0.9 - (0.2 * 0.3 + 0.1 * 0.1) / 0.3,
        0.5 - (0.7 * 0.05 + 0.1 * 0.6) / 0.8,
        0.3 - (0.7 * 0.05 + 0.2 * 0.2) / 0.9,
    ]
    assert find_worth(confusion[None], prior)[0] == pytest.approx(np.square(apart) @ prior)


def test_features_of_named_tasks_need_their_order():
    """t10 comes before t2 in the order of names: without tasks= there is none to go by."""
    task, worker = np.repeat(np.arange(200), 3), np.tile(["a", "b", "c"], 200)
    X = np.random.default_rng(0).normal(size=(200, 1))
    label = (X[task, 0] > 0).astype(int)
    names = np.array([f"t{i}" for i in range(200)])
    said = {"task": names[task], "worker": worker, "label": label}
    with pytest.raises(ValueError, match="tasks must be given with features where tasks are not whole numbers"):
        uneven.from_answers(said, X)
    by_name = uneven.from_answers(said, X, tasks=names)
    by_number = uneven.from_answers({**said, "task": task}, X)
    assert by_name.fit(X).score(X, X[:, 0] > 0) > 0.95
    np.testing.assert_array_equal(by_name.posterior, by_number.posterior)
    assert uneven.from_answers(said).labels.shape == (200,)  # each with its name


@pytest.mark.parametrize("gold", ["perhaps not", "no ", 2])
def test_gold_that_no_answer_has_is_refused(gold):
    said = {"task": [0, 0, 1, 1], "worker": ["a", "b", "a", "b"], "label": ["no", "no", "yes", "no"]}
    with pytest.raises(ValueError, match=f"gold must have labels that answers have, .*; got {gold!r}"):
        uneven.from_answers(said, gold={0: gold})
    assert uneven.from_answers(said, gold={1: "no"}).labels[1] == "no"


@pytest.mark.parametrize(("labels", "error"), [(5, 0.0), (60, 0.2), (900, 0.3), (40, 0.5)])
def test_what_a_worth_is_at_least_comes_from_the_interval_of_the_error(labels, error):
    """With one error rate in both classes: the worth (1-2e)² at the upper end of the error's own interval."""
    worst = min(0.5, find_wilson_interval(error * labels, labels).high)
    one = Worker("w", labels, {}, error, (1 - 2 * error) ** 2)
    assert one.worth_at_least == pytest.approx((1 - 2 * worst) ** 2, abs=1e-12)
    assert one.worth_at_least < one.worth or one.worth == 0


def test_workers_are_ranked_by_what_their_labels_have_shown():
    """Five labels of five right come last, and one label below the median decides nothing."""
    known = {"busy": (200, 0.3), "best": (99, 0.03), "usual": (100, 0.25), "lucky": (5, 0.0)}
    workers = tuple(Worker(name, labels, {}, error, (1 - 2 * error) ** 2) for name, (labels, error) in known.items())
    ranked = [one.name for one in rank_workers(SimpleNamespace(workers=workers))]
    assert ranked == ["best", "usual", "busy", "lucky"]
