"""What a run did to its plan: learned to convergence, randomised labels first, or left what the theorems are about."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from uneven.noise import Noise
from uneven.planner.guarantees import warn_unprotected

if TYPE_CHECKING:
    from uneven.planner.planning import Plan

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
