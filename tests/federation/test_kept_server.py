"""The server across the phases of a run that keeps rows: it goes on after a crash, and does without sites that fail."""

import json
import math

import numpy as np
import pytest
from sites import train_locally
from test_kept import EPSILON, EQUAL, UNEQUAL, asked, make, run  # noqa: F401 (make is a fixture)
from test_liars import lying, put

from uneven.federation.messages import digest
from uneven.training.calibration import FLOOR

pytestmark = pytest.mark.filterwarnings("ignore::uneven.SimulationWarning")


@pytest.mark.parametrize("mode", ["relay", "oracle"])
def test_a_server_that_stops_anywhere_goes_on_where_it_was(tmp_path, make, mode):  # noqa: F811
    """It is killed before each request of a new kind or site, and before its answer is heard; weights stay the same."""
    network, asking = make(UNEQUAL, budget=1000.0), []
    whole = run(tmp_path, network, mode, "whole", lambda site, text: asking.append(text) or network.call(site, text))
    before = network.messages[:]
    made = {json.loads(text)["kind"] for text in asking}
    assert made == {"describe", "shares", "length", *(("relay",) if mode == "relay" else ("open", "step"))}
    network.messages.clear()
    lives, seen = 0, set()

    def dies(site, text):
        key, late = (site, json.loads(text)["kind"]), len(seen) % 2
        reply = network.call(site, text) if late or key in seen else ""
        if key not in seen:
            seen.add(key)
            raise KeyboardInterrupt
        return reply

    while True:
        try:
            found = run(tmp_path, network, mode, "job", dies)
            break
        except KeyboardInterrupt:
            lives += 1
    assert lives == len({(site, json.loads(text)["kind"]) for site, text, _ in before})
    np.testing.assert_array_equal(found.model.coef, whole.model.coef)
    np.testing.assert_array_equal(found.model.intercept, whole.model.intercept)
    assert found.notes == whole.notes
    texts = {}
    for site, text, reply in network.messages:
        assert texts.setdefault((site, text), reply) == reply or "describe" in text  # asked again, the same


def test_a_finished_job_is_not_run_again(tmp_path, make):  # noqa: F811
    network = make(UNEQUAL)
    first, count = run(tmp_path, network), len(network.messages)
    again = run(tmp_path, network)
    assert len(network.messages) == count == 3 + 2 + 3 + 2
    np.testing.assert_array_equal(again.model.coef, first.model.coef)
    assert again.notes == first.notes


def test_a_job_that_an_older_version_began_keeps_no_rows(tmp_path, make):  # noqa: F811
    """It goes on as it was planned: its sites have charged their rows for steps."""
    network, folder = make(), tmp_path / "job"
    folder.mkdir()
    asked_for = digest(f"{(tmp_path / 'sources.toml').read_text()}\0uneven\0relay")
    (folder / "job.json").write_text(json.dumps({"job": "j", "asked": asked_for}))
    found = run(tmp_path, network)
    assert found.plan.kept == 0
    assert asked(network, "shares", "length") == []
    assert not any('"kept"' in text for _, text, _ in network.messages)


REFUSED = lambda _: {"refused": "no"}  # noqa: E731


def in_part(part, **changed):
    return lambda reply: {**reply, part: {**reply[part], **changed}}


HEARD = [
    {},
    {"total": [0.0, 0.0]},
    {"total": [1e9]},
    {"total": ["x"]},
    {"total": None},
    {"precision": 0.0},
    {"precision": -1.0},
    {"precision": 1e300},
    {"precision": 1.0},
    {"precision": None},
]
LIES = [in_part("heard", **one) for one in HEARD[1:]] + [put(heard=3), put(heard={}), lambda _: {}]


@pytest.mark.slow
def test_wrong_shares_leave_the_site_out_and_what_was_told_as_it_was(tmp_path, make):  # noqa: F811
    """East is asked first; the run goes on without it, as if it had refused to begin."""
    network = make(UNEQUAL, budget=1000.0)
    honest = run(tmp_path, network, job="honest", call=lying(network, "shares", REFUSED))
    assert honest.used == ("west", "north")
    assert set(honest.model.privacy_spent) == {"west", "north"}
    for number, lie in enumerate(LIES):
        network.messages.clear()
        found = run(tmp_path, network, job=f"job{number}", call=lying(network, "shares", lie))
        assert found.left_out["east"].startswith("'east' sent a wrong reply: ")
        assert found.used == honest.used
        np.testing.assert_array_equal(found.model.coef, honest.model.coef)
        assert found.model.privacy_spent["east"] == math.inf  # it has charged its rows; the noise has a seed
        assert found.notes == honest.notes
        assert asked(network, "relay", "length").count("east") == 0


