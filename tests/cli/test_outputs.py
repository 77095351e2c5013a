"""Nothing is lost: outputs go to regular files or new names only, and what was paid for is never thrown away."""

import errno
import os
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile

import pytest

from uneven import UnevenClassifier, ledger
from uneven.cli.app import main
from uneven.ledger import Ledger


def make_fifo(path):
    os.mkfifo(path)


def make_device(path):
    """The numbers of the null device, under a name in the test's own folder."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError as error:
        pytest.skip(f"device nodes cannot be made here: {error}")


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def make_loop(path):
    path.symlink_to(path.name)


def make_link_to_fifo(path):
    os.mkfifo(path.with_name("hidden"))
    path.symlink_to("hidden")


MADE = {
    "a pipe": make_fifo,
    "a device": make_device,
    "a socket": make_socket,
    "a folder": os.mkdir,
    "a loop of symbolic links": make_loop,
    "a pipe behind a link": make_link_to_fifo,
}
FIT = ("fit", "sources.toml")
WRITERS = {
    "fit": (*FIT, "-o", "OUT"),
    "fit's report": (*FIT, "--report", "OUT"),
    "fit's ledger": (*FIT, "--ledger", "OUT"),
    "predict": ("predict", "model.json", "rows.parquet", "-o", "OUT"),
    "init": ("init", "clinic.parquet", "-o", "OUT", "--force"),
    "plan's plot": ("plan", "sources.toml", "--plot", "OUT"),
    "plan's report": ("plan", "sources.toml", "--report", "OUT"),
    "value's plot": ("value", "sources.toml", "--plot", "OUT"),
}


@pytest.mark.parametrize(
    ("command", "kind"), [*(("fit", kind) for kind in MADE), *((one, "a pipe") for one in WRITERS if one != "fit")]
)
def test_only_files_are_written_to(described, folder, uneven_in, command, kind):
    described()
    out = folder / "out"
    MADE[kind](out)
    before = out.lstat()
    done = uneven_in(*(str(out) if word == "OUT" else word for word in WRITERS[command]))
    assert done.returncode == 2
    assert done.stderr.startswith("uneven: ")
    assert done.stderr.count("\n") == 1
    if command != "fit's ledger":
        assert f"got {kind.removesuffix(' behind a link')}" in done.stderr
    assert (out.lstat().st_mode, out.lstat().st_ino) == (before.st_mode, before.st_ino)


@pytest.mark.parametrize("kind", ["a pipe", "a loop of symbolic links"])
@pytest.mark.parametrize("command", ["demo", "reproduce", "beyond"])
def test_only_folders_are_written_into(tmp_path, uneven_in, command, kind):
    """The folder itself, and the place of a file inside it: refused before a run of minutes, not after."""
    MADE[kind](tmp_path / "results")
    inside = tmp_path / "whole"
    inside.mkdir()
    MADE[kind](inside / {"demo": "report.html", "reproduce": "claims.md", "beyond": "tables.md"}[command])
    for out in ("results", "whole"):
        done = uneven_in(command, "-o", tmp_path / out)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"got {kind}" in done.stderr


@pytest.mark.parametrize("words", [("fit", "OUT"), ("plan", "OUT"), ("predict", "model.json", "OUT")])
def test_a_loop_of_links_is_refused_as_input_too(described, folder, good, uneven_in, words):
    described()
    good(*FIT)
    make_loop(folder / "loop.csv")
    done = uneven_in(*("loop.csv" if word == "OUT" else word for word in words))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "loop.csv' must name a file, got a loop of symbolic links" in done.stderr


def test_more_rows_than_can_be_counted(folder, uneven_in):
    (folder / "many.toml").write_text(
        f'n_features = 3\n[[source]]\nname = "a"\nrows = {10**21}\nnoise = {{ kind = "exact" }}\n'
    )
    for command in ("plan", "value"):
        done = uneven_in(command, "many.toml")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "rows of source 'a' must be at most 1,000,000,000,000,000, got 1000000000000000000000" in done.stderr


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 128 KB in the test's own folder."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize(("option", "name"), [("-o", "out.json"), ("--report", "out.html")])
def test_no_room_for_outputs_is_said_before_anything_is_charged(private, folder, small_disk, uneven_in, option, name):
    private()
    done = uneven_in(*FIT, option, small_disk / name, "--ledger", "book.db")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "must have room for" in done.stderr
    assert "No space left on device" in done.stderr
    assert Ledger(folder / "book.db").sources() == {}
    assert list(small_disk.iterdir()) == []


def test_a_full_disk_under_the_ledger(private, folder, small_disk, uneven_in):
    private()
    Ledger(small_disk / "book.db").charge("other", [1], 1.0)
    (small_disk / "filler").write_bytes(bytes(os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize))
    done = uneven_in(*FIT, "--ledger", small_disk / "book.db")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "book.db' could not be written" in done.stderr
    assert not (folder / "model.json").exists()
    (small_disk / "filler").unlink()
    assert Ledger(small_disk / "book.db").sources() == {"other": 1}


def test_no_room_for_a_new_ledger(private, folder, small_disk, uneven_in):
    private()
    (small_disk / "filler").write_bytes(bytes(os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize))
    done = uneven_in(*FIT, "--ledger", small_disk / "book.db")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "book.db' could not be written" in done.stderr
    assert not (folder / "model.json").exists()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link.json"])
def test_a_file_behind_standard_output_is_not_replaced(described, folder, name):
    """``uneven fit -o /dev/stdout >> log.txt``: the log is kept."""
    described()
    (folder / "log.txt").write_text("kept\n")
    (folder / "link.json").symlink_to("/dev/stdout")
    with (folder / "log.txt").open("a") as log:
        done = subprocess.run(
            [sys.executable, "-m", "uneven", *FIT, "-o", name],
            cwd=folder,
            stdout=log,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, f"'{name}' must be a file to write, got a device" in done.stderr) == (2, True)
    assert (folder / "log.txt").read_text() == "kept\n"


def test_predictions_on_a_full_disk(described, small_disk, good, uneven_in):
    described()
    good(*FIT)
    (small_disk / "filler").write_bytes(bytes(os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize))
    done = uneven_in("predict", "model.json", "rows.parquet", "-o", small_disk / "out.csv")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"No space left on device: '{small_disk / 'out.csv'}'" in done.stderr
    assert [one.name for one in small_disk.iterdir()] == ["filler"]


def run_here(monkeypatch, capsys, folder, *words):
    """Run a command in this process, where functions can be replaced."""
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as end:
        main([*map(str, words)])
    return end.value.code, *capsys.readouterr()


def test_a_ledger_that_another_process_holds(private, folder, monkeypatch, capsys):
    private()
    Ledger(folder / "book.db").make()
    monkeypatch.setattr(ledger.database, "PATIENCE", 0.01)
    holder = sqlite3.connect(folder / "book.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    code, out, err = run_here(monkeypatch, capsys, folder, *FIT, "--ledger", "book.db")
    holder.close()
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "is held by another process: waited 0.01 s" in err
    assert not (folder / "model.json").exists()


def fail_to_replace(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


CHARGED = "charged: ε = 4 for each row of 'clinic' and ε = 1 for each row of 'crowd'"


def test_a_model_that_cannot_be_written_goes_to_a_rescue_file(private, folder, tmp_path, monkeypatch, capsys):
    private()
    (tmp_path / "spare").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spare"))
    monkeypatch.setattr(os, "replace", fail_to_replace)
    code, out, err = run_here(monkeypatch, capsys, folder, *FIT, "--ledger", "book.db")
    (rescued,) = (tmp_path / "spare").iterdir()
    assert (code, out) == (1, "")
    why = "'model.json' could not be written (No space left on device)"
    assert err == f"uneven: {why}; the model is in {rescued} instead; {CHARGED}\n"
    assert UnevenClassifier.load(rescued).privacy_spent_ == {"clinic": 4.0, "crowd": 1.0}
    assert Ledger(folder / "book.db").max_spent("clinic") == 4.0
    assert not [one for one in folder.iterdir() if one.name.endswith(".tmp")]


def test_a_model_that_fits_nowhere_goes_to_standard_output(private, folder, tmp_path, monkeypatch, capsys):
    private()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not there"))
    monkeypatch.setattr(os, "replace", fail_to_replace)
    code, out, err = run_here(monkeypatch, capsys, folder, *FIT)
    assert code == 1
    assert f"the model is on standard output; {CHARGED}" in err
    monkeypatch.undo()
    (tmp_path / "kept.json").write_text(out)
    assert UnevenClassifier.load(tmp_path / "kept.json").coef_.shape == (1, 3)


def test_a_report_that_cannot_be_written_leaves_the_model(private, folder, monkeypatch, capsys):
    private()
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: fail_to_replace() if b.name == "r.html" else replace(a, b))
    code, out, err = run_here(monkeypatch, capsys, folder, *FIT, "--report", "r.html")
    assert (code, out) == (1, "")
    assert f"'r.html' could not be written (No space left on device); the model is in model.json; {CHARGED}" in err
    assert UnevenClassifier.load(folder / "model.json").privacy_spent_["crowd"] == 1.0


def test_a_target_that_turns_into_a_pipe_during_the_fit_stays_one(private, folder, tmp_path, monkeypatch, capsys):
    """The kind of file is looked at again before it is replaced."""
    private()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    charge = Ledger.charge_all
    monkeypatch.setattr(Ledger, "charge_all", lambda *a: (charge(*a), os.mkfifo(folder / "model.json")))
    code, _, err = run_here(monkeypatch, capsys, folder, *FIT, "--ledger", "book.db")
    assert code == 1
    assert (
        "'model.json' could not be written ('model.json' must be a file to write, got a pipe); the model is in" in err
    )
    assert stat.S_ISFIFO((folder / "model.json").stat().st_mode)
