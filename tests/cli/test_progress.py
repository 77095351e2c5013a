"""A progress bar is for a terminal; where output is piped there is none."""

import os
import pty
import subprocess
import sys

import pytest


def on_a_terminal(folder, *arguments):
    """What a command writes to a terminal on standard error."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "uneven", *arguments],
        cwd=folder,
        stderr=theirs,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        seen += part
        if not part:
            break
    os.close(ours)
    assert child.wait() == 0
    return seen.decode()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="terminals differ elsewhere")
def test_a_bar_on_a_terminal_only(folder, described, uneven_in):
    described()
    seen = on_a_terminal(folder, "fit", "sources.toml")
    assert seen.startswith("Learning from 'clinic' and 'crowd' ...")  # before anything that takes a second
    assert "Reading the rows" in seen
    assert "Learning" in seen
    assert uneven_in("fit", "sources.toml").stderr == ""
