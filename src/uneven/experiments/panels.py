"""Panels of experiments: methods, each with a plan for every value of what varies.

The three columns of the paper's figure:

order       does the order of the data matter? |f(w) - f(v)| against c, at ε_N = 3
two-rates   are two learning rates better than one? The final objective against ε_N
vary-c2     does noisy data always help? The final objective against c₂, with c₁ = 1/λ

Beyond the paper, its strategies and ours on the same rows, in the same order, at the same ε:

beyond      the two-rates panel with ours beside it, and rules of thumb
ablation    what each idea does alone, and what is lost without it
sources     more and more sources, each noisier than the one before
harder      sources far noisier than in the paper: what rows that learn the length of the weights bring
wide        MNIST without projection, and with a sketch
site        noise once per batch, for sites that their people trust, beside local privacy at the same ε
classes     more than two classes: one release of the softmax gradient, beside one-vs-rest at a share of ε each
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from uneven.noise import Exact, LocalPrivacy, Noise, SitePrivacy
from uneven.planner import Plan, Source, change_rates, find_rate_intervals, get_strategy, make_plan, plan
from uneven.settings import Settings
from uneven.training import choose_private_alpha, choose_width, keep_rows

CLEAN, NOISY = "clean", "noisy"
SHARES = {CLEAN: 0.1, NOISY: 0.9}
"""Shares of the rows of the clean and of the noisy source: the paper's β_C = 0.1."""

ALPHA, BATCH_SIZE, EPSILON_CLEAN = 1e-3, 50, 10.0
"""The paper's λ, b and ε_C."""

RATES = tuple(float(c) for c in np.geomspace(0.1, 10.0, 13) / ALPHA)
"""Values of c in the order panel: a log grid around 1/λ, which is its middle."""

EPSILONS = tuple(float(epsilon) for epsilon in range(1, 11))
"""Values of ε_N in the two-rates and the beyond panel."""

ORDER_EPSILON, VARY_C2_EPSILON = 3.0, {"mnist": 2.0, "covertype": 1.0}
OUTSIDE, INSIDE = 8, 7
"""Values of c₂ on each side of the interval and in it, its ends included."""

SAME_RATE = {"Clean": "same-rate-clean-first", "Noisy": "same-rate-noisy-first"}

CHOICES = ("strategy", "moments", "radius", "clip", "mechanism")
OURS: dict[str, Any] = dict(
    zip(CHOICES, ("precision", "auto", "tight", get_strategy("precision").private_clip, "quiet"), strict=True)
)
THEIRS: dict[str, Any] = dict(zip(CHOICES, ("two-rates", "upper", "paper", None, "l2-laplace"), strict=True))
"""What the classifier does by default under privacy, and what the paper does."""

ADDED: dict[str, dict[str, Any]] = {
    "Algorithm2": {},
    "+ privunit": {"mechanism": "privunit"},
    "+ quiet": {"mechanism": "quiet"},
    "+ clipping": {"clip": OURS["clip"]},
    "+ tight radius": {"radius": "tight"},
    "+ precision clock": {"strategy": "precision", "moments": "auto", "average": "last"},
    "+ averaging": {"average": "late"},
}
"""Each idea added to `THEIRS` alone."""

TAKEN_AWAY: dict[str, dict[str, Any]] = {
    "uneven": {},
    "− quiet": {"mechanism": "privunit"},
    "− quiet, − privunit": {"mechanism": "l2-laplace"},
    "− clipping": {"clip": None},
    "− tight radius": {"radius": "paper"},
    "− clock's offset": {"moments": "upper"},
    "− averaging": {"average": "last"},
    "with estimated moments": {"estimate": True},
}
"""Each idea taken away from `OURS`."""

ABLATION_EPSILONS = (1.0, 3.0, 10.0)
MANY = {"first": (0.1, 10.0), "second": (0.2, 3.0), "third": (0.3, 1.0), "fourth": (0.4, 0.3)}
"""Share and ε of each source of the sources panel."""

