"""Sources and a problem in, a plan out.

source       a source of data, described
segments     rows in mini-batches, and stretches of a run with a schedule
search       the best rates and the best order for step sizes c/t
strategies   strategies and theorems as values
sizes        a batch size for each source whose noise is drawn once per batch
shares       kept rows that tell their classes
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

from uneven.planner.anchored import VERDICTS, Anchored, Verdict, describe_verdicts
from uneven.planner.guarantees import warn_unprotected
from uneven.planner.keywords import plan
from uneven.planner.outcomes import declare_noises, mark_converged, void_bound
from uneven.planner.picture import draw_bounds, draw_steps, thin_steps
from uneven.planner.planning import Plan, make_anchored_plan, make_plan
from uneven.planner.prediction import (
    CURVATURES,
    CUT,
    FLATTER,
    MOST_KEPT,
    RARELY_KEPT,
    SPREAD,
    TRUSTED,
    WEAK,
    choose_kept,
    choose_kept_batch,
    count_kept,
    expect_longest,
    expect_missed,
    expect_scale_at,
    expect_scale_of,
    has_prediction,
    measure_slopes,
    predict_excess,
    predict_run,
)
from uneven.planner.promises import OtherPromise, describe_promises, list_promises
from uneven.planner.ranks import RankedPlan, plan_by_rank
from uneven.planner.rates import change_rates, find_rate_intervals, rate_interval
from uneven.planner.segments import Segment, Sizes
from uneven.planner.sensitivity import FEW_NAMED, Change, choose_shown_changes, describe_changes, tabulate_changes
from uneven.planner.shares import (
    ALL,
    ONE,
    RARELY,
    SOONER,
    Asked,
    choose_tellers,
    count_free,
    find_threshold,
    has_length_rows,
    list_asked,
    list_gradients,
    make_asked,
    make_small_problem,
)
from uneven.planner.source import Source, check_sources
from uneven.planner.strategies import ANCHORED, STRATEGIES, THEOREM_D, Strategy, Theorem, get_strategy
from uneven.planner.text import (
    COMPARE,
    FRESH,
    SAME_ALPHA,
    can_promise,
    describe_clip,
    describe_exchange,
    describe_expected,
    describe_guarantee,
    describe_privacy,
    describe_problem,
    describe_sizes,
    describe_steps,
    describe_steps_taken,
    describe_use,
    explain_useless,
    find_excess_start,
    list_step_spans,
    name_moments,
    shorten_order,
    tabulate_sources,
    tabulate_strategies,
    tell_verdicts,
)

__all__ = [
    "ALL",
    "ANCHORED",
    "COMPARE",
    "CURVATURES",
    "CUT",
    "FEW_NAMED",
    "FLATTER",
    "FRESH",
    "MOST_KEPT",
    "ONE",
    "RARELY",
    "RARELY_KEPT",
    "SAME_ALPHA",
    "SOONER",
    "SPREAD",
    "STRATEGIES",
    "THEOREM_D",
    "TRUSTED",
    "VERDICTS",
    "WEAK",
    "Anchored",
    "Asked",
    "Change",
    "OtherPromise",
    "Plan",
    "RankedPlan",
    "Segment",
    "Sizes",
    "Source",
    "Strategy",
    "Theorem",
    "Verdict",
    "can_promise",
    "change_rates",
    "check_sources",
    "choose_kept",
    "choose_kept_batch",
    "choose_shown_changes",
    "choose_tellers",
    "count_free",
    "count_kept",
    "declare_noises",
    "describe_changes",
    "describe_clip",
    "describe_exchange",
    "describe_expected",
    "describe_guarantee",
    "describe_privacy",
    "describe_problem",
    "describe_promises",
    "describe_sizes",
    "describe_steps",
    "describe_steps_taken",
    "describe_use",
    "describe_verdicts",
    "draw_bounds",
    "draw_steps",
    "expect_longest",
    "expect_missed",
    "expect_scale_at",
    "expect_scale_of",
    "explain_useless",
    "find_excess_start",
    "find_rate_intervals",
    "find_threshold",
    "get_strategy",
    "has_length_rows",
    "has_prediction",
    "list_asked",
    "list_gradients",
    "list_promises",
    "list_step_spans",
    "make_anchored_plan",
    "make_asked",
    "make_plan",
    "make_small_problem",
    "mark_converged",
    "measure_slopes",
    "name_moments",
    "plan",
    "plan_by_rank",
    "predict_excess",
    "predict_run",
    "rate_interval",
    "shorten_order",
    "tabulate_changes",
    "tabulate_sources",
    "tabulate_strategies",
    "tell_verdicts",
    "thin_steps",
    "void_bound",
    "warn_unprotected",
]
