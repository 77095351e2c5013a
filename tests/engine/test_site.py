"""A site's segment by itself: each row in one batch, the split blind to the rows, only noised batches in the state."""

from dataclasses import replace

import numpy as np
import pytest
from problems import rows

import uneven
from uneven.engine import (
    advance,
    checked_chunk,
    initial_state,
    iterate_chunks,
    make_generator,
    measure_gradient,
    reference,
    tasks_of,
)
from uneven.engine.state import Task
from uneven.schedules import Rate

D, N = 4, 103


def site_plan(batch_size="auto", **options):
    sources = [uneven.Source("site", N, uneven.SitePrivacy(2.0)), uneven.Source("other", 50, uneven.LocalPrivacy(3.0))]
    return uneven.plan(sources, D, 0.1, batch_size, **options)


def test_state_that_leaves_is_made_of_released_sums_alone(monkeypatch):
    """The whole run of a site is computed again from what `release_sum` gave, without a row."""
    (task,) = [one for one in tasks_of(site_plan()) if one.names == ("site",)]
    X, y = rows(N, D, 0)
    released, whole = [], uneven.SitePrivacy.release_sum

    def recording(self, gradients, bound, rng):
        released.append((len(gradients), whole(self, gradients, bound, rng)))
        return released[-1][1]

    monkeypatch.setattr(uneven.SitePrivacy, "release_sum", recording)
    begun = replace(initial_state(D), weights=np.full(D, 0.3), step=5, clock=40.0)  # what came from the site before
    chunk = checked_chunk(task.names, X, y, np.arange(N))
    left = advance(begun, task, chunk, np.random.default_rng(1), reference.advance)

    state, alpha, ball = begun, task.problem.alpha, task.problem.ball
    for count, total in released:
        moment = task.moments[0].at(count)
        clock, G = state.clock + 1.0 / moment, alpha * state.weights + total / count
        eta = task.schedule(state.step + 1, moment, clock)
        w = reference.project(state.weights - eta * G, ball)
        average, weight = reference.extend_average(state, task, w, eta, 1.0 / moment, clock)
        state = replace(state, weights=w, step=state.step + 1, clock=clock, average=average, average_weight=weight)
    assert sum(count for count, _ in released) == N
    assert [count for count, _ in released[:-1]] == [task.problem.batch_size] * (len(released) - 1)
    np.testing.assert_array_equal(left.weights, state.weights)
    np.testing.assert_array_equal(left.average, state.average)
    assert (left.clock, left.twin, left.estimates, left.released) == (state.clock, None, {}, {})


@pytest.mark.parametrize("blockwise", [False, True])
def test_each_row_is_in_one_batch_and_the_split_does_not_look_at_rows(blockwise):
    """Rows are known by their first entry. Other rows and labels with the same generator are split in the same way.

    Where a stream is cut may depend on its rows, as the length of a line of text does; the split must not.
    """
    (task,) = [one for one in tasks_of(site_plan(7)) if one.names == ("site",)]
    mark = np.arange(1, N + 1) / (2 * N)

    def numbers(seed, sign, piece):
        X, y = rows(N, D, seed)
        X, y = 0.5 * X, sign * y
        X[:, 0] = mark
        pieces = [(X[i : i + piece], y[i : i + piece]) for i in range(0, N, piece)]
        source = uneven.engine.check_rows("site", uneven.Stream(pieces, block_rows=20) if blockwise else (X, y), D)
        chunks = iterate_chunks(("site",), [source], task.problem, make_generator(3, 0, "site", "order"))
        return [np.round(chunk.X[:, 0] * 2 * N).astype(int) for chunk in chunks]

    split, *others = (np.concatenate(numbers(*one)) for one in ((0, 1, N), (1, -1, N), (1, 1, 19), (1, 1, 33)))
    assert sorted(split) == list(range(1, N + 1))
    for again in others:
        np.testing.assert_array_equal(split, again)
    assert (split != np.arange(1, N + 1)).any()


