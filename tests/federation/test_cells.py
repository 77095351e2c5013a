"""NVFlare as transport: three real processes, certificates, mutual TLS. All of it in one federation, to save starts."""

import json
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from sites import FEATURES, ROWS, make_folders, make_rows, train_locally, write_rows

pytest.importorskip("nvflare", reason="NVFlare is not installed: pip install 'uneven[federation]'")

from uneven.cli.app import main
from uneven.federation.calls import Ask
from uneven.federation.cells import _cell, open_server
from uneven.federation.kits import Kit, make_kits
from uneven.federation.rehearsal import start_site
from uneven.federation.server import federate
from uneven.io import read_sources
from uneven.ledger import Ledger
from uneven.planner import count_kept
from uneven.training import model_file

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]  # warnings of NVFlare


KEPT = 400
"""Rows that each site keeps aside."""


class Wire:
    """A forwarder on the loopback address that keeps the bytes it forwards."""

    def __init__(self, port):
        self.bytes, self.target = bytearray(), port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            one, _ = self.listener.accept()
            try:
                other = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                one.close()
                continue
            for pair in ((one, other), (other, one)):
                threading.Thread(target=self.forward, args=pair, daemon=True).start()

    def forward(self, source, target):
        try:
            while data := source.recv(65536):
                self.bytes += data
                target.sendall(data)
        except OSError:
            pass
        finally:
            for one in (source, target):
                one.close()


