"""Files of a site that change while it runs: what is released is what was charged, or nothing."""

from functools import partial

import pytest
from sites import EPSILON, FEATURES, ROWS, Network, make_folders, make_rows, request, spent, step, write_rows

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
    monkeypatch.setattr("uneven.federation.rows._identify_file", lambda _: ())
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
