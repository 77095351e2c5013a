"""One contract suite for every noise: unbiased, inside its stated moments, the same law in one draw or many.

A new noise is added to `NOISES`; nothing else here changes.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from uneven import (
    AdditiveNoise,
    Exact,
    FlippedLabels,
    LabelPrivacy,
    LocalPrivacy,
    Problem,
    SitePrivacy,
    Source,
    UnevenClassifier,
    plan,
)
from uneven.engine import Task, checked_chunk, compiled, initial_state, reference
from uneven.noise import Composed, noise_from_dict
from uneven.problem import RADII
from uneven.schedules import Rate

NOISES = [
    Exact(),
    LocalPrivacy(epsilon=4.0, mechanism="l2-laplace"),
    LocalPrivacy(epsilon=4.0, mechanism="privunit"),
    LocalPrivacy(epsilon=0.7, mechanism="privunit"),
    LocalPrivacy(epsilon=4.0, mechanism="quiet"),
    LocalPrivacy(epsilon=1.5, mechanism="quiet", activity=0.2),
    LocalPrivacy(epsilon=0.7, mechanism="quiet"),
    SitePrivacy(epsilon=4.0),
    SitePrivacy(epsilon=0.7),
    FlippedLabels(rate=0.0),
    FlippedLabels(rate=0.3),
    FlippedLabels(rate=(0.1, 0.35)),
    LabelPrivacy(epsilon=0.8),
    LabelPrivacy(epsilon=4.0),
    AdditiveNoise(variance=3.0),
    LocalPrivacy(epsilon=4.0, mechanism="l2-laplace") & FlippedLabels(rate=0.2),
    LocalPrivacy(epsilon=4.0, mechanism="privunit") & FlippedLabels(rate=(0.1, 0.35)),
    LocalPrivacy(epsilon=4.0) & FlippedLabels(rate=0.3),
    LocalPrivacy(epsilon=2.0) & FlippedLabels(rate=(0.3, 0.05)),
    SitePrivacy(epsilon=4.0) & FlippedLabels(rate=0.2),
    SitePrivacy(epsilon=0.7) & FlippedLabels(rate=(0.1, 0.35)),
    LabelPrivacy(epsilon=2.0) & FlippedLabels(rate=(0.1, 0.2)),
    AdditiveNoise(variance=3.0) & FlippedLabels(rate=0.2),
    AdditiveNoise(variance=3.0) & FlippedLabels(rate=(0.1, 0.35)),
]
PROBLEMS = [
    Problem(n_features=1, alpha=0.05, batch_size=1, radius="paper"),
    Problem(n_features=3, alpha=0.02, batch_size=4),
    Problem(n_features=5, alpha=0.05, batch_size=7, clip=0.5),
    Problem(n_features=3, alpha=0.1, batch_size=2, loss="hinge", radius="paper", clip=0.25),
    Problem(n_features=3, alpha=0.1, batch_size=3, loss="linear"),
]
DRAWS = 5_000

every_noise = pytest.mark.parametrize("noise", NOISES, ids=repr)
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"d{p.n_features}-{p.loss}")


def population(problem, seed=1):
    """Weights in the ball, and a few rows in the unit ball that stand for the distribution."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, problem.n_features))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12) * rng.uniform(1, 3, (40, 1))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=40) > 0, 1.0, -1.0)
    w = rng.normal(size=problem.n_features)
    return X, y, w * 0.7 * problem.ball / np.linalg.norm(w)


