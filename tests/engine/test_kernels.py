"""The compiled loops where they differ from the reference: sparse rows over many steps, estimates, what they refuse."""

import numpy as np
import pytest
from problems import rows
from scipy import sparse
from test_backends import NOISES, SCHEDULES, D, chunk, task

import uneven
from uneven import noise as noises
from uneven.engine import Average, State, Task, advance, checked_chunk, codes, initial_state, kernels
from uneven.losses import LOSSES
from uneven.schedules import Averaged, Precision, Rate


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_every_loss_is_compiled_with_its_own_slope(loss):
    """Both are a few roundings from the truth; near 0 too, where a slope of e^{-m} keeps its relative precision."""
    margins = np.concatenate([np.linspace(-30, 30, 601), [1.0, np.nextafter(1.0, 0.0), 700.0, -700.0]])
    assert loss.name in codes.LOSS_CODES, f"{loss.name!r} has no code: see docs/add-a-loss.md"
    compiled = [kernels.compute_raw_slope(codes.LOSS_CODES[loss.name], m) for m in margins]
    np.testing.assert_allclose(compiled, loss.slope(margins), rtol=1e-14)


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
    with pytest.raises(ValueError, match=r"y of source 'a' must have shape \(33,\)"):
        checked_chunk(("a",), X, np.ones(50), np.arange(33))


def test_a_state_is_read_only_and_its_own():
    state = initial_state(3, twin=True)
    for values in (state.weights, state.average, state.twin):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1.0
    assert State(np.zeros(4)).average.shape == (4,)
