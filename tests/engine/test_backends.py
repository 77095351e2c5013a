"""What every backend must do: the contract of `uneven.engine.Backend`. To test one, add it to `BACKENDS` there."""

from dataclasses import replace

import numpy as np
import pytest
from problems import Rounded, rows, two_sources
from scipy import sparse

import uneven
from uneven import noise as noises
from uneven.engine import BACKENDS, Average, Task, advance, checked_chunk, compiled, initial_state, reference
from uneven.engine.rows import find_limit
from uneven.losses import LOSSES
from uneven.schedules import AVERAGES, Anytime, Averaged, MatrixClock, Precision, Rate

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
    noises.SitePrivacy(4.0),
    noises.FlippedLabels((0.3, 0.05)),
    noises.LocalPrivacy(4.0, "l2-laplace") & noises.FlippedLabels((0.3, 0.05)),
    noises.LocalPrivacy(4.0, "privunit") & noises.FlippedLabels(0.2),
    noises.LocalPrivacy(4.0) & noises.FlippedLabels((0.3, 0.05)),
    noises.SitePrivacy(4.0) & noises.FlippedLabels(0.2),
    noises.AdditiveNoise(2.0) & noises.FlippedLabels((0.3, 0.05)),
]
SCHEDULES = [Rate(4.0), Precision(0.1), Precision(0.1, offset=30.0), Averaged(0.3), Anytime(2.0)]
# Weights are sums of at most 33·D products of order 1, in another order: a few hundred roundings of 1e-16.
CLOSE = {"rtol": 1e-10, "atol": 1e-12}
K = 4
CONFUSION = ((0.8, 0.1, 0.05, 0.05), (0.1, 0.7, 0.1, 0.1), (0.0, 0.2, 0.8, 0.0), (0.1, 0.1, 0.1, 0.7))
CLASS_NOISES = [*NOISES[:4], NOISES[5], NOISES[7], NOISES[9], noises.FlippedLabels(CONFUSION)]

backends = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)


def task(noise=NOISES[1], schedule=SCHEDULES[0], *, loss="logistic", batch_size=7, clip=None, average="last", **more):
    problem = uneven.Problem(D, 0.1, batch_size, loss, clip=clip)
    answer = Average(average, 3.0, last_share=0.3)
    return Task(problem, ("a",), (noise,), (noise.moment("upper", problem),), schedule, answer, **more)


def chunk(n=33, seed=0, dtype=np.float32):
    X, y = rows(n, D, seed, dtype)
    return checked_chunk(("a",), X, y, np.arange(n))


def task_of_classes(kinds, schedule, clip, class_weights=()):
    problem = uneven.Problem(K * D, 0.1, 7, clip=clip, classes=K, class_weights=class_weights)
    moments = tuple(noise.moment("upper", problem) for noise in kinds)
    return Task(problem, ("a", "b")[: len(kinds)], kinds, moments, schedule, Average("growing", 0.0, 0.3))


def chunk_of_classes(group=None):
    y = np.random.default_rng(5).integers(K, size=33).astype(np.float64)
    names = ("a",) if group is None else ("a", "b")
    return checked_chunk(names, rows(33, D)[0], y, np.arange(33), group, classes=K)


def thin_chunk():
    part, rng = chunk(), np.random.default_rng(3)
    thin = sparse.csr_array(np.where(rng.random(part.X.shape) < 0.4, part.X, 0))
    return checked_chunk(("a",), thin, part.y, np.arange(33))


def both(backend, what, part, state=None, seed=9):
    """State by the backend and by the reference."""
    start = initial_state(D, twin=True) if state is None else state
    rngs = np.random.default_rng(seed), np.random.default_rng(seed)
    states = backend(start, what, part, rngs[0]), reference.advance(start, what, part, rngs[1])
    assert rngs[0].bit_generator.state == rngs[1].bit_generator.state  # the same draws, no more and no fewer
    return states


