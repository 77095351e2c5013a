"""Write files that are either whole or not there; tell whether two names are of one file."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
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
    content = text.encode("utf-8")
    with written_atomically(path) as temporary, temporary.open("wb") as file:
        file.write(content)


@contextmanager
def written_atomically(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Name of a temporary file to write; it takes the place of `path` when all went well, and vanishes otherwise.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rows.csv"
    >>> with written_atomically(path) as temporary:
    ...     _ = temporary.write_text("y")
    ...     path.exists()
    False
    >>> path.read_text()
    'y'
    """
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(f"folder of {str(path)!r} must exist, got {str(target.parent)!r}, which does not")
    if target.is_dir():
        raise IsADirectoryError(f"{str(path)!r} must be a file to write, got a folder")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        _flush(temporary)
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:  # Ctrl-C too must leave nothing behind
        temporary.unlink(missing_ok=True)
        raise


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two names are of one file, through links too.

    >>> same_file("rows.csv", "../x/../rows.csv"), same_file("rows.csv", "./rows.csv")
    (False, True)
    """
    first, second = Path(one), Path(other)
    return first.resolve() == second.resolve() or (first.exists() and second.exists() and first.samefile(second))


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())  # before the rename: a power cut must not leave a name with nothing behind it