SKETCHES: dict[str, int | str] = {f"uneven, sketch {asked}": asked for asked in (64, 100, 256, "auto")}
"""Methods of the wide panel with a sketch, and what each asks for."""

FITS: dict[str, str | None] = {"a fit, no sketch": None, "a fit, sketch auto": "auto"}
"""Methods of the wide panel that do all that a fit without an intercept does, and the sketch that each asks for: alpha
is the fit's own and not the paper's λ, and rows are kept to learn the length of the weights."""

WIDE_EPSILONS = ((10.0, 1.0), (10.0, 10.0), (3.0, 3.0), (1.0, 1.0))
"""ε_C and ε_N of the settings of the wide panel, which are numbered from 0."""

HARDER_EPSILONS = ((10.0, 1.0), (3.0, 0.3), (1.0, 1.0), (1.0, 0.1), (0.3, 0.3), (0.1, 0.1))
"""ε_C and ε_N of the settings of the harder panel, which are numbered from 0."""

CHOSEN_ALONE = "uneven, sketch auto, clean only"
"""A sketch as wide as a fit of the clean source alone chooses."""

STEPS_ALONE = "uneven, steps alone"
"""Our method without rows that learn the length of the weights."""

SITE = "site privacy"
SITE_EPSILONS = ((10.0, 1.0), (1.0, 1.0), (1.0, 0.1))
"""ε_C and ε_N of the settings of the site panel, which are numbered from 0."""

NUMBERED = {"harder": HARDER_EPSILONS, "site": SITE_EPSILONS, "wide": WIDE_EPSILONS}
"""Panels whose settings are numbered, by kind."""

CLASSES = {"mnist-digits": 10, "covertype-types": 7}
"""Number of classes of the data sets of the classes panel."""

ONE_VS_REST, NO_NOISE = "one-vs-rest, ε/K each", "no noise"
CLASS_EPSILONS = (1.0, 3.0, 10.0)

WITH_AUC = ("harder", "wide", "classes")
"""Kinds of panel that measure AUC beside accuracy; for more than two classes the mean of each against the rest."""

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
        Value of what varies; NaN for a method that does not depend on it.
    plan : Plan
    average : str
        Which iterates the answer is made of, as `uneven.fit` has it.
    estimate : bool
        Whether moments are estimated during the run.
    one_vs_rest : bool
        Whether the plan is that of each class against the rest, in a panel of more than two classes.
    sketch : int
        Columns that rows are projected to before the run; 0 for none.
    """

    method: str
    x: float
    plan: Plan
    average: str = "auto"
    estimate: bool = False
    one_vs_rest: bool = False
    sketch: int = 0


@dataclass(frozen=True)
class Panel:
    """One panel: its cases, and what a reader of the figure needs to know.

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

    @property
    def auc(self) -> bool:
        """Whether AUC is measured beside accuracy."""
        return self.name.partition("-")[0] in WITH_AUC


def plan_sources(noises: Mapping[str, Noise], rows: Mapping[str, int], n_features: int, **options: Any) -> Plan:
    """Plan for sources of these noises, with the paper's λ and b."""
    sources = [Source(name, rows[name], noise) for name, noise in noises.items()]
    return plan(sources, n_features, ALPHA, BATCH_SIZE, **options)


def plan_private(
    epsilons: Mapping[str, float], rows: Mapping[str, int], n_features: int, mechanism: str, **options: Any
) -> Plan:
    """Plan for private sources, with the paper's λ and b."""
    noises = {name: LocalPrivacy(epsilon, mechanism) for name, epsilon in epsilons.items()}
    return plan_sources(noises, rows, n_features, **options)


def plan_fit(epsilons: Mapping[str, float], rows: Mapping[str, int], n_features: int) -> Plan:
    """Plan of a fit to private sources, with the alpha that it chooses and the rows that it keeps."""
    usual, steps = Settings(fit_intercept=False), plan_private(epsilons, rows, n_features, **OURS)
    alpha = choose_private_alpha(usual, steps.sources, steps.problem, ALPHA)
    return keep_rows(make_plan(steps.sources, replace(steps.problem, alpha=alpha), steps.strategy), usual)


