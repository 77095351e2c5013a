"""Files of a site that change while it runs: what is released is what was charged, or nothing."""

import json
import os
import shutil
from functools import partial

import pytest
from sites import (
    EPSILON,
    FEATURES,
    ROWS,
    Network,
    make_folders,
    make_rows,
    policy_text,
    request,
    spent,
    step,
    write_rows,
)

from uneven import Ledger
from uneven.federation.calls import Ask
from uneven.federation.policy import read_policy
from uneven.federation.segments import Batches
from uneven.federation.server import federate
from uneven.federation.site import Site
from uneven.io import read_sources
from uneven.training.scan import scan_rows

RELAY, OPEN = request(), request("open")
EVALUATE = {key: request()[key] for key in ("name", "features", "columns", "classes", "row_norm")}
EVALUATE |= {"kind": "evaluate", "job": "e", "coef": [1.0] * len(FEATURES), "intercept": 0.0, "epsilon": 2.0}
FAILED = {"failed": "'east' could not answer; its own log says why"}


@pytest.fixture
def open_east(tmp_path, monkeypatch):
    """Opens the site 'east' with rows kept aside; its rows are in memory only if `held`."""
    made = []

    def open_it(held):
        make_folders(tmp_path, seed=None, kept="kept.csv")
        write_rows(tmp_path / "east" / "kept.csv", *make_rows("east", 50, seed=1))
        if not held:
            monkeypatch.setattr("uneven.federation.rows.scan_rows", partial(scan_rows, held_bytes=0))
        made.append(Network(tmp_path, ["east"]))
        return made[-1]

    yield open_it
    for one in made:
        one.close()


def change(tmp_path, rows=ROWS["east"]):
    """Tonight's export: other people, in both files."""
    write_rows(tmp_path / "east" / "rows.csv", *make_rows("east", rows, seed=5))
    write_rows(tmp_path / "east" / "kept.csv", *make_rows("east", rows - ROWS["east"] + 50, seed=6))


@pytest.mark.parametrize("message", [RELAY, OPEN, EVALUATE], ids=["relay", "open", "evaluate"])
def test_a_file_that_has_changed_is_not_read_again(tmp_path, open_east, message):
    sites = open_east(held=False)
    change(tmp_path)
    assert "must be started again: a file of its rows has changed" in sites.ask("east", **message)["refused"]
    assert sites.sites["east"].ledger.sources() == {}


@pytest.mark.parametrize("rows", [ROWS["east"], ROWS["east"] - 5, ROWS["east"] + 5])
@pytest.mark.parametrize("message", [RELAY, OPEN, EVALUATE], ids=["relay", "open", "evaluate"])
def test_rows_that_were_not_charged_are_not_released(tmp_path, open_east, monkeypatch, message, rows):
    """Also where the file looks the same from outside: the rows themselves are compared as they are read."""
    monkeypatch.setattr("uneven.federation.rows.identify_file", lambda _: ())
    sites = open_east(held=False)
    change(tmp_path, rows)
    reply = sites.ask("east", **message)
    assert (sites.ask("east", **step(at=0)) if message is OPEN else reply) == FAILED


def test_batches_stop_where_the_file_changes(tmp_path, open_east):
    sites = open_east(held=False)
    sites.ask("east", **OPEN)
    change(tmp_path)
    assert sites.ask("east", **step(at=0)) == FAILED


@pytest.mark.parametrize("held", [False, True])
def test_rows_that_did_not_change_or_are_in_memory_are_released(tmp_path, open_east, held):
    sites = open_east(held)
    if held:
        change(tmp_path)
    assert sites.ask("east", **RELAY)["state"]["released"] == {"east": ROWS["east"]}
    assert sites.ask("east", **EVALUATE)["rows"] == 50
    assert spent(sites) == {EPSILON["east"]}


# The other files of a site


