"""Private sources that disagree with the public rows, or with one another: their order must not decide."""

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import minimize

import uneven
from uneven.anchor import Summary
from uneven.training import Camp, adding, anchoring, choose_rivals, join, mix

ALPHA, D = 1e-3, 8
TRUTH = np.append(np.full(4, 1.0), np.zeros(4))
TURNED = np.append(np.full(4, 0.5), np.full(4, 3**0.5 / 2))  # by 60 degrees


def summary(weights, covariance=0.0):
    return Summary(np.asarray(weights, dtype=float), covariance * np.eye(len(weights)), 0.1, True, True, ())


def draw(rng, n, weights):
    X = rng.normal(size=(n, D))
    X *= np.minimum(1.0, 5.0 / np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.where(X @ weights + rng.logistic(size=n) > 0, 1, -1)


def objective(w, X, y):
    return np.logaddexp(0.0, -y * (X @ w[:-1] + w[-1])).mean() + ALPHA / 2 * w[:-1] @ w[:-1]


def fit(sources, noise, order, seed):
    """An anchored fit; private sources of one ε are used in the order in which they are named."""
    X, y = (np.concatenate([sources[name][k] for name in order]) for k in (0, 1))
    names = np.repeat(order, [len(sources[name][1]) for name in order])
    settings = {"alpha": ALPHA, "row_norm": 5.0, "classes": [-1, 1], "random_state": seed, "use": "all"}
    clf = uneven.UnevenClassifier({name: noise[name] for name in order}, **settings).fit(X, y, source=names)
    return np.append(clf.coef_[0], clf.intercept_[0])


def test_the_order_of_sources_does_not_decide_which_are_believed():
    """One of three private sources is turned by 60 degrees: in every order all three are better than any part of them.

    The objective is that of all rows; excesses are means of three draws of the rows.
    """
    noise = {"open": uneven.Exact(), **dict.fromkeys(("one", "two", "turned"), uneven.LocalPrivacy(4.0))}
    orders = [("open", *order) for order in permutations(["one", "two", "turned"]) if order.index("one") < 2]
    found = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        sources = {"open": draw(rng, 1_000, TRUTH), **{name: draw(rng, 10_000, TRUTH) for name in ("one", "two")}}
        sources["turned"] = draw(rng, 10_000, TURNED)
        X, y = (np.concatenate([rows[k] for rows in sources.values()]) for k in (0, 1))
        best = minimize(objective, np.zeros(D + 1), (X, y), method="L-BFGS-B").fun
        every = (*orders, ("open", "one", "two"), ("one", "two", "turned"))
        found.append([objective(fit(sources, noise, order, seed), X, y) - best for order in every])
    *ours, agreeing, private = np.mean(found, axis=0)
    assert max(ours) < 0.2 * agreeing
    assert max(ours) < private


def test_sources_that_agree_with_one_another_and_not_with_the_public_rows_are_one_camp(monkeypatch):
    """Each after the first joins it, whatever comes between."""
    places, add = [], adding.PrivateSource.add
    monkeypatch.setattr(adding.PrivateSource, "add", lambda *a: places.append(add(*a)) or places[-1])
    rng = np.random.default_rng(0)
    noise = {"open": uneven.Exact(), **dict.fromkeys("abcd", uneven.LocalPrivacy(4.0))}
    truths = {"open": TRUTH, "a": -TRUTH, "b": TRUTH, "c": -TRUTH, "d": -TRUTH}
    sources = {name: draw(rng, 1_000 if name == "open" else 10_000, truth) for name, truth in truths.items()}
    fit(sources, noise, list(sources), 0)
    assert [one.place for one in places] == [1, 0, 1, 1]
    for one in places:
        assert np.sign(one.summary.weights[:4].sum()) == (1 if one.place == 0 else -1)


def test_a_source_is_compared_with_the_anchor_and_the_largest_other_camp():
    camps = [Camp(summary([0.0]), rows) for rows in (10, 20, 40, 30)]
    assert [choose_rivals(camps[:k]) for k in (1, 2, 4)] == [[0], [0, 1], [0, 2]]


def test_a_source_joins_a_camp_or_begins_one():
    camps = join([Camp(summary([1.0]), 10)], 1, Camp(summary([2.0]), 5))
    assert [(one.summary.weights.tolist(), one.rows) for one in camps] == [([1.0], 10), ([2.0], 5)]
    camps = join(camps, 0, Camp(summary([3.0]), 7))
    assert [(one.summary.weights.tolist(), one.rows) for one in camps] == [([3.0], 17), ([2.0], 5)]


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_answer_of_camps_is_by_rows(share):
    """Of independent answers: (1-s)w + sw', with covariance (1-s)²V + s²V'."""
    camps = [
        Camp(summary(np.ones(2), 1.0), int(100 * (1 - share))),
        Camp(summary(np.full(2, 2.0), 3.0), int(100 * share)),
    ]
    mixed = mix(camps)
    np.testing.assert_allclose(mixed.weights, 1.0 + share)
    np.testing.assert_allclose(mixed.covariance, ((1 - share) ** 2 + 3 * share**2) * np.eye(2))


def test_few_rows_measure_and_the_rest_still_step(monkeypatch):
    """Of a batch that is larger than a tenth of the rows, each comparison takes a tenth: most rows are left to step."""
    steps, advance = [], adding.PrivateSource._advance
    monkeypatch.setattr(adding.PrivateSource, "_advance", lambda *a: steps.append(len(a[3].y)) or advance(*a))
    rng = np.random.default_rng(0)
    noise = {"open": uneven.Exact(), "a": uneven.LocalPrivacy(30.0), "b": uneven.LocalPrivacy(30.0)}
    sources = {"open": draw(rng, 1_000, TRUTH), "a": draw(rng, 300, -TRUTH), "b": draw(rng, 300, TURNED - TRUTH)}
    monkeypatch.setattr(anchoring, "choose_batch_sizes", lambda *_: [200, 200])
    fit(sources, noise, list(sources), 0)
    assert sum(steps) in (2 * 270, 270 + 240)