def gradients(noise, problem, X, y, w, seed=2, draws=DRAWS):
    """Noisy mini-batch gradients: rows drawn anew for each, labels as the noise would have them."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(len(y), size=(draws, problem.batch_size))
    return np.stack([noise.gradient(problem, w, X[i], noise.corrupt(y[i], rng), rng) for i in rows])


def clean_gradient(problem, X, y, w):
    """∇f of the population, by finite differences of the (capped) objective: no gradient code of ours."""
    cap = problem.gradient_norm / np.linalg.norm(X, axis=1)
    h = 1e-6

    def objective(w):
        return problem.alpha / 2 * w @ w + problem.loss_function.value(y * (X @ w), cap).mean()

    steps = h * np.eye(len(w))
    return np.array([(objective(w + e) - objective(w - e)) / (2 * h) for e in steps])


@every_noise
@every_problem
def test_unbiased_and_inside_the_stated_moments(noise, problem):
    X, y, w = population(problem)
    G = gradients(noise, problem, X, y, w)
    truth = clean_gradient(problem, X, y, w)

    error = G.std(axis=0) / np.sqrt(DRAWS)
    assert (np.abs(G.mean(axis=0) - truth) < 4.5 * error + 1e-7).all()  # 1e-7: the finite differences' own error

    lower, upper = noise.second_moment(problem)
    squares = (G**2).sum(axis=1)
    error = squares.std() / np.sqrt(DRAWS)
    assert lower - 4 * error <= squares.mean() <= upper + 4 * error

    spread = ((G - truth) ** 2).sum(axis=1)
    error = spread.std() / np.sqrt(DRAWS)
    rows = problem.batch_size
    assert spread.mean() <= noise.row_energy(problem) / rows + noise.batch_energy(problem) / rows**2 + 4 * error
    lengths = np.linalg.norm(noise.row_gradients(problem, w, X, y), axis=1) / noise.bound(problem)
    active = lengths.mean() <= getattr(noise.protection, "activity", np.inf)
    if active or noise.planned_energy(problem) == noise.row_energy(problem):
        assert spread.mean() <= noise.variance_bound(problem) + 4 * error


def worst_case(problem):
    """One row, misclassified for certain, and weights that point the wrong way: where ‖λw + ∇ℓ‖² = S."""
    x = np.eye(1, problem.n_features)
    return np.repeat(x, 3, axis=0), np.ones(3), -problem.ball * x[0]


@pytest.mark.parametrize(
    "noise", [n for n in NOISES if n.known_rate == 0.0 and not isinstance(n, LabelPrivacy)], ids=repr
)
@every_problem
def test_upper_moment_is_attained(noise, problem):
    """So the bound is not loose, and a noise drawn 10% too large or too small would be noticed."""
    squares = (gradients(noise, problem, *worst_case(problem)) ** 2).sum(axis=1)
    error = squares.std() / np.sqrt(DRAWS)
    _, upper = noise.second_moment(problem)
    # Logistic slopes at the ball's edge fall short of -1 by e^{-R}, here at most e^{-5}.
    slack = 2 * np.exp(-problem.ball) * upper if problem.loss == "logistic" else 0.0
    assert abs(squares.mean() - upper) < 4 * error + slack + 1e-12


@every_noise
@pytest.mark.parametrize("radius", RADII)
def test_moments_shrink_with_the_batch_as_stated(noise, radius):
    for clip in (None, 0.5):
        problem = Problem(n_features=10, alpha=0.01, batch_size=1, radius=radius, clip=clip)
        (low1, high1), (low9, high9) = noise.second_moment(problem, rows=1), noise.second_moment(problem, rows=9)
        assert 0 <= low9 <= high9 <= high1
        once = noise.batch_energy(problem)  # in 9 rows it is divided by 81
        assert (once > 0) == noise.once_a_batch
        assert low9 == pytest.approx((low1 - once) / 9 + once / 81)
        assert high9 - problem.signal == pytest.approx((high1 - problem.signal - once) / 9 + once / 81)
        alone = noise.variance_bound(problem, rows=1)
        assert noise.variance_bound(problem, rows=9) == pytest.approx((alone - once) / 9 + once / 81)


@every_noise
def test_clipping_scales_what_depends_on_the_gradient(noise):
    problem, clipped = (Problem(n_features=10, alpha=0.01, batch_size=1, clip=clip) for clip in (1.0, 0.5))
    added = getattr(noise.protection, "variance", 0.0)
    assert noise.row_energy(clipped) - added == pytest.approx((noise.row_energy(problem) - added) / 4)


@every_noise
def test_a_short_batch_is_divided_by_its_own_rows(noise):
    """Three rows where the batch size is 7: the mean over three, within standard error."""
    problem = PROBLEMS[2]
    X, y, w = (part[:3] if part.ndim and len(part) == 40 else part for part in population(problem))
    rng = np.random.default_rng(3)
    G = np.stack([noise.gradient(problem, w, X, noise.corrupt(y, rng), rng) for _ in range(DRAWS)])
    error = G.std(axis=0) / np.sqrt(DRAWS)
    truth = clean_gradient(problem, X, y, w)
    assert (np.abs(G.mean(axis=0) - truth) < 4.5 * error + 1e-7).all()


@every_noise
def test_round_trip_through_json(noise):
    assert noise_from_dict(json.loads(json.dumps(noise.to_dict()))) == noise


@every_noise
def test_privacy_is_stated_by_private_noises_only(noise):
    private = isinstance(noise.protection, LocalPrivacy | SitePrivacy | LabelPrivacy)
    assert noise.epsilon_per_row == (noise.protection.epsilon if private else None)
    assert (noise.promise is not None) == isinstance(noise.protection, LocalPrivacy | SitePrivacy)


@every_noise
def test_releasing_leaves_its_input_alone(noise):
    rows = np.full((4, 3), 0.1)
    rng = np.random.default_rng(0)
    noise.release(rows, 1.0, rng), noise.release_sum(rows, 1.0, rng)
    np.testing.assert_array_equal(rows, np.full((4, 3), 0.1))


@every_noise
def test_corrected_gradients_are_fully_active_only_where_the_losses_own_are(noise):
    """((1-l)·share + h)/(1 + h - l) for flip rates l and h: each row's corrected slope over the largest that it has."""
    labels = noise.observed
    assert labels.corrected_activity(1.0) == pytest.approx(1.0)
    high, low = labels.known_rate + abs(labels.skew), labels.known_rate - abs(labels.skew)
    found = [labels.corrected_activity(share) for share in (0.0, 0.5)]
    assert found == pytest.approx([high / (1 + high - low), (0.5 * (1 - low) + high) / (1 + high - low)])


