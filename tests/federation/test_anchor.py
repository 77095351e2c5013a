"""A site without privacy is the anchor: private sites add to what it says, as in a local fit."""

import base64
import json
from contextlib import closing

import numpy as np
import pytest
from sites import DIRECTION, FEATURES, ROWS, Network, make_folders, make_rows, policy_text, write_rows

import uneven
from uneven.anchor import uncertainty
from uneven.anchor.clock import Coordinates
from uneven.anchor.rows import PublicRows
from uneven.anchor.uncertainty import fit_anchor
from uneven.federation.anchors import NUMBERS, VECTORS
from uneven.federation.asking import SitesObjective, learn_together
from uneven.federation.calls import Ask
from uneven.federation.messages import matrix_from_text, matrix_to_text
from uneven.federation.server import federate
from uneven.federation.sums import sum_left_out, sum_losses
from uneven.io import read_sources
from uneven.problem import Problem
from uneven.schedules import FARTHEST
from uneven.training.files import train_files

pytestmark = pytest.mark.filterwarnings("ignore::uneven.SimulationWarning")

ALL = {"public": ("west",), "top": {"use": "all"}}
D = len(FEATURES) + 1


def both(tmp_path, sites, **how):
    local = train_files(read_sources(tmp_path / "local.toml"), seed=7)
    return local, federate(read_sources(tmp_path / "sources.toml"), Ask(sites.call, 1.0), tmp_path / "job", **how)