def assert_same(state, expected, **close):
    for name in ("weights", "clock", "step_size", "average", "average_weight"):
        np.testing.assert_allclose(getattr(state, name), getattr(expected, name), err_msg=name, **(close or CLOSE))
    assert (state.step, state.last_share) == (expected.step, expected.last_share)
    if expected.twin is not None:
        np.testing.assert_allclose(state.twin, expected.twin, err_msg="twin", **(close or CLOSE))
    assert (state.silent, state.released) == (expected.silent, expected.released)
    assert state.estimates.keys() == expected.estimates.keys()
    for name in expected.estimates:
        np.testing.assert_allclose(state.estimates[name], expected.estimates[name], **(close or CLOSE))


def assert_right_or_refused(backend, what, part):
    """What a backend cannot compute, it refuses; the reference can compute everything."""
    try:
        backend(initial_state(D), what, part, np.random.default_rng(0))
    except ValueError:
        assert backend is not reference.advance
    else:
        assert_same(*both(backend, what, part, initial_state(D)))


# 1. The reference defines the result.


@backends
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_same_for_every_loss_noise_schedule_and_average(backend, loss, noise, schedule):
    for average in AVERAGES:
        assert_same(*both(backend, task(noise, schedule, loss=loss, average=average), chunk()))


@backends
@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("batch_size", [1, 7, 11, 33, 100])  # a short last batch at 7, one larger than the rows at 100
def test_same_for_every_batch_size(backend, noise, batch_size):
    assert_same(*both(backend, task(noise, batch_size=batch_size), chunk()))


