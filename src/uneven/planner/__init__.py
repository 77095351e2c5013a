"""Sources and a problem in, a plan out.

source       a source of data, described
segments     rows in mini-batches, and stretches of a run with a schedule
search       the best rates and the best order for step sizes c/t
strategies   strategies and theorems as values
sizes        a batch size for each source whose noise is drawn once a batch
sensitivity  what would change if a level of noise were off
ranks        an order from ranks of noise alone
promises     the two promises of privacy side by side
anchored     what a fit decided from its public rows, and verdicts on private sources
guarantees   what a draft guarantees, and its caveats
text         a plan in words
picture      a plan in charts
planning     `Plan` and `make_plan`
keywords     `plan`, the same with keywords
rates        a plan at other learning rates, and the interval to search for them
"""

from uneven.planner.anchored import Anchored, Verdict
from uneven.planner.guarantees import warn_unprotected
from uneven.planner.keywords import plan
from uneven.planner.outcomes import declare_noises, mark_converged, void_bound
from uneven.planner.planning import Plan, make_anchored_plan, make_plan
from uneven.planner.prediction import FLATTER, SPREAD, choose_kept, count_kept
from uneven.planner.promises import OtherPromise, list_promises
from uneven.planner.ranks import RankedPlan, plan_by_rank
from uneven.planner.rates import at_rates, find_rate_intervals, rate_interval
from uneven.planner.segments import Segment
from uneven.planner.sensitivity import Change, tabulate_changes
from uneven.planner.source import Source, checked_sources
from uneven.planner.strategies import STRATEGIES, Strategy, Theorem, get_strategy

__all__ = [
    "FLATTER",
    "SPREAD",
    "STRATEGIES",
    "Anchored",
    "Change",
    "OtherPromise",
    "Plan",
    "RankedPlan",
    "Segment",
    "Source",
    "Strategy",
    "Theorem",
    "Verdict",
    "at_rates",
    "checked_sources",
    "choose_kept",
    "count_kept",
    "declare_noises",
    "find_rate_intervals",
    "get_strategy",
    "list_promises",
    "make_anchored_plan",
    "make_plan",
    "mark_converged",
    "plan",
    "plan_by_rank",
    "rate_interval",
    "tabulate_changes",
    "void_bound",
    "warn_unprotected",
]
