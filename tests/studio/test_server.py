"""``uneven studio`` as a process: where it listens, how it ends, and what it refuses in one line."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from served import free_port, served


def run(*arguments, before="pass"):
    script = f"import sys; {before}; sys.argv[0] = 'uneven'; from uneven.cli import main; main()"
    command = [sys.executable, "-c", script, "studio", "--no-browser", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_and_ends_cleanly(tmp_path, number):
    with served(cwd=tmp_path) as (process, url):
        with urllib.request.urlopen(f"{url}/_stcore/health", timeout=30) as answer:
            assert answer.read() == b"ok"
        os.kill(process.pid, number)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert f"The studio is at {url} (Ctrl-C ends it)" in output
    assert "Traceback" not in output


def test_only_this_machine_can_reach_it(tmp_path):
    """The kernel's own list of listeners: the port is bound to 127.0.0.1 alone."""
    listeners = "/proc/net/tcp"
    if not os.path.exists(listeners):
        pytest.skip("no /proc/net/tcp here")
    with served(cwd=tmp_path) as (_, url):
        port = f"{int(url.rsplit(':', 1)[1]):04X}"
        with open(listeners) as tcp, open("/proc/net/tcp6") as tcp6:
            rows = [line.split() for line in (*tcp, *tcp6)]
    bound = {row[1] for row in rows if row[1].endswith(f":{port}") and row[3] == "0A"}
    assert bound == {f"0100007F:{port}"}


def test_a_busy_port_is_one_line():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        result = run("--port", str(port))
    assert result.returncode == 2
    assert result.stderr == (
        f"uneven: --address and --port must be free to use, got 127.0.0.1 and {port}: Address already in use\n"
    )


def test_without_the_extra_it_says_how_to_install_it():
    result = run(before="sys.modules['streamlit'] = None")
    assert result.returncode == 2
    assert result.stderr == (
        "uneven: the studio needs streamlit, which is not installed; try: pip install 'uneven[studio]'\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["nowhere.toml"],
            "uneven: SOURCES nowhere.toml does not exist; sources are described in a file like sources.toml\n",
        ),
        (["--port", "0"], "uneven: --port must be at least 1, got '0'"),
        (
            ["--address", "no such place", "--port", str(free_port())],
            "uneven: --address and --port must be free to use",
        ),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    result = run(*arguments)
    assert result.returncode == 2
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


def test_the_file_is_checked_before_anything_is_served(tmp_path):
    path = tmp_path / "sources.toml"
    path.write_text('[[source]]\nname = "a"\nrows = 5\n')
    result = run(str(path))
    assert result.returncode == 2
    assert "noise" in result.stderr
    assert result.stdout == ""
