"""Commands are run as a user runs them: in another process, in a folder of their own."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import commands

FEATURES = ["age", "dose", "pulse"]


@pytest.fixture(scope="session")
def frame():
    def make(n, seed, words=("ill", "well"), scale=1.0):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 3)).astype(np.float32) * np.float32(scale)
        y = np.where(X[:, 0] + 0.3 * scale * rng.normal(size=n) > 0, *words)
        return pd.DataFrame(X, columns=FEATURES).assign(outcome=y)

    return make


@pytest.fixture
def folder(tmp_path, frame):
    """Rows of two sources and some to test on."""
    frame(400, 1).to_parquet(tmp_path / "clinic.parquet")
    frame(1200, 2).to_csv(tmp_path / "crowd.csv", index=False)
    frame(300, 3).to_parquet(tmp_path / "rows.parquet")
    return tmp_path


CLINIC, CROWD = '{ kind = "exact" }', '{ kind = "flipped-labels", rate = 0.1 }'


@pytest.fixture
def described(folder):
    def write(head="", clinic=CLINIC, crowd=CROWD, name="sources.toml", label="outcome"):
        text = f'label = "{label}"\n{head}\n'
        for source, data, noise in (("clinic", "clinic.parquet", clinic), ("crowd", "crowd.csv", crowd)):
            text += f'[[source]]\nname = "{source}"\ndata = "{data}"\nnoise = {noise}\n'
        (folder / name).write_text(text)
        return folder / name

    return write


@pytest.fixture
def private(described):
    """Both sources private."""

    def write(head="row_norm = 3.0", **options):
        head += '\nclasses = ["ill", "well"]'
        return described(head, *(f'{{ kind = "local-privacy", epsilon = {e} }}' for e in (4.0, 1.0)), **options)

    return write


@pytest.fixture
def uneven_in(folder):
    """Run ``uneven`` in the folder; a traceback is never shown."""

    def run(*arguments, **environment):
        done = commands.uneven(*arguments, cwd=folder, environment=environment)
        assert "Traceback" not in done.stderr
        return done

    return run


@pytest.fixture
def good(uneven_in):
    """What a command says when all is well."""

    def run(*arguments, **environment):
        done = uneven_in(*arguments, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
