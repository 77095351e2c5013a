"""A site decides: what it refuses and why, and that no row is released twice, whatever is asked or repeated."""

import json
import sqlite3
from contextlib import closing
from dataclasses import fields

import numpy as np
import pytest
from sites import EPSILON, ROWS, D, Network, make_rows, policy_text, request, spent, step

import uneven
from uneven.engine import State, Task, initial_state, tasks_of
from uneven.federation.messages import STATE_KEYS, TASK_KEYS, state_to_dict
from uneven.federation.policy import MOST_BATCH, Refused, read_policy, refuse_noise, refuse_problem
from uneven.federation.segments import Batches
from uneven.federation.site import Site


def test_rows_are_charged_before_the_answer(network):
    sites = network(seed=None)
    assert spent(sites) == set()
    assert sites.ask("east", **request())["rows"] == ROWS["east"]
    assert spent(sites) == {EPSILON["east"]}
    assert sites.sites["east"].ledger.sources() == {"east": ROWS["east"]}


@pytest.mark.parametrize("restart", [False, True])
def test_a_replayed_message_releases_nothing(tmp_path, network, restart):
    """The same text again, of a process that kept nothing in memory: the answer is that of the first time."""
    sites = network(seed=None)
    first = sites.call("east", json.dumps(request()))
    if restart:
        sites.close()
        sites.sites = Network(tmp_path).sites
    assert sites.call("east", json.dumps(request())) == first
    assert spent(sites) == {EPSILON["east"]}


@pytest.mark.parametrize("wrong", [{"features": ["a", "z"]}, {"classes": [1, 2]}, {"id": "y"}])
def test_a_site_that_is_refused_leaves_no_ledger(tmp_path, network, wrong):
    network(seed=None).close()
    for name in ("ledger.db", "releases.db"):
        (tmp_path / "east" / name).unlink()
    (tmp_path / "east" / "site.toml").write_text(policy_text("east", **wrong))
    with pytest.raises(ValueError, match=r"got|no column"):
        Network(tmp_path, ["east"])
    assert not list((tmp_path / "east").glob("*.db"))
    (tmp_path / "east" / "site.toml").write_text(policy_text("east", budget=7.0))
    sites = Network(tmp_path, ["east"])
    assert sites.ask("east", **request())["rows"] == ROWS["east"]
    assert uneven.Ledger(tmp_path / "east" / "ledger.db").stored_budget == 7.0
    sites.close()


CHANGED = {
    "nothing": lambda lines: lines,
    "a row more": lambda lines: [*lines, "0.1,0.1,0.1,0.1,1"],
    "a row less": lambda lines: lines[:-1],
    "another order": lambda lines: [lines[0], *sorted(lines[1:])],
    "another value": lambda lines: [*lines[:-1], "0.1,0.1,0.1,0.1,1"],
}


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("change", CHANGED)
def test_batches_go_on_with_the_same_rows_only(tmp_path, network, change, ids):
    """Batches that were used are passed over by number: of other rows, some would be released twice or uncharged."""
    network(seed=None).close()
    file = tmp_path / "east" / "rows.csv"
    if ids:
        (tmp_path / "east" / "site.toml").write_text(policy_text("east", id="id"))
        lines = file.read_text().splitlines()
        file.write_text("\n".join([f"{lines[0]},id", *(f"{line},{i}" for i, line in enumerate(lines[1:]))]) + "\n")
    sites = Network(tmp_path, ["east"])
    sites.ask("east", **request("open"))
    assert [sites.ask("east", **step(at=k))["rows"] for k in range(3)] == [20, 20, 20]
    sites.close()
    added = ",999" if ids and change == "a row more" else ",259" if ids and change == "another value" else ""
    lines = CHANGED[change](file.read_text().splitlines())
    file.write_text("\n".join([*lines[:-1], lines[-1] + added]) + "\n")
    sites = Network(tmp_path, ["east"])
    reply = sites.ask("east", **request("open"))
    if change == "nothing" or (ids and change == "another value"):  # an id's row is the same person, at the same place
        assert reply == {"rows": ROWS["east"]}
    else:
        assert "was begun with other rows" in reply["refused"]
        assert sites.ask("east", **step(at=3)) == {"closed": "j/0"}
    assert len(sites.sites["east"].ledger.spent("east")) == ROWS["east"]
    sites.close()


