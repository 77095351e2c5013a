"""Whole runs: what they equal in the limit, what they promise, and what they refuse."""

import importlib
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pytest
from problems import Rounded, rows, two_sources
from scipy import sparse
from scipy.optimize import minimize

import uneven
from uneven import AdditiveNoise, Exact, FlippedLabels, LocalPrivacy
from uneven.engine import make_generator, tasks_of
from uneven.engine.chunks import iterate_chunks
from uneven.engine.rows import check_arrays
from uneven.engine.streams import Selected, Stream
from uneven.matrices import BLOCK_ROWS
from uneven.planner import STRATEGIES

PRIVATE = LocalPrivacy(5.0, "l2-laplace"), LocalPrivacy(1.0, "l2-laplace")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_ends_where_the_plan_says(strategy):
    sources, data = two_sources(*PRIVATE)
    plan = uneven.plan(sources, 4, batch_size=9, strategy=strategy)
    state = uneven.fit(plan, data, seed=0).state
    assert state.step == plan.steps
    if strategy != "arbitrary":
        assert state.clock == pytest.approx(np.sum(1 / plan.step_moments()))
    assert np.linalg.norm(state.weights) <= plan.problem.ball * (1 + 1e-12)


def plain_sgd(X, y, order, rate, lam, b, radius):
    """Mini-batch SGD with steps rate/t, written without any of our code."""
    w = np.zeros(X.shape[1])
    for t, start in enumerate(range(0, len(order), b), start=1):
        i = order[start : start + b]
        margin = y[i] * (X[i] @ w)
        gradient = lam * w - (y[i] / (1 + np.exp(margin))) @ X[i] / len(i)
        w = w - rate / t * gradient
        w = w * min(1.0, radius / max(np.linalg.norm(w), 1e-300))
    return w


@pytest.mark.parametrize("noise", [Exact(), FlippedLabels(0.0), AdditiveNoise(0.0)], ids=repr)
@pytest.mark.parametrize("batch_size", [1, 8, 1000])
def test_zero_noise_is_plain_sgd(noise, batch_size):
    X, y = rows(300, 4)
    plan = uneven.plan([uneven.Source("a", 300, noise)], 4, 0.05, batch_size, strategy="clean-only", radius="paper")
    ran = uneven.fit(plan, {"a": (X, y)}, seed=3)
    order = make_generator(3, 0, "a", "order").permutation(300)
    expected = plain_sgd(X.astype(float), y, order, rate=20.0, lam=0.05, b=batch_size, radius=20.0)
    np.testing.assert_allclose(ran.weights, expected, rtol=1e-9)


def test_the_twin_is_the_same_run_without_noise():
    sources, data = two_sources(*PRIVATE)
    plan = uneven.plan(sources, 4, batch_size=9, strategy="two-rates")
    noisy = uneven.fit(plan, data, seed=5, twin=True)
    quiet_sources, _ = two_sources(Exact(), Exact())
    quiet = uneven.plan(quiet_sources, 4, batch_size=9, strategy="two-rates")
    same_steps = replace(quiet, segments=plan.segments)  # the same order and step sizes, with nothing added
    exact = uneven.fit(same_steps, data, seed=5)
    np.testing.assert_allclose(noisy.state.twin, exact.state.weights, rtol=1e-10)
    assert np.linalg.norm(noisy.state.weights - noisy.state.twin) > 0.1


def test_vanishing_noise_tends_to_the_exact_run():
    def fitted(noise):
        sources, data = two_sources(noise, noise)
        return uneven.fit(uneven.plan(sources, 4, strategy="same-rate-clean-first", batch_size=9), data, seed=2).weights

    exact = fitted(Exact())
    np.testing.assert_allclose(fitted(LocalPrivacy(1e6, "l2-laplace")), exact, atol=0.002)
    np.testing.assert_allclose(fitted(AdditiveNoise(1e-16)), exact, rtol=1e-5)


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("moments", ["variance", "upper"])
def test_the_bound_holds(clip, moments):
    """Mean of ‖w - w*‖² over runs that draw rows from a population, against Theorems A and C for the last iterate."""
    d, n, runs, lam = 3, 2_000, 100, 0.1
    population, labels = rows(400, d, seed=8)
    sources = [uneven.Source("a", n, LocalPrivacy(8.0, "l2-laplace")), uneven.Source("b", 2 * n, PRIVATE[1])]
    plan = uneven.plan(sources, d, lam, batch_size=10, moments=moments, clip=clip)
    cap = plan.problem.gradient_norm / np.linalg.norm(population, axis=1)

    def f(w):
        return lam / 2 * w @ w + plan.problem.loss_function.value(labels * (population @ w), cap).mean()

    best = minimize(f, np.zeros(d), method="BFGS", options={"gtol": 1e-9}).x
    squares = []
    for run in range(runs):
        drawn = np.random.default_rng(run).integers(400, size=3 * n)
        data = {"a": (population[drawn[:n]], labels[drawn[:n]]), "b": (population[drawn[n:]], labels[drawn[n:]])}
        squares.append(np.sum((uneven.fit(plan, data, seed=run, average="last").weights - best) ** 2))
    error = np.std(squares) / np.sqrt(runs)
    assert np.mean(squares) <= plan.bound + 4 * error
    assert np.mean(squares) > plan.bound / 200  # a bound of another scale would not be one to test


