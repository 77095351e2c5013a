"""Compiled code is cached for each state of the sources: Numba itself would not notice a change in another file."""

import hashlib
import os
import tempfile
from pathlib import Path

from hypothesis import settings

sources = sorted((Path(__file__).parents[1] / "src" / "uneven").rglob("*.py"))
stamp = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"uneven-numba-{os.getuid()}-{stamp}"))

# The same examples everywhere, and no deadline: a slow machine is no failure. HYPOTHESIS_PROFILE=random searches anew.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
