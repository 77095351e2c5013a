"""Audits: never above the stated ε, close to it where it is attained, and above it where there is a flaw."""

import math

import flawed
import numpy as np
import pytest
from scipy import stats

from uneven import AdditiveNoise, LocalPrivacy, Problem, SitePrivacy
from uneven.audit import DRAWN_BY, audit, audit_all
from uneven.audit.drawing import draw_by_engine, draw_by_release
from uneven.audit.events import bound_log_ratio, find_best_event
from uneven.engine import chunks

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("hits", "others"), [(0, 5), (10, 0), (400, 13), (1000, 1000), (1000, 3)])
def test_bound_is_that_of_clopper_and_pearson(hits, others):
    low = stats.binomtest(hits, 1000).proportion_ci(0.99, "exact").low
    high = stats.binomtest(others, 1000).proportion_ci(0.99, "exact").high
    expected = math.log(low / high) if low > 0 else -math.inf
    assert bound_log_ratio(hits, others, 1000, 0.99) == pytest.approx(expected, rel=1e-9)


def test_event_with_the_best_ratio_is_found():
    """Laplace noise at -1 and 1: beyond 1 the ratio is e^ε, and there is no likelier event with it than z ≥ 1."""
    rng = np.random.default_rng(0)
    one, other = (g + rng.laplace(scale=1.0, size=200_000) for g in (1.0, -1.0))
    score, event = find_best_event("z", one, other, 200_000, 0.99)
    assert 1.8 < score < 2.0
    sign = -1 if event.swapped else 1
    assert event.above != event.swapped
    assert 0.7 < sign * event.threshold < 1.5
    swapped_score, swapped = find_best_event("z", other, one, 200_000, 0.99)
    assert (swapped_score, swapped.threshold) == (score, event.threshold)
    assert swapped.swapped != event.swapped


def test_choosing_costs_no_confidence():
    """A release that tells nothing has ε = 0: bounds at 80% are above it in at most 20% of audits."""
    runs = 80
    wrong = sum(audit(flawed.TellsNothing(1e-6), 2, draws=4_000, confidence=0.8, seed=i).violated for i in range(runs))
    assert wrong <= runs * 0.2 + 4 * math.sqrt(runs * 0.2 * 0.8)


def test_what_was_looked_at_does_not_count():
    """All that the first half of the draws gives away is not there in the second."""
    assert audit(flawed.Exhausted(10**9), 2, draws=24_000, seed=0).violated
    assert not audit(flawed.Exhausted(12_000), 2, draws=24_000, seed=0).violated


def test_bounds_hold_where_the_ratio_is_attained():
    """In one dimension an event has exactly the ratio e^ε: bounds at 80% are above ε in at most 20% of audits."""
    runs, noise = 80, LocalPrivacy(2.0, "l2-laplace")
    bounds = np.array([audit(noise, 1, draws=10_000, confidence=0.8, seed=i).bound for i in range(runs)])
    assert (bounds > 2.0).sum() <= runs * 0.2 + 4 * math.sqrt(runs * 0.2 * 0.8)
    assert 1.6 < np.median(bounds) < 2.0


@pytest.mark.parametrize("drawn_by", ["release", "engine"])
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_l2_laplace_attains_its_epsilon_in_low_dimensions(drawn_by, d, epsilon):
    found = audit(LocalPrivacy(epsilon, "l2-laplace"), d, drawn_by=drawn_by, seed=0)
    assert 0.8 < found.share <= 1
    assert found.verdict == "no flaw found"


@pytest.mark.parametrize("d", [1, 2, 5, 25])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_privunit_attains_its_epsilon(d, epsilon):
    compiled = audit(LocalPrivacy(epsilon, "privunit"), d, drawn_by="engine", seed=0)
    assert 0.8 < compiled.share <= 1


@pytest.mark.parametrize("d", [2, 25])
def test_privunit_as_sites_draw_it(d):
    assert 0.8 < audit(LocalPrivacy(3.0, "privunit"), d, draws=30_000, seed=0).share <= 1


@pytest.mark.parametrize("d", [1, 2, 25])
@pytest.mark.parametrize("epsilon", [1.5, 3.0])
def test_quiet_attains_its_epsilon(d, epsilon):
    found = audit(LocalPrivacy(epsilon), d, drawn_by="engine", seed=0)
    assert 0.8 < found.share <= 1
    assert audit(LocalPrivacy(epsilon), d, draws=30_000, seed=0).share <= 1