def test_a_release_of_an_older_version_does_not_go_on(tmp_path, network):
    """Its rows are not on record, so nobody can tell whether they are the same."""
    sites = network(seed=None)
    sites.ask("east", **request("open"))
    sites.close()
    path = tmp_path / "east" / sites.sites["east"].policy.releases
    with closing(sqlite3.connect(path, isolation_level=None)) as book:
        book.execute("ALTER TABLE release DROP COLUMN rows")
    sites = Network(tmp_path, ["east"])
    assert "was begun with other rows" in sites.ask("east", **request("open"))["refused"]
    sites.close()


def test_another_request_under_the_same_name_is_refused(network):
    sites = network(seed=None)
    sites.ask("east", **request())
    other = state_to_dict(initial_state(D)) | {"weights": [1.0] * D}
    assert "each row is released once" in sites.ask("east", **request(state=None) | {"state": other})["refused"]
    assert spent(sites) == {EPSILON["east"]}


def test_a_release_that_was_begun_is_not_made_at_a_larger_epsilon(tmp_path, network):
    sites = network(seed=None)
    assert sites.ask("east", **request("open", noise=uneven.LocalPrivacy(1.0))) == {"rows": ROWS["east"]}
    sites.close()
    sites = Network(tmp_path, ["east"])
    for kind in ("open", "relay"):
        reply = sites.ask("east", **request(kind, noise=uneven.LocalPrivacy(2.0)))
        assert reply == {"refused": "'j/0' was begun for another request; each row is released once"}
    assert spent(sites) == {1.0}
    sites.close()


def test_batches_without_a_seed_draw_their_noise_from_no_fixed_one():
    """Also where their order, which the site keeps on record, is the same."""
    X, y = make_rows("east", 100)
    data = np.column_stack([X, np.full(100, 0.5)]) / 2.0, 2.0 * y - 1.0
    plan = uneven.plan([uneven.Source("east", 100, uneven.LocalPrivacy(2.0))], D, alpha=0.01, batch_size=100, clip=0.5)
    one, two = (Batches(tasks_of(plan)[0], data, 5, 0, None).answer(np.zeros(D))["total"] for _ in range(2))
    assert one != two


@pytest.mark.parametrize("more", [{"number": 1}, {"job": "another"}])
@pytest.mark.parametrize("kind", ["relay", "open"])
def test_a_second_pass_is_refused(network, kind, more):
    sites = network(seed=None)
    sites.ask("east", **request())
    reply = sites.ask("east", **request(kind, **more))
    assert reply == {"refused": "rows of 'east' would exceed their budget of 2 with 2 more; nothing was charged"}
    assert sites.ask("east", **request(kind, **more)) == reply  # and stays so
    assert spent(sites) == {EPSILON["east"]}


@pytest.mark.parametrize(
    ("noise", "reason"),
    [
        (uneven.LocalPrivacy(2.5), "epsilon of 'east' must be at most 2 for one release, got 2.5"),
        (uneven.LocalPrivacy(2.001), "epsilon of 'east' must be at most 2 for one release, got 2.001"),
        (uneven.Exact(), "noise of 'east' must be local-privacy, got 'exact'"),
        (uneven.AdditiveNoise(2.0), "noise of 'east' must be local-privacy, got 'additive'"),
        (uneven.SitePrivacy(2.0), "noise of 'east' must be local-privacy, got 'site-privacy'"),
    ],
)
@pytest.mark.parametrize("kind", ["relay", "open"])
def test_less_protection_than_the_policy_asks_for_is_refused(network, kind, noise, reason):
    """One release may cost ε and no more, though the budget has room for three."""
    sites = network(seed=None, budget=3 * EPSILON["east"])
    assert sites.ask("east", **request(kind, noise=noise)) == {"refused": reason}
    assert spent(sites) == set()


