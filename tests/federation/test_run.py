"""A federated run is the local run: the same plan, the same draws, the same weights."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from sites import EPSILON, FEATURES, ROWS, Network, make_rows, policy_text, train_locally

import uneven
from uneven.cli.federate import _teller, _words
from uneven.federation.calls import Ask
from uneven.federation.messages import STATE_KEYS
from uneven.federation.server import federate
from uneven.io import read_sources
from uneven.planner import count_kept

pytestmark = pytest.mark.filterwarnings("ignore::uneven.SimulationWarning")

SETTINGS = [
    {},
    {"moments": "estimated", "average": "growing"},
    {"strategy": "two-rates", "fit_intercept": False, "features": FEATURES},
    {"strategy": "averaged", "loss": "hinge", "clip": "none"},
]


def stepped(rows, kept):
    """How many rows of a site take a step."""
    return rows - count_kept(rows, kept)


def both(tmp_path, network, mode):
    local = train_locally(tmp_path)
    return local, federate(read_sources(tmp_path / "sources.toml"), Ask(network.call, 1.0), tmp_path / "job", mode=mode)


@pytest.mark.parametrize("top", SETTINGS, ids=str)
def test_relay_equals_the_local_run_to_the_bit(tmp_path, network, top):
    local, federated = both(tmp_path, network(top=top), "relay")
    np.testing.assert_array_equal(federated.model.coef, local.model.coef)
    np.testing.assert_array_equal(federated.model.intercept, local.model.intercept)
    assert federated.plan == local.plan
    assert federated.state.silent == local.trained.states[0].silent
    assert federated.model.privacy_spent == local.model.privacy_spent == dict.fromkeys(EPSILON, math.inf)  # a seed
    assert federated.model.simulated
    assert federated.left_out == {}


@pytest.mark.parametrize("top", SETTINGS, ids=str)
def test_oracle_equals_the_local_run_up_to_rounding(tmp_path, network, top):
    """Gradients are summed in the same order; the step is taken in NumPy, a few roundings away a step.

    A release may then fall into the next cell of the public grid, which is 2⁻¹⁸ of its noise.
    """
    sites = network(top=top)
    local, federated = both(tmp_path, sites, "oracle")
    np.testing.assert_allclose(federated.model.coef, local.model.coef, rtol=1e-5)
    kept = local.plan.kept
    assert federated.state.step == local.plan.steps == sum(-(-stepped(rows, kept) // 20) for rows in ROWS.values())
    assert federated.state.silent == local.trained.states[0].silent
    # Who is there, what is to come, a message per step, and where rows were kept, one for the shares of the classes and
    # one for the length of the weights.
    assert len(sites.messages) == 3 + 3 + local.plan.steps + 3 * (kept > 0) + 3 * (local.plan.tellers > 0)


def test_described_columns_are_encoded_at_the_sites(tmp_path, network):
    """Ranges and values as sources.toml states them: a site makes the same features as a local fit."""
    network().close()
    columns = "".join(f"{name} = {{ range = [-1, 1] }}\n" for name in FEATURES)
    for file in ("local.toml", "sources.toml"):
        head, *sources = (tmp_path / file).read_text().split("[[source]]")
        head = "".join(line for line in head.splitlines(keepends=True) if not line.startswith("features"))
        (tmp_path / file).write_text("[[source]]".join([f"{head}[columns]\n{columns}", *sources]))
    for name in ROWS:
        text = policy_text(name, seed=7, features=None)
        (tmp_path / name / "site.toml").write_text(f"{text}[columns]\n{columns}")
    sites = Network(tmp_path)
    local, federated = both(tmp_path, sites, "relay")
    sites.close()
    np.testing.assert_array_equal(federated.model.coef, local.model.coef)
    assert federated.model.columns == local.model.columns
    assert federated.model.feature_names == local.model.feature_names


@pytest.mark.parametrize("mode", ["relay", "oracle"])
def test_noise_once_a_batch(tmp_path, network, mode):
    """Site privacy: each batch's gradient is noisy before it leaves the site."""
    network().close()
    for file in ("local.toml", "sources.toml"):
        (tmp_path / file).write_text((tmp_path / file).read_text().replace("local-privacy", "site-privacy"))
    for name in ROWS:
        (tmp_path / name / "site.toml").write_text(policy_text(name, seed=7, noises=["site-privacy"]))
    sites = Network(tmp_path)
    local, federated = both(tmp_path, sites, mode)
    sites.close()
    np.testing.assert_allclose(federated.model.coef, local.model.coef, rtol=1e-5)
    said = _words(federated, Path("model.json"), rehearsed=False)
    assert [line for line in said if "protects a row" in line] == [uneven.SitePrivacy(1.0).promise]


def test_a_segment_that_takes_long_says_how_far_it_is(tmp_path, network, monkeypatch):
    sites, told = network(), []
    monkeypatch.setattr("uneven.federation.site.PATIENCE", 0.0)
    ask = Ask(lambda site, text: sites.sites[site].answer(text), 1.0, lambda *what: told.append(what))
    federate(read_sources(tmp_path / "sources.toml"), ask, tmp_path / "job")
    assert {what for _, what, _, _ in told} >= {"described", "asked", "at work", "done"}
    assert all(0 <= done <= of == ROWS[site] for site, what, done, of in told if what == "at work")