class Federation:
    """Three sites with kits, in processes of their own, reached over a wire that is listened to."""

    def __init__(self, root):
        self.root, self.port = root, free_port()
        self.wire = Wire(self.port)
        make_folders(root, budget=100.0, kept="kept.csv")
        for name in ROWS:
            write_rows(root / name / "kept.csv", *make_rows(name, KEPT, seed=1))
        make_kits(root, [*ROWS, "south", "valley", "hill"], f"127.0.0.1:{self.wire.port}")
        (root / "server" / "address.txt").write_text(f"127.0.0.1:{self.port}\n")
        self.sites = {name: start_site(root / name) for name in ROWS}
        self.file = read_sources(root / "sources.toml")

    def restart(self, name):
        self.sites[name].kill()
        self.sites[name].wait()
        self.sites[name] = start_site(self.root / name)

    def stop(self):
        for process in self.sites.values():
            process.kill()
            process.wait()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    made = Federation(tmp_path_factory.mktemp("federation"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def call(federation):
    with open_server(Kit(federation.root / "server")) as call:
        yield call


def test_three_processes_equal_the_local_run(federation, call):
    local = train_locally(federation.root)
    relay, oracle = (
        federate(federation.file, Ask(call, 60.0), federation.root / mode, mode=mode) for mode in ("relay", "oracle")
    )
    np.testing.assert_array_equal(relay.model.coef, local.model.coef)
    np.testing.assert_allclose(oracle.model.coef, local.model.coef, rtol=1e-10, atol=1e-12)
    assert relay.left_out == oracle.left_out == {}
    # What crossed is encrypted, and far too little to hold the rows: those are 16 bytes each and more in any form.
    assert b"weights" not in federation.wire.bytes
    assert b"describe" not in federation.wire.bytes
    assert len(federation.wire.bytes) > 10_000


def test_the_command_evaluates_across_sites(federation, call, monkeypatch, capsys):
    """``uneven evaluate --kit``, each site in a process of its own: randomised bits of rows kept aside, charged there.

    Within four standard errors of the model's true accuracy on these rows, √(1/(4n))/(1 - 2σ).
    """
    local = train_locally(federation.root).model
    model_file.save_model(local, federation.root / "model.json")
    monkeypatch.setattr("uneven.federation.open_server", lambda _: nullcontext(call))
    words = ["evaluate", "model.json", "--kit", "server", "--epsilon", "0.9", "--json"]
    monkeypatch.chdir(federation.root)
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 0
    found = json.loads(capsys.readouterr().out)
    kept = [make_rows(name, KEPT, seed=1) for name in ROWS]
    truth = np.mean(np.concatenate([local.predict(X) == y for X, y in kept]))
    rate, rows = 1 / (1 + np.exp(0.9)), KEPT * len(ROWS)
    assert abs(found["accuracy"]["value"] - truth) < 4 * np.sqrt(0.25 / rows) / (1 - 2 * rate)
    assert found["accuracy"]["rows"] == rows
    assert set(found["sites"]) == set(ROWS)
    assert found["left_out"] == {}
    for name in ROWS:
        assert Ledger(federation.root / name / "ledger.db").max_spent(f"{name}, kept") == 0.9


def test_a_site_that_is_killed_goes_on(federation, call):
    """kill -9 in the middle of a segment; steps that were answered are not answered again."""
    steps = []

    def tell(site, what, done, _of):
        if (site, what) == ("north", "at work"):
            steps.append(done)
            if len(steps) == 4:
                federation.restart("north")

    done = federate(federation.file, Ask(call, 60.0, tell), federation.root / "killed", mode="oracle")
    assert done.left_out == {}
    stepped = ROWS["north"] - count_kept(ROWS["north"], done.plan.kept)  # the others tell the length
    full = -(-stepped // 20)
    assert steps[:full] == [min(20 * (k + 1), stepped) for k in range(full)]
    assert set(Ledger(federation.root / "north" / "ledger.db").spent("north").values()) == {12.0}  # three jobs of 4


@pytest.mark.usefixtures("call")
def test_only_the_loopback_address_listens(federation):
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    addresses = {
        line[1].split(":")[0] for line in lines if line[3] == "0A" and line[1].endswith(f":{federation.port:04X}")
    }
    assert addresses == {"0100007F"}


@pytest.mark.usefixtures("call")
@pytest.mark.parametrize("kind", ["none", "of another authority"])
def test_a_client_without_a_valid_certificate_is_turned_away(federation, tmp_path, kind):
    context = ssl.create_default_context(cafile=str(federation.root / "east" / "authority.pem"))
    context.check_hostname = False
    if kind != "none":
        make_kits(tmp_path, ["east"], "127.0.0.1:8102")
        context.load_cert_chain(tmp_path / "east" / "certificate.pem", tmp_path / "east" / "key.pem")
    plain = socket.create_connection(("127.0.0.1", federation.port))
    with plain, pytest.raises(OSError):  # noqa: PT011 (with TLS 1.3 it comes with the first reading, or as a reset)
        _exchange(context, plain)


def _exchange(context, plain):
    with context.wrap_socket(plain) as wrapped:
        wrapped.settimeout(5.0)
        wrapped.sendall(b"hello")
        if not wrapped.recv(1):
            raise ConnectionResetError("closed")


def test_a_site_cannot_speak_for_another(federation, call):
    """A valid certificate, but the name of another site: NVFlare binds the one to the other."""
    impostor = _cell(Kit(federation.root / "east"), "south")
    impostor.start()
    time.sleep(2.0)
    with pytest.raises(ConnectionError, match="'south' is not connected"):
        call("south", json.dumps({"kind": "describe"}))
    threading.Thread(target=impostor.stop, daemon=True).start()


def test_the_server_forwards_nothing(federation, call):
    """A site that asks another for gradients through the server gets none."""
    from nvflare.fuel.f3.message import Message

    curious = _cell(Kit(federation.root / "valley"), "valley")
    curious.start()
    time.sleep(2.0)
    described = {"kind": "describe", "name": "x", "mode": "relay"}
    assert Ask(call, 60.0)("west", described)["rows"] == ROWS["west"]
    request = Message(payload=json.dumps(described).encode())
    reply = curious.send_request("uneven", "call", "west", request, timeout=3.0, optional=True)
    assert b"rows" not in bytes(reply.payload or b"")
    threading.Thread(target=curious.stop, daemon=True).start()


@pytest.mark.usefixtures("call")
def test_no_message_is_made_into_objects(federation, monkeypatch):
    """NVFlare would decode what a peer says is an object before anybody looks at it; a text gets through."""
    from nvflare.fuel.f3.cellnet import utils
    from nvflare.fuel.f3.message import Message

    decoded, seen = utils.fobs.loads, []
    monkeypatch.setattr(utils.fobs, "loads", lambda *what, **how: seen.append(what) or decoded(*what, **how))
    peer = _cell(Kit(federation.root / "hill"), "hill")
    peer.start()
    time.sleep(2.0)
    replies = {}
    for name, payload in (("object", {"kind": "describe"}), ("text", b"{}")):
        message = Message(payload=payload)
        replies[name] = peer.send_request("uneven", "call", "server", message, timeout=3.0, optional=True)
    assert seen == []
    codes = {name: reply.get_header("cn__return_code") for name, reply in replies.items()}
    assert codes["object"] != codes["text"]  # dropped, and answered that nobody takes it
    threading.Thread(target=peer.stop, daemon=True).start()


def test_the_command_line_rehearses(tmp_path):
    """One command: a process for each source, and the model of a local fit with the same seed."""
    make_folders(tmp_path)
    command = [sys.executable, "-m", "uneven", "federate", "local.toml", "--rehearse", "--seed", "7", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["used"] == ["west", "east", "north"]
    assert re.findall(r"uneven: (\w+): done", done.stderr) == facts["used"]
    assert done.stderr.startswith(
        "Starting 3 sites ...\nAsking 'east', 'north' and 'west' what they hold ..."
    )  # before anything is waited for
    local = train_locally(tmp_path)
    model = json.loads((tmp_path / "model.json").read_text())
    assert model["coef"] == local.model.coef.tolist()
    assert model["feature_names"] == FEATURES
