"""Sources and a problem in, a plan out.

source       a source of data, described
segments     stretches of a run: rows, and how noisy a step on them is
search       the best rates and the best order for step sizes c/t
strategies   one function per strategy
text         a plan in words
picture      a plan in pictures
decision     what a plan is made of
planning     `plan`, `at_rates`, `rate_interval` and the plan itself
"""

from uneven.planner.planning import Plan, at_rates, plan, rate_interval
from uneven.planner.segments import Segment
from uneven.planner.source import Source
from uneven.planner.strategies import STRATEGIES

__all__ = ["STRATEGIES", "Plan", "Segment", "Source", "at_rates", "plan", "rate_interval"]
