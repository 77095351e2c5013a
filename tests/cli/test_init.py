"""``uneven init`` guesses, asks nothing, and writes a file that can be planned and fitted as it is."""

import json
import tomllib

import numpy as np
import pandas as pd
import pytest

from uneven.columns import Encoder, describe_columns
from uneven.io import open_table, propose_sources, read_sources
from uneven.training import plan_ahead
from uneven.training.files import train_files


def test_from_files_to_predictions(folder, good):
    said = good("init", "clinic.parquet", "crowd.csv")
    assert "Labels: column 'outcome' (by its name)." in said
    text = (folder / "sources.toml").read_text()
    assert text.count('# noise = { kind = "site-privacy"') == 2
    assert text.count('# noise = { kind = "local-privacy"') == text.count('# noise = { kind = "flipped-labels"') == 2
    file = read_sources(folder / "sources.toml")
    assert [entry.source.name for entry in file.sources] == ["clinic", "crowd"]
    assert "Learn 'clinic' and 'crowd' to convergence" in good("plan", "sources.toml")
    good("fit", "sources.toml", "-o", "model.json")
    good("predict", "model.json", "rows.parquet", "-o", "out.csv")


def test_every_comment_can_be_uncommented(folder):
    propose_sources([folder / "clinic.parquet"], folder / "sources.toml")
    lines = (folder / "sources.toml").read_text().splitlines()
    options = [line for line in lines if line.startswith("# noise") or line.startswith("# price")]
    assert len(options) == 6
    for option in options:
        kept = [line for line in lines if not (option.startswith("# noise") and line.startswith("noise ="))]
        text = "\n".join(line.removeprefix("# ") if line == option else line for line in kept)
        assert tomllib.loads(text)["source"][0]["name"] == "clinic"
        (folder / "changed.toml").write_text(f'classes = ["no", "yes"]\n{text}' if "privacy" in option else text)
        plan_ahead(read_sources(folder / "changed.toml"))


def test_what_is_there_is_kept(folder, good):
    propose_sources([folder / "clinic.parquet"], folder / "sources.toml")
    (folder / "crowd.tsv").write_text((folder / "crowd.csv").read_text().replace(",", "\t"))
    facts = json.loads(good("init", "crowd.csv", "crowd.tsv", "--force", "--json"))
    assert facts["names"] == ["crowd", "crowd-2"]
    assert facts["label"] == "outcome"


RNG = np.random.default_rng(0)
X = {"a": RNG.normal(size=50), "b": RNG.normal(size=50)}
GUESSES = {
    "by name": ({"Class": RNG.integers(0, 3, 50), **X}, "Class", ()),
    "words": ({"kind": RNG.choice(["x", "y", "z"], 50), **X}, "kind", ()),
    "two values": ({**X, "flag": RNG.integers(0, 2, 50), "c": RNG.normal(size=50)}, "flag", ()),
    "last": (X, "b", ()),
    "ids and names are left out": (
        {"id": np.arange(50), "name": [f"n{i}" for i in range(50)], **X, "y": RNG.integers(0, 2, 50)},
        "y",
        ("id", "name"),
    ),
}


@pytest.mark.parametrize(("columns", "label", "left_out"), GUESSES.values(), ids=GUESSES)
def test_guesses(tmp_path, columns, label, left_out):
    pd.DataFrame(columns).to_csv(tmp_path / "rows.csv", index=False)
    guessed = propose_sources([tmp_path / "rows.csv"], tmp_path / "sources.toml")
    assert (guessed.label, guessed.left_out) == (label, left_out)
    file = read_sources(tmp_path / "sources.toml")
    assert file.label == label
    assert set(file.feature_names) == set(columns) - {label, *left_out}


