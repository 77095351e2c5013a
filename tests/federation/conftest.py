"""Helpers of these tests are imported by name."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from sites import Network, make_folders


@pytest.fixture
def network(tmp_path):
    """Makes three sites in the test's folder; they are closed after it."""
    made = []

    def make(**how):
        make_folders(tmp_path, **how)
        made.append(Network(tmp_path))
        return made[-1]

    yield make
    for one in made:
        one.close()
