"""A plan and a fit to report on, with names that try to break out of the page."""

import numpy as np

import uneven
from uneven.io import SourceEntry, read_sources, write_sources
from uneven.training.files import train_files

NASTY = "<script>alert('x')</script>\"&' </svg><img src=x onerror=alert(1)> " + "verylongname" * 8
COMMAND = "uneven plan '</code><script>alert(2)</script>.toml'"


def planned(strategy="precision", **options):
    sources = [
        uneven.Source(NASTY, 900, uneven.LocalPrivacy(2.0), price=0.1),
        uneven.Source("crowd", 3000, uneven.FlippedLabels(0.2)),
        uneven.Source("expert", 120),
    ]
    return uneven.plan(sources, 7, strategy=strategy, **options)


def fitted(folder, seed, epsilon, ledger=None):
    return fitted_to(folder, {NASTY: uneven.LocalPrivacy(epsilon), "b": uneven.LocalPrivacy(1.0)}, seed, ledger)


def fitted_beside_public(folder, **noises):
    """A fit to public rows, some of them with flipped labels, and to those of other sources."""
    return fitted_to(folder, {"open": uneven.Exact(), NASTY: uneven.FlippedLabels(0.1), **noises}, 3)


def fitted_to(folder, noises, seed, ledger=None):
    rng = np.random.default_rng(0)
    entries = []
    for k, (name, noise) in enumerate(noises.items()):
        X = rng.normal(size=(500, 4)) / 4
        rows = np.column_stack([X, X[:, 0] > 0])
        np.savetxt(folder / f"{k}.csv", rows, delimiter=",", header="p,q,<b>r</b>,s,y", comments="")
        entries.append(SourceEntry.of(uneven.Source(name, 500, noise), folder / f"{k}.csv"))
    write_sources(folder / "sources.toml", entries, label="y")
    return train_files(read_sources(folder / "sources.toml"), seed=seed, ledger=ledger, record=30)