@backends
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("estimate", [False, True])
@pytest.mark.parametrize("clip", [None, 0.3, 5.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_averages_estimates_and_clips(backend, average, estimate, clip, dtype):
    what = task(NOISES[1], SCHEDULES[2], average=average, estimate=estimate, clip=clip)
    assert_same(*both(backend, what, chunk(dtype=dtype)))


@backends
@pytest.mark.parametrize("noise", [NOISES[0], NOISES[1], NOISES[7], NOISES[10], NOISES[13]], ids=repr)
@pytest.mark.parametrize("clip", [None, 0.3])
def test_same_with_class_weights(backend, noise, clip):
    what = task(noise, clip=clip)
    what = replace(what, problem=replace(what.problem, class_weights=(0.2, 1.0)))
    assert_same(*both(backend, what, chunk()))


@backends
@pytest.mark.parametrize("noise", [NOISES[1], NOISES[7]], ids=repr)
def test_same_from_any_state(backend, noise):
    start = replace(
        initial_state(D, twin=True),
        weights=np.full(D, 0.4),
        step=17,
        clock=5.0,
        average=np.full(D, 0.2),
        average_weight=2.0,
        last_share=0.1,
        estimates={"a": (3.0, 2.0), "b": (1.0, 1.0)},
        silent={"a": 4, "b": 1},
        released={"a": 9, "b": 3},
    )
    assert_same(*both(backend, task(noise, average="growing", estimate=True), chunk(), start))


@backends
@pytest.mark.parametrize("noise", CLASS_NOISES, ids=repr)
@pytest.mark.parametrize("schedule", [Precision(0.1), Averaged(0.3)], ids=repr)
@pytest.mark.parametrize(("clip", "class_weights"), [(None, ()), (0.5, ()), (0.5, (0.2, 1.0, 0.5, 0.8))])
def test_same_for_more_than_two_classes(backend, noise, schedule, clip, class_weights):
    what = task_of_classes((noise,), schedule, clip, class_weights)
    assert_same(*both(backend, what, chunk_of_classes(), initial_state(K * D, twin=True)))


@backends
def test_same_for_more_than_two_classes_shuffled_together(backend):
    what = task_of_classes((noises.LocalPrivacy(4.0), noises.FlippedLabels(0.1)), Precision(0.1), 0.5)
    part = chunk_of_classes(np.random.default_rng(0).integers(2, size=33))
    assert_same(*both(backend, what, part, initial_state(K * D, twin=True)))


@backends
@pytest.mark.parametrize("noise", [NOISES[0], NOISES[2], NOISES[10], NOISES[3]], ids=repr)
@pytest.mark.parametrize("clip", [None, 0.5])
def test_same_for_rows_whose_mean_square_is_bounded(backend, noise, clip):
    """Single rows may be longer than 1, and are clipped only where a clip was asked for."""
    what = task(noise, SCHEDULES[2], average="growing")
    what = replace(what, problem=replace(what.problem, norms="rms", clip=clip))
    X, y = rows(33, D, dtype=np.float64)
    X *= np.random.default_rng(0).pareto(3.0, size=(33, 1)) + 0.1
    X /= np.sqrt((X**2).sum(axis=1).mean())
    assert np.linalg.norm(X, axis=1).max() > 2
    for form in (np.asarray, sparse.csr_array)[: 1 if noise.is_mixture else 2]:  # noise that fills rows: not sparse
        part = checked_chunk(("a",), form(X), y, np.arange(33), limit=find_limit(what.problem))
        assert_same(*both(backend, what, part, initial_state(D)))


@backends
def test_same_where_the_ball_is_left(backend):
    what = task(noises.AdditiveNoise(500.0), Averaged(100.0))
    state, expected = both(backend, what, chunk())
    assert np.linalg.norm(expected.weights) == pytest.approx(what.problem.ball)
    assert_same(state, expected)


@backends
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_same_for_sources_shuffled_together(backend, schedule):
    problem = uneven.Problem(D, 0.1, 7)
    seven = (*NOISES[1:4], noises.LocalPrivacy(2.0, "privunit"), noises.LocalPrivacy(3.0), NOISES[13], NOISES[14])
    moments = tuple(noise.moment("upper", problem) for noise in seven)
    mixed = Task(problem, tuple("abcdefg"), seven, moments, schedule)
    part = chunk()._replace(group=np.random.default_rng(0).integers(7, size=33))
    fast, slow = both(backend, mixed, part)
    assert_same(fast, slow)
    assert fast.released.keys() == fast.silent.keys() == {"d", "e", "f"}
    assert fast.silent["d"] == 0 < fast.silent["e"] < fast.released["e"]


@backends
def test_silent_rows_are_counted_from_stretch_to_stretch(backend):
    """Counts of two stretches add, and other sources' stay; a noise that is never silent by nature counts nothing."""
    what, state = task(noises.LocalPrivacy(4.0)), replace(initial_state(D), silent={"b": 1}, released={"b": 3})
    rng = np.random.default_rng(0)
    once = advance(state, what, chunk(), rng, backend)
    twice = advance(once, what, chunk(), rng, backend)
    assert once.released == {"a": 33, "b": 3}
    assert twice.released == {"a": 66, "b": 3}
    assert 0 < once.silent["a"] < twice.silent["a"] < 66
    assert twice.silent["b"] == 1
    assert advance(initial_state(D), task(NOISES[1]), chunk(), rng, backend).released == {}


@backends
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("noise", [NOISES[0], NOISES[2]], ids=repr)
@pytest.mark.parametrize("schedule", [*SCHEDULES, Rate(10.0)], ids=repr)  # Rate(10): the first step forgets everything
@pytest.mark.parametrize("average", AVERAGES)
def test_same_for_sparse_rows(backend, loss, noise, schedule, average):
    what = task(noise, schedule, loss=loss, average=average, estimate=True, clip=0.4)
    assert_same(*both(backend, what, thin_chunk(), initial_state(D)))


@backends
def test_gradients_that_cancel_are_counted_once(backend):
    """Coordinates whose sum passes through 0 within a batch: the estimate of ‖G‖² must not see them twice."""
    X, y = np.full((3, 1), 0.5) * np.eye(1, D), np.array([1.0, -1.0, 1.0])
    what = task(NOISES[0], SCHEDULES[2], loss="linear", batch_size=3, estimate=True)
    part = checked_chunk(("a",), sparse.csr_array(X), y, np.arange(3))
    assert_same(*both(backend, what, part, initial_state(D)))


@backends
def test_same_for_a_noise_that_only_the_reference_knows(backend):
    assert_same(*both(backend, task(Rounded()), chunk()))


@backends
def test_a_whole_fit_by_any_backend(backend):
    sources, data = two_sources(noises.LocalPrivacy(5.0), noises.FlippedLabels(0.2))
    plan = uneven.plan(sources, 4, batch_size=9)
    states = [uneven.fit(plan, data, seed=0, twin=True, **how).state for how in ({}, {"backend": backend})]
    assert_same(*states)


# 2. Deterministic given the generator. 3. Rows in the order given, the last batch short. 4. State in, state out.


@backends
@pytest.mark.parametrize("noise", [*NOISES, Rounded()], ids=repr)
def test_the_same_generator_gives_the_same_bits(backend, noise):
    one, two, other = (
        backend(initial_state(D), task(noise), chunk(), np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.weights, two.weights)
    drawn = noise not in (noises.Exact(), noises.AdditiveNoise(0.0)) and not isinstance(noise, noises.FlippedLabels)
    assert (one.weights != other.weights).all() == drawn


@backends
def test_the_order_of_rows_matters_and_a_short_batch_is_last(backend):
    part, what = chunk(), task(NOISES[0])
    turned = part._replace(X=part.X[::-1].copy(), y=part.y[::-1].copy(), squares=part.squares[::-1].copy())
    ends = [backend(initial_state(D), what, rows_, np.random.default_rng(0)) for rows_ in (part, turned)]
    assert ends[0].step == 5  # 33 rows in batches of 7: four full ones and one of 5
    assert np.abs(ends[0].weights - ends[1].weights).max() > 1e-3


@backends
@pytest.mark.parametrize("cut", [7, 14, 28])
@pytest.mark.parametrize("form", ["dense", "sparse", "silent"])
def test_a_chunk_cut_between_batches_leads_to_the_same_state(backend, cut, form):
    noise = {"dense": NOISES[1], "sparse": NOISES[2], "silent": NOISES[7]}[form]
    what, part = task(noise, average="late", estimate=True), thin_chunk() if form == "sparse" else chunk()
    whole = backend(initial_state(D), what, part, np.random.default_rng(1))
    state, rng = initial_state(D), np.random.default_rng(1)
    for some in (slice(cut), slice(cut, None)):
        state = backend(state, what, checked_chunk(("a",), part.X[some], part.y[some], np.arange(33)[some]), rng)
    # Sparse weights are a scale times a vector, and a cut multiplies them out: to rounding, not to the bit.
    assert_same(state, whole, **(CLOSE if form == "sparse" else {"rtol": 0.0}))


@backends
def test_what_goes_in_is_left_alone(backend):
    start, part = initial_state(D, twin=True), chunk()
    copies = [np.array(values) for values in part]
    backend(start, task(average="growing"), part, np.random.default_rng(0))
    assert start.step == 0
    for values in (start.weights, start.average, start.twin):
        np.testing.assert_array_equal(values, np.zeros(D))
    for values, copy in zip(part, copies, strict=True):
        np.testing.assert_array_equal(values, copy)


@backends
def test_the_chunks_memory_may_be_used_again(backend):
    part, what = chunk(), task(average="growing")
    state = backend(initial_state(D, twin=True), what, part, np.random.default_rng(0))
    before = [values.copy() for values in (state.weights, state.average, state.twin)]
    part.X[:], part.y[:] = 0.0, 1.0
    for values, copy in zip((state.weights, state.average, state.twin), before, strict=True):
        np.testing.assert_array_equal(values, copy)


# 6. Bad rows never get to a backend; what it cannot compute, it refuses.


def never(*_):
    raise AssertionError("a backend was given rows that are not fit for use")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.full(33, 1000.0)}, "labels of source 'a' must be -1 or 1, got 1000"),
        ({"y": np.full(33, np.nan)}, "labels of source 'a' must be -1 or 1, got nan"),
        ({"y": np.ones(32)}, r"y of source 'a' must have shape \(33,\)"),
        ({"X": np.full((33, D), np.nan)}, "X of source 'a' must be finite"),
        ({"X": np.full((33, D), 1.0)}, "rows of source 'a' must lie in the unit ball, got norm 2.23607 in row 0"),
        ({"X": np.zeros((33, 4))}, "rows must have 5 features, got 4"),
        ({"group": np.ones(33, int)}, "group must be left out for one source"),
    ],
)
def test_bad_rows_are_refused_before_any_backend(change, message):
    with pytest.raises(ValueError, match=message):
        advance(initial_state(D), task(), chunk()._replace(**change), np.random.default_rng(0), never)
    with pytest.raises(ValueError, match="state must have weights and average of 5 features, got 9 and 9"):
        advance(initial_state(9), task(), chunk(), np.random.default_rng(0), never)