def test_privacy_of_labels_alone_is_refused_whatever_the_policy_says(network):
    sites = network(seed=None, noises=["local-privacy", "label-privacy"])
    message = request()
    message["task"]["noise"] = uneven.LabelPrivacy(1.0).to_dict()
    assert "refused" in sites.ask("east", **message)
    assert spent(sites) == set()


def test_a_policy_for_labels_alone_protects_features_all_the_same(network):
    policy = network(seed=None, noises=["label-privacy"]).sites["east"].policy
    with pytest.raises(Refused, match="noise of 'east' must be label-privacy and protect features"):
        refuse_noise(policy, uneven.LabelPrivacy(1.0))


def test_messages_hold_all_of_a_state_and_a_task():
    """But for the noise-free twin, which is not private, the name, which is the site's, and an anchor's penalty."""
    assert {field.name for field in fields(State)} == {*STATE_KEYS, "twin"}
    task = {key.replace("noises", "noise").replace("moments", "moment") for key in Task.__dataclass_fields__}
    assert task == {*TASK_KEYS, "names", "penalty"} - {"after", "last_share"}
    with pytest.raises(ValueError, match="no twin"):
        state_to_dict(initial_state(D, twin=True))


NAN, HUGE = float("nan"), 1e300


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"features": ["a", "b", "d", "c"]}, "features must be ['a', 'b', 'c', 'd'] for 'east'"),
        ({"features": ["a", "b", "c", "d", "secret"]}, "features must be"),
        ({"classes": [1, 0]}, "classes must be [0, 1] for 'east'"),
        ({"classes": [False, True]}, "classes must be [0, 1] for 'east'"),
        ({"row_norm": 5.0}, "row_norm must be 1.0 for 'east', got 5.0"),
        ({"intercept": False}, "with a weight for each column"),
        ({"twin": True}, "has no key 'twin'"),
        ({"passes": 2}, "has no key 'passes'"),
        ({"seed": 7}, "has no key 'seed'"),
        ({"kind": "everything"}, "kind must be one of"),
        ({"number": -1}, "number must be a whole number"),
        ({"job": ""}, "job must be a non-empty string"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_row_is_spent(network, change, reason):
    sites = network(seed=None)
    assert reason in sites.ask("east", **request() | change)["refused"]
    assert spent(sites) == set()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("state", "weights"), [HUGE] * D),
        (("state", "weights"), [0.0]),
        (("state", "weights"), "rows"),
        (("state", "average"), [1e10] * D),
        (("state", "twin"), [0.0] * D),
        (("task", "schedule"), {"kind": "rate", "rate": 1e15}),
        (("task", "schedule"), {"kind": "precision", "lam": 1e-15, "offset": 0.0}),
        (("task", "schedule"), {"kind": "os.system"}),
        (("task", "moment"), [0.0, -1.0, 0.0]),
        (("task", "moment"), [0.0, 0.0, 0.0]),
        (("task", "moment"), [1.0]),
        (("task", "problem", "norms"), "rms"),
        (("task", "problem", "n_features"), 10**9),
        (("task", "problem", "alpha"), 1e-18),
        (("task", "problem", "alpha"), 10**400),
        (("task", "problem", "batch_size"), 2**63),
        (("task", "problem", "batch_size"), 10**400),
        (("task", "problem", "clip"), 10**400),
        (("task", "moment"), [10**400, 0.0, 0.0]),
        (("task", "schedule"), {"kind": "precision", "lam": 0.0, "offset": 0.0}),
        (("task", "schedule"), {"kind": "rate", "rate": 10**400}),
        (("task", "after"), 10**400),
        (("task", "noise"), {"kind": "local-privacy", "epsilon": 10**400}),
        (("state", "weights"), [10**400] * D),
        (("state", "clock"), 10**400),
        (("state", "estimates"), {"east": [10**400, 1]}),
        (("task", "noise"), {"kind": "local-privacy", "epsilon": -1.0}),
    ],
)
def test_wild_numbers_are_refused(network, place, value):
    """Weights or steps that overflow make a gradient NaN for some rows and not for others: a mechanism passes it on."""
    sites, message = network(seed=None), json.loads(json.dumps(request()))
    inner = message
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    assert "refused" in sites.ask("east", **message)
    assert spent(sites) == set()


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"kind": NaN}', "\x00", "[" * 100_000])
def test_what_is_no_message_is_refused(network, text):
    assert list(json.loads(network().call("east", text))) == ["refused"]


