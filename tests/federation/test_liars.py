"""A site that answers wrongly is left out with one line, and the run goes on with the state before it."""

import itertools
import json
import math

import numpy as np
import pytest
from sites import EPSILON, ROWS, make_rows, write_rows

from uneven.federation.calls import Ask
from uneven.federation.evaluation import evaluate_sites
from uneven.federation.server import federate
from uneven.io import read_sources


def lying(sites, kind, change, name="east", after=0):
    """A call in which one site's replies to one kind of request are changed, after so many true ones."""
    seen = []

    def call(site, text):
        reply = sites.call(site, text)
        if site != name or json.loads(text)["kind"] != kind:
            return reply
        seen.append(text)
        return reply if len(seen) <= after else json.dumps(change(json.loads(reply)))

    return call


def without(sites, kind):
    """A call in which east refuses."""
    return lying(sites, kind, lambda _: {"refused": "no"})


def run(tmp_path, call, mode="relay", job="job", patience=1.0):
    return federate(read_sources(tmp_path / "sources.toml"), Ask(call, patience), tmp_path / job, mode=mode)


def in_state(**changed):
    return lambda reply: {**reply, "state": {**reply["state"], **changed}}


def put(**changed):
    return lambda reply: {**reply, **changed}


STATES = [
    in_state(weights=[0.0]),
    in_state(weights=[1e300] * 5),
    in_state(weights=["x"] * 5),
    in_state(step=1.5),
    in_state(step=-1),
    in_state(step=10**16),
    in_state(step=10**400),
    in_state(step=10**15),
    in_state(step=12),
    in_state(released={"north": 5}),
    in_state(released={"east": 10**15}),
    in_state(silent={"east": 261}),
    in_state(estimates={"north": [1.0, 1.0]}),
    in_state(clock=1e100),
    in_state(clock=0.0),
    in_state(weights=[1e9] * 5),
    in_state(average=[1e9] * 5),
    in_state(released={"east": 10**16}),
    in_state(silent=[1]),
    in_state(clock=None),
    put(state=3),
    lambda _: {},
]
ANSWERS = [
    put(total=[1.0]),
    put(total=[1e300] * 5),
    put(total=None),
    put(rows=0),
    put(rows=1),
    put(released=21),
    put(silent=-1),
    put(released=0.5),
    lambda _: {"closed": "x"},
    lambda _: {},
]


@pytest.mark.filterwarnings("ignore::uneven.SimulationWarning")
@pytest.mark.parametrize(("mode", "kind", "lies"), [("relay", "relay", STATES), ("oracle", "step", ANSWERS)])
def test_a_wrong_reply_leaves_the_site_out_and_the_state_as_it_was(tmp_path, network, mode, kind, lies):
    """With seeds, the weights are those of a run in which the site refused to begin; steps alone, no row is kept."""
    sites = network(seed=7, budget=1000.0, top={"strategy": "precision"})
    honest = run(tmp_path, without(sites, "relay" if mode == "relay" else "open"), mode, "honest")
    assert set(honest.model.privacy_spent) == {"west", "north"}  # a refusal charges nothing
    for number, lie in enumerate(lies):
        found = run(tmp_path, lying(sites, kind, lie, after=2 * (mode == "oracle")), mode, f"job{number}")
        assert found.used == ("west", "north")
        assert found.left_out["east"].startswith("'east' ")
        assert found.left_out["east"].isprintable()
        np.testing.assert_array_equal(found.model.coef, honest.model.coef)
        assert found.model.privacy_spent["east"] == math.inf


DESCRIPTIONS = [
    put(rows="many"),
    put(rows=10**15),
    put(rows=ROWS["east"] + 1),
    put(rows=0),
    put(features="abcd"),
    put(classes=None),
    put(columns=[]),
    put(simulated="no"),
    put(row_norm=[1]),
    lambda _: {"rows": 1},
    lambda _: {"failed": "a\n\x1b[31mred\x07"},
]


