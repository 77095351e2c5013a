"""What a private source brings, said before any ε is spent."""

import numpy as np
import pytest
from scipy.stats import binomtest

from uneven.anchor.uncertainty import fit_anchor
from uneven.anchor.verdicts import expect, judge_sources

TRUTH = np.array([6.0, -4.0, 2.0, 0.0, 0.0])


def rows(n, rng):
    X = rng.uniform(-1, 1, (n, 5)) * 0.4
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ TRUTH)), 1.0, -1.0)


@pytest.fixture(scope="module")
def anchor():
    return fit_anchor(*rows(80, np.random.default_rng(0)), 1e-3)


def test_much_information_is_worth_it_and_none_is_not(anchor):
    verdicts = judge_sources(anchor, {"many": lambda _: 1e7, "none": lambda _: 0.0})
    assert verdicts["many"].word == "worth it"
    assert verdicts["many"].use
    assert verdicts["none"].word == "no"
    assert not verdicts["none"].use
    assert verdicts["none"].excess == pytest.approx(verdicts["none"].excess_without)


def test_without_any_private_source_the_excess_is_that_of_the_anchor(anchor):
    excess, accuracy = expect(anchor, [])
    assert excess == pytest.approx(np.trace(anchor.hessian @ anchor.covariance) / 2, rel=1e-9)
    assert accuracy.value == pytest.approx(np.mean(anchor.margins > 0))


def test_more_information_means_less_excess_and_no_less_accuracy(anchor):
    found = [expect(anchor, [lambda _, clock=clock: clock]) for clock in (0.0, 1e2, 1e4, 1e6)]
    assert (np.diff([excess for excess, _ in found]) < 0).all()
    assert (np.diff([accuracy.value for _, accuracy in found]) > -2e-3).all()  # drawn, not exact


def test_the_interval_is_wilsons_moved_by_the_gain(anchor):
    """Both ends, without private rows and with some: beside SciPy's."""
    correct = binomtest(int(np.sum(anchor.margins > 0)), len(anchor.margins))
    wilson, alone = correct.proportion_ci(method="wilson"), expect(anchor, [])[1]
    assert [alone.low, alone.high] == pytest.approx([wilson.low, wilson.high], abs=1e-5)  # 1.96 for 1.959964
    helped = expect(anchor, [lambda _: 1e6])[1]
    gain = helped.value - alone.value
    assert gain > 0.001
    assert [helped.low, helped.high] == pytest.approx([wilson.low + gain, wilson.high + gain], abs=1e-5)


def test_the_interval_holds_the_accuracy_of_fresh_rows():
    """95% intervals for the start's own accuracy, over 100 anchors: at least 88 hold (4 standard errors)."""
    rng, held = np.random.default_rng(1), 0
    X, y = rows(20_000, rng)
    for _ in range(100):
        anchor = fit_anchor(*rows(80, rng), 1e-3)
        accuracy = expect(anchor, [])[1]
        held += accuracy.low <= np.mean(y * (X @ anchor.weights) > 0) <= accuracy.high
    assert held >= 88