@pytest.mark.parametrize(("name", "separator"), [("rows.csv", ","), ("rows.tsv", "\t")])
def test_a_file_without_names_is_noticed(folder, uneven_in, name, separator):
    lines = [("0.5", "1.25", "ill"), ("0.25", "2", "well"), ("0.75", "3", "ill")]
    called = "has no line of column names: its columns are called x0, x1 and so on"
    rows = [separator.join(line) + "\n" for line in lines]
    (folder / name).write_text("".join(rows))
    done = uneven_in("init", name)
    assert done.stderr == f"uneven: {name} {called}\n"
    file = read_sources(folder / "sources.toml")
    assert (file.label, file.feature_names, file.sources[0].table.rows) == ("x2", ("x0", "x1"), 3)
    (folder / name).write_text(separator.join(["x1", "2nd", "y"]) + "\n" + "".join(rows))
    assert uneven_in("init", name, "--force").stderr == ""


def test_formats_with_labels_of_their_own(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:0.5 3:0.5\n-1 2:0.5\n")
    np.savez(tmp_path / "b.npz", X=np.eye(3), y=np.array([0, 1, 1]))
    for name in ("a.svm", "b.npz"):
        propose_sources([tmp_path / name], tmp_path / "sources.toml", force=True)
        assert read_sources(tmp_path / "sources.toml").label is None


def test_only_shared_columns_are_learned_from(tmp_path, frame):
    frame(50, 1).assign(extra=1.0).to_csv(tmp_path / "a.csv", index=False)
    frame(50, 2).to_csv(tmp_path / "b.csv", index=False)
    guessed = propose_sources([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "sources.toml")
    assert guessed.left_out == ("extra",)
    assert read_sources(tmp_path / "sources.toml").n_features == 3


# Raw files.


def write_mixed(path, n=60, delimiter=",", header=True, encoding="utf-8"):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "age": rng.integers(20, 80, n),
            "job": rng.choice(["clerk", "cook"], n),
            "dose": np.where(rng.random(n) < 0.2, "?", rng.random(n).round(2).astype(str)),
            "code": [f"c{i}" for i in range(n)],
            "ill": rng.choice(["no", "yes"], n),
        }
    )
    rows.to_csv(path, index=False, sep=delimiter, header=header, encoding=encoding)
    return rows


WAYS = {
    "semicolons": ({"delimiter": ";"}, "a.csv"),
    "tabs": ({"delimiter": "\t"}, "a.csv"),
    "bars": ({"delimiter": "|"}, "a.txt"),
    "spaces": ({"delimiter": " "}, "a.data"),
    "UTF-16": ({"encoding": "utf-16", "delimiter": ";"}, "a.csv"),
    "no header": ({"header": False}, "a.data"),
}


@pytest.mark.parametrize(("how", "name"), WAYS.values(), ids=WAYS)
def test_files_of_text_are_recognised(tmp_path, how, name):
    rows = write_mixed(tmp_path / name, **how)
    guessed = propose_sources([tmp_path / name], tmp_path / "sources.toml")
    file = read_sources(tmp_path / "sources.toml")
    names = dict(zip(rows.columns, (f"x{j}" for j in range(5)) if "header" in how else rows.columns, strict=True))
    assert (guessed.label, guessed.left_out) == (names["ill"], (names["code"],))
    age, job, dose = file.columns
    assert [column.name for column in file.columns] == [names[name] for name in ("age", "job", "dose")]
    low, high = np.quantile(rows["age"], [0.03, 0.97])
    assert age.range == pytest.approx((low, high), rel=1e-3)
    assert (job.values, dose.missing) == (("clerk", "cook"), ("?",))
    assert file.sources[0].table.rows == 60


def test_what_is_not_recognised_is_refused_in_one_line(folder, uneven_in):
    (folder / "runs.txt").write_text("1  2   3\n4 5  6\n")
    (folder / "wide.csv").write_bytes("a;b\n1;2\n".encode("utf-16-le"))  # no mark
    for name, message in (("runs.txt", "got runs of spaces"), ("wide.csv", "must be text in UTF-8, or in UTF-16")):
        done = uneven_in("init", name)
        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1


