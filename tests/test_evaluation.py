"""Private accuracy and AUC: unbiased, intervals that cover, ε that holds, charged first."""

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import uneven
from uneven import evaluation
from uneven.evaluation import THRESHOLDS, compute_auc, estimate_auc, evaluate, randomise


class Fixed:
    """A classifier whose score is its one feature."""

    classes_ = np.array([0, 1])

    def predict(self, X):
        return (X[:, 0] > 0).astype(int)

    def decision_function(self, X):
        return X[:, 0]


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.4).astype(int)
    return rng.normal(1.5 * (2 * y - 1), 2.0)[:, None], y


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_accuracy_is_unbiased_and_its_interval_covers(epsilon):
    X, y = rows(600)
    truth, runs = (Fixed().predict(X) == y).mean(), 300
    found = [evaluate(Fixed(), X, y, epsilon=epsilon, seed=seed).accuracy for seed in range(runs)]
    values = np.array([one.value for one in found])
    assert abs(values.mean() - truth) < 4 * values.std() / math.sqrt(runs)
    stated = math.sqrt(math.exp(epsilon)) / (math.exp(epsilon) - 1) / math.sqrt(len(y))  # the flips' own deviation
    assert values.std() == pytest.approx(stated, rel=4 / math.sqrt(2 * runs))
    covered = np.mean([one.low <= truth <= one.high for one in found])
    assert covered > 0.95 - 4 * math.sqrt(0.95 * 0.05 / runs)


def test_auc_is_close_and_its_interval_covers():
    X, y = rows(40_000)
    cut = np.searchsorted(THRESHOLDS, X[:, 0]).astype(float)  # the scores as the thresholds see them
    truth, runs = roc_auc_score(y, cut), 120
    found = [evaluate(Fixed(), X, y, epsilon=1.5, auc=True, seed=seed).auc for seed in range(runs)]
    values = np.array([one.value for one in found])
    assert abs(values.mean() - truth) < 4 * values.std() / math.sqrt(runs) + 0.002  # the ratio's bias is of order 1/n
    covered = np.mean([one.low <= truth <= one.high for one in found])
    assert abs(covered - 0.95) < 4 * math.sqrt(0.95 * 0.05 / runs) + 0.01
    assert abs(truth - roc_auc_score(y, X[:, 0])) < 0.01  # little is lost to the thresholds


def test_with_a_large_epsilon_both_are_exact():
    X, y = rows(5_000)
    found = evaluate(Fixed(), X, y, epsilon=60.0, auc=True, seed=0)
    even = np.arange(5_000) % 2 == 0
    assert found.accuracy.value == pytest.approx((Fixed().predict(X) == y)[even].mean())
    assert found.auc.value == pytest.approx(roc_auc_score(y, X[:, 0]), abs=0.03)


def test_public_rows_are_measured_exactly():
    X, y = rows(3_000)
    found = evaluate(Fixed(), X, y, epsilon=None, auc=True)
    assert found.accuracy.value == (Fixed().predict(X) == y).mean()
    assert found.auc.value == pytest.approx(roc_auc_score(y, X[:, 0]))
    assert found.epsilon is None
    covers = [estimate_auc(*_pair(seed), 0.95) for seed in range(300)]
    truth = 0.5 * (1 + math.erf(3.0 / math.sqrt(8) / math.sqrt(2)))  # P(N(3, 8) > 0)
    assert (
        abs(np.mean([one.low <= truth <= one.high for one in covers]) - 0.95) < 4 * math.sqrt(0.05 * 0.95 / 300) + 0.01
    )


def test_public_rows_of_more_classes_have_the_auc_of_scikit_learn():
    X = np.random.default_rng(0).normal(size=(900, 3))
    y = (X + np.random.default_rng(1).gumbel(size=X.shape)).argmax(axis=1)
    model = uneven.UnevenClassifier(alpha=0.01).fit(X[:300], y[:300])
    found = evaluate(model, X[300:], y[300:], epsilon=None)
    assert found.auc.value == pytest.approx(roc_auc_score(y[300:], model.predict_proba(X[300:]), multi_class="ovr"))
    assert found.auc.low < found.auc.value < found.auc.high < found.auc.low + 0.15
    with pytest.raises(ValueError, match="auc must be False for private rows of more than two classes, got 3"):
        evaluate(model, X[300:], y[300:], epsilon=1.0, auc=True)


