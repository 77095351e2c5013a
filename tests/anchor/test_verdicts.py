"""What a private source brings, said before any ε is spent."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import entr, softmax
from scipy.stats import binomtest

from uneven import LocalPrivacy, SitePrivacy
from uneven.anchor.accuracy import expect_gain
from uneven.anchor.shape import find_plain_coordinates
from uneven.anchor.uncertainty import fit_anchor
from uneven.anchor.verdicts import choose_batch_sizes, expect, judge_sources
from uneven.problem import Problem

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
    assert (np.diff([accuracy.value for _, accuracy in found]) >= 0).all()


@pytest.mark.parametrize("classes", [2, 5])
def test_the_gain_in_accuracy_is_that_of_calibrated_classifiers(classes):
    """Scores of a fresh draw: the accuracy of one log-loss above that of another, within 4 standard errors."""
    rng = np.random.default_rng(0)
    shares = np.arange(1.0, classes + 1.0) / np.arange(1.0, classes + 1.0).sum()
    scores = rng.standard_normal((40_000, classes))
    seen = []
    for spread in (0.8, 2.5):
        p = softmax(np.log(shares) + spread * scores, axis=1)
        labels = (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1)
        right, losses = p.argmax(axis=1) == labels, -np.log(p[np.arange(len(p)), labels])
        seen.append([losses.mean(), right.mean()])
    (before, first), (after, second) = seen
    error = 4.0 * (0.5 / 1_000**0.5) * 0.2  # both accuracies are from the same draws of 1,000
    assert expect_gain(shares, before, after) == pytest.approx(second - first, abs=error)
    assert expect_gain(shares, after, before) == pytest.approx(first - second, abs=error)
    assert expect_gain(shares, 9.0, -entr(shares).sum() + 9.0) == 0.0


def test_the_interval_is_wilsons_moved_by_the_gain(anchor):
    """Both ends, without private rows and with some: beside SciPy's."""
    correct = binomtest(int(np.sum(anchor.margins > 0)), len(anchor.margins))
    wilson, alone = correct.proportion_ci(method="wilson"), expect(anchor, [])[1]
    assert [alone.low, alone.high] == pytest.approx([wilson.low, wilson.high], abs=1e-5)  # 1.96 for 1.959964
    helped = expect(anchor, [lambda _: 1e6])[1]
    gain = helped.value - alone.value
    assert gain > 0.001
    assert [helped.low, helped.high] == pytest.approx([wilson.low + gain, wilson.high + gain], abs=1e-5)


@pytest.mark.parametrize(("rate", "skew"), [(0.1, 0.0), (0.3, 0.0), (0.25, 0.15)])
def test_the_interval_holds_the_accuracy_where_labels_are_flipped(rate, skew):
    """Labels y flipped at rate + y·skew: at least 88 of 100 intervals hold, and their middle is without bias."""
    rng, held, off = np.random.default_rng(1), 0, []
    X, y = rows(20_000, rng)
    for _ in range(100):
        mine, true = rows(300, rng)
        seen = np.where(rng.random(300) < rate + true * skew, -true, true)
        anchor = fit_anchor(mine, seen, 1e-3, rates=np.full(300, rate), skews=np.full(300, skew))
        accuracy, found = expect(anchor, [])[1], np.mean(y * (X @ anchor.weights) > 0)
        held += accuracy.low <= found <= accuracy.high
        off.append(accuracy.value - found)
    assert held >= 88
    assert abs(np.mean(off)) < 4 * np.std(off) / 10


