"""A site decides which of its rows answer what: each once, for one charge, whatever a server asks and when."""

import itertools
import json

import numpy as np
import pytest
from sites import Network, policy_text
from test_kept import EPSILON, EQUAL, ROWS, UNEQUAL, make, open_noisy, run  # noqa: F401 (make is a fixture)

from uneven.federation.kept import prepare_site
from uneven.federation.policy import read_policy
from uneven.federation.requests import Asked
from uneven.federation.site import Site
from uneven.noise import Exact, LocalPrivacy, SitePrivacy
from uneven.problem import Problem
from uneven.training.job import CLASS, LENGTH, STEP

PARTS = ("shares", "relay", "length")
COUNTS = {"shares": 107, "relay": 1286, "length": 107}
"""Of 1,500 rows one in 7 is kept, and one of those in two tells its class."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """What an honest server asks east, where classes are clearly unequal and where they are not."""

    def record(cut):
        root = tmp_path_factory.mktemp("honest")
        network = open_noisy(root, cut)
        run(root, network)
        network.close()
        found = {json.loads(text)["kind"]: json.loads(text) for site, text, _ in network.messages if site == "east"}
        return {kind: {**found[kind], "job": "j"} for kind in PARTS}

    return {cut: record(cut) for cut in (EQUAL, UNEQUAL)}


@pytest.fixture
def hostile(make, recorded):  # noqa: F811
    """Makes sites whose noise has no seed, with the requests of an honest server to change."""

    def opened(cut=UNEQUAL, **more):
        return make(cut, **{"seed": None, "budget": 100.0, **more}), recorded[cut]

    return opened


def as_steps(message):
    """The same steps, asked for one by one."""
    return {key: value for key, value in message.items() if key != "state"} | {"kind": "open"}


def put(message, *place_and_value):
    """The message with another value at this place."""
    *place, value = place_and_value
    changed = inner = json.loads(json.dumps(message))
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


def paid(network):
    """What rows of east have spent, the same for all of them."""
    found = network.sites["east"].ledger.spent("east")
    assert len(found) in (0, ROWS["east"])
    (one,) = set(found.values()) or {0.0}
    return one


def test_each_row_is_of_one_part(make):  # noqa: F811
    """By its place among the site's rows, as in a local fit."""
    site, noise = make().sites["east"], LocalPrivacy(0.5)
    given = Asked("j/0", "", noise, Problem(5, 0.01, 20), True, True, "j", 0, 7, 2)
    job = prepare_site(site.policy, site._opened, given)
    rows = {part: job._numbers("east", part).tolist() for part in (STEP, LENGTH, CLASS)}
    assert sorted(itertools.chain(*rows.values())) == list(range(ROWS["east"]))
    assert rows[LENGTH][:3] == [6, 20, 34]
    assert rows[CLASS][:3] == [13, 27, 41]
    assert [len(rows[part]) for part in (CLASS, STEP, LENGTH)] == list(COUNTS.values())


@pytest.mark.parametrize("order", list(itertools.permutations(PARTS)))
def test_all_rows_pay_once_at_the_first_request_whichever_it_is(hostile, order):
    network, requests = hostile()
    for kind in order:
        assert "refused" not in network.ask("east", **requests[kind])
        assert paid(network) == EPSILON["east"]
    network.sites["east"].ledger.lower_budget(EPSILON["east"])
    for kind in order:  # repeated, all answer as before, and another job finds the budget spent
        first, second = (network.call("east", json.dumps(requests[kind])) for _ in range(2))
        assert first == second
        assert "would exceed their budget" in network.ask("east", **{**requests[kind], "job": "k"})["refused"]
    assert paid(network) == EPSILON["east"]