def test_estimated_moments_settle_at_the_true_one():
    """The running mean of ‖G‖² against E‖G‖² measured at the end, with the weights nearly still."""
    n, d = 40_000, 3
    X, y = rows(n, d)
    source = uneven.Source("a", n, AdditiveNoise(50.0))
    plan = uneven.plan([source], d, 0.1, batch_size=10)
    state = uneven.fit(plan, {"a": (X, y)}, seed=0, estimate=True).state
    total, count = state.estimates["a"]
    assert count == n / 10
    squares = 50.0 / 10  # ‖∇f‖² and the rows' own variance are below 1/10 here
    # ‖Z‖² is 5/3·chi²(3): its standard deviation is 5·√(2/3)
    error = squares * np.sqrt(2 / 3) / np.sqrt(count)
    assert squares - 4 * error < total / count < squares + 0.15 + 4 * error


def test_estimates_move_the_clock_and_an_unknown_end_changes_the_average():
    sources, data = two_sources(*PRIVATE)
    plan = uneven.plan(sources, 4, batch_size=9)
    assert {task.average.kind for task in tasks_of(plan)} == {"late"}
    assert {task.average.kind for task in tasks_of(plan, estimate=True)} == {"growing"}
    assert uneven.fit(plan, data, seed=0, estimate=True).state.clock != uneven.fit(plan, data, seed=0).state.clock


def test_a_run_says_what_activity_it_found():
    """The linear loss has gradients as long as the rows, 0.3: found within 4 standard errors; 0.5 was planned."""
    X, y = rows(6_000, 4)
    X = 0.3 * X / np.linalg.norm(X, axis=1, keepdims=True)
    sources = [uneven.Source("a", 5_000, LocalPrivacy(3.0)), uneven.Source("b", 1_000, LocalPrivacy(0.3))]
    plan = uneven.plan(sources, 4, loss="linear")
    ran = uneven.fit(plan, {"a": (X[:5_000], y[:5_000]), "b": (X[5_000:], y[5_000:])}, seed=0)
    assert list(ran.activity) == ["a"]  # "b" is never silent at so small an epsilon
    planned, found, low, high = ran.activity["a"]
    assert planned == 0.5
    assert abs(found - 0.3) < high - low < 0.1  # four standard errors


@pytest.mark.parametrize("moments", ["variance", "upper"])
def test_late_average_is_the_precision_weighted_mean_of_late_iterates(moments):
    """With an offset: those after twice the offset, and two thirds of the last one; without: the last quarter."""
    sources, data = two_sources(*PRIVATE, n_a=90, n_b=180)
    plan = uneven.plan(sources, 4, alpha=0.3, batch_size=9, moments=moments)
    path = []
    uneven.fit(plan, data, seed=1, average="last", record=plan.steps, evaluate=lambda w: path.append(w.copy()) or 0.0)
    assert len(path) == plan.steps
    p, offset = 1 / plan.step_moments(), plan.segments[0].schedule.offset
    late = np.cumsum(p) > (2 * offset if offset else p.sum() * 3 / 4)
    assert 2 <= late.sum() < plan.steps
    expected = np.average(np.array(path)[late], axis=0, weights=p[late])
    if offset:
        expected = (2 * path[-1] + expected) / 3
    np.testing.assert_allclose(uneven.fit(plan, data, seed=1).weights, expected, rtol=1e-9)


def test_path_is_thinned_and_true():
    sources, data = two_sources(*PRIVATE)
    plan = uneven.plan(sources, 4, batch_size=9, strategy="two-rates")
    X, y = np.concatenate([data["a"][0], data["b"][0]]), np.concatenate([data["a"][1], data["b"][1]])
    path = uneven.fit(plan, data, seed=1, record=10, evaluate=lambda w: uneven.objective(plan.problem, w, X, y)).path
    assert 9 <= len(path.step) <= 14
    np.testing.assert_allclose(path.step_size, plan.step_sizes()[path.step - 1], rtol=1e-12)
    assert set(path.source) == {"a", "b"}
    final = uneven.fit(plan, data, seed=1)
    assert path.objective[-1] == pytest.approx(float(uneven.objective(plan.problem, final.weights, X, y)))
    assert np.isfinite(path.objective).all()


def test_objective_is_its_formula():
    X, y = rows(50, 4)
    problem, W = uneven.Problem(4, 0.3, 1), np.random.default_rng(0).normal(size=(2, 3, 4))
    expected = [[np.log1p(np.exp(-y * (X @ w))).mean() + 0.15 * w @ w for w in line] for line in W]
    np.testing.assert_allclose(uneven.objective(problem, W, X, y), expected, rtol=1e-6)
    np.testing.assert_allclose(uneven.objective(problem, W, sparse.csr_array(X), y), expected, rtol=1e-6)


