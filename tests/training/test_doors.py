"""Two doors, one trainer: the same rows and settings give the same model, to the bit, as arrays and as files."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import uneven
from uneven.io import delimited, read_sources
from uneven.io.sources_text import toml_value
from uneven.settings import NAMES
from uneven.training import scan
from uneven.training.files import FileRows, train_files

FLIPPED = (uneven.FlippedLabels(0.2), uneven.FlippedLabels((0.1, 0.3)))
PRIVATE = (uneven.LocalPrivacy(2.0), uneven.LocalPrivacy(0.5, "l2-laplace"), uneven.LocalPrivacy(4.0) & FLIPPED[1])
OPEN = (uneven.Exact(), *FLIPPED, uneven.AdditiveNoise(1.0), uneven.AdditiveNoise(1.0) & FLIPPED[0])


def draw_case(seed):
    """Rows of two or three sources with their noises, and settings that go together, at random."""
    rng = np.random.default_rng(seed)
    d, names = int(rng.integers(2, 6)), ["clinic", "crowd", "survey"][: rng.integers(2, 4)]
    X = rng.normal(size=(int(rng.integers(200, 900)), d)) * rng.lognormal(size=d)
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=len(X)) > 0, "ill", "well")
    source = np.sort(rng.choice(names, size=len(X)))  # as the files come, one after the other
    kinds = [*PRIVATE, *OPEN] if rng.random() < 0.6 else OPEN
    noise = {name: kinds[rng.integers(len(kinds))] for name in np.unique(source)}
    settings = {
        "alpha": float(10 ** rng.uniform(-4, -1)),
        "batch_size": int(rng.integers(1, 60)),
        "loss": str(rng.choice(["logistic", "hinge"])),
        "strategy": str(rng.choice(["precision", "averaged", "two-rates", "clean-only", "arbitrary"])),
        "radius": str(rng.choice(["tight", "paper"])),
        "fit_intercept": bool(rng.random() < 0.7),
        "clip": [0.3, "auto", None][rng.integers(3)],
        "average": str(rng.choice(["auto", "last"])),
        "row_norm": [2.5, "auto"][rng.integers(2)],
        "passes": int(rng.integers(1, 4)),
        "budget": 100.0,
        "classes": np.unique(y).tolist(),
    }
    if settings["strategy"] == "precision":
        settings["moments"] = str(rng.choice(["auto", "upper", "estimated"]))
    if rng.random() < 0.3:
        settings["class_weight"] = {"ill": 1.5, "well": 2.0}
    if settings["loss"] == "logistic" and rng.random() < 0.3:
        settings["threshold"] = 0.3
    if any(one.protects_features for one in noise.values()) and rng.random() < 0.3:
        settings["sketch"] = 2
    return X, y, source, noise, settings


def write_files(folder, X, y, source, noise, settings, **more):
    """A sources.toml with these settings, and a file for each source."""
    lines = ['label = "y"']
    for key, value in settings.items():
        if value is None:
            lines.append(f'{key} = "none"')
        elif value != "auto":
            lines.append(f"{key} = {toml_value(value)}")
    for name in np.unique(source):
        mine = source == name
        table = pd.DataFrame(X[mine], columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y[mine])
        for column, (values, _) in more.items():
            table[column] = values[mine]
        table.to_csv(folder / f"{name}.csv", index=False)
        lines += ["[[source]]", f'name = "{name}"', f'data = "{name}.csv"']
        lines += [f"noise = {toml_value(noise[name].to_dict())}"] if name in noise else []
        lines += [f'{key} = "{column}"' for column, (_, key) in more.items()]
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


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.filterwarnings("ignore:.*were shrunk")
def test_both_doors_lead_to_the_same_model(tmp_path, seed):
    X, y, source, noise, settings = draw_case(seed)
    clf = uneven.UnevenClassifier(noise, random_state=seed, **settings).fit(X, y, source=source)
    file = write_files(tmp_path, X, y, source, noise, settings)
    check_same(train_files(file, seed=seed), clf)
    assert file.settings == replace_seed(clf._settings())


def replace_seed(settings):
    return type(settings)(**{name: getattr(settings, name) for name in NAMES if name != "random_state"})


@pytest.mark.parametrize("key", ["epsilon", "flip_rate"])
def test_rows_with_their_own_noise_and_ids(tmp_path, key):
    X, y, source, _, _ = draw_case(3)
    rng = np.random.default_rng(0)
    levels = rng.choice([0.1, 0.2, 0.4], size=len(y))
    ids = rng.permutation(len(y))
    ledgers = uneven.Ledger(), uneven.Ledger()
    stated = {"row_norm": 4.0, "classes": ["ill", "well"]}
    clf = uneven.UnevenClassifier(random_state=1, ledger=ledgers[0], **stated)
    with pytest.warns(UserWarning, match="were shrunk"):
        clf.fit(X, y, source=source, row_id=ids, **{key: levels})
    file = write_files(tmp_path, X, y, source, {}, stated, own=(levels, key), number=(ids, "id"))
    check_same(train_files(file, seed=1, ledger=ledgers[1]), clf)
    assert ledgers[0].sources() == ledgers[1].sources()
    for name in ledgers[0].sources():
        mine = source == name
        assert ledgers[0].spent(name) == ledgers[1].spent(name) == dict(zip(ids[mine], levels[mine], strict=True))


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
    assert line.count("was planned") == len(set(source))


def test_one_file_whose_rows_name_their_sources(tmp_path):
    X, y, source, noise, _ = draw_case(5)
    order = np.random.default_rng(0).permutation(len(y))
    X, y, source = X[order], y[order], source[order]
    pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(site=source, y=y).to_parquet(
        tmp_path / "all.parquet"
    )
    head = 'label = "y"\nclasses = ["ill", "well"]\nrow_norm = 50.0\ndata = "all.parquet"\nsource_column = "site"\n'
    tables = [f'[[source]]\nname = "{n}"\nnoise = {toml_value(one.to_dict())}\n' for n, one in noise.items()]
    (tmp_path / "sources.toml").write_text(head + "".join(tables))
    clf = uneven.UnevenClassifier(noise, random_state=2, row_norm=50.0, classes=["ill", "well"]).fit(
        X, y, source=source
    )
    check_same(train_files(read_sources(tmp_path / "sources.toml"), seed=2), clf)
    names, counts = np.unique(source, return_counts=True)
    described = read_sources(tmp_path / "sources.toml").described()
    assert {one.name: one.rows for one in described} == dict(zip(names, counts, strict=True))
    (tmp_path / "other.toml").write_text((head + "".join(tables)).replace(f'name = "{names[0]}"', 'name = "nobody"'))
    with pytest.raises(ValueError, match=r"other.toml: source 'nobody' must have rows in .*all.parquet, got none$"):
        read_sources(tmp_path / "other.toml").plan()


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


@pytest.mark.parametrize(("held", "readings"), [(scan.HELD_BYTES, 1), (0, 2)])
def test_a_csv_is_read_at_most_twice(tmp_path, monkeypatch, held, readings):
    """Once where its rows are held from the first reading, and once more to learn where they are not."""
    X, y, source, noise, _ = draw_case(7)
    file = write_files(
        tmp_path, X, y, source, noise, {"row_norm": 9.0, "strategy": "precision", "classes": ["ill", "well"]}
    )
    opened, real = [], delimited._opened

    def count(path, *rest):
        opened.append(path.name)
        return real(path, *rest)

    monkeypatch.setattr(delimited, "_opened", count)
    train_files(file, seed=0, held_bytes=held)
    assert {name: opened.count(name) for name in opened} == {f"{name}.csv": readings for name in noise}


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
    """Rows that tell their own noise after rows that do not."""
    X, y, _, _, _ = draw_case(3)
    half = len(y) // 2
    level = 0.2 if key == "flip_rate" else 2.0
    names = [f"x{j}" for j in range(X.shape[1])]
    for name, rows in (("a", slice(0, half)), ("b", slice(half, None))):
        table = pd.DataFrame(X[rows], columns=names).assign(y=y[rows])
        (table if name == "a" else table.assign(level=level)).to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "sources.toml").write_text(
        'label = "y"\nrow_norm = 99.0\nalpha = 0.01\nuse = "all"\nclasses = ["ill", "well"]\n'
        f"features = {toml_value(names)}\n"
        '[[source]]\nname = "a"\ndata = "a.csv"\nnoise = { kind = "exact" }\n'
        f'[[source]]\nname = "b"\ndata = "b.csv"\n{key} = "level"\n'
    )
    trained = train_files(read_sources(tmp_path / "sources.toml"), seed=3)
    told = np.where(np.arange(len(y)) < half, np.nan, level)
    source = np.where(np.arange(len(y)) < half, "a", "b")
    settings = {"row_norm": 99.0, "alpha": 0.01, "use": "all", "classes": ["ill", "well"], "random_state": 3}
    clf = uneven.UnevenClassifier({"a": uneven.Exact()}, **settings).fit(X, y, source=source, **{key: told})
    np.testing.assert_array_equal(trained.model.coef, clf.coef_)
