"""Serve the page: on this machine alone by default, telling nobody."""

from __future__ import annotations

import socket
import sys
import threading
import time
import webbrowser
from importlib.util import find_spec
from pathlib import Path

PAGE = Path(__file__).with_name("page.py")

OPTIONS = {
    "browser.gatherUsageStats": "false",
    "client.showErrorDetails": "none",
    "client.showErrorLinks": "false",
    "client.toolbarMode": "minimal",
    "logger.hideWelcomeMessage": "true",
    "server.fileWatcherType": "none",
    "server.headless": "true",
    "server.maxUploadSize": "1",
}
"""Streamlit's options: no telemetry, no question about an e-mail address, no links to elsewhere."""


def refuse_missing_extra() -> None:
    """Say how to install what the page needs, if it is not there."""
    if find_spec("streamlit") is None:
        raise ImportError("the studio needs streamlit, which is not installed; try: pip install 'uneven[studio]'")


def refuse_busy(address: str, port: int) -> None:
    """Refuse an address and a port that cannot be listened on."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port))
        except OSError as error:
            reason = error.strerror or error
            raise ValueError(f"--address and --port must be free to use, got {address} and {port}: {reason}") from None


def serve(address: str, port: int, sources: Path | None = None, *, browser: bool = True) -> None:
    """Serve the page until Ctrl-C or SIGTERM.

    Parameters
    ----------
    address, port
        Where to listen.
    sources : Path or None
        A ``sources.toml`` to begin with.
    browser : bool
        Open the page in a browser once it is there.
    """
    refuse_missing_extra()
    refuse_busy(address, port)
    from streamlit.web.cli import main

    url = f"http://{f'[{address}]' if ':' in address else address}:{port}"
    print(f"The studio is at {url} (Ctrl-C ends it)", flush=True)
    if browser:
        threading.Thread(target=_open_when_there, args=(url, address, port), daemon=True).start()
    options = {**OPTIONS, "server.address": address, "server.port": str(port)}
    flags = [f"--{name}={value}" for name, value in options.items()]
    arguments = [] if sources is None else ["--", str(sources.absolute())]
    main(["run", str(PAGE), *flags, *arguments], standalone_mode=False)
    sys.stdout.flush()


def _open_when_there(url: str, address: str, port: int, patience: float = 30.0) -> None:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            socket.create_connection((address, port), timeout=1.0).close()
        except OSError:
            time.sleep(0.1)
        else:
            webbrowser.open(url)
            return
