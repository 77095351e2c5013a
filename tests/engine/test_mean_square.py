"""Rows whose mean square is bounded, single ones longer: the moments, the loops, the promise, and what is refused."""

import numpy as np
import pytest
from problems import rows
from scipy.optimize import minimize

import uneven
from uneven import AdditiveNoise, Exact, FlippedLabels, LocalPrivacy, Problem
from uneven.engine import Task
from uneven.schedules import Precision

NOISES = [Exact(), FlippedLabels(0.3), AdditiveNoise(3.0)]
DRAWS = 5_000


def uneven_rows(n, d=3, seed=0):
    """Rows of mean square 1, most of them short and some of norm above 2; and labels."""
    X, y = rows(n, d, seed, np.float64)
    X *= np.random.default_rng(seed).pareto(3.0, size=(n, 1)) + 0.1
    X /= np.sqrt((X**2).sum(axis=1).mean())
    assert np.linalg.norm(X, axis=1).max() > 2
    return X, y


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("clip", [None, 0.5])
def test_moments_hold_for_the_mean_square(noise, clip):
    """Unbiased for the loss whose slope is capped at clip/‖x‖ (or not at all), and inside the stated moments."""
    problem = Problem(3, 0.05, batch_size=4, clip=clip, norms="rms")
    X, y = uneven_rows(60, seed=2)
    w = np.array([3.0, -2.0, 1.0])
    assert np.linalg.norm(w) <= problem.ball
    slope = np.maximum(-1 / (1 + np.exp(y * (X @ w))), -np.inf if clip is None else -clip / np.linalg.norm(X, axis=1))
    truth = problem.alpha * w + (slope * y) @ X / len(y)
    rng = np.random.default_rng(3)
    batches = rng.integers(len(y), size=(DRAWS, 4))
    G = np.stack([noise.gradient(problem, w, X[i], noise.corrupt(y[i], rng), rng) for i in batches])
    assert (np.abs(G.mean(axis=0) - truth) < 4.5 * G.std(axis=0) / np.sqrt(DRAWS)).all()
    for squares, bound in [
        ((G**2).sum(axis=1), noise.second_moment(problem)[1]),
        (((G - truth) ** 2).sum(axis=1), noise.variance_bound(problem)),
    ]:
        assert squares.mean() <= bound + 4 * squares.std() / np.sqrt(DRAWS)
    assert np.linalg.eigvalsh(X.T @ X / len(y))[-1] / 4 + problem.alpha <= problem.smoothness


def test_the_bound_holds_for_the_mean_square():
    """Theorem C for the last iterate, with the curvature that the rows have; as for rows in the unit ball."""
    d, n, runs, lam = 3, 1_000, 100, 0.1
    X, y = uneven_rows(400, d, seed=8)
    top = float(np.linalg.eigvalsh(X.T @ X / len(y))[-1])
    assert top < 0.9
    sources = [uneven.Source("a", n, FlippedLabels(0.2)), uneven.Source("b", n, Exact())]
    plan = uneven.plan(sources, d, lam, batch_size=10, norms="rms", eigenvalue=top)
    assert plan.bound < uneven.plan(sources, d, lam, batch_size=10, norms="rms").bound

    def f(w):
        return lam / 2 * w @ w + np.logaddexp(0, -y * (X @ w)).mean()

    best = minimize(f, np.zeros(d), method="BFGS", options={"gtol": 1e-9}).x
    squares = []
    for run in range(runs):
        rng = np.random.default_rng(run)
        drawn = rng.integers(400, size=2 * n)
        data = {
            "a": (X[drawn[:n]], FlippedLabels(0.2).corrupt(y[drawn[:n]], rng)),
            "b": (X[drawn[n:]], y[drawn[n:]]),
        }
        squares.append(np.sum((uneven.fit(plan, data, seed=run, average="last").weights - best) ** 2))
    error = np.std(squares) / np.sqrt(runs)
    assert plan.bound / 200 < np.mean(squares) <= plan.bound + 4 * error


def test_private_rows_need_a_bound_of_their_own():
    private = uneven.Source("a", 50, LocalPrivacy(1.0))
    with pytest.raises(ValueError, match=r"norms must be 'largest' where a source is private: .* got 'rms' and 'a'"):
        uneven.plan([uneven.Source("b", 50), private], 3, norms="rms")
    problem = Problem(3, 0.1, 7, norms="rms")
    with pytest.raises(ValueError, match="norms must be 'largest' where a source is private, got 'rms'"):
        Task(problem, ("a",), (private.noise,), (private.noise.moment("upper", problem),), Precision(0.1))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
def test_rows_that_are_not_finite_are_refused(value):
    """1e200 has a square beyond floats."""
    X, y = uneven_rows(40)
    X[7, 1] = value
    plan = uneven.plan([uneven.Source("a", 40)], 3, norms="rms")
    with pytest.raises(ValueError, match="X of source 'a' must be finite, got NaN or infinity in row 7"):
        uneven.fit(plan, {"a": (X, y)}, seed=0)


def test_the_usual_norms_are_not_written_down():
    plain, mean = Problem(3, 0.1, 7), Problem(3, 0.1, 7, norms="rms", eigenvalue=0.5)
    assert "norms" not in plain.to_dict()
    assert Problem(**mean.to_dict()) == mean
    assert mean.smoothness == 0.25 * 0.5 + 0.1
    plan = uneven.plan([uneven.Source("a", 40)], 3, norms="rms", eigenvalue=0.5)
    assert uneven.Plan.from_dict(plan.to_dict()) == plan
    for wrong, message in [({"norms": "mean"}, "norms must be one of"), ({"eigenvalue": 1.5}, "eigenvalue must be")]:
        with pytest.raises(ValueError, match=message):
            Problem(3, 0.1, 7, **wrong)
