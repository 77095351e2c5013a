"""Private rows in many sources, or with an ε each, are worth what they are worth in one."""

import numpy as np
import pytest

import uneven
from uneven.planner import Plan
from uneven.training.grouping import FLIP_LEVELS, _round_to_grid

ROWS, TRUTH = 50_000, np.array([15.0, -12.0, 9.0, -6.0, 3.0])


def draw(n, rng):
    X = rng.normal(size=(n, 5))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 3.0)
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ TRUTH)), 1, -1)


FRESH = draw(100_000, np.random.default_rng(99))


def excess(clf):
    """Mean loss of fresh rows above that of the true weights, of which these labels are drawn."""
    X, y = FRESH
    return float(np.mean(np.logaddexp(0, -y * clf.decision_function(X)) - np.logaddexp(0, -y * (X @ TRUTH))))


def fit_split(seed, public, sources, epsilons=None, rows=ROWS, epsilon=1.0):
    """Fit of some public rows and many private ones, in so many sources of one ε; or at these ε, one a row."""
    X, y = draw(public + rows, np.random.default_rng(seed))
    names = [f"s{k}" for k in np.arange(rows) * sources // rows]
    noise = {"public": uneven.Exact(), **{name: uneven.LocalPrivacy(epsilon) for name in dict.fromkeys(names)}}
    own = None if epsilons is None else np.append(np.full(public, np.nan), epsilons)
    clf = uneven.UnevenClassifier(noise, random_state=seed, row_norm=1.0)
    return clf.fit(X, y, source=np.array(["public"] * public + names), epsilon=own)


def draw_epsilons(seed):
    """ε of 1 ± 1% and all different: grouped to 256 levels, rounded down."""
    return np.random.default_rng(seed).uniform(0.99, 1.01, ROWS)


def test_fifty_sources_are_decided_on_as_the_one_that_they_make():
    one, many = fit_split(0, 100, 1), fit_split(0, 100, 50)
    (whole,) = one.plan_.verdicts.values()
    assert whole.word == "worth it"
    assert {verdict.word for verdict in many.plan_.verdicts.values()} == {"worth it"}
    assert len(many.plan_.order) == 51
    assert many.plan_.anchored.excess == pytest.approx(one.plan_.anchored.excess, rel=1e-9)
    told = [line for line in many.plan_.summary().splitlines() if "worth it" in line]
    assert len(told) == 1
    assert told[0].startswith("50 private sources together: worth it.")


def test_rows_with_an_epsilon_each_are_decided_on_as_one_source():
    """But for the least useful of them, which bring less than 3% together: those are left out, and not charged."""
    one, own = fit_split(0, 100, 1), fit_split(0, 100, 1, draw_epsilons(0))
    verdicts = own.plan_.verdicts
    assert len(verdicts) > 200
    assert sum(verdict.word == "worth it" for verdict in verdicts.values()) > 0.25 * len(verdicts)
    assert {name for name, verdict in verdicts.items() if verdict.word == "no"} == set(verdicts) - set(own.plan_.order)
    assert own.plan_.anchored.excess == pytest.approx(one.plan_.anchored.excess, rel=0.05)


@pytest.mark.parametrize("settings", [{}, {"alpha": 1e-3}, {"use": "all"}])
def test_the_excess_of_a_verdict_is_that_of_the_plan(settings):
    """With sources that are left out the verdict of the others is on what is used, at the alpha that is used."""
    X, y = draw(20_100, np.random.default_rng(0))
    source = np.array(["public"] * 100 + ["good"] * 19_000 + ["poor"] * 1_000)
    noise = {"public": uneven.Exact(), "good": uneven.LocalPrivacy(4.0), "poor": uneven.LocalPrivacy(0.01)}
    plan = uneven.UnevenClassifier(noise, random_state=0, row_norm=1.0, **settings).fit(X, y, source=source).plan_
    good, poor = plan.verdicts["good"], plan.verdicts["poor"]
    assert (good.word, poor.word, "poor" in plan.order) == ("worth it", "no", "use" in settings)
    assert good.excess == pytest.approx(plan.anchored.excess, rel=1e-9)
    assert poor.excess_without == pytest.approx(plan.anchored.excess, rel=1e-2)
    assert poor.excess == pytest.approx(poor.excess_without, rel=0.03)


@pytest.mark.parametrize("public", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_the_answer_of_many_sources_is_as_good_as_that_of_one(public):
    """Mean excess over 8 draws, within 4 standard errors of that of one source and half as much again.

    Beside 8 public rows the curvature is not known: rows that only measure are lost, and must be few.
    """
    rows, found = 10_000, []
    for seed in range(8):
        fits = [fit_split(seed, public, sources, None, rows, 3.0) for sources in (1, 50, 200)]
        own = fit_split(seed, public, 1, 3.0 * draw_epsilons(seed)[:rows], rows)
        found.append([excess(clf) for clf in (*fits, own)])
    more = np.array(found)[:, 1:] - 1.5 * np.array(found)[:, :1]
    assert (more.mean(axis=0) <= 4 * more.std(axis=0, ddof=1) / 8**0.5).all()
    assert (np.mean(found, axis=0) < 0.1).all()  # of weights of zero it is .52


def test_verdicts_of_many_sources_are_saved_and_loaded(tmp_path):
    clf = fit_split(0, 100, 50)
    clf.save(tmp_path / "model.json")
    assert uneven.UnevenClassifier.load(tmp_path / "model.json").plan_ == clf.plan_
    old = clf.plan_.to_dict()
    for verdict in old["anchored"]["verdicts"].values():
        del verdict["others"]  # as plans were before
    assert {one.others for one in Plan.from_dict(old).verdicts.values()} == {0}


def test_rounded_flip_rates_are_within_half_a_step():
    rate = np.random.default_rng(0).uniform(0, 0.49, 5000)
    step = (rate.max() - rate.min()) / (FLIP_LEVELS - 1)
    assert np.abs(_round_to_grid(rate) - rate).max() <= step / 2 * (1 + 1e-9)
