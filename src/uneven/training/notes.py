"""What a plan or a valuation that is made ahead of a fit says of itself."""

from __future__ import annotations

AS_RUN = "planned as 'uneven fit' runs it"
PUBLIC = f"{AS_RUN}, looking only at rows without privacy"

RAN = ", and reports the plan that it ran"
"""Said once, at the end."""

OFFERED = (
    "valued by steps alone (sources with a price count as not owned, so their rows are not read; 'uneven fit' learns "
    "rows without privacy to convergence)"
)
"""In place of `AS_RUN`, where no row without privacy is owned."""

UNREAD = (
    "planned by steps alone, since no rows were read; 'uneven fit' learns the rows without privacy to convergence "
    "first, where it can, and reports the plan that it ran"
)

RELEASED = (
    "planned from the rows without privacy, and the number of those with private labels; 'uneven fit' randomises those "
    "labels once, which is charged, learns from them too, and reports the plan that it ran"
)

UNJUDGED = (
    "there is no verdict, since all sources are private; 'uneven fit' randomises their labels once, which is charged, "
    "chooses alpha by them, and reports the plan that it ran"
)

LABELS = (
    "planned by steps alone; 'uneven fit' randomises private labels once, which is charged, learns those rows to "
    "convergence, judges the other private sources by them, and reports the plan that it ran"
)

TOLD = (
    "planned as if rows with noise levels of their own were exact, since they have no file here; 'uneven fit' reads "
    "the levels, and reports the plan that it ran"
)

BALANCED = (
    "planned with equal class weights, since no labels were read; 'uneven fit' balances the classes of rows without "
    "privacy and of private labels as released, and reports the plan that it ran"
)

ESTIMATED = (
    "planned as if labels whose flip rate is to be estimated were true; 'uneven fit' estimates it, and reports the "
    "plan that it ran"
)

COMPARED = (
    "planned for the first of a line search's runs; 'uneven fit' compares them on rows without privacy, which "
    "--validation must give it"
)

UNRELEASED = (
    "Class weights are balanced by the classes of the rows without privacy; 'uneven fit' counts private labels too, as "
    "released."
)

CONVERGED = "A fit learns these rows to convergence: figures are those of a single pass by steps."
