"""Run a command as a person would: in a process of its own.

`start` starts Python anew, which takes up to two seconds before the command does anything. `uneven` forks a process
that has started already (`fork_server.py`). Tests of starting itself, of signals, of terminals, of memory and of
variables that libraries read while they are imported use `start`, or start Python themselves.
"""

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path


def list_usual():
    """Variables of this process, without the width that a runner of tests may have set."""
    return {name: value for name, value in os.environ.items() if name != "COLUMNS"}


def start(*arguments, cwd=None, environment=None, timeout=300):
    """The command's exit code, standard output and standard error, from a new Python."""
    return subprocess.run(
        [sys.executable, "-m", "uneven", *map(str, arguments)],
        cwd=cwd,
        env={**list_usual(), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def uneven(*arguments, cwd=None, environment=None, timeout=300):
    """The same from a fork."""
    words = [*map(str, arguments)]
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        request = {
            "arguments": words,
            "cwd": str(cwd or Path.cwd()),
            "environment": {**list_usual(), **(environment or {})},
            "out": out.name,
            "err": err.name,
        }
        code = _ask(json.dumps(request), timeout)
        return subprocess.CompletedProcess(words, code, *(file.read().decode() for file in (out, err)))


@functools.cache
def _server():
    """One for each process that runs tests; it ends with that, when its input is closed."""
    command = [sys.executable, str(Path(__file__).with_name("fork_server.py"))]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(server.communicate)
    return server


def _ask(request, timeout):
    """Exit code of a fork that does what is asked."""
    server = _server()
    server.stdin.write(request.encode() + b"\n")
    server.stdin.flush()
    child = int(server.stdout.readline())
    if not select.select([server.stdout], [], [], timeout)[0]:
        os.kill(child, signal.SIGKILL)
        server.stdout.readline()
        raise subprocess.TimeoutExpired(request, timeout)
    return int(server.stdout.readline())
