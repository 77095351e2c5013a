"""A progress bar is for a terminal; where output is piped there is none."""

import os
import pty
import re
import subprocess
import sys

import pytest


def on_a_terminal(folder, *arguments, out=False, code=0, **environment):
    """What a command writes to a terminal on standard error, or on standard output too."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "uneven", *arguments],
        cwd=folder,
        stderr=theirs,
        stdout=theirs if out else subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", **environment},
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
    assert child.wait() == code
    return seen.decode()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="terminals differ elsewhere")
@pytest.mark.parametrize("columns", [60, 80])
def test_lines_are_broken_between_words(folder, described, columns):
    described()
    wide = str(columns)
    for words, code in (
        (["init", "clinic.parquet", "crowd.csv", "-o", "new.toml", "--force"], 0),
        (["plan", "sources.toml"], 0),
        (["value", "sources.toml"], 0),
        (["plan", "sources.toml", "--strategy", "a strategy that nobody has heard of"], 2),
    ):
        seen = on_a_terminal(folder, *words, out=True, code=code, COLUMNS=wide, NO_COLOR="1")
        assert max(map(len, seen.splitlines())) <= columns, words
        assert "\x1b" not in seen


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="terminals differ elsewhere")
def test_headings_and_verdicts_have_colour(folder, described):
    described('classes = ["ill", "well"]\nrow_norm = 3.0', crowd='{ kind = "local-privacy", epsilon = 8.0 }')
    seen = on_a_terminal(folder, "plan", "sources.toml", out=True)
    assert "\x1b[1mPlan 'anchored'" in seen
    assert re.search(r"'crowd': \x1b\[3\dm(worth it|little|no)\x1b", seen)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="terminals differ elsewhere")
def test_a_bar_on_a_terminal_only(folder, described, uneven_in):
    described()
    seen = on_a_terminal(folder, "fit", "sources.toml")
    assert seen.startswith("Learning from 'clinic' and 'crowd' ...")  # before anything that takes a second
    assert "Reading the rows" in seen
    assert "Learning" in seen
    assert uneven_in("fit", "sources.toml").stderr == ""


@pytest.mark.slow
def test_piped_lines_are_broken_to_columns_where_that_is_set(private, uneven_in):
    """One rule for every command: to COLUMNS, else to the terminal, else not at all."""
    private()
    said = {width: uneven_in("fit", "sources.toml", "--ledger", f"{width}.db", COLUMNS=width) for width in ("", "80")}
    assert max(map(len, said[""].stdout.splitlines())) > 150
    for text in (said["80"].stdout, uneven_in("ledger", "show", "80.db", COLUMNS="80").stdout):
        assert max(map(len, text.splitlines())) <= 80
