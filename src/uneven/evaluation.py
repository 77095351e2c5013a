"""Accuracy and AUC on private rows: each row answers one question, once, by randomised response.

A score on private rows is a release: whoever knows all rows but one learns from an exact score whether that one was
classified correctly. Here each row answers with a randomised answer of its own ε, charged before it is given.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from uneven import checks
from uneven.cautions import SimulationWarning
from uneven.engine import check_seed, make_generator
from uneven.intervals import find_share_interval, measure_shares_below
from uneven.ledger import Fingerprints, Ledger
from uneven.noise import LabelPrivacy

Array = NDArray[np.float64]

THRESHOLDS = tuple(float(x) for x in np.log([1 / 99, 3 / 97, 1 / 9, 1 / 3, 1, 3, 9, 97 / 3, 99]))
"""Public thresholds of the decision function that AUC is measured at: probabilities 1, 3, 10, 25, 50, ..., 99%."""

ANSWERS = 4
"""Answers to the AUC question: the label, and whether the score is above a threshold."""


class Classifier(Protocol):
    """What is evaluated; any fitted classifier of scikit-learn's kind."""

    classes_: NDArray[Any]

    def predict(self, X: Any) -> Any:
        """Class of each row."""

    def decision_function(self, X: Any) -> Any:
        """Score of each row, higher for the second class."""


@dataclass(frozen=True)
class Estimate:
    """An estimate with an interval, from so many rows."""

    value: float
    low: float
    high: float
    rows: int


@dataclass(frozen=True)
class Evaluation:
    """How a classifier does.

    Attributes
    ----------
    accuracy : Estimate
        Share classified correctly. The estimate is unbiased, so it may lie outside [0, 1] where rows are few; the
        interval has at least its confidence (Clopper-Pearson for the answers).
    auc : Estimate or None
        Area under the ROC curve of scores cut at the thresholds. Its interval is by the delta method: for many rows.
    epsilon : float or None
        What every row was charged; None for public rows, which are measured exactly.
    confidence : float
        Confidence level of each interval.
    simulated : bool
        With a seed: the answers can be undone, and protect nobody.
    """

    accuracy: Estimate
    auc: Estimate | None
    epsilon: float | None
    confidence: float
    simulated: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return asdict(self)


