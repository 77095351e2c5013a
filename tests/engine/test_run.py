"""Whole runs: what they equal in the limit, what they promise, and what they refuse."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from problems import rows, two_sources
from scipy import sparse
from scipy.optimize import minimize

import uneven
from uneven import AdditiveNoise, Exact, FlippedLabels, LocalPrivacy
from uneven.engine import streams, tasks_of
from uneven.engine.rows import BLOCK_ROWS, Stream, checked_arrays, chunks
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
    order = streams.generator(3, 0, 0, "order").permutation(300)
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
    np.testing.assert_allclose(fitted(LocalPrivacy(1e6, "l2-laplace")), exact, rtol=1e-3)
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


def test_late_average_is_the_precision_weighted_mean_of_the_last_half_of_the_clock():
    sources, data = two_sources(*PRIVATE, n_a=90, n_b=180)
    plan = uneven.plan(sources, 4, batch_size=9)
    path = []
    uneven.fit(plan, data, seed=1, average="last", record=plan.steps, evaluate=lambda w: path.append(w.copy()) or 0.0)
    assert len(path) == plan.steps
    p = 1 / plan.step_moments()
    late = np.cumsum(p) > p.sum() / 2
    expected = np.average(np.array(path)[late], axis=0, weights=p[late])
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
    generator = streams.generator(None, 0, 0, "noise")
    assert type(generator.bit_generator).__name__ == "AESCounter"
    draws = {tuple(streams.generator(None, 0, 0, "noise").integers(2**62, size=4)) for _ in range(50)}
    assert len(draws) == 50


def test_streams_differ_by_run_source_and_purpose():
    keys = [(s, r, k, p) for s in (1, 2) for r in (0, 1) for k in (0, 1) for p in ("order", "noise")]
    draws = {tuple(streams.generator(*key).integers(2**62, size=4)) for key in keys}
    assert len(draws) == len(keys)


# Rows: each once, whatever they come from.


def used(source_rows, d=4, seed=0):
    problem = uneven.Problem(d, 0.1, batch_size=30)
    parts = [
        p._replace(X=p.X.copy()) for p in chunks(("a",), [source_rows], problem, np.random.default_rng(seed), steps=2)
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
        monkeypatch.setattr("uneven.engine.rows.BLOCK_ROWS", 128)
        path = tmp_path / "rows.npy"
        np.save(path, X)
        source = checked_arrays("a", np.load(path, mmap_mode="r"), y, 4)
        assert source.blockwise
    else:
        source = checked_arrays("a", X, y, 4) if kind == "array" else pieces(X, y)
    seen_X, seen_y = used(source)
    numbers = np.rint(seen_X[:, 0] * 1e4).astype(int)
    np.testing.assert_array_equal(np.sort(numbers), np.arange(1_003))
    np.testing.assert_array_equal(seen_X, X[numbers])
    np.testing.assert_array_equal(seen_y, y[numbers])
    assert (numbers != np.arange(1_003)).mean() > 0.9


def test_an_array_is_permuted_uniformly():
    """Place of row 0 over many seeds: its mean within 4 standard errors of the middle, its spread that of a uniform."""
    X, y = rows(40, 2)
    source = checked_arrays("a", numbered(X), y, 2)
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
        ({"label": "z"}, "label must be one of the columns 'y', 'x0', 'x1', 'x2'; got 'z'"),
        ({"label": "y", "features": ["x0", "x9"]}, "features must be columns; got 'x9'"),
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
        from test_kernels import Rounded

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
    "long stream": ({"a": Stream([(GOOD_X, GOOD_Y)] * 2)}, "source 'a' must have the 10 rows the plan says, got 20"),
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


def test_importing_does_not_compile_or_open_a_plotting_library():
    code = "import sys, uneven; assert 'matplotlib' not in sys.modules and 'rich' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