def test_what_is_stated_is_not_guessed(folder, good, uneven_in):
    write_mixed(folder / "a.csv", delimiter=":")
    good("init", "a.csv", "--delimiter", ":", "--label", "job", "--id", "age", "--epsilon", "a=2.5")
    text = (folder / "sources.toml").read_text()
    assert 'id = "age"\n' in text
    assert 'kind = "local-privacy", epsilon = 2.5' in text
    file = tomllib.loads(text)
    assert (file["label"], file["delimiter"], file["columns"]) == ("job", ":", {})
    for arguments, message in (
        (("--label", "jobs"), "--label must be a column of all files, got 'jobs'; there are 'age', 'job'"),
        (("--id", "key"), "--id must be a column of all files, got 'key'"),
        (("--epsilon", "b=1"), "--epsilon must name a source, got 'b'; there are 'a'"),
        (("--epsilon", "a"), "--epsilon must be NAME=VALUE with a positive value, such as clinic=2, got 'a'"),
        (("--epsilon", "a=-1"), "with a positive value, such as clinic=2, got 'a=-1'"),
    ):
        done = uneven_in("init", "a.csv", "--force", "--delimiter", ":", *arguments)
        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1


def test_columns_are_described_by_sources_without_privacy_only(tmp_path):
    for name in ("a", "b"):
        write_mixed(tmp_path / f"{name}.csv")
    secret = (tmp_path / "b.csv").read_text().replace("clerk", "spy")
    (tmp_path / "b.csv").write_text(secret)
    propose_sources([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "sources.toml", epsilon={"b": 1.0})
    assert "spy" not in (tmp_path / "sources.toml").read_text()
    assert read_sources(tmp_path / "sources.toml").columns[1].values == ("clerk", "cook")


def test_proposals_from_private_rows_do_nothing_until_they_are_confirmed(folder, good, uneven_in):
    write_mixed(folder / "a.csv")
    said = good("init", "a.csv", "--epsilon", "a=2")
    assert "state in sources.toml what is publicly known of the labels (classes) and of each column" in said
    text = (folder / "sources.toml").read_text()
    assert "PROPOSALS MADE FROM PRIVATE ROWS. Put public knowledge in their place" in text
    done = uneven_in("fit", "sources.toml")
    assert done.returncode == 2
    assert "[columns]: columns must describe at least one column, got none. Write what is publicly known" in done.stderr
    assert "put public knowledge in it, and delete the '# ' in front of it" in done.stderr
    confirmed = text
    for name in ("age", "job", "classes"):
        confirmed = confirmed.replace(f"\n# {name} = ", f"\n{name} = ")
    (folder / "sources.toml").write_text(confirmed)
    assert [column.name for column in read_sources(folder / "sources.toml").columns] == ["age", "job"]
    assert read_sources(folder / "sources.toml").settings.classes == ("no", "yes")
    good("fit", "sources.toml")


@pytest.mark.parametrize("redact", [False, True])
def test_proposals_from_private_rows_are_in_no_report(folder, good, redact):
    """They are comments for the rows' owner; what is stated in place of them is public."""
    rng = np.random.default_rng(0)
    age, job = rng.integers(20, 80, 200).astype(float), rng.choice(["cook", "clerk", "astronaut"], 200)
    age[:20], age[-20:] = 17.31, 93.57
    pd.DataFrame({"age": age, "job": job, "y": rng.choice(["no", "yes"], 200)}).to_csv(folder / "a.csv", index=False)
    good("init", "a.csv", "--epsilon", "a=2")
    text = (folder / "sources.toml").read_text()
    assert "# age" in text
    secrets = ("17.31", "93.57", "astronaut")
    assert all(secret in text for secret in secrets)
    stated = '[columns]\nage = { range = [0, 120] }\njob = { values = ["cook", "clerk"] }  # no astronaut\n'
    head = f'classes = ["no", "yes"]\nredact = {str(redact).lower()}\n'
    (folder / "sources.toml").write_text(head + text.replace("[columns]\n", stated))
    good("plan", "sources.toml", "--report", "plan.html")
    good("fit", "sources.toml", "--report", "fit.html")
    for name in ("plan.html", "fit.html"):
        page = (folder / name).read_text()
        assert "Its comments are left out" in page
        assert "cook" in page
        assert not any(secret in page for secret in secrets)


@pytest.mark.parametrize("link", [False, True])
def test_data_is_never_written_over(folder, uneven_in, link):
    write_mixed(folder / "a.csv")
    write_mixed(folder / "b.csv")
    before = [(folder / name).read_bytes() for name in ("a.csv", "b.csv")]
    for name in ("a.csv", "b.csv"):  # a source, and a file that has nothing to do with it
        output = name
        if link:
            (folder / "link.toml").unlink(missing_ok=True)
            (folder / "link.toml").symlink_to(folder / name)
            output = "link.toml"
        done = uneven_in("init", "a.csv", "-o", output, "--force")
        assert done.returncode == 2
        assert "-o must " in done.stderr
    assert [(folder / name).read_bytes() for name in ("a.csv", "b.csv")] == before


def test_classes_are_those_of_public_rows(folder, good):
    """Where another source is private they must be stated; nothing is taken from that one."""
    (folder / "crowd.csv").write_text("age,dose,pulse,outcome\n0,0,0,secret\n1,1,1,other\n")
    good("init", "clinic.parquet", "crowd.csv", "--epsilon", "crowd=1")
    text = (folder / "sources.toml").read_text()
    assert 'classes = ["ill", "well"]' in text
    assert "secret" not in text
    good("init", "clinic.parquet", "crowd.csv", "--force")
    assert "classes" not in (folder / "sources.toml").read_text()


@pytest.mark.parametrize(
    ("labels", "written"), [(("1", "2"), "classes = [1, 2]"), (("0", "1"), None), (("-1", "1"), None)]
)
def test_numbers_are_classes_where_a_private_fit_needs_them_stated(folder, good, labels, written):
    """0 and 1, and -1 and 1, need no statement; other numbers do, as words do."""
    lines = "\n".join(f"{i},{labels[i % 2]}" for i in range(20))
    for name in ("a", "b"):
        (folder / f"{name}.csv").write_text(f"age,label\n{lines}\n")
    good("init", "a.csv", "b.csv", "--epsilon", "b=1")
    text = (folder / "sources.toml").read_text()
    assert ("classes" not in text) if written is None else (f"\n{written}  #" in text)
    good("fit", "sources.toml")
    good("init", "a.csv", "--epsilon", "a=1", "--force")
    text = (folder / "sources.toml").read_text()
    assert ("classes" not in text) if written is None else (f"\n# {written}  #" in text)


def frame_of(n=200, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"income": rng.normal(2.5, 1, n).round(2), "job": rng.choice(["clerk", "cook"], n)})
    return frame.assign(outcome=np.where(frame["income"] + rng.normal(size=n) > 2.5, "yes", "no"))


