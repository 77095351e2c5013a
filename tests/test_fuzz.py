"""A part of `make fuzz`: mutated files are read, or refused in one line."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_mutated_files_are_read_or_refused_in_one_line():
    command = [sys.executable, str(Path(__file__).with_name("fuzz.py")), "100000", "30.0", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    tally = json.loads(done.stdout[: done.stdout.index("}") + 1])
    assert int(re.search(r"(\d+) files, 0 wrong", done.stdout)[1]) > 50
    assert any("refused" in name for name in tally)
    assert any("read" in name for name in tally)
