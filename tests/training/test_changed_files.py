"""A file that changes between the first reading, by which rows are charged, and the second: nothing is learned."""

import numpy as np
import pytest

from uneven.io import read_sources
from uneven.training.charging import Account
from uneven.training.files import train_files

NOISES = ["local-privacy", "label-privacy"]


def write(folder, kind, seed, name, rows=300):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (rows, 2))
    np.save(folder / f"{name}.npy", np.column_stack([X, X[:, 0] > 0]))
    (folder / "sources.toml").write_text(
        f'label = 2\nalpha = 0.1\nrow_norm = 1.0\nclasses = [0, 1]\n[[source]]\nname = "clinic"\ndata = "{name}.npy"\n'
        f'noise = {{ kind = "{kind}", epsilon = 2.0 }}\n'
    )


@pytest.mark.parametrize("held_bytes", [0, 1 << 25])
@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("changes", [False, True])
def test_rows_that_changed_after_the_charge_are_not_learned_from(tmp_path, monkeypatch, kind, held_bytes, changes):
    """Private labels are read again after their charge, whatever is held; other held rows are those charged."""
    write(tmp_path, kind, 1, "rows")
    file, charge = read_sources(tmp_path / "sources.toml"), Account.charge

    def charge_and_change(self, bill):
        charge(self, bill)
        if changes:
            mapped = np.load(tmp_path / "rows.npy", mmap_mode="r+")
            mapped[:] = mapped[::-1].copy()  # in place: an open file sees it

    monkeypatch.setattr(Account, "charge", charge_and_change)
    if changes and (kind == "label-privacy" or not held_bytes):
        with pytest.raises(ValueError, match=r"rows.npy must stay as it was when its rows were first read"):
            train_files(file, held_bytes=held_bytes)
    else:
        assert train_files(file, held_bytes=held_bytes).trained.model.privacy_spent == {"clinic": 2.0}
