"""Run a command as a person would: in a process of its own."""

import os
import subprocess
import sys


def uneven(*arguments, cwd=None, environment=None, timeout=300):
    """The command's exit code, standard output and standard error."""
    return subprocess.run(
        [sys.executable, "-m", "uneven", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        stdin=subprocess.DEVNULL,
    )
