"""The compiled loops against the reference, from the same generator: every loss, noise, schedule, batch and average."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from problems import rows
from scipy import sparse

import uneven
from uneven import noise as noises
from uneven.engine import Average, State, Task, advance, checked_chunk, initial_state, reference
from uneven.engine.state import AVERAGES
from uneven.losses import LOSSES
from uneven.schedules import Averaged, Precision, Rate

D = 5
NOISES = [
    noises.Exact(),
    noises.LocalPrivacy(4.0, "l2-laplace"),
    noises.FlippedLabels(0.2),
    noises.AdditiveNoise(2.0),
    noises.AdditiveNoise(0.0),
    noises.LocalPrivacy(4.0, "privunit"),
    noises.LocalPrivacy(0.5, "privunit"),
    noises.LocalPrivacy(4.0, "quiet"),
    noises.LocalPrivacy(1.5, "quiet", activity=0.1),
]
SCHEDULES = [Rate(4.0), Precision(0.1), Precision(0.1, offset=30.0), Averaged(0.3)]
# Weights are sums of at most 33·D products of order 1, in another order: a few hundred roundings of 1e-16.
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def task(noise=NOISES[1], schedule=SCHEDULES[0], *, loss="logistic", batch_size=7, clip=None, average="last", **more):
    problem = uneven.Problem(D, 0.1, batch_size, loss, clip=clip)
    return Task(problem, ("a",), (noise,), (noise.moment("upper", problem),), schedule, Average(average, 3.0), **more)


def chunk(n=33, seed=0, dtype=np.float32):
    X, y = rows(n, D, seed, dtype)
    return checked_chunk(("a",), X, y, np.arange(n))


def both(what, part, state=None, seed=9):
    start = initial_state(D, twin=True) if state is None else state
    rngs = np.random.default_rng(seed), np.random.default_rng(seed)
    fast = advance(start, what, part, rngs[0])
    X = part.X.toarray() if sparse.issparse(part.X) else part.X
    slow = reference.advance(start, what, X.astype(float), part.y, part.group, rngs[1])
    assert rngs[0].bit_generator.state == rngs[1].bit_generator.state  # the same draws, no more and no fewer
    return fast, slow


def assert_same(fast, slow):
    for name in ("weights", "clock", "step_size", "average", "average_weight"):
        np.testing.assert_allclose(getattr(fast, name), getattr(slow, name), err_msg=name, **CLOSE)
    assert fast.step == slow.step
    if slow.twin is not None:
        np.testing.assert_allclose(fast.twin, slow.twin, err_msg="twin", **CLOSE)
    assert (fast.silent, fast.released) == (slow.silent, slow.released)
    assert fast.estimates.keys() == slow.estimates.keys()
    for name in slow.estimates:
        np.testing.assert_allclose(fast.estimates[name], slow.estimates[name], **CLOSE)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("batch_size", [1, 7, 11, 33, 100])  # a short last batch at 7, one larger than the rows at 100
def test_same_weights(loss, noise, schedule, batch_size):
    assert_same(*both(task(noise, schedule, loss=loss, batch_size=batch_size), chunk()))


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("estimate", [False, True])
@pytest.mark.parametrize("clip", [None, 0.3, 5.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_averages_estimates_and_clips(average, estimate, clip, dtype):
    what = task(NOISES[1], SCHEDULES[2], average=average, estimate=estimate, clip=clip)
    assert_same(*both(what, chunk(dtype=dtype)))


def test_same_from_any_state():
    start = replace(
        initial_state(D, twin=True),
        weights=np.full(D, 0.4),
        step=17,
        clock=5.0,
        average=np.full(D, 0.2),
        average_weight=2.0,
    )
    assert_same(*both(task(average="growing"), chunk(), start))


def test_projection_bites_in_both():
    what = task(noises.AdditiveNoise(500.0), Averaged(100.0))
    fast, slow = both(what, chunk())
    assert np.linalg.norm(slow.weights) == pytest.approx(what.problem.ball)
    assert_same(fast, slow)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_same_for_sources_shuffled_together(schedule):
    problem = uneven.Problem(D, 0.1, 7)
    five = (*NOISES[1:4], noises.LocalPrivacy(2.0, "privunit"), noises.LocalPrivacy(3.0))
    moments = tuple(noise.moment("upper", problem) for noise in five)
    mixed = Task(problem, ("a", "b", "c", "d", "e"), five, moments, schedule)
    part = chunk()._replace(group=np.random.default_rng(0).integers(5, size=33))
    fast, slow = both(mixed, part)
    assert_same(fast, slow)
    assert fast.released.keys() == fast.silent.keys() == {"d", "e"}
    assert fast.silent["d"] == 0 < fast.silent["e"] < fast.released["e"]


def test_silent_rows_are_counted_from_stretch_to_stretch():
    """Counts of two stretches add, and other sources' stay; a noise that is never silent by nature counts nothing."""
    what, state = task(noises.LocalPrivacy(4.0)), replace(initial_state(D), silent={"b": 1}, released={"b": 3})
    rng = np.random.default_rng(0)
    once = advance(state, what, chunk(), rng)
    twice = advance(once, what, chunk(), rng)
    assert once.released == {"a": 33, "b": 3}
    assert twice.released == {"a": 66, "b": 3}
    assert 0 < once.silent["a"] < twice.silent["a"] < 66
    assert twice.silent["b"] == 1
    assert advance(initial_state(D), task(NOISES[1]), chunk(), rng).released == {}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("noise", [NOISES[0], NOISES[2]], ids=repr)