T3 = ((0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.0, 0.2, 0.8))
T4 = ((0.7, 0.1, 0.1, 0.1), (0.0, 0.8, 0.2, 0.0), (0.1, 0.0, 0.9, 0.0), (0.25, 0.05, 0.1, 0.6))
PRIVATE = [*(LocalPrivacy(2.0, mechanism) for mechanism in ("quiet", "privunit", "l2-laplace")), SitePrivacy(2.0)]
SECOND = [None, LabelPrivacy(epsilon=1.5), *PRIVATE, AdditiveNoise(3.0)]
OF_CLASSES = [
    (classes, FlippedLabels(rate) if then is None else then & FlippedLabels(rate))
    for then in SECOND
    for classes, rate in ((3, 0.2), (3, T3), (4, 0.3), (4, T4))
]
of_classes = pytest.mark.parametrize(("classes", "noise"), OF_CLASSES, ids=str)


def confuse(noise, classes):
    """P(class j observed | class i), from what the noises say of themselves, one after the other."""
    labels = getattr(noise, "labels", noise)
    rate = labels.rate
    seen = np.array(rate) if isinstance(rate, tuple) else np.full((classes, classes), rate / (classes - 1))
    if not isinstance(rate, tuple):
        np.fill_diagonal(seen, 1.0 - rate)
    if isinstance(noise.protection, LabelPrivacy):
        odds = np.where(np.eye(classes) > 0, np.exp(noise.protection.epsilon), 1.0)
        seen = seen @ (odds / odds.sum(axis=1))
    return seen


@of_classes
def test_of_more_classes_gradients_are_unbiased_exactly_and_inside_their_bound(classes, noise):
    """Summed over what may be observed, not drawn: so a tolerance of float arithmetic."""
    rng, seen = np.random.default_rng(0), confuse(noise, classes)
    problem = Problem(n_features=3 * classes, alpha=0.02, batch_size=4, clip=0.5, classes=classes)
    X, w = rng.normal(size=(1, 3)) / 4.0, 3.0 * rng.normal(size=3 * classes)
    found = [noise.row_gradients(problem, w, X, np.array([j])) for j in range(classes)]
    for i in range(classes):
        truth = Exact().row_gradients(problem, w, X, np.array([i]))
        np.testing.assert_allclose(sum(p * g for p, g in zip(seen[i], found, strict=True)), truth, atol=1e-12)
    np.testing.assert_allclose(noise.confusion_of(classes), seen, atol=1e-12)
    np.testing.assert_allclose(noise.targets(classes), np.linalg.inv(seen), atol=1e-9)
    assert noise.amplification(classes) == pytest.approx(np.abs(np.linalg.inv(seen)).sum(axis=1).max())
    assert max(np.linalg.norm(g) for g in found) <= noise.bound(problem) * (1 + 1e-12)
    assert max(np.linalg.norm(g) for g in found) ** 2 <= noise.row_energy(problem) * (1 + 1e-12)


def make_task(noise, classes, batch_size=4):
    problem = Problem(n_features=3 * classes, alpha=0.02, batch_size=batch_size, clip=0.5, classes=classes)
    planned = noise.observed_among(classes)
    return Task(problem, ("a",), (planned,), (planned.moment("upper", problem),), Rate(4.0))


