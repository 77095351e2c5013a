"""Learn classifiers from data of uneven quality.

In what order do I use this data, how far do I step on each part, is the bad data worth using at all, and what is it
worth paying for?
"""

from uneven.engine import Fit, Stream, Sweep, fit, from_record_batches, objective, sweep
from uneven.noise import AdditiveNoise, Exact, FlippedLabels, LocalPrivacy, Moment, Noise
from uneven.planner import Plan, Source, plan, rate_interval
from uneven.problem import Problem

__version__ = "0.1.0.dev0"

__all__ = [
    "AdditiveNoise",
    "Exact",
    "Fit",
    "FlippedLabels",
    "LocalPrivacy",
    "Moment",
    "Noise",
    "Plan",
    "Problem",
    "Source",
    "Stream",
    "Sweep",
    "__version__",
    "fit",
    "from_record_batches",
    "objective",
    "plan",
    "rate_interval",
    "sweep",
]
