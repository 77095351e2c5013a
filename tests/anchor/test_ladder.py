"""Which private sources are left out, and that many small ones count as the large one that they make."""

from dataclasses import replace

import numpy as np
import pytest

from uneven.anchor.classes import fit_class_anchor, list_frames
from uneven.anchor.clock import expected_excess
from uneven.anchor.ladder import LITTLE, WORTH, rank_sources
from uneven.anchor.rows import PublicRows
from uneven.anchor.shape import find_plain_coordinates
from uneven.anchor.uncertainty import fit_anchor
from uneven.anchor.verdicts import COMPUTED, expect, judge_sources
from uneven.problem import Problem

TRUTH = np.array([6.0, -4.0, 2.0, 0.0, 0.0])


@pytest.fixture(scope="module")
def anchor():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (80, 5)) * 0.4
    return fit_anchor(X, np.where(rng.random(80) < 1 / (1 + np.exp(-X @ TRUTH)), 1.0, -1.0), 1e-3)


def brings(clock, less=0.0):
    """A source that brings this much, and less where rows are more active."""
    return lambda activity: clock * (1.0 - less * activity)


def leave_out_one_by_one(anchor, sources):
    """The rule as a loop: the least useful of those left goes, while all that are gone are not worth using."""
    left, everything = dict(sources), expect(anchor, list(sources.values()))[0]
    while left:
        least = min(left, key=lambda name: left[name](0.0))
        fewer = {name: one for name, one in left.items() if name != least}
        if everything <= LITTLE * expect(anchor, list(fewer.values()))[0]:
            break
        left = fewer
    return set(left)


@pytest.mark.parametrize("seed", range(10))
def test_sources_are_left_out_as_the_loop_leaves_them_out(anchor, seed):
    rng = np.random.default_rng(seed)
    clocks = 10.0 ** rng.uniform(-1, 4, rng.integers(1, 30))
    sources = {str(k): brings(clock, less=0.5) for k, clock in enumerate(clocks)}
    verdicts = judge_sources(anchor, sources)
    used = {name for name, one in verdicts.items() if one.use}
    assert used == leave_out_one_by_one(anchor, sources)
    for name, one in verdicts.items():
        no_more = [other for other in sources if sources[other](0.0) <= sources[name](0.0)]
        without = expect(anchor, [sources[other] for other in sources if other not in no_more])[0]
        assert (one.others, one.excess_without) == (len(no_more) - 1, pytest.approx(without, rel=1e-9))
        assert one.word == ("no" if name not in used else "worth it" if one.excess <= WORTH * without else "little")


@pytest.mark.parametrize("clock", [1.0, 30.0, 1e4])
def test_many_small_sources_are_judged_as_the_one_that_they_make(anchor, clock):
    whole = judge_sources(anchor, {"one": brings(clock)})["one"]
    for one in judge_sources(anchor, {str(k): brings(clock / 50) for k in range(50)}).values():
        assert (one.word, one.others) == (whole.word, 49)
        assert [one.excess, one.excess_without] == pytest.approx([whole.excess, whole.excess_without], rel=1e-9)
        assert one.accuracy.value == pytest.approx(whole.accuracy.value, rel=1e-9)


def test_each_would_be_left_out_though_all_help(anchor):
    """Beside the other 49, one of them is not worth its ε; all 50 are."""
    source = brings(1e4 / 50)
    assert expect(anchor, [source] * 50)[0] > LITTLE * expect(anchor, [source] * 49)[0]
    assert expect(anchor, [source] * 50)[0] < WORTH * expect(anchor, [])[0]
    assert rank_sources(list_frames(anchor), [source] * 50).used.all()


def test_sources_that_do_harm_are_left_out(anchor):
    """Clipping moves the optimum: with so much of it, more rows bring a larger excess than none."""
    plain = find_plain_coordinates(anchor)
    harmful = replace(plain, clip_shift=10.0 * np.sqrt(plain.variance) * plain.curvature)
    assert expected_excess(harmful, 1e4) > expected_excess(harmful, 0.0)
    assert not rank_sources([harmful], [brings(5e3), brings(4e3)]).used.any()


