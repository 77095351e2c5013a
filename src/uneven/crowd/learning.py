"""`from_answers`: answers of a crowd in, rows with labels and flip rates of their own out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uneven import checks
from uneven.crowd import dawid_skene, features
from uneven.crowd.answers import Answers, find, read_answers
from uneven.crowd.workers import Worker, describe_workers
from uneven.settings import Settings
from uneven.training import ArrayRows, Bar, Piece, show_nothing, train

if TYPE_CHECKING:
    from uneven.estimator import UnevenClassifier
    from uneven.training import Model

Array = NDArray[np.float64]

ROUNDS = 3
"""Times that the features are asked again, with better posteriors to learn from."""

LARGEST = 0.49
"""Flip rate of a task that nobody knows anything about: it weighs next to nothing."""


@dataclass(frozen=True)
class Crowd:
    """What the answers of a crowd say.

    Attributes
    ----------
    tasks : array of shape (n,)
        In the order of all that follows.
    classes : array of shape (k,)
        Different labels, in order.
    posterior : array of shape (n, k)
        Probability of each class.
    workers : tuple of Worker
        Those with most labels first.
    answers : int
        How many there were.
    gold : int
        Tasks whose true label was given.
    """

    tasks: NDArray[Any] = field(repr=False)
    classes: NDArray[Any]
    posterior: Array = field(repr=False)
    workers: tuple[Worker, ...] = field(repr=False)
    answers: int
    gold: int

    @property
    def labels(self) -> NDArray[Any]:
        """Most likely class of each task."""
        return np.asarray(self.classes[self.posterior.argmax(axis=1)])

    @property
    def flip_rates(self) -> Array:
        """Probability that the label of each task is wrong, at most 0.49."""
        return np.asarray(np.minimum(1.0 - self.posterior.max(axis=1), LARGEST))

    def fit(self, X: Any, **settings: Any) -> UnevenClassifier:
        """Learn from the tasks' features: each label at its own flip rate; all posteriors for more than two classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Features of `tasks`, in their order.
        **settings
            Of `UnevenClassifier`; for more than two classes `alpha` and `fit_intercept`.

        Returns
        -------
        UnevenClassifier
        """
        from uneven.estimator import UnevenClassifier

        return UnevenClassifier.from_model(fit_model(self, check_features(X, len(self.tasks)), Settings(**settings)))


def from_answers(
    answers: Any,
    features: Any = None,
    *,
    tasks: ArrayLike | None = None,
    gold: Mapping[Any, Any] | None = None,
    bar: Bar = show_nothing,
) -> Crowd:
    """Estimate the true labels and the quality of each worker from repeated answers, without gold or with some.

    Workers' confusions and tasks' posteriors are found by EM (Dawid and Skene 1979). With features, a classifier that
    is asked only about tasks it did not learn from is one more source of evidence.

    Parameters
    ----------
    answers : data frame, or mapping of names to arrays
        One answer per row: `task`, `worker` and `label`.
    features : array-like or sparse matrix of shape (n, d), or None
        Features of `tasks`.
    tasks : array of shape (n,) or None
        Task of each row of `features`; None means the tasks answered, in order, where they are whole numbers. Every
        answer must be to one of them.
    gold : mapping of tasks to labels, or None
        True labels, where they are known: labels that some answer has.
    bar : callable
        Makes a progress bar.

    Returns
    -------
    Crowd
        ``labels`` and ``flip_rates`` are what ``UnevenClassifier().fit(X, labels, flip_rate=flip_rates)`` takes;
        ``Crowd.fit(X)`` does that, for more than two classes too.

    Examples
    --------
    >>> import numpy as np, uneven
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2)); truth = np.where(X[:, 0] > 0, "cat", "dog")
    >>> task, worker = np.repeat(np.arange(300), 3), np.tile(["ann", "bob", "cem"], 300)
    >>> wrong = rng.random(900) < np.tile([0.05, 0.2, 0.4], 300)
    >>> label = np.where(wrong, np.where(truth[task] == "cat", "dog", "cat"), truth[task])
    >>> crowd = uneven.from_answers({"task": task, "worker": worker, "label": label}, X)
    >>> bool((crowd.labels == truth).mean() > 0.95)
    True
    >>> {one.name: round(one.error, 1) for one in crowd.workers}
    {'ann': 0.0, 'bob': 0.2, 'cem': 0.4}
    >>> bool(crowd.fit(X).score(X, truth) > 0.95)
    True
    """
    known = {} if gold is None else dict(gold)
    read = read_answers(answers, tasks)
    if features is not None and tasks is None and read.tasks.dtype.kind not in "iu":
        raise ValueError(
            "tasks must be given with features where tasks are not whole numbers, the task of each row: names have no "
            f"order to go by; got None, and tasks such as {checks.shown(read.tasks[0])}"
        )
    truth = _gold_numbers(read, known)
    X = None if features is None else check_features(features, len(read.tasks))
    found = _estimate(read, truth, X, bar)
    counts = np.bincount(read.worker, minlength=len(read.workers))
    workers = describe_workers(read.workers, read.classes, counts, found.confusion, found.prior)
    return Crowd(read.tasks, read.classes, found.posterior, workers, len(read.task), len(known))


def fit_model(
    crowd: Crowd, X: Any, settings: Settings, feature_names: tuple[str, ...] | None = None, bar: Bar = show_nothing
) -> Model:
    """Model of the tasks' labels: for two classes each at its own flip rate, for more a softmax of the posteriors."""
    if len(crowd.classes) > 2:
        return _fit_together(crowd, X, settings, feature_names)
    rows = ArrayRows(Piece(X, crowd.labels == crowd.classes[1], flip_rate=crowd.flip_rates))
    trained = train(rows, None, settings, feature_names=feature_names, held_bytes=2**62, bar=bar)
    return replace(trained.model, classes=crowd.classes)


