"""Compiled code is cached for each state of the sources: Numba itself would not notice a change in another file."""

import hashlib
import os
import tempfile
from pathlib import Path

sources = sorted((Path(__file__).parents[1] / "src" / "uneven").rglob("*.py"))
stamp = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"uneven-numba-{os.getuid()}-{stamp}"))