def test_an_older_ledger_put_back_while_the_site_runs_is_refused(tmp_path, network):
    sites, ledger = network(seed=None), tmp_path / "east" / "ledger.db"
    shutil.copy(ledger, tmp_path / "backup.db")
    assert "state" in sites.ask("east", **RELAY)
    shutil.copy(tmp_path / "backup.db", ledger)
    for job in ("b", "c"):
        assert "its ledger has changed" in sites.ask("east", **request(job=job))["refused"]
    assert spent(sites) == set()


@pytest.mark.parametrize("message", [RELAY, OPEN], ids=["relay", "open"])
def test_a_new_ledger_put_there_while_the_site_runs_charges_nothing(tmp_path, network, message):
    """Nothing was answered yet, so it is not older: but its fingerprints are made with another key."""
    sites, ledger = network(seed=None), tmp_path / "east" / "ledger.db"
    ledger.unlink()
    made = Ledger(ledger, budget=2.0)
    made.make()
    assert sites.ask("east", **message) == FAILED
    assert made.sources() == {}


def test_a_policy_that_has_changed_needs_a_restart(tmp_path, network):
    sites = network(seed=None)
    (tmp_path / "east" / "site.toml").write_text(policy_text("east", epsilon=0.1))
    for message in (RELAY, OPEN, {"kind": "describe", "name": "study", "mode": "relay"}):
        assert "its policy has changed" in sites.ask("east", **message)["refused"]
    assert spent(sites) == set()


def test_two_processes_answer_each_batch_once(tmp_path, network, monkeypatch):
    """Somebody removes the lock and starts a second one: the first notices that its batches are not the next ones."""
    monkeypatch.setattr("uneven.federation.releases.AHEAD", 2)
    monkeypatch.setattr("uneven.federation.site.AHEAD", 2)
    sites = network(seed=None)
    first, used = sites.sites["east"], []
    answer = Batches.answer
    monkeypatch.setattr(Batches, "answer", lambda self, weights: used.append(self.next) or answer(self, weights))
    sites.ask("east", **OPEN)
    sites.ask("east", **step(at=0))
    os.remove(tmp_path / "east" / "site.lock")
    sites.sites["east"] = second = Site(read_policy(tmp_path / "east" / "site.toml"))
    sites.ask("east", **OPEN)
    assert sites.ask("east", **step(at=1))["rows"] == 20
    sites.sites["east"] = first
    assert sites.ask("east", **step(at=2)) == {"closed": "j/0"}
    sites.ask("east", **OPEN)
    assert [sites.ask("east", **step(at=at))["rows"] for at in range(2, 12)] == [20] * 10
    second.close()
    assert used == [0, *range(2, 13)]  # the second one passes over what the first had reserved


def test_a_site_whose_rows_are_known_in_another_way_than_in_its_ledger_does_not_start(tmp_path, network):
    sites = network(seed=None)
    sites.ask("east", **RELAY)
    sites.close()
    file = tmp_path / "east" / "rows.csv"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([f"{lines[0]},id", *(f"{line},{i}" for i, line in enumerate(lines[1:]))]) + "\n")
    for more, message in (
        ({"id": "id"}, "rows of a ledger must all be known by content, as its first were"),
        ({"features": FEATURES[:3]}, "must be known by the content of the same columns each time"),
    ):
        (tmp_path / "east" / "site.toml").write_text(policy_text("east", **more))
        with pytest.raises(ValueError, match=message):
            Network(tmp_path, ["east"])


def test_a_release_that_was_charged_for_other_rows_is_not_made(tmp_path, network):
    """The record of answers is lost, and the rows are others: the claim is charged, but not for these rows."""
    network(seed=None).close()
    folder, sites = tmp_path / "east", Network(tmp_path, ["east"])
    sites.ask("east", **OPEN)
    sites.close()
    for file in folder.glob("releases.db*"):
        file.unlink()
    change(tmp_path)
    (folder / "site.toml").write_text(policy_text("east", releases="releases-2.db"))
    sites = Network(tmp_path, ["east"])
    for message in (OPEN, RELAY):
        assert "what was released is not on record" in sites.ask("east", **message)["refused"]
    sites.close()


