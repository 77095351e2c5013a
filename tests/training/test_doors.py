"""Two doors, one trainer: the same rows and settings give the same model as arrays and as files.

It is equal to the bit for rows that are held in memory; streamed rows are shuffled in blocks.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import uneven
from uneven.io import delimited, read_sources
from uneven.io.sources_text import format_value
from uneven.losses import LOSSES
from uneven.planner import STRATEGIES
from uneven.schedules import AVERAGES
from uneven.settings import NAMES, PUBLIC_FIRST, Settings
from uneven.training import job, scan
from uneven.training.ahead import plan_ahead
from uneven.training.files import FileRows, train_files
from uneven.training.model_file import load_model, save_model

FLIPPED = (uneven.FlippedLabels(0.2), uneven.FlippedLabels((0.1, 0.3)))
LABELS = (uneven.LabelPrivacy(2.0),)
LOCAL = (uneven.LocalPrivacy(2.0), uneven.LocalPrivacy(0.5, "l2-laplace"), uneven.LocalPrivacy(4.0) & FLIPPED[0])
SITE = (uneven.SitePrivacy(1.0),)
OPEN = (uneven.Exact(), *FLIPPED, uneven.AdditiveNoise(1.0), uneven.AdditiveNoise(1.0) & FLIPPED[0])
NAMES_OF_CLASSES = ("well", "ill", "unsure")


def draw_rows(rng):
    """Rows and labels of two or three sources, one source after the other, as files come; in any order of names."""
    d, names = int(rng.integers(2, 6)), rng.permutation(["clinic", "crowd", "survey"])[: rng.integers(2, 4)]
    classes = np.array(NAMES_OF_CLASSES[: 2 + (rng.random() < 0.3)])
    X = rng.normal(size=(int(rng.integers(200, 900)), d)) * rng.lognormal(size=d)
    y = classes[np.argmax(X @ rng.normal(size=(d, len(classes))) + rng.gumbel(size=(len(X), len(classes))), axis=1)]
    return X, y, names[np.sort(rng.integers(len(names), size=len(X)))]


def draw_noise(rng, source, several):
    """A noise for each source, in the order of their rows; `several` classes know no rate of their own."""
    kinds = (OPEN, (*LOCAL, *OPEN), (*LOCAL, *OPEN), (*LABELS, *SITE, *LOCAL, *OPEN))[rng.integers(4)]
    kinds = [one for one in kinds if not (several and one == FLIPPED[1])]
    return {name: kinds[rng.integers(len(kinds))] for name in dict.fromkeys(source.tolist())}


def draw_case(seed):
    """Rows of two or three sources with their noises, and settings that go together, at random."""
    rng = np.random.default_rng(seed)
    X, y, source = draw_rows(rng)
    classes = np.unique(y).tolist()
    several, noise = len(classes) > 2, draw_noise(rng, source, len(classes) > 2)
    private = [one.private for one in noise.values()]
    loss = "logistic" if several and any(private) else str(rng.choice(["logistic", *LOSSES]))
    size = int(rng.integers(1, 60))
    settings = {
        "alpha": ["auto", float(10 ** rng.uniform(-4, -1))][rng.integers(2)],
        "batch_size": "auto" if size % 3 == 0 else size,
        "loss": loss,
        "strategy": str(rng.choice(["auto", "auto", "auto", *STRATEGIES])),
        "radius": str(rng.choice(["tight", "paper"])),
        "fit_intercept": bool(rng.random() < 0.7),
        "row_norm": [2.5, "auto"][rng.integers(2)],
        "use": str(rng.choice(["auto", "all"])),
        "budget": 100.0,
        "classes": classes,
    }
    if rng.random() < 0.5:  # what asks for steps
        settings["clip"] = [0.3, "auto", None][rng.integers(3)]
        settings["average"] = str(rng.choice(["auto", *AVERAGES]))
        settings["passes"] = int(rng.integers(1, 4))
        if settings["strategy"] == "precision":
            settings["moments"] = str(rng.choice(["auto", "upper", "estimated"]))
    elif loss == "logistic" and any(private) and not all(private) and rng.random() < 0.5:
        settings["strategy"] = "anchored"
    if rng.random() < 0.3 and (loss == "logistic" or not several):
        settings["class_weight"] = dict(zip(classes, (1.5, 2.0, 0.7), strict=False))
    if loss == "logistic" and not several and rng.random() < 0.3:
        settings["threshold"] = 0.3
    if any(one.protects_features for one in noise.values()) and rng.random() < 0.4:
        settings["sketch"] = [2, "auto"][rng.integers(2)]
    if several and not any(private) and "class_weight" not in settings:
        settings["multi_class"] = str(rng.choice(["softmax", "one-vs-rest"]))
    return X, y, source, noise, settings


def write_settings(settings):
    """Lines of a sources.toml with these settings."""
    usual = Settings()
    told = {key: "none" if one is None else one for key, one in settings.items() if one != getattr(usual, key)}
    return ['label = "y"', *(f"{key} = {format_value(value)}" for key, value in told.items())]


def as_table(X, y):
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y)


def write_files(folder, X, y, source, noise, settings, **more):
    """A sources.toml with these settings, and a file for each source; -1 or NaN in all its rows leaves a column out."""
    lines = write_settings(settings)
    for name in dict.fromkeys([*noise, *source.tolist()]):
        mine = source == name
        table = as_table(X[mine], y[mine])
        lines += ["[[source]]", f'name = "{name}"', f'data = "{name}.csv"']
        lines += [f"noise = {format_value(noise[name].to_dict())}"] if noise.get(name) is not None else []
        for column, (values, key) in more.items():
            if np.any(values[mine] >= 0):
                table[column] = values[mine]
                lines.append(f'{key} = "{column}"')
        table.to_csv(folder / f"{name}.csv", index=False)
    (folder / "sources.toml").write_text("\n".join(lines) + "\n")
    return read_sources(folder / "sources.toml")


def write_shared(folder, X, y, source, noise, settings):
    """A sources.toml with these settings, and one file whose rows name their sources."""
    as_table(X, y).assign(site=source).to_parquet(folder / "all.parquet")
    lines = [*write_settings(settings), 'data = "all.parquet"', 'source_column = "site"']
    for name, one in noise.items():
        lines += ["[[source]]", f'name = "{name}"', f"noise = {format_value(one.to_dict())}"]
    (folder / "sources.toml").write_text("\n".join(lines) + "\n")
    return read_sources(folder / "sources.toml")


def check_same(trained, clf):
    np.testing.assert_array_equal(trained.model.coef, clf.coef_)
    np.testing.assert_array_equal(trained.model.intercept, clf.intercept_)
    assert trained.plan == clf.plan_
    assert trained.scale == clf.scale_
    assert trained.model.privacy_spent == clf.privacy_spent_
    assert trained.trained.activity == clf.activity_
    assert trained.model.classes.tolist() == clf.classes_.tolist()
    assert (trained.model.alpha, trained.model.flip_rates) == (clf.alpha_, clf.flip_rates_)
    assert trained.trained.notes == clf.notes_


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.filterwarnings("ignore:.*were shrunk")
def test_both_doors_lead_to_the_same_model(tmp_path, seed):
    X, y, source, noise, settings = draw_case(seed)
    clf = uneven.UnevenClassifier(noise, random_state=seed, **settings).fit(X, y, source=source)
    file = write_files(tmp_path, X, y, source, noise, settings)
    trained = train_files(file, seed=seed)
    check_same(trained, clf)
    assert file.settings == replace_seed(clf._settings())
    save_model(trained.model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    assert again.plan == trained.plan
    np.testing.assert_array_equal(again.predict_proba(X), trained.model.predict_proba(X))


def test_random_cases_have_every_way_to_learn():
    drawn = [draw_case(seed) for seed in range(100)]
    assert {case[4]["strategy"] for case in drawn} == {*PUBLIC_FIRST, *STRATEGIES}
    assert {case[4]["loss"] for case in drawn} == set(LOSSES)
    assert {case[4].get("average", "auto") for case in drawn} == {"auto", *AVERAGES}
    assert {case[4].get("sketch") for case in drawn} == {None, "auto", 2}
    assert {one for case in drawn for one in case[3].values()} == {*OPEN, *LOCAL, *LABELS, *SITE}
    assert {len(case[4]["classes"]) for case in drawn} == {2, 3}
    assert sum(list(case[3]) != sorted(case[3]) for case in drawn) > 30


@pytest.mark.parametrize("seed", range(100, 120))
@pytest.mark.filterwarnings("ignore:.*were shrunk")
def test_one_file_whose_rows_name_their_sources(tmp_path, seed):
    """Rows of all sources mixed: sources are numbered by their place in `noise`, whichever row is first."""
    X, y, source, noise, settings = draw_case(seed)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y, source = X[order], y[order], source[order]
    clf = uneven.UnevenClassifier(noise, random_state=seed, **settings).fit(X, y, source=source)
    file = write_shared(tmp_path, X, y, source, noise, settings)
    check_same(train_files(file, seed=seed), clf)
    assert {one.name: one.rows for one in file.described()} == {name: (source == name).sum() for name in noise}


def test_a_source_without_rows_in_the_one_file_is_refused(tmp_path):
    X, y, source, noise, settings = draw_case(5)
    file = write_shared(tmp_path, X, y, source, {**noise, "nobody": uneven.Exact()}, settings)
    with pytest.raises(ValueError, match=r"sources.toml: source 'nobody' must have rows in .*all.parquet, got none$"):
        plan_ahead(file)


@pytest.mark.parametrize("seed", range(200, 230))
@pytest.mark.filterwarnings("ignore:.*were shrunk")
def test_rows_of_some_sources_tell_their_own_noise(tmp_path, seed):
    """A column of ε or flip rates for some sources, and one of ids: both doors charge the same rows the same."""
    rng = np.random.default_rng(seed)
    X, y, source, noise, settings = draw_case(seed)
    names, key = list(noise), ["epsilon", "flip_rate"][rng.integers(2)]
    told = rng.choice(names, size=rng.integers(1, len(names) + 1), replace=False).tolist()
    levels = np.where(np.isin(source, told), rng.choice([0.05, 0.1, 0.2], size=len(y)), np.nan)
    ids = rng.permutation(len(y))
    rest = {name: uneven.Exact() for name in names if name not in told}
    settings |= {"loss": "logistic", "strategy": str(rng.choice(["auto", "precision", "anytime"])), "use": "all"}
    settings = {name: value for name, value in settings.items() if name not in ("sketch", "multi_class", "moments")}
    ledgers = uneven.Ledger(), uneven.Ledger()
    clf = uneven.UnevenClassifier(rest or None, random_state=seed, ledger=ledgers[0], **settings)
    clf.fit(X, y, source=source, row_id=ids, **{key: levels})
    declared = {name: rest.get(name) for name in names}
    file = write_files(tmp_path, X, y, source, declared, settings, own=(levels, key), number=(ids, "id"))
    check_same(train_files(file, seed=seed, ledger=ledgers[1]), clf)
    assert set(ledgers[0].sources()) == (set(told) if key == "epsilon" else set())
    for ledger in ledgers:
        for name in ledger.sources():
            mine = source == name
            spent = levels[mine] * settings.get("passes", 1)
            assert ledger.spent(name) == pytest.approx(dict(zip(ids[mine], spent, strict=True)))


def replace_seed(settings):
    return type(settings)(**{name: getattr(settings, name) for name in NAMES if name != "random_state"})


@pytest.mark.parametrize("named", [True, False])
def test_activity_of_rows_with_their_own_epsilon_is_one_entry_a_source(tmp_path, named):
    X, y, source, _, _ = draw_case(3)
    levels = np.random.default_rng(0).uniform(0.5, 8.0, len(y))
    source, stated = source if named else np.full(len(y), "data"), {"row_norm": 50.0, "classes": ["ill", "well"]}
    clf = uneven.UnevenClassifier(random_state=1, **stated)
    clf.fit(X, y, epsilon=levels, **({"source": source} if named else {}))
    assert set(clf.activity_) == set(source)
    assert all(0.0 <= one.low <= one.found <= one.high <= 1.0 for one in clf.activity_.values())
    trained = train_files(write_files(tmp_path, X, y, source, {}, stated, own=(levels, "epsilon")), seed=1)
    assert set(trained.trained.activity) == set(source)
    (line,) = trained.describe_activity()
    assert "#" not in line
    assert line.count("planned: ") == len(set(source))


def test_a_line_search_with_validation_rows(tmp_path):
    X, y, source, _, _ = draw_case(11)
    X /= np.linalg.norm(X, axis=1).max()
    names = np.unique(source)[:2]
    mine = np.isin(source, names)
    X, y, source = X[mine], y[mine], source[mine]
    aside = X[::3] / 2, y[::3]  # other rows: those learned from are refused
    noise = {names[0]: uneven.LocalPrivacy(10.0), names[1]: uneven.LocalPrivacy(1.0)}
    settings = {"strategy": "two-rates", "line_search": 3, "budget": 30.0, "classes": ["ill", "well"]}
    clf = uneven.UnevenClassifier(noise, random_state=4, **settings)
    clf.fit(X, y, source=source, validation=aside)
    file = write_files(tmp_path, X, y, source, noise, settings)
    held_out = pd.DataFrame(aside[0], columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=aside[1])
    held_out.to_csv(tmp_path / "validation.csv", index=False)
    validation = uneven.io.open_table(tmp_path / "validation.csv")
    check_same(train_files(file, seed=4, validation=validation), clf)


@pytest.fixture
def opened(monkeypatch):
    """Names of the CSV files that were opened, once for each time."""
    names, real = [], delimited._opened

    def count(path, *rest):
        names.append(path.name)
        return real(path, *rest)

    monkeypatch.setattr(delimited, "_opened", count)
    return names


@pytest.mark.parametrize(("held", "readings"), [(scan.HELD_BYTES, 1), (0, 2)])
def test_a_csv_is_read_at_most_twice(tmp_path, opened, held, readings):
    """Once where its rows are held from the first reading, and once more to learn where they are not."""
    X, y, source, noise, _ = draw_case(7)
    file = write_files(
        tmp_path, X, y, source, noise, {"row_norm": 9.0, "strategy": "precision", "classes": ["ill", "well"]}
    )
    opened.clear()
    train_files(file, seed=0, held_bytes=held)
    assert {name: opened.count(name) for name in opened} == {f"{name}.csv": readings for name in noise}


def test_rows_to_test_on_are_measured_in_one_reading(tmp_path, opened, monkeypatch):
    """They are looked through twice before anything is charged, and read once after it."""
    X, y, source, noise, _ = draw_case(7)
    settings = {"row_norm": 9.0, "strategy": "precision", "classes": ["ill", "well"]}
    file = write_files(tmp_path, X, y, source, noise, settings)
    as_table(X / 2, y).to_csv(tmp_path / "test.csv", index=False)
    test, at = uneven.io.open_table(tmp_path / "test.csv"), []
    run = uneven.training.trainer.run
    monkeypatch.setattr("uneven.training.trainer.run", lambda *a: (at.append(opened.count("test.csv")), run(*a))[1])
    opened.clear()
    measures = train_files(file, seed=0, test=test).measures
    assert (at[0], opened.count("test.csv")) == (2, 3)
    assert measures[-1].rows == len(y)


def write_mixed(folder, kind, settings):
    """A CSV of 900 rows: of three sources, or of one whose rows have one of 50 levels of ε or of 9 flip rates."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    table = as_table(X, (X[:, 0] + rng.logistic(size=900) > 0).astype(int))
    lines = ["row_norm = 5.0", "classes = [0, 1]", 'features = ["x0", "x1", "x2", "x3"]', *write_settings(settings)]
    if kind == "shared":
        table["own"] = np.resize(["p", "q", "r"], 900)
        lines += ['data = "all.csv"', 'source_column = "own"']
        noises = [uneven.LocalPrivacy(1.0), uneven.LocalPrivacy(4.0), uneven.Exact()]
        for name, noise in zip("pqr", noises, strict=True):
            lines += ["[[source]]", f'name = "{name}"', f"noise = {format_value(noise.to_dict())}"]
    else:
        table["own"] = rng.permutation(np.resize(np.arange(1, 51 if kind == "epsilon" else 10) / 20, 900))
        lines += ["[[source]]", 'name = "p"', 'data = "all.csv"', f'{kind} = "own"']
    table.to_csv(folder / "all.csv", index=False)
    (folder / "sources.toml").write_text("\n".join(lines) + "\n")
    return read_sources(folder / "sources.toml")