def plan_as_published(
    rows: Mapping[str, int], n_features: int, strategy: str, epsilon: float, clean: float = EPSILON_CLEAN
) -> Plan:
    """Plan with the paper's settings at that ε_N: its λ, b, ε_C, noise and radius, and Γ from its Theorem 1."""
    return plan_private({CLEAN: clean, NOISY: epsilon}, rows, n_features, **{**THEIRS, "strategy": strategy})


def build_order(dataset: str, counts: Counts, n_features: int) -> Panel:
    """Column 1 of the paper's figure, for a data set of these rows and features."""
    cases, rows = [], counts(SHARES)
    methods = {f"{name}First": strategy for name, strategy in SAME_RATE.items()} | {"Arbitrary": "arbitrary"}
    for method, strategy in methods.items():
        planned = plan_as_published(rows, n_features, strategy, ORDER_EPSILON)
        cases += [Case(method, c, change_rates(planned, [c] * len(planned.segments))) for c in RATES]
    return Panel(f"order-{dataset}", dataset, "c", tuple(cases), twin=True, marks={"1/λ": 1.0 / ALPHA})


def build_two_rates(dataset: str, counts: Counts, n_features: int) -> Panel:
    """Column 2 of the paper's figure; Optimal is one pass over the raw rows, shuffled, with c = 1/λ."""
    rows = counts(SHARES)
    methods = {"Algorithm2": "two-rates"} | {f"Same{name}": strategy for name, strategy in SAME_RATE.items()}
    cases = [
        Case(method, epsilon, plan_as_published(rows, n_features, strategy, epsilon))
        for method, strategy in methods.items()
        for epsilon in EPSILONS
    ]
    raw = plan_sources({CLEAN: Exact(), NOISY: Exact()}, rows, n_features, strategy="arbitrary", radius="paper")
    cases.append(Case("CleanOnly", math.nan, plan_as_published(rows, n_features, "clean-only", EPSILON_CLEAN / 2)))
    cases.append(Case("Optimal", math.nan, raw))
    return Panel(f"two-rates-{dataset}", dataset, "ε_N", tuple(cases))


def build_vary_c2(dataset: str, counts: Counts, n_features: int) -> Panel:
    """Column 3 of the paper's figure: c₂ from a tenth of its interval to ten times it."""
    rows, epsilon = counts(SHARES), VARY_C2_EPSILON[dataset]
    planned = plan_as_published(rows, n_features, "two-rates", epsilon)
    low, high = find_rate_intervals(planned.sources, planned.problem)[planned.order[-1]]
    cases = [Case("TwoRates", c, change_rates(planned, [1.0 / ALPHA, c])) for c in spread_rates(low, high)]
    cases.append(Case("CleanOnly", math.nan, plan_as_published(rows, n_features, "clean-only", epsilon)))
    upper = planned.segments[-1].schedule.rate  # type: ignore[union-attr]
    marks = {"c₂(L)": low if math.isclose(upper, high) else high, "c₂(U)": upper}
    return Panel(f"vary-c2-{dataset}", dataset, "c₂", tuple(cases), marks=marks)


def spread_rates(low: float, high: float) -> list[float]:
    """Values of c₂ from a tenth of the interval to ten times it, its ends among them.

    >>> [round(c, 2) for c in spread_rates(1.0, 3.0)][7:16]
    [0.75, 1.0, 1.2, 1.44, 1.73, 2.08, 2.5, 3.0, 4.0]
    """
    below, above = np.geomspace(0.1, 1.0, OUTSIDE + 1)[:-1], np.geomspace(1.0, 10.0, OUTSIDE + 1)[1:]
    return [float(c) for c in (*(low * below), *np.geomspace(low, high, INSIDE), *(high * above))]