def _pair(seed):
    X, y = rows(400, seed)
    return X[:, 0], y == 1


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_answers_are_epsilon_private(epsilon):
    """Each of the four answers, whatever the truth: probabilities p and q with p/q = e^ε, within standard error."""
    n, p = 200_000, math.exp(epsilon) / (math.exp(epsilon) + 3)
    for truth in range(4):
        shares = np.bincount(randomise(np.full(n, truth), epsilon, np.random.default_rng(truth)), minlength=4) / n
        for answer, share in enumerate(shares):
            expected = p if answer == truth else (1 - p) / 3
            assert abs(share - expected) < 4.5 * math.sqrt(expected * (1 - expected) / n)


def test_auc_of_true_shares_is_the_auc():
    """Shares as they would be on average, for any ε: the formula gives the AUC of scores cut at the thresholds."""
    X, y = rows(20_000)
    share = np.array([[((y == a) & ((X[:, 0] > t) == b)).mean() for a in (0, 1) for b in (0, 1)] for t in THRESHOLDS])
    cut = np.searchsorted(THRESHOLDS, X[:, 0])
    for epsilon in (0.2, 1.0, 8.0):
        q = 1 / (math.exp(epsilon) + 3)
        assert compute_auc(q + (1 - 4 * q) * share, epsilon) == pytest.approx(roc_auc_score(y, cut), abs=1e-9)


def test_rows_are_charged_before_they_answer(monkeypatch):
    X, y = rows(100)
    ledger = uneven.Ledger()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluation, "make_generator", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate(Fixed(), X, y, epsilon=1.0, ledger=ledger, source="clinic")
    assert len(ledger.spent("clinic")) == 100
    assert ledger.max_spent("clinic") == 1.0


def test_a_second_evaluation_is_refused_beyond_the_budget():
    X, y = rows(100)
    ledger = uneven.Ledger()
    evaluate(Fixed(), X, y, epsilon=1.0, ledger=ledger, budget=1.5)
    with pytest.raises(uneven.BudgetExceeded):
        evaluate(Fixed(), X, y, epsilon=1.0, ledger=ledger, budget=1.5)


def test_a_label_of_no_class_is_refused_unsaid_and_uncharged():
    X, y = rows(100)
    ledger, labels = uneven.Ledger(), y.astype(object)
    labels[17] = "HIV"
    with pytest.raises(ValueError, match="a row has another") as refusal:
        evaluate(Fixed(), X, labels, epsilon=1.0, ledger=ledger)
    assert "HIV" not in str(refusal.value)
    assert not ledger.sources()


def test_without_a_seed_answers_differ():
    X, y = rows(400)
    assert len({evaluate(Fixed(), X, y, epsilon=0.5).accuracy.value for _ in range(6)}) > 1


# What an attack found


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"row_id": [0]}, "row_id must have one number per row, 200 of them"),
        ({"y": np.zeros((200, 1), int)}, r"y must have one label per row of X, shape \(200,\), got shape \(200, 1\)"),
        ({"X": np.zeros((1, 1))}, r"y must have one label per row of X, shape \(1,\)"),
        ({"thresholds": [float("nan")], "auc": True}, "thresholds must be"),
        ({"thresholds": [0.0, float("inf")], "auc": True}, "thresholds must be"),
    ],
)
def test_nothing_is_answered_or_charged_for_rows_that_do_not_match(change, why):
    """A label or an id for several rows would let rows answer that were not charged."""
    X, y = rows(200)
    ledger = uneven.Ledger(budget=1.0)
    with pytest.raises(ValueError, match=why):
        evaluate(Fixed(), **{"X": X, "y": y, "epsilon": 1.0, "ledger": ledger, **change})
    assert ledger.sources() == {}


def test_a_budget_without_a_ledger_is_not_exceeded_by_a_hair():
    X, y = rows(100)
    with pytest.raises(ValueError, match="budget must be at least epsilon"):
        evaluate(Fixed(), X, y, epsilon=1.005, budget=1.0)


def test_a_seed_warns_that_answers_can_be_undone():
    X, y = rows(100)
    with pytest.warns(uneven.SimulationWarning, match="protects nobody"):
        evaluate(Fixed(), X, y, epsilon=1.0, seed=0)


def test_private_auc_has_the_interval_of_its_spread():
    """Half-widths beside 1.96 standard deviations of estimates on rows drawn again, which 400 tell to 3.5%.

    It may be too wide by a quarter, and narrower by no more than four standard errors.
    """
    found = []
    for k in range(400):
        rng = np.random.default_rng(k)
        positive = rng.random(3000) < 0.5
        scores = rng.normal(size=3000) + positive
        found.append(evaluation._private_auc(scores, positive, 3.0, np.linspace(-1, 2, 7), 0.95, rng))
    half = np.mean([one.value - one.low for one in found])
    assert 0.86 < half / (1.96 * np.std([one.value for one in found])) < 1.25
