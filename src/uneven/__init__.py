"""Learn classifiers from data of uneven quality.

In what order do I use this data, how far do I step on each part, is the bad data worth using at all, and what is it
worth paying for?
"""

from typing import Any

from uneven.engine import Fit, Stream, Sweep, fit, from_record_batches, objective, sweep
from uneven.ledger import BudgetExceeded, Ledger
from uneven.noise import AdditiveNoise, Exact, FlippedLabels, LocalPrivacy, Moment, Noise
from uneven.planner import Plan, Source, plan, rate_interval
from uneven.problem import Problem

__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    """Import the classifier when it is asked for: scikit-learn takes a while to load."""
    if name == "UnevenClassifier":
        from uneven.estimator import UnevenClassifier

        return UnevenClassifier
    raise AttributeError(f"module 'uneven' has no attribute {name!r}")


__all__ = [
    "AdditiveNoise",
    "BudgetExceeded",
    "Exact",
    "Fit",
    "FlippedLabels",
    "Ledger",
    "LocalPrivacy",
    "Moment",
    "Noise",
    "Plan",
    "Problem",
    "Source",
    "Stream",
    "Sweep",
    "UnevenClassifier",
    "__version__",
    "fit",
    "from_record_batches",
    "objective",
    "plan",
    "rate_interval",
    "sweep",
]
