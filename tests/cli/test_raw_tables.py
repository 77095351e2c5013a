"""From a raw file to a model that is worth having: ``init``, ``fit`` and ``predict`` as a person types them.

Bank, German credit and heart disease as they were published. Exact rows come to scikit-learn's pipeline, and three
private sites (ε = 8, 2 and 0.5) to a pipeline made by hand: numbers standardised and categories one-hot by public
constants, then `UnevenClassifier`.
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import uneven
from uneven.columns import columns_to_dict, guess_columns
from uneven.io import read_sources

DATA = Path(os.environ.get("UNEVEN_DATA", "nowhere"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (DATA / "german").is_dir(), reason="UNEVEN_DATA names no folder with the data"),
    pytest.mark.filterwarnings("ignore:.*were shrunk"),
]
EPSILON = {"a": 8.0, "b": 2.0, "c": 0.5}


def bank():
    """The file as it is: quotes, semicolons, its own header; every fourth row, for speed."""
    head, *lines = (DATA / "bank" / "bank-additional-full.csv").read_text().splitlines()
    return head, lines[::4], ".csv", {"sep": ";"}, "yes"


def german():
    return None, (DATA / "german" / "german.data").read_text().splitlines(), ".data", {"sep": " ", "header": None}, 2


def heart():
    """All four hospitals; the label says how ill, and is made a yes or no, which no private fit could do without."""
    places = ("cleveland", "hungarian", "switzerland", "va")
    lines = [line for place in places for line in (DATA / "heart" / f"processed.{place}.data").read_text().splitlines()]
    told = [re.sub(r",[1-4]$", ",1", line) for line in lines]
    return None, told, ".data", {"header": None, "na_values": "?"}, 1


def write(folder, read, seed):
    """Files a, b and c of the sites and one to test on, as lines of the raw file; and the same as frames."""
    head, lines, ending, options, positive = read()
    order = np.random.default_rng(seed).permutation(len(lines))
    parts = dict(zip(("test", *EPSILON), np.array_split(order, 4), strict=True))
    frames = {}
    for name, places in parts.items():
        text = "\n".join(([] if head is None else [head]) + [lines[i] for i in places]) + "\n"
        (folder / f"{name}{ending}").write_text(text)
        frames[name] = pd.read_csv(folder / f"{name}{ending}", **options)
        if head is None:
            frames[name].columns = [f"x{j}" for j in range(frames[name].shape[1])]
    return frames, ending, positive


def split(frame, positive):
    """Columns to learn from, and whether the label is the positive one; a call's duration is known too late."""
    return frame.iloc[:, :-1].drop(columns="duration", errors="ignore"), (frame.iloc[:, -1] == positive).to_numpy()


def encoder(X):
    """Numbers standardised, gaps filled and told, categories one-hot."""
    numbers = X.select_dtypes("number").columns
    return make_column_transformer(
        (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), [c for c in X if c not in numbers]),
    )


def confirm(path):
    """What the owner does: confirm the proposals but for what is known too late."""
    found = [
        re.sub(r"^# (?=classes = \[|\S+ = \{ (range|values) )", "", line) for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join(line for line in found if not line.startswith("duration")) + "\n")


@pytest.mark.parametrize("read", [bank, german, heart])
def test_as_a_person_types_them(folder, good, read):
    frames, ending, positive = write(folder, read, seed=0)
    files = [f"{name}{ending}" for name in EPSILON]
    X, y = split(pd.concat([frames[name] for name in EPSILON]), positive)
    test, truth = split(frames["test"], positive)
    theirs = make_pipeline(encoder(X), LogisticRegression(max_iter=1000)).fit(X, y)
    majority = max(truth.mean(), 1 - truth.mean())
    for private in (False, True):
        levels = [word for name, e in EPSILON.items() for word in ("--epsilon", f"{name}={e}")] if private else []
        good("init", *files, "--force", *levels)
        confirm(folder / "sources.toml")
        said = good("fit", "sources.toml", "--test", f"test{ending}")
        assert said.startswith("Protected: each row of 'a' at ε = 8, 'b'" if private else "Protected: nobody.")
        assert "For comparison, the majority class" in said
        good("predict", "model.json", f"test{ending}", "-o", "out.parquet")
        out = pd.read_parquet(folder / "out.parquet")
        right = (out["label"].astype(str) == str(positive)) == truth
        area = roc_auc_score(truth, out[f"probability_{positive}"])
        assert f"accuracy {right.mean():.4f} (" in said
        if private:
            assert area > 0.5
            assert right.mean() > majority - 2 * np.sqrt(majority * (1 - majority) / len(truth))
            assert right.mean() > majority or re.search("(clearly beat|is below) that of the majority", said)
        else:
            same = right.astype(float) - (theirs.predict(test) == truth)
            assert same.mean() > -0.002 - 2 * same.std() / np.sqrt(len(truth))
            assert area > roc_auc_score(truth, theirs.predict_proba(test)[:, 1]) - 0.01