def _fit_together(crowd: Crowd, X: Any, settings: Settings, feature_names: tuple[str, ...] | None) -> Model:
    """Largest expected log-likelihood of the labels, given the posteriors (the M-step of Raykar et al. 2010)."""
    from uneven.training import Model

    taken = Settings(alpha=settings.alpha, fit_intercept=settings.fit_intercept, random_state=settings.random_state)
    if changed := [key for key, value in vars(settings).items() if value != getattr(taken, key)]:
        raise ValueError(f"settings must be alpha and fit_intercept only for more than two classes, got {changed[0]!r}")
    spread, n = features.find_spread(X), len(crowd.tasks)
    if settings.alpha == "auto":
        C = features.choose_strength(features.standardise(X), crowd.posterior)
    else:
        C = spread**2 / (settings.alpha * n)
    coef, intercept = features.learn(X / spread, crowd.posterior, C, settings.fit_intercept, 1e-6)
    alpha = spread**2 / (C * n)
    return Model(crowd.classes, coef / spread, intercept, settings, alpha=alpha, feature_names=feature_names)


def check_features(X: Any, n: int) -> Any:
    """Features of n tasks, or a refusal."""
    from sklearn.utils import check_array

    checked = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
    if checked.shape[0] != n:
        raise ValueError(f"features must have a row for each of the {n:,} tasks, got {checked.shape[0]:,}")
    return checked


def _estimate(answers: Answers, gold: Any, X: Any, bar: Bar) -> dawid_skene.Consensus:
    if X is None:
        return dawid_skene.estimate(answers, gold=gold)
    scaled, found = features.standardise(X), dawid_skene.estimate(answers, gold=gold)
    with bar("Asking the features", ROUNDS + 1) as tick:
        strength = features.choose_strength(scaled, found.posterior)
        tick(1)
        for seed in range(ROUNDS):
            evidence = features.predict_held_out(scaled, found.posterior, strength, seed)
            found = dawid_skene.estimate(answers, gold=gold, evidence=evidence, start=found.posterior)
            tick(1)
    return found


def _gold_numbers(answers: Answers, gold: Mapping[Any, Any]) -> NDArray[np.int64] | None:
    """Number of each task's true class, -1 where it is not known."""
    if not gold:
        return None
    numbers = np.full(len(answers.tasks), -1, dtype=np.int64)
    known = {one: place for place, one in enumerate(answers.classes.tolist())}
    for label in gold.values():
        if label not in known:
            raise ValueError(f"gold must have labels that answers have, {checks.shown(list(known))}; got {label!r}")
    numbers[find(answers.tasks, np.array(list(gold)), "gold")] = [known[label] for label in gold.values()]
    return numbers