# What a site refuses


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"name": "other"}, "job 'other' is not among those"),
        ({"features": FEATURES[::-1]}, "features must be"),
        ({"classes": [1, 0]}, "classes must be"),
        ({"row_norm": 2.0}, "row_norm must be"),
    ],
)
def test_an_evaluation_that_the_policy_does_not_allow_is_refused(tmp_path, open_east, asked, reason):
    open_east(held=True).close()
    (tmp_path / "east" / "site.toml").write_text(policy_text("east", kept="kept.csv", jobs=["study"]))
    sites = Network(tmp_path, ["east"])
    assert reason in sites.ask("east", **EVALUATE | asked)["refused"]
    assert sites.sites["east"].ledger.sources() == {}
    assert sites.ask("east", **EVALUATE)["rows"] == 50
    sites.close()


def test_rows_kept_aside_that_are_also_learned_from_are_refused(tmp_path, open_east):
    open_east(held=True).close()
    X, y = make_rows("east", ROWS["east"])
    write_rows(tmp_path / "east" / "kept.csv", X[:3], y[:3])
    with pytest.raises(ValueError, match=r"kept.csv must have other rows than rows.csv, got 3 that are in both"):
        Network(tmp_path, ["east"])


def test_where_no_start_of_the_machine_is_known_every_start_is_another(tmp_path, network, monkeypatch):
    monkeypatch.setattr("uneven.federation.releases.boot_id", lambda: "")
    monkeypatch.setattr("uneven.federation.releases.AHEAD", 4)
    monkeypatch.setattr("uneven.federation.site.AHEAD", 4)
    network(seed=None).close()
    sites = Network(tmp_path, ["east"])
    sites.ask("east", **OPEN)
    sites.ask("east", **step(at=0))
    sites.close()
    sites = Network(tmp_path, ["east"])
    sites.ask("east", **OPEN)
    rows = [sites.ask("east", **step(at=at)).get("rows") for at in range(1, 11)]
    assert rows == [20] * 9 + [None]  # of 13 batches, those after the four that were reserved
    sites.close()


def test_a_ball_that_is_too_wide_is_not_added_to_an_anchor(tmp_path, network):
    """Weights beyond it would make gradients infinite, which no mechanism hides."""
    sites = network(seed=None, public=("north",), top={"use": "all"})
    federate(read_sources(tmp_path / "sources.toml"), Ask(sites.call, 1.0), tmp_path / "job")
    asked = next(json.loads(text) for site, text, _ in sites.messages if site == "east" and '"add"' in text)
    problem = {**asked["problem"], "alpha": 1e-11, "radius": "paper"}
    before = spent(sites)
    assert "to be added to an anchor" in sites.ask("east", **asked | {"job": "wide", "problem": problem})["refused"]
    assert spent(sites) == before


def test_two_kits_of_the_same_name_share_one_budget(tmp_path, network):
    """One hospital in two federations, both running: what one job has spent, no job of the other spends again."""
    sites, other = network(seed=None), tmp_path / "second" / "east"
    other.mkdir(parents=True)
    shutil.copy(tmp_path / "east" / "rows.csv", other)
    shared = {"ledger": "../../east/ledger.db", "releases": "releases-second.db"}
    (other / "site.toml").write_text(policy_text("east", **shared))
    second = Network(tmp_path / "second", ["east"])
    assert "state" in second.ask("east", **RELAY)
    assert "what was released is not on record" in sites.ask("east", **RELAY)["refused"]
    assert "would exceed their budget" in sites.ask("east", **request(job="another"))["refused"]
    assert spent(sites) == spent(second) == {EPSILON["east"]}
    second.close()
