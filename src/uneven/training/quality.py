"""Accuracy, AUC and log-loss with intervals, compared with baselines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from uneven.intervals import Z_95, Interval, find_share_interval
from uneven.losses import get_loss
from uneven.matrices import join_rows
from uneven.noise import Exact
from uneven.settings import Settings
from uneven.softmax import compute_probabilities
from uneven.training.model import Model, choose_classes
from uneven.training.rows import ArrayRows, Piece
from uneven.training.trainer import Trained, train

Array = NDArray[np.float64]

BINS = 1 << 16
"""Bins that scores are counted in for AUC, so that memory does not grow with the rows; shared out among classes."""

FEWEST_BINS = 1 << 10
"""Bins of each of many classes."""

PROBABILITY_BINS = 10
"""Bins of equal width that predicted probabilities are compared in with the labels."""

SHARPEST = 1e-15
"""Least probability that log-loss counts with, as scikit-learn did."""

WEIGHTED = (
    "Accuracy is expected to fall: classes count by class_weight = {!r}, not by their rows. The baselines are "
    "not weighted."
)


@dataclass(frozen=True)
class Scores:
    """How one classifier does: `log_loss` where it has probabilities.

    Of more than two classes `auc` is the mean over classes of that of each against the rest, by its probability; None
    where some class has no rows.
    """

    name: str
    accuracy: Interval
    auc: Interval | None
    log_loss: Interval | None


class Bin(NamedTuple):
    """Rows whose predicted probability is about the same: how many, its mean, and the share that turned out so."""

    rows: int
    predicted: float
    observed: Interval


@dataclass(frozen=True)
class Comparison:
    """How a model does beside others, and in words where it does not beat them.

    `confusion` counts rows by true class and by predicted class. `bins` are of the probability of the second class of
    two, of the predicted class of more; there are none where the loss has no probabilities.
    """

    scores: Scores
    others: tuple[Scores, ...]
    words: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...] = ()
    bins: tuple[Bin, ...] = ()


def find_area_interval(negative: NDArray[Any], positive: NDArray[Any]) -> Interval | None:
    """Area under the ROC curve from counts of rows by score, lowest first; None without rows of both classes.

    Its standard error is that of DeLong et al. (1988), as `evaluate` has it.

    >>> find_area_interval(np.array([1, 1, 0]), np.array([0, 1, 1])).value
    0.875
    """
    m, n = int(negative.sum()), int(positive.sum())
    if not m or not n:
        return None
    below = np.cumsum(negative) - negative
    up = (below + negative / 2.0) / m
    area = float((positive * up).sum() / n)
    down = 1.0 - (np.cumsum(positive) - positive / 2.0) / n
    halves = ((positive, up, n), (negative, down, m))
    variance = sum(float(k @ (one - area) ** 2) / ((rows - 1) * rows) if rows > 1 else 0.25 for k, one, rows in halves)
    half = Z_95 * math.sqrt(variance)
    return Interval(area, max(0.0, area - half), min(1.0, area + half))


def average_intervals(areas: Sequence[Interval | None]) -> Interval | None:
    """Mean of several intervals, valid under any dependence between them; None if one is None.

    >>> average_intervals([Interval(0.5, 0.25, 0.75), Interval(1.0, 1.0, 1.0)])
    Interval(value=0.75, low=0.625, high=0.875)
    """
    found = [area for area in areas if area is not None]
    return Interval(*np.mean(found, axis=0).tolist()) if len(found) == len(areas) else None


class _Tally:
    """Sums over rows of one classifier, by true class; scores in bins."""

    def __init__(self, model: Model) -> None:
        classes, self.together = len(model.classes), model.together
        self.rows, self.right, self.loss, self.square = (np.zeros(classes) for _ in range(4))
        shown = 1 if classes == 2 else classes  # what AUC is measured of: the second class, or each
        self.bins = np.zeros((shown, 2, max(BINS // shown, FEWEST_BINS)))
        self.confusion, self.told = np.zeros((classes, classes), dtype=np.int64), np.zeros((3, PROBABILITY_BINS))
        self.binary, self.probabilistic = classes == 2, get_loss(model.settings.loss).probabilistic

    def see(self, scores: Array, truth: NDArray[Any], chosen: NDArray[Any]) -> tuple[Array, Array]:
        """Count rows; whether each was classified correctly, and its log-loss."""
        right, count = (chosen == truth).astype(float), len(self.rows)
        loss = np.zeros(len(truth))
        self.confusion += np.bincount(truth * count + chosen, minlength=count**2).reshape(count, count)
        if self.probabilistic:
            shares = compute_probabilities(scores, self.together)
            loss = -np.log(np.maximum(shares[np.arange(len(truth)), truth], SHARPEST))
            self._see_probabilities(*((shares[:, 1], truth) if self.binary else (shares.max(axis=1), right)))
        for total, values in ((self.rows, None), (self.right, right), (self.loss, loss), (self.square, loss**2)):
            total += np.bincount(truth, values, minlength=count)
        ranked = [scores] if self.binary else (logit(shares) if self.probabilistic else scores).T
        for k, (bins, column) in enumerate(zip(self.bins, ranked, strict=True)):
            most, own = bins.shape[1], truth == (1 if self.binary else k)
            place = np.minimum((expit(column / 4.0) * most).astype(np.int64), most - 1)
            bins += [np.bincount(place[mine], minlength=most) for mine in (~own, own)]
        return right, loss

    def _see_probabilities(self, told: Array, came: NDArray[Any]) -> None:
        place = np.minimum((told * PROBABILITY_BINS).astype(np.int64), PROBABILITY_BINS - 1)
        for total, values in zip(self.told, (None, told, came), strict=True):
            total += np.bincount(place, values, minlength=PROBABILITY_BINS)

    def reliability(self) -> tuple[Bin, ...]:
        """Bins that have rows, lowest probability first."""
        return tuple(Bin(int(n), p / n, find_share_interval(came, int(n))) for n, p, came in self.told.T.tolist() if n)

    def scores(self, name: str) -> Scores:
        n = int(self.rows.sum())
        area = average_intervals([find_area_interval(*bins) for bins in self.bins])
        loss = _mean(self.loss.sum(), self.square.sum(), n) if self.probabilistic else None
        return Scores(name, find_share_interval(self.right.sum(), n), area, loss)


def _mean(total: float, squares: float, rows: int) -> Interval:
    mean = total / rows
    half = Z_95 * math.sqrt(max(0.0, squares / rows - mean**2) / rows)
    return Interval(float(mean), float(mean - half), float(mean + half))


def fit_public_rivals(trained: Trained) -> dict[str, Model]:
    """Baselines from public rows only, at no cost in ε: all of them, and the cleanest source alone.

    Logistic regression to convergence, with an alpha of its own unless it is stated. Where nothing but exact rows was
    learned from, to convergence, the model is that itself, and there is nothing to compare.
    """
    public = trained.public()
    noises = {source.name: source.noise for source in trained.plan.sources if source.name in public}
    if not noises:
        return {}
    rivals = {}
    if set(trained.plan.order) != set(noises) or not all(noise == Exact() for noise in noises.values()):
        rows = [join_rows(part) for part in zip(*public.values(), strict=True)]
        rivals[f"logistic regression on {len(rows[1]):,} rows without privacy"] = rows
    energies = {name: noise.row_energy(trained.plan.problem) for name, noise in noises.items()}
    if min(energies.values()) < max(energies.values()):
        cleanest = min(energies, key=lambda name: energies[name])
        rivals[f"{cleanest!r} alone, the cleanest source"] = list(public[cleanest])
    classes = len(trained.model.classes)
    return {name: _plain_model(trained, *rows) for name, rows in rivals.items() if len(np.unique(rows[1])) == classes}


def _plain_model(trained: Trained, X: Any, y: NDArray[Any]) -> Model:
    """Logistic regression on these rows; if alpha was not stated, with the one that they ask for."""
    used = trained.model.settings
    settings = Settings(alpha=used.alpha, fit_intercept=used.fit_intercept, random_state=0)
    return train(ArrayRows(Piece(X, y)), None, settings, held_bytes=2**62).model


def compare(
    model: Model,
    others: Mapping[str, Model],
    pieces: Iterable[tuple[Any, NDArray[Any]]],
    learned_from: bool = False,
) -> Comparison:
    """How a model does on rows in pieces, beside the majority class and other models.

    Parameters
    ----------
    model : Model
    others : dict of str to Model
        By what they are called.
    pieces : iterable of (X, y)
    learned_from : bool
        Whether all models learned from these rows. Then none is said to be better than another.
    """
    models = {"": model, **others}
    tallies = {name: _Tally(one) for name, one in models.items()}
    gains = {name: np.zeros((2, 3)) for name in others}
    for X, y in pieces:
        truth = np.searchsorted(model.classes, y)
        seen = {}
        for name, one in models.items():
            scores = one.scores(X)
            chosen = np.searchsorted(model.classes, choose_classes(scores, one.classes, one.settings.threshold))
            seen[name] = tallies[name].see(scores, truth, chosen)
        for name, gain in gains.items():
            for k, (mine, theirs) in enumerate(zip(seen[""], seen[name], strict=True)):
                gain[k] += len(y), (mine - theirs).sum(), ((mine - theirs) ** 2).sum()
    own = tallies[""].scores("this model")
    majority, gain = _majority(tallies[""], model)
    rivals = [majority, *(tallies[name].scores(name) for name in others)]
    words = [_words(own, one, g) for one, g in zip(rivals, [gain, *gains.values()], strict=True)]
    words = words[:1] if learned_from else words
    words += [] if learned_from else explain_class_weight(model)
    confusion = tuple(map(tuple, tallies[""].confusion.tolist()))
    return Comparison(own, tuple(rivals), tuple(filter(None, words)), confusion, tallies[""].reliability())


def explain_class_weight(model: Model) -> list[str]:
    """Why the accuracy of a model with class weights is no match for that of baselines, if it has some."""
    weights = model.settings.class_weight
    return [] if weights is None else [WEIGHTED.format(weights)]


def _majority(tally: _Tally, model: Model) -> tuple[Scores, Array]:
    """The majority class of the same rows, predicted for all with the classes' shares; and the model's gain on it."""
    n, place = tally.rows.sum(), int(np.argmax(tally.rows))
    shares = np.maximum(tally.rows / n, SHARPEST)
    losses = -np.log(shares)
    loss = _mean((tally.rows * losses).sum(), (tally.rows * losses**2).sum(), int(n)) if tally.probabilistic else None
    name = f"the majority class, {model.classes.tolist()[place]!r}"
    area = Interval(0.5, 0.5, 0.5) if (tally.rows > 0).all() else None
    most, right = tally.rows[place], tally.right.sum()
    gain = np.array(
        [
            [n, right - most, right + most - 2 * tally.right[place]],
            [
                n,
                (tally.loss - tally.rows * losses).sum(),
                (tally.square - 2 * losses * tally.loss + tally.rows * losses**2).sum(),
            ],
        ]
    )
    return Scores(name, find_share_interval(most, int(n)), area, loss), gain


def _words(own: Scores, other: Scores, gain: Array) -> str:
    """Baselines that the model does not clearly beat: paired differences within 1.96 standard errors."""
    (n, right, right_square), (_, loss, loss_square) = gain
    accuracy = _mean(right, right_square, int(n))
    if accuracy.low > 0.0:
        return ""
    how = "is below" if accuracy.high < 0.0 else "does not clearly beat"
    text = f"Its accuracy {how} that of {other.name}: {own.accuracy.value:.4f} against {other.accuracy.value:.4f}"
    if own.log_loss is None or other.log_loss is None:
        return f"{text}."
    change = _mean(loss, loss_square, int(n))
    case = "better" if change.high < 0.0 else "clearly worse" if change.low > 0.0 else "not clearly different"
    return f"{text}; its log-loss is {case}."
