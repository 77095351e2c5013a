"""A studio of one's own, as a real process on loopback."""

import socket
import subprocess
import sys
import time
from contextlib import contextmanager


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def served(*arguments, cwd):
    """The process and its address, once it answers; ended by its own id."""
    port = free_port()
    command = [sys.executable, "-m", "uneven", "studio", "--no-browser", "--port", str(port), *arguments]
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        _wait_for(process, port)
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _wait_for(process, port):
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"the studio did not start: {process.communicate(timeout=1)[0] if process.poll() else ''}")