def test_a_seed_repeats_and_no_seed_does_not():
    sources, data = two_sources(*PRIVATE)
    plan = uneven.plan(sources, 4)
    one, two, other = (uneven.fit(plan, data, seed=seed).weights for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert (one != other).all()
    assert (uneven.fit(plan, data).weights != uneven.fit(plan, data).weights).all()


def test_without_a_seed_the_generator_is_cryptographic():
    noise = make_generator(None, 0, "a", "noise")
    assert type(noise.bit_generator).__name__ == "AESCounter"
    draws = {tuple(make_generator(None, 0, "a", "noise").integers(2**62, size=4)) for _ in range(50)}
    assert len(draws) == 50


def test_streams_differ_by_run_source_and_purpose():
    keys = [(s, r, k, p) for s in (1, 2) for r in (0, 1) for k in ("a", "b") for p in ("order", "noise")]
    draws = {tuple(make_generator(*key).integers(2**62, size=4)) for key in keys}
    assert len(draws) == len(keys)


# Rows: each once, whatever they come from.


def used(source_rows, d=4, seed=0):
    problem = uneven.Problem(d, 0.1, batch_size=30)
    parts = [
        p._replace(X=p.X.copy())
        for p in iterate_chunks(("a",), [source_rows], problem, np.random.default_rng(seed), steps=2)
    ]
    assert all(len(part.y) in (30, 60) for part in parts[:-1])
    return np.concatenate([p.X for p in parts]), np.concatenate([p.y for p in parts])


def numbered(X):
    """Rows that carry their own number in the first column."""
    X = X.copy()
    X[:, 0] = np.arange(len(X)) / 1e4
    return X


def pieces(X, y, size=70):
    return Stream(((X[i : i + size], y[i : i + size]) for i in range(0, len(y), size)), block_rows=200)


def test_a_stream_of_sparse_pieces_is_the_stream_of_dense_ones():
    X, y = rows(1_003, 4)
    plan = uneven.plan([uneven.Source("a", 1_003, FlippedLabels(0.1))], 4, batch_size=30)
    dense, thin = (uneven.fit(plan, {"a": pieces(part, y)}, seed=0).weights for part in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(thin, dense, rtol=1e-9)


@pytest.mark.parametrize("kind", ["array", "memory map", "stream"])
def test_each_row_is_used_once_with_its_label(kind, tmp_path, monkeypatch):
    X, y = rows(1_003, 4)
    X = numbered(X)
    if kind == "memory map":
        monkeypatch.setattr("uneven.engine.streams.BLOCK_ROWS", 128)
        path = tmp_path / "rows.npy"
        np.save(path, X)
        source = check_arrays("a", np.load(path, mmap_mode="r"), y, 4, by_block=True)
        assert source.blockwise
    else:
        source = check_arrays("a", X, y, 4) if kind == "array" else pieces(X, y)
    seen_X, seen_y = used(source)
    numbers = np.rint(seen_X[:, 0] * 1e4).astype(int)
    np.testing.assert_array_equal(np.sort(numbers), np.arange(1_003))
    np.testing.assert_array_equal(seen_X, X[numbers])
    np.testing.assert_array_equal(seen_y, y[numbers])
    assert (numbers != np.arange(1_003)).mean() > 0.9


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("every", [None, 3])
def test_rows_prepared_chunk_by_chunk_are_those_prepared_at_once(kind, every):
    """To the bit, and over two passes, although chunks share their memory; with one more feature."""

    def prepare(X, places):
        return np.column_stack([X[places] / 2, np.full(len(places), 0.25)]).astype(np.float32)

    X, y = rows(1_001, 4)
    X, numbers = X.astype(kind), None if every is None else np.arange(0, 1_001, every)
    mine = np.arange(1_001) if numbers is None else numbers
    plan = uneven.plan([uneven.Source("a", 2 * len(y[mine]), LocalPrivacy(3.0))], 5, batch_size=30)
    at_once = {"a": (prepare(X, mine), y[mine])}
    one, other = (
        uneven.fit(plan, data, seed=0, passes=2, record=7)
        for data in (at_once, {"a": Selected(X, y[mine], prepare, numbers)})
    )
    np.testing.assert_array_equal(one.weights, other.weights)


def test_a_memory_maps_blocks_and_their_rows_come_in_random_order(tmp_path, monkeypatch):
    """Over many seeds the first block is each of 8 with probability 1/8, and its first row each of 16 with 1/16."""
    monkeypatch.setattr("uneven.engine.streams.BLOCK_ROWS", 16)
    X, y = rows(128, 2)
    np.save(tmp_path / "rows.npy", numbered(X))
    source = check_arrays("a", np.load(tmp_path / "rows.npy", mmap_mode="r"), y, 2, by_block=True)
    orders = np.array([np.rint(used(source, d=2, seed=s)[0][:, 0] * 1e4).astype(int) for s in range(800)])
    blocks = orders.reshape(800, 8, 16)
    assert (np.ptp(blocks // 16, axis=2) == 0).all()  # block by block: each is read in one go
    for drawn, many in ((blocks[:, 0, 0] // 16, 8), (blocks[:, 0, 0] % 16, 16), (blocks[:, 5, 7] % 16, 16)):
        p = 1 / many
        assert np.abs(np.bincount(drawn, minlength=many) / 800 - p).max() < 4.5 * np.sqrt(p * (1 - p) / 800)


def test_an_array_is_permuted_uniformly():
    """Place of row 0 over many seeds: its mean within 4 standard errors of the middle, its spread that of a uniform."""
    X, y = rows(40, 2)
    source = check_arrays("a", numbered(X), y, 2)
    places = np.array([np.argmin(used(source, d=2, seed=s)[0][:, 0]) for s in range(2_000)])
    spread = np.sqrt((40**2 - 1) / 12)
    assert abs(places.mean() - 19.5) < 4 * spread / np.sqrt(2_000)
    assert abs(places.std() / spread - 1) < 4 / np.sqrt(2 * 2_000)


def test_streamed_and_in_memory_runs_agree():
    """Different orders of the same rows: the objectives agree to within the spread that orders cause anyway."""
    X, y = rows(20_000, 4)
    plan = uneven.plan([uneven.Source("a", 20_000)], 4, 0.01, 10)
    in_memory = [
        uneven.objective(plan.problem, uneven.fit(plan, {"a": (X, y)}, seed=s).weights, X, y) for s in range(8)
    ]
    streamed = [
        uneven.objective(plan.problem, uneven.fit(plan, {"a": pieces(X, y)}, seed=s).weights, X, y) for s in range(8)
    ]
    spread = max(np.std(in_memory), np.std(streamed))
    assert abs(np.mean(in_memory) - np.mean(streamed)) < 4 * spread / np.sqrt(4)


def test_arrow_record_batches():
    pa = pytest.importorskip("pyarrow")
    X, y = rows(500, 3)
    table = pa.table({"y": y > 0, **{f"x{j}": X[:, j] for j in range(3)}})
    plan = uneven.plan([uneven.Source("a", 500, FlippedLabels(0.1))], 3, 0.1, 10)
    stream = uneven.from_record_batches(table.to_batches(max_chunksize=64), label="y")
    arrays = {"a": Stream([(X, y)])}
    np.testing.assert_array_equal(
        uneven.fit(plan, {"a": stream}, seed=0).weights, uneven.fit(plan, arrays, seed=0).weights
    )
    assert BLOCK_ROWS > 500  # one block either way, so the same order
    for options, message in [
        ({"label": "z"}, r"columns must hold 'z' once, got \['y', 'x0', 'x1', 'x2'\]"),
        ({"label": "y", "features": ["x0", "x9"]}, "columns must hold 'x9' once"),
    ]:
        bad = uneven.from_record_batches(table.to_batches(), **options)
        with pytest.raises(ValueError, match=message):
            uneven.fit(plan, {"a": bad}, seed=0)


# Bad rows.


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", ["array", "stream", "sparse", "slow"])
def test_a_bad_value_stops_the_run_with_the_rows_number(value, form):
    X, y = rows(300, 4)
    X[217, 2] = value
    noise = Exact()
    data = {"array": (X, y), "stream": pieces(X, y), "sparse": (sparse.csr_array(X), y), "slow": (X, y)}[form]
    if form == "slow":
        noise = Rounded()
    plan = uneven.plan([uneven.Source("a", 300, noise)], 4)
    with pytest.raises(ValueError, match=r"^X of source 'a' must be finite, got NaN or infinity in row 217$"):
        uneven.fit(plan, {"a": data}, seed=0)


def test_a_row_outside_the_unit_ball_stops_the_run():
    X, y = rows(300, 4)
    X[5] *= 3 / np.linalg.norm(X[5])
    plan = uneven.plan([uneven.Source("a", 300)], 4)
    with pytest.raises(ValueError, match="rows of source 'a' must lie in the unit ball, got norm 3 in row 5"):
        uneven.fit(plan, {"a": (X, y)}, seed=0)


def test_a_bad_row_among_sources_shuffled_together_is_named():
    sources, data = two_sources(*PRIVATE)
    data["b"][0][100, 0] = np.nan
    plan = uneven.plan(sources, 4, strategy="arbitrary")
    with pytest.raises(ValueError, match="X of source 'b' must be finite, got NaN or infinity in row 100"):
        uneven.fit(plan, data, seed=0)


GOOD_X, GOOD_Y = rows(10, 4)
BAD_DATA = {
    "missing source": ({}, "data must have rows for every source of the plan; 'a' is missing"),
    "not a pair": ({"a": 3}, r"rows of source 'a' must be \(X, y\) or a Stream, got int"),
    "wrong width": ({"a": (GOOD_X[:, :3], GOOD_Y)}, r"X of source 'a' must have shape \(n, 4\), got \(10, 3\)"),
    "one dimension": ({"a": (GOOD_Y, GOOD_Y)}, r"X of source 'a' must have shape \(n, 4\), got \(10,\)"),
    "lengths differ": ({"a": (GOOD_X, GOOD_Y[:9])}, r"y of source 'a' must have shape \(10,\) like X, got \(9,\)"),
    "labels 0 and 1": ({"a": (GOOD_X, (GOOD_Y > 0) * 1)}, "labels of source 'a' must be -1 or 1, got 0 in row"),
    "nan label": ({"a": (GOOD_X, GOOD_Y * np.nan)}, "labels of source 'a' must be -1 or 1, got nan in row 0"),
    "fewer rows": ({"a": (GOOD_X[:9], GOOD_Y[:9])}, "source 'a' must have the 10 rows the plan says, got 9"),
    "short stream": (
        {"a": Stream([(GOOD_X[:9], GOOD_Y[:9])])},
        "source 'a' must have the 10 rows the plan says, got 9",
    ),
    "long stream": ({"a": Stream([(GOOD_X, GOOD_Y)] * 2)}, "source 'a' must have the 10 rows the plan says, got"),
    "endless stream": (
        {"a": Stream((GOOD_X, GOOD_Y) for _ in count())},
        "source 'a' must have the 10 rows the plan says, got more",
    ),
    "not a dict": ((GOOD_X, GOOD_Y), "data must be a dict of names and rows, got 'tuple'"),
    "unknown source": ({"a": (GOOD_X, GOOD_Y), "z": 1}, "data must have the plan's sources only, got 'z'"),
    "text labels": ({"a": (GOOD_X, ["yes"] * 10)}, "labels of source 'a' must be plain real numbers, got list of <U3"),
    "text rows": ({"a": (GOOD_X.astype(str), GOOD_Y)}, "X of source 'a' must be plain real numbers, got ndarray of"),
    "complex rows": (
        {"a": (GOOD_X * 1j, GOOD_Y)},
        "X of source 'a' must be plain real numbers, got ndarray of complex",
    ),
    "masked rows": (
        {"a": (np.ma.array(GOOD_X), GOOD_Y)},
        "X of source 'a' must be plain real numbers, got MaskedArray",
    ),
    "selected rows of three features": (
        {"a": Selected(GOOD_X[:, :3], GOOD_Y, lambda X, places: X[places])},
        r"X of source 'a' must have shape \(n, 4\), got \(0, 3\)",
    ),
    "too few selected labels": (
        {"a": Selected(GOOD_X, GOOD_Y[:9], lambda X, places: X[places])},
        r"y of source 'a' must have shape \(10,\) like its rows, got \(9,\)",
    ),
    "selected rows made too long": (
        {"a": Selected(GOOD_X, GOOD_Y, lambda X, places: 9 * X[places], np.arange(10))},
        "rows of source 'a' must lie in the unit ball, got norm",
    ),
    "a selected label": (
        {"a": Selected(GOOD_X, 3 * GOOD_Y, lambda X, places: X[places])},
        "labels of source 'a' must be -1 or 1, got -?3 in row 0",
    ),
    "a piece of three": ({"a": Stream([(GOOD_X, GOOD_Y, 3)])}, r"pieces must be \(X, y\), got"),
    "no piece": ({"a": Stream([None])}, r"pieces must be \(X, y\), got None"),
    "csr out of bounds": (
        {"a": (sparse.csr_array((np.full(10, 0.5), np.full(10, 10**7), np.arange(11)), shape=(10, 4)), GOOD_Y)},
        "X of source 'a' must have column numbers below 4",
    ),
    "csr with duplicates": (
        {"a": (sparse.csr_array((np.full(20, 0.7), np.zeros(20, int), np.arange(0, 21, 2)), shape=(10, 4)), GOOD_Y)},
        "rows of source 'a' must lie in the unit ball, got norm 1.4 in row",
    ),
    "bad stream label": (
        {"a": Stream([(GOOD_X[:5], GOOD_Y[:5]), (GOOD_X[5:], GOOD_Y[5:] * [1, 1, 7, 1, 1])])},
        "labels of source 'a' must be -1 or 1, got -?7 in row 7",
    ),
}


@pytest.mark.parametrize(("data", "message"), BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data(data, message):
    plan = uneven.plan([uneven.Source("a", 10)], 4)
    with pytest.raises(ValueError, match=message):
        uneven.fit(plan, data, seed=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"seed": "x"}, "seed must be a whole number of at least 0, got 'x'"),
        ({"average": "median"}, "average must be one of 'auto', 'last', 'late', 'growing', 'steps'; got 'median'"),
        ({"record": -1}, "record must be a whole number of at least 0, got -1"),
        ({"passes": 0}, "passes must be a whole number of at least 1, got 0"),
        ({"average": "late", "estimate": True}, "average must be 'growing' where the clock's end is unknown"),
    ],
)
def test_bad_options(options, message):
    plan = uneven.plan([uneven.Source("a", 10)], 4)
    with pytest.raises(ValueError, match=message):
        uneven.fit(plan, {"a": (GOOD_X, GOOD_Y)}, **options)


def test_estimates_of_shuffled_sources_are_refused():
    sources, data = two_sources(*PRIVATE)
    with pytest.raises(ValueError, match="estimate must be False for a plan that shuffles sources together"):
        uneven.fit(uneven.plan(sources, 4, strategy="arbitrary"), data, estimate=True)


def test_columns_in_another_order_are_found_by_name():
    pa = pytest.importorskip("pyarrow")
    X, y = rows(500, 3)
    table = pa.table({"y": (y > 0).astype(int), **{f"x{j}": X[:, j] for j in range(3)}})
    turned = table.slice(250).select(["x2", "x0", "y", "x1"])
    plan = uneven.plan([uneven.Source("a", 500)], 3, 0.1, 10)
    mixed = uneven.from_record_batches([*table.slice(0, 250).to_batches(), *turned.to_batches()], label="y")
    plain = uneven.from_record_batches(table.to_batches(), label="y")
    np.testing.assert_array_equal(*(uneven.fit(plan, {"a": stream}, seed=0).weights for stream in (mixed, plain)))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"x0": ["0.1"] * 4}, "column 'x0' must hold numbers"),
        ({"x0": [0.0, None, 0.0, 0.0]}, "X of source 'a' must be finite, got NaN or infinity in row 1"),
        ({"y": [-1, 0, 1, 1]}, "label 'y' must hold -1 and 1, or 0 and 1, got both"),
        ({"y": ["yes"] * 4}, "labels must be plain real numbers"),
        ({"y": [1, 0, 2, 1]}, "labels of source 'a' must be -1 or 1, got 2 in row 2"),
        ({"y": [1.0, -1.0, 1.0, 0.5]}, "labels of source 'a' must be -1 or 1, got 0.5 in row 3"),
        ({"y": [1.0, None, 0.0, 1.0]}, "labels of source 'a' must be -1 or 1, got nan in row 1"),
        ({"y": [-2, 2, 2, -2]}, "labels of source 'a' must be -1 or 1, got -2 in row 0"),
    ],
)
def test_arrow_columns_that_are_no_numbers(column, message):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"y": [1, 1, 0, 0], "x0": [0.0] * 4, "x1": [True, False, True, False], **column})
    stream = uneven.from_record_batches(table.to_batches(), label="y")
    with pytest.raises(ValueError, match=message):
        uneven.fit(uneven.plan([uneven.Source("a", 4)], 2), {"a": stream}, seed=0)