def test_a_message_that_is_too_long_is_not_read(network, monkeypatch):
    monkeypatch.setattr("uneven.federation.messages.MOST_BYTES", 100)
    assert "must have at most 100 bytes" in network().ask("east", **request())["refused"]


def test_nan_weights_are_refused(network):
    text = json.dumps(request()).replace('"weights": [0.0,', '"weights": [NaN,')
    assert "without NaN" in network().call("east", text)


def test_jobs_and_modes_are_the_sites_to_allow(network):
    sites = network(jobs=["study-*"], modes=["relay"])
    assert "job 'study' is not among those" in sites.ask("east", **request())["refused"]
    assert "does not answer in mode 'oracle'" in sites.ask("east", **request("open", name="study-7"))["refused"]
    assert "refused" in sites.ask("east", kind="describe", name="other", mode="relay")
    assert sites.ask("east", kind="describe", name="study-7", mode="relay")["rows"] == ROWS["east"]
    assert "state" in sites.ask("east", **request(name="study-7"))


# Files that are lost, or put back from an older copy


def files(folder, name):
    """The SQLite file of this name, and those beside it."""
    return sorted(folder.glob(f"{name}*"))


def copy_of(folder, name):
    return {file: file.read_bytes() for file in files(folder, name)}


def put_back(folder, name, copy):
    for file in files(folder, name):
        file.unlink()
    for file, data in copy.items():
        file.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ledger.db", "ledger.db must exist next to .*: what rows have spent would be lost"),
        ("releases.db", "releases.db must exist next to .*: what was released would be lost"),
    ],
)
def test_a_site_does_not_start_without_one_of_its_two_records(tmp_path, network, name, message):
    sites = network(seed=None)
    sites.ask("east", **request())
    sites.close()
    put_back(tmp_path / "east", name, {})
    with pytest.raises(ValueError, match=message):
        Network(tmp_path, ["east"])
    assert files(tmp_path / "east", name) == []  # nor does it start the next time


def test_a_lost_record_of_answers_can_be_begun_anew_by_another_name(tmp_path, network):
    """The charges stay: what was released is not made again, and a new job finds the budget spent."""
    sites = network(seed=None)
    sites.ask("east", **request())
    sites.close()
    put_back(tmp_path / "east", "releases.db", {})
    (tmp_path / "east" / "site.toml").write_text(policy_text("east", releases="releases-2.db"))
    sites = Network(tmp_path, ["east"])
    assert "what was released is not on record" in sites.ask("east", **request())["refused"]
    assert "would exceed their budget" in sites.ask("east", **request(job="another"))["refused"]
    sites.close()


def test_the_ledger_of_another_site_is_refused(tmp_path, network):
    sites = network(seed=None)
    sites.ask("east", **request())
    sites.close()
    put_back(tmp_path / "east", "ledger.db", {})
    (tmp_path / "east" / "ledger.db").write_bytes((tmp_path / "west" / "ledger.db").read_bytes())
    with pytest.raises(ValueError, match=r"budget must be at most 1|must be the ledger that was beside"):
        Network(tmp_path, ["east"])