def columns_of(folder, name="sources.toml"):
    return {column.name: column for column in read_sources(folder / name).columns or ()}


def test_private_rows_do_not_choose_the_label(tmp_path):
    """The public file has one column of two values; whatever the private one has, that is the label."""
    public = pd.DataFrame({"a": np.arange(60.0), "b": np.arange(60) % 2, "c": np.arange(60) * 0.5})
    public.to_csv(tmp_path / "public.csv", index=False)
    for change in ({}, {"c": np.arange(60) % 2}, {"b": np.arange(60)}):
        public.assign(**change).to_csv(tmp_path / "private.csv", index=False)
        files = [tmp_path / "private.csv", tmp_path / "public.csv"]
        assert propose_sources(files, tmp_path / "s.toml", True, epsilon={"private": 1.0}).label == "b"


def test_ranges_of_rows_that_become_private_are_refused(tmp_path):
    frame_of().to_csv(tmp_path / "rows.csv", index=False)
    propose_sources([tmp_path / "rows.csv"], tmp_path / "s.toml")
    text = (tmp_path / "s.toml").read_text()
    assert text.count('columns_from = ["rows"]') == 1
    hidden = text.replace('noise = { kind = "exact" }', 'noise = { kind = "local-privacy", epsilon = 8.0 }', 1)
    hidden = hidden.replace("label =", 'classes = ["no", "yes"]\nlabel =', 1)
    (tmp_path / "s.toml").write_text(hidden)
    with pytest.raises(
        ValueError, match=r"columns_from must name sources without privacy, got 'rows', which is private"
    ):
        read_sources(tmp_path / "s.toml")
    kept = "\n".join(line for line in hidden.splitlines() if not line.startswith("columns_from"))
    (tmp_path / "s.toml").write_text(kept)
    assert read_sources(tmp_path / "s.toml").sources[0].hidden


