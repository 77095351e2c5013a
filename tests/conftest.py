"""Compiled code is cached for each state of the sources: Numba itself would not notice a change in another file."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

sources = sorted((Path(__file__).parents[1] / "src" / "uneven").rglob("*.py"))
stamp = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"uneven-numba-{os.getuid()}-{stamp}"))

# The same examples everywhere, and no deadline: a slow machine is no failure. HYPOTHESIS_PROFILE=random searches anew.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# Files with few tests that take long: first, so that no worker is left with one when the others are done.
LONG = ("cli/test_memory.py", "cli/test_reproduce.py", "estimator/test_real_data.py", "audit/test_audit.py")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONG))


@pytest.fixture(scope="module")
def browser():
    """The system's Chromium, which reaches for nothing by itself; skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=list(FLAGS))
        yield opened
        opened.close()