def name_setting(kind: str, x: float) -> str:
    """A value of what varies in panels of a kind, in words.

    >>> name_setting("beyond", 3.0), name_setting("site", 1.0)
    ('3', '1 and 1')
    """
    numbered = NUMBERED.get(kind)
    return f"{x:g}" if numbered is None else " and ".join(f"{epsilon:g}" for epsilon in numbered[int(x)])


def build_beyond(dataset: str, counts: Counts, n_features: int) -> Panel:
    """The two-rates panel with ours beside it, and two rules of thumb: drop the noisy source, or the strictest ε."""
    rows, cases = counts(SHARES), []
    for epsilon in EPSILONS:
        both, strictest = {CLEAN: EPSILON_CLEAN, NOISY: epsilon}, {CLEAN: epsilon, NOISY: epsilon}
        cases += [
            Case("Algorithm2", epsilon, plan_as_published(rows, n_features, "two-rates", epsilon)),
            Case("Strictest ε", epsilon, plan_as_published(rows, n_features, "arbitrary", epsilon, clean=epsilon)),
            Case("uneven", epsilon, plan_private(both, rows, n_features, **OURS)),
            Case("uneven, strictest ε", epsilon, plan_private(strictest, rows, n_features, **OURS)),
            Case(
                "uneven, strictest ε, privunit",
                epsilon,
                plan_private(strictest, rows, n_features, **{**OURS, "mechanism": "privunit"}),
            ),
        ]
    cases += [
        Case("CleanOnly", math.nan, plan_as_published(rows, n_features, "clean-only", 1.0)),
        Case("uneven, clean only", math.nan, plan_private({CLEAN: EPSILON_CLEAN}, rows, n_features, **OURS)),
    ]
    return Panel(f"beyond-{dataset}", dataset, "ε_N", tuple(cases))


def build_ablation(dataset: str, counts: Counts, n_features: int) -> Panel:
    """Each idea added to Algorithm 2 alone, and each taken away from all together."""
    rows, cases = counts(SHARES), []
    for epsilon in ABLATION_EPSILONS:
        epsilons = {CLEAN: EPSILON_CLEAN, NOISY: epsilon}
        for base, variants in ((THEIRS, ADDED), (OURS, TAKEN_AWAY)):
            for name, change in variants.items():
                options: dict[str, Any] = {**base, **change}
                how = {key: options.pop(key) for key in ("average", "estimate") if key in options}
                cases.append(Case(name, epsilon, plan_private(epsilons, rows, n_features, **options), **how))
    return Panel(f"ablation-{dataset}", dataset, "ε_N", tuple(cases))


def build_sources(dataset: str, counts: Counts, n_features: int) -> Panel:
    """One source, then two, three and four, each noisier than those before."""
    shares = {name: share for name, (share, _) in MANY.items()}
    rows, cases = counts(shares), []
    for used in range(1, len(MANY) + 1):
        epsilons = {name: epsilon for name, (_, epsilon) in list(MANY.items())[:used]}
        for label, options in (("Algorithm2", THEIRS), ("uneven", OURS)):
            cases.append(Case(label, float(used), plan_private(epsilons, rows, n_features, **options)))
    return Panel(f"sources-{dataset}", dataset, "sources", tuple(cases), shares=shares)


def build_harder(dataset: str, counts: Counts, n_features: int) -> Panel:
    """What a fit does by default where sources are very noisy, beside its steps alone and the clean source alone."""
    rows, cases, usual = counts(SHARES), [], Settings(fit_intercept=False)
    for number, (clean, noisy) in enumerate(HARDER_EPSILONS):
        x, steps = float(number), plan_private({CLEAN: clean, NOISY: noisy}, rows, n_features, **OURS)
        alone = plan_private({CLEAN: clean}, rows, n_features, **OURS)
        cases.append(Case("uneven", x, keep_rows(steps, usual)))
        cases.append(Case(STEPS_ALONE, x, steps))
        cases.append(Case("uneven, clean only", x, keep_rows(alone, usual)))
    return Panel(f"harder-{dataset}", dataset, "ε_C and ε_N", tuple(cases))