MIXED = [
    ("shared", {"strategy": "precision"}),
    ("shared", {"use": "all"}),
    ("shared", {"strategy": "precision", "passes": 3}),
    ("shared", {"class_weight": "balanced"}),
    ("epsilon", {}),
    ("epsilon", {"strategy": "precision"}),
    ("flip_rate", {"strategy": "precision"}),
    ("flip_rate", {}),
]


@pytest.mark.parametrize(("kind", "settings"), MIXED)
@pytest.mark.parametrize("room", [None, 2, 0])
def test_readings_do_not_grow_with_the_sources_that_are_mixed_in_a_file(
    tmp_path, opened, monkeypatch, kind, settings, room
):
    """Two where all fit together; else as many more as their size makes, and the answer is the same to the bit.

    With room for none, each source is read by itself, as often as it is used.
    """
    file, rows = write_mixed(tmp_path, kind, settings), 900 * 4 * 8
    monkeypatch.setattr(job, "GATHERED_BYTES", rows if room is None else rows // room if room else 0)
    held = train_files(file, seed=0).model
    opened.clear()
    trained = train_files(file, seed=0, held_bytes=0)
    if room is None:
        assert len(opened) == 2
    elif room and (settings.get("strategy") == "precision"):
        assert len(opened) <= 1 + 3
    np.testing.assert_array_equal(trained.model.coef, held.coef)
    assert trained.plan.summary()


def test_streamed_rows_are_the_rows_that_are_held(tmp_path):
    """One block per source: even the order of the rows is the same, so nothing but rounding of sums may differ."""
    X, y, source, noise, _ = draw_case(9)
    settings = {"row_norm": 9.0, "passes": 2, "strategy": "precision", "classes": ["ill", "well"]}
    file = write_files(tmp_path, X, y, source, noise, settings)
    held, streamed = (train_files(file, seed=0, held_bytes=size).model for size in (scan.HELD_BYTES, 0))
    np.testing.assert_array_equal(held.coef, streamed.coef)


@pytest.mark.parametrize("cut", [1, 7, 64, 10_000])
def test_how_rows_are_cut_into_pieces_does_not_matter(tmp_path, monkeypatch, cut):
    X, y, source, noise, _ = draw_case(13)
    file = write_files(tmp_path, X, y, source, noise, {})
    whole = scan.scan_rows(FileRows(file))
    monkeypatch.setattr("uneven.io.delimited.BLOCK_ROWS", cut)
    pieces = scan.scan_rows(FileRows(file))
    assert (pieces.totals, pieces.counts, pieces.longest) == (whole.totals, whole.counts, whole.longest)
    np.testing.assert_array_equal(pieces.held[0], whole.held[0])


@pytest.mark.parametrize("private", [False, True])
def test_whether_private_rows_are_held_does_not_depend_on_their_values(private):
    """Held rows are shuffled all together and streamed ones by blocks: values that are 0 must not decide which."""

    def held(entries):
        X = sparse.csr_array(np.arange(2_000).reshape(100, 20) < entries, dtype=np.float64)
        rows = uneven.training.rows.ArrayRows(uneven.training.rows.Piece(X, np.arange(100) % 2))
        return scan.scan_rows(rows, held_bytes=8_000, private=lambda _: private).held is not None

    assert [held(entries) for entries in (1, 2_000)] == ([False, False] if private else [True, False])


def test_a_large_sample_is_thinned_evenly():
    rows = scan.SAMPLE_ROWS * 3
    X = np.arange(rows, dtype=np.float64)[:, None]
    pieces = uneven.training.rows.ArrayRows(uneven.training.rows.Piece(X, np.arange(rows) % 2))
    ((kept, _),) = scan.scan_rows(pieces, held_bytes=2**40).sample.values()
    np.testing.assert_array_equal(kept[:, 0], np.arange(0, rows, 4))


@pytest.mark.parametrize("key", ["epsilon", "flip_rate"])
def test_a_source_without_the_column_may_come_first(tmp_path, key):
    """Rows that have their own noise after rows that do not."""
    X, y, _, _, _ = draw_case(3)
    half = len(y) // 2
    level = 0.2 if key == "flip_rate" else 2.0
    names = [f"x{j}" for j in range(X.shape[1])]
    for name, rows in (("a", slice(0, half)), ("b", slice(half, None))):
        table = pd.DataFrame(X[rows], columns=names).assign(y=y[rows])
        (table if name == "a" else table.assign(level=level)).to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "sources.toml").write_text(
        'label = "y"\nrow_norm = 99.0\nalpha = 0.01\nuse = "all"\nclasses = ["ill", "well"]\n'
        f"features = {format_value(names)}\n"
        '[[source]]\nname = "a"\ndata = "a.csv"\nnoise = { kind = "exact" }\n'
        f'[[source]]\nname = "b"\ndata = "b.csv"\n{key} = "level"\n'
    )
    trained = train_files(read_sources(tmp_path / "sources.toml"), seed=3)
    told = np.where(np.arange(len(y)) < half, np.nan, level)
    source = np.where(np.arange(len(y)) < half, "a", "b")
    settings = {"row_norm": 99.0, "alpha": 0.01, "use": "all", "classes": ["ill", "well"], "random_state": 3}
    clf = uneven.UnevenClassifier({"a": uneven.Exact()}, **settings).fit(X, y, source=source, **{key: told})
    np.testing.assert_array_equal(trained.model.coef, clf.coef_)


