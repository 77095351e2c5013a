"""What the classifier does on real data; read from UNEVEN_DATA, skipped where that is absent."""

import gzip
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from uneven import Exact, FlippedLabels, LocalPrivacy, UnevenClassifier

DATA = Path(os.environ.get("UNEVEN_DATA", Path(__file__).parents[3] / "shared" / "data"))


def needs(folder):
    return pytest.mark.skipif(not (DATA / folder).is_dir(), reason=f"no {folder} data: set UNEVEN_DATA")


def mnist(part):
    """Images projected to 25 dimensions by a fixed Gaussian matrix, and whether they show a 1."""
    raw = gzip.decompress((DATA / "mnist" / f"{part}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((DATA / "mnist" / f"{part}-labels-idx1-ubyte.gz").read_bytes())
    X = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 784) / 255.0
    projection = np.random.default_rng(0).normal(size=(784, 25)) / 5.0
    return X @ projection, np.frombuffer(labels, np.uint8, offset=8) == 1


@needs("mnist")
@pytest.mark.parametrize("alpha", [1e-3, 1e-4, 1e-5])
def test_mnist_with_a_tenth_at_epsilon_10_and_the_rest_at_1(alpha):
    """The defaults, seeds 0 to 4: above the majority class by 3 points, and not far below the non-private fit."""
    X, y = mnist("train")
    X_test, y_test = mnist("t10k")
    largest = 9.0  # a public constant: the projection of an image has norm about ‖pixels‖, at most 28
    order = np.random.default_rng(1).permutation(len(y))
    X, y = X[order], y[order]
    source = np.where(np.arange(len(y)) < 6_000, "clinic", "survey")
    noise = {"clinic": LocalPrivacy(10.0), "survey": LocalPrivacy(1.0)}
    private, scores = UnevenClassifier(noise, alpha=alpha * largest**2, row_norm=largest), []
    for seed in range(5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            scores.append(private.set_params(random_state=seed).fit(X, y, source=source).score(X_test, y_test))
    assert private.privacy_spent_ == {"clinic": 10.0, "survey": 1.0}
    open_score = UnevenClassifier(alpha=alpha * largest**2, random_state=0).fit(X, y).score(X_test, y_test)
    assert np.mean(scores) > (~y_test).mean() + 0.03
    assert np.mean(scores) > open_score - 0.06


@needs("mnist")
def test_mnist_without_privacy_is_logistic_regression():
    X, y = mnist("train")
    alpha, sign = 1e-2, np.where(y, 1, -1)
    ours = UnevenClassifier(alpha=alpha, random_state=0, passes=5).fit(X, y)
    theirs = LogisticRegression(C=1 / (alpha * len(y)), tol=1e-6, max_iter=1_000).fit(X, y)

    def objective(clf):
        return np.logaddexp(0, -sign * (X @ clf.coef_[0] + clf.intercept_[0])).mean() + alpha / 2 * np.sum(clf.coef_**2)

    assert objective(theirs) * (1 - 1e-6) <= objective(ours) <= 1.02 * objective(theirs)
    assert abs(ours.score(X, y) - theirs.score(X, y)) < 0.005


def crowd():
    """Sentences, each worker's labels (-1 for none) and the gold labels."""
    folder = DATA / "crowd" / "sentiment_amt"
    text = (folder / "Sentiment_text_train.txt").read_text(encoding="utf-8", errors="replace").split("\n")[:4999]
    return (
        np.array(text),
        np.loadtxt(folder / "answers.txt", dtype=int),
        np.loadtxt(folder / "Sentiment_Z_train.txt", dtype=int),
    )


def by_quality(answers, gold, known):
    """Workers in five groups by their error on sentences with known labels, and each group's flip rate."""
    seen = answers[known] >= 0
    wrong = (answers[known] != gold[known][:, None]) & seen
    error = (wrong.sum(axis=0) + 0.21 * 5) / (seen.sum(axis=0) + 5)  # a prior of five labels at the overall rate
    group = np.digitize(error, [0.1, 0.2, 0.3, 0.45])
    return error, group


@needs("crowd")
def test_a_crowd_grouped_by_quality():
    """Ten splits: five points above one shared rate, and not behind logistic regression on majority votes."""
    text, answers, gold = crowd()
    scores = {"ours": [], "clean first": [], "noisy first": [], "five passes": [], "majority": []}
    for split in range(10):
        order = np.random.default_rng(split).permutation(len(gold))
        test, known, train = order[:1_000], order[1_000:1_500], order[1_000:]
        X = TfidfVectorizer(min_df=2, sublinear_tf=True).fit(text[train]).transform(text)
        error, group = by_quality(answers, gold, known)
        place, worker = np.nonzero(answers[train] >= 0)
        sentence, source = train[place], group[worker].astype(str)
        noise = {
            name: FlippedLabels(min(float(error[worker[source == name]].mean()), 0.48)) for name in np.unique(source)
        }
        labels = answers[sentence, worker]
        for name, strategy, passes in [
            ("ours", "precision", 1),
            ("clean first", "same-rate-clean-first", 1),
            ("noisy first", "same-rate-noisy-first", 1),
            ("five passes", "precision", 5),
        ]:
            clf = UnevenClassifier(noise, strategy=strategy, alpha=1e-4, batch_size=10, passes=passes, random_state=0)
            scores[name].append(clf.fit(X[sentence], labels, source=source).score(X[test], gold[test]))
        votes = np.array([answers[i][answers[i] >= 0].mean() > 0.5 for i in train])
        baseline = LogisticRegression(max_iter=1_000).fit(X[train], votes.astype(int))
        scores["majority"].append(baseline.score(X[test], gold[test]))
    mean = {name: np.mean(values) for name, values in scores.items()}
    assert mean["ours"] > max(mean["clean first"], mean["noisy first"]) + 0.05, mean
    for name in ("ours", "five passes"):
        lead = np.subtract(scores[name], scores["majority"])
        assert lead.mean() > -2 * lead.std() / np.sqrt(10), mean


def heart():
    """Four hospitals' patients: 13 features with gaps, whether they are ill, and the hospital."""
    rows, hospital = [], []
    for name in ("cleveland", "hungarian", "switzerland", "va"):
        part = np.genfromtxt(DATA / "heart" / f"processed.{name}.data", delimiter=",", missing_values="?")
        rows.append(part)
        hospital += [name] * len(part)
    table = np.concatenate(rows)
    return table[:, :13], table[:, 13] > 0, np.array(hospital)


@needs("heart")
def test_four_hospitals_with_missing_values():
    """A pipeline that imputes, encodes and scales, then learns from each hospital under its own rule."""
    X, y, hospital = heart()
    assert X.shape == (920, 13)
    numbers, categories = [0, 3, 4, 7, 9, 11], [1, 2, 5, 6, 8, 10, 12]
    prepare = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")), categories),
    )
    noise = {"cleveland": Exact(), "hungarian": Exact(), "switzerland": FlippedLabels(0.1), "va": LocalPrivacy(8.0)}
    test = np.random.default_rng(0).random(len(y)) < 0.25
    # What prepares the rows is fitted to the hospitals without a privacy rule: on all, it would be a release too.
    prepare.fit(X[~test & (hospital != "va")])
    with sklearn.config_context(enable_metadata_routing=True):
        clf = UnevenClassifier(noise, alpha=1e-2, batch_size=5, passes=5, row_norm=6.0, random_state=0)
        pipeline = make_pipeline(FrozenEstimator(prepare), clf.set_fit_request(source=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            pipeline.fit(X[~test], y[~test], source=hospital[~test])
    assert pipeline.score(X[test], y[test]) > 0.75
    assert pipeline[-1].privacy_spent_ == {"va": 40.0}