def test_an_older_ledger_is_refused(tmp_path, network):
    """Put back from a copy, it would allow a second release of every row."""
    sites = network(seed=None)
    sites.close()
    copy = copy_of(tmp_path / "east", "ledger.db")
    sites = Network(tmp_path, ["east"])
    sites.ask("east", **request())
    sites.close()
    put_back(tmp_path / "east", "ledger.db", copy)
    with pytest.raises(ValueError, match=r"must have charged what .* has answered, got an older copy"):
        Network(tmp_path, ["east"])


@pytest.mark.parametrize("begun", [False, True])
def test_older_releases_do_not_let_a_segment_run_again(tmp_path, network, monkeypatch, begun):
    """Put back from a copy made before the answer: with fresh noise, the rows would be released twice."""
    sites = network(seed=None)
    if begun:  # the copy has the release, but not its answer
        with monkeypatch.context() as crash:
            crash.setattr("uneven.federation.site.Site._start", lambda self, asked, _: self._claim(asked) and "{}")
            sites.ask("east", **request())
    sites.close()
    copy = copy_of(tmp_path / "east", "releases.db")
    sites = Network(tmp_path, ["east"])
    assert "state" in sites.ask("east", **request())
    sites.close()
    put_back(tmp_path / "east", "releases.db", copy)
    sites = Network(tmp_path, ["east"])
    for _ in range(2):
        assert "what was released is not on record" in sites.ask("east", **request())["refused"]
    assert spent(sites) == {EPSILON["east"]}
    sites.close()


@pytest.mark.parametrize(("copied", "answered"), [(2, 5), (2, 3)], ids=["another reservation", "the same"])
def test_older_releases_do_not_let_a_batch_answer_again(tmp_path, network, monkeypatch, copied, answered):
    """A copy from before a later reservation is refused; from one in between, all reserved batches are passed over."""
    monkeypatch.setattr("uneven.federation.releases.AHEAD", 4)
    monkeypatch.setattr("uneven.federation.site.AHEAD", 4)
    sites = network(seed=None)
    sites.ask("east", **request("open"))
    for at in range(copied):
        sites.ask("east", **step(at=at))
    sites.close()
    copy = copy_of(tmp_path / "east", "releases.db")
    sites = Network(tmp_path, ["east"])
    sites.ask("east", **request("open"))
    for at in range(copied, answered):
        assert sites.ask("east", **step(at=at))["rows"] == 20
    sites.close()
    put_back(tmp_path / "east", "releases.db", copy)
    sites = Network(tmp_path, ["east"])
    opened = sites.ask("east", **request("open"))
    if answered > 4:
        assert "what was released is not on record" in opened["refused"]
        assert sites.ask("east", **step(at=2)) == {"closed": "j/0"}
    else:
        rows = [sites.ask("east", **step(at=at)).get("rows") for at in range(copied, 12)]
        assert rows == [20] * 9 + [None]  # of 13 batches, those after the four that were reserved
    sites.close()


def test_only_the_owner_can_read_what_a_site_keeps(tmp_path, network):
    """Also files that an older version made for everyone."""
    sites = network(seed=None)
    sites.close()
    (tmp_path / "east" / "releases.db").chmod(0o644)
    sites = Network(tmp_path, ["east"])
    sites.ask("east", **request())
    kept = [file for name in ("ledger.db", "releases.db", "site.lock") for file in files(tmp_path / "east", name)]
    assert len(kept) >= 3
    assert {oct(file.stat().st_mode & 0o777) for file in kept} == {"0o600"}
    sites.close()


def test_a_failure_tells_nothing_of_the_rows(network, monkeypatch):
    sites = network(seed=None)

    def fails(*_):
        raise ValueError("row 17 has the value 0.123")

    monkeypatch.setattr("uneven.federation.site.run_segment", fails)
    assert sites.ask("east", **request()) == {"failed": "'east' could not answer; its own log says why"}
    monkeypatch.undo()
    # That it failed was told, and may depend on the rows: done again under the same charge, it would tell more.
    assert sites.ask("east", **request()) == {"failed": "'east' could not answer; its own log says why"}
    assert spent(sites) == {EPSILON["east"]}


