import json
import os
import signal
import subprocess
import sys
import time

import pytest
from commands import uneven

pytestmark = pytest.mark.slow

needs_data = pytest.mark.skipif(not os.environ.get("UNEVEN_DATA"), reason="UNEVEN_DATA names no folder with the data")


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quick")
    return folder, uneven("reproduce", "--quick", "-o", folder / "out")


@needs_data
def test_quick_finds_what_holds_at_that_size(quick):
    folder, done = quick
    assert done.returncode == 0, done.stderr
    claims = json.loads((folder / "out" / "claims.json").read_text(encoding="utf-8"))["claims"]
    verdicts = {(claim["panel"], claim["statement"]): claim["verdict"] for claim in claims}
    assert len(verdicts) == 16
    for dataset in ("mnist", "covertype"):
        assert verdicts[f"order-{dataset}", "CleanFirst is best for c < 1/λ"] == "holds"
        assert verdicts[f"order-{dataset}", "NoisyFirst is best for c > 1/λ"] == "holds"
        assert verdicts[f"order-{dataset}", "Arbitrary is close to NoisyFirst for a range of c"] == "in part"
        beaten = verdicts[f"two-rates-{dataset}", "Algorithm2 is below SameClean and SameNoisy at every ε_N"]
        assert beaten in ("holds", "in part")
    assert verdicts["two-rates-mnist", "Its lead shrinks as ε_N grows"] == "holds"
    ahead = verdicts["two-rates-mnist", "CleanOnly is slightly ahead of Algorithm2 at low ε_N, and only there"]
    assert ahead == "in part"  # only there, but by more than slightly
    assert verdicts["vary-c2-mnist", "The best c₂ lies between c₂(L) and c₂(U)"] == "holds"
    assert "16 claims of the paper" in done.stdout
    assert "Took " in done.stdout
    assert done.stderr == ""


@needs_data
def test_a_figure_is_redrawn_without_running_again(quick):
    folder, _ = quick
    out = folder / "out"
    parts = {path: path.stat().st_mtime_ns for path in out.glob("*/*.parquet")}
    (out / "figure.png").unlink()
    (out / "figure.pdf").unlink()
    before = (out / "claims.json").read_text(encoding="utf-8")
    nowhere = {"UNEVEN_DATA": str(folder)}  # a folder without data: none is needed
    done = uneven("reproduce", "vary-c2-mnist", "--quick", "--json", "-o", out, environment=nowhere)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["claims"]) == 2
    assert (out / "claims.json").read_text(encoding="utf-8") == before  # all panels' claims, not only that one's
    assert (out / "figure.png").stat().st_size > 50_000
    assert (out / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert {path: path.stat().st_mtime_ns for path in out.glob("*/*.parquet")} == parts


@needs_data
def test_ctrl_c_keeps_what_is_done(tmp_path):
    command = [sys.executable, "-m", "uneven", "reproduce", "order-mnist", "-o", str(tmp_path)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # nohup and & have it ignored
    )
    while not list(tmp_path.glob("order-mnist/*.parquet")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert error == "uneven: interrupted\n"
    assert not list(tmp_path.glob("order-mnist/.*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["order-cifar"], "uneven: PANEL must be one of 'order-mnist'"),
        (["--runs", "1"], "uneven: --runs must be a whole number of at least 2, got 1"),
        (["--runs", "many"], "uneven: --runs must be a whole number, got 'many'"),
        (["--data", "nowhere"], "uneven: --data must be a folder with the data sets, got 'nowhere', which is none"),
    ],
)
def test_bad_input_is_one_line(tmp_path, arguments, message):
    done = uneven("reproduce", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
