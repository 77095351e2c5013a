"""Planted flaws: each is found, and found only where it is."""

import math
from dataclasses import dataclass, replace

import flawed
import numpy as np
import pytest

from uneven import LocalPrivacy
from uneven.audit import audit

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("d", [1, 5])
@pytest.mark.parametrize("drawn_by", ["release", "engine"])
def test_silence_that_comes_too_often_is_caught(d, drawn_by):
    """υ and with it p₀ 10% too low: a direction off the cap, or silence, tells more than it should."""
    draws = 4_000_000 if drawn_by == "engine" else 200_000
    found = audit(flawed.SilentTooOften(2.0), d, drawn_by=drawn_by, draws=draws, seed=0)
    assert found.violated


@pytest.mark.parametrize("d", [1, 5])
def test_silence_forgotten_for_short_rows_is_caught(d):
    found = audit(flawed.ShortRowsSpeak(2.0), d, draws=40_000, seed=0)
    assert found.violated
    assert found.event.startswith(("silence", "length <"))


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_noise_scaled_too_low_is_caught(d, epsilon):
    found = audit(flawed.TooLittle(epsilon), d, seed=0)
    assert epsilon < found.bound <= epsilon / 0.8
    assert found.verdict == "VIOLATION"


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_a_flaw_of_six_percent_is_caught(epsilon):
    """True ε 6% above the stated one: the bound lies between the two, and any bound above ε is a violation."""
    found = audit(flawed.TooLittle(epsilon, 1 / 1.06), 1, seed=0)
    assert epsilon < found.bound <= 1.06 * epsilon
    assert found.violated
    assert found.verdict == "VIOLATION"
    assert replace(found, bound=1.001 * epsilon).violated
    assert not replace(found, bound=epsilon).violated


@pytest.mark.parametrize("d", [2, 5])
def test_laplace_on_each_coordinate_is_caught(d):
    """Its true ε is √d times what it states; in one dimension it is what it states, and passes."""
    found = audit(flawed.EachCoordinate(1.0), d, seed=0)
    assert 1.0 < found.bound <= math.sqrt(d)
    assert found.pair == "opposite on the diagonal"
    assert not audit(flawed.EachCoordinate(1.0), 1, seed=0).violated


def test_a_zero_that_shows_is_caught():
    found = audit(flawed.Silent(1.0), 3, draws=100_000, seed=0)
    assert found.violated
    assert found.pair == "one and nothing"


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("longest", [0.0, 0.6])
def test_values_that_are_not_finite_are_caught(d, value, longest):
    """Warnings are errors here: none is given."""
    assert audit(flawed.NotFinite(1.0, value, longest), d, draws=20_000, seed=0).violated


def test_not_being_finite_is_an_event_of_its_own():
    assert audit(flawed.InfiniteOrNaN(3.0), 2, draws=20_000, seed=0).violated
    rarely = audit(flawed.RarelyNaN(1.0), 2, draws=200_000, seed=0)
    assert rarely.violated
    assert rarely.event.startswith("infinite (1) or NaN (2) ≥")
    assert audit(flawed.AlwaysNaN(1.0), 2, draws=20_000, seed=0).bound == 0


def test_noise_for_the_wrong_norm_is_caught():
    assert audit(flawed.Unclipped(1.0), 1, seed=0).violated
    assert not audit(flawed.Unclipped(1.0), 1, clip=0.5, seed=0).violated


@dataclass(frozen=True)
class LooseInTheEngine(LocalPrivacy):
    """Released as stated by a site, with ε a quarter too large by the compiled loop."""

    def coefficients(self, problem):
        return LocalPrivacy(1.25 * self.epsilon, self.mechanism).coefficients(problem)


@dataclass(frozen=True)
class LooseWhenClipped(LocalPrivacy):
    """Compiled with noise for half of the norm that rows are clipped to."""

    def coefficients(self, problem):
        return super().coefficients(problem if problem.clip is None else replace(problem, clip=problem.clip / 2))


def test_the_engine_is_audited_with_its_clip():
    noise = LooseWhenClipped(1.0, "l2-laplace")
    assert audit(noise, 1, clip=0.5, drawn_by="engine", seed=0).violated
    assert not audit(noise, 1, drawn_by="engine", seed=0).violated


@pytest.mark.parametrize("mechanism", ["l2-laplace", "privunit", "quiet"])
def test_a_flaw_in_the_engine_alone_is_caught(mechanism):
    noise = LooseInTheEngine(1.0, mechanism)
    assert audit(noise, 2, drawn_by="engine", seed=0).violated
    draws = 1_000_000 if mechanism == "l2-laplace" else 50_000
    assert not audit(noise, 2, drawn_by="release", draws=draws, seed=0).violated
