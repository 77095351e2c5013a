"""Sweeps: the same as one run after another, on any number of threads; and an interruption keeps what is done."""

import importlib
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from problems import two_sources

import uneven
from uneven import LocalPrivacy
from uneven.planner import STRATEGIES

module = importlib.import_module("uneven.engine.sweep")  # the name is also the function's

SOURCES, DATA = two_sources(LocalPrivacy(5.0, "l2-laplace"), LocalPrivacy(1.0, "l2-laplace"))
PLANS = [
    uneven.plan(SOURCES, 4, alpha, batch_size, strategy=strategy)
    for strategy in STRATEGIES
    for alpha, batch_size in [(0.01, 9), (0.1, 9), (0.1, 20)]
]


def test_a_sweep_is_one_run_after_another():
    swept = uneven.sweep(PLANS, DATA, runs=1, seed=4, twin=True)
    for i, plan in enumerate(PLANS):
        alone = uneven.fit(plan, DATA, seed=4, twin=True)
        np.testing.assert_array_equal(swept.weights[i, 0], alone.weights)
        np.testing.assert_array_equal(swept.twins[i, 0], alone.state.twin)


def test_a_sweep_goes_on_where_another_has_ended():
    whole = uneven.sweep(PLANS[:4], DATA, runs=5, seed=4)
    parts = [uneven.sweep(PLANS[:4], DATA, runs=n, seed=4, first_run=first) for first, n in [(0, 2), (2, 3)]]
    np.testing.assert_array_equal(np.concatenate([part.weights for part in parts], axis=1), whole.weights)


def test_one_thread_equals_many():
    sweeps = [uneven.sweep(PLANS, DATA, runs=3, seed=4, threads=threads) for threads in (1, 2, 7)]
    for other in sweeps[1:]:
        np.testing.assert_array_equal(other.weights, sweeps[0].weights)
    assert not sweeps[0].interrupted


def test_plans_with_different_batches_or_fewer_sources_go_together():
    only = uneven.plan(SOURCES[:1], 4, 0.1, 9)
    swept = uneven.sweep([PLANS[0], only, PLANS[2]], DATA, seed=4)
    for i, plan in enumerate([PLANS[0], only, PLANS[2]]):
        alone = uneven.fit(plan, {s.name: DATA[s.name] for s in plan.sources}, seed=4)
        np.testing.assert_array_equal(swept.weights[i, 0], alone.weights)


@pytest.mark.parametrize("column", [{"plan": np.zeros((2, 3))}, {"loss": np.zeros(5)}])
def test_a_column_must_be_new_and_of_the_right_shape(column):
    swept = uneven.sweep(PLANS[:2], DATA, runs=3, seed=1)
    with pytest.raises(ValueError, match=r"must be new and of shape \(2, 3\)"):
        swept.table(**column)


def test_runs_differ_and_plans_share_their_random_numbers():
    pair = [PLANS[0], PLANS[0]]
    swept = uneven.sweep(pair, DATA, runs=2, seed=1)
    np.testing.assert_array_equal(swept.weights[0], swept.weights[1])
    assert (swept.weights[0, 0] != swept.weights[0, 1]).all()


def test_tidy_table():
    swept = uneven.sweep(PLANS[:2], DATA, runs=3, seed=1)
    norms = np.linalg.norm(swept.weights, axis=2)
    table = swept.table(norm=norms)
    assert list(table) == ["plan", "run", "strategy", "order", "alpha", "bound", "norm"]
    assert table["bound"][0] == PLANS[0].bound
    assert {len(column) for column in table.values()} == {6}
    assert all(table["norm"][i] == norms[table["plan"][i], table["run"][i]] for i in range(6))


def test_an_interruption_keeps_what_is_finished():
    ticks = iter([None, None])

    def tick(share):
        assert share == pytest.approx(1 / 2_000)
        if next(ticks, "no more") == "no more":
            raise KeyboardInterrupt

    swept = uneven.sweep(PLANS[:1], DATA, runs=2_000, seed=1, threads=1, progress=tick)
    assert swept.interrupted
    count = int(swept.finished.sum())
    assert 3 <= count < 2_000
    assert np.isfinite(swept.weights[swept.finished]).all()
    assert np.isnan(swept.weights[~swept.finished]).all()
    assert len(swept.table()["run"]) == count


def test_an_impatient_second_ctrl_c_changes_nothing():
    calls = []

    class Pool:
        def shutdown(self, **options):
            calls.append(options)
            if len(calls) == 1:
                raise KeyboardInterrupt

    module._shut_down(Pool())
    assert calls == [{"cancel_futures": True}] * 2


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a child")
def test_ctrl_c_in_a_real_process():
    code = f"""
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored in the background
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from test_sweep import DATA, PLANS
        import uneven
        from uneven.progress import show_bar
        uneven.sweep(PLANS[:1], DATA, runs=1)
        print("ready", flush=True)
        with show_bar("Sweep", 1.0) as tick:
            told = []
            def follow(done):
                tick(done)
                told or print("running", flush=True) or told.append(1)
            swept = uneven.sweep(PLANS, DATA, runs=100_000, progress=follow)
        print(swept.interrupted, int(swept.finished.sum()), flush=True)
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline() == "ready\n"
        assert child.stdout.readline() == "running\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
        child.communicate()
    assert child.returncode == 0, err
    interrupted, count = out.split()
    assert interrupted == "True"
    assert int(count) > 0
    assert "Traceback" not in err


def test_an_error_in_a_run_is_raised_and_ends_the_rest():
    X, y = DATA["a"]
    broken = {**DATA, "a": (X.copy(), y)}
    broken["a"][0][3, 0] = np.nan
    with pytest.raises(ValueError, match="got NaN or infinity in row 3"):
        uneven.sweep(PLANS, broken, runs=5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: uneven.sweep([], DATA), "plans must be a list of at least one uneven.Plan"),
        (lambda: uneven.sweep(PLANS, DATA, runs=0), "runs must be a whole number of at least 1, got 0"),
        (lambda: uneven.sweep(PLANS, DATA, seed=None), "seed must be a whole number of at least 0, got None"),
        (lambda: uneven.sweep(PLANS, DATA, threads=0), "threads must be a whole number of at least 1, got 0"),
        (lambda: uneven.sweep([PLANS[0], uneven.plan(SOURCES, 5)], DATA), "plans must have one number of features"),
        (
            lambda: uneven.sweep(PLANS, {**DATA, "a": uneven.Stream([DATA["a"]])}),
            "rows of source 'a' must be arrays in a sweep: a stream can be read only once",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