@pytest.mark.parametrize("kind", PARTS)
def test_a_part_is_charged_before_it_answers_and_repeated_after_a_restart(tmp_path, hostile, kind):
    network, requests = hostile()
    assert paid(network) == 0.0
    first = network.call("east", json.dumps(requests[kind]))
    assert paid(network) == EPSILON["east"]
    network.close()
    network.sites = Network(tmp_path, ROWS).sites
    assert network.call("east", json.dumps(requests[kind])) == first
    assert paid(network) == EPSILON["east"]


@pytest.mark.parametrize("kind", PARTS)
def test_rows_of_a_part_answer_one_request_only(hostile, kind):
    """Other numbers under the same name are another release."""
    network, requests = hostile()
    network.ask("east", **requests[kind])
    place = {"shares": ("heard", "precision"), "relay": ("state", "clock"), "length": ("reached", "number")}[kind]
    for changed in (put(requests[kind], *place, 1e-3), as_steps(requests["relay"]) if kind == "relay" else None):
        if changed is not None:
            assert "each row is released once" in network.ask("east", **changed)["refused"]
    assert paid(network) == EPSILON["east"]


OTHERWISE = {
    "other kept": lambda message: {**message, "kept": 5},
    "other tellers": lambda message: {**message, "tellers": 3},
    "none tells its class": lambda message: {**message, "tellers": 0},
    "another number": lambda message: {**message, "number": 7},
    "more noise": lambda message: put(message, *noise_of(message), LocalPrivacy(0.45).to_dict()),
    "nothing kept": lambda message: {key: value for key, value in message.items() if key not in ("kept", "tellers")},
}


def noise_of(message):
    return ("noise",) if "noise" in message else ("task", "noise")


@pytest.mark.parametrize("change", OTHERWISE)
@pytest.mark.parametrize(("first", "then"), list(itertools.permutations(PARTS, 2)))
def test_another_division_of_the_rows_is_refused(hostile, first, then, change):
    """A row could answer twice, or at another ε than was charged; which part was asked for first does not matter."""
    network, requests = hostile()
    network.ask("east", **requests[first])
    if change == "more noise":  # charged at a smaller ε than the next request has
        network.ask("east", **{**OTHERWISE[change](requests[first]), "job": "k"})
        before = paid(network)
        assert "were divided otherwise" in network.ask("east", **{**requests[then], "job": "k"})["refused"]
        assert paid(network) == before
    reply = network.ask("east", **OTHERWISE[change](requests[then]))
    assert list(reply) == ["refused"]
    if (change, then) not in {
        ("none tells its class", "shares"),
        ("nothing kept", "shares"),
        ("nothing kept", "length"),
    }:
        assert "'j' were divided otherwise at first; each row is released once" in reply["refused"]


@pytest.mark.parametrize("kind", ["relay", "open"])
def test_steps_of_all_rows_leave_none_to_tell_anything(hostile, kind):
    network, requests = hostile()
    steps = OTHERWISE["nothing kept"](as_steps(requests["relay"]) if kind == "open" else requests["relay"])
    assert "refused" not in network.ask("east", **steps)
    for part in PARTS:
        assert "were divided otherwise" in network.ask("east", **{**requests[part], "number": 9})["refused"]
    assert paid(network) == EPSILON["east"]


