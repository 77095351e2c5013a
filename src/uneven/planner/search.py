"""Best rates and best order for step sizes c/t, exactly.

The bound after each source grows with the bound before it, so the best rates of a given order are
one-dimensional problems in turn; and the best bound of a *set* of sources used so far does not depend on how it was
reached, so the best order comes from minimising over the last member of each set. The one-dimensional functions
are not all unimodal (a rate shared by all sources gives two minima, far apart): each is searched globally,
on a grid in log κ wide enough to hold every minimum, and each of the lowest dips is then refined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import elementwise

from uneven.theory import segment_bound

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EXACT_SOURCES = 12
"""Up to this many sources the order search is exact; above, sources are grouped first (`find_grouped_order`)."""

_GRID = 320
_DIPS = 3


def find_global_minimum(
    function: Callable[..., Any], low: Floats, high: Floats, args: tuple[Floats, ...] = ()
) -> tuple[Floats, Floats]:
    """Minimiser and minimum of ``function(x, *args)`` over [low, high], element by element.

    The global minimum must lie inside. Shapes: low, high and each of args (n,), function elementwise.
    """
    position = np.linspace(0.0, 1.0, _GRID)[:, None]
    grid = low + position * (high - low)
    values = np.asarray(function(grid, *args))
    is_dip = (values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:])
    depth = np.where(is_dip, values[1:-1], np.inf)
    dips = np.argsort(depth, axis=0)[:_DIPS]
    found = np.isfinite(np.take_along_axis(depth, dips, axis=0))
    dips = np.where(found, dips, dips[0]) + 1
    left, middle, right = (np.take_along_axis(grid, dips + shift, axis=0) for shift in (-1, 0, 1))
    # Tolerances at the limit of what a minimum's value can tell about its place (the root of the float's).
    refined = elementwise.find_minimum(
        function, (left, middle, right), args=args, tolerances={"xrtol": 1e-9, "xatol": 1e-9}
    )
    best = np.argmin(refined.f_x, axis=0)[None]
    return np.take_along_axis(refined.x, best, axis=0)[0], np.take_along_axis(refined.f_x, best, axis=0)[0]


def find_best_next_rate(
    previous: Floats, second_moment: Floats, before: Floats, steps: Floats, lam: float
) -> tuple[Floats, Floats]:
    """Best κ for one more source, and the bound it gives: argmin over κ > 0 of `segment_bound`.

    The range: with a = E_before·λ²N/Γ² and ℓ = log(1/ρ), the bound falls at least until
    κ₀ e^{-κℓ}, κ₀ = aℓ/(2(e^ℓ - 1)), and rises from max(3, log(4/3·(aℓ + e^ℓ))/ℓ) on.
    """
    total = before + steps
    decay = np.log(total / before)
    a = previous * lam**2 * total / second_moment
    smallest = a * decay / (2.0 * np.expm1(decay))
    low = np.log(0.01 * np.minimum(smallest, 1.0))
    high = np.log(1.1 * np.maximum(3.0, np.log(4.0 / 3.0 * (a * decay + np.exp(decay))) / decay))

    def bound(log_kappa: Floats, e: Floats, g: Floats, n: Floats, m: Floats) -> Any:
        return segment_bound(e, g, n, m, np.exp(log_kappa), lam)

    x, value = find_global_minimum(bound, low, high, (previous, second_moment, before, steps))
    return np.exp(x), value


def find_best_rates(orders: Ints, second_moments: Floats, steps: Floats, lam: float) -> tuple[Floats, Floats]:
    """Best κ of each source in each of several orders, and the bounds. Shapes: (n, K) in; (n, K), (n,) out."""
    kappas = np.full(orders.shape, 2.0)  # c₁ = 1/λ is best for the first, whatever follows
    before = steps[orders[:, 0]]
    bounds = segment_bound(0.0, second_moments[orders[:, 0]], 0, before, 2.0, lam)
    for k in range(1, orders.shape[1]):
        new = orders[:, k]
        kappas[:, k], bounds = find_best_next_rate(bounds, second_moments[new], before, steps[new], lam)
        before = before + steps[new]
    return kappas, bounds


def find_exact_order(second_moments: Floats, steps: Floats, lam: float) -> list[int]:
    """Best of all orders, by dynamic programming over sets: K·2^{K-1} one-dimensional problems."""
    count = len(steps)
    masks = np.arange(1 << count)
    sizes = np.array([mask.bit_count() for mask in range(1 << count)])
    totals = np.zeros(1 << count)
    for k in range(count):
        totals += np.where(masks >> k & 1, steps[k], 0.0)
    best = np.full(1 << count, np.inf)
    last = np.full(1 << count, -1)
    for k in range(count):
        best[1 << k], last[1 << k] = segment_bound(0.0, second_moments[k], 0, steps[k], 2.0, lam), k
    # Of equal bounds the first counts: the noisiest source last, as Algorithm 2 has it (clean first where H_CN ≤ H_NC);
    # of equally noisy ones, that given last.
    noisiest_first = sorted(range(count), key=lambda k: (-second_moments[k], -k))
    for size in range(2, count + 1):
        sets = masks[sizes == size]
        whole = np.concatenate([sets[sets >> k & 1 == 1] for k in noisiest_first])
        newest = np.concatenate([np.full((sets >> k & 1).sum(), k) for k in noisiest_first])
        rest = whole & ~(1 << newest)
        _, bounds = find_best_next_rate(best[rest], second_moments[newest], totals[rest], steps[newest], lam)
        for mask, k, bound in zip(whole, newest, bounds, strict=True):
            if bound < best[mask] * (1 - 1e-12):  # a tie is not left to rounding
                best[mask], last[mask] = bound, k
    order: list[int] = []
    mask = (1 << count) - 1
    while mask:
        order.append(int(last[mask]))
        mask &= ~(1 << order[-1])
    return order[::-1]


def find_grouped_order(second_moments: Floats, steps: Floats, lam: float) -> list[int]:
    """Good order of many sources: the exact order of `EXACT_SOURCES` groups of like noise.

    Each group counts as one source with the group's mean moment; inside a group both sorted orders are tried, and so
    are the two sorted orders of all sources. ``tests/planner/test_search.py`` checks that the bound is within 1% of the
    best on random instances.
    """
    clean_first = np.argsort(second_moments, kind="stable")
    groups = np.array_split(clean_first, EXACT_SOURCES)
    moments = np.array([np.average(second_moments[group], weights=steps[group]) for group in groups])
    chosen = find_exact_order(moments, np.array([steps[group].sum() for group in groups]), lam)
    inside = [np.concatenate([groups[k][::direction] for k in chosen]) for direction in (1, -1)]
    orders = np.stack([clean_first, *inside, clean_first[::-1]])
    _, bounds = find_best_rates(orders, second_moments, steps, lam)
    return [int(k) for k in orders[np.argmin(bounds)]]


def find_best_order(second_moments: Floats, steps: Floats, lam: float) -> list[int]:
    """Order with the smallest bound: exact for up to `EXACT_SOURCES` sources, by groups above."""
    search = find_exact_order if len(steps) <= EXACT_SOURCES else find_grouped_order
    return search(second_moments, steps, lam)


def find_best_shared_rate(second_moments: Floats, steps: Floats, lam: float) -> tuple[float, float]:
    """Best κ > 1 shared by all sources in the given order, and the bound (SameClean, SameNoisy).

    The range, in log(κ - 1): the first source's 1/(κ - 1) outweighs all else at the low end, and the last one's
    growth in κ at the high end.
    """
    ratio = float(second_moments.max() / second_moments.min() * steps.sum() / steps[0])
    last_decay = float(np.log1p(steps[-1] / max(steps[:-1].sum(), 1e-300)))

    def bound(log_x: Floats) -> Any:
        kappa = 1.0 + np.exp(log_x)
        value: Any = segment_bound(0.0, second_moments[0], 0, steps[0], kappa, lam)
        for k in range(1, len(steps)):
            value = segment_bound(value, second_moments[k], steps[:k].sum(), steps[k], kappa, lam)
        return value

    low = np.log(max(1e-3 / ratio, 1e-12))  # nearer to 1, κ - 1 has no digits left
    high = np.log(8.0 + 4.0 * np.log1p(ratio) / last_decay)
    x, value = find_global_minimum(bound, np.array([low]), np.array([high]))
    return 1.0 + float(np.exp(x[0])), float(value[0])
