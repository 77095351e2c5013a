"""Write files that are either whole or not there, to regular files or new names only; tell whether names are of one."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

AnyPath = str | os.PathLike[str]

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
"""What is not written to, by its kind of file."""

STREAMS, LINKS = ("/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/"), 40
"""Names of the streams of a process, and links that are followed to find one."""

ZEROS = bytes(1 << 16)


@dataclass(frozen=True)
class Output:
    """A file to write, open under a temporary name in its folder until it is whole.

    Attributes
    ----------
    path : Path
        As given.
    target : Path
        The file that it names, through links.
    temporary : Path
        Where it is written first.
    """

    path: Path
    target: Path
    temporary: Path

    def write(self, text: str) -> None:
        """Write the text as UTF-8 into the space reserved, and give the file its name."""
        with self.temporary.open("rb+") as file:  # in place: what was reserved is not given back first
            file.write(text.encode("utf-8"))
            file.truncate()
        self.commit()

    def commit(self) -> None:
        """Give the file its name in one step, once it is on the disk; permissions of an older one are kept."""
        _flush(self.temporary)
        _refuse_kind(self.path, self.target)  # it may have changed since
        if self.target.exists():
            shutil.copymode(self.target, self.temporary)
        os.replace(self.temporary, self.target)

    def discard(self) -> None:
        """Remove the temporary file, if it is still there."""
        self.temporary.unlink(missing_ok=True)


def write_text_atomically(path: AnyPath, text: str) -> None:
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
def written_atomically(path: AnyPath) -> Iterator[Path]:
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
    with open_output(path) as output:
        yield output.temporary
        output.commit()


@contextmanager
def open_output(path: AnyPath, size: int = 0) -> Iterator[Output]:
    """Open a file to write, with room for `size` bytes on its disk; nothing is left of it unless it is committed."""
    target = resolve_target(path)
    output = Output(Path(path), target, target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp"))
    try:  # Ctrl-C too must leave nothing behind
        output.temporary.touch(exist_ok=False)
        if size:
            _reserve(output, size)
        yield output
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO) and error.filename is None:
            error.filename = str(path)
        raise
    finally:
        output.discard()


@contextmanager
def open_outputs(sizes: dict[Path, int]) -> Iterator[dict[Path, Output]]:
    """Open several files to write, each with room for its number of bytes."""
    with ExitStack() as stack:
        yield {path: stack.enter_context(open_output(path, size)) for path, size in sizes.items()}


def resolve_target(path: AnyPath) -> Path:
    """The file that `path` names, through links; refused unless it is a regular file or a new name in a folder.

    >>> import tempfile
    >>> resolve_target(tempfile.mkdtemp())
    Traceback (most recent call last):
    IsADirectoryError: '/...' must be a file to write, got a folder
    """
    target = resolve(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"folder of {str(path)!r} must exist, got {str(target.parent)!r}, which does not")
    _refuse_kind(path, target)
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"folder of {str(path)!r} must be writable, got {str(target.parent)!r}, which is not")
    return target


def refuse_folder(path: AnyPath) -> None:
    """Refuse a folder for outputs that is something else, or whose own folder does not exist."""
    folder = resolve(path)
    if (folder.exists() and not folder.is_dir()) or _stream(path):
        kind = _stream(path) or _kind(folder) or "a file"
        raise NotADirectoryError(f"{str(path)!r} must be a folder to write to, got {kind}")
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(nearest, os.W_OK):
        raise PermissionError(f"{str(path)!r} must be in a writable folder, got {str(nearest)!r}, which is not")


def resolve(path: AnyPath) -> Path:
    """Path without links; a loop of them is refused."""
    try:
        os.stat(path)  # Python from 3.13 resolves a loop to itself
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(f"{str(path)!r} must name a file, got a loop of symbolic links") from None
    return Path(path).resolve()


def is_same_file(one: AnyPath, other: AnyPath) -> bool:
    """Whether two names are of one file, through links too.

    >>> is_same_file("rows.csv", "../x/../rows.csv"), is_same_file("rows.csv", "./rows.csv")
    (False, True)
    """
    first, second = resolve(one), resolve(other)
    return first == second or (first.exists() and second.exists() and first.samefile(second))


def _refuse_kind(path: AnyPath, target: Path) -> None:
    # Asked by both names: links such as /dev/stdout lead to pipes that have no path, or to whatever a shell writes to.
    if kind := _kind(Path(path)) or _kind(target) or _stream(path):
        error = IsADirectoryError if kind == "a folder" else OSError
        raise error(f"{str(path)!r} must be a file to write, got {kind}")


def _stream(path: AnyPath) -> str | None:
    """What a name leads through that is a stream of this process, whatever is behind it; None for nothing."""
    step = os.path.abspath(path)
    for _ in range(LINKS):
        if step.startswith(STREAMS):
            return "a device"
        if not os.path.islink(step):
            return None
        step = os.path.abspath(os.path.join(os.path.dirname(step), os.readlink(step)))
    return None


def _kind(path: Path) -> str | None:
    """What stands under a name, in words; None for a regular file or nothing."""
    try:
        return KINDS.get(stat.S_IFMT(path.stat().st_mode))
    except OSError:
        return None


def _reserve(output: Output, size: int) -> None:
    try:
        with output.temporary.open("wb") as file:
            for start in range(0, size, len(ZEROS)):
                file.write(ZEROS[: size - start])
        _flush(output.temporary)
    except OSError as error:
        words = f"disk of {str(output.path)!r} must have room for {size:,} bytes, got: {error.strerror}"
        raise OSError(error.errno, words) from None


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())  # before the rename: a power cut must not leave a name with nothing behind it