@pytest.mark.parametrize("schedule", [*SCHEDULES, Rate(10.0)], ids=repr)  # Rate(10): the first step forgets everything
@pytest.mark.parametrize("average", AVERAGES)
def test_same_for_sparse_rows(loss, noise, schedule, average):
    part, rng = chunk(), np.random.default_rng(3)
    thin = sparse.csr_array(np.where(rng.random(part.X.shape) < 0.4, part.X, 0))
    what = task(noise, schedule, loss=loss, average=average, estimate=True, clip=0.4)
    assert_same(*both(what, checked_chunk(("a",), thin, part.y, np.arange(33)), initial_state(D)))


def many_steps(d, n, b, radius_of, schedule, **options):
    """Dense and sparse runs of the same thin rows."""
    X, y = rows(n, d, seed=4)
    thin = np.where(np.random.default_rng(5).random(X.shape) < 0.1, X, 0).astype(np.float32)
    problem = uneven.Problem(d, radius_of, b)
    exact = noises.Exact()
    what = Task(problem, ("a",), (exact,), (exact.moment("upper", problem),), schedule, Average("growing"), **options)
    return what, [
        advance(initial_state(d), what, checked_chunk(("a",), rows_, y, np.arange(n)), np.random.default_rng(0))
        for rows_ in (thin, sparse.csr_array(thin))
    ]


