"""An HTML report of a plan, a fit or the demo: one file that needs nothing else.

pages      `plan_report`, `fit_report`, `demo_report`, `crowd_report`
tiles      five questions and their answers, at the top
crowds     the tiles of a report on a crowd
worth      whether each source is worth using: the table and the charts of it
sections   one function per section
account    what a fit did: whom it protects, and from which rows it learned
words      a plan in plain words, with its reasons
charts     pictures as SVG, for a desk and for a phone
downloads  the numbers as CSV and JSON inside the page
markup     escaped text, tables, figures
statement  the privacy statement of a fit, in Markdown
style      how it looks: light, dark, on paper
"""

from uneven.report.account import tell_protection, tell_training
from uneven.report.crowds import tell_accuracy
from uneven.report.pages import crowd_report, demo_report, fit_report, plan_report
from uneven.report.statement import find_strictest_budget, write_statement
from uneven.report.words import describe_odds, explain, explain_learned_rows
from uneven.report.worth import doubt_expected, tell_worth

__all__ = [
    "crowd_report",
    "demo_report",
    "describe_odds",
    "doubt_expected",
    "explain",
    "explain_learned_rows",
    "find_strictest_budget",
    "fit_report",
    "plan_report",
    "tell_accuracy",
    "tell_protection",
    "tell_training",
    "tell_worth",
    "write_statement",
]
