"""Panels that go beyond the paper: its strategies and ours on the same rows, in the same order, at the same ε.

beyond     the two-rates panel again, with ours beside it, and rules of thumb
ablation   what each idea does alone, and what is lost without it
sources    more and more sources, each noisier than the one before
harder     both sources far noisier than in the paper
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from uneven.experiments.panel import (
    ALPHA,
    BATCH_SIZE,
    CLEAN,
    EPSILON_CLEAN,
    NOISY,
    SHARES,
    Case,
    Counts,
    Panel,
    as_published,
    laplace,
)
from uneven.experiments.two_rates import EPSILONS
from uneven.noise import LocalPrivacy
from uneven.planner import STRATEGIES, Plan, Source, plan

CLIP = STRATEGIES["precision"].private_clip
"""The usual clip under privacy."""

OURS: dict[str, Any] = {
    "strategy": "precision",
    "moments": "auto",
    "radius": "tight",
    "clip": CLIP,
    "mechanism": "privunit",
}
THEIRS: dict[str, Any] = {
    "strategy": "two-rates",
    "moments": "upper",
    "radius": "paper",
    "clip": None,
    "mechanism": "l2-laplace",
}

ABLATION_EPSILONS = (1.0, 3.0, 10.0)
MANY = {"first": (0.1, 10.0), "second": (0.2, 3.0), "third": (0.3, 1.0), "fourth": (0.4, 0.3)}
"""Share and ε of each source of the sources panel."""

HARDER = {CLEAN: 1.0, NOISY: 0.1}
WIDE_EPSILONS = (1.0, 10.0)


def private_plan(
    epsilons: Mapping[str, float], rows: Mapping[str, int], n_features: int, mechanism: str, **options: Any
) -> Plan:
    """Plan for private sources, with the paper's λ and b."""
    sources = [Source(name, rows[name], LocalPrivacy(epsilon, mechanism)) for name, epsilon in epsilons.items()]
    return plan(sources, n_features, ALPHA, BATCH_SIZE, **options)


def beyond(dataset: str, counts: Counts, n_features: int) -> Panel:
    """The two-rates panel with ours beside it, and with two rules of thumb: drop what is noisy, or noise all alike."""
    rows, cases = counts(SHARES), []
    for epsilon in EPSILONS:
        both, strictest = {CLEAN: EPSILON_CLEAN, NOISY: epsilon}, {CLEAN: epsilon, NOISY: epsilon}
        cases += [
            Case("Algorithm2", epsilon, as_published(rows, n_features, "two-rates", epsilon)),
            Case("Strictest ε", epsilon, as_published(rows, n_features, "arbitrary", epsilon, laplace(epsilon))),
            Case("uneven", epsilon, private_plan(both, rows, n_features, **OURS)),
            Case("uneven, strictest ε", epsilon, private_plan(strictest, rows, n_features, **OURS)),
        ]
    cases += [
        Case("CleanOnly", math.nan, as_published(rows, n_features, "clean-only", 1.0)),
        Case("uneven, clean only", math.nan, private_plan({CLEAN: EPSILON_CLEAN}, rows, n_features, **OURS)),
    ]
    return Panel(f"beyond-{dataset}", dataset, "ε_N", tuple(cases))


def ablation(dataset: str, counts: Counts, n_features: int) -> Panel:
    """Each idea added to Algorithm 2 alone, and each taken away from all together."""
    rows = counts(SHARES)
    alone: dict[str, dict[str, Any]] = {
        "Algorithm2": {},
        "+ privunit": {"mechanism": "privunit"},
        "+ clipping": {"clip": CLIP},
        "+ tight radius": {"radius": "tight"},
        "+ precision clock": {"strategy": "precision", "moments": "auto", "average": "last"},
        "+ averaging": {"average": "late"},
    }
    without: dict[str, dict[str, Any]] = {
        "uneven": {},
        "− privunit": {"mechanism": "l2-laplace"},
        "− clipping": {"clip": None},
        "− tight radius": {"radius": "paper"},
        "− clock's offset": {"moments": "upper"},
        "− averaging": {"average": "last"},
        "with estimated moments": {"estimate": True},
    }
    cases = []
    for epsilon in ABLATION_EPSILONS:
        epsilons = {CLEAN: EPSILON_CLEAN, NOISY: epsilon}
        for base, variants in ((THEIRS, alone), (OURS, without)):
            for name, change in variants.items():
                options: dict[str, Any] = {**base, **change}
                how = {key: options.pop(key) for key in ("average", "estimate") if key in options}
                cases.append(Case(name, epsilon, private_plan(epsilons, rows, n_features, **options), **how))
    return Panel(f"ablation-{dataset}", dataset, "ε_N", tuple(cases))


def sources(dataset: str, counts: Counts, n_features: int) -> Panel:
    """One source, then two, three and four, each noisier than those before."""
    shares = {name: share for name, (share, _) in MANY.items()}
    rows, cases = counts(shares), []
    for used in range(1, len(MANY) + 1):
        epsilons = {name: epsilon for name, (_, epsilon) in list(MANY.items())[:used]}
        cases += [
            Case("Algorithm2", float(used), private_plan(epsilons, rows, n_features, **THEIRS)),
            Case("uneven", float(used), private_plan(epsilons, rows, n_features, **OURS)),
        ]
    return Panel(f"sources-{dataset}", dataset, "sources", tuple(cases), shares=shares)


def harder(dataset: str, counts: Counts, n_features: int) -> Panel:
    """ε_C = 1 and ε_N = 0.1."""
    cases = _both(HARDER[CLEAN], [HARDER[NOISY]], counts, n_features)
    return Panel(f"harder-{dataset}", dataset, "ε_N", tuple(cases))


def wide(dataset: str, counts: Counts, n_features: int) -> Panel:
    """MNIST without projection."""
    return Panel("wide-mnist", dataset, "ε_N", tuple(_both(EPSILON_CLEAN, WIDE_EPSILONS, counts, n_features)))


def _both(clean: float, epsilons: Sequence[float], counts: Counts, n_features: int) -> list[Case]:
    """The paper's method and ours, on both sources and on the clean one alone."""
    rows, cases = counts(SHARES), []
    for label, options in (("Algorithm2", THEIRS), ("uneven", OURS)):
        cases += [
            Case(label, noisy, private_plan({CLEAN: clean, NOISY: noisy}, rows, n_features, **options))
            for noisy in epsilons
        ]
        only = "CleanOnly" if label == "Algorithm2" else "uneven, clean only"
        cases.append(Case(only, math.nan, private_plan({CLEAN: clean}, rows, n_features, **options)))
    return cases