def test_steps_one_by_one_are_of_the_rows_that_take_steps(hostile):
    network, requests = hostile()
    opened = as_steps(requests["relay"])
    network.ask("east", **requests["shares"])
    network.ask("east", **opened)
    step = {"kind": "step", "job": "j", "number": opened["number"], "weights": [0.0] * 5}
    size, rows = opened["task"]["problem"]["batch_size"], 0
    for at in range(-(-COUNTS["relay"] // size)):
        rows += network.ask("east", **step, step=at)["rows"]
    assert rows == COUNTS["relay"]
    assert network.ask("east", **step, step=at + 1) == {"finished": at + 1}
    network.ask("east", **requests["length"])
    assert paid(network) == EPSILON["east"]


PROTECTIONS = [LocalPrivacy(0.6), Exact(), SitePrivacy(0.5)]


@pytest.mark.parametrize("noise", PROTECTIONS, ids=repr)
@pytest.mark.parametrize("kind", ["shares", "length"])
def test_less_protection_than_the_policy_asks_for_is_refused_for_every_part(hostile, kind, noise):
    network, requests = hostile()
    assert " of 'east' must be " in network.ask("east", **put(requests[kind], "noise", noise.to_dict()))["refused"]
    assert paid(network) == 0.0


WILD = {
    "shares": [
        ("heard", "total", [1e300]),
        ("heard", "total", [0.0, 0.0]),
        ("heard", "total", None),
        ("heard", "precision", -1.0),
        ("heard", "precision", 10**400),
        ("heard", {}),
        ("tellers", 0),
    ],
    "length": [
        ("weights", [1e10] * 5),
        ("weights", [1e300] * 5),
        ("weights", [0.0] * 5),
        ("weights", [1e-200] * 5),
        ("weights", [1.0] * 4),
        ("weights", None),
        ("offset", 15.0),
        ("offset", -1e9),
        ("offset", "x"),
        ("prior", 0.0),
        ("prior", 1e300),
        ("reached", "number", 1e300),
        ("reached", "number", 10**400),
        ("reached", "precision", -1.0),
        ("reached", "precision", None),
        ("reached", {"number": 0.0}),
        ("problem", "loss", "hinge"),
        ("problem", "alpha", 10**400),
    ],
}
WILD_IN_ALL = [
    ("kept", 1),
    ("kept", 0),
    ("kept", -5),
    ("kept", 7.5),
    ("kept", 10**12),
    ("kept", 10**9),
    ("kept", None),
    ("tellers", -1),
    ("tellers", 10**30),
    ("number", -1),
    ("problem", "n_features", 6),
    ("problem", "norms", "rms"),
    ("problem", "classes", 3),
    ("problem", "batch_size", 10**400),
    ("problem", "class_weights", [0.5, 1.0]),
    ("noise", {"kind": "local-privacy", "epsilon": 10**400}),
    ("intercept", False),
    ("features", ["a"]),
    ("seed", 7),
    ("name", 3),
]


@pytest.mark.parametrize("kind", WILD)
def test_wild_numbers_are_refused_before_a_row_is_spent(hostile, kind):
    """No slope may become infinite or NaN: a mechanism would pass it on."""
    network, requests = hostile()
    for place in (*WILD[kind], *WILD_IN_ALL):
        assert list(network.ask("east", **put(requests[kind], *place))) == ["refused"], place
    for key in requests[kind]:
        short = {name: value for name, value in requests[kind].items() if name != key}
        assert "refused" in network.ask("east", **short), key
    text = json.dumps(requests[kind])
    assert "without NaN" in network.call("east", text.replace('"precision": ', '"precision": NaN, "x": '))
    assert paid(network) == 0.0
    assert "refused" not in network.ask("east", **requests[kind])


@pytest.mark.parametrize("cut", [0.0, UNEQUAL])
def test_the_wildest_numbers_that_are_accepted_give_finite_answers(hostile, cut):
    network, requests = hostile(cut)
    wildest = [
        {"weights": [1e9] * 5, "offset": 14.0, "prior": 1e9, "reached": {"number": 1e9, "precision": 1e18}},
        {"weights": [-1e9, 1e-9, 0.0, 0.0, 1e9], "offset": -14.0, "prior": 1.0},
        {"weights": [1e-99] * 5, "offset": 0.0, "prior": 1e9, "reached": {"number": -1e9, "precision": 0.0}},
        {"weights": [0.0, 0.0, 0.0, 0.0, 1.0], "offset": 0.0},
        {"weights": [0.0, 0.0, 0.0, 0.0, 1e-50], "offset": 1e-300},
    ]
    for number, changed in enumerate(wildest):
        for alpha in (1e-9, 1e9):
            message = put({**requests["length"], **changed, "job": f"w{number}-{alpha}"}, "problem", "alpha", alpha)
            reply = network.ask("east", **message)
            assert np.isfinite(list(reply["reached"].values())).all(), (changed, reply)


def test_a_site_answers_for_its_kept_rows_in_the_modes_and_jobs_that_it_allows(hostile):
    network, requests = hostile(modes=["relay"], jobs=["un*"])
    for kind in ("shares", "length"):
        assert "is not among those" in network.ask("east", **{**requests[kind], "name": "other"})["refused"]
    assert paid(network) == 0.0


def test_a_site_with_too_few_rows_has_none_to_tell(hostile):
    network, requests = hostile()
    for kind in ("shares", "length"):
        noise = LocalPrivacy(EPSILON["west"]).to_dict()
        assert "got none" in network.ask("west", **{**requests[kind], "noise": noise})["refused"]


# Crashes, lost files, old copies


def crash(monkeypatch, what):
    """The process dies at the first call of this."""

    def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(what, dies)


MOMENTS = [
    "uneven.federation.charging.charge_rows",
    "uneven.federation.charging.Account._enter",
    "uneven.federation.site.Site._start",
    "uneven.ledger.Ledger.claim",
    "uneven.federation.releases.Releases.keep",
]


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_site_that_is_killed_goes_on_and_charges_once(tmp_path, hostile, monkeypatch, moment, kind):
    network, requests = hostile()
    with monkeypatch.context() as dying:
        crash(dying, moment)
        with pytest.raises(KeyboardInterrupt):
            network.call("east", json.dumps(requests[kind]))
    network.close()
    network.sites = Network(tmp_path, ROWS).sites
    for other in (kind, *PARTS):
        assert "refused" not in network.ask("east", **requests[other])
    assert paid(network) == EPSILON["east"]


@pytest.mark.parametrize("kind", PARTS)
def test_a_lost_record_of_answers_leaves_no_part_to_be_asked_again(tmp_path, hostile, kind):
    """The ledger knows that the rows of the job were divided: no part answers, whether it had answered or not."""
    network, requests = hostile()
    network.ask("east", **requests[kind])
    network.close()
    for file in (tmp_path / "east").glob("releases.db*"):
        file.unlink()
    (tmp_path / "east" / "site.toml").write_text(
        policy_text("east", budget=100.0, releases="releases-2.db", noises=["local-privacy"])
    )
    network = Network(tmp_path, ["east"])
    for other in PARTS:
        reply = network.ask("east", **requests[other])["refused"]
        assert reply == "'j/rows' is in the ledger, but what was released is not on record"
    network.close()


@pytest.mark.parametrize("kind", PARTS)
def test_older_answers_do_not_let_a_part_run_again(tmp_path, hostile, kind):
    network, requests = hostile()
    network.ask("east", **requests["shares" if kind == "length" else "length"])
    network.close()
    copy = {file: file.read_bytes() for file in (tmp_path / "east").glob("releases.db*")}
    network = Network(tmp_path, ["east"])
    assert "refused" not in network.ask("east", **requests[kind])
    network.close()
    for file in (tmp_path / "east").glob("releases.db*"):
        file.unlink()
    for file, data in copy.items():
        file.write_bytes(data)
    network = Network(tmp_path, ["east"])
    assert "is in the ledger, but" in network.ask("east", **requests[kind])["refused"]
    assert paid(network) == EPSILON["east"]
    network.close()


def test_other_rows_do_not_go_on_with_a_job_that_was_begun(tmp_path, hostile):
    network, requests = hostile()
    network.ask("east", **requests["shares"])
    network.close()
    path = tmp_path / "east" / "rows.csv"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    site = Site(read_policy(tmp_path / "east" / "site.toml"))
    for kind in ("relay", "length"):
        assert "was begun with other rows" in json.loads(site.answer(json.dumps(requests[kind])))["refused"]
    site.close()