def test_a_step_that_failed_is_not_answered_again(network, monkeypatch):
    sites = network(seed=None)
    sites.ask("east", **request("open"))
    with monkeypatch.context() as broken:
        broken.setattr("uneven.federation.segments.Batches.answer", lambda *_: 1 / 0)
        assert "failed" in sites.ask("east", **step(at=0))
    sites.ask("east", **request("open"))
    assert "failed" in sites.ask("east", **step(at=0))
    assert "rows" in sites.ask("east", **step(at=1))


@pytest.mark.parametrize(
    ("where", "change"),
    [
        ("problem", {"classes": 5}),
        ("problem", {"class_weights": [0.5, 1.0]}),
        ("schedule", {"kind": "matrixclock", "variance": [1e-9], "curvature": [1e-9], "longest": 1e18}),
        ("moment", [2.5e-10, -1e-9, 0.0]),
    ],
)
def test_tasks_that_could_break_the_loops_are_refused_before_any_charge(network, where, change):
    """Other numbers of classes, clocks with a matrix and negative moments: found by an attack."""
    sites, asked = network(seed=None), request()
    asked["task"][where] = {**asked["task"][where], **change} if where == "problem" else change
    assert "refused" in sites.ask("east", **asked)
    assert spent(sites) == set()


@pytest.mark.parametrize(
    "change", [{"step": 10**400}, {"released": {"east": 10**400}}, {"estimates": {"east": [-1, -2]}}]
)
def test_states_with_impossible_counts_are_refused_before_any_charge(network, change):
    sites, asked = network(seed=None), request()
    asked["state"] = {**asked["state"], **change}
    assert "refused" in sites.ask("east", **asked)
    assert spent(sites) == set()


# Step by step


def test_steps_come_in_order_each_once(network):
    sites = network(seed=None)
    assert sites.ask("east", **step()) == {"closed": "j/0"}
    assert spent(sites) == set()
    assert sites.ask("east", **request("open")) == {"rows": ROWS["east"]}
    assert spent(sites) == {EPSILON["east"]}
    first = sites.ask("east", **step(at=0))
    assert sites.ask("east", **step(at=0)) == first
    assert "answered for another request" in sites.ask("east", **step(at=0, weights=[1.0] * D))["refused"]
    assert "step must be 1, the next one, got 2" in sites.ask("east", **step(at=2))["refused"]
    assert "weights must be a list of 5 numbers" in sites.ask("east", **step(at=1, weights=[0.0]))["refused"]
    rows = [first["rows"], *(sites.ask("east", **step(at=at))["rows"] for at in range(1, 13))]
    assert rows == [20] * 13
    assert sum(rows) == ROWS["east"]
    assert sites.ask("east", **step(at=13)) == {"finished": 13}


def test_batches_after_a_restart_are_those_not_used_yet(tmp_path, network):
    """Without noise the gradients tell which rows answered: over a restart at every step, each row answers once."""
    names = {"east": policy_text("east", epsilon=None, budget=None, private=False)}
    sites = network(seed=None)
    sites.close()
    (tmp_path / "east" / "site.toml").write_text(names["east"])
    total = np.zeros(D)
    for at in range(13):
        site = Site(read_policy(tmp_path / "east" / "site.toml"))
        opened = json.loads(site.answer(json.dumps(request("open", noise=uneven.Exact()))))
        assert opened == {"rows": ROWS["east"]}
        answer = json.loads(site.answer(json.dumps(step(at=at))))
        total += answer["total"]
        site.close()
    site = Site(read_policy(tmp_path / "east" / "site.toml"))
    whole = json.loads(site.answer(json.dumps(request("open", 1, noise=uneven.Exact(), job="j"))))
    assert whole == {"rows": ROWS["east"]}
    again = sum(np.array(json.loads(site.answer(json.dumps(step(1, at))))["total"]) for at in range(13))
    site.close()
    np.testing.assert_allclose(total, again, rtol=1e-6)  # float32 rows, summed in another order