@pytest.mark.parametrize("alpha", [0.01, "auto"])
def test_equals_the_local_fit(tmp_path, network, alpha):
    """The same draws, the same frames: up to the rounding of matrix products in another memory layout."""
    sites = network(public=("west",), top={"use": "all", "alpha": alpha})
    local, federated = both(tmp_path, sites)
    assert federated.plan.strategy == "anchored"
    np.testing.assert_allclose(federated.model.coef, local.model.coef, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(federated.model.intercept, local.model.intercept, rtol=1e-9)
    assert federated.plan.order == local.plan.order == ["west", "north", "east"]
    assert federated.model.alpha == pytest.approx(local.model.alpha, rel=1e-12)
    assert federated.notes == local.trained.notes
    assert set(federated.plan.verdicts) == {"north", "east"}
    for name, verdict in federated.plan.verdicts.items():
        assert verdict.excess == pytest.approx(local.plan.verdicts[name].excess, rel=1e-9)
        assert verdict.word == local.plan.verdicts[name].word
    assert set(federated.model.privacy_spent) == {"north", "east"}


def test_equals_the_local_fit_where_sites_disagree(tmp_path):
    """Both private sites mean the opposite: the first begins a camp of its own, and the second joins it."""
    rows = {"east": 6_000, "north": 6_000, "west": 500}
    make_folders(tmp_path, rows=rows, **ALL)
    for name in ("north", "east"):
        X, y = make_rows(name, rows[name])
        write_rows(tmp_path / name / "rows.csv", X, 1 - y)
    sites = Network(tmp_path)
    local, federated = both(tmp_path, sites)
    np.testing.assert_allclose(federated.model.coef, local.model.coef, rtol=1e-9, atol=1e-12)
    assert federated.notes == local.trained.notes
    assert [json.loads(reply)["added"]["place"] for _, text, reply in sites.messages if '"add"' in text] == [1, 1]
    assert federated.model.coef[0] @ DIRECTION < 0.0
    sites.close()


@pytest.mark.parametrize("kind", ["local-privacy", "site-privacy"])
def test_equals_the_local_fit_where_the_public_rows_are_of_one_class(tmp_path, kind):
    """The first private site tells the share of the other class, and the second goes on from there."""
    rows = {"east": 3_000, "north": 6_000, "west": 40}
    make_folders(tmp_path, rows=rows, **ALL)
    write_rows(tmp_path / "west" / "rows.csv", make_rows("west", 40)[0], np.zeros(40, dtype=int))
    for file in ("local.toml", "sources.toml"):
        text = (tmp_path / file).read_text().replace("local-privacy", kind)
        (tmp_path / file).write_text(text.replace("label =", "classes = [0, 1]\nlabel ="))
    for name in ("east", "north"):
        (tmp_path / name / "site.toml").write_text(policy_text(name, seed=7, noises=[kind]))
    with closing(Network(tmp_path)) as sites:
        local, federated = both(tmp_path, sites)
    np.testing.assert_allclose(federated.model.coef, local.model.coef, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(federated.model.intercept, local.model.intercept, rtol=1e-9)
    first, second = (json.loads(text)["anchor"]["one_class"] for _, text, _ in sites.messages if '"kind":"add"' in text)
    assert first == {"rows": 40, "positive": False, "constant": pytest.approx(first["constant"])}
    assert second is None
    assert federated.model.coef[0] @ DIRECTION > 0.0


@pytest.mark.parametrize("public", [("west",), ("west", "north")])
def test_sites_with_noise_on_sums_are_told_the_covariance_before_it_is_limited(tmp_path, public, monkeypatch):
    """The steps take a part of the start's covariance, here a small one, and the test of agreement takes all of it.

    The notes of one public site are those of a local fit, p-values included.
    """
    monkeypatch.setattr(uncertainty, "FEW_STEPS", 0.1)
    make_folders(tmp_path, rows={"east": 3_000, "north": 5, "west": 12}, **ALL | {"public": public})
    for file in ("local.toml", "sources.toml"):
        (tmp_path / file).write_text((tmp_path / file).read_text().replace("local-privacy", "site-privacy"))
    for name in {"east", "north"} - {*public}:
        text = policy_text(name, seed=7, noises=["site-privacy"])
        (tmp_path / name / "site.toml").write_text(text)
    with closing(Network(tmp_path)) as sites:
        local, federated = both(tmp_path, sites)
    asked = next(json.loads(text)["anchor"] for _, text, _ in sites.messages if '"kind":"add"' in text)
    limited, unlimited = (matrix_from_text(key, asked[key], (D, D)) for key in ("covariance", "unlimited"))
    factor = limited[0, 0] / unlimited[0, 0]
    assert factor < 0.11
    np.testing.assert_allclose(limited, factor * unlimited, rtol=1e-9)
    if len(public) == 1:
        assert federated.notes == local.trained.notes[:2]  # at home the last is that this machine is trusted
        np.testing.assert_allclose(federated.model.coef, local.model.coef, rtol=1e-9, atol=1e-12)


def test_the_verdict_is_shown_before_a_private_site_is_asked(tmp_path, network):
    sites, shown = network(**ALL), []
    both(tmp_path, sites, show=lambda plan: shown.append((dict(plan.verdicts), len(sites.messages))))
    ((verdicts, messages),) = shown
    assert set(verdicts) == {"north", "east"}
    assert messages == 4  # three descriptions and the anchor
    assert [json.loads(text)["kind"] for _, text, _ in sites.messages[3:]] == ["anchor", "add", "add"]


def test_a_site_that_is_not_expected_to_help_is_not_asked(tmp_path, network):
    rows = {"east": 30, "north": 30, "west": 3000}
    sites = network(public=("west",), rows=rows)
    _, federated = both(tmp_path, sites)
    assert federated.used == ("west",)
    assert all(sites.sites[name].ledger.sources() == {} for name in ("east", "north"))


def test_the_anchor_sends_no_row(tmp_path, network):
    """Vectors of one number per column, and square matrices of the columns: none is a row, and none holds one."""
    sites = network(**ALL)
    both(tmp_path, sites)
    reply = next(json.loads(reply) for _, text, reply in sites.messages if '"kind":"anchor"' in text)
    rows = set(make_rows("west", ROWS["west"])[0].ravel().tolist())
    summary, seen = reply["summary"], set()
    for values in (summary, *summary["frames"]):
        for key, value in values.items():
            if isinstance(value, str):
                numbers = np.frombuffer(base64.b64decode(value))
                assert numbers.shape == (D * D,), key
                seen |= set(numbers.tolist())
            elif isinstance(value, list) and key != "frames":
                assert len(value) == D
                seen |= set(value)
    assert len(seen) > 100
    assert not rows & seen
    assert not {float(np.float32(value / 1.0307774)) for value in rows} & seen  # nor as scaled


def test_a_private_site_is_no_anchor(tmp_path, network):
    sites = network(**ALL)
    both(tmp_path, sites)
    text = next(text for _, text, _ in sites.messages if '"kind":"anchor"' in text)
    assert "are private: they cannot be the anchor" in json.loads(sites.call("east", text))["refused"]


def test_a_replayed_request_and_a_second_one(tmp_path, network):
    sites = network(seed=None, **ALL)
    federate(read_sources(tmp_path / "sources.toml"), Ask(sites.call, 1.0), tmp_path / "job")
    text, reply = next((text, reply) for site, text, reply in sites.messages if site == "east" and '"add"' in text)
    assert sites.call("east", text) == reply
    other = json.loads(text)
    other["anchor"]["weights"] = [0.0] * D
    assert "each row is released once" in json.loads(sites.call("east", json.dumps(other)))["refused"]
    other["job"] = "another"
    assert "would exceed their budget" in json.loads(sites.call("east", json.dumps(other)))["refused"]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("anchor", "weights"), [1e300] * D),
        (("anchor", "covariance"), "AAAA"),
        (("anchor", "frames"), []),
        (("anchor", "frames", 0, "curvature"), [0.0] * D),
        (("anchor", "frames", 0, "transform"), base64.b64encode(np.zeros((D, D)).tobytes()).decode()),
        (("anchor", "frames", 0, "transform"), base64.b64encode(np.full((D, D), np.nan).tobytes()).decode()),
        (("anchor", "frames", 0, "longest_step"), 1e12),
        (("others",), [{"weights": [1e300] * D, "covariance": "AAAA"}]),
        (("anchor", "one_class"), {"rows": 5, "positive": True, "constant": 0.0}),
        (("anchor", "unlimited"), "AAAA"),
        (("others",), 3),
        (("noise",), {"kind": "exact"}),
        (("problem", "n_features"), 3),
    ],
)
def test_wild_numbers_are_refused(tmp_path, network, place, value):
    sites = network(seed=None, budget=100.0, **ALL)
    federate(read_sources(tmp_path / "sources.toml"), Ask(sites.call, 1.0), tmp_path / "job")
    before = sites.sites["east"].ledger.max_spent("east")
    message = json.loads(next(text for site, text, _ in sites.messages if site == "east" and '"add"' in text))
    message["job"] = inner = "another"
    inner = message
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    assert "refused" in sites.ask("east", **message)
    assert sites.sites["east"].ledger.max_spent("east") == before


