"""The section of a report on levels of noise that are only roughly known."""

from __future__ import annotations

from uneven.planner import Plan, describe_changes, tabulate_changes
from uneven.report import markup

CAPTION = "Each level at half and at twice what is stated, or at the ends of its interval; all others as stated"
TOLD = (
    "The last column is how much more variance the answer has where rows are weighed as stated although the level is "
    "another: where it is small, a rough level is enough. A wrong flip rate also makes the answer wrong on average, "
    "since flips are corrected at the stated rate."
)


def show_sensitivity(plan: Plan) -> str:
    """What would change if a stated ε, flip rate or variance were off; empty where there is none."""
    header, *rows = tabulate_changes(plan)
    if not rows:
        return ""
    table = markup.make_table(CAPTION, header, rows, {2, 3, 5, 6, 7}, stacked=True)
    said = map(markup.make_paragraph, [*describe_changes(plan), TOLD])
    return markup.make_section("If the noise is only roughly known", table, *said)