@pytest.mark.parametrize("size", [3, 3_000])
def test_large_batches_have_all_of_the_noise(size):
    """Rows of zeros: what is measured is the noise, of mean square `batch_energy`; five standard errors."""
    draws, problem = 2_000, uneven.Problem(D, 0.1, size, clip=0.5)
    noise = uneven.SitePrivacy(2.0)
    task = Task(problem, ("site",), (noise,), (noise.moment("variance", problem),), Rate(1.0))
    chunk = checked_chunk(task.names, np.zeros((size, D)), np.ones(size), np.arange(size))
    rng, state = np.random.default_rng(0), initial_state(D)
    squares = np.array([np.square(measure_gradient(state, task, chunk, rng)[0]).sum() for _ in range(draws)])
    assert abs(squares.mean() - noise.batch_energy(problem)) < 5 * squares.std() / np.sqrt(draws)


def test_replacing_a_row_changes_nothing_before_its_batch():
    (task,) = [one for one in tasks_of(site_plan(10)) if one.names == ("site",)]
    X, y = rows(N, D, 0)
    other = X.copy()
    other[57] = -other[57]
    for part, same in ((slice(0, 50), True), (slice(0, 60), False)):
        states = [
            advance(initial_state(D), task, checked_chunk(task.names, x[part], y[part], np.arange(part.stop)), rng)
            for x, rng in ((X, np.random.default_rng(4)), (other, np.random.default_rng(4)))
        ]
        assert (states[0].weights == states[1].weights).all() == same


def test_mixed_batches_draw_once_for_each_site_and_equal_the_reference():
    """Shuffled together: a batch has one draw for each site with rows in it, whatever their number."""
    noises = (uneven.SitePrivacy(3.0), uneven.SitePrivacy(0.5), uneven.LocalPrivacy(4.0), uneven.Exact())
    problem, (X, y) = uneven.Problem(D, 0.1, 6), rows(60, D, 5)
    moments = tuple(noise.moment("upper", problem) for noise in noises)
    task = Task(problem, ("a", "b", "c", "d"), noises, moments, Rate(4.0))
    group = np.random.default_rng(6).integers(4, size=60)
    group[:6] = 0  # a batch of one site only
    chunk = checked_chunk(task.names, X, y, np.arange(60), group)
    rngs = np.random.default_rng(7), np.random.default_rng(7)
    compiled = advance(initial_state(D), task, chunk, rngs[0])
    expected = advance(initial_state(D), task, chunk, rngs[1], reference.advance)
    np.testing.assert_allclose(compiled.weights, expected.weights, rtol=1e-10)
    assert compiled.clock == pytest.approx(expected.clock, rel=1e-12)
    assert rngs[0].bit_generator.state == rngs[1].bit_generator.state
    first = advance(initial_state(D), task, checked_chunk(task.names, X[:6], y[:6], range(6), group[:6]), rngs[0])
    assert 1.0 / first.clock == pytest.approx(moments[0].at(6))


def test_sources_of_other_batch_sizes_run_in_one_plan():
    """The compiled run and the reference agree, and every source is used in batches of its own size."""
    plan = site_plan()
    assert plan.batch_sizes["other"] == 50 != plan.batch_sizes["site"]
    data = {source.name: rows(source.rows, D, k) for k, source in enumerate(plan.sources)}
    fits = [uneven.fit(plan, data, seed=1, backend=one) for one in uneven.engine.BACKENDS.values()]
    np.testing.assert_allclose(fits[0].weights, fits[1].weights, rtol=1e-9)
    assert fits[0].state.step == plan.steps
    other = site_plan(20)
    swept = uneven.sweep([plan, other, plan], data, runs=2, seed=1)  # they differ in batches: not one team
    np.testing.assert_array_equal(swept.weights[0], swept.weights[2])
    np.testing.assert_allclose(swept.weights[0, 0], fits[0].weights, rtol=1e-12)