def test_decimal_commas_and_infinite_numbers(tmp_path):
    frame = frame_of()
    frame.to_csv(tmp_path / "points.csv", index=False)
    frame.to_csv(tmp_path / "commas.csv", index=False, sep=";", decimal=",")
    propose_sources([tmp_path / "commas.csv"], tmp_path / "sources.toml")
    found = columns_of(tmp_path)["income"]
    propose_sources([tmp_path / "points.csv"], tmp_path / "sources.toml", True)
    assert found == columns_of(tmp_path)["income"]
    file = read_sources(tmp_path / "sources.toml")
    tables = [open_table(tmp_path / name) for name in ("points.csv", "commas.csv")]
    (X, _), (Z, _) = (table.arrays("outcome", ["income", "job"], file.encoder) for table in tables)
    np.testing.assert_array_equal(X, Z)
    (X, _), (Z, _) = (table.arrays("outcome", ["income"]) for table in tables)
    np.testing.assert_array_equal(X, Z)
    (tmp_path / "thousands.csv").write_text("a;y\n1,234;0\n2,345;1\n")  # may be whole numbers
    assert open_table(tmp_path / "thousands.csv").arrays("y", ["a"], Encoder(GUESSED))[0].shape == (2, 2)
    frame.astype({"income": object}).assign(income=[*frame["income"][:-1], "inf"]).to_csv(
        tmp_path / "i.csv", index=False
    )
    propose_sources([tmp_path / "i.csv"], tmp_path / "sources.toml", True)
    assert columns_of(tmp_path)["income"].missing == ("inf",)


GUESSED = describe_columns({"a": {"values": ["1,234", "2,345"]}})


@pytest.mark.parametrize("given", ["\\t", "\t"])
def test_a_tab_can_be_typed(folder, good, uneven_in, given):
    frame_of().to_csv(folder / "rows.csv", index=False, sep="\t")
    good("init", "rows.csv", "--delimiter", given, "--force")
    assert set(columns_of(folder)) == {"income", "job"}
    good("fit", "sources.toml")
    good("predict", "model.json", "rows.csv", "--delimiter", given, "-o", "out.csv")
    done = uneven_in("init", "rows.csv", "--delimiter", "ab", "--force")
    assert (done.returncode, done.stderr) == (2, "uneven: --delimiter must be one character such as ';', got 'ab'\n")


@pytest.mark.parametrize("text", ['source = "my precious notes"', '[[source]]\nname = "a"\n[diary]\nmonday = 1'])
def test_other_toml_files_are_not_written_over(tmp_path, text):
    frame_of().to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "notes.toml").write_text(text)
    with pytest.raises(ValueError, match=r"--output must be a new file or a sources\.toml to write over"):
        propose_sources([tmp_path / "rows.csv"], tmp_path / "notes.toml", True)
    assert (tmp_path / "notes.toml").read_text() == text


def test_names_of_sources_end_where_the_extension_begins(tmp_path):
    files = [tmp_path / name for name in ("processed.va.data", "processed.ch.data", "a.b.csv.gz", "a.b.csv", ".csv")]
    for file in files:
        frame_of().to_csv(file, index=False)
    names = propose_sources(files, tmp_path / "s.toml", epsilon={"processed.va": 2.0}).names
    assert names == ("processed.va", "processed.ch", "a.b", "a.b-2", ".csv")
    assert [entry.name for entry in read_sources(tmp_path / "s.toml").sources if entry.hidden] == ["processed.va"]