@pytest.mark.parametrize("kind", ["public", "private", "by steps"])
def test_columns_in_another_order_are_matched_in_every_reading(tmp_path, kind):
    """Files of which each has its columns in an order of its own, held and read again."""
    X, y, source, _, _ = draw_case(9)
    names = list(dict.fromkeys(source.tolist()))
    noise = {name: uneven.LocalPrivacy(2.0) if kind == "private" else uneven.Exact() for name in names}
    settings = {"row_norm": 9.0, "classes": np.unique(y).tolist()}
    settings |= {"strategy": "precision"} if kind == "by steps" else {}
    file = write_files(tmp_path, X, y, source, noise, settings)
    straight = train_files(file, seed=0).model
    for k, name in enumerate(names):
        table = pd.read_csv(tmp_path / f"{name}.csv")
        table[[*table.columns[k + 1 :], *table.columns[: k + 1]]].to_csv(tmp_path / f"{name}.csv", index=False)
    toml = tmp_path / "sources.toml"
    toml.write_text(f"features = {format_value(list(straight.feature_names))}\n{toml.read_text()}")
    for held in (scan.HELD_BYTES, 0):
        found = train_files(read_sources(toml), seed=0, held_bytes=held).model
        np.testing.assert_array_equal(found.coef, straight.coef)


