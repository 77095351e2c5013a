import json
import os

import pytest
from commands import uneven

needs_data = pytest.mark.skipif(not os.environ.get("UNEVEN_DATA"), reason="UNEVEN_DATA names no folder with the data")


@pytest.mark.slow
@needs_data
def test_quick_run_of_two_panels(tmp_path):
    """At this size the excess is already a hundredth of Algorithm 2's where noise is high."""
    done = uneven("beyond", "beyond-mnist", "sources-mnist", "--quick", "--runs", "8", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "beyond-mnist: excess objective and test accuracy" in done.stdout
    found = json.loads((tmp_path / "targets.json").read_text(encoding="utf-8"))
    verdicts = {(claim["panel"], claim["statement"][:16]): claim["verdict"] for claim in found["claims"]}
    assert found["runs"] == 8
    assert verdicts["beyond-mnist", "excess objective"] == "holds"
    assert verdicts["sources-mnist", "with more noisy "] == "holds"
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    again = uneven("beyond", "beyond-mnist", "sources-mnist", "--quick", "--runs", "8", "-o", tmp_path, "--json")
    assert json.loads(again.stdout)["targets"] == found["claims"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["two-rates-mnist"], "uneven: PANEL must be one of 'beyond-mnist'"),
        (["--runs", "0"], "uneven: --runs must be a whole number of at least 2, got 0"),
        (["--seed", "-1"], "uneven: --seed must be a whole number of at least 0, got -1"),
        (["--data", "nowhere"], "uneven: --data must be a folder with the data sets, got 'nowhere', which is none"),
    ],
)
def test_bad_input_is_one_line(tmp_path, arguments, message):
    done = uneven("beyond", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