def test_flipped_rows_tell_as_much_as_so_many_exact_ones(anchor):
    """Var q̂ by its definition, q̂ = Σc·hit/Σc: beside what `tested` says, for two rates and exact rows together."""
    rates = np.repeat([0.0, 0.1, 0.3], [40, 20, 20])
    flipped = replace(anchor, rates=rates, hits=np.repeat([1.0, 0.0], [64, 16]))
    share, effective = flipped.tested
    c = (1 - 2 * rates) ** 2
    assert share == pytest.approx(np.average(np.repeat([1.0, 0.0], [64, 16]), weights=c))
    q = (share * c.sum() + 2) / (c.sum() + 4)
    a = q * (1 - rates) + (1 - q) * rates
    variance = (c**2 * a * (1 - a) / (1 - 2 * rates) ** 2).sum() / c.sum() ** 2
    assert q * (1 - q) / effective == pytest.approx(variance)
    assert effective < c.sum() < 80
    assert replace(anchor, rates=0.0).tested[1] == pytest.approx(80)


@pytest.mark.slow
def test_the_interval_holds_the_accuracy_of_fresh_rows():
    """95% intervals for the start's own accuracy, over 100 anchors: at least 88 hold (4 standard errors)."""
    rng, held = np.random.default_rng(1), 0
    X, y = rows(20_000, rng)
    for _ in range(100):
        anchor = fit_anchor(*rows(80, rng), 1e-3)
        accuracy = expect(anchor, [])[1]
        held += accuracy.low <= np.mean(y * (X @ anchor.weights) > 0) <= accuracy.high
    assert held >= 88


def test_scores_in_other_units_have_the_same_log_loss(anchor):
    """Where a loss has no probabilities, scores are scaled to be log-odds: three times as long they say the same."""
    plain = replace(anchor, loss=replace(anchor.loss, probabilistic=False))
    longer = replace(plain, weights=3 * plain.weights, margins=3 * plain.margins)
    assert longer.log_loss == pytest.approx(plain.log_loss, rel=1e-12)
    assert plain.log_loss <= 1.01 * anchor.log_loss


def test_accuracy_without_a_source_is_that_of_the_others(anchor):
    """The larger source is judged together with the smaller: without both there is the anchor alone."""
    large, small = (lambda _: 1e6), (lambda _: 1e2)
    verdicts = judge_sources(anchor, {"large": large, "small": small})
    assert verdicts["large"].accuracy_without == expect(anchor, [])[1]
    assert verdicts["small"].accuracy_without == expect(anchor, [large])[1]
    assert verdicts["small"].accuracy == expect(anchor, [large, small])[1]


def test_private_rows_are_not_expected_to_take_away_more_than_most_of_the_loss(anchor):
    """An uncertainty of any size: three quarters of the loss of rows left out."""
    vague = anchor.moved(anchor.weights, 1e6 * anchor.covariance)
    sure = expect(vague, [lambda _: 1e12])[1]
    gain = expect_gain(anchor.shares, anchor.log_loss, anchor.log_loss / 4)
    assert sure.value - expect(vague, [])[1].value == pytest.approx(min(gain, 1.0 - np.mean(anchor.margins > 0)))


def test_sources_of_one_noise_are_split_into_steps_together(anchor):
    """Twenty sites step as one of their rows would, none with a batch beyond its rows; local privacy keeps the size."""
    problem, plain = Problem(5, 1e-3, 50, own_batches=True), find_plain_coordinates(anchor)
    site, other, local = SitePrivacy(1.0), SitePrivacy(0.3), LocalPrivacy(1.0)
    ((one,), parts) = (
        choose_batch_sizes(problem, plain, sources) for sources in ([(site, 20_000)], [(site, 1_000)] * 20)
    )
    assert parts == [min(one, 1_000)] * 20
    (alone,) = choose_batch_sizes(problem, plain, [(site, 1_000)])
    assert alone != parts[0]
    mixed = choose_batch_sizes(problem, plain, [(local, 30), (site, 19_990), (other, 1_000), (site, 10)])
    assert mixed == [50, one, *choose_batch_sizes(problem, plain, [(other, 1_000)]), 10]
    assert choose_batch_sizes(replace(problem, own_batches=False), plain, [(site, 1_000), (site, 10)]) == [50, 50]