@pytest.mark.parametrize("strategy", ["auto", "precision"])
def test_both_doors_plan_the_same_without_a_seed(tmp_path, strategy):
    """Rows with flip rates of their own are not private: what they are measured for does not hang on a seed."""
    rng = np.random.default_rng(0)
    X, rate = 4 * rng.normal(size=(900, 3)), rng.choice([0.05, 0.3], 900)
    y, source = np.where(X[:, 0] > 0, "ill", "well"), np.full(900, "s")
    clf = uneven.UnevenClassifier(strategy=strategy).fit(X, y, source=source, flip_rate=rate)
    file = write_files(tmp_path, X, y, source, {}, {"strategy": strategy}, own=(rate, "flip_rate"))
    found = train_files(file)
    assert found.plan == clf.plan_
    assert found.measures


def draw_sites(rng, names, rows=1500):
    """Rows that are far from norm 1, with labels and the names of their sources, mixed."""
    X = 4 * rng.normal(size=(rows, 3))
    y = np.where(X[:, 0] + rng.logistic(size=rows) > 0, "ill", "well")
    return X, y, rng.choice(names, rows)


@pytest.mark.parametrize("held", [scan.HELD_BYTES, 0])
def test_rows_with_private_labels_in_a_shared_file_are_scaled_as_arrays_are(tmp_path, held):
    """No features are private, so all rows say how steep the objective is, without a seed too."""
    X, y, source = draw_sites(np.random.default_rng(0), ["public", "labels"])
    noise = {"labels": uneven.LabelPrivacy(2.0), "public": uneven.Exact()}
    settings = {"classes": ["ill", "well"], "strategy": "precision", "alpha": 0.01}
    clf = uneven.UnevenClassifier(noise, **settings).fit(X, y, source=source)
    found = train_files(write_shared(tmp_path, X, y, source, noise, settings), held_bytes=held)
    assert found.scale == clf.scale_
    assert found.plan == clf.plan_


def test_open_rows_of_a_shared_file_are_sampled_and_no_others(tmp_path):
    X, y, source = draw_sites(np.random.default_rng(1), ["a", "b", "c"])
    noise = dict.fromkeys("abc", uneven.Exact())
    rows = FileRows(write_shared(tmp_path, X, y, source, noise, {}))
    ((kept, labels),) = scan.scan_rows(rows, open_sources=["a", "c"]).sample.values()
    np.testing.assert_array_equal(kept, X[source != "b"])
    np.testing.assert_array_equal(labels, y[source != "b"])
    assert scan.scan_rows(rows, open_sources=[]).sample == {}


def test_rows_with_flip_rates_of_their_own_are_measured_beside_private_ones(tmp_path):
    X, y, source = draw_sites(np.random.default_rng(2), ["crowd", "clinic"])
    rate = np.where(source == "crowd", 0.1, np.nan)
    settings = {"classes": ["ill", "well"], "row_norm": 20.0, "use": "all"}
    noise = {"clinic": uneven.LocalPrivacy(2.0)}
    found = train_files(write_files(tmp_path, X, y, source, noise, settings, own=(rate, "flip_rate")))
    (measure,) = found.measures
    assert measure.rows == (source == "crowd").sum()
