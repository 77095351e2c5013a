"""Accuracy over sites: one randomised bit of each row kept aside, charged, and asked for once."""

import json
import math

import numpy as np
import pytest
from sites import ROWS, make_rows, write_rows

from uneven.federation.calls import Ask
from uneven.federation.evaluation import evaluate_sites
from uneven.federation.scores import count_said
from uneven.federation.server import federate
from uneven.io import read_sources
from uneven.training.rows import ArrayRows, Piece

ROWS_KEPT = {"east": 900, "north": 700, "west": 800}
EPSILON = 0.9


@pytest.fixture
def sites(tmp_path, network):
    """Sites with rows kept aside, and the model they learned."""
    for name, count in ROWS_KEPT.items():
        (tmp_path / name).mkdir()
        write_rows(tmp_path / name / "kept.csv", *make_rows(name, count, seed=1))
    return network(seed=None, budget=10.0, kept="kept.csv")


@pytest.fixture
def model(tmp_path, sites):
    return federate(read_sources(tmp_path / "sources.toml"), Ask(sites.call, 1.0), tmp_path / "job").model


def test_accuracy_with_an_interval(sites, model):
    """Unbiased: within four standard errors of a flipped share, √(σ(1-σ)/n)/(1-2σ) and the sampling's, of the truth."""
    found = evaluate_sites(model, Ask(sites.call, 1.0), list(ROWS), EPSILON)
    kept = [make_rows(name, count, seed=1) for name, count in ROWS_KEPT.items()]
    truth = np.mean(np.concatenate([model.predict(X) == y for X, y in kept]))
    n, rate = sum(ROWS_KEPT.values()), 1.0 / (1.0 + math.exp(EPSILON))
    error = math.sqrt(0.25 / n) / (1.0 - 2.0 * rate)
    assert found.accuracy.rows == n
    assert abs(found.accuracy.value - truth) < 4.0 * error
    assert found.accuracy.low < found.accuracy.value < found.accuracy.high
    assert found.accuracy.high - found.accuracy.low == pytest.approx(2 * 1.96 * error, rel=0.15)
    assert {name: one.rows for name, one in found.sites.items()} == ROWS_KEPT


def test_rows_kept_aside_are_charged_once_however_often_they_are_asked(sites, model):
    first, again = (evaluate_sites(model, Ask(sites.call, 1.0), list(ROWS), EPSILON) for _ in range(2))
    assert first == again
    for name, site in sites.sites.items():
        assert site.ledger.sources()[f"{name}, kept"] == ROWS_KEPT[name]
        assert site.ledger.max_spent(f"{name}, kept") == EPSILON
    replies = [json.loads(reply) for _, text, reply in sites.messages if '"evaluate"' in text]
    assert all(set(reply) == {"said", "rows"} for reply in replies)


def test_a_larger_epsilon_is_refused_and_the_result_says_so(sites, model):
    found = evaluate_sites(model, Ask(sites.call, 1.0), list(ROWS), 1.5)
    assert set(found.sites) == {"east", "north"}
    assert "epsilon of 'west' must be at most 1 for one release, got 1.5" in found.left_out["west"]


def test_a_site_without_such_rows_says_so(tmp_path, network):
    sites = network(seed=None)
    model = federate(read_sources(tmp_path / "sources.toml"), Ask(sites.call, 1.0), tmp_path / "job").model
    with pytest.raises(ConnectionError, match="has no rows kept aside"):
        evaluate_sites(model, Ask(sites.call, 1.0), ["east"], EPSILON)


def test_answers_without_a_seed_come_from_no_fixed_one():
    """Of 2,000 bits flipped with probability 1/2 nearly, six sums agree with probability below 1e-8."""
    rows = ArrayRows(Piece(*make_rows("east", 2000)))
    said = {count_said(rows, np.ones(4), 0.0, 1.0, np.array([0, 1]), 0.01, None) for _ in range(6)}
    assert len(said) > 1