def evaluate(
    model: Classifier,
    X: Any,
    y: ArrayLike,
    *,
    epsilon: float | None,
    ledger: Ledger | None = None,
    budget: float | None = None,
    source: str = "evaluation",
    row_id: ArrayLike | Fingerprints | None = None,
    auc: bool = False,
    thresholds: Sequence[float] = THRESHOLDS,
    confidence: float = 0.95,
    seed: int | None = None,
) -> Evaluation:
    """Estimate accuracy, and AUC if asked for, on rows kept aside; private ones answer by randomised response.

    For accuracy each row answers one bit, correct or not, flipped with probability 1/(1 + e^ε). For AUC every second
    row answers another question instead: its label and whether its score is above a threshold, one of `thresholds` in
    turn, as one of four answers, true with probability e^ε/(e^ε + 3). So no row answers twice, and ε is not split.

    Parameters
    ----------
    model : classifier
        Fitted, such as `UnevenClassifier`. It must not have been learned from these rows, for the score to mean
        anything; rows that were are protected all the same, and ε adds up.
    X, y : rows and labels
        Kept aside: the model was not learned from them.
    epsilon : float or None
        What each row is charged; None says that the rows are public, and measures them exactly.
    ledger : Ledger or None
        Ledger that the rows are charged to before they answer.
    budget : float or None
        The most that a row may have spent afterwards.
    source : str
        Name that the ledger has for these rows.
    row_id : array of int, Fingerprints or None
        How the ledger knows the rows, one each; None means by their content.
    auc : bool
        Whether half of the rows answer for AUC; private rows of two classes only. Public rows always give it, of more
        than two classes as the mean of that of each class against the rest.
    thresholds : sequence of float
        Public thresholds of the decision function, in order. They must not be chosen on private rows.
    confidence : float
        Confidence level of each interval.
    seed : int or None
        None draws from a cryptographic generator; a seed is for simulations.

    Returns
    -------
    Evaluation

    Notes
    -----
    Formal guarantee. Whatever else is known, the probabilities of any answer differ by a factor of at most e^ε between
    any two rows (features and label); the model, the thresholds and the number of rows are public.

    Examples
    --------
    >>> import numpy as np, uneven
    >>> X = np.random.default_rng(0).normal(size=(4000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> clf = uneven.UnevenClassifier().fit(X[:2000], y[:2000])
    >>> found = evaluate(clf, X[2000:], y[2000:], epsilon=1.0, seed=0)
    >>> found.accuracy.low < 0.99 < found.accuracy.high
    True
    """
    checks.within("confidence", confidence, 0.5, 1.0)
    labels = np.asarray(y)
    _refuse_labels(labels, np.shape(X)[0], np.asarray(model.classes_), auc, epsilon is not None)
    cuts = _checked_thresholds(thresholds)
    if epsilon is None:
        correct = np.asarray(model.predict(X) == labels, dtype=bool)
        area = (
            _public_auc(model, X, labels, confidence) if auc or len(np.unique(labels)) == len(model.classes_) else None
        )
        return Evaluation(
            estimate_accuracy(int(correct.sum()), len(labels), 0.0, confidence), area, None, confidence, False
        )
    noise = LabelPrivacy(epsilon)
    if seed is not None:
        warnings.warn(
            "seed makes the answers repeatable: a simulation that protects nobody", SimulationWarning, stacklevel=2
        )
    if ledger is not None:
        names = getattr(model, "feature_names_in_", None)
        known = ledger.fingerprint(X, None if names is None else list(names)) if row_id is None else row_id
        if np.shape(known.numbers if isinstance(known, Fingerprints) else known) != labels.shape:
            raise ValueError(f"row_id must have one number per row, {len(labels)} of them, got {checks.shown(row_id)}")
        ledger.charge(source, known, noise.epsilon, budget)
    elif budget is not None and noise.epsilon > budget:
        raise ValueError(f"budget must be at least epsilon, {noise.epsilon:g}, got {budget!r}")
    rng = make_generator(check_seed(seed), 0, source, "noise")
    asked = np.arange(len(labels)) % 2 == 1 if auc else np.zeros(len(labels), dtype=bool)
    correct = np.asarray(model.predict(X) == labels, dtype=bool)[~asked]
    said = int((noise.corrupt(np.where(correct, 1.0, -1.0), rng) > 0).sum())
    accuracy = estimate_accuracy(said, len(correct), noise.rate, confidence)
    area = None
    if auc:
        scores, positive = np.asarray(model.decision_function(X))[asked], (labels == model.classes_[1])[asked]
        area = _private_auc(scores, positive, noise.epsilon, cuts, confidence, rng)
    return Evaluation(accuracy, area, noise.epsilon, confidence, seed is not None)


def _refuse_labels(labels: NDArray[Any], rows: int, classes: NDArray[Any], auc: bool, private: bool) -> None:
    """Refuse before any charge what could not be measured; a private label is not named."""
    if labels.shape != (rows,):
        raise ValueError(f"y must have one label per row of X, shape ({rows},), got shape {labels.shape}")
    if not np.isin(labels, classes).all():
        raise ValueError(f"y must hold the classes of the model, {checks.shown(classes.tolist())}; a row has another")
    if auc and private and len(classes) != 2:
        raise ValueError(f"auc must be False for private rows of more than two classes, got {len(classes)} classes")
    if len(labels) < (2 * len(THRESHOLDS) if auc else 1):
        raise ValueError(f"rows must be at least {2 * len(THRESHOLDS) if auc else 1}, got {len(labels)}")


def _checked_thresholds(thresholds: Sequence[float]) -> Array:
    cuts = np.asarray(thresholds, dtype=np.float64)
    if (
        cuts.ndim != 1
        or not 1 <= len(cuts) <= len(THRESHOLDS)
        or not np.isfinite(cuts).all()
        or (np.diff(cuts) <= 0).any()
    ):
        raise ValueError(f"thresholds must be 1 to {len(THRESHOLDS)} numbers in order, got {checks.shown(thresholds)}")
    return cuts


def estimate_accuracy(said: int, rows: int, rate: float, confidence: float) -> Estimate:
    """Accuracy from the number of rows that said "correct", each answer flipped at this rate.

    (share - σ)/(1 - 2σ) is unbiased; the ends of the interval are those of the share, turned in the same way.
    """
    shares = find_share_interval(said, rows, confidence)
    value, low, high = ((share - rate) / (1.0 - 2.0 * rate) for share in shares)
    return Estimate(value, max(low, 0.0), min(high, 1.0), rows)


