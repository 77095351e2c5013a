"""Learn classifiers from data of uneven quality.

In what order do I use this data, how far do I step on each part, is each source worth using, and what is it worth
paying for?
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uneven.cautions import CopiesWarning, NoBudgetWarning, PrivacyWarning, SimulationWarning
    from uneven.crowd import Crowd, from_answers
    from uneven.engine import Fit, Stream, Sweep, fit, from_record_batches
    from uneven.engine.objective import objective, surrogate_objective
    from uneven.engine.sweep import sweep
    from uneven.estimator import PublicColumns, UnevenClassifier
    from uneven.evaluation import Evaluation, evaluate
    from uneven.ledger import BudgetExceeded, Ledger
    from uneven.noise import (
        AdditiveNoise,
        Exact,
        FlippedLabels,
        LabelPrivacy,
        LocalPrivacy,
        Moment,
        Noise,
        SitePrivacy,
    )
    from uneven.planner import Plan, Source, plan, plan_by_rank, rate_interval
    from uneven.problem import Problem
    from uneven.valuation import Valuation, value

__version__ = "0.1.0.dev0"

_ROOMS = {
    "crowd": ("Crowd", "from_answers"),
    "engine": ("Fit", "Stream", "Sweep", "fit", "from_record_batches", "objective", "surrogate_objective", "sweep"),
    "cautions": ("CopiesWarning", "NoBudgetWarning", "PrivacyWarning", "SimulationWarning"),
    "estimator": ("PublicColumns", "UnevenClassifier"),
    "evaluation": ("Evaluation", "evaluate"),
    "ledger": ("BudgetExceeded", "Ledger"),
    "noise": (
        "AdditiveNoise",
        "Exact",
        "FlippedLabels",
        "LabelPrivacy",
        "LocalPrivacy",
        "Moment",
        "Noise",
        "SitePrivacy",
    ),
    "planner": ("Plan", "Source", "plan", "plan_by_rank", "rate_interval"),
    "problem": ("Problem",),
    "valuation": ("Valuation", "value"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a name's room when it is asked for: planning need not wait for compilers, nor the shell for either."""
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'uneven' has no attribute {name!r}")
    value = getattr(import_module(f"uneven.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})


__all__ = [
    "AdditiveNoise",
    "BudgetExceeded",
    "CopiesWarning",
    "Crowd",
    "Evaluation",
    "Exact",
    "Fit",
    "FlippedLabels",
    "LabelPrivacy",
    "Ledger",
    "LocalPrivacy",
    "Moment",
    "NoBudgetWarning",
    "Noise",
    "Plan",
    "PrivacyWarning",
    "Problem",
    "PublicColumns",
    "SimulationWarning",
    "SitePrivacy",
    "Source",
    "Stream",
    "Sweep",
    "UnevenClassifier",
    "Valuation",
    "__version__",
    "evaluate",
    "fit",
    "from_answers",
    "from_record_batches",
    "objective",
    "plan",
    "plan_by_rank",
    "rate_interval",
    "surrogate_objective",
    "sweep",
    "value",
]