def test_a_producer_may_use_its_buffers_again():
    X, y = rows(900, 4)
    plan = uneven.plan([uneven.Source("a", 900)], 4, batch_size=30)

    def reusing():
        buffer, labels = np.empty((100, 4), dtype=np.float32), np.empty(100)
        for start in range(0, 900, 100):
            buffer[:], labels[:] = X[start : start + 100], y[start : start + 100]
            yield buffer, labels

    kept = Stream([(X[i : i + 100], y[i : i + 100]) for i in range(0, 900, 100)], block_rows=100)
    reused = Stream(reusing(), block_rows=100)
    np.testing.assert_array_equal(*(uneven.fit(plan, {"a": source}, seed=0).weights for source in (kept, reused)))


def test_a_producer_may_use_its_sparse_buffers_again():
    X, y = rows(300, 4)
    plan = uneven.plan([uneven.Source("a", 300)], 4, batch_size=30)

    def reusing():
        buffer = sparse.csr_array(X[:100])
        for start in range(0, 300, 100):
            buffer.data[:] = X[start : start + 100].ravel()
            yield buffer, y[start : start + 100]

    kept = Stream([(X[i : i + 100], y[i : i + 100]) for i in range(0, 300, 100)], block_rows=100)
    reused = Stream(reusing(), block_rows=100)
    ends = [uneven.fit(plan, {"a": source}, seed=0).weights for source in (kept, reused)]
    np.testing.assert_allclose(*ends, rtol=1e-9)