def estimate_auc(scores: ArrayLike, positive: NDArray[np.bool_], confidence: float) -> Estimate:
    """AUC with its interval by the variance of its two halves (DeLong et al. 1988), for public rows."""
    values = np.asarray(scores, dtype=np.float64)
    ours, theirs = values[positive], values[~positive]
    if not len(ours) or not len(theirs):
        raise ValueError("y must hold both classes for auc, got one")
    up, down = measure_shares_below(ours, theirs), 1.0 - measure_shares_below(theirs, ours)
    variance = sum(np.var(one, ddof=1) / len(one) if len(one) > 1 else 0.25 for one in (up, down))
    return _interval(float(up.mean()), math.sqrt(variance), confidence, len(values))


def _public_auc(model: Classifier, X: Any, labels: NDArray[Any], confidence: float) -> Estimate:
    """AUC on public rows; of more than two classes the mean of each against the rest, with the mean of the intervals.

    That is no narrower than it should be, however the areas of the classes depend on one another.
    """
    classes, scores = model.classes_, np.asarray(model.decision_function(X))
    if len(classes) == 2:
        return estimate_auc(scores, labels == classes[1], confidence)
    ranked = model.predict_proba(X) if hasattr(model, "predict_proba") else scores
    found = [estimate_auc(column, labels == one, confidence) for one, column in zip(classes, ranked.T, strict=True)]
    value, low, high = np.mean([(one.value, one.low, one.high) for one in found], axis=0).tolist()
    return Estimate(value, low, high, len(labels))


def _interval(value: float, error: float, confidence: float, rows: int) -> Estimate:
    reach = float(ndtri((1.0 + confidence) / 2.0)) * error
    return Estimate(value, max(value - reach, 0.0), min(value + reach, 1.0), rows)


def _private_auc(
    scores: Array, positive: NDArray[np.bool_], epsilon: float, cuts: Array, confidence: float, rng: np.random.Generator
) -> Estimate:
    """AUC from one randomised answer of each row."""
    which = np.arange(len(scores)) % len(cuts)
    answers = randomise(2 * positive + (scores > cuts[which]), epsilon, rng)
    counts = np.zeros((len(cuts), ANSWERS))
    np.add.at(counts, (which, answers), 1.0)
    rows = counts.sum(axis=1, keepdims=True)
    shares = counts / rows
    value, slope = compute_auc(shares, epsilon), np.empty_like(shares)
    for place in np.ndindex(shares.shape):
        step = np.zeros_like(shares)
        step[place] = 1e-6
        slope[place] = (compute_auc(shares + step, epsilon) - compute_auc(shares - step, epsilon)) / 2e-6
    spread = (shares * slope**2).sum(axis=1) - (shares * slope).sum(axis=1) ** 2
    return _interval(value, math.sqrt(float((spread / rows[:, 0]).sum())), confidence, len(scores))


def randomise(answers: ArrayLike, epsilon: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Each answer, 0 to 3, kept with probability e^ε/(e^ε + 3), else one of the three others."""
    given = np.asarray(answers, dtype=np.int64)
    # "At most", not "below": random numbers are multiples of 2⁻⁵³, so the chance is never below the true one.
    lies = rng.random(len(given)) <= (ANSWERS - 1) / (math.exp(min(epsilon, 700.0)) + ANSWERS - 1)
    return np.where(lies, (given + 1 + rng.integers(ANSWERS - 1, size=len(given))) % ANSWERS, given)


def compute_auc(shares: Array, epsilon: float) -> float:
    """AUC from the share of each randomised answer at each threshold, by trapezoids: equal scores count half.

    With p = e^ε/(e^ε + 3) and q = (1 - p)/3 a share c stands for (c - q)/(p - q), which is unbiased. Let A and B be the
    shares of rows above a threshold that are positive and negative, π that of positive rows: then
    AUC = Σ (A_j + A_{j+1})(B_j - B_{j+1})/(2π(1 - π)), from (π, 1 - π) below all thresholds to (0, 0) above.

    >>> compute_auc(np.array([[0.5, 0.0, 0.0, 0.5]]), epsilon=50.0)  # one threshold tells all apart
    1.0
    """
    q = 1.0 / (math.exp(min(epsilon, 700.0)) + ANSWERS - 1)
    true = (shares - q) / (1.0 - ANSWERS * q)
    pi = min(max(float((true[:, 2] + true[:, 3]).mean()), 1e-3), 1.0 - 1e-3)
    above = np.concatenate([[pi], true[:, 3], [0.0]])
    wrong = np.concatenate([[1.0 - pi], true[:, 1], [0.0]])
    area = float(((above[:-1] + above[1:]) * (wrong[:-1] - wrong[1:])).sum())
    return area / (2.0 * pi * (1.0 - pi))
