"""What docs/federation.md tells people to type works, in the order in which it is told."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="NVFlare is not installed: pip install 'uneven[federation]'")

from uneven.cli.app import app
from uneven.federation.rehearsal import find_free_port, start_site
from uneven.ledger import Ledger

pytestmark = pytest.mark.slow

GUIDE = (Path(__file__).parents[2] / "docs" / "federation.md").read_text(encoding="utf-8")


CLASSES = ("--classes", "ill,well")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the guide's sources.toml, and rows for its sites."""
    monkeypatch.chdir(tmp_path)
    (text,) = re.findall(r"^```toml[^\n]*\n(.*?)^```", GUIDE, flags=re.M | re.S)
    (tmp_path / "sources.toml").write_text(text)
    rng = np.random.default_rng(0)
    for name, rows in (("clinic", 600), ("survey", 6000)):
        X = rng.uniform([20.0, 50.0], [80.0, 100.0], (rows, 2))
        lines = [f"{age:.4f},{pulse:.4f},{'well' if age > 50 else 'ill'}" for age, pulse in X]
        (tmp_path / f"{name}.csv").write_text("\n".join(["age,pulse,outcome", *lines]) + "\n")
    return tmp_path


def run(*arguments):
    """A command in this process: nothing of it stays."""
    return app([*map(str, arguments)], standalone_mode=False)


@pytest.mark.filterwarnings("ignore")  # NVFlare's own
def test_the_guide(place, capsys):
    """Step by step, with a server that is killed in between: the same command goes on, and no row is charged twice."""
    told = re.findall(r"^```console[^\n]*\n(.*?)^```", GUIDE, flags=re.M | re.S)
    commands = [shlex.split(line)[1:] for block in told[2:] for line in block.splitlines() if line.startswith("uneven")]
    kinds = [" ".join(command[: 2 if command[0] == "site" else 1]) for command in commands]
    assert kinds == ["federate", "site init", "site init", "site run", "site run", "federate", "evaluate"]
    run(*commands[0], "--address", f"127.0.0.1:{find_free_port()}")
    modes = {"kits/clinic/key.pem": "600", "kits/clinic": "700", "kits/authority": "700", "kits": "700"}
    assert {name: oct((place / name).stat().st_mode)[-3:] for name in modes} == modes
    for command in commands[1:3]:
        run(*command)
    assert "epsilon = 4.0" in (place / "kits" / "clinic" / "site.toml").read_text()
    sites = [start_site(place / command[2]) for command in commands[3:5]]
    try:
        words = [sys.executable, "-m", "uneven", *commands[5], "--patience", "120"]
        kill_when_asked(words)
        done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    finally:
        for site in sites:
            site.kill()
            site.wait()
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "Learned from 6,000 rows of 'survey', then 600 rows of 'clinic', each at its site" in said
    model = json.loads((place / "model.json").read_text())
    assert model["privacy_spent"] == {"survey": 1.0, "clinic": 4.0}
    assert model["coef"][0][0] > abs(model["coef"][0][1])
    for name, epsilon in model["privacy_spent"].items():
        assert set(Ledger(place / "kits" / name / "ledger.db").spent(name).values()) == {epsilon}
    assert "Send each site its own folder" in capsys.readouterr().out


def kill_when_asked(words):
    """kill -9 of a server just after it has asked a site for its rows."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        for line in server.stderr:
            if ": asked" in line:
                server.kill()


def test_what_is_wrong_is_said(place, capsys):
    run("federate", "sources.toml", "--provision", "kits")
    with pytest.raises(ValueError, match="one of --kit, --provision and --rehearse"):
        run("federate", "sources.toml")
    with pytest.raises(ValueError, match="--seed must be left out without --rehearse"):
        run("federate", "sources.toml", "--kit", "kits/server", "--seed", "1")
    with pytest.raises(ValueError, match="must be the server's kit"):
        run("federate", "sources.toml", "--kit", "kits/clinic")
    with pytest.raises(FileNotFoundError, match="must be a kit with"):
        run("site", "init", place, "--data", "clinic.csv", "--like", "sources.toml")
    with pytest.raises(ValueError, match="--epsilon must be given, or --public"):
        run("site", "init", "kits/clinic", "--data", "clinic.csv", "--label", "outcome")
    with pytest.raises(FileNotFoundError, match="must be a site's policy file"):
        run("site", "run", "kits/clinic")
    run(
        "site",
        "init",
        "kits/clinic",
        "--data",
        "clinic.csv",
        "--label",
        "outcome",
        "--epsilon",
        "1",
        "--force",
        *CLASSES,
    )
    assert "Local privacy protects a row from everyone" in capsys.readouterr().out
    run("site", "init", "kits/clinic", "--data", "clinic.csv", "--label", "outcome", "--public", "--force", *CLASSES)
    assert "protects a row" not in capsys.readouterr().out
    with pytest.raises(FileExistsError, match="--force writes over it"):
        run("site", "init", "kits/clinic", "--data", "clinic.csv", "--label", "outcome", "--public")
    with pytest.raises(ValueError, match="must have data of its own to be rehearsed"):
        run("federate", "sources.toml", "--rehearse")
    (place / "bad.toml").write_text((place / "sources.toml").read_text().replace('"clinic"', '"a clinic"'))
    with pytest.raises(ValueError, match="name of a site must be 1 to 60 letters"):
        run("federate", "bad.toml", "--provision", "others")