@pytest.mark.parametrize("form", ["stream", "shuffled together", "objective", "alone"])
@pytest.mark.parametrize("labels", [lambda y: 5 * y, lambda y: (y > 0) * 1, lambda y: y * np.nan])
def test_labels_beside_a_memory_map_are_checked_on_every_path(form, labels, tmp_path):
    X, y = rows(200, 4)
    np.save(tmp_path / "X.npy", X)
    mapped, wrong = np.load(tmp_path / "X.npy", mmap_mode="r"), labels(y)
    sources = [uneven.Source("a", 200, PRIVATE[0]), uneven.Source("b", 200)]
    one, both = uneven.plan(sources[:1], 4), uneven.plan(sources, 4, strategy="arbitrary")
    stream = Stream([(mapped[:100], wrong[:100]), (mapped[100:], wrong[100:])])
    call = {
        "stream": lambda: uneven.fit(one, {"a": stream}, seed=0),
        "shuffled together": lambda: uneven.fit(both, {"a": (mapped, wrong), "b": (X, y)}, seed=0),
        "objective": lambda: uneven.objective(one.problem, np.zeros(4), mapped, wrong),
        "alone": lambda: uneven.fit(one, {"a": (mapped, wrong)}, seed=0),
    }[form]
    with pytest.raises(ValueError, match=r"labels of source '(a|rows)' must be -1 or 1"):
        call()


