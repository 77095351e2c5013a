"""Four hospitals, each with its own rule for its patients' data, and tables full of gaps.

The data is the UCI Heart Disease collection (Janosi, Steinbrunn, Pfisterer and Detrano, 1989; CC BY 4.0): 13
measurements of 920 patients and whether they are ill. Put ``processed.cleveland.data`` and its three neighbours, from
https://archive.ics.uci.edu/dataset/45/heart+disease, into a folder ``heart``, set ``UNEVEN_DATA`` to the folder above
it, and run ``python examples/four_hospitals.py``.
"""

import os
import warnings
from pathlib import Path

import numpy as np
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import uneven

RULES = {
    "cleveland": uneven.Exact(),
    "hungarian": uneven.Exact(),
    "switzerland": uneven.FlippedLabels(rate=0.1),  # say, one diagnosis in ten is wrong
    "va": uneven.LocalPrivacy(epsilon=8),  # its rows may be used, but only with noise
}
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


def main() -> None:
    folder = Path(os.environ.get("UNEVEN_DATA", "data")) / "heart"
    if not folder.is_dir():
        print(
            f"No folder {folder}: set UNEVEN_DATA to a folder with heart/processed.cleveland.data and its neighbours."
        )
        return
    measured, ill, hospital = patients(folder)
    print(f"{len(ill)} patients, {np.isnan(measured).mean():.0%} of the measurements missing")
    test = np.random.default_rng(0).random(len(ill)) < 0.25
    # What prepares the rows is fitted to hospitals without a privacy rule: fitted to all, it would be a release too.
    prepare = preparation().fit(measured[~test & (hospital != "va")])
    clf = uneven.UnevenClassifier(RULES, alpha=1e-2, batch_size=5, passes=5, row_norm=6.0, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a few rows are longer than 6 and are shrunk to it
        pipeline = make_pipeline(FrozenEstimator(prepare), clf.set_fit_request(source=True))
        pipeline.fit(measured[~test], ill[~test], source=hospital[~test])
    fitted = pipeline[-1]
    print(f"In this order: {', '.join(fitted.plan_.order)}")
    print(f"Spent: {fitted.privacy_spent_}, ε of each row, five passes together")
    for name in RULES:
        mine = test & (hospital == name)
        print(f"{name:12} {mine.sum():4} patients held out, {pipeline.score(measured[mine], ill[mine]):.2f} right")
    print(f"{'all':12} {test.sum():4} patients held out, {pipeline.score(measured[test], ill[test]):.2f} right")


if __name__ == "__main__":
    main()