@pytest.mark.parametrize("mode", ["relay", "oracle", "anchored"])
def test_progress_is_told_at_the_server_and_at_the_site(tmp_path, network, monkeypatch, caplog, capsys, mode):
    """At both ends a line for each tenth of a site's rows, and the last is all of them that take steps."""
    caplog.set_level("INFO", "uneven.site")
    monkeypatch.setattr("uneven.federation.site.PATIENCE", 0.0)
    sites = network(public=("west",) if mode == "anchored" else (), top={"use": "all"})
    call = sites.call if mode == "oracle" else lambda site, text: sites.sites[site].answer(text)
    ask = Ask(call, 1.0, _teller())
    file = read_sources(tmp_path / "sources.toml")
    plan = federate(file, ask, tmp_path / "job", mode=mode.replace("anchored", "relay")).plan
    count = stepped(ROWS["east"], plan.kept)
    logged = [re.fullmatch(rf"\S+: (\d+) of {count} rows done", record.message) for record in caplog.records]
    rows = [int(found[1]) for found in logged if found]
    assert rows == sorted(set(rows))
    assert rows[-1] == count
    said = capsys.readouterr().err
    assert "uneven: east: asked, 0 of 260 rows" in said
    assert "uneven: east: done, 260 of 260 rows" in said
    if mode == "oracle":
        assert len(rows) == said.count("uneven: east: at work") == 10


@pytest.mark.parametrize("top", [{}, {"strategy": "precision"}], ids=str)
def test_relay_is_one_message_a_site(tmp_path, network, top):
    """The noisiest first; where rows are kept, one more before it for the classes and one after it for the length."""
    sites = network(top=top)
    both(tmp_path, sites, "relay")
    declared, once = ["east", "north", "west"], ["west", "east", "north"]
    assert [site for site, *_ in sites.messages] == [
        "east",
        "north",
        "west",
        *(once if top else [*declared, *once, *once]),
    ]


@pytest.mark.parametrize("mode", ["relay", "oracle"])
def test_what_crosses_the_wire_is_weights_and_counts(tmp_path, network, mode):
    sites = network(seed=None)
    federated = federate(read_sources(tmp_path / "sources.toml"), Ask(sites.call, 1.0), tmp_path / "job", mode=mode)
    replies = [json.loads(reply) for _, _, reply in sites.messages]
    allowed = {
        "rows",
        "site",
        "features",
        "columns",
        "classes",
        "row_norm",
        "epsilon",
        "simulated",
    }  # what a site says of itself
    allowed |= {"state", *STATE_KEYS, *ROWS, "total", "silent", "released"}
    allowed |= {"heard", "reached", "number", "precision"}  # shares and one number, from rows that took no step
    assert {key for reply in replies for key in keys_of(reply)} <= allowed
    longest = max(len(one) for reply in replies for one in lists_of(reply))
    assert longest == len(FEATURES) + 1 == federated.plan.problem.n_features
    values = {value for name in ROWS for value in make_rows(name, ROWS[name])[0].ravel().tolist()}
    sent = {value for reply in replies for one in lists_of(reply) for value in one if isinstance(value, float)}
    assert len(sent) > 10
    assert not values & sent


def keys_of(value):
    if isinstance(value, dict):
        yield from value
        for one in value.values():
            yield from keys_of(one)


def lists_of(value):
    if isinstance(value, list):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from lists_of(one)


def test_noise_without_a_seed_differs_from_run_to_run(tmp_path, network):
    sites = network(seed=None, budget=100.0)
    file = read_sources(tmp_path / "sources.toml")
    models = [federate(file, Ask(sites.call, 1.0), tmp_path / job).model for job in "ab"]
    assert (models[0].coef != models[1].coef).all()
    assert models[0].privacy_spent == EPSILON


# Sites that are away, refuse, or do not fit


def test_a_site_that_does_not_answer_is_left_out_and_the_result_says_so(tmp_path, network):
    sites = network()
    away = Network.__new__(Network)
    away.sites, away.messages = {name: sites.sites[name] for name in ("east", "west")}, []
    federated = federate(read_sources(tmp_path / "sources.toml"), Ask(away.call, 0.05), tmp_path / "job")
    assert federated.used == ("west", "east")
    assert federated.left_out == {"north": "no answer from 'north' for 0.05 s"}
    assert set(federated.model.privacy_spent) == {"east", "west"}


def test_a_site_lost_on_the_way_is_left_out(tmp_path, network):
    sites = network()

    def call(site, text):
        if site == "east" and '"task"' in text:
            raise ConnectionResetError
        return sites.call(site, text)

    federated = federate(read_sources(tmp_path / "sources.toml"), Ask(call, 0.05), tmp_path / "job")
    assert federated.used == ("west", "north")
    assert "no answer" in federated.left_out["east"]
    assert federated.state.step == 7 + 16


