"""A site without privacy is the anchor: private sites add to what it says, as in a local fit."""

import base64
import json

import numpy as np
import pytest
from sites import FEATURES, ROWS, make_rows

from uneven.anchor.clock import Coordinates
from uneven.federation.anchors import NUMBERS, VECTORS
from uneven.federation.calls import Ask
from uneven.federation.server import federate
from uneven.io import read_sources
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
    """Vectors of one number a column, and square matrices of the columns: none is a row, and none holds one."""
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
        (("share",), 2.0),
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


def test_two_sites_without_privacy_are_not_one_anchor(tmp_path, network):
    sites = network(public=("west", "east"))
    with pytest.raises(ValueError, match="one site without privacy can be the anchor"):
        federate(read_sources(tmp_path / "sources.toml"), Ask(sites.call, 1.0), tmp_path / "job")


def test_oracle_mode_has_no_anchor_and_says_so(tmp_path, network):
    """The site without privacy answers steps like the others; a plan that insists on an anchor is refused."""
    sites = network(**ALL)
    found = federate(read_sources(tmp_path / "sources.toml"), Ask(sites.call, 1.0), tmp_path / "job", mode="oracle")
    assert found.plan.strategy == "precision"
    assert found.notes == ("Oracle mode has no anchor: rows without privacy, of 'west', took steps like all others.",)
    assert not [text for _, text, _ in sites.messages if '"anchor"' in text]
    text = (tmp_path / "sources.toml").read_text()
    (tmp_path / "sources.toml").write_text(f'strategy = "anchored"\n{text}')
    with pytest.raises(ValueError, match="another than 'anchored' for these sites: mode is not relay"):
        federate(read_sources(tmp_path / "sources.toml"), Ask(sites.call, 1.0), tmp_path / "other", mode="oracle")


def test_messages_hold_all_of_a_frame():
    placed = {"start", "covariance"}  # of the summary, and the freedom of the first frame with it
    assert set(Coordinates.__dataclass_fields__) == {*VECTORS, *NUMBERS, "transform", "hessian", "freedom"} | placed