@pytest.mark.parametrize(("norm", "fits"), [(1 + 5e-7, True), (1 + 1e-5, False)])
def test_the_unit_ball_has_room_for_rounding_only(norm, fits):
    X = norm * np.eye(1, 4)
    plan = uneven.plan([uneven.Source("a", 1)], 4)
    if fits:
        uneven.fit(plan, {"a": (X, [1.0])}, seed=0)
    else:
        with pytest.raises(ValueError, match="must lie in the unit ball"):
            uneven.fit(plan, {"a": (X, [1.0])}, seed=0)


def test_a_row_too_short_for_a_direction_does_no_harm():
    X, y = rows(400, 3, dtype=np.float64)
    X[7] *= 1e-155
    plan = uneven.plan([uneven.Source("a", 400, LocalPrivacy(10.0))], 3)
    for seed in range(5):
        assert np.isfinite(uneven.fit(plan, {"a": (X, y)}, seed=seed).weights).all()


def test_a_producers_error_is_the_users():
    def breaking():
        yield GOOD_X[:5], GOOD_Y[:5]
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        uneven.fit(uneven.plan([uneven.Source("a", 10)], 4), {"a": Stream(breaking())}, seed=0)


def test_passes_go_through_each_source_again():
    X, y = rows(300, 4)
    twice = uneven.plan([uneven.Source("a", 600)], 4, batch_size=30, strategy="clean-only", alpha=0.05, radius="paper")
    ran = uneven.fit(twice, {"a": (X, y)}, seed=3, passes=2)
    rng = make_generator(3, 0, "a", "order")
    order = np.concatenate([rng.permutation(300), rng.permutation(300)])
    expected = plain_sgd(X.astype(float), y, order, rate=20.0, lam=0.05, b=30, radius=20.0)
    np.testing.assert_allclose(ran.weights, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="must have the 600 rows the plan says, got 3 passes of 300"):
        uneven.fit(twice, {"a": (X, y)}, seed=3, passes=3)
    with pytest.raises(ValueError, match="passes must be 1 for source 'a': a stream can be read only once"):
        uneven.fit(twice, {"a": pieces(X, y)}, seed=3, passes=2)


