"""How far floats move a release: less than the proof in ``docs/theory.md`` allows, against 60 digits."""

import numpy as np
import pytest
from exactly import Exact, Kept, exact, exact_math
from releases import compiled_sum

from uneven import LocalPrivacy, SitePrivacy
from uneven.noise import directions, grid, privacy
from uneven.noise.directions import CAP, UNIFORM
from uneven.noise.privacy import REACH

DIMENSIONS = [1, 2, 3, 5, 25, 784]
EPSILONS = [1e-3, 1.0, 10.0, 50.0]


def hard_rows(d, rng):
    """Gradients whose direction is hard on floats: along an axis, nearly so, tiny, with subnormal entries, any."""
    axis, near, subnormal, some = np.eye(d)[-1], 1e-9 * rng.normal(size=d), np.full(d, 5e-324), rng.normal(size=d)
    near[0] = -1.0
    subnormal[0] = 1e-139
    some /= np.linalg.norm(some)
    return [axis, near / np.linalg.norm(near), some, 1e-130 * some, subnormal]


def computed(noise, rows, draws, monkeypatch, ways=(), method="release_sum"):
    """What is released of the rows before it is rounded; by direction, with the given outcomes of `choose`."""
    left = iter(ways)
    with monkeypatch.context() as patch:
        patch.setattr(privacy, "choose", lambda *_: next(left))
        patch.setattr(grid, "round_to_grid", lambda *_: None)
        patch.setattr(grid, "round_rows", lambda released, *_: released)
        return np.ravel(getattr(noise, method)(np.array(rows), 1.0, draws))


def exact_directions(rows, ways, how, draws, monkeypatch):
    """The same by direction, from the same source in exact arithmetic."""
    d = len(rows[0])
    total, scratch, step, radius = exact(np.zeros(d)), exact(np.zeros(d)), Exact(1.0) / how.mean, Exact(0.0)
    with monkeypatch.context() as patch:
        patch.setattr(directions, "math", exact_math)
        for row, way in zip(map(exact, rows), ways, strict=True):
            if way == UNIFORM:
                radius = directions.walk(d, radius, step, draws)
            elif way == CAP:
                unit = Exact(1.0) / exact_math.sqrt(sum(row * row))
                directions.add_from_cap(total, row, unit, step, Exact(how.height), Exact(how.share), scratch, draws)
        directions.add_uniform(total, radius, scratch, draws)
    return total


def exact_laplace(row, epsilon, draws):
    """g + R·Z/‖Z‖, R ~ Gamma(d, 2/ε)."""
    square = Exact(0.0)
    while square < directions.SHORT * len(row):
        z = draws.standard_normal(len(row))
        square = sum(z * z)
    return exact(row) + z * (draws.standard_gamma(len(row)) * 2.0 / epsilon / exact_math.sqrt(square))


def exact_mixture(rows, epsilon, draws):
    """Sum of the rows + √W·Z, W ~ 8/ε²·Gamma."""
    scale = exact_math.sqrt(draws.standard_gamma(None) * 8.0) / epsilon
    return sum(map(exact, rows)) + scale * draws.standard_normal(len(rows[0]))


def check(moves, cell, slack, least=2e-4):
    """2‖e‖₁/g is within what is set aside of ε, and what is set aside is not out of all proportion."""
    worst = 2.0 * max(float(sum(abs(truth - one))) for one, truth in moves) / cell
    assert least * slack < worst <= slack


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("mechanism", ["quiet", "privunit"])
def test_a_direction_is_as_exact_as_the_proof_needs(d, epsilon, mechanism, monkeypatch):
    noise, rng, moves = LocalPrivacy(epsilon, mechanism), np.random.default_rng(0), []
    for row in hard_rows(d, rng) * (1 if d > 100 else 6):
        for way in (CAP, UNIFORM):
            draws = Kept(rng, extreme=0.25 if d < 25 else 0.01)
            one = computed(noise, [row], draws, monkeypatch, [way])
            moves.append((one, exact_directions([row], [way], noise.calibration(d), draws.again(), monkeypatch)))
    # In one dimension a release is ±1/m, which a lucky m makes exact.
    check(moves, grid.width(noise.grid(d, 1.0), 1), grid.slack(d, epsilon), 2e-4 if d > 1 else -1.0)


@pytest.mark.parametrize("d", [2, 3, 25])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("rows", [2, 30])
def test_a_sum_of_directions_is_as_exact_as_the_proof_needs(d, epsilon, rows, monkeypatch):
    """Also where directions from the whole sphere nearly cancel; interpreted, and compiled with the same draws."""
    noise, rng, interpreted, compiled = LocalPrivacy(epsilon), np.random.default_rng(0), [], []
    how, cell, slack = noise.calibration(d), grid.width(noise.grid(d, 1.0), rows), grid.slack(d, epsilon)
    for seed in range(60 // rows):
        batch = [hard_rows(d, rng)[i] for i in rng.integers(0, 5, rows)]
        ways = rng.choice([CAP, UNIFORM, UNIFORM], rows)
        draws = Kept(rng, extreme=0.25)
        one = computed(noise, batch, draws, monkeypatch, ways)
        interpreted.append((one, exact_directions(batch, ways, how, draws.again(), monkeypatch)))
        draws = Kept(np.random.default_rng(seed))
        computed(noise, batch, draws, monkeypatch, ways)
        one = compiled_sum(how, np.array(batch), ways, seed)
        compiled.append((one, exact_directions(batch, ways, how, draws.again(), monkeypatch)))
    for moves in (interpreted, compiled):
        check(moves, cell, slack, 5e-5)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_sum_in_one_dimension_is_a_whole_number_of_steps(epsilon):
    noise, rng = LocalPrivacy(epsilon), np.random.default_rng(0)
    step, rows = Exact(1.0) / noise.calibration(1).mean, np.ones((200, 1))
    sums = [compiled_sum(noise.calibration(1), rows, rng.choice([CAP, UNIFORM], 200), seed) for seed in range(20)]
    moves = [(one, exact([round(float(one[0]) / float(step))]) * step) for one in sums]
    check(moves, grid.width(noise.grid(1, 1.0), 200), grid.slack(1, epsilon), -1.0)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", [lambda epsilon: LocalPrivacy(epsilon, "l2-laplace"), SitePrivacy])
def test_added_noise_is_as_exact_as_the_proof_needs(d, epsilon, kind, monkeypatch):
    """Row by row and as a sum, with noise as long as the proof allows for."""
    noise, rng, single, sums, rows = kind(epsilon), np.random.default_rng(0), [], [], 5
    set_aside = grid.slack(d, epsilon, REACH)
    used = epsilon - set_aside
    for row in hard_rows(d, rng):
        draws = Kept(rng, extreme=0.01, stretch=REACH)
        one = computed(noise, [row], draws, monkeypatch, method="release")
        single.append((one, exact_laplace(row, used, draws.again())))
        batch, draws = hard_rows(d, rng), Kept(rng, extreme=0.01, stretch=REACH**2)
        sums.append((computed(noise, batch, draws, monkeypatch), exact_mixture(batch, used, draws.again())))
    for moves, m in ((single, 1), (sums, rows)):
        check(moves, grid.width(noise.grid(d, 1.0), m) + noise.batch_grid(d, 1.0), set_aside, 1e-5)
