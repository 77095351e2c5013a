"""A file that is written atomically is the old one or the new one, whatever happens on the way."""

import os
import stat

import pytest

from uneven.io import write_text_atomically, written_atomically


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "a.toml"
    for text in ("one\n", "zwei Zeilen, ε = 1\r\n\n", ""):
        write_text_atomically(path, text)
        assert path.read_bytes() == text.encode()
    assert [p.name for p in tmp_path.iterdir()] == ["a.toml"]


class Crash(BaseException):
    """Stands for whatever ends a process: no `except Exception` stops it."""


@pytest.mark.parametrize("where", ["os.fsync", "os.replace", "shutil.copymode"])
@pytest.mark.parametrize("error", [Crash, OSError, KeyboardInterrupt])
def test_a_crash_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, where, error):
    path = tmp_path / "a.toml"
    path.write_text("old")

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(where, fail)
        with pytest.raises(error):
            write_text_atomically(path, "new and longer")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.toml"]


def test_a_crash_in_the_middle_of_writing_leaves_no_file(tmp_path):
    def half(path):
        with written_atomically(path) as temporary:
            temporary.write_text("ha")
            raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space left"):
        half(tmp_path / "a.toml")
    assert list(tmp_path.iterdir()) == []


def test_the_text_is_on_the_disk_before_it_has_the_name(tmp_path, monkeypatch):
    calls, sync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append(("sync", os.fstat(fd).st_size)) or sync(fd))
    monkeypatch.setattr(os, "replace", lambda a, b: calls.append(("name", b.name)) or replace(a, b))
    write_text_atomically(tmp_path / "a.toml", "12345")
    assert calls == [("sync", 5), ("name", "a.toml")]


def test_permissions_are_kept_and_links_followed(tmp_path):
    path, link = tmp_path / "a.toml", tmp_path / "link.toml"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_text_atomically(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_text("")
    write_text_atomically(tmp_path / "a.toml", "")
    assert (tmp_path / "a.toml").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder of '.*no/a.toml' must exist, got '.*no', which does not$"):
        write_text_atomically(tmp_path / "no" / "a.toml", "text")


def test_text_that_is_no_unicode_touches_nothing(tmp_path):
    with pytest.raises(UnicodeEncodeError):
        write_text_atomically(tmp_path / "a.toml", "\ud800")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_written_over(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"must be a file to write, got a folder$"):
        write_text_atomically(tmp_path, "text")