@pytest.mark.parametrize("rate", [1000.0, 3000.0])
def test_sparse_rows_keep_their_precision_over_many_steps(rate):
    """Two thousand batches through one lazily scaled vector, against the dense loop."""
    _, (dense, thin) = many_steps(40, 20_000, 10, 1e-3, Rate(rate))
    np.testing.assert_allclose(thin.weights, dense.weights, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(thin.average, dense.average, rtol=1e-7, atol=1e-9)


def test_projection_bites_for_sparse_rows_too():
    what, (dense, thin) = many_steps(40, 200, 10, 0.1, Averaged(1e4))
    assert np.linalg.norm(dense.weights) == pytest.approx(what.problem.ball)
    np.testing.assert_allclose(thin.weights, dense.weights, rtol=1e-9)


def test_empty_rows_at_a_large_rate_stay_in_the_ball():
    """The scale of the lazy vector swings widely where nothing but the L2 term acts."""
    X, y = rows(305, 5, seed=1)
    X[:300] = 0
    problem, exact = uneven.Problem(5, 0.1, 1), noises.Exact()
    what = Task(problem, ("a",), (exact,), (exact.moment("upper", problem),), Rate(1e4))
    ends = [
        advance(initial_state(5), what, checked_chunk(("a",), form, y, np.arange(305)), None)
        for form in (sparse.csr_array(X),)
    ]
    assert np.linalg.norm(ends[0].weights) <= problem.ball * (1 + 1e-9)


def test_gradients_that_cancel_are_counted_once():
    """Coordinates whose sum passes through 0 within a batch: the estimate of ‖G‖² must not see them twice."""
    X, y = np.full((3, 1), 0.5) * np.eye(1, D), np.array([1.0, -1.0, 1.0])
    what = task(NOISES[0], SCHEDULES[2], loss="linear", batch_size=3, estimate=True)
    assert_same(*both(what, checked_chunk(("a",), sparse.csr_array(X), y, np.arange(3)), initial_state(D)))


def test_estimates_of_short_batches_stand_for_full_ones():
    """400 chunks of 5 rows where the batch is 50: the mean of ‖G‖² is what a full batch would have."""
    problem, noise = uneven.Problem(3, 0.1, 50), noises.AdditiveNoise(50.0)
    what = Task(problem, ("a",), (noise,), (noise.moment("upper", problem),), Precision(0.1), estimate=True)
    X, y = rows(2_000, 3)
    state, rng = initial_state(3), np.random.default_rng(0)
    for i in range(0, 2_000, 5):
        state = advance(state, what, checked_chunk(("a",), X[i : i + 5], y[i : i + 5], np.arange(5)), rng)
    total, count = state.estimates["a"]
    assert count == 400
    # ‖Z‖² is a multiple of chi²(3): relative error √(2/3)/√400. The stated fixed part (about 1.6) is scaled too.
    short, full = noise.second_moment(problem, rows=5)[1], noise.second_moment(problem, rows=50)[1]
    assert total / count == pytest.approx(10.0 * full / short, rel=4 * np.sqrt(2 / 3) / 20)


@pytest.mark.parametrize("noise", [NOISES[1], NOISES[3], NOISES[5]], ids=repr)
def test_sparse_rows_are_refused_where_noise_fills_them(noise):
    part = chunk()
    with pytest.raises(ValueError, match=r"rows of source 'a' must be dense: .* fills every coordinate"):
        advance(initial_state(D), task(noise), part._replace(X=sparse.csr_array(part.X)), np.random.default_rng(0))


def test_the_twin_of_sparse_rows_is_refused():
    part = chunk()
    with pytest.raises(ValueError, match="twin must be False for sparse rows"):
        advance(initial_state(D, twin=True), task(NOISES[0]), part._replace(X=sparse.csr_array(part.X)), None)


@dataclass(frozen=True)
class Rounded(noises.Noise):
    """A noise the compiled loops do not know: each coordinate rounded at random to a multiple of a third."""

    kind: ClassVar[str] = "rounded"

    def row_energy(self, problem):
        return problem.gradient_norm**2 + problem.n_features / 36

    def release(self, gradients, bound, rng):
        return np.floor(3 * gradients + rng.random(gradients.shape)) / 3


def test_a_noise_without_compiled_form_runs_by_the_reference():
    assert_same(*both(task(Rounded()), chunk()))


def test_privacy_does_not_rest_on_a_chunk_being_honest():
    """Labels other than ±1 or false norms would let a longer gradient through."""
    X, y = np.eye(1, D), np.ones(1)
    honest = checked_chunk(("a",), X, y, np.arange(1))
    with pytest.raises(ValueError, match="labels of source 'a' must be -1 or 1, got 1000"):
        advance(initial_state(D), task(), honest._replace(y=1000 * y), np.random.default_rng(0))
    lied = advance(initial_state(D), task(clip=0.1), honest._replace(squares=np.zeros(1)), np.random.default_rng(0))
    true = advance(initial_state(D), task(clip=0.1), honest, np.random.default_rng(0))
    np.testing.assert_array_equal(lied.weights, true.weights)


def test_a_row_cannot_pass_for_another_sources():
    """Group numbers decide which noise a row gets: none may be missing or out of range."""
    problem = uneven.Problem(D, 0.1, 7)
    two = (noises.Exact(), noises.LocalPrivacy(0.01))
    mixed = Task(problem, ("open", "private"), two, tuple(n.moment("upper", problem) for n in two), SCHEDULES[0])
    X, y = rows(33, D)
    for group in (None, np.zeros(5, int), np.full(33, 2), np.full(33, -1), np.zeros(33)):
        with pytest.raises(ValueError, match="group must say which of the 2 sources each row is of"):
            checked_chunk(mixed.names, X, y, np.arange(33), group)
    with pytest.raises(ValueError, match="group must be left out for one source"):
        checked_chunk(("a",), X, y, np.arange(33), np.ones(33, int))
    with pytest.raises(ValueError, match="group must be left out for one source"):
        advance(initial_state(D), task(), chunk()._replace(group=np.ones(33, int)), np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"y of source 'a' must have shape \(33,\)"):
        checked_chunk(("a",), X, np.ones(50), np.arange(33))


def test_shapes_that_do_not_fit_are_refused():
    part = chunk()
    with pytest.raises(ValueError, match="state must have weights and average of 5 features, got 9 and 9"):
        advance(initial_state(9), task(), part, np.random.default_rng(0))
    with pytest.raises(ValueError, match="rows must have 5 features, got 4"):
        advance(initial_state(D), task(), part._replace(X=part.X[:, :4]), np.random.default_rng(0))


def test_a_state_is_read_only_and_its_own():
    state = initial_state(3, twin=True)
    for values in (state.weights, state.average, state.twin):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1.0
    assert State(np.zeros(4)).average.shape == (4,)


def test_state_in_is_left_alone():
    start = initial_state(D, twin=True)
    advance(start, task(average="growing"), chunk(), np.random.default_rng(0))
    assert start.step == 0
    for values in (start.weights, start.average, start.twin):
        np.testing.assert_array_equal(values, np.zeros(D))


@pytest.mark.parametrize("cut", [7, 14, 28])
def test_a_chain_of_stretches_is_the_whole(cut):
    """State in, state out: cut between batches, anywhere, and nothing changes, not even the last bit."""
    what, part = task(average="late", estimate=True), chunk()
    rng = np.random.default_rng(1)
    whole = advance(initial_state(D), what, part, np.random.default_rng(1))
    first, second = (
        checked_chunk(("a",), part.X[s], part.y[s], np.arange(33)[s]) for s in (slice(cut), slice(cut, None))
    )
    chained = advance(advance(initial_state(D), what, first, rng), what, second, rng)
    np.testing.assert_array_equal(chained.weights, whole.weights)
    np.testing.assert_array_equal(chained.average, whole.average)
    assert chained.estimates == whole.estimates