def saying(sites, **said):
    """A call in which 'north' says something else of itself."""

    def call(site, text):
        reply = json.loads(sites.call(site, text))
        return json.dumps(reply | said if site == "north" and '"describe"' in text else reply)

    return call


UNFIT = [
    ("features", ["a", "b", "c"], "its features must be ['a', 'b', 'c', 'd'], got ['a', 'b', 'c']"),
    ("classes", [0, 2], "its classes must be [0, 1], got [0, 2]"),
    ("row_norm", 2.0, "its row_norm must be 1.0, got 2.0"),
    ("columns", {"a": {"range": [0, 1]}}, "its columns must be None"),
    ("epsilon", 3.0, "it allows ε = 3 for one release of a row, and the plan asks for ε = 4"),
]


@pytest.mark.parametrize(("what", "other", "reason"), UNFIT)
def test_a_site_that_does_not_fit_is_left_out_before_a_row_is_spent(tmp_path, network, what, other, reason):
    """It is asked for nothing, and the plan is made without it."""
    sites = network()
    found = federate(
        read_sources(tmp_path / "sources.toml"), Ask(saying(sites, **{what: other}), 1.0), tmp_path / "job"
    )
    assert reason in found.left_out["north"]
    assert found.used == ("west", "east")
    assert [source.name for source in found.plan.sources] == ["east", "west"]
    assert sites.sites["north"].ledger.sources() == {}
    assert [text for site, text, _ in sites.messages if site == "north" and "describe" not in text] == []


@pytest.mark.parametrize("public", [("north",), ("north", "west")])
def test_the_only_anchor_that_does_not_fit_stops_the_run_before_a_row_is_spent(tmp_path, network, public):
    """Where another site can be the anchor, the run goes on with it."""
    sites, call = (made := network(public=public, top={"use": "all"})), saying(made, classes=[0, 2])
    file, ask = read_sources(tmp_path / "sources.toml"), Ask(call, 1.0)
    if "west" in public:
        assert set(federate(file, ask, tmp_path / "job").left_out) == {"north"}
        return
    with pytest.raises(ValueError, match=r"'north' must fit to be the anchor of the others: its classes .* no row was"):
        federate(file, ask, tmp_path / "job")
    assert all(site.ledger.sources() == {} for site in sites.sites.values())


def test_what_sites_disagree_on_without_a_majority_has_to_be_stated(tmp_path, network):
    """Of two, nobody knows which is right; of three, two are."""
    network().close()
    for file in ("sources.toml", "local.toml"):
        text = (tmp_path / file).read_text()
        (tmp_path / file).write_text(text.replace('features = ["a", "b", "c", "d"]', "n_features = 4"))
    sites = Network(tmp_path)
    found = federate(read_sources(tmp_path / "sources.toml"), Ask(saying(sites, features=["a"]), 1.0), tmp_path / "job")
    assert set(found.left_out) == {"north"}
    sites.sites.pop("west").close()
    with pytest.raises(ValueError, match=r"features must be stated in sources.toml, since sites do not agree"):
        federate(read_sources(tmp_path / "sources.toml"), Ask(saying(sites, features=["a"]), 0.01), tmp_path / "other")
    sites.close()


@pytest.mark.parametrize(
    ("top", "message"),
    [
        ({"strategy": "arbitrary"}, "strategy must use one source after the other"),
        ({"passes": 2}, "passes must be 1"),
        ({"class_weight": "balanced"}, "class_weight must be left out where rows stay at their sites"),
        ({"classes": [0, 1, 2]}, "classes must be two where rows stay at their sites, got 3"),
    ],
)
def test_what_sites_cannot_do_is_refused(tmp_path, network, top, message):
    sites = network(top=top)
    with pytest.raises(ValueError, match=message):
        federate(read_sources(tmp_path / "sources.toml"), Ask(sites.call, 1.0), tmp_path / "job")
    assert not any('"task"' in text for _, text, _ in sites.messages)


def test_a_server_that_stopped_goes_on_where_it_was(tmp_path, network):
    """The second life of the server asks for the third segment and the length only, and comes to the same weights."""
    sites, file = network(seed=7), read_sources(tmp_path / "sources.toml")
    local = train_locally(tmp_path)

    def dies(site, text):
        if site == "north" and '"task"' in text:
            raise KeyboardInterrupt
        return sites.call(site, text)

    with pytest.raises(KeyboardInterrupt):
        federate(file, Ask(dies, 1.0), tmp_path / "job")
    before = len(sites.messages)
    federated = federate(file, Ask(sites.call, 1.0), tmp_path / "job")
    np.testing.assert_array_equal(federated.model.coef, local.model.coef)
    assert len(sites.messages) == before + 1 + 3
    again = federate(file, Ask(sites.call, 1.0), tmp_path / "job")  # a finished job is not run again
    np.testing.assert_array_equal(again.model.coef, local.model.coef)
    assert len(sites.messages) == before + 1 + 3
    with pytest.raises(ValueError, match="must be the folder of this job"):
        federate(file, Ask(sites.call, 1.0), tmp_path / "job", mode="oracle")
