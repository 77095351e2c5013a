"""Rows that take no step, across sites: what a federated run learns of them is what a local fit does, to the bit."""

import json
import math
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import sites
from sites import FEATURES, Network, make_folders, policy_text, train_locally, write_rows

from uneven.cli.federate import _words
from uneven.datasets import load_covertype_sample
from uneven.federation.calls import Ask
from uneven.federation.policy import policy_to_text
from uneven.federation.server import federate
from uneven.io import read_sources
from uneven.planner import ALL, RARELY
from uneven.training.files import train_files
from uneven.training.scan import scan_rows

pytestmark = pytest.mark.filterwarnings("ignore::uneven.SimulationWarning")

EPSILON = {"east": 0.5, "north": 1.0, "west": 0.3}
ROWS = {"east": 1500, "north": 2100, "west": 3}
EQUAL, UNEQUAL = 0.0, 0.9


def draw(name, rows, cut, seed=0):
    """Rows of which those whose first feature is above the cut are mostly of class 1."""
    rng = np.random.default_rng([seed, *name.encode()])
    X = rng.normal(size=(rows, len(FEATURES)))
    X *= rng.uniform(0.2, 1.1, (rows, 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X[:, 0] + 0.2 * rng.normal(size=rows) > 0.5 * cut).astype(int)


@pytest.fixture
def make(tmp_path):
    """Makes sites so noisy that a fit keeps rows; they are closed after the test."""
    made = []

    def make(*args, **how):
        made.append(open_noisy(tmp_path, *args, **how))
        return made[-1]

    yield make
    for one in made:
        one.close()


def open_noisy(root, cut=EQUAL, top=None, kind="local-privacy", **policy):
    """Sites with so much noise that a fit keeps rows; or, with `louder`, with ε so many times as large."""
    louder = policy.pop("louder", 1.0)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(sites, "EPSILON", {name: louder * epsilon for name, epsilon in EPSILON.items()})
        make_folders(root, rows=ROWS, top=top)
        for name, count in ROWS.items():
            write_rows(root / name / "rows.csv", *draw(name, count, cut))
            text = policy_text(name, **{"seed": 7, "noises": [kind], **policy})
            (root / name / "site.toml").write_text(text)
    for file in ("local.toml", "sources.toml"):
        (root / file).write_text((root / file).read_text().replace("local-privacy", kind))
    return Network(root, ROWS)


def run(tmp_path, network, mode="relay", job="job", call=None):
    return federate(read_sources(tmp_path / "sources.toml"), Ask(call or network.call, 1.0), tmp_path / job, mode=mode)


def asked(network, *kinds):
    """Sites that were asked in these ways, in this order."""
    return [site for site, text, _ in network.messages if json.loads(text)["kind"] in kinds]


# The same as a local fit

CASES = [
    (EQUAL, {}),
    (UNEQUAL, {}),
    (EQUAL, {"fit_intercept": False}),
    (UNEQUAL, {"fit_intercept": False}),
    (EQUAL, {"loss": "hinge"}),
    (UNEQUAL, {"loss": "hinge"}),
    (UNEQUAL, {"batch_size": "auto"}),
    (UNEQUAL, {"alpha": 0.1}),  # the ball is smaller than the classes' shares need
]


@pytest.mark.parametrize("kind", ["local-privacy", "site-privacy"])
@pytest.mark.parametrize(("cut", "top"), CASES, ids=str)
def test_relay_with_kept_rows_equals_the_local_fit_to_the_bit(tmp_path, make, cut, top, kind):
    """West has too few rows to keep one: it takes steps alone. With an intercept some rows tell the classes first."""
    network = make(cut, top=top, kind=kind)
    local, federated = train_locally(tmp_path), run(tmp_path, network)
    assert federated.plan == local.plan
    assert federated.plan.kept > 0
    assert (federated.plan.tellers > 0) == ("fit_intercept" not in top)
    np.testing.assert_array_equal(federated.model.coef, local.model.coef)
    np.testing.assert_array_equal(federated.model.intercept, local.model.intercept)
    assert federated.state.silent == local.trained.states[0].silent
    assert federated.model.privacy_spent == local.model.privacy_spent == dict.fromkeys(EPSILON, math.inf)  # a seed
    said = [note for note in local.model.notes if "This machine" not in note]
    assert list(federated.notes) == said
    assert any("held back to calibrate" in note for note in said)
    if "fit_intercept" in top or cut == UNEQUAL:  # of equal shares, one draw in 50 seems unequal
        assert any("clearly unequal" in note for note in said) == ("fit_intercept" not in top)
    assert asked(network, "relay") == ["west", "east", "north"]
    assert asked(network, "length") == ["east", "north"]
    assert asked(network, "shares") == (["east", "north"] if federated.plan.tellers else [])


@pytest.mark.parametrize("mode", ["relay", "oracle"])
def test_rows_tell_the_shares_alone_where_noise_is_small(tmp_path, make, mode):
    """Site privacy with little noise: all kept rows tell their class, nobody is asked for the length."""
    network = make(UNEQUAL, {"alpha": 0.1}, "site-privacy", louder=40.0, modes=[mode])
    local, federated = train_locally(tmp_path), run(tmp_path, network, mode)
    assert federated.plan == local.plan
    assert (federated.plan.kept, federated.plan.tellers) == (RARELY, ALL)
    np.testing.assert_allclose(federated.model.coef, local.model.coef, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(federated.model.intercept, local.model.intercept, rtol=1e-5, atol=1e-8)
    assert list(federated.notes) == [note for note in local.model.notes if "This machine" not in note]
    assert federated.notes[0].startswith("72 private rows told their classes, which are clearly unequal.")
    assert asked(network, "shares") == ["east", "north"]
    assert asked(network, "length") == []


@pytest.mark.parametrize(("cut", "top"), CASES[:4], ids=str)
def test_oracle_with_kept_rows_equals_the_local_fit_up_to_rounding(tmp_path, make, cut, top):
    """A message per step; the shares and the length are a message per site, as in a relay."""
    network = make(cut, top=top, modes=["oracle"])
    local, federated = train_locally(tmp_path), run(tmp_path, network, "oracle")
    assert federated.plan == local.plan
    np.testing.assert_allclose(federated.model.coef, local.model.coef, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(federated.model.intercept, local.model.intercept, rtol=1e-5, atol=1e-8)
    assert list(federated.notes) == list(local.model.notes)
    assert len(asked(network, "step")) == local.plan.steps
    assert asked(network, "length") == ["east", "north"]


def test_rows_that_are_too_many_for_memory_are_kept_by_their_place_too(tmp_path, make, monkeypatch):
    monkeypatch.setattr("uneven.federation.rows.scan_rows", partial(scan_rows, held_bytes=0))
    network = make(UNEQUAL)
    local = train_files(read_sources(tmp_path / "local.toml"), seed=7, held_bytes=0)
    federated = run(tmp_path, network)
    assert local.plan.tellers > 0
    np.testing.assert_array_equal(federated.model.coef, local.model.coef)
    np.testing.assert_array_equal(federated.model.intercept, local.model.intercept)


@pytest.mark.parametrize("top", [{"strategy": "precision"}, {"average": "late"}, {"clip": 0.5}, {"loss": "linear"}])
def test_nothing_is_kept_where_a_local_fit_keeps_nothing(tmp_path, make, top):
    """What is asked for is what it was before, and what is said where steps alone are in doubt is that of a fit."""
    network = make(top=top)
    local, federated = train_locally(tmp_path), run(tmp_path, network)
    assert federated.plan == local.plan
    assert federated.plan.kept == 0
    np.testing.assert_array_equal(federated.model.coef, local.model.coef)
    assert list(federated.notes) == list(local.model.notes)
    assert len(network.messages) == 6
    assert not any('"kept"' in text for _, text, _ in network.messages)


def test_the_command_says_what_the_kept_rows_found(tmp_path, make):
    federated = run(tmp_path, make(UNEQUAL))
    said = _words(federated, tmp_path / "model.json", rehearsed=True)
    assert [line for line in said if line.startswith("Note: ")] == [f"Note: {note}" for note in federated.notes]
    assert len(federated.notes) == 2


def test_very_noisy_sites_are_not_above_predicting_nothing(tmp_path):
    """Covertype at ε = 0.3: steps alone end above the loss of predicting nothing, log 2; the answer does not."""
    data = load_covertype_sample()
    numbers = np.random.default_rng(0).permutation(len(data.y))[:12_000]
    X, y = data.X[numbers], data.y[numbers]
    names = [f"x{i}" for i in range(X.shape[1])]
    text = f'features = {json.dumps(names)}\nlabel = "y"\n'
    for name, mine in (("one", slice(0, 7_000)), ("two", slice(7_000, None))):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "rows.npz", X=X[mine], y=(y[mine] > 0).astype(int))
        values = {"name": name, "data": "rows.npz", "features": names, "classes": [0, 1], "seed": 1}
        values |= {"epsilon": 0.3, "budget": 0.3, "row_norm": 1.0}
        (tmp_path / name / "site.toml").write_text(policy_to_text(values))
        noise = '{ kind = "local-privacy", epsilon = 0.3 }'
        text += f'[[source]]\nname = "{name}"\nrows = {len(y[mine])}\nnoise = {noise}\n'
    (tmp_path / "sources.toml").write_text(f"row_norm = 1.0\nalpha = 0.001\n{text}")
    network = Network(tmp_path, ["one", "two"])
    found = run(tmp_path, network)
    network.close()

    def measure(coef, intercept):
        return np.logaddexp(0, -np.where(y > 0, 1, -1) * (X @ coef + intercept)).mean()

    assert found.left_out == {}
    assert measure(*found.model.scale.coefficients(np.array(found.state.answer))) > np.log(2) + 0.015  # by steps alone
    assert measure(found.model.coef[0], found.model.intercept[0]) < np.log(2) + 0.002


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # NVFlare's own
def test_a_rehearsal_says_and_saves_what_a_local_fit_does(tmp_path, make):
    """Each site in a process of its own: the model's file is the same to the last digit."""
    pytest.importorskip("nvflare", reason="NVFlare is not installed: pip install 'uneven[federation]'")
    make(UNEQUAL)
    said = {}
    for name, words in (("far", ["federate", "--rehearse"]), ("near", ["fit"])):
        command = [sys.executable, "-m", "uneven", *words, "local.toml", "--seed", "7", "-o", f"{name}.json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        said[name] = [line for line in done.stdout.splitlines() if line.startswith("Note: ")]
    assert said["far"] == said["near"]
    assert len(said["far"]) == 2
    assert json.loads((tmp_path / "far.json").read_text()) == json.loads((tmp_path / "near.json").read_text())