def test_without_private_rows_the_coordinates_are_those_of_rows_as_they_are(anchor):
    """All are alike there: rounding must not choose."""
    plain = find_plain_coordinates(anchor)
    others = [replace(plain, covariance=factor * plain.covariance) for factor in (1.0 - 1e-9, 1.0 + 1e-9)]
    ladder = rank_sources([plain, *others], [brings(1e4)])
    assert ladder.frames[-1] is plain
    assert ladder.computed[-1] == pytest.approx(expected_excess(plain, 0.0))


def test_a_thousand_sources_are_asked_once_for_each_of_the_coordinates(anchor):
    asked = []

    def source(k):
        return lambda _: asked.append(k) or float(k)

    verdicts = judge_sources(anchor, {str(k): source(k) for k in range(1_000)})
    assert len(verdicts) == 1_000
    assert len(asked) == 1_000 * len(list_frames(anchor))


def test_accuracies_between_the_computed_ones_are_as_if_computed(anchor):
    """Interpolated over 200 steps: no further off than neighbours that are computed are from one another."""
    clocks = np.geomspace(1.0, 1e4, 200)
    sources = {str(k): brings(clock) for k, clock in enumerate(clocks)}
    verdicts = judge_sources(anchor, sources)
    assert len(sources) > COMPUTED
    for k in (40, 100, 150, 190):
        direct = expect(anchor, [brings(clock) for clock in clocks[k + 1 :]])[1]
        found = verdicts[str(k)].accuracy_without
        assert [found.value, found.low, found.high] == pytest.approx([direct.value, direct.low, direct.high], abs=2e-3)


def test_sources_that_help_are_used_where_all_is_worse_than_nothing(anchor):
    """Expectations are shown as at most log 2, and compared as they are."""
    lost = anchor.moved(anchor.weights, 100.0 * anchor.covariance)
    found = judge_sources(lost, {"a": brings(10.0)})["a"]
    assert found.excess == found.excess_without == pytest.approx(np.log(2))
    assert found.word == "little"


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0, 1.0), (0.1, 0.2, 0.3, 1.0)])
def test_nobody_is_expected_to_be_worse_than_weights_of_zero(weights):
    """f(0) of K classes is log K times what a row counts on average; and so is that of rows of one class."""
    rng, labels = np.random.default_rng(0), np.repeat(np.arange(4.0), 10)
    X = rng.uniform(-0.5, 0.5, (40, 3))
    problem = Problem(12, 1e-3, 1, class_weights=weights, classes=4)
    anchor = fit_class_anchor(problem, [PublicRows.from_arrays(X, labels)], np.ones(12), None)
    most = np.mean([weights[int(one)] for one in labels]) * np.log(4)
    vague = anchor.moved(anchor.weights, 1e6 * anchor.covariance)
    (found,) = judge_sources(vague, {"a": brings(1e-6)}).values()
    assert found.excess_without == pytest.approx(most, rel=1e-12)
    lacks = fit_class_anchor(problem, [PublicRows.from_arrays(X[:10], labels[:10])], np.ones(12), None)
    assert np.sum(lacks.hessian * lacks.covariance) / 2 == pytest.approx(lacks.counts.mean() * np.log(4))


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.1, 1.0)])
def test_weights_of_zero_lose_by_what_rows_count(weights):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (40, 3)), np.where(np.arange(40) < 30, -1.0, 1.0)
    anchor = fit_anchor(X, y, 1e-3, class_weights=weights)
    (found,) = judge_sources(anchor.moved(anchor.weights, 1e6 * anchor.covariance), {"a": brings(1e-6)}).values()
    assert found.excess_without == pytest.approx((0.75 * weights[0] + 0.25 * weights[1]) * np.log(2), rel=1e-12)
    lacks = fit_anchor(X[:30], y[:30], 1e-3, class_weights=weights)
    assert np.sum(lacks.hessian * lacks.covariance) / 2 == pytest.approx(lacks.counts.mean() * np.log(2))