def test_after_a_restart_of_the_machine_reserved_batches_are_passed_over(tmp_path, network, monkeypatch):
    """Answers that had not reached the disk may have been sent: their batches are not used again."""
    monkeypatch.setattr("uneven.federation.releases.AHEAD", 4)
    sites = network(seed=None)
    sites.ask("east", **request("open"))
    for at in range(6):
        sites.ask("east", **step(at=at))
    book = sites.sites["east"].releases._book
    book.execute("DELETE FROM answer WHERE step >= 5")  # lost with the machine
    sites.close()
    monkeypatch.setattr("uneven.federation.releases.boot_id", lambda: "another")
    sites.sites = Network(tmp_path).sites
    sites.ask("east", **request("open"))
    rows = [sites.ask("east", **step(at=at)).get("rows") for at in range(5, 11)]
    assert rows == [20, 20, 20, 20, 20, None]  # of 13 batches five are left: eight were reserved


def test_a_process_that_ends_before_its_first_answer_has_lost_no_batch(tmp_path, network):
    """Batches were reserved and nothing was sent; the machine was not restarted, so all are still there to be used."""
    sites = network(seed=None)
    sites.ask("east", **request("open"))
    assert sites.sites["east"].releases.reserve("j/0", 0) > 0
    sites.close()
    sites.sites = Network(tmp_path).sites
    sites.ask("east", **request("open"))
    assert [sites.ask("east", **step(at=at)).get("rows") for at in range(14)] == [20] * 13 + [None]


def test_silent_rows_cost_nothing_on_the_wire(network):
    """At a small activity most batches of one row are silent; they answer without a vector."""
    sites, noise = network(seed=7), uneven.LocalPrivacy(EPSILON["east"], activity=0.1)
    message = request("open", noise=noise)
    message["task"]["problem"]["batch_size"] = 1
    sites.ask("east", **message)
    answers = [sites.ask("east", **step(at=at)) for at in range(60)]
    assert {len(one["total"]) for one in answers} == {0, D}
    assert all((one["total"] == []) == (one["silent"] == 1) for one in answers)


# The policy file


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": None}, "needs 'epsilon'"),
        ({"budget": None}, "needs 'budget'"),
        ({"private": False}, "epsilon must be left out where private = false"),
        ({"epsilon": -1.0}, "epsilon must be a positive finite number"),
        ({"classes": [1, 0]}, "classes must be two labels of one kind, in order"),
        ({"classes": [0]}, "classes must be a list of two labels"),
        ({"modes": ["all"]}, "modes must be one of 'relay', 'oracle'"),
        ({"features": []}, "features must be a list of at least one name"),
        ({"features": ["a", "nothing"]}, "nothing"),
        ({"classes": [0, 2]}, "labels must be of the classes"),
        ({"id": "a"}, "must be whole numbers"),
        ({"bugdet": 1.0}, "has no key 'bugdet'"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_a_policy_that_does_not_hold_is_refused_at_the_start(tmp_path, network, change, message):
    network().close()
    (tmp_path / "east" / "site.toml").write_text(policy_text("east", **change))
    with pytest.raises(ValueError, match=message):
        Site(read_policy(tmp_path / "east" / "site.toml"))


def test_one_process_at_a_time(tmp_path, network):
    network()
    with pytest.raises(ValueError, match="must be used by one site at a time"):
        Site(read_policy(tmp_path / "east" / "site.toml"))


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True)])
def test_a_batch_is_refused_from_the_largest_size_on(more, refused):
    problem = uneven.Problem(D, 0.1, MOST_BATCH + more)
    if refused:
        with pytest.raises(Refused, match=r"batch_size must be at most 1,000,000,000, got 1000000001$"):
            refuse_problem(problem, D)
    else:
        refuse_problem(problem, D)
