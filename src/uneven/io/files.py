"""Write files that are either whole or not there."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path


def write_text_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` so that a reader finds the old file or the new one, never a part of either.

    The text goes to a temporary file in the same folder, reaches the disk, and takes the name in one step. Whatever
    fails on the way leaves the old file as it was and no temporary one. A symbolic link is followed, and the file's
    permissions are kept.

    Parameters
    ----------
    path : path
    text : str
        Written as UTF-8, with line ends as they are.
    """
    target = Path(path).resolve()
    content = text.encode("utf-8")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"folder of {str(path)!r} must exist, got {str(target.parent)!r}, which does not")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        _write_durably(temporary, content)
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:  # Ctrl-C too must leave nothing behind
        temporary.unlink(missing_ok=True)
        raise


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # before the rename: a power cut must not leave a name with nothing behind it