@pytest.mark.parametrize("strategy", ["precision", "arbitrary"])
@pytest.mark.parametrize("kind", ["arrays", "streams"])
def test_without_a_seed_every_stream_is_cryptographic_and_its_own(strategy, kind, monkeypatch):
    made = []

    def spy(*key):
        made.append((key, make_generator(*key)))
        return made[-1][1]

    monkeypatch.setattr("uneven.engine.run.make_generator", spy)
    sources, data = two_sources(*PRIVATE)
    if kind == "streams" and strategy == "precision":
        data = {name: pieces(*rows_) for name, rows_ in data.items()}
    uneven.fit(uneven.plan(sources, 4, strategy=strategy), data)
    assert len(made) == (4 if strategy == "precision" else 2)  # an order and a noise for each segment
    assert len({key for key, _ in made}) == len(made)
    keys = set()
    for key, drawn in made:
        assert key[0] is None
        assert type(drawn.bit_generator).__name__ == "AESCounter"
        keys.add(tuple(drawn.bit_generator.state["s"]["seed"][:2]))
    assert len(keys) == len(made)
    assert all(low > 2**32 or high > 2**32 for low, high in keys)


def test_noise_and_order_differ_between_sources_and_runs():
    """Two sources with the same rows: their runs would be the same if they shared an order or a noise."""
    X, y = rows(100, 4)
    ends = []
    for name in ("a", "b"):
        for noise in (Exact(), PRIVATE[0]):
            plan = uneven.plan([uneven.Source(name, 100, noise)], 4, strategy="clean-only", batch_size=5)
            ends.append(uneven.sweep([plan], {name: (X, y)}, runs=2, seed=3).weights[0])
    ends = np.concatenate(ends)
    assert len(np.unique(ends.round(9), axis=0)) == len(ends) == 8


def test_listing_the_sources_in_another_order_changes_nothing():
    sources, data = two_sources(*PRIVATE)
    one, two = (uneven.plan(listed, 4, batch_size=9) for listed in (sources, sources[::-1]))
    assert one.order == two.order
    np.testing.assert_array_equal(*(uneven.fit(plan, data, seed=1).weights for plan in (one, two)))


def test_mixed_rows_are_each_used_once_with_their_own_label():
    _, data = two_sources(*PRIVATE)
    X = {name: numbered(part[0]) for name, part in data.items()}
    arrays = [check_arrays(name, X[name], data[name][1], 4) for name in ("a", "b")]
    parts = list(iterate_chunks(("a", "b"), arrays, uneven.Problem(4, 0.1, 30), np.random.default_rng(0), steps=2))
    group = np.concatenate([part.group for part in parts])
    numbers = np.rint(np.concatenate([part.X[:, 0] for part in parts]) * 1e4).astype(int)
    labels = np.concatenate([part.y for part in parts])
    for k, name in enumerate("ab"):
        mine = numbers[group == k]
        np.testing.assert_array_equal(np.sort(mine), np.arange(len(data[name][1])))
        np.testing.assert_array_equal(labels[group == k], data[name][1][mine])
    assert 0.1 < np.mean(group[:100] == 0) < 0.6  # 130 of 400, shuffled


def test_late_average_needs_a_clock_that_is_known():
    sources, data = two_sources(*PRIVATE)
    plan = uneven.plan(sources, 4, strategy="arbitrary")
    with pytest.raises(ValueError, match="average must be 'growing' where the clock's end is unknown"):
        uneven.fit(plan, data, seed=0, average="late")


def test_the_twin_of_private_rows_is_for_simulations():
    sources, data = two_sources(*PRIVATE)
    with pytest.raises(ValueError, match="twin must be False where rows are private and there is no seed"):
        uneven.fit(uneven.plan(sources, 4), data, twin=True)


