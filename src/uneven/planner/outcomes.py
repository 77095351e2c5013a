"""What becomes of a plan: without one of its sources, and where a run did more or other than its theorem is about."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from uneven.noise import Noise
from uneven.planner.guarantees import warn_unprotected
from uneven.planner.prediction import predict_excess

if TYPE_CHECKING:
    from uneven.planner.planning import Plan

MOST_PREDICTED = 12
"""Sources up to which a plan without each is made: rows with levels of their own can make hundreds."""

CLIPPED_CLASSES = "clipped multiclass gradients do not come from a convex loss."


def void_bound(planned: Plan, why: str) -> Plan:
    """The plan without a bound, nor what is said of it: what was run is not what its theorem is about."""
    caveats = tuple(one for one in planned.caveats if "bound" not in one)
    return replace(planned, bound=math.inf, excess_bound=None, void=why, caveats=caveats)


def mark_converged(planned: Plan) -> Plan:
    """The plan of a fit that learned all its sources to convergence: its steps are those of a single pass."""
    note = "Rows are read until the answer no longer changes: step sizes and bounds of a single pass play no part."
    names = tuple(source.name for source in planned.sources)
    told = (one for one in planned.caveats if "bound" not in one)
    return replace(planned, converged=names, caveats=(note, *told))


def declare_noises(planned: Plan, noises: Mapping[str, Noise]) -> Plan:
    """The plan with each source's noise as declared, where private labels were randomised before it was made."""
    labels = {name: noise for name, noise in noises.items() if noise.observed is not noise}
    sources = tuple(replace(source, noise=labels.get(source.name, source.noise)) for source in planned.sources)
    if sources == planned.sources:
        return planned
    return replace(planned, sources=sources, caveats=(*warn_unprotected(sources), *planned.caveats))


def predict_without(plan: Plan, make_plan: Callable[..., Plan]) -> dict[str, tuple[float, float]]:
    """Predicted excess with all sources, and without each: no more than that of predicting nothing.

    Empty where nothing is private or predicted, where rows gave verdicts, and of many sources.
    """
    now, used = plan.predicted_excess, [source for source in plan.sources if source.name in plan.order]
    private = any(source.noise.private for source in used)
    if now is None or plan.converged or plan.anchored is not None or not private or len(used) > MOST_PREDICTED:
        return {}
    pairs, nothing = {}, predict_excess(plan.problem, ()) or 0.0
    for one in used:
        rest = [source for source in used if source is not one]
        again = make_plan(rest, plan.problem, plan.strategy, plan.moments, kept=plan.kept) if rest else None
        then = again.predicted_excess if again else nothing
        if then is not None:
            pairs[one.name] = (now, min(then, nothing))
    return pairs