REACHED = [
    {"number": 1e300},
    {"number": 1e10},
    {"number": "x"},
    {"number": None},
    {"precision": 0.0},
    {"precision": -1.0},
    {"precision": 1e17},
    {"precision": None},
    {"more": 1.0},
]


@pytest.mark.slow
@pytest.mark.parametrize("cut", [EQUAL, UNEQUAL])
def test_a_wrong_length_leaves_the_steps_in_and_what_was_told_as_it_was(tmp_path, make, cut):  # noqa: F811
    network = make(cut, budget=1000.0)
    honest = run(tmp_path, network, job="honest", call=lying(network, "length", REFUSED))
    assert honest.left_out == {}
    assert honest.used == ("west", "east", "north")
    assert honest.notes[-1] == "Rows of 'east' did not tell how long the weights should be: 'east' refused: no."
    assert honest.notes[0].startswith(f"{2100 // honest.plan.kept} private rows were held back")
    for number, lie in enumerate([*(in_part("reached", **one) for one in REACHED), put(reached=3), lambda _: {}]):
        found = run(tmp_path, network, job=f"job{number}", call=lying(network, "length", lie))
        assert found.left_out == {}
        assert "'east' did not tell how long the weights should be: 'east' sent a wrong reply" in found.notes[-1]
        np.testing.assert_array_equal(found.model.coef, honest.model.coef)
        assert set(found.model.privacy_spent) == set(EPSILON)


def test_a_length_that_no_site_tells_predicts_nothing(tmp_path, make):  # noqa: F811
    """Nothing is known then, and weights that nobody has vouched for are not used: the model is not worse than that."""
    network = make()

    def call(site, text):
        return json.dumps({"refused": "no"}) if '"length"' in text else network.call(site, text)

    found = run(tmp_path, network, call=call)
    answer = found.model.scale.coefficients(np.array(found.state.answer))[0]
    np.testing.assert_allclose(found.model.coef[0], FLOOR * answer)
    assert "0 private rows were held back" in found.notes[0]
    assert sum("did not tell how long" in note for note in found.notes) == 2


@pytest.mark.parametrize("kind", ["relay", "shares"])
def test_a_site_that_is_left_out_is_not_asked_again(tmp_path, make, kind):  # noqa: F811
    """It told its classes before its steps were lost: its rows were charged, and the model says so."""
    network = make(UNEQUAL, seed=None)
    found = run(tmp_path, network, call=lying(network, kind, REFUSED))
    assert set(found.left_out) == {"east"}
    assert (
        asked(network, "shares", "relay", "length")
        == {
            "relay": ["east", "north", "west", "east", "north", "north"],
            "shares": ["east", "north", "west", "north", "north"],
        }[kind]
    )
    charged = set(EPSILON) if kind == "relay" else {"west", "north"}
    assert found.model.privacy_spent == {name: EPSILON[name] for name in charged}
    assert found.notes[0].startswith(f"{2100 // found.plan.kept} private rows")


def test_rows_pay_once_in_a_run_that_asks_for_all_their_parts(tmp_path, make):  # noqa: F811
    network = make(UNEQUAL, seed=None)
    found = run(tmp_path, network)
    assert found.model.privacy_spent == EPSILON
    for name, site in network.sites.items():
        assert set(site.ledger.spent(name).values()) == {EPSILON[name]}
        assert site.ledger.sources() == {name: site.scan.rows}


def test_sites_without_shares_that_are_clear_start_at_zero(tmp_path, make):  # noqa: F811
    """All sites that would tell their classes refuse: the steps start as they do without them."""
    network = make(UNEQUAL)

    def call(site, text):
        return json.dumps({"refused": "no"}) if '"shares"' in text else network.call(site, text)

    found = run(tmp_path, network, call=call)
    assert found.used == ("west",)
    assert not any("clearly unequal" in note for note in found.notes)
    assert train_locally(tmp_path).plan == found.plan