def test_a_source_cannot_be_used_twice():
    sources, data = two_sources(*PRIVATE)
    plan = uneven.plan(sources, 4)
    with pytest.raises(ValueError, match="plan must use each source once"):
        uneven.fit(replace(plan, segments=plan.segments * 2), data, seed=0)


@dataclass(frozen=True)
class Louder(AdditiveNoise):
    """A known noise with another release: its coefficients no longer stand for it."""

    def spread(self, rows, n_features, bound, rng):
        return 100.0 * super().spread(rows, n_features, bound, rng)


def test_a_subclass_that_changes_the_noise_is_not_run_as_its_parent():
    X, y = rows(300, 4)
    spread = []
    for noise in (AdditiveNoise(1.0), Louder(1.0)):
        plan = uneven.plan([uneven.Source("a", 300, noise)], 4, batch_size=5)
        ends = [uneven.fit(plan, {"a": (X, y)}, seed=s).weights for s in range(20)]
        spread.append(np.std(ends, axis=0).mean())
    assert spread[1] > 4 * spread[0]


@pytest.mark.parametrize("kind", ["dense", "sparse", "stream", "memory map"])
def test_the_size_of_chunks_changes_nothing(kind, monkeypatch, tmp_path):
    X, y = rows(700, 4)
    np.save(tmp_path / "X.npy", X)
    forms = {"dense": X, "sparse": sparse.csr_array(X), "memory map": np.load(tmp_path / "X.npy", mmap_mode="r")}
    plan = uneven.plan([uneven.Source("a", 700, FlippedLabels(0.1))], 4, batch_size=9)
    ends = []
    for size in (1, 1 << 10, 1 << 20):
        monkeypatch.setattr("uneven.engine.chunks.CHUNK_BYTES", size)
        data = pieces(X, y) if kind == "stream" else (forms[kind], y)
        ends.append(uneven.fit(plan, {"a": data}, seed=2).weights)
    for end in ends[1:]:
        np.testing.assert_allclose(end, ends[0], rtol=1e-10)


def test_memory_maps_of_whole_numbers_are_read_block_by_block(tmp_path):
    rng = np.random.default_rng(0)
    X = (rng.random((70_000, 4)) < 0.2).astype(np.int8)
    X[X.sum(axis=1) > 1] = 0  # in the unit ball
    y = np.where(rng.random(70_000) < 0.5, 1, -1).astype(np.int8)
    np.save(tmp_path / "X.npy", X)
    plan = uneven.plan([uneven.Source("a", 70_000)], 4)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert check_arrays("a", mapped, y, 4, by_block=True).X is mapped
    assert uneven.fit(plan, {"a": (mapped, y)}, seed=0).state.step == plan.steps
    y[65_999] = 0
    with pytest.raises(ValueError, match="labels of source 'a' must be -1 or 1, got 0 in row 65999"):
        uneven.fit(plan, {"a": (mapped, y)}, seed=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: uneven.objective(p, np.zeros(4), GOOD_X, [1.0]), r"y of source 'rows' must have shape \(10,\)"),
        (lambda p: uneven.objective(p, np.zeros(4), GOOD_X, GOOD_Y > 0), "labels of source 'rows' must be -1 or 1"),
        (lambda p: uneven.objective(p, np.zeros(4), GOOD_X[:0], GOOD_Y[:0]), "X must have at least one row"),
        (lambda _: uneven.fit(3, {}), "plan must be an uneven.Plan, got 3"),
        (lambda _: Stream(3), r"pieces must be an iterable of \(X, y\), got 3"),
        (lambda _: uneven.from_record_batches([], "y", "x0"), "features a list of names, got 'x0'"),
    ],
)
def test_bad_calls(call, message):
    with pytest.raises(ValueError, match=message):
        call(uneven.Problem(4, 0.1, 5))


def test_objective_in_blocks(monkeypatch):
    X, y = rows(1_000, 4)
    problem, W = uneven.Problem(4, 0.3, 1), np.random.default_rng(0).normal(size=(3, 4))
    whole = uneven.objective(problem, W, X, y)
    monkeypatch.setattr(importlib.import_module("uneven.engine.objective"), "_BLOCK_BYTES", 1_000)
    np.testing.assert_allclose(uneven.objective(problem, W, X, y), whole, rtol=1e-12)


def test_importing_does_not_compile_or_open_a_plotting_library():
    code = "import sys, uneven; assert 'matplotlib' not in sys.modules and 'rich' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_chunk_that_is_made_ahead_leaves_the_one_in_use_alone(monkeypatch):
    X, y = rows(600, 4)
    plan = uneven.plan([uneven.Source("a", 600, Exact())], 4, batch_size=9)
    at_once = iterate_chunks(("a",), [check_arrays("a", X, y, 4)], plan.problem, make_generator(0, 0, "a", "order"))
    whole = np.concatenate([chunk.X for chunk in at_once])
    monkeypatch.setattr("uneven.engine.chunks.CHUNK_BYTES", 4 * 4 * 90)
    seen = []
    for chunk in iterate_chunks(("a",), [check_arrays("a", X, y, 4)], plan.problem, make_generator(0, 0, "a", "order")):
        time.sleep(0.005)  # the next one is made meanwhile
        seen.append(chunk.X.copy())
    assert len(seen) == 7
    assert np.array_equal(np.concatenate(seen), whole)