def build_site(dataset: str, counts: Counts, n_features: int) -> Panel:
    """Site privacy beside local privacy at the same ε, and fixed batch sizes beside those that the plan chooses."""
    rows, cases = counts(SHARES), []
    for number, (clean, noisy) in enumerate(SITE_EPSILONS):
        epsilons, x = {CLEAN: clean, NOISY: noisy}, float(number)
        sites = [Source(name, rows[name], SitePrivacy(epsilon)) for name, epsilon in epsilons.items()]
        how = {"alpha": ALPHA, "clip": OURS["clip"]}
        cases.append(Case("uneven", x, plan_private(epsilons, rows, n_features, **OURS)))
        cases.append(Case(SITE, x, plan(sites, n_features, **how)))
        cases.append(Case(f"{SITE}, b = {BATCH_SIZE}", x, plan(sites, n_features, batch_size=BATCH_SIZE, **how)))
    return Panel(f"site-{dataset}", dataset, "ε_C and ε_N", tuple(cases))


def build_classes(dataset: str, counts: Counts, n_features: int) -> Panel:
    """One source of one ε and more than two classes: softmax, one-vs-rest, site privacy, and one pass without noise."""
    K, source = CLASSES[dataset], "all"
    (rows,), cases = counts({source: 1.0}).values(), []
    together: dict[str, Any] = {"n_features": n_features, "alpha": ALPHA, "classes": K}

    def release(noise: Noise, **how: Any) -> Plan:
        return plan([Source(source, rows, noise)], clip=OURS["clip"], **how)

    for epsilon in CLASS_EPSILONS:
        apart = release(LocalPrivacy(epsilon / K), n_features=n_features, alpha=ALPHA)
        cases += [
            Case(
                "uneven", epsilon, keep_rows(release(LocalPrivacy(epsilon), **together), Settings(fit_intercept=False))
            ),
            Case(STEPS_ALONE, epsilon, release(LocalPrivacy(epsilon), **together)),
            Case(SITE, epsilon, release(SitePrivacy(epsilon), **together)),
            Case(ONE_VS_REST, epsilon, apart, one_vs_rest=True),
        ]
    cases.append(Case(NO_NOISE, math.nan, plan([Source(source, rows, Exact())], **together)))
    return Panel(f"classes-{dataset.split('-')[0]}", dataset, "ε", tuple(cases), shares={source: 1.0})


def build_wide(dataset: str, counts: Counts, n_features: int) -> Panel:
    """MNIST without projection: the paper's method and ours, ours with sketches of some widths and of a fit's own."""
    rows, cases = counts(SHARES), []
    for number, (clean, noisy) in enumerate(WIDE_EPSILONS):
        x, both = float(number), {CLEAN: clean, NOISY: noisy}
        plain = plan_private(both, rows, n_features, **OURS)
        cases += [
            Case("Algorithm2", x, plan_private(both, rows, n_features, **THEIRS)),
            Case("CleanOnly", x, plan_private({CLEAN: clean}, rows, n_features, **THEIRS)),
            Case("uneven", x, plain),
            Case("uneven, clean only", x, plan_private({CLEAN: clean}, rows, n_features, **OURS)),
        ]
        for label, asked in SKETCHES.items():
            width = choose_width(asked, plain.sources, plain.problem, n_features, False)
            cases.append(Case(label, x, plan_private(both, rows, width or n_features, **OURS), sketch=width))
        width = choose_width("auto", plain.sources[:1], plain.problem, n_features, False)
        alone = plan_private({CLEAN: clean}, rows, width or n_features, **OURS)
        cases.append(Case(CHOSEN_ALONE, x, alone, sketch=width))
        for label, sketch in FITS.items():
            width = choose_width(sketch, plain.sources, plain.problem, n_features, False)
            cases.append(Case(label, x, plan_fit(both, rows, width or n_features), sketch=width))
    return Panel("wide-mnist", dataset, "ε_C and ε_N", tuple(cases))
