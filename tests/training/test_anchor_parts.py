"""Parts of an anchored fit beside direct computations."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import softmax

import uneven
from uneven import Exact, FlippedLabels, LocalPrivacy, Problem
from uneven.anchor import choose_coordinates, expected_excess, list_frames, measure_information
from uneven.anchor.classes import _Rows
from uneven.training import adding, anchoring
from uneven.training.convergence import find_carried_share
from uneven.training.grouping import group_pieces

COUNTS = {"public": 120, "first": 300, "second": 500}


def fit(monkeypatch, most=None):
    """An anchored fit of three sources, of whose public rows at most so many are looked at; and what it was made of."""
    seen = SimpleNamespace(sources=[], anchors=[])
    if most is not None:
        for name in ("LEAST_SAMPLE", "LARGEST_SAMPLE"):
            monkeypatch.setattr(anchoring, name, most)
    private, look, learn = anchoring.PrivateSource, anchoring._look, anchoring.fit_public
    monkeypatch.setattr(anchoring, "PrivateSource", lambda *a: seen.sources.append(private(*a)) or seen.sources[-1])
    monkeypatch.setattr(anchoring, "_look", lambda *a: seen.anchors.append(look(*a)) or seen.anchors[-1])
    monkeypatch.setattr(anchoring, "fit_public", lambda *a: seen.anchors.append(learn(*a)) or seen.anchors[-1])
    rng, n = np.random.default_rng(0), sum(COUNTS.values())
    X = rng.uniform(-0.5, 0.5, (n, 3))
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-X @ [5.0, -4.0, 0.0])), 1, 0)
    noise = {"public": Exact(), "first": LocalPrivacy(6.0), "second": LocalPrivacy(3.0)}
    clf = uneven.UnevenClassifier(noise, random_state=0, row_norm=1.0, use="all", alpha=1e-3)
    return clf.fit(X, y, source=np.repeat(list(COUNTS), list(COUNTS.values()))), seen


def test_the_covariance_of_a_sample_is_that_of_all_public_rows(monkeypatch):
    """Rows are 120, of which every third is looked at: a third of the sample's covariance, at the answer of all."""
    _, seen = fit(monkeypatch, most=40)
    looked, anchor = seen.anchors
    assert len(looked.X) < 120
    np.testing.assert_allclose(anchor.covariance, looked.covariance * len(looked.X) / 120)
    assert not np.allclose(anchor.weights, looked.weights)


def test_a_public_row_is_worth_what_one_more_takes_from_the_expected_excess(monkeypatch):
    """Beside a private one: E(n+1) and E(τ+row) by their definition, in the coordinates that the plan is in."""
    clf, seen = fit(monkeypatch)
    anchor, plan = seen.anchors[-1], clf.plan_
    sources = {one.name: seen_one for one in plan.sources for seen_one in seen.sources if seen_one.name == one.name}
    clocks = [measure_information(one.noise, one.rows, one.problem) for one in sources.values()]
    c = choose_coordinates(list_frames(anchor), lambda activity: sum(clock(activity) for clock in clocks))
    tau = sum(clock(c.activity) for clock in clocks)
    row = measure_information(sources["first"].noise, 1, sources["first"].problem)(c.activity)
    now, step = expected_excess(c, tau), 1e-3
    public = (now - expected_excess(replace(c, covariance=c.covariance / (1 + step)), tau)) / (step * 120)
    private = (now - expected_excess(c, tau * (1 + step))) / (step * tau) * row
    assert plan.exchange["first"] / plan.exchange["public"] == pytest.approx(private / public, rel=0.02)  # steps of 1%


def test_the_carried_share_counts_rows_by_their_worth():
    """Labels flipped at σ count (1-2σ)²: 100 exact rows and 400 at σ = ¼ are half and half."""
    groups, problem = group_pieces({"a": 100, "b": 400}, {"a": Exact(), "b": FlippedLabels(0.25)}), Problem(3, 1e-3, 1)
    assert find_carried_share(groups, problem, ["a"]) == pytest.approx(0.5)
    assert find_carried_share(groups, problem, ["a", "b"]) == 1.0


def test_each_private_row_counts_once(monkeypatch):
    """Rows that measure whether a source agrees, and rows that step, are all of its rows and none twice."""
    counted, measure = [], adding.measure_information
    monkeypatch.setattr(adding, "measure_information", lambda *a: counted.append(a[1]) or measure(*a))
    fit(monkeypatch)
    assert counted == [30, 270, 50, 450]


def test_the_start_is_looked_for_from_what_cross_validation_chose(monkeypatch):
    """That is the alpha of a fit of the public rows alone, whatever share of all rows they are."""
    seen, look = [], anchoring._look
    monkeypatch.setattr(anchoring, "_look", lambda *a: seen.append(a) or look(*a))
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (3_000, 3))
    y = np.where(rng.random(3_000) < 1 / (1 + np.exp(-X @ [5.0, -4.0, 0.0])), 1, 0)
    source = np.repeat(["public", "private"], [500, 2_500])
    noise = {"public": Exact(), "private": LocalPrivacy(6.0)}
    clf, alone = (
        uneven.UnevenClassifier(noise, random_state=0, row_norm=1.0, classes=[0, 1], use="all").fit(
            X[:n], y[:n], source=source[:n]
        )
        for n in (3_000, 500)
    )
    ((job, _, _, chosen),) = seen
    assert chosen * job.problem.alpha_unit == pytest.approx(alone.alpha_, rel=1e-6)
    assert clf.alpha_ < alone.alpha_


def test_rows_of_more_classes_without_residuals_are_still_unsure():
    """Half a row on the wrong side adds 2H/n to S, so V₀ = H₀⁻¹(2H/n²)H₀⁻¹, centred over the classes."""
    rng, n, d, classes = np.random.default_rng(0), 30, 2, 3
    X, scores, ridge = rng.normal(size=(n, d)), rng.normal(size=(n, classes)), np.full(classes * d, 0.1)
    every = np.ones((n, classes))
    rows = _Rows(X, softmax(scores, axis=1), every, np.ones(n), np.ones(classes), False)
    H = rows.curvature(scores)
    inverse = np.linalg.inv(H + np.diag(ridge))
    centred = np.kron(np.eye(classes) - 1 / classes, np.eye(d))
    expected = centred @ inverse @ (2.0 * H / n**2) @ inverse @ centred
    found, _ = rows.sandwich(scores, np.ones(classes * d), ridge, ridge, 1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_an_anchor_penalises_its_intercept_next_to_nothing(classes):
    """A hundredth of the weights' own factor for each class; and all alike without an intercept."""
    outputs = classes if classes > 2 else 1
    problem = Problem(3 * outputs, 1e-3, 1, classes=classes)
    assert anchoring.weigh_penalty(problem, intercept=True).tolist() == [1.0, 1.0, 0.01] * outputs
    assert anchoring.weigh_penalty(problem, intercept=False).tolist() == [1.0] * (3 * outputs)
