"""Bad input: one line on standard error, an exit code of 2 (1 for a spent budget), and no file left behind."""

import json

import numpy as np
import pandas as pd
import pytest

import uneven
from uneven.io import read_sources
from uneven.training import save_model
from uneven.training.files import train_files

FIT = ("fit", "sources.toml")
PRIVATE = tuple(f'{{ kind = "local-privacy", epsilon = {e} }}' for e in (4.0, 1.0))


def change(folder, name, **columns):
    frame = pd.read_csv(folder / name).assign(**columns)
    frame.to_csv(folder / name, index=False)


def three_classes(folder):
    change(folder, "crowd.csv", outcome=np.resize(["ill", "well", "maybe"], 1200))


def one_class(folder):
    pd.read_parquet(folder / "clinic.parquet").assign(outcome="ill").to_parquet(folder / "clinic.parquet")
    change(folder, "crowd.csv", outcome="ill")


def with_gap(folder):
    change(folder, "crowd.csv", dose=np.where(np.arange(1200) == 7, np.nan, 0.5))


# What the folder is like, what is typed, what is said.
CASES = {
    "no sources file": (None, ("fit", "nowhere.toml"), "nowhere.toml does not exist"),
    "no argument": (
        None,
        ("fit",),
        "SOURCES must be given: a sources.toml; 'uneven init' writes one. 'uneven fit --help'",
    ),
    "unknown option": (None, (*FIT, "--sead", "1"), "No such option: --sead"),
    "not a number": (None, (*FIT, "--seed", "one"), "--seed must be a whole number, got 'one'"),
    "mistyped command": (None, ("fitt",), "No such command 'fitt'. Did you mean 'fit'?"),
    "unknown command": (None, ("nonsense",), "No such command 'nonsense'. 'uneven --help' lists all commands."),
    "command of a group": (None, ("ledger", "sho"), "No such command 'sho'. Did you mean 'show'?"),
    "unknown command of a group": (None, ("ledger", "nonsense"), "'uneven ledger --help' lists all commands."),
    "one argument too many": (None, (*FIT, "more"), "'uneven fit' takes no further argument, got 'more'."),
    "no tables": (
        lambda f: (f / "sources.toml").write_text(""),
        ("plan", "sources.toml"),
        "sources.toml: there must be",
    ),
    "no test file": (
        None,
        (*FIT, "--test", "nowhere.csv"),
        "uneven: --test nowhere.csv does not exist; rows come from",
    ),
    "the same file twice": (
        None,
        (*FIT, "--test=sources.toml"),
        "uneven: --test sources.toml must end in one of .csv,",
    ),
    "report is a folder": (None, (*FIT, "--report", "."), "uneven: --report '.' must be a file to write, got a folder"),
    "output is a device": (None, (*FIT, "-o", "/dev/null"), "uneven: -o '/dev/null' must be a file to write, got a de"),
    "a name that no file can have": (None, (*FIT, "--test", "a" * 300 + ".csv"), "cannot be used: file name too long"),
    "no folder": (None, (*FIT, "--report", "no/r.html"), "uneven: --report: folder of 'no/r.html' must exist, got"),
    "a ledger of something else": (
        None,
        ("ledger", "show", "crowd.csv"),
        "LEDGER must be a ledger that 'uneven fit --ledger' made, got 'crowd.csv': file is not a database",
    ),
    "another file as a model": (
        None,
        ("predict", "crowd.csv", "crowd.csv"),
        "uneven: MODEL crowd.csv must be a complete JSON model",
    ),
    "nothing to evaluate on": (
        None,
        ("evaluate", "model.json"),
        "ROWS must be given, or --kit to ask sites; got neither",
    ),
    "no way to federate": (None, ("federate", "sources.toml"), "must be given; got none"),
    "no positive epsilon": (
        None,
        ("init", "crowd.csv", "--epsilon", "crowd=-1"),
        "a positive value, such as clinic=2,",
    ),
    "no data file": (lambda f: (f / "crowd.csv").unlink(), FIT, "crowd.csv does not exist"),
    "unknown key": ("speed = 3", FIT, "the top level has no key 'speed'"),
    "row_norm": ("row_norm = -1", FIT, "row_norm must be a positive finite number, got -1"),
    "wrong column": ('features = ["age", "weight"]', FIT, "features must be columns, got 'weight'"),
    "one class": (one_class, FIT, "labels must have at least two classes, got one class: 'ill'"),
    "a gap": (with_gap, FIT, "crowd.csv: column 'dose' has no value in row 7"),
    "a word": (lambda f: change(f, "crowd.csv", dose="much"), FIT, "column 'dose' must hold numbers"),
    "infinite": (lambda f: change(f, "crowd.csv", dose=np.inf), FIT, "column 'dose' must hold finite numbers, got inf"),
    "no labels": (lambda f: change(f, "crowd.csv", outcome=None), FIT, "column 'outcome' has no value in row 0"),
    "two kinds": (
        lambda f: change(f, "crowd.csv", outcome=1),
        FIT,
        "labels must be of one kind, got text in clinic.parquet and numbers in crowd.csv",
    ),
    "measurements": (
        lambda f: change(f, "crowd.csv", outcome=0.25),
        FIT,
        "crowd.csv: label must be a column of classes, got the number 0.25",
    ),
    "names": (
        lambda f: change(f, "crowd.csv", outcome=[f"n{i}" for i in range(1200)]),
        FIT,
        "label must be a column of classes, got more than 1,000 different values",
    ),
    "strategy": (
        None,
        (*FIT, "--strategy", "best"),
        "uneven: --strategy must be one of 'auto', 'anchored', 'precision'",
    ),
    "seed": (None, (*FIT, "--seed", "-1"), "uneven: --seed must be a whole number of at least 0, got -1"),
    "budget": (None, (*FIT, "--budget", "0"), "uneven: --budget must be a positive finite number, got 0"),
    "output folder": (None, (*FIT, "-o", "no/model.json"), "folder of 'no/model.json' must exist"),
    "report folder": (None, (*FIT, "--report", "no/r.html"), "folder of 'no/r.html' must exist"),
    "output is a folder": (None, (*FIT, "-o", "."), "-o '.' must be a file to write, got a folder"),
    "ledger": (None, (*FIT, "--ledger", "rows.parquet"), "--ledger must be a ledger or a new file, got 'rows.parquet'"),
    "no test": (None, (*FIT, "--test", "no.csv"), "no.csv does not exist"),
    "no model": (None, ("predict", "nowhere.json", "rows.parquet"), "nowhere.json does not exist"),
    "not a model": (None, ("predict", "crowd.csv", "rows.parquet"), "crowd.csv must be a complete JSON model file"),
    "no rows": (None, ("predict", "model.json", "no.csv"), "no.csv does not exist"),
    "format": (None, ("predict", "model.json", "rows.parquet", "-o", "a.xls"), "-o must end in .csv or .parquet"),
    "prediction folder": (
        None,
        ("predict", "model.json", "rows.parquet", "-o", "no/a.csv"),
        "folder of 'no/a.csv' must exist",
    ),
    "init, no file": (None, ("init", "nowhere.csv", "-o", "a.toml"), "nowhere.csv does not exist"),
    "init, no file, there": (None, ("init", "nowhere.csv"), "nowhere.csv does not exist"),
    "init, a file twice": (
        None,
        ("init", "crowd.csv", "./crowd.csv", "--force"),
        "FILES must differ, one per source; got crowd.csv and crowd.csv, which are one file",
    ),
    "init, there": (None, ("init", "crowd.csv"), "sources.toml is there already; --force writes over it"),
    "init, no rows": (None, ("init", "sources.toml", "-o", "a.toml"), "sources.toml must end in one of .csv"),
    "plot": (None, ("plan", "sources.toml", "--plot", "a.docx"), "--plot must end in .png, .pdf or .svg, got 'a.docx'"),
    "budget below zero": (None, ("ledger", "budget", "ledger.db", "-1"), "LEDGER must be a file that"),
    "plan": (None, ("plan", "sources.toml", "--report", "no/a.html"), "folder of 'no/a.html' must exist"),
    "rows instead of sources": (
        None,
        ("plan", "crowd.csv"),
        "crowd.csv must be a sources.toml; for a file of rows, run: uneven init crowd.csv (got: crowd.csv, line 1:",
    ),
    "bytes instead of sources": (None, ("value", "rows.parquet"), "run: uneven init rows.parquet"),
    "money": (None, ("value", "sources.toml", "--budget", "abc"), "uneven: --budget must be a number, got 'abc'\n"),
    "seed of an evaluation": (
        None,
        ("evaluate", "model.json", "rows.parquet", "--epsilon", "1", "--seed", "-1"),
        "uneven: --seed must be a whole number of at least 0, got -1",
    ),
    "no patience": (
        None,
        ("federate", "sources.toml", "--rehearse", "--patience", "-1"),
        "uneven: --patience must be a positive finite number, got -1.0",
    ),
    "no ledger": (
        None,
        ("ledger", "show", "no.db"),
        "LEDGER must be a file that 'uneven fit --ledger' made; no such file: no.db",
    ),
    "demo": (None, ("demo", "-o", "no/demo"), "folder of 'no/demo' must exist"),
    "demo in a device": (
        None,
        ("demo", "-o", "/proc/x"),
        "uneven: -o '/proc/x' must be a folder to write to, got a de",
    ),
    "test without labels": (
        lambda f: pd.DataFrame({"age": [1.0], "dose": [2.0]}).to_csv(f / "plain.csv", index=False),
        (*FIT, "--test", "plain.csv"),
        "uneven: --test plain.csv: label must be one of the columns 'age', 'dose'; got 'outcome'",
    ),
    "demo in a file": (None, ("demo", "-o", "crowd.csv"), "must be a folder to write to, got a file"),
    "demo, one run": (None, ("demo", "--runs", "1"), "--runs must be at least 2, got '1'"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, frame):
    """Text of a model: trained once."""
    place = tmp_path_factory.mktemp("trained")
    frame(400, 1).to_csv(place / "a.csv", index=False)
    (place / "a.toml").write_text(
        'label = "outcome"\n[[source]]\nname = "a"\ndata = "a.csv"\nnoise = { kind = "exact" }\n'
    )
    save_model(train_files(read_sources(place / "a.toml"), seed=0).model, place / "model.json")
    return (place / "model.json").read_text()


@pytest.fixture
def model(folder, trained):
    (folder / "model.json").write_text(trained)
    return folder / "model.json"


def refused(uneven_in, folder, arguments, code=2):
    before = {path: path.read_bytes() for path in folder.rglob("*")}
    done = uneven_in(*arguments)
    assert done.returncode == code, done
    assert done.stdout == ""
    assert done.stderr.startswith("uneven: ")
    assert done.stderr.count("\n") == 1
    assert {path: path.read_bytes() for path in folder.rglob("*")} == before
    return done.stderr


@pytest.mark.parametrize(("state", "arguments", "message"), CASES.values(), ids=CASES)
@pytest.mark.usefixtures("model")
def test_bad_input(folder, described, uneven_in, state, arguments, message):
    described(state if isinstance(state, str) else "")
    if callable(state):
        state(folder)
    assert message in refused(uneven_in, folder, arguments).replace(f"{folder}/", "")


def test_label_that_is_not_there(folder, described, uneven_in):
    described(label="result")
    said = refused(uneven_in, folder, FIT)
    assert "label must be one of the columns 'age', 'dose', 'pulse', 'outcome'; got 'result'" in said


def test_test_rows_of_another_class(folder, described, uneven_in):
    described()
    rows = pd.read_parquet(folder / "rows.parquet")
    rows.assign(outcome="fine").to_parquet(folder / "rows.parquet")
    said = refused(uneven_in, folder, (*FIT, "--test", "rows.parquet"))
    assert "rows.parquet: labels must be of the classes ['ill', 'well'], got 'fine'" in said


def test_a_source_without_data(folder, described, uneven_in):
    path = described()
    path.write_text(path.read_text() + '[[source]]\nname = "offer"\nrows = 100\nnoise = { kind = "exact" }\n')
    assert "source 'offer' must have data to learn from, got none" in refused(uneven_in, folder, FIT)


OVERWRITING = {
    "model, ledger": ((*FIT, "-o", "l.json", "--ledger", "./l.json"), "-o", "l.json", "--ledger"),
    "model, link to sources": ((*FIT, "-o", "sources.json"), "-o", "sources.json", "the sources file"),
    "model, link to data": ((*FIT, "-o", "crowd.json"), "-o", "crowd.json", "the data of 'crowd'"),
    "statement, data": ((*FIT, "--statement", "crowd.md"), "--statement", "crowd.md", "the data of 'crowd'"),
    "ledger, data": ((*FIT, "--ledger", "crowd.csv"), "--ledger", "crowd.csv", "the data of 'crowd'"),
    "report, test": (
        (*FIT, "--test", "rows.parquet", "--report", "rows.html"),
        "--report",
        "rows.html",
        "the test file",
    ),
    "predictions, rows": (
        ("predict", "model.json", "rows.parquet", "-o", "rows.parquet"),
        "-o",
        "rows.parquet",
        "the file of rows",
    ),
    "predictions, model": (
        ("predict", "model.json", "rows.parquet", "-o", "model.csv"),
        "-o",
        "model.csv",
        "the model",
    ),
    "plan, data": (("plan", "sources.toml", "--report", "crowd.html"), "--report", "crowd.html", "the data of 'crowd'"),
    "value, sources": (
        ("value", "sources.toml", "--plot", "sources.png"),
        "--plot",
        "sources.png",
        "the sources file",
    ),
}


LINKS = {
    "crowd.csv": (".json", ".html", ".md"),
    "rows.parquet": (".html",),
    "model.json": (".csv",),
    "sources.toml": (".json", ".png"),
}
"""Other names of files, with the endings that outputs must have."""


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(("arguments", "what", "path", "other"), OVERWRITING.values(), ids=OVERWRITING)
def test_nothing_is_written_over_what_is_read(folder, private, uneven_in, arguments, what, path, other):
    """Nothing is charged either: whatever was in the folder is there as it was."""
    private()
    for file, endings in LINKS.items():
        for ending in endings:
            (folder / file).with_suffix(ending).hardlink_to(folder / file)
    uneven.Ledger(folder / "l.json").charge("clinic", [0], 1.0)
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    done = uneven_in(*arguments)
    assert done.returncode == 2
    assert done.stderr == f"uneven: {what} must be a file of its own, got {path!r}, which is {other}\n"
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before


CROWD = ("crowd", "crowd.csv", "--features", "rows.parquet")
ENDINGS = {
    "model": ((*FIT, "-o", "public.csv", "--ledger", "book.db"), "-o must end in .json, got"),
    "no ending": ((*FIT, "--output", "public", "--ledger", "book.db"), "--output must end in .json, got 'public'"),
    "report": ((*FIT, "--report", "public.csv", "--ledger", "book.db"), "--report must end in .html or .htm, got"),
    "statement": ((*FIT, "--statement", "public.csv"), "--statement must end in .md, got 'public.csv'"),
    "plan's report": (("plan", "sources.toml", "--report", "public.csv"), "--report must end in .html or .htm, got"),
    "plan's plot": (("plan", "sources.toml", "--plot", "public.csv"), "--plot must end in .png, .pdf or .svg, got"),
    "value's plot": (("value", "sources.toml", "--plot", "public.csv"), "--plot must end in .png, .pdf or .svg, got"),
    "predictions": (("predict", "model.json", "rows.parquet", "-o", "public.toml"), "-o must end in .csv or"),
    "sources": (("init", "crowd.csv", "-o", "public.csv", "--force"), "-o must end in .toml, got 'public.csv'"),
    "crowd's model": ((*CROWD, "-o", "public.csv"), "-o must end in .json, got"),
    "crowd's report": ((*CROWD, "--report", "public.csv"), "--report must end in .html or .htm, got 'public.csv'"),
    "federation": (("federate", "sources.toml", "--rehearse", "-o", "public.csv"), "-o must end in .json, got"),
    "ledger's export": (("ledger", "export", "none.db", "-o", "public.parquet"), "-o must end in .csv, got"),
    "demo": (("demo", "-o", "."), "-o must be a new folder or that of an earlier demo, got"),
}


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(("arguments", "message"), ENDINGS.values(), ids=ENDINGS)
def test_rows_are_not_replaced_by_something_else(folder, private, uneven_in, arguments, message, there):
    """A file that the run does not name otherwise is kept; and a new one gets no ending that is another format's."""
    private()
    for ending in ("", ".csv", ".parquet", ".toml"):
        (folder / f"public{ending}").write_text("x,outcome\n0.5,ill\n") if there else None
    assert f"uneven: {message}" in refused(uneven_in, folder, arguments)


@pytest.mark.parametrize("options", [(), ("--ledger", "book.db")])
def test_a_budget_that_is_too_small(folder, private, uneven_in, options):
    private()
    done = uneven_in(*FIT, "--budget", 3.9, *options)
    assert done.returncode == 2
    assert done.stderr == "uneven: --budget must be at least 4, what a row of 'clinic' would spend, got 3.9\n"
    assert not (folder / "model.json").exists()


def test_private_rows_of_three_classes(folder, private, uneven_in):
    private()
    three_classes(folder)
    assert "labels must be of the classes ['ill', 'well'], got another" in refused(uneven_in, folder, FIT)


def test_private_rows_that_are_sparse(folder, uneven_in):
    (folder / "a.svm").write_text("1 1:0.5 3:0.5\n-1 2:0.5\n")
    text = '[[source]]\nname = "a"\ndata = "a.svm"\nnoise = { kind = "local-privacy", epsilon = 1 }\n'
    (folder / "sources.toml").write_text(f"classes = [-1, 1]\n{text}")
    assert "rows must be dense where a source is private" in refused(uneven_in, folder, FIT)


def test_a_model_cut_short(folder, model, uneven_in):
    whole = model.read_text()
    for kept in (0, 1, len(whole) // 2, len(whole) - 3):
        model.write_text(whole[:kept])
        said = refused(uneven_in, folder, ("predict", "model.json", "rows.parquet", "-o", "out.csv"))
        assert "model.json must be a complete JSON model file" in said
    model.write_text(json.dumps({**json.loads(whole), "coef": [[1.0]]}))
    assert "model.json: must name 1 features, got 3" in refused(
        uneven_in, folder, ("predict", "model.json", "rows.parquet")
    )


@pytest.mark.usefixtures("model")
def test_columns_that_are_missing(folder, uneven_in):
    rows = pd.read_parquet(folder / "rows.parquet")
    rows[["age"]].to_csv(folder / "few.csv", index=False)
    said = refused(uneven_in, folder, ("predict", "model.json", "few.csv"))
    assert "few.csv must have the columns the model learned from; 'dose' and 1 more missing, there are 'age'" in said


def test_a_traceback_only_if_asked_for(folder, uneven_in):
    (folder / "sources.toml").write_text("speed = 3\n")
    with pytest.raises(AssertionError, match="Traceback"):
        uneven_in("--debug", *FIT)