def make_state(task):
    weights = np.random.default_rng(3).normal(size=task.problem.n_features)
    return replace(initial_state(len(weights)), weights=weights)


@of_classes
def test_of_more_classes_compiled_loops_do_what_the_reference_does(classes, noise):
    """To the roundings of sums in another order, from the same draws: the reference never sees the coefficients."""
    task, rng = make_task(noise, classes), np.random.default_rng(0)
    assert task.noises[0].compiled(task.problem) is not None
    y = rng.integers(classes, size=30).astype(float)
    part, start = (
        checked_chunk(("a",), rng.normal(size=(30, 3)) / 4.0, y, np.arange(30), classes=classes),
        make_state(task),
    )
    both = compiled, reference
    steps = [how.advance(start, task, part, np.random.default_rng(1)).weights for how in both]
    np.testing.assert_allclose(*steps, rtol=1e-10, atol=1e-12)
    sums = [how.measure_gradient(start, task, part, np.random.default_rng(1))[0] for how in both]
    np.testing.assert_allclose(*sums, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("classes", "noise"), [one for one in OF_CLASSES if getattr(one[1], "then", None) in PRIVATE], ids=str
)
def test_of_more_classes_a_release_is_that_of_the_mechanism_for_the_longest_corrected_gradient(classes, noise):
    """No smaller, which would be less private than is charged, and no larger: 1.3 times either way would be seen.

    The length A and the corrected gradient are worked out here, from the inverse of what may be observed.
    """
    assert noise == noise.labels & noise.then == noise.then & noise.labels
    task, wrong = make_task(noise, classes, batch_size=1), np.linalg.inv(confuse(noise, classes))
    lengths, x, start = np.abs(wrong).sum(axis=1), np.array([[0.3, -0.2, 0.1]], np.float32), make_state(task)
    observed = int(lengths.argmax())
    rows = [Exact().row_gradients(task.problem, start.weights, x, np.array([j])) for j in range(classes)]
    gradient = sum(share * row for share, row in zip(wrong[observed], rows, strict=True))
    rng, part = np.random.default_rng(0), checked_chunk(("a",), x, np.array([float(observed)]), [0], classes=classes)
    found = np.stack([compiled.measure_gradient(start, task, part, rng)[0] for _ in range(DRAWS)])
    bound = lengths.max() * task.problem.gradient_norm
    expected = np.stack([task.noises[0].then.release_sum(gradient, bound, rng) for _ in range(DRAWS)])
    assert (np.abs(found.mean(axis=0) - gradient[0]) < 4.5 * found.std(axis=0) / np.sqrt(DRAWS)).all()
    energies = [((releases - gradient) ** 2).sum(axis=1) for releases in (found, expected)]
    error = np.hypot(*(one.std() / np.sqrt(DRAWS) for one in energies))
    for factor in (1.0 / 1.3, 1.0, 1.3):
        assert (abs(energies[0].mean() - factor**2 * energies[1].mean()) < 4.5 * error) == (factor == 1.0)


@of_classes
def test_more_flips_never_make_rows_worth_more(classes, noise):
    clean = noise.protection if isinstance(noise, Composed) else Exact()
    sources = [Source("flipped", 1_000, noise), Source("clean", 1_000, clean), Source("exact", 1_000)]
    worth = plan(sources, n_features=3, classes=classes, clip=0.5).exchange
    assert worth["flipped"] < worth["clean"]


@pytest.mark.parametrize("noise", [noise for _, noise in OF_CLASSES], ids=str)
def test_a_matrix_is_for_as_many_classes_as_it_has_rows(noise):
    rate = getattr(noise, "labels", noise).rate
    for classes in {2, 3, 4} - ({len(rate)} if isinstance(rate, tuple) else {2, 3, 4}):
        with pytest.raises(
            ValueError, match=f"rate must be one number or a matrix for {classes} classes, got a matrix"
        ):
            plan([Source("a", 1_000, noise)], n_features=3, classes=classes)


@of_classes
def test_a_model_of_more_classes_is_read_back(classes, noise, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(400, 3))
    y = (X @ rng.normal(size=(3, classes))).argmax(axis=1)
    clf = UnevenClassifier(noise, classes=list(range(classes)), row_norm=1.0, random_state=0).fit(X, y)
    assert clf.plan_.summary()
    assert clf.plan_.sensitivity()
    clf.save(tmp_path / "model.json")
    again = UnevenClassifier.load(tmp_path / "model.json")
    assert again.noise == noise
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