def runs_of(folder, read, runs):
    """Rows to learn from, whether each is positive and its site; the same of rows to test on; for each split."""
    for seed in range(runs):
        frames, _, positive = write(folder, read, seed)
        X, y = split(pd.concat([frames[name] for name in EPSILON]), positive)
        source = np.repeat(list(EPSILON), [len(frames[name]) for name in EPSILON])
        yield seed, X, y, source, *split(frames["test"], positive)


@pytest.mark.parametrize(("read", "runs"), [(bank, 3), (german, 40), (heart, 20)])
def test_exact_rows_come_to_scikit_learns_pipeline(folder, read, runs):
    """Accuracy within 0.2 points, on average over splits, and two standard errors of that."""
    gains = []
    for _, X, y, _, test, truth in runs_of(folder, read, runs):
        guessed = columns_to_dict(guess_columns({name: X[name].to_numpy() for name in X}))
        ours = make_pipeline(uneven.PublicColumns(guessed).fit(X, public=True), uneven.UnevenClassifier())
        theirs = make_pipeline(encoder(X), LogisticRegression(max_iter=1000))
        ours[-1].fit(ours[0].transform(X), y)
        gains.append(ours.score(test, truth) - theirs.fit(X, y).score(test, truth))
    assert np.mean(gains) > -0.002 - 2 * np.std(gains, ddof=1) / np.sqrt(runs), np.mean(gains)


@pytest.mark.parametrize(("read", "runs"), [(bank, 3), (german, 10), (heart, 10)])
def test_private_sites_come_to_a_pipeline_made_by_hand(folder, good, read, runs):
    """Accuracy and AUC above the majority class by as much, on average over splits, within two standard errors.

    Of German credit's accuracy that is nothing: 750 rows at these ε give neither pipeline more than its majority class.
    The pipeline made by hand knows more than ranges say: the mean and deviation of every column, from the private rows.
    On heart disease that is worth a point or two; `test_means_and_deviations_are_worth_something` states how much.
    """
    _, ending, _ = write(folder, read, seed=0)
    levels = [word for name, e in EPSILON.items() for word in ("--epsilon", f"{name}={e}")]
    good("init", *(f"{name}{ending}" for name in EPSILON), *levels)
    confirm(folder / "sources.toml")
    described = columns_to_dict(read_sources(folder / "sources.toml").columns)
    noise = {name: uneven.LocalPrivacy(epsilon) for name, epsilon in EPSILON.items()}
    leads = []
    for seed, X, y, source, test, truth in runs_of(folder, read, runs):
        ours, by_hand = uneven.PublicColumns(described).fit(X), encoder(X).fit(X)
        hand = [np.clip(by_hand.transform(rows), -3, 3) / np.sqrt(X.shape[1]) for rows in (X, test)]
        nothing = max(truth.mean(), 1 - truth.mean()), 0.5
        found = []
        for learned, held_out in ((ours.transform(X), ours.transform(test)), hand):
            clf = uneven.UnevenClassifier(noise, row_norm=1.0, random_state=seed).fit(learned, y, source=source)
            reached = clf.score(held_out, truth), roc_auc_score(truth, clf.decision_function(held_out))
            found.append(np.subtract(reached, nothing))
        leads.append(found)
    (mine, theirs), gains = np.mean(leads, axis=0), np.subtract(*np.swapaxes(leads, 0, 1))
    error = np.std(gains, axis=0, ddof=1) / np.sqrt(runs)
    allowed = 0.02 if read is heart else 0.0
    assert (gains.mean(axis=0) > -allowed - 2 * error).all(), (mine, theirs, error)
    assert mine[1] > 0.1
    if read is german:
        assert max(abs(mine[0]), abs(theirs[0])) < 0.01, (mine, theirs)
    else:
        assert mine[0] > 0, mine