@pytest.mark.parametrize("size", [1, 20])
def test_steps_that_would_grow_without_end_stay_finite(tmp_path, network, size):
    """A ridge of 1e9 with steps of 1e9 multiplies weights by 1e18 per step: NaN for some rows would not be private."""
    sites = network(seed=None, budget=100.0, **ALL)
    federate(read_sources(tmp_path / "sources.toml"), Ask(sites.call, 1.0), tmp_path / "job")
    message = json.loads(next(text for site, text, _ in sites.messages if site == "east" and '"add"' in text))
    message["job"], message["problem"]["batch_size"] = "another", size
    message["anchor"]["covariance"] = matrix_to_text(1e6 * np.eye(D))
    for frame in message["anchor"]["frames"]:
        frame |= {"transform": matrix_to_text(np.eye(D)), "hessian": matrix_to_text(np.eye(D)), "longest_step": 1e9}
        frame |= {"curvature": [1.0] * D, "ridge": [1e9] * D}
    reply = sites.ask("east", **message)
    assert np.abs(reply["state"]["weights"]).max() == FARTHEST


# Several sites without privacy


def asked_here(rows):
    """Sites as functions: the sums of rows in memory."""

    def ask(name, request):
        problem, w = Problem.from_dict(request["problem"]), np.array(request["weights"])
        if request["reach"] is None:
            return sum_losses(rows[name], problem, w, request["curvature"])
        reach = matrix_from_text("reach", request["reach"], (len(w), len(w)))
        return sum_left_out(rows[name], w, reach, request["share"])

    return ask


