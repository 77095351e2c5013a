"""Four hospitals, each with its own rule for its patients' data, and tables full of gaps.

The data is the UCI Heart Disease collection (Janosi, Steinbrunn, Pfisterer and Detrano, 1989; CC BY 4.0): 13
measurements of 920 patients and whether they are ill. Put ``processed.cleveland.data`` and its three neighbours, from
https://archive.ics.uci.edu/dataset/45/heart+disease, into a folder ``heart``, set ``UNEVEN_DATA`` to the folder above
it, and run ``python examples/four_hospitals.py``.

It shows how to do it, not that it pays here: some 150 private rows at ε = 8 are little to learn from. Logistic
regression on the three public hospitals is printed beside, and does nearly as well.
"""

import os
import warnings
from pathlib import Path

import numpy as np
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import uneven

RULES = {
    "cleveland": uneven.Exact(),
    "hungarian": uneven.Exact(),
    "switzerland": uneven.FlippedLabels(rate=0.1),  # say, one diagnosis in ten is wrong: we make it so
    "va": uneven.LocalPrivacy(epsilon=8),  # its rows may be used, but only with noise
}
SPLITS = 20
NUMBERS, CATEGORIES = [0, 3, 4, 7, 9, 11], [1, 2, 5, 6, 8, 10, 12]


def patients(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Measurements with NaN for gaps, whether each patient is ill, and the hospital."""
    tables = {
        name: np.genfromtxt(folder / f"processed.{name}.data", delimiter=",", missing_values="?") for name in RULES
    }
    table = np.concatenate(list(tables.values()))
    hospital = np.repeat(list(tables), [len(one) for one in tables.values()])
    return table[:, :13], table[:, 13] > 0, hospital


def preparation() -> sklearn.base.BaseEstimator:
    """Fill gaps, then scale numbers and spread out categories."""
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")), CATEGORIES),
    )


def held_out(measured: np.ndarray, ill: np.ndarray, hospital: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Whether each patient of a random quarter is classified correctly, by all hospitals and by the public ones."""
    rng = np.random.default_rng(seed)
    test = rng.random(len(ill)) < 0.25
    labels = ill ^ ((hospital == "switzerland") & (rng.random(len(ill)) < 0.1))
    # What prepares the rows is fitted to hospitals without a privacy rule: fitted to all, it would be a release too.
    public = ~test & (hospital != "va")
    prepare = FrozenEstimator(preparation().fit(measured[public]))
    clf = uneven.UnevenClassifier(RULES, alpha=1e-2, batch_size=5, row_norm=6.0, random_state=seed)
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a few rows are longer than 6 and are shrunk to it
        ours = make_pipeline(prepare, clf.set_fit_request(source=True))
        ours.fit(measured[~test], labels[~test], source=hospital[~test])
    plain = make_pipeline(prepare, LogisticRegression(C=1 / (1e-2 * public.sum()), max_iter=1_000))
    plain.fit(measured[public], labels[public])
    correct = {name: one.predict(measured[test]) == ill[test] for name, one in (("ours", ours), ("plain", plain))}
    return {**correct, "hospital": hospital[test], "fitted": ours[-1]}


def main() -> None:
    folder = Path(os.environ.get("UNEVEN_DATA", "data")) / "heart"
    if not folder.is_dir():
        print(
            f"No folder {folder}: set UNEVEN_DATA to a folder with heart/processed.cleveland.data and its neighbours."
        )
        return
    measured, ill, hospital = patients(folder)
    print(f"{len(ill)} patients, {np.isnan(measured).mean():.0%} of the measurements missing")
    splits = [held_out(measured, ill, hospital, seed) for seed in range(SPLITS)]
    fitted = splits[0]["fitted"]
    print(f"In this order: {', '.join(fitted.plan_.order)}")
    print(f"Spent: {fitted.privacy_spent_}, ε of each row in a split, simulated: the splits have a seed")
    print(f"Correct of a quarter held out, mean of {SPLITS} splits: all four, and logistic regression without va")
    whose = np.concatenate([one["hospital"] for one in splits])
    for name in (*RULES, "all"):
        mine = (whose == name) | (name == "all")
        ours, plain = (np.concatenate([one[which] for one in splits])[mine].mean() for which in ("ours", "plain"))
        print(f"{name:12} {ours:.3f} {plain:.3f}")
    gains = np.array([one["ours"].mean() - one["plain"].mean() for one in splits])
    print(f"Difference over all: {gains.mean():+.3f}, standard deviation over splits {gains.std(ddof=1):.3f}")


if __name__ == "__main__":
    main()