MEANS = (54, 0.8, 3.2, 132, 200, 0.2, 0.6, 138, 0.4, 0.9, 1.8, 0.7, 5)
DEVIATIONS = (9, 0.4, 1, 19, 110, 0.4, 0.8, 26, 0.5, 1.1, 0.6, 0.9, 2)
"""Of heart disease's columns, rounded as a published table has them."""


def test_means_and_deviations_are_worth_something(folder):
    """Heart disease at three private sites, 40 splits, against the same constants applied by hand.

    Described by mean and deviation the columns are what the pipeline made by hand has, within two standard errors.
    Described by ranges alone they are behind it, by less than 3 points of accuracy and 2 of AUC.
    """
    noise = {name: uneven.LocalPrivacy(epsilon) for name, epsilon in EPSILON.items()}
    gains = []
    for seed, X, y, source, test, truth in runs_of(folder, heart, 40):
        if seed == 0:
            guessed = columns_to_dict(guess_columns({name: X[name].to_numpy() for name in X}))
            ranges = uneven.PublicColumns(guessed).fit(X, public=True)
            said = {
                f"x{j}": {"mean": m, "sd": s, "missing": []}
                for j, (m, s) in enumerate(zip(MEANS, DEVIATIONS, strict=True))
            }
            means = uneven.PublicColumns(said).fit(X)
        found = []
        for learned, held_out in (
            *((one.transform(X), one.transform(test)) for one in (ranges, means)),
            (by_hand(X), by_hand(test)),
        ):
            clf = uneven.UnevenClassifier(noise, row_norm=1.0, random_state=seed).fit(learned, y, source=source)
            found.append((clf.score(held_out, truth), roc_auc_score(truth, clf.decision_function(held_out))))
        gains.append(np.subtract(found[:2], found[2]))
    (by_range, by_mean), error = np.mean(gains, axis=0), np.std(gains, axis=0, ddof=1) / np.sqrt(40)
    assert (by_mean >= -2 * error[1] - 1e-9).all(), (by_mean, error)
    assert (by_range > np.array([-0.03, -0.02])).all(), (by_range, error)


def by_hand(X):
    """Numbers standardised by public constants, at most 3 deviations; a gap is the mean, and said."""
    Z = np.clip((X.to_numpy() - MEANS) / DEVIATIONS, -3, 3)
    gaps = np.isnan(Z)
    return np.c_[np.where(gaps, 0.0, Z), gaps].astype(np.float32) / np.sqrt(13)


@pytest.mark.skipif(shutil.which("awk") is None, reason="no awk")
@pytest.mark.parametrize("name", ["docs/quickstart.md", "README.md"])
def test_a_newcomer_reaches_a_private_model_of_the_bank(folder, good, name):
    """What a page says to type, as it stands there: a model, what it cost, and whether it was worth it."""
    page = (Path(__file__).parents[2] / name).read_text(encoding="utf-8")
    part = page.split("## A private model")[1].split("\n## ")[0]
    typed = re.findall(r"^(?:awk|uneven) .*$", part, flags=re.M)
    assert [line.split()[0] for line in typed[:6]] == ["awk"] * 3 + ["uneven"] * 3
    shutil.copy(DATA / "bank" / "bank-additional-full.csv", folder)
    said = []
    for line in typed:
        if line.startswith("awk"):
            subprocess.run(["bash", "-c", line], cwd=folder, check=True)
        else:
            said.append(good(*shlex.split(line, comments=True)[1:]))
    _, planned, fitted, *_ = said
    assert "'clients': little. Expected excess objective" in planned
    assert fitted.startswith("Protected: each row of 'clients' at ε = 3. Not protected: 'open'.")
    assert "Privacy spent: ε = 3 for each row of 'clients', charged in ledger.db" in fitted
    assert "On test.csv: accuracy 0.9" in fitted
    assert "For comparison, logistic regression on 1,029 rows without privacy: accuracy 0.9097" in fitted
    report = (folder / "fit.html").read_text(encoding="utf-8")
    for question in ("Is each source worth using?", "What does it cost in privacy?", "Are its probabilities right?"):
        assert question in report
