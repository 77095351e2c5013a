import gzip
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from uneven import datasets
from uneven.datasets import covertype, mnist

pytestmark = pytest.mark.slow

needs_data = pytest.mark.skipif(not os.environ.get("UNEVEN_DATA"), reason="UNEVEN_DATA names no folder with the data")


@pytest.fixture(scope="module")
def loaded():
    return {name: load() for name, load in datasets.LOADERS.items()}


@needs_data
@pytest.mark.parametrize(
    ("name", "train", "test", "positive"), [("mnist", 60_000, 10_000, 6_742), ("covertype", 500_000, 81_012, None)]
)
def test_facts_of_the_data(loaded, name, train, test, positive):
    data = loaded[name]
    assert (len(data.y), len(data.y_test)) == (train, test)
    if positive:
        assert (data.y == 1).sum() == positive
    else:
        assert (data.y == 1).sum() + (data.y_test == 1).sum() == 283_301
    longest = np.linalg.norm(np.concatenate([data.X, data.X_test]).astype(np.float64), axis=1).max()
    assert 1 - 3e-6 < longest < 1


@needs_data
def test_constants_of_covertype_are_those_of_all_rows():
    cells = covertype.load_raw_cells(Path(os.environ["UNEVEN_DATA"])).astype(np.float64)[:, :-1]
    low, high = cells.min(axis=0), cells.max(axis=0)
    assert [(a, b) for a, b in zip(low[:10], high[:10], strict=True)] == list(covertype.RANGES.values())
    assert np.linalg.norm((cells - low) / (high - low), axis=1).max() == pytest.approx(covertype.LONGEST, rel=1e-12)


@needs_data
def test_scikit_learns_fetchers_give_the_same_arrays(loaded, monkeypatch):
    """What the fetchers return, as scikit-learn documents it, made from the files."""
    folder = Path(os.environ["UNEVEN_DATA"])
    pixels, digits = mnist._raw(folder)
    cells = covertype.load_raw_cells(folder)
    monkeypatch.delenv("UNEVEN_DATA")
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: (pixels.astype(float), digits.astype(str)))
    monkeypatch.setattr(
        "sklearn.datasets.fetch_covtype", lambda **_: (cells[:, :-1].astype(float), cells[:, -1].astype(np.int32))
    )
    for name, load in datasets.LOADERS.items():
        fetched = load()
        for part in ("X", "y", "X_test", "y_test"):
            np.testing.assert_array_equal(getattr(fetched, part), getattr(loaded[name], part))


@needs_data
def test_projection_keeps_lengths_on_average():
    """‖Px‖² / ‖x‖² of a Gaussian projection over √d is chi-squared over d degrees of freedom: it spreads by √(2/d)."""
    full, small = (datasets.load_mnist(dimensions=d) for d in (None, 400))
    ratios = (np.linalg.norm(small.X, axis=1) / np.linalg.norm(full.X, axis=1)) ** 2
    ratios /= ratios.mean()  # both are divided by their own largest norm
    relative = np.sqrt(2 / 400)
    assert relative / 2 < ratios.std() < 2 * relative
    assert full.X.shape[1] == 784


def test_the_sample_is_of_covertype():
    data = datasets.load_covertype_sample()
    X = np.concatenate([data.X, data.X_test]).astype(np.float64)
    assert X.shape == (60_000, 54)
    assert np.linalg.norm(X, axis=1).max() < 1
    assert np.all((X[:, 10:14] > 0).sum(axis=1) == 1)
    assert np.all((X[:, 14:] > 0).sum(axis=1) == 1)
    share, error = 283_301 / 581_012, np.sqrt(0.25 / 60_000)
    assert abs((np.concatenate([data.y, data.y_test]) > 0).mean() - share) < 4 * error


@needs_data
def test_every_row_of_the_sample_is_in_the_data(loaded):
    whole = np.concatenate([loaded["covertype"].X, loaded["covertype"].X_test])
    known = {row.tobytes() for row in whole}
    assert all(row.tobytes() in known for row in datasets.load_covertype_sample().X)


@pytest.mark.parametrize("name", datasets.LOADERS)
def test_without_files_or_network_it_says_what_to_do(name, monkeypatch):
    def fail(*_, **__):
        raise OSError("no network")

    monkeypatch.delenv("UNEVEN_DATA", raising=False)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fail)
    monkeypatch.setattr("sklearn.datasets.fetch_covtype", fail)
    with pytest.raises(OSError, match=r"could not be downloaded \(no network\); --data or UNEVEN_DATA may name"):
        datasets.LOADERS[name]()


def test_split_deals_every_row_once():
    data = datasets.load_covertype_sample()
    parts = data.split({"clean": 0.1, "noisy": 0.9}, seed=3)
    assert [len(y) for _, y in parts.values()] == [5_000, 45_000]
    together = np.concatenate([X for X, _ in parts.values()])
    np.testing.assert_array_equal(np.sort(together.sum(axis=1)), np.sort(data.X.sum(axis=1)))
    assert not np.array_equal(parts["clean"][0], data.split({"clean": 0.1, "noisy": 0.9}, seed=4)["clean"][0])


def damaged(folder, name, spoil):
    source = Path(os.environ["UNEVEN_DATA"])
    shutil.copytree(source / name, folder / name)
    path = folder / {"mnist": "mnist/train-images-idx3-ubyte.gz", "covtype": "covtype/covtype.data.gz"}[name]
    path.chmod(0o644)
    path.parent.chmod(0o755)
    spoil(path)


def cut_short(path):
    path.write_bytes(path.read_bytes()[:100_000])


def one_byte_wrong(path):
    content = bytearray(gzip.decompress(path.read_bytes()))
    content[-1_000] ^= 1
    path.write_bytes(gzip.compress(bytes(content), compresslevel=1))


@needs_data
@pytest.mark.parametrize("spoil", [cut_short, one_byte_wrong])
@pytest.mark.parametrize(("name", "load"), [("mnist", "mnist"), ("covtype", "covertype")])
def test_damaged_files_are_refused(tmp_path, name, load, spoil):
    damaged(tmp_path, name, spoil)
    with pytest.raises(ValueError, match=r"damaged|sha256"):
        datasets.LOADERS[load](tmp_path)


@pytest.mark.parametrize("load", datasets.LOADERS.values())
def test_missing_folders_and_files_are_named(tmp_path, load, monkeypatch):
    with pytest.raises(FileNotFoundError, match="data must be a folder with the data sets"):
        load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"does not exist; the data folder must have it"):
        load(tmp_path)
    monkeypatch.setenv("UNEVEN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="UNEVEN_DATA must be a folder"):
        load()