def test_spaces_after_delimiters_are_no_part_of_names_or_words(folder, good):
    text = frame_of().to_csv(index=False).replace(",", ", ")
    (folder / "rows.csv").write_text(text)
    good("init", "rows.csv", "--force")
    file = read_sources(folder / "sources.toml")
    assert (file.label, set(columns_of(folder))) == ("outcome", {"income", "job"})
    assert "It predicts 'no' or 'yes' from" in good("fit", "sources.toml")
    (folder / "headless.csv").write_text(text.split("\n", 1)[1])
    assert open_table(folder / "headless.csv").arrays("x2", ["x0"])[1][0] in ("no", "yes")
    (folder / "some.csv").write_text("a,b\n1, x\n2,y\n")  # here the space is the word's own
    assert open_table(folder / "some.csv").arrays("b")[1].tolist() == [" x", "y"]


def test_lines_with_different_separators_are_refused(tmp_path):
    (tmp_path / "mixed.csv").write_text("a;b;c;y\n1,2,3,0\n4,5,6,1\n")
    with pytest.raises(
        ValueError, match=r"mixed.csv must have the same separator in every line, got lines of 1 and of 4"
    ):
        open_table(tmp_path / "mixed.csv")


@pytest.mark.parametrize("name", ["customer_id", "CustomerID", "zip", "zip_code", "ZIP Code", "postcode", "uuid"])
def test_codes_are_not_learned_as_numbers(tmp_path, name):
    frame_of().assign(**{name: np.arange(200) * 7 % 200, "humid": 1.5, "valid": 0.5}).to_csv(
        tmp_path / "r.csv", index=False
    )
    assert propose_sources([tmp_path / "r.csv"], tmp_path / "s.toml", label="outcome").left_out == (name,)


def test_marks_of_one_column_are_those_of_all(tmp_path):
    """A file that is not looked at may have '?' where the public one has none."""
    public = frame_of()
    public.assign(age=["?", *range(199)]).to_csv(tmp_path / "public.csv", index=False)
    public.assign(age=1, income=["?", *public["income"][1:]]).to_csv(tmp_path / "private.csv", index=False)
    files = [tmp_path / "public.csv", tmp_path / "private.csv"]
    propose_sources(files, tmp_path / "sources.toml", epsilon={"private": 1.0})
    assert {name: column.missing for name, column in columns_of(tmp_path).items()} == dict.fromkeys(
        ("income", "job", "age"), ("?",)
    )
    train_files(read_sources(tmp_path / "sources.toml"), seed=0)  # a gap where the public rows have none


def test_fit_says_who_is_not_used_and_what_the_description_makes_sure(folder, good):
    """A private source that is read and not worth its ε; rows that cannot be longer than 1."""
    frame_of(2000).to_csv(folder / "open.csv", index=False)
    frame_of(20, 1).to_csv(folder / "few.csv", index=False)
    good("init", "open.csv", "few.csv", "--epsilon", "few=0.01", "--force")
    said = good("fit", "sources.toml")
    first = said.splitlines()[0]
    assert first == "Protected: nobody. Not protected: 'open'. Read, but not used and not charged: 'few'."
    assert "are shrunk" not in said
    assert "by the description of its columns no row has a norm above 1" in said


def test_next_steps_are_those_that_are_left(folder, good, uneven_in):
    """One private file: its classes and columns; beside an exact one, only whether that is exact."""
    said = good("init", "clinic.parquet", "--epsilon", "clinic=2", "-o", "one.toml")
    assert "Next: confirm classes and columns in one.toml, then run: uneven plan one.toml" in said
    said = good("init", "clinic.parquet", "crowd.csv", "--epsilon", "crowd=2", "-o", "two.toml")
    assert "Next: check that 'clinic' is exact, or state its noise, in two.toml, then run" in said
    text = (folder / "one.toml").read_text().replace("# age", "age").replace("# dose", "dose")
    (folder / "one.toml").write_text(text)
    for command in ("plan", "fit"):
        assert "classes must be given" in uneven_in(command, "one.toml").stderr


def test_no_anchor_to_begin_with_is_said_before_a_fit(private, uneven_in):
    private()
    for command in ("plan", "fit"):
        done = uneven_in(command, "sources.toml", "--strategy", "anchored")
        assert done.returncode == 2
        assert "strategy must be another" in done.stderr
