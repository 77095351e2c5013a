"""Commands answer at once: they import no more than they need."""

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from commands import start, uneven

from uneven import __version__
from uneven.cli.app import app

COMMANDS = sorted(command.name for command in app.registered_commands)
FILE = 'n_features = 5\n[[source]]\nname = "a"\nrows = 100\nnoise = { kind = "exact" }\n'


def imported(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "uneven", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}


def test_help_imports_no_arrays(tmp_path):
    found = imported(tmp_path, "--help")
    assert "typer" in found
    assert not found & {"numpy", "scipy", "numba", "pyarrow", "sklearn", "matplotlib"}


@pytest.mark.slow
def test_a_plan_waits_for_no_compiler(tmp_path):
    (tmp_path / "sources.toml").write_text(FILE)
    (tmp_path / "scaled.toml").write_text(f"row_norm = 2.0\n{FILE}")  # then the plan is the one that a fit would run
    for options in (
        ["sources.toml"],
        ["scaled.toml"],
        ["sources.toml", "--json"],
        ["sources.toml", "--report", "p.html"],
    ):
        found = imported(tmp_path, "plan", *options)
        assert "numpy" in found
        assert not found & {"numba", "llvmlite", "sklearn", "matplotlib", "pyarrow"}


HEAVY = {"numba", "llvmlite", "sklearn", "matplotlib", "pandas", "streamlit"}
NEEDED = {  # of the heavy ones: what a command cannot do without
    "init crowd.csv -o new.toml": set(),
    "plan private.toml": set(),  # private rows are only counted
    "plan sources.toml": {"numba", "llvmlite", "pandas"},  # it reads the rows without privacy, as a fit would
    "value sources.toml": {"numba", "llvmlite", "pandas"},  # so does the worth of rows
    "fit sources.toml": {"numba", "llvmlite", "pandas"},
    "predict model.json rows.parquet -o out.csv": {"pandas"},
}


@pytest.mark.parametrize(("typed", "needed"), NEEDED.items(), ids=NEEDED)
def test_a_command_imports_nothing_heavy_that_it_does_not_need(folder, described, private, good, typed, needed):
    private().rename(folder / "private.toml")
    described()
    if typed.startswith("predict"):
        good("fit", "sources.toml")
    assert imported(folder, *typed.split()) & HEAVY <= needed


@pytest.mark.slow
def test_a_fork_says_what_a_new_process_says(folder, described):
    """Exit code, output and errors: what the other tests of commands rest on."""
    described()
    for typed in ("--help", "plan sources.toml", "fit sources.toml --seed 1", "plan nowhere.toml", "fitt", "--version"):
        new, fork = (run(*typed.split(), cwd=folder) for run in (start, uneven))
        assert (fork.returncode, fork.stdout, fork.stderr) == (new.returncode, new.stdout, new.stderr)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_to_copy(good, command):
    text = good(command, "--help", COLUMNS="60")
    assert f"Example:\n  uneven {command}" in text
    example = text.partition("Example:\n")[2].partition("\n\n")[0]
    assert all(line.endswith(" \\") for line in example.splitlines()[:-1])  # so that it can be pasted
    assert " ".join(example.replace("\\\n", "").split()).startswith(f"uneven {command}")
    assert good(command, "-h") == good(command, "--help")


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("command", ["", "studio", "fit", "evaluate"])
def test_help_is_never_cut(good, command, columns):
    said = good(*command.split(), "--help", COLUMNS=str(columns))
    assert max(map(len, said.splitlines())) <= columns
    assert "…" not in said
    assert "[bold]" not in said
    words = " ".join(said.split())
    assert {"": "--install-completion", "studio": "--no-browser", "fit": "--validation"}.get(command, "") in words


def test_help_paragraphs_are_broken_once(good):
    lines = [line.strip() for line in good("fit", "--help", COLUMNS="80").splitlines()]
    first = lines.index("Files are read once to check them, and large ones again to learn: once where")
    assert all(len(line) > 60 for line in lines[first : first + 5])