@backends
def test_norms_that_lie_let_no_longer_gradient_through(backend):
    """The cap on slopes, and privacy with it, rests on the squared norms of a chunk."""
    honest = checked_chunk(("a",), np.eye(1, D), np.ones(1), np.arange(1))
    lied, true = (
        advance(initial_state(D), task(clip=0.1), part, np.random.default_rng(0), backend)
        for part in (honest._replace(squares=np.zeros(1)), honest)
    )
    np.testing.assert_array_equal(lied.weights, true.weights)


@backends
@pytest.mark.parametrize("noise", [NOISES[1], NOISES[3], NOISES[5]], ids=repr)
def test_sparse_rows_with_noise_in_every_coordinate_are_right_or_refused(backend, noise):
    assert_right_or_refused(backend, task(noise), thin_chunk())


@backends
@pytest.mark.parametrize("noise", [*NOISES[:2], *NOISES[5:]], ids=repr)
@pytest.mark.parametrize("shape", ["none", "diagonal", "matrix"])
def test_same_by_the_matrix_clock(backend, noise, shape):
    """A step per coordinate, an L2 term that may be any matrix, and no ball."""
    rng = np.random.default_rng(2)
    root = rng.normal(size=(D, D))
    clock = MatrixClock(tuple(rng.lognormal(size=D)), tuple(rng.lognormal(size=D) / 4), longest=2.0)
    penalty = {"none": None, "diagonal": np.abs(root[0]), "matrix": root @ root.T / 10}[shape]
    what = task(noise, clock, clip=0.5, penalty=penalty)
    state = replace(initial_state(D), weights=rng.normal(size=D))
    assert_same(*both(backend, what, chunk(), state))