@pytest.mark.parametrize("lie", DESCRIPTIONS)
def test_a_wrong_description_leaves_the_site_out(tmp_path, network, lie):
    found = run(tmp_path, lying(network(seed=None), "describe", lie))
    assert found.used == ("west", "north")
    assert found.left_out["east"].isprintable()
    assert set(found.model.privacy_spent) == {"west", "north"}  # it was asked for no row


def test_a_wrong_evaluation_leaves_the_site_out(tmp_path, network):
    for name in ROWS:
        (tmp_path / name).mkdir()
        write_rows(tmp_path / name / "kept.csv", *make_rows(name, 50, seed=1))
    sites = network(seed=None, budget=10.0, kept="kept.csv")
    model = run(tmp_path, sites.call).model
    for lie in (put(said=51), put(said=-1), put(said=0.5), put(rows=0), put(rows="x"), lambda _: {}):
        found = evaluate_sites(model, Ask(lying(sites, "evaluate", lie), 1.0), list(ROWS), 0.9)
        assert set(found.sites) == {"north", "west"}
        assert found.left_out["east"].startswith("'east' sent a wrong reply: ")


@pytest.mark.parametrize("working", [{"rows": 0, "of": 260}, {"rows": 2, "of": 1}, {"rows": "x", "of": 1}, 3])
def test_a_site_at_work_without_progress_is_left_out(tmp_path, network, working):
    call = lying(network(seed=None), "relay", lambda _: {"working": working})
    found = run(tmp_path, call, patience=0.005)
    assert found.used == ("west", "north")
    expected = "at work without progress for 0.3 s" if working == {"rows": 0, "of": 260} else "sent a wrong reply"
    assert expected in found.left_out["east"]
    assert found.model.privacy_spent == EPSILON


def test_a_row_at_a_time_is_no_progress(tmp_path, network):
    rows = itertools.count()
    call = lying(network(seed=None), "relay", lambda _: {"working": {"rows": next(rows), "of": 10**15}})
    assert "without progress" in run(tmp_path, call, patience=0.005).left_out["east"]


@pytest.mark.parametrize(
    ("kind", "name"), [("anchor", "north"), ("add", "east")], ids=["the anchor", "a site added to it"]
)
@pytest.mark.parametrize("how", ["nothing", "half"])
def test_a_wrong_anchor_or_addition_leaves_the_site_out(tmp_path, network, kind, name, how):
    """Without an anchor that can be used, the private sites are asked for their steps."""
    sites = network(seed=None, public=("north",), top={"use": "all"})

    def lie(reply):
        part = "summary" if kind == "anchor" else "added"
        return {} if how == "nothing" else {**reply, part: {**reply[part], "covariance": "AAAA"}}

    found = run(tmp_path, lying(sites, kind, lie, name))
    assert set(found.left_out) == {name}
    assert set(found.used) == set(ROWS) - {name}
    assert found.model.privacy_spent == {one: EPSILON[one] for one in ("east", "west")}
    assert np.isfinite(found.model.coef).all()


@pytest.mark.parametrize(("mode", "kind"), [("relay", "relay"), ("oracle", "step")])
@pytest.mark.parametrize("said", ["failed", "refused"])
def test_a_site_lost_after_its_charge_has_spent(tmp_path, network, mode, kind, said):
    """A site that refuses at first has charged nothing; one that fails, or refuses a later step, has."""
    sites = network(seed=None, top={"strategy": "precision"})
    found = run(tmp_path, lying(sites, kind, lambda _: {said: "so"}, after=int(mode == "oracle")), mode)
    assert found.left_out == {"east": f"'east' {said}: so"}
    charged = mode == "oracle" or said == "failed"
    assert found.model.privacy_spent == {name: EPSILON[name] for name in ROWS if charged or name != "east"}


@pytest.mark.parametrize("lie", [in_state(released={"west": 1}), in_state(step=10**15), in_state(silent={"east": 261})])
def test_wrong_counts_of_a_site_added_to_an_anchor_leave_it_out(tmp_path, network, lie):
    sites = network(seed=None, public=("north",), top={"use": "all"})
    assert set(run(tmp_path, lying(sites, "add", lie)).left_out) == {"east"}