@pytest.mark.parametrize("command", [*COMMANDS, "ledger budget", "site init"])
def test_help_says_what_to_type(good, command):
    """No type of Python: a word for each value, none for a flag; and the option first, its short form before it."""
    said = good(*command.split(), "--help", COLUMNS="80")
    assert not re.search(r"<|list\[|bool|Path\b", said)
    assert said.startswith(f"Usage: uneven {command} ")
    rows = re.findall(r"(?m)^  ((?:-\w, )?--[\w-]+)(?:, --[\w-]+)?( [A-Z=]+)?(?:  |$)", said)
    spelled = {name.split(", ")[-1]: value.strip() for name, value in rows}
    assert len(spelled) == len(re.findall(r"(?m)^  (?:-\w, )?--", said))
    assert spelled["--help"] == spelled.get("--json", "") == ""
    known = {"--output": {"FILE", "FOLDER"}, "--seed": {"NUMBER"}, "--label": {"COLUMN"}, "--force": {""}}
    assert all(spelled[name] in values for name, values in known.items() if name in spelled)


def test_help_names_every_strategy(good):
    from uneven.settings import CHECKS

    with pytest.raises(ValueError, match="strategy must be one of") as refused:
        CHECKS["strategy"]("strategy", "none of them")
    names = re.findall("'([a-z-]+)'", str(refused.value))
    for command in ("plan", "fit"):
        said = " ".join(good(command, "--help").split())
        assert f"instead of the file's: {', '.join(names)}." in said


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("beyond", "Runs per point. [default: 100, or 16 with --quick]"),
        ("studio", "[default: 8501]"),
        ("audit", "[default: 1,000,000]"),
        ("crowd", "numbers to learn from. [required]"),
        ("fit", "File for the model. [default: model.json]"),
    ],
)
def test_help_says_what_is_taken_if_nothing_is_given(good, command, said):
    assert said in " ".join(good(command, "--help").split())


def test_a_group_without_a_command_shows_its_help(uneven_in):
    done = uneven_in("ledger")
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith("Usage: uneven ledger COMMAND")
    assert "export  Write every row" in done.stdout


def test_help_lists_every_command(good):
    text = good("--help")
    assert all(f" {command} " in text for command in COMMANDS)
    assert {"demo", "fit", "init", "plan", "predict"} <= set(COMMANDS)


def test_colour_only_where_it_is_wanted():
    def shown(**environment):
        return start("--help", environment=environment).stdout

    assert "\x1b[" not in shown()
    assert re.search(r"\x1b\[[0-9;]*3[0-9]", shown(FORCE_COLOR="1"))
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", shown(FORCE_COLOR="1", NO_COLOR="1"))


def uneven_script():
    script = Path(sysconfig.get_path("scripts")) / "uneven"
    if not script.exists():
        pytest.skip("the package is not installed, so there is no script to complete for")
    return script


def test_completion_in_bash():
    script = uneven_script()
    shown = subprocess.run(
        ["bash", "-c", f"{script} --show-completion; true"], capture_output=True, text=True, check=True
    )
    assert "_UNEVEN_COMPLETE=complete_bash" in shown.stdout
    asked = {"_UNEVEN_COMPLETE": "complete_bash", "COMP_WORDS": "uneven p", "COMP_CWORD": "1"}
    done = subprocess.run([script], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert set(done.stdout.split()) == {command for command in COMMANDS if command.startswith("p")}


def test_version(good):
    assert good("--version") == f"uneven {__version__}\n"


def test_a_plan_in_every_form(folder, good):
    (folder / "sources.toml").write_text(FILE)
    good("plan", "sources.toml", "--plot", "a.png", "--report", "a.html")
    assert (folder / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "uneven plan sources.toml --plot a.png --report a.html" in (folder / "a.html").read_text()
    facts = json.loads(good("plan", "sources.toml", "--json", "--strategy", "averaged"))
    assert facts["strategy"] == "averaged"
    assert facts["bounds"]["averaged"] == facts["bound"]