def test_a_matrix_clock_of_one_curvature_is_the_precision_clock():
    """h = λ and v = R²/d is Theorem C's clock with the offset 1/(λR)², where no step is cut and no ball is left."""
    problem, lam, radius = uneven.Problem(D, 0.1, 7, clip=0.5), 0.1, 2.0
    noise = noises.LocalPrivacy(6.0)
    moments = (noise.moment("variance", problem),)
    clocks = MatrixClock((radius**2 / D,) * D, (lam,) * D, 1e9), Precision(lam, (lam * radius) ** -2)
    states = [
        advance(initial_state(D), Task(problem, ("a",), (noise,), moments, one), chunk(), np.random.default_rng(0))
        for one in clocks
    ]
    assert np.linalg.norm(states[0].weights) < problem.ball
    assert_same(*states)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_a_gradient_that_is_only_measured_is_that_of_the_reference(noise):
    what, state = task(noise, clip=0.5), replace(initial_state(D), weights=np.linspace(-1.0, 1.0, D))
    ours, theirs = (
        one.measure_gradient(state, what, chunk(), np.random.default_rng(4)) for one in (compiled, reference)
    )
    np.testing.assert_allclose(ours[0], theirs[0], **CLOSE)
    assert ours[1].silent == theirs[1].silent
    np.testing.assert_array_equal(ours[1].weights, state.weights)