@pytest.mark.parametrize("mechanism", ["l2-laplace", "privunit", "quiet"])
@pytest.mark.parametrize("drawn_by", ["release", "engine"])
def test_a_smaller_norm_changes_nothing(mechanism, drawn_by):
    """Noise scales with C, and so do the inputs: a row of norm 1 is clipped by the engine itself."""
    draws = 40_000 if mechanism != "l2-laplace" and drawn_by == "release" else 400_000
    found = audit(LocalPrivacy(2.0, mechanism), 2, clip=0.25, draws=draws, drawn_by=drawn_by, seed=0)
    assert found.clip == 0.25
    assert 0.8 < found.share <= 1


@pytest.mark.parametrize("mechanism", ["l2-laplace", "privunit", "quiet"])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_the_engine_releases_what_it_is_given(mechanism, clip):
    """The mean of releases is the input, in units of C, within five standard errors; and not 0.9 of it."""
    problem, rng = Problem(3, 1e-3, 1, clip=clip), np.random.default_rng(0)
    for draw in (
        draw_by_engine(LocalPrivacy(6.0, mechanism), problem),
        draw_by_release(LocalPrivacy(6.0, mechanism), problem),
    ):
        for v in ([0.0, 1.0, 0.0], [0.3, 0.0, -0.4], [0.0, 0.0, 0.0]):
            z = draw(np.array(v), 20_000, rng)
            error = z.std(axis=0) / math.sqrt(len(z))
            assert (np.abs(z.mean(axis=0) - v) < 5 * error).all()
            assert np.abs(z.mean(axis=0) - 0.9 * np.array(v)).max() > 5 * error.max() or not any(v)


def test_all_together_share_the_confidence():
    found = audit_all(("l2-laplace",), (1.0,), (1, 2), draws=20_000, seed=3)
    assert [(one.drawn_by, one.n_features) for one in found] == [
        ("release", 1), ("engine", 1), ("release", 2), ("engine", 2)
    ]  # fmt: skip
    assert {one.confidence for one in found} == {1 - 0.01 / 4}
    alone = audit(LocalPrivacy(1.0, "l2-laplace"), 2, draws=20_000, confidence=1 - 0.01 / 4, seed=3)
    assert alone.to_dict() | {"seconds": 0} == found[2].to_dict() | {"seconds": 0}


def test_without_a_seed_draws_differ():
    one, two = (audit(LocalPrivacy(1.0, "l2-laplace"), 1, draws=5_000) for _ in range(2))
    assert one.bound != two.bound


@pytest.mark.parametrize(
    ("noise", "options", "words"),
    [
        (AdditiveNoise(1.0), {}, "states no epsilon per row"),
        (LocalPrivacy(1.0), {"draws": 10}, "draws must be a whole number of at least 1000, got 10"),
        (LocalPrivacy(1.0), {"confidence": 1.0}, "confidence must be a number in"),
        (LocalPrivacy(1.0), {"drawn_by": "hand"}, "drawn_by must be one of"),
        (LocalPrivacy(1.0), {"clip": -1}, "clip must be"),
        (LocalPrivacy(1.0), {"seed": -1}, "seed must be"),
        (flawed.TooLittle(1.0), {"drawn_by": "engine"}, "no compiled form"),
        (flawed.WrongShape(1.0), {}, "release of mechanism WrongShape must return one row .* got shape"),
        (flawed.TooLittle(-1.0), {}, "epsilon_per_row of the noise must be a positive"),
    ],
)
def test_bad_input(noise, options, words):
    with pytest.raises(ValueError, match=words) as refused:
        audit(noise, 2, **options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("drawn_by", DRAWN_BY)
def test_neighbouring_batches_of_a_site_show_its_epsilon_and_no_more(drawn_by):
    found = audit(SitePrivacy(2.0), 1, draws=40_000, drawn_by=drawn_by, clip=0.5, seed=0)
    assert 0.9 < found.share <= 1
    assert found.mechanism == "site-privacy"


@pytest.mark.parametrize("drawn_by", DRAWN_BY)
def test_half_the_noise_of_batches_is_found(drawn_by):
    """Sensitivity C instead of 2C."""
    assert audit(flawed.HalfTheSensitivity(2.0), 1, draws=40_000, drawn_by=drawn_by, seed=0).violated


@pytest.mark.parametrize("where", ["_permuted", "_shuffled"])
@pytest.mark.parametrize("order", [flawed.order_with_one_row_twice, flawed.order_by_label])
def test_flaws_of_the_split_are_found(monkeypatch, order, where):
    """Planted in the engine's own splitter, of rows in memory or of a stream: the true ε is twice what is stated."""
    monkeypatch.setattr(chunks, where, getattr(flawed, where)(order))
    assert audit(SitePrivacy(2.0), 1, draws=40_000, drawn_by="engine", seed=0).violated