@pytest.mark.parametrize("chosen", [None, 0.004])
@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_sums_give_the_start_and_covariance_of_all_rows_together(chosen, rate):
    """As `fit_anchor` has them for all rows in one place: both stop within 1e-8 of the least objective."""
    noises = {"east": uneven.Exact(), "north": uneven.FlippedLabels(rate) if rate else uneven.Exact()}
    data = {name: make_rows(name, count) for name, count in (("east", 60), ("north", 90))}
    data = {name: (X / 1.2, 2.0 * y - 1.0) for name, (X, y) in data.items()}
    rows = {name: PublicRows.from_arrays(*pair, noises[name]) for name, pair in data.items()}
    problem, factors = Problem(len(FEATURES), 0.002, 1), np.array([1.0, 1.0, 1.0, 0.01])
    counts = {name: one.count for name, one in rows.items()}
    objective = SitesObjective(asked_here(rows), {}, problem, noises, counts, factors)
    weights, covariance, likely = learn_together(objective, factors.tolist(), chosen)
    X, y = (np.concatenate([pair[k] for pair in data.values()]) for k in (0, 1))
    rates = np.repeat([0.0, rate], list(counts.values()))
    whole = fit_anchor(X, y, problem.alpha, factors, chosen, rates)
    np.testing.assert_allclose(weights, whole.weights, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(covariance, whole.covariance, rtol=1e-4, atol=1e-8)
    assert likely == pytest.approx(whole.likely, rel=1e-4)


def test_several_public_sites_alone_equal_the_local_fit(tmp_path, network):
    """Where no private site is expected to help, the answer is that of all public rows, however they are spread."""
    sites = network(public=("west", "east"), rows={"east": 800, "north": 20, "west": 1100})
    local, federated = both(tmp_path, sites)
    assert set(federated.used) == {"east", "west"}
    np.testing.assert_allclose(federated.model.coef, local.model.coef, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(federated.model.intercept, local.model.intercept, rtol=1e-3, atol=1e-5)
    assert sites.sites["north"].ledger.sources() == {}


@pytest.mark.slow
def test_private_sites_add_to_several_public_ones_as_well_as_at_home(tmp_path, network):
    """The coordinates are those of the largest public site, so the draws differ: on average the objective does not.

    Ten seeds on fresh rows; the means of both agree within three standard errors of their difference.
    """
    network(public=("west", "east"), top={"use": "all"}).close()
    X, y = make_rows("fresh", 4000)
    signs, found = 2.0 * y - 1.0, []
    for seed in range(10):
        text = policy_text("north", seed=seed)
        (tmp_path / "north" / "site.toml").write_text(text)
        for file in (tmp_path / "north").glob("*.db*"):
            file.unlink()
        sites = Network(tmp_path)
        here = federate(read_sources(tmp_path / "sources.toml"), Ask(sites.call, 1.0), tmp_path / f"job{seed}")
        local = train_files(read_sources(tmp_path / "local.toml"), seed=seed)
        assert here.plan.converged == local.plan.converged == ("east", "west")
        assert here.plan.verdicts["north"].excess == pytest.approx(local.plan.verdicts["north"].excess, rel=0.2)
        models = here.model, local.model
        losses = [np.logaddexp(0.0, -signs * (X @ one.coef[0] + one.intercept[0])).mean() for one in models]
        found.append(losses[0] - losses[1])
        sites.close()
    assert abs(np.mean(found)) < 3.0 * np.std(found, ddof=1) / np.sqrt(len(found))


def test_alpha_left_to_several_public_sites_is_chosen_at_the_largest(tmp_path, network):
    sites = network(public=("west", "east"), top={"use": "all", "alpha": "auto"})
    local, federated = both(tmp_path, sites)
    assert 0.2 < federated.model.alpha / local.model.alpha < 5.0  # neighbouring values of a coarse grid
    (first, *_, last) = [(site, json.loads(text)) for site, text, _ in sites.messages if '"anchor"' in text][:2]
    assert first[0] == last[0] == "east"
    assert last[1]["settings"]["alpha"] == federated.model.alpha


SUMS = [
    lambda _: {},
    lambda reply: {**reply, "gradient": [0.0]},
    lambda reply: {**reply, "gradient": [1e300] * D},
    lambda reply: {**reply, "value": "x"},
    lambda reply: {**reply, "hessian": base64.b64encode((-np.eye(D)).tobytes()).decode()},
]


@pytest.mark.parametrize("lie", SUMS)
def test_a_public_site_with_wrong_sums_is_left_out(tmp_path, network, lie):
    """The anchor is then that of the others, and no private row was spent for the first try."""
    sites = network(public=("west", "east"), top={"use": "all"})

    def call(site, text):
        reply = sites.call(site, text)
        return json.dumps(lie(json.loads(reply))) if site == "west" and '"kind":"sums"' in text else reply

    found = federate(read_sources(tmp_path / "sources.toml"), Ask(call, 1.0), tmp_path / "job")
    assert found.left_out["west"].startswith("'west' sent a wrong reply: ")
    assert found.plan.converged == ("east",)
    assert found.used == ("east", "north")


def test_private_rows_are_in_no_sum(tmp_path, network):
    sites = network(public=("west", "east"), top={"use": "all"})
    both(tmp_path, sites)
    text = next(text for _, text, _ in sites.messages if '"kind":"sums"' in text)
    assert "are private: they cannot be the anchor" in json.loads(sites.call("north", text))["refused"]
    kinds = [json.loads(text)["kind"] for site, text, _ in sites.messages if site == "north"]
    assert kinds == ["describe", "add", "sums"]


def test_oracle_mode_has_no_anchor_and_refuses_before_a_row_is_spent(tmp_path, network):
    sites = network(**ALL)
    file, ask = read_sources(tmp_path / "sources.toml"), Ask(sites.call, 1.0)
    with pytest.raises(ValueError, match="mode must be 'relay' where rows without privacy, of 'west', are the anchor"):
        federate(file, ask, tmp_path / "job", mode="oracle")
    assert [text for _, text, _ in sites.messages if '"describe"' not in text] == []
    (tmp_path / "sources.toml").write_text(f'strategy = "precision"\n{(tmp_path / "sources.toml").read_text()}')
    found = federate(read_sources(tmp_path / "sources.toml"), ask, tmp_path / "other", mode="oracle")
    assert found.plan.strategy == "precision"


def test_messages_hold_all_of_a_frame():
    placed = {"start", "covariance", "unlimited"}  # of the summary, and the freedom of the first frame with it
    assert (
        set(Coordinates.__dataclass_fields__)
        == {*VECTORS, *NUMBERS, "transform", "hessian", "freedom", "back"} | placed
    )
