"""What a panel of the paper's figure is: methods, each with a plan for each value of what varies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from uneven.noise import Exact, LocalPrivacy, Noise
from uneven.planner import Plan, Source, plan

CLEAN, NOISY = "clean", "noisy"
SHARES = {CLEAN: 0.1, NOISY: 0.9}
"""Shares of the rows of the clean and of the noisy source: the paper's β_C = 0.1."""

ALPHA, BATCH_SIZE, EPSILON_CLEAN = 1e-3, 50, 10.0
"""The paper's λ, b and ε_C."""


Counts = Callable[[Mapping[str, float]], Mapping[str, int]]
"""From shares to rows of each source."""


@dataclass(frozen=True)
class Case:
    """One point of a panel.

    Attributes
    ----------
    method : str
        As the paper calls it.
    x : float
        Value of what varies; NaN for a method that it makes no difference to.
    plan : Plan
    average : str
        Which iterates the answer is made of, as `uneven.fit` has it.
    estimate : bool
        Whether moments are learned on the way.
    """

    method: str
    x: float
    plan: Plan
    average: str = "auto"
    estimate: bool = False


@dataclass(frozen=True)
class Panel:
    """One panel: its cases, and what a reader of the picture needs to know.

    Attributes
    ----------
    name : str
    dataset : str
    varies : str
        What x is.
    cases : tuple of Case
    twin : bool
        Whether to run each case's noise-free twin beside it.
    marks : dict of str to float
        Values of x to mark.
    shares : dict of str to float
        Share of the rows that each source has.
    """

    name: str
    dataset: str
    varies: str
    cases: tuple[Case, ...]
    twin: bool = False
    marks: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=lambda: dict(SHARES))


def two_sources(rows: Mapping[str, int], clean: Noise, noisy: Noise) -> list[Source]:
    """The clean and the noisy source."""
    return [Source(CLEAN, rows[CLEAN], clean), Source(NOISY, rows[NOISY], noisy)]


def laplace(epsilon: float) -> LocalPrivacy:
    """The paper's noise."""
    return LocalPrivacy(epsilon, "l2-laplace")


def as_published(
    rows: Mapping[str, int], n_features: int, strategy: str, epsilon_noisy: float, clean: Noise | None = None
) -> Plan:
    """Plan with the paper's settings: its λ, b, ε_C, noise and radius, and Γ from its Theorem 1."""
    sources = two_sources(rows, clean or laplace(EPSILON_CLEAN), laplace(epsilon_noisy))
    return plan(sources, n_features, ALPHA, BATCH_SIZE, strategy=strategy, moments="upper", radius="paper")


def without_noise(rows: Mapping[str, int], n_features: int) -> Plan:
    """The paper's gold standard: the raw rows, shuffled together, with c = 1/λ."""
    sources = two_sources(rows, Exact(), Exact())
    return plan(sources, n_features, ALPHA, BATCH_SIZE, strategy="arbitrary", radius="paper")
